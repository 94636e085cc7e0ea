#!/usr/bin/env bash
# crates/rtalloc-capi/include/rtalloc.h and the lists of heaps in rtalloc.hpp and tests/allocators.h agree with the
# sources of the crate; with --update they are written from them.
# Needs: nothing but cargo. Takes: seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --update ]; then
    export UPDATE_HEADER=1
fi
cargo test --quiet -p rtalloc-capi --test header
