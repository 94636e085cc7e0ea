//! The sizes granted for requests of every size, and the cost of the first operations in a heap (6.3); the thesis'
//! measurements exclude both.

use super::allocators;
use crate::papers::thesis::result::{Granted, LARGEST_BYTES, Opening, Openings};
use pathbound::counter::executed;
use pathbound::image::Process;
use rtalloc_lab::probe::counting;
use rtalloc_lab::replay::isolate::{Child, Death, undecided};
use rtalloc_subjects::{Entries, Heap, Region, Subject};
use std::time::Duration;

/// Alignment of the requests, in bytes.
const ALIGN_BYTES: usize = 8;

/// Time limit per allocator.
const LIMIT: Duration = Duration::from_secs(60);

/// The size granted by every allocator for every request, in an otherwise empty heap.
pub fn sizes(heap_bytes: usize) -> Vec<Granted> {
    let of = |name: &str| {
        let subject = allocators::subject(name)?;
        apart(|| {
            on_heap(subject, subject.entries, heap_bytes, |heap| {
                (1..=LARGEST_BYTES as usize).map(|size| granted(heap, size)).collect()
            })
        })
    };
    allocators::names().into_iter().map(|name| Granted { name: name.into(), bytes: of(name) }).collect()
}

fn granted(heap: &Heap<'_>, size: usize) -> Result<u64, String> {
    let granted = heap.entries.granted.ok_or("it does not report granted sizes")?;
    // SAFETY: size and alignment form a valid Layout; the block is live until it is freed with the same size and
    // alignment.
    unsafe {
        let block = (heap.entries.allocate_at(ALIGN_BYTES))(heap.context, size, ALIGN_BYTES);
        if block.is_null() {
            return Err(format!("refused {size} bytes in an empty heap"));
        }
        let bytes = granted(heap.context, block, size, ALIGN_BYTES);
        (heap.entries.deallocate)(heap.context, block, size, ALIGN_BYTES);
        Ok(bytes as u64)
    }
}

/// Instructions of the first operations in a heap, which take a page, split a block as often as possible, and undo it.
pub fn openings(process: &Process, heap_bytes: usize) -> Vec<Opening> {
    let of = |name: &str| {
        let subject = allocators::subject(name)?;
        apart(|| counting(process, subject, |entries| opened(subject, entries, heap_bytes)))
    };
    allocators::names().into_iter().map(|name| Opening { name: name.into(), counts: of(name) }).collect()
}

fn opened(subject: &Subject, entries: Entries, heap_bytes: usize) -> Result<Openings, String> {
    /// One small chunk, and all large chunks of a frame.
    const SIZES: [usize; 2] = [8, LARGEST_BYTES as usize];
    /// Blocks that fill several pages of 1 KiB.
    const MANY: usize = 400;
    let [small, large] = SIZES.map(|size| {
        on_heap(subject, entries, heap_bytes, |heap| {
            let mut counts = [0; 4];
            // SAFETY: as in `granted`; both blocks are freed once.
            unsafe {
                let allocate = heap.entries.allocate_at(ALIGN_BYTES);
                let deallocate = heap.entries.deallocate;
                let before = executed();
                let first = allocate(heap.context, size, ALIGN_BYTES);
                counts[0] = executed().wrapping_sub(before);
                let before = executed();
                let second = allocate(heap.context, size, ALIGN_BYTES);
                counts[1] = executed().wrapping_sub(before);
                if first.is_null() || second.is_null() {
                    return Err("refused a request in an empty heap".into());
                }
                deallocate(heap.context, first, size, ALIGN_BYTES);
                let before = executed();
                deallocate(heap.context, second, size, ALIGN_BYTES);
                counts[2] = executed().wrapping_sub(before);
                // Pages are taken, returned, and taken again, each when the one before is full.
                for _ in 0..2 {
                    let mut blocks = [std::ptr::null_mut(); MANY];
                    for block in &mut blocks {
                        let before = executed();
                        *block = allocate(heap.context, size, ALIGN_BYTES);
                        counts[3] = executed().wrapping_sub(before).max(counts[3]);
                        if block.is_null() {
                            return Err("refused a request".into());
                        }
                    }
                    blocks.into_iter().for_each(|block| deallocate(heap.context, block, size, ALIGN_BYTES));
                }
            }
            Ok(counts)
        })
    });
    let ([small, small_again, free_last, after], [large, large_again, _, after_large]) = (small?, large?);
    Ok(Openings { small, small_again, large, large_again, free_last, returned: after.max(after_large) })
}

fn on_heap<T>(
    subject: &Subject,
    entries: Entries,
    heap_bytes: usize,
    job: impl FnOnce(&Heap<'_>) -> Result<T, String>,
) -> Result<T, String> {
    let mut region = Region::new(heap_bytes, false).map_err(|error| error.to_string())?;
    let subject = Subject { entries, ..*subject };
    let heap = Heap::new(&subject, &mut region, heap_bytes).map_err(|refusal| refusal.to_string())?;
    job(&heap)
}

/// Runs a job in a process of its own. If it times out or is killed, the task fails too.
fn apart<T: serde::Serialize + serde::de::DeserializeOwned>(
    job: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    match Child::spawn(|_| job()).map_err(|error| error.to_string())?.wait::<Result<T, String>>(LIMIT) {
        Ok(found) => found,
        Err(death) if death.is_from_outside() => undecided("killed"),
        Err(death @ Death::Hung { .. }) => undecided(&death.to_string()),
        Err(death) => Err(death.to_string()),
    }
}

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_request_of_65_bytes_takes_two_chunks_of_64() {
        let sizes = sizes(1 << 20);
        let of = |name: &str| sizes.iter().find(|granted| granted.name == name).expect("everybody");
        let bytes = of("bframe").bytes.as_ref().expect("served");
        assert_eq!((bytes[0], bytes[63], bytes[64], bytes[127], bytes[511]), (8, 64, 128, 128, 512));
        assert_eq!(of("bframe").worst(8), Some((65, 128)));
        assert_eq!(of("bframe").worst(1), Some((1, 8)));
        for granted in &sizes {
            let bytes = granted.bytes.as_ref().unwrap_or_else(|what| panic!("{}: {what}", granted.name));
            assert!(bytes.len() == 512 && (1..).zip(bytes).all(|(size, granted)| *granted >= size), "{}", granted.name);
        }
    }

    #[test]
    fn taking_a_page_costs_more_and_all_its_frames_most() {
        let process = Process::current().expect("this process");
        let openings = openings(&process, 1 << 20);
        assert_eq!(openings.len(), 11);
        let of = |name: &str| {
            let opening = openings.iter().find(|opening| opening.name == name).expect("a variant");
            *opening.counts.as_ref().expect("counted")
        };
        let (lazy, eager) = (of("bframe"), of("bframe, eager"));
        for counts in [lazy, eager] {
            assert!(counts.small > counts.small_again && counts.large > counts.large_again, "{counts:?}");
        }
        assert!(eager.small > 3 * lazy.small, "{eager:?} {lazy:?}");
        assert_eq!(eager.small_again, lazy.small_again);
    }
}
