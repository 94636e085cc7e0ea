#!/usr/bin/env bash
# crates/rtalloc-capi/include/rtalloc.h is what the crate says; with --update it is written anew.
# cbindgen sees no macros, so it is shown the crate as the compiler sees it, expanded.
# Needs: the network once, for cbindgen (installed in target/tools). Takes: two minutes the first time, then ten seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
crate=crates/rtalloc-capi
version=0.29.4
target=${CARGO_TARGET_DIR:-target}
tools=$target/tools
cbindgen=$tools/bin/cbindgen

if [ "$("$cbindgen" --version 2>/dev/null || true)" != "cbindgen $version" ]; then
    # Not optimised much, since it reads one file.
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 cargo install --quiet --locked --root "$tools" --target-dir "$target/tools-build" cbindgen \
        --version "$version"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Expanding is not stable, so the compiler must be told that it may; what is shipped is built without.
RUSTC_BOOTSTRAP=1 cargo rustc --quiet -p rtalloc-capi --profile c --crate-type staticlib --target-dir "$target/expanded" \
    -- -Zunpretty=expanded >"$work/rtalloc.rs"
"$cbindgen" --quiet --config "$crate/cbindgen.toml" "$work/rtalloc.rs" --output "$work/rtalloc.h"
# No space at the ends of lines.
sed -i 's/[ \t]*$//' "$work/rtalloc.h"

if [ "${1:-}" = --update ]; then
    cp "$work/rtalloc.h" "$crate/include/rtalloc.h"
    echo "$crate/include/rtalloc.h written"
elif ! diff -u "$crate/include/rtalloc.h" "$work/rtalloc.h"; then
    echo "$crate/include/rtalloc.h is not what the crate says: run ci/header.sh --update" >&2
    exit 1
else
    echo "$crate/include/rtalloc.h is what the crate says"
fi
