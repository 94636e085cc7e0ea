//! The measured allocators: the thesis' seven, and Bitframe with the variants that the thesis proposes.

use crate::papers::thesis::published::ALLOCATORS;
use rtalloc_subjects::ablations::BITFRAMES;
use rtalloc_subjects::{Subject, one};

/// Names of all allocators, the thesis' first.
#[must_use]
pub fn names() -> Vec<&'static str> {
    ALLOCATORS.iter().map(|(name, _)| *name).chain(BITFRAMES.iter().map(|(name, _)| *name)).collect()
}

/// The allocator with one of these [`names`].
///
/// # Errors
///
/// If the name is none of them.
pub fn subject(name: &str) -> Result<&'static Subject, String> {
    if let Some((_, subject)) = BITFRAMES.iter().find(|(known, _)| *known == name) {
        return Ok(subject);
    }
    let known = ALLOCATORS.iter().find(|(known, _)| *known == name);
    let (_, here) = known.ok_or_else(|| format!("the thesis has no allocator {name:?}"))?;
    one(here).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtalloc_subjects::ablations::QUANTUM;

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
