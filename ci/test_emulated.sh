#!/usr/bin/env bash
# The library's tests on other processors, in an emulator: PowerPC, which has 32-bit pointers and the highest byte first, and AArch64.
# The emulator runs threads as this machine orders their memory, not as those do: loom and ci/thread_sanitizer.sh are for that.
#
# Takes: processors (default: powerpc aarch64).
# Needs: rustup (adds the targets), and Debian's emulator and cross linkers (installed when root). Takes: half an hour for each on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- powerpc aarch64

failed=
for processor in "$@"; do
    case $processor in
    powerpc) emulator=qemu-ppc library=libc6-dev-powerpc-cross ;;
    aarch64) emulator=qemu-aarch64 library=libc6-dev-arm64-cross ;;
    *) echo "ci/test_emulated.sh: powerpc or aarch64, not $processor" >&2; exit 1 ;;
    esac
    target=$processor-unknown-linux-gnu linker=$processor-linux-gnu-gcc
    if ! rustup target list --installed 2>/dev/null | grep -qx "$target" && ! rustup target add "$target" >/dev/null 2>&1; then
        echo "NOT RUN: rustup cannot add the target $target here"
        continue
    fi
    if ! { command -v "$emulator" && command -v "$linker"; } >/dev/null || [ ! -e "/usr/$processor-linux-gnu/lib/crt1.o" ]; then
        [ "$(id -u)" = 0 ] || { echo "install qemu-user, gcc-$processor-linux-gnu and $library, then run this again" >&2; exit 1; }
        apt-get update -qq
        apt-get install -y -qq --no-install-recommends qemu-user "gcc-$processor-linux-gnu" "$library" >/dev/null
    fi
    name=CARGO_TARGET_$(echo "$target" | tr a-z- A-Z_)
    # Tests that run programs of their own need the emulator, too.
    env "${name}_LINKER=$linker" "${name}_RUNNER=$emulator" TESTS_EMULATOR=$emulator QEMU_LD_PREFIX="/usr/$processor-linux-gnu" \
        cargo test --no-fail-fast -p rtalloc --target "$target" || failed=" $processor$failed"
done
[ -z "$failed" ] || { echo "failed on:$failed" >&2; exit 1; }
