#!/usr/bin/env bash
# The README's test command, then the long runs of the suite in release.
# Needs: a C compiler. Takes: about five minutes on two cores, most of it compiling.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --workspace
# The fixed-seed runs of 10^6 operations per allocator, and the tests without debug assertions.
cargo test --release -p rtalloc
