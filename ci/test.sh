#!/usr/bin/env bash
# The README's test command: the daily tier of all tests. ci/exhaustive.sh and ci/concurrency.sh run the full tier.
# Needs: compilers for C and C++; installs Debian's clang, lld and qemu-user with apt-get if run as root.
set -euo pipefail
cd "$(dirname "$0")/.."
# Tests that compile with several compilers, or for other processors, skip what is missing.
for tool in clang++ ld.lld qemu-riscv32 qemu-riscv64 qemu-arm qemu-aarch64; do
    command -v $tool >/dev/null || ci/install.sh clang lld qemu-user
done
export TESTS_NEED_EMULATORS=1
cargo test --workspace
