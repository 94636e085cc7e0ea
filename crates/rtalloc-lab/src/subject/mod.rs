//! The allocators under test: ours, and the peers published as crates.

/// An allocator that can be measured.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Name as `--on` takes it.
    pub name: &'static str,
}

/// Every subject, in table order.
#[must_use]
pub fn all() -> &'static [Subject] {
    &[]
}
