//! Buddy systems: blocks that split in one way, and merge with one other block only.
//!
//! The systems differ only in their sizes, to which requests are rounded up:
//!
//! | | sizes, in smallest blocks | a request takes at most | name |
//! |---|---|---|---|
//! | [`BinaryBuddy`] | 1 2 4 8 16 32 ... | 2 times itself | `binary-buddy` |
//! | [`FibonacciBuddy`] | 1 1 2 3 5 8 13 ... | 1.67 times, 1.62 as blocks grow | `fibonacci-buddy` |
//! | [`WeightedBuddy`] | 1 2 3 4 6 8 12 ... | 1.5 times, 1.33 above a 3·2^k | `weighted-buddy` |
//! | [`DoubleBuddy`] | 1 2 4 8 ... and 3 6 12 ... | as weighted, while either part of the heap has room | `double-buddy` |

pub mod binary;
pub mod double;
pub mod fibonacci;
pub mod weighted;

pub use binary::BinaryBuddy;
pub use double::DoubleBuddy;
pub use fibonacci::FibonacciBuddy;
pub use weighted::WeightedBuddy;
