//! Verifies a certificate: decodes again, with another decoder, and trusts neither the solver nor the graph.
//!
//! # Why it is sound
//!
//! Take an execution of the entry that returns, and of the claim's facts suppose that they hold of it. It runs nothing of one
//! side of each conflict, nor the place of a loop that is never to be executed; some case avoids no more than that, and this
//! is the case below. Let `rest(a)` be what the execution of a function has still to do from its instruction `a` to its own
//! return, callees included. Then, with the multiplier `m` of each loop,
//!
//! ```text
//! instructions in rest(a) <= potential(a) + sum over loops of m * (place executed in rest(a) - at_most * entries in rest(a))
//! ```
//!
//! by induction on the number of instructions in `rest(a)`. A return is the last one: 1 <= potential + m if it is a place. Any
//! other instruction is followed by `rest(b)` of a successor, a call by the whole of its callee and then by that. What is
//! verified here is that
//!
//! ```text
//! potential(a) >= 1 - (m if a is a place) + (m * at_most of the loops a -> b enters) + potential(b)
//! ```
//!
//! and for calls that plus what entering the callee is worth and its first potential. Adding the bounds of the parts gives
//! that of the whole. A tail call is a jump. For the whole execution, the facts make the sum over loops negative or zero: of
//! at most `at_most` executions for each entry. What is left is the entry's potential and what entering it is worth, which the
//! claim must not be below.
//!
//! Successors that are avoided are not in this execution. Neither are those in `no_return`: from each of these every way is
//! verified to lead to another of them, to a trap, to a function that is assumed never to return, or to what is avoided; so an
//! execution that gets there goes on forever or ends there.
//!
//! What remains assumed is in [`Checked::assumptions`]. A loop is here the set of instructions the certificate lists; that it
//! is the loop somebody had in mind is for a reader to see.

use crate::certificate::{Address, BoundedLoop, Case, Certificate, Proof};
use crate::graph::{self, Callee, Graph, Obstacle};
use crate::image::{Image, Pointer, Provenance};
use capstone::arch::x86::{X86Insn, X86InsnGroup, X86OperandType, X86Reg};
use capstone::prelude::*;
use std::collections::BTreeSet;
use std::fmt;

/// What a certificate proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// No execution of the entry that returns has more instructions.
    pub instructions: u64,
    /// If these hold, one line each.
    pub assumptions: Vec<String>,
}

/// Why a certificate proves nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The instruction at which it fails, if it is one.
    pub address: Option<u64>,
    /// How.
    pub reason: String,
}

impl std::error::Error for Rejection {}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => write!(f, "rejected at {address:#x}: {}", self.reason),
            None => write!(f, "rejected: {}", self.reason),
        }
    }
}

/// Verifies a certificate about a file.
///
/// # Errors
///
/// [`Rejection`] says at which instruction it fails, or that it is about another file.
pub fn check(certificate: &Certificate, image: &dyn Image, provenance: &Provenance) -> Result<Checked, Rejection> {
    if certificate.binary.sha256 != provenance.sha256 {
        return reject(
            None,
            format!("it is about {:?}, SHA-256 {:?}", certificate.binary.file, certificate.binary.sha256),
        );
    }
    check_proof(&certificate.proof, image)
}

/// Verifies a proof about whatever code an image has.
///
/// # Errors
///
/// [`Rejection`] says at which instruction it fails.
pub fn check_proof(proof: &Proof, image: &dyn Image) -> Result<Checked, Rejection> {
    let reader = Reader::new(image)?;
    if proof.loops.iter().any(|assumed| !assumed.members.contains(&assumed.place)) {
        return reject(None, "the place of a loop is outside of it");
    }
    name_what_is_there(proof, image)?;
    cover_all_ways(proof)?;
    for case in &proof.cases {
        Checker { proof, reader: &reader, case }.check()?;
    }
    Ok(Checked { instructions: proof.instructions, assumptions: assumptions(proof) })
}

/// Verifies that another decoder reads the code of a graph in the same way: the length of every instruction, whether and how
/// it leaves the straight line, and where to.
///
/// # Errors
///
/// [`Rejection`] names the first instruction, by address, about which the two disagree.
pub fn second_opinion(graph: &Graph, image: &dyn Image) -> Result<(), Rejection> {
    let reader = Reader::new(image)?;
    for (at, node) in graph.nodes() {
        let address = Address(at);
        if node.flow == graph::Flow::Unknown(Obstacle::Undecodable) {
            if reader.decode(address).is_ok() {
                return reject(Some(address), "one decoder finds no instruction, the other does");
            }
            continue;
        }
        let (next, flow) = reader.decode(address)?;
        let length = next.0.wrapping_sub(at);
        if length != u64::from(node.length) {
            return reject(Some(address), format!("one decoder finds {} bytes, the other {length}", node.length));
        }
        if !means(&flow, &node.flow) {
            return reject(Some(address), format!("one decoder finds {:?}, the other {flow:?}", node.flow));
        }
    }
    Ok(())
}

/// Whether the flow that was decoded is the one the graph has.
fn means(flow: &Flow, of_graph: &graph::Flow) -> bool {
    use graph::Flow as G;
    match (flow, of_graph) {
        (Flow::Next, G::Next)
        | (Flow::Uncounted, G::NextPast(Obstacle::Repeat | Obstacle::Kernel))
        | (Flow::Return, G::Return)
        | (Flow::Trap, G::Stop)
        | (Flow::Jump(Target::Computed), G::Unknown(Obstacle::IndirectJump))
        | (Flow::Elsewhere, G::Unknown(Obstacle::Elsewhere)) => true,
        (Flow::Branch(target), G::Branch(address) | G::Unknown(Obstacle::NoCode(address)))
        | (Flow::Jump(Target::Address(target)), G::Jump(address) | G::Unknown(Obstacle::NoCode(address))) => {
            target.0 == *address
        }
        (Flow::Call(target), G::Call(callee)) | (Flow::Jump(target), G::Tail(callee)) => match (target, callee) {
            (Target::Address(target), Callee::Function(address) | Callee::Unknown(Obstacle::NoCode(address)))
            | (Target::Address(target), Callee::NeverReturns { address: Some(address), .. }) => target.0 == *address,
            (Target::External(target), Callee::NeverReturns { address: None, name })
            | (Target::External(target), Callee::Unknown(Obstacle::ExternalCall(name))) => target == name,
            (Target::Computed, Callee::Unknown(Obstacle::IndirectCall | Obstacle::IndirectJump)) => true,
            _ => false,
        },
        _ => false,
    }
}

/// Where execution goes from an instruction.
#[derive(Debug)]
enum Flow {
    Next,
    /// To the next instruction, after more than this one (`rep`, the kernel).
    Uncounted,
    Jump(Target),
    Branch(Address),
    Call(Target),
    Return,
    Trap,
    Elsewhere,
}

#[derive(Debug)]
enum Target {
    Address(Address),
    External(String),
    Computed,
}

struct Checker<'a> {
    proof: &'a Proof,
    reader: &'a Reader<'a>,
    case: &'a Case,
}

impl Checker<'_> {
    fn check(&self) -> Result<(), Rejection> {
        if self.case.multipliers.len() != self.proof.loops.len() || self.case.multipliers.iter().any(|m| *m < 0) {
            return reject(None, "a case must have a multiplier for each loop, not below zero");
        }
        let claimed = i128::from(self.proof.instructions);
        if self.potential(None, self.proof.entry)?.is_some_and(|most| most > claimed) {
            return reject(Some(self.proof.entry), "the entry's potential is above the claim");
        }
        for (address, potential) in &self.case.potentials {
            // What follows may be worth as much as fits: it must not become little by adding to it.
            let least = self.rest(*address)?.map(|rest| rest.saturating_add(1 - self.executing(*address)));
            if least.is_some_and(|least| i128::from(*potential) < least) {
                return reject(Some(*address), format!("the potential {potential} is too low"));
            }
        }
        let ends = self.case.no_return.iter().map(|address| Ok((*address, self.never_returns(*address)?)));
        match ends.collect::<Result<Vec<_>, _>>()?.into_iter().find(|(_, ends)| !ends) {
            Some((address, _)) => reject(Some(address), "it may return"),
            None => Ok(()),
        }
    }

    /// The most that can follow an instruction; `None` if nothing that returns does.
    fn rest(&self, at: Address) -> Result<Option<i128>, Rejection> {
        let (next, flow) = self.reader.decode(at)?;
        match flow {
            Flow::Next => self.potential(Some(at), next),
            Flow::Jump(target) if self.ends(at, &target) => Ok(None),
            Flow::Jump(Target::Address(target)) => self.potential(Some(at), target),
            Flow::Branch(target) => Ok(self.potential(Some(at), next)?.max(self.potential(Some(at), target)?)),
            Flow::Call(target) if self.ends(at, &target) || self.is_left_out(next) => Ok(None),
            Flow::Call(Target::Address(callee)) => {
                let (callee, next) = (self.potential(None, callee)?, self.potential(Some(at), next)?);
                Ok(callee.zip(next).map(|(callee, next)| callee.saturating_add(next)))
            }
            Flow::Return => Ok(Some(0)),
            Flow::Trap => Ok(None),
            Flow::Uncounted | Flow::Elsewhere => reject(Some(at), "what it executes cannot be bounded"),
            Flow::Jump(Target::External(name)) | Flow::Call(Target::External(name)) => {
                reject(Some(at), format!("{name} is not known never to return"))
            }
            Flow::Jump(Target::Computed) | Flow::Call(Target::Computed) => {
                reject(Some(at), "where it goes is not known")
            }
        }
    }

    /// Whether from an instruction every way leads to what is left out.
    fn never_returns(&self, at: Address) -> Result<bool, Rejection> {
        let (next, flow) = self.reader.decode(at)?;
        Ok(match flow {
            Flow::Next | Flow::Uncounted => self.is_left_out(next),
            Flow::Jump(target) => self.ends(at, &target),
            Flow::Branch(target) => self.is_left_out(next) && self.is_left_out(target),
            Flow::Call(target) => self.ends(at, &target) || self.is_left_out(next),
            Flow::Trap => true,
            Flow::Return | Flow::Elsewhere => false,
        })
    }

    /// What a path is worth that goes to an instruction, from another of its function or by a call; `None` if none returns.
    fn potential(&self, from: Option<Address>, to: Address) -> Result<Option<i128>, Rejection> {
        if self.is_left_out(to) {
            return Ok(None);
        }
        let Some(potential) = self.case.potentials.get(&to) else {
            return reject(from.or(Some(to)), format!("{to}, which follows, has no potential"));
        };
        let enters =
            |members: &BTreeSet<Address>| members.contains(&to) && from.is_none_or(|from| !members.contains(&from));
        let loops = self.proof.loops.iter().zip(&self.case.multipliers).filter(|(entered, _)| enters(&entered.members));
        let worth = loops.map(|(entered, m)| i128::from(entered.at_most).saturating_mul(i128::from(*m)));
        Ok(Some(worth.fold(i128::from(*potential), i128::saturating_add)))
    }

    /// What executing an instruction is worth to the loops it is the place of.
    fn executing(&self, at: Address) -> i128 {
        let loops = self.proof.loops.iter().zip(&self.case.multipliers);
        loops.filter(|(executed, _)| executed.place == at).map(|(_, m)| i128::from(*m)).sum()
    }

    /// Whether no execution of this case that returns gets here.
    fn is_left_out(&self, at: Address) -> bool {
        self.case.avoid.contains(&at) || self.case.no_return.contains(&at)
    }

    /// Whether a jump or call ends every execution that is to return.
    fn ends(&self, at: Address, target: &Target) -> bool {
        let of_this_name = |name: &str| match target {
            Target::External(external) => external == name,
            Target::Computed => false,
            Target::Address(address) => self
                .reader
                .image
                .symbol(address.0)
                .is_some_and(|symbol| symbol.address == address.0 && symbol.name == name),
        };
        matches!(target, Target::Address(address) if self.is_left_out(*address))
            || self.proof.never_returning.iter().any(|end| end.calls.contains(&at) && of_this_name(&end.name))
    }
}

/// Code, and what decodes it.
struct Reader<'a> {
    image: &'a dyn Image,
    decoder: Capstone,
}

impl<'a> Reader<'a> {
    fn new(image: &'a dyn Image) -> Result<Self, Rejection> {
        let decoder = Capstone::new().x86().mode(arch::x86::ArchMode::Mode64).detail(true).build();
        let decoder = decoder.map_err(|error| rejection(None, error.to_string()))?;
        Ok(Self { image, decoder })
    }

    fn decode(&self, at: Address) -> Result<(Address, Flow), Rejection> {
        let code = self.image.code(at.0).unwrap_or_default();
        let instructions = self.decoder.disasm_count(&code[..code.len().min(15)], at.0, 1);
        let Some(instruction) = instructions.as_ref().ok().and_then(|instructions| instructions.first()) else {
            return reject(Some(at), "there is no instruction");
        };
        let detail = self.decoder.insn_detail(instruction).map_err(|error| rejection(Some(at), error.to_string()))?;
        let operand = detail.arch_detail().x86().and_then(|x86| x86.operands().next()).map(|operand| operand.op_type);
        let next = Address(at.0.wrapping_add(instruction.len() as u64));
        let is_in = |groups: &[X86InsnGroup::Type]| {
            detail.groups().iter().any(|group| groups.contains(&X86InsnGroup::Type::from(group.0)))
        };
        let mnemonic = instruction.mnemonic().unwrap_or_default();
        let flow = match X86Insn::from(instruction.id().0) {
            X86Insn::X86_INS_RET if operand.is_none() => Flow::Return,
            X86Insn::X86_INS_UD0 | X86Insn::X86_INS_UD1 | X86Insn::X86_INS_UD2 => Flow::Trap,
            X86Insn::X86_INS_SYSCALL | X86Insn::X86_INS_SYSENTER | X86Insn::X86_INS_INT => Flow::Uncounted,
            // A handler goes on behind them.
            X86Insn::X86_INS_INT1 | X86Insn::X86_INS_INT3 => Flow::Uncounted,
            X86Insn::X86_INS_JMP => Flow::Jump(self.target(operand, next)),
            X86Insn::X86_INS_CALL => Flow::Call(self.target(operand, next)),
            X86Insn::X86_INS_HLT => Flow::Elsewhere,
            X86Insn::X86_INS_XBEGIN | X86Insn::X86_INS_XABORT | X86Insn::X86_INS_XEND => Flow::Elsewhere,
            X86Insn::X86_INS_LJMP | X86Insn::X86_INS_LCALL => Flow::Elsewhere,
            _ if is_in(&[X86InsnGroup::X86_GRP_JUMP, X86InsnGroup::X86_GRP_BRANCH_RELATIVE]) => match operand {
                Some(X86OperandType::Imm(target)) => Flow::Branch(Address(target.cast_unsigned())),
                _ => Flow::Elsewhere,
            },
            _ if is_in(&[X86InsnGroup::X86_GRP_CALL, X86InsnGroup::X86_GRP_RET]) => Flow::Elsewhere,
            _ if is_in(&[X86InsnGroup::X86_GRP_INT, X86InsnGroup::X86_GRP_IRET]) => Flow::Elsewhere,
            _ if mnemonic.starts_with("rep") => Flow::Uncounted,
            _ => Flow::Next,
        };
        Ok((next, flow))
    }

    /// Where a jump or call goes, as far as the image says.
    fn target(&self, operand: Option<X86OperandType>, next: Address) -> Target {
        let pointer = match operand {
            Some(X86OperandType::Imm(target)) => return Target::Address(Address(target.cast_unsigned())),
            Some(X86OperandType::Mem(memory)) if u32::from(memory.index().0) == X86Reg::X86_REG_INVALID => {
                let base = match u32::from(memory.base().0) {
                    X86Reg::X86_REG_RIP => next.0,
                    X86Reg::X86_REG_INVALID => 0,
                    _ => return Target::Computed,
                };
                let elsewhere = [X86Reg::X86_REG_FS, X86Reg::X86_REG_GS].contains(&u32::from(memory.segment().0));
                if elsewhere { None } else { self.image.pointer(base.wrapping_add_signed(memory.disp())) }
            }
            _ => None,
        };
        match pointer {
            Some(Pointer::Address(address)) => Target::Address(Address(address)),
            Some(Pointer::External(name)) => Target::External(name),
            None => Target::Computed,
        }
    }
}

/// That the entry and the places of loops have the names and lines the proof gives them: a bound of one function is not to be
/// read as one of another.
fn name_what_is_there(proof: &Proof, image: &dyn Image) -> Result<(), Rejection> {
    let name = image.symbol(proof.entry.0).filter(|symbol| symbol.address == proof.entry.0).map(|symbol| symbol.name);
    if proof.function != name {
        let named =
            |name: &Option<String>| name.as_ref().map_or_else(|| "nameless".to_owned(), |name| format!("{name:?}"));
        let reason = format!("the entry is {}, not {}", named(&name), named(&proof.function));
        return reject(Some(proof.entry), reason);
    }
    let wrong = |assumed: &&BoundedLoop| {
        let is_there = |source| image.source(assumed.place.0).contains(source);
        !assumed.source.as_ref().is_none_or(is_there)
    };
    match proof.loops.iter().find(wrong) {
        Some(assumed) => reject(Some(assumed.place), "the place of a loop is of another source line"),
        None => Ok(()),
    }
}

/// That whichever side of each conflict an execution avoids, there is a case that avoids no more.
fn cover_all_ways(proof: &Proof) -> Result<(), Rejection> {
    if proof.conflicts.len() > crate::bound::MOST_CONFLICTS {
        return reject(None, "it has more conflicts than are checked");
    }
    let never = proof.loops.iter().filter(|assumed| assumed.at_most == 0).map(|assumed| assumed.place);
    let never: BTreeSet<Address> = never.collect();
    for way in 0..1u32 << proof.conflicts.len() {
        let sides = proof.conflicts.iter().enumerate();
        let sides = sides.flat_map(|(i, conflict)| if way >> i & 1 == 0 { &conflict.first } else { &conflict.second });
        let avoided: BTreeSet<Address> = sides.chain(&never).copied().collect();
        if !proof.cases.iter().any(|case| case.avoid.is_subset(&avoided)) {
            return reject(None, "there is no case for one way of avoiding a side of each conflict");
        }
    }
    Ok(())
}

/// What the proof takes for granted.
fn assumptions(proof: &Proof) -> Vec<String> {
    let list = |addresses: &BTreeSet<Address>| addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut lines = vec!["every return goes to where the call came from".to_owned()];
    lines.extend(proof.loops.iter().map(|assumed| {
        let source = assumed.source.as_ref().map(|source| format!(" ({source})")).unwrap_or_default();
        let (place, at_most, members) = (assumed.place, assumed.at_most, assumed.members.len());
        format!(
            "{place}{source} is executed at most {at_most} times for each entry into its loop of {members} instructions"
        )
    }));
    lines.extend(proof.conflicts.iter().map(|conflict| {
        format!("no execution has one of {} and one of {}", list(&conflict.first), list(&conflict.second))
    }));
    lines.extend(proof.never_returning.iter().map(|end| {
        format!("{} never returns, nor is caught what it throws, called at {}", end.name, list(&end.calls))
    }));
    lines
}

fn rejection(address: Option<Address>, reason: impl Into<String>) -> Rejection {
    Rejection { address: address.map(|address| address.0), reason: reason.into() }
}

fn reject<T>(address: Option<Address>, reason: impl Into<String>) -> Result<T, Rejection> {
    Err(rejection(address, reason))
}
