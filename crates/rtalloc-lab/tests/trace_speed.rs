//! Traces are written and read at the speed of the laboratory: 10^7 operations in seconds.
//!
//! One million operations here, so that the limit also holds in a build with checks on a busy machine;
//! `cargo test --release -p rtalloc-lab --test trace_speed -- --nocapture` prints the rate.

use rtalloc_lab::trace::{Reader, Writer};
use rtalloc_lab::workload::Model;
use std::mem::MaybeUninit;
use std::time::Duration;

/// Operations, about: half of them allocations.
const OPERATIONS: u64 = 1_000_000;

/// Ten million operations in half a minute would still be seconds; the rate is some fifty times this.
const SLOWEST_PER_SECOND: f64 = 300_000.0;

/// Processor time of this thread.
fn used() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::zeroed();
    // SAFETY: a valid place for a structure of which every bit pattern is a value.
    let time = unsafe {
        assert_eq!(libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()), 0);
        time.assume_init()
    };
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).expect("nanoseconds"))
}

#[test]
fn a_million_operations_are_written_and_read_back_in_seconds() {
    let model = Model::parse(&format!("p3 --mallocs {}", OPERATIONS / 2)).unwrap();
    let mut events = Vec::new();
    model.generate(1, &mut events).unwrap();

    let started = used();
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &model.meta(1)).unwrap();
    for event in &events {
        writer.push(event).unwrap();
    }
    let totals = writer.finish().unwrap();
    let writing = (used() - started).as_secs_f64();

    let started = used();
    let mut reader = Reader::new(file.as_slice()).unwrap();
    let (mut chunk, mut position) = (Vec::new(), 0);
    while reader.next_chunk(&mut chunk).unwrap() {
        assert!(chunk == events[position..position + chunk.len()]);
        position += chunk.len();
    }
    let reading = (used() - started).as_secs_f64();

    assert_eq!(position, events.len());
    assert_eq!(reader.totals(), Some(&totals));
    let rate = |seconds: f64| events.len() as f64 / seconds;
    println!(
        "{} operations in {} bytes: {:.1} million/s written, {:.1} million/s read and compared",
        events.len(),
        file.len(),
        rate(writing) / 1e6,
        rate(reading) / 1e6
    );
    assert!(rate(writing) > SLOWEST_PER_SECOND, "written in {writing} s");
    assert!(rate(reading) > SLOWEST_PER_SECOND, "read in {reading} s");
}
