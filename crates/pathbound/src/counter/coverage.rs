//! Which blocks and edges of a copy were executed.

/// Marks in a word.
const BITS: usize = u64::BITS as usize;

/// The marks of one counter that were set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Coverage {
    /// A bit for each mark; the last word is not zero.
    words: Vec<u64>,
}

impl Coverage {
    /// How many marks were set. It grows with the code that was executed.
    #[must_use]
    pub fn marked(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Adds what another coverage of the same counter covers.
    pub fn merge(&mut self, other: &Self) {
        self.words.resize(self.words.len().max(other.words.len()), 0);
        for (word, of_other) in self.words.iter_mut().zip(&other.words) {
            *word |= of_other;
        }
    }

    /// Removes all marks.
    pub(super) fn clear(&mut self) {
        self.words.clear();
    }

    /// Adds a mark.
    pub(super) fn set(&mut self, mark: usize) {
        if self.words.len() <= mark / BITS {
            self.words.resize(mark / BITS + 1, 0);
        }
        self.words[mark / BITS] |= 1 << (mark % BITS);
    }

    /// Whether a mark was set.
    pub(super) fn has(&self, mark: usize) -> bool {
        self.words.get(mark / BITS).is_some_and(|word| word >> (mark % BITS) & 1 != 0)
    }
}
