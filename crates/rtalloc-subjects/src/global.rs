//! Shared heaps as programs use them: as the global allocator.

use crate::adapter::{self, AsDefault, Choice, Made, Ours, Target};
use crate::{About, Origin, Reach, Subject, View, one_slot};
use rtalloc::adapt::{CurrentSlot, Global, SingleUser};
use rtalloc::concurrent::tree_buddy::TreeBuddy;
use rtalloc::contract::{Block, SharedAllocator};
use std::alloc::{GlobalAlloc as _, Layout};
use std::cell::Cell;
use std::ffi::c_void;
use std::hint::black_box;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, transmute_copy};

/// A subject that is one of our shared heaps with one user, who calls it through [`Global`].
pub const fn subject<H: SharedAllocator<'static> + 'static, C: Choice<H::Config>>(
    name: &'static str,
    about: About,
) -> Subject {
    let contract = H::CONTRACT.single_user;
    let (family, cost) = (contract.mechanism.name(), contract.allocate.notation());
    adapter::subject::<AsGlobal<H, C>>(name, Origin::Ours, family, cost, about)
}

/// A heap that refuses every request it cannot serve as *contended*, also where it has one user: with it, repetitions
/// of such requests can be observed.
pub static CONTENDED: Subject = subject::<TreeBuddy<'static>, AsDefault>(
    "tree-buddy-global",
    About { loop_limits: one_slot::TREE_BUDDY, ..About::NOTHING },
);

thread_local! {
    static NUMBER: Cell<usize> = const { Cell::new(0) };
}

/// The number of the calling thread, as a program writes it that has a slot for each: a type of its own, since a call
/// through a pointer has no bound.
#[derive(Clone, Copy, Debug)]
struct ThreadNumber;

// SAFETY: a heap of this module has one user at a time, whose operations come one after the other.
unsafe impl CurrentSlot for ThreadNumber {
    const EXCLUSIVE: bool = true;
    const SERVES_OTHERS: bool = false;

    #[inline(always)]
    fn hint(&self) -> usize {
        NUMBER.get()
    }

    #[inline(always)]
    fn own(&self, slots: usize) -> Option<usize> {
        let number = NUMBER.get();
        (number < slots).then_some(number)
    }
}

/// A shared heap behind [`Global`], which lies at the start of the region: a copy of the region is one of the heap.
#[derive(Debug)]
struct AsGlobal<H, C>(PhantomData<(H, C)>);

impl<H: SharedAllocator<'static>, C> AsGlobal<H, C> {
    #[inline(always)]
    unsafe fn of<'a>(context: *mut c_void) -> &'a Global<H, ThreadNumber> {
        // SAFETY: `make` wrote it there, and it is never written as a whole again.
        unsafe { &*context.cast() }
    }

    /// The context of the heap as one with a single user.
    unsafe fn alone(context: *mut c_void) -> *mut c_void {
        const { assert!(size_of::<H>() == size_of::<*mut c_void>(), "the value is one pointer") }
        // SAFETY: `context` came from `make`, which made the heap; `SingleUser` is its one pointer.
        unsafe { transmute_copy(Self::of(context).heap().expect("made")) }
    }

    unsafe fn fingerprint(context: *mut c_void, word: &mut dyn FnMut(usize)) {
        let view = <Ours<SingleUser<'static, H>> as Target>::VIEW.expect("ours");
        // SAFETY: the context of the only user, who calls no operation meanwhile.
        unsafe { (view.fingerprint)(Self::alone(context), word) }
    }

    unsafe fn walk(context: *mut c_void, visitor: &mut dyn FnMut(Block)) {
        let view = <Ours<SingleUser<'static, H>> as Target>::VIEW.expect("ours");
        // SAFETY: as above.
        unsafe { (view.walk)(Self::alone(context), visitor) }
    }
}

// SAFETY: the contract of SharedAllocator guarantees it for every implementation.
unsafe impl<H: SharedAllocator<'static> + 'static, C: Choice<H::Config>> Target for AsGlobal<H, C> {
    const REPORTS_GRANTED: bool = true;
    const NATURAL_ALIGN_BYTES: usize = <Ours<SingleUser<'static, H>> as Target>::NATURAL_ALIGN_BYTES;
    const REACH: Reach = <Ours<SingleUser<'static, H>> as Target>::REACH;
    const VIEW: Option<View> = Some(View {
        contract: H::CONTRACT.single_user,
        fingerprint: Self::fingerprint,
        walk: Self::walk,
        // A `Global` repeats some refused requests.
        largest: None,
    });

    unsafe fn make(region: *mut u8, bytes: usize) -> Result<Made, String> {
        let bytes = bytes.min(H::CONTRACT.single_user.max_span_bytes);
        let context = region.wrapping_add(region.align_offset(align_of::<Global<H, ThreadNumber>>()));
        let start = context.wrapping_add(size_of::<Global<H, ThreadNumber>>());
        let rest = bytes.checked_sub(start.addr() - region.addr()).ok_or("no room for a `Global`")?;
        // The compiler must not take the number for a constant.
        NUMBER.set(black_box(0));
        // SAFETY: the caller gives the region exclusively to this heap, for as long as it is used, and both parts are
        // in it.
        unsafe {
            let global: *mut Global<H, ThreadNumber> = context.cast();
            global.write(Global::without_memory(ThreadNumber, Some(C::config())));
            let memory: &'static mut [MaybeUninit<u8>] = std::slice::from_raw_parts_mut(start.cast(), rest);
            (*global).init_in(memory).map_err(|error| error.to_string())?;
        }
        let mut first_block_address = usize::MAX;
        // SAFETY: the heap has just been made.
        unsafe {
            Self::walk(context.cast(), &mut |block| {
                first_block_address = first_block_address.min(block.address - block.front_bytes);
            });
        }
        Ok(Made { context: context.cast(), first_block_address, outside_bytes: 0 })
    }

    unsafe fn release(_context: *mut c_void) {}

    #[inline(always)]
    unsafe fn allocate(context: *mut c_void, size: usize, align: usize) -> *mut u8 {
        // SAFETY: `context` came from `make`, and the caller guarantees a valid layout.
        unsafe { Self::of(context).alloc(Layout::from_size_align_unchecked(size, align)) }
    }

    #[inline(always)]
    unsafe fn deallocate(context: *mut c_void, block: *mut u8, size: usize, align: usize) {
        // SAFETY: `context` came from `make`, `block` from `allocate` with this layout.
        unsafe { Self::of(context).dealloc(block, Layout::from_size_align_unchecked(size, align)) }
    }

    #[inline(always)]
    unsafe fn reallocate(context: *mut c_void, block: *mut u8, old: usize, align: usize, new: usize) -> *mut u8 {
        // SAFETY: `context` came from `make`, `block` from `allocate` with this layout.
        unsafe { Self::of(context).realloc(block, Layout::from_size_align_unchecked(old, align), new) }
    }

    unsafe fn granted(context: *mut c_void, block: *mut u8, size: usize, align: usize) -> usize {
        // SAFETY: the context of the only user; `block` came from `allocate`.
        unsafe { <Ours<SingleUser<'static, H>> as Target>::granted(Self::alone(context), block, size, align) }
    }
}
