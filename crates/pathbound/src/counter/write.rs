//! Writes the copy of one object's blocks.

use super::CounterError;
use super::dispatch;
use super::emit::{Emitter, Label, Labels, RAX};
use super::original::{Original, Part, Treatment, Unmatched};
use super::place::{self, Spare};
use super::plan::Plan;
use super::slots::Offsets;
use crate::graph::{Callee, Flow, Graph};
use iced_x86::{Code, Encoder, InstructionInfoFactory, OpKind, Register};
use std::collections::BTreeMap;

/// An upper bound on the size of an instruction's copy, with the code around it and its pointers.
pub const INSTRUCTION_BYTES: usize = 96;
/// An upper bound on the size of the code around a block: counting, marks, a jump to the next block, an entry.
pub const BLOCK_BYTES: usize = 96 + dispatch::ENTRY_BYTES;

/// The inputs that all objects share.
#[derive(Debug)]
pub struct Whole<'a> {
    pub graph: &'a Graph,
    pub originals: &'a [Vec<Original<'a>>],
    /// The marks to set.
    pub plan: Option<&'a Plan>,
    /// The labels of the copies of blocks, by original address.
    pub places: &'a BTreeMap<u64, Label>,
    pub unmatched: &'a Unmatched,
    pub offsets: Offsets,
}

/// Writes the blocks of an object.
#[derive(Debug)]
pub struct Writer<'a> {
    pub whole: &'a Whole<'a>,
    pub part: &'a Part,
    /// Where the object's first mark is, and its number.
    pub marks_at: u64,
    pub first_mark: usize,
    /// Where the mark of the next departure is.
    pub departure_at: u64,
    pub dispatcher: Label,
    pub emitter: Emitter,
    pub labels: &'a mut Labels,
    /// Departures: the instruction, and the address of its mark.
    pub departures: &'a mut Vec<(u64, u64)>,
}

/// A detour of a taken branch, to set a mark or to reach another room.
struct Detour {
    begin: Label,
    mark: Option<usize>,
    to: u64,
}

impl Writer<'_> {
    /// Writes all blocks.
    pub fn write(mut self) -> Result<Emitter, CounterError> {
        let (mut encoder, mut factory, mut detours) = (Encoder::new(64), InstructionInfoFactory::new(), Vec::new());
        for number in self.part.blocks.clone() {
            let block = &self.whole.originals[number];
            let next_block = if number + 1 < self.part.blocks.end {
                Some(self.whole.originals[number + 1][0].address())
            } else {
                None
            };
            let label = self.label(block[0].address())?;
            self.emitter.mark(self.labels, label);
            if let Some(plan) = self.whole.plan {
                self.mark(plan.of_block(number))?;
            }
            let plain = block.iter().take_while(|original| original.is_plain());
            let place = place::choose(plain.map(|original| &original.instruction), &mut factory);
            let executed = block.iter().filter(|original| original.treatment() != Treatment::Departs).count();
            for (index, original) in block.iter().enumerate() {
                if index == place.before {
                    self.count(executed as u32, place.spare);
                }
                let following = block.get(index + 1).map(Original::address).or(next_block);
                self.instruction(original, following, &mut encoder, &mut detours)?;
            }
        }
        for detour in detours {
            self.emitter.mark(self.labels, detour.begin);
            if let Some(mark) = detour.mark {
                self.mark(mark)?;
            }
            self.jump(detour.to)?;
        }
        Ok(self.emitter)
    }

    fn label(&self, address: u64) -> Result<Label, CounterError> {
        self.whole.places.get(&address).copied().ok_or(CounterError::DifferentCode { address })
    }

    /// Sets a mark.
    fn mark(&mut self, mark: usize) -> Result<(), CounterError> {
        self.emitter.set_mark(self.marks_at + (mark - self.first_mark) as u64)
    }

    fn count(&mut self, instructions: u32, spare: Spare) {
        let Offsets { executed, rax, .. } = self.whole.offsets;
        if instructions == 0 {
            return;
        }
        match spare {
            Spare::Flags => self.emitter.add_to(executed, instructions),
            Spare::Register(register) => {
                self.emitter.load(register, executed);
                self.emitter.advance(register, instructions);
                self.emitter.store(executed, register);
            }
            Spare::Nothing => {
                self.emitter.store(rax, RAX);
                self.count(instructions, Spare::Register(RAX));
                self.emitter.load(RAX, rax);
            }
        }
    }

    /// Writes one instruction. The copy of the address `following` is written next.
    fn instruction(
        &mut self,
        original: &Original<'_>,
        following: Option<u64>,
        encoder: &mut Encoder,
        detours: &mut Vec<Detour>,
    ) -> Result<(), CounterError> {
        match (original.treatment(), original.flow) {
            (Treatment::Dispatched, Flow::Call(_)) => {
                self.target_into_rax(original, encoder)?;
                self.emitter.call(self.dispatcher);
                self.go_on(original.next(), following)
            }
            (Treatment::Dispatched, _) => {
                self.target_into_rax(original, encoder)?;
                self.emitter.jump(self.dispatcher);
                Ok(())
            }
            (Treatment::CallsOriginal(callee), _) => {
                self.depart(original)?;
                self.emitter.call_to(callee);
                self.go_on(original.next(), following)
            }
            (Treatment::Departs, _) => {
                self.depart(original)?;
                self.emitter.jump_to(original.address());
                Ok(())
            }
            (Treatment::Followed, Flow::Next | Flow::NextPast(_)) => {
                self.same(original)?;
                self.go_on(original.next(), following)
            }
            (Treatment::Followed, Flow::Jump(target)) => self.go_on(*target, following),
            (Treatment::Followed, Flow::Branch(target)) => self.branch(original, *target, following, detours),
            (Treatment::Followed, Flow::Call(callee)) => {
                match callee {
                    Callee::Function(function) if self.is_near(*function) => {
                        let function = self.label(*function)?;
                        self.emitter.call(function);
                    }
                    Callee::Function(function) => {
                        let function = self.label(*function)?;
                        self.emitter.call_far(function);
                    }
                    _ if original.instruction.is_call_near() => {
                        self.emitter.call_to(original.instruction.near_branch_target());
                    }
                    _ => self.same(original)?,
                }
                if self.whole.graph.comes_back(callee) {
                    self.go_on(original.next(), following)
                } else {
                    self.emitter.trap();
                    Ok(())
                }
            }
            (Treatment::Followed, Flow::Tail(Callee::Function(function))) => self.jump(*function),
            (Treatment::Followed, Flow::Tail(_)) if original.instruction.is_jmp_short_or_near() => {
                self.emitter.jump_to(original.instruction.near_branch_target());
                Ok(())
            }
            (Treatment::Followed, Flow::Return) if self.whole.unmatched.has(original.address()) => {
                self.dispatched_return(original);
                Ok(())
            }
            (Treatment::Followed, Flow::Tail(_) | Flow::Return | Flow::Stop | Flow::Unknown(_)) => self.same(original),
        }
    }

    /// Writes the instruction unchanged, except that a relative address still leads to the same target.
    fn same(&mut self, original: &Original<'_>) -> Result<(), CounterError> {
        match original.relative {
            None => {
                self.emitter.raw(original.bytes);
                Ok(())
            }
            Some(displacement) => {
                self.emitter.relocated(original.bytes, displacement, original.instruction.ip_rel_memory_address())
            }
        }
    }

    fn is_near(&self, address: u64) -> bool {
        self.part.object.contains(&address)
    }

    fn jump(&mut self, to: u64) -> Result<(), CounterError> {
        let label = self.label(to)?;
        if self.is_near(to) {
            self.emitter.jump(label);
        } else {
            self.emitter.jump_far(label);
        }
        Ok(())
    }

    fn go_on(&mut self, to: u64, following: Option<u64>) -> Result<(), CounterError> {
        if following == Some(to) { Ok(()) } else { self.jump(to) }
    }

    fn branch(
        &mut self,
        original: &Original<'_>,
        target: u64,
        following: Option<u64>,
        detours: &mut Vec<Detour>,
    ) -> Result<(), CounterError> {
        let mark_of = |to| self.whole.plan.and_then(|plan| plan.of_edge(original.address(), to));
        let (taken_mark, passed_mark) = (mark_of(target), mark_of(original.next()));
        let taken = if taken_mark.is_none() && self.is_near(target) {
            self.label(target)?
        } else {
            let begin = self.labels.create();
            detours.push(Detour { begin, mark: taken_mark, to: target });
            begin
        };
        if original.instruction.is_jcc_short_or_near() {
            // The decoder numbers conditions as machine code does, but from 1.
            self.emitter.jump_if(original.instruction.condition_code() as u8 - 1, taken);
        } else {
            // `loop` and `jrcxz` reach 127 bytes: they skip the jump that follows them, to another that goes farther.
            let passed = self.labels.create();
            self.emitter.raw(&original.bytes[..original.bytes.len() - 1]);
            self.emitter.raw(&[Emitter::JUMP_BYTES]);
            self.emitter.jump(passed);
            self.emitter.jump(taken);
            self.emitter.mark(self.labels, passed);
        }
        if let Some(mark) = passed_mark {
            self.mark(mark)?;
        }
        self.go_on(original.next(), following)
    }

    /// Loads the target of a computed jump or call into rax, after rax is saved in its slot.
    fn target_into_rax(&mut self, original: &Original<'_>, encoder: &mut Encoder) -> Result<(), CounterError> {
        self.emitter.store(self.whole.offsets.rax, RAX);
        // The load is made from the original, so that it keeps its operand.
        let mut load = original.instruction;
        let operand = load.op0_kind();
        load.set_code(Code::Mov_r64_rm64);
        load.set_has_repne_prefix(false);
        load.set_op1_kind(operand);
        if operand == OpKind::Register {
            load.set_op1_register(original.instruction.op0_register());
        }
        load.set_op0_kind(OpKind::Register);
        load.set_op0_register(Register::RAX);
        self.emitter.encoded(encoder, &load)
    }

    /// Writes a return through the dispatcher: its target may be in the original code.
    fn dispatched_return(&mut self, original: &Original<'_>) {
        let dropped = match original.instruction.code() {
            Code::Retnq_imm16 => original.instruction.immediate16(),
            _ => 0,
        };
        self.emitter.store(self.whole.offsets.rax, RAX);
        self.emitter.raw(&[0x48, 0x8b, 0x04, 0x24]); // mov rax, [rsp]
        self.emitter.raw(&[0x48, 0x8d, 0xa4, 0x24]); // lea rsp, [rsp + 8 + dropped]
        self.emitter.raw(&(8 + u32::from(dropped)).to_le_bytes());
        self.emitter.jump(self.dispatcher);
    }

    /// Sets a mark: what follows is not executed in the copy.
    fn depart(&mut self, original: &Original<'_>) -> Result<(), CounterError> {
        self.departures.push((original.address(), self.departure_at));
        self.emitter.set_mark(self.departure_at)?;
        self.departure_at += 1;
        Ok(())
    }
}
