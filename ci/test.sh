#!/usr/bin/env bash
# The README's test command, then the long runs of the suite in release.
# Needs: a C compiler. Takes: about five minutes on two cores, most of it compiling.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo test --workspace
# The fixed-seed runs of 10^6 operations per allocator, and the tests without debug assertions.
cargo test --release -p rtalloc
# 32-bit tags, links and pointers, where this machine can have the target.
if rustup target add i686-unknown-linux-gnu >/dev/null 2>&1 && echo 'int main(void){return 0;}' | cc -m32 -x c - -o /dev/null 2>/dev/null; then
    cargo test -p rtalloc --target i686-unknown-linux-gnu
else
    echo "not run: 32-bit tests need the target i686-unknown-linux-gnu and gcc-multilib"
fi
