//! Limits in processor time, so that a busy machine does not affect an allocator's result.
//!
//! A [`Budget`] limits this process itself. A [`Watch`] observes a child and its children from outside, through
//! `/proc`, and distinguishes the reasons for a missing result:
//!
//! | finding | processor time used | threads |
//! |---|---|---|
//! | [`Spent`](Finding::Spent) | the limit | any |
//! | [`Blocked`](Finding::Blocked) | less than a tenth of the time it slept | all asleep for the limit, at most [`ASLEEP`] |
//! | [`Starved`](Finding::Starved) | less than a [`SHARE`]th of the time waited | runnable, stopped, or waiting for a device |
//!
//! Processor time is user and system time: page faults of the heap are included. A process for which the kernel does
//! not provide `/proc/PID/task/TID/children` counts as runnable, so that nothing is reported as blocked by mistake.

use std::fs;
use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

/// If all threads sleep for this long, the process is blocked, whatever the limit.
pub const ASLEEP: Duration = Duration::from_secs(60);

/// A process that got less than this fraction of a processor, over the limit times this, was starved.
pub const SHARE: u32 = 10;

/// Processor time that this process may use, including its terminated children. Meaningless in another process.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    end: Duration,
}

impl Budget {
    /// Starts a budget now.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self { end: used_here() + limit }
    }

    /// The remaining time.
    #[must_use]
    pub fn left(&self) -> Duration {
        self.end.saturating_sub(used_here())
    }

    /// Whether no time remains.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.left().is_zero()
    }

    /// As [`is_spent`](Self::is_spent), including the time that running children have used so far.
    #[must_use]
    pub fn is_spent_with_children(&self) -> bool {
        Snapshot::of(std::process::id() as libc::pid_t).is_some_and(|snapshot| snapshot.used >= self.end)
    }
}

/// Processor time of this process and its terminated children.
fn used_here() -> Duration {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: a valid place; every bit pattern is a value of the structure.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time =
        |time: libc::timeval| Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64);
    used_by(libc::CLOCK_PROCESS_CPUTIME_ID).unwrap_or_default() + time(usage.ru_utime) + time(usage.ru_stime)
}

fn used_by(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place; an unknown clock is refused.
    let done = unsafe { libc::clock_gettime(clock, &mut time) };
    (done == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

/// Why a child has not sent a result yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// None of the others.
    Working,
    /// It used up its processor time.
    Spent,
    /// All its threads slept although a processor was available.
    Blocked,
    /// It got too little processor time for a result.
    Starved,
}

/// Watches a child of this process.
#[derive(Debug)]
pub struct Watch {
    pid: libc::pid_t,
    limit: Duration,
    /// Processor time at the start.
    begin: Duration,
    last: Option<(Instant, Snapshot)>,
    waited: Duration,
    asleep: Duration,
    /// Processor time used since it fell asleep.
    used_asleep: Duration,
    /// The current operation.
    at: u64,
}

impl Watch {
    /// Watches a child that may use `limit` from now on.
    #[must_use]
    pub fn new(pid: libc::pid_t, limit: Duration) -> Self {
        let last = Snapshot::of(pid).map(|snapshot| (Instant::now(), snapshot));
        let begin = last.map_or(Duration::ZERO, |(_, snapshot)| snapshot.used);
        let none = Duration::ZERO;
        Self { pid, limit, begin, last, waited: none, asleep: none, used_asleep: none, at: 0 }
    }

    /// The child's limit.
    #[must_use]
    pub fn limit(&self) -> Duration {
        self.limit
    }

    /// Time until the next check.
    #[must_use]
    pub fn interval(&self) -> Duration {
        (self.limit / 20).clamp(Duration::from_millis(10), Duration::from_millis(250))
    }

    /// How long all threads must sleep before the child counts as blocked.
    #[must_use]
    pub fn longest_sleep(&self) -> Duration {
        self.limit.min(ASLEEP)
    }

    /// Checks the child, which is at operation `at`: progress ends its sleep.
    pub fn look(&mut self, at: u64) -> Finding {
        // A terminated child closes its pipe, which provides the reason.
        let Some(snapshot) = Snapshot::of(self.pid) else { return Finding::Working };
        let now = Instant::now();
        let (then, before) = self.last.replace((now, snapshot)).unwrap_or((now, snapshot));
        // While this process did not run itself, it does not know what the child could have done.
        let passed = (now - then).min(4 * self.interval());
        let used = snapshot.used.saturating_sub(before.used);
        self.waited += passed;
        self.used_asleep += used;
        if snapshot.is_asleep && before.is_asleep {
            self.asleep += passed;
        }
        if at != self.at || self.used_asleep * SHARE > self.asleep {
            (self.asleep, self.used_asleep, self.at) = (Duration::ZERO, Duration::ZERO, at);
        }
        if snapshot.used.saturating_sub(self.begin) >= self.limit {
            Finding::Spent
        } else if self.asleep >= self.longest_sleep() {
            Finding::Blocked
        } else if self.waited >= self.limit * SHARE {
            Finding::Starved
        } else {
            Finding::Working
        }
    }
}

/// A process and its descendants at one moment.
#[derive(Clone, Copy, Debug)]
struct Snapshot {
    /// Processor time of all, including terminated children.
    used: Duration,
    /// Whether every thread of each of them waits for an event.
    is_asleep: bool,
}

impl Snapshot {
    fn of(pid: libc::pid_t) -> Option<Self> {
        let folder = format!("/proc/{pid}");
        // Clock of a process, as built by `clock_getcpuclockid`; in nanoseconds, while `stat` has clock ticks.
        const OF_ALL_THREADS: libc::clockid_t = 2;
        let mut used = used_by((!pid << 3) | OF_ALL_THREADS)?;
        let stat = fs::read_to_string(format!("{folder}/stat")).ok()?;
        used += ended_children(&stat)?;
        let mut is_asleep = true;
        for thread in fs::read_dir(format!("{folder}/task")).ok()?.flatten() {
            let thread = thread.path();
            // A thread that ended between two system calls is not asleep, and has no children.
            let Ok(stat) = fs::read_to_string(thread.join("stat")) else { continue };
            is_asleep &= matches!(fields(&stat).next(), Some("S" | "Z" | "X"));
            let Ok(children) = fs::read_to_string(thread.join("children")) else {
                is_asleep = false;
                continue;
            };
            for child in children.split_whitespace().filter_map(|child| child.parse().ok()) {
                // A child that ended at this moment is counted next time, among the terminated children.
                let Some(child) = Self::of(child) else { continue };
                used += child.used;
                is_asleep &= child.is_asleep;
            }
        }
        Some(Self { used, is_asleep })
    }
}

/// Fields of a line of `stat` from the third on, the state; the second, the name, may contain any characters.
fn fields(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace()
}

/// Processor time of the terminated children, fields 16 and 17 of `stat`.
fn ended_children(stat: &str) -> Option<Duration> {
    // SAFETY: a system call without preconditions.
    let ticks_per_second =
        u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok().filter(|ticks| *ticks > 0)?;
    let ticks: Option<u64> = fields(stat).skip(13).take(2).map(|ticks| ticks.parse::<u64>().ok()).sum();
    Some(Duration::from_nanos(ticks? * (1_000_000_000 / ticks_per_second)))
}

#[cfg(test)]
mod tests {
    use super::super::isolate::Child;
    use super::*;

    #[test]
    fn the_name_of_a_program_does_not_move_the_fields() {
        let stat = "7 (a) S 9 9) R 1 2 3 4 5 6 7 8 9 10 11 12 100 50 20";
        assert_eq!(fields(stat).next(), Some("R"));
        // SAFETY: a system call without preconditions.
        let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as u64;
        assert_eq!(ended_children(stat), Some(Duration::from_nanos(150 * (1_000_000_000 / ticks))));
    }

    #[test]
    fn a_budget_counts_work_and_not_sleep() {
        // In a process without the threads of other tests.
        let child = Child::spawn(|_| {
            let budget = Budget::new(Duration::from_millis(100));
            std::thread::sleep(Duration::from_millis(300));
            assert!(!budget.is_spent());
            while !budget.is_spent() {}
            assert!(budget.is_spent_with_children());
        });
        assert_eq!(child.expect("fork").wait::<()>(Duration::from_secs(20)), Ok(()));
    }
}
