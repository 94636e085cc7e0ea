//! Replays a list of operations on several global allocators, and prints the instructions that they execute.
//!
//! A line for each allocator and region: its name, the bytes of the region; then, if no request was refused,
//! allocations and their instructions, reallocations and theirs, frees and theirs, the most of one allocation, that of
//! one free, the bytes from the region's start to the end of the highest block, those of the heap's value, and the
//! instructions that made the heap.

#![no_std]
#![no_main]

mod bump;
mod ours;

use bump::Bump;
use core::alloc::{GlobalAlloc, Layout};
use core::arch::global_asm;
use core::fmt::{self, Write};
use core::panic::PanicInfo;
use core::ptr::null_mut;
use ours::Single;
use rtalloc::adapt::guest::{Guest, UncheckedTlsf};
use rtalloc::mechanism::segregated::Exact;
use rtalloc::mechanism::stats::NoStats;
use rtalloc::mechanism::validation::Unchecked;
use rtalloc::mechanism::word::Offset32;
use rtalloc::{HalfFit, Tlsf};

// Memory starts with zeros.
global_asm!(
    ".section .text.start, \"ax\"",
    ".globl start",
    "start:",
    "la sp, stack_top",
    "la t0, fault",
    "csrw mtvec, t0",
    "j main",
);

/// A fault of the program.
#[unsafe(no_mangle)]
extern "C" fn fault() -> ! {
    panic!("a fault");
}

/// The list of operations, as crates/rtalloc-lab/examples/operations.rs writes it.
const LIST: *const u32 = 0x8400_0000 as *const u32;
/// The live blocks by slot, with size and alignment.
const BLOCKS: *mut (*mut u8, usize, usize) = 0x8800_0000 as *mut _;
const REGION: usize = 0x9000_0000;
/// More than any trace needs.
const AMPLE_BYTES: usize = 0x0800_0000;
/// Registers of the board: the serial port, and the one that ends QEMU.
const SERIAL: *mut u8 = 0x1000_0000 as *mut u8;
const END: *mut u32 = 0x10_0000 as *mut u32;

/// The serial port.
struct Serial;

impl Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // SAFETY: a register that takes the next byte to print.
            unsafe { SERIAL.write_volatile(byte) }
        }
        Ok(())
    }
}

/// What the allocators differ in, apart from their operations.
trait Begin: GlobalAlloc {
    /// # Safety
    ///
    /// The program has one thread.
    unsafe fn empty() -> Self;
    /// # Safety
    ///
    /// The bytes from `start` on are this heap's alone.
    unsafe fn begin(&self, start: usize, size: usize);
}

macro_rules! embedded_alloc {
    ($heap:ty) => {
        impl Begin for $heap {
            unsafe fn empty() -> Self {
                <$heap>::empty()
            }
            unsafe fn begin(&self, start: usize, size: usize) {
                // SAFETY: the caller guarantees the heap's conditions.
                unsafe { self.init(start, size) }
            }
        }
    };
}

embedded_alloc!(embedded_alloc::TlsfHeap);

/// The operations of an allocator as functions of the C calling convention.
trait Heap: Begin {
    const NAME: &'static str;
    /// Allocates: size, alignment.
    const ALLOCATE: unsafe extern "C" fn(&Self, usize, usize) -> *mut u8;
    /// Resizes: block, its size, alignment, new size.
    const REALLOCATE: unsafe extern "C" fn(&Self, *mut u8, usize, usize, usize) -> *mut u8;
    /// Frees: block, its size, alignment.
    const DEALLOCATE: unsafe extern "C" fn(&Self, *mut u8, usize, usize);
}

/// Allocators, with names for two of the functions, so that they can be bounded.
macro_rules! heaps {
    ($($heap:ty, $name:literal, $allocate:ident, $deallocate:ident;)*) => {
        $(
            /// # Safety
            ///
            /// As `GlobalAlloc::alloc`, and the alignment is legal.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $allocate(heap: &$heap, size: usize, align: usize) -> *mut u8 {
                // SAFETY: as the caller's.
                unsafe { heap.alloc(Layout::from_size_align_unchecked(size, align)) }
            }

            /// # Safety
            ///
            /// As `GlobalAlloc::dealloc`.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $deallocate(heap: &$heap, block: *mut u8, size: usize, align: usize) {
                // SAFETY: as the caller's.
                unsafe { heap.dealloc(block, Layout::from_size_align_unchecked(size, align)) }
            }

            impl Heap for $heap {
                const NAME: &'static str = $name;
                const ALLOCATE: unsafe extern "C" fn(&Self, usize, usize) -> *mut u8 = $allocate;
                const REALLOCATE: unsafe extern "C" fn(&Self, *mut u8, usize, usize, usize) -> *mut u8 = reallocate;
                const DEALLOCATE: unsafe extern "C" fn(&Self, *mut u8, usize, usize) = $deallocate;
            }
        )*

        /// Replays the list on each.
        fn all() {
            $(both::<$heap>();)*
        }
    };
}

/// # Safety
///
/// As `GlobalAlloc::realloc`.
unsafe extern "C" fn reallocate<H: Heap>(heap: &H, block: *mut u8, size: usize, align: usize, new: usize) -> *mut u8 {
    // SAFETY: as the caller's.
    unsafe { heap.realloc(block, Layout::from_size_align_unchecked(size, align), new) }
}

type UncheckedHalfFit = HalfFit<'static, Exact, Offset32, NoStats, Unchecked>;

heaps! {
    embedded_alloc::TlsfHeap, "embedded_tlsf", embedded_tlsf_allocate, embedded_tlsf_deallocate;
    Bump, "bump", bump_allocate, bump_deallocate;
    Single<Tlsf<'static>>, "tlsf", tlsf_allocate, tlsf_deallocate;
    Single<UncheckedTlsf>, "unchecked", unchecked_allocate, unchecked_deallocate;
    Single<UncheckedHalfFit>, "half_fit", half_fit_allocate, half_fit_deallocate;
    Guest, "guest", guest_allocate, guest_deallocate;
}

unsafe extern "C" {
    /// Calls a function with five words; returns its word, and stores the instructions that it executes, its return
    /// included.
    ///
    /// # Safety
    ///
    /// As those of the function, which has the C calling convention and as many arguments at most.
    fn counted(function: *const (), a: usize, b: usize, c: usize, d: usize, e: usize, count: &mut u32) -> *mut u8;
}

// What the counter counts between its two reads: the first read, the call, and the function.
global_asm!(
    ".section .text.counted, \"ax\"",
    "counted:",
    "addi sp, sp, -16",
    "sw ra, 12(sp)",
    "sw s0, 8(sp)",
    "sw s1, 4(sp)",
    "mv s0, a6",
    "mv t0, a0",
    "mv a0, a1",
    "mv a1, a2",
    "mv a2, a3",
    "mv a3, a4",
    "mv a4, a5",
    "csrr s1, minstret",
    "jalr t0",
    "csrr t1, minstret",
    "sub t1, t1, s1",
    "addi t1, t1, -2",
    "sw t1, 0(s0)",
    "lw ra, 12(sp)",
    "lw s0, 8(sp)",
    "lw s1, 4(sp)",
    "addi sp, sp, 16",
    "ret",
);

/// Calls of one kind, and their instructions.
#[derive(Clone, Copy, Default)]
struct Counts {
    calls: u32,
    sum: u64,
    most: u32,
}

impl Counts {
    fn add(&mut self, instructions: u32) {
        self.calls += 1;
        self.sum += u64::from(instructions);
        self.most = self.most.max(instructions);
    }
}

/// # Safety
///
/// As `Begin::begin`.
unsafe extern "C" fn begin<H: Heap>(heap: &H, start: usize, size: usize) {
    // SAFETY: as the caller's.
    unsafe { heap.begin(start, size) }
}

/// Performs the list on a fresh heap in a region of so many bytes.
#[inline(never)]
fn replay<H: Heap>(heap: &H, bytes: usize) {
    // SAFETY: the list is there, and no other heap is in use. The program has one thread. A slot is read after it was
    // written: the list allocates a block before it names it.
    unsafe {
        let it = core::ptr::from_ref(heap).addr();
        let (mut made, mut taken) = (0, 0);
        counted(begin::<H> as *const (), it, REGION, bytes, 0, 0, &mut made);
        let mut counts = [Counts::default(); 3];
        let mut highest = REGION;
        for operation in 0..LIST.read() as usize {
            let (word, size) = (LIST.add(3 + 2 * operation).read(), LIST.add(4 + 2 * operation).read() as usize);
            let place = BLOCKS.add((word >> 2 & 0x1FF_FFFF) as usize);
            let (kind, align) = (word as usize & 3, 1 << (word >> 27));
            let (old, old_size, old_align) = if kind == 0 { (null_mut(), 0, 0) } else { place.read() };
            let block = match kind {
                0 => counted(H::ALLOCATE as *const (), it, size, align, 0, 0, &mut taken),
                1 => counted(H::REALLOCATE as *const (), it, old.addr(), old_size, old_align, size, &mut taken),
                _ => counted(H::DEALLOCATE as *const (), it, old.addr(), old_size, old_align, 0, &mut taken),
            };
            counts[kind].add(taken);
            if kind != 2 {
                if block.is_null() {
                    let _ = writeln!(Serial, "{} {bytes} refused {operation}", H::NAME);
                    return;
                }
                let is_aligned = block.addr() & (align - 1) == 0;
                assert!(is_aligned && block.addr() >= REGION && block.addr() + size <= REGION + bytes, "a wrong block");
                highest = highest.max(block.addr() + size);
                place.write((block, size, align));
                // A program writes its blocks; what a heap has there must not matter to it.
                block.write_bytes(0xA5, size.min(16));
            }
        }
        let [allocations, reallocations, frees] = counts;
        let _ = writeln!(
            Serial,
            "{} {bytes} served {} {} {} {} {} {} {} {} {} {} {made}",
            H::NAME,
            allocations.calls,
            allocations.sum,
            reallocations.calls,
            reallocations.sum,
            frees.calls,
            frees.sum,
            allocations.most,
            frees.most,
            highest - REGION,
            size_of::<H>(),
        );
    }
}

/// In an ample region, and in one of 1.3 times the live memory.
fn both<H: Heap>() {
    // SAFETY: the list is there. The program has one thread.
    unsafe {
        let most_live = LIST.add(2).read() as usize;
        replay(&H::empty(), AMPLE_BYTES);
        // The heap's value counts as well.
        replay(&H::empty(), most_live + most_live * 3 / 10 - size_of::<H>());
    }
}

#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    all();
    end(0)
}

/// Ends QEMU with a status.
fn end(status: u32) -> ! {
    // SAFETY: the register ends the emulator.
    unsafe { END.write_volatile(if status == 0 { 0x5555 } else { status << 16 | 0x3333 }) }
    loop {}
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let _ = writeln!(Serial, "{info}");
    end(1)
}

/// No interrupt, no other thread.
struct NoSection;
critical_section::set_impl!(NoSection);
// SAFETY: nothing else runs.
unsafe impl critical_section::Impl for NoSection {
    unsafe fn acquire() {}
    unsafe fn release((): ()) {}
}
