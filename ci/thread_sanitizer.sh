#!/usr/bin/env bash
# ThreadSanitizer finds no data race in the concurrent heaps, `ThreadSlots` and `Global`: the tests with real threads, on
# the processor's atomics.
# Needs: x86-64 Linux; rustup, with which it adds a nightly toolchain and its source (component rust-src).
# Takes: a quarter of an hour, most of it compiling the standard library and the tests.
set -euo pipefail
cd "$(dirname "$0")/.."
target=x86_64-unknown-linux-gnu
if [ "$(uname -m)" != x86_64 ]; then
    echo "NOT RUN: this script uses ThreadSanitizer on x86-64 only" >&2
    exit 77
fi
if ! rustc +nightly --version >/dev/null 2>&1; then
    rustup toolchain install nightly --profile minimal >/dev/null ||
        { echo "cannot install a nightly toolchain: install Rust with rustup, then run this again" >&2; exit 1; }
fi
if [ ! -d "$(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library" ]; then
    rustup component add rust-src --toolchain nightly >/dev/null ||
        { echo "cannot install the source of the standard library: add rust-src to the nightly toolchain" >&2; exit 1; }
fi
# Rebuilds the standard library, so that its locks and channels are instrumented. ThreadSanitizer does not support
# schedulers of coroutines, signals within a step and forked processes.
export RUSTFLAGS="-Zsanitizer=thread" TSAN_OPTIONS="halt_on_error=1"
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}/thread_sanitizer
test=(cargo +nightly test -Zbuild-std --target "$target" -p rtalloc)
for name in short_of_memory with_memory_to_spare threads_come_and_go compact_fit_threads; do
    "${test[@]}" --test shared -- "$name"
done
# Slots of threads that come and go; then three programs whose global allocator is a shared heap.
"${test[@]}" --test suite -- thread_slots::
"${test[@]}" --test global_arenas --test global_guarded --test global_locked
