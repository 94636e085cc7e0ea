//! Adapters: each turns one kind of allocator into another.
//!
//! | from | to | by |
//! |---|---|---|
//! | a sequential heap | a shared heap | [`Locked`], with a [`Lock`] |
//! | a sequential heap | one used from several places in one thread | [`Local`] |
//! | a shared heap | a sequential heap, for comparison | [`SingleUser`] |
//! | a sequential heap | one whose last operations are recorded in its memory, for a dump | [`Traced`] |
//! | a sequential heap | one that keeps freed small blocks, for the mean | [`Cached`] |
//! | a sequential heap | one that detects misuse | [`Guarded`] |
//! | a sequential heap | one that refuses on purpose, for tests | [`Failing`] |
//! | a sequential heap | one whose components have quotas | [`Quota`] |
//! | a shared heap | one allocator for all callers | [`Joint`], with a [`CurrentSlot`] |
//! | a shared heap | the global allocator | [`Global`], with a [`CurrentSlot`] |
//! | a sequential heap | the global allocator of a program with one thread, in the fewest instructions | [`Guest`] |
//! | all of these | the allocator of a collection | feature `allocator-api2` |

pub mod cached;
#[cfg(feature = "allocator-api2")]
mod containers;
pub mod current;
pub mod failing;
mod frames;
mod front;
#[cfg(any(target_has_atomic = "ptr", feature = "critical-section"))]
pub mod global;
pub mod guarded;
pub mod guest;
pub mod joint;
pub mod local;
pub mod lock;
pub mod locked;
pub mod quota;
pub mod single_user;
#[cfg(feature = "std")]
pub mod threads;
pub mod traced;

#[doc(inline)]
pub use cached::{Cached, CachedConfig};
#[doc(inline)]
pub use current::{AnySlot, Bounded, CurrentSlot, Numbered};
#[doc(inline)]
pub use failing::{Failing, FailingConfig, Failures};
#[cfg(any(target_has_atomic = "ptr", feature = "critical-section"))]
#[doc(inline)]
pub use global::{Global, Memory};
#[doc(inline)]
pub use guarded::{Guarded, GuardedConfig};
#[doc(inline)]
pub use guest::Guest;
#[doc(inline)]
pub use joint::Joint;
#[doc(inline)]
pub use local::Local;
#[cfg(feature = "std")]
#[doc(inline)]
pub use lock::BackoffLock;
#[doc(inline)]
pub use lock::Lock;
#[cfg(feature = "critical-section")]
#[doc(inline)]
pub use lock::Masked;
#[doc(inline)]
pub use locked::Locked;
#[doc(inline)]
pub use quota::{Quota, QuotaConfig, QuotaLimit, QuotaLimits, QuotaUse};
#[doc(inline)]
pub use single_user::SingleUser;
#[cfg(feature = "std")]
#[doc(inline)]
pub use threads::{Reserved, ThreadSlots};
#[doc(inline)]
pub use traced::{Traced, TracedConfig};
