#!/usr/bin/env bash
# The release build has every step of tables I and II of the TLSF paper. The debug information identifies the steps by
# function names, so a renamed function breaks this.
# Needs: an x86-64 Linux machine, python3. Takes: three seconds after the build.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(uname -m)" != x86_64 ]; then
    echo "NOT RUN: the counter counts x86-64 code" >&2
    exit 77
fi
cargo build --quiet --release
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${CARGO_TARGET_DIR:-target}/release/rtalloc" reproduce tlsf --quick --sets 1 --mallocs 2000 --on tlsf --json "$work/tlsf.json" >/dev/null
python3 - "$work/tlsf.json" <<'PY'
import json, sys

tables = json.load(open("crates/rtalloc-cli/src/papers/published/papers.json"))["tlsf"]
published = {"malloc": tables["table_1"].keys(), "free": tables["table_2"].keys()}
cells = json.load(open(sys.argv[1]))["cells"]
found = [cell["found"]["Ok"]["Steps"] for cell in cells if "Steps" in cell["found"].get("Ok", {})]
if len(found) != 1:
    sys.exit(f"the steps were not measured: {[cell['found']['Err'] for cell in cells if 'Err' in cell['found']]}")
found = found[0]
missing = [f"{operation}: {step}" for operation, steps in published.items() for step in sorted(steps - found[operation].keys())]
for line in missing:
    print(f"not in the build: the step of {line}", file=sys.stderr)
if missing:
    sys.exit("the functions of each step are listed in crates/rtalloc-cli/src/papers/tlsf/measure/steps.rs")
# Every malloc maps its size; an operation without a split or a free neighbour lacks a step.
operations = lambda operation, step: sum(found[operation][step].values())
mallocs, frees = (max(operations(operation, step) for step in found[operation]) for operation in ("malloc", "free"))
if not (
    operations("malloc", "mapping_search") == mallocs > frees > operations("free", "remove_block")
    and operations("malloc", "insert_block") < mallocs
):
    sys.exit(f"unexpected operations have the steps: {found}")
print(f"all {sum(map(len, published.values()))} steps of tables I and II found")
PY
