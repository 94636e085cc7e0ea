//! Errors and omissions of the paper.

use crate::papers::puaut::published::ALLOCATORS;
use crate::papers::puaut::result::{Load, published_charges, published_gap, share};
use crate::papers::published::PUAUT;

pub(super) fn errata() -> Vec<String> {
    let mean =
        |of: &dyn Fn(&str) -> f64| ALLOCATORS.iter().map(|(name, _)| of(name)).sum::<f64>() / ALLOCATORS.len() as f64;
    let model = mean(&|name| 100.0 * share(PUAUT.table_2.rows[name].model_mean as f64, published_gap(Load::Model)));
    let [decoder_mean, model_mean] =
        Load::ALL.map(|load| mean(&|name| published_charges(&PUAUT.table_2.rows[name], load)[0]));
    let free = |name: &str| {
        let row = PUAUT.table_3.rows[name];
        format!("{name} {} against {}", row.decoder_worst, row.scenario)
    };
    let tree = PUAUT.table_2.rows["btree-best-fit"];
    let [decoder_gap, model_gap] = Load::ALL.map(published_gap);
    vec![
        format!(
            "Tables 2 and 3 call a column analytical and section 4.1 calls it safe. It is neither: it was measured in \
             scenarios derived by hand (section 3.1), and table 3 has frees of mpg123 above it ({}, {}).",
            free("first-fit"),
            free("best-fit")
        ),
        format!(
            "Table 2 has {} cycles for the worst malloc of btree-best-fit, {:.2} times its mean and the lowest of all \
             seven. Sections 3.1.1, 4.2 and 5.1 say that it is linear in the number of free blocks, and its worst free \
             is {} cycles. With the degenerate tree of section 3.1.1 ours is linear in the free blocks.",
            tree.scenario,
            tree.scenario as f64 / tree.model_mean as f64,
            PUAUT.table_3.rows["btree-best-fit"].scenario
        ),
        "Section 5.1 has the worst case of indexed fits grow linearly with the heap. The tree by size of section 2.3.1 \
         has one node for each size of free blocks, and n different sizes need n(n + 1)/2 granules: it grows with the \
         square root of the heap. Fast-fit's tree has a node for each free block."
            .into(),
        "Section 2.3.1 calls the tree self-adjusting and, two sentences later, not balanced by construction; section \
         3.1.2 reorganises it to keep it balanced. Ours is a splay tree, whose worst case is linear and whose mean \
         over a sequence is logarithmic."
            .into(),
        format!(
            "Section 4.1 says that the model allocates more often than mpg123. According to section 3, mpg123 \
             allocates every 0.8 ms, which is {decoder_gap:.0} cycles at 90 MHz, and the model every {model_gap:.0}: \
             seven times less often. Figure 3's shares cannot be recomputed without knowing which is correct.",
        ),
        format!(
            "The inter-arrival time was chosen so that malloc takes one per cent of the time in the mean of the seven \
             allocators (section 3.3). By table 2 it takes {model:.1} % of the MEAN model's, free not counted.",
        ),
        format!(
            "Figure 2's ratio is around seven for the buddies (section 4.1): {:.1} and {:.1} times the mean of the \
             model, {:.1} and {:.1} times that of mpg123. It is around seven only for the binary buddy.",
            over_mean("buddy-bin", Load::Model),
            over_mean("buddy-fibo", Load::Model),
            over_mean("buddy-bin", Load::Decoder),
            over_mean("buddy-fibo", Load::Decoder)
        ),
        "All performance features of the Pentium were disabled (section 3.4), caches included, and the conclusion \
         leaves their effect to further work. Instructions have no caches either; what caches add is in the ticks of \
         `rtalloc run`."
            .into(),
        "The conclusion counts indexed fits among those that perform poorly in the worst case, and buddies and \
         quick-fit as the most predictable; section 4.1 finds buddies and fast-fit realistic to budget by their worst \
         case. Table 2 has quick-fit's worst malloc above fast-fit's."
            .into(),
        "Not specified: the number of operations of a run, the seed, the mean of free, whether headers count in the \
         minimum block, and the numbers behind figures 1 to 3 except tables 2 and 3. Figure 4 is expected, not \
         measured."
            .into(),
        format!(
            "The loads hardly differ for most allocators (a mean of {decoder_mean:.0} cycles over all seven in mpg123, \
             {model_mean:.0} in the model), because a heap of 4 MB with about 22 kB live has short lists: no observed \
             worst case says anything about a full heap."
        ),
    ]
}

fn over_mean(name: &str, load: Load) -> f64 {
    let [mean, _, scenario] = published_charges(&PUAUT.table_2.rows[name], load);
    scenario / mean
}
