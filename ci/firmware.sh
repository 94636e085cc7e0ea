#!/usr/bin/env bash
# Runs programs without an operating system on emulated processors. On a Cortex-M4, the example firmware: collections in
# heaps that the main program and an interrupt handler share. On a Cortex-M0 and on RV32IMC, which have no
# compare-and-swap, shared heaps under nested interrupts; the longest section with interrupts off is printed.
# Needs: rustup (adds the targets thumbv7em-none-eabihf, thumbv6m-none-eabi and riscv32imc-unknown-none-elf), python3,
# and Debian's qemu-system-arm, qemu-system-misc and llvm (installed if run as root).
# Takes: a minute and a half once these are installed.
set -euo pipefail
cd "$(dirname "$0")/.."
target=thumbv7em-none-eabihf
single_cores=(thumbv6m-none-eabi riscv32imc-unknown-none-elf)
ci/target.sh "$target" "${single_cores[@]}"
ci/install.sh qemu-system-arm qemu-system-misc llvm

out=${CARGO_TARGET_DIR:-$(pwd)/target}/firmware
cargo build --release --manifest-path examples/rust/firmware/Cargo.toml --target "$target" --target-dir "$out"
# Time is counted in instructions, so every run is identical.
ended=0
said=$(timeout 60 qemu-system-arm -M mps2-an386 -nographic -monitor none -serial none -icount shift=5 \
    -semihosting-config enable=on,target=native -kernel "$out/$target/release/firmware" 2>&1) || ended=$?
echo "$said"
[ "$ended" = 0 ] || { echo "the firmware ended with $ended" >&2; exit 1; }
for expected in 'texts: 16, right: true' 'samples: 500, sum: 998000, letters of notes: 3890' 'refused: 0, live blocks: 0, intact: true'; do
    grep -qxF "$expected" <<<"$said" || { echo "expected: $expected" >&2; exit 1; }
done

# Shared heaps without compare-and-swap. A copy of the program that leaves interrupts on must fail in every heap.
stated=$(sed -n 's/^pub const MASKED_INSTRUCTIONS: usize = \(.*\);/\1/p' crates/rtalloc/src/concurrent/atomics/masking.rs)
for target in "${single_cores[@]}"; do
    cargo build --release --manifest-path ci/preemption/Cargo.toml --target "$target" --target-dir "$out"
    program=$out/$target/release/preemption
    echo "$target:"
    python3 ci/masked_sections.py "$program" "$stated" "$program-unmasked"
    machine=(qemu-system-arm -M microbit)
    [ "$target" = thumbv6m-none-eabi ] || machine=(qemu-system-riscv32 -M virt -bios none -cpu rv32,a=false)
    for heap in pooled-arenas pooled-arenas-global tree-buddy bitmap-buddy; do
        run() {
            timeout 60 "${machine[@]}" -nographic -monitor none -serial none -icount shift=6 \
                -semihosting-config "enable=on,target=native,arg=$heap" -kernel "$1" 2>&1
        }
        run "$program" || { echo "$heap failed" >&2; exit 1; }
        if said=$(run "$program-unmasked"); then
            echo "$heap passed with interrupts on: $said" >&2
            exit 1
        fi
        echo "with interrupts on, $heap fails: $(tail -n 1 <<<"$said")"
    done
done
