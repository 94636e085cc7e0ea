#!/usr/bin/env bash
# The files in integrations/, compiled without warnings and run. FreeRTOS's kernel, with its port for POSIX and the one
# for a Cortex-M4 under QEMU; newlib and picolibc under QEMU; LVGL; ROS 2's rcutils. For ESP-IDF, Zephyr and NuttX,
# whose sources no package has, their functions run without the system. The lines of the book that print the operations of
# FreeRTOS's heap_4 and of Zephyr's heap, and their import. Then a table: instructions and bytes on the
# Cortex-M4, beside the heaps that are replaced. No operation exceeds its bound, and ours take no more bytes and have no
# greater bounds than in docs/book/src/integrations.md; with --update, rewrites the table there, and what the programs
# print. The rows of embedded-alloc are those in crates/rtalloc-embedded/src/lib.rs, which ci/embedded_alloc.sh writes.
# Needs: rustup (adds the target thumbv7em-none-eabihf), python3, Debian's gcc, qemu-system-arm, gcc-arm-none-eabi,
# libnewlib-arm-none-eabi, picolibc-arm-none-eabi and librcutils-dev (installed if run as root), and the network for the
# first run: the sources of FreeRTOS and LVGL are those of two crates (ci/integrations/Cargo.toml).
# Takes: two minutes after the release build of ci/bounds.sh, half of them for LVGL.
set -euo pipefail
cd "$(dirname "$0")/.."
target=thumbv7em-none-eabihf
ci/target.sh "$target"
ci/install.sh gcc libc6-dev make qemu-system-arm gcc-arm-none-eabi libnewlib-arm-none-eabi picolibc-arm-none-eabi \
    librcutils-dev
out=${CARGO_TARGET_DIR:-$(pwd)/target}
cargo build --quiet --release
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for option in "" "TARGET=$target"; do
    # shellcheck disable=SC2086 # an option or none
    make --quiet -C crates/rtalloc-capi $option >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
done

# source_of CRATE: the folder of a crate's source.
cargo metadata --quiet --format-version 1 --locked --manifest-path ci/integrations/Cargo.toml >"$work/metadata"
source_of() {
    python3 -c '
import json, os, sys
packages = json.load(open(sys.argv[1]))["packages"]
found = [package["manifest_path"] for package in packages if package["name"] == sys.argv[2]]
print(os.path.dirname(*found))' "$work/metadata" "$1"
}
kernel=$(source_of freertos-next)/FreeRTOS-Kernel
lvgl=$(source_of lightvgl-sys)/vendor/lvgl

tests=ci/integrations
common=(-std=gnu11 -fno-builtin -Wall -Wextra -Werror -Wno-alloc-size-larger-than -ffunction-sections -fdata-sections
    -Wl,--gc-sections -I "$tests" -I crates/rtalloc-capi/include)
# on_host NAME OPTION...: builds a program of this machine and runs it.
on_host() {
    gcc "${common[@]}" -O1 -g -pthread "${@:2}" "$tests/host.c" "$out/c/librtalloc_c.a" -o "$work/$1"
    timeout 60 "$work/$1" >"$work/said" || { cat "$work/said"; echo "$1 failed" >&2; exit 1; }
    echo "$1: $(cat "$work/said")" | tee -a "$work/output"
}
# for_board NAME OPTION...: builds a program for the board. The linker's warnings are about the C library's own stubs.
for_board() {
    arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -O2 "${common[@]}" "${@:2}" \
        "$tests/board.c" "$out/$target/c/librtalloc_c.a" -nostartfiles -T "$tests/board.ld" -o "$work/$1" \
        2>"$work/log" || { cat "$work/log" >&2; exit 1; }
}
# Time is counted in instructions, so every run is identical.
emulated() {
    timeout 60 qemu-system-arm -M mps2-an386 -nographic -monitor none -serial none -icount shift=10 \
        -semihosting-config enable=on,target=native -kernel "$work/$1" >"$work/said" 2>&1 ||
        { cat "$work/said"; echo "$1 failed" >&2; exit 1; }
}
on_board() {
    for_board "$@"
    emulated "$1"
    echo "$1: $(cat "$work/said")" | tee -a "$work/output"
}

# FreeRTOS. The kernel's own files are compiled with what they need.
freertos_heap=integrations/freertos/heap_rtalloc.c
freertos=(-isystem "$kernel/include" "$kernel/tasks.c" "$kernel/queue.c" "$kernel/list.c")
posix=$kernel/portable/ThirdParty/GCC/Posix
cortex=$kernel/portable/GCC/ARM_CM4F
on_posix() {
    on_host "$1" -Wno-error "${@:2}" "${freertos[@]}" -isystem "$posix" -isystem "$posix/utils" "$posix/port.c" \
        "$posix/utils/wait_for_event.c" "$freertos_heap" "$tests/freertos.c" "$tests/exercise.c"
}
# The file alone has no warnings, whatever is set.
settings=("" "-DHEAP_BYTES=200000" "-DconfigRTALLOC_REGIONS=1" "-DconfigRTALLOC_HEAP=half_fit"
    "-DconfigAPPLICATION_ALLOCATED_HEAP=1 -DconfigHEAP_CLEAR_MEMORY_ON_FREE=1 -DconfigRTALLOC_SUSPEND_SCHEDULER=1")
for setting in "${settings[@]}"; do
    # shellcheck disable=SC2086 # options
    gcc "${common[@]}" -Wconversion -c $setting -isystem "$kernel/include" -isystem "$posix" "$freertos_heap" \
        -o "$work/alone.o"
done
on_posix freertos_posix
on_posix freertos_posix_regions -DconfigRTALLOC_REGIONS=1
on_posix freertos_posix_suspended -DHEAP_BYTES=300000 -DconfigRTALLOC_SUSPEND_SCHEDULER=1 \
    -DconfigAPPLICATION_ALLOCATED_HEAP=1 -DconfigHEAP_CLEAR_MEMORY_ON_FREE=1
on_posix freertos_posix_validated -DHEAP_BYTES=200000 -DconfigRTALLOC_HEAP=tlsf_full_validation
# A port whose blocks must be aligned to more than the heap's.
mkdir "$work/aligned"
sed 's/\(portBYTE_ALIGNMENT  *\)8/\116/' "$posix/portmacro.h" >"$work/aligned/portmacro.h"
on_posix freertos_posix_aligned -isystem "$work/aligned"
on_posix freertos_posix_aligned_clear -isystem "$work/aligned" -DconfigHEAP_CLEAR_MEMORY_ON_FREE=1
on_posix freertos_posix_half_fit -DHEAP_BYTES=300000 -DconfigRTALLOC_HEAP=half_fit
on_cortex=(-Wno-error --specs=nosys.specs "${freertos[@]}" -isystem "$cortex" "$cortex/port.c" "$tests/freertos.c"
    "$tests/exercise.c")
on_board freertos_cortex_m4 "${on_cortex[@]}" "$freertos_heap"
on_board freertos_cortex_m4_regions "${on_cortex[@]}" "$freertos_heap" -DconfigRTALLOC_REGIONS=1
# A copy without critical sections must fail.
sed 's/\(define heap[A-Z]*()\) task[A-Z_]*()/\1 ((void)0)/' "$freertos_heap" >"$work/unprotected.c"
for_board unprotected "${on_cortex[@]}" "$work/unprotected.c"
if (emulated unprotected) >/dev/null 2>&1; then
    echo "heap_rtalloc.c passed without critical sections" >&2
    exit 1
fi

# The lines of the book that print the operations of a system's own heap. `rtalloc import` reads what they print: every
# operation, by the system's counts.
book() { awk -v mark="<!-- file: $1 -->" '/^```$/ { on = 0 } on { print } $0 == mark { getline; on = 1 }' \
    docs/book/src/measuring.md >"$work/$1"; }
# logged NAME OPTION...: builds a program, runs it and imports its log.
logged() {
    gcc "${common[@]}" -Wno-error -O1 -g -pthread "${@:2}" -o "$work/$1"
    timeout 60 "$work/$1" >"$work/$1.log" || { echo "$1 failed" >&2; exit 1; }
    "$out/release/rtalloc" import "$work/$1.log" -o "$work/$1.rtrace" --summary "$work/$1.json" >"$work/said"
    python3 - "$work/$1.json" "$(tail -n 1 "$work/$1.log")" <<'END' || { cat "$work/said"; exit 1; }
import json, sys
summary = json.load(open(sys.argv[1]))
findings, totals = summary["findings"], summary["totals"]
assert sys.argv[2] == f"counts: {totals['allocations']} {totals['frees']}", sys.argv[2]
assert summary["missing_by_number"] == summary["damaged_lines"] == 0 and summary["incomplete"] is None
wrong = ["zero_sized", "unknown_frees", "repeated_frees", "missed_frees", "other_sizes"]
assert not any(findings[name]["count"] for name in wrong), findings
END
    echo "$1: $(sed -n 's/^  operations  //p' "$work/said")" | tee -a "$work/output"
}
book heap_log.h
book heap_log.c
book zephyr_heap_log.c
book esp_heap_log.c
gcc "${common[@]}" -I "$tests/minimal" -c "$work/esp_heap_log.c" -o "$work/alone.o"
logged freertos_heap_4_log -DHEAP_LOG -DHEAP_BYTES=100000 -I "$work" "${freertos[@]}" -isystem "$posix" \
    -isystem "$posix/utils" "$posix/port.c" "$posix/utils/wait_for_event.c" "$kernel/portable/MemMang/heap_4.c" \
    "$work/heap_log.c" "$tests/freertos_log.c" "$tests/host.c"
logged zephyr_log -I "$tests/minimal" "$work/zephyr_heap_log.c" "$tests/zephyr_log.c"

# newlib, its small variant, and picolibc.
malloc=integrations/c-library/malloc_rtalloc.c
newlib=(--specs=nosys.specs) newlib_nano=(--specs=nano.specs --specs=nosys.specs) picolibc=(--specs=picolibc.specs)
c_library=("$malloc" "$tests/c_library.c" "$tests/exercise.c" -Wl,--wrap=memcpy)
for library in newlib newlib_nano picolibc; do
    declare -n specs=$library
    on_board "$library" -Wl,--defsym=heap_bytes=100000 "${specs[@]}" "${c_library[@]}"
    on_board "${library}_small" -DRTALLOC_HEAP_BYTES=60000 "${specs[@]}" "${c_library[@]}"
done

on_host systems -I "$tests/minimal" integrations/esp-idf/multi_heap_rtalloc.c integrations/zephyr/sys_heap_rtalloc.c \
    integrations/nuttx/mm_rtalloc.c "$tests/systems.c" "$tests/exercise.c" -Wl,--wrap=memcpy
ros2=(-isystem /usr/include/rcutils "$tests/ros2.c" "$tests/exercise.c" -lrcutils)
on_host ros2 integrations/ros2/rcutils_rtalloc.c "${ros2[@]}"
# A copy that does not lock its mutex must fail.
sed 's/pthread_mutex_\(un\)*lock(\(&locked->mutex\))/(void)\2/' integrations/ros2/rcutils_rtalloc.c >"$work/unlocked.c"
gcc "${common[@]}" -O1 -pthread "$work/unlocked.c" "${ros2[@]}" "$tests/host.c" "$out/c/librtalloc_c.a" \
    -o "$work/ros2_unlocked"
if (timeout 60 "$work/ros2_unlocked") >/dev/null 2>&1; then
    echo "rcutils_rtalloc.c passed without its mutex" >&2
    exit 1
fi

# LVGL's library, without that part of it which is not C.
mkdir "$work/lvgl.o"
find "$lvgl/src" -name '*.c' -printf '%P\n' | xargs -P "$(nproc)" -I{} sh -c 'gcc -std=gnu11 -w -O0 \
    -ffunction-sections -fdata-sections -DLV_CONF_INCLUDE_SIMPLE -I"$1" -c "$2/src/$3" -o "$4/$(echo "$3" | tr / _).o"' \
    _ "$tests" "$lvgl" {} "$work/lvgl.o"
ar rcs "$work/liblvgl.a" "$work"/lvgl.o/*.o
on_host lvgl -DLV_CONF_INCLUDE_SIMPLE -isystem "$lvgl" integrations/lvgl/lv_mem_rtalloc.c "$tests/lvgl.c" \
    "$tests/exercise.c" "$work/liblvgl.a" -lm -Wl,--wrap=lv_mutex_lock,--wrap=lv_mutex_unlock,--wrap=lv_memcpy

rows=()
# figures NAME OPTION...: adds a row of figures. $control is what is not free. The programs *_stub are subtracted.
figures() {
    for_board "$1" -Wno-error -DFIGURES "${@:2}" "$tests/figures.c"
    emulated "$1"
    local numbers
    numbers=$(cat "$work/said")
    for_board "$1_control" -Wno-error -DFIGURES "-DCONTROL=$control" "${@:2}" "$tests/figures.c"
    emulated "$1_control"
    rows+=("$1 $numbers $(cat "$work/said") $(arm-none-eabi-size "$work/$1" | awk 'NR == 2 { print $1, $2 + $3 }')")
}
heap=(-DFREERTOS -DconfigAPPLICATION_ALLOCATED_HEAP=1 -DALLOCATE=pvPortMalloc -DRELEASE=vPortFree --specs=nosys.specs
    "${freertos[@]}" -isystem "$cortex" "$cortex/port.c")
control='configTOTAL_HEAP_SIZE-xPortGetFreeHeapSize()'
figures heap_4 "${heap[@]}" "$kernel/portable/MemMang/heap_4.c"
figures heap_rtalloc "${heap[@]}" "$freertos_heap"
figures heap_rtalloc_65536 "${heap[@]}" "$freertos_heap" -DHEAP_BYTES=65536
for_board freertos_stub -Wno-error -DFIGURES -DSTUB "${heap[@]}" "$tests/figures.c"
memory=(-DLVGL -DLV_CONF_INCLUDE_SIMPLE -isystem "$lvgl" -DALLOCATE=lv_malloc -DRELEASE=lv_free --specs=nosys.specs)
lvgl_memory=("$lvgl/src/stdlib/lv_mem.c" "$lvgl/src/misc/lv_ll.c" "$lvgl"/src/stdlib/builtin/*.c)
control='65536-lvgl_free()'
figures lvgl_own "${memory[@]}" "${lvgl_memory[@]}"
figures lvgl_rtalloc "${memory[@]}" "${lvgl_memory[@]}" -DLV_USE_STDLIB_MALLOC=LV_STDLIB_CUSTOM \
    integrations/lvgl/lv_mem_rtalloc.c
for_board lvgl_stub -Wno-error -DFIGURES -DSTUB "${memory[@]}" "$tests/figures.c"
plain=(-DALLOCATE=malloc -DRELEASE=free -Wl,--defsym=heap_bytes=65536)
for library in newlib newlib_nano picolibc; do
    declare -n specs=$library
    control='65536-mallinfo().fordblks'
    figures "${library}_own" "${plain[@]}" "${specs[@]}"
    figures "${library}_rtalloc" "${plain[@]}" "${specs[@]}" "$malloc"
    control='65535-mallinfo().fordblks'
    figures "${library}_rtalloc_small" "${plain[@]}" "${specs[@]}" "$malloc" -DRTALLOC_HEAP_BYTES=65535
    for_board "${library}_stub" -Wno-error -DFIGURES -DSTUB "${plain[@]}" "${specs[@]}" "$tests/figures.c"
done
measured="Measured $(date -u +%F) at $(git describe --always --dirty --exclude '*') by \`ci/integrations.sh --update\`."
compilers="$(rustc --version); $(arm-none-eabi-gcc --version | head -n 1)."
printf '%s\n' "${rows[@]}" | python3 ci/integrations.py "$out/release/rtalloc" "$work" "$compilers" "$measured" "${1:-}"
