//! Construction of an adapter: its control structure takes the start of the region, the inner heap the rest; and their
//! names.

use crate::contract::{InitError, RegionAllocator};
use core::alloc::Layout;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

/// Makes a heap in the rest of a region after a `T` and `behind_bytes` more; returns the address for the `T`, which the
/// caller must write, and the heap. The heap has `spare_bytes` more than it needs for itself.
///
/// # Errors
///
/// The heap's error, in terms of the whole region; nothing was written.
pub(super) fn divide<'r, T, H: RegionAllocator<'r>>(
    region: &'r mut [MaybeUninit<u8>],
    config: H::Config,
    behind_bytes: usize,
    spare_bytes: usize,
) -> Result<(NonNull<T>, H), InitError> {
    let control = Layout::new::<T>();
    let padding_bytes = region.as_ptr().addr().wrapping_neg() & (control.align() - 1);
    let front_bytes = (padding_bytes + control.size()).saturating_add(behind_bytes);
    // At another alignment of the region, the front may take more of it.
    let most_front_bytes = (control.align() - 1 + control.size()).saturating_add(behind_bytes);
    let of_whole = |error| match error {
        InitError::TooSmall { needed_bytes } => InitError::TooSmall {
            needed_bytes: needed_bytes.saturating_add(most_front_bytes).saturating_add(spare_bytes),
        },
        InitError::LargerThanPlanned { max_region_bytes } => {
            InitError::LargerThanPlanned { max_region_bytes: max_region_bytes.saturating_add(front_bytes) }
        }
        InitError::OutOfReach { .. } | InitError::Overlap | InitError::Configuration { .. } => error,
    };
    let (front, rest): (_, &'r mut [_]) = match region.split_at_mut_checked(front_bytes) {
        Some((front, rest)) => (Some(front), rest),
        None => (None, &mut []),
    };
    // For an empty region, the heap's error contains what it needs.
    if let Err(error) = H::new(&mut [], config) {
        let is_short = match error {
            InitError::TooSmall { needed_bytes } => rest.len() < needed_bytes.saturating_add(spare_bytes),
            _ => true,
        };
        if is_short || front.is_none() {
            return Err(of_whole(error));
        }
    }
    let heap = H::new(rest, config).map_err(of_whole)?;
    let Some(front) = front else { return Err(of_whole(InitError::TooSmall { needed_bytes: 0 })) };
    // SAFETY: the front is as long as the padding and what follows it.
    let control = unsafe { NonNull::from(front).cast::<u8>().add(padding_bytes) };
    Ok((control.cast(), heap))
}

/// Longest name of an adapted heap; longer names are truncated.
const NAME_BYTES: usize = 96;

/// The name of a heap with an adapter around it.
#[derive(Clone, Copy)]
pub(super) struct Name {
    text: [u8; NAME_BYTES],
    len: usize,
}

impl Name {
    /// Concatenates two names.
    pub(super) const fn joined(first: &str, second: &str) -> Self {
        let mut name = Name { text: [0; NAME_BYTES], len: 0 };
        name.append(first.as_bytes());
        name.append(second.as_bytes());
        name
    }

    const fn append(&mut self, bytes: &[u8]) {
        let mut index = 0;
        // Loop bound: bytes of the name, at compile time
        while index < bytes.len() && self.len < NAME_BYTES {
            self.text[self.len] = bytes[index];
            self.len += 1;
            index += 1;
        }
    }

    /// The name.
    pub(super) const fn as_str(&self) -> &str {
        match core::str::from_utf8(self.text.split_at(self.len).0) {
            Ok(text) => text,
            Err(_) => "a heap with an adapter",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_joined_and_cut() {
        const JOINED: &Name = &Name::joined("guarded-", "tlsf");
        assert_eq!(JOINED.as_str(), "guarded-tlsf");
        const LONG: &str = "a-name-of-forty-letters-that-goes-on-and";
        const FIRST: &Name = &Name::joined(LONG, LONG);
        let cut = Name::joined(FIRST.as_str(), LONG);
        assert_eq!((cut.as_str().len(), &cut.as_str()[..40]), (NAME_BYTES, LONG));
    }
}
