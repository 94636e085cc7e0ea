//! Words to people without memory to put them in: a buffer on the stack, written when it is full.

use crate::{libc, system};
use core::ffi::c_int;
use core::fmt::{self, Write};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI32, AtomicU64};

/// Standard error.
pub const STDERR: c_int = 2;

/// Where descriptors are that programs neither count on nor meet; the second where so many may not be open.
const HIGH: [c_int; 2] = [1000, 100];
/// A second descriptor of standard error, if there is one.
static KEPT: AtomicI32 = AtomicI32::new(NOWHERE);
/// Which file that is: device and number.
static KEPT_FILE: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

/// Which file is open; nothing but zeros where none is, or where the kernel does not tell.
fn which(file: c_int) -> [u64; 2] {
    let mut facts = libc::Facts::NONE;
    // SAFETY: the literal ends with a zero, and the place is as long as what is written.
    unsafe { libc::statx(file, c"".as_ptr(), libc::OPEN_FILE, libc::FILE_NUMBER, &raw mut facts) };
    let [major, minor] = facts.device.map(u64::from);
    [major << 32 | minor, facts.number]
}

/// Whether a descriptor is of the file that standard error was when the program began.
fn is_kept(file: c_int) -> bool {
    which(file) == [KEPT_FILE[0].load(Relaxed), KEPT_FILE[1].load(Relaxed)]
}

/// Keeps standard error for what is said when the program ends: many programs close it before, to see whether everything was written.
/// Programs that this one becomes by `exec` do not get the descriptor.
pub fn keep_stderr() {
    for (place, value) in KEPT_FILE.iter().zip(which(STDERR)) {
        place.store(value, Relaxed);
    }
    // SAFETY: makes a descriptor.
    let made = HIGH.iter().map(|&first| unsafe { libc::fcntl(STDERR, libc::ANOTHER_NUMBER, first) });
    KEPT.store(made.into_iter().find(|&made| made >= 0).unwrap_or(NOWHERE), Relaxed);
}

/// Where to write what standard error is for, when the program ends: the descriptor that was kept, unless the program has closed or
/// used that too. What it opened in place of either is not written to.
#[must_use]
pub fn stderr_at_end() -> c_int {
    [KEPT.load(Relaxed), STDERR].into_iter().find(|&file| is_kept(file)).unwrap_or(NOWHERE)
}

/// A descriptor of nothing.
const NOWHERE: c_int = -1;

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

/// Writes to standard error, or where the program has closed it, to what was kept of it; and leaves `errno` alone.
pub fn tell(words: fmt::Arguments<'_>) {
    keeping_errno(|| {
        // SAFETY: asks only.
        let is_open = unsafe { libc::fcntl(STDERR, libc::IS_OPEN) } >= 0;
        let file = if is_open { STDERR } else { stderr_at_end() };
        let _ = Text::to(file).write_fmt(words);
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
