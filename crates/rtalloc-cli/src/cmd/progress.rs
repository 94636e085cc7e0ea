//! Progress bars.

use super::destination::print;
use super::is_quiet;
use crate::present::printable;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rtalloc_lab::replay::isolate::Progress;
use std::time::{Duration, Instant};

/// A bar on standard error, with the time left; indicatif hides it where standard error is not a terminal.
///
/// It has no thread of its own: cells are forked from this process.
pub struct Bar(ProgressBar);

impl Bar {
    /// An empty bar.
    #[must_use]
    pub fn new() -> Self {
        let target = if is_quiet() { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        let style = ProgressStyle::with_template("{bar:30} {percent} %, {eta} left  {wide_msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        Self(bar)
    }

    /// Shows the progress of the campaign.
    pub fn show(&self, progress: Progress<'_>) {
        self.0.set_length(progress.total);
        self.0.set_position(progress.done);
        self.0.set_message(printable(progress.last));
    }

    /// Prints on standard output, without the bar in between.
    ///
    /// # Errors
    ///
    /// Standard output's.
    pub fn print(&self, text: &str) -> std::io::Result<()> {
        self.0.suspend(|| print(text))
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Default for Bar {
    fn default() -> Self {
        Self::new()
    }
}

/// A progress bar that appears only when the work takes more than two seconds, and never in a pipe.
pub struct DelayedBar {
    bar: ProgressBar,
    started: Instant,
    shown: bool,
}

impl DelayedBar {
    /// A bar of `length` steps; `template` in indicatif's syntax.
    pub fn new(length: u64, template: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::hidden());
        bar.set_style(
            ProgressStyle::with_template(template).expect("the template is a constant").progress_chars("=> "),
        );
        Self { bar, started: Instant::now(), shown: false }
    }

    /// Shows `position`, at most a few times a second.
    pub fn set(&mut self, position: u64) {
        if !self.shown && !is_quiet() && self.started.elapsed() > Duration::from_secs(2) {
            self.shown = true;
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.set_position(position);
    }
}

impl Drop for DelayedBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
