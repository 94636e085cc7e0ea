//! Firmware for a Cortex-M4 whose main program and interrupt handler both allocate.
//!
//! `Vec`, `String` and `BTreeMap` are in a heap whose operations run with interrupts off: one TLSF operation may delay
//! an interrupt. The handler's samples are in pooled arenas, where it has a slot of its own and interrupts stay on. The main
//! program frees the samples, which queues them for the handler's slot.
//!
//! `ci/firmware.sh` builds this and runs it in an emulator.

#![no_std]
#![no_main]

extern crate alloc;

mod board;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use allocator_api2::boxed::Box;
use board::Console;
use core::fmt::Write;
use core::ptr::null_mut;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use rtalloc::adapt::{AnySlot, Global, Locked, Masked, Memory, Numbered};
use rtalloc::{PooledArenas, PooledArenasConfig, RegionAllocator, SharedAllocator, Tlsf};

static MEMORY: Memory<{ 24 << 10 }> = Memory::new();

/// The global allocator: TLSF, with interrupts off during an operation.
#[global_allocator]
static HEAP: Global<Locked<'static, Tlsf<'static>, Masked>, AnySlot> = Global::new(&MEMORY, AnySlot);

static SAMPLE_MEMORY: Memory<{ 8 << 10 }> = Memory::new();
const TWO_LEVELS: PooledArenasConfig = PooledArenasConfig { slots: 2, reclaim_budget: 2, chunk_bytes: 0 };

/// For samples: a slot for the main program and one for interrupts.
static SAMPLES: Global<PooledArenas<'static>, Numbered> =
    // SAFETY: one core; interrupts have one priority, and the main program is one task.
    Global::configured(&SAMPLE_MEMORY, unsafe { Numbered::new(board::level) }, TWO_LEVELS);

/// A sample of the interrupt handler.
struct Sample {
    values: [u32; 8],
    /// The handler allocates it in the global heap.
    note: String,
    next: *mut Sample,
}

/// Samples that the main program has not processed yet, newest first.
static SAMPLED: AtomicPtr<Sample> = AtomicPtr::new(null_mut());
static TICKS: AtomicUsize = AtomicUsize::new(0);
static REFUSED: AtomicUsize = AtomicUsize::new(0);
const SAMPLED_AT_ALL: usize = 500;

/// The interrupt handler of the timer.
#[unsafe(no_mangle)]
extern "C" fn tick() {
    let tick = TICKS.load(Relaxed);
    if tick == SAMPLED_AT_ALL {
        return;
    }
    TICKS.store(tick + 1, Relaxed);
    let sample = Sample { values: [tick as u32; 8], note: format!("tick {tick}"), next: SAMPLED.load(Relaxed) };
    match Box::try_new_in(sample, &SAMPLES) {
        // No other interrupt preempts this handler, so the loaded value is current.
        Ok(sample) => SAMPLED.store(Box::into_raw(sample), Release),
        Err(_) => REFUSED.store(REFUSED.load(Relaxed) + 1, Relaxed),
    }
}

#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    // The first user creates the heaps. Do it before the first interrupt, because a handler cannot wait for the main
    // program.
    let made = HEAP.init().is_ok() && SAMPLES.init().is_ok();
    assert!(made, "both memories are large enough for their heaps");
    board::start_ticks(10_000);

    let mut words = BTreeMap::new();
    let (mut seen, mut sum, mut letters) = (0, 0, 0);
    let mut round = 0_usize;
    while seen + REFUSED.load(Relaxed) < SAMPLED_AT_ALL {
        // The main program's own work, which interrupts preempt.
        let text: Vec<String> = (0..round % 8).map(|index| format!("{index} of round {round}")).collect();
        words.insert(round % 16, text.join(", "));
        round += 1;
        let mut next = SAMPLED.swap(null_mut(), AcqRel);
        while !next.is_null() {
            // SAFETY: the pointer came from `Box::into_raw` in the handler, which does not use it afterwards.
            let sample = unsafe { Box::from_raw_in(next, &SAMPLES) };
            seen += 1;
            sum += sample.values.iter().sum::<u32>();
            letters += sample.note.len();
            next = sample.next;
        }
    }
    let right = words.values().all(|text| text.is_empty() || text.contains(" of round "));
    let count = words.len();
    drop(words);

    let heap = HEAP.heap().expect("made at the start");
    let (mut live, mut intact) = (0, true);
    heap.inspect(|heap| {
        heap.walk(&mut |block| live += usize::from(!block.free));
        intact = heap.check().is_ok();
    });
    let refused = REFUSED.load(Relaxed) + heap.refusals().exhausted;
    let mut console = Console;
    let said = writeln!(console, "texts: {count}, right: {right}")
        .and_then(|()| writeln!(console, "samples: {seen}, sum: {sum}, letters of notes: {letters}"))
        .and_then(|()| writeln!(console, "refused: {refused}, live blocks: {live}, intact: {intact}"));
    board::stop(said.is_ok())
}
