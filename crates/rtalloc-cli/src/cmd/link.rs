//! Links archives and object files, because code has its final addresses only in a linked file; and builds the allocators
//! for another processor.

use anyhow::Context as _;
use object::{Object as _, ObjectSymbol as _};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A linked file. It is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Linked {
    /// The file.
    pub program: PathBuf,
    /// Those of the functions that it does not have.
    pub missing: Vec<String>,
    /// Weak functions in it, which a program may replace.
    pub weak: Vec<String>,
    _folder: TempDir,
}

/// Whether a file is an archive or an object file. Others, which may be devices without an end, are not read.
pub(super) fn is_unlinked(path: &Path) -> bool {
    if !path.is_file() {
        return false;
    }
    let Ok(bytes) = std::fs::read(path) else { return false };
    let is_object = object::File::parse(&*bytes).is_ok_and(|file| file.kind() == object::ObjectKind::Relocatable);
    bytes.starts_with(b"!<arch>\n") || bytes.starts_with(b"!<thin>\n") || is_object
}

/// Links functions of an archive or object file, and everything that they call.
///
/// # Errors
///
/// If there is no linker, or if something that the functions call is missing.
pub(super) fn link(library: &Path, functions: &[String]) -> anyhow::Result<Linked> {
    let folder = tempfile::tempdir().context("a folder for the linked file")?;
    let program = folder.path().join("linked");
    refuse_bitcode(library)?;
    // A path that the linker does not take for an option or a file of options.
    let library = &library.canonicalize().with_context(|| library.display().to_string())?;
    let mut command = linker()?;
    // A program with distant code keeps instructions that relaxation removes.
    command.args(["--gc-sections", "--no-export-dynamic", "--no-relax", "-static"]);
    command.arg(format!("--entry={}", functions.first().map_or("0", |name| name)));
    command.args(functions.iter().map(|name| format!("--undefined={name}"))).arg("-o").arg(&program).arg(library);
    let output = command.output().with_context(|| format!("cannot run the linker {:?}", command.get_program()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(
        output.status.success(),
        "{} cannot be linked alone; link your program, and pass it to --binary:\n{}",
        library.display(),
        said.trim_end()
    );
    let bytes = std::fs::read(&program).context("the linked file")?;
    let linked = object::File::parse(&*bytes).context("the linked file")?;
    let functions_of = || linked.symbols().filter(|one| one.is_definition() && one.kind() != object::SymbolKind::Data);
    let is_defined = |name: &str| functions_of().any(|symbol| symbol.name() == Ok(name));
    let missing: Vec<String> = functions.iter().filter(|name| !is_defined(name)).cloned().collect();
    // A call of a weak function that is defined nowhere is linked as if it did nothing.
    let undefined: Vec<&str> = linked
        .symbols()
        .filter(|symbol| symbol.is_undefined() && symbol.is_weak())
        .filter_map(|symbol| symbol.name().ok())
        .collect();
    anyhow::ensure!(
        undefined.is_empty(),
        "{} refers to weak functions that it does not define, and that your program may define: {}. Link your program, \
         and pass it to --binary",
        library.display(),
        undefined.join(", ")
    );
    let weak = functions_of().filter(|symbol| symbol.is_weak()).filter_map(|symbol| symbol.name().ok());
    let weak = weak.map(str::to_owned).collect();
    Ok(Linked { program, missing, weak, _folder: folder })
}

/// Bitcode is no machine code yet: the linker would compile it, and not as the user's build does.
fn refuse_bitcode(library: &Path) -> anyhow::Result<()> {
    let bytes = std::fs::read(library).with_context(|| format!("cannot read {}", library.display()))?;
    let is_bitcode =
        |bytes: &[u8]| bytes.starts_with(b"BC\xC0\xDE") || bytes.starts_with(&0x0B17_C0DE_u32.to_le_bytes());
    let Ok(archive) = object::read::archive::ArchiveFile::parse(&*bytes) else { return Ok(()) };
    anyhow::ensure!(archive.members().next().is_some(), "{} is an archive without object files", library.display());
    let folder = library.parent().unwrap_or(Path::new(""));
    for member in archive.members() {
        let member = member.with_context(|| format!("{} is damaged", library.display()))?;
        let name = String::from_utf8_lossy(member.name()).into_owned();
        let is_compiled = if archive.is_thin() {
            !std::fs::read(folder.join(&name)).is_ok_and(|bytes| is_bitcode(&bytes))
        } else {
            !member.data(&*bytes).is_ok_and(is_bitcode)
        };
        anyhow::ensure!(
            is_compiled,
            "{} has no machine code for {name}, but bitcode for link-time optimisation: compile without it, or link your \
             program, and pass it to --binary",
            library.display()
        );
    }
    Ok(())
}

/// The linker that comes with Rust: it links for every processor.
fn linker() -> anyhow::Result<Command> {
    let path = of_rust().context(
        "a static library or object file must be linked first, by rust-lld, which comes with Rust from rustup and is not \
         on this machine: install it, or link your program, and pass it to --binary",
    )?;
    let mut command = Command::new(path);
    command.args(["-flavor", "gnu"]);
    Ok(command)
}

fn of_rust() -> Option<PathBuf> {
    let sysroot = said(Command::new("rustc").args(["--print", "sysroot"]))?;
    let hosts = std::fs::read_dir(Path::new(&sysroot).join("lib/rustlib")).ok()?;
    hosts.filter_map(|host| Some(host.ok()?.path().join("bin/rust-lld"))).find(|path| path.exists())
}

/// What a command prints; `None` if it fails.
fn said(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The allocators behind C functions without std, from which ci/targets.sh makes the committed bounds too.
const PROBE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ci/no_std");

/// Builds the allocators for a Rust target with the toolchain of this machine: the archive, and the compiler. `announce`
/// is called before the build, which takes half a minute.
///
/// # Errors
///
/// What is missing.
pub(super) fn allocators_for(target: &str, announce: &dyn Fn()) -> Result<(PathBuf, String), String> {
    let rustc = said(Command::new("rustc").arg("--version")).ok_or("there is no rustc on this machine")?;
    let sysroot = said(Command::new("rustc").args(["--print", "sysroot"])).unwrap_or_default();
    let is_name = target.chars().all(|one| one.is_ascii_alphanumeric() || "-_.".contains(one)) && target.contains('-');
    if !is_name || !Path::new(&sysroot).join("lib/rustlib").join(target).is_dir() {
        return Err(format!("{rustc} has no target {target} (rustup target add {target})"));
    }
    let manifest = Path::new(PROBE).join("Cargo.toml");
    if !manifest.exists() {
        return Err("the source that this rtalloc was built from is not there any more".into());
    }
    announce();
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or(Path::new(PROBE).join("../../target"), PathBuf::from);
    let flags = format!("{} -C debuginfo=line-tables-only", std::env::var("RUSTFLAGS").unwrap_or_default());
    // Builds of another compiler or with other flags are elsewhere, so that they may run at the same time.
    let mut hasher = DefaultHasher::new();
    (&rustc, &flags).hash(&mut hasher);
    let folder = folder.join("targets").join(format!("{target}-{:x}", hasher.finish()));
    let mut command = Command::new("cargo");
    command.args(["build", "--quiet", "--release", "--target", target, "--manifest-path"]).arg(manifest);
    command.arg("--target-dir").arg(&folder).env("RUSTFLAGS", flags.trim_start());
    let output = command.output().map_err(|error| format!("cargo cannot be run: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("building the allocators for {target} failed:\n{}", said.trim_end()));
    }
    Ok((folder.join(target).join("release/libno_std_proof.a"), rustc))
}
