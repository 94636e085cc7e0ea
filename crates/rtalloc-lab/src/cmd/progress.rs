//! The progress bar of campaigns.

use crate::present::printable;
use crate::replay::campaign::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on standard error, with the time left; indicatif hides it where that is no terminal.
///
/// It has no thread of its own: cells are forked from this process.
pub struct Bar(ProgressBar);

impl Bar {
    /// An empty bar.
    #[must_use]
    pub fn new() -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{bar:30} {percent} %, {eta} left  {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        Self(bar)
    }

    /// Shows how far the campaign is.
    pub fn show(&self, progress: Progress<'_>) {
        self.0.set_length(progress.total);
        self.0.set_position(progress.done);
        self.0.set_message(printable(progress.last));
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Default for Bar {
    fn default() -> Self {
        Self::new()
    }
}
