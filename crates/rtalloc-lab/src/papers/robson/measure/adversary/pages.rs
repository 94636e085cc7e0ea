//! Against memory that is tied to a size: by blocks for ever, or by pages until they are empty.

use super::super::game::{Game, Over};
use super::just_above_powers;
use super::sieve::one_of_each;

/// All that may be requested in one size, freed again, then in the next one.
pub(super) fn classes(game: &mut Game<'_, '_>, n: usize) -> Result<(), Over> {
    for size in 1..=n {
        game.take_all(size)?;
        game.give_all(game.placed(), |_| false);
    }
    Ok(())
}

/// All that may be requested in one size, of which one object stays in each page; again, as long as that makes more
/// pages, then in the next size.
pub(super) fn pages(game: &mut Game<'_, '_>, n: usize, page_bytes: usize) -> Result<(), Over> {
    if page_bytes == 0 {
        return Ok(());
    }
    for size in just_above_powers(n) {
        let mut pages = 0;
        while size <= game.left() {
            game.take_all(size)?;
            one_of_each(game, |at| at.div_euclid(page_bytes as i64));
            let now = game.placed().len();
            if now <= pages {
                break;
            }
            pages = now;
        }
    }
    Ok(())
}
