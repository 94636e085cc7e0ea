//! Tests the C and C++ of the book (docs/book): compiles every block with warnings as errors, links it with the static
//! library, runs it, and compares its output with the `text` block after it.
//!
//! Also tests that every block in the book is checked. Rust blocks are documentation tests of `rtalloc`, whose lib.rs
//! must name the chapter; ci/book.sh runs shell blocks.

mod toolchain;

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use toolchain::{compiled, cpp_compilers, krate, out, output_of};

/// A fenced block of a chapter.
struct Fence {
    /// Chapter and line, for messages.
    place: String,
    /// The info string: the language, and attributes after a comma.
    info: String,
    /// Whether the name of a file precedes it.
    is_file: bool,
    text: String,
}

impl Fence {
    fn language(&self) -> &str {
        self.info.split(',').next().unwrap_or_default()
    }

    /// The text including the lines that the book hides.
    fn with_hidden_lines(&self) -> String {
        self.text.lines().map(|line| line.strip_prefix('~').unwrap_or(line).to_owned() + "\n").collect()
    }
}

fn repository() -> PathBuf {
    krate().join("../..")
}

/// The chapters: path from docs/book/src, and fences.
fn chapters() -> Vec<(String, Vec<Fence>)> {
    let root = repository().join("docs/book/src");
    let (mut chapters, mut folders) = (vec![], vec![root.clone()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the book") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                let name = path.strip_prefix(&root).expect("inside").to_string_lossy().into_owned();
                let fences = fences(&name, &fs::read_to_string(&path).expect("a chapter"));
                chapters.push((name, fences));
            }
        }
    }
    chapters.sort_by(|one, other| one.0.cmp(&other.0));
    chapters
}

fn fences(chapter: &str, text: &str) -> Vec<Fence> {
    let (mut fences, mut open, mut is_file): (Vec<Fence>, Option<Fence>, bool) = (vec![], None, false);
    for (number, line) in text.lines().enumerate() {
        let ticks = line.trim_start().strip_prefix("```");
        match (&mut open, ticks) {
            (Some(_), Some("")) => fences.extend(open.take()),
            (Some(fence), _) => fence.text.extend([line, "\n"]),
            (None, Some(info)) => {
                let (place, info) = (format!("{chapter}:{}", number + 1), info.trim().to_owned());
                open = Some(Fence { place, info, is_file, text: String::new() });
            }
            (None, None) => is_file = line.starts_with("<!-- file: "),
        }
    }
    assert!(open.is_none(), "{chapter}: a fence without an end");
    fences
}

/// The text with each number replaced by `#`.
fn without_numbers(text: &str) -> String {
    let mut words = String::new();
    for character in text.chars() {
        match character {
            '0'..='9' if words.ends_with('#') => {}
            '0'..='9' => words.push('#'),
            _ => words.push(character),
        }
    }
    words
}

/// Whether two texts agree, where `...` in the book stands for lines left out.
fn agree(book: &str, printed: &str) -> bool {
    let (book, printed): (Vec<&str>, Vec<&str>) = (book.lines().collect(), printed.lines().collect());
    fn from(book: &[&str], printed: &[&str]) -> bool {
        match (book, printed) {
            ([], []) => true,
            (["...", rest @ ..], _) => (0..=printed.len()).any(|left_out| from(rest, &printed[left_out..])),
            ([expected, book @ ..], [line, printed @ ..]) => expected == line && from(book, printed),
            _ => false,
        }
    }
    from(&book, &printed)
}

/// Compiles and runs the program of a fence. Whether a `text` block follows, which then is what it printed.
fn has_checked_output(fence: &Fence, next: Option<&Fence>) -> bool {
    let (compiler, standard) =
        if fence.language() == "c" { ("cc", "-std=c11") } else { (cpp_compilers()[0], "-std=c++17") };
    let name = format!("book/{}", fence.place.replace(['/', ':', '.'], "-"));
    let source = out(&format!("{name}.{}", fence.language()));
    fs::write(&source, fence.with_hidden_lines()).expect("a program written");
    println!("{}", fence.place);
    let printed = output_of(&compiled(compiler, &[standard, "-O1"], &source, &name));
    let Some(expected) = next.filter(|next| next.info == "text" || next.info == "text,varies") else { return false };
    let are_numbers_fixed = expected.info == "text";
    let compared_as = |text: &str| if are_numbers_fixed { text.to_owned() } else { without_numbers(text) };
    assert!(
        agree(&compared_as(&expected.text), &compared_as(&printed)),
        "{}: the book says\n{}\nbut this was printed:\n{printed}",
        expected.place,
        expected.text
    );
    true
}

#[test]
fn every_program_in_c_and_cpp_prints_the_output_in_the_book() {
    let folder = out("book");
    fs::create_dir_all(&folder).expect("a folder for programs");
    let chapters = chapters();
    let programs: Vec<(&Fence, Option<&Fence>)> = chapters
        .iter()
        .flat_map(|(_, fences)| fences.iter().enumerate().map(|(at, fence)| (fence, fences.get(at + 1))))
        .filter(|(fence, _)| matches!(fence.language(), "c" | "cpp"))
        .collect();
    let (taken, compared) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((fence, next)) = programs.get(taken.fetch_add(1, Relaxed)) {
                    compared.fetch_add(usize::from(has_checked_output(fence, *next)), Relaxed);
                }
            });
        }
    });
    let compared = compared.into_inner();
    assert!(!programs.is_empty() && compared > 0, "the book's programs were not found");
    println!("{} programs, {compared} outputs", programs.len());
}

#[test]
fn every_block_of_the_book_is_checked() {
    let library = fs::read_to_string(repository().join("crates/rtalloc/src/lib.rs")).expect("the library's lib.rs");
    for (chapter, fences) in chapters() {
        for fence in fences {
            let is_checked = match fence.info.as_str() {
                // ci/book.sh
                "sh" | "sh,setup" | "sh,elsewhere" => true,
                // Output of the block before it, or a diagram.
                "text" | "text,varies" | "text,drawing" => true,
                // This file.
                "c" | "cpp" => true,
                _ if fence.language() == "rust" => {
                    assert!(!fence.info.contains("ignore"), "{}: `ignore` leaves it unchecked", fence.place);
                    library.contains(&format!("\"docs/book/src/{chapter}\""))
                }
                // Input of a shell block, or of ci/integrations.sh.
                _ => fence.is_file,
            };
            assert!(is_checked, "{}: no test checks a block of the kind `{}`", fence.place, fence.info);
        }
    }
}
