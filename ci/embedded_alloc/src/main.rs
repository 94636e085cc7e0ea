//! What a heap takes on a Cortex-M4, and the instructions of its operations: of rtalloc-embedded and embedded-alloc.
//!
//! Prints a line of figures for each: bytes that are not free in a fresh heap of 4 KiB and of 64 KiB, its value
//! included; mean and most instructions of allocations, and of frees.

#![no_std]
#![no_main]

use core::alloc::{GlobalAlloc, Layout};
use core::hint::black_box;
use core::panic::PanicInfo;
use core::ptr::null_mut;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m::peripheral::{Peripherals, SYST};
use cortex_m_rt::entry;
use semihosting::{println, process};

/// The board has 4 MiB from 0x2000_0000 on. The program uses the first 64 KiB of them; here is every heap's region.
const REGION: usize = 0x2010_0000;
/// With QEMU's `-icount shift=10` an instruction takes 1,024 ns, and the timer ticks every 40 ns.
const TICKS_PER_INSTRUCTION: f64 = 1024.0 / 40.0;

const BLOCKS: usize = 128;
const OPERATIONS: usize = 20_000;

/// What the heaps have in common.
trait Heap: Sized {
    fn fresh() -> Self;
    /// # Safety
    ///
    /// As the heap's `init`.
    unsafe fn init(&self, start: usize, size: usize);
    fn free(&self) -> usize;
    fn allocate(&self, layout: Layout) -> *mut u8;
    /// # Safety
    ///
    /// As `GlobalAlloc::dealloc`.
    unsafe fn deallocate(&self, block: *mut u8, layout: Layout);
}

/// The operations are functions with these names, so that they can be bounded.
macro_rules! heap {
    ($heap:ty, $allocate:ident, $deallocate:ident) => {
        #[no_mangle]
        #[inline(never)]
        fn $allocate(heap: &$heap, layout: Layout) -> *mut u8 {
            // SAFETY: no layout here is empty.
            unsafe { heap.alloc(layout) }
        }

        /// # Safety
        ///
        /// As `GlobalAlloc::dealloc`.
        #[no_mangle]
        #[inline(never)]
        unsafe fn $deallocate(heap: &$heap, block: *mut u8, layout: Layout) {
            // SAFETY: the caller guarantees a live block with this layout.
            unsafe { heap.dealloc(block, layout) }
        }

        impl Heap for $heap {
            fn fresh() -> Self {
                <$heap>::empty()
            }
            unsafe fn init(&self, start: usize, size: usize) {
                // SAFETY: the caller guarantees the heap's conditions.
                unsafe { self.init(start, size) }
            }
            fn free(&self) -> usize {
                self.free()
            }
            fn allocate(&self, layout: Layout) -> *mut u8 {
                $allocate(self, layout)
            }
            unsafe fn deallocate(&self, block: *mut u8, layout: Layout) {
                // SAFETY: the caller guarantees a live block with this layout.
                unsafe { $deallocate(self, block, layout) }
            }
        }
    };
}

heap!(embedded_alloc::TlsfHeap, ours_allocate, ours_deallocate);
heap!(published::TlsfHeap, tlsf_allocate, tlsf_deallocate);
heap!(published::LlffHeap, llff_allocate, llff_deallocate);

/// Bytes that are not free in a fresh heap, its value included.
fn overhead<H: Heap>(size: usize) -> usize {
    let heap = H::fresh();
    // SAFETY: no other heap is in use.
    unsafe { heap.init(REGION, size) };
    size_of::<H>() + size - heap.free()
}

/// Instructions of a call, and some around it: those of a call of [`nothing`].
#[inline(never)]
fn instructions(call: impl FnOnce()) -> usize {
    let before = SYST::get_current();
    call();
    // The timer counts down, in 24 bits.
    let ticks = before.wrapping_sub(SYST::get_current()) & 0xFF_FFFF;
    (f64::from(ticks) / TICKS_PER_INSTRUCTION + 0.5) as usize
}

/// A call that does nothing.
#[inline(never)]
fn nothing<H>(_: &H, layout: Layout) -> *mut u8 {
    layout.size() as *mut u8
}

/// The mean and the most of some counts.
#[derive(Default)]
struct Counts {
    sum: usize,
    most: usize,
    count: usize,
}

impl Counts {
    fn add(&mut self, count: usize) {
        self.sum += count;
        self.most = self.most.max(count);
        self.count += 1;
    }

    fn mean(&self) -> usize {
        (self.sum + self.count / 2) / self.count
    }
}

/// Random requests of 1 to 512 bytes, one in 16 at an alignment of 64, up to [`BLOCKS`] of them live, in 64 KiB.
fn operations<H: Heap>() -> [Counts; 2] {
    let heap = H::fresh();
    // SAFETY: no other heap is in use.
    unsafe { heap.init(REGION, 64 << 10) };
    let mut blocks = [(null_mut::<u8>(), Layout::new::<u64>()); BLOCKS];
    let (mut allocations, mut frees) = (Counts::default(), Counts::default());
    let mut none = (null_mut(), Layout::new::<u64>());
    let around = instructions(|| none.0 = nothing(&heap, none.1));
    black_box(&none);
    let mut random = 1_u32;
    for _ in 0..OPERATIONS {
        // Xorshift (Marsaglia 2003).
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        let (block, layout) = &mut blocks[random as usize % BLOCKS];
        if block.is_null() {
            let align = if random >> 28 == 0 { 64 } else { 4 };
            *layout = Layout::from_size_align(1 + (random as usize >> 8) % 512, align).expect("a legal layout");
            allocations.add(instructions(|| *block = heap.allocate(*layout)) - around);
            assert!(!block.is_null(), "64 KiB suffice");
        } else {
            // SAFETY: the block is live, with this layout.
            frees.add(instructions(|| unsafe { heap.deallocate(*block, *layout) }) - around);
            *block = null_mut();
        }
    }
    [allocations, frees]
}

fn figures<H: Heap>(name: &str) {
    let [allocate, free] = operations::<H>();
    let (small, large) = (overhead::<H>(4 << 10), overhead::<H>(64 << 10));
    println!("{name} {small} {large} {} {} {} {}", allocate.mean(), allocate.most, free.mean(), free.most);
}

#[entry]
fn main() -> ! {
    let mut timer = Peripherals::take().expect("taken once").SYST;
    timer.set_clock_source(SystClkSource::Core);
    timer.set_reload(0xFF_FFFF);
    timer.clear_current();
    timer.enable_counter();
    figures::<embedded_alloc::TlsfHeap>("ours");
    figures::<published::TlsfHeap>("tlsf");
    figures::<published::LlffHeap>("llff");
    process::exit(0)
}

#[panic_handler]
fn panic(info: &PanicInfo) -> ! {
    println!("{}", info);
    process::exit(1)
}
