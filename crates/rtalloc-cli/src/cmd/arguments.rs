//! Arguments that several subcommands take.

use rtalloc::limits::Limit;
use rtalloc_lab::observe::Operation;
use std::path::Path;

/// Parses a size in bytes with an optional suffix.
pub(super) fn parse_size(text: &str) -> Result<u64, String> {
    let (number, shift) = match text.char_indices().last() {
        Some((place, 'K' | 'k')) => (&text[..place], 10),
        Some((place, 'M' | 'm')) => (&text[..place], 20),
        Some((place, 'G' | 'g')) => (&text[..place], 30),
        _ => (text, 0),
    };
    let wrong =
        || format!("{text:?} is not a size; write a number of bytes, with K, M or G for powers of 1024: 64K, 16M");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    match number.checked_mul(1 << shift) {
        Some(0) => Err("at least one byte is needed".into()),
        Some(bytes) if bytes <= 1 << 40 => Ok(bytes),
        _ => Err(format!("{text} is more than 1024G")),
    }
}

/// More live bytes than this are not a heap of a real-time system; sums of sizes stay far below 2^64.
pub(super) const MOST_BYTES: u64 = 1 << 36;

/// Parses `64x200`, `64x=200` or `64x100-200`.
pub(super) fn limit(text: &str) -> Result<Limit, String> {
    let wrong =
        || format!("{text:?} is not a limit; write a number of objects and their size: 64x200, 64x=200, 64x100-200");
    let (objects, sizes) = text.split_once('x').ok_or_else(wrong)?;
    let objects: usize = objects.trim().parse().map_err(|_| wrong())?;
    let (smallest, largest) = match (sizes.strip_prefix('='), sizes.split_once('-')) {
        (Some(size), _) => (parse_size(size)?, parse_size(size)?),
        (None, Some((smallest, largest))) => (parse_size(smallest)?, parse_size(largest)?),
        (None, None) => (1, parse_size(sizes)?),
    };
    if objects == 0 {
        return Err("at least one object is needed".into());
    }
    if smallest > largest {
        return Err(format!("{text}: {smallest} is more than {largest}"));
    }
    if largest.checked_mul(objects as u64).is_none_or(|bytes| bytes > MOST_BYTES) {
        return Err(format!("{text}: more than 64G"));
    }
    Ok(Limit::between(objects, smallest as usize, largest as usize))
}

/// Parses `20` or `20%`.
pub(super) fn per_cent(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse().ok().filter(|number| *number <= 1000);
    number.ok_or_else(|| format!("{text:?} is not a margin; write per cent from 0 to 1000: 20%"))
}

/// Parses the name of an operation; `free` is deallocate, as in `run` and its tables.
pub(super) fn operation(text: &str) -> Result<Operation, String> {
    let name = if text == "free" { "deallocate".into() } else { text.replace('-', " ") };
    let names = || Operation::ALL.map(|operation| operation.name().replace(' ', "-")).join(", ");
    Operation::ALL
        .into_iter()
        .find(|operation| operation.name() == name)
        .ok_or_else(|| format!("there is no operation {text:?}; there are: {}", names()))
}

/// Refuses pipes and devices: a trace is read several times. A missing file is reported where it is opened.
pub(super) fn refuse_streams(path: &Path) -> anyhow::Result<()> {
    let stream = std::fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    anyhow::ensure!(!stream, "{}: a trace is read several times: give a regular file", path.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_suffixes_and_limits() {
        assert_eq!(parse_size("4096"), Ok(4096));
        assert_eq!(parse_size("64K"), Ok(64 << 10));
        assert_eq!(parse_size("16m"), Ok(16 << 20));
        assert_eq!(parse_size("1G"), Ok(1 << 30));
        for wrong in ["", "K", "0", "-1", "1.5M", "16MB", "99999999999999999999", "2000G", "ü"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
