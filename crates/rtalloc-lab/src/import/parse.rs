//! Reads the text of a log: which lines are operations, and to which run of the program they belong.

use super::ImportError;
use crate::trace::{MAGIC, MAX_SIZE_BYTES};
use serde::Serialize;

/// A form of log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// The trace macros of FreeRTOS, printed.
    Freertos,
    /// The heap listeners of Zephyr, printed.
    Zephyr,
    /// `heap_trace_dump` of ESP-IDF: allocations, and whether each was freed, but not when.
    EspDump,
    /// The report of ESP-IDF's host-based heap trace.
    EspHost,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Freertos, Self::Zephyr, Self::EspDump, Self::EspHost];

    /// What prints it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Freertos => "FreeRTOS",
            Self::Zephyr => "Zephyr",
            Self::EspDump => "ESP-IDF's heap_trace_dump",
            Self::EspHost => "ESP-IDF's host-based heap trace",
        }
    }

    /// The alignment of every block, in bytes.
    #[must_use]
    pub fn align(self) -> u32 {
        match self {
            Self::Freertos | Self::Zephyr => 8,
            Self::EspDump | Self::EspHost => 4,
        }
    }
}

/// What a line reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A request, and in a dump whether its block was freed since.
    Allocate {
        /// Whether it was.
        freed: bool,
    },
    /// A free.
    Free,
}

/// An operation of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its line, from 1.
    pub line: u64,
    /// What happened.
    pub step: Step,
    /// The heap, as a place in [`Log::heaps`].
    pub heap: usize,
    /// Address of the block; 0 for a refused request.
    pub address: u64,
    /// Bytes; 0 where the line does not state them.
    pub size: u64,
    /// Number of the line in its run; in a dump, the reading of a cycle counter.
    pub number: Option<u32>,
    /// In a dump, the processor whose counter that is.
    pub processor: u32,
}

impl Entry {
    /// Whether it is an allocation whose block was freed since.
    #[must_use]
    pub fn is_freed(&self) -> bool {
        self.step == Step::Allocate { freed: true }
    }
}

/// What the two modes of `heap_trace_start` keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Every allocation, as long as there is room.
    All,
    /// The allocations that are not freed yet.
    Leaks,
}

/// The statements of a dump about itself; `None` where the line is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Dump {
    /// Records that follow.
    pub records: Option<u64>,
    /// Its mode.
    pub mode: Option<Mode>,
    /// Bytes in the blocks that were not freed.
    pub live_bytes: Option<u64>,
    /// Allocations since tracing began.
    pub allocations: Option<u64>,
    /// Frees since tracing began.
    pub frees: Option<u64>,
    /// Whether older records were overwritten.
    pub has_overflowed: bool,
}

/// The operations of one run of the program, or of one dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// First line.
    pub first_line: u64,
    /// Last line.
    pub last_line: u64,
    /// Its operations, in the order of the log.
    pub entries: Vec<Entry>,
    /// Lines that begin like an operation and cannot be read, or whose number does not fit.
    pub damaged: u64,
    /// The first of them.
    pub first_damaged: Option<u64>,
    /// Operations that are missing by the numbers of the lines, the damaged ones included; `None` without numbers.
    pub missing: Option<u64>,
    /// The statements of a dump.
    pub dump: Dump,
}

/// A log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Its form.
    pub format: Format,
    /// Names of the heaps, in the order of their first operation; an empty name where the format has none.
    pub heaps: Vec<String>,
    /// The runs or dumps, at least one.
    pub parts: Vec<Part>,
    /// Lines with other text.
    pub other_lines: u64,
}

impl Log {
    /// Reads a log.
    ///
    /// # Errors
    ///
    /// No line, or lines of more than one format, are operations.
    pub fn parse(bytes: &[u8]) -> Result<Self, ImportError> {
        if bytes.starts_with(&MAGIC) {
            return Err(ImportError::IsTrace);
        }
        let decoded = utf16(bytes);
        let bytes = decoded.as_deref().unwrap_or(bytes);
        let mut readings = [const { Reading::new() }; Format::ALL.len()];
        let (mut lines, mut filled) = (0, 0);
        for line in bytes.split(|byte| *byte == b'\n') {
            lines += 1;
            let text = String::from_utf8_lossy(line);
            filled += u64::from(!text.trim().is_empty());
            for (format, reading) in Format::ALL.into_iter().zip(&mut readings) {
                reading.read(format, lines, &text);
            }
        }
        if filled == 0 {
            return Err(ImportError::Empty);
        }
        let first = |(format, reading): (Format, &Reading)| Some((format, reading.first_operation?));
        let found: Vec<(Format, u64)> = Format::ALL.into_iter().zip(&readings).filter_map(first).collect();
        match found[..] {
            [(format, _)] => {
                let at = Format::ALL.iter().position(|it| *it == format).unwrap_or(0);
                let Reading { heaps, items, used_lines, .. } = std::mem::replace(&mut readings[at], Reading::new());
                let parts = if format == Format::EspDump { dumps(&items) } else { runs(&items) };
                Ok(Self { format, heaps, parts, other_lines: filled - used_lines })
            }
            [] if bytes.contains(&0) => Err(ImportError::Binary),
            [] => {
                let damaged = readings.iter().flat_map(|reading| &reading.items).find_map(|item| match item {
                    Item::Damaged(line) => Some(*line),
                    _ => None,
                });
                Err(ImportError::Nothing { lines: filled, damaged })
            }
            _ => {
                let name = |(format, line): &(Format, u64)| format!("{} (first in line {line})", format.name());
                Err(ImportError::Several(found.iter().map(name).collect()))
            }
        }
    }

    /// The part with the most operations, the last of equals.
    #[must_use]
    pub fn longest(&self) -> usize {
        (0..self.parts.len()).max_by_key(|part| self.parts[*part].entries.len()).unwrap_or(0)
    }
}

/// Text in UTF-16, as some shells of Windows redirect it, in UTF-8.
fn utf16(bytes: &[u8]) -> Option<Vec<u8>> {
    let units = bytes.strip_prefix(&[0xff, 0xfe])?;
    let units: Vec<u16> = units.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    Some(String::from_utf16_lossy(&units).into_bytes())
}

/// What a line, or a piece of it, contains.
#[derive(Clone, Copy, Debug)]
enum Item {
    Operation(Entry),
    /// The beginning of an operation.
    Damaged(u64),
    /// The record before was freed.
    Freed(u64),
    /// A dump begins.
    Begin {
        line: u64,
        records: u64,
    },
    /// A statement of a dump about itself.
    Statement(u64, Statement),
}

#[derive(Clone, Copy, Debug)]
enum Statement {
    Mode(Mode),
    LiveBytes(Mode, u64),
    Allocations(u64),
    Frees(u64),
    Overflowed,
}

/// What was read as one format.
struct Reading {
    heaps: Vec<String>,
    items: Vec<Item>,
    first_operation: Option<u64>,
    used_lines: u64,
}

impl Reading {
    const fn new() -> Self {
        Self { heaps: Vec::new(), items: Vec::new(), first_operation: None, used_lines: 0 }
    }

    fn read(&mut self, format: Format, line: u64, text: &str) {
        let before = self.items.len();
        match format {
            Format::Freertos => self.calls(line, text, ["traceMALLOC", "traceFREE"], false),
            Format::Zephyr => self.calls(line, text, ["heap_alloc", "heap_free"], true),
            Format::EspDump => self.dump(line, text),
            Format::EspHost => self.report(line, text),
        }
        self.used_lines += u64::from(self.items.len() > before);
    }

    fn operation(&mut self, heap: &str, entry: Entry) {
        self.first_operation.get_or_insert(entry.line);
        let known = self.heaps.iter().position(|name| name == heap);
        let heap = known.unwrap_or_else(|| {
            self.heaps.push(heap.into());
            self.heaps.len() - 1
        });
        self.items.push(Item::Operation(Entry { heap, ..entry }));
    }

    /// Calls of two functions. A lost line break puts several into one line.
    fn calls(&mut self, line: u64, text: &str, names: [&str; 2], has_heap: bool) {
        let steps = [Step::Allocate { freed: false }, Step::Free];
        let mut calls: Vec<(usize, Step)> = Vec::new();
        for (name, step) in names.into_iter().zip(steps) {
            // A digit before the name is what is left of the line before.
            let whole = |at: &usize| !text[..*at].ends_with(|before: char| before.is_alphabetic() || before == '_');
            let starts = text.match_indices(name).map(|(at, _)| at).filter(whole);
            calls.extend(starts.map(|at| (at + name.len(), step)));
        }
        calls.sort_by_key(|(at, _)| *at);
        for (at, step) in calls {
            match call(&text[at..], has_heap) {
                Some((heap, address, size, number)) => {
                    let entry = Entry { line, step, heap: 0, address, size, number, processor: 0 };
                    self.operation(&heap, entry);
                }
                None => self.items.push(Item::Damaged(line)),
            }
        }
    }

    /// A line of a dump.
    fn dump(&mut self, line: u64, text: &str) {
        for (at, _) in text.match_indices("(@ ") {
            match record(text, at) {
                Some((memory, entry)) => self.operation(memory, Entry { line, ..entry }),
                None => self.items.push(Item::Damaged(line)),
            }
        }
        if text.contains("freed by ") {
            self.items.push(Item::Freed(line));
        }
        let begins = after(text, "Heap Trace: ", " records (").or_else(|| before(text, " allocations trace ("));
        if let Some(records) = begins {
            self.first_operation.get_or_insert(line);
            self.items.push(Item::Begin { line, records });
        }
        let statements = [
            text.contains("Mode: Heap Trace All").then_some(Statement::Mode(Mode::All)),
            text.contains("Mode: Heap Trace Leaks").then_some(Statement::Mode(Mode::Leaks)),
            before(text, " bytes alive in trace").map(|bytes| Statement::LiveBytes(Mode::All, bytes)),
            before(text, " bytes 'leaked' in trace").map(|bytes| Statement::LiveBytes(Mode::Leaks, bytes)),
            after(text, "total allocations", "").map(Statement::Allocations),
            after(text, "total frees", "").map(Statement::Frees),
            text.contains("uffer has overflowed").then_some(Statement::Overflowed),
        ];
        self.items.extend(statements.into_iter().flatten().map(|statement| Item::Statement(line, statement)));
    }

    /// A line of the host's report. A lost line break puts several into one line.
    fn report(&mut self, line: u64, text: &str) {
        for (at, word) in text.match_indices("HEAP: ") {
            let mut rest = Rest(&text[at + word.len()..]);
            let step = if rest.eat("Allocated") {
                Step::Allocate { freed: false }
            } else if rest.eat("Freed") {
                Step::Free
            } else {
                continue;
            };
            let size = rest.number();
            let is_stated = size.is_some_and(|size| size <= MAX_SIZE_BYTES) || (size.is_none() && step == Step::Free);
            let address = (is_stated && rest.eat("bytes") && rest.eat("@")).then(|| rest.address()).flatten();
            match address {
                Some(address) => {
                    let size = size.unwrap_or(0);
                    self.operation("", Entry { line, step, heap: 0, address, size, number: None, processor: 0 });
                }
                None => self.items.push(Item::Damaged(line)),
            }
        }
    }
}

/// The arguments of a call: heap, address, size, number of the line.
fn call(text: &str, has_heap: bool) -> Option<(String, u64, u64, Option<u32>)> {
    let mut rest = Rest(text);
    let mut heap = String::new();
    if !rest.eat("(") {
        return None;
    }
    if has_heap {
        heap = format!("{:#x}", rest.address()?);
        if !rest.eat(",") {
            return None;
        }
    }
    let address = rest.address()?;
    if !rest.eat(",") {
        return None;
    }
    let size = rest.number().filter(|size| *size <= MAX_SIZE_BYTES)?;
    let number = match rest.eat(",") {
        true => Some(u32::try_from(rest.number()?).ok()?),
        false => None,
    };
    // Without the last character, digits of the last number may be missing.
    rest.eat(")").then_some((heap, address, size, number))
}

/// A record of a dump around `(@ ` at this place, and its kind of memory.
fn record(text: &str, at: usize) -> Option<(&str, Entry)> {
    let size = before(&text[..at], " bytes ").filter(|size| *size <= MAX_SIZE_BYTES)?;
    let mut rest = Rest(&text[at + "(@ ".len()..]);
    let address = rest.address()?;
    let (memory, after) = rest.0.split_once(')')?;
    let mut rest = Rest(after);
    if !(rest.eat("allocated") && rest.eat("CPU")) {
        return None;
    }
    let processor = u32::try_from(rest.number()?).ok()?;
    if !rest.eat("ccount") {
        return None;
    }
    // All eight digits are printed.
    let digits = rest.0.trim_start().strip_prefix("0x")?;
    let cycles = u32::from_str_radix(digits.get(..8)?, 16).ok()?;
    let freed = digits[8..].trim_end() == " freed";
    let step = Step::Allocate { freed };
    let memory = memory.trim_start_matches(',').trim();
    Some((memory, Entry { line: 0, step, heap: 0, address, size, number: Some(cycles), processor }))
}

/// The decimal number that ends where `marker` begins.
fn before(text: &str, marker: &str) -> Option<u64> {
    let head = &text[..text.rfind(marker)?];
    let digits = head.len() - head.bytes().rev().take_while(u8::is_ascii_digit).count();
    head[digits..].parse().ok()
}

/// The decimal number between two markers, of which the first may have a colon.
fn after(text: &str, marker: &str, end: &str) -> Option<u64> {
    let mut rest = Rest(&text[text.find(marker)? + marker.len()..]);
    rest.eat(":");
    let number = rest.number()?;
    rest.0.starts_with(end).then_some(number)
}

/// What is left of a line.
struct Rest<'a>(&'a str);

impl Rest<'_> {
    /// Removes blanks and `word`, if it is next.
    fn eat(&mut self, word: &str) -> bool {
        match self.0.trim_start().strip_prefix(word) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// A number, hexadecimal after `0x`.
    fn number(&mut self) -> Option<u64> {
        if self.eat("0x") { self.digits(16) } else { self.digits(10) }
    }

    /// An address as `%p` prints it, with or without `0x`; 0 for each of the forms of null.
    fn address(&mut self) -> Option<u64> {
        if ["(nil)", "(null)", "NULL"].iter().any(|null| self.eat(null)) {
            return Some(0);
        }
        let _ = self.eat("0x") || self.eat("0X");
        self.digits(16)
    }

    fn digits(&mut self, radix: u32) -> Option<u64> {
        let text = self.0.trim_start();
        let end = text.find(|letter: char| !letter.is_digit(radix)).unwrap_or(text.len());
        self.0 = &text[end..];
        u64::from_str_radix(&text[..end], radix).ok()
    }
}

/// The runs of a program: each begins where the numbers of the lines begin again.
///
/// A number that does not fit its neighbours is damaged, and with it its line: digits are lost like any character.
fn runs(items: &[Item]) -> Vec<Part> {
    let mut parts = vec![Part::default()];
    let mut last: Option<u32> = None;
    // Damaged lines since the last number: the next number of the run counts them, if there is one.
    let mut unnumbered = 0;
    for (place, item) in items.iter().enumerate() {
        let entry = match item {
            Item::Operation(entry) => entry,
            Item::Damaged(line) => {
                parts.last_mut().expect("one part").damage(*line);
                unnumbered += 1;
                continue;
            }
            _ => continue,
        };
        let part = parts.last_mut().expect("one part");
        let Some(number) = entry.number else {
            // In a run with numbers, the number is lost.
            if last.is_some() {
                part.damage(entry.line);
                unnumbered += 1;
            } else {
                part.push(*entry);
            }
            continue;
        };
        let next = items[place + 1..].iter().find_map(|item| match item {
            Item::Operation(entry) => entry.number,
            _ => None,
        });
        // The distance from the last number, modulo 2^32; lines before the first one are missing, too.
        let distance = |number: u32| last.map_or(number.wrapping_add(1), |last| number.wrapping_sub(last));
        let (ahead, next_ahead) = (distance(number), next.map(distance));
        const BACKWARD: u32 = 1 << 31;
        if ahead == 0 || ahead >= BACKWARD {
            // The board started again if the next number fits this one, and not the last.
            let is_start = match (next, next_ahead) {
                (Some(next), Some(ahead)) => {
                    (ahead == 0 || ahead >= BACKWARD) && (1..BACKWARD).contains(&next.wrapping_sub(number))
                }
                _ => number == 0,
            };
            if !is_start {
                part.damage(entry.line);
                unnumbered += 1;
                continue;
            }
            part.miss(unnumbered);
            let missing = Some(u64::from(number));
            parts.push(Part { missing, ..Part::default() });
            parts.last_mut().expect("just added").push(*entry);
        } else if ahead > 1 && next_ahead.is_some_and(|next| (1..ahead).contains(&next)) {
            part.damage(entry.line);
            unnumbered += 1;
            continue;
        } else {
            *part.missing.get_or_insert(0) += u64::from(ahead - 1);
            part.push(*entry);
        }
        (last, unnumbered) = (Some(number), 0);
    }
    parts.last_mut().expect("one part").miss(unnumbered);
    parts.retain(|part| part.last_line > 0);
    parts
}

/// The dumps of a log: each begins with its heading.
fn dumps(items: &[Item]) -> Vec<Part> {
    let mut parts = vec![Part::default()];
    // Whether the record that a line could call freed is known.
    let mut is_next = false;
    for item in items {
        if let Item::Begin { line, records } = item {
            let dump = Dump { records: Some(*records), ..Dump::default() };
            parts.push(Part { first_line: *line, last_line: *line, dump, ..Part::default() });
            is_next = false;
            continue;
        }
        let part = parts.last_mut().expect("one part");
        match item {
            Item::Operation(entry) => {
                part.push(*entry);
                is_next = true;
            }
            Item::Damaged(line) => {
                part.damage(*line);
                is_next = false;
            }
            Item::Freed(line) => {
                part.note(*line);
                match part.entries.last_mut().filter(|_| is_next) {
                    Some(Entry { step: Step::Allocate { freed }, .. }) => *freed = true,
                    // Its record is damaged, or lost.
                    _ => part.damage(*line),
                }
                is_next = false;
            }
            Item::Statement(line, statement) => {
                part.note(*line);
                let dump = &mut part.dump;
                match *statement {
                    Statement::Mode(mode) => dump.mode = Some(mode),
                    Statement::LiveBytes(mode, bytes) => (dump.mode, dump.live_bytes) = (Some(mode), Some(bytes)),
                    Statement::Allocations(count) => dump.allocations = Some(count),
                    Statement::Frees(count) => dump.frees = Some(count),
                    Statement::Overflowed => dump.has_overflowed = true,
                }
            }
            Item::Begin { .. } => {}
        }
    }
    parts.retain(|part| part.last_line > 0);
    parts
}

impl Part {
    fn note(&mut self, line: u64) {
        if self.first_line == 0 {
            self.first_line = line;
        }
        self.last_line = line;
    }

    fn push(&mut self, entry: Entry) {
        self.note(entry.line);
        self.entries.push(entry);
    }

    /// Counts damaged lines after the last number of the run, if its lines have numbers.
    fn miss(&mut self, damaged: u64) {
        if let Some(missing) = &mut self.missing {
            *missing += damaged;
        }
    }

    fn damage(&mut self, line: u64) {
        self.note(line);
        self.damaged += 1;
        self.first_damaged.get_or_insert(line);
    }
}
