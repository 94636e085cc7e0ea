//! Gives the shared library its name for the dynamic linker, which is not its file's name here.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        // What a program that was linked with it asks for: the same until a program must be adapted.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,librtalloc.so.{}", env!("CARGO_PKG_VERSION_MAJOR"));
    }
}
