//! A program with several threads, which tests its global allocator: threads start and end, and free memory that others
//! allocated. The results do not depend on the allocator.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

/// Runs the program; fails if a result is wrong.
pub fn runs(threads_at_a_time: usize) {
    threads_come_and_go();
    threads_share_what_a_scope_owns();
    channels_pass_memory();
    a_crowd_works_at_once(threads_at_a_time);
    memory_is_resized_and_passed_on();
    destructors_of_threads_allocate();
}

/// Words made from a number, each a small allocation.
fn words(number: usize) -> Vec<String> {
    (0..1 + number % 7).map(|index| format!("{number}:{}", "x".repeat(1 + (number * 31 + index * 17) % 90))).collect()
}

fn characters(words: &[String]) -> usize {
    words.iter().map(String::len).sum()
}

/// Hundreds of threads, a few at a time; each passes its result to the thread that joins it.
fn threads_come_and_go() {
    let mut kept = HashMap::new();
    for round in 0..100 {
        let threads = [0, 1, 2, 3].map(|index| {
            thread::spawn(move || {
                let number = round * 4 + index;
                let mut map = HashMap::new();
                for key in 0..20 {
                    map.insert(format!("key {key} of {number}"), words(number + key));
                }
                map.retain(|_, words| words.len() % 2 == 1);
                (number, map)
            })
        });
        for thread in threads {
            let (number, map) = thread.join().expect("no panic");
            kept.insert(number, map);
        }
        kept.retain(|number, _| number % 5 != round % 5);
    }
    for (number, map) in kept {
        assert_eq!(map.len(), (0..20).filter(|key| words(number + key).len() % 2 == 1).count());
        for key in 0..20 {
            let expected = Some(words(number + key)).filter(|words| words.len() % 2 == 1);
            assert_eq!(map.get(&format!("key {key} of {number}")), expected.as_ref());
        }
    }
}

/// Scoped threads write to values of the scope, and free memory that it allocated.
fn threads_share_what_a_scope_owns() {
    for round in 0..50 {
        let mut parts: Vec<Vec<String>> = (0..4).map(|index| words(round + index)).collect();
        let total = Mutex::new(0);
        thread::scope(|scope| {
            for (index, part) in parts.iter_mut().enumerate() {
                let total = &total;
                scope.spawn(move || {
                    let more = words(round * index);
                    part.retain(|word| word.len() % 2 == 0);
                    part.extend(more);
                    *total.lock().expect("no thread panicked") += characters(part);
                });
            }
        });
        let expected: usize = (0..4)
            .map(|index| {
                let mut part = words(round + index);
                part.retain(|word| word.len() % 2 == 0);
                characters(&part) + characters(&words(round * index))
            })
            .sum();
        assert_eq!(total.into_inner().expect("no thread panicked"), expected);
        assert_eq!(parts.iter().map(|part| characters(part)).sum::<usize>(), expected);
    }
}

/// Producers allocate, consumers free: every block is freed by another thread than its owner.
fn channels_pass_memory() {
    const MESSAGES: usize = 5000;
    let (sender, receiver) = sync_channel::<(usize, Vec<String>)>(100);
    let (totals, sums) = channel::<Box<usize>>();
    let receiver = Arc::new(Mutex::new(receiver));
    let producers: Vec<_> = (0..3)
        .map(|producer| {
            let sender = sender.clone();
            thread::spawn(move || {
                for index in 0..MESSAGES {
                    let number = producer * MESSAGES + index;
                    sender.send((number, words(number))).expect("the receiver exists");
                }
            })
        })
        .collect();
    drop(sender);
    let consumers: Vec<_> = (0..2)
        .map(|_| {
            let (receiver, totals) = (Arc::clone(&receiver), totals.clone());
            thread::spawn(move || {
                loop {
                    let message = receiver.lock().expect("no thread panicked").recv();
                    let Ok((number, received)) = message else { break };
                    assert_eq!(received, words(number));
                    totals.send(Box::new(characters(&received))).expect("the sum is awaited");
                }
            })
        })
        .collect();
    drop(totals);
    let sum: usize = sums.iter().map(|total| *total).sum();
    for thread in producers.into_iter().chain(consumers) {
        thread.join().expect("no panic");
    }
    assert_eq!(sum, (0..3 * MESSAGES).map(|number| characters(&words(number))).sum());
}

/// All threads work at the same time, and pass their values around a ring.
fn a_crowd_works_at_once(threads: usize) {
    let barrier = Arc::new(Barrier::new(threads));
    let (senders, receivers): (Vec<_>, Vec<_>) =
        (0..threads).map(|_| channel::<BTreeMap<usize, Vec<String>>>()).unzip();
    let mut next: Vec<_> = senders.clone();
    next.rotate_left(1);
    drop(senders);
    let workers: Vec<_> = receivers
        .into_iter()
        .zip(next)
        .enumerate()
        .map(|(index, (receiver, next))| {
            let barrier = Arc::clone(&barrier);
            thread::spawn(move || {
                barrier.wait();
                let mut held: BTreeMap<_, _> = (0..50).map(|key| (key, words(index + key))).collect();
                for round in 0..20 {
                    next.send(held).expect("the neighbour is there");
                    held = receiver.recv().expect("the other neighbour is there");
                    let origin = (index + 2 * threads * 20 - round - 1) % threads;
                    for (key, found) in &mut held {
                        assert_eq!(*found, words(origin + key), "what thread {origin} made, in round {round}");
                        // The same content in new memory.
                        *found = found.clone();
                    }
                }
                barrier.wait();
                held.len()
            })
        })
        .collect();
    for worker in workers {
        assert_eq!(worker.join().expect("no panic"), 50);
    }
}

/// Blocks grow in one thread after another, up to about 100 KiB.
fn memory_is_resized_and_passed_on() {
    let mut numbers: Vec<u64> = Vec::new();
    for round in 0..12u64 {
        let begin = numbers.len() as u64;
        numbers = thread::spawn(move || {
            numbers.extend(begin..begin + 1000 + round);
            numbers.shrink_to_fit();
            numbers
        })
        .join()
        .expect("no panic");
    }
    assert!(numbers.iter().copied().eq(0..numbers.len() as u64));
    #[repr(align(256))]
    struct Aligned([u8; 300]);
    let aligned: Vec<Box<Aligned>> = (0..20).map(|byte| Box::new(Aligned([byte; 300]))).collect();
    thread::spawn(move || {
        for (byte, block) in aligned.into_iter().enumerate() {
            assert!(std::ptr::from_ref(&*block).addr().is_multiple_of(256));
            assert_eq!(block.0, [byte as u8; 300]);
        }
    })
    .join()
    .expect("no panic");
}

/// The destructor of a thread-local value allocates and frees when its thread ends.
fn destructors_of_threads_allocate() {
    static LEFT: Mutex<Vec<String>> = Mutex::new(Vec::new());

    struct Leaves(Vec<String>);

    impl Drop for Leaves {
        fn drop(&mut self) {
            let joined = self.0.join(" ");
            LEFT.lock().expect("no thread panicked").push(joined);
            self.0.clear();
        }
    }

    thread_local! {
        static LEAVES: std::cell::RefCell<Leaves> = const { std::cell::RefCell::new(Leaves(Vec::new())) };
    }

    for number in 0..50 {
        thread::spawn(move || LEAVES.with_borrow_mut(|leaves| leaves.0 = words(number))).join().expect("no panic");
    }
    let left = std::mem::take(&mut *LEFT.lock().expect("no thread panicked"));
    assert_eq!(left, (0..50).map(|number| words(number).join(" ")).collect::<Vec<_>>());
}
