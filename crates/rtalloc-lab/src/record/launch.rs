//! Runs the recorded program transparently, as if its caller had started it directly.

use super::layout::LOG_VARIABLE;
use super::{RawLog, RecordError};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, sigaction};
use nix::unistd::Pid;
use std::ffi::{OsStr, OsString, c_int};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};

/// Runs `command` with the recorder preloaded and waits for its end.
///
/// It inherits our standard input, output and error. An interrupt from the keyboard reaches the program directly and we
/// survive it, to write the trace; a termination request sent only to us is forwarded to the program.
///
/// # Errors
///
/// [`RecordError::Start`] if the program does not start.
pub fn launch(log: &RawLog, command: &[OsString]) -> Result<ExitStatus, RecordError> {
    let (program, arguments) = command.split_first().map_or((OsStr::new(""), command), |(p, a)| (p.as_os_str(), a));
    let mut preload = log.recorder_path().into_os_string();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    let started = |source| RecordError::Start { program: program.to_string_lossy().into_owned(), source };
    let signals = Signals::take_over();
    let mut child = Command::new(program)
        .args(arguments)
        .env("LD_PRELOAD", preload)
        .env(LOG_VARIABLE, log.log_path())
        .spawn()
        .map_err(started)?;
    signals.pass_on_to(child.id());
    child.wait().map_err(started)
}

/// The exit code of `rtalloc record` when the program ended with `status`: the same, or 128 + its signal, as in shells.
#[must_use]
pub fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, Some(signal)) => 128u8.saturating_add(signal as u8),
        (None, None) => u8::MAX,
    }
}

/// The recorded process, 0 while there is none.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// A signal that arrived before there was a process to forward it to, 0 if none did.
static PENDING: AtomicI32 = AtomicI32::new(0);

/// Forwards a signal.
extern "C" fn pass_on(signal: c_int) {
    match CHILD.load(Ordering::SeqCst) {
        0 => PENDING.store(signal, Ordering::SeqCst),
        // Only async-signal-safe calls are allowed here; kill is one.
        child => drop(kill(Pid::from_raw(child), Signal::try_from(signal).ok())),
    }
}

/// Survives a signal that the program gets as well.
extern "C" fn outlive(_: c_int) {}

/// Our signal handlers while the program runs; dropping it restores the previous ones.
struct Signals {
    before: Vec<(Signal, SigAction)>,
}

impl Signals {
    /// Handlers, not "ignore": a handler is reset by `exec`, while an ignored signal would stay ignored in the program.
    fn take_over() -> Self {
        let handling = [
            (Signal::SIGINT, outlive as extern "C" fn(c_int)),
            (Signal::SIGQUIT, outlive),
            (Signal::SIGTERM, pass_on),
            (Signal::SIGHUP, pass_on),
        ];
        let before = handling.into_iter().filter_map(|(signal, handler)| {
            let action = SigAction::new(SigHandler::Handler(handler), SaFlags::SA_RESTART, SigSet::empty());
            // SAFETY: both handlers only touch atomics and call kill, all async-signal-safe.
            let before = unsafe { sigaction(signal, &action) }.ok()?;
            if matches!(before.handler(), SigHandler::SigIgn) {
                // Our parent wants it ignored (as nohup does): by us and by the program.
                // SAFETY: puts back what was there.
                unsafe { sigaction(signal, &before) }.ok()?;
            }
            Some((signal, before))
        });
        Self { before: before.collect() }
    }

    /// From now on, signals are forwarded to `child`.
    fn pass_on_to(&self, child: u32) {
        CHILD.store(child as i32, Ordering::SeqCst);
        let pending = PENDING.swap(0, Ordering::SeqCst);
        if pending != 0 {
            pass_on(pending);
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for (signal, before) in &self.before {
            // SAFETY: puts back what was there.
            let _ = unsafe { sigaction(*signal, before) };
        }
        CHILD.store(0, Ordering::SeqCst);
    }
}
