//! Passes the board's memory layout to the linker.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo says where the package is");
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo says what is built for");
    println!("cargo:rustc-link-arg-bins=-T{folder}/{arch}.x");
    println!("cargo:rustc-link-arg-bins=--nmagic");
    println!("cargo:rerun-if-changed={arch}.x");
}
