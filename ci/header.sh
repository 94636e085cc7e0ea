#!/usr/bin/env bash
# crates/rtalloc-capi/include/rtalloc.h agrees with the sources of the crate; with --update it is written from them.
# Needs: nothing but cargo. Takes: seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --update ]; then
    export UPDATE_HEADER=1
fi
cargo test --quiet -p rtalloc-capi --test header
