//! Gives the shared library its name for the dynamic linker, which is not its file's name here.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // What programs must be adapted to when it changes: the first number of the version; before 1.0, the first two.
        let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
        let abi = if major == "0" { format!("0.{minor}") } else { major.to_string() };
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librtalloc.so.{abi}");
    }
}
