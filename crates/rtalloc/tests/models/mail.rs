//! The mail between slots by itself: producers who share the bit of their notices, and an owner.

use crate::controls::Model;
use crate::scene::{self, Loomed};
use rtalloc::concurrent::arenas::remote_queue::{
    Link, PUSH_STEPS, PendingBits, Pushed, QueuedFree, RemoteQueue, collect_steps,
};
use std::ptr::NonNull;

/// Letters of each producer.
const LETTERS: usize = 2;
const PRODUCERS: usize = 2;
/// Every letter's memory, with its link in front.
const LETTER_BYTES: usize = 16;
const REGION_BYTES: usize = 0x100;

/// What producers and owner share: `BITS` bits for the notices of both producers.
struct Office<const BITS: usize> {
    notices: PendingBits<Loomed, BITS>,
    boxes: [RemoteQueue<Loomed>; PRODUCERS],
    memory: NonNull<u8>,
}

impl<const BITS: usize> Office<BITS> {
    /// In a fresh region, which two threads will share.
    fn open() -> &'static Self {
        let start = NonNull::from(scene::region()).cast::<u8>();
        start.expose_provenance();
        // SAFETY: the region is aligned, and longer than the office and the letters, which lie in its second half.
        unsafe {
            let memory = start.add(REGION_BYTES / 2);
            let office = start.cast::<Self>();
            office.write(Office {
                notices: PendingBits::new(),
                boxes: [RemoteQueue::new(), RemoteQueue::new()],
                memory,
            });
            scene::share();
            office.as_ref()
        }
    }

    fn memory_of(&self, letter: QueuedFree) -> NonNull<u8> {
        // SAFETY: the letters lie behind each other, and all in the region.
        unsafe { self.memory.add(letter.get() as usize * LETTER_BYTES) }
    }

    fn link(&self, letter: QueuedFree) -> &Link<Loomed> {
        // SAFETY: the link is the first word of the letter's memory, and nothing but a link.
        unsafe { Link::at(self.memory_of(letter).as_ptr().cast()) }
    }

    /// The producer's letters, one after the other.
    fn send(&self, producer: usize) {
        for index in 0..LETTERS {
            let letter = QueuedFree::MIN.saturating_add((producer * LETTERS + index) as u32);
            scene::own(self.memory_of(letter), LETTER_BYTES);
            scene::disown(self.memory_of(letter), LETTER_BYTES);
            scene::measured(Some(PUSH_STEPS), || {
                // SAFETY: this is the producer, and the letter is in no mailbox yet.
                match unsafe { self.boxes[producer].push(letter, self.link(letter)) } {
                    Pushed::First => self.notices.set(producer),
                    Pushed::Queued => {}
                    Pushed::Duplicate => panic!("letter {letter} is in the mail"),
                }
            });
        }
    }

    /// Takes the letters of one producer out of the mail, and says how many.
    fn collect(&self) -> usize {
        let most = collect_steps(PRODUCERS, BITS);
        // SAFETY: this is the owner.
        let mut next = scene::measured(Some(most), || unsafe {
            self.notices.collect(PRODUCERS, |producer| &self.boxes[producer])
        });
        let mut count = 0;
        while let Some(letter) = next {
            scene::own(self.memory_of(letter), LETTER_BYTES);
            next = self.link(letter).next();
            count += 1;
        }
        count
    }
}

fn two_send<const BITS: usize>() {
    let office = Office::<BITS>::open();
    let producers = [0, 1].map(|producer| loom::thread::spawn(move || office.send(producer)));
    let mut count = office.collect() + office.collect();
    for producer in producers {
        producer.join().expect("a thread that ends");
    }
    if scene::is_void() {
        return;
    }
    while office.notices.any_now() {
        count += office.collect();
    }
    assert_eq!(count, PRODUCERS * LETTERS, "letters that arrived");
    scene::gather();
}

/// Two producers and an owner. Where they share a bit, a notice of one leads to letters of the other.
pub fn models() -> [Model; 2] {
    let model = |name, execution| {
        Model { name, region_bytes: REGION_BYTES, preemptions: None, stores_are_ordered: false, execution }.fewer(2)
    };
    [model("mail with a bit for each", two_send::<2>), model("mail with a bit for both", two_send::<1>)]
}
