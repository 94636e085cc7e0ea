#!/usr/bin/env bash
# Usage: ci/archive.sh NAME RUST_TARGET OPT_LEVEL [FEATURES]. Builds the allocators of ci/no_std for a processor, and
# prints the archive's path.
# Needs: rustup (adds the target). Takes: half a minute for a new target.
set -euo pipefail
cd "$(dirname "$0")/.."
name=$1 target=$2 features=${4:-}
export CARGO_PROFILE_RELEASE_OPT_LEVEL=$3
ci/target.sh "$target" >&2
out=${CARGO_TARGET_DIR:-$(pwd)/target}/targets/$name
RUSTFLAGS="-C debuginfo=line-tables-only${features:+ -C target-feature=$features}" cargo build --quiet --release \
    --manifest-path ci/no_std/Cargo.toml --target "$target" --target-dir "$out"
echo "$out/$target/release/libno_std_proof.a"
