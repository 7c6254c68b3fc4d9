//! Data in and out: element types, .npy files, fills, checks, and files that appear whole or not at all.

pub mod compare;
pub mod dtype;
pub mod fill;
pub mod input;

pub mod npy;
pub mod output;

/// A count of bytes as a person reads it.
pub fn bytes_words(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}
