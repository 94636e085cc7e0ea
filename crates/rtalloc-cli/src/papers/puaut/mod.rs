//! Puaut's paper (2002).

pub mod chapter;
mod claims;
pub mod measure;
pub mod published;
pub mod result;

use super::{Paper, Reproduced, Scale};
use measure::Experiments;
use rtalloc_lab::analysis::Analysis;
use rtalloc_lab::campaign::kept;
use rtalloc_lab::campaign::store::Store;
use rtalloc_lab::result::document::Schema;

impl<'a> Paper<'a> for Experiments<'a> {
    fn at(analysis: &'a Analysis, scale: Scale, seed: u64) -> anyhow::Result<Self> {
        Self::new(analysis, seed, scale)
    }

    fn reproduce(&self, store: &Store) -> anyhow::Result<Reproduced> {
        Ok(Reproduced::new(Schema::PUAUT, self.conclude(kept(self, store)?)?, chapter::chapter)?)
    }
}
