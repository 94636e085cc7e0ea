//! Misuse: reported through the hook or harmless, and the heap's other blocks unharmed.
//!
//! A process has one hook and tests run in threads, so the hook of this binary writes to a thread-local list. These
//! tests run in their own processes ([`crate::apart`]): a crash fails only the test that caused it.

use super::memory::{Buffer, fingerprint, foreign, servable, within_reach};
use super::ops::{self, Op};
use super::property::holds;
use super::shadow::Shadow;
use super::subject::{Subject, checks_own_tag_only, counts_refusals, facts, has_fences, has_frames, is_recorded};
use super::tier::Tiers;
use proptest::prelude::*;
use rtalloc::contract::{AllocError, Contract, Mechanism, Misuse, MisuseKind};
use rtalloc::hook::set_misuse_hook;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::Once;

thread_local! {
    static REPORTS: RefCell<Vec<Misuse>> = const { RefCell::new(Vec::new()) };
}

/// The hook of this binary.
pub fn record(misuse: &Misuse) {
    REPORTS.with_borrow_mut(|reports| reports.push(*misuse));
}

/// Takes the reports of this thread since the last call; the first call sets the hook.
pub fn reports() -> Vec<Misuse> {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| set_misuse_hook(Some(record)));
    REPORTS.take()
}

/// Fails unless exactly one misuse of this address was reported; returns its kind.
fn assert_reported(address: usize, what: &str) -> MisuseKind {
    match reports()[..] {
        [misuse] => {
            // A heap in an arena reports by its own name.
            let name = if facts().mechanism == Mechanism::Arenas { "tlsf" } else { facts().name };
            // These leave misuse to the heap beneath.
            let inner = |name: &'static str| {
                ["failing-", "cached-"].iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name)
            };
            assert_eq!((inner(misuse.allocator), misuse.address), (inner(name), address), "{what}: {misuse}");
            misuse.kind
        }
        ref other => panic!("{what} of {address:#x}: reported {other:?}, expected one report"),
    }
}

/// The control structures of shared heaps have longer cache lines on A64.
const HEAP_BYTES: usize = if cfg!(target_arch = "aarch64") { 6 << 10 } else { 4 << 10 };

/// Whether the heap checks a freed block at all.
pub fn is_checked() -> bool {
    is_promised(facts().detects_double_free, "to check a freed block")
}

/// A heap with live blocks that have live and free neighbours on either side, in every combination.
fn mixed_heap(buffer: &Buffer, audit_every: usize) -> Shadow<'_> {
    let len_bytes = within_reach(HEAP_BYTES);
    let mut shadow = Shadow::new(buffer, len_bytes, audit_every);
    for size_bytes in SIZES_BYTES {
        assert!(shadow.allocate(servable(size_bytes)));
    }
    for index in FREED {
        shadow.apply(&Op::Free { index });
    }
    reports();
    shadow
}

/// Sizes of blocks, and which of them are freed (each time the last one takes the place of the freed one): alone, in
/// pairs, and next to the rest of the heap.
const SIZES_BYTES: [usize; 16] = [40, 100, 24, 200, 1, 64, 48, 30, 90, 17, 120, 56, 33, 70, 28, 150];
const FREED: [usize; 5] = [2, 11, 8, 9, 5];

/// Says that a contract does not promise what a test is about.
fn is_promised(promise: bool, what: &str) -> bool {
    if !promise {
        println!("{} does not promise {what}", facts().name);
    }
    promise
}

/// Freeing a block twice, at once or after its neighbours were freed too, in every order, is reported and changes
/// nothing; so is resizing it.
pub fn double_free() {
    if !is_checked() {
        return;
    }
    let buffer = Buffer::new(within_reach(HEAP_BYTES));
    let heap = mixed_heap(&buffer, 1 << 20);
    let saved = buffer.save();
    let blocks: Vec<NonNull<u8>> = {
        let mut live = heap.live.clone();
        live.sort_by_key(|block| block.address());
        live.iter().map(|block| block.pointer).collect()
    };
    let mut allocator = heap.allocator;
    for three in blocks.windows(3) {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            buffer.restore(&saved);
            for (freed, &index) in order.iter().enumerate() {
                // SAFETY: the block is live.
                unsafe { allocator.deallocate(three[index]) };
                assert_eq!(reports(), [], "a correct free was reported");
                let state = fingerprint(&allocator);
                for (&again, when) in order[..=freed].iter().zip(["first", "second", "third"]) {
                    let address = three[again].addr().get();
                    let what = format!("second free of the {when} of {order:?} after {freed} more");
                    // SAFETY: violates the contract on purpose: the block is free, which the heap must detect.
                    unsafe { allocator.deallocate(three[again]) };
                    assert_ne!(assert_reported(address, &what), MisuseKind::ForeignPointer, "{what}");
                    // SAFETY: violates the contract on purpose: the block is free, which the heap must detect.
                    let answer = unsafe { allocator.reallocate_bytes(three[again], 24, 1) };
                    assert_eq!(answer.err(), Some(AllocError::Misused), "{what}");
                    assert_reported(address, &what);
                }
                assert_eq!(state, fingerprint(&allocator), "a second free changed the heap");
                assert_eq!(allocator.check(), Ok(()));
            }
        }
    }
}

/// In any sequence, every block that was ever freed and whose memory was not allocated again since is still seen to
/// be free.
pub fn stale_pointers() {
    if !is_promised(facts().detects_stale_pointers, "to detect every stale pointer") {
        return;
    }
    let buffer = Buffer::new(within_reach(HEAP_BYTES));
    let len_bytes = within_reach(HEAP_BYTES);
    holds(96, prop::collection::vec(ops::op(), 1..120), |ops| {
        let mut shadow = Shadow::new(&buffer, len_bytes, 1);
        let mut stale: Vec<usize> = Vec::new();
        reports();
        for op in &ops {
            let before: Vec<usize> = shadow.live.iter().map(|block| block.address()).collect();
            shadow.apply(op);
            assert_eq!(reports(), [], "{op:?} was reported without a misuse");
            stale.extend(before.into_iter().filter(|&address| shadow.find(address).is_none()));
            stale.retain(|&address| {
                !shadow.live.iter().any(|block| {
                    (block.address() - facts().header_bytes..block.address() + block.usable_bytes).contains(&address)
                })
            });
            let state = fingerprint(&shadow.allocator);
            for &address in &stale {
                shadow.misfree(address);
                assert_reported(address, "a free of a stale pointer");
            }
            assert_eq!(state, fingerprint(&shadow.allocator), "freeing stale pointers changed the heap");
        }
        shadow.finish();
    });
}

/// Pointers that are not blocks of the heap: outside its region, in its control structure, misaligned, and inside a
/// block whose content does not look like a tag.
pub fn foreign_pointers() {
    if !is_checked() {
        return;
    }
    let len_bytes = within_reach(HEAP_BYTES);
    let gap_bytes = 256;
    let buffer = Buffer::new(len_bytes + gap_bytes);
    for fill in [0x00, 0xFF] {
        let mut shadow = mixed_heap(&buffer, 1 << 20);
        let blocks = shadow.blocks();
        let contract = facts();
        let first = blocks[0].address - blocks[0].front_bytes;
        let last = blocks[blocks.len() - 1];
        let end = last.address - last.front_bytes + last.size_bytes;
        let mut addresses: Vec<usize> = Vec::new();
        addresses.extend(1..100);
        addresses.extend((0..100).map(|below| usize::MAX - below));
        addresses.extend(buffer.start() - 256..blocks[0].address);
        addresses.extend(first..blocks[0].address);
        // Up to the granule after the last block, where the header of a following block would end, the tags decide;
        // beyond it, the address.
        addresses.extend(end + contract.granule_bytes..buffer.end());
        addresses.extend((32..usize::BITS).map(|log2| blocks[0].address.wrapping_add(1 << log2)));
        addresses.extend((32..usize::BITS).map(|log2| blocks[0].address.wrapping_sub(1 << log2)));
        for block in &blocks {
            let inside = block.address + 1..block.address + block.usable_bytes;
            addresses.extend(inside.filter(|address| !address.is_multiple_of(contract.alignment_bytes)));
        }
        let live: Vec<_> = shadow.live.drain(..).collect();
        for block in &live {
            // SAFETY: the block is live.
            unsafe { block.pointer.write_bytes(fill, block.usable_bytes) };
            if fill == 0xFF && checks_own_tag_only() {
                continue; // The flag of a live block is set.
            }
            let inside = block.address() + 1..block.address() + block.usable_bytes;
            addresses.extend(inside.filter(|address| address.is_multiple_of(contract.alignment_bytes)));
        }
        let mut allocator = shadow.allocator;
        let state = fingerprint(&allocator);
        let bytes = buffer.save();
        let unrecorded = if is_recorded() { first - buffer.start() } else { 0 };
        for address in addresses {
            let Some(pointer) = foreign(address) else { continue };
            // SAFETY: violates the contract on purpose: the pointer is foreign, which the heap must detect.
            unsafe { allocator.deallocate(pointer) };
            let kind = assert_reported(address, "a free of a foreign pointer");
            let is_outside = address < buffer.start() || address >= buffer.start() + len_bytes;
            if is_outside || !address.is_multiple_of(contract.alignment_bytes) {
                // A heap with frames reports more: an interior pointer, or a block of another heap.
                let is_known = has_frames() && matches!(kind, MisuseKind::InteriorPointer | MisuseKind::WrongHeap);
                assert!(kind == MisuseKind::ForeignPointer || is_known, "free of {address:#x}: {kind:?}");
            }
            let is_kept = bytes[unrecorded..] == buffer.bytes()[unrecorded..];
            assert!(is_kept, "a free of {address:#x}, a foreign pointer, changed bytes");
            // SAFETY: violates the contract on purpose: the pointer is foreign, which the heap must detect.
            let answer = unsafe { allocator.reallocate_bytes(pointer, 24, 1) };
            assert_eq!(answer.err(), Some(AllocError::Misused), "resizing {address:#x}");
            assert_reported(address, "a resize of a foreign pointer");
            if counts_refusals(&allocator) {
                buffer.restore(&bytes);
            }
            assert!(bytes == buffer.bytes(), "a resize of {address:#x}, a foreign pointer, changed bytes");
        }
        assert_eq!(state, fingerprint(&allocator));
        for block in live {
            // SAFETY: the block is live.
            unsafe { allocator.deallocate(block.pointer) };
        }
        assert_eq!(reports(), []);
        assert_eq!(allocator.check(), Ok(()));
    }
}

/// The content of the blocks of a damaged heap. The format of tags depends on the allocator, so the contents are
/// extremes: no bit, every bit, and every bit but a small odd number in a block's last words, where a boundary tag
/// before the next header would be.
#[derive(Clone, Copy, Debug)]
enum Content {
    Zeros,
    Ones,
    OddLastWord,
}

/// A live block of a damaged heap.
#[derive(Clone, Copy, Debug)]
struct Victim {
    pointer: NonNull<u8>,
    usable_bytes: usize,
}

impl Victim {
    fn address(&self) -> usize {
        self.pointer.addr().get()
    }

    /// The bytes written to a block.
    fn content(&self, content: Content, header_bytes: usize) -> Vec<u8> {
        let mut bytes = vec![if matches!(content, Content::Zeros) { 0 } else { 0xFF }; self.usable_bytes];
        if matches!(content, Content::OddLastWord) && header_bytes != 0 && bytes.len() >= header_bytes {
            let last = bytes.len() - header_bytes;
            bytes[last..].fill(0);
            bytes[last] = 33;
        }
        bytes
    }

    /// Its present bytes.
    fn bytes(&self) -> &[u8] {
        // SAFETY: the block is live and filled.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.usable_bytes) }
    }
}

/// The operation on the damaged block.
#[derive(Clone, Copy, Debug)]
enum Act {
    Free,
    Shrink,
    Grow,
}

/// One experiment: a heap, damage near one of its blocks, and an operation on that block.
struct Damage<'b> {
    buffer: &'b Buffer,
    allocator: Subject,
    saved: Vec<u8>,
    blocks: Vec<Victim>,
    content: Content,
    /// Where blocks of the intact heap begin and end, or began before they were freed: tags are there.
    boundaries: BTreeSet<usize>,
    /// Whether a report may change bytes of the control structure.
    has_stats: bool,
}

impl<'b> Damage<'b> {
    fn new(buffer: &'b Buffer, content: Content) -> Self {
        // Free memory has the same content as the blocks, because a wrong size leads there as well.
        buffer.fill(if matches!(content, Content::Zeros) { 0 } else { 0xFF });
        let len_bytes = within_reach(HEAP_BYTES);
        // SAFETY: the buffer outlives the heap.
        let mut allocator: Subject = unsafe { buffer.heap(0, len_bytes) }.expect("large enough");
        let mut blocks = Vec::new();
        let mut boundaries = BTreeSet::new();
        for size_bytes in SIZES_BYTES {
            let pointer = allocator.allocate_bytes(servable(size_bytes), 1).expect("a large heap");
            // SAFETY: the block is live.
            let block = Victim { pointer, usable_bytes: unsafe { allocator.usable_size(pointer) } };
            let bytes = block.content(content, facts().header_bytes);
            // SAFETY: the block is live and as large as its content.
            unsafe { NonNull::from(&bytes[..]).cast::<u8>().copy_to_nonoverlapping(pointer, bytes.len()) };
            boundaries.insert(block.address());
            blocks.push(block);
        }
        for index in FREED {
            // SAFETY: the block is live and forgotten here.
            unsafe { allocator.deallocate(blocks.swap_remove(index).pointer) };
        }
        allocator.walk(&mut |block| {
            boundaries.insert(block.address);
            boundaries.insert(block.address - block.front_bytes + facts().header_bytes + block.size_bytes);
        });
        let has_stats = counts_refusals(&allocator);
        Damage { buffer, has_stats, saved: buffer.save(), allocator, blocks, content, boundaries }
    }

    /// Overwrites `damage.len()` bytes at an address, acts on `victim`, and judges. `ruined` is the block whose header,
    /// and perhaps more, was overwritten; nothing is asked of it.
    fn run(&mut self, victim: Victim, act: Act, address: usize, damage: &[u8], ruined: usize) {
        let what = format!("{act:?} of {victim:x?} with {damage:x?} at {address:#x}, {:?} in blocks", self.content);
        self.buffer.restore(&self.saved);
        let place = self.buffer.at(address);
        // SAFETY: the place is in the buffer.
        unsafe { NonNull::from(damage).cast::<u8>().copy_to_nonoverlapping(place, damage.len()) };
        let damaged = self.buffer.save();
        reports();
        // SAFETY: violates the contract on purpose: the tags were overwritten.
        let answer = unsafe {
            match act {
                Act::Free => {
                    self.allocator.deallocate(victim.pointer);
                    None
                }
                Act::Shrink => self.allocator.reallocate_bytes(victim.pointer, 1, 1).err(),
                Act::Grow => self.allocator.reallocate_bytes(victim.pointer, victim.usable_bytes + 40, 1).err(),
            }
        };
        let seen = reports();
        if seen.is_empty() {
            assert_ne!(answer, Some(AllocError::Misused), "{what}: refused without a report");
            return self.assert_others_unharmed(victim, ruined, &what);
        }
        assert_eq!(seen.len(), 1, "{what}: {seen:?}");
        let header = victim.address() - facts().header_bytes..victim.address();
        if has_frames() && (header.contains(&seen[0].address) || seen[0].allocator != facts().name) {
            // The heap beneath saw it when it got the block back: the block is lost, and nothing else.
            return self.assert_others_unharmed(victim, ruined, &what);
        }
        if !matches!(act, Act::Free) && answer != Some(AllocError::Misused) {
            // It was moved before the damage was seen, there or at the free block beside it, which was not allocated:
            // one of them is lost, and nothing else.
            return self.assert_others_unharmed(victim, ruined, &what);
        }
        assert_eq!(seen[0].address, victim.address(), "{what}");
        assert!(damaged == self.buffer.bytes() || self.has_stats, "{what}: reported, and bytes changed nevertheless");
        // Undone, the damage leaves a whole heap.
        let offset = address - self.buffer.start();
        let original = &self.saved[offset..offset + damage.len()];
        // SAFETY: the place is in the buffer.
        unsafe { NonNull::from(original).cast::<u8>().copy_to_nonoverlapping(place, original.len()) };
        assert_eq!(self.allocator.check(), Ok(()), "{what}: reported, and the heap changed nevertheless");
        for block in &self.blocks {
            assert!(block.bytes() == block.content(self.content, facts().header_bytes), "{what}: {block:x?} changed");
        }
        for block in self.blocks.clone() {
            // SAFETY: the block is live.
            unsafe { self.allocator.deallocate(block.pointer) };
        }
        assert_eq!(reports(), [], "{what}: a later free was reported");
        assert_eq!(self.allocator.check(), Ok(()), "{what}");
    }

    /// The damage went unnoticed. Then the undamaged blocks must keep their content while they are freed one after the
    /// other, and blocks allocated later may not overlap a live one.
    fn assert_others_unharmed(&mut self, victim: Victim, ruined: usize, what: &str) {
        let header_bytes = facts().header_bytes;
        let is_other = |block: &&Victim| block.address() != victim.address() && block.address() != ruined;
        let others: Vec<Victim> = self.blocks.iter().filter(is_other).copied().collect();
        let (kept, freed) = others.split_at(others.len() / 2);
        let assert_content = |blocks: &[Victim]| {
            for block in blocks {
                assert!(block.bytes() == block.content(self.content, header_bytes), "{what}: {block:x?} harmed");
            }
        };
        assert_content(&others);
        if !self.blocks.iter().any(|block| block.address() == ruined) {
            return; // A free block's header: the next owner of that block is a victim too.
        }
        for (done, block) in freed.iter().enumerate() {
            // SAFETY: the block is live.
            unsafe { self.allocator.deallocate(block.pointer) };
            assert_content(&freed[done + 1..]);
            assert_content(kept);
        }
        for _ in 0..HEAP_BYTES {
            let Ok(block) = self.allocator.allocate_bytes(1, 1) else { break };
            // SAFETY: the heap says that the block is live and this large.
            unsafe { block.write_bytes(0x5A, self.allocator.usable_size(block)) };
            assert_content(kept);
        }
    }

    /// Whether the heap, whose tags were damaged, returns live memory without a report before: frees `first`, then
    /// every second block, then allocates everything.
    fn goes_wrong(&mut self, first: Option<Victim>) -> bool {
        let mut live: Vec<Victim> = self.blocks.clone();
        let mut freed: Vec<Victim> = live.iter().copied().step_by(2).collect();
        freed.retain(|block| first.is_none_or(|first| first.address() != block.address()));
        for block in first.into_iter().chain(freed) {
            // SAFETY: the block is live.
            unsafe { self.allocator.deallocate(block.pointer) };
            if !reports().is_empty() {
                return false;
            }
            live.retain(|other| other.address() != block.address());
        }
        let size_bytes = servable(20);
        for _ in 0..HEAP_BYTES {
            let answer = self.allocator.allocate_bytes(size_bytes, 1);
            if !reports().is_empty() {
                return false;
            }
            let Ok(pointer) = answer else { break };
            let taken = Victim { pointer, usable_bytes: size_bytes };
            let is_inside = taken.address() >= self.buffer.start() && taken.address() + size_bytes <= self.buffer.end();
            let is_shared = live.iter().any(|other| {
                taken.address() < other.address() + other.usable_bytes && other.address() < taken.address() + size_bytes
            });
            if is_shared || !is_inside {
                return true;
            }
            live.push(taken);
        }
        false
    }

    /// Whether a header of `victim` that claims `claimed_bytes` for the whole block leads to where another block begins
    /// or began: then all tags agree, and the heap cannot detect it.
    fn is_plausible(&self, victim: Victim, claimed_bytes: usize) -> bool {
        self.boundaries.contains(&victim.address().wrapping_add(claimed_bytes))
    }
}

/// The bits of a header whose flipping must be seen: all, or none for a heap that does not promise it.
fn promised_bits() -> std::ops::Range<usize> {
    0..if facts().detects_overwritten_tags { 8 * facts().header_bytes } else { 0 }
}

/// A header with one bit flipped, of which bit 0 is the least of its number.
fn flipped(header: &[u8], bit: usize) -> Vec<u8> {
    let mut damage = header.to_vec();
    let byte = if cfg!(target_endian = "big") { header.len() - 1 - bit / 8 } else { bit / 8 };
    damage[byte] ^= 1 << (bit % 8);
    damage
}

/// Every bit of a block's header flipped, one at a time; the header overwritten with zeros and ones.
pub fn overwritten_header() {
    if !is_checked() || !is_promised(!checks_own_tag_only(), "to check more of the header than a flag") {
        return;
    }
    let header_bytes = facts().header_bytes;
    let buffer = Buffer::new(within_reach(HEAP_BYTES));
    for content in [Content::Zeros, Content::Ones, Content::OddLastWord] {
        let mut heap = Damage::new(&buffer, content);
        for victim in heap.blocks.clone() {
            let header_at = victim.address() - header_bytes;
            let offset = header_at - buffer.start();
            let header = heap.saved[offset..offset + header_bytes].to_vec();
            let block_bytes = victim.usable_bytes + header_bytes;
            for act in [Act::Free, Act::Shrink, Act::Grow] {
                for bit in promised_bits() {
                    if heap.is_plausible(victim, block_bytes ^ 1_usize.checked_shl(bit as u32).unwrap_or(0)) {
                        continue;
                    }
                    heap.run(victim, act, header_at, &flipped(&header, bit), victim.address());
                }
                for byte in [0x00, 0xFF] {
                    heap.run(victim, act, header_at, &vec![byte; header_bytes], victim.address());
                }
            }
        }
    }
}

/// A heap that promises to detect overwritten tags reports a write to the byte after a block before it returns live
/// memory, in at least 99 of 100 cases, for every value of the byte and whichever block is freed next.
pub fn one_byte_overruns() {
    if !is_promised(facts().detects_overwritten_tags && facts().header_bytes != 0, "to detect overwritten tags") {
        return;
    }
    let len_bytes = within_reach(HEAP_BYTES);
    let buffer = Buffer::new(len_bytes);
    // Heaps of large pages take long: the daily tier tries some values.
    let step = if len_bytes > 8 * HEAP_BYTES { Tiers { daily: 7, full: 1 }.now() } else { 1 };
    let (mut trials, mut harmed) = (0, 0);
    for content in [Content::Zeros, Content::Ones, Content::OddLastWord] {
        let mut heap = Damage::new(&buffer, content);
        for victim in heap.blocks.clone() {
            let end = victim.address() + victim.usable_bytes;
            if end >= buffer.end() {
                continue;
            }
            let original = heap.saved[end - buffer.start()];
            for byte in (0..=0xFF).step_by(step).filter(|&byte| byte != original) {
                for first in [Some(victim), None] {
                    buffer.restore(&heap.saved);
                    // SAFETY: the byte is in the buffer.
                    unsafe { buffer.at(end).write(byte) };
                    reports();
                    trials += 1;
                    harmed += usize::from(heap.goes_wrong(first));
                }
            }
        }
    }
    assert!(
        trials > 1000 && 100 * harmed <= trials,
        "{harmed} of {trials} one-byte overruns harmed other blocks unseen"
    );
}

/// A heap with frames distinguishes its own blocks from those of the previous heap of its region.
pub fn blocks_of_the_previous_heap() {
    if !is_promised(has_frames(), "to detect blocks of a region's previous heap") {
        return;
    }
    let buffer = Buffer::new(within_reach(HEAP_BYTES));
    let len_bytes = within_reach(HEAP_BYTES);
    let made = |blocks: usize| {
        // SAFETY: the buffer outlives the heap; the heap before is not used any more.
        let mut allocator = unsafe { buffer.heap(0, len_bytes) }.expect("large enough");
        let sizes = SIZES_BYTES.iter().take(blocks).map(|&size_bytes| servable(size_bytes));
        let live: Vec<_> = sizes.map(|size_bytes| allocator.allocate_bytes(size_bytes, 1).expect("room")).collect();
        (allocator, live)
    };
    for blocks in 0..4 {
        buffer.fill(0);
        let (_, before) = made(SIZES_BYTES.len());
        let (mut allocator, live) = made(blocks);
        reports();
        for stale in before.into_iter().filter(|stale| !live.contains(stale)) {
            let address = stale.addr().get();
            // SAFETY: violates the contract on purpose: the block is the previous heap's, which the heap must detect.
            unsafe { allocator.deallocate(stale) };
            assert_reported(address, "a free of a block of the previous heap");
        }
        assert_eq!(allocator.check(), Ok(()));
    }
}

/// Every bit of the header after a block flipped, one at a time; that header, and what follows it, overwritten with
/// zeros and ones, as by a buffer overrun.
pub fn overwritten_next_header() {
    if !is_checked() || !is_promised(!checks_own_tag_only(), "to check the next header") {
        return;
    }
    if has_frames() && !has_fences() {
        println!("{} checks nothing after a payload", facts().name);
        return;
    }
    let header_bytes = facts().header_bytes;
    let buffer = Buffer::new(within_reach(HEAP_BYTES));
    for content in [Content::Zeros, Content::Ones, Content::OddLastWord] {
        let mut heap = Damage::new(&buffer, content);
        for victim in heap.blocks.clone() {
            let header_at = victim.address() + victim.usable_bytes;
            let next = header_at + header_bytes;
            if heap.boundaries.last() == Some(&next) {
                continue; // The last block: what follows is no block.
            }
            let offset = header_at - buffer.start();
            if has_frames() && offset + header_bytes + 16 > heap.saved.len() {
                continue; // As above: a frame has fewer bytes after the payload than before it.
            }
            if cfg!(target_endian = "big") && !heap.blocks.iter().any(|block| block.address() == next) {
                // The next owner of a free block relies on its size. With the highest byte first, a flag that is taken
                // for part of the size, or a size whose first byte was overwritten, has an effect at once.
                continue;
            }
            // (The smallest fence is a word. What is between it and the next header, and its links, are not a frame's
            // affair.)
            let header = heap.saved[offset..offset + header_bytes].to_vec();
            for act in [Act::Free, Act::Shrink, Act::Grow] {
                for bit in promised_bits().filter(|&bit| bit < usize::BITS as usize || !has_frames()) {
                    heap.run(victim, act, header_at, &flipped(&header, bit), next);
                }
                // A header of zeros is that of a free block: to see through it takes more than one test.
                let bytes: &[u8] = match facts() {
                    Contract { detects_overwritten_tags: true, .. } => &[0x00, 0xFF],
                    // A block without a header is followed by user data, or by a page's bookkeeping.
                    Contract { header_bytes: 0, .. } => &[],
                    _ => &[0xFF],
                };
                for &byte in bytes {
                    // One byte first: the end of a string written one too far.
                    let mut damage = header.clone();
                    damage.iter_mut().take(1).for_each(|first| *first = byte);
                    heap.run(victim, act, header_at, &damage, next);
                    for more_bytes in [0, 1, 8, 16] {
                        heap.run(victim, act, header_at, &vec![byte; header_bytes + more_bytes], next);
                    }
                }
            }
        }
    }
}
