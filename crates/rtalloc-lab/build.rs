//! Builds the trace recorder, lists the shipped traces, and lists the loop bounds in the library's source, so that
//! the laboratory can carry all of it inside itself.
//!
//! `rtalloc record` preloads a shared library into the program it records. Cargo cannot hand one package's cdylib to
//! another, so the compiler is called here on the sources of `rtalloc-sys` and `rtalloc-preload` directly; they need
//! nothing but the compiler. The result, some ten kilobytes in `OUT_DIR`, is embedded with `include_bytes!`: the one
//! file `rtalloc` is all a user copies.

#[path = "build/loop_markers.rs"]
mod loop_markers;

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo:error={message}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build");
    let out = PathBuf::from(variable("OUT_DIR")?);
    let shared = out.join("librtalloc_sys.rlib");

    println!("cargo:rustc-env=LAB_RUSTC_VERSION={}", compiler_version()?);
    list_traces(Path::new("../../traces"))?;
    list_loop_markers(Path::new("../rtalloc/src"))?;

    let mut compiler = compiler_of("../rtalloc-sys/src", &shared)?;
    run(compiler.args(["--crate-name=rtalloc_sys", "--crate-type=rlib"]))?;
    let mut compiler = compiler_of("../rtalloc-preload/src", &out.join("librtalloc_record.so"))?;
    compiler.arg("--extern").arg(format!("rtalloc_sys={}", shared.display())).args([
        "--crate-name=rtalloc_record",
        "--crate-type=cdylib",
        "-Cstrip=symbols",
        "-Clto=fat",
        // A missing symbol is an error here, and not only when a program loads the library.
        "-Clink-arg=-Wl,--no-undefined",
    ]);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut argument = OsString::from("-Clinker=");
        argument.push(linker);
        compiler.arg(argument);
    }
    run(&mut compiler)
}

/// The compiler, to compile the crate in `sources` into the file `output`. Without unwinding, and with fat link-time
/// optimisation, no Rust runtime remains in the recorder.
fn compiler_of(sources: &str, output: &Path) -> Result<Command, String> {
    println!("cargo:rerun-if-changed={sources}");
    let mut compiler = Command::new(variable("RUSTC")?);
    compiler.arg(Path::new(sources).join("lib.rs")).arg("-o").arg(output).arg("--target").arg(variable("TARGET")?);
    compiler.args(["--edition=2024", "-Copt-level=3", "-Cpanic=abort"]);
    Ok(compiler)
}

/// Runs the compiler.
fn run(compiler: &mut Command) -> Result<(), String> {
    let status = compiler.status().map_err(|error| format!("cannot run the compiler {compiler:?}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("the trace recorder does not build: {compiler:?} ended with {status}"))
    }
}

/// Writes `shipped.rs`: the table of all `folder/*.rtrace`, each with its content, in the order of their names.
fn list_traces(folder: &Path) -> Result<(), String> {
    println!("cargo:rerun-if-changed={}", folder.display());
    let unreadable = |error| format!("cannot read {}: {error}", folder.display());
    let mut traces = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "rtrace") {
            traces.push(path.canonicalize().map_err(unreadable)?);
        }
    }
    traces.sort();
    let mut table =
        String::from("/// Name and content of every shipped trace, by name.\nstatic TRACES: &[(&str, &[u8])] = &[\n");
    for path in traces {
        let name = path.file_name().unwrap_or_default().display().to_string();
        table.push_str(&format!("    ({name:?}, include_bytes!({:?})),\n", path.display().to_string()));
    }
    table.push_str("];\n");
    let target = PathBuf::from(variable("OUT_DIR")?).join("shipped.rs");
    std::fs::write(&target, table).map_err(|error| format!("cannot write {}: {error}", target.display()))
}

/// Writes `loop_markers.rs`: the table of the loops that the library's source marks with `loop_bound!`.
fn list_loop_markers(folder: &Path) -> Result<(), String> {
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut table = String::from("/// The marked loops of the library.\nstatic MARKERS: &[Marker] = &[\n");
    for path in rust_files(folder)? {
        let text =
            std::fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let loops = loop_markers::marked_loops(&text).map_err(|error| {
            let at = error.span().start();
            format!("{}:{}:{}: {error}", path.display(), at.line, at.column + 1)
        })?;
        let file = Path::new("rtalloc/src").join(path.strip_prefix(folder).unwrap_or(&path)).display().to_string();
        for one in loops {
            table.push_str(&format!(
                "    Marker {{ file: {file:?}, first_line: {}, last_line: {}, bound: {} }},\n",
                one.first_line, one.last_line, one.bound
            ));
        }
    }
    table.push_str("];\n");
    let target = PathBuf::from(variable("OUT_DIR")?).join("loop_markers.rs");
    std::fs::write(&target, table).map_err(|error| format!("cannot write {}: {error}", target.display()))
}

/// Every file of Rust in a folder and those within, by name.
fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error| format!("cannot read {}: {error}", folder.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.is_dir() {
            files.extend(rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// The compiler as it names itself, for the results measured with what it builds.
fn compiler_version() -> Result<String, String> {
    let compiler = variable("RUSTC")?;
    let output = Command::new(&compiler)
        .arg("--version")
        .output()
        .map_err(|error| format!("cannot run the compiler {}: {error}", compiler.display()))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// A variable that cargo sets for every build script.
fn variable(name: &str) -> Result<OsString, String> {
    env::var_os(name).ok_or_else(|| format!("{name} is not set; build with cargo"))
}
