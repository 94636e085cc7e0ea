//! Logic mutation tests: a step of the shipped source that is wrong in a plausible way must make a model fail.
//!
//! A mutant names a line by its text, and what becomes of the atomic access there: it is torn into a read and a write,
//! left out, or comes too late. Each also names the model that fails. The source has no hook for this: the model
//! checker's atomics ([`Loomed`](crate::scene::Loomed)) perform the changed step.

use crate::controls::Site;

/// When a postponed step is performed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After the thread's next RMW, but no later than the end of its operation.
    AfterNextRmw,
    /// After the operation: when the thread begins the next one.
    AfterOperation,
}

/// What becomes of an access.
#[derive(Clone, Copy, Debug)]
pub enum Change {
    /// An RMW that changes nothing becomes a load.
    Load,
    /// An RMW is left out. It returns 0, as if no bit were set.
    LeftOut,
    /// An RMW is left out if the same operation has changed the word: nothing is given back.
    LeftOutAsUndo,
    /// An RMW that changes nothing is left out. It returns what this thread loaded last from the word.
    AsLoaded,
    /// An RMW becomes a read of the latest value and a write.
    Torn,
    /// An RMW loses the other bits of its operand, a store those of its value.
    Masked(usize),
    /// A store, or an RMW whose answer is not used, comes later.
    Postponed(Moment),
    /// A store of 0 comes later.
    PostponedIfZero(Moment),
    /// A store of anything else comes later.
    PostponedUnlessZero(Moment),
}

/// A fault, and the model that fails for it.
#[derive(Clone, Copy, Debug)]
pub struct Mutant {
    /// What is wrong.
    pub fault: &'static str,
    /// The source file, in `src`.
    file: &'static str,
    /// One line or two, each by a part that no other line of the file has.
    lines: &'static [&'static str],
    change: Change,
    /// The model.
    pub model: &'static str,
}

/// The access that is changed.
#[derive(Clone, Copy, Debug)]
pub struct ChangedStep {
    file: &'static str,
    /// The lines; 0 for none.
    lines: [u32; 2],
    change: Change,
}

impl ChangedStep {
    /// What becomes of the access at a site.
    pub fn at(self, site: Site) -> Option<Change> {
        self.lines.iter().any(|&line| site.is_at(self.file, line)).then_some(self.change)
    }
}

impl Mutant {
    /// Looks the lines up.
    ///
    /// # Panics
    ///
    /// If the file does not have each exactly once: the list below is out of date.
    pub fn step(&self) -> ChangedStep {
        let path = format!("src/{}", self.file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut lines = [0; 2];
        for (found, part) in lines.iter_mut().zip(self.lines) {
            let with_part: Vec<_> = (1..).zip(text.lines()).filter(|(_, line)| line.contains(part)).collect();
            let &[(line, _)] = with_part.as_slice() else { panic!("{path}: {} lines with `{part}`", with_part.len()) };
            *found = line;
        }
        ChangedStep { file: self.file, lines, change: self.change }
    }
}

/// The pool's gift: the addition that gives chunks back.
const GIVE: &str = "self.word(index).fetch_add(GIVEN.wrapping_add(chunks), Release)";
/// The RMW that reads a version again.
const VERSION: &str = "self.word(index).fetch_add(0, Relaxed)";
/// The last look at the pending bits.
const LAST_LOOK: &str = "self.bits.fetch_or(0, Relaxed)";
/// The store to the entries of a piece, and to one entry.
const ENTRIES: &str = "with_exposed_provenance_mut(word)) }.store(entry.0, Relaxed)";
const ENTRY: &str = "self.entry_word(chunk).store(entry.0, Relaxed)";

/// Mutants of pooled arenas, and of the slots of their threads.
pub const MUTANTS: [Mutant; 24] = [
    Mutant {
        fault: "`missed` always answers Exhausted",
        file: "concurrent/pooled_arenas/pool.rs",
        lines: &[VERSION],
        change: Change::AsLoaded,
        model: "one is there",
    },
    Mutant {
        fault: "versions are read again by plain loads",
        file: "concurrent/pooled_arenas/pool.rs",
        lines: &[VERSION],
        change: Change::Load,
        model: "one is there",
    },
    Mutant {
        fault: "the version does not count what is given back",
        file: "concurrent/pooled_arenas/pool.rs",
        lines: &[GIVE],
        change: Change::Masked(usize::MAX >> (usize::BITS / 2)),
        model: "one is there",
    },
    Mutant {
        fault: "the version does not count when a whole word is given back",
        file: "concurrent/pooled_arenas/pool.rs",
        lines: &["word.store(value, Release)"],
        change: Change::Masked(usize::MAX >> (usize::BITS / 2)),
        model: "a long run is there",
    },
    Mutant {
        fault: "a torn take of a run in two words is not given back",
        file: "concurrent/pooled_arenas/pool.rs",
        lines: &[GIVE],
        change: Change::LeftOutAsUndo,
        model: "runs overlap",
    },
    Mutant {
        fault: "chunks are given back by a read and a write",
        file: "concurrent/pooled_arenas/pool.rs",
        lines: &[GIVE],
        change: Change::Torn,
        model: "runs overlap",
    },
    Mutant {
        fault: "chunks are taken by a read and a write",
        file: "concurrent/pooled_arenas/pool.rs",
        lines: &["word.compare_exchange(value, value - chunks, Acquire)"],
        change: Change::Torn,
        model: "the same chunk",
    },
    Mutant {
        fault: "the last look at the pending bits is a plain load",
        file: "concurrent/pooled_arenas/remote_queue.rs",
        lines: &[LAST_LOOK],
        change: Change::Load,
        model: "freed is known at once",
    },
    Mutant {
        fault: "the last look at the pending bits is left out",
        file: "concurrent/pooled_arenas/remote_queue.rs",
        lines: &[LAST_LOOK],
        change: Change::LeftOut,
        model: "freed is known at once",
    },
    Mutant {
        fault: "a pending bit is cleared after the queue is emptied",
        file: "concurrent/pooled_arenas/remote_queue.rs",
        lines: &["self.bits.fetch_and(!bit, Acquire)"],
        change: Change::Postponed(Moment::AfterNextRmw),
        model: "remote frees with a pending bit for each",
    },
    Mutant {
        fault: "a pending bit is cleared by a read and a write",
        file: "concurrent/pooled_arenas/remote_queue.rs",
        lines: &["self.bits.fetch_and(!bit, Acquire)"],
        change: Change::Torn,
        model: "remote frees with a pending bit for each",
    },
    Mutant {
        fault: "a pending bit is set by a read and a write",
        file: "concurrent/pooled_arenas/remote_queue.rs",
        lines: &["self.bits.fetch_or(Self::bit(producer), Release)"],
        change: Change::Torn,
        model: "remote frees with a pending bit for each",
    },
    Mutant {
        fault: "a shared pending bit is not set again for the others",
        file: "concurrent/pooled_arenas/remote_queue.rs",
        lines: &["self.bits.fetch_or(bit, Relaxed)"],
        change: Change::LeftOut,
        model: "remote frees with a shared pending bit",
    },
    Mutant {
        fault: "a free is pushed by a read and a write",
        file: "concurrent/pooled_arenas/remote_queue.rs",
        lines: &["self.top.compare_exchange(below, queued.get(), Release)"],
        change: Change::Torn,
        model: "remote frees with a pending bit for each",
    },
    Mutant {
        fault: "a queue is emptied by a read and a write",
        file: "concurrent/pooled_arenas/remote_queue.rs",
        lines: &["self.top.swap(0, Acquire)"],
        change: Change::Torn,
        model: "remote frees with a pending bit for each",
    },
    Mutant {
        fault: "a link is written after the push",
        file: "concurrent/pooled_arenas/remote_queue.rs",
        lines: &["link.0.store(below, Relaxed)"],
        change: Change::Postponed(Moment::AfterNextRmw),
        model: "remote frees with a pending bit for each",
    },
    Mutant {
        fault: "the pending bit is set after the producer's operation",
        file: "concurrent/pooled_arenas/remote_queue.rs",
        lines: &["self.bits.fetch_or(Self::bit(producer), Release)"],
        change: Change::Postponed(Moment::AfterOperation),
        model: "freed is known",
    },
    Mutant {
        fault: "chunks are given back before their entries are cleared",
        file: "concurrent/pooled_arenas/mod.rs",
        lines: &[ENTRIES],
        change: Change::PostponedIfZero(Moment::AfterNextRmw),
        model: "large and small",
    },
    Mutant {
        fault: "a piece's entry is written after the block is handed out",
        file: "concurrent/pooled_arenas/mod.rs",
        lines: &[ENTRIES, ENTRY],
        change: Change::PostponedUnlessZero(Moment::AfterOperation),
        model: "others free",
    },
    Mutant {
        fault: "a long block's entry is written after the block is handed out",
        file: "concurrent/pooled_arenas/mod.rs",
        lines: &[ENTRY],
        change: Change::Postponed(Moment::AfterOperation),
        model: "a long block grows",
    },
    Mutant {
        fault: "a long block is ended by a read and a write of its entry",
        file: "concurrent/pooled_arenas/slot.rs",
        lines: &["compare_exchange(entry.0, Entry::NONE.0, Relaxed)"],
        change: Change::Torn,
        model: "two free a long block",
    },
    Mutant {
        fault: "a slot is reserved by a read and a write",
        file: "adapt/threads.rs",
        lines: &["word.fetch_or(1 << bit, Acquire)"],
        change: Change::Torn,
        model: "the only slot is reserved",
    },
    Mutant {
        fault: "a slot is given back by a read and a write",
        file: "adapt/threads.rs",
        lines: &["word.fetch_and(!(1 << (number % BITS)), Release)"],
        change: Change::Torn,
        model: "a slot is reserved",
    },
    Mutant {
        fault: "a reserved slot is not given back",
        file: "adapt/threads.rs",
        lines: &["word.fetch_and(!(1 << (number % BITS)), Release)"],
        change: Change::LeftOut,
        model: "the only slot is reserved",
    },
];
