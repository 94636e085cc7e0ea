//! Comparing the two decoders of an instruction set.

use super::{Arch, Decoded, Target, Transfer};
use crate::address::Address;
use crate::image::{Image, Pointer, Source, Symbol};
use crate::second_decoder::{Flow, Reader, Target as OtherTarget};

/// Code without anything else.
struct Code {
    arch: Arch,
    bytes: Vec<u8>,
}

const START: u64 = 0x8000;

impl Image for Code {
    fn arch(&self) -> Arch {
        self.arch
    }

    fn code(&self, address: u64) -> Option<&[u8]> {
        let offset = usize::try_from(address.checked_sub(START)?).ok()?;
        self.bytes.get(offset..).filter(|code| !code.is_empty())
    }

    fn pointer(&self, _: u64) -> Option<Pointer> {
        None
    }

    fn symbol(&self, _: u64) -> Option<Symbol> {
        Some(Symbol { name: String::new(), linkage_name: String::new(), address: START, size: 0 })
    }

    fn find(&self, _: &str) -> Vec<Symbol> {
        Vec::new()
    }

    fn source(&self, _: u64) -> Vec<Source> {
        Vec::new()
    }
}

/// Whether the two decoders find the same flow.
fn same(transfer: Transfer, flow: &Flow) -> bool {
    let target = |one: Target, other: &OtherTarget| match (one, other) {
        (Target::Address(one), OtherTarget::Address(other)) => one == other.0,
        // This code has no pointers.
        (Target::Computed | Target::Pointer(_), OtherTarget::Computed) => true,
        _ => false,
    };
    match (transfer, flow) {
        (Transfer::Next, Flow::Next)
        | (Transfer::Kernel, Flow::Uncounted)
        | (Transfer::Return, Flow::Return)
        | (Transfer::Trap, Flow::Trap)
        | (Transfer::Elsewhere, Flow::Elsewhere) => true,
        (Transfer::Jump(one), Flow::Jump(other)) | (Transfer::Call(one), Flow::Call(other)) => target(one, other),
        (Transfer::Branch(one), Flow::Branch(other)) => one == other.0,
        _ => false,
    }
}

/// Decodes the instruction at an offset by both decoders, which must agree; returns whether both know it.
pub(super) fn agree(arch: Arch, bytes: &[u8], offset: u64) -> bool {
    let code = Code { arch, bytes: bytes.to_vec() };
    let reader = Reader::new(&code).expect("a decoder");
    let at = START + offset;
    let (Some(Decoded { length, transfer, .. }), Ok((next, flow))) =
        (arch.decode(&code, at), reader.decode(Address(at)))
    else {
        return false;
    };
    let agrees = next.0 - at == u64::from(length) && same(transfer, &flow);
    assert!(agrees, "{bytes:02x?}: {length} bytes, {transfer:?}; {next:?}, {flow:?}; {:?}", arch.text(&code, at));
    true
}

/// Numbers that look random (Steele and Vigna's SplitMix64).
pub(super) fn random() -> impl FnMut() -> u32 {
    let mut state: u64 = 1;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)) >> 16) as u32
    }
}
