//! An audio callback that allocates: notes begin and end in it, and what it is sent it frees, without a lock and without waiting.
//!
//! The control thread makes phrases in its slot of the arenas and sends them; the callback plays them, in notes that it
//! allocates in its own slot, and frees both. A phrase that the callback frees is mailed back to the control thread's slot.
//! How many steps an operation takes at the most is asked of the heap, and counted in no case to depend on the other thread.
//!
//! `cargo run -p rtalloc --features std --example audio_callback`

use core::ptr::NonNull;
use core::sync::atomic::{
    AtomicPtr,
    Ordering::{AcqRel, Acquire},
};
use rtalloc::contract::Operation;
use rtalloc::{Arenas, ArenasConfig, SharedAllocator, Slot};
use std::thread;

/// Frames of one call of the callback: at 48 kHz it has 1.3 ms.
const FRAMES: usize = 64;
const PHRASES: usize = 500;

/// Notes to be played, in the order they begin.
struct Phrase {
    notes: [f32; 8],
}

/// A note that sounds, in a list of those that do.
struct Note {
    frames_left: usize,
    phase: f32,
    step: f32,
    next: Option<NonNull<Note>>,
}

/// Puts a value into a slot's memory.
fn put<T, S: Slot>(slot: &mut S, value: T) -> Option<NonNull<T>> {
    let place = slot.allocate_bytes(size_of::<T>(), align_of::<T>()).ok()?.cast();
    // SAFETY: the block is new, large enough and aligned.
    unsafe { place.write(value) };
    Some(place)
}

/// Takes a value out, and frees its memory.
///
/// # Safety
///
/// `place` came from `put` into the same heap, and nobody uses it any more.
unsafe fn take<T, S: Slot>(slot: &mut S, place: NonNull<T>) -> T {
    // SAFETY: the caller's promise.
    unsafe {
        let value = place.read();
        slot.deallocate(place.cast());
        value
    }
}

/// What the callback has between its calls.
struct Voice<S> {
    slot: S,
    sounding: Option<NonNull<Note>>,
    phrases: usize,
    notes: usize,
    dropped: usize,
}

impl<S: Slot> Voice<S> {
    /// One call: begins the notes of a phrase that was sent, and mixes a block of those that sound.
    fn callback(&mut self, sent: Option<NonNull<Phrase>>, out: &mut [f32; FRAMES]) {
        if let Some(phrase) = sent {
            // SAFETY: the control thread put it there, and gave it away by sending it.
            let phrase = unsafe { take(&mut self.slot, phrase) };
            self.phrases += 1;
            for step in phrase.notes {
                let note = Note { frames_left: 3 * FRAMES, phase: 0.0, step, next: self.sounding };
                match put(&mut self.slot, note) {
                    Some(note) => {
                        self.sounding = Some(note);
                        self.notes += 1;
                    }
                    // No memory is a note less, not a late buffer.
                    None => self.dropped += 1,
                }
            }
        }
        out.fill(0.0);
        let mut rest = self.sounding.take();
        while let Some(place) = rest {
            // SAFETY: the callback's own note.
            let note = unsafe { &mut *place.as_ptr() };
            rest = note.next;
            for frame in out.iter_mut() {
                note.phase = (note.phase + note.step) % 1.0;
                *frame += 0.1 * (note.phase - 0.5);
            }
            note.frames_left -= FRAMES;
            if note.frames_left == 0 {
                // SAFETY: it sounds no more, and is in no list.
                let _ = unsafe { take(&mut self.slot, place) };
            } else {
                note.next = self.sounding.replace(place);
            }
        }
    }
}

fn main() -> Result<(), Box<dyn core::error::Error>> {
    let mut memory = vec![core::mem::MaybeUninit::uninit(); 64 << 10];
    let config = ArenasConfig { slots: 2, ..Default::default() };
    let mut heap: Arenas<'_> = Arenas::new(&mut memory, config)?;
    let allocate = Operation::Allocate { size_bytes: size_of::<Note>(), align_bytes: align_of::<Note>() };
    let free = Operation::Deallocate { size_bytes: size_of::<Phrase>(), align_bytes: align_of::<Phrase>() };
    println!("steps of an operation are bounded: {}", [allocate, free].iter().all(|&o| heap.most_steps(o).is_some()));

    let mailbox = AtomicPtr::<Phrase>::default();
    let (phrases, notes, dropped, loudest) = thread::scope(|scope| {
        let (heap, mailbox) = (&heap, &mailbox);
        let control = scope.spawn(move || {
            let mut slot = heap.claim(0).expect("nobody has slot 0");
            for number in 0..PHRASES {
                let notes = core::array::from_fn(|note| 0.001 * (1 + (number + note) % 24) as f32);
                // The callback gives back what it has played; until then a little patience, which this thread may have.
                let phrase = loop {
                    match put(&mut slot, Phrase { notes }) {
                        Some(phrase) => break phrase,
                        None => thread::yield_now(),
                    }
                };
                while mailbox.compare_exchange(core::ptr::null_mut(), phrase.as_ptr(), AcqRel, Acquire).is_err() {
                    thread::yield_now();
                }
            }
        });
        let audio = scope.spawn(move || {
            let slot = heap.claim(1).expect("nobody has slot 1");
            let mut voice = Voice { slot, sounding: None, phrases: 0, notes: 0, dropped: 0 };
            let (mut buffer, mut loudest) = ([0.0; FRAMES], 0.0_f32);
            while voice.phrases < PHRASES || voice.sounding.is_some() {
                let sent = NonNull::new(mailbox.swap(core::ptr::null_mut(), AcqRel));
                voice.callback(sent, &mut buffer);
                loudest = buffer.iter().fold(loudest, |loudest, sample| loudest.max(sample.abs()));
                // A sound card would wait here until it needs the next buffer.
                thread::yield_now();
            }
            (voice.phrases, voice.notes, voice.dropped, loudest)
        });
        control.join().expect("no panic");
        audio.join().expect("no panic")
    });
    println!("phrases: {phrases}, notes: {notes}, dropped: {dropped}, sound: {}", loudest > 0.0);
    heap.check()?;
    println!("intact: true");
    Ok(())
}
