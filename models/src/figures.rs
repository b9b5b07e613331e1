//! Numbers as a person reads them. Deliberately absent: units other than those of time, which each place has its own for.

/// A whole number with commas between thousands.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
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
    fn a_duration_has_two_units_at_most() {
        assert_eq!(
            [0.0, 59.4, 61.0, 3_725.0].map(duration),
            ["0.0 s", "59.4 s", "1 min 01 s", "1 h 02 min"]
        );
    }
}
