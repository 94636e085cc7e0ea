//! The C and C++ of the book (docs/book): every block is compiled with all warnings as errors, linked with the static library, run,
//! and what it prints compared with the `text` block behind it.
//!
//! And that nothing in the book goes unchecked: every fence is of a kind that somebody checks. Rust is a documentation test of
//! `rtalloc`, whose lib.rs must name the chapter; shell is performed by ci/book.sh.

mod toolchain;

use std::fs;
use std::path::PathBuf;
use toolchain::{compiled, cpp_compilers, krate, out, said};

/// A fence of a chapter.
struct Fence {
    /// Chapter and line, for messages.
    place: String,
    /// What stands behind the ticks: the language, and more behind a comma.
    info: String,
    /// Whether a name of a file stands in front of it.
    is_file: bool,
    text: String,
}

impl Fence {
    fn language(&self) -> &str {
        self.info.split(',').next().unwrap_or_default()
    }

    /// The text with the lines that the book hides from its readers.
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

/// The text with `#` for each number.
fn without_numbers(text: &str) -> String {
    let mut words = String::new();
    for letter in text.chars() {
        match letter {
            '0'..='9' if words.ends_with('#') => {}
            '0'..='9' => words.push('#'),
            _ => words.push(letter),
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

#[test]
fn every_program_in_c_and_cpp_compiles_and_prints_what_the_book_says() {
    let folder = out("book");
    fs::create_dir_all(&folder).expect("a folder for programs");
    let (mut programs, mut compared) = (0, 0);
    for (_, fences) in chapters() {
        for (at, fence) in fences.iter().enumerate() {
            let (compiler, standard) = match fence.language() {
                "c" => ("cc", "-std=c11"),
                "cpp" => (cpp_compilers()[0], "-std=c++17"),
                _ => continue,
            };
            let name = format!("book/{}", fence.place.replace(['/', ':', '.'], "-"));
            let source = out(&format!("{name}.{}", fence.language()));
            fs::write(&source, fence.with_hidden_lines()).expect("a program written");
            println!("{}", fence.place);
            let printed = said(&compiled(compiler, &[standard, "-O1"], &source, &name));
            programs += 1;
            let next = fences.get(at + 1).filter(|next| next.info == "text" || next.info == "text,varies");
            if let Some(expected) = next {
                let are_numbers_fixed = expected.info == "text";
                let compared_as = |text: &str| if are_numbers_fixed { text.to_owned() } else { without_numbers(text) };
                assert!(
                    agree(&compared_as(&expected.text), &compared_as(&printed)),
                    "{}: the book says\n{}\nbut this was printed:\n{printed}",
                    expected.place,
                    expected.text
                );
                compared += 1;
            }
        }
    }
    assert!(programs > 0 && compared > 0, "the book's programs were not found");
    println!("{programs} programs, {compared} outputs");
}

#[test]
fn nothing_in_the_book_goes_unchecked() {
    let library = fs::read_to_string(repository().join("crates/rtalloc/src/lib.rs")).expect("the library's lib.rs");
    for (chapter, fences) in chapters() {
        for fence in fences {
            let is_checked = match fence.info.as_str() {
                // ci/book.sh
                "sh" | "sh,setup" | "sh,elsewhere" => true,
                // The block in front of it, or a picture.
                "text" | "text,varies" | "text,drawing" => true,
                // This file.
                "c" | "cpp" => true,
                _ if fence.language() == "rust" => {
                    assert!(!fence.info.contains("ignore"), "{}: `ignore` leaves it unchecked", fence.place);
                    library.contains(&format!("\"docs/book/src/{chapter}\""))
                }
                // What a shell block works on.
                _ => fence.is_file,
            };
            assert!(is_checked, "{}: nobody checks a fence of the kind `{}`", fence.place, fence.info);
        }
    }
}
