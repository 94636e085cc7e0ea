#!/usr/bin/env bash
# The concurrent heaps, in earnest: loom's models with no bound on preemptions but where one is named, every order weakened alone;
# 10^5 schedules; a user who stands still at every step; threads, signals, stopped processes.
# Needs: a 64-bit Linux machine. Takes: four minutes on two cores, two of them compiling. `cargo test` runs the same with less of everything.
set -euo pipefail
cd "$(dirname "$0")/.."
# Without optimising over the whole program: what is tested is the library.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
for suite in models shared; do
    # What was explored is printed; panics that a test expects are not shown.
    cargo test --release -p rtalloc --test "$suite" -- --nocapture 2>&1 | grep -vE '^(Task failed|test panicked in task|$)'
done
