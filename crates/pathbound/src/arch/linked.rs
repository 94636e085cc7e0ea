//! What is known about the stack of a function on instruction sets where a call puts the return address into a link
//! register. [`Registers`] tracks the contents of registers, and the word of the stack that holds the return address. A
//! return must go there, and the stack pointer must be back.

use super::{Frame, Transfer};
use crate::image::Image;
use std::marker::PhantomData;
use std::ops::Range;

/// The number of a register that always holds zero.
pub(super) const ZERO: u8 = 32;

/// What an instruction does to registers and memory, as far as the analysis needs it. Numbers are registers; sets of
/// registers have a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// Writes these registers, in a way that is not followed.
    Writes(u64),
    /// Calls: registers as a callee leaves them.
    Call,
    /// Sets a register to a constant.
    Constant { rd: u8, value: i64 },
    /// Sets 16 bits of a register, from a bit on; the value is in its place.
    Part { rd: u8, value: i64, shift: u32 },
    /// Loads the constant at an address.
    Literal { rd: u8, address: u64 },
    /// Sets a register to an address near the instruction.
    Here { rd: u8, value: i64 },
    /// Sets a register to the upper part of an address; as `fixed`, whatever the file is loaded at.
    Upper { rd: u8, value: i64, fixed: bool },
    /// Adds a constant; with 0, copies a register.
    AddImmediate { rd: u8, rn: u8, value: i64 },
    /// Adds a constant, and keeps 32 bits with their sign.
    AddWord { rd: u8, rn: u8, value: i64 },
    /// Adds or subtracts two registers.
    Combine { rd: u8, rn: u8, rm: u8, subtract: bool },
    /// Loads or stores whole registers, one after the other from an offset from the base on: in the order of their
    /// numbers, or in the opposite one.
    Words { base: u8, offset: i64, registers: u64, descending: bool, load: bool, writeback: Option<i64> },
    /// Stores so many bytes of something else, and writes registers in a way that is not followed.
    Store { base: u8, offset: i64, bytes: i64, writeback: Option<i64>, also: u64 },
    /// Loads registers in a way that is not followed.
    Load { base: u8, writeback: Option<i64>, registers: u64 },
}

impl Effect {
    /// No register or memory of interest.
    pub const NOTHING: Self = Self::Writes(0);

    /// A load or store of whole registers in the order of their numbers.
    pub const fn words(base: u8, offset: i64, registers: u64, load: bool, writeback: Option<i64>) -> Self {
        Self::Words { base, offset, registers, descending: false, load, writeback }
    }

    /// The registers that it writes; of a call, those of the instruction itself.
    pub fn writes(self) -> u64 {
        let back = |base: u8, writeback: Option<i64>| if writeback.is_some() { set(base) } else { 0 };
        match self {
            Self::Call => 0,
            Self::Writes(registers) => registers,
            Self::Constant { rd, .. }
            | Self::Part { rd, .. }
            | Self::Literal { rd, .. }
            | Self::Here { rd, .. }
            | Self::Upper { rd, .. }
            | Self::AddImmediate { rd, .. }
            | Self::AddWord { rd, .. }
            | Self::Combine { rd, .. } => set(rd),
            Self::Words { base, registers, load, writeback, .. } => {
                back(base, writeback) | if load { registers } else { 0 }
            }
            Self::Store { base, writeback, also, .. } => back(base, writeback) | also,
            Self::Load { base, writeback, registers } => back(base, writeback) | registers,
        }
    }
}

/// The set with one register.
pub(super) const fn set(register: u8) -> u64 {
    1 << register
}

/// The registers of a set, in the order of their numbers.
fn each(registers: u64) -> impl Iterator<Item = u8> {
    (0..=ZERO).filter(move |register| registers >> register & 1 == 1)
}

/// The most instructions between two that together take an address.
const APART: usize = 32;

/// The address that an instruction takes, if any: near itself, as a constant of a file at fixed addresses, or together
/// with a later one in straight code. `read` gives the length, the transfer and the effect of an instruction.
pub(super) fn taken(
    read: impl Fn(u64) -> Option<(u8, Transfer, Effect)>,
    image: &dyn Image,
    address: u64,
) -> Option<i64> {
    let (length, _, first) = read(address)?;
    let (register, value) = match first {
        Effect::Here { value, .. } => return Some(value),
        Effect::Literal { address, .. } if image.fixed() => return image.constant(address).map(i64::from),
        Effect::Upper { rd, value, fixed } if !fixed || image.fixed() => (rd, value),
        Effect::Constant { rd, value } if image.fixed() => (rd, value),
        _ => return None,
    };
    let mut at = address + u64::from(length);
    for _ in 0..APART {
        let (length, transfer, effect) = read(at)?;
        match (first, effect) {
            (Effect::Upper { .. }, Effect::AddImmediate { rn, value: more, .. }) if rn == register => {
                return Some(value.wrapping_add(more));
            }
            (Effect::Constant { .. }, Effect::Part { rd, value: part, shift }) if rd == register => {
                return Some(value & !(0xffff << shift) | part);
            }
            _ if effect.writes() & set(register) != 0 || transfer != Transfer::Next => return None,
            _ => at += u64::from(length),
        }
    }
    None
}

/// What a register is known to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Value {
    /// This number; with 32 bits, as a signed one.
    Constant(i64),
    /// The stack pointer at entry, plus this many bytes.
    Stack(i64),
    /// The return address.
    ReturnAddress,
}

/// An instruction set with a link register.
pub(super) trait Linked: Copy + PartialEq {
    /// The link register.
    const LINK: u8;
    /// The stack pointer.
    const STACK: u8;
    /// Bytes of a register.
    const WORD: i64;
    /// The registers that a callee may change, one bit each.
    const VOLATILE: u64;

    /// Executes an instruction; see [`Frame::execute`].
    fn execute(registers: &mut Registers<Self>, image: &dyn Image, address: u64) -> Option<Range<i64>>;

    /// Whether a return or tail call goes back to the caller; see [`Frame::is_level`].
    fn is_level(registers: &Registers<Self>, _image: &dyn Image, _address: u64) -> bool {
        registers.are_back(Self::LINK)
    }
}

/// The contents of the registers, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Registers<L> {
    values: [Option<Value>; ZERO as usize + 1],
    /// The word of the stack that holds the return address, as an offset from the stack pointer at entry.
    saved: Option<i64>,
    of: PhantomData<L>,
}

impl<L: Linked> Frame for Registers<L> {
    type Scratch = ();

    const PUSHED_BYTES: i64 = 0;
    const CALLER: i64 = 0;

    fn at_entry() -> Self {
        let mut registers = Self { values: [None; ZERO as usize + 1], saved: None, of: PhantomData };
        registers.values[usize::from(ZERO)] = Some(Value::Constant(0));
        registers.set(L::LINK, Some(Value::ReturnAddress));
        registers.set(L::STACK, Some(Value::Stack(0)));
        registers
    }

    fn join(self, other: Self) -> Self {
        let mut joined = self;
        for (value, other) in joined.values.iter_mut().zip(other.values) {
            if *value != other {
                *value = None;
            }
        }
        joined.saved = self.saved.filter(|saved| Some(*saved) == other.saved);
        joined
    }

    fn is_level(&self, image: &dyn Image, address: u64) -> bool {
        L::is_level(self, image, address)
    }

    /// The stack pointer must not be that of another stack.
    fn keeps_return_address(&self) -> bool {
        let on_this_stack = self.stack_pointer().is_some_and(|stack| stack <= 0);
        on_this_stack && (self.get(L::LINK) == Some(Value::ReturnAddress) || self.saved.is_some())
    }

    fn stack_pointer(&self) -> Option<i64> {
        self.on_stack(L::STACK)
    }

    fn return_address(&self) -> Range<i64> {
        self.saved.map_or(0..0, |saved| saved..saved + L::WORD)
    }

    fn execute(&mut self, image: &dyn Image, address: u64, (): &mut ()) -> Option<Range<i64>> {
        L::execute(self, image, address)
    }

    fn forget_link(&mut self) {
        self.set(L::LINK, None);
    }
}

impl<L: Linked> Registers<L> {
    /// Performs the effect of an instruction; see [`Frame::execute`].
    pub fn perform(&mut self, effect: Effect, image: &dyn Image) -> Option<Range<i64>> {
        let start = |registers: &Self, base, offset| registers.on_stack(base).map(|base| base.wrapping_add(offset));
        let value = |registers: &Self| match effect {
            Effect::Constant { value, .. } | Effect::Here { value, .. } | Effect::Upper { value, .. } => {
                Self::number(value)
            }
            Effect::Part { rd, value, shift } => match registers.get(rd)? {
                Value::Constant(rest) => Self::number(rest & !(0xffff << shift) | value),
                _ => None,
            },
            Effect::Literal { address, .. } => image.constant(address).and_then(|word| Self::number(word.into())),
            Effect::AddImmediate { rn, value, .. } => Self::moved(registers.get(rn), value),
            Effect::AddWord { rn, value, .. } => match registers.get(rn)? {
                Value::Constant(rest) => Self::number(i64::from(rest.wrapping_add(value) as i32)),
                _ => None,
            },
            Effect::Combine { rn, rm, subtract, .. } => {
                let (one, other) = (registers.get(rn), registers.get(rm));
                if subtract { Self::difference(one, other) } else { Self::sum(one, other) }
            }
            _ => None,
        };
        let mut written = None;
        match effect {
            Effect::Call => self.call(),
            Effect::Words { base, offset, registers, descending, load, writeback } => {
                let start = start(self, base, offset);
                if load {
                    self.write_back(base, writeback);
                    self.load_words(start, registers, descending);
                } else {
                    written = self.store_words(start, registers, descending);
                    self.write_back(base, writeback);
                }
            }
            Effect::Store { base, offset, bytes, writeback, also } => {
                written = self.store(start(self, base, offset), bytes);
                self.write_back(base, writeback);
                self.forget(also);
            }
            Effect::Load { base, writeback, registers } => {
                self.write_back(base, writeback);
                self.forget(registers);
            }
            Effect::Writes(registers) => self.forget(registers),
            Effect::Constant { rd, .. }
            | Effect::Part { rd, .. }
            | Effect::Literal { rd, .. }
            | Effect::Here { rd, .. }
            | Effect::Upper { rd, .. }
            | Effect::AddImmediate { rd, .. }
            | Effect::AddWord { rd, .. }
            | Effect::Combine { rd, .. } => {
                let value = value(self);
                self.set(rd, value);
            }
        }
        written
    }

    /// The content of a register.
    fn get(&self, register: u8) -> Option<Value> {
        self.values[usize::from(register)]
    }

    fn set(&mut self, register: u8, value: Option<Value>) {
        if register != ZERO {
            self.values[usize::from(register)] = value;
        }
    }

    /// Sets registers, one bit each, to something unknown.
    fn forget(&mut self, registers: u64) {
        each(registers).for_each(|register| self.set(register, None));
    }

    /// Executes a call together with its callee.
    fn call(&mut self) {
        self.forget(L::VOLATILE);
        // Callees overwrite what is below the stack pointer.
        if let Some(stack) = self.on_stack(L::STACK) {
            self.saved = self.saved.filter(|saved| *saved >= stack);
        }
    }

    /// The offset of the address in a register from the stack pointer at entry.
    fn on_stack(&self, register: u8) -> Option<i64> {
        match self.get(register)? {
            Value::Stack(offset) => Some(offset),
            Value::Constant(_) | Value::ReturnAddress => None,
        }
    }

    /// Whether a register holds the return address, and the stack pointer is as it was at the entry.
    pub fn are_back(&self, register: u8) -> bool {
        self.get(register) == Some(Value::ReturnAddress) && self.on_stack(L::STACK) == Some(0)
    }

    /// A number as a register holds it.
    fn number(value: i64) -> Option<Value> {
        Some(Value::Constant(if L::WORD == 4 { i64::from(value as i32) } else { value }))
    }

    /// A value plus a number.
    fn moved(value: Option<Value>, by: i64) -> Option<Value> {
        match value? {
            Value::Constant(value) => Self::number(value.wrapping_add(by)),
            Value::Stack(offset) if L::WORD == 4 => Some(Value::Stack(i64::from(offset.wrapping_add(by) as i32))),
            Value::Stack(offset) => Some(Value::Stack(offset.wrapping_add(by))),
            Value::ReturnAddress => (by == 0).then_some(Value::ReturnAddress),
        }
    }

    /// The sum of two values.
    fn sum(one: Option<Value>, other: Option<Value>) -> Option<Value> {
        match (one?, other?) {
            (value, Value::Constant(by)) | (Value::Constant(by), value) => Self::moved(Some(value), by),
            _ => None,
        }
    }

    /// The difference of two values.
    fn difference(one: Option<Value>, other: Option<Value>) -> Option<Value> {
        match (one?, other?) {
            (value, Value::Constant(by)) => Self::moved(Some(value), by.wrapping_neg()),
            (Value::Stack(one), Value::Stack(other)) => Self::number(one.wrapping_sub(other)),
            _ => None,
        }
    }

    /// Adds to the base of a load or store.
    fn write_back(&mut self, base: u8, distance: Option<i64>) {
        if let Some(distance) = distance {
            self.set(base, Self::moved(self.get(base), distance));
        }
    }

    /// The registers of a set with their places in a row of words.
    fn places(registers: u64, descending: bool) -> impl Iterator<Item = (i64, u8)> {
        let last = i64::from(registers.count_ones()) - 1;
        (0..)
            .zip(each(registers))
            .map(move |(place, register)| (L::WORD * if descending { last - place } else { place }, register))
    }

    /// Stores whole registers, one after the other, at an address if it is on the stack. Returns the part in the memory
    /// of callers.
    fn store_words(&mut self, start: Option<i64>, registers: u64, descending: bool) -> Option<Range<i64>> {
        let written = self.store(start, L::WORD * i64::from(registers.count_ones()));
        for (distance, register) in Self::places(registers, descending) {
            let place = start?.wrapping_add(distance);
            // Not in the memory of callers: they may change it.
            if self.get(register) == Some(Value::ReturnAddress) && place < 0 {
                self.saved = Some(place);
            }
        }
        written
    }

    /// Loads whole registers, one after the other, from an address if it is on the stack.
    fn load_words(&mut self, start: Option<i64>, registers: u64, descending: bool) {
        for (distance, register) in Self::places(registers, descending) {
            let place = start.map(|start| start.wrapping_add(distance));
            let saved = place.is_some() && place == self.saved;
            self.set(register, saved.then_some(Value::ReturnAddress));
        }
    }

    /// Stores something else than an address at an address, if it is on the stack. Returns the part in the memory of
    /// callers.
    fn store(&mut self, start: Option<i64>, bytes: i64) -> Option<Range<i64>> {
        let start = start?;
        let end = start.saturating_add(bytes);
        if self.saved.is_some_and(|saved| start < saved + L::WORD && saved < end) {
            self.saved = None;
        }
        (start.max(0) < end).then_some(start.max(0)..end)
    }
}
