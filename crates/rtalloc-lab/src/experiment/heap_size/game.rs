//! A game between an adversary and an allocator: requests in units, frees, and the addresses of all objects.

use crate::result::heap_size::Step;
use rtalloc_subjects::{Heap, Region, Subject, Unit};

/// Bytes of the heap that is examined, and number of blocks allocated in it per size.
const HEAP_BYTES: usize = 1 << 20;
const BLOCKS: usize = 8;
/// Upper limit for the smallest block.
const MOST_BYTES: usize = 256;

/// The unit of a subject, by experiment: the minimum distance of one-byte blocks, and the largest request with the same
/// distance.
///
/// # Errors
///
/// If the subject cannot create a heap, or does not serve small requests.
pub fn unit_of(subject: &Subject) -> Result<Unit, String> {
    // Where sizes are chosen, the smallest may be large.
    if let (Some(view), Some(_)) = (subject.view, subject.about.sizes_for) {
        return Ok(Unit { bytes: view.contract.min_block_bytes, header_bytes: view.contract.header_bytes });
    }
    let bytes = distance(subject, 1)?;
    let mut most = 1;
    while most < MOST_BYTES && distance(subject, most + 1)? == bytes {
        most += 1;
    }
    bytes.checked_sub(most).map(|header_bytes| Unit { bytes, header_bytes }).ok_or_else(|| "blocks overlap".into())
}

/// The minimum distance of neighbouring blocks of `request_bytes`.
fn distance(subject: &Subject, request_bytes: usize) -> Result<usize, String> {
    let mut region = Region::new(HEAP_BYTES, false).map_err(|error| error.to_string())?;
    let heap = Heap::new(subject, &mut region, HEAP_BYTES).map_err(|error| error.to_string())?;
    let plain = Unit { bytes: request_bytes, header_bytes: 0 };
    let mut game = Game::new(&heap, plain, usize::MAX);
    for _ in 0..BLOCKS {
        game.take(1).map_err(|_| format!("refused {request_bytes} bytes"))?;
    }
    let placed = game.placed();
    let distances = placed.windows(2).map(|pair| pair[1].at - pair[0].at);
    distances.min().map(|distance| distance as usize).ok_or_else(|| "no blocks".into())
}

/// Identifies an object of a game.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id(usize);

/// The end of a game.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The allocator refused a request: the heap was too small.
    Refused,
    /// The adversary has no more requests: the heap was large enough.
    Spent,
}

/// A live object with its current address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its identifier.
    pub id: Id,
    /// The block's first byte, relative to the first address available to blocks. Blocks whose header is elsewhere may
    /// begin before it.
    pub at: i64,
    /// Its size in units.
    pub units: usize,
}

#[derive(Clone, Copy, Debug)]
struct Object {
    block: *mut u8,
    units: usize,
}

/// A game on a fresh heap. At most `most_units` units are live at any time.
#[derive(Debug)]
pub struct Game<'h, 'r> {
    heap: &'h Heap<'r>,
    /// The size of a unit.
    pub unit: Unit,
    most_units: usize,
    live_units: usize,
    objects: Vec<Option<Object>>,
    vacant: Vec<usize>,
    /// The moves so far, the refused request included, if they are logged.
    pub log: Option<Vec<Step>>,
    /// The number of each object in the order of requests.
    numbers: Vec<usize>,
    /// Requests served so far.
    pub served: u64,
    /// The highest end of a block so far, in bytes from the first address available to blocks.
    pub highest_bytes: i64,
}

impl<'h, 'r> Game<'h, 'r> {
    /// A game on an unused heap.
    #[must_use]
    pub fn new(heap: &'h Heap<'r>, unit: Unit, most_units: usize) -> Self {
        let (objects, vacant) = (Vec::new(), Vec::new());
        let (log, numbers) = (None, Vec::new());
        Self { heap, unit, most_units, live_units: 0, objects, vacant, log, numbers, served: 0, highest_bytes: 0 }
    }

    /// A game whose moves are logged.
    #[must_use]
    pub fn logged(heap: &'h Heap<'r>, unit: Unit, most_units: usize) -> Self {
        Self { log: Some(Vec::new()), ..Self::new(heap, unit, most_units) }
    }

    /// Limits the live units of the rest of the game.
    pub fn limit(&mut self, most_units: usize) {
        self.most_units = most_units;
    }

    /// Units that may still be requested.
    #[must_use]
    pub fn left(&self) -> usize {
        self.most_units - self.live_units
    }

    /// Requests a block.
    ///
    /// # Errors
    ///
    /// [`Over::Spent`] if the limit on live units would be exceeded; [`Over::Refused`] by the allocator.
    pub fn take(&mut self, units: usize) -> Result<Id, Over> {
        if units > self.left() {
            return Err(Over::Spent);
        }
        if let Some(log) = &mut self.log {
            log.push(Step::Take(units));
        }
        let entries = &self.heap.entries;
        let bytes = self.unit.request_bytes(units);
        // SAFETY: the heap is live, and at least one byte is requested at its natural alignment.
        let block = unsafe { (entries.allocate)(self.heap.context, bytes, entries.natural_align_bytes) };
        if block.is_null() {
            return Err(Over::Refused);
        }
        let object = Some(Object { block, units });
        let id = match self.vacant.pop() {
            Some(place) => {
                self.objects[place] = object;
                Id(place)
            }
            None => {
                self.objects.push(object);
                Id(self.objects.len() - 1)
            }
        };
        if self.log.is_some() {
            self.numbers.resize(self.objects.len(), 0);
            self.numbers[id.0] = self.served as usize;
        }
        self.live_units += units;
        self.served += 1;
        self.highest_bytes = self.highest_bytes.max(self.end(id));
        Ok(id)
    }

    /// Requests as many blocks of one size as allowed.
    ///
    /// # Errors
    ///
    /// [`Over::Refused`] by the allocator.
    pub fn take_all(&mut self, units: usize) -> Result<(), Over> {
        while units <= self.left() {
            self.take(units)?;
        }
        Ok(())
    }

    /// Frees a live object.
    pub fn give(&mut self, id: Id) {
        let Some(object) = self.objects[id.0].take() else { return };
        if let Some(log) = &mut self.log {
            log.push(Step::Give(self.numbers[id.0]));
        }
        let entries = &self.heap.entries;
        let bytes = self.unit.request_bytes(object.units);
        // SAFETY: the block is live, and was requested with this size and alignment.
        unsafe { (entries.deallocate)(self.heap.context, object.block, bytes, entries.natural_align_bytes) };
        self.live_units -= object.units;
        self.vacant.push(id.0);
    }

    /// Frees the objects that are not to be kept.
    pub fn give_all(&mut self, of: impl IntoIterator<Item = Placed>, keep: impl Fn(&Placed) -> bool) {
        for placed in of {
            if !keep(&placed) {
                self.give(placed.id);
            }
        }
    }

    /// Start address of a live object's block.
    #[must_use]
    pub fn at(&self, id: Id) -> i64 {
        self.objects[id.0].map_or(0, |object| {
            let address = self.heap.pieces(object.block as usize, 1).next().map_or(0, |(address, _)| address);
            address as i64 - (self.heap.start + self.unit.header_bytes) as i64
        })
    }

    /// End address of a live object's block.
    #[must_use]
    pub fn end(&self, id: Id) -> i64 {
        self.at(id) + self.objects[id.0].map_or(0, |object| self.bytes(object.units))
    }

    /// Bytes of a block.
    #[must_use]
    pub fn bytes(&self, units: usize) -> i64 {
        (units * self.unit.bytes) as i64
    }

    /// All live objects in address order.
    #[must_use]
    pub fn placed(&self) -> Vec<Placed> {
        let live = self.objects.iter().enumerate().filter_map(|(place, object)| Some((Id(place), (*object)?)));
        let mut placed: Vec<Placed> =
            live.map(|(id, object)| Placed { id, at: self.at(id), units: object.units }).collect();
        placed.sort_unstable_by_key(|placed| placed.at);
        placed
    }
}
