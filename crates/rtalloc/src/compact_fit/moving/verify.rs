//! Walk, fragmentation, check and fingerprint of a whole heap.

use super::super::ladder::{Ladder, SizeClass};
use super::super::page::{self, FREE, Header};
use super::super::{classes, free_list, steps};
use super::entries::{self, ENTRIES, entry_at, pointer};
use super::{At, BACK_BYTES, Block, address_of, back_reference, class_for};
use crate::contract::{Corruption, Fragmentation, Handle, Object};
use crate::mechanism::stats::StatsPolicy;
use core::num::NonZeroU32;

/// Calls `visit` with every used page-block except the reserved one, its class and its address, page by page.
///
/// # Safety
///
/// The heap is initialised, and its classes are verified.
unsafe fn used_blocks<L: Ladder, T: StatsPolicy>(
    directory: At<L, T>,
    visit: &mut dyn FnMut(&SizeClass, Block, usize) -> Result<(), Corruption>,
) -> Result<(), Corruption> {
    // SAFETY: the heap is initialised, and pages of a class have rows.
    unsafe {
        let reserved = steps::reserved(directory);
        for header in directory.headers().filter(|&header| usize::from((*header).state.class) < L::CLASSES) {
            let size_class = L::size_class((*header).state.class.into());
            for number in (0..usize::from(size_class.blocks)).filter(|&number| page::is_used(header, number)) {
                if reserved.is_some_and(|block| (block.header, block.number) == (header, number)) {
                    continue;
                }
                let block = Block { header, number };
                visit(size_class, block, address_of(directory, size_class.block_bytes as usize, block))?;
            }
        }
    }
    Ok(())
}

/// As `HandleAllocator::walk`.
pub(super) fn walk<L: Ladder, T: StatsPolicy>(directory: At<L, T>, visitor: &mut dyn FnMut(Object)) {
    // SAFETY: the heap is initialised; a used page-block ends with the number of a live entry.
    unsafe {
        let _ = used_blocks(directory, &mut |size_class, _, address| {
            let bytes = size_class.block_bytes as usize;
            let number = back_reference(address, bytes).read();
            let entry = entry_at(directory, number).read();
            if let Some(generation) = NonZeroU32::new(entry.generation) {
                visitor(Object {
                    handle: Handle::new(number, generation),
                    address,
                    size_bytes: entry.size.into(),
                    usable_bytes: bytes - BACK_BYTES,
                    page_block_bytes: bytes,
                });
            }
            Ok(())
        });
    }
}

/// As `HandleAllocator::fragmentation`.
pub(super) fn fragmentation<L: Ladder, T: StatsPolicy>(directory: At<L, T>) -> Fragmentation {
    let mut lost = Fragmentation::default();
    let mut used_bytes = 0;
    // SAFETY: the heap is initialised, so pages that have been taken have headers.
    unsafe {
        for header in directory.headers() {
            let header: &Header = &*header;
            if usize::from(header.state.class) < L::CLASSES {
                let size_class = L::size_class(header.state.class.into());
                let bytes = size_class.block_bytes as usize;
                lost.page_internal_bytes += L::PAGE - bytes * usize::from(size_class.blocks);
                lost.size_external_bytes += bytes * usize::from(size_class.blocks - header.state.used);
                used_bytes += bytes * usize::from(header.state.used);
            }
        }
        // The reserved page-block counts as free: when the move is complete, the old one will be free instead.
        if let Some(block) = steps::reserved(directory) {
            let bytes = L::size_class((*block.header).state.class.into()).block_bytes as usize;
            lost.size_external_bytes += bytes;
            used_bytes -= bytes;
        }
    }
    let mut requested_bytes = 0;
    walk(directory, &mut |object| requested_bytes += object.size_bytes);
    lost.block_internal_bytes = used_bytes - requested_bytes;
    lost
}

/// As `HandleAllocator::check`.
pub(super) fn check<L: Ladder, T: StatsPolicy>(directory: At<L, T>, may_be_pending: bool) -> Result<(), Corruption> {
    let broken = |invariant, address| Err(Corruption { invariant, address });
    // SAFETY: the heap is initialised, and everything that is read was verified before.
    unsafe {
        directory.check_pool()?;
        for header in directory.headers() {
            let class = (*header).state.class;
            if usize::from(class) >= L::CLASSES && class != ENTRIES && class != FREE {
                return broken("a page is free, or of a class, or one of entries", header.addr());
            }
        }
        classes::check(directory, may_be_pending)?;
        let live = entries::check(directory)?;
        steps::check(directory)?;
        let mut objects = 0;
        used_blocks(directory, &mut |size_class, block, address| {
            let bytes = size_class.block_bytes as usize;
            let number = back_reference(address, bytes).read();
            if !entries::is_live(directory, number) {
                return broken("an object's page-block ends with the number of a live entry", address);
            }
            let entry = entry_at(directory, number);
            if pointer(entry).read() != address || usize::from((*entry).block) != block.number {
                return broken("an object's entry leads to it", address);
            }
            let size_bytes = usize::from((*entry).size);
            if size_bytes == 0
                || size_bytes > bytes - BACK_BYTES
                || class_for::<L>(size_bytes) > usize::from((*block.header).state.class)
            {
                return broken("an object fits its page-block", address);
            }
            objects += 1;
            Ok(())
        })?;
        if objects != live {
            return broken("every live entry has an object", directory.base());
        }
    }
    Ok(())
}

/// As `HandleAllocator::fingerprint`.
pub(super) fn fingerprint<L: Ladder, T: StatsPolicy>(directory: At<L, T>, word: &mut dyn FnMut(usize)) {
    // SAFETY: the heap is initialised; a used page-block ends with the number of a live entry.
    unsafe {
        directory.fingerprint_pool(word);
        classes::fingerprint(directory, word);
        entries::fingerprint(directory, word);
        steps::fingerprint(directory, word);
        let _ = used_blocks(directory, &mut |size_class, _, address| {
            let number = back_reference(address, size_class.block_bytes as usize).read();
            word(number as usize);
            word((*entry_at(directory, number)).size.into());
            Ok(())
        });
    }
    word(free_list::NONE as usize);
}
