//! What makes of one kind of allocator another.

pub mod alone;
pub mod lock;
pub mod locked;

#[doc(inline)]
pub use alone::Alone;
#[doc(inline)]
pub use lock::Lock;
#[cfg(feature = "critical-section")]
#[doc(inline)]
pub use lock::Masked;
#[doc(inline)]
pub use locked::Locked;
