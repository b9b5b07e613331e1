//! Numbers as a person reads them.

/// A whole number with commas between thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}

/// So many of something: `1 row`, `1,024 rows`.
pub fn counted(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ if what.ends_with('s') => format!("{} {what}es", count(number)),
        _ => format!("{} {what}s", count(number)),
    }
}

/// Bytes as a person reads them. Gigabytes have a decimal always: what is needed is compared with what is free.
pub fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.5 {
            return match unit {
                "B" => format!("{count} B"),
                _ if value < 9.95 || unit == "GB" => format!("{value:.1} {unit}"),
                _ => format!("{value:.0} {unit}"),
            };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

/// Seconds as a person reads them.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round() as u64;
    match whole {
        0..60 => format!("{seconds:.1} s"),
        60..3600 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole % 3600 / 60),
    }
}

/// Words as the beginning of a sentence.
pub fn capitalized(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(count),
            ["0", "999", "1,000", "1,234,567"]
        );
    }

    #[test]
    fn numbers_agree_with_their_nouns() {
        let rows = [0, 1, 1_024].map(|number| counted(number, "row"));
        assert_eq!(rows, ["0 rows", "1 row", "1,024 rows"]);
        assert_eq!(counted(2, "pass"), "2 passes");
    }

    #[test]
    fn bytes_have_two_digits_or_three() {
        let sizes = [
            0,
            999,
            1000,
            9_949,
            99_900,
            999_600,
            1_500_000_000,
            12_340_000_000,
            2_000_000_000_000,
        ];
        let expected = [
            "0 B", "999 B", "1.0 kB", "9.9 kB", "100 kB", "1.0 MB", "1.5 GB", "12.3 GB", "2.0 TB",
        ];
        assert_eq!(sizes.map(bytes), expected);
    }

    #[test]
    fn a_duration_has_two_units_at_most() {
        assert_eq!(
            [0.0, 59.4, 61.0, 3_725.0].map(duration),
            ["0.0 s", "59.4 s", "1 min 01 s", "1 h 02 min"]
        );
    }
}
