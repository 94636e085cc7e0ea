//! Words to people without memory to put them in: a buffer on the stack, written when it is full.

use crate::{libc, system};
use core::ffi::c_int;
use core::fmt::{self, Write};
use core::sync::atomic::AtomicI32;
use core::sync::atomic::Ordering::Relaxed;

/// Standard error.
pub const STDERR: c_int = 2;

/// Standard error under another number, or -1. Many programs, the GNU tools among them, close theirs before they end.
static KEPT: AtomicI32 = AtomicI32::new(-1);

/// Gives standard error another number besides, which the program does not know.
pub fn keep_stderr() {
    // Out of the way of programs that expect the next free number.
    const FROM: c_int = 200;
    // SAFETY: a number more for a file, if it is open.
    KEPT.store(unsafe { libc::fcntl(STDERR, libc::ANOTHER_NUMBER, FROM) }, Relaxed);
}

/// Standard error if it is open, else what was kept of it.
#[must_use]
pub fn stderr() -> c_int {
    // SAFETY: asks only.
    let is_open = unsafe { libc::fcntl(STDERR, libc::IS_OPEN) } >= 0;
    if is_open { STDERR } else { KEPT.load(Relaxed) }
}

/// Text on its way to a file.
#[derive(Debug)]
pub struct Text {
    file: c_int,
    bytes: [u8; 1024],
    filled: usize,
}

impl Text {
    /// Text for a file that is open.
    #[must_use]
    pub fn to(file: c_int) -> Self {
        Text { file, bytes: [0; 1024], filled: 0 }
    }

    /// Writes what there is, whatever becomes of it: who cannot be told cannot be told that either.
    pub fn flush(&mut self) {
        let mut from = 0;
        while let Some(rest) = self.bytes.get(from..self.filled)
            && !rest.is_empty()
        {
            // SAFETY: the bytes are readable.
            let count = unsafe { libc::write(self.file, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(count) {
                Ok(count) if count > 0 => from += count,
                _ => break,
            }
        }
        self.filled = 0;
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if self.filled == self.bytes.len() {
                self.flush();
            }
            if let Some(place) = self.bytes.get_mut(self.filled) {
                *place = byte;
                self.filled += 1;
            }
        }
        Ok(())
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Writes to standard error, and leaves `errno` alone.
pub fn tell(words: fmt::Arguments<'_>) {
    keeping_errno(|| {
        let _ = Text::to(stderr()).write_fmt(words);
    });
}

/// Says why, and ends the process: what was asked for in the environment cannot be had, and another allocator than the one that was
/// asked for would be the wrong answer.
pub fn refuse_to_run(words: fmt::Arguments<'_>) -> ! {
    tell(format_args!("rtalloc: {words}\n"));
    // SAFETY: ends the process; nothing of it is needed any more.
    unsafe { libc::_exit(127) }
}

/// The calling thread's `errno`.
pub fn errno() -> c_int {
    // SAFETY: the C library gives a valid address for the calling thread.
    unsafe { *system::__errno_location() }
}

/// Sets the calling thread's `errno`.
pub fn set_errno(value: c_int) {
    // SAFETY: as in `errno`.
    unsafe { *system::__errno_location() = value }
}

/// Runs `work` and puts `errno` back.
pub fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    let before = errno();
    let result = work();
    set_errno(before);
    result
}

/// A number of bytes as people read it: exact below 10 KiB, else with a binary unit.
#[derive(Clone, Copy, Debug)]
pub struct Bytes(pub usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
        let Bytes(bytes) = *self;
        if bytes < 10 << 10 {
            return write!(f, "{bytes} B");
        }
        let (mut tenths, mut unit) = (bytes.saturating_mul(10) >> 10, 0);
        while tenths >= 10_240 && unit + 1 < UNITS.len() {
            tenths >>= 10;
            unit += 1;
        }
        write!(f, "{}.{} {}", tenths / 10, tenths % 10, UNITS.get(unit).unwrap_or(&""))
    }
}
