//! Runs programs, and compares every bound with the executions that it covers.

use crate::measure;
use crate::object::{Object, Verdict};
use crate::traced::{Registers, Stop, Traced};
use pathbound::arch::Transfer;
use pathbound::arch::x86_64::{LONGEST_INSTRUCTION_BYTES, decode};
use pathbound::{Facts, bound};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Error, Result};
use std::path::Path;
use std::time::Duration;

const BREAKPOINT: u8 = 0xcc;

/// Limits on what is single-stepped.
pub struct Limits {
    /// Executions of each function that begin at a breakpoint: the first half consecutively, the others at growing
    /// intervals. Executions within a stepped one are counted in addition.
    pub executions: u32,
    /// Executions of each function within stepped ones.
    pub nested: u32,
    /// Steps of all executions of a function that begin at its breakpoint.
    pub budget: usize,
    /// How many more steps than its bound an execution may have before it is abandoned.
    pub steps: usize,
    /// Executions of each function from which facts about loops are measured, and the most steps of each.
    pub measured: u32,
    pub measured_steps: usize,
    /// Processor time for one program: its own and that of stepping it.
    pub run: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            executions: 16,
            nested: 200,
            budget: 60_000,
            steps: 200_000,
            measured: 3,
            measured_steps: 20_000,
            run: Duration::from_secs(30),
        }
    }
}

/// What a clock of processor time shows.
fn processor_time(clock: libc::clockid_t) -> Result<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a local variable, valid for writes.
    match unsafe { libc::clock_gettime(clock, &raw mut time) } {
        0 => Ok(Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)),
        _ => Err(Error::last_os_error()),
    }
}

/// A function that was executed.
pub struct Function {
    pub object: usize,
    pub address: u64,
    pub verdict: Verdict,
    /// How often it was reached by a breakpoint.
    hits: u32,
    /// Steps of the executions that began at its breakpoint.
    spent: usize,
    /// Executions that returned and were compared.
    pub compared: u32,
    /// The most instructions of one of these.
    pub most_seen: u64,
    /// Executions that were stepped but not compared: they did not return to the caller, or not soon enough.
    pub without_return: u32,
    /// Executions that were too long to measure.
    too_long: u32,
    /// Whether an execution was outside its bounds or its graph; later ones are then ignored.
    violated: bool,
    /// Why there is no bound under measured facts, if so.
    pub declined_with_facts: Option<String>,
}

/// The results.
pub struct Oracle {
    limits: Limits,
    pub objects: Vec<Object>,
    pub functions: Vec<Function>,
    by_address: HashMap<(usize, u64), usize>,
    pub violations: u32,
    /// Commands that could not be run to their end.
    pub failed_runs: Vec<String>,
    pub runs: u32,
    pub steps: u64,
}

/// An execution of a function.
struct Frame {
    function: usize,
    bias: u64,
    /// Its return address, and the stack pointer at its first instruction.
    back: u64,
    stack: u64,
    /// The index of its first instruction in the session.
    begins: usize,
}

/// A running program.
struct Run {
    traced: Traced,
    command: String,
    /// Entries of functions: object, address in it, and the byte under the breakpoint.
    entries: HashMap<u64, Entry>,
    biases: Vec<(usize, u64)>,
}

struct Entry {
    object: usize,
    address: u64,
    byte: u8,
    /// Whether a breakpoint is set.
    set: bool,
    /// Whether one is set between sessions.
    wanted: bool,
}

impl Run {
    fn set(&mut self, at: u64) -> Result<()> {
        if let Some(entry) = self.entries.get_mut(&at).filter(|entry| !entry.set && entry.wanted) {
            self.traced.write(at, BREAKPOINT)?;
            entry.set = true;
        }
        Ok(())
    }

    fn clear(&mut self, at: u64) -> Result<bool> {
        let Some(entry) = self.entries.get_mut(&at).filter(|entry| entry.set) else { return Ok(false) };
        self.traced.write(at, entry.byte)?;
        entry.set = false;
        Ok(true)
    }
}

impl Oracle {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            objects: Vec::new(),
            functions: Vec::new(),
            by_address: HashMap::new(),
            violations: 0,
            failed_runs: Vec::new(),
            runs: 0,
            steps: 0,
        }
    }

    /// Runs a command. The program itself is counted in the group, a library under its own name.
    pub fn run(&mut self, group: &str, command: &str) -> Result<()> {
        let before = processor_time(libc::CLOCK_PROCESS_CPUTIME_ID)?;
        let traced = Traced::start(command)?;
        let clock = traced.clock()?;
        let spent =
            || Ok::<_, Error>(processor_time(libc::CLOCK_PROCESS_CPUTIME_ID)? - before + processor_time(clock)?);
        let mut seconds;
        let entry = traced.program_entry()?;
        let mut byte = [0];
        traced.read(entry, &mut byte)?;
        traced.write(entry, BREAKPOINT)?;
        match traced.run(0)? {
            Stop::Signal(libc::SIGTRAP) if traced.registers()?.instruction == entry + 1 => {}
            other => return Err(Error::other(format!("stopped by {other:?} instead of at its first instruction"))),
        }
        traced.write(entry, byte[0])?;
        traced.set_instruction(entry)?;
        let mut run = Run { traced, command: command.to_owned(), entries: HashMap::new(), biases: Vec::new() };
        self.set_breakpoints(&mut run, group)?;

        let mut signal = 0;
        loop {
            let spent = spent()?;
            seconds = spent.as_secs();
            if spent > self.limits.run {
                println!("cut after {seconds} s of processor time: {command}");
                break;
            }
            match run.traced.run(signal)? {
                Stop::Ended(status) if libc::WIFEXITED(status) => break,
                Stop::Ended(status) => return Err(Error::other(format!("ended by signal {}", libc::WTERMSIG(status)))),
                Stop::Signal(libc::SIGTRAP) => {
                    let here = run.traced.registers()?;
                    let at = here.instruction.wrapping_sub(1);
                    if !run.clear(at)? {
                        signal = libc::SIGTRAP;
                        continue;
                    }
                    run.traced.set_instruction(at)?;
                    signal = match self.reached(&mut run, Registers { instruction: at, stack: here.stack })? {
                        Some(signal) => signal,
                        None => break,
                    };
                }
                Stop::Signal(other) => signal = other,
            }
        }
        self.runs += 1;
        println!("{seconds:4} s  {group}: {command}");
        Ok(())
    }

    fn set_breakpoints(&mut self, run: &mut Run, group: &str) -> Result<()> {
        let program = std::fs::read_link(format!("/proc/{}/exe", run.traced.id()))?;
        for (path, start) in run.traced.files()? {
            let object = self.object(&path, if path == program { Some(group) } else { None })?;
            let bias = start.wrapping_sub(self.objects[object].lowest);
            run.biases.push((object, bias));
            for address in self.objects[object].functions.keys() {
                let at = address.wrapping_add(bias);
                let mut byte = [0];
                if run.traced.read(at, &mut byte).is_ok_and(|read| read == 1) {
                    let known = self.by_address.get(&(object, *address));
                    let wanted = known.is_none_or(|known| self.functions[*known].is_wanted(&self.limits));
                    run.entries.insert(at, Entry { object, address: *address, byte: byte[0], set: false, wanted });
                }
            }
        }
        let all: Vec<u64> = run.entries.keys().copied().collect();
        all.into_iter().try_for_each(|at| run.set(at))
    }

    /// The object of a file, opened if it is new.
    fn object(&mut self, path: &Path, group: Option<&str>) -> Result<usize> {
        if let Some(known) = self.objects.iter().position(|object| object.path == path) {
            return Ok(known);
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let object = Object::open(path, group.unwrap_or(&name)).map_err(|error| Error::other(error.to_string()))?;
        let chosen = object.chosen.clone();
        let number = self.objects.len();
        self.objects.push(object);
        for (name, chooser) in chosen {
            // Calls of this name go to another function.
            if matches!(self.objects[number].analyse(chooser), Verdict::Bounded { .. } | Verdict::Looping { .. }) {
                self.violated(number, chooser, "", format!("{name} has a bound of its resolver"));
            }
        }
        Ok(number)
    }

    /// The function at an address, analysed.
    fn function(&mut self, object: usize, address: u64, command: &str) -> usize {
        if let Some(known) = self.by_address.get(&(object, address)) {
            return *known;
        }
        let verdict = self.objects[object].analyse(address);
        if let Verdict::Defect(what) = &verdict {
            self.violated(object, address, command, what.clone());
        }
        self.by_address.insert((object, address), self.functions.len());
        self.functions.push(Function {
            object,
            address,
            verdict,
            hits: 0,
            spent: 0,
            violated: false,
            compared: 0,
            most_seen: 0,
            without_return: 0,
            too_long: 0,
            declined_with_facts: None,
        });
        self.functions.len() - 1
    }

    fn violated(&mut self, object: usize, address: u64, command: &str, what: String) {
        let object = &self.objects[object];
        eprintln!("VIOLATION: {} {} ({address:#x}): {what} [{command}]", object.path.display(), object.name(address));
        self.violations += 1;
    }

    /// Handles a hit and removed breakpoint of an entry. Returns the signal to continue with; `None` at the process's
    /// end.
    fn reached(&mut self, run: &mut Run, here: Registers) -> Result<Option<i32>> {
        let at = here.instruction;
        let (object, address) = (run.entries[&at].object, run.entries[&at].address);
        let number = self.function(object, address, &run.command);
        let function = &mut self.functions[number];
        function.hits += 1;
        let wanted = function.is_wanted(&self.limits);
        if let Some(entry) = run.entries.get_mut(&at) {
            entry.wanted = wanted;
        }
        if !wanted {
            return Ok(Some(0));
        }
        if function.is_due(&self.limits) {
            let before = self.steps;
            let signal = self.session(run, here);
            self.functions[number].spent += usize::try_from(self.steps - before).unwrap_or(usize::MAX);
            return signal;
        }
        match run.traced.step(0)? {
            Stop::Ended(_) => Ok(None),
            Stop::Signal(signal) => {
                run.set(at)?;
                Ok(Some(if signal == libc::SIGTRAP { 0 } else { signal }))
            }
        }
    }

    /// Steps until all executions that have begun are over.
    fn session(&mut self, run: &mut Run, mut here: Registers) -> Result<Option<i32>> {
        let mut executed: Vec<u64> = Vec::new();
        let mut frames: Vec<Frame> = Vec::new();
        let mut removed: HashSet<u64> = HashSet::from([here.instruction]);
        let mut signal = 0;
        let mut repeating = false;
        let result = loop {
            let place = here.instruction;
            if !repeating && signal == 0 && run.entries.contains_key(&place) {
                if run.clear(place)? {
                    removed.insert(place);
                }
                self.begin(run, here, executed.len(), &mut frames)?;
            }
            if frames.is_empty() {
                break Some(signal);
            }
            match run.traced.step(signal)? {
                Stop::Ended(_) => {
                    frames.iter().for_each(|frame| self.functions[frame.function].without_return += 1);
                    return Ok(None);
                }
                Stop::Signal(libc::SIGTRAP) => signal = 0,
                // A signal that the execution itself raises is part of it, with its handler; others are not.
                Stop::Signal(raised @ (libc::SIGILL | libc::SIGFPE | libc::SIGSEGV | libc::SIGBUS)) => {
                    signal = raised;
                    continue;
                }
                Stop::Signal(other) => {
                    frames.iter().for_each(|frame| self.functions[frame.function].without_return += 1);
                    break Some(other);
                }
            }
            here = run.traced.registers()?;
            self.steps += 1;
            // A repeated instruction traps at every repetition, and counts once when it is done.
            repeating = here.instruction == place && is_repeated(&run.traced, place)?;
            if repeating {
                continue;
            }
            executed.push(place);
            while let Some(frame) = frames.last() {
                if here.instruction == frame.back && here.stack == frame.stack + 8 {
                    self.returned(run, frame, &executed[frame.begins..]);
                } else if here.stack > frame.stack
                    && !self.functions[frame.function].has(place.wrapping_sub(frame.bias))
                {
                    // An exception or a long jump, not a pop of its own return address, left this function.
                    self.functions[frame.function].without_return += 1;
                } else {
                    break;
                }
                frames.pop();
            }
            self.give_up(&mut frames, executed.len());
        };
        removed.into_iter().try_for_each(|at| run.set(at))?;
        Ok(result)
    }

    /// Begins an execution of the function at an entry, if it is compared.
    fn begin(&mut self, run: &Run, here: Registers, begins: usize, frames: &mut Vec<Frame>) -> Result<()> {
        let entry = &run.entries[&here.instruction];
        let function = self.function(entry.object, entry.address, &run.command);
        let bias = here.instruction.wrapping_sub(entry.address);
        let jumped_back = frames.iter().any(|frame| frame.function == function && frame.stack == here.stack);
        if self.functions[function].is_tracked(&self.limits) && !jumped_back {
            let back = run.traced.word(here.stack)?;
            frames.push(Frame { function, bias, back, stack: here.stack, begins });
        }
        Ok(())
    }

    /// Abandons executions that take too long.
    fn give_up(&mut self, frames: &mut Vec<Frame>, executed: usize) {
        let limits = &self.limits;
        let functions = &mut self.functions;
        frames.retain(|frame| {
            let function = &mut functions[frame.function];
            let steps = executed - frame.begins;
            let long = match function.verdict {
                Verdict::Bounded { most, .. } => {
                    steps > limits.steps.saturating_add(usize::try_from(most).unwrap_or(usize::MAX))
                }
                _ => steps > limits.measured_steps,
            };
            if long {
                function.too_long += 1;
                function.without_return += 1;
            }
            !long
        });
    }

    /// Compares an execution that returned.
    fn returned(&mut self, run: &Run, frame: &Frame, executed: &[u64]) {
        let executed: Vec<u64> = executed.iter().map(|address| address.wrapping_sub(frame.bias)).collect();
        let count = executed.len() as u64;
        let function = &self.functions[frame.function];
        let (object, address) = (function.object, function.address);
        let (graph, loops) = match &function.verdict {
            Verdict::Bounded { graph, .. } => (graph.clone(), None),
            Verdict::Looping { graph, loops } => (graph.clone(), Some(loops.clone())),
            _ => return,
        };
        let mut wrong = measure::step_outside(&graph, &executed)
            .map(|(from, to)| format!("steps from {from:#x} to {to:#x}, which is not an edge of the graph"));
        let extent = match (&function.verdict, loops) {
            (Verdict::Bounded { most, fewest, .. }, _) => Some((*fewest, *most)),
            (_, Some(loops)) if wrong.is_none() => {
                let facts = Facts { loops: measure::facts(&graph, &loops, &executed), ..Facts::default() };
                match bound(&self.objects[object].image, &graph, address, &facts) {
                    Ok(bound) => Some((bound.least, bound.most)),
                    Err(decline) => {
                        if matches!(decline, pathbound::Decline::Disagreement(_)) {
                            wrong = Some(decline.to_string());
                        }
                        self.functions[frame.function].declined_with_facts = Some(decline.brief());
                        None
                    }
                }
            }
            _ => None,
        };
        if let Some((fewest, most)) = extent {
            let function = &mut self.functions[frame.function];
            function.compared += 1;
            function.most_seen = function.most_seen.max(count);
            if !(fewest..=most).contains(&count) {
                let also = wrong.map_or_else(String::new, |also| format!("; {also}"));
                wrong = Some(format!("executed {count}, bounds {fewest} to {most}{also}"));
            }
        }
        if let Some(what) = wrong {
            self.functions[frame.function].violated = true;
            self.violated(object, address, &run.command, what);
        }
    }

    /// The groups, with their functions.
    pub fn groups(&self) -> BTreeMap<&str, Vec<&Function>> {
        let mut groups: BTreeMap<&str, Vec<&Function>> = BTreeMap::new();
        for function in &self.functions {
            groups.entry(&self.objects[function.object].group).or_default().push(function);
        }
        groups
    }
}

impl Function {
    /// Whether further executions are worth a breakpoint.
    fn is_wanted(&self, limits: &Limits) -> bool {
        self.is_tracked(limits) && self.spent < limits.budget && self.hits < 1 << (limits.executions / 2).min(20)
    }

    /// Whether further executions are compared.
    fn is_tracked(&self, limits: &Limits) -> bool {
        match self.verdict {
            _ if self.violated => false,
            Verdict::Bounded { .. } => self.compared < limits.nested && self.too_long < 2,
            Verdict::Looping { .. } => self.compared < limits.measured && self.too_long < 2,
            _ => false,
        }
    }

    /// Whether an instruction is in its graph.
    fn has(&self, address: u64) -> bool {
        match &self.verdict {
            Verdict::Bounded { graph, .. } | Verdict::Looping { graph, .. } => graph.node(address).is_some(),
            _ => false,
        }
    }

    /// Whether the execution at a breakpoint just hit is stepped.
    fn is_due(&self, limits: &Limits) -> bool {
        self.hits <= limits.executions / 2 || self.hits.is_power_of_two()
    }
}

/// Whether a repeated string instruction is at an address.
fn is_repeated(traced: &Traced, address: u64) -> Result<bool> {
    let mut code = [0; LONGEST_INSTRUCTION_BYTES];
    let read = traced.read(address, &mut code)?;
    Ok(decode(&code[..read], address).is_some_and(|decoded| decoded.transfer == Transfer::Repeat))
}
