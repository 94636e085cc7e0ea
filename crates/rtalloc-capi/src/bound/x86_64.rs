// What was proved of the library as it is shipped, written by ci/capi_bounds.sh --update: do not edit.

/// The compiler whose code it is.
pub(crate) const RUSTC: &str = "rustc 1.95.0 (59807616e 2026-04-14)";

/// By allocator, instructions of malloc (allocate, where objects have handles), aligned_alloc and free; 0: no bound.
pub(crate) const PROVED: &[(&str, [u64; 3])] = &[
    ("tlsf", [107, 198, 91]),
    ("lean_tlsf", [91, 183, 85]),
    ("tlsf_exact", [102, 189, 91]),
    ("tlsf_thorough", [107, 198, 114]),
    ("half_fit", [67, 138, 70]),
    ("quick_fit", [0, 0, 122]),
    ("simple_segregated", [53, 60, 39]),
    ("simple_segregated_8", [52, 59, 39]),
    ("kingsley", [70, 81, 41]),
    ("first_fit", [0, 0, 55]),
    ("next_fit_lifo", [0, 0, 63]),
    ("best_fit", [0, 0, 56]),
    ("bitframe", [361, 378, 197]),
    ("bitframe_8", [361, 378, 197]),
    ("bitframe_eager", [0, 0, 197]),
    ("bitframe_16", [501, 524, 276]),
    ("bitframe_4", [357, 375, 197]),
    ("bitframe_crossing", [625, 631, 398]),
    ("regis1", [63, 75, 48]),
    ("regis1_8", [73, 82, 69]),
    ("regis2", [56, 83, 43]),
    ("regis2_8", [62, 89, 45]),
    ("reaps", [64, 94, 52]),
    ("reaps_8", [67, 97, 55]),
    ("failing_tlsf", [0, 0, 96]),
    ("quota_tlsf", [215, 237, 220]),
    ("traced_tlsf", [140, 239, 130]),
    ("compact_fit", [234, 0, 0]),
    ("arenas", [0, 0, 95]),
];
