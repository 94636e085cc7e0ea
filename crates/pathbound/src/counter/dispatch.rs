//! Dispatches computed jumps and calls, and returns that may be jumps, from original addresses to the copy.
//!
//! A program computes addresses of the original code. In the copy, such a jump goes to a dispatcher, which looks up the
//! address and continues in the copy. It changes no register, flag or memory of the program, not even below the stack
//! pointer.

use super::CounterError;
use super::emit::{Emitter, Label, Labels, RAX, RCX, RDX};
use super::slots::Offsets;
use std::collections::BTreeMap;
use std::ops::Range;

/// An odd number near 2^64 divided by the golden ratio: multiplying by it spreads addresses over the high bits.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// The base-two logarithm of the number of slots for missed targets.
const MISS_BITS: u32 = 8;
/// The number of slots for missed targets. Of several targets with one slot the last is kept, which ensures progress.
pub const MISSES: usize = 1 << MISS_BITS;
/// Size of an entry of the table: an original address, and the address of its copy.
const ENTRY: usize = 16;
/// An upper bound on the size of a dispatcher for one room. Every further room adds `PER_ROOM`.
pub const BYTES: usize = 256;
/// An upper bound on the size of the range check of a room.
pub const PER_ROOM: usize = 32;

/// A map from the addresses of blocks to their copies: open addressing, at most half full.
#[derive(Debug)]
pub struct Table {
    slots: Vec<Option<(u64, Label)>>,
}

impl Table {
    /// A table of the blocks at these addresses.
    pub fn new(entries: &BTreeMap<u64, Label>) -> Self {
        let mut slots = vec![None; (2 * entries.len()).next_power_of_two().max(2)];
        let bits = slots.len().trailing_zeros();
        for (address, label) in entries {
            let mut slot = (address.wrapping_mul(SPREAD) >> (64 - bits)) as usize;
            while slots[slot].is_some() {
                slot = (slot + 1) % slots.len();
            }
            slots[slot] = Some((*address, *label));
        }
        Self { slots }
    }

    /// Size of what [`write`](Self::write) writes.
    pub fn bytes(&self) -> usize {
        self.slots.len() * ENTRY
    }

    /// Writes the table. Empty slots have the original address 0, which does not exist.
    pub fn write(&self, emitter: &mut Emitter) {
        for slot in &self.slots {
            match slot {
                Some((address, label)) => {
                    emitter.raw(&address.to_le_bytes());
                    emitter.address_of(*label);
                }
                None => emitter.raw(&[0; ENTRY]),
            }
        }
    }
}

/// The parameters of a dispatcher.
#[derive(Debug)]
pub struct Dispatch<'a> {
    pub offsets: Offsets,
    pub table: &'a Table,
    /// Where the table is.
    pub table_at: u64,
    /// Where the slots for missed targets are.
    pub misses_at: u64,
    /// The rooms of copies.
    pub rooms: &'a [Range<u64>],
}

impl Dispatch<'_> {
    /// Writes a dispatcher. It expects the target in rax, and the program's rax in its slot.
    pub fn write(&self, emitter: &mut Emitter, labels: &mut Labels) -> Result<(), CounterError> {
        const BELOW: u8 = 2;
        const EQUAL: u8 = 4;
        const DIFFERENT: u8 = 5;
        let offsets = &self.offsets;
        let [again, hit, absent, miss, out] = std::array::from_fn(|_| labels.create());

        emitter.store(offsets.rcx, RCX);
        emitter.store(offsets.rdx, RDX);
        emitter.store(offsets.target, RAX);
        emitter.raw(&[0x9f]); // lahf
        emitter.raw(&[0x0f, 0x90, 0xc0]); // seto al
        emitter.store(offsets.flags, RAX);
        emitter.load(RAX, offsets.target);

        let slots = self.table.slots.len();
        emitter.set(RDX, SPREAD);
        emitter.raw(&[0x48, 0x0f, 0xaf, 0xd0]); // imul rdx, rax
        emitter.raw(&[0x48, 0xc1, 0xea, 64 - slots.trailing_zeros() as u8]); // shr rdx, bits
        emitter.raw(&[0x48, 0xc1, 0xe2, ENTRY.trailing_zeros() as u8]); // shl rdx, 4
        emitter.set(RCX, self.table_at);
        emitter.mark(labels, again);
        emitter.raw(&[0x48, 0x39, 0x04, 0x11]); // cmp [rcx + rdx], rax
        emitter.jump_if(EQUAL, hit);
        emitter.raw(&[0x48, 0x83, 0x3c, 0x11, 0]); // cmp qword ptr [rcx + rdx], 0
        emitter.jump_if(EQUAL, absent);
        emitter.raw(&[0x83, 0xc2, ENTRY as u8]); // add edx, 16
        emitter.raw(&[0x81, 0xe2]); // and edx, mask
        let mask = u32::try_from(self.table.bytes() - 1).map_err(|_| CounterError::TooLarge)?;
        emitter.raw(&mask.to_le_bytes());
        emitter.jump(again);

        emitter.mark(labels, hit);
        emitter.raw(&[0x48, 0x8b, 0x44, 0x11, 8]); // mov rax, [rcx + rdx + 8]
        emitter.store(offsets.target, RAX);
        emitter.mark(labels, out);
        emitter.load(RAX, offsets.flags);
        emitter.raw(&[0x04, 0x7f]); // add al, 127: overflows if al is 1
        emitter.raw(&[0x9e]); // sahf
        emitter.load(RAX, offsets.rax);
        emitter.load(RCX, offsets.rcx);
        emitter.load(RDX, offsets.rdx);
        emitter.jump_through(offsets.target);

        // The target is in a copy, after a call, or is where the copy was entered from.
        emitter.mark(labels, absent);
        for room in self.rooms {
            emitter.set(RCX, room.start);
            emitter.raw(&[0x48, 0x89, 0xc2]); // mov rdx, rax
            emitter.raw(&[0x48, 0x29, 0xca]); // sub rdx, rcx
            emitter.raw(&[0x48, 0x81, 0xfa]); // cmp rdx, bytes
            let bytes = i32::try_from(room.end - room.start).map_err(|_| CounterError::TooLarge)?;
            emitter.raw(&bytes.to_le_bytes());
            emitter.jump_if(BELOW, out);
        }
        emitter.compare(RAX, offsets.back);
        emitter.jump_if(DIFFERENT, miss);
        emitter.compare(super::emit::RSP, offsets.back_stack);
        emitter.jump_if(EQUAL, out);
        emitter.mark(labels, miss);
        emitter.set(RDX, SPREAD);
        emitter.raw(&[0x48, 0x0f, 0xaf, 0xd0]); // imul rdx, rax
        emitter.raw(&[0x48, 0xc1, 0xea, 64 - MISS_BITS as u8]); // shr rdx, 56
        emitter.set(RCX, self.misses_at);
        emitter.raw(&[0x48, 0x89, 0x04, 0xd1]); // mov [rcx + 8 * rdx], rax
        emitter.jump(out);
        Ok(())
    }
}

/// Records where the copy is entered from, and jumps to `function`.
pub fn write_entry(emitter: &mut Emitter, offsets: &Offsets, function: Label) {
    emitter.store(offsets.rax, RAX);
    emitter.raw(&[0x48, 0x8b, 0x04, 0x24]); // mov rax, [rsp]
    emitter.store(offsets.back, RAX);
    emitter.raw(&[0x48, 0x8d, 0x44, 0x24, 8]); // lea rax, [rsp + 8]
    emitter.store(offsets.back_stack, RAX);
    emitter.load(RAX, offsets.rax);
    emitter.jump(function);
}

/// An upper bound on the size of an entry.
pub const ENTRY_BYTES: usize = 64;
