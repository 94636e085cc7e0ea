//! What the heap can say of itself: at exit, and when the program asks.

use crate::regions::{self, Known, is_counting, kind};
use crate::settings::{PATH_BYTES, Report};
use crate::tell::{Bytes, Text, stderr_at_end};
use crate::{direct, libc, misuse, ring, seat, system, tally};
use core::ffi::c_int;
use core::fmt::{self, Write};
use core::sync::atomic::Ordering::Relaxed;
use rtalloc::adapt::Failures;
use rtalloc::contract::{Block, Corruption, Refusals};

/// What a walk of all regions shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Survey {
    /// Regions.
    pub regions: usize,
    /// Bytes of regions.
    pub region_bytes: usize,
    /// Bytes of live blocks that may be used.
    pub live_bytes: usize,
    /// Live blocks.
    pub live_blocks: usize,
    /// Bytes of free blocks.
    pub free_bytes: usize,
    /// Free blocks.
    pub free_blocks: usize,
    /// Largest request that some slot serves.
    pub largest: usize,
    /// Bytes up to the highest end of a block there was, in every slot: H, where operations are counted.
    pub used_bytes: usize,
    /// What is wrong with a heap, if something is.
    pub damage: Option<Corruption>,
    /// Requests that heaps refused, asked again elsewhere or not.
    pub refusals: Refusals,
}

/// Walks all regions.
///
/// # Safety
///
/// Nobody is at work: the process is paused by the calling thread.
#[must_use]
pub unsafe fn survey() -> Survey {
    let mut survey = Survey::default();
    for region in (0..regions::count()).filter_map(regions::known) {
        survey.regions += 1;
        survey.region_bytes += region.end - region.start;
        let slots = if kind().has_slots { regions::slots() } else { 1 };
        for slot in 0..slots {
            // SAFETY: the caller's promise.
            unsafe { survey_slot(&mut survey, region, slot) };
        }
        // SAFETY: as above.
        unsafe {
            survey.largest = survey.largest.max((kind().largest)(region.heap));
            survey.damage = survey.damage.or((kind().check)(region.heap).err());
            let Refusals { request, exhausted, contended, pending } = (kind().refusals)(region.heap);
            survey.refusals.request += request;
            survey.refusals.exhausted += exhausted;
            survey.refusals.contended += contended;
            survey.refusals.pending += pending;
        }
    }
    survey
}

/// Walks what serves a slot of a region.
///
/// # Safety
///
/// As [`survey`].
unsafe fn survey_slot(survey: &mut Survey, region: Known, slot: usize) {
    let mut first = usize::MAX;
    let mut visit = |block: Block| {
        first = first.min(block.address - block.front_bytes);
        if block.free {
            survey.free_blocks += 1;
            survey.free_bytes += block.usable_bytes;
        } else {
            survey.live_blocks += 1;
            survey.live_bytes += block.usable_bytes;
        }
    };
    // SAFETY: the caller's promise.
    unsafe { (kind().walk_by)(region.heap, slot, &mut visit) };
    survey.used_bytes += tally::highest(region.index, slot).saturating_sub(first);
}

/// Writes the report where it was asked for.
pub fn at_exit() {
    let settings = regions::settings();
    if settings.report == Report::No || !regions::ready() {
        return;
    }
    if settings.report == Report::Stderr {
        return write_report(stderr_at_end());
    }
    let mut path = [0; PATH_BYTES];
    ring::name_of(&settings.report_path, &mut path);
    // SAFETY: the path ends with a zero; the file is closed below.
    unsafe {
        let file = system::open(path.as_ptr().cast(), libc::APPEND, 0o666 as c_int);
        if file < 0 {
            crate::tell::tell(format_args!("rtalloc: the report's file cannot be opened (RTALLOC_REPORT)\n"));
            return;
        }
        write_report(file);
        system::close(file);
    }
}

/// Writes the report to a file.
pub fn write_report(file: c_int) {
    let paused = seat::pause();
    // SAFETY: the process is paused: by us, or around us.
    let survey = if paused || seat::is_pausing() { unsafe { survey() } } else { Survey::default() };
    if paused {
        seat::resume();
    }
    let _ = write_words(&mut Text::to(file), &survey);
}

/// A share in percent, with one decimal.
struct Percent(usize, usize);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Percent(part, whole) = *self;
        if whole == 0 {
            return f.write_str("-");
        }
        let tenths = (part as u128 * 1000 / whole as u128) as usize;
        write!(f, "{}.{} %", tenths / 10, tenths % 10)
    }
}

fn write_words(text: &mut Text, survey: &Survey) -> fmt::Result {
    let settings = regions::settings();
    // SAFETY: asks a number only.
    let process = unsafe { system::getpid() };
    let growth = if settings.fixed { "fixed" } else { "growing" };
    let locked = if settings.locked { ", locked in memory" } else { "" };
    writeln!(text, "rtalloc: {} in process {process}: {growth}{locked}", kind().name)?;
    let (mapped, mapped_peak, direct_blocks) = direct::tallies();
    if is_counting() {
        let [allocations, frees, reallocations] =
            [&tally::ALLOCATIONS, &tally::FREES, &tally::REALLOCATIONS].map(|counter| counter.load(Relaxed));
        writeln!(text, "  operations    {allocations} allocations, {reallocations} reallocations, {frees} frees")?;
        let (peak, blocks) = (tally::PEAK.load(Relaxed), tally::PEAK_BLOCKS.load(Relaxed));
        writeln!(text, "  peak M        {peak} bytes live at a time ({}), {blocks} blocks", Bytes(peak))?;
        let used = survey.used_bytes + mapped_peak;
        writeln!(
            text,
            "  heap H        {used} bytes used ({}), F = {}",
            Bytes(used),
            Percent(used.saturating_sub(peak), peak)
        )?;
        let (asked, granted) = (tally::ASKED.load(Relaxed), tally::GRANTED.load(Relaxed));
        writeln!(text, "  requests      {} of what was granted for them", Percent(asked, granted))?;
    }
    writeln!(text, "  live now      {} bytes in {} blocks", survey.live_bytes, survey.live_blocks)?;
    writeln!(
        text,
        "  free          {} bytes in {} blocks, largest {}",
        survey.free_bytes, survey.free_blocks, survey.largest
    )?;
    writeln!(
        text,
        "  regions       {} of {}, {} slots",
        survey.regions,
        Bytes(survey.region_bytes),
        if kind().has_slots { regions::slots() } else { 1 }
    )?;
    writeln!(text, "  direct        {direct_blocks} blocks of {}, at most {}", Bytes(mapped), Bytes(mapped_peak))?;
    writeln!(
        text,
        "  threads       {} at a time, {} operations shared the last slot",
        seat::most_seated(),
        seat::CROWDED.load(Relaxed)
    )?;
    let [requests, injected, beyond] =
        [&tally::REQUESTS, &tally::INJECTED, &tally::BEYOND].map(|counter| counter.load(Relaxed));
    if settings.failures != Failures::Never {
        writeln!(text, "  on purpose    {injected} of {requests} requests refused")?;
    }
    if let Some(quota) = settings.quota_bytes {
        writeln!(text, "  quota         {quota} bytes, {beyond} requests refused")?;
    }
    let Refusals { request, exhausted, contended, pending } = survey.refusals;
    writeln!(
        text,
        "  failures      {}, the largest of {} bytes (heaps refused {request} as such, {exhausted} exhausted, {pending} pending, {contended} contended)",
        tally::REFUSED.load(Relaxed),
        tally::LARGEST_REFUSED.load(Relaxed)
    )?;
    writeln!(
        text,
        "  misuse        {} noticed, {} blocks not given back",
        tally::MISUSES.load(Relaxed),
        tally::LOST.load(Relaxed)
    )?;
    match survey.damage {
        None => writeln!(text, "  heaps         whole"),
        Some(damage) => writeln!(text, "  heaps         damaged: {damage}"),
    }
}

/// Verifies heaps that guard their blocks, when the process ends: what was written beyond a block that was never freed shows here.
pub fn check_at_exit() {
    if kind().name != "guarded" || !regions::ready() || !seat::pause() {
        return;
    }
    // SAFETY: the process is paused.
    let damage = (0..regions::count())
        .filter_map(regions::known)
        .find_map(|region| unsafe { (kind().check)(region.heap) }.err());
    seat::resume();
    if let Some(damage) = damage {
        misuse::damaged(&damage);
    }
}

/// Gives pages of free blocks back to the system; says whether there were any. The process is paused meanwhile.
pub fn trim(kept_bytes: usize) -> bool {
    // What a guarded heap holds back is free, and must keep what it was filled with.
    if !regions::ready() || regions::settings().locked || kind().name == "guarded" || !seat::pause() {
        return false;
    }
    let page = regions::page_bytes();
    let (mut kept, mut any) = (0, false);
    for region in (0..regions::count()).filter_map(regions::known) {
        let mut give_back = |block: Block| {
            // A free block's links stand at its start, and its length at its end.
            const ENDS_BYTES: usize = 64;
            let from = (block.address + ENDS_BYTES).next_multiple_of(page);
            let to = (block.address + block.usable_bytes).saturating_sub(ENDS_BYTES) / page * page;
            if !block.free || to <= from {
                return;
            }
            if kept < kept_bytes {
                kept += to - from;
                return;
            }
            // SAFETY: whole pages in the midst of a free block, whose content is nobody's.
            any |= unsafe {
                system::madvise(core::ptr::with_exposed_provenance_mut(from), to - from, libc::ADVICE_DONT_NEED)
            } == 0;
        };
        // SAFETY: the process is paused.
        unsafe { (kind().walk)(region.heap, &mut give_back) };
    }
    seat::resume();
    any
}
