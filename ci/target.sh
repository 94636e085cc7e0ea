#!/usr/bin/env bash
# Usage: ci/target.sh TARGET... Adds the missing ones of these Rust targets; the other scripts call it.
# Needs: rustup, and the network if any is missing. Takes: a second if none is.
set -euo pipefail
for target; do
    rustup target list --installed 2>/dev/null | grep -qx "$target" || rustup target add "$target" >/dev/null || {
        echo "cannot add the Rust target $target: install Rust with rustup (https://rustup.rs), then run this again" >&2
        exit 1
    }
done
