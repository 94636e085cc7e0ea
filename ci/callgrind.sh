#!/bin/sh
# Compares the instruction counter with callgrind: on the first operations of a recorded trace, the instructions of each
# entry point add up to the same totals.
#
# needs: an x86-64 Linux machine; valgrind (Debian's package is installed with apt-get if run as root)
# takes: two minutes after the build
#
# The program under valgrind, crates/rtalloc-lab/examples/count.rs, replays the operations twice: with the counting copy
# of the code, and with the original code, which callgrind attributes. Both totals must be equal. So must the counter's
# totals without valgrind, except for reallocations: these call memcpy, which the C library selects by the processor,
# and valgrind emulates a different processor.
set -eu
cd "$(dirname "$0")/.."
if [ "$(uname -m)" != x86_64 ]; then
    echo "NOT RUN: the counter counts x86-64 code" >&2
    exit 77
fi
command -v valgrind >/dev/null || ci/install.sh valgrind libc6-dbg

# Built as in the tests, which have built it already.
cargo test --quiet --workspace --no-run
count=${CARGO_TARGET_DIR:-$PWD/target}/debug/examples/count
trace=traces/lua-entities.rtrace
operations=20000
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Entry point, operations and instructions of the calls made by the functions witness_..., one line each; black_box,
# which they call too unless the compiler inlines it, is none of these.
attributed() {
    awk '
        /^fn=/ { entry = /^fn=witness_/ ? substr($0, length("fn=witness_") + 1) : "" }
        /^cfn=/ { callee = $0 }
        /^calls=/ {
            split($1, of, "=")
            getline
            if (entry != "" && callee !~ /black_box/) { operations[entry] += of[2]; instructions[entry] += $2 }
        }
        END {
            for (entry in operations) {
                name = entry
                gsub("_", "-", name)
                print name, operations[entry], instructions[entry]
            }
        }
    ' "$1"
}

failures=0
compared=0
printf '%-14s | %-16s | %10s | %12s | %14s | %12s | %s\n' allocator "entry point" operations counter "under valgrind" callgrind equal
for subject in tlsf tlsf-full-validation half-fit first-fit best-fit rlsf talc dlmalloc; do
    "$count" $subject $trace $operations >"$work/alone"
    valgrind --tool=callgrind --callgrind-out-file="$work/profile" --compress-strings=no --compress-pos=no \
        --log-file="$work/log" "$count" $subject $trace $operations >"$work/counted" || { cat "$work/log" >&2; exit 1; }
    attributed "$work/profile" >"$work/attributed"
    while read -r entry number instructions; do
        alone=$(sed -n "s/^$entry $number //p" "$work/alone")
        theirs=$(sed -n "s/^$entry $number //p" "$work/attributed")
        equal=yes
        [ "$instructions" = "$theirs" ] || equal=no
        [ "$entry" = reallocate ] || [ "$alone" = "$theirs" ] || equal=no
        [ "$number" -gt 0 ] || equal="no operations"
        [ "$equal" = yes ] || failures=$((failures + 1))
        compared=$((compared + 1))
        printf '%-14s | %-16s | %10s | %12s | %14s | %12s | %s\n' \
            $subject "$entry" "$number" "$alone" "$instructions" "$theirs" "$equal"
    done <"$work/counted"
done
[ $compared = 32 ] || { echo "$compared of 32 totals were compared" >&2; exit 1; }
[ $failures = 0 ] || { echo "$failures totals differ" >&2; exit 1; }
