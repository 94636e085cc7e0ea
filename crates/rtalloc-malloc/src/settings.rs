//! What the environment asks for.
//!
//! | variable | value | without it |
//! |---|---|---|
//! | `RTALLOC` | name of an allocator ([`kinds`](crate::kinds)) | `arenas` |
//! | `RTALLOC_HEAP` | bytes of the first region: `256M`, `1G`, `65536` | as much address space as is useful, touched as it is needed |
//! | `RTALLOC_SLOTS` | slots of the arenas, 1 to 1024 | 16, and 1 where the heap's size is given, as slots divide it |
//! | `RTALLOC_FIXED` | `1`: the first region is all there is | the heap grows by further regions |
//! | `RTALLOC_MLOCK` | `1`: every region is pre-faulted and locked in memory | pages come as they are touched |
//! | `RTALLOC_DIRECT` | bytes from which a request is a mapping of its own | `32M`; never where the heap is fixed |
//! | `RTALLOC_REPORT` | `1`: a report at exit on standard error; else the file it is appended to (`%p`: the number of the process) | none |
//! | `RTALLOC_RING` | a file: the last operations are recorded in it ([`ring`]) | recorded by `traced`, in memory |
//! | `RTALLOC_RECORDS` | operations that are kept | 65536 in a file, 256 in memory |
//! | `RTALLOC_FAIL` | requests to refuse: `nth:5`, `from:5`, `every:100`, `share:0.01`, `share:0.01,seed:7` | none |
//! | `RTALLOC_QUOTA` | bytes that may be live at a time, as granted | no limit |
//! | `RTALLOC_MISUSE` | `abort`, `report` or `ignore` | `abort`, as the C library does |
//!
//! What cannot be understood, a name that begins with `RTALLOC_` and is none of these too, ends the program before it began, with a line
//! that says what would be. The environment is read once, at the first allocation, which comes before the C library has set it up: then
//! it is read from the kernel.

use crate::tell::refuse_to_run;
use crate::{libc, ring, system};
use core::ffi::{CStr, c_char, c_int};
use core::ptr::null_mut;
use core::str;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;
use rtalloc::adapt::Failures;

/// What to do about a misuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnMisuse {
    /// Say it and abort.
    Abort,
    /// Say it and go on.
    Report,
    /// Go on.
    Ignore,
}

/// Where the report at exit goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Nowhere.
    No,
    /// To standard error.
    Stderr,
    /// To a file, at its end.
    File,
}

/// Most bytes of a file's name, with the zero at its end.
pub const PATH_BYTES: usize = 4096;

/// What was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Number of the allocator in [`kinds::ALL`](crate::kinds::ALL).
    pub kind: usize,
    /// Bytes of the first region, if they were given.
    pub heap_bytes: Option<usize>,
    /// Slots, if they were given.
    pub slots: Option<usize>,
    /// Whether the first region is all there is.
    pub fixed: bool,
    /// Whether memory is locked.
    pub locked: bool,
    /// Bytes from which a request is a mapping of its own.
    pub direct_bytes: usize,
    /// Where the report goes.
    pub report: Report,
    /// What to do about a misuse.
    pub on_misuse: OnMisuse,
    /// Requests that are refused on purpose.
    pub failures: Failures,
    /// Bytes that may be live at a time.
    pub quota_bytes: Option<usize>,
    /// Whether the allocator was chosen.
    pub kind_given: bool,
    /// Whether the length of the ring was.
    pub ring_given: bool,
    /// Operations that the ring keeps.
    pub ring_records: usize,
    /// The file of the ring, if it has one.
    pub ring_path: [u8; PATH_BYTES],
    /// The file of the report, if it goes to one.
    pub report_path: [u8; PATH_BYTES],
}

impl Settings {
    /// What holds where nothing is asked for.
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
        ring_path: [0; PATH_BYTES],
        report_path: [0; PATH_BYTES],
    };

    /// Reads the environment.
    #[must_use]
    pub fn read() -> Settings {
        let mut settings = Settings::DEFAULT;
        each_variable(&mut |variable| {
            let name_bytes = variable.iter().position(|&byte| byte == b'=').unwrap_or(variable.len());
            let (name, value) = variable.split_at(name_bytes);
            let value = value.get(1..).unwrap_or(&[]);
            // An empty value is none, as for most programs.
            if let (Ok(name), false) = (str::from_utf8(name), value.is_empty())
                && name.starts_with("RTALLOC")
            {
                let Ok(text) = str::from_utf8(value) else {
                    refuse_to_run(format_args!("{name} is not text"));
                };
                settings.take(name, text);
            }
        });
        // SAFETY: asks a number only.
        if unsafe { libc::getauxval(libc::SECURE) } != 0 {
            // Who runs a program with more rights than their own does not choose the files it writes.
            settings.report = Report::No;
            settings.ring_path[0] = 0;
        }
        ring::settle(&mut settings);
        settings
    }

    /// Takes one variable.
    fn take(&mut self, name: &str, value: &str) {
        match name {
            "RTALLOC" => {
                self.kind_given = true;
                self.kind = crate::kinds::ALL.iter().position(|kind| kind.name == value).unwrap_or_else(|| {
                    refuse_to_run(format_args!(
                        "RTALLOC={value}: there is no such allocator; one of: {}",
                        crate::kinds::Names
                    ))
                });
            }
            "RTALLOC_HEAP" => self.heap_bytes = Some(bytes(name, value)),
            "RTALLOC_SLOTS" => match value.parse() {
                Ok(slots @ 1..=crate::seat::MOST) => self.slots = Some(slots),
                _ => refuse_to_run(format_args!(
                    "{name}={value}: a number from 1 to {}, one more than there are threads at a time",
                    crate::seat::MOST
                )),
            },
            "RTALLOC_FIXED" => self.fixed = switch(name, value),
            "RTALLOC_MLOCK" => self.locked = switch(name, value),
            "RTALLOC_DIRECT" => self.direct_bytes = bytes(name, value).max(4096),
            "RTALLOC_REPORT" => match value {
                "0" => self.report = Report::No,
                "1" => self.report = Report::Stderr,
                path if ring::keep(path, &mut self.report_path) => self.report = Report::File,
                _ => refuse_to_run(format_args!("{name}: 1 for standard error, or a file of less than 4,000 bytes")),
            },
            "RTALLOC_RING" if ring::keep(value, &mut self.ring_path) => {}
            "RTALLOC_RING" => refuse_to_run(format_args!("{name}: a file whose name has less than 4,000 bytes")),
            "RTALLOC_FAIL" => {
                self.failures = failures(value).unwrap_or_else(|| {
                    refuse_to_run(format_args!(
                        "{name}={value}: which requests fail: nth:5, from:5, every:100, share:0.01 or share:0.01,seed:7"
                    ))
                });
            }
            "RTALLOC_QUOTA" => self.quota_bytes = Some(bytes(name, value)),
            "RTALLOC_RECORDS" => match value.parse() {
                Ok(records @ 1..=0x1000_0000) => (self.ring_records, self.ring_given) = (records, true),
                _ => refuse_to_run(format_args!("{name}={value}: a number of operations, at least 1")),
            },
            "RTALLOC_MISUSE" => {
                self.on_misuse = match value {
                    "abort" => OnMisuse::Abort,
                    "report" => OnMisuse::Report,
                    "ignore" => OnMisuse::Ignore,
                    _ => refuse_to_run(format_args!("{name}={value}: abort, report or ignore")),
                }
            }
            "RTALLOC_RECORD_LOG" => {} // The recorder's.
            _ if name.starts_with("RTALLOC_") => {
                refuse_to_run(format_args!("{name}: there is no such variable; {NAMES}"))
            }
            _ => {}
        }
    }
}

/// The variables, for who has written another.
const NAMES: &str =
    "there are RTALLOC and RTALLOC_ with HEAP, SLOTS, FIXED, MLOCK, DIRECT, REPORT, RING, RECORDS, FAIL, QUOTA, MISUSE";

/// A switch.
fn switch(name: &str, value: &str) -> bool {
    match value {
        "0" => false,
        "1" => true,
        _ => refuse_to_run(format_args!("{name}={value}: 1 for yes, 0 for no")),
    }
}

/// Which requests are refused on purpose.
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

/// A number from 0 to 1, such as `0.01`, as so many of 2^32.
fn fraction(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > 9 || !part.bytes().all(|letter| letter.is_ascii_digit()) {
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
        refuse_to_run(format_args!("{name}={value}: a number of bytes above 0, such as 65536, 512K, 256M or 2G"))
    })
}

/// `12`, `12K`, `12M`, `12G`, `12T`, in either case, with or without `iB` or `B` behind it.
fn parse_bytes(value: &str) -> Option<usize> {
    let digits = value.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(value.len());
    let (number, unit) = value.split_at_checked(digits)?;
    let shift = match unit {
        "" | "B" => 0,
        _ => {
            let letter = unit.get(..1)?;
            if !matches!(unit.get(1..)?, "" | "B" | "iB") {
                return None;
            }
            match letter {
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

/// The environment as constructors get it; null before that.
static GIVEN: AtomicPtr<*const c_char> = AtomicPtr::new(null_mut());

/// Tells of the environment before the C library does.
pub fn set_environment(variables: *const *const c_char) {
    GIVEN.store(variables.cast_mut(), Relaxed);
}

/// Calls a function with each `NAME=VALUE` of the environment.
fn each_variable(take: &mut dyn FnMut(&[u8])) {
    // SAFETY: the C library's variable, or what it will be: null, or pointers to strings up to a null pointer.
    unsafe {
        let mut variables = libc::environ;
        if variables.is_null() {
            variables = GIVEN.load(Relaxed).cast_const();
        }
        if !variables.is_null() {
            while !(*variables).is_null() {
                take(CStr::from_ptr(*variables).to_bytes());
                variables = variables.add(1);
            }
            return;
        }
    }
    from_the_kernel(take);
}

/// Most bytes of an environment: a quarter of the largest stack that `execve` allows for it.
const MOST_BYTES: usize = 8 << 20;

/// As [`each_variable`], before the C library has set it up. Without `/proc` there is no environment.
fn from_the_kernel(take: &mut dyn FnMut(&[u8])) {
    // SAFETY: a new mapping, which nobody else knows and which is unmapped before the end; the literal ends with a zero.
    unsafe {
        let file = system::open(c"/proc/self/environ".as_ptr().cast::<c_char>(), system::READ_ONLY);
        if file < 0 {
            return;
        }
        let memory = system::mmap(null_mut(), MOST_BYTES, system::ACCESS_BOTH, libc::MAP_UNRESERVED, -1, 0);
        if !system::is_failed(memory) {
            let filled = read_all(file, memory.cast(), MOST_BYTES);
            let text = core::slice::from_raw_parts(memory.cast::<u8>(), filled);
            text.split(|&byte| byte == 0).for_each(take);
            system::munmap(memory, MOST_BYTES);
        }
        system::close(file);
    }
}

/// Reads a file to its end, or to that of the place; says how many bytes.
///
/// # Safety
///
/// The place is writable.
unsafe fn read_all(file: c_int, place: *mut u8, len: usize) -> usize {
    let mut filled = 0;
    while filled < len {
        // SAFETY: the rest of the place is writable.
        let count = unsafe { system::read(file, place.add(filled).cast(), len - filled) };
        match usize::try_from(count) {
            Ok(count) if count > 0 => filled += count,
            _ => break,
        }
    }
    filled
}
