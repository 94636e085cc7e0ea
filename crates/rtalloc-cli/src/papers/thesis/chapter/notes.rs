//! Notes needed to read the tables, and the thesis' errata.

use crate::papers::thesis::published::ALLOCATORS;
use crate::papers::thesis::result::Thesis;
use rtalloc_lab::number;

/// Notes below the tables.
pub(super) fn notes(found: &Thesis) -> Vec<String> {
    let here: Vec<String> = ALLOCATORS.iter().map(|(there, here)| format!("{there} is {here}")).collect();
    let mut notes = vec![
        format!("Here {}.", here.join(", ")),
        "Substitutes: the requests of up to 512 B of two shipped recordings; a reallocation counts as an allocation \
         and a free, as in the thesis. boot ends where 90 % of the recording's maximum live memory is first reached; \
         stable is the rest, in an empty heap, without the frees of blocks that boot allocated: the thesis' M of \
         stable is below that of boot, so its stable must have begun in the same way. sqlite-shop: live memory of the \
         same order of magnitude as in the thesis, and a start-up that ends in a plateau. lua-entities: as many \
         operations as the thesis' stable, from the kind of program for which Bitframe was made; its M is about thirty \
         times as large."
            .into(),
        format!(
            "uniform and small: ours are means over {}; times are of the first.",
            number::counted(found.settings.seeds, "seed")
        ),
        "H and L include the control structure, but not the padding after it that aligns the first page (6.5). L: \
         control structure, headers of live blocks, and the parts of pages that no block can use; the maximum of 200 \
         samples. ratio: ours / thesis. served: operations before the first request that fails. Internal \
         fragmentation: granted but not requested bytes; for regions all bytes of pages in use that no live block \
         requested, as the thesis counts it (6.9)."
            .into(),
        "As published: regis1, regis2 and reaps have the footers of the thesis, a counter, class and list of 32-bit \
         words, without the marks by which the library's find double frees; tlsf has granules and headers of 8 bytes, \
         sss headers of 8. Differences: our other control structures have words of 64 bits, and our model traces came \
         from a different generator; the numbers of allocations, 100,000 in uniform and 95,400 in small, are our \
         choice: with them M of small is the published one within 1 %. The clocks differ, so means are compared \
         relative to that of tlsf. Where every replica was disturbed, the maximum in ticks is noise of the machine."
            .into(),
    ];
    for trace in &found.traces {
        for row in &trace.rows {
            let troubles =
                row.ours.as_ref().err().into_iter().chain(row.ticks.as_ref().and_then(|ticks| ticks.as_ref().err()));
            notes.extend(troubles.map(|what| format!("{}, {}: {what}.", trace.load.name(), row.name)));
        }
    }
    let of_sizes = found.sizes.as_ref().err().map(|what| format!("Sizes: {what}."));
    let of_pages = found.pages.as_ref().err().map(|what| format!("Pages: {what}."));
    notes.extend(of_sizes.into_iter().chain(of_pages));
    notes
}

/// Errors, contradictions and omissions of the thesis.
pub(super) fn errata() -> Vec<String> {
    [
        "6.10 says that binary buddies have a higher worst case than TLSF in all cases, and that TLSF's is lower. In \
         tables 3 and 4 the maximum of bbuddy is higher in two of four (444 and 312 cycles, 240 and 312, 264 and 660, \
         432 and 396), and its mean is lower in all four. 6.7 is right: bbuddy performs surprisingly well.",
        "6.9 says that tlsf has the highest I. Tables 7 and 8 have a higher one for sss: 62.94 against 53.33 %, 67.62 \
         against 63.06 %.",
        "6.9 says that regis1 and regis2 have clearly the highest fragmentation. In table 6 sss has 351.99 %, regis1 \
         313.77 %.",
        "6.9 says that fragmentation and overhead grow from uniform to small in all cases but reaps. F does; but I \
         falls for bframe (28.13 to 23.96 %), regis1 and regis2, and rises for reaps (15.76 to 17.50 %). L / M, which \
         is F \u{b7} I, behaves as stated: overhead may mean that.",
        "6.9 says that for all allocators but the regions most waste is neither internal fragmentation nor overhead. \
         In tables 5 to 8 overhead alone is more than half of tlsf's waste everywhere, and of sss's on uniform and \
         small.",
        "4.2.1 regrets that dlmalloc's option for real-time systems was noticed too late. It is NO_SEGMENT_TRAVERSAL \
         of 2.8.6, which bounds the release of memory to the system; the searches of bins and trees stay. The Rust \
         port measured here has no such option, and takes its memory from one region.",
        "6.9 says that uniform and small have more than 1447 KB live. regis1 had 1,466,063 B on small when it failed: \
         1432 KiB. 1447 is regis2's.",
        "6.1 takes a standard deviation of 19.455 B so that 90 % of the requests are under 64 B. Of Normal(32, 19.455) \
         95 % are: 90 % lie between 0 and 64. What becomes of negative values is not said: by table 8, sss has about \
         47,800 live blocks of 35.4 B in the mean, which 100,000 draws leave without the negative ones. The published \
         19.455 is kept here.",
        "For 65 bytes, 5.7 says that half of the block is lost, 6.3 roughly all of the request: 63 of 128 bytes are 49 \
         % of the block and 97 % of the request. Nor is this the worst of all requests: 1 byte takes 8. It is the \
         worst of requests of at least one quantum.",
        "5.5 takes the frame from the request's own list (head_idx), which may be empty although the page was found \
         through a longer sequence. Here it is the first list at or above it that has a frame.",
        "5.4 does not say which of the two classes of 64 bytes is used: here 8 chunks of 8 bytes.",
        "5.5 takes one page of each chunk size in advance; the runs on boot and stable never needed another, so taking \
         a page, the longest malloc of bframe according to 6.3, is in no table. The constant 33,428 B of bframe in \
         tables 5 and 6 are these two pages.",
        "I = L / (H - M) takes L, H and M at three different moments, each at its maximum. The components of L are not \
         specified; the notes state the definition used here.",
        "H exceeds the heap of 3 MB (3,145,728 B) in tables 7 and 8 by up to 4,200 B: it must include control \
         structures, which 6.5 does not say.",
        "Runs on uniform and small end at each allocator's own first failure: tables 7 and 8 compare different lengths \
         of a trace, and F of an allocator that fails early is that of a younger heap. Our tables also have the equal \
         prefix.",
        "Neither the recorded system nor the end of boot is specified, beyond \"where heap size stops growing\", nor \
         the live blocks with which stable begins. Its M, below that of boot, suggests none.",
        "The minimum of 1000 replicas excludes all disturbances, caches included; the maxima of tables 3 and 4 are the \
         largest of these minima, not worst-case times. The free of sss, which has no branch, has maxima of 60 and 216 \
         cycles, which shows how unreliable they are.",
    ]
    .map(String::from)
    .into()
}
