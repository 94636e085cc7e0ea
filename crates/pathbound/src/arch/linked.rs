//! What is known about the stack of a function on instruction sets where a call puts the return address into a link
//! register. [`Registers`] tracks the contents of registers, and the word of the stack that holds the return address. A
//! return must go there, and the stack pointer must be back.

use super::Frame;
use crate::image::Image;
use std::marker::PhantomData;
use std::ops::Range;

/// What a register is known to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
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
    const VOLATILE: u32;

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
    values: [Option<Value>; 32],
    /// The word of the stack that holds the return address, as an offset from the stack pointer at entry.
    saved: Option<i64>,
    of: PhantomData<L>,
}

impl<L: Linked> Frame for Registers<L> {
    type Scratch = ();

    const PUSHED_BYTES: i64 = 0;
    const CALLER: i64 = 0;

    fn at_entry() -> Self {
        let mut registers = Self { values: [None; 32], saved: None, of: PhantomData };
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
}

impl<L: Linked> Registers<L> {
    /// The content of a register.
    pub fn get(&self, register: u8) -> Option<Value> {
        self.values[usize::from(register)]
    }

    /// Sets a register.
    pub fn set(&mut self, register: u8, value: Option<Value>) {
        self.values[usize::from(register)] = value;
    }

    /// Sets registers, one bit each, to something unknown.
    pub fn forget(&mut self, registers: u32) {
        (0..32).filter(|register| registers >> register & 1 == 1).for_each(|register| self.set(register, None));
    }

    /// Executes a call together with its callee.
    pub fn call(&mut self) {
        self.forget(L::VOLATILE);
        // Callees overwrite what is below the stack pointer.
        if let Some(stack) = self.on_stack(L::STACK) {
            self.saved = self.saved.filter(|saved| *saved >= stack);
        }
    }

    /// The offset of the address in a register from the stack pointer at entry.
    pub fn on_stack(&self, register: u8) -> Option<i64> {
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
    pub fn number(value: i64) -> Option<Value> {
        Some(Value::Constant(if L::WORD == 4 { i64::from(value as i32) } else { value }))
    }

    /// A value plus a number.
    pub fn moved(value: Option<Value>, by: i64) -> Option<Value> {
        match value? {
            Value::Constant(value) => Self::number(value.wrapping_add(by)),
            Value::Stack(offset) if L::WORD == 4 => Some(Value::Stack(i64::from(offset.wrapping_add(by) as i32))),
            Value::Stack(offset) => Some(Value::Stack(offset.wrapping_add(by))),
            Value::ReturnAddress => (by == 0).then_some(Value::ReturnAddress),
        }
    }

    /// The sum of two values.
    pub fn sum(one: Option<Value>, other: Option<Value>) -> Option<Value> {
        match (one?, other?) {
            (value, Value::Constant(by)) | (Value::Constant(by), value) => Self::moved(Some(value), by),
            _ => None,
        }
    }

    /// The difference of two values.
    pub fn difference(one: Option<Value>, other: Option<Value>) -> Option<Value> {
        match (one?, other?) {
            (value, Value::Constant(by)) => Self::moved(Some(value), by.wrapping_neg()),
            (Value::Stack(one), Value::Stack(other)) => Self::number(one.wrapping_sub(other)),
            _ => None,
        }
    }

    /// Adds to the base of a load or store.
    pub fn write_back(&mut self, base: u8, distance: Option<i64>) {
        if let Some(distance) = distance {
            self.set(base, Self::moved(self.get(base), distance));
        }
    }

    /// Stores whole registers, one after the other, at an address if it is on the stack. Returns the part in the memory
    /// of callers.
    pub fn store_words(&mut self, start: Option<i64>, registers: impl IntoIterator<Item = u8>) -> Option<Range<i64>> {
        let start = start?;
        let mut end = start;
        for register in registers {
            self.overwrite(end, L::WORD);
            // Not in the memory of callers: they may change it.
            if self.get(register) == Some(Value::ReturnAddress) && end < 0 {
                self.saved = Some(end);
            }
            end = end.saturating_add(L::WORD);
        }
        (start.max(0) < end).then_some(start.max(0)..end)
    }

    /// Loads whole registers, one after the other, from an address if it is on the stack.
    pub fn load_words(&mut self, start: Option<i64>, registers: impl IntoIterator<Item = u8>) {
        let mut place = start;
        for register in registers {
            let saved = place.is_some() && place == self.saved;
            self.set(register, saved.then_some(Value::ReturnAddress));
            place = place.map(|place| place.wrapping_add(L::WORD));
        }
    }

    /// Stores something else than an address at an address, if it is on the stack. Returns the part in the memory of
    /// callers.
    pub fn store(&mut self, start: Option<i64>, bytes: i64) -> Option<Range<i64>> {
        let start = start?;
        self.overwrite(start, bytes);
        let (start, end) = (start.max(0), start.saturating_add(bytes));
        (start < end).then_some(start..end)
    }

    fn overwrite(&mut self, start: i64, bytes: i64) {
        if self.saved.is_some_and(|saved| start < saved + L::WORD && saved < start.saturating_add(bytes)) {
            self.saved = None;
        }
    }
}
