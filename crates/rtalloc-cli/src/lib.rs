//! The command `rtalloc`: its verbs, what they print, and the reproduction of five papers. What is measured, and how, is
//! in `rtalloc_lab`.

pub mod cmd;
pub mod papers;
pub mod present;
pub mod version;
