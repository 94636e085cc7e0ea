#!/usr/bin/env bash
# The library's tests on a big-endian machine: 32-bit PowerPC, in an emulator. Without the states of tiny heaps, which
# ci/test.sh and ci/test_32_bit.sh cover. The emulator has this machine's memory ordering; loom and
# ci/thread_sanitizer.sh cover others.
# Needs: rustup (adds the target), and Debian's emulator and cross linker (installed if run as root).
# Takes: half an hour on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
target=powerpc-unknown-linux-gnu folder=/usr/powerpc-linux-gnu
ci/target.sh "$target"
if ! { command -v qemu-ppc && command -v powerpc-linux-gnu-gcc; } >/dev/null || [ ! -e "$folder/lib/crt1.o" ]; then
    ci/install.sh qemu-user gcc-powerpc-linux-gnu libc6-dev-powerpc-cross
fi
export CARGO_TARGET_POWERPC_UNKNOWN_LINUX_GNU_LINKER=powerpc-linux-gnu-gcc CARGO_TARGET_POWERPC_UNKNOWN_LINUX_GNU_RUNNER=qemu-ppc
# Tests that start other programs need the emulator too.
export TESTS_EMULATOR=qemu-ppc QEMU_LD_PREFIX=$folder
cargo test --no-fail-fast -p rtalloc --target "$target" -- --skip every_state
