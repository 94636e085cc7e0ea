//! The wait-free paper (2010).

pub mod chapter;
mod claims;
pub mod measure;
pub mod published;
pub mod result;

use super::{Paper, Reproduced, Scale};
use measure::Settings;
use rtalloc_lab::analysis::Analysis;
use rtalloc_lab::campaign::kept;
use rtalloc_lab::campaign::store::Store;
use rtalloc_lab::result::document::Schema;
use rtalloc_subjects::shared;

impl<'a> Paper<'a> for Settings {
    fn at(_: &'a Analysis, scale: Scale, _: u64) -> anyhow::Result<Self> {
        Ok(Self::of(scale, shared::select::<&str>(&[])?))
    }

    fn reproduce(&self, store: &Store) -> anyhow::Result<Reproduced> {
        Ok(Reproduced::new(Schema::WAIT_FREE, self.conclude(kept(self, store)?)?, chapter::chapter)?)
    }
}
