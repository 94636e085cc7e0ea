//! Puaut's paper (2002).

pub mod chapter;
mod claims;
pub mod measure;
pub mod published;
pub mod result;

use super::{Paper, Reproduced, Scale};
use crate::analysis::Analysis;
use crate::campaign::kept;
use crate::campaign::store::Store;
use crate::result::document::Schema;
use measure::Experiments;

impl<'a> Paper<'a> for Experiments<'a> {
    fn at(analysis: &'a Analysis, scale: Scale, seed: u64) -> anyhow::Result<Self> {
        Self::new(analysis, seed, scale)
    }

    fn reproduce(&self, store: &Store) -> anyhow::Result<Reproduced> {
        Ok(Reproduced::new(Schema::PUAUT, self.conclude(kept(self, store)?)?, chapter::chapter)?)
    }
}
