//! Sizes at the limits of their fields. (Usual sizes are golden cases.)

use super::*;

const TOPOLOGY: Topology = Topology {
    xccs: 1,
    ses_per_xcc: 4,
    cus_per_xcc: 32,
    slots_per_cu: 32,
};

fn chip(name: &str) -> &'static Chip {
    Chip::named(name).expect("a known chip")
}

#[test]
fn nothing_needs_nothing() {
    let need = Need::new(chip("gfx1100"), &TOPOLOGY, 0);
    assert_eq!(
        need,
        Ok(Need {
            bytes: 0,
            lane_bytes: 0,
            tmpring_size: 0
        })
    );
    for broken in [
        Topology {
            xccs: 0,
            ..TOPOLOGY
        },
        Topology {
            ses_per_xcc: 0,
            ..TOPOLOGY
        },
        Topology {
            cus_per_xcc: 0,
            ..TOPOLOGY
        },
        Topology {
            slots_per_cu: 0,
            ..TOPOLOGY
        },
        Topology {
            xccs: u32::MAX,
            ses_per_xcc: 1,
            cus_per_xcc: u32::MAX,
            slots_per_cu: u32::MAX,
        },
    ] {
        assert!(
            Need::new(chip("gfx1100"), &broken, 64).is_err(),
            "{broken:?}"
        );
    }
}

#[test]
fn more_waves_than_the_field_counts_are_refused() {
    let many = Topology {
        cus_per_xcc: 128,
        ..TOPOLOGY
    };
    let waves = ScratchError::Waves(Misfit::TooLarge {
        value: 4096,
        bits: 12,
    });
    assert_eq!(Need::new(chip("gfx942"), &many, 16), Err(waves));
    let fewer = Topology {
        cus_per_xcc: 127,
        ..TOPOLOGY
    };
    assert!(Need::new(chip("gfx942"), &fewer, 16).is_ok());
}

#[test]
fn memory_is_checked() {
    let need = Need {
        bytes: 0x1000,
        lane_bytes: 16,
        tmpring_size: 0,
    };
    assert!(Scratch::new((1 << 48) - 0x1000, &need).is_ok());
    for address in [0x80, (1 << 48) - 0xf00, 1 << 48, u64::MAX - 0xff] {
        assert!(
            matches!(Scratch::new(address, &need), Err(ScratchError::Memory(_))),
            "{address:#x}"
        );
    }
    // What one XCC has must be a multiple of its base's unit, and its descriptor counts 32 bits.
    let uneven = Scratch::new(
        0,
        &Need {
            bytes: 0x300,
            ..need
        },
    )
    .expect("256 bytes");
    assert!(uneven.parts(2).is_err());
    assert_eq!(uneven.parts(1), Ok((0, 0x300)));
    let large = Scratch::new(
        0,
        &Need {
            bytes: 8 << 32,
            ..need
        },
    )
    .expect("48 bits");
    assert!(large.queue_descriptor(chip("gfx942"), 8).is_err());
    assert!(
        Scratch::new(
            0,
            &Need {
                bytes: 7 << 32,
                ..need
            }
        )
        .expect("48 bits")
        .queue_descriptor(chip("gfx942"), 8)
        .is_ok()
    );
}
