#!/usr/bin/env bash
# rtalloc-embedded in embedded-alloc's place: all examples of embedded-alloc 0.7.0, as cargo downloads them, run on an
# emulated Cortex-M4. Then, beside embedded-alloc's own heaps: what a heap takes of its region, which is no more than
# promised, and the instructions of its operations, which exceed no bound; neither is more than in the table in
# crates/rtalloc-embedded/src/lib.rs. With --update, rewrites that table.
# Needs: rustup (adds the target thumbv7em-none-eabihf), python3, Debian's qemu-system-arm (installed if run as root),
# and the network for the first run.
# Takes: a minute after the release build of ci/bounds.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
target=thumbv7em-none-eabihf
ci/target.sh "$target"
command -v qemu-system-arm >/dev/null || ci/install.sh qemu-system-arm
out=${CARGO_TARGET_DIR:-$(pwd)/target}
cargo build --quiet --release

manifest=ci/embedded_alloc/Cargo.toml
# The folder of embedded-alloc's source.
source=$(cargo metadata --format-version 1 --locked --manifest-path "$manifest" | python3 -c '
import json, os, sys
found = [package["manifest_path"] for package in json.load(sys.stdin)["packages"] if package["name"] == "embedded-alloc"]
print(os.path.dirname(*found))')
ln -sfn "$source/examples" ci/embedded_alloc/examples

# Two of the examples use unstable features. The linker scripts are embedded-alloc's memory.x and its dependencies'.
export RUSTC_BOOTSTRAP=rtalloc_embedded,allocator_api,llff_integration_test,tlsf_integration_test DEFMT_LOG=info
export CARGO_TARGET_THUMBV7EM_NONE_EABIHF_RUSTFLAGS="-Clink-arg=-Tlink.x -Clink-arg=-Tdefmt.x -Clink-arg=-L$source"
cargo build --quiet --release --locked --manifest-path "$manifest" --target "$target" \
    --target-dir "$out/embedded_alloc" --bins --examples
programs=$out/embedded_alloc/$target/release

# Time is counted in instructions.
run() {
    timeout 60 qemu-system-arm -M mps2-an386 -nographic -monitor none -serial none -icount shift=10 \
        -semihosting-config enable=on,target=native -kernel "$programs/$1" || { echo "$1 failed" >&2; exit 1; }
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
examples=()
for example in "$source"/examples/*.rs; do
    examples+=("$(basename "$example" .rs)")
    run "examples/${examples[-1]}" >"$work/${examples[-1]}"
done
echo "embedded-alloc's examples ended well: ${examples[*]}"
run embedded_alloc_examples >"$work/figures"
measured="Measured $(date -u +%F) at $(git describe --always --dirty --exclude '*') by \`ci/embedded_alloc.sh --update\`."
python3 ci/embedded_alloc.py "$out/release/rtalloc" "$programs/embedded_alloc_examples" "$work/figures" \
    "$work/exhaustion" "$(rustc --version)" "$measured" "${1:-}"
