//! Abstract addresses: the entries to which handles refer, in pages taken from the pool on demand.
//!
//! ```text
//! handle { address, generation }
//!            |            '-------------------- must be equal --------------.
//!            '--> entry at base + 16 * address:  live  [ pointer to the object ][generation][size][page-block]
//!                                                free  [ next free ][next gen. ][    0     ][    -           ]
//! ```
//!
//! The paper reserves an array of them for the worst case, and leaves the following to future work. A page of the pool
//! becomes a page of entries when no entry is free, and can serve a size class again when all its entries are free.
//! Each page has its own free-list, so nothing is searched when the page is returned. Pages with a free entry are in a
//! ring, those without a used one at its end; the latter are reclaimed when the pool is empty:
//!
//! ```text
//! head <-> [used, free ...] <-> [used, free ...] <-> [all free] <-> [all free] <-> head
//!           ^ the next entry is taken here                           ^ the pool reclaims this one
//! ```
//!
//! # Generations
//!
//! An abstract address never has the same generation twice. The generation of an entry increases by one with every
//! object. The header of a page stores the highest generation that was freed in it. When the page is reclaimed, the
//! heap's *epoch* becomes larger than that, and the entries of a new page begin with the epoch. An entry whose
//! generations are used up (after 2^32 objects) is *retired*: it is never used again, and its 16 bytes are lost. So
//! that no new page begins with nearly used-up entries, a page in which a generation above 2^31 was freed remains a
//! page of entries.

use super::super::free_list::{FreeList, NONE};
use super::super::ladder::{Ladder, State};
use super::super::page::{Directory, Header, SPECIAL, SPECIAL_BYTES, header_of, node};
use super::Extra;
use crate::contract::{Corruption, Handle, HandleError};
use crate::mechanism::page::ring::{self, Node};
use core::mem::{offset_of, size_of};
use core::num::NonZeroU32;

/// The class of a page of entries.
pub(super) const ENTRIES: u8 = SPECIAL;

/// A page in which a generation above this was freed is not reclaimed.
const LAST_RETURN: u32 = 1 << 31;

/// An entry. On a 32-bit machine the second word of a live one is unused: entries are found by a shift.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Live: the object's address (see [`pointer()`]). Free: the number of the next free entry of the page, and the
    /// generation of its next object; 0 if the entry is retired.
    place: [u32; 2],
    /// The generation of the object; 0 if there is none.
    pub(super) generation: u32,
    /// Bytes requested.
    pub(super) size: u16,
    /// Number of the object's page-block in its page.
    pub(super) block: u16,
}

/// Bytes of an entry.
pub(in super::super) const ENTRY_BYTES: usize = 16;
const _: () = assert!(size_of::<Entry>() == ENTRY_BYTES && size_of::<usize>() <= 8);

/// The data of a page of entries, from [`Header::entries`] on, where other pages have the rows of their bitmap.
#[repr(C)]
#[derive(Debug)]
struct EntryPage {
    /// The free entries. `fresh` is the header's `entries`.
    list: FreeList,
    /// Highest generation of a freed object; `begin - 1` initially.
    highest: u32,
    /// Generation of the first object of each entry: the epoch when the page was taken.
    begin: u32,
}

const _: () = assert!(size_of::<EntryPage>() - size_of::<u32>() <= SPECIAL_BYTES);
const _: () = assert!(offset_of!(Header, entries) + size_of::<u32>() == size_of::<Header>());

fn entry_page(header: *mut Header) -> *mut EntryPage {
    header.wrapping_byte_add(offset_of!(Header, entries)).cast()
}

/// The object's address in a live entry, which a dereference loads.
pub(super) fn pointer(entry: *mut Entry) -> *mut usize {
    entry.cast()
}

/// The entries of a heap.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Entries {
    /// Head of the ring of the pages that have a free entry.
    head: Node,
    /// The first generation of new pages: above all that were freed in reclaimed pages. Not 0.
    epoch: u32,
    /// Number of retired entries.
    retired: u32,
}

type At<L, T> = Directory<L, Extra<T>>;

/// Number of entries of a page.
const fn room<L: Ladder>() -> usize {
    L::PAGE / ENTRY_BYTES
}

#[inline(always)]
fn entries<L: Ladder, T>(directory: At<L, T>) -> *mut Entries {
    directory.extra().wrapping_byte_add(offset_of!(Extra<T>, entries)).cast()
}

#[inline(always)]
fn ring_head<L: Ladder, T>(directory: At<L, T>) -> usize {
    entries(directory).addr() + offset_of!(Entries, head)
}

/// The entry of an abstract address.
#[inline(always)]
pub(super) fn entry_at<L: Ladder, T>(directory: At<L, T>, address: u32) -> *mut Entry {
    core::ptr::with_exposed_provenance_mut(directory.base().wrapping_add((address as usize).wrapping_mul(ENTRY_BYTES)))
}

/// Initialises the entries: there are none.
///
/// # Safety
///
/// The directory was planned in a region that the caller owns.
pub(super) unsafe fn begin<L: Ladder, T>(directory: At<L, T>) {
    let head = ring_head(directory);
    // SAFETY: the entries lie in the region, which the caller owns.
    unsafe { entries(directory).write(Entries { head: Node { prev: head, next: head }, epoch: 1, retired: 0 }) }
}

/// The live entry of a handle, and the header of its page.
///
/// # Errors
///
/// [`HandleError`].
///
/// # Safety
///
/// The heap is initialised.
#[inline(always)]
pub(super) unsafe fn find<L: Ladder, T>(
    directory: At<L, T>,
    handle: Handle,
) -> Result<(*mut Entry, *mut Header), HandleError> {
    let address = handle.address() as usize;
    let (page, index) = (address / room::<L>(), address % room::<L>());
    // SAFETY: a page that has been taken has a header, and the entries that it counts are initialised.
    unsafe {
        if page < (*directory.pool()).list.fresh as usize {
            let header = directory.header(page);
            if index < (*header).entries as usize {
                let entry = entry_at(directory, address as u32);
                let generation = handle.generation();
                if generation != 0 && generation == (*entry).generation {
                    return Ok((entry, header));
                }
            }
        }
        Err(refusal(directory, handle))
    }
}

/// The error for a handle without a live entry. The handle is stale if its generation was given to its entry, or if it
/// is from before the epoch, because an entry of a page since reclaimed may have had it.
///
/// # Safety
///
/// As [`find`].
#[cold]
#[inline(never)]
unsafe fn refusal<L: Ladder, T>(directory: At<L, T>, handle: Handle) -> HandleError {
    let address = handle.address() as usize;
    let (page, index) = (address / room::<L>(), address % room::<L>());
    // SAFETY: a page that has been taken has a header, and the entries that it counts are initialised.
    unsafe {
        if page >= (*directory.pool()).list.fresh as usize || handle.generation() == 0 {
            return HandleError::Foreign;
        }
        let generation = handle.generation();
        let mut was_given = generation < (*entries(directory)).epoch;
        let header = directory.header(page);
        if index < (*header).entries as usize {
            let entry = entry_at(directory, address as u32).read();
            was_given |= match (entry.generation, entry.place[1]) {
                // Retired: all generations were given.
                (0, 0) => true,
                (0, next) => generation < next,
                (present, _) => generation < present,
            };
        }
        if was_given { HandleError::Stale } else { HandleError::Foreign }
    }
}

/// An entry that was taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// The entry.
    pub(super) entry: *mut Entry,
    /// Its abstract address.
    pub(super) address: u32,
    /// The generation of its object.
    pub(super) generation: NonZeroU32,
}

/// Takes an entry, which the caller makes live. `None` if none is free and there is no page; then nothing has changed.
///
/// # Safety
///
/// The heap is initialised.
///
/// # Time
///
/// Constant.
#[inline(always)]
pub(super) unsafe fn take<L: Ladder, T>(directory: At<L, T>) -> Option<Taken> {
    // SAFETY: the heap is initialised; `first` returns the first page of the ring.
    unsafe {
        match first(directory) {
            Some(page) => Some(take_from(directory, page)),
            None => open(directory),
        }
    }
}

/// Takes an entry of the [`first`] page that has a free one.
///
/// # Safety
///
/// `header` is that page.
///
/// # Time
///
/// Constant.
#[inline(always)]
pub(super) unsafe fn take_from<L: Ladder, T>(directory: At<L, T>, header: *mut Header) -> Taken {
    // SAFETY: the page is in the ring, so it has a free entry, and its list leads to initialised entries.
    unsafe {
        let data = entry_page(header);
        let at = |index: u32| {
            let address = (*header).page.wrapping_mul(room::<L>() as u32).wrapping_add(index);
            (address, entry_at(directory, address))
        };
        let mut generation = (*data).begin;
        let link = |index| {
            let (_, entry) = at(index);
            let [next, next_generation] = (*entry).place;
            generation = next_generation;
            next
        };
        let index = (*data).list.take(room::<L>() as u32, link).unwrap_unchecked();
        let (address, entry) = at(index);
        let used = (*header).state.used.wrapping_add(1);
        (*header).state.used = used;
        if usize::from(used) == room::<L>() {
            ring::remove(node(header));
        }
        // The generation in a free entry is not 0, because otherwise the entry would be retired.
        Taken { entry, address, generation: NonZeroU32::new_unchecked(generation) }
    }
}

/// Makes a page one of entries, and takes its first entry.
///
/// # Safety
///
/// The heap is initialised, and the ring is empty.
#[inline(always)]
unsafe fn open<L: Ladder, T>(directory: At<L, T>) -> Option<Taken> {
    // SAFETY: the heap owns the page and its header. The epoch is not 0.
    unsafe {
        let header = directory.take_page()?;
        let begin = (*entries(directory)).epoch;
        (*header).state = State { used: 1, free_rows: 0, used_rows: 0, class: ENTRIES, spare: 0 };
        let list = FreeList { fresh: 1, returned: NONE };
        entry_page(header).write(EntryPage { list, highest: begin.wrapping_sub(1), begin });
        ring::insert_after(ring_head(directory), node(header));
        let address = (*header).page.wrapping_mul(room::<L>() as u32);
        Some(Taken { entry: entry_at(directory, address), address, generation: NonZeroU32::new_unchecked(begin) })
    }
}

/// Frees an entry: its handles are stale from now on.
///
/// # Safety
///
/// The entry is live, and `header` is that of its page.
///
/// # Time
///
/// Constant.
#[inline(always)]
pub(super) unsafe fn free<L: Ladder, T>(directory: At<L, T>, entry: *mut Entry, header: *mut Header) {
    // SAFETY: the entry is live, and `header` is that of its page, which is one of entries.
    unsafe {
        let generation = (*entry).generation;
        let data = entry_page(header);
        (*data).highest = (*data).highest.max(generation);
        put_back(directory, entry, header, generation.wrapping_add(1));
    }
}

/// Makes an entry free; `next` is the generation of its next object.
///
/// # Safety
///
/// The entry is live, and `header` is that of its page.
#[inline(always)]
unsafe fn put_back<L: Ladder, T>(directory: At<L, T>, entry: *mut Entry, header: *mut Header, next: u32) {
    // SAFETY: the entry is live, and `header` is that of its page, which is one of entries.
    unsafe {
        (*entry).generation = 0;
        if next == 0 {
            retire(directory, entry);
            return;
        }
        let data = entry_page(header);
        let index = entry.addr().wrapping_sub(directory.base()) % L::PAGE / ENTRY_BYTES;
        (*entry).place = [(*data).list.returned, next];
        (*data).list.returned = index as u32;
        let used = (*header).state.used;
        (*header).state.used = used.wrapping_sub(1);
        if usize::from(used) == room::<L>() {
            ring::insert_after(ring_head(directory), node(header));
        } else if used == 1 && can_go(header) {
            // To the end of the ring, from which pages are reclaimed.
            ring::remove(node(header));
            ring::insert_after(ring::prev(ring_head(directory)), node(header));
        }
    }
}

/// Retires an entry without further generations. It counts as used, so its page stays.
///
/// # Safety
///
/// As [`put_back`].
#[cold]
#[inline(never)]
unsafe fn retire<L: Ladder, T>(directory: At<L, T>, entry: *mut Entry) {
    // SAFETY: the entry belongs to a page of entries, and the heap is initialised.
    unsafe {
        (*entry).place = [NONE, 0];
        let entries = entries(directory);
        (*entries).retired = (*entries).retired.wrapping_add(1);
    }
}

/// Whether a page without used entries may serve a size class again.
///
/// # Safety
///
/// The header is that of a page of entries.
#[inline(always)]
unsafe fn can_go(header: *mut Header) -> bool {
    // SAFETY: the header is that of a page of entries, which has this data.
    unsafe { (*entry_page(header)).highest < LAST_RETURN }
}

/// Whether [`take_back`] may reclaim a page of entries.
///
/// # Safety
///
/// As [`can_go`].
#[inline(always)]
unsafe fn is_idle(header: *mut Header) -> bool {
    // SAFETY: the header is that of a page of entries.
    unsafe { (*header).state.used == 0 && can_go(header) }
}

/// The page that serves the next entry. `None` if a page is needed.
///
/// # Safety
///
/// The heap is initialised.
#[inline(always)]
pub(super) unsafe fn first<L: Ladder, T>(directory: At<L, T>) -> Option<*mut Header> {
    let head = ring_head(directory);
    // SAFETY: the heap is initialised, and so is the head.
    let first = unsafe { ring::next(head) };
    (first != head).then(|| header_of(first))
}

/// Returns the last page of the ring to the pool if it has no used entry, unless it is the only one and `but_one` must
/// stay. Returns whether it did.
///
/// # Safety
///
/// The heap is initialised.
///
/// # Time
///
/// Constant.
#[cold]
#[inline(never)]
pub(super) unsafe fn take_back<L: Ladder, T>(directory: At<L, T>, but_one: bool) -> bool {
    let head = ring_head(directory);
    // SAFETY: the heap is initialised, and the ring holds pages of entries.
    unsafe {
        let last = ring::prev(head);
        if last == head || !is_idle(header_of(last)) || (but_one && last == ring::next(head)) {
            return false;
        }
        let header = header_of(last);
        ring::remove(last);
        let entries = entries(directory);
        // Not 0, because the highest generation of such a page is below 2^31.
        (*entries).epoch = (*entries).epoch.max((*entry_page(header)).highest.wrapping_add(1));
        directory.give_page(header);
        true
    }
}

/// Whether an object can get an entry, and whether it can get an entry and a page.
///
/// # Safety
///
/// The heap is initialised.
pub(super) unsafe fn supply<L: Ladder, T>(directory: At<L, T>) -> (bool, bool) {
    let head = ring_head(directory);
    // SAFETY: the heap is initialised, and the ring holds pages of entries.
    unsafe {
        let (free_pages, first, last) = (directory.free_pages(), ring::next(head), ring::prev(head));
        if first == head {
            return (free_pages >= 1, free_pages >= 2);
        }
        // The first page serves the entry, and stays even if it is idle now.
        (true, free_pages >= 1 || (last != first && is_idle(header_of(last))))
    }
}

/// Verifies the pages of entries and their free-lists; returns the number of live entries.
///
/// # Errors
///
/// The first [`Corruption`].
///
/// # Safety
///
/// The heap is initialised, and its pool is verified.
pub(super) unsafe fn check<L: Ladder, T>(directory: At<L, T>) -> Result<usize, Corruption> {
    fn broken<R>(invariant: &'static str, address: usize) -> Result<R, Corruption> {
        Err(Corruption { invariant, address })
    }
    let (mut live, mut retired, mut not_full) = (0, 0, 0);
    // SAFETY: only headers of pages that have been taken are read, and only their entries that have been taken.
    unsafe {
        for header in directory.headers().filter(|&header| (*header).state.class == ENTRIES) {
            let EntryPage { list, highest, begin } = entry_page(header).read();
            if list.fresh as usize > room::<L>() || begin == 0 || highest < begin - 1 {
                return broken(
                    "entries of a page are taken in their order, with generations from its epoch on",
                    header.addr(),
                );
            }
            let first = (*header).page as usize * room::<L>();
            let at = |index: u32| entry_at(directory, (first + index as usize) as u32);
            let (mut free, mut listed_free, mut here) = (0, 0, 0);
            for index in 0..list.fresh {
                let entry = at(index).read();
                match (entry.generation, entry.place[1]) {
                    (0, 0) => retired += 1,
                    (0, next) if next - 1 > highest && next != begin => {
                        return broken("a page of entries has its highest generation", header.addr());
                    }
                    (0, _) => free += 1,
                    _ => here += 1,
                }
            }
            let is_free = |index| (*at(index)).generation == 0 && (*at(index)).place[1] != 0;
            let listed =
                list.walk(|index| (*at(index)).place[0], &mut |index| listed_free += u32::from(is_free(index)));
            if listed != Some(free) || listed_free != free {
                return broken("the free-list of a page holds each free entry once", header.addr());
            }
            if u32::from((*header).state.used) != list.fresh - free {
                return broken("a page counts its used entries", header.addr());
            }
            not_full += usize::from(usize::from((*header).state.used) < room::<L>());
            live += here;
        }
        let mut seen_idle = false;
        let in_ring = directory.check_ring(ring_head(directory), &mut |header| {
            if (*header).state.class != ENTRIES || usize::from((*header).state.used) >= room::<L>() {
                return broken("the ring of entries holds pages with a free entry", header.addr());
            }
            if seen_idle && !is_idle(header) {
                return broken("pages without a used entry are at the end of their ring", header.addr());
            }
            seen_idle |= is_idle(header);
            Ok(())
        })?;
        if in_ring != not_full {
            return broken("every page with a free entry is in the ring of entries", ring_head(directory));
        }
        if (*entries(directory)).epoch == 0 {
            return broken("no generation is 0", entries(directory).addr());
        }
        if (*entries(directory)).retired != retired {
            return broken("the number of retired entries is correct", entries(directory).addr());
        }
    }
    Ok(live)
}

/// Whether a live entry has this abstract address.
///
/// # Safety
///
/// The heap is initialised.
pub(super) unsafe fn is_live<L: Ladder, T>(directory: At<L, T>, address: u32) -> bool {
    let (page, index) = (address as usize / room::<L>(), address as usize % room::<L>());
    // SAFETY: a page that has been taken has a header, and the entries that it counts are initialised.
    unsafe {
        page < (*directory.pool()).list.fresh as usize
            && index < (*directory.header(page)).entries as usize
            && (*entry_at(directory, address)).generation != 0
    }
}

/// Emits which entries are taken next, and which are used.
///
/// # Safety
///
/// The heap is initialised, and its invariants hold.
pub(super) unsafe fn fingerprint<L: Ladder, T>(directory: At<L, T>, word: &mut dyn FnMut(usize)) {
    // SAFETY: the invariants hold, so the ring leads to pages of entries, and their lists to initialised entries.
    unsafe {
        let _ = directory.check_ring(ring_head(directory), &mut |header| {
            word((*header).page as usize);
            let list = (*entry_page(header)).list;
            word(list.fresh as usize);
            let first = (*header).page as usize * room::<L>();
            let at = |index: u32| entry_at(directory, (first + index as usize) as u32);
            let _ = list.walk(|index| (*at(index)).place[0], &mut |index| word(index as usize));
            word(usize::MAX);
            Ok(())
        });
        word(usize::MAX);
    }
}
