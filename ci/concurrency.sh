#!/usr/bin/env bash
# The concurrent heaps, in earnest: loom's models with more preemptions or all of them, every order weakened alone; 118,800 schedules;
# a user who stands still at every step; threads, signals, stopped processes.
# Needs: a 64-bit Linux machine.
# Takes: about ten minutes on two cores, most of them for all 2,800,142 executions of mail that two producers tell of by one bit, twice.
# `cargo test` runs the same with less of everything.
set -euo pipefail
cd "$(dirname "$0")/.."
export TESTS_IN_EARNEST=1
for suite in models shared; do
    # What was explored is printed; panics that a test expects are not shown.
    cargo test -p rtalloc --test "$suite" -- --nocapture 2>&1 | grep -vE '^(Task failed|test panicked in task|$)'
done
