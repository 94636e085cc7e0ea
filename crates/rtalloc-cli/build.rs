//! Names the version of the code. Here, and not in the laboratory, so that a change in the command compiles the command
//! alone.

use std::env;
use std::path::Path;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed=build.rs");
    match name_version() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            println!("cargo:error={message}");
            ExitCode::FAILURE
        }
    }
}

/// Sets `RTALLOC_VERSION` to what `rtalloc --version` prints, and in a git checkout `RTALLOC_COMMIT`,
/// `RTALLOC_COMMIT_DATE` and `RTALLOC_MODIFIED` (the tracked sources differ from the commit). Without git, or in a
/// tarball, there is the version alone.
fn name_version() -> Result<(), String> {
    let version = env::var("CARGO_PKG_VERSION").map_err(|error| format!("CARGO_PKG_VERSION: {error}"))?;
    let Some((commit, date, is_modified)) = commit() else {
        println!("cargo:rustc-env=RTALLOC_VERSION={version}");
        return Ok(());
    };
    let suffix = if is_modified { ", modified" } else { "" };
    println!(
        "cargo:rustc-env=RTALLOC_VERSION={version} (commit {} of {date}{suffix})",
        &commit[..12.min(commit.len())]
    );
    println!("cargo:rustc-env=RTALLOC_COMMIT={commit}");
    println!("cargo:rustc-env=RTALLOC_COMMIT_DATE={date}");
    if is_modified {
        println!("cargo:rustc-env=RTALLOC_MODIFIED=1");
    }
    Ok(())
}

/// Hash and date of the commit that is built, and whether the sources differ from it. `None` unless this workspace is
/// the top of a git checkout: a tarball unpacked within another repository has no commit of its own.
fn commit() -> Option<(String, String, bool)> {
    let root = Path::new("../..").canonicalize().ok()?;
    let top = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root {
        return None;
    }
    // Every commit, checkout and reset of this checkout appends to logs/HEAD; where reflogs are off, HEAD's branch
    // moves. The paths are asked of git: in a worktree, .git is a file.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    for name in ["HEAD", "logs/HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        let path = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists());
        if let Some(path) = path {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let mut status = vec!["status", "--porcelain", "--untracked-files=no", "--"];
    for source in SOURCES {
        println!("cargo:rerun-if-changed={source}");
        status.push(source);
    }
    let (commit, date) = (git(&["rev-parse", "HEAD"])?, git(&["log", "-1", "--format=%cs"])?);
    Some((commit, date, !git(&status)?.is_empty()))
}

/// What the command is built of, besides other people's crates.
const SOURCES: [&str; 18] = [
    "build.rs",
    "src",
    "Cargo.toml",
    "../rtalloc-lab/build.rs",
    "../rtalloc-lab/build",
    "../rtalloc-lab/src",
    "../rtalloc-lab/Cargo.toml",
    "../rtalloc/src",
    "../rtalloc/Cargo.toml",
    "../rtalloc-sys/src",
    "../rtalloc-preload/src",
    "../rtalloc-subjects/src",
    "../rtalloc-subjects/Cargo.toml",
    "../pathbound/src",
    "../pathbound/Cargo.toml",
    "../../traces",
    "../../Cargo.lock",
    "../../Cargo.toml",
];

/// The trimmed output of a git command; `None` where git is missing or fails.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("--no-optional-locks").args(arguments).output().ok()?;
    let text = output.status.success().then(|| String::from_utf8(output.stdout).ok())??;
    Some(text.trim().to_string())
}
