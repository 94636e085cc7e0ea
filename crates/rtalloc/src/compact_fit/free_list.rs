//! The free-list: numbered resources that need no initialisation.
//!
//! What was given back comes first, last in first out; when there is none, what was never taken follows in its order
//! (Compact-fit 2008, section 3.1):
//!
//! ```text
//! [in use][given back][in use][given back][in use][never taken ......]
//!          ^ returned   next  <--'                 ^ fresh             ^ room
//! ```
//!
//! Pages, abstract addresses, block-frames and whatever else there is many of is kept by one. The link of what was given back
//! is wherever its owner has room for it.

/// No resource: the end of the list.
pub(crate) const NONE: u32 = u32::MAX;

/// The control part of a free-list.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreeList {
    /// How many were ever taken: the number of the first that was not.
    pub(crate) fresh: u32,
    /// The one that was given back last, or [`NONE`]; each links to the one given back before it.
    pub(crate) returned: u32,
}

impl FreeList {
    /// Nothing was taken yet.
    pub(crate) const EMPTY: Self = FreeList { fresh: 0, returned: NONE };

    /// Takes one of `room`; `link` reads the link of one that was given back.
    #[inline(always)]
    pub(crate) fn take(&mut self, room: u32, link: impl FnOnce(u32) -> u32) -> Option<u32> {
        match self.take_returned(link) {
            None => self.take_fresh(room),
            item => item,
        }
    }

    /// Takes the one that was given back last; `link` reads its link.
    #[inline(always)]
    pub(crate) fn take_returned(&mut self, link: impl FnOnce(u32) -> u32) -> Option<u32> {
        let item = self.returned;
        if item == NONE {
            return None;
        }
        self.returned = link(item);
        Some(item)
    }

    /// Takes one of `room` that was never taken.
    #[inline(always)]
    pub(crate) fn take_fresh(&mut self, room: u32) -> Option<u32> {
        if self.fresh == room {
            return None;
        }
        let item = self.fresh;
        self.fresh = item.wrapping_add(1);
        Some(item)
    }

    /// Gives one back; `link` is called with what its link must be.
    #[inline(always)]
    pub(crate) fn give(&mut self, item: u32, link: impl FnOnce(u32)) {
        link(self.returned);
        self.returned = item;
    }

    /// Calls `visit` with those that were given back, the last one first, and returns their number. `None` if the list leads
    /// to one that was never taken, or does not end. Links are read of what was taken at some time alone.
    pub(crate) fn walk(&self, link: impl Fn(u32) -> u32, visit: &mut dyn FnMut(u32)) -> Option<u32> {
        let mut count = 0;
        let mut item = self.returned;
        while item != NONE {
            if item >= self.fresh || count == self.fresh {
                return None;
            }
            visit(item);
            count += 1;
            item = link(item);
        }
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::{vec, vec::Vec};

    #[test]
    fn what_was_given_back_comes_first() {
        let mut links = [NONE; 3];
        let mut list = FreeList::EMPTY;
        let taken: Vec<_> = (0..4).map(|_| list.take(3, |item| links[item as usize])).collect();
        assert_eq!(taken, [Some(0), Some(1), Some(2), None]);
        for item in [1, 0] {
            list.give(item, |next| links[item as usize] = next);
        }
        let mut seen = vec![];
        assert_eq!(list.walk(|item| links[item as usize], &mut |item| seen.push(item)), Some(2));
        assert_eq!(seen, [0, 1]);
        let taken: Vec<_> = (0..3).map(|_| list.take(3, |item| links[item as usize])).collect();
        assert_eq!(taken, [Some(0), Some(1), None]);
    }

    #[test]
    fn a_list_that_leads_astray_is_found() {
        let list = FreeList { fresh: 2, returned: 0 };
        assert_eq!(list.walk(|_| 2, &mut |_| ()), None, "beyond what was taken");
        assert_eq!(list.walk(|item| 1 - item, &mut |_| ()), None, "in a circle");
        assert_eq!(list.walk(|_| NONE, &mut |_| ()), Some(1));
    }
}
