//! Threads as in the wait-free paper (2010): each pinned to a processor, at the highest real-time priority if permitted.

use std::sync::Barrier;

/// The placement of threads.
#[derive(Clone, Debug)]
pub struct Crew {
    processors: Vec<usize>,
    /// The priority, or why it could not be set.
    pub priority: Result<i32, String>,
}

impl Crew {
    /// The processors this process may use, limited to its CPU quota, and the highest permitted priority.
    pub fn here() -> Self {
        let mut processors = Vec::new();
        let parallelism = std::thread::available_parallelism().map_or(usize::MAX, usize::from);
        // SAFETY: plain system calls on a set of processors and a parameter that are local values.
        let priority = unsafe {
            let mut allowed: libc::cpu_set_t = std::mem::zeroed();
            if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut allowed) == 0 {
                processors.extend((0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &allowed)));
            }
            let highest = libc::sched_get_priority_max(libc::SCHED_FIFO);
            let before = libc::sched_getscheduler(0);
            let mut old: libc::sched_param = std::mem::zeroed();
            libc::sched_getparam(0, &mut old);
            let refused = prioritise(highest);
            libc::sched_setscheduler(0, before, &old);
            refused.map(|()| highest)
        };
        processors.truncate(parallelism);
        Self { processors, priority }
    }

    /// The same at the current priority of this process.
    #[cfg(test)]
    pub fn without_priority() -> Self {
        Self { priority: Err("not wanted".into()), ..Self::here() }
    }

    /// Number of processors.
    pub fn size(&self) -> usize {
        self.processors.len().max(1)
    }

    /// Gives the calling thread the priority of the workers for its work after they have finished: some locks require
    /// all users to have the same priority.
    pub fn lead(&self) {
        if let Ok(priority) = self.priority {
            // Permitted before, so permitted now; if it fails nevertheless, the figures are those of an ordinary
            // thread.
            let _ = prioritise(priority);
        }
    }

    /// Runs all workers concurrently, each in a thread of its own, and returns their results.
    pub fn perform<W: Send, R: Send>(&self, workers: Vec<W>, work: impl Fn(W, &Barrier) -> R + Sync) -> Vec<R> {
        let barrier = Barrier::new(workers.len());
        std::thread::scope(|scope| {
            let (barrier, work) = (&barrier, &work);
            let threads: Vec<_> = workers
                .into_iter()
                .enumerate()
                .map(|(number, worker)| {
                    scope.spawn(move || {
                        self.enter(number);
                        work(worker, barrier)
                    })
                })
                .collect();
            let bring = |thread: std::thread::ScopedJoinHandle<'_, R>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(bring).collect()
        })
    }

    /// Pins the calling thread to its processor, and sets the priority.
    fn enter(&self, number: usize) {
        if let Some(processor) = self.processors.get(number % self.size()) {
            // SAFETY: a plain system call on a set that is a local value.
            unsafe {
                let mut chosen: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(*processor, &mut chosen);
                libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &chosen);
            }
        }
        self.lead();
    }
}

fn prioritise(priority: i32) -> Result<(), String> {
    // SAFETY: a plain system call on a local parameter.
    let refused = unsafe {
        let mut parameter: libc::sched_param = std::mem::zeroed();
        parameter.sched_priority = priority;
        libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameter)
    };
    if refused == 0 { Ok(()) } else { Err(std::io::Error::last_os_error().to_string()) }
}
