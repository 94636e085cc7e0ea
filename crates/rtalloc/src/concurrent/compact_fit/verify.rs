//! Verification of a heap while no other thread uses it.

use super::SharedCompactFit;
use super::instance::{At, BACK_BYTES};
use crate::arithmetic::count;
use crate::compact_fit::classes::{self, Block, address_of};
use crate::compact_fit::free_list::NONE;
use crate::compact_fit::ladder::Ladder;
use crate::compact_fit::page::{self, FREE};
use crate::compact_fit::steps;
use crate::concurrent::atomics::Atomics;
use crate::concurrent::pooled_arenas::remote_queue::QueuedFree;
use crate::contract::Corruption;
use core::sync::atomic::Ordering::Relaxed;

fn broken<T>(invariant: &'static str, address: usize) -> Result<T, Corruption> {
    Err(Corruption { invariant, address })
}

impl<const IOTA: usize, L: Ladder, A: Atomics> SharedCompactFit<'_, IOTA, L, A> {
    /// Verifies the plan, then each instance with its queued remote frees.
    pub(super) fn verify(&self) -> Result<(), Corruption> {
        let plan = self.plan();
        let control = self.control.addr().get();
        let slots = self.slots();
        let fits = Self::front_bytes(slots, plan.objects.get() as usize).is_some_and(|(front, before, row)| {
            plan.instances == control.wrapping_add(front)
                && plan.entries == control.wrapping_add(before)
                && plan.row_bytes == row
                && plan.queues == plan.entries.wrapping_sub(row.wrapping_mul(slots))
        });
        if !fits || slots == 0 || plan.reclaim_budget == 0 || plan.reclaim_budget_on_miss == 0 {
            return broken("queues follow the places, entries the queues, and instances the entries", control);
        }
        (0..slots).try_for_each(|slot| self.verify_slot(slot))
    }

    fn verify_slot(&self, slot: usize) -> Result<(), Corruption> {
        let plan = self.plan();
        let share = plan.share(slot);
        // SAFETY: the slot exists; everything is verified before it is followed.
        unsafe {
            let instance = self.instance(slot);
            let planned = At::<L, A>::plan(share.start, share.len());
            if planned.is_none_or(|(directory, _)| directory.base() != instance.base()) {
                return broken("an instance lies in the slot's share", instance.base());
            }
            let own = &*instance.extra();
            let entries = plan.entries.wrapping_add(slot.wrapping_mul(plan.objects.get() as usize * Self::ENTRY_BYTES));
            if instance.entries() != entries || own.room != plan.objects.get() || own.list.fresh > own.room {
                return broken("a slot's entries are where the plan says", instance.base());
            }
            instance.check_pool()?;
            for header in instance.headers() {
                let class = (*header).state.class;
                if usize::from(class) >= L::CLASSES && class != FREE {
                    return broken("a page is free or belongs to a class", header.addr());
                }
            }
            classes::check(instance, true)?;
            steps::check(instance)?;
            let housed = self.verify_objects(instance)?;
            let live = count((0..own.list.fresh).filter(|&number| instance.entry(number).state().is_live));
            let moving = count((0..own.list.fresh).filter(|&number| instance.entry(number).state().is_moving));
            if moving > usize::from(steps::under_way(instance).is_some()) {
                return broken("an object that is moving is under way", instance.base());
            }
            let leaving = self.verify_leaving(instance, slot)?;
            let is_live = |number| instance.entry(number).state().is_live;
            let mut strangers = 0;
            let link = |number| instance.entry(number).link().load(Relaxed);
            let listed = own.list.walk(link, &mut |number| strangers += u32::from(is_live(number)));
            let Some(listed) = listed.filter(|_| strangers == 0) else {
                return broken("the free list holds unused entries only", instance.base());
            };
            if housed != live + leaving || housed + listed as usize != own.list.fresh as usize {
                return broken("an entry has an object, or is in the free list", instance.base());
            }
        }
        Ok(())
    }

    /// Verifies that every used page-block, except the reserved one, is the place of the entry it names. Counts them.
    ///
    /// # Safety
    ///
    /// Pages, classes and steps are verified.
    unsafe fn verify_objects(&self, instance: At<L, A>) -> Result<usize, Corruption> {
        let mut housed = 0;
        // SAFETY: pages, classes and steps are verified, so headers, page-blocks and entry numbers lie in the instance.
        unsafe {
            let reserved = steps::reserved(instance);
            let fresh = (*instance.extra()).list.fresh;
            for header in instance.headers().filter(|&header| usize::from((*header).state.class) < L::CLASSES) {
                let class = usize::from((*header).state.class);
                let size_class = L::size_class(class);
                let bytes = size_class.block_bytes as usize;
                for number in (0..usize::from(size_class.blocks)).filter(|&number| page::is_used(header, number)) {
                    if reserved.is_some_and(|block| (block.header, block.number) == (header, number)) {
                        continue;
                    }
                    let address = address_of(instance, bytes, Block { header, number });
                    let entry = instance.number_at(address, bytes);
                    if entry >= fresh || instance.entry(entry).place() != address {
                        return broken(
                            "an object's page-block ends with the number of the entry that leads to it",
                            address,
                        );
                    }
                    let size_bytes = instance.entry(entry).size();
                    if size_bytes == 0
                        || size_bytes > L::PAGE - BACK_BYTES
                        || L::class_of(size_bytes + BACK_BYTES) != class
                    {
                        return broken("an object is in the class of its size", address);
                    }
                    housed += 1;
                }
            }
        }
        Ok(housed)
    }

    /// Verifies the queued remote frees of a slot, and the entries that wait for their last pin. Returns the sum.
    ///
    /// # Safety
    ///
    /// The slot exists, and its entries are where the plan says.
    unsafe fn verify_leaving(&self, instance: At<L, A>, owner: usize) -> Result<usize, Corruption> {
        let mut leaving = 0;
        // SAFETY: the slot exists; links are read only of entries less than `fresh`, which exist.
        unsafe {
            let own = &*instance.extra();
            let fresh = own.list.fresh;
            let mut visit = |number: u32, least_pins: usize| {
                if number >= fresh || leaving == fresh as usize {
                    return broken("a queued free is an object of the slot, queued once", instance.base());
                }
                leaving += 1;
                let entry = instance.entry(number);
                let state = entry.state();
                if state.is_live || state.pins < least_pins {
                    return broken("a queued free is a freed object that has a pin", core::ptr::from_ref(entry).addr());
                }
                Ok(entry.link().load(Relaxed))
            };
            let (common, queue) = (&self.place(owner).common.0, |producer| self.queue(producer, owner));
            common.verify(owner, self.slots(), QueuedFree::new(own.chain), queue, &mut |queued| {
                Ok(QueuedFree::new(visit(queued.get().wrapping_sub(1), 1)?))
            })?;
            let [first, last] = own.waiting;
            let (mut number, mut before) = (first, NONE);
            while number != NONE {
                before = number;
                number = visit(number, 0)?;
            }
            if before != last {
                return broken("the waiting list ends with its last entry", instance.base());
            }
        }
        Ok(leaving)
    }
}
