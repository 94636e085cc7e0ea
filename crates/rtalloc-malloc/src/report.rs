//! The report, at exit and on request, and other functions that examine every heap in a pause.

use crate::kinds;
use crate::output::{Bytes, Percent, Text};
use crate::settings::Report;
use crate::state::{STATE, State};
use crate::{misuse, pages, setup};
use core::ffi::c_int;
use core::fmt::{self, Write};
use core::sync::atomic::Ordering::Relaxed;
use rtalloc::adapt::Failures;
use rtalloc::contract::{Block, Corruption, Refusals};
use rtalloc_sys::libc::{O_APPEND, O_CLOEXEC, O_CREAT, O_WRONLY};
use rtalloc_sys::{process_id, syscall};

/// Results of a walk of all regions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Survey {
    /// Regions.
    pub regions: usize,
    /// Bytes of regions.
    pub region_bytes: usize,
    /// Bytes of all blocks.
    pub block_bytes: usize,
    /// Usable bytes of live blocks.
    pub live_bytes: usize,
    /// Live blocks.
    pub live_blocks: usize,
    /// Bytes of free blocks.
    pub free_bytes: usize,
    /// Free blocks.
    pub free_blocks: usize,
    /// Largest request that succeeds in some slot.
    pub largest: usize,
    /// How far the regions were used: H, if operations are counted.
    pub used_bytes: usize,
    /// A broken invariant of a heap, if there is one.
    pub damage: Option<Corruption>,
    /// Requests that heaps refused, whether another heap served them or not.
    pub refusals: Refusals,
}

/// Walks all regions.
///
/// # Safety
///
/// The process is paused by the calling thread.
pub unsafe fn survey() -> Survey {
    let mut survey = Survey::default();
    let kind = kinds::current();
    for region in STATE.regions.iter() {
        survey.regions += 1;
        survey.region_bytes += region.end - region.start;
        let mut first = region.end;
        let mut visit = |block: Block| {
            first = first.min(block.address - block.front_bytes);
            survey.block_bytes += block.size_bytes;
            if block.free {
                survey.free_blocks += 1;
                survey.free_bytes += block.usable_bytes;
            } else {
                survey.live_blocks += 1;
                survey.live_bytes += block.usable_bytes;
            }
        };
        // SAFETY: the process is paused, so no thread uses the heap.
        unsafe {
            (kind.walk)(region.heap, &mut visit);
            survey.used_bytes += STATE.counters.used(region, first);
            survey.largest = survey.largest.max((kind.largest)(region.heap));
            survey.damage = survey.damage.or((kind.check)(region.heap).err());
            let Refusals { request, exhausted, contended, pending } = (kind.refusals)(region.heap);
            survey.refusals.request += request;
            survey.refusals.exhausted += exhausted;
            survey.refusals.contended += contended;
            survey.refusals.pending += pending;
        }
    }
    survey
}

/// Large free blocks, whose pages the process may never have touched.
#[derive(Clone, Copy, Debug)]
pub struct LargeFree {
    /// Address and bytes.
    blocks: [(usize, usize); 64],
}

impl LargeFree {
    /// Smaller blocks count as touched.
    const FROM_BYTES: usize = 1 << 20;

    /// No block.
    pub const NONE: LargeFree = LargeFree { blocks: [(0, 0); 64] };

    /// Finds as many as fit, the largest; further ones count as touched.
    ///
    /// # Safety
    ///
    /// As [`survey`].
    pub unsafe fn find() -> Self {
        let mut found = Self::NONE;
        let mut visit = |block: Block| {
            if block.free
                && block.usable_bytes >= Self::FROM_BYTES
                && let Some(smallest) = found.blocks.iter_mut().min_by_key(|(_, bytes)| *bytes)
                && smallest.1 < block.usable_bytes
            {
                *smallest = (block.address, block.usable_bytes);
            }
        };
        for region in STATE.regions.iter() {
            // SAFETY: the process is paused, so no thread uses the heap.
            unsafe { (kinds::current().walk)(region.heap, &mut visit) };
        }
        found
    }

    /// Bytes of their pages that are not in memory.
    pub fn untouched_bytes(&self) -> usize {
        self.blocks.iter().map(|(start, bytes)| pages::absent_bytes(*start, start + bytes)).sum()
    }
}

/// Writes the report at exit, if the settings ask for one.
pub fn at_exit() {
    let settings = STATE.settings();
    if settings.report == Report::No || !setup::ready() {
        return;
    }
    if settings.report == Report::Stderr {
        return write_report(STATE.stderr.at_exit());
    }
    let path = settings.report_path.expanded();
    // SAFETY: the path ends with a zero. The descriptor is used only here, and closed.
    unsafe {
        let file = syscall::open(path.as_ptr(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o666);
        if file < 0 {
            let name = path.as_str();
            return STATE.stderr.print(format_args!(
                "rtalloc: RTALLOC_REPORT: {name} cannot be opened; choose a file that can be written to\n"
            ));
        }
        write_report(file);
        syscall::close(file);
    }
}

/// Writes the report to a file.
pub fn write_report(file: c_int) {
    let paused = STATE.threads.pause();
    // SAFETY: the process is paused by the calling thread, here or by a caller.
    let survey = if paused || STATE.threads.is_pausing() { unsafe { survey() } } else { Survey::default() };
    if paused {
        STATE.threads.resume();
    }
    let _ = write_lines(&mut Text::to(file), &survey);
}

/// Writes the lines of the report.
fn write_lines(text: &mut Text, survey: &Survey) -> fmt::Result {
    let State { counters, direct, threads, .. } = &STATE;
    let settings = STATE.settings();
    let kind = kinds::current();
    let growth = if settings.fixed { "fixed" } else { "growing" };
    let locked = if settings.locked { ", locked in memory" } else { "" };
    writeln!(text, "rtalloc: {} in process {}: {growth}{locked}", kind.name, process_id())?;
    let [mapped, mapped_peak, direct_blocks] =
        [&direct.mapped_bytes, &direct.peak_bytes, &direct.count].map(|counter| counter.load(Relaxed));
    if settings.is_counting() {
        let [allocations, frees, reallocations] =
            [&counters.allocations, &counters.frees, &counters.reallocations].map(|counter| counter.load(Relaxed));
        writeln!(text, "  operations    {allocations} allocations, {reallocations} reallocations, {frees} frees")?;
        let (peak, blocks) = (counters.peak_bytes.load(Relaxed), counters.peak_blocks.load(Relaxed));
        writeln!(text, "  peak M        {peak} bytes live at a time ({}), {blocks} blocks", Bytes(peak))?;
        let used = survey.used_bytes + mapped_peak;
        let waste = Percent(used.saturating_sub(peak), peak);
        writeln!(text, "  heap H        {used} bytes used ({}), F = {waste}", Bytes(used))?;
        let share = Percent(counters.requested_bytes.load(Relaxed), counters.granted_bytes.load(Relaxed));
        writeln!(text, "  requests      {share} of the granted bytes")?;
    }
    writeln!(text, "  live now      {} bytes in {} blocks", survey.live_bytes, survey.live_blocks)?;
    writeln!(
        text,
        "  free          {} bytes in {} blocks, largest {}",
        survey.free_bytes, survey.free_blocks, survey.largest
    )?;
    let slots = if kind.has_slots { STATE.slots() } else { 1 };
    let plural = if slots == 1 { "" } else { "s" };
    let bytes = Bytes(survey.region_bytes);
    writeln!(text, "  regions       {} of {bytes}, {slots} slot{plural}", survey.regions)?;
    writeln!(text, "  direct        {direct_blocks} blocks of {}, at most {}", Bytes(mapped), Bytes(mapped_peak))?;
    // Threads that share the last slot are not counted.
    let more = if kind.has_slots && threads.most() >= STATE.last_slot() { " or more" } else { "" };
    writeln!(
        text,
        "  threads       {}{more} at a time, {} operations shared the last slot",
        threads.most(),
        threads.shared_operations.load(Relaxed)
    )?;
    let [requests, injected, beyond] =
        [&counters.requests, &counters.injected, &counters.beyond_quota].map(|counter| counter.load(Relaxed));
    if settings.failures != Failures::Never {
        writeln!(text, "  injected      {injected} of {requests} requests refused")?;
    }
    if let Some(quota) = settings.quota_bytes {
        writeln!(text, "  quota         {quota} bytes, {beyond} requests refused")?;
    }
    let Refusals { request, exhausted, contended, pending } = survey.refusals;
    writeln!(
        text,
        "  failures      {}, the largest of {} bytes (heaps refused {request} as such, \
         {exhausted} exhausted, {pending} pending, {contended} contended)",
        counters.refused.load(Relaxed),
        counters.largest_refused_bytes.load(Relaxed)
    )?;
    writeln!(
        text,
        "  misuse        {} detected, {} blocks kept",
        counters.misuses.load(Relaxed),
        counters.lost.load(Relaxed)
    )?;
    match survey.damage {
        None => writeln!(text, "  heaps         intact"),
        Some(damage) => writeln!(text, "  heaps         damaged: {damage}"),
    }
}

/// Verifies guarded heaps at exit: finds writes beyond blocks that were never freed.
pub fn check_at_exit() {
    let kind = kinds::current();
    if kind.name != "guarded" || !setup::ready() || !STATE.threads.pause() {
        return;
    }
    // SAFETY: the process is paused, so no thread uses the heaps.
    let damage = STATE.regions.iter().find_map(|region| unsafe { (kind.check)(region.heap) }.err());
    STATE.threads.resume();
    if let Some(damage) = damage {
        misuse::damaged(&damage);
    }
}
