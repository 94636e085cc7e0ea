//! Writes a trace as a list of operations that a program on a small machine can read.
//!
//! ```sh
//! cargo run --release -p rtalloc-lab --example operations -- traces/lua-entities.rtrace operations.bin
//! ```
//!
//! All numbers have four bytes, little-endian: the operations, the slots, the largest sum of live sizes; then two for
//! each operation: kind (0 allocate, 1 reallocate, 2 free) + 4 · slot + 2^27 · log2 of the alignment, and the size. An
//! alignment of 16 bytes, which 64-bit machines give every block, becomes one of 8, as on 32-bit machines.

use anyhow::{Context as _, bail};
use rtalloc_lab::trace::{Op, Reader};
use std::path::Path;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [trace, list] = arguments.as_slice() else { bail!("two arguments: a trace, and the file to write") };
    let mut reader = Reader::open(Path::new(trace))?;
    let (mut words, mut sizes, mut chunk) = (Vec::new(), Vec::new(), Vec::new());
    let (mut live, mut most) = (0_u64, 0);
    while reader.next_chunk(&mut chunk)? {
        for event in &chunk {
            let (kind, slot, size, align) = match event.op {
                Op::Allocate { slot, size, align } => (0, slot, size, align),
                Op::Reallocate { slot, size, align } => (1, slot, size, align),
                Op::Free { slot } => (2, slot, 0, 1),
            };
            if sizes.len() <= slot as usize {
                sizes.resize(slot as usize + 1, 0);
            }
            live = live - std::mem::replace(&mut sizes[slot as usize], size) + size;
            most = most.max(live);
            let align = if align == 16 { 8 } else { align };
            let slot = Some(slot).filter(|slot| *slot < 1 << 25).context("too many slots")?;
            words.extend([kind | slot << 2 | align.ilog2() << 27, u32::try_from(size)?]);
        }
    }
    let head = [u32::try_from(words.len() / 2)?, u32::try_from(sizes.len())?, u32::try_from(most)?];
    let bytes: Vec<u8> = head.into_iter().chain(words).flat_map(u32::to_le_bytes).collect();
    std::fs::write(list, bytes).context(format!("{list} cannot be written"))
}
