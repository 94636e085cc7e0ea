//! Builds the trace recorder, and lists the shipped traces, so that the laboratory can carry both inside itself.
//!
//! `rtalloc record` preloads a shared library into the program it records. Cargo cannot hand one package's cdylib to
//! another, so the compiler is called here on the sources of `rtalloc-preload` directly; they need nothing but the compiler. The
//! result, some ten kilobytes in `OUT_DIR`, is embedded with `include_bytes!`: the one file `rtalloc` is all a user copies.

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
    let sources = Path::new("../rtalloc-preload/src");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed={}", sources.display());
    let library = PathBuf::from(variable("OUT_DIR")?).join("librtalloc_record.so");

    println!("cargo:rustc-env=RTALLOC_RUSTC_VERSION={}", compiler_version()?);
    list_traces(Path::new("../../traces"))?;

    let mut compiler = Command::new(variable("RUSTC")?);
    compiler.arg(sources.join("lib.rs")).arg("-o").arg(&library).arg("--target").arg(variable("TARGET")?).args([
        "--crate-name=rtalloc_record",
        "--crate-type=cdylib",
        "--edition=2024",
        "-Copt-level=3",
        "-Cstrip=symbols",
        // Without unwinding and without what is not called, nothing of a Rust runtime is left in the library.
        "-Cpanic=abort",
        "-Clto=fat",
        // A symbol that only turns out to be missing when a program loads the library is found here instead.
        "-Clink-arg=-Wl,--no-undefined",
    ]);
    if let Some(linker) = env::var_os("RUSTC_LINKER") {
        let mut argument = OsString::from("-Clinker=");
        argument.push(linker);
        compiler.arg(argument);
    }
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
