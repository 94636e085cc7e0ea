//! What makes of one kind of allocator another.

pub mod alone;

#[doc(inline)]
pub use alone::Alone;
