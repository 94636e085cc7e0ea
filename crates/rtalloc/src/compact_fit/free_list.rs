//! The free-list: a list of numbered resources that need no initialisation.
//!
//! Returned resources are taken first, last in, first out; if there are none, the ones that were never taken follow in
//! order (Compact-fit 2008, section 3.1):
//!
//! ```text
//! [in use][ returned ][in use][ returned ][in use][never taken ......]
//!          ^ returned   next  <--'                 ^ fresh             ^ room
//! ```
//!
//! Pages, abstract addresses and block-frames are each managed by such a list. The owner of a resource decides where
//! its link is stored.

/// No resource: the end of the list.
pub(crate) const NONE: u32 = u32::MAX;

/// The control part of a free-list.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreeList {
    /// Number of resources taken so far: the first one that was never taken.
    pub(crate) fresh: u32,
    /// The resource that was returned last, or [`NONE`]; each links to the one returned before it.
    pub(crate) returned: u32,
}

impl FreeList {
    /// No resource has been taken.
    pub(crate) const EMPTY: Self = FreeList { fresh: 0, returned: NONE };

    /// Takes one of `room` resources; `link` reads the link of a returned one.
    #[inline(always)]
    pub(crate) fn take(&mut self, room: u32, link: impl FnOnce(u32) -> u32) -> Option<u32> {
        match self.take_returned(link) {
            None => self.take_fresh(room),
            item => item,
        }
    }

    /// Takes the resource that was returned last; `link` reads its link.
    #[inline(always)]
    pub(crate) fn take_returned(&mut self, link: impl FnOnce(u32) -> u32) -> Option<u32> {
        let item = self.returned;
        if item == NONE {
            return None;
        }
        self.returned = link(item);
        Some(item)
    }

    /// Takes a resource of `room` that was never taken.
    #[inline(always)]
    pub(crate) fn take_fresh(&mut self, room: u32) -> Option<u32> {
        if self.fresh == room {
            return None;
        }
        let item = self.fresh;
        self.fresh = item.wrapping_add(1);
        Some(item)
    }

    /// Returns a resource; `link` is called with the value to store as its link.
    #[inline(always)]
    pub(crate) fn give(&mut self, item: u32, link: impl FnOnce(u32)) {
        link(self.returned);
        self.returned = item;
    }

    /// Calls `visit` with the returned resources, the last one first, and returns their number. `None` if the list
    /// leads to a resource that was never taken, or does not end. Only links of taken resources are read.
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
    fn a_damaged_list_is_found() {
        let list = FreeList { fresh: 2, returned: 0 };
        assert_eq!(list.walk(|_| 2, &mut |_| ()), None, "beyond what was taken");
        assert_eq!(list.walk(|item| 1 - item, &mut |_| ()), None, "in a circle");
        assert_eq!(list.walk(|_| NONE, &mut |_| ()), Some(1));
    }
}
