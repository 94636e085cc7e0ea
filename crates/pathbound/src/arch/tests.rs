//! Comparing the two decoders of an instruction set.

use super::{Arch, Decoded};
use crate::address::Address;
use crate::image::{Image, Pointer, Source, Symbol};
use crate::second_decoder::{Flow, Reader};

/// Code without anything else.
pub(super) struct Code {
    pub arch: Arch,
    pub bytes: Vec<u8>,
}

impl Code {
    /// Its first address.
    pub const START: u64 = 0x8000;
}

impl Image for Code {
    fn arch(&self) -> Arch {
        self.arch
    }

    fn code(&self, address: u64) -> Option<&[u8]> {
        let offset = usize::try_from(address.checked_sub(Self::START)?).ok()?;
        self.bytes.get(offset..).filter(|code| !code.is_empty())
    }

    fn pointer(&self, _: u64) -> Option<Pointer> {
        None
    }

    fn symbol(&self, _: u64) -> Option<Symbol> {
        Some(Symbol { name: String::new(), linkage_name: String::new(), address: Self::START, size: 0 })
    }

    fn find(&self, _: &str) -> Vec<Symbol> {
        Vec::new()
    }

    fn source(&self, _: u64) -> Vec<Source> {
        Vec::new()
    }
}

/// Decodes the instruction at an offset by both decoders, which must agree; returns whether both know it.
pub(super) fn agree(arch: Arch, bytes: &[u8], offset: u64) -> bool {
    let code = Code { arch, bytes: bytes.to_vec() };
    let reader = Reader::new(&code).expect("a decoder");
    let at = Code::START + offset;
    let (Some(Decoded { length, transfer, .. }), Ok((next, flow))) =
        (arch.decode(&code, at), reader.decode(Address(at)))
    else {
        return false;
    };
    let agrees = next.0 - at == u64::from(length) && flow == Flow::of(&code, transfer);
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
