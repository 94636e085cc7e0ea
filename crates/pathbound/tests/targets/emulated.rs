//! Programs for other processors: compiled, linked, executed and traced.

use pathbound::arch::Arch;
use pathbound::image::ImageError;
use pathbound::{ElfFile, Image};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// A processor, and how to compile and run code for it.
pub struct Target {
    pub name: &'static str,
    arch: Arch,
    compiler: &'static [&'static str],
    emulator: &'static [&'static str],
    /// Ends the program, as the body of a C function.
    exit: &'static str,
}

impl Target {
    /// Opens a file, which must be for this target.
    fn open(&self, path: &Path) -> Result<ElfFile, ImageError> {
        let file = ElfFile::open(path);
        file.inspect(|file| assert_eq!(file.arch().name(), self.arch.name()))
    }

    /// Links a program of assembly, which is not executed.
    pub fn assembled(&self, text: &str) -> ElfFile {
        self.linked(text, &[]).expect("an ELF file")
    }

    /// As [`assembled`](Self::assembled), with more options for the linker.
    pub fn linked(&self, text: &str, options: &[&str]) -> Result<ElfFile, ImageError> {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("code.s"), text).expect("written");
        run(Command::new("clang").args(self.compiler).args(["-c", "code.s"]).current_dir(directory.path()));
        let mut linker = Command::new("ld.lld");
        linker.args(options).args(["-e", "entry", "code.o", "-o", "program"]);
        run(linker.current_dir(directory.path()));
        self.open(&directory.path().join("program"))
    }
}

const RISCV_EXIT: &str = "register long n __asm__(\"a7\") = 93, s __asm__(\"a0\") = 0; \
                          __asm__ volatile(\"ecall\" :: \"r\"(n), \"r\"(s));";

const ARM_EXIT: &str = "__asm__ volatile(\"movs r0, #0\\n movs r7, #1\\n svc #0\" ::: \"r0\");";

/// The processors. QEMU's user emulation has none of the M profile; those of the A profile execute the same code.
const TARGETS: [Target; 9] = [
    Target {
        name: "rv32imac",
        arch: Arch::RV32,
        compiler: &["--target=riscv32-unknown-elf", "-march=rv32imac", "-mabi=ilp32"],
        emulator: &["qemu-riscv32"],
        exit: RISCV_EXIT,
    },
    Target {
        name: "rv32im_zba_zbb_zbs",
        arch: Arch::RV32,
        compiler: &["--target=riscv32-unknown-elf", "-march=rv32im_zba_zbb_zbs", "-mabi=ilp32"],
        emulator: &["qemu-riscv32"],
        exit: RISCV_EXIT,
    },
    Target {
        name: "rv64imac",
        arch: Arch::RV64,
        compiler: &["--target=riscv64-unknown-elf", "-march=rv64imac", "-mabi=lp64", "-mcmodel=medany"],
        emulator: &["qemu-riscv64"],
        exit: RISCV_EXIT,
    },
    Target {
        name: "rv64imac_zba_zbb_zbs",
        arch: Arch::RV64,
        compiler: &["--target=riscv64-unknown-elf", "-march=rv64imac_zba_zbb_zbs", "-mabi=lp64", "-mcmodel=medany"],
        emulator: &["qemu-riscv64"],
        exit: RISCV_EXIT,
    },
    Target {
        name: "thumbv6m",
        arch: Arch::THUMB,
        compiler: &["--target=thumbv6m-none-eabi", "-mcpu=cortex-m0"],
        emulator: &["qemu-arm", "-cpu", "max"],
        exit: ARM_EXIT,
    },
    Target {
        name: "thumbv7m",
        arch: Arch::THUMB,
        compiler: &["--target=thumbv7m-none-eabi", "-mcpu=cortex-m3"],
        emulator: &["qemu-arm", "-cpu", "max"],
        exit: ARM_EXIT,
    },
    Target {
        name: "thumbv7em-hf",
        arch: Arch::THUMB,
        compiler: &["--target=thumbv7em-none-eabihf", "-mcpu=cortex-m4"],
        emulator: &["qemu-arm", "-cpu", "max"],
        exit: ARM_EXIT,
    },
    Target {
        name: "thumbv8m.main",
        arch: Arch::THUMB,
        compiler: &["--target=thumbv8m.main-none-eabi", "-mcpu=cortex-m33"],
        emulator: &["qemu-arm", "-cpu", "max"],
        exit: ARM_EXIT,
    },
    Target {
        name: "aarch64",
        arch: Arch::A64,
        compiler: &["--target=aarch64-none-elf"],
        emulator: &["qemu-aarch64"],
        exit: "__asm__ volatile(\"mov x0, #0\\n mov x8, #93\\n svc #0\" ::: \"x0\", \"x8\");",
    },
];

/// The targets whose compiler, linker and emulator are installed; the others are named. With `TESTS_NEED_EMULATORS`,
/// as in ci/test.sh, all must be.
pub fn installed() -> impl Iterator<Item = &'static Target> {
    let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    TARGETS.iter().filter(move |target| {
        let installed = ["clang", "ld.lld", target.emulator[0]].into_iter().all(has);
        if !installed {
            eprintln!("NOT RUN: {} needs clang, lld and {}", target.name, target.emulator[0]);
            assert!(std::env::var_os("TESTS_NEED_EMULATORS").is_none(), "they must be installed");
        }
        installed
    })
}

/// A call of a function with three words.
pub struct Call {
    pub function: &'static str,
    pub words: [u64; 3],
}

impl Call {
    /// Stands for the address of 200 words: 0, 10, 20 and so on.
    pub const KEYS: u64 = u64::MAX;
}

/// A program, and the calls it performed.
pub struct Program {
    pub file: ElfFile,
    /// For each call: the function, and the addresses of its instructions, callees included.
    calls: Vec<(&'static str, Vec<u64>)>,
}

impl Program {
    /// Builds a program of a C file and of calls, and runs it.
    pub fn new(target: &Target, level: &str, file: &str, text: &str, calls: &[Call]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let place = |name: &str| directory.path().join(name);
        std::fs::write(place(file), text).expect("written");
        std::fs::write(place("start.c"), start(target, calls)).expect("written");
        for (source, level) in [(file, level), ("start.c", "-O1")] {
            let mut compiler = Command::new("clang");
            compiler.args(target.compiler).args(["-ffreestanding", "-fno-builtin", "-g", level, "-c", source]);
            run(compiler.current_dir(directory.path()));
        }
        let object = format!("{}.o", file.trim_end_matches(".c"));
        run(Command::new("ld.lld").args([&object, "start.o", "-o", "program"]).current_dir(directory.path()));
        let mut emulator = Command::new(target.emulator[0]);
        // QEMU from 8.1 on calls this option -one-insn-per-tb, and still knows the old name.
        emulator.args(&target.emulator[1..]).args(["-singlestep", "-d", "exec,nochain", "-D", "log", "./program"]);
        run(emulator.current_dir(directory.path()));
        let file = target.open(&place("program")).expect("an ELF file");
        let calls = performed(&file, calls, &addresses(&place("log")));
        Self { file, calls }
    }

    /// The address of a function.
    pub fn entry(&self, function: &str) -> u64 {
        self.file.find(function).first().expect("the function").address
    }

    /// The executions of a function.
    pub fn traces(&self, function: &str) -> Vec<Vec<u64>> {
        self.calls.iter().filter(|(name, _)| *name == function).map(|(_, trace)| trace.clone()).collect()
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What the compiler calls for divisions on processors without them.
const DIVISION: &str = "
__attribute__((noinline)) unsigned long long __aeabi_uidivmod(unsigned dividend, unsigned divisor) {
    unsigned quotient = 0, rest = 0;
    for (int bit = 31; bit >= 0; bit--) {
        rest = rest << 1 | (dividend >> bit & 1);
        if (rest >= divisor) {
            rest -= divisor;
            quotient |= 1u << bit;
        }
    }
    return (unsigned long long)rest << 32 | quotient;
}
unsigned __aeabi_uidiv(unsigned dividend, unsigned divisor) {
    return (unsigned)__aeabi_uidivmod(dividend, divisor);
}
";

/// The program's start, which performs the calls.
fn start(target: &Target, calls: &[Call]) -> String {
    let mut text = format!("typedef unsigned long word;\nstatic word keys[200];\n{DIVISION}");
    let mut declared: Vec<&str> = Vec::new();
    for call in calls {
        if !declared.contains(&call.function) {
            declared.push(call.function);
            let _ = writeln!(text, "word {}();", call.function);
        }
    }
    text.push_str("void _start(void) {\n    for (word i = 0; i < 200; i++) keys[i] = 10 * i;\n");
    for Call { function, words } in calls {
        let word = |word: &u64| if *word == Call::KEYS { "(word)keys".to_owned() } else { format!("(word){word}") };
        let words: Vec<String> = words.iter().map(word).collect();
        let _ = writeln!(text, "    {function}({});", words.join(", "));
    }
    text + "    " + target.exit + "\n}\n"
}

/// The addresses of all executed instructions.
fn addresses(log: &Path) -> Vec<u64> {
    let log = std::fs::read_to_string(log).expect("the log");
    let address = |line: &str| {
        // Trace 0: 0x7f6e794000c0 [00000000/0001134c/00107600/00000201] _start
        let rest = line.strip_prefix("Trace ")?.split_once('[')?.1;
        u64::from_str_radix(rest.split('/').nth(1)?, 16).ok()
    };
    log.lines().map(|line| address(line).unwrap_or_else(|| panic!("{line}"))).collect()
}

/// The calls from the program's start, in order.
fn performed(file: &ElfFile, calls: &[Call], executed: &[u64]) -> Vec<(&'static str, Vec<u64>)> {
    let start = file.find("_start").remove(0);
    let outside = |address: &u64| !(start.address..start.address + start.size).contains(address);
    let traces: Vec<&[u64]> =
        executed.chunk_by(|one, other| outside(one) == outside(other)).filter(|chunk| outside(&chunk[0])).collect();
    assert_eq!(traces.len(), calls.len(), "the start of the program performs every call itself");
    let performed: Vec<_> = calls.iter().zip(traces).map(|(call, trace)| (call.function, trace.to_vec())).collect();
    for (function, trace) in &performed {
        assert_eq!(trace[0], file.find(function)[0].address);
    }
    performed
}
