//! A process that is single-stepped.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fs::File;
use std::io::{Error, Result};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::ptr::null_mut;

/// A stopped child process.
pub struct Traced {
    child: Child,
    memory: File,
}

/// Why the process stopped, or how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    Signal(i32),
    Ended(i32),
}

/// The registers that say where an execution is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    pub instruction: u64,
    pub stack: u64,
}

impl Traced {
    /// Starts a command, `NAME=VALUE... PROGRAM ARGUMENT...`, and stops it before its first instruction. Addresses are
    /// not randomised, so that a violation can be reproduced.
    pub fn start(command: &str) -> Result<Self> {
        let mut words = command.split_whitespace().peekable();
        let mut environment = Vec::new();
        while let Some((name, value)) = words.peek().and_then(|word| word.split_once('=')) {
            environment.push((name, value));
            words.next();
        }
        let program = words.next().ok_or_else(|| Error::other("no program"))?;
        let mut command = Command::new(program);
        command.args(words).envs(environment).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: between fork and exec the closure only makes two system calls.
        unsafe {
            command.pre_exec(|| {
                if libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) == -1
                    || libc::ptrace(libc::PTRACE_TRACEME, 0, null_mut::<c_void>(), null_mut::<c_void>()) == -1
                {
                    return Err(Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn()?;
        let memory = File::options().read(true).write(true).open(format!("/proc/{}/mem", child.id()))?;
        let traced = Self { child, memory };
        match traced.wait()? {
            Stop::Signal(libc::SIGTRAP) => {}
            other => return Err(Error::other(format!("stopped by {other:?} instead of at its start"))),
        }
        traced.request(libc::PTRACE_SETOPTIONS, libc::PTRACE_O_EXITKILL as usize)?;
        Ok(traced)
    }

    pub fn id(&self) -> libc::pid_t {
        self.child.id().cast_signed()
    }

    /// The clock of its processor time.
    pub fn clock(&self) -> Result<libc::clockid_t> {
        let mut clock = 0;
        // SAFETY: `clock` is a local variable, valid for writes.
        match unsafe { libc::clock_getcpuclockid(self.id(), &raw mut clock) } {
            0 => Ok(clock),
            error => Err(Error::from_raw_os_error(error)),
        }
    }

    fn request(&self, request: libc::c_uint, data: usize) -> Result<()> {
        // SAFETY: these requests ignore the address and take a number as data; `id` is a child of this process.
        match unsafe { libc::ptrace(request, self.id(), null_mut::<c_void>(), data as *mut c_void) } {
            -1 => Err(Error::last_os_error()),
            _ => Ok(()),
        }
    }

    fn wait(&self) -> Result<Stop> {
        let mut status = 0;
        // SAFETY: `status` is a local variable, valid for writes.
        if unsafe { libc::waitpid(self.id(), &raw mut status, 0) } == -1 {
            return Err(Error::last_os_error());
        }
        Ok(match status {
            status if libc::WIFSTOPPED(status) => Stop::Signal(libc::WSTOPSIG(status)),
            status => Stop::Ended(status),
        })
    }

    /// Continues until a signal or the end, delivering a signal.
    pub fn run(&self, signal: i32) -> Result<Stop> {
        self.request(libc::PTRACE_CONT, signal as usize)?;
        self.wait()
    }

    /// Executes one instruction, delivering a signal.
    pub fn step(&self, signal: i32) -> Result<Stop> {
        self.request(libc::PTRACE_SINGLESTEP, signal as usize)?;
        self.wait()
    }

    fn all_registers(&self) -> Result<libc::user_regs_struct> {
        // SAFETY: the structure is plain integers, for which zero is valid.
        let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        let place = (&raw mut registers).cast::<c_void>();
        // SAFETY: the request writes a `user_regs_struct` to `place`, which points to one.
        match unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.id(), null_mut::<c_void>(), place) } {
            -1 => Err(Error::last_os_error()),
            _ => Ok(registers),
        }
    }

    pub fn registers(&self) -> Result<Registers> {
        let registers = self.all_registers()?;
        Ok(Registers { instruction: registers.rip, stack: registers.rsp })
    }

    /// Sets the next instruction to execute.
    pub fn set_instruction(&self, address: u64) -> Result<()> {
        let mut registers = self.all_registers()?;
        registers.rip = address;
        let place = (&raw mut registers).cast::<c_void>();
        // SAFETY: the request reads a `user_regs_struct` from `place`, which points to one.
        match unsafe { libc::ptrace(libc::PTRACE_SETREGS, self.id(), null_mut::<c_void>(), place) } {
            -1 => Err(Error::last_os_error()),
            _ => Ok(()),
        }
    }

    /// Reads bytes; returns how many could be read.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Result<usize> {
        self.memory.read_at(bytes, address)
    }

    pub fn word(&self, address: u64) -> Result<u64> {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, address)?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub fn write(&self, address: u64, byte: u8) -> Result<()> {
        self.memory.write_all_at(&[byte], address)
    }

    /// The entry point of the program itself, which is reached once its libraries are loaded.
    pub fn program_entry(&self) -> Result<u64> {
        let vector = std::fs::read(format!("/proc/{}/auxv", self.child.id()))?;
        let words: Vec<u64> = vector.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
        let entry = words.as_chunks::<2>().0.iter().find(|[kind, _]| *kind == libc::AT_ENTRY);
        entry.map(|[_, value]| *value).ok_or_else(|| Error::other("the kernel gives no entry point"))
    }

    /// The files with loaded code, and the lowest address of each.
    pub fn files(&self) -> Result<Vec<(PathBuf, u64)>> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.child.id()))?;
        let mut files: BTreeMap<&str, (u64, bool)> = BTreeMap::new();
        for line in maps.lines() {
            let mut fields = line.split_whitespace();
            let (Some(range), Some(rights)) = (fields.next(), fields.next()) else { continue };
            let Some(path) = fields.nth(3).filter(|path| path.starts_with('/')) else { continue };
            let Some(start) = range.split('-').next().and_then(|start| u64::from_str_radix(start, 16).ok()) else {
                continue;
            };
            let file = files.entry(path).or_insert((start, false));
            file.0 = file.0.min(start);
            file.1 |= rights.contains('x');
        }
        let code = files.into_iter().filter(|(_, (_, executable))| *executable);
        Ok(code.map(|(path, (start, _))| (Path::new(path).to_owned(), start)).collect())
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
