//! Walk, check and fingerprint of a quick-fit heap.

use super::{FREE, Header, Kind, NONE, QuickFitPolicy, RUN, RUN_END, links};
use crate::contract::{Block, Corruption};
use crate::mechanism::page::{Quantum, ring, ring::Node};
use crate::region::{room_behind, round_up};

impl<const PAGE: usize, const LEAST: usize> QuickFitPolicy<PAGE, LEAST> {
    /// Visits the first page of every run, and every split page, with its kind and its number of pages.
    ///
    /// # Safety
    ///
    /// `begin` has run.
    unsafe fn spans(&self, visit: &mut dyn FnMut(usize, Kind, usize)) {
        let mut index = 0;
        while index < self.pages {
            // SAFETY: the index is below the number of pages, so the page has a header.
            let (kind, pages) = unsafe { ((*self.header(index)).kind, (*self.header(index)).pages as usize) };
            let pages = if matches!(kind, FREE | RUN) { pages.max(1) } else { 1 };
            visit(index, kind, pages);
            index = index.saturating_add(pages);
        }
    }

    /// Verifies a run or a split page, as visited by `spans`.
    ///
    /// # Safety
    ///
    /// As [`Policy::check`](crate::mechanism::policy_heap::Policy::check).
    unsafe fn check_span(&self, index: usize, kind: Kind, pages: usize) -> Result<(), &'static str> {
        // SAFETY: headers below the number of pages are the policy's; links are followed only to fragments of the page.
        unsafe {
            if matches!(kind, FREE | RUN) {
                if (*self.header(index)).pages as usize != pages || pages > self.pages - index {
                    return Err("runs follow each other from the first page to the last");
                }
                let last = self.header(index + pages - 1);
                if kind == FREE && ((*last).kind != FREE || (*last).pages as usize != pages) {
                    return Err("a free run is as long at its end as at its beginning");
                }
                if kind == FREE && self.is_free(index + pages) {
                    return Err("free pages that follow each other are one run");
                }
                if kind == RUN && pages > 1 && (*last).kind != RUN_END {
                    return Err("a live run has its length");
                }
                return Ok(());
            }
            let log2 = u32::from(kind);
            if log2 < Self::LEAST_LOG2 || log2 >= Self::PAGE_LOG2 {
                return Err("a page is free, in a run, or split");
            }
            let marks = self.marks(index);
            let Header { free, first, .. } = *self.header(index);
            let (free, all) = (usize::from(free), PAGE >> log2);
            if free >= all || free + marks.count() != all {
                return Err("a page's header counts its free fragments, and not all are free");
            }
            let is_fragment = |offset: usize| offset < PAGE && offset.is_multiple_of(1 << log2);
            let is_live = |offset| marks.is_set(Quantum::at(offset));
            if (0..PAGE).step_by(LEAST).any(|offset| is_live(offset) && !is_fragment(offset)) {
                return Err("live fragments begin where their page is split");
            }
            let (mut prev, mut offset, mut count) = (NONE, first, 0);
            while offset != NONE {
                if !is_fragment(offset.into()) || is_live(offset.into()) {
                    return Err("a page's list leads to free fragments");
                }
                let here = links(self.page(index), offset).read();
                if here.prev != prev {
                    return Err("a page's list leads back");
                }
                count += 1;
                if count > free {
                    return Err("a page's list holds each free fragment once");
                }
                (prev, offset) = (offset, here.next);
            }
            if count != free { Err("a page's list holds every free fragment") } else { Ok(()) }
        }
    }

    /// Whether a page of kind [`FREE`] is the first of a free run, and not inside a free or a live run: the page before
    /// it is not free, and both ends have the same length.
    ///
    /// # Safety
    ///
    /// As [`Policy::check`](crate::mechanism::policy_heap::Policy::check); the index is below the number of pages.
    pub(super) unsafe fn begins_free(&self, index: usize) -> bool {
        // SAFETY: headers below the number of pages are the policy's.
        unsafe {
            let pages = (*self.header(index)).pages as usize;
            if self.is_free(index.wrapping_sub(1)) || pages == 0 || pages > self.pages - index {
                return false;
            }
            let last = self.header(index + pages - 1);
            (*last).kind == FREE && (*last).pages as usize == pages
        }
    }

    /// Verifies one ring: its nodes are all spans of a kind that are free or have a free fragment.
    ///
    /// # Safety
    ///
    /// As [`Policy::check`](crate::mechanism::policy_heap::Policy::check); the spans are verified.
    unsafe fn check_ring(&self, head: usize, expected_kind: Kind) -> Result<(), Corruption> {
        let belongs = |index: usize, kind: Kind| {
            // SAFETY: the span's index is below the number of pages, so it has a header.
            kind == expected_kind && (kind == FREE || unsafe { (*self.header(index)).free } != 0)
        };
        let mut expected = 0;
        // SAFETY: the spans are verified, and `is_node` accepts only headers of pages.
        unsafe {
            self.spans(&mut |index, kind, _| expected += usize::from(belongs(index, kind)));
            let is_node = |node: usize| {
                let index = self.index(node);
                index < self.pages
                    && self.node(index) == node
                    && belongs(index, (*self.header(index)).kind)
                    && (expected_kind != FREE || self.begins_free(index))
            };
            let count = ring::check(head, expected, &is_node, &mut |_| Ok(()))?;
            if count != expected {
                return Err(Corruption { invariant: "what is free is in a ring", address: head });
            }
        }
        Ok(())
    }

    /// See [`Policy::walk`](crate::mechanism::policy_heap::Policy::walk).
    ///
    /// # Safety
    ///
    /// `begin` has run.
    pub(super) unsafe fn visit_blocks(&self, visit: &mut dyn FnMut(Block)) {
        // SAFETY: `begin` has run, so every page has a header and marks.
        unsafe {
            self.spans(&mut |index, kind, pages| {
                let mut block = |address, size_bytes, free| {
                    visit(Block { address, front_bytes: 0, size_bytes, usable_bytes: size_bytes, free });
                };
                if matches!(kind, FREE | RUN) {
                    return block(self.page(index), pages << Self::PAGE_LOG2, kind == FREE);
                }
                let size_bytes = 1usize.wrapping_shl(kind.into());
                for offset in (0..PAGE).step_by(size_bytes) {
                    let is_live = self.marks(index).is_set(Quantum::at(offset));
                    block(self.page(index) + offset, size_bytes, !is_live);
                }
            });
        }
    }

    /// See [`Policy::check`](crate::mechanism::policy_heap::Policy::check).
    ///
    /// # Safety
    ///
    /// `begin` has run.
    pub(super) unsafe fn verify(&self) -> Result<(), Corruption> {
        // First verify the fields that follow from the policy's address. If the number of pages is too large, but the
        // pages begin at the same address, the additional headers are zeros and belong to no run.
        let start = room_behind(self);
        let table_bytes =
            self.pages.checked_mul(Self::HEADER_BYTES).and_then(|bytes| bytes.checked_add(Self::HEADS_BYTES));
        let first = table_bytes.and_then(|bytes| round_up(start.checked_add(bytes)?, PAGE));
        if self.heads != start || self.pages == 0 || first != Some(self.first) {
            return Err(Corruption { invariant: "heads, table and pages follow each other", address: start });
        }
        let mut found = Ok(());
        let mut has_rover = self.rover == self.runs();
        // SAFETY: `begin` has run; rings are checked only after the spans are verified.
        unsafe {
            self.spans(&mut |index, kind, pages| {
                has_rover |= kind == FREE && self.rover == self.node(index);
                let answer = self.check_span(index, kind, pages);
                let answer = answer.map_err(|invariant| Corruption { invariant, address: self.page(index) });
                found = found.and(answer);
            });
            found?;
            self.check_ring(self.runs(), FREE)?;
            for log2 in Self::LEAST_LOG2..Self::PAGE_LOG2 {
                self.check_ring(self.fragments(log2), log2 as Kind)?;
            }
        }
        match has_rover {
            true => Ok(()),
            false => Err(Corruption { invariant: "the rover is at a free run", address: self.rover }),
        }
    }

    /// See [`Policy::fingerprint`](crate::mechanism::policy_heap::Policy::fingerprint).
    ///
    /// # Safety
    ///
    /// `begin` has run.
    pub(super) unsafe fn emit_state(&self, word: &mut dyn FnMut(usize)) {
        let number = |node: usize| if node == self.runs() { usize::MAX } else { self.index(node) };
        // SAFETY: `begin` has run, so rings lead to headers and lists to free fragments.
        unsafe {
            word(number(self.rover));
            for head in (0..Self::HEADS_BYTES).step_by(size_of::<Node>()).map(|head| self.heads + head) {
                let mut node = ring::next(head);
                while node != head {
                    word(number(node));
                    node = ring::next(node);
                }
                word(usize::MAX);
            }
            self.spans(&mut |index, kind, pages| {
                word(kind.into());
                word(pages);
                if matches!(kind, FREE | RUN) {
                    return;
                }
                let mut offset = (*self.header(index)).first;
                while offset != NONE {
                    word(offset.into());
                    offset = (*links(self.page(index), offset)).next;
                }
                word(usize::MAX);
            });
        }
    }
}
