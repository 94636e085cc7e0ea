#!/usr/bin/env bash
# The library builds without std and alloc, for a target that has neither, and links no panic edge. Without the modules
# that need compare-and-swap it builds for a target that has none.
# Needs: rustup (adds the targets thumbv7em-none-eabihf and thumbv6m-none-eabi).
# Takes: under a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
target=thumbv7em-none-eabihf
out=$(pwd)/target/no_std
bare=thumbv6m-none-eabi
ci/target.sh "$target" "$bare"
cargo build --release --manifest-path ci/no_std/Cargo.toml --target "$target" --target-dir "$out"

library=$out/$target/release/libno_std_proof.a
# With link-time optimisation all used code is in the crate's own object; core's objects stay unused.
symbols=$(nm --undefined-only --print-file-name "$library" 2>/dev/null | grep ':no_std_proof[^:]*:' | awk '{print $NF}' | sort -u)
echo "undefined symbols of every allocator on $target: $(echo "${symbols:-none}" | tr '\n' ' ')"
if bad=$(echo "$symbols" | grep -vE '^(__aeabi_mem(cpy|move|set|clr)[48]?|memcpy|memmove|memset)?$'); then
    echo "not expected: $bad" >&2
    exit 1
fi
echo "no std, no alloc, no panic edge"

# With a global allocator whose operations are critical sections.
RUSTFLAGS="-D warnings" cargo check --manifest-path ci/no_std/Cargo.toml --target "$bare" --target-dir "$out"
echo "built for $bare, which has no compare-and-swap"
