//! Notes needed to read the tables, and the thesis' errata.

use crate::number;
use crate::papers::thesis::published::ALLOCATORS;
use crate::papers::thesis::result::Thesis;

/// Notes below the tables.
pub(super) fn notes(found: &Thesis) -> Vec<String> {
    let here: Vec<String> = ALLOCATORS.iter().map(|(there, here)| format!("{there} is {here}")).collect();
    let mut notes = vec![
        format!("Here {}.", here.join(", ")),
        "Substitutes: the requests of up to 512 B of two shipped recordings; a reallocation is an allocation and a free, as the thesis \
         takes them. boot ends where 90 % of the recording's largest live memory is reached for the first time; stable is the rest, \
         in a heap that is empty again, without the frees of what boot allocated: the thesis' M of stable is below that of boot, so \
         its stable began so too. sqlite-shop: live memory of the thesis' order, and a start-up that ends in a plateau. lua-entities: as \
         many operations as the thesis' stable, from the kind of program for which Bitframe was made; its M is some thirty times as large."
            .into(),
        format!(
            "uniform and small: ours are means over {}; times are of the first.",
            number::counted(found.settings.seeds, "seed")
        ),
        "H and L have the control structure, without what is left free behind it so that the first page is aligned (6.5). L: control structure, headers of live blocks, and what of pages no block can have, the largest of 200 samples. ratio: ours / \
         thesis. served: operations before the first request that fails. Internal fragmentation: granted and not requested; of regions \
         whatever of their pages in use no live block asked for, as the thesis counts it (6.9)."
            .into(),
        "What differs: the thesis' machine has words of 32 bits. Its TLSF has headers of 8 bytes and a granule of 8 where ours has 4 and \
         16; its traces of models were drawn by another generator. Our pages keep a mark for every block, by which a double free is found, and \
         words of 64 bits, so their L is larger: the thesis' regions keep one counter. Its clock and ours differ too, so that means are \
         compared with that of tlsf. The most ticks are noise of the machine where something disturbed every replica."
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
        "6.10 says that binary buddies take longer than TLSF in all cases, and the summary that TLSF's times lie below theirs; tables 3 \
         and 4 have lower means for bbuddy everywhere (119/77 against 186/152 cycles, 114/68 against 163/138). 6.7 has it right: \
         bbuddy performs surprisingly well.",
        "6.9 says that tlsf has the highest I. Tables 7 and 8 have a higher one for sss: 62.94 against 53.33 %, 67.62 against 63.06 %.",
        "6.9 says that regis1 and regis2 have clearly the highest fragmentation. In table 6 sss has 351.99 %, regis1 313.77 %.",
        "6.9 says that fragmentation and overhead grow from uniform to small in all cases but reaps. F does; but I falls for bframe (28.13 \
         to 23.96 %), regis1 and regis2, and rises for reaps (15.76 to 17.50 %). L over M, which is F \u{b7} I, does as is said: overhead \
         may mean that.",
        "6.9 says that uniform and small have more than 1447 KB live. regis1 had 1,466,063 B on small when it failed: 1432 KiB. 1447 is regis2's.",
        "6.1 takes a standard deviation of 19.455 B so that 90 % of the requests are under 64 B. Of Normal(32, 19.455) 95 % are: 90 % lie \
         between 0 and 64, and what is below 1 is drawn again. The published 19.455 is kept here.",
        "5.7 has half of the block lost for 65 bytes, 6.3 roughly all of the request: 63 of 128 bytes are 49 % of the one and 97 % of the \
         other. Nor is it the worst of all requests: 1 byte takes 8. It is the worst from one quantum on.",
        "5.5 takes the frame from the request's own list (head_idx), which may be empty although the page was found through a longer \
         sequence. Here it is the first list at or above it that has a frame.",
        "5.4 leaves open which of the two classes of 64 bytes is taken: here 8 chunks of 8 bytes.",
        "5.5 takes one page of each chunk size in advance; the runs on boot and stable never needed another, so that taking a page, the \
         longest malloc of bframe by 6.3, is in no table. The constant 33,428 B of bframe in tables 5 and 6 are these two pages.",
        "I = L / (H - M) takes L, H and M at three different moments, each at its maximum. What belongs to L is not told; the chosen \
         definition stands in the notes.",
        "H exceeds the heap of 3 MB (3,145,728 B) in tables 7 and 8 by up to 4,200 B: it must include control structures, which 6.5 \
         does not say.",
        "Runs on uniform and small end at each allocator's own first failure: tables 7 and 8 compare different lengths of a trace, and F \
         of an allocator that fails early is that of a younger heap. The equal prefix stands beside.",
        "Neither the recorded system nor where boot was cut is told, beyond \"where heap size stops growing\", nor which live blocks stable \
         begins with. Its M, below that of boot, says none.",
        "The least of 1000 replicas leaves out whatever disturbs, caches included; the maxima of tables 3 and 4 are the largest of such \
         least times, and no worst-case times. That sss' free, which has no branch, has 60 and 216 cycles at most shows how far off they are.",
    ]
    .map(String::from)
    .into()
}
