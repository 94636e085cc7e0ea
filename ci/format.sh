#!/usr/bin/env bash
# The code is formatted by rustfmt.toml.
# Needs: rustfmt. Takes: a second.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo fmt --all --check
cargo fmt --manifest-path ci/no_std/Cargo.toml --check
cargo fmt --manifest-path examples/rust/firmware/Cargo.toml --check
