//! The trace recorder.
