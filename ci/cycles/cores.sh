#!/usr/bin/env bash
# Builds one simulator per core from the cores' own RTL, which Python wheels contain: target/cycles/NAME/core.
# Needs: Debian's verilator, g++, make and python3-pip (installed if run as root), and the network for the first run.
# Takes: two minutes the first time, then a second while ci/cycles/bench.cpp and this file are unchanged.
set -euo pipefail
cd "$(dirname "$0")/../.."
ci/install.sh verilator g++ make python3-pip
out=${CARGO_TARGET_DIR:-$(pwd)/target}/cycles
mkdir -p "$out"

# Wheel, version, the folder of the RTL in it.
while read -r wheel version folder; do
    [ -e "$out/wheels/$wheel-$version" ] && continue
    python3 -m pip --quiet download --no-deps --only-binary :all: --dest "$out/wheels" "$wheel==$version"
    python3 -m zipfile -e "$out/wheels/${wheel//-/_}-$version-"*.whl "$out/wheels/$wheel-$version.part"
    mv "$out/wheels/$wheel-$version.part" "$out/wheels/$wheel-$version"
    ln -sfn "$wheel-$version/${wheel//-/_}/$folder" "$out/wheels/${wheel##*-}"
done <<'WHEELS'
pythondata-cpu-picorv32 1.0.post218 verilog
pythondata-cpu-ibex 0.0.post2937 system_verilog
pythondata-cpu-serv 1.2.0.post146 verilog/rtl
WHEELS

flags=(--cc --exe --build --prefix Vcore -O3 --x-assign fast --x-initial fast --noassert -Wno-fatal -Wno-lint
    -MAKEFLAGS "OPT_FAST=-O2 OPT_GLOBAL=-O2" -o core)
# Usage: build NAME MACRO WORD... Builds a simulator with these further words for Verilator.
build() {
    local name=$1 folder=$out/$1 words=("${flags[@]}" -CFLAGS "-D$2" "${@:3}" "$(pwd)/ci/cycles/bench.cpp")
    local stamp="${words[*]} $(sha256sum <ci/cycles/bench.cpp)"
    [ "$(cat "$folder/stamp" 2>/dev/null)" != "$stamp" ] || return 0
    rm -rf "$folder"
    verilator --Mdir "$folder" "${words[@]}" >"$out/$name.log" 2>&1 || {
        tail -n 20 "$out/$name.log" >&2
        echo "Verilator failed for $name: see the lines above" >&2
        exit 1
    }
    echo "$stamp" >"$folder/stamp"
}

build picorv32 PICORV32 --top-module picorv32 -DRISCV_FORMAL -GCOMPRESSED_ISA=1 -GBARREL_SHIFTER=1 -GENABLE_MUL=1 \
    -GENABLE_DIV=1 "-GPROGADDR_RESET=32'h80000080" "$out/wheels/picorv32/picorv32.v"

ibex=$out/wheels/ibex
prim=$ibex/vendor/lowrisc_ip/ip/prim/rtl
wrappers=$ibex/dv/uvm/core_ibex/common/prim
# Verilator finds modules in the -y and -I folders, but packages must come first.
rtl=(--top-module ibex_top -DRVFI -DSYNTHESIS -Wno-ENUMVALUE --unroll-count 72
    "-I$prim" "-I$ibex/vendor/lowrisc_ip/dv/sv/dv_utils" -y "$ibex/rtl" -y "$wrappers"
    -y "$ibex/vendor/lowrisc_ip/ip/prim_generic/rtl" "$wrappers/prim_pkg.sv"
    "$prim/prim_"{util,count,cipher,secded,mubi,ram_1p}_pkg.sv "$ibex/rtl/ibex_"{pkg,top}.sv)
build ibex-small IBEX "${rtl[@]}"
build ibex-small-zb IBEX -GRV32B=1 "${rtl[@]}"
maxperf=(-GRV32M=3 "-GBranchTargetALU=1'b1" "-GWritebackStage=1'b1")
build ibex-maxperf IBEX "${maxperf[@]}" "${rtl[@]}"
build ibex-maxperf-zb IBEX -GRV32B=1 "${maxperf[@]}" "${rtl[@]}"

build serv SERV --top-module serv_rf_top -DRISCV_FORMAL "-GRESET_PC=32'h80000080" -y "$out/wheels/serv" \
    "$out/wheels/serv/serv_rf_top.v"
