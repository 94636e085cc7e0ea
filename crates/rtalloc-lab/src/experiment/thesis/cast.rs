//! Who takes part: the thesis' seven allocators, and Bitframe with what the thesis proposes for it.

use crate::published::thesis::ALLOCATORS;
use crate::subject::{Subject, adapter, one};
use rtalloc::bitmapped::bitframe::{BITFRAME_PAGE, Bitframe4, Bitframe16, BitframeCrossing, BitframeEager};

/// The thesis' quantum, in bytes.
const QUANTUM: usize = 8;

/// Bitframe at the thesis' quantum with a decision of section 5.7 or footnotes 9 and 11: how it is called here, and the allocator.
/// The base, `bframe`, takes footnote 11's way of initialising a page.
pub static VARIANTS: [(&str, Subject); 4] = [
    ("bframe, eager", adapter::ours::<BitframeEager<'static, BITFRAME_PAGE, QUANTUM>>("bitframe-8-eager")),
    ("bframe, 16 bits", adapter::ours::<Bitframe16<'static, BITFRAME_PAGE, QUANTUM>>("bitframe-8-16")),
    ("bframe, 4 chunks", adapter::ours::<Bitframe4<'static, BITFRAME_PAGE, QUANTUM>>("bitframe-8-4")),
    ("bframe, crossing", adapter::ours::<BitframeCrossing<'static, BITFRAME_PAGE, QUANTUM>>("bitframe-8-crossing")),
];

/// Names of everybody, the thesis' first.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ALLOCATORS.iter().map(|(name, _)| *name).chain(VARIANTS.iter().map(|(name, _)| *name)).collect()
}

/// The allocator of a name of [`names`].
///
/// # Errors
///
/// A name that is none of them.
pub fn subject(name: &str) -> Result<&'static Subject, String> {
    if let Some((_, subject)) = VARIANTS.iter().find(|(known, _)| *known == name) {
        return Ok(subject);
    }
    let known = ALLOCATORS.iter().find(|(known, _)| *known == name);
    let (_, here) = known.ok_or_else(|| format!("the thesis has no allocator {name:?}"))?;
    one(here).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_is_there_and_serves_512_bytes() {
        assert_eq!(names().len(), 11);
        for name in names() {
            let subject = subject(name).expect("known");
            assert!(subject.reach.request_bytes >= 512, "{name}");
            assert!(subject.entries.natural_align_bytes >= QUANTUM && subject.view.is_some(), "{name}");
        }
        assert!(subject("bitframe").is_err());
    }
}
