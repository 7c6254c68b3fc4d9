//! Launches: what reaches the program, and what the hardware does not take.

use super::support::*;
use crate::exec::ScratchMemory;

fn pm4(target: &str, seed: u64) -> Rig {
    let rig = Rig::pm4(target, 1, seed);
    rig.memory.put(CODE, NUMBER);
    rig
}

#[test]
fn each_group_runs_once() {
    for target in ["gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201"] {
        let mut rig = pm4(target, 1);
        rig.submit(&[state(CODE, DATA), dispatch([5, 3, 4]), flush()].concat());
        rig.finish();
        for group in 0..60 {
            assert_eq!(rig.memory.get(DATA + 4 * u64::from(group)), group + 1);
        }
        let log = rig.log();
        assert_eq!(log.len(), 60);
        let (dispatch, _) = &log[0];
        assert_eq!(dispatch.target, target);
        assert_eq!(dispatch.program, CODE);
        assert_eq!(amd(dispatch).rsrc1, 0xC0 << 12);
        assert_eq!(amd(dispatch).rsrc2, 0x88);
        assert_eq!(amd(dispatch).user_data, [lo(DATA), hi(DATA), 0, 0]);
        assert_eq!((dispatch.groups, dispatch.start), ([5, 3, 4], [0; 3]));
        assert_eq!((dispatch.local, dispatch.wave), ([64, 1, 1], 64));
        assert_eq!((dispatch.local_memory, dispatch.scratch), (0, None));
    }
}

#[test]
fn groups_run_in_an_order_of_the_seed() {
    let order = |seed| {
        let mut rig = pm4("gfx942", seed);
        rig.submit(&[state(CODE, DATA), dispatch([40, 1, 1]), flush()].concat());
        rig.finish();
        rig.log()
            .iter()
            .map(|(_, group)| group[0])
            .collect::<Vec<_>>()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
    // They are handed out in order, a window at a time.
    assert!(order(3)[0] < 32);
}

#[test]
fn waves_of_32_where_there_are_any() {
    let words = |registers: u32| {
        [
            state(CODE, DATA),
            set_sh(0x2E12, &[registers]),
            packet(0x15, &[1, 1, 1, 0x8005]),
        ]
        .concat()
    };
    let mut rig = pm4("gfx1100", 1);
    rig.submit(&words(31));
    rig.finish();
    assert_eq!(rig.log()[0].0.wave, 32);
    // 256 registers is the most: 31 in units of 8.
    let mut rig = pm4("gfx1100", 1);
    rig.submit(&words(32));
    let text = rig.fault();
    assert!(text.contains("illegal launch: VGPRS names 264"), "{text}");
    // Bit 15 of the initiator is none of gfx9.
    let mut rig = pm4("gfx942", 1);
    rig.submit(&words(31));
    let text = rig.fault();
    assert!(text.contains("reserved bits 0x8000"), "{text}");
}

#[test]
fn a_launch_begins_where_it_is_told_to() {
    let mut rig = pm4("gfx1201", 1);
    // Without FORCE_START_AT_000 the dimensions are where the grid ends.
    let words = [
        state(CODE, DATA),
        set_sh(0x2E04, &[2, 1, 0]),
        packet(0x15, &[4, 3, 2, 1]),
    ]
    .concat();
    rig.submit(&words);
    rig.finish();
    let mut groups: Vec<_> = rig.log().iter().map(|(_, group)| *group).collect();
    groups.sort_by_key(|&[x, y, z]| (z, y, x));
    let want: Vec<_> = (0..2)
        .flat_map(|z| (1..3).flat_map(move |y| (2..4).map(move |x| [x, y, z])))
        .collect();
    assert_eq!(groups, want);
    assert_eq!(rig.log()[0].0.groups, [2, 2, 2]);
}

#[test]
fn the_last_groups_may_be_smaller() {
    let mut rig = pm4("gfx1100", 1);
    // 100 x 3 work-items in groups of 64 x 2: PARTIAL_TG_EN and USE_THREAD_DIMENSIONS.
    let words = [
        state(CODE, DATA),
        set_sh(0x2E07, &[64 | 36 << 16, 2 | 1 << 16, 1 | 1 << 16]),
        packet(0x15, &[100, 3, 1, 0x27]),
    ]
    .concat();
    rig.submit(&words);
    rig.finish();
    let mut log: Vec<_> = rig
        .log()
        .iter()
        .map(|(dispatch, group)| (*group, dispatch.local))
        .collect();
    log.sort();
    assert_eq!(
        log,
        [
            ([0, 0, 0], [64, 2, 1]),
            ([0, 1, 0], [64, 1, 1]),
            ([1, 0, 0], [36, 2, 1]),
            ([1, 1, 0], [36, 1, 1]),
        ]
    );
}

#[test]
fn local_memory_counts_in_the_chips_units() {
    let run = |target: &str, units: u32| {
        let mut rig = pm4(target, 1);
        let rsrc2 = 0x88 | units << 15;
        let words = [
            state(CODE, DATA),
            set_sh(0x2E13, &[rsrc2]),
            dispatch([1, 1, 1]),
        ]
        .concat();
        rig.submit(&words);
        rig
    };
    for (target, units, bytes) in [
        ("gfx942", 1, 512),
        ("gfx942", 128, 64 << 10),
        ("gfx950", 1, 1280),
        ("gfx950", 128, 160 << 10),
        ("gfx1201", 128, 64 << 10),
    ] {
        let mut rig = run(target, units);
        rig.finish();
        assert_eq!(rig.log()[0].0.local_memory, bytes);
    }
    for (target, units) in [("gfx942", 129), ("gfx950", 129), ("gfx1100", 129)] {
        let text = run(target, units).fault();
        assert!(text.contains("illegal launch: LDS_SIZE"), "{text}");
    }
}

#[test]
fn local_memory_keeps_what_was_left_there() {
    let mut rig = pm4("gfx1100", 1);
    rig.memory.put(CODE, LOCAL);
    let rsrc2 = 0x88 | 1 << 15;
    let words = [
        state(CODE, DATA),
        set_sh(0x2E13, &[rsrc2]),
        dispatch([6, 1, 1]),
        flush(),
    ]
    .concat();
    rig.submit(&words);
    rig.finish();
    let seen: Vec<u32> = (0..6).map(|at| rig.memory.get(DATA + 4 * at)).collect();
    assert_eq!(
        seen.iter().filter(|&&value| value == 1).count(),
        1,
        "{seen:?}"
    );
}

#[test]
fn scratch_comes_from_the_ring_and_the_base() {
    let run = |target: &str, rsrc2: u32, tmpring: u32, base: u64| {
        let mut rig = pm4(target, 1);
        let words = [
            state(CODE, DATA),
            set_sh(0x2E13, &[rsrc2]),
            set_sh(0x2E18, &[tmpring]),
            set_sh(0x2E10, &[lo(base >> 8), hi(base >> 8)]),
            dispatch([1, 1, 1]),
        ]
        .concat();
        rig.submit(&words);
        rig
    };
    let base = SCRATCH + 0x12_3456_0000;
    for (target, wave_bytes, waves) in [
        ("gfx942", 8 << 10, 0xC0),
        ("gfx1100", 2 << 10, 6 * 0xC0),
        ("gfx1151", 2 << 10, 2 * 0xC0),
        ("gfx1201", 2 << 10, 4 * 0xC0),
    ] {
        let mut rig = run(target, 0x89, 8 << 12 | 0xC0, base);
        rig.finish();
        assert_eq!(
            rig.log()[0].0.scratch,
            Some(ScratchMemory {
                base,
                wave_bytes,
                waves
            })
        );
    }
    // A program without scratch has none, whatever the registers say.
    let mut rig = run("gfx942", 0x88, 8 << 12 | 0xC0, base);
    rig.finish();
    assert_eq!(rig.log()[0].0.scratch, None);
    // Memory that is not there, of which the last wave's is the last.
    for base in [0x7E00_0000_0000, SCRATCH - 0x1000, DATA] {
        let text = run("gfx942", 0x89, 8 << 12 | 0xC0, base).fault();
        assert!(text.contains("NotPresent"), "{text}");
    }
    for (tmpring, base) in [(8 << 12, base), (0xC0, base), (8 << 12 | 0xC0, 0)] {
        let text = run("gfx942", 0x89, tmpring, base).fault();
        assert!(
            text.contains("illegal launch: the program has scratch"),
            "{text}"
        );
    }
}

#[test]
fn what_does_not_fit() {
    let launch = |more: Vec<u32>, dims: [u32; 3], initiator: u32| {
        let tail = packet(0x15, &[dims[0], dims[1], dims[2], initiator]);
        [state(CODE, DATA), more, tail].concat()
    };
    let one = [1, 1, 1];
    let cases: Vec<(&str, Vec<u32>, &str)> = vec![
        (
            "gfx942",
            launch(vec![], [0, 1, 1], 5),
            "no work-groups in x",
        ),
        (
            "gfx942",
            launch(vec![], [1, 1, 0], 5),
            "no work-groups in z",
        ),
        ("gfx942", launch(vec![], one, 4), "COMPUTE_SHADER_EN"),
        (
            "gfx942",
            launch(vec![], one, 5 | 1 << 14),
            "0x4000 are not simulated",
        ),
        (
            "gfx942",
            launch(vec![], one, 5 | 1 << 7),
            "reserved bits 0x80",
        ),
        (
            "gfx942",
            launch(set_sh(0x2E07, &[1025, 1, 1]), one, 5),
            "[1025, 1, 1]",
        ),
        (
            "gfx942",
            launch(set_sh(0x2E07, &[32, 33, 1]), one, 5),
            "[32, 33, 1]",
        ),
        (
            "gfx942",
            launch(set_sh(0x2E07, &[64, 0, 1]), one, 5),
            "[64, 0, 1]",
        ),
        (
            "gfx942",
            launch(set_sh(0x2E07, &[0xFFFF, 0xFFFF, 0xFFFF]), one, 5),
            "illegal launch",
        ),
        (
            "gfx942",
            launch(set_sh(0x2E0C, &[0, 0]), one, 5),
            "COMPUTE_PGM_LO/HI is 0",
        ),
        (
            "gfx942",
            launch(set_sh(0x2E13, &[17 << 1]), one, 5),
            "USER_SGPR = 17",
        ),
        (
            "gfx942",
            launch(set_sh(0x2E1B, &[0, 1, 0]), one, 5),
            "COMPUTE_RESTART",
        ),
        (
            "gfx942",
            launch(vec![], [100, 1, 1], 0x25),
            "groups of COMPUTE_NUM_THREAD_X",
        ),
        ("gfx942", launch(vec![], one, 0x7), "last work-groups"),
        // 1024 work-items are 16 waves, 4 on each SIMD: 128 of 512 registers each.
        (
            "gfx942",
            launch(
                [set_sh(0x2E07, &[1024, 1, 1]), set_sh(0x2E12, &[16])].concat(),
                one,
                5,
            ),
            "does not fit",
        ),
        (
            "gfx942",
            launch(set_sh(0x2E2D, &[2]), one, 5),
            "ACCUM_OFFSET",
        ),
        // One compute unit has two SIMDs of 768 registers for waves of 64.
        (
            "gfx1100",
            launch(
                [set_sh(0x2E07, &[1024, 1, 1]), set_sh(0x2E12, &[24])].concat(),
                one,
                5,
            ),
            "does not fit",
        ),
        (
            "gfx1100",
            launch(set_sh(0x2E28, &[1]), one, 0x8005),
            "SHARED_VGPR_CNT",
        ),
        (
            "gfx1201",
            launch(set_sh(0x2E13, &[0x88 | 1 << 6]), one, 5),
            "DYNAMIC_VGPR",
        ),
        (
            "gfx1201",
            launch(set_sh(0x2E07, &[0x2040, 1, 1]), one, 5),
            "interleaves",
        ),
    ];
    for (target, words, says) in cases {
        let mut rig = pm4(target, 1);
        rig.submit(&words);
        let text = rig.fault();
        assert!(text.contains(says), "{target}: {says:?} is not in:\n{text}");
        assert!(text.contains("DISPATCH_DIRECT"), "{text}");
    }
    // The same registers, where a work-group processor shares the group, and with one register class less.
    let mut rig = pm4("gfx1100", 1);
    rig.submit(&launch(
        [
            set_sh(0x2E07, &[1024, 1, 1]),
            set_sh(0x2E12, &[24 | 1 << 29]),
        ]
        .concat(),
        one,
        5,
    ));
    rig.finish();
    let mut rig = pm4("gfx942", 1);
    rig.submit(&launch(
        [set_sh(0x2E07, &[1024, 1, 1]), set_sh(0x2E12, &[15])].concat(),
        one,
        5,
    ));
    rig.finish();
}

#[test]
fn programs_that_nobody_knows_or_that_fail() {
    let mut rig = pm4("gfx942", 1);
    rig.memory.put(CODE, UNKNOWN);
    rig.submit(&[state(CODE, DATA), dispatch([1, 1, 1])].concat());
    let text = rig.fault();
    assert!(text.contains("nobody can run the program"), "{text}");
    assert!(text.contains("DISPATCH_DIRECT"), "{text}");

    let mut rig = pm4("gfx942", 1);
    rig.submit(&[state(0x1000, DATA), dispatch([1, 1, 1])].concat());
    let text = rig.fault();
    assert!(
        text.contains("memory violation: Execute of 0x1000"),
        "{text}"
    );

    let mut rig = pm4("gfx942", 1);
    rig.submit(&[state(CODE, 0x9000), dispatch([1, 1, 1])].concat());
    let text = rig.fault();
    assert!(text.contains("memory violation: Write of 0x9000"), "{text}");
}

#[test]
fn huge_launches_take_no_memory() {
    let mut rig = pm4("gfx1100", 1);
    rig.memory.put(CODE, COUNT);
    rig.submit(&[state(CODE, DATA), dispatch([u32::MAX; 3])].concat());
    for _ in 0..1000 {
        assert!(matches!(rig.step(), crate::engine::Step::Progress));
    }
    assert!(rig.log().len() > 100);
}
