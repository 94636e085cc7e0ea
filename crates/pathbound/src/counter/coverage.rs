//! Which blocks and edges of a copy were executed.

/// The marks of one counter that were set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Coverage {
    pub(super) marks: Vec<u8>,
}

impl Coverage {
    /// How many marks were set. It grows with the code that was executed.
    #[must_use]
    pub fn marked(&self) -> usize {
        self.marks.iter().filter(|mark| **mark != 0).count()
    }

    /// Adds what another coverage of the same counter covers.
    pub fn merge(&mut self, other: &Self) {
        self.marks.resize(self.marks.len().max(other.marks.len()), 0);
        for (mark, of_other) in self.marks.iter_mut().zip(&other.marks) {
            *mark |= of_other;
        }
    }
}
