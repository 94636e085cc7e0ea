#!/bin/sh
# Tests the trace recorder on real programs: its totals equal valgrind's, and a full disk ends the recording, not the
# program.
#
# needs: Debian 12 or later on x86-64, with the packages named below (installed with apt-get if run as root);
#        unshare(1) and the right to use a mount namespace (root, or unprivileged user namespaces)
# takes: half a minute after the build
#
# Valgrind's "total heap usage: A allocs, F frees, B bytes allocated" counts a realloc of a block as one alloc of the
# new size and one free, and does not count free(NULL). So, on a program that behaves the same in every run,
#
#     A = allocations + reallocations    F = frees + reallocations    B = bytes of all allocations and reallocations
#
# where the trace holds a request of 0 bytes as 1. Both count up to exit: options stop valgrind from running the C and
# C++ libraries' __freeres, which only valgrind calls. Valgrind runs with the recorder's library loaded and idle, so
# that both sides see the same program: a library with thread-local storage makes the C library request 16 more bytes
# per thread.
set -eu
cd "$(dirname "$0")/.."

packages="valgrind libc6-dbg lua5.4 sqlite3 lame espeak-ng zstd groff-base"
# shellcheck disable=SC2086 # a list of words
ci/install.sh $packages

profile=${PROFILE:-release}
cargo build --quiet --profile "$profile" -p rtalloc-cli -p rtalloc-preload
target=${CARGO_TARGET_DIR:-$PWD/target}/$([ "$profile" = dev ] && echo debug || echo "$profile")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The programs' inputs.
espeak-ng -w "$work/speech.wav" "Every allocation and every free of this program is counted twice."
lame --quiet "$work/speech.wav" "$work/speech.mp3"
seq 1 700000 >"$work/numbers"
cat traces/programs/inventory.sql >"$work/inventory.sql"
traces/programs/statements.sh >>"$work/inventory.sql"
cp traces/programs/entities.lua "$work"
printf '.TH SAMPLE 1\n.SH NAME\nsample \\- a page\n' >"$work/page.1"
i=0
while [ $i -lt 300 ]; do
    i=$((i + 1))
    printf '.SH SECTION %d\n.TP\n.B term %d\nsome text in \\fIitalics\\fP\n' $i $i >>"$work/page.1"
done

failures=0

# The value of a field of the summary.
field() { sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" "$work/summary"; }

# ours COMMAND...: "allocs frees bytes" as valgrind would count them.
ours() {
    (cd "$work" && "$target/rtalloc" record -o trace --summary summary -- "$@" <"$input" >output 2>log) ||
        { cat "$work/log" >&2; return 1; }
    for finding in unknown_frees unknown_reallocations missed_frees unfinished lost; do
        [ "$(field $finding)" = 0 ] || { echo "$finding: $(field $finding)" >&2; return 1; }
    done
    echo "$(($(field allocations) + $(field reallocations)))" "$(($(field frees) + $(field reallocations)))" \
        "$(($(field requested_bytes) - $(field zero_sized)))"
}

# valgrinds COMMAND...: "allocs frees bytes".
valgrinds() {
    (cd "$work" && LD_PRELOAD=$target/librtalloc_record.so valgrind --run-libc-freeres=no --run-cxx-freeres=no \
        --log-file=valgrind "$@" <"$input" >output 2>/dev/null) || return 1
    sed -n 's/.*total heap usage: \(.*\) allocs, \(.*\) frees, \(.*\) bytes allocated/\1 \2 \3/p' "$work/valgrind" | tr -d ,
}

# compare NAME INPUT COMMAND...
compare() {
    name=$1 input=$2
    shift 2
    first=$(ours "$@") || first=failed
    second=$(ours "$@") || second=failed
    other=$(valgrinds "$@") || other=failed
    note=
    if [ "$first" = "$second" ] && [ "$first" != "$other" ]; then
        # Only a difference that valgrind reports twice counts: a program may behave differently from run to run.
        again=$(valgrinds "$@") || again=failed
        [ "$again" = "$other" ] || note=" (another run under valgrind: $other)"
        other=$again
    fi
    equal=yes
    if [ "$first" != "$second" ]; then
        equal="no: two runs differ ($second)"
    elif [ "$first" != "$other" ] || [ "$first" = failed ]; then
        equal=no
    fi
    [ "$equal" = yes ] || failures=$((failures + 1))
    printf '%-28s | %-24s | %-24s | %s\n' "$name ($(field threads) thr.)" "$first" "$other" "$equal$note"
}

printf '%-28s | %-24s | %-24s | %s\n' "program" "ours: allocs frees bytes" "valgrind" equal
compare "lua5.4" /dev/null lua5.4 entities.lua
compare "sqlite3" "$work/inventory.sql" sqlite3 :memory:
compare "lame --decode" /dev/null lame --quiet --decode speech.mp3 decoded.wav
compare "espeak-ng" /dev/null espeak-ng -w other.wav "the quick brown fox"
compare "zstd, threads" /dev/null zstd -q -T2 -c numbers
compare "troff, C++" /dev/null troff -Tutf8 -man page.1

# A file system of 2 MiB for the raw log of a program that needs some 40 MiB.
namespace="unshare --mount"
[ "$(id -u)" = 0 ] || namespace="unshare --mount --map-root-user"
mkdir "$work/small"
if $namespace sh -euc '
    mount -t tmpfs -o size=2m small "$1/small"
    cd "$1"
    # The exit status of a trace that lacks calls.
    code=0
    "$2/rtalloc" record --log-directory small -o trace --summary summary -- lua5.4 entities.lua >output 2>log || code=$?
    [ $code = 123 ]
' sh "$work" "$target"; then
    lua5.4 traces/programs/entities.lua >"$work/expected"
    grep -q '"stop_reason": "disk-full"' "$work/summary" || { echo "a full disk was not noticed" >&2; failures=$((failures + 1)); }
    cmp "$work/expected" "$work/output" || failures=$((failures + 1))
    [ "$(field unfinished)" = 0 ] || { echo "unfinished records on a full disk" >&2; failures=$((failures + 1)); }
    echo "full disk: the program continued; $(field events) operations kept, $(field lost) counted as lost"
else
    echo "recording onto a full disk failed:" >&2
    cat "$work/log" >&2 || true
    failures=$((failures + 1))
fi

[ $failures = 0 ] || { echo "$failures failures" >&2; exit 1; }
