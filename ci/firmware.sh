#!/usr/bin/env bash
# Runs the example firmware on an emulated Cortex-M4: collections in heaps that the main program and an interrupt
# handler share.
# Needs: rustup (adds the target thumbv7em-none-eabihf) and Debian's qemu-system-arm (installed if run as root).
# Takes: half a minute once these are installed.
set -euo pipefail
cd "$(dirname "$0")/.."
target=thumbv7em-none-eabihf
ci/target.sh "$target"
command -v qemu-system-arm >/dev/null || ci/install.sh qemu-system-arm

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
