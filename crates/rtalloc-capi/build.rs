//! Gives the shared library its name for the dynamic linker, and finds out whether this library is the one whose machine code was
//! looked at, so that it may tell the bounds that were proved.

use std::env;
use std::path::Path;
use std::process::Command;

#[path = "src/bound/x86_64.rs"]
#[allow(dead_code, reason = "the bounds are the library's concern")]
mod proved;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/bound/x86_64.rs");
    println!("cargo:rustc-check-cfg=cfg(is_as_proved)");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    if variable("CARGO_CFG_TARGET_OS") == "linux" {
        // What programs must be adapted to when it changes: the first number of the version; before 1.0, the first two.
        let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
        let abi = if major == "0" { format!("0.{minor}") } else { major.to_string() };
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librtalloc.so.{abi}");
    }

    // The same target, profile, compiler and options give the same code; ci/capi_bounds.sh sees to the sources.
    for name in ["CARGO_INCREMENTAL", "CARGO_ENCODED_RUSTFLAGS"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let out = variable("OUT_DIR");
    let is_shipped = Path::new(&out).components().any(|part| part.as_os_str() == "c")
        && variable("OPT_LEVEL") == "3"
        && variable("CARGO_ENCODED_RUSTFLAGS").is_empty()
        && matches!(variable("CARGO_INCREMENTAL").as_str(), "" | "0");
    if variable("TARGET") == "x86_64-unknown-linux-gnu" && is_shipped && compiler_version() == proved::RUSTC {
        println!("cargo:rustc-cfg=is_as_proved");
    }
}

/// The compiler as it names itself; nothing where it does not.
fn compiler_version() -> String {
    let version = Command::new(env::var_os("RUSTC").unwrap_or_default()).arg("--version").output();
    version.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_string()).unwrap_or_default()
}
