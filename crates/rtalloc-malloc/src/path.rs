//! Names of files from the environment.

use crate::output::Line;
use core::ffi::{CStr, c_char};
use core::fmt::Write;

/// The name of a file, which ends with a zero. `%p` in it stands for the number of the process.
#[derive(Clone, Copy, Debug)]
pub struct FilePath([u8; FilePath::CAPACITY_BYTES]);

impl FilePath {
    /// Most bytes of a name, with the zero at its end.
    const CAPACITY_BYTES: usize = 4096;
    /// Bytes that stay free for numbers of processes.
    const MARGIN_BYTES: usize = 64;

    /// No name.
    pub const EMPTY: FilePath = FilePath([0; Self::CAPACITY_BYTES]);

    /// Whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }

    /// Sets the name; false if it is too long.
    pub fn set(&mut self, name: &str) -> bool {
        let is_short = name.len() < Self::CAPACITY_BYTES - Self::MARGIN_BYTES;
        if is_short && let Some(place) = self.0.get_mut(..name.len()) {
            place.copy_from_slice(name.as_bytes());
            self.0[name.len()..].fill(0);
        }
        is_short
    }

    /// The name with the number of this process for every `%p`; shortened if it becomes too long.
    pub fn expanded(&self) -> FilePath {
        /// More than a number has, and its zero.
        const DIGITS: usize = 20;
        let mut number = Line::<DIGITS>::new();
        let _ = write!(number, "{}", rtalloc_sys::process_id());
        let mut name = FilePath::EMPTY;
        let (mut rest, mut filled) = (self.as_c_str().to_bytes(), 0);
        while let Some((first, others)) = rest.split_at_checked(1)
            && filled < Self::CAPACITY_BYTES - DIGITS
        {
            let (piece, others) = rest.strip_prefix(b"%p").map_or((first, others), |others| (number.bytes(), others));
            if let Some(place) = name.0.get_mut(filled..filled + piece.len()) {
                place.copy_from_slice(piece);
            }
            (rest, filled) = (others, filled + piece.len());
        }
        name
    }

    /// The name for the C library.
    pub fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }

    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or(c"")
    }

    /// The name for a message.
    pub fn as_str(&self) -> &str {
        self.as_c_str().to_str().unwrap_or("the file")
    }
}
