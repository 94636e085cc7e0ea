#!/usr/bin/env bash
# What rt_X_bound tells is what the machine code of the library proves, of librtalloc.so and of librtalloc.a alike; with --update the
# table is written anew (crates/rtalloc-capi/src/bound/x86_64.rs).
# The misuse hook is the program's: the proof takes it that a call that reports misuse does not count.
# Needs: an x86-64 Linux machine, gcc, python3, the laboratory built in release (or RTALLOC: where it is). Takes: a minute after that.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(uname -m)" != x86_64 ]; then
    echo "NOT RUN: the bounds are those of x86-64 code"
    exit 0
fi
# As it is shipped, whatever the machine's settings.
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

# Proves every operation that can be bounded, and writes the table.
prove() {
    cargo build --quiet -p rtalloc-capi --profile c
    # The whole archive's code in one file: nobody collects garbage.
    gcc -nostdlib -static -Wl,-e,rt_version -Wl,-u,rt_version "$target/c/librtalloc_c.a" -o "$work/static"
    local symbols=()
    for name in $(grep -oE '\brt_[a-z0-9_]+_bound\(' "$header" | sed 's/_bound(//'); do
        for verb in malloc allocate aligned_alloc free; do
            grep -qE "\b${name}_$verb\(" "$header" && symbols+=(--symbol "${name}_$verb")
        done
    done
    for binary in "$target/c/librtalloc_c.so" "$work/static"; do
        # Functions without a bound make it fail, which they may.
        "$rtalloc" bound --binary "$binary" "${symbols[@]}" --never-returns rtalloc::hook::report \
            --json "$work/$(basename "$binary").json" --certificate "$work/certificates.json" >"$work/said" || true
        "$rtalloc" bound --binary "$binary" --check "$work/certificates.json" | tail -n 1
    done
    python3 - "$work/librtalloc_c.so.json" "$work/static.json" "$(rustc --version)" >"$work/x86_64.rs" <<'PY'
import json, re, sys

def bounds(file):
    """Most instructions by function."""
    answers = {}
    for subject in json.load(open(file))["subjects"]:
        for operation in subject["operations"]:
            bounded = operation["answer"].get("bounded")
            if bounded:
                # The hook, and what ends in it.
                others = [name for name in bounded["never_returning"] if not re.search(r"::(report|report_misuse)$", name)]
                assert not others, f"{operation['operation']}: {others}"
            answers[operation["operation"]] = bounded["most"] if bounded else 0
    return answers

shared, static = bounds(sys.argv[1]), bounds(sys.argv[2])
assert shared == static, {name: (shared[name], static[name]) for name in shared if shared[name] != static[name]}
allocators = {}
for symbol, most in shared.items():
    name, verb = re.fullmatch(r"rt_(\w+)_(malloc|aligned_alloc|allocate|free)", symbol).groups()
    allocators.setdefault(name, {})[verb] = most
print("// What was proved of the library as it is shipped, written by ci/capi_bounds.sh --update: do not edit.\n")
print("/// The compiler whose code it is.")
print(f"pub(crate) const RUSTC: &str = \"{sys.argv[3]}\";\n")
print("/// By allocator, instructions of malloc (allocate, where objects have handles), aligned_alloc and free; 0: no bound.")
print("pub(crate) const PROVED: &[(&str, [u64; 3])] = &[")
for name, verbs in allocators.items():
    row = [verbs["malloc"] if "malloc" in verbs else verbs["allocate"], verbs.get("aligned_alloc", 0), verbs["free"]]
    if any(row):
        print(f"    (\"{name}\", {row}),")
print("];")
PY
}

prove
if [ "${1:-}" = --update ]; then
    cp "$work/x86_64.rs" "$table"
    # The library with the new table is the one that is shipped.
    prove
fi
if ! diff -u "$table" "$work/x86_64.rs"; then
    echo "$table is not what the library proves: run ci/capi_bounds.sh --update, in a commit that says why" >&2
    exit 1
fi
# What the library tells, in the hand of a program.
cat >"$work/tell.c" <<'C'
#include <inttypes.h>
#include <rtalloc.h>
#include <stdio.h>

int main(void) {
    printf("%" PRIu64 ", %" PRIu64 ", %" PRIu64 "\n", rt_tlsf_bound(RT_OPERATION_MALLOC), rt_tlsf_bound(RT_OPERATION_ALIGNED_ALLOC),
        rt_tlsf_bound(RT_OPERATION_FREE));
    return rt_first_fit_bound(RT_OPERATION_MALLOC) != 0;
}
C
gcc -std=c11 -I"$(dirname "$header")" "$work/tell.c" "$target/c/librtalloc_c.a" -o "$work/tell"
told=$("$work/tell")
grep -qF "(\"tlsf\", [$told])" "$table" || { echo "rt_tlsf_bound tells $told, which is not what is in $table" >&2; exit 1; }
echo "$(grep -c '^    ("' "$table") allocators have bounds; rt_tlsf: malloc, aligned_alloc, free at most $told instructions"
