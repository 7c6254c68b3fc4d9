//! The table, and chips that are not in it.

use super::*;
use std::string::ToString;
use std::vec::Vec;

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
    assert!(refused(7, 3, 0).contains("Adreno 7.3.0.0 (a730) is newer than A6xx"));
    assert!(refused(7, 0, 2).contains("Adreno 7.0.2.0 is newer than A6xx"));
    assert!(refused(0x43, 5, 1).contains("newer"));
}

/// Numbers that fields of every chip's dispatches can hold.
#[test]
fn the_table_is_sound() {
    let all: Vec<&Chip> = CHIPS.iter().chain(PACKETS_ONLY).collect();
    for (i, chip) in all.iter().enumerate() {
        assert!(
            all[..i]
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

/// Numbers of `freedreno_devices.py`: chip ids of kgsl, `num_ccu`.
#[test]
fn chips_of_which_the_packets_are_known_are_refused_by_their_ids() {
    for (name, id, cores) in [
        ("a730", 0x0703_0001, 4),
        ("a735", 0x4303_0b00, 3),
        ("a740", 0x4305_0a01, 6),
        ("a750", 0x4305_1401, 6),
    ] {
        let chip = Chip::named(name).expect("known by name");
        assert_eq!((chip.generation, chip.cores), (Generation::A7xx, cores));
        let (id, number) = (ChipId(id), chip.number);
        let refused = Chip::find(id);
        assert_eq!(refused, Err(Refusal::PacketsOnly { id, number }), "{name}");
        let words = refused.expect_err("refused").to_string();
        assert!(words.contains("its compute registers differ"), "{words}");
    }
    assert!(CHIPS.iter().all(|c| c.generation == Generation::A6xx));
    assert!(
        PACKETS_ONLY
            .iter()
            .all(|c| c.generation == Generation::A7xx)
    );
}
