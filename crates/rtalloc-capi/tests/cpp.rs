//! Tests that rtalloc.hpp compiles without warnings and works in C++17 and C++20 with the installed compilers.

mod toolchain;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use toolchain::{WARNINGS, compiled, cpp_compilers, done, include, krate, output_of};

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
