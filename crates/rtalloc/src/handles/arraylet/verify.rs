//! Verification of arraylets: leaves and spines form trees, and each belongs to exactly one.

use super::{Arraylets, HANDLE_BYTES, Kind, Large, PART_BYTES, SIZE_BYTES};
use crate::contract::{Corruption, Handle, HandleAllocator, Object};
use core::num::NonZeroU64;

/// Leaves and inner spines counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Parts {
    leaves: usize,
    spines: usize,
}

impl<'r, H: HandleAllocator<'r>> Arraylets<'r, H> {
    /// Verifies that every object has a kind, that every root reaches its leaves, each of which holds this root and its
    /// index, and that there are no others.
    pub(super) fn check_trees(&self) -> Result<(), Corruption> {
        let mut outcome = Ok(());
        let (mut reached, mut present) = (Parts::default(), Parts::default());
        self.heap.walk(&mut |object| {
            if outcome.is_ok() {
                outcome = self.check_object(object, &mut reached, &mut present);
            }
        });
        outcome?;
        // Two roots cannot share a part, because it holds one position; so equal numbers leave none without a root.
        if reached != present {
            return Err(Corruption { invariant: "every leaf and spine has a root", address: 0 });
        }
        Ok(())
    }

    fn check_object(&self, object: Object, reached: &mut Parts, present: &mut Parts) -> Result<(), Corruption> {
        let broken = |invariant| Err(Corruption { invariant, address: object.address });
        let Ok((Some(kind), request_bytes)) = self.kind(object.handle) else {
            return broken("every object has a kind");
        };
        let has_spines = match kind {
            Kind::Small => return Ok(()),
            Kind::Leaf => {
                present.leaves += 1;
                return Ok(());
            }
            Kind::Spine => {
                present.spines += 1;
                return Ok(());
            }
            Kind::Root => false,
            Kind::RootOfSpines => true,
        };
        let root = object.handle;
        if request_bytes < Self::root_request(1) {
            return broken("a root has a size and a handle");
        }
        // SAFETY: the root is live and large enough.
        let size_bytes = unsafe { self.heap.dereference(root, 0).cast::<usize>().read_unaligned() };
        let large = Large { root, has_spines, size_bytes };
        let leaves = Self::leaves(size_bytes);
        let handles = Self::handles_in_root(leaves, has_spines);
        if size_bytes == 0 || handles > Self::FAN || request_bytes < Self::root_request(handles) {
            return broken("a root has room for its handles");
        }
        if has_spines {
            for index in 0..handles {
                if !self.is_part(root, SIZE_BYTES + index * HANDLE_BYTES, Kind::Spine, root, index, Self::SPINE_REQUEST)
                {
                    return broken("a root names its spines");
                }
            }
            reached.spines += handles;
        }
        for index in 0..leaves {
            let slot = self.slot(large, index);
            let least_bytes = Self::leaf_request(Self::bytes_in_leaf(size_bytes, index));
            if !self.is_part(slot.handle, slot.offset_bytes, Kind::Leaf, root, index, least_bytes) {
                return broken("a spine names its leaves");
            }
        }
        reached.leaves += leaves;
        Ok(())
    }

    /// Whether the handle at an offset of a live spine is that of part number `index` of `root`, of this kind and size.
    fn is_part(
        &self,
        spine: Handle,
        offset_bytes: usize,
        kind: Kind,
        root: Handle,
        index: usize,
        least_bytes: usize,
    ) -> bool {
        // SAFETY: the spine is live and has room for its handles.
        let bits = unsafe { self.heap.dereference(spine, offset_bytes).cast::<u64>().read_unaligned() };
        let Some(part) = NonZeroU64::new(bits).map(Handle::from_bits) else { return false };
        let Ok((Some(found), request_bytes)) = self.kind(part) else { return false };
        if found != kind || request_bytes < least_bytes {
            return false;
        }
        let place = request_bytes - PART_BYTES;
        // SAFETY: the part is live and large enough.
        let (owner, number) = unsafe {
            (
                self.heap.dereference(part, place).cast::<u64>().read_unaligned(),
                self.heap.dereference(part, place + HANDLE_BYTES).cast::<u32>().read_unaligned(),
            )
        };
        owner == root.to_bits().get() && number as usize == index
    }
}
