#!/usr/bin/env bash
# Bounds in cycles against simulations of the cores' RTL: random operations of the allocators and random programs take
# exactly the cycles of pathbound's models, no operation exceeds its bound, and none is above bounds/cycles.json. With
# --update, rewrites that file and docs/CYCLES.md.
# Needs: rustup (adds the targets), python3, Debian's clang and verilator (installed if run as root), and the network for
# the first run. Takes: five minutes after the release build, and two more the first time.
set -euo pipefail
cd "$(dirname "$0")/.."
ci/install.sh clang
ci/cycles/cores.sh
out=${CARGO_TARGET_DIR:-$(pwd)/target}
cargo build --quiet --release
cargo build --quiet --release -p pathbound --example cycles
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Core, archive, Rust target, features, Clang's architecture, instruction set of random programs.
while read -r core name target features march fuzz; do
    [ "$features" != none ] || features=
    cp "$(ci/archive.sh "$name" "$target" 3 "$features")" "$work/$core.a"
    echo "$core $target $march $fuzz $features" >>"$work/list"
done <<'CORES'
picorv32 RV32IMC riscv32imc-unknown-none-elf none rv32imc imc
ibex-small RV32IMC riscv32imc-unknown-none-elf none rv32imc imc
ibex-small-zb RV32IMC+Zb riscv32imc-unknown-none-elf +zba,+zbb,+zbs rv32imc_zba1p0_zbb1p0_zbs1p0 imc_zb
ibex-maxperf RV32IMC riscv32imc-unknown-none-elf none rv32imc imc
ibex-maxperf-zb RV32IMC+Zb riscv32imc-unknown-none-elf +zba,+zbb,+zbs rv32imc_zba1p0_zbb1p0_zbs1p0 imc_zb
serv RV32I riscv32i-unknown-none-elf none rv32i i
CORES
measured="Measured $(date -u +%F) at $(git describe --always --dirty --exclude '*') by \`ci/cycles.sh --update\`."
python3 ci/cycles.py "$out" "$work" "$(rustc --version)" "$measured" "${1:-}"
