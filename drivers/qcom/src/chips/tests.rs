//! The table, and chips that are not in it.

use super::*;
use std::string::ToString;

#[test]
fn chips_are_found_by_id_and_number() {
    for chip in CHIPS {
        let [core, major, minor] = chip.id;
        let id = ChipId(ChipId::new(core, major, minor).0 | 0x42);
        assert_eq!(Chip::find(id), Ok(chip), "any patch level");
        let number = chip.number.to_string();
        assert_eq!(Chip::named(&number), Some(chip));
    }
    assert_eq!(Chip::named("a650").map(|c| c.number), Some(650));
    for name in ["", "a", "a631", "aa630", "-630", "99999999"] {
        assert_eq!(Chip::named(name), None, "{name}");
    }
}

#[test]
fn others_are_refused_in_words() {
    let refused = |core, major, minor| {
        Chip::find(ChipId::new(core, major, minor))
            .expect_err("not in the table")
            .to_string()
    };
    assert!(refused(5, 3, 0).contains("older than A6xx"));
    assert!(refused(6, 8, 0).contains("in no table"));
    assert!(refused(7, 3, 0).contains("Adreno 7.3.0.0 is newer than A6xx"));
    assert!(refused(0x43, 5, 1).contains("newer"));
}

/// Numbers that fields of every chip's dispatches can hold.
#[test]
fn the_table_is_sound() {
    for (i, chip) in CHIPS.iter().enumerate() {
        assert!(
            CHIPS[..i]
                .iter()
                .all(|c| c.id != chip.id && c.number != chip.number)
        );
        assert!((1..=8).contains(&chip.cores), "{chip}");
        assert!(chip.fibers_per_core.is_multiple_of(2048), "{chip}");
        assert_eq!(chip.shared_bytes, 32 << 10, "{chip}");
        assert_eq!(chip.max_group(0, 0), MAX_GROUP, "{chip}");
        assert!(chip.max_group(u8::MAX, u8::MAX) < MAX_GROUP, "{chip}");
    }
}
