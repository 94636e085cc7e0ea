//! The environment of a run.

use super::cycles::{Clock, ticks};
use crate::result::schema::Environment;
use crate::result::version;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

impl Environment {
    /// Collects the environment. Unavailable values are "unknown".
    #[must_use]
    pub fn here(clock: Clock) -> Self {
        let unknown = || "unknown".to_string();
        Self {
            rtalloc: version::text().into(),
            cpu: processor_model().unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: kernel_release().unwrap_or_else(unknown),
            rustc: env!("LAB_RUSTC_VERSION").into(),
            binary: binary_checksum().unwrap_or_else(unknown),
            tsc_hz: ticks_per_second(),
            timer_overhead_ticks: clock.overhead_ticks,
            timer_step_ticks: clock.step_ticks,
            unix_time: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        }
    }
}

fn processor_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_string())
    })
}

fn kernel_release() -> Option<String> {
    let read = |name| fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok();
    Some(format!("{} {}", read("ostype")?.trim(), read("osrelease")?.trim()))
}

/// SHA-256 of the running binary: if it is equal, the figures of two runs come from the same code. It is computed once
/// per process.
fn binary_checksum() -> Option<String> {
    static CHECKSUM: OnceLock<Option<String>> = OnceLock::new();
    let found = || Some(written(&Sha256::digest(fs::read("/proc/self/exe").ok()?)));
    CHECKSUM.get_or_init(found).clone()
}

/// A checksum as text.
#[must_use]
pub(crate) fn written(sha256: &[u8]) -> String {
    sha256.iter().fold("sha256:".into(), |text, byte| format!("{text}{byte:02x}"))
}

/// Calibrates the time-stamp counter against the monotonic clock. At both ends, the closest pair of several readings is
/// used, so that an interruption between two readings has no effect.
pub fn ticks_per_second() -> u64 {
    const SPAN: Duration = Duration::from_millis(40);
    let pair = || {
        (0..16)
            .map(|_| {
                let before = ticks();
                let instant = Instant::now();
                (ticks() - before, before, instant)
            })
            .min_by_key(|(width, ..)| *width)
            .map(|(width, before, instant)| (before + width / 2, instant))
            .expect("there are sixteen")
    };
    let (first_ticks, first) = pair();
    std::thread::sleep(SPAN);
    let (last_ticks, last) = pair();
    let nanoseconds = (last - first).as_nanos().max(1);
    u64::try_from(u128::from(last_ticks - first_ticks) * 1_000_000_000 / nanoseconds).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_surroundings_are_known() {
        let here = Environment::here(Clock::calibrate());
        assert!(here.cores >= 1);
        assert_eq!(here.rtalloc, version::text());
        assert!(here.rustc.starts_with("rustc 1."), "{}", here.rustc);
        assert!(here.kernel.starts_with("Linux ") || here.kernel == "unknown", "{}", here.kernel);
        assert!(here.binary.starts_with("sha256:") && here.binary.len() == 71, "{}", here.binary);
        assert!((1_000_000..100_000_000_000).contains(&here.tsc_hz), "{}", here.tsc_hz);
        assert!(here.unix_time > 1_700_000_000);
    }

    #[test]
    fn the_counter_is_calibrated_to_a_thousandth() {
        let (first, second) = (ticks_per_second(), ticks_per_second());
        assert!(first.abs_diff(second) < first / 200, "{first} and {second} ticks per second");
    }
}
