//! The instruction bounds of the operations, where they were proved for the machine code of this build.
//!
//! A bound is a property of machine code, which depends on compiler, profile, options and linker. So the table of
//! bounds (`x86_64.rs`, written by `ci/capi_bounds.sh`) also describes the code of each proof, and `Proof::bound`
//! compares it with the code in memory: it starts at the operation, hashes the function, follows its calls, and
//! compares every called function. The bound is returned if all of them agree; any other code has no known bound. This
//! needs no step after the build, and works for the static library in any program that links it.
//!
//! All bytes of a function are compared except the displacements that a linker fills in, whose places are the
//! relocations of the object file. A displacement to data does not change the instruction count, because no bound
//! depends on data. A displacement to a function is followed. Anything else that a linker changes, such as a load
//! turned into an address, is a difference.
//!
//! A bound may grow with numbers of the heap (`Iterations`). It was then proved for some of them, and between these the
//! table's is linear and nowhere below: a bound is the largest sum of a path, and every sum is linear in each number, so
//! the bound is convex in each.
//!
//! The proof assumes that the call reports no misuse. The function that reports misuse is compared like the others, but
//! the hook that it calls belongs to the program.

mod x86_64;

use crate::contract::same;
use crate::error::is;
use core::mem::MaybeUninit;
use core::ptr::null;

/// An operation with a bounded number of instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum rt_operation {
    /// `malloc`; for objects with handles, `allocate`.
    RT_OPERATION_MALLOC,
    /// `aligned_alloc`.
    RT_OPERATION_ALIGNED_ALLOC,
    /// `free`.
    RT_OPERATION_FREE,
    /// `realloc_in_place`, of a region heap.
    RT_OPERATION_REALLOC_IN_PLACE,
}

/// The most functions a proof covers.
const MAX_FUNCTIONS: usize = 28;
/// Functions begin at a multiple of this, and the hash is compared after each stride.
const STRIDE_BYTES: usize = 16;
/// A displacement to data, which is not followed.
const DATA: u16 = u16::MAX;
/// Bytes of a displacement.
const DISPLACEMENT_BYTES: usize = 4;

/// A function that a proof covers.
#[derive(Clone, Copy)]
pub(crate) struct Function {
    /// Bytes of its code.
    bytes: u16,
    /// Number of displacements that a linker fills in.
    displacements: u16,
    /// FNV-1a hash of its code without displacements.
    hash: u64,
}

/// Numbers of a heap with which a bound grows. A heap without such loops has [`ONE`](Iterations::ONE).
#[derive(Clone, Copy)]
pub(crate) struct Iterations {
    /// Words of its pool of chunks: iterations of the loops with `LoopBound::Words`.
    pub(crate) words: usize,
    /// Blocks freed by other slots that an allocation reclaims: iterations of the loop with `LoopBound::RemoteFrees`.
    pub(crate) reclaimed: usize,
}

impl Iterations {
    pub(crate) const ONE: Iterations = Iterations { words: 1, reclaimed: 1 };
}

/// The proof of an allocator's operations.
#[derive(Clone, Copy)]
pub(crate) struct Proof {
    /// For malloc (allocate, for objects with handles), aligned_alloc, free and realloc_in_place: the bound in
    /// instructions, 0 if unproved, and the operation's index in `functions`. Where it grows, this is the bound with
    /// [`Iterations::ONE`].
    operations: [(u64, usize); 4],
    /// For each of them, the instructions that are added by each further word up to [`x86_64::FEW_WORDS`], by each
    /// beyond, and by each further reclaimed block.
    growth: [[u64; 3]; 4],
    /// The operations and everything they call; callers precede callees.
    functions: &'static [Function],
    /// For each function, the upper half of the hash before every multiple of [`STRIDE_BYTES`] except the first.
    prefixes: &'static [u32],
    /// For each function, its displacements in ascending order: the offset in the code, and the index of the target
    /// function or [`DATA`].
    displacements: &'static [(u16, u16)],
}

impl Proof {
    /// The proof of an allocator's operations, or a proof without bounds if there is none.
    pub(crate) const fn of(name: &str) -> Proof {
        let is_covered = cfg!(all(target_arch = "x86_64", target_pointer_width = "64", target_os = "linux"));
        let mut at = 0;
        // Loop bound: allocators, when this is compiled.
        while is_covered && at < x86_64::PROVED.len() {
            let (known, proof) = x86_64::PROVED[at];
            if same(known, name) {
                assert!(proof.functions.len() <= MAX_FUNCTIONS, "a proof covers more functions than MAX_FUNCTIONS");
                return proof;
            }
            at += 1;
        }
        Proof { operations: [(0, 0); 4], growth: [[0; 3]; 4], functions: &[], prefixes: &[], displacements: &[] }
    }

    /// The bound of an operation in a heap with these numbers, given the entry points of the allocator's operations,
    /// null for one that it lacks; 0 if the code differs from that of the proof, or the numbers are beyond it. Any
    /// operation number is valid.
    ///
    /// Inlined, so that an operation without a bound is not referenced and not linked into programs that do not call
    /// it.
    #[inline(always)]
    pub(crate) fn bound(
        &self,
        operation: MaybeUninit<rt_operation>,
        entries: [*const u8; 4],
        iterations: Iterations,
    ) -> u64 {
        let Iterations { words, reclaimed } = iterations;
        if words > x86_64::MOST_WORDS || reclaimed > x86_64::MOST_RECLAIMED {
            return 0;
        }
        let few_words = words.min(x86_64::FEW_WORDS);
        let numbers = [few_words.saturating_sub(1), words.saturating_sub(few_words), reclaimed.saturating_sub(1)];
        let [malloc, aligned_alloc, free, in_place] = self.operations;
        let [malloc_growth, aligned_alloc_growth, free_growth, in_place_growth] = self.growth;
        let [at_malloc, at_aligned_alloc, at_free, at_in_place] = entries;
        let of = |known, (most, root): (u64, usize), growth: [u64; 3], entry| {
            if most == 0 || !is(operation, known) || !self.agrees(root, entry) {
                return 0;
            }
            let more = growth.iter().zip(numbers).map(|(each, number)| each.saturating_mul(number as u64));
            more.fold(most, u64::saturating_add)
        };
        of(rt_operation::RT_OPERATION_MALLOC, malloc, malloc_growth, at_malloc)
            | of(rt_operation::RT_OPERATION_ALIGNED_ALLOC, aligned_alloc, aligned_alloc_growth, at_aligned_alloc)
            | of(rt_operation::RT_OPERATION_FREE, free, free_growth, at_free)
            | of(rt_operation::RT_OPERATION_REALLOC_IN_PLACE, in_place, in_place_growth, at_in_place)
    }

    /// Whether the code at `entry` and everything it calls equals the functions from `root` on.
    #[inline(never)]
    fn agrees(&self, root: usize, entry: *const u8) -> bool {
        // The start of each function in this program; null until a call of it was found.
        let mut starts = [null(); MAX_FUNCTIONS];
        if !lead(&mut starts, root, entry) {
            return false;
        }
        let (mut prefixes, mut displacements) = (self.prefixes, self.displacements);
        // Loop bound: functions of the proof. Callers precede callees, so a called function has a start before it is
        // compared.
        for (function, at) in self.functions.iter().zip(0..) {
            let strides = usize::from(function.bytes).saturating_sub(1) / STRIDE_BYTES;
            let (Some((of_prefixes, later_prefixes)), Some((of_displacements, later_displacements)), Some(&start)) = (
                prefixes.split_at_checked(strides),
                displacements.split_at_checked(function.displacements.into()),
                starts.get(at),
            ) else {
                return false;
            };
            if !start.is_null() && !function.is_at(start, of_prefixes, of_displacements, &mut starts) {
                return false;
            }
            (prefixes, displacements) = (later_prefixes, later_displacements);
        }
        true
    }
}

/// Records the start of a function; false if another start was recorded before.
fn lead(starts: &mut [*const u8; MAX_FUNCTIONS], function: usize, target: *const u8) -> bool {
    let Some(start) = starts.get_mut(function) else { return false };
    if start.is_null() {
        *start = target;
    }
    *start == target
}

impl Function {
    /// Whether the code at `start` is that of this function. Records the targets of its calls.
    fn is_at(
        &self,
        start: *const u8,
        prefixes: &[u32],
        displacements: &[(u16, u16)],
        starts: &mut [*const u8; MAX_FUNCTIONS],
    ) -> bool {
        if !start.addr().is_multiple_of(STRIDE_BYTES) {
            return false;
        }
        let (mut prefixes, mut displacements) = (prefixes.iter(), displacements.iter());
        let mut next = displacements.next();
        let (mut hash, mut displacement) = (0xcbf2_9ce4_8422_2325_u64, 0_u32);
        // Loop bound: bytes of the function.
        for at in 0..usize::from(self.bytes) {
            if at != 0 && at.is_multiple_of(STRIDE_BYTES) && prefixes.next() != Some(&((hash >> 32) as u32)) {
                return false;
            }
            // SAFETY: the byte is mapped. All code before the last multiple of STRIDE_BYTES is that of this function,
            // which does not end there, so there is code at or after it; and since `start` is such a multiple too, the
            // bytes from one multiple to the next are in one page. Code is not a Rust allocation, and this is a
            // volatile access.
            let byte = unsafe { start.wrapping_add(at).read_volatile() };
            match next {
                Some(&(place, callee)) if at >= usize::from(place) => {
                    displacement = displacement >> 8 | u32::from(byte) << 24;
                    if at == usize::from(place) + DISPLACEMENT_BYTES - 1 {
                        let target = start.wrapping_add(at + 1).wrapping_offset(displacement as i32 as isize);
                        if callee != DATA && !lead(starts, callee.into(), target) {
                            return false;
                        }
                        next = displacements.next();
                    }
                }
                _ => hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3),
            }
        }
        hash == self.hash
    }
}
