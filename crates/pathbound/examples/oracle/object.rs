//! The functions of a program or library, and the result of analysing each.

use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, LittleEndian, UnwindSection};
use object::elf::{self, FileHeader64};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _, SymbolFlags};
use pathbound::arch::Arch;
use pathbound::bound::BoundableLoop;
use pathbound::check::{check_proof, second_opinion};
use pathbound::graph::NeverReturns;
use pathbound::image::{Pointer, Source, Symbol};
use pathbound::{Decline, ElfFile, Facts, Graph, Image, bound, loops};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

/// The most queries for code while exploring a function. A function that needs more, some ten thousand instructions
/// with everything it calls, is not tried.
const MOST_QUERIES: u64 = 60_000;

/// A program or library.
pub struct Object {
    pub path: PathBuf,
    /// The group it is counted in.
    pub group: String,
    pub image: ElfFile,
    /// Addresses of functions with their names, where known.
    pub functions: BTreeMap<u64, Option<String>>,
    /// Indirect functions: their names, and the addresses of their resolvers.
    pub chosen: Vec<(String, u64)>,
    /// Its lowest address, rounded down to a page.
    pub lowest: u64,
    /// Functions that are too large to try; functions that lead to them are, too.
    too_large: BTreeSet<u64>,
}

/// The result of analysing a function.
pub enum Verdict {
    /// It leads to too much code.
    NotTried,
    Declined(Decline),
    /// It has a bound without any facts.
    Bounded {
        most: u64,
        fewest: u64,
        graph: Arc<Graph>,
    },
    /// Its loops need facts.
    Looping {
        loops: Rc<Vec<BoundableLoop>>,
        graph: Arc<Graph>,
    },
    /// The analysis contradicts itself.
    Defect(String),
}

impl Object {
    pub fn open(path: &Path, group: &str) -> Result<Self, Box<dyn std::error::Error>> {
        let image = ElfFile::open(path)?;
        // A file without section headers may have a copy with them beside it.
        let mut complete = path.as_os_str().to_owned();
        complete.push(".functions");
        let bytes = std::fs::read(if Path::new(&complete).exists() { Path::new(&complete) } else { path })?;
        let file = ElfFile64::<Endianness>::parse(bytes.as_slice())?;
        let loaded = |address: u64| image.code(address).is_some();
        let mut functions: BTreeMap<u64, Option<String>> = BTreeMap::new();
        let mut chosen = Vec::new();
        for start in starts_of_frames(&file).into_iter().filter(|start| loaded(*start)) {
            functions.insert(start, None);
        }
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let (Ok(name), SymbolFlags::Elf { st_info, .. }) = (symbol.name(), symbol.flags()) else { continue };
            if symbol.is_undefined() || !loaded(symbol.address()) {
                continue;
            }
            if st_info.st_type() == elf::STT_GNU_IFUNC {
                chosen.push((name.to_owned(), symbol.address()));
            }
            if matches!(st_info.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC) {
                functions.insert(symbol.address(), Some(name.to_owned()));
            }
        }
        let header = FileHeader64::<Endianness>::parse(bytes.as_slice())?;
        let endian = header.endian()?;
        let segments = header.program_headers(endian, bytes.as_slice())?;
        let loads = segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
        let lowest = loads.map(|segment| segment.p_vaddr(endian)).min().ok_or("it loads nothing")? & !0xfff;
        let too_large = BTreeSet::new();
        Ok(Self { path: path.to_owned(), group: group.to_owned(), image, functions, chosen, lowest, too_large })
    }

    pub fn analyse(&mut self, entry: u64) -> Verdict {
        let limited = Limited { image: &self.image, entry, too_large: &self.too_large, left: Cell::new(MOST_QUERIES) };
        let graph = Graph::explore(&limited, &[entry], &NeverReturns::default());
        if limited.left.get() == 0 {
            self.too_large.insert(entry);
            return Verdict::NotTried;
        }
        let graph = match graph {
            Ok(graph) => graph,
            Err(error) => return Verdict::Defect(format!("no graph: {error}")),
        };
        match bound(&self.image, &graph, entry, &Facts::default()) {
            Ok(bound) => {
                let checked = check_proof(&bound.proof, &self.image);
                if let Err(rejection) = checked.map(|_| ()).and_then(|()| second_opinion(&graph, &self.image)) {
                    return Verdict::Defect(format!("the checker differs: {rejection}"));
                }
                Verdict::Bounded { most: bound.most, fewest: bound.least, graph }
            }
            Err(Decline::Disagreement(what)) => Verdict::Defect(format!("the solvers differ: {what}")),
            Err(decline @ Decline::UnboundedLoops(_)) => match loops(&self.image, &graph, entry) {
                Ok(loops) => Verdict::Looping { loops: Rc::new(loops), graph },
                Err(other) => Verdict::Defect(format!("a fact is asked for ({decline}), but none can help ({other})")),
            },
            Err(decline) => Verdict::Declined(decline),
        }
    }

    /// A name for a function.
    pub fn name(&self, address: u64) -> String {
        match self.functions.get(&address) {
            Some(Some(name)) => name.clone(),
            _ => format!("{address:#x}"),
        }
    }
}

/// Where functions begin according to the unwind table, the only source in stripped files.
fn starts_of_frames(file: &ElfFile64<'_, Endianness>) -> BTreeSet<u64> {
    let mut starts = BTreeSet::new();
    let Some(section) = file.section_by_name(".eh_frame") else { return starts };
    let Ok(data) = section.data() else { return starts };
    let mut frames = EhFrame::new(data, LittleEndian);
    frames.set_address_size(8);
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let mut entries = frames.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(partial) = entry
            && let Ok(function) = partial.parse(EhFrame::<EndianSlice<'_, LittleEndian>>::cie_from_offset)
        {
            starts.insert(function.initial_address());
        }
    }
    starts
}

/// An image that answers `left` queries for code, and no more after one for a function known to be too large.
struct Limited<'a> {
    image: &'a ElfFile,
    entry: u64,
    too_large: &'a BTreeSet<u64>,
    left: Cell<u64>,
}

impl Image for Limited<'_> {
    fn arch(&self) -> Arch {
        self.image.arch()
    }

    fn code(&self, address: u64) -> Option<&[u8]> {
        let left = self.left.get().saturating_sub(1);
        let beyond = address != self.entry && self.too_large.contains(&address);
        self.left.set(if beyond { 0 } else { left });
        if self.left.get() == 0 { None } else { self.image.code(address) }
    }

    fn pointer(&self, address: u64) -> Option<Pointer> {
        self.image.pointer(address)
    }

    fn symbol(&self, address: u64) -> Option<Symbol> {
        self.image.symbol(address)
    }

    fn find(&self, name: &str) -> Vec<Symbol> {
        self.image.find(name)
    }

    fn source(&self, address: u64) -> Vec<Source> {
        self.image.source(address)
    }

    fn chosen(&self, address: u64) -> Option<String> {
        self.image.chosen(address)
    }

    fn landing_pads(&self, instruction: Range<u64>) -> Option<Vec<u64>> {
        self.image.landing_pads(instruction)
    }
}
