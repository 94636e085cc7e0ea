//! Runs work in a separate process, so that a crash is a result.
//!
//! [`Child::spawn`] forks; the child does its job, sends the result as JSON through a pipe and exits without running
//! any other code of the program. Its standard error is captured: it may contain the reason for a crash. Parent and
//! child share a [`Board`], on which the child reports its current operation.
//!
//! Limits apply to the child's processor time ([`processor`](super::processor)). A job that did not get enough
//! processor time is retried.

use super::processor::{Finding, SHARE, Watch};
use crate::result::schema::Outcome;
use serde::Serialize;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Memory shared with a child.
#[derive(Debug)]
pub struct SharedMemory {
    start: NonNull<u64>,
    words: usize,
}

impl SharedMemory {
    /// Maps `words` zeroed words that children forked later share.
    ///
    /// # Errors
    ///
    /// An error of the system.
    pub fn new(words: usize) -> io::Result<Self> {
        let words = words.max(1);
        // SAFETY: a new anonymous mapping at an address of the system's choice touches nothing that exists.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                words * size_of::<u64>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, words })
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping has this many words, zero to begin with, for as long as `self` lives; it is only ever
        // accessed as atomics.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast::<AtomicU64>(), self.words) }
    }
}

// SAFETY: the memory is only accessed as atomics, in every process.
unsafe impl Send for SharedMemory {}
// SAFETY: the memory is only accessed as atomics, in every process.
unsafe impl Sync for SharedMemory {}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping `new` made, no longer borrowed.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * size_of::<u64>()) };
    }
}

/// The board on which a child reports its progress.
#[derive(Debug)]
pub struct Board(SharedMemory);

impl Board {
    /// A board for this process and the children it forks.
    ///
    /// # Errors
    ///
    /// An error of the system.
    pub fn new() -> io::Result<Self> {
        SharedMemory::new(1).map(Self)
    }

    /// Sets the index of the next operation.
    #[inline(always)]
    pub fn at(&self, index: u64) {
        self.0.words()[0].store(index, Ordering::Relaxed);
    }

    /// The index set last.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.0.words()[0].load(Ordering::Relaxed)
    }
}

/// How a child ended without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Death {
    /// It crashed, panicked, or sent an unreadable result.
    Crashed {
        /// What happened, as text.
        what: String,
        /// The signal that ended it, if one did.
        signal: Option<i32>,
    },
    /// It was killed after its processor time.
    Hung {
        /// The current operation.
        at: u64,
        /// Its limit.
        limit: Duration,
    },
    /// It was killed because all its threads slept and nothing woke them.
    Blocked {
        /// The current operation.
        at: u64,
        /// Duration of the sleep.
        asleep: Duration,
    },
    /// It was killed, several times, because it got too little processor time for a result.
    Starved {
        /// The waiting time of each attempt.
        waited: Duration,
    },
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Crashed { what, .. } => f.write_str(what),
            Self::Hung { limit, .. } => write!(f, "not finished within {} s of processor time", limit.as_secs_f64()),
            Self::Blocked { at, asleep } => {
                write!(f, "blocked in operation {at}: all threads slept for {} s", asleep.as_secs_f64())
            }
            Self::Starved { waited } => write!(
                f,
                "the machine was busy: in {TRIES} attempts of {} s each, less than a {SHARE}th of a processor",
                waited.as_secs_f64()
            ),
        }
    }
}

impl Death {
    /// Whether the death is unrelated to the work: another process killed it (the system for lack of memory, or an
    /// operator), it got too little processor time, or it declared its result [undecided].
    #[must_use]
    pub fn is_from_outside(&self) -> bool {
        const SIGNALS: [i32; 5] = [libc::SIGKILL, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];
        match self {
            Self::Crashed { signal, .. } => signal.is_some_and(|signal| SIGNALS.contains(&signal)),
            Self::Starved { .. } => true,
            Self::Hung { .. } | Self::Blocked { .. } => false,
        }
    }

    /// The outcome of a cell that ended in this way.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        let what = self.to_string();
        match self {
            Self::Crashed { .. } | Self::Blocked { .. } => Outcome::Broken { what },
            Self::Hung { at, .. } => Outcome::TimedOut { at },
            Self::Starved { .. } => Outcome::NotMeasured { what },
        }
    }

    fn without_result(what: String) -> Self {
        Self::Crashed { what, signal: None }
    }
}

/// Ends this process, a child, without a result and without counting as a failure: another attempt may succeed.
pub fn undecided(what: &str) -> ! {
    write_to_stderr(what);
    // SAFETY: plain system calls; the first ends this process.
    unsafe {
        libc::kill(libc::getpid(), libc::SIGKILL);
        libc::_exit(1)
    }
}

/// A forked process at work.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    results: File,
    received: Vec<u8>,
    last_words: File,
    board: Board,
    reaped: bool,
}

impl Child {
    /// Forks a child that runs `job`.
    ///
    /// # Errors
    ///
    /// An error of the system.
    pub fn spawn<T: Serialize>(job: impl FnOnce(&Board) -> T) -> io::Result<Self> {
        let board = Board::new()?;
        let last_words = memory_file()?;
        let (results, sender) = io::pipe()?;
        let (results, mut sender) = (File::from(OwnedFd::from(results)), File::from(OwnedFd::from(sender)));
        // SAFETY: the child uses only what this thread owns, and leaves with `_exit`; the C library keeps its allocator
        // usable across fork.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop(results);
                // SAFETY: plain system calls on descriptors of this process.
                unsafe {
                    libc::dup2(last_words.as_raw_fd(), libc::STDERR_FILENO);
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                    libc::setrlimit(libc::RLIMIT_CORE, &none);
                }
                let sent = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    let result = job(&board);
                    let bytes = serde_json::to_vec(&result).map_err(io::Error::from)?;
                    sender.write_all(&bytes)
                }));
                let code = match sent {
                    Ok(Ok(())) => 0,
                    Ok(Err(_)) => 1,
                    Err(panic) => {
                        // The hook has printed it already, unless output is captured.
                        let words = panic.downcast_ref::<&str>().copied();
                        let words = words.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
                        write_to_stderr(words.unwrap_or("a panic without a message"));
                        1
                    }
                };
                // SAFETY: ends the process at once; destructors belong to the parent's copies.
                unsafe { libc::_exit(code) }
            }
            pid => Ok(Self { pid, results, received: Vec::new(), last_words, board, reaped: false }),
        }
    }

    /// The board on which the child reports its progress.
    #[must_use]
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Receives the child's output; returns `true` once the child has closed its end.
    fn receive(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 65_536];
        match self.results.read(&mut buffer) {
            Ok(0) => Ok(true),
            Ok(count) => {
                self.received.extend_from_slice(&buffer[..count]);
                Ok(false)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits for the end of a child whose pipe is closed, and returns its output.
    fn finish(mut self) -> Result<Vec<u8>, Death> {
        let status = self.reap();
        if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
            return Ok(std::mem::take(&mut self.received));
        }
        let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
        Err(Death::Crashed { what: self.describe(status), signal })
    }

    /// Watches that the child uses no more than `limit` of processor time from now on.
    #[must_use]
    pub fn watch(&self, limit: Duration) -> Watch {
        Watch::new(self.pid, limit)
    }

    /// Why the child must be killed, if it must.
    #[must_use]
    pub fn verdict(&self, watch: &mut Watch) -> Option<Death> {
        let at = self.board.index();
        match watch.look(at) {
            Finding::Working => None,
            Finding::Spent => Some(Death::Hung { at, limit: watch.limit() }),
            Finding::Blocked => Some(Death::Blocked { at, asleep: watch.longest_sleep() }),
            Finding::Starved => Some(Death::Starved { waited: watch.limit() * SHARE }),
        }
    }

    /// Waits for the child, which may use `limit` of processor time, and reads its result. There is no limit while the
    /// machine is busy: the process that [started this one](run_all) detects that.
    ///
    /// # Errors
    ///
    /// How the child died instead.
    pub fn wait<T: serde::de::DeserializeOwned>(mut self, limit: Duration) -> Result<T, Death> {
        let failed = |error| Death::without_result(format!("the wait for it failed: {error}"));
        let mut watch = self.watch(limit);
        loop {
            if poll([self.results.as_fd()].into_iter(), watch.interval()).map_err(failed)?[0] {
                if self.receive().map_err(failed)? {
                    return decode(self.finish());
                }
            } else if let Some(death) = self.verdict(&mut watch)
                && !matches!(death, Death::Starved { .. })
            {
                return Err(death);
            }
        }
    }

    fn force(&mut self) {
        // SAFETY: the process is our child and not reaped yet, so its number cannot have been reused.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        self.reap();
    }

    fn reap(&mut self) -> i32 {
        let mut status = 0;
        // SAFETY: the process is our child; `status` is a valid place.
        while unsafe { libc::waitpid(self.pid, &mut status, 0) } == -1
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
        self.reaped = true;
        status
    }

    fn describe(&mut self, status: i32) -> String {
        let mut words = String::new();
        let read = self
            .last_words
            .seek(SeekFrom::Start(0))
            .and_then(|_| (&mut self.last_words).take(4096).read_to_string(&mut words));
        let mut what = if libc::WIFSIGNALED(status) {
            let signal = nix::sys::signal::Signal::try_from(libc::WTERMSIG(status));
            signal.map_or_else(|_| "ended by a signal".to_string(), |signal| signal.to_string())
        } else {
            "gave up".to_string()
        };
        what.push_str(&format!(" in operation {}", self.board.index()));
        if let (Ok(_), Some(line)) = (read, words.lines().map(str::trim).find(|line| is_informative(line))) {
            what.push_str(": ");
            what.push_str(line);
        }
        what
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            self.force();
        }
    }
}

/// Writes a line directly to the descriptor, bypassing all buffers and locks.
fn write_to_stderr(line: &str) {
    for part in [line, "\n"] {
        // SAFETY: the bytes are valid for their length. If even this fails, nothing can be done.
        unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    }
}

/// Whether a line of a crashed program's standard error describes the crash.
fn is_informative(line: &str) -> bool {
    !line.is_empty() && !line.starts_with("note: ") && !line.starts_with("thread '")
}

/// Reads the result a child sent.
///
/// # Errors
///
/// How the child died instead.
pub fn decode<T: serde::de::DeserializeOwned>(result: Result<Vec<u8>, Death>) -> Result<T, Death> {
    let bytes = result?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Death::without_result(format!("its result is not readable: {error}")))
}

/// Number of attempts for a job that gets too little processor time.
const TRIES: usize = 3;

/// Progress of a campaign. A *step* is one probe on one cell.
#[derive(Clone, Copy, Debug)]
pub struct Progress<'a> {
    /// Steps done.
    pub done: u64,
    /// Total number of steps.
    pub total: u64,
    /// The last completed step, e.g. "lua / talc / space"; empty at the beginning.
    pub last: &'a str,
}

/// A child to start, and its limit of processor time.
pub struct Job<'a> {
    /// Starts it.
    pub spawn: Box<dyn Fn() -> io::Result<Child> + 'a>,
    /// Limit of processor time, including that of its children; beyond it the child is killed.
    pub limit: Duration,
}

/// Runs all jobs, `width` at a time and in order; `done` is called with the number and output of each as it ends. A job
/// that got too little processor time is retried at once, `TRIES` attempts in all.
///
/// # Errors
///
/// The system cannot fork or poll; running children are killed.
pub fn run_all(
    jobs: Vec<Job<'_>>,
    width: usize,
    mut done: impl FnMut(usize, Result<Vec<u8>, Death>),
) -> io::Result<()> {
    struct Working {
        number: usize,
        tries: usize,
        child: Child,
        watch: Watch,
    }
    let start = |number: usize, tries: usize| -> io::Result<Working> {
        let job = &jobs[number];
        let child = (job.spawn)()?;
        let watch = child.watch(job.limit);
        Ok(Working { number, tries, child, watch })
    };
    let mut waiting = 0..jobs.len();
    let mut working: Vec<Working> = Vec::new();
    loop {
        while working.len() < width.max(1) {
            let Some(number) = waiting.next() else { break };
            working.push(start(number, 1)?);
        }
        let Some(interval) = working.iter().map(|work| work.watch.interval()).min() else { return Ok(()) };
        let ready = poll(working.iter().map(|work| work.child.results.as_fd()), interval)?;
        // In reverse order, so that removals do not shift the remaining places.
        for place in (0..working.len()).rev() {
            if ready[place] {
                if working[place].child.receive()? {
                    let Working { number, child, .. } = working.swap_remove(place);
                    done(number, child.finish());
                }
                continue;
            }
            let Working { child, watch, .. } = &mut working[place];
            let Some(death) = child.verdict(watch) else { continue };
            let Working { number, tries, child, .. } = working.swap_remove(place);
            drop(child);
            if matches!(death, Death::Starved { .. }) && tries < TRIES {
                working.push(start(number, tries + 1)?);
            } else {
                done(number, Err(death));
            }
        }
    }
}

/// Waits until one of `descriptors` is readable or closed, at most for `limit`; returns which ones are.
pub(crate) fn poll<'fd>(descriptors: impl Iterator<Item = BorrowedFd<'fd>>, limit: Duration) -> io::Result<Vec<bool>> {
    let mut polled: Vec<libc::pollfd> = descriptors
        .map(|descriptor| libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    let milliseconds = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the array is valid for its length.
    let count = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) };
    if count < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(polled.iter().map(|descriptor| count > 0 && descriptor.revents != 0).collect())
}

fn memory_file() -> io::Result<File> {
    // SAFETY: the name is a C string; the descriptor returned is new and ours.
    unsafe {
        let descriptor: RawFd = libc::memfd_create(c"last-words".as_ptr(), libc::MFD_CLOEXEC);
        if descriptor < 0 { Err(io::Error::last_os_error()) } else { Ok(File::from_raw_fd(descriptor)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    #[test]
    fn a_result_is_returned() {
        let child = Child::spawn(|board| {
            board.at(7);
            vec![1_u64, 2, 3]
        })
        .expect("fork");
        assert_eq!(child.wait::<Vec<u64>>(SOON), Ok(vec![1, 2, 3]));
    }

    #[test]
    fn a_crash_is_described_with_the_operation_it_happened_in() {
        let child = Child::spawn(|board| {
            board.at(41);
            std::process::abort();
            #[expect(unreachable_code, reason = "the job's type")]
            0_u64
        })
        .expect("fork");
        let Err(Death::Crashed { what, .. }) = child.wait::<u64>(SOON) else { panic!("it crashed") };
        assert!(what.contains("SIGABRT") && what.contains("operation 41"), "{what}");
    }

    #[test]
    fn a_panic_is_quoted() {
        let child = Child::spawn(|_| -> u64 { panic!("the free list is circular") }).expect("fork");
        let Err(Death::Crashed { what, .. }) = child.wait::<u64>(SOON) else { panic!("it panicked") };
        assert!(what.contains("gave up") && what.contains("the free list is circular"), "{what}");
    }

    #[test]
    fn an_external_kill_is_distinguished_from_a_crash() {
        let ended = |job: fn()| Child::spawn(move |_| job()).expect("fork").wait::<()>(SOON).expect_err("it died");
        let killed = ended(|| undecided("not enough time"));
        let Death::Crashed { what, signal } = &killed else { panic!("{killed:?}") };
        assert!(
            killed.is_from_outside() && what.contains("not enough time") && *signal == Some(libc::SIGKILL),
            "{killed:?}"
        );
        assert!(!ended(|| std::process::abort()).is_from_outside());
        assert!(!ended(|| panic!("by its own fault")).is_from_outside());
    }

    #[test]
    fn a_child_that_sleeps_forever_is_killed() {
        let child = Child::spawn(|board| -> u64 {
            board.at(3);
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        })
        .expect("fork");
        let asleep = Duration::from_millis(200);
        assert_eq!(child.wait::<u64>(asleep), Err(Death::Blocked { at: 3, asleep }));
    }

    /// Runs one job with a limit of processor time, and counts its starts in `tries`.
    fn alone(limit: Duration, tries: &SharedMemory, job: impl Fn(u64, &Board) -> u64) -> Result<u64, Death> {
        let job = &job;
        let spawn = move || Child::spawn(|board| job(tries.words()[0].fetch_add(1, Ordering::Relaxed), board));
        let mut outcome = None;
        run_all(vec![Job { spawn: Box::new(spawn), limit }], 1, |_, result| outcome = Some(decode(result)))
            .expect("fork");
        outcome.expect("one job")
    }

    /// Stops this process; a helper resumes it after some seconds, if given.
    fn stopped_for(seconds: Option<f32>) {
        let helper = seconds.map(|seconds| {
            let command = format!("sleep {seconds}; kill -CONT {}", std::process::id());
            std::process::Command::new("sh").arg("-c").arg(command).spawn().expect("a shell")
        });
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGSTOP).expect("raised");
        helper.map(|mut helper| helper.wait());
    }

    #[test]
    fn time_without_a_processor_does_not_count() {
        let (limit, tries) = (Duration::from_millis(200), SharedMemory::new(1).expect("memory"));
        let done = alone(limit, &tries, |_, _| {
            stopped_for(Some(1.0));
            7
        });
        assert_eq!((done, tries.words()[0].load(Ordering::Relaxed)), (Ok(7), 1));
    }

    #[test]
    fn a_job_without_processor_time_is_retried_and_then_not_measured() {
        // Starved after a second: a busy machine gives a process that is ready something in that time.
        let (limit, tries) = (Duration::from_millis(100), SharedMemory::new(1).expect("memory"));
        let done = alone(limit, &tries, |before, _| {
            if before == 0 {
                stopped_for(None);
            }
            before
        });
        assert_eq!(done, Ok(1));
        let tries = SharedMemory::new(1).expect("memory");
        let death = alone(limit, &tries, |_, _| {
            stopped_for(None);
            0
        });
        let death = death.expect_err("it never went on");
        assert_eq!(
            (&death, tries.words()[0].load(Ordering::Relaxed)),
            (&Death::Starved { waited: limit * SHARE }, TRIES as u64)
        );
        assert!(death.is_from_outside() && matches!(death.outcome(), Outcome::NotMeasured { .. }));
    }

    #[test]
    fn a_child_that_never_ends_is_killed_within_its_processor_time() {
        let (limit, tries) = (Duration::from_millis(200), SharedMemory::new(1).expect("memory"));
        let for_ever = |board: &Board| -> u64 {
            board.at(3);
            loop {
                std::hint::spin_loop();
            }
        };
        assert_eq!(alone(limit, &tries, |_, board| for_ever(board)), Err(Death::Hung { at: 3, limit }));
        let waiting = |_, board: &Board| {
            let worker = Child::spawn(for_ever).expect("fork");
            board.at(5);
            worker.wait(Duration::from_secs(60)).expect("an end")
        };
        assert_eq!(alone(limit, &tries, waiting), Err(Death::Hung { at: 5, limit }), "its child's time is its own");
        assert_eq!(tries.words()[0].load(Ordering::Relaxed), 2, "neither is tried again");
    }

    #[test]
    fn results_larger_than_a_pipe_are_returned_from_several_at_once() {
        let mut sums = vec![0_u64; 5];
        let jobs = (0..5_u64)
            .map(|number| Job {
                spawn: Box::new(move || Child::spawn(move |_| vec![number; 100_000])) as Box<_>,
                limit: SOON,
            })
            .collect();
        run_all(jobs, 2, |number, result| {
            sums[number] = decode::<Vec<u64>>(result).expect("a result").iter().sum();
        })
        .expect("fork");
        assert_eq!(sums, [0, 100_000, 200_000, 300_000, 400_000]);
    }
}
