#!/usr/bin/env bash
# The bounds that rt_X_bound returns are those proved from the machine code of librtalloc.so and librtalloc.a, and unknown (0) for any
# other code; with --update the table is regenerated (crates/rtalloc-capi/src/bound/x86_64.rs).
# The misuse hook belongs to the program: the proof assumes that a call reports no misuse.
# The bounds of rt_arenas grow with the heap's chunks and budget. Their loops are bounded by the source's markers, in a build with line
# tables, whose code must be the same.
# Needs: an x86-64 Linux machine, gcc, python3, a release build of the laboratory from these sources (or its path in RTALLOC); installs
# Debian's lld and binutils if run as root. Takes: three minutes after that.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(uname -m)" != x86_64 ]; then
    echo "NOT RUN: the bounds are those of x86-64 code" >&2
    exit 77
fi
# The build that is shipped, whatever the settings of the machine.
export CARGO_INCREMENTAL=0
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
target=${CARGO_TARGET_DIR:-target}
rtalloc=${RTALLOC:-}
if [ -z "$rtalloc" ]; then
    cargo build --release
    rtalloc=$target/release/rtalloc
fi
table=crates/rtalloc-capi/src/bound/x86_64.rs
header=crates/rtalloc-capi/include/rtalloc.h
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

declarations=$(gcc -E -P "$header")
names=$(grep -oE '\brt_[a-z0-9_]+_bound\(' <<<"$declarations" | sed 's/_bound(//')
symbols=() growing=()
for name in $names; do
    # Without malloc, objects have handles.
    grep -qE "\b${name}_malloc\(" <<<"$declarations" && verbs="malloc aligned_alloc free" || verbs="allocate free"
    ! grep -qE "\b${name}_realloc_in_place\(" <<<"$declarations" || verbs+=" realloc_in_place"
    for verb in $verbs; do
        symbols+=(--symbol "${name}_$verb")
        [ "$name" != rt_arenas ] || growing+=(--symbol "${name}_$verb")
    done
done

# bound BINARY NAME OPTION...: bounds operations of a binary: NAME.json, NAME.certificates.json.
bound() {
    # Some functions have no bound, which makes the command fail.
    "$rtalloc" bound --binary "$1" "${@:3}" --never-returns rtalloc::hook::report --json "$2.json" \
        --certificate "$2.certificates.json" >"$work/said" || true
    "$rtalloc" bound --binary "$1" --check "$2.certificates.json" | tail -n 1
}

# Proves the bounds of all operations that have one, and writes the table.
prove() {
    cargo build --quiet -p rtalloc-capi --profile c
    # The code of the whole archive in one file, without garbage collection.
    # Cargo gives the symbols the same names whatever these flags are.
    RUSTFLAGS="-C debuginfo=line-tables-only" CARGO_TARGET_DIR=$target/lines cargo build --quiet -p rtalloc-capi --profile c
    local library
    for library in "$target/c/librtalloc_c.a=$work/static" "$target/lines/c/librtalloc_c.a=$work/with_lines"; do
        gcc -nostdlib -static -Wl,-e,rt_version -Wl,-u,rt_version "${library%=*}" -o "${library#*=}"
    done
    bound "$target/c/librtalloc_c.so" "$work/of_shared" "${symbols[@]}"
    bound "$work/static" "$work/of_static" "${symbols[@]}"
    local words reclaimed
    for words in 1 8 64; do
        for reclaimed in 1 4096; do
            bound "$work/with_lines" "$work/grown_${words}_$reclaimed" "${growing[@]}" --marked "words=$words" \
                --marked "remote-frees=$reclaimed" --marked pending-words=1
        done
    done
    python3 ci/capi_bounds.py table "$target/c/librtalloc_c.a" "$work/static" "$work/of_shared.json" "$work/of_static.json" \
        "$work/of_static.certificates.json" "$work/with_lines" "$work/grown_" >"$work/x86_64.rs"
    rustfmt --edition 2024 --config-path . "$work/x86_64.rs"
}

prove
if [ "${1:-}" = --update ]; then
    cp "$work/x86_64.rs" "$table"
    # The library with the new table is the one that is shipped.
    prove
fi
if ! diff -u "$table" "$work/x86_64.rs"; then
    echo "$table differs from what the library proves: run ci/capi_bounds.sh --update, and give the reason in the commit message" >&2
    exit 1
fi

# A program that prints the bounds, a line for each allocator.
{
    printf '#include <inttypes.h>\n#include <rtalloc.h>\n#include <stdio.h>\n\n'
    printf '#define PRINT(TITLE, HEAP, ...) printf(TITLE " %%" PRIu64 " %%" PRIu64 " %%" PRIu64 " %%" PRIu64 "\\n", \\\n'
    printf '    HEAP##_bound(__VA_ARGS__ RT_OPERATION_MALLOC), HEAP##_bound(__VA_ARGS__ RT_OPERATION_ALIGNED_ALLOC), \\\n'
    printf '    HEAP##_bound(__VA_ARGS__ RT_OPERATION_FREE), HEAP##_bound(__VA_ARGS__ RT_OPERATION_REALLOC_IN_PLACE))\n#define WITH(...) __VA_ARGS__,\n'
    printf 'static unsigned char memory[1 << 20];\nstatic rt_shared_config config;\nstatic rt_arenas *arenas;\n\nint main(void) {\n'
    for name in $names; do
        case $name in
        # Heaps with pools of 1 word, of 16 and of 32.
        rt_arenas)
            for heap in arenas_of_one,1,1,65536 arenas,2,0,0 arenas_of_many,1,9,1024; do
                IFS=, read -r title slots reclaimed chunk <<<"$heap"
                printf '    config = (rt_shared_config){ %s, %s, %s };\n' "$slots" "$reclaimed" "$chunk"
                printf '    if (rt_arenas_init_with(memory, sizeof memory, &config, &arenas) != RT_OK) return 1;\n'
                printf '    PRINT("%s", rt_arenas, WITH(arenas));\n' "$title"
            done
            ;;
        rt_bitmap_buddy | rt_tree_buddy) printf '    PRINT("%s", %s, WITH(%s_init(memory, sizeof memory, 1)));\n' "${name#rt_}" "$name" "$name" ;;
        *) printf '    PRINT("%s", %s, );\n' "${name#rt_}" "$name" ;;
        esac
    done
    printf '    return 0;\n}\n'
} >"$work/print.c"
# build LIBRARY OPTION...: builds that program.
build() {
    gcc -std=c11 -I"$(dirname "$header")" "$work/print.c" "${@:2}" "$1" -o "$work/print"
}
# Programs have the bounds regardless of how they link the library.
ways=("" "-static" "-no-pie" "-Wl,--gc-sections" "-O2 -fcf-protection -Wl,-z,ibtplt" "-Wl,--emit-relocs")
for linker in ld.gold ld.lld; do
    command -v $linker >/dev/null || ci/install.sh binutils lld
done
ways+=("-fuse-ld=gold -Wl,--gc-sections -Wl,--icf=all")
ways+=("-fuse-ld=lld" "-fuse-ld=lld -no-pie" "-fuse-ld=lld -Wl,--gc-sections -Wl,--icf=all")
for way in "${ways[@]}"; do
    # shellcheck disable=SC2086 # options
    build "$target/c/librtalloc_c.a" $way
    python3 ci/capi_bounds.py known "$table" "$work/print"
done
shared=$(realpath "$target/c/librtalloc_c.so")
soname=$(objdump -p "$shared" | sed -n 's/.*SONAME *//p')
ln -s "$shared" "$work/$soname"
for way in "" "-no-pie" "-Wl,-z,now"; do
    # shellcheck disable=SC2086 # options
    build "$shared" $way -Wl,-rpath,"$work"
    python3 ci/capi_bounds.py known "$table" "$work/print"
done
python3 ci/capi_bounds.py flipped "$table" "$target/c/librtalloc_c.a" "$shared"

# Any other build by cargo has no bounds, or those of its own code.
CARGO_PROFILE_C_LTO=off CARGO_PROFILE_C_CODEGEN_UNITS=16 CARGO_TARGET_DIR=$target/units cargo build --quiet -p rtalloc-capi --profile c
bound "$target/units/c/librtalloc_c.so" "$work/of_units" "${symbols[@]}"
# Only the archive can be linked: the object file of a heap may also have the panic handler, which nothing calls.
build "$target/units/c/librtalloc_c.a" -Wl,--gc-sections
python3 ci/capi_bounds.py unknown "$table" "$work/print" "$work/of_units.json"
echo "$(grep -c '^        "[a-z]' "$table") allocators have bounds"
