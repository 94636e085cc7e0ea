//! Text output without allocation: buffers on the stack.

use core::ffi::c_int;
use core::fmt::{self, Write};
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI32, AtomicU64};
use rtalloc_sys::errno::keeping_errno;
use rtalloc_sys::{libc, syscall};

/// Standard error.
pub const STDERR: c_int = 2;

/// Text on its way to a file: written when the buffer is full, and at the end.
#[derive(Debug)]
pub struct Text {
    file: c_int,
    buffer: Line<1024>,
}

impl Text {
    /// Text for an open file.
    pub fn to(file: c_int) -> Self {
        Text { file, buffer: Line::new() }
    }

    /// Writes the buffer. An error is ignored: there is no other place to report it.
    pub fn flush(&mut self) {
        let mut rest = self.buffer.bytes();
        while !rest.is_empty() {
            // SAFETY: `rest` is readable for its length.
            let count = unsafe { syscall::write(self.file, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(count).ok().filter(|&count| count > 0).and_then(|count| rest.get(count..)) {
                Some(unwritten) => rest = unwritten,
                None => break,
            }
        }
        self.buffer.filled = 0;
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            if !self.buffer.push(byte) {
                self.flush();
                self.buffer.push(byte);
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

/// Text of at most `N - 1` bytes, followed by a zero.
#[derive(Debug)]
pub struct Line<const N: usize> {
    bytes: [u8; N],
    filled: usize,
}

impl<const N: usize> Line<N> {
    /// No text.
    pub const fn new() -> Self {
        Line { bytes: [0; N], filled: 0 }
    }

    /// The text.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.filled).unwrap_or(&[])
    }

    /// The text, which ends with a zero if nothing was removed from it.
    pub fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    fn push(&mut self, byte: u8) -> bool {
        match self.bytes.get_mut(self.filled) {
            Some(place) if self.filled + 1 < N => {
                *place = byte;
                self.filled += 1;
                true
            }
            _ => false,
        }
    }
}

impl<const N: usize> Write for Line<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if text.bytes().all(|byte| self.push(byte)) { Ok(()) } else { Err(fmt::Error) }
    }
}

/// A duplicate of standard error for output at exit: many programs close standard error first, to see whether
/// everything was written.
#[derive(Debug)]
pub struct StderrCopy {
    /// The duplicate's descriptor plus one; 0 if there is none.
    descriptor: AtomicI32,
    /// Device and inode of standard error when it was duplicated; zeros if it was closed.
    file: [AtomicU64; 2],
}

/// A descriptor of no file.
const NO_FILE: c_int = -1;

impl StderrCopy {
    /// Lowest descriptors for the duplicate, beyond those that programs use; the second for a lower limit of open
    /// files.
    const LOWEST: [c_int; 2] = [1000, 100];

    /// No duplicate.
    pub const fn new() -> Self {
        StderrCopy { descriptor: AtomicI32::new(0), file: [const { AtomicU64::new(0) }; 2] }
    }

    /// Duplicates standard error. A program started by `exec` does not inherit the duplicate.
    pub fn make(&self) {
        for (place, value) in self.file.iter().zip(identity(STDERR)) {
            place.store(value, Relaxed);
        }
        // SAFETY: creates a descriptor that no other code knows.
        let made = Self::LOWEST.iter().map(|&lowest| unsafe { libc::fcntl(STDERR, libc::F_DUPFD_CLOEXEC, lowest) });
        self.descriptor.store(made.into_iter().find(|&made| made >= 0).unwrap_or(NO_FILE) + 1, Relaxed);
    }

    /// Where to write at exit: the duplicate, or standard error, whichever still is the file that standard error was. A
    /// file that the program opened under either descriptor is not written to.
    pub fn at_exit(&self) -> c_int {
        let file = [self.file[0].load(Relaxed), self.file[1].load(Relaxed)];
        let candidates = [self.descriptor.load(Relaxed) - 1, STDERR];
        candidates.into_iter().find(|&candidate| identity(candidate) == file).unwrap_or(NO_FILE)
    }

    /// Writes to standard error, or to the duplicate if the program has closed it. Leaves `errno` alone.
    pub fn print(&self, text: fmt::Arguments<'_>) {
        keeping_errno(|| {
            // SAFETY: only queries the descriptor.
            let is_open = unsafe { libc::fcntl(STDERR, libc::F_GETFD) } >= 0;
            let file = if is_open { STDERR } else { self.at_exit() };
            let _ = Text::to(file).write_fmt(text);
        });
    }
}

/// Device and inode of an open file; zeros if the descriptor is closed.
fn identity(file: c_int) -> [u64; 2] {
    let mut metadata = libc::Statx::ZERO;
    // SAFETY: the literal ends with a zero, and `metadata` is as long as the kernel's structure.
    unsafe { libc::statx(file, c"".as_ptr(), libc::AT_EMPTY_PATH, libc::STATX_INO, &raw mut metadata) };
    let [major, minor] = metadata.device.map(u64::from);
    [major << 32 | minor, metadata.inode]
}

/// Prints the reason to standard error and ends the process, with status 127: the environment asks for something that
/// is not available, and running on with another allocator would be wrong.
pub fn refuse_to_run(reason: fmt::Arguments<'_>) -> ! {
    let _ = Text::to(STDERR).write_fmt(format_args!("rtalloc: {reason}\n"));
    // SAFETY: ends the process.
    unsafe { libc::_exit(127) }
}

/// A number of bytes: exact below 10 KiB, else with a binary unit.
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

/// A share in percent, with one decimal.
#[derive(Clone, Copy, Debug)]
pub struct Percent(pub usize, pub usize);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Percent(part, whole) = *self;
        if whole == 0 {
            return f.write_str("-");
        }
        let tenths = (part as u128 * 1000 / whole as u128) as usize;
        write!(f, "{}.{} %", tenths / 10, tenths % 10)
    }
}
