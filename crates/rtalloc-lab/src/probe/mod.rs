//! What is observed while an operation runs.
