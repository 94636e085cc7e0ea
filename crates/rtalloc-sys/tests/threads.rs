//! The thread-local word and `errno`, with real threads.

#![cfg(target_os = "linux")]

use rtalloc_sys::{errno, page_bytes, process_id, thread};

#[test]
fn every_thread_has_its_own_word_and_identity() {
    thread::set_word(7);
    let mine = thread::identity();
    let threads: Vec<_> = (1..=4)
        .map(|number| {
            std::thread::spawn(move || {
                assert_eq!(thread::word(), 0, "a new thread's word");
                thread::set_word(number);
                assert_eq!(thread::word(), number);
                assert_ne!(thread::identity(), mine);
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("the thread's assertions hold");
    }
    assert_eq!((thread::word(), thread::identity()), (7, mine));
}

#[test]
fn errno_is_restored() {
    errno::set_errno(5);
    let file = errno::keeping_errno(|| {
        // SAFETY: the literal ends with a zero.
        let file = unsafe { rtalloc_sys::syscall::open(c"/nowhere/at/all".as_ptr(), rtalloc_sys::libc::O_RDONLY, 0) };
        assert_eq!(errno::errno(), 2, "ENOENT");
        file
    });
    assert_eq!((file, errno::errno()), (-1, 5));
}

#[test]
fn the_system_answers() {
    assert!(page_bytes().is_power_of_two() && page_bytes() >= 4096);
    assert_eq!(process_id(), std::process::id());
}
