//! A shared heap as one allocator for all callers: each call determines its slot.

use super::current::CurrentSlot;
use crate::arithmetic::count;
use crate::contract::{SharedAllocator, SharedError, Slot};
use crate::mechanism::pair_result::PairResult;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;

/// Most repetitions of a request that was refused because of other users' operations.
const REPETITIONS: usize = 16;
/// What a caller without a slot gets.
const NO_SLOT: SharedError = SharedError::Contended;
/// Blocks taken back between two retries of a request that was refused while some were left to take back.
const RECLAIMED: usize = 64;

/// A shared heap whose operations use the slot given by `C`.
///
/// A request is one operation of the caller's slot, with its bound ([`max_steps`](SharedAllocator::max_steps)), except
/// that one refused with [`SharedError::Contended`] is repeated up to 16 times. Only where `C` insists
/// ([`CurrentSlot::INSISTS`]: `ThreadSlots`), a request that the slot refuses has no bound: it is repeated until all
/// queued remote frees of the slot are taken back, and then tried in slots that no thread uses. With the feature
/// `allocator-api2`, `&Joint` is an `allocator_api2::alloc::Allocator`.
///
/// ```
/// # #[cfg(all(feature = "lock_api", feature = "allocator-api2"))] {
/// use allocator_api2::vec::Vec;
/// use core::mem::MaybeUninit;
/// use rtalloc::adapt::{AnySlot, Joint, Locked};
/// use rtalloc::{SharedAllocator, Tlsf};
///
/// let mut memory = [MaybeUninit::uninit(); 4096];
/// let heap: Locked<Tlsf, spin::Mutex<()>> = Locked::new(&mut memory, Default::default()).expect("large enough");
/// let heap = Joint::new(&heap, AnySlot).expect("no slot is taken");
/// let mut numbers = Vec::new_in(&heap);
/// numbers.extend(1..=100);
/// assert_eq!(numbers.iter().sum::<i32>(), 5050);
/// # }
/// ```
pub struct Joint<'h, 'r, H: SharedAllocator<'r>, C> {
    heap: &'h H,
    current: C,
    region: PhantomData<&'r ()>,
}

impl<'h, 'r, H: SharedAllocator<'r>, C: CurrentSlot> Joint<'h, 'r, H, C> {
    /// Takes every slot of the heap, where slots are exclusive, until it is dropped. `None` if one is taken already.
    ///
    /// # Time
    ///
    /// Linear in the number of slots.
    pub fn new(heap: &'h H, current: C) -> Option<Self> {
        take_all(heap).then_some(Joint { heap, current, region: PhantomData })
    }

    /// The source of slots.
    pub fn current(&self) -> &C {
        &self.current
    }

    /// The operations.
    #[inline(always)]
    pub(super) fn operations(&self) -> Operations<'_, 'r, H, C> {
        Operations { heap: self.heap, current: &self.current, region: PhantomData }
    }

    /// Allocates `size_bytes` bytes at a multiple of `align_bytes`; every value of both is legal.
    ///
    /// # Errors
    ///
    /// [`SharedError`]; [`SharedError::Contended`] also if the caller has no slot.
    ///
    /// # Time
    ///
    /// As [`Slot::allocate_bytes`], repeated up to 16 times under contention. Unbounded where the slot has no memory
    /// and `C` insists: linear in the remote frees queued for the slot and for unused ones, after waiting for a lock.
    #[inline]
    pub fn allocate_bytes(&self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, SharedError> {
        self.operations().allocate(size_bytes, align_bytes)
    }

    /// Frees a block.
    ///
    /// # Safety
    ///
    /// As [`Slot::deallocate`].
    ///
    /// # Time
    ///
    /// As [`Slot::deallocate`].
    #[inline]
    pub unsafe fn deallocate(&self, block: NonNull<u8>) {
        // SAFETY: the caller guarantees that the block is live in this heap and no longer used.
        unsafe { self.operations().deallocate(block) }
    }

    /// Takes back at most `budget` blocks of the caller's slot that others freed, and returns how many, as
    /// [`Slot::reclaim`]: for idle time.
    ///
    /// # Time
    ///
    /// Linear in `budget`.
    pub fn reclaim(&self, budget: usize) -> usize {
        self.operations().reclaim(budget)
    }
}

impl<'r, H: SharedAllocator<'r>, C> Drop for Joint<'_, 'r, H, C> {
    fn drop(&mut self) {
        release_first(self.heap, if H::CONTRACT.slots_are_exclusive { self.heap.slots() } else { 0 });
    }
}

impl<'r, H: SharedAllocator<'r>, C: fmt::Debug> fmt::Debug for Joint<'_, 'r, H, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joint").field("current", &self.current).finish_non_exhaustive()
    }
}

/// Takes every slot of a heap whose slots are exclusive, or none; the caller then assigns them.
pub(super) fn take_all<'r, H: SharedAllocator<'r>>(heap: &H) -> bool {
    if !H::CONTRACT.slots_are_exclusive {
        return true;
    }
    let slots = heap.slots();
    // Loop bound: slots
    let taken = count((0..slots).take_while(|&slot| heap.take(slot)));
    if taken < slots {
        release_first(heap, taken);
    }
    taken == slots
}

/// Releases slots that [`take_all`] took.
fn release_first<'r, H: SharedAllocator<'r>>(heap: &H, slots: usize) {
    // Loop bound: slots
    for slot in 0..slots {
        // SAFETY: taken by `take_all`, and no longer used.
        unsafe { heap.release(slot) }
    }
}

/// The operations of a shared heap for all callers.
pub(super) struct Operations<'h, 'r, H, C> {
    /// Every slot of it is taken, if slots are exclusive.
    pub(super) heap: &'h H,
    pub(super) current: &'h C,
    pub(super) region: PhantomData<&'r ()>,
}

impl<H, C> Clone for Operations<'_, '_, H, C> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<H, C> Copy for Operations<'_, '_, H, C> {}

impl<'h, 'r, H: SharedAllocator<'r>, C: CurrentSlot> Operations<'h, 'r, H, C> {
    /// The caller's slot, if it has one of its own.
    #[inline(always)]
    fn own(self) -> Option<H::Slot<'h>> {
        const {
            assert!(
                C::EXCLUSIVE || !H::CONTRACT.slots_are_exclusive,
                "the heap needs exclusive slots, which this CurrentSlot does not give"
            )
        }
        let number = match H::CONTRACT.slots_are_exclusive {
            true => self.current.own(self.heap.slots())?,
            false => self.current.hint(),
        };
        // SAFETY: all slots are taken; if they are exclusive, no other caller has this number until the operation ends.
        Some(unsafe { self.heap.slot(number) })
    }

    /// Runs an operation in a slot for a caller that has none of its own, if there is one.
    #[inline(always)]
    fn with_other<T>(self, operation: impl FnOnce(&mut H::Slot<'h>) -> T) -> Option<T> {
        if !C::SERVES_OTHERS {
            return None;
        }
        // SAFETY: as in `own`.
        self.current.with(self.heap.slots(), |number| operation(&mut unsafe { self.heap.slot(number) }))
    }

    /// Allocates for a caller that has no slot of its own. Apart, here and below, so that others save no registers.
    #[cold]
    #[inline(never)]
    fn allocate_for_other(self, size_bytes: usize, align_bytes: usize) -> PairResult<SharedError> {
        self.with_other(|slot| slot.allocate_bytes(size_bytes, align_bytes)).unwrap_or(Err(NO_SLOT)).into()
    }

    /// Frees a block for a caller that has no slot of its own.
    ///
    /// # Safety
    ///
    /// As [`Slot::deallocate`].
    #[cold]
    #[inline(never)]
    unsafe fn deallocate_for_other(self, block: NonNull<u8>) {
        // SAFETY: the caller guarantees that the block is live in this heap and no longer used.
        self.with_other(|slot| unsafe { slot.deallocate(block) });
    }

    /// Runs an operation in the caller's slot, if there is one.
    fn with<T>(self, operation: impl FnOnce(&mut H::Slot<'h>) -> T) -> Option<T> {
        match self.own() {
            Some(mut slot) => Some(operation(&mut slot)),
            None => self.with_other(operation),
        }
    }

    /// See [`Joint::allocate_bytes`]. Where slots own memory, alignments beyond that of every block have code of their
    /// own, so that the bounds of other requests exclude it. Other heaps get the alignment as requested: they may record
    /// it ([`Traced`](super::Traced)), and one copy of their code suffices.
    #[inline(always)]
    pub(super) fn allocate(self, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, SharedError> {
        if !H::CONTRACT.slots_are_exclusive {
            return self.allocate_at::<true>(size_bytes, align_bytes);
        }
        match align_bytes.is_power_of_two() && align_bytes <= H::CONTRACT.single_user.alignment_bytes {
            true => self.allocate_at::<false>(size_bytes, 1),
            false => self.allocate_aligned(size_bytes, align_bytes).into(),
        }
    }

    #[inline(never)]
    fn allocate_aligned(self, size_bytes: usize, align_bytes: usize) -> PairResult<SharedError> {
        self.allocate_at::<true>(size_bytes, align_bytes).into()
    }

    /// Without `ALIGNED`, here and below, at the alignment of every block.
    #[inline(always)]
    fn allocate_at<const ALIGNED: bool>(
        self,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, SharedError> {
        // Apart, so that the operation is inlined into the usual path.
        let answer = match self.own() {
            Some(mut slot) => slot.allocate_bytes(size_bytes, align_bytes),
            None if C::SERVES_OTHERS => self.allocate_for_other(size_bytes, align_bytes).into(),
            None => return Err(NO_SLOT),
        };
        match answer {
            Ok(block) => Ok(block),
            Err(error) => self.insist::<ALIGNED>(error, size_bytes, align_bytes).into(),
        }
    }

    /// Allocates after the caller's slot has refused with `error`.
    #[cold]
    #[inline(never)]
    fn insist<const ALIGNED: bool>(
        self,
        error: SharedError,
        size_bytes: usize,
        align_bytes: usize,
    ) -> PairResult<SharedError> {
        // Other memory is for callers that insist, where slots own it. Contention passes.
        if !(C::INSISTS && H::CONTRACT.slots_are_exclusive) {
            return match error {
                SharedError::Contended => self.retry::<ALIGNED>(size_bytes, align_bytes),
                _ => Err(error).into(),
            };
        }
        if matches!(error, SharedError::Request(_)) {
            return Err(error).into();
        }
        let error = match self.with(|slot| repeat(slot, size_bytes, align_bytes)) {
            Some(Ok(block)) => return Ok(block).into(),
            Some(Err(error)) => error,
            None => error,
        };
        let answer = self.current.elsewhere(self.heap.slots(), |slot| {
            // SAFETY: all slots are taken, and no other caller has this number until the operation ends.
            repeat(&mut unsafe { self.heap.slot(slot) }, size_bytes, align_bytes).ok()
        });
        answer.ok_or(error).into()
    }

    /// Repeats a request that was refused as contended, up to [`REPETITIONS`] times.
    #[cold]
    #[inline(never)]
    fn retry<const ALIGNED: bool>(self, size_bytes: usize, align_bytes: usize) -> PairResult<SharedError> {
        up_to_four_times(|| self.retry_a_few_times::<ALIGNED>(size_bytes, align_bytes).into()).into()
    }

    /// Apart, so that there is one copy of the calls.
    #[cold]
    #[inline(never)]
    fn retry_a_few_times<const ALIGNED: bool>(self, size_bytes: usize, align_bytes: usize) -> PairResult<SharedError> {
        up_to_four_times(|| self.allocate_once_more::<ALIGNED>(size_bytes, align_bytes).into()).into()
    }

    #[cold]
    #[inline(never)]
    fn allocate_once_more<const ALIGNED: bool>(self, size_bytes: usize, align_bytes: usize) -> PairResult<SharedError> {
        let align_bytes = if ALIGNED { align_bytes } else { 1 };
        self.with(|slot| slot.allocate_bytes(size_bytes, align_bytes)).unwrap_or(Err(NO_SLOT)).into()
    }

    /// See [`Joint::reclaim`].
    pub(super) fn reclaim(self, budget: usize) -> usize {
        self.with(|slot| slot.reclaim(budget)).unwrap_or(0)
    }

    /// See [`Joint::deallocate`].
    ///
    /// # Safety
    ///
    /// As [`Slot::deallocate`].
    #[inline(always)]
    pub(super) unsafe fn deallocate(self, block: NonNull<u8>) {
        match self.own() {
            // SAFETY: the caller guarantees that the block is live in this heap and no longer used.
            Some(mut slot) => unsafe { slot.deallocate(block) },
            // SAFETY: as above.
            None => unsafe { self.deallocate_for_other(block) },
        }
    }

    /// Changes the size of a block of `old_bytes`, as [`Slot::reallocate_bytes`], with memory of other slots if needed.
    ///
    /// # Errors
    ///
    /// As [`allocate`](Self::allocate); the old block is then live and unchanged.
    ///
    /// # Safety
    ///
    /// As [`Slot::reallocate_bytes`].
    #[cfg(any(target_has_atomic = "ptr", feature = "critical-section", feature = "allocator-api2"))]
    #[inline(always)]
    pub(super) unsafe fn reallocate(
        self,
        block: NonNull<u8>,
        old_bytes: usize,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, SharedError> {
        // SAFETY: the caller guarantees that the block is live in this heap.
        let resize = |slot: &mut H::Slot<'h>| unsafe { slot.reallocate_bytes(block, size_bytes, align_bytes) };
        let answer = self.with(resize).unwrap_or(Err(NO_SLOT));
        match answer {
            Ok(block) => Ok(block),
            Err(error @ SharedError::Request(_)) => Err(error),
            // SAFETY: the caller guarantees that the block is live, has `old_bytes`, and the refusal left it unchanged.
            Err(error) => unsafe { self.replace(error, block, old_bytes, size_bytes, align_bytes) },
        }
    }

    /// Moves a block after the caller's slot has refused to resize it with `error`.
    ///
    /// # Safety
    ///
    /// As [`reallocate`](Self::reallocate).
    #[cfg(any(target_has_atomic = "ptr", feature = "critical-section", feature = "allocator-api2"))]
    #[cold]
    #[inline(never)]
    unsafe fn replace(
        self,
        error: SharedError,
        block: NonNull<u8>,
        old_bytes: usize,
        size_bytes: usize,
        align_bytes: usize,
    ) -> Result<NonNull<u8>, SharedError> {
        let moved = Result::from(self.insist::<true>(error, size_bytes, align_bytes))?;
        // SAFETY: both blocks are live and disjoint, and at least as long as the copy; the old one is dead now.
        unsafe {
            moved.copy_from_nonoverlapping(block, old_bytes.min(size_bytes));
            self.deallocate(block);
        }
        Ok(moved)
    }
}

/// Asks up to four times, until the answer is not *contended*. This is no loop: compilers keep the address of the
/// function that a loop calls in a register, and no bound is proved for a call through a register.
#[inline(always)]
fn up_to_four_times(request: impl Fn() -> Result<NonNull<u8>, SharedError>) -> Result<NonNull<u8>, SharedError> {
    let unless_contended = || match request() {
        Err(SharedError::Contended) => None,
        answer => Some(answer),
    };
    match unless_contended().or_else(unless_contended).or_else(unless_contended) {
        Some(answer) => answer,
        None => request(),
    }
}

/// Allocates in a slot, and retries while that may help: after contention, or while blocks are left to take back.
fn repeat(slot: &mut impl Slot, size_bytes: usize, align_bytes: usize) -> Result<NonNull<u8>, SharedError> {
    let mut failures = 0;
    // Loop bound: repetitions, and queued remote frees / 64
    loop {
        let answer = slot.allocate_bytes(size_bytes, align_bytes);
        match answer {
            Err(SharedError::Pending) if slot.reclaim(RECLAIMED) != 0 => {}
            Err(SharedError::Pending | SharedError::Contended) if failures < REPETITIONS => failures += 1,
            _ => return answer,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::adapt::AnySlot;
    use crate::concurrent::tree_buddy::TreeBuddy;
    use core::mem::MaybeUninit;
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::vec::Vec;

    /// A slot with scripted answers; the last one repeats forever.
    struct Script {
        answers: VecDeque<Result<NonNull<u8>, SharedError>>,
        reclaimed: VecDeque<usize>,
        asked: usize,
    }

    // SAFETY: no block is ever accessed.
    unsafe impl Slot for Script {
        fn allocate_bytes(&mut self, _size_bytes: usize, _align_bytes: usize) -> Result<NonNull<u8>, SharedError> {
            self.asked += 1;
            let answer = self.answers[0];
            if self.answers.len() > 1 {
                self.answers.pop_front();
            }
            answer
        }

        unsafe fn deallocate(&mut self, _block: NonNull<u8>) {}

        unsafe fn reallocate_bytes(
            &mut self,
            _block: NonNull<u8>,
            _size_bytes: usize,
            _align_bytes: usize,
        ) -> Result<NonNull<u8>, SharedError> {
            Err(SharedError::Exhausted)
        }

        unsafe fn usable_size(&self, _block: NonNull<u8>) -> usize {
            0
        }

        fn reclaim(&mut self, budget: usize) -> usize {
            assert_eq!(budget, RECLAIMED);
            self.reclaimed.pop_front().unwrap_or(0)
        }
    }

    fn script(answers: &[Result<NonNull<u8>, SharedError>], reclaimed: &[usize]) -> Script {
        let (answers, reclaimed) = (answers.iter().copied().collect(), reclaimed.iter().copied().collect());
        Script { answers, reclaimed, asked: 0 }
    }

    fn repeated(answers: &[Result<NonNull<u8>, SharedError>], reclaimed: &[usize]) -> (bool, usize) {
        let mut script = script(answers, reclaimed);
        (repeat(&mut script, 100, 8).is_ok(), script.asked)
    }

    #[test]
    fn only_contended_requests_are_asked_again() {
        let block = Ok(NonNull::dangling());
        let [contended, pending, exhausted] =
            [SharedError::Contended, SharedError::Pending, SharedError::Exhausted].map(Err);
        let asked = |answers: &[_]| {
            let script = RefCell::new(script(answers, &[]));
            let answer = up_to_four_times(|| script.borrow_mut().allocate_bytes(100, 8));
            (answer, script.into_inner().asked)
        };
        assert_eq!(asked(&[block]), (block, 1));
        assert_eq!(asked(&[contended, contended, block]), (block, 3));
        assert_eq!(asked(&[contended, pending, block]), (pending, 2));
        assert_eq!(asked(&[contended, exhausted, block]), (exhausted, 2));
        assert_eq!(asked(&[contended, contended, contended, exhausted, block]), (exhausted, 4));
        assert_eq!(asked(&[contended]), (contended, 4));
    }

    /// A full tree buddy refuses every request as contended.
    #[test]
    fn a_request_that_stays_contended_is_tried_so_often() {
        let mut memory = [MaybeUninit::uninit(); 8 << 10];
        let heap: TreeBuddy<'_> = TreeBuddy::new(&mut memory, ()).unwrap();
        let joint = Joint::new(&heap, AnySlot).unwrap();
        while joint.allocate_bytes(64, 8).is_ok() {}
        let refused = heap.refusals().contended;
        assert_eq!(joint.allocate_bytes(64, 8), Err(SharedError::Contended));
        assert_eq!(heap.refusals().contended - refused, 1 + REPETITIONS);
    }

    #[test]
    fn requests_are_repeated_while_that_may_help() {
        let block = Ok(NonNull::dangling());
        let contended = Err(SharedError::Contended);
        let pending = Err(SharedError::Pending);
        let exhausted = Err(SharedError::Exhausted);
        assert_eq!(repeated(&[block], &[]), (true, 1));
        assert_eq!(repeated(&[exhausted, block], &[]), (false, 1));
        assert_eq!(repeated(&[contended, contended, block], &[]), (true, 3));
        assert_eq!(repeated(&[contended], &[]), (false, 1 + REPETITIONS));
        // As long as blocks are taken back, however many.
        let many: Vec<usize> = std::iter::repeat_n(RECLAIMED, 1000).collect();
        assert_eq!(repeated(&[pending], &many), (false, 1000 + 1 + REPETITIONS));
        let mut answers = std::iter::repeat_n(pending, 500).collect::<Vec<_>>();
        answers.push(block);
        assert_eq!(repeated(&answers, &many), (true, 501));
        assert_eq!(repeated(&[pending, exhausted], &many), (false, 2));
    }
}
