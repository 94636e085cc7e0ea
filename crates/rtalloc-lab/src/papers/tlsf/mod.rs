//! The TLSF paper (2008).

pub mod chapter;
pub mod claims;
pub mod measure;
pub mod published;
pub mod result;

use super::{Paper, Reproduced, Scale};
use crate::analysis::Analysis;
use crate::campaign::Experiment as _;
use crate::campaign::store::Kept;
use crate::result::document::Schema;
use crate::workload::Holding;
use measure::{Experiments, cast};
use result::Settings;

impl<'a> Paper<'a> for Experiments<'a> {
    fn at(analysis: &'a Analysis, scale: Scale) -> anyhow::Result<Self> {
        Self::new(analysis, Settings::of(scale, Holding::Fit, cast(&[])?))
    }

    fn schema(&self) -> Schema {
        Schema::TLSF
    }

    fn reproduce(&self, kept: Vec<Kept>) -> anyhow::Result<Reproduced> {
        Ok(Reproduced::new(self.conclude(kept)?, chapter::chapter)?)
    }
}
