//! Heaps in regions that limits of what is live give: within the limits, no request is ever refused; in a heap that is
//! one block smaller, one is, where the theorem says so.

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng as _;
use rtalloc::buddy::binary::{Binary, LargestBlocks, UNLIMITED};
use rtalloc::limits::{Limit, most_objects};
use rtalloc::mechanism::buddy::{Buddies, Headers, SideTable};
use rtalloc::mechanism::policy_heap::PolicyHeap;
use rtalloc::mechanism::stats::{NoStats, WithStats};
use rtalloc::mechanism::word::{Offset16, Offset32, Wide};
use rtalloc::{BinaryBuddy, Kingsley, PoolSizes, Pools, RegionAllocator, SimpleSegregated};

/// Sets of limits, of which one holds at a time.
type Modes = Vec<Vec<Stated>>;

/// A limit as the program sees it.
#[derive(Clone, Copy, Debug)]
struct Stated {
    objects: usize,
    smallest: usize,
    largest: usize,
}

struct Object {
    block: NonNull<u8>,
    size: usize,
    limit: usize,
}

fn dice(random: &mut Pcg64Mcg, below: usize) -> usize {
    (random.next_u64() % below as u64) as usize
}

/// Limits of up to `most` bytes, in one to three modes with as many limits each.
fn any_modes(random: &mut Pcg64Mcg, most: usize) -> Modes {
    let limits = 1 + dice(random, 4);
    let stated = |random: &mut Pcg64Mcg| {
        let largest = 1 + dice(random, most) / (1 << dice(random, 8));
        let smallest = [1, largest, 1 + dice(random, largest)][dice(random, 3)];
        Stated { objects: dice(random, 1 + 8192 / largest.max(128)), smallest, largest }
    };
    let modes = 1 + dice(random, 3);
    (0..modes).map(|_| (0..limits).map(|_| stated(random)).collect()).collect()
}

fn as_limits(modes: &Modes) -> Vec<Vec<Limit>> {
    let limit = |stated: &Stated| Limit::between(stated.objects, stated.smallest, stated.largest);
    modes.iter().map(|mode| mode.iter().map(limit).collect()).collect()
}

/// Runs one program within limits, in turn at random and so that a single object stays in each block of some size;
/// panics if a request is refused.
fn run<'r, H: RegionAllocator<'r>>(heap: &mut H, modes: &Modes, random: &mut Pcg64Mcg, what: &str) {
    let mut live: Vec<Object> = Vec::new();
    let mut mode = 0;
    let free = |heap: &mut H, object: Object| {
        // SAFETY: the object is live, and is no longer in the list.
        unsafe { heap.deallocate(object.block) }
    };
    for phase in 0..12 {
        // Small sizes first, or any order.
        let in_order = phase % 2 == 0;
        for step in 0..120 {
            let limit = if in_order { step * modes[mode].len() / 120 } else { dice(random, modes[mode].len()) };
            let Stated { objects, smallest, largest } = modes[mode][limit];
            let is_free = live.iter().filter(|object| object.limit == limit).count() < objects;
            if is_free && (in_order || dice(random, 3) > 0) {
                let power = (smallest + dice(random, largest - smallest + 1)).next_power_of_two();
                let size = [smallest, largest, smallest + dice(random, largest - smallest + 1), power][dice(random, 4)];
                let size = size.clamp(smallest, largest);
                // An alignment counts as a request of that size, less the header.
                let align = 1_usize << dice(random, 9);
                let counted = size.max(align.saturating_sub(H::CONTRACT.header_bytes));
                let is_within = counted <= largest && align <= H::CONTRACT.largest_alignment_bytes;
                let block = heap.allocate_bytes(size, if is_within { align } else { 1 }).unwrap_or_else(|error| {
                    panic!(
                        "{what}: {error}: {size} bytes of {:?} refused, in mode {mode} of {modes:?}",
                        modes[mode][limit]
                    )
                });
                live.push(Object { block, size, limit });
            } else if !in_order && !live.is_empty() {
                free(heap, live.swap_remove(dice(random, live.len())));
            }
        }
        // One object stays in each aligned block of this size, or a random part of all.
        let block = 16 << dice(random, 9);
        live.sort_by_key(|object| object.block.addr());
        let mut previous = usize::MAX;
        let keeps_random = dice(random, 4) == 0;
        for object in core::mem::take(&mut live) {
            let is_first = object.block.addr().get() / block != previous;
            previous = object.block.addr().get() / block;
            if if keeps_random { dice(random, 2) == 0 } else { is_first } {
                live.push(object);
            } else {
                free(heap, object);
            }
        }
        // The next mode may be entered as soon as what is live is within its limits.
        let next = dice(random, modes.len());
        if next != mode {
            for (limit, &Stated { objects, smallest, largest }) in modes[next].iter().enumerate() {
                let mut count = 0;
                let (kept, freed) = core::mem::take(&mut live).into_iter().partition(|object| {
                    let is_within =
                        object.limit != limit || (count < objects && (smallest..=largest).contains(&object.size));
                    count += usize::from(object.limit == limit && is_within);
                    is_within
                });
                live = kept;
                let freed: Vec<Object> = freed;
                freed.into_iter().for_each(|object| free(heap, object));
            }
            mode = next;
        }
    }
    assert_eq!(heap.check(), Ok(()), "{what}");
}

/// The configuration for limits: the sizes of pools are some largest requests, and larger ones.
trait Configured: Copy {
    fn any(modes: &Modes, most: usize, random: &mut Pcg64Mcg) -> Self;
}

impl Configured for () {
    fn any(_: &Modes, _: usize, _: &mut Pcg64Mcg) -> Self {}
}

impl Configured for PoolSizes {
    fn any(modes: &Modes, most: usize, random: &mut Pcg64Mcg) -> Self {
        let mut sizes: Vec<usize> = modes.iter().flatten().map(|stated| stated.largest).collect();
        sizes.retain(|_| dice(random, 4) > 0);
        sizes.extend([most, 1 + dice(random, most), most + 1 + dice(random, 20_000)]);
        sizes.sort_unstable();
        sizes.dedup();
        if dice(random, 8) == 0 { PoolSizes::default() } else { PoolSizes::of(&sizes) }
    }
}

/// Calls `region_bytes_for_modes`, with the configuration where the allocator needs it.
macro_rules! region_bytes {
    ($heap:ty, $config:expr, $limits:expr) => {
        <$heap>::region_bytes_for_modes($limits)
    };
    ($heap:ty, $config:expr, $limits:expr, $sizes:ty) => {
        <$heap>::region_bytes_for_modes($config, $limits)
    };
}

macro_rules! never_refused {
    ($($test:ident: $heap:ty, $most:expr $(, $sizes:ty)?;)*) => {
        $(
            #[test]
            fn $test() {
                let mut random = Pcg64Mcg::new(0x5eed);
                let mut performed = 0;
                for round in 0..150 {
                    let modes = any_modes(&mut random, $most);
                    let limits = as_limits(&modes);
                    let limits: Vec<&[Limit]> = limits.iter().map(Vec::as_slice).collect();
                    let config = <$heap as RegionAllocator>::Config::any(&modes, $most, &mut random);
                    let bytes = region_bytes!($heap, config, &limits $(, $sizes)?);
                    // Nothing is ever live, or more than the words of the heap address.
                    if bytes == 0 || bytes == usize::MAX {
                        continue;
                    }
                    performed += 1;
                    // The region may start anywhere.
                    let offset = dice(&mut random, 4096);
                    let mut memory = vec![MaybeUninit::uninit(); offset + bytes];
                    let mut heap = <$heap>::new(&mut memory[offset..], config).expect("a region for its limits");
                    run(&mut heap, &modes, &mut random, &format!("{}, round {round}", stringify!($heap)));
                }
                assert!(performed > 50, "{performed} programs");
            }
        )*
    };
}

type SmallUnits<'r> = PolicyHeap<'r, Buddies<Binary<64, UNLIMITED>, SideTable, Offset32>, NoStats>;
type WithHeaders<'r> = PolicyHeap<'r, Buddies<Binary<16, UNLIMITED>, Headers<8>, Offset32>, NoStats>;
/// The default of 64-bit machines.
type Of16<'r> = BinaryBuddy<'r, Offset32, NoStats, SideTable, 16>;
type Thesis<'r> = PolicyHeap<'r, Buddies<Binary<32, 1024>, Headers<16>, Offset32>, NoStats>;

never_refused! {
    binary_buddy: BinaryBuddy<'_>, 4096;
    binary_buddy_with_statistics: BinaryBuddy<'_, Offset32, WithStats>, 4096;
    binary_buddy_with_headers: WithHeaders<'_>, 4096;
    binary_buddy_of_64_bytes: SmallUnits<'_>, 4096;
    binary_buddy_of_short_words: BinaryBuddy<'_, Offset16>, 1024;
    the_thesis_buddy: Thesis<'_>, 1008;
    kingsley: Kingsley<'_>, 4096;
    kingsley_with_statistics: Kingsley<'_, 4096, Offset32, WithStats>, 4096;
    kingsley_of_small_pages: Kingsley<'_, 512, Offset16>, 2000;
    simple_segregated: SimpleSegregated<'_>, 1020;
    simple_segregated_of_few_classes: SimpleSegregated<'_, 32, 8, Offset16>, 254;
    pools: Pools<'_>, 4096, PoolSizes;
    pools_with_statistics: Pools<'_, Offset32, WithStats>, 4096, PoolSizes;
    pools_of_words: Pools<'_, Wide>, 4096, PoolSizes;
    pools_of_short_words: Pools<'_, Offset16>, 2000, PoolSizes;
}

/// Wherever the region starts, it has as many aligned largest blocks as the theorem asks for.
#[test]
fn the_region_has_its_blocks_wherever_it_starts() {
    for (objects, largest) in [(1, 64), (3, 256), (5, 1024), (1, 4096), (2, 4096)] {
        let bytes = <BinaryBuddy<'_>>::region_bytes_for(&[Limit::of(objects, largest)]);
        let mut memory = vec![MaybeUninit::uninit(); 2 * 4096 + bytes];
        for start in (0..8192).step_by(if largest > 1024 { 5 } else { 1 }) {
            let heap = <BinaryBuddy<'_>>::new(&mut memory[start..start + bytes], ()).expect("a region for its limits");
            let mut found = 0;
            heap.walk(&mut |block| found += block.size_bytes / largest);
            assert!(found >= objects, "{objects} of {largest} from {start}: {found}");
        }
    }
}

#[test]
fn what_no_region_serves_has_no_region() {
    assert_eq!(<Thesis<'_>>::region_bytes_for(&[Limit::up_to(1, 1009)]), usize::MAX);
    assert_eq!(<SimpleSegregated<'_>>::region_bytes_for(&[Limit::up_to(1, 1021)]), usize::MAX);
    assert_eq!(<BinaryBuddy<'_>>::region_bytes_for(&[Limit::of(2, usize::MAX)]), usize::MAX);
    assert_eq!(<BinaryBuddy<'_>>::region_bytes_for(&[Limit::of(usize::MAX, 4096)]), usize::MAX);
    assert_eq!(<BinaryBuddy<'_, Offset16>>::region_bytes_for(&[Limit::of(20, 4096)]), usize::MAX, "beyond 64 KiB");
    assert_eq!(<SimpleSegregated<'_>>::region_bytes_for(&[Limit::of(usize::MAX / 16, 1000)]), usize::MAX);
    assert_eq!(<Kingsley<'_>>::region_bytes_for(&[Limit::of(1, usize::MAX)]), usize::MAX);
    assert_eq!(<Kingsley<'_, 512, Offset16>>::region_bytes_for(&[Limit::of(40, 2000)]), usize::MAX);
    let sizes = PoolSizes::of(&[100, 200]);
    assert_eq!(<Pools<'_>>::region_bytes_for(sizes, &[Limit::up_to(1, 300)]), usize::MAX);
    assert_eq!(<Pools<'_>>::region_bytes_for(sizes, &[Limit::of(usize::MAX / 16, 200)]), usize::MAX);
    assert_eq!(<Pools<'_, Offset16>>::region_bytes_for(sizes, &[Limit::of(400, 200)]), usize::MAX, "beyond 64 KiB");
    assert_eq!(<Pools<'_>>::region_bytes_for(sizes, &[]), 0);
    assert_eq!(<BinaryBuddy<'_>>::region_bytes_for(&[]), 0);
    assert_eq!(<BinaryBuddy<'_>>::region_bytes_for(&[Limit::up_to(0, 100)]), 0);
}

#[test]
fn limits_count_objects_and_bytes() {
    assert_eq!(Limit::up_to(5, 100).most_objects(101, 200), 0);
    assert_eq!(Limit::up_to(5, 100).most_objects(50, 60), 5);
    assert_eq!(Limit::of(5, 100).most_objects(50, 99), 0);
    assert_eq!(Limit::live(1000, 1, 400).most_objects(100, 200), 10);
    assert_eq!(Limit::live(1000, 150, 400).most_objects(1, 200), 6);
    assert_eq!(Limit::live(1000, 10, 400).most_objects_with(20, 99, 200), 20 + 8);
    assert_eq!(Limit::up_to(25, 400).most_objects_with(20, 99, 200), 25);
    assert_eq!(Limit::up_to(25, 400).most_objects_with(0, 99, 200), 25);
    assert_eq!(Limit::of(25, 300).most_objects_with(9, 299, 300), 25, "none is smaller");
    let modes: [&[Limit]; 2] = [&[Limit::of(3, 10), Limit::of(4, 10)], &[Limit::of(6, 10)]];
    assert_eq!(most_objects(&modes, 1, 16), 7);
}

/// In a heap of whole largest blocks, one fewer than the theorem asks for, a program within the limits is refused: all
/// of a size, then one in each block of the next size, and so on.
#[test]
fn one_largest_block_fewer_is_refused() {
    let mut random = Pcg64Mcg::new(7);
    for _ in 0..60 {
        let levels = 2 + dice(&mut random, 4);
        let counts: Vec<usize> = (0..levels).map(|_| 1 + dice(&mut random, 9)).collect();
        let limits: Vec<Limit> = (0..levels).map(|level| Limit::of(counts[level], 16 << level)).collect();
        let and = |blocks: LargestBlocks, level| blocks.and(&[&limits], (16_usize << level) >> 1, 16_usize << level);
        let blocks = (0..levels).fold(LargestBlocks::NONE, and);
        let largest = 16_usize << (levels - 1);
        for (blocks, refuses) in [(blocks.count(), false), (blocks.count() - 1, true)] {
            if blocks == 0 {
                continue;
            }
            assert_eq!(is_refused(&counts, blocks * largest, largest), refuses, "{counts:?} in {blocks} of {largest}");
        }
    }
}

/// Each size at its peak in turn, all else being freed: in a region of pools that is one block smaller, one request is
/// refused, whatever the sizes and the counts.
#[test]
fn one_block_less_is_refused_by_pools() {
    let mut random = Pcg64Mcg::new(11);
    for round in 0..200 {
        let mut sizes: Vec<usize> = (0..1 + dice(&mut random, 6)).map(|_| 1 + dice(&mut random, 3000)).collect();
        sizes.sort_unstable();
        // Sizes that share a block share their peak.
        sizes.dedup_by_key(|size| (*size + size_of::<u32>()).next_multiple_of(16));
        let counts: Vec<usize> = sizes.iter().map(|_| 1 + dice(&mut random, 9)).collect();
        let limits: Vec<Limit> = sizes.iter().zip(&counts).map(|(size, count)| Limit::of(*count, *size)).collect();
        let sizes_of = PoolSizes::of(&sizes);
        let bytes = <Pools<'_>>::region_bytes_for(sizes_of, &limits);
        // What may be lost at the ends, and the smallest block.
        let block = sizes[0] + size_of::<u32>();
        for (bytes, refuses) in [(bytes, false), (bytes - 3 * 16 - block, true)] {
            let mut memory = vec![MaybeUninit::uninit(); bytes + 64];
            let start = memory.as_ptr().align_offset(64);
            let made = <Pools<'_>>::new(&mut memory[start..start + bytes], sizes_of);
            // Less than one block may be no heap at all.
            let Some(mut heap) = (if refuses { made.ok() } else { Some(made.expect("a region for its limits")) })
            else {
                continue;
            };
            let mut refused = false;
            for (size, count) in sizes.iter().zip(&counts) {
                let live: Vec<_> = (0..*count).map(|_| heap.allocate_bytes(*size, 1)).collect();
                refused |= live.iter().any(Result::is_err);
                // SAFETY: the blocks are live.
                live.into_iter().flatten().for_each(|block| unsafe { heap.deallocate(block) });
            }
            assert_eq!(refused, refuses, "round {round}: {counts:?} of {sizes:?}");
        }
    }
}

/// Whether that program is refused in a heap of these bytes, all of which are in blocks that are aligned to `largest`.
fn is_refused(counts: &[usize], area_bytes: usize, largest: usize) -> bool {
    let mut memory = vec![MaybeUninit::uninit(); 4 * area_bytes + 8192];
    let aligned = memory.as_ptr().addr().next_multiple_of(4096) - memory.as_ptr().addr();
    for start in (aligned..aligned + 4096).step_by(16) {
        for end in (start + area_bytes..start + area_bytes + area_bytes / 16 + 4096).step_by(16) {
            let Some(region) = memory.get_mut(start..end) else { break };
            let Ok(heap) = Of16::new(region, ()) else { continue };
            let (mut bytes, mut first) = (0, usize::MAX);
            heap.walk(&mut |block| {
                bytes += block.size_bytes;
                first = first.min(block.address);
            });
            if bytes > area_bytes {
                break;
            }
            if bytes == area_bytes && first.is_multiple_of(largest) {
                return is_refused_in(heap, counts);
            }
        }
    }
    unreachable!("some region has such a heap")
}

fn is_refused_in(mut heap: Of16<'_>, counts: &[usize]) -> bool {
    let mut live: Vec<NonNull<u8>> = Vec::new();
    for (level, &count) in counts.iter().enumerate() {
        let size = 16 << level;
        for _ in 0..count {
            match heap.allocate_bytes(size, 1) {
                Ok(block) => live.push(block),
                Err(_) => return true,
            }
        }
        live.sort();
        live.dedup_by(|later, earlier| {
            let is_same = later.addr().get() / (2 * size) == earlier.addr().get() / (2 * size);
            if is_same {
                // SAFETY: the block is live, and is removed from the list.
                unsafe { heap.deallocate(*later) };
            }
            is_same
        });
    }
    false
}
