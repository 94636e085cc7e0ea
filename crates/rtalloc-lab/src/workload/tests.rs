//! Properties of the models: their distributions, their bit-for-bit reproduction, their rejection of parameters.

use super::*;
use crate::trace::{Fingerprint, Reader, Survey, survey};

fn events(words: &str, seed: u64) -> Vec<Event> {
    let mut events = Vec::new();
    Model::parse(words).unwrap().generate(seed, &mut events).unwrap();
    events
}

fn survey_of(words: &str, seed: u64) -> Survey {
    let model = Model::parse(words).unwrap();
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, &model.meta(seed)).unwrap();
    model.generate(seed, &mut writer).unwrap();
    writer.finish().unwrap();
    survey(Reader::new(file.as_slice()).unwrap()).unwrap()
}

fn sizes(events: &[Event]) -> Vec<u64> {
    events
        .iter()
        .filter_map(|event| match event.op {
            Op::Allocate { size, .. } => Some(size),
            _ => None,
        })
        .collect()
}

fn mean(values: &[u64]) -> f64 {
    values.iter().map(|&value| value as f64).sum::<f64>() / values.len() as f64
}

/// Lifetimes in ticks of the blocks that were freed, with the tick of their allocation.
fn lifetimes(events: &[Event]) -> Vec<(u64, u64)> {
    let mut born = std::collections::BTreeMap::new();
    let mut lives = Vec::new();
    for event in events {
        match event.op {
            Op::Allocate { slot, .. } => drop(born.insert(slot, event.tick)),
            Op::Free { slot } => lives.push((born[&slot], event.tick - born[&slot])),
            Op::Reallocate { .. } => panic!("no model reallocates"),
        }
    }
    lives
}

/// The events of every model are the same on every machine and in every version: a change here is a change of the
/// workload, and figures measured before it are no longer comparable.
#[test]
fn the_events_of_every_model_are_pinned() {
    let pinned: Vec<(String, u32)> = [
        "p1 --mallocs 2000",
        "p2 --mallocs 2000",
        "p3 --mallocs 2000",
        "p1 --mallocs 2000 --holding literal",
        "p1 --mallocs 2000 --holding fit",
        "mean --mallocs 2000",
        "uniform --mallocs 2000",
        "small --mallocs 2000",
        "loguniform --mallocs 2000 --live 300",
        "steady --mallocs 2000 --live 300",
    ]
    .iter()
    .map(|words| {
        let mut fingerprint = Fingerprint::default();
        events(words, 1).iter().for_each(|event| fingerprint.note(event));
        (words.to_string(), fingerprint.crc32())
    })
    .collect();
    let expected: Vec<(String, u32)> = PINNED.iter().map(|&(words, crc)| (words.to_string(), crc)).collect();
    assert_eq!(pinned, expected);
}

#[test]
fn another_seed_gives_other_events_and_every_trace_passes_the_writer() {
    for name in Model::NAMES {
        let words = format!("{name} --mallocs 3000");
        assert_eq!(events(&words, 7), events(&words, 7));
        assert_ne!(events(&words, 7), events(&words, 8));
        let survey = survey_of(&words, 7);
        assert_eq!(survey.totals.allocations, 3000, "{name}");
        assert_eq!(u64::from(survey.totals.slots), survey.totals.peak_live_blocks, "{name}");
        assert_eq!(survey.alignments, [(16, 3000)], "{name}");
        let aligned = format!("{words} --align 64");
        assert_eq!(survey_of(&aligned, 7).alignments, [(64, 3000)], "{name}");
        assert_eq!(sizes(&events(&aligned, 7)), sizes(&events(&words, 7)), "{name}");
    }
}

#[test]
fn the_header_suffices_to_regenerate_the_trace() {
    let survey = survey_of("p3 --mallocs 500 --holding periods", 42);
    assert_eq!(survey.meta.created_unix_seconds, None);
    let Origin::Model { model, seed, random, parameters } = survey.meta.origin else { panic!("not a model") };
    assert_eq!((model.as_str(), seed), ("p3", 42));
    assert!(random.contains("Pcg64"));
    assert_eq!(parameters["g_bytes"], "64..49152");
    assert_eq!(parameters["holding"], "periods: U[10 p, 20 p] ticks");
    assert_eq!(parameters["mallocs"], "500");
}

#[test]
fn holding_times_follow_their_reading() {
    for (holding, shortest, longest) in [("fit", 300, 500), ("literal", 30, 50)] {
        let events = events(&format!("p1 --mallocs 20000 --holding {holding}"), 3);
        let lives: Vec<u64> = lifetimes(&events).into_iter().map(|(_, life)| life).collect();
        assert_eq!(lives.iter().min(), Some(&shortest));
        assert_eq!(lives.iter().max(), Some(&longest));
        assert!((mean(&lives) - (shortest + longest) as f64 / 2.0).abs() < 0.02 * longest as f64);
    }
    let events = events("p1 --mallocs 20000 --holding periods --tasks 1 --period 37", 3);
    let lives: Vec<u64> = lifetimes(&events).into_iter().map(|(_, life)| life).collect();
    assert_eq!((lives.iter().min(), lives.iter().max()), (Some(&370), Some(&740)));
}

#[test]
fn activations_are_periodic_and_request_nr_times() {
    let events = events("p1 --mallocs 4000 --tasks 1 --period 60 --requests 4 --g 40000", 5);
    let mut activations = std::collections::BTreeMap::new();
    for event in &events {
        if let Op::Allocate { .. } = event.op {
            *activations.entry(event.tick).or_insert(0) += 1;
        }
    }
    let ticks: Vec<u64> = activations.keys().copied().collect();
    assert!(ticks[0] < 60 && ticks.windows(2).all(|pair| pair[1] - pair[0] == 60));
    assert!(activations.values().all(|&requests| requests == 4));

    // Normal(10000, 1000): mean and deviation within five standard errors.
    let sizes = sizes(&events);
    let average = mean(&sizes);
    let deviation =
        (sizes.iter().map(|&size| (size as f64 - average).powi(2)).sum::<f64>() / sizes.len() as f64).sqrt();
    assert!((average - 10_000.0).abs() < 80.0, "{average}");
    assert!((deviation - 1_000.0).abs() < 60.0, "{deviation}");
}

#[test]
fn frees_come_before_allocations_of_the_same_tick_and_the_oldest_first() {
    let events = events("p3 --mallocs 30000 --holding literal", 11);
    let mut born = std::collections::BTreeMap::new();
    let (mut tick, mut allocated, mut last_freed) = (0, false, None);
    for (index, event) in events.iter().enumerate() {
        if event.tick != tick {
            (tick, allocated, last_freed) = (event.tick, false, None);
        }
        match event.op {
            Op::Allocate { slot, .. } => {
                allocated = true;
                born.insert(slot, index);
            }
            Op::Free { slot } => {
                assert!(!allocated, "event {index}");
                assert!(last_freed < Some(born[&slot]), "event {index}");
                last_freed = Some(born[&slot]);
            }
            Op::Reallocate { .. } => panic!("no model reallocates"),
        }
    }
}

#[test]
fn profiles_differ_in_their_sizes_alone() {
    // Over many task sets the mean request is E[g] E[1/N_r] weighted by activations; its order is the profiles'.
    let average = |name: &str| {
        let all: Vec<u64> = (0..40).flat_map(|seed| sizes(&events(&format!("{name} --mallocs 2000"), seed))).collect();
        mean(&all)
    };
    let (p1, p2, p3) = (average("p1"), average("p2"), average("p3"));
    assert!((8_500.0..13_500.0).contains(&p1), "{p1}");
    assert!((950.0..1_550.0).contains(&p2), "{p2}");
    assert!((5_700.0..9_300.0).contains(&p3), "{p3}");
}

#[test]
fn the_mean_model_has_its_means() {
    let events = events("mean --mallocs 100000", 1);
    let sizes = sizes(&events);
    assert_eq!((sizes.iter().min(), sizes.iter().max()), (Some(&1), Some(&300)));
    assert!((mean(&sizes) - 150.0).abs() < 1.5);
    let arrivals: Vec<u64> =
        events.iter().filter(|event| matches!(event.op, Op::Allocate { .. })).map(|event| event.tick).collect();
    let interval = (arrivals.last().unwrap() - arrivals[0]) as f64 / (arrivals.len() - 1) as f64;
    assert!((interval / 500_000.0 - 1.0).abs() < 0.01, "{interval}");
    // Blocks allocated late are freed only if short-lived; the early ones show the whole distribution.
    let horizon = arrivals[arrivals.len() - 1000];
    let lives: Vec<u64> =
        lifetimes(&events).into_iter().filter(|&(born, _)| born < horizon).map(|(_, life)| life).collect();
    assert!((mean(&lives) / 75_000_000.0 - 1.0).abs() < 0.01, "{}", mean(&lives));
    assert!(*lives.iter().max().unwrap() <= 150_000_000);
}

#[test]
fn the_thesis_traces_grow_by_one_block_in_two() {
    for (name, mallocs) in [("uniform", 100_000), ("small", 95_400)] {
        let survey = survey_of(name, 1);
        assert_eq!((survey.totals.allocations, survey.totals.frees), (mallocs, mallocs / 2));
        assert_eq!((survey.sizes.min, survey.sizes.max), (1, 512));
        assert_eq!(survey.sizes_at_most_512, mallocs);
    }
    let uniform = sizes(&events("uniform", 1));
    assert!((mean(&uniform) - 256.5).abs() < 2.5);
}

#[test]
fn small_is_normal_below_and_complete_above() {
    let sizes = sizes(&events("small", 1));
    let mut seen = [0u32; 513];
    sizes.iter().for_each(|&size| seen[size as usize] += 1);
    assert!(seen[109..].iter().all(|&count| count >= 1));
    // 404 forced sizes; the normal distribution alone reaches 109 with probability 4e-5.
    assert!((404..430).contains(&seen[109..].iter().sum::<u32>()));
    // Normal(32, 19.455) cut below 0.5: P(size < 64) = (Phi(1.62) - Phi(-1.62)) / (1 - Phi(-1.62)) = 0.944.
    let below_64 = seen[..64].iter().sum::<u32>() as f64 / (95_400.0 - 404.0);
    assert!((below_64 - 0.944).abs() < 0.004, "{below_64}");
    // The forced ones are distributed over the whole trace, not at one end.
    let half = sizes[..47_700].iter().filter(|&&size| size > 108).count();
    assert!((150..260).contains(&half), "{half}");
    // There must be at least as many mallocs as forced sizes.
    let error = Model::parse("small --mallocs 403").unwrap().generate(1, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "--mallocs must be at least 404, not 403");
    let tight = events("small --mallocs 404", 1);
    let mut tight = self::sizes(&tight);
    tight.sort_unstable();
    assert_eq!(tight, (109..=512).collect::<Vec<_>>());
}

#[test]
fn steady_loads_keep_their_number_of_live_blocks() {
    for (words, live, min, max) in [("steady --mallocs 50000", 2_000, 8, 512), ("loguniform", 20_000, 16, 65_536)] {
        let survey = survey_of(words, 1);
        assert_eq!(survey.totals.peak_live_blocks, live);
        assert_eq!(survey.totals.allocations - survey.totals.frees, live);
        assert_eq!((survey.sizes.min, survey.sizes.max), (min, max));
    }
    // Every octave is equally likely, up to the granularity of small numbers.
    let survey = survey_of("loguniform", 1);
    let shares: Vec<f64> = survey.size_histogram.iter().take(12).map(|bin| bin.count as f64 / 1e6).collect();
    assert!(shares.iter().all(|share| (share - 1.0 / 12.0).abs() < 0.004), "{shares:?}");
}

#[test]
fn parameters_no_model_can_work_with_are_refused_before_the_first_event() {
    for (words, complaint) in [
        ("p1 --align 24", "--align must be a power of two, not 24"),
        ("p1 --align 0", "--align must be a power of two, not 0"),
        ("p1 --mallocs 0", "--mallocs must be at least 1, not 0"),
        ("p1 --g 4..100", "--g must be at least 5, not 4"),
        ("p1 --tasks 0..3", "--tasks must be at least 1, not 0"),
        ("p1 --period 0", "--period must be at least 1, not 0"),
        ("p1 --requests 0", "--requests must be at least 1, not 0"),
        ("p1 --deviation 1001", "--deviation must be at most 1000, not 1001"),
        ("uniform --size 0..5", "--size must be at least 1, not 0"),
        ("small --mean 0", "--mean must be at least 1, not 0"),
        ("small --mean 600", "--max must be at least 600, not 512"),
        ("steady --live 0", "--live must be at least 1, not 0"),
        ("steady --min 9 --max 8", "--max must be at least 9, not 8"),
        ("loguniform --live 99999999", "--live must be at most 33554432, not 99999999"),
        ("mean --interval 99999999999", "--interval must be at most 4294967296, not 99999999999"),
    ] {
        let mut events = Vec::new();
        let error = Model::parse(words).unwrap().generate(1, &mut events).unwrap_err();
        assert_eq!(error.to_string(), complaint);
        assert!(events.is_empty());
    }
    for (words, complaint) in [
        ("p4", "unrecognized subcommand 'p4'"),
        ("p1 --size 4", "unexpected argument '--size'"),
        ("p1 --g 9..8", "9 is above 8"),
        ("p1 --g few", "`few` is not a whole number"),
        ("p1 --mallocs -1", "'-1'"),
        ("", "subcommand"),
    ] {
        let message = Model::parse(words).unwrap_err().to_string();
        assert!(message.contains(complaint), "{complaint}: {message}");
    }
    assert_eq!(Model::by_name("p4"), None);
    assert!(Model::NAMES.iter().all(|name| Model::by_name(name).unwrap().name() == *name));
}

#[test]
fn the_extremes_of_the_parameters_end() {
    for words in [
        "p1 --mallocs 100 --g 5 --requests 5 --deviation 1000",
        "p1 --mallocs 100 --g 1099511627776 --period 4294967296 --holding periods --deviation 1000",
        "mean --mallocs 100 --size 0 --lifetime 0 --interval 0",
        "mean --mallocs 100 --size 1099511627776 --lifetime 16777216 --interval 4294967296",
        "small --mallocs 1000 --mean 1 --max 1 --deviation 1000000",
        "small --mallocs 1000 --mean 512 --deviation 0",
        "steady --mallocs 10 --min 1 --max 1 --live 1",
        "loguniform --mallocs 100 --min 1 --max 1099511627776 --live 7",
    ] {
        let survey = survey_of(words, 1);
        assert_eq!(survey.totals.allocations, Model::parse(words).unwrap().mallocs());
    }
}

const PINNED: [(&str, u32); 10] = [
    ("p1 --mallocs 2000", 0x61974a57),
    ("p2 --mallocs 2000", 0x604df795),
    ("p3 --mallocs 2000", 0xf19fa3f1),
    ("p1 --mallocs 2000 --holding literal", 0xa38c25e3),
    ("p1 --mallocs 2000 --holding fit", 0x6fa62467),
    ("mean --mallocs 2000", 0xf4db8626),
    ("uniform --mallocs 2000", 0xbbca5f79),
    ("small --mallocs 2000", 0x8e03a8c0),
    ("loguniform --mallocs 2000 --live 300", 0x64568e0e),
    ("steady --mallocs 2000 --live 300", 0x643cce9b),
];
