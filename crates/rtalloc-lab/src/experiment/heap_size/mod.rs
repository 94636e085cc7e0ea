//! How large a heap must be so that no request is refused: adversaries, and the exact answer in small worlds.
//!
//! A *world* is a program that keeps at most M units live and requests 1 to n at a time; a unit is the allocator's
//! smallest block. [`exact`] finds the smallest heap of a real allocator that serves every program of a world;
//! [`any_allocator`] the smallest that some allocator could manage. In large worlds an [`adversary`], or an
//! [`attack`] found by search, gives a lower bound.

pub mod adversary;
pub mod any_allocator;
pub mod attack;
pub mod exact;
mod game;
pub mod limited;
pub mod need;
pub mod program;
pub mod sizes;
#[cfg(test)]
mod tests;
pub mod world;
pub mod worlds;

pub use game::{Game, Id, Over, Placed, unit_of};
pub use need::{Played, Question};
