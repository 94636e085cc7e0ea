#!/usr/bin/env bash
# Makes target/reproduction.html, the report of `rtalloc reproduce all --quick`, tests it in a browser, and keeps of it
# docs/reproduction.json, the tables that the book is compared with, and docs/overview.svg, its first figure.
#
# Takes: a store of results to go on from (optional; a finished one of the same binary is not measured again).
# Needs: python3, Chromium (see ci/report.sh), 1 GiB of memory, and a machine that does nothing else meanwhile. Takes:
# about ten minutes on two cores after the build.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release
keep=()
[ $# -eq 0 ] || keep=(--store "$1")
target=${CARGO_TARGET_DIR:-target}
"$target/release/rtalloc" reproduce all --quick "${keep[@]}" --report "$target/reproduction.html" >/dev/null
ci/papers_report.sh "$target/reproduction.html"
python3 docs/reproduction.py "$target/reproduction.html"
