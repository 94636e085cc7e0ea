#!/usr/bin/env bash
# Installs the C library as a user would and uses it through pkg-config and CMake, static and shared, with the suite in C and the
# examples in examples/c. The static library needs no C library, the shared library needs no other library, and both export exactly
# the functions that rtalloc.h declares.
# Needs: gcc, make, pkg-config, cmake (installed when root). Takes: two minutes, including half a minute to build the library.
set -euo pipefail
cd "$(dirname "$0")/.."
for tool in gcc make pkg-config cmake; do
    command -v "$tool" >/dev/null || { ci/install.sh gcc make pkg-config cmake; break; }
done

crate=crates/rtalloc-capi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix
strict=(-std=c11 -Wall -Wextra -Wpedantic -Werror)

# Packagers install into a staging folder; the files name the prefix.
make --quiet -C "$crate" install PREFIX="$prefix" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
make --quiet -C "$crate" install PREFIX=/usr DESTDIR="$work/stage" LIBDIR=/usr/lib/some-target >"$work/log" 2>&1
for file in lib/some-target/librtalloc.a lib/some-target/librtalloc.so include/rtalloc.h lib/some-target/pkgconfig/rtalloc.pc \
    share/doc/rtalloc/LICENSE-MIT; do
    [ -e "$work/stage/usr/$file" ] || { echo "make install did not install $file" >&2; exit 1; }
done
if grep -rl "$work" "$work/stage/usr/lib/some-target/pkgconfig" "$work/stage/usr/lib/some-target/cmake"; then
    echo "an installed file names the folder it was staged in" >&2
    exit 1
fi
echo "installed: $(cd "$prefix" && find . ! -type d | sort | tr '\n' ' ')"

suite=()
for part in main region debug handle shared; do
    suite+=("$crate/tests/$part.c")
done
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig LD_LIBRARY_PATH=$prefix/lib
# The header alone, and included twice.
printf '#include <rtalloc.h>\n#include <rtalloc.h>\nint main(void) { return 0; }\n' >"$work/header.c"
gcc "${strict[@]}" -Wconversion -Wstrict-prototypes -c $(pkg-config --cflags rtalloc) "$work/header.c" -o "$work/header.o"

for package in rtalloc rtalloc-static; do
    gcc "${strict[@]}" -O1 -pthread "${suite[@]}" $(pkg-config --cflags --libs "$package") -o "$work/suite"
    "$work/suite" >"$work/output" || { cat "$work/output"; exit 1; }
    echo "$package by pkg-config: $(paste -sd, "$work/output")"
done
ldd "$work/suite" | grep -q rtalloc && { echo "the statically linked program loads the shared library" >&2; exit 1; }

cmake -S examples/c -B "$work/examples" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
cmake --build "$work/examples" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
for example in heap objects threads; do
    "$work/examples/${example}_static" >"$work/static"
    "$work/examples/${example}_shared" >"$work/shared"
    cmp "$work/static" "$work/shared"
done
ldd "$work/examples/heap_shared" | grep 'librtalloc\.so\.[0-9.]* => ' >/dev/null || { echo "heap_shared is not linked with the shared library" >&2; exit 1; }
"$work/examples/heap_static" | grep -qx 'a block of the whole memory: a request larger than the heap could ever serve'
"$work/examples/heap_static" | grep -qx 'misuse seen by tlsf'
"$work/examples/objects_static" | grep -qx 'handle 7: the object of this handle was freed'
"$work/examples/threads_static" | grep -qx '400000 blocks'
echo "by CMake: the examples, static and shared, print the same"

# The shared library needs no other library and has no undefined symbols.
needed=$(readelf -d "$prefix/lib/librtalloc.so" | grep NEEDED || true)
undefined=$(nm -D --undefined-only "$prefix/lib/librtalloc.so" | awk '$1 != "w" { print $NF }')
[ -z "$needed$undefined" ] || { echo "librtalloc.so needs: $needed $undefined" >&2; exit 1; }
exported=$(nm -D --defined-only "$prefix/lib/librtalloc.so" | awk '{ print $NF }' | sort)
declared=$(gcc -E -P "$prefix/include/rtalloc.h" | grep -o '\brt_[a-z0-9_]*(' | tr -d '(' | sort -u)
diff <(echo "$exported") <(echo "$declared") >"$work/log" || { echo "librtalloc.so does not export the functions that rtalloc.h declares:"; cat "$work/log"; exit 1; } >&2
echo "librtalloc.so exports the $(echo "$exported" | wc -l) functions of rtalloc.h, and needs no library"

if [ "$(uname -m)" = x86_64 ]; then
    gcc "${strict[@]}" -O1 -ffreestanding -nostdlib -static -I"$prefix/include" examples/c/freestanding.c "$prefix/lib/librtalloc.a" \
        -Wl,--gc-sections -o "$work/freestanding"
    "$work/freestanding"
    echo "a freestanding program runs: $(size "$work/freestanding" | awk 'NR == 2 { print $1 " bytes of text, " $2 " of data, " $3 " of bss" }')"
fi
# The same of libm, wherever librtalloc.a is linked.
cat >"$work/libm.c" <<'END'
#include <math.h>
#include <rtalloc.h>
static char memory[4096];
int main(int count, char **arguments) {
    (void)arguments;
    return rt_tlsf_init(memory, sizeof memory) == NULL || fmod(floor(count + 4.5), 3) != 2;
}
END
gcc "${strict[@]}" -fno-builtin "$work/libm.c" $(pkg-config --cflags --libs rtalloc-static) -lm -o "$work/libm"
"$work/libm"
nm -D "$work/libm" | grep ' U fmod' >/dev/null || { echo "librtalloc.a defines functions of libm" >&2; exit 1; }
# With a C library, memcpy and malloc of a program remain those of the C library.
if nm "$work/examples/heap_static" | grep -E ' [TWD] (mem(cpy|move|set|cmp)|bcmp|malloc|free|abort)$'; then
    echo "librtalloc.a defines functions of the C library" >&2
    exit 1
fi
