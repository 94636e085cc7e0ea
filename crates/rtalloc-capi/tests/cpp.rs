//! rtalloc.hpp: it compiles without a warning, and does what it says, in the versions of C++ and with the compilers that there are.

mod toolchain;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use toolchain::{WARNINGS, compiled, cpp_compilers, done, include, krate, said};

/// The programs of tests/cpp.
fn programs() -> Vec<PathBuf> {
    let files = fs::read_dir(krate().join("tests/cpp")).expect("the folder of the programs");
    let mut programs: Vec<_> = files
        .map(|file| file.expect("an entry").path())
        .filter(|file| file.extension().is_some_and(|extension| extension == "cpp"))
        .collect();
    programs.sort();
    assert!(programs.len() >= 7, "{programs:?}");
    programs
}

/// How a program is compiled that says so by its name.
fn flags(program: &Path) -> &'static [&'static str] {
    if program.ends_with("no_exceptions.cpp") { &["-fno-exceptions", "-fno-rtti"] } else { &[] }
}

#[test]
fn programs_in_cpp_17_do_what_they_say() {
    let compiler = cpp_compilers()[0];
    for program in programs() {
        let name = program.file_stem().expect("a file").to_str().expect("ASCII");
        let made =
            compiled(compiler, &[&["-std=c++17", "-O1"], flags(&program)].concat(), &program, &format!("cpp_{name}"));
        let said = said(&made);
        assert!(said.starts_with(&format!("{name}: as ")), "{name} says: {said}");
    }
}

#[test]
fn the_header_is_clean_for_every_compiler_in_cpp_17_and_20() {
    for (turn, compiler) in cpp_compilers().into_iter().enumerate() {
        let standards = ["-std=c++20", "-std=c++17"];
        let check = |standard: &str, program: &Path| {
            let mut check = Command::new(compiler);
            check.args(WARNINGS).args(["-fsyntax-only", standard]).args(flags(program));
            done(check.arg("-I").arg(include()).arg(program));
        };
        // Whole programs by the first compiler in C++20, as in C++17 they are made with it, and by the other one in C++17.
        for program in programs() {
            check(standards[turn % 2], &program);
        }
        // Alone, and twice, as the first thing that is included.
        let alone = toolchain::out("alone.cpp");
        fs::write(&alone, "#include <rtalloc.hpp>\n#include <rtalloc.hpp>\nint main() {}\n").expect("a file");
        standards.iter().for_each(|standard| check(standard, &alone));
    }
}

/// Allocators of a header in C: of each function that makes a heap, the part of the name that is the allocator's.
fn allocators(header: &str) -> BTreeSet<&str> {
    header
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| line.split(|letter: char| !letter.is_alphanumeric() && letter != '_'))
        .filter_map(|word| word.strip_prefix("rt_")?.strip_suffix("_init"))
        .collect()
}

#[test]
fn every_allocator_of_c_is_one_of_cpp() {
    let header = fs::read_to_string(include().join("rtalloc.h")).expect("the header of C");
    let templates = fs::read_to_string(include().join("rtalloc.hpp")).expect("the header of C++");
    let of_c = allocators(&header);
    let listed: BTreeSet<_> = templates
        .lines()
        .filter_map(|line| line.trim().strip_suffix('\\').unwrap_or(line).trim().split_once('('))
        .filter(|(kind, _)| ["MORE", "ONE", "SHARED", "WHOLE", "PIECES"].contains(kind))
        .filter_map(|(_, name)| name.strip_suffix(')'))
        // The only one of its kind, which has a class instead of a line.
        .chain(templates.contains("rt_shared_compact_fit_init_with(").then_some("shared_compact_fit"))
        .collect();
    assert!(of_c.len() >= 30, "{of_c:?}");
    assert_eq!(of_c, listed, "allocators of rtalloc.h, and lines of the table in rtalloc.hpp");
}
