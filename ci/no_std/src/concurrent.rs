//! The heaps that threads share, as one thread uses them.

use super::*;
use rtalloc::adapt::SingleUser;
use rtalloc::concurrent::bitmap_buddy::Whole;
use rtalloc::concurrent::tree_buddy::{Everything, Faithful, InBand, OutOfBand, TreeBuddy};
use rtalloc::{BitmapBuddy, PooledArenas};

type Tree<L, O> = SingleUser<'static, TreeBuddy<'static, 64, L, O, Rmws>>;
face!(tree_buddy: Tree<OutOfBand, Faithful>);
face!(tree_in_band: Tree<InBand, Faithful>);
face!(tree_everything: Tree<OutOfBand, Everything>);
face!(tree_in_band_everything: Tree<InBand, Everything>);
face!(bits: SingleUser<'static, BitmapBuddy<'static, 64, Rmws>>);
face!(whole_bits: SingleUser<'static, BitmapBuddy<'static, 16, Rmws, Whole>>);
face!(pooled_arenas: SingleUser<'static, PooledArenas<'static, Tlsf<'static>, Rmws>>);
