//! Arraylets through all their levels: small, a spine, a spine of spines. With pages of 1 KB the second level begins at
//! about 120 KB.

use super::ops::HandleOp;
use super::shadow::Shadow;
use crate::memory::Buffer;
use crate::ops::Op;

const HEAP_BYTES: usize = 1 << 20;

/// Sizes with no, one and two levels, and sizes around those where the levels begin.
fn sizes() -> Vec<usize> {
    let mut sizes = vec![1, 500, 2_000, 40_000, 160_000, 300_000];
    sizes.extend((896..=1_024).step_by(16).flat_map(|size_bytes| [size_bytes, size_bytes + 1]));
    sizes.extend((100_000..=128_000).step_by(4_000));
    sizes
}

/// From every size to every other, with objects of other sizes around.
pub fn levels_come_and_go() {
    let buffer = Buffer::new(HEAP_BYTES);
    let mut shadow = Shadow::new(&buffer, HEAP_BYTES, 53);
    for size_bytes in [30, 3_000, 900, 30, 70] {
        assert!(shadow.try_allocate(size_bytes));
    }
    for size_bytes in sizes() {
        assert!(shadow.try_allocate(size_bytes), "{size_bytes} bytes in a heap that is nearly empty");
        let index = shadow.live.len() - 1;
        for to_bytes in sizes() {
            shadow.apply(&HandleOp::Heap(Op::Reallocate { index, size_bytes: to_bytes, align_bytes: 1 }));
            assert_eq!(shadow.live[index].size_bytes, to_bytes, "an object of {size_bytes} bytes was not resized");
            shadow.apply(&HandleOp::Heap(Op::Reallocate { index, size_bytes, align_bytes: 1 }));
            assert_eq!(shadow.live[index].size_bytes, size_bytes, "an object of {to_bytes} bytes was not resized");
        }
        shadow.audit();
        shadow.apply(&HandleOp::Heap(Op::Free { index }));
    }
    shadow.finish();
}

/// A nearly full heap refuses a large object, and growth, after it allocated some of the parts: nothing is lost.
pub fn refused_growth_changes_nothing() {
    let buffer = Buffer::new(HEAP_BYTES);
    for left in [1, 2, 3, 40, 130, 200] {
        let mut shadow = Shadow::new(&buffer, HEAP_BYTES, 97);
        for size_bytes in [20, 960, 2_500, 121_000, 140_000] {
            assert!(shadow.try_allocate(size_bytes));
        }
        let first_filler = shadow.live.len();
        while shadow.try_allocate(900) {}
        for _ in 0..left {
            shadow.apply(&HandleOp::Heap(Op::Free { index: first_filler }));
        }
        shadow.apply(&HandleOp::Compact { budget_bytes: usize::MAX });
        let live = shadow.live.len();
        for size_bytes in [500_000, 400_000, 300_000] {
            assert!(!shadow.try_allocate(size_bytes), "{size_bytes} bytes where {left} objects were freed");
            for index in 0..first_filler {
                let before_bytes = shadow.live[index].size_bytes;
                shadow.apply(&HandleOp::Heap(Op::Reallocate {
                    index,
                    size_bytes: 140_000 + size_bytes,
                    align_bytes: 1,
                }));
                assert_eq!(shadow.live[index].size_bytes, before_bytes, "grew to {size_bytes} bytes of a full heap");
            }
            shadow.audit();
        }
        assert_eq!(shadow.live.len(), live);
        // The freed memory is available.
        shadow.apply(&HandleOp::Compact { budget_bytes: usize::MAX });
        assert!(shadow.try_allocate(900), "{left} objects were freed");
        shadow.finish();
    }
}
