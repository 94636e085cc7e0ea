//! Tests that rtalloc.hpp compiles without warnings and works in C++17 and C++20 with the installed compilers.

mod toolchain;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use toolchain::{WARNINGS, compiled, cpp_compilers, done, heaps_of, include, krate, output_of};

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

/// The compiler flags that the name of a program implies.
fn flags(program: &Path) -> &'static [&'static str] {
    if program.ends_with("no_exceptions.cpp") { &["-fno-exceptions", "-fno-rtti"] } else { &[] }
}

#[test]
fn programs_succeed_in_cpp_17() {
    let compiler = cpp_compilers()[0];
    for program in programs() {
        let name = program.file_stem().expect("a file").to_str().expect("ASCII");
        let made =
            compiled(compiler, &[&["-std=c++17", "-O1"], flags(&program)].concat(), &program, &format!("cpp_{name}"));
        let output = output_of(&made);
        assert!(output.starts_with(&format!("{name}: as ")), "{name} prints: {output}");
    }
}

#[test]
fn the_header_compiles_without_warnings_in_cpp_17_and_20() {
    for (turn, compiler) in cpp_compilers().into_iter().enumerate() {
        let standards = ["-std=c++20", "-std=c++17"];
        let check = |standard: &str, program: &Path| {
            let mut check = Command::new(compiler);
            check.args(WARNINGS).args(["-fsyntax-only", standard]).args(flags(program));
            done(check.arg("-I").arg(include()).arg(program));
        };
        // The first compiler checks the programs in C++20, since it compiles them in C++17 anyway; the other one checks
        // them in C++17.
        for program in programs() {
            check(standards[turn % 2], &program);
        }
        // The header alone, included first and twice.
        let alone = toolchain::out("alone.cpp");
        fs::write(&alone, "#include <rtalloc.hpp>\n#include <rtalloc.hpp>\nint main() {}\n").expect("a file");
        standards.iter().for_each(|standard| check(standard, &alone));
    }
}

#[test]
fn cpp_has_every_heap_of_c() {
    let header = fs::read_to_string(include().join("rtalloc.h")).expect("the header of C");
    let templates = fs::read_to_string(include().join("rtalloc.hpp")).expect("the header of C++");
    let of_c = heaps_of(&header);
    let listed: BTreeSet<_> = templates
        .lines()
        .filter_map(|line| line.trim().strip_suffix('\\').unwrap_or(line).trim().split_once('('))
        .filter(|(kind, _)| ["MORE", "ONE", "SHARED", "WHOLE", "PIECES"].contains(kind))
        .filter_map(|(_, name)| name.strip_suffix(')'))
        // The only heap of its kind has a class instead of a line.
        .chain(templates.contains("rt_shared_compact_fit_init_with(").then_some("shared_compact_fit"))
        .collect();
    assert!(of_c.len() >= 30, "{of_c:?}");
    assert_eq!(of_c, listed, "allocators of rtalloc.h, and lines of the table in rtalloc.hpp");
}
