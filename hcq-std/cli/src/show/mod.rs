//! What a run leaves for people: a table, a trace, a picture.

pub mod profile;
pub mod report;
pub mod timeline;
pub mod trace;

/// A duration as a person reads it: three digits or so, and a unit.
pub fn duration_words(ns: u64) -> String {
    let value = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..999_950 => digits(value / 1e3, "µs"),
        999_950..999_950_000 => digits(value / 1e6, "ms"),
        _ => digits(value / 1e9, "s"),
    }
}

fn digits(value: f64, unit: &str) -> String {
    if value < 100.0 {
        format!("{value:.2} {unit}")
    } else {
        format!("{value:.1} {unit}")
    }
}

/// `text` without characters that a terminal or an XML file would take for something else than text.
pub fn plain(text: &str) -> String {
    let odd = |c: char| {
        (c.is_control() && c != '\n' && c != '\t') || matches!(c, '\u{fffe}' | '\u{ffff}')
    };
    text.chars()
        .map(|c| if odd(c) { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let words: Vec<_> = [
            0,
            999,
            1_000,
            12_345,
            123_456,
            999_949,
            999_950,
            1_500_000,
            2_000_000_000,
        ]
        .into_iter()
        .map(duration_words)
        .collect();
        assert_eq!(
            words,
            [
                "0 ns",
                "999 ns",
                "1.00 µs",
                "12.35 µs",
                "123.5 µs",
                "999.9 µs",
                "1.00 ms",
                "1.50 ms",
                "2.00 s"
            ]
        );
    }

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        assert_eq!(
            plain("a\u{1b}[31mb\tc\nd\u{9b}"),
            "a\u{fffd}[31mb\tc\nd\u{fffd}"
        );
    }
}
