//! How closely a tag heap looks at the tags of a block that is given back: the heap's type decides.

use crate::mechanism::sealed::Sealed;

/// What is tested before a block is taken for live.
pub trait Scrutiny: Sealed + Copy + core::fmt::Debug + 'static {
    /// Whether every tag around the block is tested, or those that one test each suffices for.
    const THOROUGH: bool;
}

/// The default: where the address lies and what the next header says. It finds foreign pointers, a block freed again
/// while it is free, at once or after its neighbours were freed too, and most overwritten sizes.
///
/// It does not find what takes more tests: a stale pointer into the gap that an over-aligned allocation left in front of
/// its block, or a byte written past the end of a block that turns the next header into that of a free block.
#[derive(Clone, Copy, Debug)]
pub struct Brief;

impl Sealed for Brief {}

impl Scrutiny for Brief {
    const THOROUGH: bool = false;
}

/// Every tag around the block must agree with every other before anything is written, and the header of a block that
/// ends up inside a free one is cleared. A pointer to memory that was not handed out again since it was freed is always
/// found, and so is an overwritten header, unless it leads to bytes of the user that look like a tag.
///
/// The price is about ten instructions on average, and twenty at the worst, per deallocate; none per allocate.
///
/// Neither scrutiny knows the gaps between the regions of a heap: a foreign pointer into one of them, granule-aligned and
/// within the heap's span, is judged by whatever bytes are there.
#[derive(Clone, Copy, Debug)]
pub struct Thorough;

impl Sealed for Thorough {}

impl Scrutiny for Thorough {
    const THOROUGH: bool = true;
}
