#!/usr/bin/env bash
# No bound grew: compares the bounds of our allocators in this build with bounds/x86_64.json. No operation performed
# exceeds its bound, and every operation has the cost class that its contract states, in heaps of 64 KB to 64 MB.
# To accept a greater bound: `rtalloc bound ours rlsf --static --save bounds/x86_64.json`, in a commit that says why.
# The bounds of Global and Joint as a program calls them are at most their goals.
# Needs: an x86-64 Linux machine, python3, binutils. Takes: four minutes after the build.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(uname -m)" != x86_64 ]; then
    echo "NOT RUN: the bounds are those of x86-64 code" >&2
    exit 77
fi
cargo build --release
rtalloc=${CARGO_TARGET_DIR:-target}/release/rtalloc
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Static bounds, certificates, and the observed maxima.
"$rtalloc" bound ours rlsf talc dlmalloc --json "$work/study.json" --certificate "$work/certificates.json" \
    --against bounds/x86_64.json
"$rtalloc" bound --check "$work/certificates.json" | tail -n 1
python3 - "$work/study.json" <<'PY'
import json, sys

failures, compared = [], 0
# Their constant-time operations must have a bound, and no panic edge.
CONSTANT = ("tlsf", "tlsf-exact", "tlsf-small", "tlsf-full-validation", "tlsf-own-tag", "tlsf-unchecked", "half-fit")
for subject in json.load(open(sys.argv[1]))["subjects"]:
    for operation in subject["operations"]:
        bound = operation["answer"].get("bounded")
        seen = operation["observed"]
        name = f"{subject['subject']} {operation['operation']}"
        if bound is None:
            if subject["subject"] in CONSTANT and operation["operation"] != "reallocate":
                failures.append(f"{name}: no bound: {operation['answer']['declined']['why']}")
            continue
        edges = bound["never_returning"]
        if edges and subject["subject"] in CONSTANT:
            failures.append(f"{name}: a panic edge to {edges}")
        if seen:
            compared += 1
            # A bound that depends on the heap's size is for 16 MB; observations may come from a larger heap.
            most = bound.get("in_largest") or bound["most"]
            if not bound["fewest"] <= seen["instructions"] <= most:
                failures.append(f"{name}: observed {seen['instructions']}, bound {most}")
        scenario = operation["scenario"]
        if scenario and scenario["instructions"] > bound["most"]:
            failures.append(f"{name}: scenario {scenario['instructions']}, bound {bound['most']}")
print(f"{compared} observed maxima within their bounds" if not failures else "\n".join(failures))
sys.exit(bool(failures) or compared == 0)
PY

"$rtalloc" costs ours

# The calls of two programs, one with Global as its global allocator and one with a Joint, each with nine slots, in a
# thread that has one of them: at most 120 instructions for a free, and 1,300 for an allocation at any alignment in
# one attempt (under contention, up to 16 more follow).
cargo build --quiet --release --manifest-path ci/global/Cargo.toml --target-dir "${CARGO_TARGET_DIR:-target}/global"
prove() {
    local program=${CARGO_TARGET_DIR:-target}/global/release/$1 others
    "$program"
    # The further attempts, and operations of threads without a slot of their own.
    others=$(nm "$program" | grep -oE '_ZN7rtalloc5adapt5joint[^ ]*(5retry|_for_other)17h[0-9a-f]+E')
    "$rtalloc" bound --binary "$program" "${@:2}" --marked words=8 --marked remote-frees=2 --marked pending-words=1 \
        --never-returns rtalloc::hook::report $(printf -- '--never-returns %s ' $others) \
        --json "$work/$1.json" | sed '/^$/d; /^Executed/,$d'
}
prove global --symbol __rustc::__rust_alloc --symbol __rustc::__rust_dealloc \
    --never-returns "rtalloc::adapt::global::Global<H,C,A>::begin"
prove joint --symbol joint_allocate --symbol joint_deallocate
python3 - "$work/global.json" "$work/joint.json" <<'PY'
import json, sys

most = {"__rustc::__rust_alloc": 1300, "__rustc::__rust_dealloc": 120, "joint_allocate": 1300, "joint_deallocate": 120}
for subject in (subject for study in sys.argv[1:] for subject in json.load(open(study))["subjects"]):
    for operation in subject["operations"]:
        bound, goal = operation["answer"]["bounded"]["most"], most.pop(operation["operation"])
        if bound > goal:
            sys.exit(f"{operation['operation']}: {bound} instructions, more than {goal}")
sys.exit(bool(most))
PY
