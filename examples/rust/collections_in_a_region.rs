//! Vectors, boxes and hash maps in a separate heap, beside the program's global allocator.
//!
//! `cargo run -p rtalloc --features std,allocator-api2 --example collections_in_a_region`

use allocator_api2::boxed::Box;
use allocator_api2::vec::Vec;
use core::mem::MaybeUninit;
use hashbrown::{DefaultHashBuilder, HashMap};
use rtalloc::adapt::{Joint, Local, ThreadSlots};
use rtalloc::{PooledArenas, PooledArenasConfig, RegionAllocator, SharedAllocator, Tlsf};

fn main() {
    one_thread();
    several_threads();
}

/// A heap on the stack, without a lock: an operation costs no more than in TLSF.
fn one_thread() {
    let mut memory = [MaybeUninit::uninit(); 32 << 10];
    let mut heap: Local<'_, Tlsf<'_>> = Local::new(&mut memory, Default::default()).expect("32 KiB are enough");

    let mut orders: HashMap<u32, Box<[u8; 40], _>, DefaultHashBuilder, _> = HashMap::new_in(&heap);
    for number in 0..100 {
        orders.insert(number, Box::new_in([number as u8; 40], &heap));
    }
    orders.retain(|number, _| number % 2 == 0);
    println!("orders: {}, the last says {}", orders.len(), orders[&98][39]);

    // A full heap is an error that the program can handle; its contents do not change.
    let mut history = Vec::<u64, _>::new_in(&heap);
    let refused = history.try_reserve(10_000).is_err();
    history.push(7);
    println!("refused: {refused}, then {history:?}");

    drop((orders, history));
    let mut live = 0;
    heap.get_mut().walk(&mut |block| live += usize::from(!block.free));
    println!("live blocks: {live}");
}

/// Pooled arenas in memory of this function; its threads free blocks of each other.
fn several_threads() {
    let mut memory = std::vec![MaybeUninit::uninit(); 1 << 20];
    let config = PooledArenasConfig { slots: 4, ..Default::default() };
    let arenas: PooledArenas<'_> = PooledArenas::new(&mut memory, config).expect("1 MiB is enough for four slots");
    let heap = Joint::new(&arenas, ThreadSlots::new()).expect("no slot is taken");
    let heap = &heap;
    let total: u64 = std::thread::scope(|scope| {
        let made = (0..3_u64).map(|thread| {
            scope.spawn(move || {
                let mut numbers = Vec::new_in(heap);
                numbers.extend((0..1000).map(|number| number * thread));
                numbers
            })
        });
        let made: std::vec::Vec<_> = made.collect();
        made.into_iter().map(|thread| thread.join().expect("no panic").iter().sum::<u64>()).sum()
    });
    println!("total: {total}");
}
