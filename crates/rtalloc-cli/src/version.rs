//! The version of the code this program was built from.

/// Version with the commit and its date, as `rtalloc --version` prints it: `0.1.0 (commit 0123456789ab of 2026-11-22)`;
/// `, modified` if the sources differ from the commit. A build without git has the version alone.
pub const TEXT: &str = env!("RTALLOC_VERSION");

/// The commit the program was built from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Full hash, in hexadecimal.
    pub hash: &'static str,
    /// Day of the commit, YYYY-MM-DD.
    pub date: &'static str,
    /// Whether the sources differ from the commit.
    pub is_modified: bool,
}

/// The commit this program was built from; `None` if it was built without git, for example from a tarball.
#[must_use]
pub const fn commit() -> Option<Commit> {
    match (option_env!("RTALLOC_COMMIT"), option_env!("RTALLOC_COMMIT_DATE")) {
        (Some(hash), Some(date)) => Some(Commit { hash, date, is_modified: option_env!("RTALLOC_MODIFIED").is_some() }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn git(arguments: &[&str]) -> Option<String> {
        let output = Command::new("git").current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    }

    #[test]
    fn the_commit_is_the_one_of_this_checkout() {
        assert!(TEXT.starts_with(env!("CARGO_PKG_VERSION")), "{TEXT}");
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let root = std::fs::canonicalize(root).expect("the workspace");
        let is_checkout = git(&["rev-parse", "--show-toplevel"]).is_some_and(|top| std::path::Path::new(&top) == root);
        if !is_checkout {
            assert_eq!((commit(), TEXT), (None, env!("CARGO_PKG_VERSION")));
            return;
        }
        let commit = commit().expect("a checkout has a commit");
        assert_eq!(Some(commit.hash), git(&["rev-parse", "HEAD"]).as_deref());
        assert_eq!(Some(commit.date), git(&["log", "-1", "--format=%cs"]).as_deref());
        let expected = format!("commit {} of {}", &commit.hash[..12], commit.date);
        assert!(TEXT.contains(&expected), "{TEXT}");
        assert_eq!(commit.is_modified, TEXT.contains("modified"), "{TEXT}");
    }
}
