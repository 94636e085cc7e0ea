//! Against memory that is bound to one size: blocks that are never coalesced, or pages until they are empty.

use super::super::game::{Game, Over};
use super::just_above_powers;
use super::sieve::one_of_each;

/// Requests as much as possible in one size, frees it, then repeats with the next size.
pub(super) fn classes(game: &mut Game<'_, '_>, n: usize) -> Result<(), Over> {
    for size in 1..=n {
        game.take_all(size)?;
        game.give_all(game.placed(), |_| false);
    }
    Ok(())
}

/// Requests as much as possible in one size and keeps one object per page; repeats this as long as the number of pages
/// grows, then continues with the next size.
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
