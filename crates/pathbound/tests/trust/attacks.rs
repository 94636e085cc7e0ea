//! Code that does not do what it seems to. Each function once had a bound below what it executes. It is built,
//! single-stepped, and must be declined for the given reason, or have a bound that holds.

use super::{Function, is_installed, witness};
use pathbound::certificate::{Address, Case, NeverReturning, Proof};
use pathbound::check::{check_proof, second_opinion};
use pathbound::graph::{NeverReturns, Obstacle};
use pathbound::{Assumption, Bound, Certificate, Decline, ElfFile, Facts, Graph, Image, bound, check};
use std::ffi::{CString, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A library made for an attack.
struct Attack {
    directory: tempfile::TempDir,
}

impl Attack {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory") }
    }

    /// Builds a library from a source text.
    fn built(compiler: &str, arguments: &[&str], source: &str, text: &str) -> Self {
        let attack = Self::new();
        std::fs::write(attack.directory.path().join(source), text).expect("written");
        // The blocks that Clang puts into their own sections, if it is asked to.
        std::fs::write(attack.directory.path().join("blocks.txt"), "!f\n!!0\n").expect("written");
        attack.run(compiler, &[&["-shared", "-fPIC", "-o", "library.so", source], arguments].concat());
        attack
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("library.so")
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let run = Command::new(program).current_dir(&self.directory).args(arguments).output();
        let run = run.unwrap_or_else(|error| panic!("these tests need {program}: {error}"));
        assert!(run.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&run.stderr));
    }

    /// Changes the file.
    fn edited(self, edit: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut bytes = std::fs::read(self.path()).expect("the library");
        edit(&mut bytes);
        std::fs::write(self.path(), bytes).expect("written");
        self
    }

    fn file(&self) -> ElfFile {
        ElfFile::open(&self.path()).expect("an ELF file")
    }

    fn address(&self, function: &str) -> u64 {
        self.file().find(function)[0].address
    }

    fn answer(&self, function: &str) -> Result<Bound, Decline> {
        answer(&self.file(), self.address(function))
    }

    /// Executes a function once for each argument. Returns the instructions of each call.
    fn executed(&self, function: &str, arguments: &[u64]) -> Vec<u64> {
        executed(&self.path(), function, arguments)
    }

    /// Asserts that the function is declined for the given reason, and that it executes more than its former bound.
    #[track_caller]
    fn declined(&self, function: &str, reason: &Obstacle, arguments: &[u64], once: u64) {
        self.declined_for(function, std::slice::from_ref(reason), arguments, once);
    }

    /// Like `declined`, for one of several reasons.
    #[track_caller]
    fn declined_for(&self, function: &str, reasons: &[Obstacle], arguments: &[u64], once: u64) {
        match self.answer(function) {
            Err(Decline::Obstacle(obstacle, _)) if reasons.contains(&obstacle) => {}
            other => panic!("{:?}", other.map(|bound| bound.most)),
        }
        let most = self.executed(function, arguments).into_iter().max();
        assert!(most > Some(once), "executed {most:?}");
    }

    /// Asserts that executions of the function are within its bound.
    #[track_caller]
    fn holds(&self, function: &str, arguments: &[u64]) -> u64 {
        let bound = self.answer(function).unwrap_or_else(|decline| panic!("{decline}"));
        for executed in self.executed(function, arguments) {
            assert!((bound.least..=bound.most).contains(&executed), "{executed}: {}", bound.most);
        }
        bound.most
    }
}

/// Bounds a function, checks the proof, and compares both decoders.
fn answer(file: &ElfFile, entry: u64) -> Result<Bound, Decline> {
    let graph = Graph::explore(file, &[entry], &NeverReturns::default()).expect("code");
    let bound = bound(file, &graph, entry, &Facts::default())?;
    second_opinion(&graph, file).unwrap_or_else(|disagreement| panic!("{disagreement}"));
    let certificate = Certificate::of(&bound, file.provenance());
    check(&certificate, file, file.provenance()).unwrap_or_else(|rejection| panic!("{rejection}"));
    Ok(bound)
}

fn executed(library: &Path, function: &str, arguments: &[u64]) -> Vec<u64> {
    let name = CString::new(library.to_str().expect("a path of text")).expect("no zero");
    // SAFETY: on loading, the libraries of these tests run only the compiler's own code and their constructors.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null(), "{}", library.display());
    let name = CString::new(function).expect("no zero");
    // SAFETY: the handle is from `dlopen` and not closed yet; the name is a C string.
    let function = unsafe { libc::dlsym(handle, name.as_ptr()) };
    assert!(!function.is_null());
    // SAFETY: all functions of these tests take a word and return one or nothing.
    let function = unsafe { std::mem::transmute::<*mut c_void, Function>(function) };
    let counts = witness::count(|| {
        for argument in arguments {
            // SAFETY: the function takes any word in `argument`, and ignores the other arguments.
            unsafe { witness::announced(function, [*argument, 0, 0]) };
        }
    });
    // SAFETY: the handle is from `dlopen`; another process executed the calls.
    unsafe { libc::dlclose(handle) };
    counts
}

/// Removes the section headers.
fn without_sections(bytes: &mut [u8]) {
    bytes[0x28..0x30].fill(0);
    bytes[0x3c..0x40].fill(0);
}

/// Assembly of a function, in Intel's syntax.
fn assembly(text: &str) -> String {
    format!(".intel_syntax noprefix\n.text\n{text}\n.section .note.GNU-stack, \"\", @progbits\n")
}

const FUNCTION: &str = ".globl f\n.type f, @function\nf:\n";

// Indirect functions.

#[test]
fn an_indirect_function_is_not_its_resolver() {
    let source = r#"
        static long chosen(long n) { volatile long sum = 0; for (long i = 0; i < 50; i++) sum += n; return sum; }
        static void *choose(void) { return chosen; }
        long f(long n) __attribute__((ifunc("choose")));
    "#;
    let attack = Attack::built("gcc", &["-O2"], "ifunc.c", source);
    attack.declined("f", &Obstacle::Chosen("f".to_owned()), &[3], 15);
    let Err(decline) = attack.answer("f") else { panic!("a bound") };
    assert!(decline.to_string().contains("chosen when the program starts"), "{decline}");
}

#[test]
fn a_function_of_the_mathematical_library_is_not_its_resolver() {
    let handle = {
        // SAFETY: on loading, the mathematical library runs only its own initialisation.
        unsafe { libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_NOW) }
    };
    assert!(!handle.is_null(), "these tests need glibc");
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the memory of this process");
    let path = maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("libm.so"));
    let path = Path::new(path.expect("it is loaded"));
    let file = ElfFile::open(path).expect("an ELF file");
    let sin = file.find("sin")[0].address;
    if file.chosen(sin).is_some() {
        match answer(&file, sin) {
            Err(Decline::Obstacle(Obstacle::Chosen(_), site)) => assert_eq!(site.address, sin),
            other => panic!("{:?}", other.map(|bound| bound.most)),
        }
    }
    assert!(executed(path, "sin", &[0])[0] > 0);
}

// Exceptions that are caught.

/// Throws above 3; the handler takes some time.
const CATCHES: &str = r#"
    extern "C" __attribute__((noinline)) void g(long n) { if (n > 3) throw (int)n; }
    extern "C" long f(long n) {
        try { g(n); } catch (int x) {
            long sum = 0;
            for (volatile int i = 0; i < 200; i++) sum += i;
            return sum;
        }
        return 1;
    }
"#;

const INPUTS: &[u64] = &[1, 5];

/// The reasons for declining such a function.
const CAUGHT: &[Obstacle] = &[Obstacle::CaughtException];

/// Clang ends the tables of a function in several sections at one place.
const CAUGHT_SOMEWHERE: &[Obstacle] = &[Obstacle::CaughtException, Obstacle::UnknownHandlers];

/// Libraries of C++ that catch, with tables in all forms of the installed compilers, and the reasons to decline them.
fn catching() -> Vec<(Attack, &'static [Obstacle])> {
    let hidden = ["-O2", "-fvisibility=hidden", "-Wl,-z,now", "-Wl,-Bsymbolic", "-fvisibility=default"];
    let shapes: [(&str, &[&str], &[Obstacle]); 8] = [
        ("g++", &[], CAUGHT),
        ("g++", &["-O0"], CAUGHT),
        ("g++", &["-Os"], CAUGHT),
        ("g++", &["-fno-asynchronous-unwind-tables"], CAUGHT),
        ("clang++", &["-fuse-ld=lld"], CAUGHT),
        ("clang++", &["-fuse-ld=lld", "-O0"], CAUGHT),
        ("clang++", &["-fuse-ld=lld", "-fbasic-block-sections=all"], CAUGHT_SOMEWHERE),
        ("clang++", &["-fuse-ld=lld", "-fbasic-block-sections=list=blocks.txt"], CAUGHT_SOMEWHERE),
    ];
    let there = shapes.into_iter().filter(|(compiler, ..)| is_installed(compiler));
    let built = |(compiler, more, reasons): (&str, &[&str], _)| {
        (Attack::built(compiler, &[&hidden, more].concat(), "catches.cpp", CATCHES), reasons)
    };
    there.map(built).collect()
}

#[test]
fn a_caught_exception_is_declined_for_every_form_of_tables() {
    for (attack, reasons) in catching() {
        attack.declined_for("f", reasons, INPUTS, 11);
    }
}

#[test]
fn tables_are_found_without_section_headers() {
    for (attack, _) in catching() {
        let entry = attack.address("f");
        let attack = attack.edited(|bytes| without_sections(bytes));
        let answer = answer(&attack.file(), entry).map(|bound| bound.most);
        assert!(
            matches!(&answer, Err(Decline::Obstacle(Obstacle::CaughtException | Obstacle::UnknownHandlers, _))),
            "{answer:?}"
        );
        assert!(attack.executed("f", INPUTS)[1] > 200);
    }
}

#[test]
fn tables_are_found_under_another_name() {
    for (attack, _) in catching() {
        attack.run("objcopy", &["--rename-section", ".eh_frame=.other", "library.so"]);
        attack.declined_for("f", CAUGHT_SOMEWHERE, INPUTS, 8);
    }
}

#[test]
fn instructions_that_throw_and_handlers_that_throw_are_declined() {
    // The load raises a signal, whose handler throws; the handler of that exception throws again, to the one around it.
    let source = r#"
        #include <signal.h>
        static volatile long sum;
        static void thrown(int) { throw 1; }
        extern "C" long f(long n) {
            long of = 0;
            try {
                try { of = *(volatile long *)n; } catch (int) { throw 'c'; }
            } catch (char) {
                for (int i = 0; i < 500; i++) sum = sum + i;
            }
            return of;
        }
        __attribute__((constructor)) static void prepare() {
            struct sigaction action = {};
            action.sa_handler = thrown;
            action.sa_flags = SA_NODEFER;
            sigaction(SIGSEGV, &action, nullptr);
        }
    "#;
    let attack = Attack::built("g++", &["-O2", "-fnon-call-exceptions"], "throws.cpp", source);
    attack.declined("f", &Obstacle::CaughtException, &[0], 6);
}

#[test]
fn tables_that_cannot_be_read_are_declined() {
    let attack = Attack::built("g++", &["-O2", "-Wl,-z,now", "-Wl,-Bsymbolic"], "catches.cpp", CATCHES);
    let original = std::fs::read(attack.path()).expect("the library");
    let entry = attack.address("f");
    // The call-site table begins like this: landing pad start omitted, types relative and indirect, sites as LEB128.
    let table = original.windows(2).position(|bytes| bytes == [0xff, 0x9b]).expect("a call-site table");
    assert!(matches!(original[table + 3], 1), "an encoding of call sites");
    // Encodings relative to text or data, or of no format, and call sites relative to themselves or beyond the file.
    let edits: [(usize, u8); 6] = [(0, 0x2b), (0, 0x3b), (0, 0x0f), (0, 0x8b), (3, 0x1b), (3, 0x05)];
    for (at, byte) in edits {
        let mut bytes = original.clone();
        bytes[table + at] = byte;
        std::fs::write(attack.path(), bytes).expect("written");
        let answer = answer(&attack.file(), entry).map(|bound| bound.most);
        assert!(
            matches!(answer, Err(Decline::Obstacle(Obstacle::UnknownHandlers | Obstacle::CaughtException, _))),
            "{at} {byte:#x}: {answer:?}"
        );
    }
    // An unwind table with an entry that leads out of it affects all code.
    let section = attack.directory.path().join("section");
    attack.run("objcopy", &["--dump-section", ".eh_frame=section", "library.so"]);
    let unwind = std::fs::read(section).expect("the unwind table");
    let start = original.windows(unwind.len()).position(|bytes| bytes == unwind).expect("it is in the file");
    let mut bytes = original.clone();
    bytes[start + 3] = 0x70;
    std::fs::write(attack.path(), bytes).expect("written");
    let answer = answer(&attack.file(), entry);
    assert!(matches!(answer, Err(Decline::Obstacle(Obstacle::UnknownHandlers, _))), "{answer:?}");
}

#[test]
fn an_unknown_personality_routine_is_declined() {
    let text = assembly(&format!(
        "{FUNCTION}.cfi_startproc\n.cfi_personality 0x9b, slot\nsub rsp, 8\ncall g\nadd rsp, 8\nret\n.cfi_endproc\n.size f, . - f\n\
         .type g, @function\ng: ret\n.size g, . - g\n\
         .globl mine\n.type mine, @function\nmine: mov eax, 8\nret\n.size mine, . - mine\n\
         .section .data.rel, \"aw\"\n.balign 8\nslot: .quad mine"
    ));
    let attack = Attack::built("gcc", &[], "personality.s", &text);
    let answer = attack.answer("f");
    assert!(matches!(answer, Err(Decline::Obstacle(Obstacle::UnknownHandlers, _))), "{answer:?}");
}

#[test]
fn handlers_of_another_function_are_not_obstacles() {
    let source = format!("{CATCHES} extern \"C\" long alone(long n) {{ g(2); return n + 1; }}");
    let arguments = ["-O2", "-fno-inline", "-Wl,-z,now", "-Wl,-Bsymbolic"];
    let attack = Attack::built("g++", &arguments, "catches.cpp", &source);
    attack.holds("alone", &[1, 2]);
}

// Functions with the name of one that never returns.

#[test]
fn a_function_that_leaves_by_a_computed_jump_may_return_whatever_its_name() {
    let source = r#"
        static volatile long sum;
        static void slow(const char *m) { for (int i = 0; i < 100; i++) sum += (long)m; }
        void (*volatile hook)(const char *) = slow;
        __attribute__((visibility("SEEN"), noinline)) void NAME(const char *m) { hook(m); }
        long f(long n) { if (n > 3) NAME("large"); return n; }
    "#;
    for name in ["__assert_fail", "__stack_chk_fail", "_Unwind_Resume", "_ZSt9terminatev"] {
        let built = |seen: &str| {
            let text = source.replace("NAME", name).replace("SEEN", seen);
            Attack::built("gcc", &["-O2", "-fno-builtin", "-Wl,-z,now"], "own.c", &text)
        };
        built("hidden").declined("f", &Obstacle::IndirectJump, &[1, 5], 6);
        // The same holds if other files may replace it.
        let answer = built("default").answer("f").map(|bound| bound.most);
        let external = Obstacle::ExternalCall(name.to_owned());
        assert!(matches!(&answer, Err(Decline::Obstacle(obstacle, _)) if *obstacle == external), "{name}: {answer:?}");
    }
}

#[test]
fn a_function_with_a_table_of_jumps_may_return_whatever_its_name() {
    let cases: String = (0..9).map(|n| format!("case {n}: sum += {}; break;\n", n * n + 7)).collect();
    let source = format!(
        "static volatile long sum;\n\
         __attribute__((visibility(\"hidden\"), noinline)) void quick_exit(int n) {{\n\
         switch (n) {{ {cases} }}\n for (int i = 0; i < 50; i++) sum += n; }}\n\
         long f(long n) {{ if (n > 3) quick_exit(n); return n; }}"
    );
    let attack = Attack::built("gcc", &["-O2", "-fno-builtin", "-fno-tree-switch-conversion"], "own.c", &source);
    match attack.answer("f") {
        Err(Decline::Obstacle(Obstacle::IndirectJump, _) | Decline::UnboundedLoops(..)) => {}
        other => panic!("{:?}", other.map(|bound| bound.most)),
    }
    assert!(attack.executed("f", &[5])[0] > 100);
}

#[test]
fn functions_that_call_each_other_are_examined_together() {
    // `exit` calls p and then q; q returns if p does, which is not yet known when p calls q.
    let text = assembly(&format!(
        "{FUNCTION}cmp rdi, 3\nja 1f\nret\n1: call exit\nret\n.size f, . - f\n\
         .type exit, @function\nexit: sub rsp, 8\ncall p\ncall q\nadd rsp, 8\nret\n.size exit, . - exit\n\
         .type p, @function\np: test rsi, rsi\njz 1f\nsub rsp, 8\nxor esi, esi\ncall q\nadd rsp, 8\n1: ret\n.size p, . - p\n\
         .type q, @function\nq: sub rsp, 8\nxor esi, esi\ncall p\nadd rsp, 8\nret\n.size q, . - q"
    ));
    let attack = Attack::built("gcc", &[], "own.s", &text);
    let answer = attack.answer("f").map(|bound| bound.most);
    assert!(matches!(answer, Err(Decline::Recursion(_))), "{answer:?}");
    assert!(attack.executed("f", &[5])[0] > 3);
}

#[test]
fn raising_an_exception_may_return() {
    let source = r#"
        #include <unwind.h>
        static volatile long sum;
        long f(long n) {
            static struct _Unwind_Exception exception;
            if (n > 3) {
                _Unwind_RaiseException(&exception);
                for (int i = 0; i < 50; i++) sum += n;
            }
            return n;
        }
    "#;
    let attack = Attack::built("gcc", &["-O2", "-Wl,-z,now"], "raises.c", source);
    attack.declined("f", &Obstacle::ExternalCall("_Unwind_RaiseException".to_owned()), &[1], 3);
}

// The stack pointer and return addresses.

#[test]
fn a_return_to_another_place_is_declined() {
    // `target` takes long. Every way to reach it finally returns to the caller of f.
    let target = ".type target, @function\ntarget: mov ecx, 100\n1: dec ecx\njnz 1b\nret\n.size target, . - target\n";
    let ways = [
        // To an address on another stack.
        "lea rax, [rip + target]\nlea rdi, [rsp - 24]\nmov [rdi], rax\npush rdi\npop rsp\nret",
        "lea rax, [rip + target]\nlea rdi, [rsp - 24]\nmov [rdi], rax\nxchg rdi, rsp\nret 16",
        "lea rax, [rip + target]\nmov [rsp - 8], rax\nlea rax, [rsp - 8]\nmov rsp, rax\nret",
        "lea rax, [rip + target]\npush rax\nret",
        "lea rax, [rip + target]\npush [rsp]\nmov [rsp + 8], rax\npop rdx\npush rdx\nxchg rdx, [rsp + 8]\nmov [rsp], rdx\nret",
        "lea rax, [rip + target]\nsub rsp, 8\npush rax\npop [rsp]\nret",
    ];
    for way in ways {
        let text = assembly(&format!("{FUNCTION}{way}\n.size f, . - f\n{target}"));
        let attack = Attack::built("gcc", &[], "returns.s", &text);
        let answer = attack.answer("f").map(|bound| bound.most);
        assert!(
            matches!(answer, Err(Decline::Obstacle(Obstacle::UnmatchedReturn | Obstacle::Elsewhere, _))),
            "{way}: {answer:?}"
        );
    }
    // The one that leaves the stack unchanged can be executed.
    let text = assembly(&format!("{FUNCTION}{}\n.size f, . - f\n{target}", ways[3]));
    let attack = Attack::built("gcc", &[], "returns.s", &text);
    attack.declined("f", &Obstacle::UnmatchedReturn, &[1], 3);
}

#[test]
fn a_pop_into_the_stack_pointer_is_declined() {
    // The address of a stack with the target, and then the caller's return address.
    let source = r#"
        static volatile long sum;
        __attribute__((noinline)) static void slow(void) { for (int i = 0; i < 300; i++) sum += i; }
        static void *stack[4];
        __attribute__((naked)) static void back(void) { __asm__("mov %r12, %rsp; pop %r12; ret"); }
        __attribute__((naked, noinline)) void pops(void *to) { __asm__("push %rdi; pop %rsp; ret"); }
        __attribute__((naked, noinline)) static void enter(void *to) {
            __asm__("push %r12; mov %rsp, %r12; call pops");
        }
        long f(long n) { stack[0] = slow; stack[1] = back; enter(stack); return n; }
    "#;
    let attack = Attack::built("gcc", &["-O2", "-mno-red-zone", "-Wl,-Bsymbolic"], "pops.c", source);
    let answer = attack.answer("pops").map(|bound| bound.most);
    assert!(matches!(answer, Err(Decline::Obstacle(Obstacle::UnmatchedReturn, _))), "{answer:?}");
    assert!(attack.executed("f", &[1])[0] > 1000);
}

#[test]
fn a_thunk_that_returns_through_an_overwritten_address_counts_as_returning() {
    // After the thunk's own call is a loop that captures speculation, so none of its own paths leads back to f.
    let source = "
        static void slow(void) { for (volatile int i = 0; i < 100; i++) {} }
        void (*volatile hook)(void) = slow;
        long f(long n) { if (n > 3) hook(); return n + 1; }
    ";
    let options: [(&str, &[&str]); 4] = [
        ("clang", &["-O2", "-mretpoline"]),
        ("gcc", &["-O2", "-mindirect-branch=thunk", "-fcf-protection=none"]),
        ("gcc", &["-O2", "-mindirect-branch=thunk-inline", "-fcf-protection=none"]),
        ("gcc", &["-O2", "-mfunction-return=thunk", "-fcf-protection=none"]),
    ];
    for (compiler, arguments) in options.into_iter().filter(|(compiler, _)| is_installed(compiler)) {
        let attack = Attack::built(compiler, arguments, "thunk.c", source);
        attack.declined_for("f", &[Obstacle::UnmatchedReturn, Obstacle::IndirectCall], &[1, 4], 20);
    }
}

#[test]
fn a_return_from_an_outer_function_is_detected() {
    // The code after `out` returns from f, which has no return of its own on that path.
    let ways = [
        "out: call 1f\n2: jmp 2b\n1: add rsp, 16\nret",
        "out: pop rdx\nlea rdx, [rip + slow]\njmp rdx",
        "out: lea rdx, [rip + slow]\nmov [rsp + 8], rdx\nadd rsp, 8\njmp [rsp]",
        "out: call 1f\n2: jmp 2b\n1: pop rdx\ncall 3f\n4: jmp 4b\n3: pop rdx\nmov rdx, [rsp]\nadd rsp, 8\njmp slow",
    ];
    for way in ways {
        let slow = "slow: mov ecx, 100\n1: dec ecx\njnz 1b\nret";
        let text = format!("{FUNCTION}cmp rdi, 3\nja 1f\nret\n1: call out\n2: jmp 2b\n.size f, . - f\n{way}\n{slow}\n");
        let attack = Attack::built("gcc", &[], "out.s", &assembly(&text));
        let answer = attack.answer("f").map(|bound| bound.most);
        assert!(
            matches!(answer, Err(Decline::Obstacle(Obstacle::UnmatchedReturn | Obstacle::IndirectJump, _))),
            "{way}: {answer:?}"
        );
        if !way.contains("[rsp + 8]") {
            assert!(attack.executed("f", &[4])[0] > 3, "{way}");
        }
    }
}

#[test]
fn an_overwritten_return_address_of_an_outer_function_is_detected() {
    // As in profilers: a return from f goes through `back`.
    let ways = [
        "hook: mov rax, [rsp + 16]\nmov [rip + saved], rax\nlea rax, [rip + back]\nmov [rsp + 16], rax\nret",
        "hook: sub rsp, 24\ncall deep\nadd rsp, 24\nret\n\
         deep: mov rax, [rsp + 48]\nmov [rip + saved], rax\nlea rax, [rip + back]\nmov [rsp + 48], rax\nret",
    ];
    for way in ways {
        let text = assembly(&format!(
            "{FUNCTION}sub rsp, 8\ncall hook\nadd rsp, 8\nmov eax, 1\nret\n.size f, . - f\n{way}\n\
             back: mov ecx, 100\n1: dec ecx\njnz 1b\njmp [rip + saved]\n.local saved\n.comm saved, 8, 8"
        ));
        let attack = Attack::built("gcc", &[], "out.s", &text);
        attack.declined("f", &Obstacle::UnmatchedReturn, &[1], 14);
    }
    // Writing to arguments on the stack, a callee's or the function's own, does not overwrite one.
    let text = assembly(&format!(
        "{FUNCTION}sub rsp, 16\nmov [rsp], rdi\ncall g\nadd rsp, 16\nret\n.size f, . - f\n\
         g: mov [rsp + 8], rdi\nmov [rsp + 16], rdi\nret"
    ));
    assert_eq!(Attack::built("gcc", &[], "arguments.s", &text).holds("f", &[1]), 8);
}

#[test]
fn a_jump_from_another_stack_is_detected() {
    // The frame pointer does not determine a stack pointer that was loaded: `slow` returns from f.
    let text = assembly(&format!(
        "{FUNCTION}cmp rdi, 3\nja 1f\nret\n1: call out\n2: jmp 2b\n.size f, . - f\n\
         out: push rbp\nmov rbp, rsp\nlea rax, [rsp + 16]\npush rax\nlea rdx, [rip + slow]\nmov rsp, [rsp]\njmp rdx\n\
         slow: mov rbp, [rbp]\nmov ecx, 100\n1: dec ecx\njnz 1b\nret"
    ));
    let attack = Attack::built("gcc", &[], "stack.s", &text);
    attack.declined("f", &Obstacle::IndirectJump, &[1, 5], 3);
}

#[test]
fn a_place_that_other_code_jumps_to_is_detected() {
    let source = r#"
        static void *place[5];
        static volatile long sum;
        static void out(void) { __builtin_longjmp(place, 1); }
        void (*volatile hook)(void) = out;
        long f(long n) {
            if (n <= 3) return n;
            if (!__builtin_setjmp(place)) { hook(); for (;;) {} }
            for (int i = 0; i < 100; i++) sum += i;
            return n;
        }
    "#;
    for (compiler, level) in [("gcc", "-O2"), ("gcc", "-O0"), ("clang", "-O2"), ("clang", "-O0")] {
        if is_installed(compiler) {
            let attack = Attack::built(compiler, &[level], "place.c", source);
            attack.declined("f", &Obstacle::TakenPlace, &[1, 5], 20);
        }
    }
}

#[test]
fn a_place_that_a_nested_function_jumps_to_is_detected() {
    // The label's address is not taken in f, but in the nested function whose address f passes on.
    let source = r#"
        static volatile long sum;
        static void call(void (*inner)(void)) { inner(); }
        void (*volatile hook)(void (*)(void)) = call;
        long f(long n) {
            __label__ out;
            void inner(void) { goto out; }
            if (n <= 3) return n;
            hook(inner);
            for (;;) {}
        out:
            for (int i = 0; i < 100; i++) sum += i;
            return n;
        }
    "#;
    let attack = Attack::built("gcc", &["-O2", "-Wl,-z,noexecstack"], "nested.c", source);
    let answer = attack.answer("f").map(|bound| bound.most);
    assert!(matches!(answer, Err(Decline::Obstacle(Obstacle::TakenPlace, _))), "{answer:?}");
}

#[test]
fn code_that_computes_its_own_address_is_not_declined() {
    let source = "long table[9]; long g(long n) { return n + 1; }\n\
                  long f(long n) { long (*volatile to)(long) = g; return n > 3 ? (long)to : table[n]; }";
    let attack = Attack::built("gcc", &["-O1", "-mcmodel=large", "-Wl,-Bsymbolic"], "large.c", source);
    attack.holds("f", &[1, 5]);
}

// Traps and other special instructions.

#[test]
fn a_trap_after_which_a_handler_continues_is_declined() {
    let source = r#"
        #define _GNU_SOURCE
        #include <signal.h>
        #include <ucontext.h>
        static volatile long sum;
        static void go_on(int signal, siginfo_t *info, void *context) {
            ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += BYTES;
        }
        long f(long n) {
            if (n > 3) { __asm__ volatile("TRAP"); for (int i = 0; i < 50; i++) sum += n; }
            return n;
        }
        __attribute__((constructor)) static void prepare(void) {
            struct sigaction action = { .sa_sigaction = go_on, .sa_flags = SA_SIGINFO };
            sigaction(SIGILL, &action, 0);
            sigaction(SIGSEGV, &action, 0);
        }
    "#;
    for (trap, bytes) in [("ud2", "2"), ("hlt", "1")] {
        let text = source.replace("TRAP", trap).replace("BYTES", bytes);
        let attack = Attack::built("gcc", &["-O2"], "traps.c", &text);
        attack.declined("f", &Obstacle::Trap, &[1, 5], 4);
    }
}

#[test]
fn special_instructions_are_declined_for_their_own_reasons() {
    let cases: &[(&str, Obstacle)] = &[
        // ENQCMD is newer than one of the decoders.
        ("f2 0f 38 f8 00", Obstacle::Disputed),
        // Prefixed near branches: je, jmp, call, ret.
        ("66 74 00", Obstacle::Elsewhere),
        ("66 e9 00 00 00 00", Obstacle::Elsewhere),
        ("66 e8 00 00 00 00", Obstacle::Elsewhere),
        ("66 c3", Obstacle::Elsewhere),
        // XBEGIN, XABORT, VMCALL, ENCLU, UIRET.
        ("c7 f8 00 00 00 00", Obstacle::Elsewhere),
        ("c6 f8 00", Obstacle::Elsewhere),
        ("0f 01 c1", Obstacle::Elsewhere),
        ("0f 01 d7", Obstacle::Elsewhere),
        ("f3 0f 01 ec", Obstacle::Elsewhere),
        // SYSCALL, SYSENTER, INT 0x80, INT3, INT1.
        ("0f 05", Obstacle::Kernel),
        ("0f 34", Obstacle::Kernel),
        ("cd 80", Obstacle::Kernel),
        ("cc", Obstacle::Kernel),
        ("f1", Obstacle::Kernel),
        ("f4", Obstacle::Trap),
        ("0f 0b", Obstacle::Trap),
    ];
    for (bytes, reason) in cases {
        let data = bytes.split(' ').map(|byte| format!("0x{byte}")).collect::<Vec<_>>().join(", ");
        let text = assembly(&format!("{FUNCTION}.byte {data}\nret\n.size f, . - f"));
        let attack = Attack::built("gcc", &[], "special.s", &text);
        match attack.answer("f") {
            Err(Decline::Obstacle(obstacle, _)) if obstacle == *reason => {}
            other => panic!("{bytes}: {:?}", other.map(|bound| bound.most)),
        }
    }
}

#[test]
fn a_wait_counts_as_one_instruction() {
    // TPAUSE, UMWAIT, PAUSE.
    for bytes in ["0x66, 0x0f, 0xae, 0xf1", "0xf2, 0x0f, 0xae, 0xf1", "0xf3, 0x90"] {
        let attack =
            Attack::built("gcc", &[], "waits.s", &assembly(&format!("{FUNCTION}.byte {bytes}\nret\n.size f, . - f")));
        assert_eq!(attack.answer("f").expect("a bound").most, 2, "{bytes}");
    }
}

#[test]
fn a_prefixed_branch_is_declined_on_every_processor() {
    // Intel and AMD processors would take the branch to different targets: the argument avoids it here. On AMD the
    // displacement has two bytes, and the other two are `add [rax], al`, which needs an address.
    let text = assembly(&format!(
        "{FUNCTION}lea rax, [rsp - 64]\ntest edi, edi\n.byte 0x66, 0x0f, 0x88, 4, 0, 0, 0\nmov eax, 1\nret\nmov ecx, 50\n1: dec ecx\njnz 1b\nret\n\
         .size f, . - f"
    ));
    let attack = Attack::built("gcc", &[], "prefixed.s", &text);
    attack.declined("f", &Obstacle::Elsewhere, &[1], 3);
}

// Linking and loading.

#[test]
fn a_library_that_can_be_run_is_not_a_program() {
    let source = r#"
        const char interpreter[] __attribute__((section(".interp"))) = "/lib64/ld-linux-x86-64.so.2";
        __attribute__((noinline)) long replaced(long n) { return n + 1; }
        long f(long n) { return replaced(n) + 1; }
    "#;
    let attack = Attack::built("gcc", &["-O2", "-fsemantic-interposition", "-Wl,-z,now"], "runs.c", source);
    let answer = attack.answer("f").map(|bound| bound.most);
    assert!(
        matches!(&answer, Err(Decline::Obstacle(Obstacle::ExternalCall(name), _)) if name == "replaced"),
        "{answer:?}"
    );
    // Functions that are bound within the library cannot be replaced.
    for more in ["-Wl,-Bsymbolic", "-fvisibility=protected", "-Wl,-Bsymbolic-functions"] {
        let arguments = ["-O2", "-fsemantic-interposition", "-Wl,-z,now", more];
        let attack = Attack::built("gcc", &arguments, "runs.c", source);
        attack.holds("f", &[1]);
    }
}

#[test]
fn segments_that_are_loaded_over_each_other_are_refused() {
    let text = assembly(&format!("{FUNCTION}mov eax, 1\nret\n.size f, . - f"));
    let attack = Attack::built("gcc", &[], "over.s", &text);
    assert_eq!(attack.holds("f", &[1]), 2);
    let attack = attack.edited(|bytes| {
        // The segment before the code segment grows over it.
        let word = |bytes: &[u8], at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("8 bytes"));
        let (headers, count) = (word(bytes, 32) as usize, usize::from(bytes[56]));
        let loads: Vec<usize> =
            (0..count).map(|number| headers + 56 * number).filter(|at| bytes[*at..at + 4] == [1, 0, 0, 0]).collect();
        let end = word(bytes, loads[1] + 16) + 16;
        bytes[loads[0] + 40..loads[0] + 48].copy_from_slice(&end.to_le_bytes());
    });
    let error = ElfFile::open(&attack.path()).expect_err("it is not known what is loaded").to_string();
    assert!(error.contains("loaded over each other"), "{error}");
}

#[test]
fn writable_code_is_unknown() {
    // The function overwrites the immediate with its loop count.
    let text = format!(
        ".intel_syntax noprefix\n.section .mixed, \"awx\", @progbits\n{FUNCTION}\
         mov dword ptr [rip + 1f + 1], 100\n1: mov ecx, 1\n2: jrcxz 3f\ndec ecx\njnz 2b\n3: ret\n.size f, . - f\n\
         .section .note.GNU-stack, \"\", @progbits\n"
    );
    let attack = Attack::built("gcc", &[], "writes.s", &text);
    let file = attack.file();
    match file.find("f").first() {
        None => {}
        Some(f) => assert!(Graph::explore(&file, &[f.address], &NeverReturns::default()).is_err()),
    }
    assert!(attack.executed("f", &[1])[0] > 100);
}

#[test]
fn code_that_the_dynamic_linker_writes_is_unknown() {
    let text = assembly(&format!(
        "{FUNCTION}movabs rax, offset target\nret\n.size f, . - f\n.globl target\n.type target, @function\ntarget: ret\n\
         .size target, . - target"
    ));
    let attack = Attack::built("gcc", &["-Wl,-z,notext"], "text.s", &text);
    let answer = attack.answer("f").map(|bound| bound.most);
    assert!(matches!(answer, Err(Decline::Obstacle(Obstacle::Undecodable, _))), "{answer:?}");
    assert_eq!(attack.executed("f", &[1]), [2]);
}

#[test]
fn a_name_with_several_versions_is_listed_with_them() {
    let source = r#"
        __asm__(".symver one, f@V1");
        __asm__(".symver two, f@@V2");
        long one(long n) { return n + 1; }
        long two(long n) { return n + 2; }
    "#;
    let attack = Attack::new();
    std::fs::write(attack.directory.path().join("versions.map"), "V1 {};\nV2 {} V1;\n").expect("written");
    std::fs::write(attack.directory.path().join("versions.c"), source).expect("written");
    attack
        .run("gcc", &["-shared", "-fPIC", "-Wl,--version-script=versions.map", "-s", "-o", "library.so", "versions.c"]);
    let file = attack.file();
    let versions: Vec<_> = file.find("f").iter().map(|function| file.versions(function)).collect();
    assert_eq!(versions, [["@V1"], ["@@V2"]]);
}

// Certificates.

#[test]
fn a_certificate_that_leaves_out_a_return_through_a_callee_is_rejected() {
    // The callee returns from f itself. Named `exit`, whose code does not seem to return, it is listed as never
    // returning; named `thunk`, only the endless loop after the call is listed as its successor.
    for name in ["exit", "thunk"] {
        let text = assembly(&format!(
            "{FUNCTION}cmp rdi, 3\nja 1f\nret\n1: call {name}\n2: jmp 2b\n.size f, . - f\n\
             .type {name}, @function\n{name}: call 1f\n2: jmp 2b\n1: add rsp, 16\nlea rax, [rip + slow]\njmp rax\n\
             .size {name}, . - {name}\n\
             .type slow, @function\nslow: mov ecx, 100\n1: dec ecx\njnz 1b\nret\n.size slow, . - slow"
        ));
        let attack = Attack::built("gcc", &[], "forged.s", &text);
        attack.declined("f", &Obstacle::IndirectJump, &[1, 5], 3);
        let file = attack.file();
        let f = attack.address("f");
        let [branch, returns, call, hangs] = [4, 6, 7, 12].map(|distance| Address(f + distance));
        let ends = NeverReturning {
            name: name.to_owned(),
            address: Some(Address(attack.address(name))),
            calls: [call].into(),
        };
        let never_returning = if name == "exit" { vec![ends] } else { Vec::new() };
        let case = Case {
            avoid: [].into(),
            multipliers: Vec::new(),
            no_return: if name == "exit" { [].into() } else { [hangs].into() },
            potentials: [(Address(f), 3), (branch, 2), (returns, 1), (call, 1)].into(),
        };
        let proof = Proof {
            entry: Address(f),
            function: Some("f".to_owned()),
            unit: pathbound::Unit::Instructions,
            most: 3,
            assumptions: Assumption::ALL.into(),
            loops: Vec::new(),
            conflicts: Vec::new(),
            never_returning,
            cases: vec![case],
        };
        // Only the user can state that this function of the file never returns.
        match check_proof(&proof, &file) {
            Ok(checked) => assert!(name == "exit" && !checked.facts.is_empty(), "{checked:?}"),
            Err(rejection) => assert_eq!(rejection.address, Some(call.0), "{rejection}"),
        }
    }
}

#[test]
fn the_name_of_an_own_function_proves_nothing() {
    // Whether or not other files replace it, it returns.
    let source = "volatile long sum; __attribute__((noinline)) void rust_panic(const char *m) { sum += (long)m; }\n\
                  long f(long n) { if (n > 3) rust_panic(\"large\"); return n; }";
    let attack =
        Attack::built("gcc", &["-O2", "-fno-builtin", "-fsemantic-interposition", "-Wl,-z,now"], "own.c", source);
    let file = attack.file();
    let f = attack.address("f");
    let mut stated = NeverReturns::default();
    stated.add(&file, "rust_panic").expect("one function");
    let graph = Graph::explore(&file, &[f], &stated).expect("code");
    let believed = bound(&file, &graph, f, &Facts::default()).expect("a bound by the user's word");
    let checked = check(&Certificate::of(&believed, file.provenance()), &file, file.provenance());
    assert!(checked.is_ok_and(|checked| !checked.facts.is_empty() && checked.never_returning.is_empty()));
    assert!(attack.executed("f", &[5])[0] > believed.most);
}
