#!/usr/bin/env bash
# No warnings from the compiler or clippy, in any target of any crate.
# Needs: clippy. Takes: a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo clippy --workspace --all-targets -- -D warnings
