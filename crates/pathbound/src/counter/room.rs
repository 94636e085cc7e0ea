//! Memory for rewritten code, near enough to the original code that everything it addresses stays in reach.

use super::CounterError;
use std::ops::Range;

/// Granularity of mappings and of their protection.
const PAGE: u64 = 4096;
/// How far an instruction reaches, less a page, in which the longest instruction fits.
const REACH: u64 = (1 << 31) - PAGE;
/// What is left free below a stack, which grows.
const STACK_ROOM: u64 = 1 << 28;
/// The lowest address that is tried.
const LOWEST: u64 = 1 << 16;

/// A private mapping of this process.
#[derive(Debug)]
pub struct Room {
    start: u64,
    bytes: u64,
}

impl Room {
    /// Reserves memory within reach of every address of `module`, in both directions. It is not accessible yet.
    ///
    /// # Errors
    ///
    /// [`CounterError::NoRoom`], [`CounterError::System`].
    pub fn near(module: &Range<u64>, bytes: usize) -> Result<Self, CounterError> {
        let bytes = (bytes as u64).next_multiple_of(PAGE);
        let maps = std::fs::read_to_string("/proc/self/maps").map_err(|error| refused(&error))?;
        for start in candidates(&maps, module, bytes) {
            // SAFETY: `MAP_FIXED_NOREPLACE` makes a new mapping and never replaces an existing one.
            let mapped = unsafe {
                libc::mmap(
                    start as *mut libc::c_void,
                    bytes as usize,
                    libc::PROT_NONE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
                    -1,
                    0,
                )
            };
            if mapped == libc::MAP_FAILED {
                // Another thread may have mapped something here since the list was read.
                continue;
            }
            let room = Self { start: mapped as u64, bytes };
            // A kernel that does not know the flag treats the address as a hint.
            if room.start == start {
                return Ok(room);
            }
        }
        Err(CounterError::NoRoom { near: module.start })
    }

    /// Where it is.
    pub fn range(&self) -> Range<u64> {
        self.start..self.start + self.bytes
    }

    /// Makes whole pages of this room readable and writable.
    pub fn open(&self, range: Range<u64>) -> Result<(), CounterError> {
        self.protect(range, libc::PROT_READ | libc::PROT_WRITE)
    }

    /// Writes code from the beginning of a page on, and makes its pages executable and read-only.
    pub fn seal(&self, start: u64, code: &[u8]) -> Result<(), CounterError> {
        let range = start..start + pages(code.len()) as u64;
        self.open(range.clone())?;
        // SAFETY: the range holds `code.len()` bytes. `open` asserted that it is in this room's own mapping, and made
        // it writable. Nothing refers to it yet.
        unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), start as *mut u8, code.len()) };
        self.protect(range, libc::PROT_READ | libc::PROT_EXEC)
    }

    fn protect(&self, range: Range<u64>, protection: libc::c_int) -> Result<(), CounterError> {
        assert!(range.start >= self.start && range.end <= self.start + self.bytes, "outside the room");
        // SAFETY: the assertion above ensures that the pages are in this room's own mapping.
        let result =
            unsafe { libc::mprotect(range.start as *mut libc::c_void, (range.end - range.start) as usize, protection) };
        if result == 0 { Ok(()) } else { Err(refused(&std::io::Error::last_os_error())) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: the mapping is this room's own, and `Counter` requires that no thread executes its code when dropped.
        unsafe { libc::munmap(self.start as *mut libc::c_void, self.bytes as usize) };
    }
}

/// `bytes`, rounded up to whole pages.
pub fn pages(bytes: usize) -> usize {
    bytes.next_multiple_of(PAGE as usize)
}

fn refused(error: &std::io::Error) -> CounterError {
    CounterError::System { errno: error.raw_os_error().unwrap_or(0) }
}

/// Addresses for `bytes` bytes, the best first: in the gaps below the module, then in those above it, the nearest
/// first. The end of a gap is taken, because the heap grows upwards into it; below a stack, which grows downwards,
/// `STACK_ROOM` is left free.
fn candidates(maps: &str, module: &Range<u64>, bytes: u64) -> Vec<u64> {
    let lowest = module.end.saturating_sub(REACH).max(LOWEST).next_multiple_of(PAGE);
    let highest = (module.start + REACH) & !(PAGE - 1);
    let (mut below, mut above) = (Vec::new(), Vec::new());
    let mut gap_start = 0;
    for line in maps.lines() {
        let Some(mapped) = range(line) else { continue };
        let gap_end = if line.ends_with("[stack]") { mapped.start.saturating_sub(STACK_ROOM) } else { mapped.start };
        let (start, end) = (lowest.max(gap_start), highest.min(gap_end));
        if end > start && end - start >= bytes {
            let list = if end <= module.start { &mut below } else { &mut above };
            list.push(end - bytes);
        }
        gap_start = mapped.end;
    }
    below.reverse();
    below.extend(above);
    below
}

/// The addresses at the beginning of a line of `/proc/self/maps`.
fn range(line: &str) -> Option<Range<u64>> {
    let (start, rest) = line.split_once('-')?;
    let (end, _) = rest.split_once(' ')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
555500000000-555500010000 r-xp 00000000 00:00 0  /bin/program
555500020000-555500040000 rw-p 00000000 00:00 0  [heap]
7f0000000000-7f0000100000 r-xp 00000000 00:00 0  /lib/libc.so
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0  [stack]
";

    #[test]
    fn room_is_first_looked_for_below_the_module_and_then_far_above_the_heap() {
        let module = 0x5555_0000_0000..0x5555_0001_0000;
        let found = candidates(MAPS, &module, 0x2000);
        assert_eq!(found, [0x5554_ffff_e000, 0x5555_0001_e000, 0x5555_7fff_d000]);
        for start in found {
            assert!(start.abs_diff(module.end) < 1 << 31 && (start + 0x2000).abs_diff(module.start) < 1 << 31);
        }
    }

    #[test]
    fn a_fixed_program_at_the_bottom_gets_room_at_the_end_of_its_reach_if_there_is_too_little_below() {
        let maps = "400000-500000 r-xp 0 0:0 0 /bin/program\n7ffc00000000-7ffc00021000 rw-p 0 0:0 0 [stack]\n";
        assert_eq!(candidates(maps, &(0x40_0000..0x50_0000), 0x100_0000), [0x803f_f000 - 0x100_0000]);
        assert_eq!(candidates(maps, &(0x40_0000..0x50_0000), 0x1000)[0], 0x3f_f000);
    }

    #[test]
    fn no_candidate_is_where_a_stack_may_grow() {
        let module = 0x7ffb_f000_0000..0x7ffb_f001_0000;
        let maps = "7ffbf0000000-7ffbf0010000 r-xp 0 0:0 0 /lib/a\n7ffc00000000-7ffc00021000 rw-p 0 0:0 0 [stack]\n";
        assert!(candidates(maps, &module, 0x1000).iter().all(|start| *start < module.start));
    }

    #[test]
    fn rooms_are_apart_and_can_be_written_and_sealed() {
        let here = rooms_are_apart_and_can_be_written_and_sealed as fn() as usize as u64;
        let module = here & !(PAGE - 1)..(here | (PAGE - 1)) + 1;
        let first = Room::near(&module, 10_000).expect("room");
        let second = Room::near(&module, 10_000).expect("room");
        assert!(first.start.abs_diff(second.start) >= 12_288);
        for room in [&first, &second] {
            assert!(room.start.abs_diff(here) < 1 << 31);
            room.seal(room.start, &[0xc3]).expect("executable");
            // SAFETY: the byte is a `ret`.
            unsafe { std::mem::transmute::<u64, extern "C" fn()>(room.start)() };
        }
    }
}
