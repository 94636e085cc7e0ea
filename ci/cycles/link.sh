#!/usr/bin/env bash
# Usage: ci/cycles/link.sh OUTPUT ARCH ENTRY SOURCE WORD... Links the C or assembly file SOURCE to a program for
# ci/cycles/bench.cpp that calls ENTRY; ARCH is Clang's -march. Words that end in .a are archives, others are for Clang.
# Needs: Debian's clang, and a compiler installed with rustup. Takes: a second.
set -euo pipefail
output=$1 arch=$2 entry=$3 source=$4
shift 4
archives=() words=()
for word; do
    if [[ $word == *.a ]]; then archives+=("$word"); else words+=("$word"); fi
done
here=$(dirname "$0")
for file in "$here/start.S" "$source"; do
    clang --target=riscv32-unknown-elf "-march=$arch" -mabi=ilp32 -ffreestanding -fno-builtin -w -O1 "${words[@]}" \
        -c "$file" -o "$output.$(basename "$file").o"
done
# Nothing in the library panics (ci/no_std.sh).
"$(echo "$(rustc --print sysroot)"/lib/rustlib/*/bin/rust-lld)" -flavor gnu --gc-sections -T "$here/memory.ld" \
    "--defsym=program=$entry" --defsym=a_panic_edge_was_linked=0 -o "$output" "$output".*.o "${archives[@]}"
rm "$output".*.o
