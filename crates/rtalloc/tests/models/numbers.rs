//! Numbers that threads take and return, as [`ThreadSlots`](rtalloc::adapt::ThreadSlots) does: the thread with a number
//! owns the memory that belongs to it.

use crate::controls::Model;
use crate::scene::{self, Loomed};
use rtalloc::adapt::threads::Numbers;
use std::ptr::NonNull;

/// A word of numbers, of which the scenarios use a few.
type Word = Numbers<1, Loomed>;

/// Bytes before the memory that belongs to the numbers.
const FRONT_BYTES: usize = 64;
/// Bytes that belong to each number.
const EACH_BYTES: usize = 16;

/// Makes the numbers of an execution.
fn begin() -> &'static Word {
    let region = scene::region();
    let word = region.as_mut_ptr().cast::<Word>();
    // SAFETY: the region is aligned, long enough, and never freed.
    let numbers = unsafe {
        word.write(Word::new());
        &*word
    };
    scene::share();
    numbers
}

/// Takes a number below `end`, uses its memory, and returns the number.
fn visit(numbers: &'static Word, first: usize, end: usize) -> Option<usize> {
    let number = numbers.take(first, end)?;
    assert!((first..end).contains(&number));
    let start = std::ptr::from_ref(numbers).expose_provenance() + FRONT_BYTES + number * EACH_BYTES;
    let own = NonNull::new(std::ptr::with_exposed_provenance_mut(start)).expect("in the region");
    scene::own(own, EACH_BYTES);
    scene::disown(own, EACH_BYTES);
    // SAFETY: this thread took the number above, and no longer uses it.
    unsafe { numbers.release(number) };
    Some(number)
}

/// As many threads as numbers: all get one.
fn one_for_each() {
    let numbers = begin();
    let other = loom::thread::spawn(|| assert!(visit(numbers, 0, 2).is_some()));
    assert!(visit(numbers, 0, 2).is_some());
    other.join().expect("the thread ends");
    scene::gather();
    assert_eq!(visit_alone(numbers), [true, true, false]);
}

/// More threads than numbers: some are refused.
fn too_few() {
    let numbers = begin();
    let threads = [(); 2].map(|()| loom::thread::spawn(|| visit(numbers, 0, 1)));
    let mine = visit(numbers, 0, 1);
    let theirs = threads.map(|thread| thread.join().expect("the thread ends"));
    assert!(theirs.into_iter().chain([mine]).any(|number| number == Some(0)), "one thread is first");
    scene::gather();
    assert_eq!(visit_alone(numbers), [true, true, false]);
}

/// A thread takes a number twice while another searches from the second number.
fn again() {
    let numbers = begin();
    let other = loom::thread::spawn(|| {
        visit(numbers, 0, 2);
        visit(numbers, 0, 2);
    });
    visit(numbers, 1, 3);
    other.join().expect("the thread ends");
    scene::gather();
    assert_eq!(visit_alone(numbers), [true, true, false]);
}

/// Whether each of three requests of one thread for a number below 2 is served.
fn visit_alone(numbers: &'static Word) -> [bool; 3] {
    [(); 3].map(|()| numbers.take(0, 2).is_some())
}

pub const MODELS: [Model; 3] = [
    Model {
        name: "a number for each",
        region_bytes: 256,
        preemptions: None,
        stores_are_ordered: false,
        execution: one_for_each,
    },
    Model {
        name: "too few numbers",
        region_bytes: 256,
        preemptions: None,
        stores_are_ordered: false,
        execution: too_few,
    },
    Model { name: "numbers again", region_bytes: 256, preemptions: None, stores_are_ordered: false, execution: again },
];
