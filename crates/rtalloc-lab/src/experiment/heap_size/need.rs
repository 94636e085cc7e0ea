//! The memory that an adversary makes a subject need.

use super::adversary::play;
use super::game::{Game, Over};
use crate::result::heap_size::{Adversary, Need};
use rtalloc_subjects::Unit;
use rtalloc_subjects::{Heap, Region, Subject};

/// The parameters: an adversary with requests of up to `n` units, of which at most `m` may be live.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The allocator.
    pub subject: &'a Subject,
    /// The size of a unit.
    pub unit: Unit,
    /// The adversary.
    pub adversary: Adversary,
    /// Maximum live units.
    pub m: usize,
    /// Largest request in units: a power of two, at least 4.
    pub n: usize,
}

/// A game in a heap of a given size.
#[derive(Clone, Copy, Debug)]
pub struct Played {
    /// The outcome.
    pub over: Over,
    /// Bytes of the region available to blocks.
    pub area_bytes: usize,
    /// The highest end of a block.
    pub highest_bytes: usize,
    /// Requests served.
    pub served: u64,
}

const REFUSED_AMPLE: &str = "refused a request in ample memory";

impl Question<'_> {
    /// The granularity of heap sizes.
    #[must_use]
    pub fn granule_bytes(&self) -> usize {
        self.subject.view.map_or(1, |view| view.contract.granule_bytes).clamp(1, 16).next_power_of_two().max(8)
    }

    fn page_bytes(&self) -> usize {
        self.subject.view.map_or(0, |view| view.contract.page_bytes)
    }

    /// More than any of these adversaries can make an allocator need.
    #[must_use]
    pub fn ample_bytes(&self) -> usize {
        let most = (self.m + 2) * self.n.max(self.page_bytes().div_ceil(self.unit.bytes)) * self.unit.bytes;
        (most + 64 * self.page_bytes() + (1 << 20)).next_multiple_of(4096)
    }

    /// Runs in a fresh heap of this many bytes; `None` if the subject cannot create a heap of this size.
    #[must_use]
    pub fn play(&self, region: &mut Region, bytes: usize) -> Option<Played> {
        let heap = Heap::new(self.subject, region, bytes).ok()?;
        let mut game = Game::new(&heap, self.unit, self.m);
        let over = play(self.adversary, &mut game, self.n, self.page_bytes());
        let highest_bytes = usize::try_from(game.highest_bytes).unwrap_or(0);
        Some(Played { over, area_bytes: heap.end - heap.start, highest_bytes, served: game.served })
    }

    /// The highest end of a block in a heap with ample memory.
    ///
    /// # Errors
    ///
    /// If memory is exhausted, or if the subject fails even with ample memory.
    pub fn used_bytes(&self) -> Result<usize, String> {
        let ample = self.ample_bytes();
        let mut region = Region::new(ample, false).map_err(|error| error.to_string())?;
        let played = self.play(&mut region, ample).filter(|played| played.over == Over::Spent);
        Ok(played.ok_or(REFUSED_AMPLE)?.highest_bytes)
    }

    /// The smallest heap in which no request is refused and such that a heap smaller by one granule is too small.
    /// Success is not monotone in the heap's size; both the returned size and the one below were tested.
    ///
    /// # Errors
    ///
    /// If memory is exhausted, or if the subject fails even with ample memory.
    pub fn need(&self) -> Result<Need, String> {
        let ample = self.ample_bytes();
        let mut region = Region::new(ample, false).map_err(|error| error.to_string())?;
        let granule = self.granule_bytes();
        let mut games = 0;
        let mut suffices = |bytes: usize| {
            games += 1;
            self.play(&mut region, bytes).filter(|played| played.over == Over::Spent)
        };
        let first = suffices(ample).ok_or(REFUSED_AMPLE)?;
        // The memory used in an ample heap is a good estimate, unless the subject spreads its blocks.
        let guess = (ample - first.area_bytes + first.highest_bytes).next_multiple_of(granule).min(ample);
        let (heap_bytes, played) = smallest(guess, granule, (ample, first), suffices);
        Ok(Need {
            n: self.n as u64,
            m: self.m as u64,
            unit_bytes: self.unit.bytes as u64,
            header_bytes: self.unit.header_bytes as u64,
            needed_bytes: played.area_bytes as u64,
            control_bytes: (heap_bytes - played.area_bytes) as u64,
            granule_bytes: granule as u64,
            ample_bytes: first.highest_bytes as u64,
            served: played.served,
            games,
            guaranteed_bytes: None,
        })
    }
}

/// The smallest heap that suffices, such that one smaller by a granule does not, found from a guess and a heap that
/// suffices.
pub fn smallest<T: Copy>(
    guess: usize,
    granule: usize,
    (ample, first): (usize, T),
    mut suffices: impl FnMut(usize) -> Option<T>,
) -> (usize, T) {
    let mut step = granule;
    let (mut least, mut enough);
    if let Some(played) = suffices(guess) {
        (least, enough) = (0, (guess, played));
        while enough.0 > step {
            let bytes = enough.0 - step;
            match suffices(bytes) {
                Some(played) => enough = (bytes, played),
                None => {
                    least = bytes;
                    break;
                }
            }
            step *= 2;
        }
    } else {
        (least, enough) = (guess, (ample, first));
        while least + step < ample {
            let bytes = least + step;
            if let Some(played) = suffices(bytes) {
                enough = (bytes, played);
                break;
            }
            least = bytes;
            step *= 2;
        }
    }
    while enough.0 - least > granule {
        let bytes = least + ((enough.0 - least) / 2).next_multiple_of(granule);
        match suffices(bytes) {
            Some(played) => enough = (bytes, played),
            None => least = bytes,
        }
    }
    enough
}
