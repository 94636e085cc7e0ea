//! Walk, check and fingerprint of a buddy heap.

use super::{Buddies, Piece, Placement, State, System, Tag, Units};
use crate::contract::{Block, Corruption};
use crate::mechanism::free_list::{NULL, check_list, next_at};
use crate::mechanism::size_class::Class;
use crate::mechanism::word::Width;

/// Whether a tag is that of a block of this piece, in any state.
fn is_block(tag: Tag, piece: Piece) -> bool {
    [State::Free, State::Live, State::Displaced].iter().any(|&state| tag == piece.tag(state))
}

impl<S: System, P: Placement, W: Width> Buddies<S, P, W> {
    /// The top block at an address where one begins.
    fn top_at(&self, address: usize) -> Piece {
        Piece { address, class: S::top(self.origin, self.end(), address), sides: 0 }
    }

    /// How far a live block's payload is displaced; 0 for any other block.
    ///
    /// # Safety
    ///
    /// `begin` has run; the block at the address has this tag.
    unsafe fn displacement(&self, address: usize, tag: Tag) -> usize {
        match tag.is(State::Displaced) {
            // SAFETY: the first word of a displaced block is the distance of its payload.
            true => unsafe { self.memory.load(self.memory.offset(address)) },
            false => 0,
        }
    }

    /// See [`Policy::walk`](crate::mechanism::policy_heap::Policy::walk).
    ///
    /// # Safety
    ///
    /// `begin` has run.
    pub(super) unsafe fn visit_blocks(&self, visit: &mut dyn FnMut(Block)) {
        let mut at = self.origin;
        while at < self.end() {
            // SAFETY: `begin` has run, and a block begins at `at`.
            let (tag, distance) = unsafe {
                let tag = self.tag(at);
                (tag, self.displacement(at, tag))
            };
            let size_bytes = S::bytes(tag.class());
            let front_bytes = P::HEADER_BYTES + distance;
            visit(Block {
                address: at + distance,
                front_bytes,
                size_bytes,
                usable_bytes: size_bytes - front_bytes,
                free: tag.is(State::Free),
            });
            at += size_bytes;
        }
    }

    /// Whether a block of the hierarchy begins at an address.
    ///
    /// # Safety
    ///
    /// `begin` has run; the address is a unit of the heap.
    unsafe fn begins_block(&self, address: usize) -> bool {
        let mut piece = self.top_at(S::top_near(self.origin, address));
        while address - piece.address >= S::bytes(piece.class) {
            piece = self.top_at(piece.address + S::bytes(piece.class));
        }
        loop {
            // SAFETY: a piece of the hierarchy begins at a unit.
            if is_block(unsafe { self.tag(piece.address) }, piece) {
                return piece.address == address;
            }
            if !S::is_divisible(piece.class) {
                return false;
            }
            let (lower, upper) = Self::parts(piece);
            piece = if address < upper.address { lower } else { upper };
        }
    }

    /// Verifies one block, a piece with this tag.
    ///
    /// # Safety
    ///
    /// `begin` has run.
    unsafe fn verify_block(&self, piece: Piece, tag: Tag) -> Result<(), Corruption> {
        // A header inside a block is the user's. A cell of the table stays free after its block merged.
        if P::HEADER_BYTES == 0 {
            for distance_bytes in Units::within::<S>(S::bytes(piece.class)).distances_bytes::<S>().skip(1) {
                let address = piece.address + distance_bytes;
                // SAFETY: the address is a unit of the heap.
                if unsafe { self.tag(address) }.is_live() {
                    return Err(Corruption { invariant: "no live block begins inside a block", address });
                }
            }
        }
        if !tag.is(State::Displaced) {
            return Ok(());
        }
        let corrupt = Err(Corruption {
            invariant: "a displaced payload and its block lead to each other",
            address: piece.address,
        });
        // SAFETY: the block is live and displaced, so its first word is the heap's; the payload is read only if inside.
        unsafe {
            let distance = self.displacement(piece.address, tag);
            let is_inside = distance != 0 && distance < S::bytes(piece.class) && distance.is_multiple_of(S::UNIT_BYTES);
            if Self::IS_ALIGNED || !is_inside {
                return corrupt;
            }
            let payload = piece.address + distance;
            let agrees = self.tag(payload) == Tag::MARKER && self.memory.load(self.distance_at(payload)) == distance;
            if agrees { Ok(()) } else { corrupt }
        }
    }

    /// Verifies the blocks within a top block, and adds the free ones of each class to `free_blocks`.
    ///
    /// # Safety
    ///
    /// `begin` has run.
    unsafe fn verify_top(&self, top: Piece, free_blocks: &mut [usize; 64]) -> Result<(), Corruption> {
        // The pieces still to verify: the upper parts on the way down, at most one per level.
        let mut waiting = [top; 64];
        let mut waits = 1;
        while waits > 0 {
            waits -= 1;
            let Some(&piece) = waiting.get(waits) else { break };
            // SAFETY: a piece of the hierarchy begins at a unit.
            let tag = unsafe { self.tag(piece.address) };
            if is_block(tag, piece) {
                // SAFETY: `begin` has run, and the piece has this tag.
                unsafe { self.verify_block(piece, tag)? };
                if let (true, Some(count)) = (tag.is(State::Free), free_blocks.get_mut(piece.class.number())) {
                    *count += 1;
                }
                continue;
            }
            if !S::is_divisible(piece.class) {
                return Err(Corruption { invariant: "a block is a piece of the hierarchy", address: piece.address });
            }
            let (lower, upper) = Self::parts(piece);
            // SAFETY: parts begin at units.
            let are_free =
                [lower, upper].iter().all(|&part| unsafe { self.tag(part.address) } == part.tag(State::Free));
            if are_free {
                return Err(Corruption { invariant: "two free buddies are one block", address: piece.address });
            }
            for part in [upper, lower] {
                if let Some(place) = waiting.get_mut(waits) {
                    *place = part;
                    waits += 1;
                }
            }
        }
        Ok(())
    }

    /// Whether the policy's fields follow from its address and the heap's length. Only the length has no second copy.
    fn fields_are_consistent(&self) -> bool {
        let start = core::ptr::from_ref(self).addr() + size_of::<Self>();
        let units = Units::within::<S>(self.span_bytes);
        if !self.span_bytes.is_multiple_of(S::UNIT_BYTES)
            || self.span_bytes > W::MAX
            || self.span_bytes < S::SMALLEST_BYTES
        {
            return false;
        }
        let Some((map, origin)) = Self::layout(start, units) else { return false };
        self.memory.address(NULL) == start
            && self.origin == origin
            && self.tags == P::new::<S>(map, origin)
            && self.anchor == S::anchor(origin, origin + self.span_bytes)
            && self.last == S::class_within(self.span_bytes)
    }

    /// See [`Policy::check`](crate::mechanism::policy_heap::Policy::check).
    ///
    /// # Safety
    ///
    /// `begin` has run.
    pub(super) unsafe fn verify(&self) -> Result<(), Corruption> {
        if !self.fields_are_consistent() {
            let invariant = "the control structure follows from its address and the heap's length";
            return Err(Corruption { invariant, address: core::ptr::from_ref(self).addr() });
        }
        let mut free_blocks = [0; 64];
        let mut at = self.origin;
        let mut largest_bytes = 0;
        while at < self.end() {
            let top = self.top_at(at);
            // SAFETY: `begin` has run.
            unsafe { self.verify_top(top, &mut free_blocks)? };
            at += S::bytes(top.class);
            largest_bytes = largest_bytes.max(S::bytes(top.class) - P::HEADER_BYTES);
        }
        if self.limit_bytes != largest_bytes {
            return Err(Corruption { invariant: "the limit is that of the largest top block", address: self.origin });
        }
        // SAFETY: a system whose buddies stay within the region has a tag at its end.
        if !S::LEAVES && unsafe { self.tag(self.end()) } != Tag::NONE {
            return Err(Corruption { invariant: "no block begins at the end", address: self.end() });
        }
        for (number, &expected) in free_blocks.iter().enumerate() {
            let class = Class::new(number);
            if class < S::FIRST || class > self.last {
                let invariant = "no class beyond the largest has a free block";
                match expected == 0 && self.free & super::only(class) == 0 {
                    true => continue,
                    false => return Err(Corruption { invariant, address: self.origin }),
                }
            }
            let is_place = |offset| {
                let address = self.memory.address(offset);
                // SAFETY: the tag is read only if the address is a unit, and `begins_block` reads only tags of pieces.
                self.is_unit(address)
                    && unsafe {
                        let tag = self.tag(address);
                        tag.is(State::Free) && tag.class() == class && self.begins_block(address)
                    }
            };
            let head = Self::head(class);
            // SAFETY: the class has a head, and `is_place` accepts only free blocks of the class, which have links.
            let (count, _) =
                unsafe { check_list(self.memory, next_at::<W>(head), head, expected, &is_place, &mut |_| Ok(()))? };
            let address = self.memory.address(head);
            if count != expected {
                return Err(Corruption { invariant: "every free block is in the list of its class", address });
            }
            if (self.free & super::only(class) != 0) != (count != 0) {
                return Err(Corruption {
                    invariant: "a class's bit is set if and only if its list has a block",
                    address,
                });
            }
        }
        Ok(())
    }

    /// See [`Policy::fingerprint`](crate::mechanism::policy_heap::Policy::fingerprint): the blocks, and the order of
    /// every list. Sides follow from the positions of the blocks.
    ///
    /// # Safety
    ///
    /// `begin` has run.
    pub(super) unsafe fn emit_state(&self, word: &mut dyn FnMut(usize)) {
        let mut at = self.origin;
        while at < self.end() {
            // SAFETY: `begin` has run, and a block begins at `at`.
            let (tag, distance) = unsafe {
                let tag = self.tag(at);
                (tag, self.displacement(at, tag))
            };
            word(tag.without_sides() | distance << Tag::BITS);
            at += S::bytes(tag.class());
        }
        for class in S::FIRST.through(self.last) {
            // SAFETY: the class has a head, and links lead to free blocks.
            unsafe {
                let mut block = self.memory.load_link(next_at::<W>(Self::head(class)));
                while block != NULL {
                    word(block.bytes());
                    block = self.memory.load_link(next_at::<W>(block));
                }
            }
        }
    }
}
