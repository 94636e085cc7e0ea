//! What makes of one kind of allocator another.
//!
//! | from | to | by |
//! |---|---|---|
//! | a sequential heap | a shared one | [`Locked`], with a [`Lock`] |
//! | a sequential heap | one that many places of one thread use | [`Local`] |
//! | a shared heap | a sequential one, for comparison | [`Alone`] |
//! | a sequential heap | one whose last operations are in its memory, for a dump | [`Traced`] |
//! | a sequential heap | one that finds misuse | [`Guarded`] |
//! | a shared heap | one allocator for whoever runs | [`Joint`], with a [`CurrentSlot`] |
//! | a shared heap | the global allocator | [`Global`], with a [`CurrentSlot`] |
//! | those | the allocator of a collection | feature `allocator-api2` |

pub mod alone;
#[cfg(feature = "allocator-api2")]
mod containers;
pub mod current;
mod frames;
mod front;
#[cfg(target_has_atomic = "ptr")]
pub mod global;
pub mod guarded;
pub mod joint;
pub mod local;
pub mod lock;
pub mod locked;
#[cfg(feature = "std")]
pub mod threads;
pub mod traced;

#[doc(inline)]
pub use alone::Alone;
#[doc(inline)]
pub use current::{Anyone, CurrentSlot, Numbered};
#[cfg(target_has_atomic = "ptr")]
#[doc(inline)]
pub use global::{Global, Memory};
#[doc(inline)]
pub use guarded::{Guarded, GuardedConfig};
#[doc(inline)]
pub use joint::Joint;
#[doc(inline)]
pub use local::Local;
#[doc(inline)]
pub use lock::Lock;
#[cfg(feature = "critical-section")]
#[doc(inline)]
pub use lock::Masked;
#[cfg(feature = "std")]
#[doc(inline)]
pub use lock::Patient;
#[doc(inline)]
pub use locked::Locked;
#[cfg(feature = "std")]
#[doc(inline)]
pub use threads::ThreadSlots;
#[doc(inline)]
pub use traced::{Traced, TracedConfig};
