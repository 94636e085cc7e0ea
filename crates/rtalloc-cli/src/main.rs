//! The command `rtalloc`.

fn main() -> std::process::ExitCode {
    rtalloc_cli::cmd::main()
}
