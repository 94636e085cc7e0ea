#!/usr/bin/env bash
# The bounds that rt_X_bound returns are those proved from the machine code of librtalloc.so and librtalloc.a, and unknown (0) for any
# other code; with --update the table is regenerated (crates/rtalloc-capi/src/bound/x86_64.rs).
# The misuse hook belongs to the program: the proof assumes that a call reports no misuse.
# Needs: an x86-64 Linux machine, gcc, python3, a release build of the laboratory (or its path in RTALLOC); installs
# Debian's lld and binutils if run as root. Takes: two minutes after that.
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
symbols=()
for name in $names; do
    # Without malloc, objects have handles.
    grep -qE "\b${name}_malloc\(" <<<"$declarations" && verbs="malloc aligned_alloc free" || verbs="allocate free"
    for verb in $verbs; do symbols+=(--symbol "${name}_$verb"); done
done

# bound BINARY NAME: bounds every operation of a binary: NAME.json, NAME.certificates.json.
bound() {
    # Some functions have no bound, which makes the command fail.
    "$rtalloc" bound --binary "$1" "${symbols[@]}" --never-returns rtalloc::hook::report --json "$2.json" \
        --certificate "$2.certificates.json" >"$work/said" || true
    "$rtalloc" bound --binary "$1" --check "$2.certificates.json" | tail -n 1
}

# Proves the bounds of all operations that have one, and writes the table.
prove() {
    cargo build --quiet -p rtalloc-capi --profile c
    # The code of the whole archive in one file, without garbage collection.
    gcc -nostdlib -static -Wl,-e,rt_version -Wl,-u,rt_version "$target/c/librtalloc_c.a" -o "$work/static"
    bound "$target/c/librtalloc_c.so" "$work/of_shared"
    bound "$work/static" "$work/of_static"
    python3 ci/capi_bounds.py table "$target/c/librtalloc_c.a" "$work/static" "$work/of_shared.json" "$work/of_static.json" \
        "$work/of_static.certificates.json" >"$work/x86_64.rs"
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
    printf '#include <inttypes.h>\n#include <rtalloc.h>\n#include <stdio.h>\n\nint main(void) {\n'
    for name in $names; do
        printf '    printf("%s", %s_bound(RT_OPERATION_MALLOC),\n' "${name#rt_} %\" PRIu64 \" %\" PRIu64 \" %\" PRIu64 \"\\n" "$name"
        printf '        %s_bound(RT_OPERATION_ALIGNED_ALLOC), %s_bound(RT_OPERATION_FREE));\n' "$name" "$name"
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
CARGO_PROFILE_C_LTO=thin CARGO_PROFILE_C_CODEGEN_UNITS=16 CARGO_TARGET_DIR=$target/thin cargo build --quiet -p rtalloc-capi --profile c
bound "$target/thin/c/librtalloc_c.so" "$work/of_thin"
ln -sf "$(realpath "$target/thin/c/librtalloc_c.so")" "$work/$soname"
for library in "$target/thin/c/librtalloc_c.a" "$(realpath "$target/thin/c/librtalloc_c.so")"; do
    build "$library" -Wl,-rpath,"$work"
    python3 ci/capi_bounds.py unknown "$table" "$work/print" "$work/of_thin.json"
done
echo "$(grep -c '^        "[a-z]' "$table") allocators have bounds"
