#!/usr/bin/env bash
# The library builds without std and alloc, for targets that have neither, and links no panic edge. One of them has no
# compare-and-swap: there shared heaps mask interrupts, and the global allocator's operations are critical sections.
# Needs: rustup (adds the targets thumbv7em-none-eabihf and thumbv6m-none-eabi).
# Takes: a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(pwd)/target/no_std
for target in thumbv7em-none-eabihf thumbv6m-none-eabi; do
    ci/target.sh "$target"
    RUSTFLAGS="-D warnings" cargo build --release --manifest-path ci/no_std/Cargo.toml --target "$target" --target-dir "$out"

    library=$out/$target/release/libno_std_proof.a
    # With link-time optimisation all used code is in the crate's own object; core's objects stay unused.
    symbols=$(nm --undefined-only --print-file-name "$library" 2>/dev/null | grep ':no_std_proof[^:]*:' | awk '{print $NF}' | sort -u)
    echo "undefined symbols of every allocator on $target: $(echo "${symbols:-none}" | tr '\n' ' ')"
    # Armv6-M has no instructions for divisions, for 64 bits, and to count leading zeros.
    if bad=$(echo "$symbols" | grep -vE '^(__aeabi_mem(cpy|move|set|clr)[48]?|memcpy|memmove|memset|__aeabi_(uidiv(mod)?|lmul|llsl|llsr)|__clzsi2)?$'); then
        echo "not expected: $bad" >&2
        exit 1
    fi
done
echo "no std, no alloc, no panic edge"
