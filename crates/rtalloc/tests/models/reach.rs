//! What the language allows and loom does not explore, each as the smallest program that shows it. The orders that forbid it in
//! the heaps are argued where they stand, and no model can miss them: [`verify_but`](crate::controls::verify_but) names them, and
//! fails as soon as a model does.

use loom::sync::atomic::AtomicUsize;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

/// What a thread finds that looks at a word and then at the number of those who began, while another begins and then changes the
/// word: whether it sees the change, and whether the beginning.
fn found(look: fn(&AtomicUsize) -> usize) -> BTreeSet<(bool, bool)> {
    let all = Arc::new(Mutex::new(BTreeSet::new()));
    let found = all.clone();
    loom::model(move || {
        let words = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let other = loom::thread::spawn({
            let words = words.clone();
            move || {
                let (word, begun) = &*words;
                begun.fetch_add(1, Relaxed);
                word.fetch_add(1, Relaxed);
            }
        });
        let (word, begun) = &*words;
        let sees_change = look(word) != 0;
        let sees_beginning = begun.fetch_add(0, Relaxed) != 0;
        other.join().expect("a thread that ends");
        found.lock().expect("nobody panicked").insert((sees_change, sees_beginning));
    });
    all.lock().expect("nobody panicked").clone()
}

/// Nothing orders these steps, so the language allows that the change is seen and the beginning is not: the look may be made after the
/// other step of its thread, or the change before the beginning. loom makes the steps of a thread one after the other, and
/// a step that reads and writes reads what was written last. So nothing tells a program whose steps are ordered from this one.
#[test]
fn steps_of_a_thread_are_made_in_turn() {
    let in_turn = BTreeSet::from([(false, false), (false, true), (true, true)]);
    // As a search of a bitmap buddy looks, and as one of a tree buddy does.
    assert_eq!(found(|word| word.load(Relaxed)), in_turn);
    let by_changes = found(|word| word.fetch_add(0, Relaxed));
    assert_eq!(by_changes, in_turn);
}

/// A thread changes nothing in a word, in a step that reads and writes; another stores to it. Whichever is first, the word is what
/// was stored in the end. loom forgets that nothing comes between what such a step reads and what it writes: the store may come there,
/// and is lost. So a store of the [`scene`](crate::scene) follows a change of nothing: then it is later than all changes before it.
#[test]
fn a_store_is_lost() {
    let all = Arc::new(Mutex::new(BTreeSet::new()));
    let found = all.clone();
    loom::model(move || {
        let word = Arc::new(AtomicUsize::new(0));
        let other = loom::thread::spawn({
            let word = word.clone();
            move || {
                word.fetch_or(0, Relaxed);
            }
        });
        word.store(1, Relaxed);
        other.join().expect("a thread that ends");
        found.lock().expect("nobody panicked").insert(word.fetch_or(0, Relaxed));
    });
    assert_eq!(*all.lock().expect("nobody panicked"), BTreeSet::from([0, 1]));
}
