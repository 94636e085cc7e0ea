//! Sets the soname of the shared library.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        // The ABI version: the major number; before 1.0, the first two numbers.
        let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
        let abi = if major == "0" { format!("0.{minor}") } else { major.to_string() };
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librtalloc.so.{abi}");
    }
}
