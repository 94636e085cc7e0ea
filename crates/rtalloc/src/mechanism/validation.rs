//! How strictly a boundary-tag heap checks the tags of a block that is freed. The heap's type decides.

use crate::mechanism::sealed::Sealed;

/// The checks before a freed block is accepted as live.
pub trait Validation: Sealed + Copy + core::fmt::Debug + 'static {
    /// Whether a freed or resized block is checked at all.
    const IS_CHECKED: bool = true;
    /// Whether tags of the blocks next to it are checked, too.
    const CHECKS_NEIGHBOURS: bool = Self::IS_CHECKED;
    /// Whether all tags around the block are checked.
    const IS_FULL: bool;
    /// Whether a live block can be set aside: a flag in its header says that its user has freed it.
    const SETS_ASIDE: bool = false;
}

/// No check of a block that is freed or resized. A double free, a pointer that this heap did not return, and an
/// overwritten tag are undefined behaviour, and nothing reports them: the heap follows whatever bytes are there. For
/// code whose frees are proved correct, or whose faults something else contains, as in the guest of a virtual machine.
///
/// `docs/MISUSE.md` has what each tier adds to the bounds of this one, in instructions, and what it catches.
#[derive(Clone, Copy, Debug)]
pub struct Unchecked;

impl Sealed for Unchecked {}

impl Validation for Unchecked {
    const IS_CHECKED: bool = false;
    const IS_FULL: bool = false;
}

/// Checks where the address lies, and the flag of a live block in the block's own header. Every free clears that flag. So
/// a foreign pointer is detected, and a block that was freed and not allocated again, whatever it has merged with since.
///
/// An overwritten tag is not detected and damages the heap. Neither is a pointer into a block, if a word of the block
/// happens to have the flag where a header would be (in x86-64 code, all bits below the size must be right), nor one to
/// the record at the end of a region that is not the heap's highest.
#[derive(Clone, Copy, Debug)]
pub struct OwnTag;

impl Sealed for OwnTag {}

impl Validation for OwnTag {
    const CHECKS_NEIGHBOURS: bool = false;
    const IS_FULL: bool = false;
}

/// The default: checks where the address lies and what the next header says. It detects foreign pointers, overwritten
/// flags, and a block freed again while it is free, at once or after its neighbours were freed too.
///
/// It does not detect what takes more tests: a stale pointer into the gap that an over-aligned allocation left before
/// its block, or a byte written past the end of a block that changes only the size in the next header (`docs/MISUSE.md`
/// has rates). Tags are not checked when a block is allocated.
#[derive(Clone, Copy, Debug)]
pub struct Basic;

impl Sealed for Basic {}

impl Validation for Basic {
    const IS_FULL: bool = false;
}

/// [`Basic`], and a block can be [set aside](crate::contract::SetAside) by a third flag in its header. That takes a bit
/// from those that show overwritten headers: the only one, where granules have 8 bytes.
#[derive(Clone, Copy, Debug)]
pub struct BasicSettingAside;

impl Sealed for BasicSettingAside {}

impl Validation for BasicSettingAside {
    const IS_FULL: bool = false;
    const SETS_ASIDE: bool = true;
}

/// All tags around a freed block must agree with each other before anything is written. The header of a block that ends
/// up inside a free block is cleared. A pointer to memory that was not allocated again since it was freed is always
/// detected. When a block is allocated, its header, its footer and the next header must agree, too; otherwise the
/// request is refused, and the block is no longer used.
///
/// Headers of live blocks are sealed: the tag's highest byte is modified by its lowest. One byte written past the end
/// of a block, or before a block, is always detected where sizes have a byte to spare: in heaps below 16 MiB with
/// [`Offset32`](crate::mechanism::word::Offset32), in any with [`Wide`](crate::mechanism::word::Wide) tags on a 64-bit
/// machine. [`Offset16`](crate::mechanism::word::Offset16) has no seal; the tags must agree, and the user's bytes may
/// happen to look like valid tags.
///
/// No validation knows the gaps between the regions of a heap: a foreign pointer into a gap,
/// granule-aligned and within the heap's span, is judged by whatever bytes are there.
#[derive(Clone, Copy, Debug)]
pub struct Full;

impl Sealed for Full {}

impl Validation for Full {
    const IS_FULL: bool = true;
}
