//! Robson's program P_R (1971, 1974): requests are powers of two, doubled in each phase.

use super::super::game::{Game, Over, Placed};

/// Allocates M objects of one unit; then, for i = 1 .. log2 n, selects from f and f + 2^(i-1) the offset whose objects
/// have the higher value, where an object that covers an address = f modulo 2^i has the value 2^i - its size. It frees
/// the other objects and requests as many blocks of 2^i as allowed.
///
/// A retained object makes the 2^i addresses around it unusable for blocks of 2^i, which is why its value is defined in
/// this way.
pub(super) fn play(game: &mut Game<'_, '_>, n: usize) -> Result<(), Over> {
    game.take_all(1)?;
    let origin = game.placed().first().map_or(0, |first| first.at);
    let mut offset = 0;
    for power in 1..=n.ilog2() {
        let size = 1_i64 << power;
        let placed = game.placed();
        let unit = game.unit.bytes as i64;
        let covers = |placed: &Placed, offset: i64| {
            let first = (placed.at - origin).div_euclid(unit);
            (offset - first).rem_euclid(size) < placed.units as i64
        };
        let worth = |offset: i64| -> i64 {
            placed.iter().filter(|placed| covers(placed, offset)).map(|placed| size - placed.units as i64).sum()
        };
        let other = offset + size / 2;
        if worth(other) > worth(offset) {
            offset = other;
        }
        game.give_all(placed.iter().copied(), |placed| covers(placed, offset));
        game.take_all(size as usize)?;
    }
    Ok(())
}
