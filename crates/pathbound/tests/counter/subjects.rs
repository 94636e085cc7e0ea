//! Real functions from the compiler and the C library. All take an array of words and one more word.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt::Write;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::OnceLock;

/// `count` arrays of 1 to `longest` pseudo-random words.
pub fn inputs(count: usize, longest: usize) -> Vec<Vec<u64>> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..count)
        .map(|_| {
            let shift = next() % 60;
            (0..next() as usize % longest + 1).map(|_| next() >> shift).collect()
        })
        .collect()
}

/// # Safety
///
/// `data` is the address of an array of `length` initialised words, with no other access during `'a`.
unsafe fn slice<'a>(data: u64, length: u64) -> &'a mut [u64] {
    // SAFETY: by the contract of this function, `data` points to `length` initialised words without other access.
    unsafe { std::slice::from_raw_parts_mut(data as *mut u64, length as usize) }
}

/// Sorts with an algorithm that compiles to many functions and panics on inconsistent orders.
#[inline(never)]
pub unsafe extern "C" fn sort(data: u64, length: u64, _: u64) -> u64 {
    // SAFETY: `data` is an array of `length` words that nothing else accesses.
    let data = unsafe { slice(data, length) };
    data.sort_unstable_by(|one, other| (one.count_ones(), one).cmp(&(other.count_ones(), other)));
    data[data.len() / 2]
}

/// Looks the words up in a tree.
#[inline(never)]
pub unsafe extern "C" fn search(data: u64, length: u64, _: u64) -> u64 {
    static TREE: OnceLock<BTreeMap<u64, u64>> = OnceLock::new();
    let tree = TREE.get_or_init(|| (0..500_u64).map(|i| (i * i, i)).collect());
    // SAFETY: `data` is an array of `length` words that nothing else accesses.
    let data = unsafe { slice(data, length) };
    data.iter().filter_map(|key| tree.range(key..).next()).map(|(_, value)| value).sum()
}

/// Hashes the words, and indexes by the hashes.
#[inline(never)]
pub unsafe extern "C" fn hash(data: u64, length: u64, parameter: u64) -> u64 {
    // SAFETY: `data` is an array of `length` words that nothing else accesses.
    let data = unsafe { slice(data, length) };
    let mut buckets = [0_u64; 16];
    for word in data.iter_mut() {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one((parameter, *word));
        buckets[(hash % 17).min(15) as usize] += hash % (*word % 1000 + 1);
        *word = hash;
    }
    buckets[parameter as usize % data.len().min(16)]
}

/// Moves, fills and compares with the C library.
#[inline(never)]
pub unsafe extern "C" fn move_and_compare(data: u64, length: u64, parameter: u64) -> u64 {
    // SAFETY: `data` is an array of `length` words that nothing else accesses; all accesses stay within it.
    unsafe {
        let start = data as *mut u64;
        let moved = length as usize / 2;
        libc::memmove(start.add(length as usize - moved).cast(), start.cast(), 8 * moved);
        let order = libc::memcmp(start.cast(), start.add(length as usize - moved).cast(), 8 * moved);
        libc::memset(start.cast(), parameter as i32, length as usize);
        let text = start.cast::<u8>().add(8 * length as usize - 1);
        text.write(0);
        libc::strlen(start.cast()) as u64 + u64::from(order.cast_unsigned())
    }
}

unsafe extern "C" fn ascending(one: *const c_void, other: *const c_void) -> i32 {
    // SAFETY: the elements of the array are words.
    unsafe { (*one.cast::<u64>()).cmp(&*other.cast::<u64>()) as i32 }
}

/// Sorts with the C library, which calls back.
#[inline(never)]
pub unsafe extern "C" fn c_sort(data: u64, length: u64, _: u64) -> u64 {
    // SAFETY: `data` is an array of `length` words that nothing else accesses.
    unsafe { libc::qsort(data as *mut c_void, length as usize, 8, Some(ascending)) };
    // SAFETY: `data` is an array of `length` words, at least one, that nothing else accesses.
    unsafe { slice(data, length)[0] }
}

/// Text on the stack.
struct Text {
    bytes: [u8; 256],
    length: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = self.bytes.get_mut(self.length..self.length + text.len()).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length += text.len();
        Ok(())
    }
}

/// Formats numbers through function pointers.
#[inline(never)]
pub unsafe extern "C" fn format(data: u64, length: u64, _: u64) -> u64 {
    // SAFETY: `data` is an array of `length` words that nothing else accesses.
    let data = unsafe { slice(data, length) };
    let mut text = Text { bytes: [0; 256], length: 0 };
    for (index, word) in data.iter().enumerate() {
        if write!(text, "{index}: {word:>5} {:?};", Some(word)).is_err() {
            return 0;
        }
    }
    text.bytes.iter().fold(text.length as u64, |sum, byte| sum.rotate_left(5) ^ u64::from(*byte))
}
