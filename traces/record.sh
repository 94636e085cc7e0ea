#!/bin/sh
# Records the traces of this folder again: traces/record.sh [NAME...]
#
# needs: Debian 12 or later on x86-64, with the packages named below (installed with apt-get if run as root); network only for that
# takes: ten seconds after the build of rtalloc
#
# Everything the programs work on is made here, in a temporary folder; nothing is fetched or copied from anywhere. RTALLOC
# names an rtalloc that is already built. What a program does may differ a little from run to run (time of day, address
# layout, threads), so a trace recorded again is of the same kind, not the same bytes.
set -eu
cd "$(dirname "$0")"
traces=$PWD

packages="lua5.4 lame sox libsox-fmt-mp3 libsox-fmt-base mosquitto mosquitto-clients gstreamer1.0-tools \
gstreamer1.0-plugins-base gstreamer1.0-plugins-good sqlite3 gcc espeak-ng"
# shellcheck disable=SC2086 # a list of words
../ci/install.sh $packages

if [ -z "${RTALLOC:-}" ]; then
    cargo build --quiet --release --manifest-path ../Cargo.toml -p rtalloc-cli
    RTALLOC=${CARGO_TARGET_DIR:-$traces/../target}/release/rtalloc
fi
RTALLOC=$(realpath "$RTALLOC")

work=$(mktemp -d)
broker=
clean_up() {
    [ -z "$broker" ] || kill "$broker" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
# Short relative names in the commands, so that a trace does not depend on where it was recorded.
cp programs/* "$work"
cd "$work"

version() { dpkg-query -W -f '${Package} ${Version}' "$1"; }

# record NAME PACKAGE ABOUT COMMAND... (run=exec for one in the background, so that its number is rtalloc's own)
run=
record() {
    name=$1 about="$3 ($(version "$2"))"
    shift 3
    $run "$RTALLOC" record -o "$traces/$name.rtrace" --name "$name" --about "$about" -- "$@"
}

make_sound() {
    [ -e tone.wav ] || sox -n -r 44100 -c 2 -b 16 tone.wav synth 30 sine 220-880 sine 330 synth 30 pinknoise mix vol 0.5
}

lua_entities() {
    record lua-entities lua5.4 "a Lua script with very many small objects: entities, messages, trails" lua5.4 entities.lua
}

lame_decode() {
    make_sound
    lame --quiet -b 128 tone.wav tone.mp3
    record lame-decode lame "an MP3 decoder with per-frame allocation: 30 s of stereo sound" \
        lame --quiet --decode tone.mp3 decoded.wav
}

mosquitto_broker() {
    printf 'listener 18831 127.0.0.1\nallow_anonymous true\npersistence false\nlog_dest none\n' >broker.conf
    run=exec record mosquitto-broker mosquitto "an MQTT broker, 5 publishers with 400 messages each at QoS 1, 5 subscribers" \
        mosquitto -c broker.conf &
    broker=$!
    until mosquitto_pub -h 127.0.0.1 -p 18831 -t ready -n 2>/dev/null; do sleep 0.1; done
    subscribers=
    publishers=
    for number in 1 2 3 4 5; do
        mosquitto_sub -h 127.0.0.1 -p 18831 -t "plant/$number/#" -q 1 -C 400 >"received$number" &
        subscribers="$subscribers $!"
    done
    sleep 0.5
    for number in 1 2 3 4 5; do
        seq 1 400 | sed "s/.*/sensor $number reads 17.& degrees/" |
            mosquitto_pub -h 127.0.0.1 -p 18831 -t "plant/$number/temperature" -q 1 -l &
        publishers="$publishers $!"
    done
    # shellcheck disable=SC2086 # lists of numbers
    wait $publishers $subscribers
    kill -TERM "$broker"
    wait "$broker"
    broker=
}

gstreamer_ogg() {
    make_sound
    sox tone.wav tone.ogg
    # The registry of plug-ins is made by a first run, so that the recorded one only reads it.
    export GST_REGISTRY="$work/registry"
    gst-launch-1.0 -q filesrc location=tone.ogg ! decodebin ! fakesink
    record gstreamer-ogg gstreamer1.0-tools "a media pipeline with several threads: 30 s of Ogg Vorbis decoded and converted" \
        gst-launch-1.0 -q filesrc location=tone.ogg ! oggdemux ! vorbisdec ! queue ! audioconvert ! queue ! fakesink
}

sqlite_shop() {
    ./statements.sh | cat inventory.sql - >shop.sql
    record sqlite-shop sqlite3 "SQLite in memory: a small shop, with joins, sorting, a trigger and many small statements" \
        sqlite3 :memory: <shop.sql >shop.out
}

cc1_interpreter() {
    ./interpreter.sh 27 >interpreter.c
    record cc1-interpreter "$(dpkg -S "$(realpath "$(gcc -print-prog-name=cc1)")" | cut -d: -f1)" \
        "the C compiler proper at -O2 on a generated stack machine of 27 instructions" \
        "$(gcc -print-prog-name=cc1)" -quiet -O2 interpreter.c -o interpreter.s
}

espeak_speech() {
    record espeak-speech espeak-ng "a speech synthesizer: two sentences into a sound file" espeak-ng -w speech.wav \
        "The allocator of a real time system answers in bounded time. Every number on this page was measured, and every measurement can be repeated."
}

[ $# -gt 0 ] || set -- lua_entities lame_decode mosquitto_broker gstreamer_ogg sqlite_shop cc1_interpreter espeak_speech
for name; do
    "$(echo "$name" | tr - _)"
done
