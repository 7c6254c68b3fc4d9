//! What waits for what, and what shows when it does not.

use super::support::*;
use crate::engine::Step;

fn rig(target: &str, seed: u64) -> Rig {
    let rig = Rig::pm4(target, 1, seed);
    rig.memory.put(CODE, NUMBER);
    rig.memory.put(CODE + 0x100, COUNT);
    rig.memory.put(CODE + 0x200, COPY);
    rig
}

/// Steps until a word is written; how many of `count` groups have stored by then.
fn groups_before(rig: &mut Rig, signal: u64, count: u64) -> u64 {
    while rig.memory.get(signal) == 0 {
        match rig.step() {
            Step::Progress => {}
            other => panic!("{other:?}"),
        }
    }
    (0..count)
        .filter(|at| rig.memory.get(DATA + 4 * at) != 0)
        .count() as u64
}

const SEEDS: std::ops::Range<u64> = 0..40;

#[test]
fn a_word_written_without_a_flush_is_early() {
    let words = [
        state(CODE, DATA),
        dispatch([20, 1, 1]),
        write_data(SIGNAL, 1),
    ]
    .concat();
    let early = SEEDS
        .filter(|&seed| {
            let mut rig = rig("gfx942", seed);
            rig.submit(&words);
            groups_before(&mut rig, SIGNAL, 20) < 20
        })
        .count();
    assert!(early > 30, "{early}");
}

#[test]
fn a_flush_or_the_end_of_the_pipe_waits() {
    let start = [state(CODE, DATA), dispatch([20, 1, 1])].concat();
    for end in [
        [flush(), write_data(SIGNAL, 1)].concat(),
        release(0, SIGNAL, 1),
    ] {
        for seed in SEEDS {
            let mut rig = rig("gfx1100", seed);
            rig.submit(&[start.clone(), end.clone()].concat());
            assert_eq!(groups_before(&mut rig, SIGNAL, 20), 20);
        }
    }
}

#[test]
fn a_release_does_not_hold_the_front_back() {
    // The second launch may begin before the first one's event has happened.
    let words = [
        state(CODE, DATA),
        dispatch([1, 1, 1]),
        release(0, SIGNAL, 1),
        set_sh(0x2E40, &[lo(DATA + 0x1000), hi(DATA)]),
        dispatch([1, 1, 1]),
    ]
    .concat();
    let overtaken = SEEDS
        .filter(|&seed| {
            let mut rig = rig("gfx1100", seed);
            rig.submit(&words);
            groups_before(&mut rig, SIGNAL, 1);
            rig.memory.get(DATA + 0x1000) != 0
        })
        .count();
    assert!((1..40).contains(&overtaken), "{overtaken}");
}

#[test]
fn events_happen_in_order() {
    let mut words = [state(CODE, DATA), dispatch([9, 1, 1])].concat();
    for value in 1..9 {
        words.extend(release(0, SIGNAL, value));
    }
    for seed in SEEDS {
        let mut rig = rig("gfx1201", seed);
        rig.submit(&words);
        let mut last = 0;
        while matches!(rig.step(), Step::Progress) {
            let value = rig.memory.get(SIGNAL);
            assert!(value == last || value == last + 1);
            last = value;
        }
        assert_eq!(last, 8);
    }
}

#[test]
fn launches_run_side_by_side() {
    // Both copy a word that the other writes: without a flush either may come first.
    let copy = |from: u64, to: u64| {
        [
            state(CODE + 0x200, from),
            set_sh(0x2E42, &[lo(to), hi(to)]),
            dispatch([1, 1, 1]),
        ]
        .concat()
    };
    let chained = |between: Vec<u32>, seed| {
        let mut rig = rig("gfx942", seed);
        rig.memory.put(DATA, 5);
        rig.submit(&[copy(DATA, DATA + 8), between, copy(DATA + 8, DATA + 16)].concat());
        rig.finish();
        rig.memory.get(DATA + 16)
    };
    let right = SEEDS.filter(|&seed| chained(vec![], seed) == 5).count();
    assert!((1..40).contains(&right), "{right}");
    // The flush orders them; the second still reads what its cache holds unless it is told to forget.
    for seed in SEEDS {
        assert_eq!(chained(flush(), seed), 5);
    }
}

#[test]
fn many_launches_wait_for_room() {
    let mut words = state(CODE + 0x100, DATA);
    for _ in 0..30 {
        words.extend(dispatch([2, 1, 1]));
    }
    words.extend(flush());
    let mut rig = rig("gfx942", 3);
    rig.submit(&words);
    rig.finish();
    assert_eq!(rig.log().len(), 60);
}

/// gfx9: TC_WB_ACTION; gfx11 and gfx12: GL2_WB.
fn write_back(target: &str) -> u32 {
    if target.starts_with("gfx9") {
        1 << 15
    } else {
        1 << 21
    }
}

#[test]
fn stores_stay_in_the_l2_until_they_are_written_back() {
    for target in ["gfx942", "gfx1100", "gfx1201"] {
        for flushed in [false, true] {
            let mut rig = rig(target, 1);
            let bits = if flushed { write_back(target) } else { 0 };
            rig.submit(
                &[
                    state(CODE, CACHED),
                    dispatch([4, 1, 1]),
                    release(bits, SIGNAL, 1),
                ]
                .concat(),
            );
            rig.finish();
            assert_eq!(rig.memory.get(SIGNAL), 1);
            let want = if flushed { [1, 2, 3, 4] } else { [0; 4] };
            let got = [0, 1, 2, 3].map(|at| rig.memory.get(CACHED + 4 * at));
            assert_eq!(got, want, "{target}");
        }
    }
}

#[test]
fn copies_are_old_until_they_are_forgotten() {
    // Which acquire makes a second launch see what the host has written since the first: uncached memory is in the vector
    // cache alone, cached memory in the L2 too.
    let gfx9 = |coher: u32| packet(0x58, &[coher, u32::MAX, 0xFF, 0, 0, 10]);
    let gfx11 = |gcr: u32| packet(0x58, &[0, u32::MAX, 0xFF, 0, 0, 10, gcr]);
    let (tcl1, tc) = (1 << 22, 1 << 23);
    let (glv, gl1, gl2) = (1 << 8, 1 << 9, 1 << 14);
    let cases = [
        ("gfx942", vec![], DATA, false),
        ("gfx942", gfx9(tcl1), DATA, true),
        ("gfx942", gfx9(tc), DATA, false),
        ("gfx942", gfx9(tcl1), CACHED, false),
        ("gfx942", gfx9(tcl1 | tc), CACHED, true),
        ("gfx1100", gfx11(glv), DATA, false),
        ("gfx1100", gfx11(gl1), DATA, false),
        ("gfx1100", gfx11(glv | gl1), DATA, true),
        ("gfx1100", gfx11(glv | gl1), CACHED, false),
        ("gfx1100", gfx11(glv | gl1 | gl2), CACHED, true),
    ];
    for (target, acquire, source, seen) in cases {
        let mut rig = rig(target, 1);
        rig.memory.put(source, 5);
        let launch = [
            state(CODE + 0x200, source),
            set_sh(0x2E42, &[lo(SIGNAL), hi(SIGNAL)]),
            dispatch([1, 1, 1]),
            flush(),
        ]
        .concat();
        rig.submit(&launch);
        rig.finish();
        assert_eq!(rig.memory.get(SIGNAL), 5);
        rig.memory.put(source, 6);
        rig.submit(&[acquire.clone(), launch].concat());
        rig.finish();
        let want = if seen { 6 } else { 5 };
        assert_eq!(rig.memory.get(SIGNAL), want, "{target} {acquire:x?}");
    }
}

#[test]
fn code_is_old_until_it_is_forgotten() {
    for (target, acquire) in [
        ("gfx942", packet(0x58, &[1 << 29, u32::MAX, 0xFF, 0, 0, 10])),
        ("gfx1201", packet(0x58, &[0, u32::MAX, 0xFF, 0, 0, 10, 1])),
    ] {
        for forgotten in [false, true] {
            let mut rig = rig(target, 1);
            let launch = [state(CODE, DATA), dispatch([1, 1, 1]), flush()].concat();
            rig.submit(&launch);
            rig.finish();
            rig.memory.put(DATA, 0);
            rig.memory.put(CODE, UNKNOWN);
            let between = if forgotten { acquire.clone() } else { vec![] };
            rig.submit(&[between, launch].concat());
            if forgotten {
                let text = rig.fault();
                assert!(text.contains("nobody can run"), "{text}");
            } else {
                rig.finish();
                assert_eq!(rig.memory.get(DATA), 1);
            }
        }
    }
}

#[test]
fn the_front_sees_memory_and_not_the_l2() {
    let mut rig = rig("gfx942", 1);
    // A wait for what a program has stored hangs as long as the store is in the L2.
    rig.submit(
        &[
            state(CODE, CACHED),
            dispatch([1, 1, 1]),
            wait(3, CACHED, 1, u32::MAX),
            write_data(SIGNAL, 1),
        ]
        .concat(),
    );
    assert!(matches!(rig.run(), Step::Waiting));
    // WRITE_DATA to the L2 stays there as well.
    let mut rig = self::rig("gfx942", 1);
    rig.submit(&packet(0x37, &[2 << 8, lo(CACHED), hi(CACHED), 7]));
    rig.finish();
    assert_eq!(rig.memory.get(CACHED), 0);
    rig.submit(&release(1 << 15, SIGNAL, 1));
    rig.finish();
    assert_eq!(rig.memory.get(CACHED), 7);
}
