#!/usr/bin/env bash
# Bounds of the allocators' code for other processors: none is above bounds/targets.json, and no operation under QEMU
# exceeds one. Operations with loops are left out. With --update, rewrites that file and docs/TARGETS.md.
# Needs: rustup (adds the targets), python3, and Debian's clang, qemu-user and binutils (installed if run as root).
# Takes: three minutes after the release build of ci/bounds.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
ci/install.sh clang qemu-user binutils
linker=$(echo "$(rustc --print sysroot)"/lib/rustlib/*/bin/rust-lld)
if [ ! -x "$linker" ]; then
    echo "no rust-lld with this compiler: install the compiler with rustup, then run this again" >&2
    exit 1
fi
out=${CARGO_TARGET_DIR:-$(pwd)/target}
cargo build --quiet --release
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Name, Rust target, optimisation level, features.
while read -r name target level features; do
    cp "$(ci/archive.sh "$name" "$target" "$level" "$features")" "$work/$name.a"
    echo "$name $target $level $features" >>"$work/list"
done <<'TARGETS'
Armv6-M thumbv6m-none-eabi 3
Armv7-M thumbv7m-none-eabi 3
Armv7E-M thumbv7em-none-eabihf 3
Armv7E-M-z thumbv7em-none-eabihf z
RV32IMC riscv32imc-unknown-none-elf 3
RV32IMC+Zb riscv32imc-unknown-none-elf 3 +zba,+zbb,+zbs
A64 aarch64-unknown-none 3
TARGETS
measured="Measured $(date -u +%F) at $(git describe --always --dirty --exclude '*') by \`ci/targets.sh --update\`."
python3 ci/targets.py "$linker" "$out/release/rtalloc" "$work" "$(rustc --version)" "$measured" "${1:-}"
