//! The allocators of the C library: those of the library's table, and one line for each other one.

use crate::bound::{Iterations, Proof, rt_operation};
#[cfg(target_has_atomic = "ptr")]
use crate::contract::rt_shared_contract;
use crate::contract::{c_text, rt_contract, same};
use crate::debug::*;
use crate::error::rt_error;
use crate::heap::handle::{self, rt_compact_fit_config, rt_fragmentation, rt_handle, rt_object_visitor, status_of};
#[cfg(target_has_atomic = "ptr")]
use crate::heap::shared::{self, rt_refusals, rt_shared_config, rt_steps};
use crate::heap::{region, rt_heap_config, rt_limit, rt_pools_config, rt_region};
use crate::report::{rt_corruption, rt_stats, rt_visitor};
#[cfg(target_has_atomic = "ptr")]
use crate::verbs::shared_heaps;
use crate::verbs::{config_of, debug_verbs, forwarded, get_verb, handle_heaps, more_verbs, region_heaps};
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null};
use rtalloc::adapt::{Failing, Guarded, Quota, Traced};
use rtalloc::compact_fit::DefaultLadder;
use rtalloc::contract::Contract;
#[cfg(target_has_atomic = "ptr")]
use rtalloc::contract::SharedContract;
use rtalloc::mechanism::segregated::RoundUp;
use rtalloc::mechanism::stats::{NoStats, WithStats};
use rtalloc::mechanism::validation::Full;
use rtalloc::mechanism::word::Offset32;
use rtalloc::{CompactFit, CompactFitNonMoving, HandleAllocator, RegionAllocator, Tlsf};

#[cfg(target_has_atomic = "ptr")]
use rtalloc::{BitmapBuddy, PooledArenas, SharedAllocator, TreeBuddy};

/// Exports the functions of the entries of the library's table that have a type in C. Those with a configuration of their
/// own have constant costs, which is compared with their contracts.
macro_rules! heaps_of_the_library {
    ($(
        $(#[doc = $summary:literal])*
        $name:ident, $command:literal: $heap:ty, [$($ability:ident),*] {
            $(c: $opaque:ident $(by $config:ident)?,)?
            $(laboratory: { $($about:tt)* },)?
        }
    )*) => {
        $(heaps_of_the_library!([$($opaque $(by $config)?)?] $(#[doc = $summary])* $name: $heap $(, $ability)*);)*
    };
    ([] $($entry:tt)*) => {};
    ([$opaque:ident $(by $config:ident)?] $(#[doc = $summary:literal])* $name:ident: $heap:ty $(, $ability:ident)*) => {
        region_heaps! { $(#[doc = $summary])* $opaque, $name: $heap $(, "O(1)" "O(1)" "O(1)" by $config)? $(, $ability)*; }
    };
}

rtalloc::region_allocators!(heaps_of_the_library, Offset32, WithStats);

/// TLSF inside adapters: the adapters keep the statistics, and TLSF validates every tag before it trusts one.
type Inner = Tlsf<'static, 5, RoundUp, Offset32, NoStats, Full>;

region_heaps! {
    /// TLSF with guards: fences around blocks, fill patterns and a quarantine detect and classify misuse. For tests and
    /// for debugging.
    rt_guarded_tlsf, guarded_tlsf: Guarded<'static, Inner>, "O(H)" "O(H)" "O(H)" by rt_guarded_tlsf_config, guarded [];
    /// TLSF that refuses requests on purpose, to test how a program handles exhaustion.
    rt_failing_tlsf, failing_tlsf: Failing<'static, Tlsf<'static, 5, RoundUp, Offset32, WithStats>>, "O(1)" "O(1)" "O(1)"
        by rt_failing_tlsf_config, regions, failing [];
    /// TLSF shared by several components, each limited to its quota.
    rt_quota_tlsf, quota_tlsf: Quota<'static, Inner>, "O(1)" "O(1)" "O(1)" by rt_quota_tlsf_config, quota [];
    /// TLSF with a flight recorder: records the last operations in its region, for a dump.
    rt_traced_tlsf, traced_tlsf: Traced<'static, Tlsf<'static, 5, RoundUp, Offset32, WithStats>>, "O(1)" "O(1)" "O(1)"
        by rt_traced_tlsf_config, regions, traced [];
    /// TLSF with all four adapters: guards, then injected failures, then quotas, then the flight recorder.
    rt_debug_tlsf, debug_tlsf: Guarded<'static, Failing<'static, Quota<'static, Traced<'static, Inner>>>>, "O(H)" "O(H)" "O(H)"
        by rt_debug_tlsf_config, guarded [], failing [.inner()], quota [.inner().inner()], traced [.inner().inner().inner()];
}

handle_heaps! {
    /// Compact-fit: objects with handles that move, so that memory use depends on the live objects only, not on
    /// history.
    rt_compact_fit, compact_fit: CompactFit<'static, DefaultLadder, WithStats>, "O(1)" "O(s)", contiguous;
    /// Compact-fit with incremental compaction: moves at most 256 bytes per operation.
    rt_compact_fit_iota, compact_fit_iota: CompactFit<'static, DefaultLadder, WithStats, 256>, "O(s)" "O(s)", contiguous;
    /// Compact-fit without moves: an object consists of pieces that stay in place.
    rt_compact_fit_non_moving, compact_fit_non_moving: CompactFitNonMoving<'static, DefaultLadder, 32, WithStats>, "O(s)" "O(s)";
}

#[cfg(target_has_atomic = "ptr")]
shared_heaps! {
    /// Arenas: a TLSF heap for each slot, whose memory comes in chunks from one pool and returns to it. No slot has a
    /// share of the region, and none is kept from using it up. The only atomic instruction of an operation that the
    /// slot's heap serves is a load.
    rt_arenas, arenas: PooledArenas<'static>, "O(1)" "O(1)" "O(1)";
    /// Binary buddy with bitmaps.
    rt_bitmap_buddy, bitmap_buddy: BitmapBuddy<'static>, "O(H)" "O(log H)" "O(H)";
    /// Binary buddy with a tree of counters.
    rt_tree_buddy, tree_buddy: TreeBuddy<'static>, "O(H)" "O(H)" "O(H)";
}
