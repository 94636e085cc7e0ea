//! The TLSF paper (2008).

pub mod chapter;
mod claims;
pub mod measure;
pub mod published;
pub mod result;

use super::{Paper, Reproduced, Scale};
use measure::{Experiments, selected};
use result::Settings;
use rtalloc_lab::analysis::Analysis;
use rtalloc_lab::campaign::kept;
use rtalloc_lab::campaign::store::Store;
use rtalloc_lab::result::document::Schema;
use rtalloc_lab::workload::Holding;

impl<'a> Paper<'a> for Experiments<'a> {
    fn at(analysis: &'a Analysis, scale: Scale, seed: u64) -> anyhow::Result<Self> {
        Self::new(analysis, Settings::of(scale, Holding::DEFAULT, selected(&[])?).with_seed(seed))
    }

    fn reproduce(&self, store: &Store) -> anyhow::Result<Reproduced> {
        Ok(Reproduced::new(Schema::TLSF, self.conclude(kept(self, store)?)?, chapter::chapter)?)
    }
}
