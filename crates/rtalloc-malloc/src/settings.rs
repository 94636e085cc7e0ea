//! Settings, read from the environment.
//!
//! | variable | value | without it |
//! |---|---|---|
//! | `RTALLOC` | name of an allocator (`kinds`) | `arenas` |
//! | `RTALLOC_HEAP` | bytes of the first region: `256M`, `65536` | `256M` if fixed or locked, else by allocator |
//! | `RTALLOC_SLOTS` | slots of the arenas, 1 to 1024 | 16 |
//! | `RTALLOC_FIXED` | `1`: only the first region | the heap grows by further regions |
//! | `RTALLOC_MLOCK` | `1`: every region is pre-faulted and locked in memory | pages come when touched |
//! | `RTALLOC_DIRECT` | bytes from which a request is a mapping of its own | `32M`; never if the heap is fixed |
//! | `RTALLOC_REPORT` | a report at exit: `1` on standard error, else appended to a file (`%p`: process id) | none |
//! | `RTALLOC_RING` | a file that keeps the last operations (`ring`); selects `traced` | `traced` records in memory |
//! | `RTALLOC_RECORDS` | operations to keep | 65536 in a file, 256 in memory |
//! | `RTALLOC_FAIL` | requests to fail: `nth:5`, `from:5`, `every:100`, `share:0.01`, `share:0.01,seed:7` | none |
//! | `RTALLOC_QUOTA` | most live bytes, as granted | no limit |
//! | `RTALLOC_MISUSE` | `abort`, `report` or `ignore` | `abort`, as the C library does |
//!
//! An unknown value, and an unknown name that begins with `RTALLOC_`, ends the program at startup with a message that
//! lists what is allowed. The environment is read once, at the first allocation. That may come before the C library has
//! initialised it; it is then read from the kernel.

use crate::output::refuse_to_run;
use crate::path::FilePath;
use core::ffi::{CStr, c_char, c_int};
use core::fmt;
use core::ptr::null_mut;
use core::str;
use rtalloc::adapt::Failures;
use rtalloc_sys::libc::{MAP_MEMORY, MAP_NORESERVE, O_CLOEXEC, O_RDONLY, PROT_READ_WRITE};
use rtalloc_sys::{libc, syscall};

/// Most slots of a region, and so most threads that work at the same time without sharing a slot.
pub const MAX_SLOTS: usize = 1024;

/// Most operations that a ring keeps.
const MAX_RECORDS: usize = 1 << 28;

/// What to do about a misuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMisuse {
    /// Print it and abort.
    Abort,
    /// Print it and continue.
    Report,
    /// Continue.
    Ignore,
}

/// Destination of the report at exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// No report.
    No,
    /// Standard error.
    Stderr,
    /// The end of a file.
    File,
}

/// The settings.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Index of the allocator.
    pub kind: usize,
    /// Bytes of the first region, if given.
    pub heap_bytes: Option<usize>,
    /// Slots, if given.
    pub slots: Option<usize>,
    /// Whether the heap has only its first region.
    pub fixed: bool,
    /// Whether memory is locked.
    pub locked: bool,
    /// Bytes from which a request is a mapping of its own.
    pub direct_bytes: usize,
    /// Destination of the report.
    pub report: Report,
    /// What to do about a misuse.
    pub on_misuse: OnMisuse,
    /// Requests that fail on purpose.
    pub failures: Failures,
    /// Most live bytes.
    pub quota_bytes: Option<usize>,
    /// Whether the allocator was given.
    pub kind_given: bool,
    /// Whether the length of the ring was given.
    pub ring_given: bool,
    /// Operations that the ring keeps.
    pub ring_records: usize,
    /// The file of the ring, if any.
    pub ring_path: FilePath,
    /// The file of the report, if any.
    pub report_path: FilePath,
}

impl Settings {
    /// The defaults.
    pub const DEFAULT: Settings = Settings {
        kind: 0,
        heap_bytes: None,
        slots: None,
        fixed: false,
        locked: false,
        direct_bytes: 32 << 20,
        report: Report::No,
        on_misuse: OnMisuse::Abort,
        failures: Failures::Never,
        quota_bytes: None,
        kind_given: false,
        ring_given: false,
        ring_records: 1 << 16,
        ring_path: FilePath::EMPTY,
        report_path: FilePath::EMPTY,
    };

    /// Reads the environment: `variables` if it is not null, else the kernel's copy. `allocators` are the names of the
    /// allocators.
    ///
    /// # Safety
    ///
    /// `variables` is null, or points to pointers to strings that end with zeros; the last pointer is null.
    pub unsafe fn read(variables: *const *const c_char, allocators: &[&str]) -> Settings {
        let mut settings = Settings::DEFAULT;
        let mut take = |variable: &[u8]| {
            let name_bytes = variable.iter().position(|&byte| byte == b'=').unwrap_or(variable.len());
            let (name, value) = variable.split_at(name_bytes);
            let value = value.get(1..).unwrap_or(&[]);
            // An empty value counts as unset, as in most programs.
            if let (Ok(name), false) = (str::from_utf8(name), value.is_empty())
                && name.starts_with("RTALLOC")
            {
                let Ok(text) = str::from_utf8(value) else {
                    refuse_to_run(format_args!("{name} is not text"));
                };
                settings.take(name, text, allocators);
            }
        };
        if variables.is_null() {
            each_variable_of_kernel(&mut take);
        } else {
            // SAFETY: the caller guarantees the array and its strings.
            unsafe { each_variable(variables, &mut take) };
        }
        // SAFETY: `getauxval` has no precondition.
        if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
            // A program with more rights than its user writes no files that the user names.
            settings.report = Report::No;
            settings.ring_path = FilePath::EMPTY;
        }
        settings.choose_recorder(allocators);
        settings
    }

    /// Parses one variable.
    fn take(&mut self, name: &str, value: &str, allocators: &[&str]) {
        match name {
            "RTALLOC" => {
                self.kind_given = true;
                self.kind = allocators.iter().position(|&name| name == value).unwrap_or_else(|| {
                    refuse_to_run(format_args!(
                        "RTALLOC={value}: unknown allocator; choose one of: {}",
                        List(allocators)
                    ))
                });
            }
            "RTALLOC_HEAP" => self.heap_bytes = Some(bytes(name, value)),
            "RTALLOC_SLOTS" => match value.parse() {
                Ok(slots @ 1..=MAX_SLOTS) => self.slots = Some(slots),
                _ => refuse_to_run(format_args!(
                    "{name}={value}: choose a number from 1 to {MAX_SLOTS}, one more than threads run at a time"
                )),
            },
            "RTALLOC_FIXED" => self.fixed = switch(name, value),
            "RTALLOC_MLOCK" => self.locked = switch(name, value),
            "RTALLOC_DIRECT" => self.direct_bytes = bytes(name, value).max(4096),
            "RTALLOC_REPORT" => match value {
                "0" => self.report = Report::No,
                "1" => self.report = Report::Stderr,
                path if self.report_path.set(path) => self.report = Report::File,
                _ => refuse_to_run(format_args!(
                    "{name}: set 1 for standard error, or a file name of fewer than 4,000 \
                                                 bytes"
                )),
            },
            "RTALLOC_RING" if self.ring_path.set(value) => {}
            "RTALLOC_RING" => refuse_to_run(format_args!("{name}: set a file name of fewer than 4,000 bytes")),
            "RTALLOC_FAIL" => {
                self.failures = failures(value).unwrap_or_else(|| {
                    refuse_to_run(format_args!(
                        "{name}={value}: choose which requests fail: nth:5, from:5, every:100, share:0.01 or \
                         share:0.01,seed:7"
                    ))
                });
            }
            "RTALLOC_QUOTA" => self.quota_bytes = Some(bytes(name, value)),
            "RTALLOC_RECORDS" => match value.parse() {
                Ok(records @ 1..=MAX_RECORDS) => (self.ring_records, self.ring_given) = (records, true),
                _ => refuse_to_run(format_args!(
                    "{name}={value}: choose a number of operations, at least 1 and at most {MAX_RECORDS}"
                )),
            },
            "RTALLOC_MISUSE" => {
                self.on_misuse = match value {
                    "abort" => OnMisuse::Abort,
                    "report" => OnMisuse::Report,
                    "ignore" => OnMisuse::Ignore,
                    _ => refuse_to_run(format_args!("{name}={value}: choose abort, report or ignore")),
                }
            }
            "RTALLOC_RECORD_LOG" => {} // The recorder's.
            _ if name.starts_with("RTALLOC_") => refuse_to_run(format_args!("{name}: unknown setting; {NAMES}")),
            _ => {}
        }
    }

    /// Operations that the ring of each region keeps.
    pub fn records_per_region(&self) -> usize {
        if self.ring_path.is_empty() && !self.ring_given { 256 } else { self.ring_records }
    }

    /// Whether every operation is counted, and so takes the slow path: for the report, or to refuse some requests.
    pub fn is_counting(&self) -> bool {
        self.report != Report::No || self.failures != Failures::Never || self.quota_bytes.is_some()
    }

    /// Whether memory is planned: its size is given, or it is fixed or locked. The first region is then committed.
    pub fn is_planned(&self) -> bool {
        self.heap_bytes.is_some() || self.fixed || self.locked
    }

    /// Chooses an allocator with a flight recorder if settings of the recorder are given.
    fn choose_recorder(&mut self, allocators: &[&str]) {
        if !self.ring_given && self.ring_path.is_empty() {
            return;
        }
        let chosen = allocators.get(self.kind).copied().unwrap_or("");
        match chosen {
            "traced" | "guarded" => {}
            _ if chosen == "tlsf" || !self.kind_given => {
                self.kind = allocators.iter().position(|&name| name == "traced").unwrap_or(self.kind);
            }
            name => refuse_to_run(format_args!(
                "RTALLOC={name}: the flight recorder (RTALLOC_RING, RTALLOC_RECORDS) requires tlsf, traced or guarded"
            )),
        }
    }
}

/// The variables, for a message.
const NAMES: &str = "the settings are RTALLOC and RTALLOC_ followed by HEAP, SLOTS, FIXED, MLOCK, DIRECT, REPORT, \
     RING, RECORDS, FAIL, QUOTA, MISUSE";

/// `0` or `1`.
fn switch(name: &str, value: &str) -> bool {
    match value {
        "0" => false,
        "1" => true,
        _ => refuse_to_run(format_args!("{name}={value}: choose 1 for yes or 0 for no")),
    }
}

/// Which requests fail on purpose.
fn failures(value: &str) -> Option<Failures> {
    let (kind, what) = value.split_once(':')?;
    let number = || what.parse().ok().filter(|&number| number != 0);
    Some(match kind {
        "nth" => Failures::Nth(number()?),
        "from" => Failures::From(number()?),
        "every" => Failures::EveryNth(number()?),
        "share" => {
            let (share, seed) = what.split_once(",seed:").unwrap_or((what, "1"));
            let chance = fraction(share)?;
            Failures::Share { chance, seed: seed.parse().ok()? }
        }
        _ => return None,
    })
}

/// A number from 0 to 1, such as `0.01`, in units of 2^-32.
fn fraction(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > 9 || !part.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let unit = 10u64.pow(part.len() as u32);
    let part = if part.is_empty() { 0 } else { part.parse::<u64>().ok()? };
    let parts = whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(part)?;
    (parts <= unit).then(|| u32::try_from((parts << 32) / unit).unwrap_or(u32::MAX))
}

/// A number of bytes, with a unit or without.
fn bytes(name: &str, value: &str) -> usize {
    parse_bytes(value).unwrap_or_else(|| {
        refuse_to_run(format_args!("{name}={value}: choose a number of bytes above 0, such as 65536, 512K, 256M or 2G"))
    })
}

/// `12`, `12K`, `12M`, `12G`, `12T`, in upper or lower case, optionally followed by `iB` or `B`.
fn parse_bytes(value: &str) -> Option<usize> {
    let digits = value.find(|character: char| !character.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at_checked(digits)?;
    let shift = match unit {
        "" | "B" => 0,
        _ => {
            let prefix = unit.get(..1)?;
            if !matches!(unit.get(1..)?, "" | "B" | "iB") {
                return None;
            }
            match prefix {
                "k" | "K" => 10,
                "m" | "M" => 20,
                "g" | "G" => 30,
                "t" | "T" => 40,
                _ => return None,
            }
        }
    };
    number.parse::<usize>().ok()?.checked_mul(1 << shift).filter(|&bytes| bytes != 0 && bytes <= isize::MAX as usize)
}

/// Names separated by spaces.
struct List<'a>(&'a [&'a str]);

impl fmt::Display for List<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { " " })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}

/// Calls a function with each `NAME=VALUE` of the environment.
///
/// # Safety
///
/// `variables` points to pointers to strings that end with zeros; the last pointer is null.
unsafe fn each_variable(mut variables: *const *const c_char, take: &mut dyn FnMut(&[u8])) {
    // SAFETY: the caller guarantees the strings, and a null pointer after the last.
    unsafe {
        while !(*variables).is_null() {
            take(CStr::from_ptr(*variables).to_bytes());
            variables = variables.add(1);
        }
    }
}

/// As [`each_variable`], from `/proc`. Without `/proc` the environment counts as empty.
fn each_variable_of_kernel(take: &mut dyn FnMut(&[u8])) {
    /// Most bytes of an environment: a quarter of the largest stack that `execve` allows for it.
    const CAPACITY_BYTES: usize = 8 << 20;
    // SAFETY: the literal ends with a zero. The kernel chooses the address of the mapping, so it replaces none; it is
    // used only here and is at least as long as what is read into it.
    unsafe {
        let file = syscall::open(c"/proc/self/environ".as_ptr(), O_RDONLY | O_CLOEXEC, 0);
        if file < 0 {
            return;
        }
        let memory = libc::mmap(null_mut(), CAPACITY_BYTES, PROT_READ_WRITE, MAP_MEMORY | MAP_NORESERVE, -1, 0);
        if !libc::is_failed(memory) {
            let filled = read_all(file, memory.cast(), CAPACITY_BYTES);
            let text = core::slice::from_raw_parts(memory.cast::<u8>(), filled);
            text.split(|&byte| byte == 0).for_each(take);
            libc::munmap(memory, CAPACITY_BYTES);
        }
        syscall::close(file);
    }
}

/// Reads a file up to its end, at most `len` bytes; returns their number.
///
/// # Safety
///
/// `len` bytes at `place` are writable.
unsafe fn read_all(file: c_int, place: *mut u8, len: usize) -> usize {
    let mut filled = 0;
    while filled < len {
        // SAFETY: `filled` is less than `len`, and the caller guarantees `len` writable bytes.
        let count = unsafe { syscall::read(file, place.add(filled).cast(), len - filled) };
        match usize::try_from(count) {
            Ok(count) if count > 0 => filled += count,
            _ => break,
        }
    }
    filled
}
