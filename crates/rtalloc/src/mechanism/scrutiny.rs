//! How closely a tag heap looks at the tags of a block that is given back: the heap's type decides.

/// What is tested before a block is taken for live.
pub trait Scrutiny: Copy + core::fmt::Debug + 'static {
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

impl Scrutiny for Brief {
    const THOROUGH: bool = false;
}

/// Every tag around the block must agree with every other before anything is written, and tags that end up inside a
/// free block are cleared. A pointer to memory that was not handed out again since it was freed is always found, and so
/// is an overwritten header unless it is one that a heap could have.
///
/// The price is about ten instructions per deallocate, and none per allocate.
#[derive(Clone, Copy, Debug)]
pub struct Thorough;

impl Scrutiny for Thorough {
    const THOROUGH: bool = true;
}
