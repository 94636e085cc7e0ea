#!/usr/bin/env bash
# The code is formatted by rustfmt.toml.
# Needs: rustfmt. Takes: a second.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo fmt --all --check
# Peers are declared by a macro, into which rustfmt does not look.
rustfmt --edition 2024 --check crates/rtalloc-subjects/src/peers/*.rs
cargo fmt --manifest-path ci/no_std/Cargo.toml --check
cargo fmt --manifest-path ci/preemption/Cargo.toml --check
cargo fmt --manifest-path ci/zkvm/Cargo.toml --check
cargo fmt --manifest-path ci/applications/Cargo.toml --check
cargo fmt --manifest-path ci/global/Cargo.toml --check
# Not its examples, which are embedded-alloc's.
rustfmt --edition 2021 --check ci/embedded_alloc/src/main.rs
cargo fmt --manifest-path examples/rust/firmware/Cargo.toml --check
