//! An audio callback that allocates and frees notes, and frees the phrases it receives, without a lock and without
//! waiting.
//!
//! The control thread allocates phrases in its slot of the pooled arenas and sends them. The callback plays them in notes that
//! it allocates in its own slot, and frees both. A phrase that the callback frees is queued for the control thread's
//! slot. The heap reports the maximum number of steps of an operation, which does not depend on the other thread. Both
//! slots take their memory from one pool: there is enough for the notes because the control thread has at most a few
//! phrases that the callback has not freed.
//!
//! `cargo run -p rtalloc --features std --example audio_callback`

use core::ptr::NonNull;
use core::sync::atomic::{
    AtomicPtr,
    Ordering::{AcqRel, Acquire},
};
use rtalloc::contract::Operation;
use rtalloc::{PooledArenas, PooledArenasConfig, SharedAllocator, Slot};
use std::thread;

/// Frames per call of the callback: 1.3 ms at 48 kHz.
const FRAMES: usize = 64;
const PHRASES: usize = 500;

/// Notes to be played, in order of their start.
struct Phrase {
    notes: [f32; 8],
}

/// A note that sounds, in the list of sounding notes.
struct Note {
    frames_left: usize,
    phase: f32,
    step: f32,
    next: Option<NonNull<Note>>,
}

/// Moves a value into a slot's memory.
fn put<T, S: Slot>(slot: &mut S, value: T) -> Option<NonNull<T>> {
    let place = slot.allocate_bytes(size_of::<T>(), align_of::<T>()).ok()?.cast();
    // SAFETY: the block is new, large enough for a `T`, and aligned for it.
    unsafe { place.write(value) };
    Some(place)
}

/// Moves a value out and frees its memory.
///
/// # Safety
///
/// `place` came from `put` into the same heap, was not taken yet, and is not used afterwards.
unsafe fn take<T, S: Slot>(slot: &mut S, place: NonNull<T>) -> T {
    // SAFETY: `put` wrote a value to `place` in a block of this heap, which is taken once (see "Safety").
    unsafe {
        let value = place.read();
        slot.deallocate(place.cast());
        value
    }
}

/// The callback's state between calls.
struct Voice<S> {
    slot: S,
    sounding: Option<NonNull<Note>>,
    phrases: usize,
    notes: usize,
    dropped: usize,
}

impl<S: Slot> Voice<S> {
    /// One call: starts the notes of a received phrase, and mixes a block of the sounding notes.
    fn callback(&mut self, sent: Option<NonNull<Phrase>>, out: &mut [f32; FRAMES]) {
        if let Some(phrase) = sent {
            // SAFETY: the control thread `put` the phrase into this heap and does not use it after sending it.
            let phrase = unsafe { take(&mut self.slot, phrase) };
            self.phrases += 1;
            for step in phrase.notes {
                let note = Note { frames_left: 3 * FRAMES, phase: 0.0, step, next: self.sounding };
                match put(&mut self.slot, note) {
                    Some(note) => {
                        self.sounding = Some(note);
                        self.notes += 1;
                    }
                    // Without memory a note is dropped; the buffer is not late.
                    None => self.dropped += 1,
                }
            }
        }
        out.fill(0.0);
        let mut rest = self.sounding.take();
        while let Some(place) = rest {
            // SAFETY: `place` came from `put` and was not taken yet; only this thread uses the notes.
            let note = unsafe { &mut *place.as_ptr() };
            rest = note.next;
            for frame in out.iter_mut() {
                note.phase = (note.phase + note.step) % 1.0;
                *frame += 0.1 * (note.phase - 0.5);
            }
            note.frames_left -= FRAMES;
            if note.frames_left == 0 {
                // SAFETY: `place` came from `put`, is no longer in the list, and is not used afterwards.
                let _ = unsafe { take(&mut self.slot, place) };
            } else {
                note.next = self.sounding.replace(place);
            }
        }
    }
}

fn main() -> Result<(), Box<dyn core::error::Error>> {
    let mut memory = vec![core::mem::MaybeUninit::uninit(); 64 << 10];
    let config = PooledArenasConfig { slots: 2, ..Default::default() };
    let mut heap: PooledArenas<'_> = PooledArenas::new(&mut memory, config)?;
    let allocate = Operation::Allocate { size_bytes: size_of::<Note>(), align_bytes: align_of::<Note>() };
    let free = Operation::Deallocate { size_bytes: size_of::<Phrase>(), align_bytes: align_of::<Phrase>() };
    println!("steps of an operation are bounded: {}", [allocate, free].iter().all(|&o| heap.max_steps(o).is_some()));

    let mailbox = AtomicPtr::<Phrase>::default();
    let (phrases, notes, dropped, loudest) = thread::scope(|scope| {
        let (heap, mailbox) = (&heap, &mailbox);
        let control = scope.spawn(move || {
            let mut slot = heap.claim(0).expect("slot 0 is free");
            for number in 0..PHRASES {
                let notes = core::array::from_fn(|note| 0.001 * (1 + (number + note) % 24) as f32);
                // The callback frees what it has played. This thread may wait for that.
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
            let slot = heap.claim(1).expect("slot 1 is free");
            let mut voice = Voice { slot, sounding: None, phrases: 0, notes: 0, dropped: 0 };
            let (mut buffer, mut loudest) = ([0.0; FRAMES], 0.0_f32);
            while voice.phrases < PHRASES || voice.sounding.is_some() {
                let sent = NonNull::new(mailbox.swap(core::ptr::null_mut(), AcqRel));
                voice.callback(sent, &mut buffer);
                loudest = buffer.iter().fold(loudest, |loudest, sample| loudest.max(sample.abs()));
                // A real program waits here until the sound card needs the next buffer.
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
