#!/usr/bin/env bash
# Usage: ci/test_emulated.sh [powerpc|aarch64|thumb|riscv64]...
# The library's tests on other machines, in an emulator: big-endian PowerPC with words of 32 bits, A64, Thumb-2 (code as
# on Armv7-M, in Linux on an Armv7-A), and RV64GC; of all without arguments. Without the states of tiny heaps, which
# ci/test.sh and ci/test_32_bit.sh cover. The emulators have this machine's memory ordering; loom and
# ci/thread_sanitizer.sh cover others.
# Needs: rustup (adds the targets), and Debian's emulator and cross linkers (installed if run as root).
# Takes: half an hour on two cores for each.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- powerpc aarch64 thumb riscv64
failed=()
for machine; do
    # Rust's target; the system's name in Debian's packages of cross linkers; that of its library; emulator.
    case $machine in
        powerpc) words="powerpc-unknown-linux-gnu powerpc-linux-gnu powerpc qemu-ppc" ;;
        aarch64) words="aarch64-unknown-linux-gnu aarch64-linux-gnu arm64 qemu-aarch64" ;;
        thumb) words="thumbv7neon-unknown-linux-gnueabihf arm-linux-gnueabihf armhf qemu-arm" ;;
        riscv64) words="riscv64gc-unknown-linux-gnu riscv64-linux-gnu riscv64 qemu-riscv64" ;;
        *) echo "$machine is not powerpc, aarch64, thumb or riscv64" >&2; exit 2 ;;
    esac
    read -r target system library emulator <<<"$words"
    ci/target.sh "$target"
    ci/install.sh qemu-user "gcc-$system" "libc6-dev-$library-cross"
    name=${target//-/_}
    echo "=== $target, under $emulator"
    # Tests that start other programs need the emulator too. It may stop for ever where one thread starts a program
    # while another one runs.
    env "CARGO_TARGET_${name^^}_LINKER=$system-gcc" "CARGO_TARGET_${name^^}_RUNNER=$emulator" \
        TESTS_EMULATOR="$emulator" QEMU_LD_PREFIX="/usr/$system" \
        cargo test --no-fail-fast -p rtalloc --target "$target" -- --skip every_state --test-threads 1 || failed+=("$machine")
done
[ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}" >&2; exit 1; }
