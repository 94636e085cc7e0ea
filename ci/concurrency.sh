#!/usr/bin/env bash
# The full tier of the concurrent heaps: loom models with more preemptions or without a bound, each memory order
# weakened in turn, and logic mutants of pooled arenas; 132,000 schedules; a user stopped at every step; threads,
# signals, stopped processes.
# Needs: a 64-bit Linux machine.
# Takes: about ten minutes on two cores. Most of it is one model, run twice: two producers share a queue's pending bit, which
# takes 2,800,142 executions.
# `cargo test` runs the same tests at smaller scope.
set -euo pipefail
cd "$(dirname "$0")/.."
export TESTS_TIER=full
for suite in models shared; do
    # Shows what was explored, but not the panics that tests expect.
    cargo test -p rtalloc --test "$suite" -- --nocapture 2>&1 | grep -vE '^(Task failed|test panicked in task|$)'
done
