//! Errors, contradictions and omissions of the wait-free paper, and the choices made.

use crate::papers::wait_free::result::WaitFree;
use rtalloc_lab::number;

/// The errata as sentences.
pub(super) fn errata(found: &WaitFree) -> Vec<String> {
    let (_, many) = found.setting.repetitions;
    let samples = format!(
        "Neither the number of repetitions nor that of samples behind any figure is given. A thread of case III is \
         refused after about fifty requests, so sixteen threads make about 800 in total: a coefficient of variation of \
         so few samples is random. Cases III and IV have {} here, with a confidence interval.",
        number::counted(many, "repetition")
    );
    let others = [
        "Maxima of TLSF in cases I and II have one digit (6e+05, 3e+05), those of atops in III and IV two (1.1e+08, \
         2.0e+07), where the others are given to the cycle. The claim of maxima 8 to 20 times smaller follows from the \
         ratios in the table.",
        "Sizes of case III grow \"with a factor of approximately 1.25\" from 10 bytes; their rounding is not \
         specified, and hence the last size that fits. Chosen: 10, 12, 15, ..., rounded down. \"The test case \
         terminates if no more memory is available\": for a thread, or for all? Chosen: each thread stops at its first \
         refusal.",
        "Case II measures \"the time required to allocate 948 bytes and immediately free them again\". Whether that is \
         one figure or two is not specified. Chosen: one for the pair; in case IV only allocate is timed, as its text \
         says.",
        "Equation 3 counts nodes, where section 3 initialises counters to the number of leaves, and figures 1 and 8 show leaves. Ours count leaves.",
        "The bound on allocate is the number of nodes (equation 1) and does not cover spurious refusals: a request may \
         be refused although there is memory while others allocate, which section 3.4.2 admits and the conclusion \
         calls no problem in practice. The column spurious counts ours.",
        "\"It does not introduce bounded priority inversion scenarios\" (section 3.6) must mean unbounded ones.",
        "Utilisation in case I is at best 65,536 x 948 B of 64 MiB, 92.58 %, exactly as published: fifteen of sixteen \
         nodes have blocks, each less its 12 bytes. Neither the published figure nor ours includes the counters.",
        "The atomic_ops allocator takes its memory from the system. The paper does not say how it was limited to a \
         heap of 64 MB, of which it used 17.32 % in case III; we have no such figure for peers that take their own \
         pages.",
        "Locked TLSF has \"one global lock\", of unspecified kind: a spin lock, a mutex and one with priority \
         inheritance differ in exactly the quantities that the table compares. We measure five kinds.",
        "The paper's machine has 16 cores. Where ours has fewer, 16 threads share processors: such tables are marked, \
         and no claim is judged by them.",
    ];
    std::iter::once(samples).chain(others.map(String::from)).collect()
}
