#!/usr/bin/env bash
# The book (docs/book): builds it, follows every link in it, runs its shell commands and compares their output.
# (Its Rust blocks are documentation tests, its C and C++ blocks tests of rtalloc-capi: `cargo test --workspace`.)
#
# Usage: ci/book.sh [CHAPTER...], such as start/rust.md: runs only the shell blocks of these chapters.
# Needs: python3, compilers for C and C++, make, pkg-config and cmake (installed if run as root); builds the laboratory
# in release unless ci/main_job.sh has. Installs mdbook into target/tools with cargo, which takes a minute or two, once.
# Takes: two minutes besides.
set -euo pipefail
cd "$(dirname "$0")/.."
export SOURCE=$PWD CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
version=0.5.4

for tool in python3 cc c++ make pkg-config cmake; do
    command -v "$tool" >/dev/null || { ci/install.sh python3 gcc g++ make pkg-config cmake; break; }
done

tools=$CARGO_TARGET_DIR/tools
mdbook=$tools/bin/mdbook
if [ "$("$mdbook" --version 2>/dev/null)" != "mdbook v$version" ]; then
    # Only the search feature, and little optimisation, since it renders one small book.
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_TARGET_DIR=$tools/build cargo install --quiet --locked --root "$tools" mdbook \
        --version "$version" --no-default-features --features search
    rm -rf "$tools/build"
fi
book=$CARGO_TARGET_DIR/book
rm -rf "$book"
"$mdbook" build docs/book --dest-dir "$book"
python3 ci/book_links.py "$book"

# The commands of the `sh,setup` blocks.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export CARGO_INSTALL_ROOT=$scratch/installed
if [ -n "${BOOK_LAB:-}" ]; then
    # A laboratory built elsewhere, for work on the book.
    mkdir -p "$scratch/installed/bin"
    ln -s "$BOOK_LAB" "$scratch/installed/bin/rtalloc"
else
    cargo install --quiet --locked --path crates/rtalloc-cli
fi
PATH=$scratch/installed/bin:$PATH python3 ci/book.py docs/book/src "$scratch/pages" "$@"
