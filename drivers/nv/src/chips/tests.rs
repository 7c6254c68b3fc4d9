use super::*;

#[test]
fn chips_are_found_by_name_and_class() {
    for chip in &CHIPS {
        assert_eq!(Chip::named(chip.name), Some(chip));
        assert_eq!(Chip::from_compute_class(chip.classes.compute), Ok(chip));
        assert!(chip.bank_words.len <= MAX_BANK_WORDS);
        // The configurations fit their 6 bits.
        assert!(chip.shared.largest_config() < 1 << 6, "{}", chip.name);
    }
    assert_eq!(Chip::named("gt200"), None);
    assert_eq!(Chip::from_compute_class(0xc5c0), Err(UnknownClass(0xc5c0)));
}

#[test]
fn machine_code_runs_on_later_chips_of_its_major_version() {
    let chip = |name| Chip::named(name).expect("a chip");
    assert!(chip("ad10x").runs(86) && chip("ad10x").runs(80) && chip("ad10x").runs(89));
    assert!(!chip("ga10x").runs(89) && !chip("ga10x").runs(75));
    assert!(!chip("gh100").runs(89) && chip("gh100").runs(90));
    assert!(!chip("gb20x").runs(100) && !chip("gb10x").runs(120));
}

#[test]
fn shared_memory_has_the_smallest_configuration_that_holds_it() {
    let config = |name, bytes| Chip::named(name).expect("a chip").shared.config(bytes);
    assert_eq!(config("ga10x", 0), Some(9));
    assert_eq!(config("ga10x", 32 * 1024), Some(9));
    assert_eq!(config("ga10x", 32 * 1024 + 1), Some(17));
    assert_eq!(config("ga10x", 100 * 1024), Some(26));
    assert_eq!(config("ga10x", 100 * 1024 + 1), None);
    assert_eq!(config("ga100", 164 * 1024), Some(42));
    assert_eq!(config("gh100", 228 * 1024), Some(58));
    assert_eq!(config("gh100", 228 * 1024 + 1), None);
    assert_eq!(config("gb20x", u64::MAX), None);
}

/// What `tests/golden` cannot say, since there is no golden data for these chips.
#[test]
fn widths_of_addresses_follow_the_generation() {
    for chip in &CHIPS {
        let wide = !matches!(chip.generation, Generation::Ampere | Generation::Ada);
        assert_eq!(
            chip.semaphore_bits,
            if wide { 57 } else { 40 },
            "{}",
            chip.name
        );
        assert_eq!(
            chip.copy.address_bits,
            if wide { 57 } else { 49 },
            "{}",
            chip.name
        );
        assert_eq!(
            chip.qmd.constant.bits(),
            if wide { 57 } else { 49 },
            "{}",
            chip.name
        );
        assert_eq!(
            chip.qmd.program.bits(),
            if wide { 57 } else { 49 },
            "{}",
            chip.name
        );
        for release in &chip.qmd.releases {
            assert_eq!(
                release.address.bits(),
                if wide { 57 } else { 40 },
                "{}",
                chip.name
            );
        }
    }
}
