#!/usr/bin/env bash
# Runs other people's programs on the replaced malloc: output and exit status must be the same as on the C library's
# malloc. In the same run it measures wall time, processor time and peak memory on the C library's malloc and on ours
# (the arenas, and TLSF under a lock); with --update or PEERS=1, on mimalloc and jemalloc too.
#
# needs: Debian 12 or later on x86-64 or aarch64, with the packages named below (installed with apt-get if run as root)
# takes: two minutes, three to four with peers, half a minute of it for the packages
# usage: ci/programs.sh [--update] [PROGRAM...]
#        --update writes the table into docs/PROGRAMS.md. ROUNDS=3 runs everything three times and keeps the shortest
#        times and the largest peak.
#
# Programs with an allocator of their own run without it (PYTHONMALLOC=malloc). Compared is everything they write,
# except the times that unittest prints; for redis the digest of its data and its answers, for git the names of its
# objects.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

update=
if [ "${1:-}" = --update ]; then update=yes; shift; fi
rounds=${ROUNDS:-1}
chosen="$*"
peers=
[ -z "$update" ] && [ "${PEERS:-0}" != 1 ] || peers=yes

python=$(dpkg-query -W -f '${Depends}' python3-minimal 2>/dev/null | grep -o 'python3\.[0-9]*' | head -n 1 || true)
python=${python:-python3.11}
mimalloc=$(apt-cache search --names-only '^libmimalloc[0-9.]*$' | awk '{print $1}' | sort -V | tail -n 1)
packages="time make gcc g++ $python lib$python-testsuite sqlite3 perl lua5.4 redis-server redis-tools git
    gstreamer1.0-tools gstreamer1.0-plugins-base"
[ -z "$peers" ] || packages+=" ${mimalloc:-libmimalloc2.0} libjemalloc2"
# shellcheck disable=SC2086 # a list of words
ci/install.sh $packages

cargo build --quiet -p rtalloc-malloc --profile c
work=$(mktemp -d)
server=
stop_server() { [ -z "$server" ] || kill "$server" 2>/dev/null || true; server=; }
trap 'stop_server; rm -rf "$work"' EXIT
cp "${CARGO_TARGET_DIR:-$root/target}/c/librtalloc_malloc.so" "$work"
# redis is linked with jemalloc; preloading the C library makes malloc the C library's.
declare -A library=([system]=libc.so.6 [rtalloc]=$work/librtalloc_malloc.so [tlsf]=$work/librtalloc_malloc.so)
allocators="system rtalloc tlsf"
if [ -n "$peers" ]; then
    folder=$(dirname "$(ldconfig -p | awk '/libjemalloc\.so\.2/ {print $NF; exit}')")
    library+=([mimalloc]=$(ls "$folder"/libmimalloc.so.* | head -n 1) [jemalloc]=$folder/libjemalloc.so.2)
    allocators+=" mimalloc jemalloc"
fi
declare -A title=([system]="C library" [rtalloc]="rtalloc: arenas" [tlsf]="rtalloc: tlsf, locked" [mimalloc]=mimalloc [jemalloc]=jemalloc)

mkdir "$work/project" && (cd "$work/project" && "$root/ci/programs/project.sh")
cp ci/programs/* "$work"

# Debian's programs, even if others are installed.
export PATH=/usr/bin:/bin:/usr/sbin:/sbin
export PYTHONHASHSEED=0 PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1 LC_ALL=C.UTF-8 TZ=UTC
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null GST_REGISTRY=$work/gst.registry HOME=$work

# on ALLOCATOR COMMAND...: runs a command on an allocator, and appends its times and peak to "measured".
on() {
    local allocator=$1 choice=()
    shift
    [ "$allocator" != tlsf ] || choice=(RTALLOC=tlsf)
    command time --append --output="$work/measured" -f '%e %U %S %M' \
        env LD_PRELOAD="${library[$allocator]}" "${choice[@]}" "$@"
}

# One function for each program: its work, on an allocator, in an empty folder. Its output is compared.

run_python3() {
    # A slice of python's own tests: containers, strings, numbers, threads, garbage.
    on "$1" "$python" -m unittest test.test_dict test.test_list test.test_deque test.test_json test.test_re test.test_struct \
        test.test_string test.test_heapq test.test_gc test.test_ordered_dict test.test_threading_local 2>&1 |
        sed -E 's/^(Ran [0-9]+ tests) in .*/\1/'
}

run_sqlite3() {
    on "$1" sqlite3 :memory: <"$work/speed.sql"
}

run_perl() {
    PERL_HASH_SEED=0 on "$1" perl "$work/words.pl"
}

run_lua() {
    on "$1" lua5.4 "$work/tables.lua"
}

run_gcc() {
    cp "$work"/project/* .
    on "$1" make -s -j2
    sha256sum -- *.o program
    ./program
}

run_redis() {
    local socket=$PWD/socket
    on "$1" redis-server --port 0 --unixsocket "$socket" --save '' --enable-debug-command yes --dir "$PWD" --daemonize no \
        --lazyfree-lazy-user-del yes --logfile log &
    server=$!
    local answer=
    for _ in $(seq 200); do
        answer=$(redis-cli -s "$socket" ping 2>/dev/null || true)
        [ "$answer" != PONG ] || break
        sleep 0.05
    done
    # redis' benchmark: 16 commands at a time from 30 connections.
    redis-benchmark -s "$socket" -q -n 40000 -c 30 -P 16 -d 300 -t set,get,incr,lpush,rpop,sadd,hset,zadd,lrange_100,mset >/dev/null
    # Data of all kinds for the digest, lazy deletions, and a fork that saves.
    awk 'BEGIN { for (i = 0; i < 60000; i++) {
        printf "SET key:%d %0*d\r\n", i, i % 700 + 1, i;
        printf "HSET hash:%d field:%d value-%d\r\n", i % 500, i, i * 31;
        printf "ZADD set:%d %d member-%d\r\n", i % 100, i * 7 % 1000, i;
        if (i % 3 == 0) printf "APPEND key:%d %0*d\r\n", i * 13 % 60000, i % 90 + 1, i;
        if (i % 5 == 0) printf "DEL key:%d hash:%d\r\n", i * 17 % 60000, i % 777;
    } print "BGSAVE\r" }' | redis-cli -s "$socket" --pipe | grep errors
    redis-cli -s "$socket" debug reload
    redis-cli -s "$socket" dbsize
    redis-cli -s "$socket" debug digest
    redis-cli -s "$socket" shutdown nosave >/dev/null 2>&1 || true
    wait "$server"
    server=
}

run_gstreamer() {
    # Scales and encodes pictures and resamples sound, each in threads of its own. (When sound loses bits, gstreamer
    # adds noise that differs from run to run; here it loses none.)
    on "$1" gst-launch-1.0 -q videotestsrc pattern=ball num-buffers=200 ! video/x-raw,format=I420,width=640,height=360 ! queue ! \
        videoscale ! video/x-raw,width=480,height=270 ! queue ! theoraenc ! queue ! filesink location=video \
        audiotestsrc wave=sine num-buffers=3000 ! audio/x-raw,format=F32LE ! queue ! audioresample ! audio/x-raw,rate=22050 ! \
        queue ! filesink location=audio
    sha256sum video audio
}

run_git() {
    (
        export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
        export GIT_AUTHOR_DATE=2020-01-01T00:00:00Z GIT_COMMITTER_DATE=2020-01-01T00:00:00Z
        cat >script <<'SCRIPT'
set -eu
git init -q -b main .
for turn in 1 2 3 4 5 6; do
    mkdir -p "d$turn"
    awk -v turn=$turn 'BEGIN { for (f = 0; f < 250; f++) { name = "d" (f % turn + 1) "/f" f;
        for (l = 0; l < 40 + f % 50; l++) print "line", l * turn % 37, f * l, "of", name > name; close(name) } }'
    git add -A
    git commit -q -m "turn $turn"
done
git checkout -q -b other HEAD~3
printf 'other\n' >>d1/f0
git commit -q -a -m other
git merge -q -X ours -m merged main
git repack -q -a -d -f --threads=2 --window=20
git gc -q --prune=now
git fsck --full --strict
git log -p --stat --find-renames --format='%H %s' | sha256sum
git blame d1/f0 | sha256sum
git grep -c 'line 3 ' HEAD | sha256sum
git rev-list --all --objects | sort
SCRIPT
        on "$1" sh ./script
    )
}

programs="python3 sqlite3 perl lua gcc redis gstreamer git"
for program in ${chosen:-$programs}; do
    case " $programs " in *" $program "*) ;; *) echo "there is no program $program here; one of: $programs" >&2; exit 1 ;; esac
done

failures=0
declare -A wall cpu peak
# gstreamer looks for its plugins the first time it runs.
gst-inspect-1.0 >/dev/null 2>&1 || true
for ((round = 1; round <= rounds; round++)); do
    for program in ${chosen:-$programs}; do
        for allocator in $allocators; do
            rm -rf "$work/here" "$work/measured"
            mkdir "$work/here"
            (cd "$work/here" && "run_$program" "$allocator") >"$work/output" 2>"$work/errors" && status=0 || status=$?
            sum=$(sha256sum <"$work/output")
            if [ "$allocator" = system ]; then
                expected=$sum expected_status=$status
                cp "$work/output" "$work/expected"
                [ "$status" = 0 ] || { echo "$program fails on the C library's malloc ($status):" >&2; tail -n 20 "$work/output" "$work/errors" >&2; failures=$((failures + 1)); }
            elif [ "$sum" != "$expected" ] || [ "$status" != "$expected_status" ]; then
                echo "$program differs on $allocator (ends with $status, on the C library's malloc with $expected_status):" >&2
                diff "$work/expected" "$work/output" | head -n 20 >&2 || true
                tail -n 20 "$work/errors" >&2
                failures=$((failures + 1))
            fi
            read -r w c p < <(awk '{ w += $1; c += $2 + $3; if ($4 > p) p = $4 } END { print w, c, p }' "$work/measured")
            echo "$program on $allocator: $w s, $c s, $p KiB"
            key=$program.$allocator
            wall[$key]=$(awk -v a="${wall[$key]:-$w}" -v b="$w" 'BEGIN { print (a < b ? a : b) }')
            cpu[$key]=$(awk -v a="${cpu[$key]:-$c}" -v b="$c" 'BEGIN { print (a < b ? a : b) }')
            peak[$key]=$(awk -v a="${peak[$key]:-$p}" -v b="$p" 'BEGIN { print (a > b ? a : b) }')
        done
    done
done

table() {
    local head="| program |" line="|---|"
    for allocator in $allocators; do
        head+=" ${title[$allocator]} |" line+="---|"
    done
    printf '%s\n' "$head" "$line"
    for program in ${chosen:-$programs}; do
        printf '| %s |' "$program"
        for allocator in $allocators; do
            key=$program.$allocator
            awk -v w="${wall[$key]}" -v c="${cpu[$key]}" -v p="${peak[$key]}" 'BEGIN { printf " %.2f s, %.2f s, %.1f MiB |", w, c, p / 1024 }'
        done
        echo
    done
}
# The least and the largest ratio of the arenas to the C library's malloc, over all programs.
range() {
    local -n of=$1
    for program in ${chosen:-$programs}; do
        echo "${of[$program.rtalloc]} ${of[$program.system]}"
    done | awk '{ r = $1 / $2 } NR == 1 || r < a { a = r } r > b { b = r } END { printf "%.2f to %.2f", a, b }'
}
summary() {
    echo "Ratio of the arenas to the C library's malloc: processor time $(range cpu), peak memory $(range peak)."
}
echo "wall time, processor time, peak resident memory; rounds: $rounds"
table
summary
if [ -n "$update" ]; then
    {
        sed '/<!-- table -->/q' docs/PROGRAMS.md
        printf 'Measured %s at %s by `ci/programs.sh --update`.\n\n' "$(date -u +%F)" "$(git describe --always --dirty --exclude '*')"
        table
        echo
        summary
        sed -n '/<!-- end of table -->/,$p' docs/PROGRAMS.md
    } >"$work/page"
    cp "$work/page" docs/PROGRAMS.md
fi
[ $failures = 0 ] || { echo "$failures differences" >&2; exit 1; }
echo "every program behaves the same on every allocator as on the C library's"
