//! trial
use crate::experiment::heap_size::{any_allocator,worlds};
/// t
pub fn trial() {
    let args: Vec<String> = std::env::args().collect();
    let (name, n, m, states): (&str, usize, usize, usize) = (&args[2], args[3].parse().unwrap(), args[4].parse().unwrap(), args[5].parse().unwrap());
    let t = std::time::Instant::now();
    if name == "any" {
        println!("{:?} {:?}", any_allocator::smallest_heap(m, n, 1, states as u64), t.elapsed());
        return;
    }
    let subject = rtalloc_subjects::one(name).unwrap();
    for c in worlds::column(subject, n, m, states, &mut |_| {}).unwrap() {
        println!("M {} n {} units {} exact {} states {} formula {:?} witness {}", c.m, c.n, c.block_bytes as f64 / 16.0, c.is_exact, c.states, c.guaranteed_bytes.map(|b| b as f64/16.0), c.witness.map_or(0, |w| w.steps.len()));
    }
    println!("{:?}", t.elapsed());
}
