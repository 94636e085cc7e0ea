//! What the language allows and loom does not explore, each as the smallest program that shows it. The heaps' sources
//! argue for the orders that forbid it. No model can test these orders: [`verify_but`](crate::controls::verify_but)
//! lists them, and fails once a model can.

use loom::sync::atomic::AtomicUsize;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

/// One thread reads a word and then a counter, while another increments the counter and then changes the word. Returns
/// whether the first sees the change and whether it sees the increment, in every execution.
fn found(look: fn(&AtomicUsize) -> usize) -> BTreeSet<(bool, bool)> {
    let all = Arc::new(Mutex::new(BTreeSet::new()));
    let found = all.clone();
    loom::model(move || {
        let words = Arc::new((AtomicUsize::new(0), AtomicUsize::new(0)));
        let other = loom::thread::spawn({
            let words = words.clone();
            move || {
                let (word, counter) = &*words;
                counter.fetch_add(1, Relaxed);
                word.fetch_add(1, Relaxed);
            }
        });
        let (word, counter) = &*words;
        let sees_change = look(word) != 0;
        let sees_increment = counter.fetch_add(0, Relaxed) != 0;
        other.join().expect("the thread ends");
        found.lock().expect("no thread panicked").insert((sees_change, sees_increment));
    });
    all.lock().expect("no thread panicked").clone()
}

/// Nothing orders these steps, so the language allows the reader to see the change but not the increment: either
/// thread's steps may take effect in reverse. loom runs the steps of a thread in program order, and its RMWs read the
/// last write. So it cannot distinguish this program from one whose steps are ordered.
#[test]
fn steps_of_a_thread_run_in_program_order() {
    let in_order = BTreeSet::from([(false, false), (false, true), (true, true)]);
    // As the search of a bitmap buddy reads, and as that of a tree buddy.
    assert_eq!(found(|word| word.load(Relaxed)), in_order);
    let by_rmw = found(|word| word.fetch_add(0, Relaxed));
    assert_eq!(by_rmw, in_order);
}

/// One thread performs an RMW that changes nothing; another stores to the word. Whichever is first, the word finally
/// holds what was stored. loom does not keep the RMW atomic against the store: the store may fall between its read and
/// its write, and is lost. So a store of the [`scene`](crate::scene) follows an RMW that changes nothing: the store is
/// then later than all RMWs before it.
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
        other.join().expect("the thread ends");
        found.lock().expect("no thread panicked").insert(word.fetch_or(0, Relaxed));
    });
    assert_eq!(*all.lock().expect("no thread panicked"), BTreeSet::from([0, 1]));
}
