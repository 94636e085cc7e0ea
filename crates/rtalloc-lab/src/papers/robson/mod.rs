//! Worst-case memory (Robson).

pub mod chapter;
mod claims;
pub mod measure;
pub mod result;

use super::{Paper, Reproduced, Scale};
use crate::analysis::Analysis;
use crate::campaign::kept;
use crate::campaign::store::Store;
use crate::result::document::Schema;
use measure::{Settings, selected};

impl<'a> Paper<'a> for Settings {
    fn at(_: &'a Analysis, scale: Scale, _: u64) -> anyhow::Result<Self> {
        Ok(Self::of(scale, selected(&[])?))
    }

    fn reproduce(&self, store: &Store) -> anyhow::Result<Reproduced> {
        Ok(Reproduced::new(Schema::ROBSON, self.conclude(kept(self, store)?)?, chapter::chapter)?)
    }
}
