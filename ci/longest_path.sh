#!/usr/bin/env bash
# The constant-time operations have no loop, and no path through them is longer than what ci/longest_path.py says.
# Needs: objdump and python3, an x86-64 machine. Takes: seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "$(uname -m)" != x86_64 ]; then
    echo "NOT RUN: the bounds are those of x86-64 code"
    exit 0
fi
cargo build --release --manifest-path ci/no_std/Cargo.toml --target-dir target/no_std
python3 ci/longest_path.py target/no_std/release/libno_std_proof.a
