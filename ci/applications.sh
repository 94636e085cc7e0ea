#!/usr/bin/env bash
# Programs with threads, made of other people's libraries (rayon, those of ripgrep, tokio), in the book's configuration
# of pooled arenas: each ends, with the same checksum as on TLSF under a lock, mimalloc and the C library's malloc. With
# --update, measures processor times in five rounds, and rewrites the table in docs/SHARED-HEAPS.md.
# Needs: python3, a C compiler (for mimalloc), and the network for the first run. Takes: a minute; with --update, three.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${CARGO_TARGET_DIR:-$(pwd)/target}/applications
cargo build --quiet --release --locked --manifest-path ci/applications/Cargo.toml --target-dir "$out"
measured="Measured $(date -u +%F) at $(git describe --always --dirty --exclude '*') by \`ci/applications.sh --update\`."
python3 ci/applications.py "$out/release" "$measured" "${1:-}"
