//! Shared heaps used by a single thread, through one slot.

use crate::LoopLimits;
use crate::adapter::Choice;
use rtalloc::concurrent::bitmap_buddy::{BitmapBuddy, BitmapConfig};
use rtalloc::concurrent::tree_buddy::{InBand, TreeBuddy};
use rtalloc::concurrent::{PooledArenas, PooledArenasConfig};

/// Heaps with one slot.
#[derive(Clone, Copy, Debug)]
pub struct OneSlot;

impl Choice<PooledArenasConfig> for OneSlot {
    fn config() -> PooledArenasConfig {
        PooledArenasConfig { slots: SLOTS, ..PooledArenasConfig::default() }
    }
}

impl Choice<BitmapConfig> for OneSlot {
    fn config() -> BitmapConfig {
        BitmapConfig { slots: SLOTS }
    }
}

const SLOTS: usize = 1;

/// Loop limits of [`OneSlot`]'s pooled arenas.
pub(crate) const POOLED_ARENAS: LoopLimits = LoopLimits {
    remote_frees: Some(|| <OneSlot as Choice<PooledArenasConfig>>::config().reclaim_budget),
    pending_words: Some(|| SLOTS.div_ceil(usize::BITS as usize)),
    words: Some(|region_bytes| <PooledArenas<'static>>::max_words(region_bytes, &OneSlot::config())),
    ..LoopLimits::NONE
};

/// Loop limits of [`OneSlot`]'s bitmap buddy.
pub(crate) const BITMAP_BUDDY: LoopLimits =
    LoopLimits { words: Some(<BitmapBuddy<'static>>::max_words), slots: Some(|| SLOTS), ..LoopLimits::NONE };

/// Loop limits of the tree buddy.
pub(crate) const TREE_BUDDY: LoopLimits =
    LoopLimits { levels: Some(<TreeBuddy<'static>>::depth_in), ..LoopLimits::NONE };

/// Loop limits of the tree buddy with counters in band.
pub(crate) const TREE_BUDDY_IN_BAND: LoopLimits =
    LoopLimits { levels: Some(<TreeBuddy<'static, 64, InBand>>::depth_in), ..LoopLimits::NONE };
