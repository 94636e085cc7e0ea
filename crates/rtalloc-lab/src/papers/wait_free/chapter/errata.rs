//! Errors, contradictions and omissions of the wait-free paper, and the choices made.

use crate::number;
use crate::papers::wait_free::result::WaitFree;

/// The errata as sentences.
pub(super) fn errata(found: &WaitFree) -> Vec<String> {
    let (_, many) = found.setting.repetitions;
    let samples = format!(
        "The number of repetitions is not told, nor that of samples behind any figure. A thread of case III is refused after some fifty \
         requests, so that sixteen of them make about 800 in all: a coefficient of variation of so few is a draw. Cases III and IV have \
         {} here, with an interval.",
        number::counted(many, "repetition")
    );
    let others = [
        "Maxima of TLSF in cases I and II have one digit (6e+05, 3e+05), those of atops in III and IV two (1.1e+08, 2.0e+07), where the \
         others are told to the cycle. The claim of maxima 8 to 20 times smaller is taken from the quotients of the table.",
        "Sizes of case III grow \"with a factor of approximately 1.25\" from 10 bytes; how they are rounded is not told, and with it the last \
         size that fits. Chosen: 10, 12, 15, ..., rounded down. \"The test case terminates if no more memory is available\": for a thread, \
         or for all? Chosen: each thread stops at its first refusal.",
        "Case II measures \"the time required to allocate 948 bytes and immediately free them again\". Whether that is one figure or two is not \
         told. Chosen: one, of the pair; in case IV allocate alone is timed, as its text says.",
        "Equation 3 counts nodes, where section 3 initialises counters to the number of leaves, and figures 1 and 8 show leaves. Ours count leaves.",
        "The bound on allocate is the number of nodes (equation 1) and says nothing of what a refused request costs while others allocate: \
         it may be refused although there is memory, which section 3.4.2 admits and the conclusion calls no problem in practice. Ours are \
         counted: the column spurious.",
        "\"It does not introduce bounded priority inversion scenarios\" (section 3.6) must mean unbounded ones.",
        "Utilisation in case I is at best 65,536 x 948 B of 64 MiB, 92.58 %, to the digit what is published: fifteen of sixteen nodes have \
         blocks, each less its 12 bytes. What the counters themselves cost is not in it, in ours neither.",
        "The atomic_ops allocator takes its memory from the system. How a heap of 64 MB was imposed on it, of which it used 17.32 % in case \
         III, is not told; ours has no such figure for peers with pages of their own.",
        "Locked TLSF has \"one global lock\", of which kind is not told: a spin lock, a mutex and one with priority inheritance differ in \
         exactly what the table compares. Ours has five of them.",
        "The machine has 16 cores. Where ours has fewer, 16 threads take turns: such tables are marked, and no claim is judged by them.",
    ];
    std::iter::once(samples).chain(others.map(String::from)).collect()
}
