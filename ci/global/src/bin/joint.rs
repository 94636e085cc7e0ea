//! A program whose threads use `PooledArenas` through a `Joint`, each with a slot of its own. ci/bounds.sh proves
//! the bounds of `joint_allocate` and `joint_deallocate`.

use core::hint::black_box;
use core::ptr::NonNull;
use rtalloc::adapt::{Bounded, Joint, Memory, ThreadSlots};
use rtalloc::{PooledArenas, PooledArenasConfig, SharedAllocator};

type Together<'h> = Joint<'h, 'static, PooledArenas<'static>, Bounded<ThreadSlots>>;

static MEMORY: Memory<{ 64 << 20 }> = Memory::new();

#[unsafe(no_mangle)]
#[inline(never)]
fn joint_allocate(heap: &Together<'_>, size_bytes: usize, align_bytes: usize) -> Option<NonNull<u8>> {
    heap.allocate_bytes(size_bytes, align_bytes).ok()
}

/// # Safety
///
/// As `Joint::deallocate`.
#[unsafe(no_mangle)]
#[inline(never)]
unsafe fn joint_deallocate(heap: &Together<'_>, block: NonNull<u8>) {
    // SAFETY: the caller guarantees that the block is live in this heap and no longer used.
    unsafe { heap.deallocate(block) }
}

fn main() {
    let memory = MEMORY.take().expect("the memory is not taken");
    let config = PooledArenasConfig { slots: 9, reclaim_budget: 2, chunk_bytes: 0 };
    let heap = PooledArenas::new(memory, config).expect("memory for the heap");
    let joint = Joint::new(&heap, Bounded(ThreadSlots::new())).expect("no slot is taken");
    let allocate_and_free = || {
        // Otherwise the compiler would prepare the functions for these sizes and this alignment.
        let blocks = (1..1000).map(|bytes| joint_allocate(&joint, black_box(bytes), black_box(64)).expect("memory"));
        // SAFETY: the blocks are live, and each is freed once.
        blocks.collect::<Vec<_>>().into_iter().for_each(|block| unsafe { joint_deallocate(&joint, block) });
    };
    std::thread::scope(|scope| (1..8).for_each(|_| drop(scope.spawn(allocate_and_free))));
    assert_eq!(joint.current().0.overflow_operations(), 0, "a slot for every thread");
    assert_eq!(heap.pool_words(), 8, "the bound is proved for 8 words");
}
