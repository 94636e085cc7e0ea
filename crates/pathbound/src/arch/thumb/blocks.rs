//! If-then blocks; see the [module](super) for how the graph shows them.

use crate::arch::{Decoded, Transfer};
use crate::image::Image;

/// An instruction, as it is outside if-then blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Single {
    /// Length in bytes.
    pub length: u8,
    /// Where execution goes.
    pub transfer: Transfer,
    /// The instructions of the if-then block that it begins; 0 if it begins none.
    pub block: u8,
}

/// A decoder of single instructions: the one at an address.
pub(super) type Decoder<'a> = &'a dyn Fn(&dyn Image, u64) -> Option<Single>;

/// An instruction as the graph shows it.
pub(super) fn decoded(decoder: Decoder<'_>, image: &dyn Image, address: u64) -> Option<Decoded> {
    let (place, passed) = (address & !1, address & 1 == 1);
    let Single { length, transfer, block } = decoder(image, place)?;
    let after = before(decoder, image, place)?;
    if passed {
        // The node at the odd address: one byte nearer to the next instruction.
        let ends_block = after.is_some() && transfer != Transfer::Next;
        return ends_block.then_some(Decoded { length: length - 1, transfer, after });
    }
    if block > 0 && after.is_some() {
        return None;
    }
    let transfer = if after.is_some() || block > 0 {
        if next_transfers(decoder, image, place, length)? {
            Transfer::Branch((place + u64::from(length)) | 1)
        } else {
            // Where its condition fails, an instruction does nothing.
            Transfer::Next
        }
    } else {
        transfer
    };
    Some(Decoded { length, transfer, after })
}

/// Whether the next instruction is in the same block as this one, and transfers control.
fn next_transfers(decoder: Decoder<'_>, image: &dyn Image, place: u64, length: u8) -> Option<bool> {
    let next = place + u64::from(length);
    let Some(single) = decoder(image, next) else { return Some(false) };
    Some(single.transfer != Transfer::Next && before(decoder, image, next)? == Some(place))
}

/// Whether the condition of an instruction may fail.
pub(super) fn is_conditional(decoder: Decoder<'_>, image: &dyn Image, address: u64) -> bool {
    address & 1 == 0 && !matches!(before(decoder, image, address), Some(None))
}

/// The instruction before one in an if-then block, `Some(None)` if it is in none. Instructions are read from the
/// beginning of the function on, because the second half of an instruction may look like `it`. `None` if there is no
/// function, or if no instruction begins there.
fn before(decoder: Decoder<'_>, image: &dyn Image, place: u64) -> Option<Option<u64>> {
    let (mut at, mut last, mut left) = (image.symbol(place)?.address, None, 0);
    while at < place {
        match decoder(image, at) {
            // Data.
            None => (left, at) = (0, at + 2),
            Some(Single { length, block, .. }) => {
                left = if block > 0 { block } else { u8::saturating_sub(left, 1) };
                (last, at) = (Some(at), at + u64::from(length));
            }
        }
    }
    (at == place).then(|| last.filter(|_| left > 0))
}
