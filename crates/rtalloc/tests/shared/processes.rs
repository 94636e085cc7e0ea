//! Two processes share a heap: it lies in a region that both map at the same address. One stops in the middle of an
//! operation; the other continues.

use crate::subject::{HeapSlot, Subject};
use crate::watch;
use crate::world::{User, World};
use std::cell::Cell;
use std::ptr::NonNull;

/// Operations of the other process while one is stopped.
const ACTS: usize = 40;

thread_local! {
    /// Steps before this process stops itself.
    static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
}

fn step() {
    let left = LEFT.get();
    LEFT.set(left.wrapping_sub(1));
    if left == 0 {
        // SAFETY: a signal that stops this process.
        unsafe { libc::raise(libc::SIGSTOP) };
    }
}

/// Memory that this process shares with its children.
fn common(len_bytes: usize) -> NonNull<u8> {
    // SAFETY: a new mapping.
    let memory = unsafe {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), len_bytes, access, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)
    };
    assert_ne!(memory, libc::MAP_FAILED);
    NonNull::new(memory.cast()).expect("a mapping is not at zero")
}

/// Waits until a child stops or ends; returns whether it stopped.
fn stops(child: libc::pid_t) -> bool {
    let mut status = 0;
    // SAFETY: the child is this process's own.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, libc::WUNTRACED) }, child);
    assert!(
        libc::WIFSTOPPED(status) || (libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0),
        "status {status:#x}"
    );
    libc::WIFSTOPPED(status)
}

/// Stops a process at every step of an allocation, of a free of its own block, and of a free of another's. The process
/// is killed there, or continues, and then the heap is as good as new.
pub fn stopped_at_every_step(subject: &'static Subject) {
    let memory = common(subject.large_bytes + 4096);
    // SAFETY: the mapping is longer than that, and has no other user, here and below. The capacity may depend on the
    // address.
    let fresh = unsafe { World::at(subject.watched, memory, subject.large_bytes, 2) };
    let capacity = fresh.capacity(2, subject.sizes[0]);
    let mut places = 0;
    for is_killed in [false, true] {
        for after in 0.. {
            // SAFETY: the mapping is longer than that; the previous child has ended.
            let world = unsafe { World::at(subject.watched, memory, subject.large_bytes, 2) };
            let mut user = User::new(&world, 0, after as u64);
            let parcel = user.allocate(subject.sizes[0], 1).expect("a fresh heap has room");
            // SAFETY: the child does nothing but use the heap and end: it needs no lock that another thread may hold.
            let child = unsafe { libc::fork() };
            assert!(child >= 0, "a process more");
            if child == 0 {
                // The heap's words do not say which user owns a block, and each process has its own record.
                let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    // SAFETY: slot 1 is this process's own.
                    let mut slot = unsafe { world.heap.slot(1) };
                    LEFT.set(after);
                    watch::at_every_step(Some(step), None);
                    use_heap(&mut slot, subject.sizes, parcel.pointer);
                }));
                // SAFETY: ends this process and nothing else.
                unsafe { libc::_exit(i32::from(answer.is_err())) };
            }
            let has_stopped = stops(child);
            // The child has the parcel.
            world.books.disown(parcel.pointer, parcel.usable_bytes);
            (0..ACTS).for_each(|_| user.act(&subject.sizes[..1]));
            let served = user.allocate(subject.sizes[0], 1);
            let served = served.unwrap_or_else(|error| {
                panic!("refused while another process is stopped after {after} steps: {error}")
            });
            user.free(served);
            if !has_stopped {
                places += after;
                break;
            }
            let signal = if is_killed { libc::SIGKILL } else { libc::SIGCONT };
            // SAFETY: the child is this process's own.
            unsafe { libc::kill(child, signal) };
            if is_killed {
                let mut status = 0;
                // SAFETY: the child is this process's own.
                assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            } else {
                assert!(!stops(child), "the process stops once");
                drop(user);
                world.close(2, subject.sizes[0], capacity);
            }
        }
    }
    assert!(places > 0, "the process makes no step");
    println!("{}: a process stopped at {places} places", subject.name());
}

fn use_heap(slot: &mut HeapSlot, sizes: &[usize], parcel: NonNull<u8>) {
    let mine = sizes.first().and_then(|&size_bytes| slot.allocate_bytes(size_bytes, 1).ok());
    // SAFETY: the parent no longer uses the parcel, and the other block is this process's own.
    unsafe {
        slot.deallocate(parcel);
        if let Some(block) = mine {
            slot.deallocate(block);
        }
    }
    slot.reclaim(1);
}
