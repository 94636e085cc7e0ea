//! The misuse hook: set, replaced, removed. The test runs in its own process, because all heaps of a process report to
//! the one hook.

use super::apart;
use rtalloc::contract::{Misuse, MisuseKind};
use rtalloc::hook::set_misuse_hook;
use rtalloc::{FirstFit, RegionAllocator, Tlsf};
use std::mem::MaybeUninit;
use std::sync::Mutex;

static FIRST: Mutex<Vec<Misuse>> = Mutex::new(Vec::new());
static SECOND: Mutex<Vec<Misuse>> = Mutex::new(Vec::new());

fn first(misuse: &Misuse) {
    FIRST.lock().expect("no test panicked").push(*misuse);
}

fn second(misuse: &Misuse) {
    SECOND.lock().expect("no test panicked").push(*misuse);
}

/// Frees a block twice; returns its address.
fn free_twice<'r, A: RegionAllocator<'r>>(region: &'r mut [MaybeUninit<u8>]) -> usize {
    let mut heap = A::new(region, A::Config::default()).expect("large enough");
    let block = heap.allocate_bytes(100, 8).expect("a fresh heap");
    // SAFETY: the first call is right; the second is what must be reported, and the memory was not allocated again.
    unsafe {
        heap.deallocate(block);
        heap.deallocate(block);
    }
    assert_eq!(heap.check(), Ok(()));
    block.addr().get()
}

#[test]
fn reports_go_to_the_hook_that_is_set() {
    apart::run(concat!(module_path!(), "::reports_go_to_the_hook_that_is_set"), hooks);
}

fn hooks() {
    let mut region = [MaybeUninit::new(0); 4096];
    // Without a hook the misused call is ignored.
    free_twice::<Tlsf<'_>>(&mut region);

    set_misuse_hook(Some(first));
    let address = free_twice::<Tlsf<'_>>(&mut region);
    let reported = std::mem::take(&mut *FIRST.lock().expect("no test panicked"));
    assert_eq!(reported, [Misuse { allocator: "tlsf", kind: MisuseKind::DoubleFree, address }]);
    assert!(reported[0].to_string().contains(&format!("{address:#x}")), "{}", reported[0]);

    set_misuse_hook(Some(second));
    let address = free_twice::<FirstFit<'_>>(&mut region);
    let reported = std::mem::take(&mut *SECOND.lock().expect("no test panicked"));
    assert_eq!(reported, [Misuse { allocator: "first-fit", kind: MisuseKind::DoubleFree, address }]);

    set_misuse_hook(None);
    free_twice::<Tlsf<'_>>(&mut region);
    assert!(FIRST.lock().expect("no test panicked").is_empty());
    assert!(SECOND.lock().expect("no test panicked").is_empty());
}
