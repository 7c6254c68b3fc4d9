//! Every chip is found, by each of its numbers, and no other.

use super::*;
use std::string::ToString;

#[test]
fn every_chip_is_found_by_each_of_its_names() {
    for chip in &CHIPS {
        assert_eq!(Chip::find(chip.target), Ok(chip));
        assert_eq!(Chip::named(&chip.target.to_string()), Some(chip));
        assert_eq!(Chip::from_mach(chip.mach), Ok(chip));
        let Target {
            major,
            minor,
            stepping,
        } = chip.target;
        let version = u32::from(major) * 10_000 + u32::from(minor) * 100 + u32::from(stepping);
        assert_eq!(Chip::from_kfd(version), Ok(chip));
        assert!(chip.sdma.max_copy().is_ok(), "{}", chip.target);
        let registers = Registers::new(chip.gc, chip.bases).expect("in reach");
        assert_eq!(registers.start_x, 0x2e04);
        assert_eq!(
            [registers.hdp_flush_req, registers.hdp_flush_done],
            [0xe26, 0xe27]
        );
    }
    let names: std::vec::Vec<_> = CHIPS.iter().map(|c| c.target.to_string()).collect();
    assert_eq!(
        names.join(" "),
        "gfx942 gfx950 gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153 gfx1200 gfx1201"
    );
}

#[test]
fn others_are_refused_with_the_reason() {
    let at = Target::new;
    for (target, refusal) in [
        (
            at(8, 0, 3),
            Refusal::TooOld {
                target: at(8, 0, 3),
            },
        ),
        (
            at(9, 0, 10),
            Refusal::TooOld {
                target: at(9, 0, 10),
            },
        ),
        (
            at(10, 3, 0),
            Refusal::Rdna12 {
                target: at(10, 3, 0),
            },
        ),
        (
            at(9, 4, 3),
            Refusal::NotInTable {
                target: at(9, 4, 3),
            },
        ),
        (
            at(11, 0, 9),
            Refusal::NotInTable {
                target: at(11, 0, 9),
            },
        ),
        (
            at(12, 5, 0),
            Refusal::NotInTable {
                target: at(12, 5, 0),
            },
        ),
    ] {
        assert_eq!(Chip::find(target), Err(refusal));
        assert!(refusal.to_string().starts_with(&target.to_string()));
    }
    assert_eq!(at(9, 0, 10).to_string(), "gfx90a");
    assert_eq!(
        Chip::from_kfd(u32::MAX),
        Err(Refusal::NoTarget { number: u32::MAX })
    );
    assert_eq!(
        Chip::from_mach(0x5f),
        Err(Refusal::NoTarget { number: 0x5f })
    );
    for name in ["", "gfx", "gfx110", "gfx11000", "GFX1100", "gfx1030"] {
        assert_eq!(Chip::named(name), None, "{name}");
    }
}

/// Bases come from the system, and may be anything.
#[test]
fn registers_out_of_reach_are_refused() {
    for (gc0, nbif2) in [
        (0, 0xd20),
        (0x2000, 0x4_0000),
        (u32::MAX, 0),
        (0x2000, u32::MAX),
    ] {
        assert!(
            Registers::new(&GcOffsets::GFX9_4_3, Bases { gc0, nbif2 }).is_err(),
            "{gc0:#x}"
        );
    }
}

#[test]
fn registers_have_names() {
    let r = Registers::new(&GcOffsets::GFX11, Bases::GFX11).expect("in reach");
    assert_eq!(r.name(0x2e06), Some(("COMPUTE_START_X", 2)));
    assert_eq!(r.name(0x2e07), Some(("COMPUTE_NUM_THREAD_X", 0)));
    assert_eq!(r.name(0x2e13), Some(("COMPUTE_PGM_RSRC2", 0)));
    assert_eq!(r.name(0x2e28), Some(("COMPUTE_PGM_RSRC3", 0)));
    assert_eq!(r.name(0x2e4f), Some(("COMPUTE_USER_DATA_0", 15)));
    assert_eq!(r.name(0x2e50), None);
}
