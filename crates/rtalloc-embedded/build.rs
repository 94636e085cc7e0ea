//! Sets `nightly` where the compiler accepts unstable features in this crate, so that its feature `allocator_api` can
//! be enabled with any compiler.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_BOOTSTRAP");
    println!("cargo::rustc-check-cfg=cfg(nightly)");
    let compiler = env::var_os("RUSTC").expect("cargo sets RUSTC");
    let version = Command::new(compiler).arg("--version").output().expect("cargo's compiler runs").stdout;
    let version = String::from_utf8_lossy(&version);
    // All crates, or a list of them.
    let allowed = env::var("RUSTC_BOOTSTRAP").unwrap_or_default();
    let is_allowed = allowed.split(',').any(|name| name == "1" || name == "rtalloc_embedded");
    if is_allowed || version.contains("-nightly") || version.contains("-dev") {
        println!("cargo::rustc-cfg=nightly");
    }
}
