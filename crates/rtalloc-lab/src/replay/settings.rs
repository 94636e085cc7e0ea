//! What is measured, and how much of it.

use std::time::Duration;

/// What a campaign measures in every cell.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes of the heap of every region subject; `None` derives them from the trace ([`automatic_heap_bytes`]).
    pub heap_bytes: Option<u64>,
    /// Which probes.
    pub probes: Probes,
    /// R of the cycle probe: identical replays, over which each operation's minimum is taken. At least 1.
    pub replicas: u32,
    /// Whether the space probe also searches for the smallest heap that serves the whole trace.
    pub smallest_heap: bool,
    /// Processor time a probe may use in one cell, including its replicas.
    pub limit: Duration,
    /// Number of cells measured in parallel by the probes that other processes do not disturb (space, instructions);
    /// the cycle probe always runs alone. At least 1.
    pub parallel: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            heap_bytes: None,
            probes: Probes::available(),
            replicas: 3,
            smallest_heap: true,
            limit: Duration::from_secs(60),
            parallel: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// A selection of probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probes {
    /// Time in ticks of the time-stamp counter (`crate::probe::cycles`).
    pub cycles: bool,
    /// Executed instructions (`crate::probe::instructions`).
    pub instructions: bool,
    /// Memory used (`crate::probe::space`).
    pub space: bool,
}

impl Probes {
    /// Every probe that works on this machine: instructions are counted on x86-64 Linux only.
    #[must_use]
    pub const fn available() -> Self {
        let instructions = cfg!(all(target_arch = "x86_64", target_os = "linux"));
        Self { cycles: true, instructions, space: true }
    }
}

/// The default heap for a trace: the next power of two above 8 M, so that every allocator, including a binary buddy,
/// has enough room in its worst case; above 32 MiB of live memory 2 M, since every byte is touched beforehand. At least
/// 64 KiB.
#[must_use]
pub fn automatic_heap_bytes(peak_live_bytes: u64) -> u64 {
    const SMALLEST: u64 = 64 << 10;
    const GENEROUS_TO: u64 = 256 << 20;
    let generous = peak_live_bytes.saturating_mul(8).checked_next_power_of_two().unwrap_or(u64::MAX);
    let sufficient = peak_live_bytes.saturating_mul(2).checked_next_power_of_two().unwrap_or(u64::MAX);
    // Allocators with 32-bit tags span one byte less than 4 GiB: they would refuse the power of two itself.
    const FOUR_GIB: u64 = 1 << 32;
    match generous.min(GENEROUS_TO).max(sufficient).max(SMALLEST) {
        FOUR_GIB => FOUR_GIB - (4 << 10),
        bytes => bytes,
    }
}
