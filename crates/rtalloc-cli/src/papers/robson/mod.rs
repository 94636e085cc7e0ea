//! Worst-case memory (Robson).

pub mod chapter;
mod claims;
pub mod measure;
pub mod result;

use super::{Paper, Reproduced, Scale};
use measure::{Settings, selected};
use rtalloc_lab::analysis::Analysis;
use rtalloc_lab::campaign::kept;
use rtalloc_lab::campaign::store::Store;
use rtalloc_lab::result::document::Schema;

impl<'a> Paper<'a> for Settings {
    fn at(_: &'a Analysis, scale: Scale, _: u64) -> anyhow::Result<Self> {
        Ok(Self::of(scale, selected(&[])?))
    }

    fn reproduce(&self, store: &Store) -> anyhow::Result<Reproduced> {
        Ok(Reproduced::new(Schema::ROBSON, self.conclude(kept(self, store)?)?, chapter::chapter)?)
    }
}
