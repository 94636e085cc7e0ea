#!/usr/bin/env bash
# Makes docs/reproduction.html, the report of `rtalloc reproduce all --quick`, and docs/overview.svg, its first figure.
#
# Takes: a store of results to go on from (optional; a finished one of the same binary is not measured again).
# Needs: python3, 1 GiB of memory, and a machine that does nothing else meanwhile. About ten minutes on two cores after the build.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release
keep=()
[ $# -eq 0 ] || keep=(--store "$1")
"${CARGO_TARGET_DIR:-target}/release/rtalloc" reproduce all --quick "${keep[@]}" --report docs/reproduction.html >/dev/null
ci/papers_report.sh docs/reproduction.html
python3 docs/figure.py >docs/overview.svg
