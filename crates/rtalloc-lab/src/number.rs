//! Numbers as people read them.

/// A whole number with thousands separated: `492,866`.
#[must_use]
pub fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count in at most six characters: exact below 100,000, then three significant digits and k, M, G or T.
#[must_use]
pub fn compact(value: f64) -> String {
    if value < 99_999.5 {
        return format!("{value:.0}");
    }
    let (scaled, suffix) = [(1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T")]
        .into_iter()
        .map(|(unit, suffix)| (value / unit, suffix))
        .find(|(scaled, _)| *scaled < 999.5)
        .unwrap_or((value / 1e12, "T"));
    let decimals = if scaled < 9.995 {
        2
    } else if scaled < 99.95 {
        1
    } else {
        0
    };
    format!("{scaled:.decimals$}{suffix}")
}

/// A round value on an axis: k, M, G or T from 1,000 on, and as many decimals as it needs, at most three.
#[must_use]
pub fn tick(value: f64) -> String {
    let (scaled, suffix) = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")]
        .into_iter()
        .map(|(unit, suffix)| (value / unit, suffix))
        .find(|(scaled, _)| *scaled > 0.999_9)
        .unwrap_or((value, ""));
    let text = format!("{scaled:.3}");
    format!("{}{suffix}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A mean: one decimal below 100, then as [`compact`].
#[must_use]
pub fn mean(value: f64) -> String {
    if value < 99.95 { format!("{value:.1}") } else { compact(value) }
}

/// Bytes with a binary unit and three significant digits: `486 KiB`.
#[must_use]
pub fn bytes(value: u64) -> String {
    if value < 1024 {
        return format!("{value} B");
    }
    #[allow(clippy::cast_precision_loss)] // three digits are shown
    let value = value as f64;
    let (scaled, unit) = [(1024.0, "KiB"), (1_048_576.0, "MiB"), (1_073_741_824.0, "GiB")]
        .into_iter()
        .map(|(size, unit)| (value / size, unit))
        .find(|(scaled, _)| *scaled < 1023.5)
        .unwrap_or((value / 1_073_741_824.0, "GiB"));
    let decimals = if scaled < 9.995 {
        2
    } else if scaled < 99.95 {
        1
    } else {
        0
    };
    format!("{scaled:.decimals$} {unit}")
}

/// `1 trace`, `3 traces`.
#[must_use]
pub fn counted(count: u64, singular: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {singular}{plural}", grouped(count))
}

/// A time of day and date in Coordinated Universal Time: `2026-03-01 14:05 UTC`.
#[must_use]
pub fn date(unix_seconds: u64) -> String {
    const SECONDS_PER_DAY: u64 = 86_400;
    let days = unix_seconds / SECONDS_PER_DAY;
    let second = unix_seconds % SECONDS_PER_DAY;
    // Civil date from a day number, counted in eras of 400 years that begin on the first of March.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", second / 3600, second % 3600 / 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(492_866), "492,866");
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
        let axis = [0.0, 0.3, 5.0, 1000.0, 2500.0, 10_000.0, 100_000.0, 1e6].map(tick);
        assert_eq!(axis, ["0", "0.3", "5", "1k", "2.5k", "10k", "100k", "1M"]);
        assert_eq!(compact(99_999.0), "99999");
        assert_eq!(compact(100_000.0), "100k");
        assert_eq!(compact(999_600.0), "1.00M");
        assert_eq!(compact(12_345_678.0), "12.3M");
        assert_eq!(compact(1.5e9), "1.50G");
        assert_eq!(mean(12.34), "12.3");
        assert_eq!(mean(123.4), "123");
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1024), "1.00 KiB");
        assert_eq!(bytes(498_000), "486 KiB");
        assert_eq!(bytes(1_048_575), "1.00 MiB");
        assert_eq!(counted(1, "trace"), "1 trace");
        assert_eq!(counted(2000, "trace"), "2,000 traces");
    }

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_772_373_900), "2026-03-01 14:05 UTC");
        assert_eq!(date(4_107_542_399), "2100-02-28 23:59 UTC");
    }
}
