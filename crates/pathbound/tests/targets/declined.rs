//! Code whose flow is not what it seems: each function has no bound, for the right reason, and its plain twin has one.

use super::emulated::installed;
use pathbound::graph::{NeverReturns, Obstacle};
use pathbound::{Decline, Facts, Graph, Image, bound};

/// Pieces of assembly, by the beginning of a target's name.
struct Case {
    target: &'static str,
    what: &'static str,
    code: &'static str,
    obstacle: Obstacle,
}

/// Functions with a bound, by the beginning of a target's name.
const PLAIN: [(&str, &str); 10] = [
    ("rv32", "addi sp,sp,-16\nsw ra,12(sp)\ncall other\nlw ra,12(sp)\naddi sp,sp,16\nret"),
    ("rv64", "addi sp,sp,-16\nsd ra,8(sp)\ncall other\nld ra,8(sp)\naddi sp,sp,16\nret"),
    ("thumb", "push {r4,lr}\nbl other\npop {r4,pc}"),
    ("aarch64", "stp x29,x30,[sp,#-16]!\nbl other\nldp x29,x30,[sp],#16\nret"),
    // Functions that LLVM outlines.
    ("thumb", "mov r2,lr\nbl OUTLINED_FUNCTION_0\nmov lr,r2\nbx lr"),
    ("thumb", "push {r4,lr}\nb OUTLINED_FUNCTION_1"),
    ("aarch64", "mov x2,x30\nbl OUTLINED_FUNCTION_0\nmov x30,x2\nret"),
    ("aarch64", "stp x29,x30,[sp,#-16]!\nb OUTLINED_FUNCTION_1"),
    ("thumb", "push {r4,lr}\nmov r3,r0\nbl OUTLINED_FUNCTION_3\npop {r4,pc}"),
    ("aarch64", "stp x29,x30,[sp,#-16]!\nmov x3,x0\nbl OUTLINED_FUNCTION_3\nldp x29,x30,[sp],#16\nret"),
];

const CASES: [Case; 35] = [
    case("rv32", "another word is loaded", "addi sp,sp,-16\nsw ra,12(sp)\nlw ra,8(sp)\naddi sp,sp,16\nret"),
    case(
        "rv32",
        "the word is overwritten",
        "addi sp,sp,-16\nsw ra,12(sp)\nsw a0,12(sp)\nlw ra,12(sp)\naddi sp,sp,16\nret",
    ),
    case(
        "rv32",
        "a byte of it is overwritten",
        "addi sp,sp,-16\nsw ra,12(sp)\nsb a0,14(sp)\nlw ra,12(sp)\naddi sp,sp,16\nret",
    ),
    case("rv32", "the stack pointer is elsewhere", "addi sp,sp,-16\nret"),
    case("rv32", "another stack", "addi sp,sp,-16\nsw ra,12(sp)\nmv sp,a0\nlw ra,12(sp)\naddi sp,sp,16\nret"),
    case("rv32", "the word is below the stack during a call", "sw ra,-4(sp)\ncall other\nlw ra,-4(sp)\nret"),
    case("rv32", "half of it is saved", "addi sp,sp,-16\nsh ra,12(sp)\nlw ra,12(sp)\naddi sp,sp,16\nret"),
    case("rv64", "half of it is saved", "addi sp,sp,-16\nsw ra,8(sp)\nlw ra,8(sp)\naddi sp,sp,16\nret"),
    case("rv64", "a jump to a register", "mv ra,a0\nret"),
    case("thumb", "another word is loaded", "push {r4,lr}\nsub sp,#8\npop {r4,pc}"),
    case("thumb", "the word is overwritten", "push {r4,lr}\nstr r0,[sp,#4]\npop {r4,pc}"),
    case("thumb", "another stack", "push {r4,lr}\nmov sp,r0\npop {r4,pc}"),
    case("thumb", "the stack pointer is elsewhere", "sub sp,#8\nbx lr"),
    case("thumb", "another address", "mov lr,r0\nbx lr"),
    case("thumb", "the stack of another task", "push {r4,lr}\nmsr msp,r0\npop {r4,pc}"),
    case("aarch64", "another word is loaded", "stp x29,x30,[sp,#-32]!\nldp x29,x30,[sp,#16]\nadd sp,sp,#32\nret"),
    case("aarch64", "the word is overwritten", "stp x29,x30,[sp,#-16]!\nstr x0,[sp,#8]\nldp x29,x30,[sp],#16\nret"),
    case("aarch64", "another stack", "stp x29,x30,[sp,#-16]!\nmov sp,x0\nldp x29,x30,[sp],#16\nret"),
    case("aarch64", "another stack pointer", "stp x29,x30,[sp,#-16]!\nmsr spsel,#1\nldp x29,x30,[sp],#16\nret"),
    case("aarch64", "the stack pointer is elsewhere", "sub sp,sp,#16\nret"),
    case("thumb", "outlined code sets the register", "mov r3,lr\nbl OUTLINED_FUNCTION_0\nmov lr,r3\nbx lr"),
    case(
        "thumb",
        "outlined code sets a register that callees preserve",
        "mov r5,lr\nbl OUTLINED_FUNCTION_0\nmov lr,r5\nbx lr",
    ),
    case("thumb", "outlined code stores over it", "push {r4,lr}\nmov r3,sp\nbl OUTLINED_FUNCTION_2\npop {r4,pc}"),
    case("thumb", "a thunk stores over it", "push {r4,lr}\nmov r3,sp\nbl OUTLINED_FUNCTION_3\npop {r4,pc}"),
    case("thumb", "outlined code branches", "push {r4,lr}\nmov r3,sp\nbl OUTLINED_FUNCTION_4\npop {r4,pc}"),
    case(
        "aarch64",
        "outlined code stores over it",
        "stp x29,x30,[sp,#-16]!\nmov x3,sp\nbl OUTLINED_FUNCTION_2\nldp x29,x30,[sp],#16\nret",
    ),
    case(
        "aarch64",
        "a thunk stores over it",
        "stp x29,x30,[sp,#-16]!\nmov x3,sp\nbl OUTLINED_FUNCTION_3\nldp x29,x30,[sp],#16\nret",
    ),
    case(
        "aarch64",
        "outlined code branches",
        "stp x29,x30,[sp,#-16]!\nmov x3,sp\nbl OUTLINED_FUNCTION_4\nldp x29,x30,[sp],#16\nret",
    ),
    case("thumb", "an epilogue of another frame", "push {r4,r5,lr}\nb OUTLINED_FUNCTION_1"),
    case("aarch64", "outlined code sets the register", "mov x3,x30\nbl OUTLINED_FUNCTION_0\nmov x30,x3\nret"),
    case(
        "aarch64",
        "outlined code sets a register that callees preserve",
        "mov x20,x30\nbl OUTLINED_FUNCTION_0\nmov x30,x20\nret",
    ),
    case("aarch64", "an epilogue of another frame", "stp x29,x30,[sp,#-32]!\nb OUTLINED_FUNCTION_1"),
    // The far call may be entered without the first of its two instructions.
    with(
        Obstacle::IndirectJump,
        "rv",
        "half of a far call",
        "mv t0,a1\nbeqz a0,1f\n.option norelax\nauipc t0,0\n1: jalr x0,8(t0)\nnop\nret",
    ),
    with(
        Obstacle::TakenPlace,
        "rv",
        "the address of an instruction",
        ".option norelax\nlla a0,1f\nsw a0,0(a1)\n1: ret",
    ),
    with(Obstacle::TakenPlace, "aarch64", "the address of an instruction", "adr x0,1f\nstr x0,[x1]\n1: ret"),
];

const fn case(target: &'static str, what: &'static str, code: &'static str) -> Case {
    with(Obstacle::UnmatchedReturn, target, what, code)
}

const fn with(obstacle: Obstacle, target: &'static str, what: &'static str, code: &'static str) -> Case {
    Case { target, what, code, obstacle }
}

/// A function `entry` with this code, one that it may call, and outlined ones.
fn text(code: &str) -> String {
    let functions = [
        ("entry", code, ""),
        ("other", "nop", "RETURN"),
        ("OUTLINED_FUNCTION_0", "REGISTERS", "RETURN"),
        ("OUTLINED_FUNCTION_1", "EPILOGUE", ""),
        ("OUTLINED_FUNCTION_2", "STORE", "RETURN"),
        ("OUTLINED_FUNCTION_3", "STORE\nb other", ""),
        ("OUTLINED_FUNCTION_4", "COMPARE\nbeq 1f\nSTORE\n1:", "RETURN"),
    ];
    let function = |(name, code, end): (&str, &str, &str)| {
        format!(".globl {name}\n.type {name},%function\nTHUMB\n{name}:\n{code}\n{end}\n.size {name},.-{name}\n")
    };
    functions.map(function).concat()
}

fn for_target(text: &str, target: &str) -> String {
    let words = ["THUMB", "RETURN", "REGISTERS", "EPILOGUE", "STORE", "COMPARE\nbeq 1f", "b other"];
    let of_target = match target {
        name if name.starts_with("thumb") => [
            ".syntax unified\n.thumb_func",
            "bx lr",
            "movs r3,#0\nmovs r5,#0",
            "pop {r4,pc}",
            "str r0,[r3,#4]",
            "cmp r0,#0\nbeq 1f",
            "b other",
        ],
        "aarch64" => {
            ["", "ret", "mov x3,#0\nmov x20,#0", "ldp x29,x30,[sp],#16\nret", "str x0,[x3,#8]", "cbz x0,1f", "b other"]
        }
        _ => ["", "ret", "nop", "ret", "nop", "beqz a0,1f", "tail other"],
    };
    words.iter().zip(of_target).fold(text.to_owned(), |text, (word, by)| text.replace(word, by))
}

fn answer(file: &dyn Image) -> Result<u64, Decline> {
    let entry = file.find("entry").remove(0).address;
    let graph = Graph::explore(file, &[entry], &NeverReturns::default()).expect("code");
    bound(file, &graph, entry, &Facts::default()).map(|bound| bound.most)
}

#[test]
fn code_that_loses_its_way_back_is_declined() {
    for target in installed() {
        for (_, plain) in PLAIN.iter().filter(|(name, _)| target.name.starts_with(name)) {
            let file = target.assembled(&for_target(&text(plain), target.name));
            assert!(answer(&file).is_ok(), "{}: {plain}: {:?}", target.name, answer(&file));
        }
        for case in CASES.iter().filter(|case| target.name.starts_with(case.target)) {
            // Armv6-M has no other way to set the stack pointer; the rest is the same.
            let file = target.assembled(&for_target(&text(case.code), target.name));
            match answer(&file) {
                Err(Decline::Obstacle(obstacle, _)) if obstacle == case.obstacle => {}
                answer => panic!("{}: {}: {answer:?}", target.name, case.what),
            }
        }
    }
}

/// Data is not code, and neither is Thumb code that nothing marks.
#[test]
fn data_and_code_without_marks_are_not_read() {
    for target in installed().filter(|target| target.name.starts_with("thumb")) {
        let data = for_target(&text("b 1f\n.p2align 2\n1: .word 0x47704770"), target.name);
        match answer(&target.assembled(&data)) {
            Err(Decline::Obstacle(Obstacle::NoCode(_) | Obstacle::Undecodable, _)) => {}
            answer => panic!("{}: {answer:?}", target.name),
        }
        let stripped = target.linked(&for_target(&text("bx lr"), target.name), &["--strip-all"]);
        let refused = stripped.expect_err("a file without marks").to_string();
        assert!(refused.contains("mapping symbols"), "{refused}");
    }
}

/// Exceptions that a function may catch are known from the index of handlers.
#[test]
fn handlers_on_arm_are_unknown() {
    let code = "push {r4,lr}\nbl other\npop {r4,pc}";
    for target in installed().filter(|target| target.name.starts_with("thumb")) {
        let plain = for_target(&text(code), target.name);
        let caught = plain.replacen("entry:\n", "entry:\n.fnstart\n.save {r4,lr}\n.personality other\n", 1).replacen(
            ".size entry",
            ".handlerdata\n.word 0\n.fnend\n.size entry",
            1,
        );
        assert!(answer(&target.assembled(&plain)).is_ok());
        match answer(&target.assembled(&caught)) {
            Err(Decline::Obstacle(Obstacle::UnknownHandlers, _)) => {}
            answer => panic!("{}: {answer:?}", target.name),
        }
    }
}
