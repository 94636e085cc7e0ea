//! The heaps that threads share, as one thread uses them. They need compare-and-swap.

use super::*;
use rtalloc::adapt::SingleUser;
use rtalloc::concurrent::atomics::Native;
use rtalloc::concurrent::bitmap_buddy::Whole;
use rtalloc::concurrent::tree_buddy::{Everything, Faithful, InBand, OutOfBand, TreeBuddy};
use rtalloc::{Arenas, BitmapBuddy};

type Tree<L, O> = SingleUser<'static, TreeBuddy<'static, 64, L, O>>;
face!(tree_buddy: Tree<OutOfBand, Faithful>);
face!(tree_in_band: Tree<InBand, Faithful>);
face!(tree_everything: Tree<OutOfBand, Everything>);
face!(tree_in_band_everything: Tree<InBand, Everything>);
face!(bits: SingleUser<'static, BitmapBuddy<'static>>);
face!(whole_bits: SingleUser<'static, BitmapBuddy<'static, 16, Native, Whole>>);
face!(arenas: SingleUser<'static, Arenas<'static>>);
