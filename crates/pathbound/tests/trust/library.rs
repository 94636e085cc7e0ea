//! Shared libraries, built, bounded from the file, loaded, and counted.

use super::{Function, witness};
use crate::assembly::Assembly;
use crate::loops::verified;
use pathbound::bound::BoundableLoop;
use pathbound::check::check;
use pathbound::counter::{Counter, Record, executed};
use pathbound::facts::{LoopFact, Place};
use pathbound::graph::NeverReturns;
use pathbound::{Bound, Certificate, Decline, ElfFile, Graph, Image, Process};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of a call.
#[derive(Clone, Debug)]
pub struct Input {
    /// The words.
    pub words: [u64; 3],
    /// If not empty: memory with this content, whose address replaces the first word.
    pub memory: Vec<u64>,
}

impl Input {
    /// The words of a call, and the memory they point to.
    fn fresh(&self) -> ([u64; 3], Vec<u64>) {
        let (mut words, mut memory) = (self.words, self.memory.clone());
        if !memory.is_empty() {
            words[0] = memory.as_mut_ptr() as u64;
        }
        (words, memory)
    }
}

/// Runs the C compiler, which must succeed.
pub fn compile(arguments: &[&str], files: &[PathBuf], output: &Path) {
    compile_by("cc", arguments, files, output);
}

fn compile_by(compiler: &str, arguments: &[&str], files: &[PathBuf], output: &Path) {
    let mut compiler = Command::new(compiler);
    compiler.args(arguments).args(files).arg("-o").arg(output);
    assert!(compiler.status().expect("a C compiler").success(), "{compiler:?}");
}

/// A function of a library.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its address in the file.
    pub address: u64,
    /// The function in this process.
    function: Function,
}

impl Entry {
    pub fn in_process(self) -> u64 {
        self.function as *const c_void as u64
    }
}

/// A library of one or more assembly files, loaded.
pub struct Library {
    pub path: PathBuf,
    pub file: ElfFile,
    pub process: Process,
    handle: *mut c_void,
    _directory: tempfile::TempDir,
}

impl Library {
    /// Builds a library of assembly files named `file`, each in its own directory, so that facts fit all of them. The
    /// function of each is exported as `entry_` and its number.
    pub fn new(file: &str, parts: &[(Assembly, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let sources = parts.iter().enumerate().map(|(number, (assembly, function))| {
            let alias = format!(".globl entry_{number}\n.set entry_{number}, {function}\n");
            let part = directory.path().join(number.to_string());
            std::fs::create_dir(&part).expect("a directory");
            let source = part.join(file);
            std::fs::write(&source, assembly.text() + &alias).expect("written");
            source
        });
        let sources: Vec<PathBuf> = sources.collect();
        let path = directory.path().join("library.so");
        // Compiled files have lines already. Relaxation would make calls through the table direct.
        let lines = if file.ends_with(".c.s") { "-g0" } else { "-g" };
        compile(&["-shared", lines, "-Wl,--no-relax", "-Wl,-z,now"], &sources, &path);
        Self::load(path, directory)
    }

    /// Builds a library of a C file with a compiler and options. The functions are exported as `entry_0` and so on.
    pub fn compiled(compiler: &str, options: &[&str], file: &str, text: &str, functions: &[&str]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let source = directory.path().join(file);
        let alias = |(part, function): (usize, &&str)| {
            format!("extern __typeof__({function}) entry_{part} __attribute__((alias(\"{function}\")));\n")
        };
        let aliases: String = functions.iter().enumerate().map(alias).collect();
        std::fs::write(&source, format!("{text}{aliases}")).expect("written");
        let path = directory.path().join("library.so");
        compile_by(compiler, &[&["-shared", "-fPIC", "-g", "-Wl,-z,now"], options].concat(), &[source], &path);
        Self::load(path, directory)
    }

    fn load(path: PathBuf, directory: tempfile::TempDir) -> Self {
        let file = ElfFile::open(&path).expect("an ELF file");
        let name = CString::new(path.to_str().expect("a path of text")).expect("no zero");
        // SAFETY: on loading, the library runs only the compiler's own code.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "{}", path.display());
        let process = Process::current().expect("this process");
        Self { path, file, process, handle, _directory: directory }
    }

    /// The function of a part.
    pub fn entry(&self, part: usize) -> Entry {
        let name = format!("entry_{part}");
        let address = self.file.find(&name).first().expect("the function").address;
        let name = CString::new(name).expect("no zero");
        // SAFETY: the handle is from `dlopen` and open as long as `self` lives; the name is a C string.
        let function = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        assert!(!function.is_null());
        // SAFETY: all functions of these tests take up to three words and return one, or nothing.
        Entry { address, function: unsafe { std::mem::transmute::<*mut c_void, Function>(function) } }
    }

    /// Counts calls with rewritten copies and with a process that single-steps the originals. Both must agree.
    pub fn count(&self, calls: &[(Entry, &Input)]) -> Vec<u64> {
        let entries: BTreeSet<u64> = calls.iter().map(|(entry, _)| entry.in_process()).collect();
        let graph =
            Graph::explore_to_count(&self.process, &entries.into_iter().collect::<Vec<_>>(), &NeverReturns::default());
        let graph = graph.expect("code");
        let counter = Counter::new(&self.process, &graph, Record::Coverage).expect("a counter");
        let count = |(entry, input): &(Entry, &Input)| {
            let copy = counter.entry(entry.in_process()).expect("the function is in the graph");
            // SAFETY: the copy has the signature of the function, and `counter` is alive.
            let copy = unsafe { std::mem::transmute::<*const c_void, Function>(copy) };
            let (words, _memory) = input.fresh();
            let before = executed();
            // SAFETY: the input is valid for the function; `_memory` keeps its memory alive.
            unsafe { copy(words[0], words[1], words[2]) };
            executed() - before
        };
        let counts: Vec<u64> = calls.iter().map(count).collect();
        assert_eq!((counter.misses(), counter.departures()), (BTreeSet::new(), BTreeSet::new()));
        for (from, to) in counter.covered_edges() {
            assert!(
                graph.successors(from).any(|successor| successor == to),
                "{from:#x} -> {to:#x} is not in the graph"
            );
        }
        let stepped = witness::count(|| {
            for (entry, input) in calls {
                let (words, _memory) = input.fresh();
                // SAFETY: the input is valid for the function; `_memory` keeps its memory alive.
                unsafe { witness::announced(entry.function, words) };
            }
        });
        assert_eq!(counts, stepped);
        counts
    }

    /// The instructions that a call executes, by their addresses in the file, in order.
    pub fn trace(&self, entry: Entry, input: &Input) -> Vec<u64> {
        let mut traces = witness::trace(|| {
            let (words, _memory) = input.fresh();
            // SAFETY: the input is valid for the function; `_memory` keeps its memory alive.
            unsafe { witness::announced(entry.function, words) };
        });
        let bias = entry.in_process().wrapping_sub(entry.address);
        traces.remove(0).into_iter().map(|address| address.wrapping_sub(bias)).collect()
    }

    /// Converts facts of a fixture into facts about addresses: a fact about a line applies to its last instruction that
    /// every iteration of the innermost loop with the line executes.
    pub fn exact(&self, entry: Entry, facts: &[LoopFact]) -> Vec<LoopFact> {
        let graph = Graph::explore(&self.file, &[entry.address], &NeverReturns::default()).expect("code");
        let Ok(loops) = pathbound::loops(&self.file, &graph, entry.address) else { return Vec::new() };
        let mut exact: BTreeMap<u64, u64> = BTreeMap::new();
        for fact in facts {
            let meant = fact.place.find(&self.file, graph.nodes().map(|(address, _)| address));
            let has = |one: &BoundableLoop| !one.own.is_disjoint(&meant);
            let around: Vec<usize> = loops.iter().filter(|one| has(one)).filter_map(|one| one.around).collect();
            for (number, one) in loops.iter().enumerate().filter(|(number, one)| has(one) && !around.contains(number)) {
                let is_passed = |place: &u64| {
                    let alone = [LoopFact { place: Place::Address(*place), at_most: 1 }];
                    !matches!(verified(&self.file, entry.address, &alone), Err(Decline::RefusedFact(..)))
                };
                let place = one.own.intersection(&meant).copied().filter(is_passed).last();
                // A mutant may skip the line.
                let (place, at_most) =
                    place.map_or((loops[number].header, fact.at_most + 1), |place| (place, fact.at_most));
                let known = exact.entry(place).or_default();
                *known = (*known).max(at_most);
            }
        }
        exact.into_iter().map(|(place, at_most)| LoopFact { place: Place::Address(place), at_most }).collect()
    }

    /// Bounds a function from the file and again from this process.
    pub fn bound(&self, entry: Entry, facts: &[LoopFact]) -> Result<Bound, Decline> {
        let found = verified(&self.file, entry.address, facts)?;
        let certificate = Certificate::of(&found, self.file.provenance());
        check(&certificate, &self.file, self.file.provenance()).unwrap_or_else(|rejection| panic!("{rejection}"));
        let bias = entry.in_process().wrapping_sub(entry.address);
        let moved = |fact: &LoopFact| match fact.place {
            Place::Address(address) => LoopFact { place: Place::Address(address.wrapping_add(bias)), ..*fact },
            Place::Line { .. } => fact.clone(),
        };
        let loaded = verified(&self.process, entry.in_process(), &facts.iter().map(moved).collect::<Vec<_>>())?;
        assert_eq!((loaded.most, loaded.least), (found.most, found.least));
        Ok(found)
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // SAFETY: the handle is from `dlopen`, and no copy of the code outlives `count`.
        unsafe { libc::dlclose(self.handle) };
    }
}
