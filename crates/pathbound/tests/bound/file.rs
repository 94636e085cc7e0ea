//! From a file to a certificate and back: real machine code from the assembler and the linker.

use pathbound::check::check_proof;
use pathbound::graph::NeverReturns;
use pathbound::{Assumption, Certificate, ElfFile, Facts, Graph, Image, bound, check};
use std::process::Command;

/// Calls in a loop and past the end, `abort` through the global offset table, and a rotated loop with lines.
const SOURCE: &str = r#"
        .file 1 "sums.c"
        .text
        .globl sums
        .type sums, @function
sums:
        .loc 1 10
        push %rbx
        mov %edi, %ebx
        cmp $16, %ebx
        ja .Ltoo_many
.Louter:
        .loc 1 12
        mov %ebx, %edi
        call triangle
        dec %ebx
        jne .Louter
        .loc 1 14
        pop %rbx
        jmp finish
.Ltoo_many:
        call *abort@GOTPCREL(%rip)
        .size sums, .-sums

        .type triangle, @function
triangle:
        .loc 1 20
        xor %eax, %eax
.Linner:
        .loc 1 22
        add %edi, %eax
        dec %edi
        jne .Linner
        .loc 1 24
        ret
        .size triangle, .-triangle

        .type finish, @function
finish:
        .loc 1 30
        test %eax, %eax
        js .Lnegative
        ret
.Lnegative:
        neg %eax
        rep ret
        .size finish, .-finish
        .section .note.GNU-stack, "", @progbits
"#;

#[test]
fn a_file_is_bounded_and_its_certificate_checked() {
    let directory = tempfile::tempdir().expect("a directory");
    let (source, library) = (directory.path().join("sums.s"), directory.path().join("libsums.so"));
    std::fs::write(&source, SOURCE).expect("written");
    let status = Command::new("cc").arg("-g0").arg("-shared").arg(&source).arg("-o").arg(&library).status();
    assert!(status.expect("a C compiler").success());

    let file = ElfFile::open(&library).expect("an ELF file");
    let entry = file.find("sums")[0].address;
    let graph = Graph::explore(&file, &[entry], &NeverReturns::default()).expect("code");
    let facts = ["sums.c:12=16", "sums.c:22=16"].map(|fact| fact.parse().expect("a fact"));
    let facts = Facts { loops: facts.into(), ..Facts::default() };
    let bound = bound(&file, &graph, entry, &facts).unwrap_or_else(|decline| panic!("{decline}"));
    // A loop that goes around 16 times begins 17 iterations.
    let triangle = 1 + 17 * 3 + 1;
    assert_eq!(bound.most, 4 + 17 * (4 + triangle) + 2 + 4);
    assert_eq!(bound.least, 4 + (4 + 5) + 2 + 3);
    assert_eq!(bound.never_returning.len(), 1);
    assert_eq!(bound.never_returning[0].0, "abort");

    let certificate = Certificate::of(&bound, file.provenance());
    assert_eq!(certificate.proof.function.as_deref(), Some("sums"));
    let read = Certificate::from_json(&certificate.to_json()).expect("a certificate");
    let checked = check(&read, &file, file.provenance()).unwrap_or_else(|rejection| panic!("{rejection}"));
    assert_eq!(checked.most, bound.most);
    assert!(checked.facts.iter().any(|line| line.contains("sums.c:22")), "{:?}", checked.facts);
    assert!(matches!(&checked.never_returning[..], [line] if line.starts_with("abort never returns")), "{checked:?}");
    assert!(checked.assumptions.contains(&Assumption::NeverReturns), "{checked:?}");
    assert_eq!(checked.assumptions, bound.assumptions);

    let mut other = read.proof;
    other.never_returning.clear();
    assert!(check_proof(&other, &file).is_err(), "the assumption that abort never returns is missing");
}
