#!/usr/bin/env bash
# The documentation builds without a warning, private items included.
# Needs: nothing beyond cargo. Takes: under a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items
