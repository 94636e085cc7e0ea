#!/usr/bin/env bash
# Instructions of global allocators for the guests of zero-knowledge virtual machines: a guest on RV32IM replays the
# recordings in traces/ and three models, and counts what every call executes. `Guest` serves every trace in 1.3 times
# the live memory, with at most 0.6 times the instructions of embedded-alloc's TLSF, and no call executes more than its
# bound. Its figures are not above those in crates/rtalloc/src/adapt/guest.rs; with --update, rewrites that table.
# Needs: rustup (adds the target riscv32im-unknown-none-elf), python3, Debian's qemu-system-misc (installed if run as
# root), and the network for the first run. Takes: a minute after the release build of ci/bounds.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
target=riscv32im-unknown-none-elf
ci/target.sh "$target"
command -v qemu-system-riscv32 >/dev/null || ci/install.sh qemu-system-misc
out=${CARGO_TARGET_DIR:-$(pwd)/target}
cargo build --quiet --release
cargo build --quiet --release -p rtalloc-lab --example operations
RUSTFLAGS="-C link-arg=-T$(pwd)/ci/zkvm/memory.ld" cargo build --quiet --release --locked \
    --manifest-path ci/zkvm/Cargo.toml --target "$target" --target-dir "$out/zkvm"
guest=$out/zkvm/$target/release/zkvm_guest
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for model in p2 small steady; do
    "$out/release/rtalloc" generate "$model" --mallocs 20000 --quiet --output "$work/$model.rtrace" >"$work/said"
done
for trace in traces/*.rtrace "$work"/{p2,small,steady}.rtrace; do
    name=$(basename "$trace" .rtrace)
    "$out/release/examples/operations" "$trace" "$work/$name.bin"
    # An instruction is a step of the emulator's clock, by which it counts them.
    timeout 120 qemu-system-riscv32 -M virt -m 512M -nographic -monitor none -serial stdio -bios none -icount shift=0 \
        -device "loader,file=$work/$name.bin,addr=0x84000000,force-raw=on" -kernel "$guest" >"$work/$name.figures" ||
        { cat "$work/$name.figures" >&2; echo "$name failed" >&2; exit 1; }
    echo "$name" >>"$work/list"
done
measured="Measured $(date -u +%F) at $(git describe --always --dirty --exclude '*') by \`ci/zkvm.sh --update\`."
python3 ci/zkvm.py "$out/release/rtalloc" "$guest" "$work" "$(rustc --version)" "$measured" "${1:-}"
