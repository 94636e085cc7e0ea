//! Which returns may not go back to the caller.

use super::{Callee, Flow, Graph, Node, Obstacle};
use crate::arch::{Frame, hull};
use crate::image::Image;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A call, as its caller sees it.
struct Call {
    callee: u64,
    /// The callee's stack pointer at entry, relative to that of the caller.
    stack: i64,
    /// Where the caller's return address is.
    return_address: Range<i64>,
}

/// Two sets. First, the unmatched instructions: returns and tail calls at which the stack pointer or the return address
/// is not known to be as it was at the function's entry, and instructions that overwrite a return address, directly or
/// through a callee. Second, the instructions after which this may happen unseen. A computed jump with the return
/// address in place is not among the latter, since its target follows the calling convention. Nor is a flow that
/// restores the stack pointer.
pub(crate) fn unmatched_returns<F: Frame>(graph: &Graph, image: &dyn Image) -> (BTreeSet<u64>, BTreeSet<u64>) {
    let (mut unmatched, mut unseen) = (BTreeSet::new(), BTreeSet::new());
    let mut scratch = F::Scratch::default();
    // The memory of their callers that functions write.
    let mut above: BTreeMap<u64, Range<i64>> = BTreeMap::new();
    let mut calls: BTreeMap<(u64, u64), Call> = BTreeMap::new();
    for function in graph.functions() {
        let mut frames: BTreeMap<u64, F> = BTreeMap::from([(function, F::at_entry())]);
        let mut waiting = BTreeSet::from([function]);
        while let Some(address) = waiting.pop_first() {
            let Some(node) = graph.node(address) else { continue };
            let mut frame = frames[&address];
            let hides = match node.flow {
                Flow::Unknown(Obstacle::IndirectJump) => !frame.keeps_return_address(),
                Flow::Unknown(Obstacle::Elsewhere) => !F::restores_stack(image, address),
                Flow::Unknown(_) => true,
                _ => match graph.elsewhere.get(&address) {
                    Some(Obstacle::Disputed) => true,
                    Some(Obstacle::IndirectJump) => !frame.keeps_return_address(),
                    _ => false,
                },
            };
            if hides {
                unseen.insert(address);
            }
            if matches!(node.flow, Flow::Return | Flow::Tail(_)) && !frame.is_level(image, address) {
                unmatched.insert(address);
            }
            let return_address = frame.return_address();
            if let (Some(callee), Some(stack)) = (node.callee(), frame.stack_pointer()) {
                let pushed = if matches!(node.flow, Flow::Call(_)) { F::PUSHED_BYTES } else { 0 };
                let (stack, return_address) = (stack.saturating_sub(pushed), return_address.clone());
                calls.insert((function, address), Call { callee, stack, return_address });
            }
            let executed = match node.flow {
                Flow::Call(Callee::Function(callee)) if image.symbol(callee).is_some_and(|part| part.is_outlined()) => {
                    frame.forget_link();
                    outlined::<F>(graph, image, address, callee)
                }
                _ => Some(vec![address]),
            };
            if executed.is_none() {
                unmatched.insert(address);
            }
            for at in executed.unwrap_or_default() {
                let return_address = frame.return_address();
                let Some(written) = frame.execute(image, at, &mut scratch) else { continue };
                if overlap(&written, &return_address) {
                    unmatched.insert(address);
                }
                widen::<F>(&mut above, function, written);
            }
            for successor in graph.successors(address) {
                let joined = frames.get(&successor).map_or(frame, |known| known.join(frame));
                if frames.insert(successor, joined) != Some(joined) {
                    waiting.insert(successor);
                }
            }
        }
    }
    // There, callees may overwrite return addresses of their callers. Without recursion, which has no bound, as many
    // rounds as there are functions find everything.
    for _ in 0..graph.functions.len() {
        let mut wider = false;
        for ((function, address), call) in &calls {
            let Some(written) = above.get(&call.callee) else { continue };
            let written = written.start.saturating_add(call.stack)..written.end.saturating_add(call.stack);
            if overlap(&written, &call.return_address) {
                unmatched.insert(*address);
            }
            wider |= widen::<F>(&mut above, *function, written);
        }
        if !wider {
            break;
        }
    }
    (unmatched, unseen)
}

/// The instructions that a call of an outlined function executes in the caller's frame: those functions may change any
/// register, and write through the caller's. `None` if they are not in one piece.
fn outlined<F: Frame>(graph: &Graph, image: &dyn Image, call: u64, callee: u64) -> Option<Vec<u64>> {
    // Where a call pushes, offsets from the stack pointer are others there.
    if F::PUSHED_BYTES != 0 {
        return None;
    }
    let (mut executed, mut at) = (Vec::new(), callee);
    loop {
        let Node { length, flow } = graph.node(at)?;
        let is_outlined = |callee: u64| image.symbol(callee).is_some_and(|part| part.is_outlined());
        match flow {
            Flow::Next => executed.push(at),
            Flow::Call(Callee::Function(other)) if !is_outlined(*other) => executed.push(at),
            Flow::Return => return Some(executed),
            // It does not come back.
            Flow::Stop | Flow::Call(Callee::NeverReturns { .. }) | Flow::Tail(Callee::NeverReturns { .. }) => {
                return Some(executed);
            }
            // As if the caller called the other function, at the end of this one.
            Flow::Tail(Callee::Function(other)) if !is_outlined(*other) => {
                executed.push(call);
                return Some(executed);
            }
            _ => return None,
        }
        at += u64::from(*length);
    }
}

fn overlap(one: &Range<i64>, other: &Range<i64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Adds to the memory of its callers that a function writes; returns whether that is new.
fn widen<F: Frame>(above: &mut BTreeMap<u64, Range<i64>>, function: u64, written: Range<i64>) -> bool {
    let written = written.start.max(F::CALLER)..written.end;
    let known = above.get(&function).cloned();
    let wider = hull(known.clone(), (written.start < written.end).then_some(written));
    if wider != known {
        above.extend(wider.clone().map(|wider| (function, wider)));
    }
    wider != known
}
