#!/usr/bin/env bash
# The README's test command: the daily tier of all tests. ci/exhaustive.sh and ci/concurrency.sh run the full tier.
# Needs: compilers for C and C++; installs Debian's clang and lld with apt-get if run as root.
set -euo pipefail
cd "$(dirname "$0")/.."
# Tests that compile C++ with several compilers skip Clang where it is missing.
if ! { command -v clang++ && command -v ld.lld; } >/dev/null; then ci/install.sh clang lld; fi
cargo test --workspace
