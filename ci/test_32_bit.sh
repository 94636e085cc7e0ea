#!/usr/bin/env bash
# The library's tests with 32-bit pointers: other granules, other bitmaps, the same suite; those of rtalloc-embedded,
# and those of the library for C.
# Runs the daily tier, or the full one with TESTS_TIER=full (ci/exhaustive.sh).
# Needs: the Rust target i686-unknown-linux-gnu (added with rustup) and Debian's gcc-multilib (installed when root).
# Takes: three to five minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
target=i686-unknown-linux-gnu
ci/target.sh "$target"
echo 'int main(void) { return 0; }' | cc -m32 -x c - -o /dev/null 2>/dev/null || ci/install.sh gcc-multilib
cargo test -p rtalloc -p rtalloc-embedded --target "$target"

# The library for C, as it is shipped, by its suite in C.
cargo build --quiet -p rtalloc-capi --profile c --target "$target"
crate=crates/rtalloc-capi
suite=$(mktemp)
trap 'rm -f "$suite"' EXIT
gcc -m32 -std=c11 -Wall -Wextra -Wpedantic -Werror -O1 -pthread -I"$crate/include" "$crate"/tests/{main,region,debug,handle,shared}.c \
    "${CARGO_TARGET_DIR:-target}/$target/c/librtalloc_c.a" -o "$suite"
"$suite"
