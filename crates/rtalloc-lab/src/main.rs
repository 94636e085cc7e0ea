//! The command `rtalloc`.

fn main() -> std::process::ExitCode {
    rtalloc_lab::cmd::main()
}
