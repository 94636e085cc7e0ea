//! Rust with its standard library: panics that unwind and are caught, iterators, collections, formatting, traits.

use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::hint::black_box;
use std::panic::catch_unwind;

trait Shape {
    fn area(&self) -> u64;
}

struct Square(u64);
struct Rectangle(u64, u64);

impl Shape for Square {
    fn area(&self) -> u64 {
        self.0.saturating_mul(self.0)
    }
}

impl Shape for Rectangle {
    fn area(&self) -> u64 {
        self.0.wrapping_mul(self.1)
    }
}

enum Token {
    Number(i64),
    Plus,
    Times,
}

macro_rules! functions {
    ($($name:ident($argument:ident: $kind:ty) -> $result:ty $body:block)*) => {
        $(#[inline(never)] #[unsafe(no_mangle)] fn $name($argument: $kind) -> $result $body)*
    };
}

functions! {
    absolute(x: i64) -> u64 { x.unsigned_abs() }
    classify(x: i64) -> u32 { match x { i64::MIN..=-1 => 1, 0 => 2, 1..=9 => 3, 10 | 20 | 30 => 4, _ => 5 } }
    collatz(x: u64) -> u32 { let (mut x, mut n) = (x.max(1), 0); while x != 1 { x = if x % 2 == 0 { x / 2 } else { 3 * x + 1 }; n += 1; } n }
    indexed(x: usize) -> u8 { [1u8, 4, 9, 16][x] }
    checked(x: i32) -> i32 { x.checked_add(i32::MAX - 30).unwrap_or(-1) }
    divides(x: i64) -> i64 { 1000 / (x - 7) }
    caught(x: usize) -> u64 { match catch_unwind(|| indexed(black_box(x))) { Ok(value) => value.into(), Err(_) => (0..300u64).map(black_box).sum() } }
    caught_division(x: i64) -> i64 { catch_unwind(|| divides(black_box(x))).unwrap_or_else(|_| (0..200).map(black_box).sum()) }
    sums(x: &[u64]) -> u64 { x.iter().filter(|x| **x % 3 == 1).map(|x| x * 2).sum() }
    largest(x: &[u64]) -> Option<u64> { x.iter().copied().max() }
    sorted(x: &[u64]) -> Vec<u64> { let mut x = x.to_vec(); x.sort_unstable(); x }
    words(x: &str) -> usize { x.split_whitespace().filter(|word| word.chars().all(char::is_alphanumeric)).count() }
    parsed(x: &str) -> Option<i32> { x.trim().parse().ok() }
    area(x: &dyn Shape) -> u64 { x.area() + 1 }
    evaluated(x: &[Token]) -> i64 {
        let mut stack = Vec::new();
        for token in x {
            match token {
                Token::Number(number) => stack.push(*number),
                Token::Plus => { let (a, b) = (stack.pop().unwrap_or(0), stack.pop().unwrap_or(0)); stack.push(a.wrapping_add(b)); }
                Token::Times => { let (a, b) = (stack.pop().unwrap_or(1), stack.pop().unwrap_or(1)); stack.push(a.wrapping_mul(b)); }
            }
        }
        stack.pop().unwrap_or(0)
    }
    formatted(x: u64) -> String { format!("{x:>8} {x:#x} {:.2}", x as f64 / 3.0) }
    bits(x: u64) -> u32 { x.count_ones() + x.leading_zeros() + x.trailing_zeros() }
    queue(x: u64) -> Option<u64> { let mut queue: VecDeque<u64> = (0..x % 9).collect(); queue.rotate_left((x % 3).min(queue.len() as u64) as usize); queue.pop_front() }
    heap(x: u64) -> Option<u64> { let mut heap: BinaryHeap<u64> = (0..x % 20).map(|y| y * 7 % 13).collect(); heap.pop() }
    squared(x: f64) -> f64 { if x.is_nan() { 0.0 } else { x.mul_add(x, 1.0).clamp(0.0, 1e6) } }
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let (mut tree, mut map) = (BTreeMap::new(), HashMap::new());
    let mut total = 0u64;
    for n in 0..60u64 {
        let numbers: Vec<u64> = (0..n % 23).map(|x| x * 31 % (n + 1)).collect();
        let tokens = [Token::Number(3), Token::Number(n.cast_signed()), if n % 2 == 0 { Token::Plus } else { Token::Times }];
        tree.insert(n * 7 % 31, n);
        *map.entry(n % 5).or_insert(0u64) += n;
        let text = format!("{} word {n} .. x", n % 4);
        total = total.wrapping_add(
            absolute(30 - n.cast_signed())
                + u64::from(classify(n.cast_signed() - 5))
                + u64::from(collatz(n))
                + caught((n % 6) as usize)
                + caught_division((n % 9).cast_signed()).unsigned_abs()
                + u64::from(checked(n as i32).unsigned_abs())
                + sums(&numbers)
                + largest(&numbers).unwrap_or(0)
                + sorted(&numbers).first().copied().unwrap_or(0)
                + words(&text) as u64
                + u64::from(parsed(&text[..2]).unwrap_or(9).unsigned_abs())
                + area(&Square(n))
                + area(&Rectangle(n, 3))
                + evaluated(&tokens).unsigned_abs()
                + formatted(n).len() as u64
                + u64::from(bits(n << 9))
                + queue(n).unwrap_or(0)
                + heap(n).unwrap_or(0)
                + squared(n as f64) as u64,
        );
    }
    println!("{total} {tree:?} {}", map.len());
}
