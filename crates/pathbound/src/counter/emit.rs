//! Writes machine code: bytes at known addresses, and jumps to places that are not yet known.

use super::CounterError;
use iced_x86::{Encoder, Instruction};

/// A place in the code, known once all code is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(usize);

/// The places of all labels.
#[derive(Debug, Default)]
pub struct Labels(Vec<Option<u64>>);

impl Labels {
    /// A label without a place.
    pub fn create(&mut self) -> Label {
        self.0.push(None);
        Label(self.0.len() - 1)
    }

    /// Where a label is.
    pub fn place(&self, label: Label) -> u64 {
        self.0[label.0].expect("every label is given a place before it is asked for")
    }
}

/// Numbers of registers.
pub const RAX: u8 = 0;
pub const RCX: u8 = 1;
pub const RDX: u8 = 2;
pub const RSP: u8 = 4;

/// A field of written code that is still to be filled in.
#[derive(Debug)]
struct Missing {
    /// Its offset. It has 4 bytes for a distance from its end, or 8 for an address.
    at: usize,
    target: Label,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Distance,
    Address,
}

/// Code that is being written for one place in memory.
#[derive(Debug)]
pub struct Emitter {
    start: u64,
    bytes: Vec<u8>,
    missing: Vec<Missing>,
    /// Pointers after the code: the offset of the field for their distance, and their content.
    pointers: Vec<(usize, Pointer)>,
}

/// The content of a pointer after the code.
#[derive(Clone, Copy, Debug)]
enum Pointer {
    To(Label),
    Address(u64),
}

impl Emitter {
    /// Code that begins at an address.
    pub fn new(start: u64) -> Self {
        Self { start, bytes: Vec::new(), missing: Vec::new(), pointers: Vec::new() }
    }

    /// The address of what is written next.
    pub fn here(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// Places a label at the address of what is written next.
    pub fn mark(&self, labels: &mut Labels, label: Label) {
        let place = labels.0[label.0].replace(self.here());
        assert!(place.is_none(), "a label has one place");
    }

    /// Writes bytes unchanged.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Writes the 4 bytes that address `target` relative to the next instruction, `after` bytes before it.
    fn relative(&mut self, target: u64, after: usize) -> Result<(), CounterError> {
        let next = self.here() + 4 + after as u64;
        self.raw(&distance(next, target)?.to_le_bytes());
        Ok(())
    }

    /// Writes an instruction, moved from elsewhere, that addresses `target` relative to itself: `displacement` is the
    /// offset of the 4 bytes that do so.
    pub fn relocated(&mut self, instruction: &[u8], displacement: usize, target: u64) -> Result<(), CounterError> {
        let after = &instruction[displacement + 4..];
        self.raw(&instruction[..displacement]);
        self.relative(target, after.len())?;
        self.raw(after);
        Ok(())
    }

    /// Writes an encoded instruction.
    pub fn encoded(&mut self, encoder: &mut Encoder, instruction: &Instruction) -> Result<(), CounterError> {
        encoder
            .encode(instruction, self.here())
            .map_err(|_| CounterError::OutOfReach { address: instruction.memory_displacement64() })?;
        let mut encoded = encoder.take_buffer();
        self.raw(&encoded);
        encoded.clear();
        encoder.set_buffer(encoded);
        Ok(())
    }

    fn missing_distance(&mut self, target: Label) {
        self.missing.push(Missing { at: self.bytes.len(), target, kind: Kind::Distance });
        self.raw(&[0; 4]);
    }

    /// Size of what [`jump`](Self::jump) writes.
    pub const JUMP_BYTES: u8 = 5;

    /// `jmp label`
    pub fn jump(&mut self, target: Label) {
        self.raw(&[0xe9]);
        self.missing_distance(target);
    }

    /// `call label`
    pub fn call(&mut self, target: Label) {
        self.raw(&[0xe8]);
        self.missing_distance(target);
    }

    /// A conditional jump, by the number of its condition.
    pub fn jump_if(&mut self, condition: u8, target: Label) {
        self.raw(&[0x0f, 0x80 | condition]);
        self.missing_distance(target);
    }

    fn through_pointer(&mut self, operation: u8, pointer: Pointer) {
        self.raw(&[0xff, operation]);
        self.pointers.push((self.bytes.len(), pointer));
        self.raw(&[0; 4]);
    }

    /// `jmp label` at any distance.
    pub fn jump_far(&mut self, target: Label) {
        self.through_pointer(0x25, Pointer::To(target));
    }

    /// `call label` at any distance.
    pub fn call_far(&mut self, target: Label) {
        self.through_pointer(0x15, Pointer::To(target));
    }

    /// A jump to an address at any distance.
    pub fn jump_to(&mut self, target: u64) {
        self.through_pointer(0x25, Pointer::Address(target));
    }

    /// A call of an address at any distance.
    pub fn call_to(&mut self, target: u64) {
        self.through_pointer(0x15, Pointer::Address(target));
    }

    /// An instruction with a register and the word at an offset from the FS base, 64 bits wide.
    fn with_slot(&mut self, operation: u8, register: u8, slot: i32) {
        self.raw(&[0x64, 0x48 | (register >> 3) << 2, operation, 0x04 | (register & 7) << 3, 0x25]);
        self.raw(&slot.to_le_bytes());
    }

    /// `mov register, fs:[slot]`
    pub fn load(&mut self, register: u8, slot: i32) {
        self.with_slot(0x8b, register, slot);
    }

    /// `mov fs:[slot], register`
    pub fn store(&mut self, slot: i32, register: u8) {
        self.with_slot(0x89, register, slot);
    }

    /// `cmp register, fs:[slot]`
    pub fn compare(&mut self, register: u8, slot: i32) {
        self.with_slot(0x3b, register, slot);
    }

    /// `add qword ptr fs:[slot], amount`
    pub fn add_to(&mut self, slot: i32, amount: u32) {
        if let Ok(amount) = i8::try_from(amount) {
            self.with_slot(0x83, 0, slot);
            self.raw(&[amount.cast_unsigned()]);
        } else {
            self.with_slot(0x81, 0, slot);
            self.raw(&amount.to_le_bytes());
        }
    }

    /// `lea register, [register + amount]`; not for rsp.
    pub fn advance(&mut self, register: u8, amount: u32) {
        // r12, like rsp, needs a further byte.
        let rex = 0x48 | (register >> 3) << 2 | register >> 3;
        let low = register & 7;
        let short = i8::try_from(amount).ok();
        self.raw(&[rex, 0x8d, if short.is_some() { 0x40 } else { 0x80 } | low << 3 | low]);
        if low == 4 {
            self.raw(&[0x24]);
        }
        match short {
            Some(amount) => self.raw(&[amount.cast_unsigned()]),
            None => self.raw(&amount.to_le_bytes()),
        }
    }

    /// `mov register, value`; for the first eight registers.
    pub fn set(&mut self, register: u8, value: u64) {
        self.raw(&[0x48, 0xb8 | register]);
        self.raw(&value.to_le_bytes());
    }

    /// `jmp qword ptr fs:[slot]`
    pub fn jump_through(&mut self, slot: i32) {
        self.raw(&[0x64, 0xff, 0x24, 0x25]);
        self.raw(&slot.to_le_bytes());
    }

    /// `mov byte ptr [mark], 1`
    pub fn set_mark(&mut self, mark: u64) -> Result<(), CounterError> {
        self.raw(&[0xc6, 0x05]);
        self.relative(mark, 1)?;
        self.raw(&[1]);
        Ok(())
    }

    /// `ud2`
    pub fn trap(&mut self) {
        self.raw(&[0x0f, 0x0b]);
    }

    /// Writes the label's address as data.
    pub fn address_of(&mut self, target: Label) {
        self.missing.push(Missing { at: self.bytes.len(), target, kind: Kind::Address });
        self.raw(&[0; 8]);
    }

    /// Ends the code with the pointers it uses.
    pub fn write_pointers(&mut self) {
        while !self.bytes.len().is_multiple_of(8) {
            self.raw(&[0xcc]);
        }
        for (at, pointer) in std::mem::take(&mut self.pointers) {
            let distance = (self.bytes.len() - (at + 4)) as u32;
            self.bytes[at..at + 4].copy_from_slice(&distance.to_le_bytes());
            match pointer {
                Pointer::To(label) => self.address_of(label),
                Pointer::Address(address) => self.raw(&address.to_le_bytes()),
            }
        }
    }

    /// The finished code. Every label must have its place.
    ///
    /// # Errors
    ///
    /// [`CounterError::OutOfReach`]
    pub fn finish(mut self, labels: &Labels) -> Result<Vec<u8>, CounterError> {
        for missing in &self.missing {
            let target = labels.place(missing.target);
            match missing.kind {
                Kind::Address => self.bytes[missing.at..missing.at + 8].copy_from_slice(&target.to_le_bytes()),
                Kind::Distance => {
                    let next = self.start + missing.at as u64 + 4;
                    let distance = distance(next, target)?.to_le_bytes();
                    self.bytes[missing.at..missing.at + 4].copy_from_slice(&distance);
                }
            }
        }
        Ok(self.bytes)
    }
}

/// From the next instruction to what the one before it addresses.
fn distance(next: u64, target: u64) -> Result<i32, CounterError> {
    i32::try_from(target.wrapping_sub(next).cast_signed()).map_err(|_| CounterError::OutOfReach { address: target })
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};

    /// What was written, as the decoder of iced-x86 reads it.
    fn read(write: impl FnOnce(&mut Emitter, &mut Labels)) -> Vec<String> {
        let (mut emitter, mut labels) = (Emitter::new(0x1000), Labels::default());
        write(&mut emitter, &mut labels);
        let code = emitter.finish(&labels).expect("in reach");
        let mut formatter = IntelFormatter::new();
        Decoder::with_ip(64, &code, 0x1000, DecoderOptions::NONE)
            .iter()
            .map(|instruction| {
                let mut text = String::new();
                formatter.format(&instruction, &mut text);
                text
            })
            .collect()
    }

    #[test]
    fn every_register_advances_by_short_and_long_amounts() {
        for register in (0..16).filter(|register| *register != 4) {
            let name = ["rax", "rcx", "rdx", "rbx", "", "rbp", "rsi", "rdi"]
                .get(usize::from(register))
                .map_or_else(|| format!("r{register}"), ToString::to_string);
            let text = read(|emitter, _| {
                emitter.advance(register, 1);
                emitter.advance(register, 0x7f);
                emitter.advance(register, 0x80);
                emitter.load(register, -8);
                emitter.store(-16, register);
            });
            let expected = [
                format!("lea {name},[{name}+1]"),
                format!("lea {name},[{name}+7Fh]"),
                format!("lea {name},[{name}+80h]"),
                format!("mov {name},fs:[0FFFFFFFFFFFFFFF8h]"),
                format!("mov fs:[0FFFFFFFFFFFFFFF0h],{name}"),
            ];
            assert_eq!(text, expected);
        }
    }

    #[test]
    fn the_other_instructions_are_encoded_as_documented() {
        let text = read(|emitter, labels| {
            let start = labels.create();
            emitter.mark(labels, start);
            emitter.compare(RSP, -8);
            emitter.add_to(-8, 3);
            emitter.add_to(-8, 300);
            emitter.set(RDX, 0x0123_4567_89ab_cdef);
            emitter.jump_through(-24);
            emitter.set_mark(0x2000).expect("in reach");
            emitter.jump(start);
            emitter.call(start);
            emitter.jump_if(4, start);
            emitter.trap();
        });
        let expected = [
            "cmp rsp,fs:[0FFFFFFFFFFFFFFF8h]",
            "add qword ptr fs:[0FFFFFFFFFFFFFFF8h],3",
            "add qword ptr fs:[0FFFFFFFFFFFFFFF8h],12Ch",
            "mov rdx,123456789ABCDEFh",
            "jmp qword ptr fs:[0FFFFFFFFFFFFFFE8h]",
            "mov byte ptr [2000h],1",
            "jmp 0000000000001000h",
            "call 0000000000001000h",
            "je 0000000000001000h",
            "ud2",
        ];
        assert_eq!(text, expected);
    }

    #[test]
    fn pointers_follow_the_code() {
        let (mut emitter, mut labels) = (Emitter::new(0x1000), Labels::default());
        let label = labels.create();
        emitter.call_far(label);
        emitter.jump_to(0x1234_5678_9abc);
        emitter.mark(&mut labels, label);
        emitter.trap();
        emitter.write_pointers();
        let code = emitter.finish(&labels).expect("in reach");
        assert_eq!(code[..6], [0xff, 0x15, 10, 0, 0, 0]);
        assert_eq!(code[6..12], [0xff, 0x25, 12, 0, 0, 0]);
        assert_eq!(code[16..24], 0x100c_u64.to_le_bytes());
        assert_eq!(code[24..32], 0x1234_5678_9abc_u64.to_le_bytes());
    }

    #[test]
    fn a_target_out_of_reach_is_an_error() {
        let mut emitter = Emitter::new(0x1000);
        assert_eq!(emitter.set_mark(0x1_0000_0000_0000), Err(CounterError::OutOfReach { address: 0x1_0000_0000_0000 }));
    }
}
