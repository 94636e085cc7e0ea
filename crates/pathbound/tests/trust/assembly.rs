//! Assembly text that can be changed instruction by instruction.

use pathbound::facts::{LoopFact, Place};

/// The text of an assembly file.
#[derive(Clone, Debug)]
pub struct Assembly {
    lines: Vec<String>,
}

impl Assembly {
    pub fn new(text: &str) -> Self {
        // Several mutants are linked into one file, so their functions must not be global.
        let local = text.lines().filter(|line| !line.trim_start().starts_with(".globl"));
        Self { lines: local.map(str::to_owned).collect() }
    }

    pub fn text(&self) -> String {
        self.lines.join("\n") + "\n"
    }

    /// The names of its functions.
    pub fn functions<'a>(&'a self) -> Vec<&'a str> {
        let name = |line: &'a String| -> Option<&'a str> {
            let mut words = line.split_whitespace();
            match words.next()? {
                ".function" => words.next(),
                ".type" if line.ends_with("@function") => words.next()?.strip_suffix(','),
                _ => None,
            }
        };
        self.lines.iter().filter_map(name).filter(|name| !name.starts_with('\\')).collect()
    }

    /// The numbers, from 0, of the lines with the instructions of a function, in order.
    pub fn instructions(&self, function: &str) -> Vec<usize> {
        let begins = |line: &String| {
            *line == format!("{function}:") || line.split_whitespace().collect::<Vec<_>>() == [".function", function]
        };
        let first = self.lines.iter().position(begins).expect("the function") + 1;
        let body = self.lines[first..].iter().take_while(|line| !line.trim_start().starts_with(".size"));
        let numbers = body.enumerate().filter(|(_, line)| !split(line).1.is_empty()).map(|(number, _)| first + number);
        numbers.collect()
    }

    /// Label (or nothing) and instruction of a line.
    pub fn line(&self, number: usize) -> (&str, &str) {
        split(&self.lines[number])
    }

    /// The same with another instruction, or several, on a line. Line numbers do not change.
    pub fn with(&self, number: usize, instruction: &str) -> Self {
        let mut changed = self.clone();
        let comment = self.lines[number].split_once('#').map_or("", |(_, comment)| comment);
        changed.lines[number] = format!("{} {instruction} #{comment}", split(&self.lines[number]).0);
        changed
    }

    /// The same with `nops` more instructions before one.
    pub fn with_nops(&self, number: usize, nops: usize) -> Self {
        self.with(number, &("nop; ".repeat(nops) + split(&self.lines[number]).1))
    }
}

/// Label and instruction; the latter is empty if the line has a directive or nothing.
fn split(line: &str) -> (&str, &str) {
    let code = line.split('#').next().unwrap_or_default().trim();
    let (label, rest) = match code.split_once(':') {
        Some((label, _)) if label.chars().all(|c| c.is_ascii_alphanumeric() || "._".contains(c)) => {
            code.split_at(label.len() + 1)
        }
        _ => ("", code),
    };
    let rest = rest.trim();
    (label, if rest.starts_with('.') { "" } else { rest })
}

/// The facts that a source text states by `at most N` on lines with code.
pub fn facts(file: &str, source: &str) -> Vec<LoopFact> {
    let stated = source.lines().zip(1..).filter_map(|(text, line)| {
        let (_, at_most) = text.rsplit_once(" at most ")?;
        let place = Place::Line { file: file.to_owned(), line };
        Some(LoopFact { place, at_most: at_most.trim().parse().ok()? })
    });
    stated.collect()
}
