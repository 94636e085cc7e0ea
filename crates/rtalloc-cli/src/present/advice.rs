//! Advice for the terminal, and its figure.

use super::code::{Wanted, code};
use super::heap_size::stated;
use super::palette;
use super::plot::{Field, PlotError, pareto, standalone};
use super::printable;
use super::summary::{HeapNeed, Standing, Worst};
use super::table::{Look, table};
use super::verdict::wrapped;
use rtalloc_lab::number;
use rtalloc_lab::result::advice::{Advice, Candidate, Rule, Wishes};
use rtalloc_lab::result::heap_size::Size;
use rtalloc_lab::result::targets::Elsewhere;
use rtalloc_lab::rules::{self, RULES};
use rtalloc_subjects::{NATURAL_ALIGN_BYTES, one};

/// Everything, for the terminal.
#[must_use]
pub fn text(advice: &Advice, look: Look) -> String {
    let columns = look.columns.min(120);
    let mut text = String::new();
    // A line that begins with spaces is indented.
    let mut say = |line: &str| {
        let indent = line.len() - line.trim_start().len();
        text.push_str(&if line.trim().contains("  ") {
            line.to_string()
        } else {
            wrapped(line.trim_start(), columns, indent)
        });
        text.push('\n');
    };
    say(&program(advice));
    say("");
    match advice.taken.map(|taken| &advice.candidates[taken]) {
        Some(taken) => recommend(advice, taken, &mut say),
        None => explain(advice, &mut say),
    }
    text.push('\n');
    text.push_str(&candidates(advice, look));
    let mut say = |line: &str| {
        text.push_str(&wrapped(line, columns, 0));
        text.push('\n');
    };
    say(&format!(
        "bound: the largest of allocate, free, and the aligned allocate if the recording needs it, in {}s of {}. \
         region: the bytes to reserve. guaranteed: no request within the limits is refused. forced: some program within the limits is refused in a region 16 bytes smaller. \
         recording: the smallest region that serves it. refused: requests of the recording, in the region. fails: the \
         rules that it does not meet:",
        unit(advice),
        processor(advice)
    ));
    for stated in RULES.iter().filter(|stated| advice.candidates.iter().any(|one| one.broken.contains(&stated.rule))) {
        let (rule, because) = match (&advice.elsewhere, stated.rule) {
            (Some(_), Rule::Bounded) => (
                "allocate and free have committed bounds for the target",
                "operations with loops, such as binary-buddy's, are not in its table, even where they have a bound",
            ),
            (Some(_), Rule::Deadline) => (stated.text, "bounds/targets.json, bounds/cycles.json"),
            (Some(_), Rule::Shared) => (
                stated.text,
                "under a lock, each waits for an operation of every thread before it, and longer if one is preempted",
            ),
            _ => (stated.text, stated.because),
        };
        text.push_str(&wrapped(&format!("{}: {rule} ({because})", name(stated.rule)), columns, 2));
        text.push('\n');
    }
    text.push_str("\nNot known:\n");
    for line in unknown(advice) {
        text.push_str(&wrapped(&format!("- {line}"), columns, 0));
        text.push('\n');
    }
    if let Some((taken, region_bytes)) =
        advice.taken.and_then(|taken| Some((&advice.candidates[taken], advice.candidates[taken].region_bytes?)))
    {
        // A region that was measured or given does not follow from the limits.
        let is_computed = taken.size.guaranteed_bytes == Some(region_bytes);
        let limits = if is_computed { advice.limits.as_slice() } else { &[] };
        let (slots, is_given) = (advice.wishes.threads.unwrap_or(1), advice.wishes.heap_bytes.is_some());
        let Size { subject, pools, .. } = &taken.size;
        if let Some(code) = code(Wanted { subject, region_bytes, pools, limits, is_given, slots }) {
            text.push('\n');
            text.push_str(&code.text());
        }
    }
    text
}

/// What the program does, in a paragraph.
fn program(advice: &Advice) -> String {
    let limits: Vec<String> = advice.limits.iter().map(stated).collect();
    let live = format!("Live at the same time, at most: {}.", limits.join(", "));
    match (&advice.trace, advice.operations, advice.peak_live_bytes) {
        (Some(trace), Some(operations), Some(peak)) => {
            format!(
                "{}: {}, at most {} B live. {live}",
                printable(trace),
                number::counted(operations, "operation"),
                number::grouped(peak)
            )
        }
        _ => live,
    }
}

/// What bounds count.
fn unit(advice: &Advice) -> &str {
    advice.elsewhere.as_ref().map_or("instruction", |elsewhere| &elsewhere.unit)
}

fn counted(advice: &Advice, bound: Option<u64>) -> String {
    bound.map_or_else(|| "-".into(), |bound| number::counted(bound, unit(advice)))
}

/// The processor or core for which bounds are.
fn processor(advice: &Advice) -> &str {
    advice.elsewhere.as_ref().map_or("x86-64", |elsewhere| &elsewhere.name)
}

fn recommend(advice: &Advice, taken: &Candidate, say: &mut dyn FnMut(&str)) {
    let subject = &taken.size.subject;
    let region = taken.region_bytes.unwrap_or(0);
    say(&format!("Take {subject}, in a region of {} B.", number::grouped(region)));
    say("");
    for line in before_that(advice, taken) {
        say(&line);
        say("");
    }
    let bytes =
        |bytes: Option<u64>| bytes.map_or_else(|| "none known".into(), |bytes| format!("{} B", number::grouped(bytes)));
    let proved = match &advice.elsewhere {
        None => "proved".to_owned(),
        Some(one) if one.unit == "cycle" => format!("on {}, if the conditions under \"Time\" below hold", one.name),
        Some(one) => format!("proved for {} code", one.name),
    };
    let mut facts = vec![(
        "allocate, free",
        format!("at most {}, {proved}; a resize has no bound", counted(advice, taken.time_bound)),
    )];
    let theorem = match (&taken.size.theorem, taken.size.guaranteed_bytes) {
        (Some(theorem), Some(_)) if advice.resizes > 0 => {
            format!(" (docs/guarantees/{theorem}.md), but not for this recording, which resizes blocks")
        }
        (Some(theorem), Some(_)) => {
            let align =
                one(&taken.size.subject).map_or(NATURAL_ALIGN_BYTES, |subject| subject.entries.natural_align_bytes);
            format!(" (docs/guarantees/{theorem}.md), without resizes, for alignments up to {align} B")
        }
        _ => String::new(),
    };
    facts.push(("heap guaranteed", bytes(taken.size.guaranteed_bytes) + &theorem));
    let forced = taken.size.forced.as_ref();
    let of_one_slot = if taken.is_shared { ", of one slot" } else { "" };
    facts.push((
        "heap forced",
        bytes(forced.map(|forced| forced.region_bytes))
            + &forced.map_or_else(String::new, |forced| format!(" (adversary {})", forced.adversary))
            + of_one_slot,
    ));
    if advice.trace.is_some() {
        facts.push(("heap measured", bytes(taken.size.measured_bytes) + of_one_slot));
        let refused = match taken.refused {
            Some(0) => "no request refused".into(),
            Some(refused) => format!("{} refused", number::counted(refused, "request")),
            None => "not replayed".into(),
        };
        facts.push(("in replay", refused));
    }
    for (name, value) in facts {
        say(&format!("  {name:<17}  {value}"));
    }
    say("");
    say(&why(advice, taken));
    if let Some(runner_up) = advice.runner_up.map(|index| &advice.candidates[index]) {
        say("");
        say(&format!(
            "The runner-up is {}: {}, in {}.",
            runner_up.size.subject,
            counted(advice, runner_up.time_bound),
            bytes(runner_up.region_bytes)
        ));
    }
    if !advice.changes.is_empty() {
        say("");
        say("What would change the choice:");
        changes(advice, say);
    }
}

/// Where bytes are those of another machine than the target.
fn other_bytes(advice: &Advice) -> Option<String> {
    let target = advice.elsewhere.as_ref().filter(|one| one.word_bits == 32)?;
    Some(format!(
        "All bytes here, also those that --heap is compared with, are for a 64-bit machine. {} has 32-bit words and \
         control structures of other sizes: `region_bytes_for`, compiled for it, computes a guaranteed region.",
        target.name
    ))
}

/// What has to be done, or accepted, for the recommendation to hold.
fn before_that(advice: &Advice, taken: &Candidate) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(other_bytes(advice));
    if advice.wishes.never_refuse && advice.resizes > 0 {
        lines.push(format!(
            "On one condition: the recording has {}, which no guarantee covers. Replace each by allocate, copy and free.",
            number::counted(advice.resizes, "resize")
        ));
    }
    if let Ok(subject) = one(&taken.size.subject)
        && subject.entries.natural_align_bytes < NATURAL_ALIGN_BYTES
    {
        lines.push(format!(
            "Its blocks are aligned to {} B. A request for more is another operation, with a bound of its own (`rtalloc \
             bound {}`).",
            subject.entries.natural_align_bytes, taken.size.subject
        ));
    }
    let forced = taken.size.forced.as_ref().filter(|_| !taken.is_shared);
    if let Some(forced) = forced.filter(|forced| taken.region_bytes < Some(forced.region_bytes)) {
        lines.push(if taken.largest_bytes.is_some_and(|largest| forced.region_bytes > largest) {
            "Some program within these limits is refused even in its largest heap.".into()
        } else {
            let needed = number::grouped(forced.region_bytes);
            format!("Some program within these limits is refused in this region: an adversary needs {needed} B.")
        });
    }
    if let (Some(_), Some(heap), Some(needed), false) = (
        advice.wishes.heap_bytes,
        taken.region_bytes,
        taken.size.measured_bytes,
        advice.wishes.never_refuse || taken.is_shared,
    ) && heap < needed + needed * advice.margin_per_cent / 100
    {
        lines.push(format!(
            "The region is {:.1} % larger than what the recording needs, less than the margin of {} %.",
            100.0 * (heap - needed) as f64 / needed as f64,
            advice.margin_per_cent
        ));
    }
    lines
}

/// Why that one.
fn why(advice: &Advice, taken: &Candidate) -> String {
    let wishes = &advice.wishes;
    let meeting = advice.candidates.iter().filter(|one| one.broken.is_empty()).count();
    let mut text = if meeting == 1 {
        "It is the only allocator that meets every rule".to_string()
    } else {
        format!("{meeting} allocators meet every rule")
    };
    text.push_str(
        match (
            taken.size.subject == rules::DEFAULT && !wishes.never_refuse,
            meeting,
            wishes.deadline,
            wishes.heap_bytes,
        ) {
            (_, 1, ..) => ".",
            (true, ..) => ". TLSF is the default among them: constant time, and the memory of best-fit on programs.",
            (_, _, Some(_), None) => "; within the deadline, the smallest region decides.",
            (_, _, None, Some(_)) => "; in the given region, the shortest bound decides.",
            _ => "; this one has the smallest product of bound and region.",
        },
    );
    text
}

/// The wishes as options of the command. Without a recording, no refusal is implied.
fn options(wishes: &Wishes, has_trace: bool) -> String {
    let mut options = Vec::new();
    options.extend(wishes.deadline.map(|deadline| format!("--deadline {deadline}")));
    options.extend(wishes.heap_bytes.map(|heap| format!("--heap {heap}")));
    options.extend((has_trace && wishes.never_refuse).then(|| "--never-refuse".to_string()));
    options.extend(wishes.threads.map(|threads| format!("--threads {threads}")));
    if options.is_empty() { "without options".into() } else { format!("with {}", options.join(" ")) }
}

fn changes(advice: &Advice, say: &mut dyn FnMut(&str)) {
    for change in &advice.changes {
        let instead = match change.taken.map(|index| &advice.candidates[index]) {
            Some(other) => format!(
                "{}, {}, in {} B",
                other.size.subject,
                counted(advice, other.time_bound),
                number::grouped(change.region_bytes.unwrap_or(0))
            ),
            None => "none meets every rule".into(),
        };
        say(&format!("  {}: {instead}", options(&change.wishes, advice.trace.is_some())));
    }
}

/// Why there is none.
fn explain(advice: &Advice, say: &mut dyn FnMut(&str)) {
    say(
        "No allocator meets every rule: these requirements contradict each other, or nothing is known that meets them.",
    );
    say("");
    if let Some(line) = other_bytes(advice) {
        say(&line);
        say("");
    }
    let is_near = |one: &&Candidate| one.broken.iter().all(|rule| [Rule::Deadline, Rule::Fits].contains(rule));
    let near = || advice.candidates.iter().filter(is_near);
    let needed = |one: &Candidate| rules::needed_bytes(one, &advice.wishes, advice.margin_per_cent);
    let shortest = near().filter_map(|one| Some((one.time_bound?, needed(one)?, &one.size.subject))).min();
    let smallest = near().filter_map(|one| Some((needed(one)?, &one.size.subject))).min();
    if let (Some((bound, _, quick)), Some((bytes, small))) = (shortest, smallest) {
        say(&format!(
            "Of those that meet the other rules, the shortest bound is {} ({quick}), and the smallest region {} B \
             ({small}).",
            counted(advice, Some(bound)),
            number::grouped(bytes)
        ));
    }
    if advice.wishes.threads.is_some() {
        say("With a lock, every allocator serves several threads: an operation waits for one operation of each \
             other thread if the lock is fair and no thread is interrupted while it holds it (`Locked`, `rtalloc \
             bound`). Ask without --threads for one.");
    }
    if !advice.changes.is_empty() {
        say("With other requirements:");
        changes(advice, say);
    }
}

fn name(rule: Rule) -> &'static str {
    match rule {
        Rule::Serves => "serves",
        Rule::Bounded => "bounded",
        Rule::Deadline => "deadline",
        Rule::Checked => "checked",
        Rule::Shared => "shared",
        Rule::Guaranteed => "guaranteed",
        Rule::Fits => "fits",
    }
}

/// All that were considered.
fn candidates(advice: &Advice, look: Look) -> String {
    let number = |value: Option<u64>| value.map_or_else(|| "-".into(), number::grouped);
    let row = |(index, one): (usize, &Candidate)| {
        let mark = match index {
            index if Some(index) == advice.taken => "*",
            _ => " ",
        };
        let mut row = vec![format!("{mark} {}", one.size.subject)];
        let mut not: Vec<&str> = one.broken.iter().map(|rule| name(*rule)).collect();
        not.truncate(3);
        row.extend([
            not.join(", "),
            number(one.time_bound),
            number(one.region_bytes),
            number(one.size.guaranteed_bytes),
            number(one.size.forced.as_ref().map(|forced| forced.region_bytes)),
        ]);
        if advice.trace.is_some() {
            row.extend([number(one.size.measured_bytes), number(one.refused)]);
        }
        row
    };
    let bound = if unit(advice) == "cycle" { "bound\ncycles" } else { "bound\ninstr" };
    let mut headings = vec!["\n  allocator", "\nfails", bound, "region\nB", "guaranteed\nB", "forced\nB"];
    if advice.trace.is_some() {
        headings.extend(["recording\nB", "\nrefused"]);
    }
    table(&headings, 2, advice.candidates.iter().enumerate().map(row), look)
}

/// What the figures do not say.
fn unknown(advice: &Advice) -> Vec<String> {
    let time = match &advice.elsewhere {
        None => "Time: instructions are not seconds. A bound counts those of x86-64 code of the Rust type in this \
                 program, and --deadline is held against it; C, another target (--target) and another compiler have their \
                 own (`rtalloc bound --binary`, and rt_..._bound in C)."
            .to_string(),
        Some(Elsewhere { code, conditions, .. }) => format!(
            "Time: {}. A bound covers calls that report no misuse, of code compiled by {code}, and --deadline is held \
             against it. The table of these bounds is committed and has no operation with loops. Your firmware is other \
             code: bound it with `rtalloc bound --binary`.",
            match conditions.as_str() {
                "" => "instructions are not seconds".into(),
                conditions => format!("the bound holds under these conditions: {conditions}"),
            }
        ),
    };
    let mut lines = vec![time];
    let taken = advice.taken.map(|index| &advice.candidates[index]);
    if advice.are_recorded {
        lines.push(format!(
            "Other runs: the limits are those of this recording, increased by {} % (--margin), and a measured region \
             serves this recording. If you know how many objects are live at most, give --limit.",
            advice.margin_per_cent
        ));
    }
    if advice.aligned > 0 {
        lines.push(
            "Alignment: the recording was replayed in regions that start at a page; where a region starts elsewhere, \
             requests at large alignments may need more."
                .into(),
        );
    }
    if taken.is_some_and(|one| one.size.guaranteed_bytes.is_none()) {
        lines.push(
            "Whether another program within the limits is served: no guarantee is known for this allocator and these \
             requests."
                .into(),
        );
    } else if taken.is_some_and(|one| one.region_bytes < one.size.guaranteed_bytes) {
        lines.push(
            "Whether another program within the limits is served: the region is smaller than what is guaranteed \
             (--never-refuse)."
                .into(),
        );
    }
    if advice.resizes > 0 {
        lines.push(format!(
            "Resizes: the recording has {}. No guarantee and no bound covers them: allocate, copy and free instead.",
            number::grouped(advice.resizes)
        ));
    }
    if taken.is_some_and(|one| one.is_shared) {
        lines.push(
            "Threads: any slot may use up the region. It was measured as if each thread did everything the recording does, \
             all at the same pace and so with their peaks together; `rtalloc threads` replays a recording with its \
             threads. The bound is that of a slot's operations; for `Global` on pooled arenas see `rtalloc bound \
             pooled-arenas-global --static`."
                .into(),
        );
    } else {
        lines.push("Threads: the figures are for one thread at a time (--threads).".into());
    }
    lines.push("Objects with handles (`rtalloc tune compact-fit`) and pools of one size are not considered.".into());
    lines
}

/// The figure: bound against region, guaranteed and measured; `None` if there is nothing to draw.
///
/// # Errors
///
/// See [`PlotError`].
pub fn figure(advice: &Advice) -> Result<Option<String>, PlotError> {
    #[allow(clippy::cast_precision_loss)] // drawn
    let kib = |bytes: u64| bytes as f64 / 1024.0;
    let (mut standings, mut beside, mut offers) = (Vec::new(), Vec::new(), Vec::new());
    let mut take = None;
    for (index, one) in advice.candidates.iter().enumerate() {
        let (Some(bound), Ok(subject)) = (one.time_bound, self::one(&one.size.subject)) else { continue };
        let Some(bytes) = one.size.guaranteed_bytes.or(one.size.measured_bytes) else { continue };
        let place = standings.len();
        if Some(index) == advice.taken {
            take = Some(place);
        }
        if one.size.guaranteed_bytes.is_some() {
            #[allow(clippy::cast_precision_loss)] // compared
            let time = bound as f64;
            offers.push(rules::Offer { index: place, name: subject.name, is_ours: true, time, heap: kib(bytes) });
        }
        beside.push(one.size.measured_bytes.map(kib));
        standings.push(Standing {
            worst: Some(Worst { instructions: bound, operation: "", trace: String::new() }),
            heap: Some(HeapNeed { ratio: kib(bytes), trace: String::new() }),
            ..Standing::of(rtalloc_lab::catalogue::facts(subject))
        });
    }
    let front = rules::front(&offers);
    let styles = palette::of(&standings);
    let drawn = pareto(
        Field {
            standings: &standings,
            front: &front,
            take,
            take_at: advice.taken.and_then(|taken| advice.candidates[taken].region_bytes).map(kib),
            worst: &format!("static bound in {}s of {}", unit(advice), processor(advice)),
            heap: "region in KiB; large marker: guaranteed, small: measured with the recording, ring: recommended",
            beside: &beside,
            unknown: None,
            description: "Static bound against guaranteed and measured regions",
        },
        &styles,
    )?;
    Ok(drawn.map(|drawn| standalone(&drawn, &styles)))
}
