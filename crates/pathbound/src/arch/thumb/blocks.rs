//! If-then blocks; see the [module](super) for how the graph shows them.

use super::decode::Flow;
use crate::image::Image;

/// A decoder of single instructions, outside if-then blocks: the length and the flow of the one at an address.
pub(super) type Decoder<'a> = &'a dyn Fn(&dyn Image, u64) -> Option<(u8, Flow)>;

/// The length of an instruction, where it goes, and the instruction that must be executed before it for that to hold.
pub(super) fn flow(decoder: Decoder<'_>, image: &dyn Image, address: u64) -> Option<(u8, Flow, Option<u64>)> {
    let (place, passed) = (address & !1, address & 1 == 1);
    let (length, flow) = decoder(image, place)?;
    let before = before(decoder, image, place)?;
    if passed {
        // The node at the odd address: one byte nearer to the next instruction.
        return (before.is_some() && transfers(flow)).then_some((length - 1, flow, before));
    }
    let inside = match (flow, before) {
        (Flow::IfThen { .. }, Some(_)) => return None,
        (flow, Some(first)) if transfers(flow) => return Some((length, Flow::Next, Some(first))),
        (Flow::IfThen { .. }, None) => true,
        (_, before) => before.is_some(),
    };
    if inside && next_transfers(decoder, image, place, length)? {
        return Some((length, Flow::Branch((place + u64::from(length)) | 1), before));
    }
    Some((length, flow, before))
}

/// Whether the next instruction is in the same block as this one, and transfers control.
fn next_transfers(decoder: Decoder<'_>, image: &dyn Image, place: u64, length: u8) -> Option<bool> {
    let next = place + u64::from(length);
    let Some((_, flow)) = decoder(image, next) else { return Some(false) };
    Some(transfers(flow) && before(decoder, image, next)? == Some(place))
}

/// Whether an instruction may go elsewhere than to the next one.
fn transfers(flow: Flow) -> bool {
    !matches!(flow, Flow::Next | Flow::IfThen { .. })
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
            Some((length, flow)) => {
                left = match flow {
                    Flow::IfThen { instructions } => instructions,
                    _ => u8::saturating_sub(left, 1),
                };
                (last, at) = (Some(at), at + u64::from(length));
            }
        }
    }
    (at == place).then(|| last.filter(|_| left > 0))
}
