//! Whether the second decoder agrees with a graph.

use super::{Callee, Flow, Node, Obstacle};
use crate::address::Address;
use crate::second_decoder::{self, Reader, Target};

impl Node {
    /// Whether the second decoder reads the instruction at an address in the same way.
    pub(super) fn agrees(&self, address: u64, reader: &Reader<'_>) -> bool {
        let decoded = reader.decode(Address(address));
        decoded.is_ok_and(|(next, flow)| {
            next.0.wrapping_sub(address) == u64::from(self.length) && self.flow.is_read_as(&flow)
        })
    }
}

impl Flow {
    /// Whether the second decoder finds the same flow.
    pub(crate) fn is_read_as(&self, other: &second_decoder::Flow) -> bool {
        use second_decoder::Flow as S;
        match (other, self) {
            (S::Next, Self::Next)
            | (S::Uncounted, Self::NextPast(Obstacle::Repeat | Obstacle::Kernel))
            | (S::Return, Self::Return)
            | (S::Trap, Self::Stop | Self::NextPast(Obstacle::Trap))
            | (S::Jump(Target::Computed), Self::Unknown(Obstacle::IndirectJump))
            | (S::Elsewhere, Self::Unknown(Obstacle::Elsewhere)) => true,
            (S::Branch(target), Self::Branch(address) | Self::Unknown(Obstacle::NoCode(address)))
            | (S::Jump(Target::Address(target)), Self::Jump(address) | Self::Unknown(Obstacle::NoCode(address))) => {
                target.0 == *address
            }
            (S::Call(target), Self::Call(callee)) | (S::Jump(target), Self::Tail(callee)) => match (target, callee) {
                (Target::Address(target), Callee::Function(address) | Callee::Unknown(Obstacle::NoCode(address)))
                | (Target::Address(target), Callee::NeverReturns { address: Some(address), .. }) => {
                    target.0 == *address
                }
                (Target::External(target), Callee::NeverReturns { address: None, name, .. })
                | (Target::External(target), Callee::Unknown(Obstacle::ExternalCall(name))) => target == name,
                (Target::Computed, Callee::Unknown(Obstacle::IndirectCall | Obstacle::IndirectJump)) => true,
                _ => false,
            },
            _ => false,
        }
    }
}
