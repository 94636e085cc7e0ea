#!/usr/bin/env bash
# Multithreaded programs on third-party libraries (rayon, those of ripgrep, tokio) run on pooled arenas as the book
# configures them: fails unless every program prints the same checksum there, on TLSF under a lock, on mimalloc and on
# the C library's malloc. With --update, measures processor times in five rounds, and rewrites the table in
# docs/SHARED-HEAPS.md.
# Needs: python3, a C compiler (for mimalloc), and the network for the first run. Takes: a minute; with --update, three.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${CARGO_TARGET_DIR:-$(pwd)/target}/applications
cargo build --quiet --release --locked --manifest-path ci/applications/Cargo.toml --target-dir "$out"
measured="Measured $(date -u +%F) at $(git describe --always --dirty --exclude '*') by \`ci/applications.sh --update\`."
python3 ci/applications.py "$out/release" "$measured" "${1:-}"
