//! Has the dynamic linker start this library before all others: the functions that it has called around forks are to be the last before
//! a fork and the first behind it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-cdylib=-Wl,-z,initfirst");
}
