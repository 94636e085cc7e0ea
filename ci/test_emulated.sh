#!/usr/bin/env bash
# Usage: ci/test_emulated.sh [powerpc|aarch64|thumb|riscv64]...
# The library's tests on other machines, in an emulator: big-endian PowerPC with words of 32 bits, A64, Thumb-2 (code as
# on Armv7-M, in Linux on an Armv7-A) as programs of this system, and RV64GC in Linux on an emulated machine
# (ci/virtual_machine.sh); of all without arguments. Without the states of tiny heaps, which ci/test.sh and
# ci/test_32_bit.sh cover. The emulators have this machine's memory ordering; loom and ci/thread_sanitizer.sh cover
# others.
# Needs: rustup (adds the targets), and Debian's emulators and cross linkers (installed if run as root).
# Takes: half an hour on two cores for each, RV64GC an hour.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- powerpc aarch64 thumb riscv64
scratch=$(mktemp -d)
trap '[ ! -e "$scratch/process" ] || ci/virtual_machine.sh stop "$scratch"; rm -rf "$scratch"' EXIT
failed=()
for machine; do
    # Rust's target; the system's name in Debian's packages of cross linkers; that of its library; emulator.
    case $machine in
        powerpc) words="powerpc-unknown-linux-gnu powerpc-linux-gnu powerpc qemu-ppc" ;;
        aarch64) words="aarch64-unknown-linux-gnu aarch64-linux-gnu arm64 qemu-aarch64" ;;
        thumb) words="thumbv7neon-unknown-linux-gnueabihf arm-linux-gnueabihf armhf qemu-arm" ;;
        riscv64) words="riscv64gc-unknown-linux-gnu riscv64-linux-gnu riscv64" ;;
        *) echo "$machine is not powerpc, aarch64, thumb or riscv64" >&2; exit 2 ;;
    esac
    read -r target system library emulator <<<"$words"
    ci/target.sh "$target"
    ci/install.sh "gcc-$system" "libc6-dev-$library-cross"
    name=${target//-/_}
    export "CARGO_TARGET_${name^^}_LINKER=$system-gcc"
    test=(cargo test --no-fail-fast -p rtalloc --target "$target")
    if [ "$emulator" ]; then
        echo "=== $target, under $emulator"
        ci/install.sh qemu-user
        # Tests that start other programs need the emulator too. It may stop for ever where one thread starts a program
        # while another one runs.
        runner=(env "CARGO_TARGET_${name^^}_RUNNER=$emulator" TESTS_EMULATOR="$emulator" QEMU_LD_PREFIX="/usr/$system")
    else
        echo "=== $target, on an emulated machine"
        "${test[@]}" --no-run
        mkdir -p "$scratch/tmp"
        ci/virtual_machine.sh start "$scratch" "$PWD" "${CARGO_TARGET_DIR:-$PWD/target}" "$scratch/tmp"
        runner=(env "CARGO_TARGET_${name^^}_RUNNER=$PWD/ci/virtual_machine.sh run $scratch" TMPDIR="$scratch/tmp")
    fi
    "${runner[@]}" "${test[@]}" -- --skip every_state --test-threads 1 || failed+=("$machine")
done
[ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}" >&2; exit 1; }
