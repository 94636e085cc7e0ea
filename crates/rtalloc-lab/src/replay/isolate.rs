//! Work in a process of its own, so that a crash is a result.
//!
//! [`Child::spawn`] forks; the child does its job, sends the result as JSON through a pipe and ends without running
//! anything else of the program. What it prints to standard error is kept: the last words of an allocator that
//! gives up. Parent and child share a [`Board`], where the child notes the operation it is at.

use serde::Serialize;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

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
    /// The system's refusal.
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

// SAFETY: the memory is accessed as atomics alone, wherever.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping `new` made, no longer borrowed.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.words * size_of::<u64>()) };
    }
}

/// Where a child notes how far it is.
#[derive(Debug)]
pub struct Board(SharedMemory);

impl Board {
    /// A board for this process and the children it forks.
    ///
    /// # Errors
    ///
    /// The system's refusal.
    pub fn new() -> io::Result<Self> {
        SharedMemory::new(1).map(Self)
    }

    /// Notes the index of the operation that comes next.
    #[inline(always)]
    pub fn at(&self, index: u64) {
        self.0.words()[0].store(index, Ordering::Relaxed);
    }

    /// The index noted last.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.0.words()[0].load(Ordering::Relaxed)
    }
}

/// How a child ended that sent no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Death {
    /// It crashed, gave up, or sent nonsense.
    Crashed {
        /// What happened, in words.
        what: String,
        /// The signal that ended it, if one did.
        signal: Option<i32>,
    },
    /// It was ended after its time.
    Hung {
        /// The operation it was at.
        at: u64,
    },
}

impl Death {
    /// Whether it tells nothing of the work: somebody else ended the process, be it the system for want of memory or an operator,
    /// or it said itself that it [does not know](undecided).
    #[must_use]
    pub fn is_from_outside(&self) -> bool {
        const SIGNALS: [i32; 5] = [libc::SIGKILL, libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT];
        matches!(self, Self::Crashed { signal: Some(signal), .. } if SIGNALS.contains(signal))
    }

    fn without_result(what: String) -> Self {
        Self::Crashed { what, signal: None }
    }
}

/// Ends this process, a child, without a result, and so that nobody takes its end for one: it would perhaps come to something
/// another time.
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
    /// Forks a child that does `job`.
    ///
    /// # Errors
    ///
    /// The system's refusal.
    pub fn spawn<T: Serialize>(job: impl FnOnce(&Board) -> T) -> io::Result<Self> {
        let board = Board::new()?;
        let last_words = memory_file()?;
        let (results, sender) = io::pipe()?;
        let (results, mut sender) = (File::from(OwnedFd::from(results)), File::from(OwnedFd::from(sender)));
        // SAFETY: the child only uses what this thread owns, and leaves with `_exit`; the C library keeps its
        // allocator usable across fork.
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
                        // The hook has printed it already, unless somebody captures what is printed.
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

    /// Where the child notes how far it is.
    #[must_use]
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Takes what the child has sent; `true` once it has closed its end.
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

    /// Waits for the end of a child whose pipe is closed, and gives what it sent.
    fn finish(mut self) -> Result<Vec<u8>, Death> {
        let status = self.reap();
        if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
            return Ok(std::mem::take(&mut self.received));
        }
        let signal = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
        Err(Death::Crashed { what: self.describe(status), signal })
    }

    /// Ends the child by force.
    #[must_use]
    pub fn kill(mut self) -> Death {
        self.force();
        Death::Hung { at: self.board.index() }
    }

    /// Waits until the child ends, for at most `limit`, and reads its result.
    ///
    /// # Errors
    ///
    /// How it died instead.
    pub fn wait<T: serde::de::DeserializeOwned>(self, limit: Duration) -> Result<T, Death> {
        let mut outcome = None;
        let waited = wait_all(vec![self], Instant::now() + limit, |_, result| outcome = Some(result));
        match (waited, outcome) {
            (Ok(()), Some(result)) => decode(result),
            (Err(error), _) => Err(Death::without_result(format!("the wait for it failed: {error}"))),
            (Ok(()), None) => Err(Death::without_result("it ended without a result".into())),
        }
    }

    fn force(&mut self) {
        // SAFETY: the process is our child and not reaped yet, so its number is still its own.
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
        if let (Ok(_), Some(line)) = (read, words.lines().map(str::trim).find(|line| is_telling(line))) {
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

/// Writes a line to the descriptor itself, past every buffer and lock.
fn write_to_stderr(line: &str) {
    for part in [line, "\n"] {
        // SAFETY: the bytes are valid for their length. Nothing is left to do where even this fails.
        unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
    }
}

/// Whether a line of a dying program's standard error says something about this death.
fn is_telling(line: &str) -> bool {
    !line.is_empty() && !line.starts_with("note: ") && !line.starts_with("thread '")
}

/// Reads the result a child sent.
///
/// # Errors
///
/// How it died instead.
pub fn decode<T: serde::de::DeserializeOwned>(result: Result<Vec<u8>, Death>) -> Result<T, Death> {
    let bytes = result?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Death::without_result(format!("its result is not readable: {error}")))
}

/// A child to start and the time it may take.
pub struct Job<'a> {
    /// Starts it.
    pub spawn: Box<dyn FnOnce() -> io::Result<Child> + 'a>,
    /// After this time it is ended.
    pub limit: Duration,
}

/// Does all jobs, `width` at a time in their order; `done` gets the number of each as it ends and what it sent.
///
/// # Errors
///
/// The system's refusal to fork or to poll; children underway are ended.
pub fn run_all(
    jobs: Vec<Job<'_>>,
    width: usize,
    mut done: impl FnMut(usize, Result<Vec<u8>, Death>),
) -> io::Result<()> {
    let mut waiting = jobs.into_iter().enumerate();
    let mut working: Vec<(usize, Instant, Child)> = Vec::new();
    loop {
        while working.len() < width.max(1) {
            let Some((number, job)) = waiting.next() else { break };
            working.push((number, Instant::now() + job.limit, (job.spawn)()?));
        }
        if working.is_empty() {
            return Ok(());
        }
        let next_deadline = working.iter().map(|(_, deadline, _)| *deadline).min();
        let ready = poll(working.iter().map(|(_, _, child)| child.results.as_fd()), next_deadline)?;
        let now = Instant::now();
        // From the back, so that the places of those in front stay.
        for place in (0..working.len()).rev() {
            if ready[place] {
                if working[place].2.receive()? {
                    let (number, _, child) = working.swap_remove(place);
                    done(number, child.finish());
                }
            } else if now >= working[place].1 {
                let (number, _, child) = working.swap_remove(place);
                done(number, Err(child.kill()));
            }
        }
    }
}

/// Waits for children that are at work already.
fn wait_all(
    children: Vec<Child>,
    deadline: Instant,
    done: impl FnMut(usize, Result<Vec<u8>, Death>),
) -> io::Result<()> {
    let limit = deadline.saturating_duration_since(Instant::now());
    let width = children.len();
    let jobs = children.into_iter().map(|child| Job { spawn: Box::new(move || Ok(child)), limit }).collect();
    run_all(jobs, width, done)
}

/// Waits until one of `descriptors` is readable or closed, or `deadline`; tells which are.
fn poll<'fd>(descriptors: impl Iterator<Item = BorrowedFd<'fd>>, deadline: Option<Instant>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<libc::pollfd> = descriptors
        .map(|descriptor| libc::pollfd { fd: descriptor.as_raw_fd(), events: libc::POLLIN, revents: 0 })
        .collect();
    let timeout = deadline.map_or(-1, |deadline| {
        let left = deadline.saturating_duration_since(Instant::now()).as_millis() + 1;
        i32::try_from(left).unwrap_or(i32::MAX)
    });
    // SAFETY: the array is valid for its length.
    let count = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) };
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
    fn a_result_comes_back() {
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
        let child = Child::spawn(|_| -> u64 { panic!("the free list bites its tail") }).expect("fork");
        let Err(Death::Crashed { what, .. }) = child.wait::<u64>(SOON) else { panic!("it panicked") };
        assert!(what.contains("gave up") && what.contains("the free list bites its tail"), "{what}");
    }

    #[test]
    fn an_end_from_outside_is_told_from_a_crash() {
        let ended = |job: fn()| Child::spawn(move |_| job()).expect("fork").wait::<()>(SOON).expect_err("it died");
        let killed = ended(|| undecided("who knows"));
        let Death::Crashed { what, signal } = &killed else { panic!("{killed:?}") };
        assert!(killed.is_from_outside() && what.contains("who knows") && *signal == Some(libc::SIGKILL), "{killed:?}");
        assert!(!ended(|| std::process::abort()).is_from_outside());
        assert!(!ended(|| panic!("by its own fault")).is_from_outside());
    }

    #[test]
    fn a_hung_child_is_ended() {
        let child = Child::spawn(|board| -> u64 {
            board.at(3);
            loop {
                std::thread::sleep(Duration::from_secs(1));
            }
        })
        .expect("fork");
        assert_eq!(child.wait::<u64>(Duration::from_millis(200)), Err(Death::Hung { at: 3 }));
    }

    #[test]
    fn results_larger_than_a_pipe_come_back_from_several_at_once() {
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
