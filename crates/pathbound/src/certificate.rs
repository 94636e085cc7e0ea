//! placeholder
/// Certificate
#[derive(Clone, Debug)]
pub struct Certificate;
