#!/usr/bin/env bash
# The full tier of the suite, with 64-bit and 32-bit pointers: every state of every tiny heap, an audit after every refused
# request, and long runs of 10^6 operations per allocator in release, without debug assertions. `cargo test` runs the daily
# tier: explorations of large or repeated state spaces end at a depth, and long runs are shorter. ci/concurrency.sh runs
# the full tier of the concurrent heaps.
# Needs: for the 32-bit tests, what ci/test_32_bit.sh needs.
set -euo pipefail
cd "$(dirname "$0")/.."
export TESTS_TIER=full
cargo test -p rtalloc --test suite
# Every allocator in the tests that `cargo test` runs on the dozen, and more operations against single-stepping.
cargo test -p rtalloc-lab --lib
cargo test -p pathbound --test counter
# The states are explored above.
cargo test --release -p rtalloc --lib --test suite -- --skip every_state
# The same with 32-bit pointers.
ci/test_32_bit.sh
