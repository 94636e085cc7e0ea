//! Tests images on programs of known content, which the C compiler and assembler build for this purpose.

use pathbound::image::{ElfFile, Image, ImageError, Pointer, Source, Symbol};
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Every way to jump through a pointer, and a function of known bytes.
const ASSEMBLY: &str = r#"
    .text
    .globl known, via_constant, via_variable, via_external, via_own, via_hidden, via_table
    .type known, @function
known:
    lea 1(%rdi), %rax
    ret
    .size known, . - known
    .globl twin_of_known
    .set twin_of_known, known

    .hidden hidden
    .globl hidden
    .type hidden, @function
hidden:
    ret
    .size hidden, . - hidden

    .type via_constant, @function
via_constant:
    jmp *constant(%rip)
    .size via_constant, . - via_constant
    .type via_variable, @function
via_variable:
    jmp *variable(%rip)
    .size via_variable, . - via_variable
    .type via_hidden, @function
via_hidden:
    jmp *constant_hidden(%rip)
    .size via_hidden, . - via_hidden
    .type via_external, @function
via_external:
    jmp *getpid@GOTPCREL(%rip)
    .size via_external, . - via_external
    .type via_own, @function
via_own:
    mov known@GOTPCREL(%rip), %rax
    jmp *%rax
    .size via_own, . - via_own
    .type via_table, @function
via_table:
    jmp known@PLT
    .size via_table, . - via_table
    .type via_table_outside, @function
via_table_outside:
    jmp getppid@PLT
    .size via_table_outside, . - via_table_outside

    .globl unsized
unsized:
    nop
label_in_unsized:
    nop
    ret

    .section .data.rel.ro, "aw"
    .balign 8
constant:
    .quad known
constant_hidden:
    .quad hidden
    .data
    .balign 8
variable:
    .quad known
    .section .note.GNU-stack, "", @progbits
"#;

const MAIN: &str = "
static inline __attribute__((always_inline)) int inner(int x) {
    return x / 7;
}
__attribute__((noinline)) int outer(int x) {
    return inner(x) + 1;
}
int known(int);
int main(int argc, char **argv) {
    return outer(argc) + known(argc);
}
";

/// A folder with the sources and the files built from them.
struct Made {
    folder: tempfile::TempDir,
}

impl Made {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("pointers.s"), ASSEMBLY).expect("a source file");
        std::fs::write(folder.path().join("main.c"), MAIN).expect("a source file");
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), text).expect("a file");
    }

    /// Runs the compiler in the folder; its output is `out`.
    fn link(&self, out: &str, arguments: &[&str]) -> PathBuf {
        let run = Command::new("cc").current_dir(&self.folder).args(["-o", out]).args(arguments).output();
        let run = run.expect("a C compiler");
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        self.path(out)
    }

    fn open(&self, out: &str, arguments: &[&str]) -> ElfFile {
        ElfFile::open(&self.link(out, arguments)).expect("an image")
    }

    fn library(&self, arguments: &[&str]) -> ElfFile {
        self.open("lib.so", &[&["-shared", "pointers.s"], arguments].concat())
    }
}

fn only(image: &dyn Image, name: &str) -> Symbol {
    let mut found = image.find(name);
    assert_eq!(found.len(), 1, "{name}: {found:?}");
    found.remove(0)
}

/// The pointer that the first instruction of a function, a jump or load relative to the instruction pointer, reads.
fn slot(image: &dyn Image, function: &str) -> u64 {
    let address = only(image, function).address;
    slot_at(image, address)
}

fn slot_at(image: &dyn Image, address: u64) -> u64 {
    let code = image.code(address).expect("code");
    let length = match code {
        [0xff, 0x25, ..] => 6,
        [0x48, 0x8b, 0x05, ..] => 7,
        _ => panic!("no access to a pointer: {:x?}", &code[..8]),
    };
    let distance = i32::from_le_bytes(*code[length - 4..].first_chunk().expect("a distance"));
    address.wrapping_add(length as u64).wrapping_add_signed(distance.into())
}

fn address_of(image: &dyn Image, name: &str) -> Option<Pointer> {
    Some(Pointer::Address(only(image, name).address))
}

fn external(name: &str) -> Option<Pointer> {
    Some(Pointer::External(name.to_owned()))
}

#[test]
fn code_is_the_assembler_s_output_up_to_the_end_of_its_section() {
    let made = Made::new();
    for kind in ["-pie", "-no-pie"] {
        let image = made.open("program", &[kind, "main.c", "pointers.s"]);
        let known = only(&image, "known");
        assert_eq!(known.size, 5);
        let code = image.code(known.address).expect("code");
        assert!(code.starts_with(&[0x48, 0x8d, 0x47, 0x01, 0xc3]));
        assert_eq!(image.code(slot(&image, "via_variable")), None);
        assert_eq!(image.code(0), None);
        assert_eq!(image.code(u64::MAX), None);
    }
    // A file whose only code is the assembler's, so that nothing follows it.
    let image = made.library(&["-nostdlib"]);
    let end = only(&image, "unsized").address + 3;
    assert_eq!(image.code(end - 3), Some([0x90, 0x90, 0xc3].as_slice()));
    assert_eq!(image.code(end), None);
}

#[test]
fn code_without_sections_is_found_in_segments() {
    let made = Made::new();
    let with = made.library(&["-nostdlib"]);
    let known = only(&with, "known").address;
    let mut bytes = std::fs::read(made.path("lib.so")).expect("the library");
    // No section headers: their offset, number and names are zero.
    bytes[40..48].fill(0);
    bytes[60..64].fill(0);
    made.write("stripped.so", bytes);
    let without = ElfFile::open(&made.path("stripped.so")).expect("an image");
    assert!(without.code(known).expect("code").starts_with(&[0x48, 0x8d, 0x47, 0x01, 0xc3]));
    assert_eq!(without.symbol(known), None);
    assert_eq!(without.pointer(slot(&with, "via_external")), external("getpid"));
}

#[test]
fn pointers_of_a_program_are_its_own_functions_and_those_of_others() {
    let made = Made::new();
    let image = made.open("program", &["-pie", "main.c", "pointers.s", "-rdynamic", "-Wl,-z,now"]);
    assert_eq!(image.pointer(slot(&image, "via_constant")), address_of(&image, "known"));
    assert_eq!(image.pointer(slot(&image, "via_hidden")), address_of(&image, "hidden"));
    assert_eq!(image.pointer(slot(&image, "via_external")), external("getpid"));
    assert_eq!(image.pointer(slot(&image, "via_variable")), None);
    // Not a pointer, but the end of one and the beginning of the next.
    assert_eq!(image.pointer(slot(&image, "via_constant") + 4), None);
    assert_eq!(image.pointer(0), None);
    assert_eq!(image.pointer(u64::MAX), None);
}

#[test]
fn pointers_without_relocations_are_what_a_fixed_file_holds() {
    let made = Made::new();
    let readonly = ".text\n.globl via_readonly, readonly_number\nvia_readonly: jmp *readonly(%rip)\n\
                    via_number: jmp *number(%rip)\n.section .rodata\n.balign 8\nreadonly: .quad known\n\
                    number: .quad 12345\n.section .note.GNU-stack, \"\", @progbits\n";
    made.write("readonly.s", readonly);
    let image = made.open("program", &["-no-pie", "main.c", "pointers.s", "readonly.s"]);
    assert_eq!(image.pointer(slot(&image, "via_readonly")), address_of(&image, "known"));
    assert_eq!(image.pointer(slot(&image, "via_number")), None);
    assert_eq!(image.pointer(slot(&image, "via_external")), external("getpid"));
    assert_eq!(image.pointer(slot(&image, "via_variable")), None);
}

#[test]
fn a_library_s_function_may_be_interposed_unless_it_is_bound_to_its_own() {
    let made = Made::new();
    let open = made.library(&["-Wl,-z,now"]);
    assert_eq!(open.pointer(slot(&open, "via_own")), external("known"));
    assert_eq!(open.pointer(slot(&open, "via_constant")), external("known"));
    assert_eq!(open.pointer(slot(&open, "via_hidden")), address_of(&open, "hidden"));
    assert_eq!(open.pointer(slot(&open, "via_external")), external("getpid"));
    assert_eq!(open.pointer(slot(&open, "via_variable")), None);
    let bound = made.library(&["-Wl,-z,now", "-Wl,-Bsymbolic"]);
    assert_eq!(bound.pointer(slot(&bound, "via_constant")), address_of(&bound, "known"));
}

#[test]
fn stubs_of_the_linkage_table_have_constant_slots_and_names() {
    let made = Made::new();
    for binding in ["-Wl,-z,now", "-Wl,-z,lazy"] {
        let image = made.library(&[binding]);
        for (function, target) in [("via_table", "known"), ("via_table_outside", "getppid")] {
            let from = only(&image, function).address;
            let code = image.code(from).expect("code");
            assert_eq!(code[0], 0xe9);
            let distance = i32::from_le_bytes(*code[1..].first_chunk().expect("a distance"));
            let stub = from.wrapping_add(5).wrapping_add_signed(distance.into());
            assert_eq!(image.pointer(slot_at(&image, stub)), external(target), "{binding}");
            let symbol = image.symbol(stub + 1).expect("a symbol");
            assert_eq!((symbol.name, symbol.address), (format!("{target}@plt"), stub), "{binding}");
        }
    }
}

#[test]
fn packed_relative_relocations_are_relocations() {
    let made = Made::new();
    // More pointers than one bitmap of 63, with one left out.
    let table: String = (0..200).map(|n| if n == 130 { ".quad 0\n" } else { ".quad hidden\n" }).collect();
    made.write(
        "table.s",
        format!(
            ".text\n.globl via_packed\nvia_packed: jmp *table(%rip)\n.section .data.rel.ro, \"aw\"\n.balign 8\n\
             table: {table}\n.section .note.GNU-stack, \"\", @progbits\n"
        ),
    );
    let image = made.library(&["-nostdlib", "table.s", "-Wl,-z,pack-relative-relocs", "-Wl,-z,now"]);
    let table = slot(&image, "via_packed");
    let relr = Command::new("readelf").arg("-SW").arg(made.path("lib.so")).output().expect("readelf");
    assert!(String::from_utf8_lossy(&relr.stdout).contains("RELR"), "the linker packs");
    for number in 0..200 {
        let expected = if number == 130 { None } else { address_of(&image, "hidden") };
        assert_eq!(image.pointer(table + number * 8), expected, "{number}");
    }
    assert_eq!(image.pointer(slot(&image, "via_variable")), None);
}

#[test]
fn an_indirect_function_is_known_by_its_name_only() {
    let made = Made::new();
    made.write(
        "chosen.c",
        "static int one(int x) { return x; }
         static int (*choose(void))(int) { return one; }
         int chosen(int) __attribute__((ifunc(\"choose\")));
         int user(int x) { return chosen(x) + 1; }
         void _start(void) { user(1); for (;;); }",
    );
    let image = made.open("program", &["-static", "-no-pie", "-nostdlib", "-O1", "-fcf-protection=none", "chosen.c"]);
    let user = only(&image, "user");
    let code = image.code(user.address).expect("code");
    let call = code[..user.size as usize].iter().position(|byte| *byte == 0xe8).expect("a call");
    let distance = i32::from_le_bytes(*code[call + 1..].first_chunk().expect("a distance"));
    let stub = user.address.wrapping_add(call as u64 + 5).wrapping_add_signed(distance.into());
    assert_eq!(image.pointer(slot_at(&image, stub)), external("chosen"));
}

#[test]
fn symbols_cover_their_size_and_symbols_without_a_size_extend_to_the_next() {
    let made = Made::new();
    let image = made.library(&["-nostdlib"]);
    let known = only(&image, "known");
    // The shorter of two global names.
    assert_eq!(only(&image, "twin_of_known").address, known.address);
    for offset in 0..known.size {
        assert_eq!(image.symbol(known.address + offset).as_ref(), Some(&known));
    }
    assert_eq!(image.symbol(known.address + known.size).map(|symbol| symbol.name), Some("hidden".to_owned()));
    let unsized_ = only(&image, "unsized");
    assert_eq!(unsized_.size, 0);
    // A local label is not a function, but can be found by name.
    assert_eq!(image.symbol(unsized_.address + 1).as_ref(), Some(&unsized_));
    assert_eq!(only(&image, "label_in_unsized").address, unsized_.address + 1);
    assert_eq!(image.symbol(0), None);
    assert_eq!(image.symbol(u64::MAX), None);
    assert_eq!(image.find("no_such_function"), []);
}

#[test]
fn a_stripped_library_still_names_what_it_exports() {
    let made = Made::new();
    let image = made.library(&["-s"]);
    assert_eq!(only(&image, "known").size, 5);
    assert_eq!(image.find("hidden"), []);
}

#[test]
fn several_functions_of_one_name_are_all_found() {
    let made = Made::new();
    for file in ["a", "b"] {
        let text = format!("static __attribute__((noinline, used)) int same(int x) {{ return x; }}\nint {file}_only;");
        made.write(&format!("{file}.c"), text);
    }
    let image = made.open("lib.so", &["-shared", "-fPIC", "a.c", "b.c"]);
    let found = image.find("same");
    assert_eq!(found.len(), 2);
    assert!(found[0].address < found[1].address);
}

#[test]
fn mangled_names_are_found_in_every_form() {
    let made = Made::new();
    let rust = "_ZN5crate4half17h0123456789abcdefE";
    let other = "_ZN5crate4half17hfedcba9876543210E";
    let cpp = "_ZN2ns1fEi";
    let text: String = [rust, other, cpp]
        .iter()
        .map(|name| format!(".text\n.globl {name}\n.type {name}, @function\n{name}: ret\n.size {name}, 1\n"))
        .collect();
    made.write("mangled.s", text + ".section .note.GNU-stack, \"\", @progbits\n");
    let image = made.open("lib.so", &["-shared", "-nostdlib", "mangled.s"]);
    let symbol = only(&image, rust);
    assert_eq!((symbol.name.as_str(), symbol.linkage_name.as_str()), ("crate::half", rust));
    assert_eq!(only(&image, "crate::half::h0123456789abcdef"), symbol);
    assert_eq!(only(&image, "crate::half::hfedcba9876543210").linkage_name, other);
    assert_eq!(image.find("crate::half::h0000000000000000"), []);
    assert_eq!(image.find("crate::half").len(), 2);
    assert_eq!(only(&image, "ns::f(int)").linkage_name, cpp);
}

#[test]
fn lines_are_known_with_debug_information_and_the_innermost_is_first() {
    let made = Made::new();
    let path = made.link("program", &["-g", "-O1", "main.c", "pointers.s"]);
    let image = ElfFile::open(&path).expect("an image");
    let outer = only(&image, "outer");
    let sources: Vec<_> = (outer.address..outer.address + outer.size).map(|address| image.source(address)).collect();
    let inlined = sources.iter().find(|sources| sources.len() == 2).expect("an inlined function");
    let line_and_function = |n: usize| (inlined[n].line, inlined[n].function.as_deref());
    assert_eq!((line_and_function(0), line_and_function(1)), ((3, Some("inner")), (6, Some("outer"))));
    assert!(Path::new(&inlined[0].file).ends_with("main.c"), "{inlined:?}");
    let outermost = |sources: &Vec<Source>| sources.last().and_then(|source| source.function.clone());
    assert!(sources.iter().all(|sources| outermost(sources).as_deref() == Some("outer")), "{sources:?}");
    assert_eq!(image.source(0), []);
    let bare = made.open("bare", &["-O1", "main.c", "pointers.s", "-s"]);
    assert_eq!(bare.source(outer.address), []);
}

#[test]
fn compressed_debug_information_is_read() {
    let made = Made::new();
    let image = made.open("program", &["-g", "-gz=zlib", "main.c", "pointers.s"]);
    assert_eq!(image.source(only(&image, "outer").address)[0].line, 5);
}

#[test]
fn provenance_is_the_hash_of_the_file_and_its_compilers() {
    let made = Made::new();
    let path = made.link("program", &["main.c", "pointers.s"]);
    let image = ElfFile::open(&path).expect("an image");
    let provenance = image.provenance();
    assert_eq!(provenance.file, "program");
    let sum = Command::new("sha256sum").arg(&path).output().expect("sha256sum");
    assert_eq!(String::from_utf8_lossy(&sum.stdout).split(' ').next(), Some(provenance.sha256.as_str()));
    assert_eq!(provenance.compilers.len(), 1, "{:?}", provenance.compilers);
    assert!(!provenance.compilers[0].contains('\0') && !provenance.compilers[0].is_empty());
}

#[test]
fn other_files_are_refused_with_what_they_are() {
    let made = Made::new();
    made.link("object.o", &["-c", "pointers.s"]);
    made.write("empty", []);
    made.write("text", "hello");
    made.write("archive.a", "!<arch>\n");
    let library = std::fs::read(made.link("lib.so", &["-shared", "pointers.s"])).expect("the library");
    let changed = |changes: &[(usize, u8)]| {
        let mut bytes = library.clone();
        changes.iter().for_each(|(at, value)| bytes[*at] = *value);
        bytes
    };
    made.write("loongarch", changed(&[(18, 2), (19, 1)]));
    made.write("x86", changed(&[(4, 1), (18, 3)]));
    made.write("sparc", changed(&[(5, 2), (18, 0), (19, 43)]));
    made.write("core", changed(&[(16, 4)]));
    made.write("cut", &library[..library.len() / 2]);
    made.write("stub", &library[..40]);
    for (file, part) in [
        ("object.o", "link it first"),
        ("archive.a", "archive"),
        ("empty", "empty"),
        ("text", "not an ELF file"),
        ("loongarch", "LoongArch"),
        ("x86", "32-bit code for x86"),
        ("sparc", "big-endian code for 64-bit SPARC"),
        ("core", "core dump"),
        ("cut", "truncated"),
        ("stub", "truncated"),
        (".", "directory"),
    ] {
        match ElfFile::open(&made.path(file)) {
            Err(ImageError::Unsuitable { reason, .. }) => assert!(reason.contains(part), "{file}: {reason}"),
            other => panic!("{file}: {other:?}"),
        }
    }
    let missing = ElfFile::open(&made.path("missing"));
    assert!(matches!(missing, Err(ImageError::Unreadable { .. })), "{missing:?}");
}

/// Files to damage: with and without compressed sections, position-independent and not.
fn intact_files() -> &'static [Vec<u8>] {
    static FILES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    FILES.get_or_init(|| {
        let made = Made::new();
        let links: [&[&str]; 4] = [
            &["-g", "-O1", "main.c", "pointers.s"],
            &["-g", "-gdwarf-4", "-no-pie", "main.c", "pointers.s"],
            &["-g", "-gz=zlib", "-shared", "-fPIC", "main.c", "pointers.s"],
            &["-shared", "-nostdlib", "pointers.s", "-Wl,-z,pack-relative-relocs", "-Wl,-z,now"],
        ];
        links.iter().map(|link| std::fs::read(made.link("file", link)).expect("the file")).collect()
    })
}

/// Makes every query about some addresses.
fn query(image: &dyn Image, addresses: impl Iterator<Item = u64>) {
    for address in addresses {
        let code = image.code(address).map(<[u8]>::len);
        assert!(code != Some(0));
        image.pointer(address);
        image.source(address);
        if let Some(symbol) = image.symbol(address) {
            image.find(&symbol.name);
        }
    }
}

proptest! {
    #[test]
    fn damaged_files_never_cause_a_panic(
        file in 0_usize..4,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0_u8..16), 0..24),
        length in prop::option::weighted(0.2, any::<prop::sample::Index>()),
        addresses in prop::collection::vec(any::<u64>(), 4),
    ) {
        let mut bytes = intact_files()[file].clone();
        for (place, value, region) in changes {
            // Some of the damage hits the headers at the beginning and the end. With too much of it there, every file
            // would be refused at once.
            let place = match region {
                0 => place.index(1024),
                1 => bytes.len() - 1 - place.index(3000),
                _ => place.index(bytes.len()),
            };
            bytes[place] = value;
        }
        if let Some(length) = length {
            bytes.truncate(length.index(bytes.len()));
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("damaged");
        std::fs::write(&path, bytes).expect("a file");
        if let Ok(image) = ElfFile::open(&path) {
            prop_assert_eq!(image.provenance().sha256.len(), 64);
            query(&image, (0x1000..0x1400).step_by(13).chain((0x3d00..0x4100).step_by(8)).chain(addresses));
            query(&image, (0x40_1000..0x40_1400).step_by(13).chain((0x40_3d00..0x40_4100).step_by(8)));
        }
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod process {
    use super::{only, slot_at};
    use pathbound::image::{Image, Pointer, Process};
    use std::path::Path;

    #[unsafe(no_mangle)]
    #[inline(never)]
    extern "C" fn pathbound_test_function(x: u64) -> u64 {
        x.rotate_left(7) ^ 0x5a // The line that the test looks for.
    }

    /// The line above, from 1.
    fn line() -> u32 {
        let lines = include_str!("image.rs").lines();
        let found = lines.zip(1..).find(|(line, _)| line.trim_start().starts_with("x.rotate_left(7)"));
        found.expect("the line").1
    }

    std::arch::global_asm!(
        ".globl pathbound_test_via_memcpy",
        "pathbound_test_via_memcpy: jmp *memcpy@GOTPCREL(%rip)",
        ".globl pathbound_test_via_getpid",
        "pathbound_test_via_getpid: jmp *getpid@GOTPCREL(%rip)",
        options(att_syntax)
    );

    unsafe extern "C" {
        fn pathbound_test_via_memcpy();
        fn pathbound_test_via_getpid();
    }

    fn test_function() -> u64 {
        pathbound_test_function as *const () as u64
    }

    #[test]
    fn a_function_of_this_program_is_found_by_name_and_by_address() {
        let process = Process::current().expect("the process");
        let symbol = only(&process, "pathbound_test_function");
        assert_eq!(symbol.address, test_function());
        assert_eq!(process.symbol(symbol.address + 1).as_ref(), Some(&symbol));
        let (file, bias) = process.executable().expect("the program's file");
        let in_file = only(file, "pathbound_test_function").address;
        assert_eq!(in_file.wrapping_add(bias), symbol.address);
        let program = std::env::current_exe().expect("a path");
        assert_eq!(process.in_file(symbol.address), Some((program.as_path(), in_file)));
        let size = symbol.size as usize;
        let (memory, file) = (process.code(symbol.address), file.code(in_file));
        assert_eq!(memory.map(|code| &code[..size]), file.map(|code| &code[..size]));
    }

    #[test]
    fn a_function_of_this_program_has_its_lines() {
        let process = Process::current().expect("the process");
        let symbol = only(&process, "pathbound_test_function");
        let mut sources = (symbol.address..symbol.address + symbol.size).flat_map(|address| process.source(address));
        let expected = |line_of: u32, file: &str| line_of == line() && Path::new(file).ends_with("tests/image.rs");
        assert!(sources.any(|source| expected(source.line, &source.file)));
    }

    #[test]
    fn pointers_of_the_offset_table_hold_the_library_s_functions() {
        let process = Process::current().expect("the process");
        let in_libc = |via: u64| {
            let Some(Pointer::Address(address)) = process.pointer(slot_at(&process, via)) else { panic!("a pointer") };
            assert!(process.code(address).is_some());
            let (path, _) = process.in_file(address).expect("a file");
            assert!(path.to_string_lossy().contains("libc"), "{path:?}");
            assert_ne!(process.module(address), process.module(via));
            address
        };
        // Which of its copying functions the library uses depends on the processor.
        in_libc(pathbound_test_via_memcpy as *const () as u64);
        let getpid = in_libc(pathbound_test_via_getpid as *const () as u64);
        assert_eq!(only(&process, "getpid").address, getpid);
        let symbol = process.symbol(getpid).expect("a symbol");
        assert!(symbol.name.ends_with("getpid") && symbol.address == getpid, "{symbol:?}");
    }

    #[test]
    fn writable_memory_is_neither_constant_nor_code() {
        static mut VARIABLE: u64 = 1;
        let process = Process::current().expect("the process");
        let local = 7_u64;
        let boxed = Box::new(7_u64);
        for address in [&raw const VARIABLE as u64, &raw const local as u64, &raw const *boxed as u64, 0, u64::MAX] {
            assert_eq!(process.pointer(address), None, "{address:#x}");
            assert_eq!(process.code(address), None, "{address:#x}");
        }
    }

    #[test]
    fn a_module_holds_its_code_and_its_data_and_nothing_else() {
        static mut VARIABLE: u64 = 1;
        let process = Process::current().expect("the process");
        let module = process.module(test_function()).expect("a module");
        assert!(module.contains(&(&raw const VARIABLE as u64)));
        let local = 7_u64;
        assert_eq!(process.module(&raw const local as u64), None);
        let libc = process.module(only(&process, "getpid").address).expect("a module");
        assert!(libc.end <= module.start || module.end <= libc.start);
    }

    #[test]
    fn the_kernel_s_own_code_is_code_without_a_name() {
        // SAFETY: `getauxval` has no preconditions: it reads the auxiliary vector, which every process has.
        let vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
        if vdso == 0 {
            return;
        }
        let process = Process::current().expect("the process");
        assert!(process.code(vdso).is_some_and(|code| code.starts_with(b"\x7fELF")));
        assert!(process.module(vdso).is_some());
        assert_eq!(process.symbol(vdso), None);
        assert_eq!(process.in_file(vdso), None);
    }
}
