#!/usr/bin/env bash
# The library's tests with 32-bit pointers: other granules, other bitmaps, the same suite; those of rtalloc-embedded,
# and those of the library for C. The shares of misuses that the tiers report are those in docs/MISUSE.md.
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
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
built() {
    gcc -m32 -no-pie -std=c11 -Wall -Wextra -Wpedantic -Werror -O1 -pthread -I"$crate/include" "${@:2}" \
        "${CARGO_TARGET_DIR:-target}/$target/c/librtalloc_c.a" -o "$work/$1"
}
built suite "$crate"/tests/{main,region,debug,handle,shared}.c
"$work/suite"

# Per cent of 1,000 trials of each misuse, as a row of the document.
built rates "$crate/tests/misuse_rates.c"
for heap in tlsf_unchecked tlsf_own_tag tlsf tlsf_small tlsf_full_validation guarded_tlsf; do
    row=$("$work/rates" "$heap" 1000 | awk -F ': ' -v row="| \`rt_$heap\` |" '$1 != "promises" {
        split($2, counts, " ")
        share = int(100 * counts[2] / counts[1] + 0.5)
        if (share == 0 && counts[2] > 0) share = "<1"
        if (share == 100 && counts[2] < counts[1]) share = ">99"
        row = row " " share " |"
    } END { print row }')
    grep -qxF "$row" docs/MISUSE.md || { echo "docs/MISUSE.md, \"With 32-bit pointers\", should have: $row" >&2; exit 1; }
done
