#!/usr/bin/env bash
# The README's test command, then the long runs of the suite in release.
# Needs: compilers for C and C++. Takes: twenty-five minutes on two cores, half of them compiling.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --workspace
# The fixed-seed runs of 10^6 operations per allocator, and the tests without debug assertions, but for the states of tiny heaps: they
# are the same. What threads share is tested in release by ci/concurrency.sh.
# Without optimising over the whole program: what is tested is the library, and the suite compiles five times faster.
CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 cargo test --release -p rtalloc --lib --test suite -- --skip every_state
