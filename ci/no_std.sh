#!/usr/bin/env bash
# The library builds without std and alloc, for a target that has neither, and links no panic edge. Without the modules
# that need compare-and-swap it builds for a target that has none.
# Needs: rustup (adds the targets thumbv7em-none-eabihf and thumbv6m-none-eabi), or, for the first, Debian's rustc-web
# and rust-web-src (installed if run as root).
# Takes: under a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
target=thumbv7em-none-eabihf
out=$(pwd)/target/no_std
build=(cargo build --release --manifest-path ci/no_std/Cargo.toml --target "$target" --target-dir "$out")

if rustup target list --installed 2>/dev/null | grep -qx "$target" || rustup target add "$target" >/dev/null 2>&1; then
    "${build[@]}"
else
    echo "no rustup target $target here: building core from Debian's rust-web-src"
    if ! ls -d /usr/src/rustc-*/library >/dev/null 2>&1; then
        [ "$(id -u)" = 0 ] || { echo "install rustc-web and rust-web-src, then run this again" >&2; exit 1; }
        apt-get update -qq
        apt-get install -y -qq rustc-web rust-web-src >/dev/null
    fi
    RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 __CARGO_TESTS_ONLY_SRC_ROOT="$(ls -d /usr/src/rustc-*/library | tail -n 1)" \
        "${build[@]}" -Zbuild-std=core
fi

library=$out/$target/release/libno_std_proof.a
# With link-time optimisation all used code is in the crate's own object; core's objects stay unused.
symbols=$(nm --undefined-only --print-file-name "$library" 2>/dev/null | grep ':no_std_proof[^:]*:' | awk '{print $NF}' | sort -u)
echo "undefined symbols of every allocator on $target: $(echo "${symbols:-none}" | tr '\n' ' ')"
if bad=$(echo "$symbols" | grep -vE '^(__aeabi_mem(cpy|move|set|clr)[48]?|memcpy|memmove|memset)?$'); then
    echo "not expected: $bad" >&2
    exit 1
fi
echo "no std, no alloc, no panic edge"

bare=thumbv6m-none-eabi
if rustup target list --installed 2>/dev/null | grep -qx "$bare" || rustup target add "$bare" >/dev/null 2>&1; then
    RUSTFLAGS="-D warnings" cargo check -p rtalloc --target "$bare" --features critical-section --target-dir "$out"
    echo "built for $bare, which has no compare-and-swap"
else
    echo "no rustup target $bare here: not built without a compare-and-swap"
fi
