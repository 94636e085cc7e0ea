//! On the C library's malloc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    applications::main()
}
