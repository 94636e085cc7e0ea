//! Why a program was not recorded: properties of its file that prevent preloading a library.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What prevents recording a program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Obstacle {
    /// Set-user-id or set-group-id.
    #[error(
        "{} runs with its owner's rights (set-user-id), and the system refuses to preload anything into such a program; \
         record a copy without that bit: cp PROGRAM copy && rtalloc record -o FILE -- ./copy", .0.display()
    )]
    Privileged(PathBuf),
    /// No dynamic linker.
    #[error(
        "{} is statically linked, so nothing can be preloaded into it; link it dynamically against the C library \
         and record again", .0.display()
    )]
    Static(PathBuf),
    /// 32-bit, or for another machine.
    #[error("{} is not a 64-bit program of this machine, as the recorder is; build it for this machine", .0.display())]
    OtherMachine(PathBuf),
    /// Another C library.
    #[error("{} uses the dynamic linker {linker}, and the recorder needs the GNU C library; link it against that", .path.display())]
    OtherLibrary {
        /// The program.
        path: PathBuf,
        /// Its dynamic linker.
        linker: String,
    },
    /// Nothing in the file explains it.
    #[error(
        "{} did not load the recorder; possible reasons: the temporary directory forbids execution (mounted noexec: \
         choose another one with --log-directory), or the program is started by another one that clears the \
         environment or has more rights than its caller (record the program itself)", .0.display()
    )]
    Unknown(PathBuf),
}

/// Finds out why `program`, as called, was not recorded.
#[must_use]
pub fn obstacle(program: &OsStr) -> Obstacle {
    let path = resolve(program);
    // A script is run by another program, named in its first line; in practice, one level suffices.
    let path = interpreter(&path).unwrap_or(path);
    examine(&path).unwrap_or(Obstacle::Unknown(path))
}

/// The file that `execvp` would run.
#[must_use]
pub fn resolve(program: &OsStr) -> PathBuf {
    let direct = PathBuf::from(program);
    if program.as_bytes().contains(&b'/') {
        return direct;
    }
    std::env::var_os("PATH")
        .and_then(|path| std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file()))
        .unwrap_or(direct)
}

/// The interpreter of a script, if `path` is one.
fn interpreter(path: &Path) -> Option<PathBuf> {
    let mut start = [0; 256];
    let count = File::open(path).ok()?.read(&mut start).ok()?;
    let line = start.get(..count)?.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let first = PathBuf::from(OsStr::from_bytes(words.next()?));
    if first.file_name() == Some(OsStr::new("env")) {
        return words.next().map(|word| resolve(OsStr::from_bytes(word)));
    }
    Some(first)
}

/// Offsets and values of the ELF header, 64-bit; see elf(5).
mod elf {
    pub const MAGIC: &[u8] = b"\x7fELF";
    pub const CLASS: usize = 4;
    pub const CLASS_64: u8 = 2;
    pub const MACHINE: usize = 18;
    #[cfg(target_arch = "x86_64")]
    pub const THIS_MACHINE: u16 = 62;
    #[cfg(target_arch = "aarch64")]
    pub const THIS_MACHINE: u16 = 183;
    pub const SEGMENTS_OFFSET: usize = 32;
    pub const SEGMENT_BYTES: usize = 54;
    pub const SEGMENT_COUNT: usize = 56;
    pub const HEADER_BYTES: usize = 64;
    /// In a segment header: type, offset in the file, length in the file.
    pub const TYPE: usize = 0;
    pub const TYPE_LINKER: u32 = 3;
    pub const OFFSET: usize = 8;
    pub const LENGTH: usize = 32;
}

/// The obstacle visible in the program file, if any.
fn examine(path: &Path) -> Option<Obstacle> {
    let file = File::open(path).ok()?;
    let mut header = [0; elf::HEADER_BYTES];
    file.read_exact_at(&mut header, 0).ok()?;
    if !header.starts_with(elf::MAGIC) {
        return None;
    }
    let short = |offset: usize| u16::from_le_bytes([header[offset], header[offset + 1]]);
    if header[elf::CLASS] != elf::CLASS_64 || short(elf::MACHINE) != elf::THIS_MACHINE {
        return Some(Obstacle::OtherMachine(path.to_path_buf()));
    }
    if file.metadata().ok()?.permissions().mode() & 0o6000 != 0 {
        return Some(Obstacle::Privileged(path.to_path_buf()));
    }
    let table = u64::from_le_bytes(std::array::from_fn(|i| header[elf::SEGMENTS_OFFSET + i]));
    for index in 0..u64::from(short(elf::SEGMENT_COUNT)) {
        let mut segment = [0; 56];
        let offset = table.checked_add(index * u64::from(short(elf::SEGMENT_BYTES)))?;
        file.read_exact_at(&mut segment, offset).ok()?;
        let long = |offset: usize| u64::from_le_bytes(std::array::from_fn(|i| segment[offset + i]));
        if u32::from_le_bytes(std::array::from_fn(|i| segment[elf::TYPE + i])) != elf::TYPE_LINKER {
            continue;
        }
        let mut linker = vec![0; usize::try_from(long(elf::LENGTH)).ok().filter(|&length| length <= 4096)?];
        file.read_exact_at(&mut linker, long(elf::OFFSET)).ok()?;
        let linker = String::from_utf8_lossy(&linker).trim_end_matches('\0').to_owned();
        let is_gnu = linker.contains("ld-linux");
        return (!is_gnu).then(|| Obstacle::OtherLibrary { path: path.to_path_buf(), linker });
    }
    Some(Obstacle::Static(path.to_path_buf()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program file: a header, one segment of `segment_type` and the name of a linker.
    fn program(class: u8, machine: u16, segment_type: u32, linker: &str) -> Vec<u8> {
        let mut file = vec![0; elf::HEADER_BYTES + 56];
        file[..4].copy_from_slice(elf::MAGIC);
        file[elf::CLASS] = class;
        file[elf::MACHINE..][..2].copy_from_slice(&machine.to_le_bytes());
        file[elf::SEGMENTS_OFFSET..][..8].copy_from_slice(&(elf::HEADER_BYTES as u64).to_le_bytes());
        file[elf::SEGMENT_BYTES..][..2].copy_from_slice(&56u16.to_le_bytes());
        file[elf::SEGMENT_COUNT..][..2].copy_from_slice(&1u16.to_le_bytes());
        let segment = &mut file[elf::HEADER_BYTES..];
        segment[elf::TYPE..][..4].copy_from_slice(&segment_type.to_le_bytes());
        segment[elf::OFFSET..][..8].copy_from_slice(&(elf::HEADER_BYTES as u64 + 56).to_le_bytes());
        segment[elf::LENGTH..][..8].copy_from_slice(&(linker.len() as u64 + 1).to_le_bytes());
        file.extend_from_slice(linker.as_bytes());
        file.push(0);
        file
    }

    #[test]
    fn every_obstacle_is_read_off_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        let judge = |content: &[u8], mode: u32| {
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            obstacle(path.as_os_str())
        };
        let gnu = program(elf::CLASS_64, elf::THIS_MACHINE, elf::TYPE_LINKER, "/lib64/ld-linux-x86-64.so.2");
        assert_eq!(judge(&gnu, 0o755), Obstacle::Unknown(path.clone()));
        assert_eq!(judge(&gnu, 0o4755), Obstacle::Privileged(path.clone()));
        assert_eq!(judge(&gnu, 0o2755), Obstacle::Privileged(path.clone()));
        let musl = "/lib/ld-musl-x86_64.so.1";
        assert_eq!(
            judge(&program(elf::CLASS_64, elf::THIS_MACHINE, elf::TYPE_LINKER, musl), 0o755),
            Obstacle::OtherLibrary { path: path.clone(), linker: musl.to_owned() }
        );
        assert_eq!(judge(&program(elf::CLASS_64, elf::THIS_MACHINE, 1, ""), 0o755), Obstacle::Static(path.clone()));
        assert_eq!(judge(&program(1, 3, 1, ""), 0o755), Obstacle::OtherMachine(path.clone()));
        for length in 0..gnu.len() {
            // A truncated file is not understood, without further consequences.
            judge(&gnu[..length], 0o755);
        }
        assert_eq!(
            obstacle(OsStr::new("no-such-program-anywhere")),
            Obstacle::Unknown("no-such-program-anywhere".into())
        );
    }
}
