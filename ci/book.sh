#!/usr/bin/env bash
# The book (docs/book): builds it, follows every link in it, and performs its shell commands, comparing what they print.
# (Its Rust blocks are documentation tests, its C and C++ blocks tests of rtalloc-capi: `cargo test --workspace`.)
#
# Takes: chapters whose shell blocks are performed (default: all), such as start/rust.md.
# Needs: python3, compilers for C and C++, make, pkg-config and cmake (installed when root), and a release build (as ci/main_job.sh
# leaves one; else it is made). Installs mdbook into target/tools by cargo unless it is there, which takes a minute or two, once.
# Takes: two minutes besides.
set -euo pipefail
cd "$(dirname "$0")/.."
export SOURCE=$PWD CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/target}
version=0.5.4

for tool in python3 cc c++ make pkg-config cmake; do
    if ! command -v "$tool" >/dev/null; then
        [ "$(id -u)" = 0 ] || { echo "install $tool, then run this again" >&2; exit 1; }
        apt-get update -qq
        apt-get install -y -qq python3 gcc g++ make pkg-config cmake >/dev/null
        break
    fi
done

tools=$CARGO_TARGET_DIR/tools
mdbook=$tools/bin/mdbook
if [ "$("$mdbook" --version 2>/dev/null)" != "mdbook v$version" ]; then
    # Of its features only the search; and not optimised much, since it renders one small book.
    CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_TARGET_DIR=$tools/build cargo install --quiet --locked --root "$tools" mdbook \
        --version "$version" --no-default-features --features search
    rm -rf "$tools/build"
fi
book=$CARGO_TARGET_DIR/book
rm -rf "$book"
"$mdbook" build docs/book --dest-dir "$book"
python3 ci/book_links.py "$book"

# What `sh,setup` blocks tell the reader to do.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export CARGO_INSTALL_ROOT=$scratch/installed
if [ -n "${BOOK_LAB:-}" ]; then
    # A laboratory that was built otherwise, for who works on the book.
    mkdir -p "$scratch/installed/bin"
    ln -s "$BOOK_LAB" "$scratch/installed/bin/rtalloc"
else
    cargo install --quiet --locked --path crates/rtalloc-lab
fi
PATH=$scratch/installed/bin:$PATH python3 ci/book.py docs/book/src "$scratch/pages" "$@"
