//! Makes the dynamic linker initialise this library before all others: its fork handlers must be the last ones before a
//! fork and the first ones after it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-cdylib=-Wl,-z,initfirst");
}
