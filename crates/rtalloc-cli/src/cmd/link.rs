//! Links archives and object files, because code has its final addresses only in a linked file; and builds the allocators
//! for another processor.

use anyhow::Context as _;
use object::{Object as _, ObjectSymbol as _};
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
    let mut command = linker()?;
    command.args(["--gc-sections", "--no-export-dynamic", "-static", "-e", functions.first().map_or("0", |name| name)]);
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
    let is_defined = |name: &str| linked.symbols().any(|symbol| symbol.is_definition() && symbol.name() == Ok(name));
    let missing: Vec<String> = functions.iter().filter(|name| !is_defined(name)).cloned().collect();
    // A call of a weak function that is defined nowhere is linked as if it did nothing.
    let weak: Vec<&str> = linked
        .symbols()
        .filter(|symbol| symbol.is_undefined() && symbol.is_weak())
        .filter_map(|symbol| symbol.name().ok())
        .collect();
    anyhow::ensure!(
        weak.is_empty(),
        "{} refers to weak functions that it does not define, and that your program may define: {}. Link your program, \
         and pass it to --binary",
        library.display(),
        weak.join(", ")
    );
    Ok(Linked { program, missing, _folder: folder })
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
    if !Path::new(&sysroot).join("lib/rustlib").join(target).is_dir() {
        return Err(format!("{rustc} has no target {target} (rustup target add {target})"));
    }
    let manifest = Path::new(PROBE).join("Cargo.toml");
    if !manifest.exists() {
        return Err("the source that this rtalloc was built from is not there any more".into());
    }
    announce();
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or(Path::new(PROBE).join("../../target"), PathBuf::from);
    let folder = folder.join("targets").join(target);
    let flags = format!("{} -C debuginfo=line-tables-only", std::env::var("RUSTFLAGS").unwrap_or_default());
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
