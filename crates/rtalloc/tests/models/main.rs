//! The concurrent heaps under loom, a model checker: every execution of a few threads with a few operations that the
//! language's memory model allows.
//!
//! loom does not explore load buffering (a load that reads a later store), and treats sequential consistency as acquire
//! and release. [`reach`] shows what that hides. Explorations with a bound on preemptions say so.
//!
//! | module | what is in it |
//! |---|---|
//! | [`scene`] | the shared words as loom atomics; which thread owns which memory |
//! | [`controls`] | explorations, and the ordering mutation tests |
//! | [`mutants`] | logic mutation tests of pooled arenas |
//! | [`numbers`] | numbers that threads take and return |
//! | [`global`] | `Global` and `ThreadSlots` on pooled arenas |
//! | [`scenarios`] | what the threads do, for any shared heap |
//! | [`chunk_pool`] | the pool of pooled arenas by itself |
//! | [`remote_frees`] | the remote-free queues of pooled arenas by themselves |
//! | [`reach`] | what the model checker does not explore |
//! | [`compact_fit`] | objects that move during concurrent accesses |
#![cfg(target_pointer_width = "64")]

#[path = "../shared/bits.rs"]
mod bits;
mod chunk_pool;
mod compact_fit;
mod controls;
mod global;
mod mutants;
mod numbers;
mod reach;
mod remote_frees;
mod scenarios;
mod scene;
#[path = "../tier/mod.rs"]
mod tier;

use bits::{Bits, fault};
use controls::{Half, Model};
use rtalloc::adapt::Cached;
use rtalloc::concurrent::atomics::Native;
use rtalloc::concurrent::bitmap_buddy::{BitmapBuddy, BitmapConfig, Trimmed, Whole};
use rtalloc::concurrent::tree_buddy::{
    Everything, Faithful, InBand, Layout, Options, OutOfBand, ReadsFirst, TreeBuddy,
};
use rtalloc::concurrent::{PooledArenas, PooledArenasConfig};
use rtalloc::mechanism::segregated::RoundUp;
use rtalloc::mechanism::stats::NoStats;
use rtalloc::mechanism::validation::BasicSettingAside;
use rtalloc::mechanism::word::{Offset16, Wide};
use rtalloc::{SharedAllocator, Slot, Tlsf};

use scenarios::Fixture;
use scene::Loomed;
use std::marker::PhantomData;

/// Defines a fixture: a heap with its region and request sizes.
macro_rules! fixture {
    ($(#[$doc:meta])* $name:ident: $heap:ty, $config:expr, region: $region:expr, size: $size:literal, large: $large:literal) => {
        $(#[$doc])*
        struct $name;

        impl Fixture for $name {
            type Heap = $heap;
            const REGION_BYTES: usize = $region;
            const SIZE_BYTES: usize = $size;
            const LARGE_BYTES: usize = $large;

            fn config() -> <$heap as rtalloc::SharedAllocator<'static>>::Config {
                $config
            }
        }
    };
}

/// Bytes of a pool of `words` words, each with two blocks.
const fn pool_bytes(words: usize) -> usize {
    2 * 64 + 64 + words * (8 + 2 * 64)
}

/// A pool of `WORDS` words.
struct Pool<const FAULT: u8, const WORDS: usize>;

impl<const FAULT: u8, const WORDS: usize> Fixture for Pool<FAULT, WORDS> {
    type Heap = Bits<'static, FAULT, Loomed>;
    const REGION_BYTES: usize = pool_bytes(WORDS);
    const SIZE_BYTES: usize = 64;
    const LARGE_BYTES: usize = 64;

    fn config() {}
}

fn pool<const FAULT: u8>() -> Vec<Model> {
    vec![
        Model::of::<Pool<FAULT, 1>>("each its own", scenarios::each_its_own::<Pool<FAULT, 1>>),
        Model::of::<Pool<FAULT, 1>>("both are refused", scenarios::both_are_refused::<Pool<FAULT, 1>>),
        Model::of::<Pool<FAULT, 3>>("one is left", scenarios::one_is_left::<Pool<FAULT, 3>>),
        Model::of::<Pool<FAULT, 1>>("freed is known", scenarios::freed_is_known::<Pool<FAULT, 1>>),
        Model::of::<Pool<FAULT, 1>>("one frees twice", scenarios::one_frees_twice::<Pool<FAULT, 1>>).fewer(2),
        Model::of::<Pool<FAULT, 1>>("one frees", scenarios::one_frees::<Pool<FAULT, 1>>).fewer(2),
    ]
}

/// The pool without a fault passes every model, and needs every ordering it uses.
#[test]
fn bits() {
    controls::verify("bits", &pool::<{ fault::NONE }>());
}

/// Every fault of the pool that threads alone can expose makes a model fail.
#[test]
fn bits_with_faults() {
    controls::refute("torn claim", &pool::<{ fault::TORN_CLAIM }>());
    controls::refute("torn free", &pool::<{ fault::TORN_FREE }>());
    controls::refute("locked", &pool::<{ fault::LOCKED }>());
    controls::refute("rash exhaustion", &pool::<{ fault::RASH_EXHAUSTION }>());
    controls::refute("torn counters", &pool::<{ fault::TORN_TALLY }>());
    controls::refute("scratch", &pool::<{ fault::SCRATCH }>());
    controls::refute("long way", &pool::<{ fault::LONG_WAY }>());
    controls::refute("leak", &pool::<{ fault::LEAK }>());
}

/// Bytes of a region. A64 needs more for the same chunks or leaves, because its cache lines are longer.
const fn bytes(elsewhere: usize, on_a64: usize) -> usize {
    if cfg!(target_arch = "aarch64") { on_a64 } else { elsewhere }
}

/// Pooled arenas of the smallest tags.
type Pooled = PooledArenas<'static, Tlsf<'static, 3, RoundUp, Offset16>, Loomed>;

fixture! {
    /// Three slots that share three chunks: a block takes one, a large one two.
    ThreeChunks: Pooled, PooledArenasConfig { slots: 3, chunk_bytes: 256, ..PooledArenasConfig::default() },
    region: bytes(0x900, 0xD00), size: 200, large: 400
}

fixture! {
    /// Three slots that share five chunks: the first block of a slot takes one, the second two, with room for two more.
    LongerPieces: Pooled, PooledArenasConfig { slots: 3, chunk_bytes: 256, ..PooledArenasConfig::default() },
    region: bytes(0xB00, 0xF00), size: 144, large: 400
}

/// Fails unless the two heaps above have room for as many blocks as that means.
fn count_blocks() {
    fn blocks_in<C: Fixture<Heap = Pooled>>(config: PooledArenasConfig) -> usize {
        let mut region = vec![std::mem::MaybeUninit::uninit(); C::REGION_BYTES + (1 << 12)];
        let start = region.as_ptr().addr().next_multiple_of(1 << 12) - region.as_ptr().addr();
        let region = &mut region[start..][..C::REGION_BYTES];
        let heap = PooledArenas::<'_, Tlsf<'_, 3, RoundUp, Offset16>, Native>::new(region, config);
        let heap = heap.expect("a region that is long enough");
        let mut slot = heap.claim(0).expect("the slot is free");
        (0..).take_while(|_| slot.allocate_bytes(C::SIZE_BYTES, 1).is_ok()).count()
    }
    assert_eq!(blocks_in::<ThreeChunks>(ThreeChunks::config()), 3, "a block in each chunk");
    assert_eq!(
        blocks_in::<LongerPieces>(LongerPieces::config()),
        7,
        "one block in a chunk, and three in two chunks each"
    );
}

fixture! {
    /// Three slots that share 22 chunks: two long blocks of 10 each, or one of 21.
    LongBlocks: Pooled, PooledArenasConfig { slots: 3, chunk_bytes: 64, ..PooledArenasConfig::default() },
    region: bytes(0xB40, 0xF00), size: 640, large: 1344
}

/// The same whose heaps keep what is freed.
type Kept = PooledArenas<'static, Cached<'static, Tlsf<'static, 5, RoundUp, Wide, NoStats, BasicSettingAside>>, Loomed>;

fixture! {
    /// Three slots that share a few chunks, each for one block or two.
    KeptBlocks: Kept, PooledArenasConfig { slots: 3, chunk_bytes: 256, ..PooledArenasConfig::default() },
    region: bytes(0x2400, 0x2700), size: 200, large: 400
}

/// The models of pooled arenas, of their parts, and of `Global` on them.
fn pooled() -> Vec<Model> {
    let heaps = [
        Model::of::<KeptBlocks>("one keeps a block", scenarios::freed_is_known_at_once::<KeptBlocks>),
        Model::of::<KeptBlocks>("whole after what is kept", scenarios::whole_after_small::<KeptBlocks>).within(2, 3),
        Model::of::<KeptBlocks>("one keeps a block twice", scenarios::one_frees_twice::<KeptBlocks>).within(2, 3),
        Model::of::<KeptBlocks>("a slot with kept blocks is adopted", scenarios::slot_is_adopted::<KeptBlocks>)
            .within(2, 3),
        Model::of::<KeptBlocks>("others free kept blocks", scenarios::others_free::<KeptBlocks>).within(2, 3),
        Model::of::<LongBlocks>("each its own long block", scenarios::each_its_own::<LongBlocks>).fewer(2),
        Model::of::<LongBlocks>("large and small long block", scenarios::large_and_small::<LongBlocks>).within(2, 3),
        Model::of::<LongBlocks>("one frees a long block", scenarios::one_frees::<LongBlocks>).within(2, 3),
        Model::of::<LongBlocks>("a freed long block is known", scenarios::freed_is_known::<LongBlocks>),
        Model::of::<LongBlocks>("a long block grows", scenarios::grows::<LongBlocks>),
        Model::of::<LongBlocks>("one long block is left", scenarios::one_is_left::<LongBlocks>).within(2, 3),
        Model::of::<LongBlocks>("two free a long block", scenarios::two_free::<LongBlocks>),
        Model::of::<LongerPieces>("large and longer piece", scenarios::large_and_second::<LongerPieces>).within(2, 3),
        Model::of::<ThreeChunks>("freed is known at once", scenarios::freed_is_known_at_once::<ThreeChunks>),
        Model::of::<ThreeChunks>("each its own", scenarios::each_its_own::<ThreeChunks>).fewer(2),
        Model::of::<ThreeChunks>("large and small", scenarios::large_and_small::<ThreeChunks>).fewer(2),
        Model::of::<ThreeChunks>("both are refused", scenarios::both_are_refused::<ThreeChunks>),
        Model::of::<ThreeChunks>("freed is known", scenarios::freed_is_known::<ThreeChunks>),
        Model::of::<ThreeChunks>("one frees twice", scenarios::one_frees_twice::<ThreeChunks>).within(2, 3),
        Model::of::<ThreeChunks>("one frees", scenarios::one_frees::<ThreeChunks>).within(2, 3),
        Model::of::<ThreeChunks>("whole after small", scenarios::whole_after_small::<ThreeChunks>).within(2, 3),
        Model::of::<ThreeChunks>("small and whole", scenarios::small_and_whole::<ThreeChunks>).within(2, 3),
        Model::of::<ThreeChunks>("slot is taken once", scenarios::slot_is_taken_once::<ThreeChunks>),
        Model::of::<ThreeChunks>("slot is adopted", scenarios::slot_is_adopted::<ThreeChunks>).within(2, 3),
        Model::of::<ThreeChunks>("others free", scenarios::others_free::<ThreeChunks>).within(2, 3),
    ];
    [heaps.as_slice(), &global::models(), &chunk_pool::models(), &remote_frees::models()].concat()
}

#[test]
fn pooled_arenas() {
    count_blocks();
    controls::verify("pooled arenas", &pooled());
}

/// Every logic mutant makes a model fail.
#[test]
fn pooled_arenas_with_faults() {
    controls::refute_mutants("pooled arenas", &pooled(), &mutants::MUTANTS);
}

/// Bitmaps of words of two bits, with a line for each of two slots.
type TinyBitmap<S> = BitmapBuddy<'static, 64, Loomed, S>;

/// Bytes of a region with so many leaves. On A64 the control structure has 768.
const fn region_bytes(elsewhere: usize, leaves: usize) -> usize {
    bytes(elsewhere, 768 + 64 * leaves)
}

/// Heaps of bitmaps, named by what they have.
macro_rules! bitmaps {
    ($($name:ident: $shape:ty, region: $region:literal, size: $size:literal, large: $large:literal, leaves: $leaves:literal;)*) => {
        $(
            fixture! { $name: TinyBitmap<$shape>, BitmapConfig { slots: 2 }, region: region_bytes($region, $leaves), size: $size, large: $large }
        )*
        /// Fails unless each heap has the number of leaves in its name.
        fn count_leaves() {
            $(
                let mut region = Box::new([const { std::mem::MaybeUninit::uninit() }; region_bytes($region, $leaves) + (1 << 12)]);
                let start = region.as_ptr().addr().next_multiple_of(1 << 12) - region.as_ptr().addr();
                let region = &mut region[start..][..region_bytes($region, $leaves)];
                let mut heap = BitmapBuddy::<'_, 64, Native, $shape>::new(region, BitmapConfig { slots: 2 }).expect("a region");
                let mut bytes = 0;
                heap.walk(&mut |block| bytes += block.size_bytes);
                assert_eq!(bytes / 64, $leaves, "leaves of {}", stringify!($name));
            )*
        }
    };
}

bitmaps! {
    FourLeaves: Whole<1>, region: 0x300, size: 64, large: 256, leaves: 4;
    SevenLeaves: Whole<1>, region: 0x400, size: 64, large: 256, leaves: 7;
    Tails: Trimmed<1>, region: 0x300, size: 64, large: 192, leaves: 4;
    SevenTails: Trimmed<1>, region: 0x400, size: 64, large: 192, leaves: 7;
    Pairs: Whole<2>, region: 0x300, size: 128, large: 256, leaves: 5;
    Grown: Whole<1>, region: 0x300, size: 64, large: 128, leaves: 4;
}

fn bitmap() -> Vec<Model> {
    vec![
        Model::of::<FourLeaves>("both are refused", scenarios::both_are_refused::<FourLeaves>),
        Model::of::<FourLeaves>("one is left", scenarios::one_is_left::<FourLeaves>).within(2, 3),
        Model::of::<Tails>("large and small", scenarios::large_and_small::<Tails>).within(1, 1),
        Model::of::<Pairs>("pairs", scenarios::one_is_left::<Pairs>).within(1, 1),
        Model::of::<Grown>("grows", scenarios::grows::<Grown>).within(1, 2),
        Model::of::<FourLeaves>("whole after small", scenarios::whole_after_small::<FourLeaves>).within(2, 2),
        Model::of::<FourLeaves>("small after whole", scenarios::small_after_whole::<FourLeaves>).within(1, 1),
        Model::of::<SevenTails>("left again", scenarios::left_again::<SevenTails>).within(2, 2),
        Model::of::<FourLeaves>("last of two", scenarios::last_is_freed::<FourLeaves, 2>).within(1, 2),
        Model::of::<SevenLeaves>("last of three", scenarios::last_is_freed::<SevenLeaves, 3>).within(1, 2),
        Model::of::<SevenLeaves>("last of four", scenarios::last_is_freed::<SevenLeaves, 4>).within(1, 2),
        Model::of::<FourLeaves>("one frees twice", scenarios::one_frees_twice::<FourLeaves>).within(1, 3),
        Model::of::<FourLeaves>("each its own", scenarios::each_its_own::<FourLeaves>).within(1, 1),
    ]
}

#[test]
fn bitmap_buddy() {
    count_leaves();
    // A search's reads happen before operations that begin after it: see `reach`.
    let beyond = [("begun.fetch_add(0, Release)", Half::Release), ("begun.fetch_add(1, Acquire)", Half::Acquire)];
    controls::verify_but("bitmap buddy", &bitmap(), &beyond);
}

/// A tree in a region of `REGION_BYTES`; see [`trees`] for its depth.
struct Tree<L, O, const REGION_BYTES: usize>(PhantomData<(L, O)>);

/// Regions of trees with 3 nodes, and with 7.
const DEPTH_2: usize = 0x180;
const DEPTH_3: usize = 0x280;

impl<L: Layout + 'static, O: Options, const REGION_BYTES: usize> Fixture for Tree<L, O, REGION_BYTES> {
    type Heap = TreeBuddy<'static, 64, L, O, Loomed>;
    const REGION_BYTES: usize = REGION_BYTES;
    const SIZE_BYTES: usize = 32;
    const LARGE_BYTES: usize = 100;
    const STORES_ARE_ORDERED: bool = true;

    fn config() {}
}

/// Models of one layout with one set of options.
fn trees<L: Layout + 'static, O: Options>(names: [&'static str; 9]) -> [Model; 9] {
    assert_eq!(TreeBuddy::<64, L, O>::depth_in(DEPTH_2), 2);
    assert_eq!(TreeBuddy::<64, L, O>::depth_in(DEPTH_3), 3);
    [
        Model::of::<Tree<L, O, DEPTH_2>>(names[0], scenarios::both_are_refused::<Tree<L, O, DEPTH_2>>),
        Model::of::<Tree<L, O, DEPTH_2>>(names[1], scenarios::each_its_own::<Tree<L, O, DEPTH_2>>).within(2, 4),
        Model::of::<Tree<L, O, DEPTH_2>>(names[2], scenarios::large_and_small::<Tree<L, O, DEPTH_2>>).within(2, 4),
        Model::of::<Tree<L, O, DEPTH_2>>(names[3], scenarios::one_frees_twice::<Tree<L, O, DEPTH_2>>).within(2, 3),
        Model::of::<Tree<L, O, DEPTH_3>>(names[4], scenarios::one_is_left::<Tree<L, O, DEPTH_3>>).within(2, 3),
        Model::of::<Tree<L, O, DEPTH_3>>(names[5], scenarios::one_frees::<Tree<L, O, DEPTH_3>>).within(1, 2),
        Model::of::<Tree<L, O, DEPTH_2>>(names[6], scenarios::small_and_whole::<Tree<L, O, DEPTH_2>>).within(2, 3),
        Model::of::<Tree<L, O, DEPTH_3>>(names[7], scenarios::search_in_vain::<Tree<L, O, DEPTH_3>>).within(2, 3),
        Model::of::<Tree<L, O, DEPTH_2>>(names[8], scenarios::grows::<Tree<L, O, DEPTH_2>>).within(2, 4),
    ]
}

/// The name of each scenario, for a kind of tree.
macro_rules! named {
    ($kind:literal) => {
        [
            concat!($kind, ": both are refused"),
            concat!($kind, ": each its own"),
            concat!($kind, ": large and small"),
            concat!($kind, ": one frees twice"),
            concat!($kind, ": one is left"),
            concat!($kind, ": one frees"),
            concat!($kind, ": small and whole"),
            concat!($kind, ": search in vain"),
            concat!($kind, ": grows"),
        ]
    };
}

#[test]
fn tree_buddy() {
    let models = [
        trees::<OutOfBand, Faithful>(named!("faithful")),
        trees::<InBand, Faithful>(named!("faithful in band")),
        trees::<OutOfBand, ReadsFirst>(named!("reads first")),
        trees::<OutOfBand, Everything>(named!("everything")),
        trees::<InBand, Everything>(named!("everything in band")),
    ];
    // An operation happens after what precedes it, and before what begins after it: see `reach`.
    let beyond = [("watch.fetch_add(BEGUN", Half::Acquire), ("watch.fetch_add(UNDER_WAY", Half::Release)];
    controls::verify_but("tree buddy", &models.concat(), &beyond);
}

/// No two threads have the same number, and what an owner did happens before what the next owner does.
#[test]
fn numbers_of_threads() {
    controls::verify("numbers", &numbers::MODELS);
}

/// Finds a state, a lock and numbers that are taken in two steps, and a request that is not repeated.
#[test]
fn global_heap_with_faults() {
    global::faults().iter().for_each(|(fault, model)| controls::refute(fault, std::slice::from_ref(model)));
}

/// Threads that read, write and free, against an owner that moves objects.
#[test]
fn concurrent_compact_fit() {
    controls::verify("compact-fit", &[remote_frees::models().as_slice(), &compact_fit::models::<Loomed>()].concat());
}

/// Finds a move that begins in two steps, one that commits in two steps, and one that no reader can abort.
#[test]
fn concurrent_compact_fit_with_faults() {
    controls::refute("torn begin", &compact_fit::models::<compact_fit::faults::Torn<true>>());
    controls::refute("torn commit", &compact_fit::models::<compact_fit::faults::Torn<false>>());
    controls::refute("no abort", &compact_fit::models::<compact_fit::faults::NoAbort>());
}
