//! What each packet does.

use super::support::*;
use crate::engine::Step;

/// Runs words to their end.
fn run(words: &[Vec<u32>]) -> Rig {
    let mut rig = Rig::new("a630", 7);
    rig.memory.words(DATA, &[10, 20, 30, 40]);
    rig.submit(&words.concat());
    rig.finish();
    rig
}

/// Puts two scratch registers where tests see them.
fn scratch() -> Vec<u32> {
    pkt7(0x3E, &[0x0883 | 2 << 18, lo(SIGNAL), hi(SIGNAL)])
}

#[test]
fn words_are_written_and_copied() {
    let rig = run(&[
        pkt7(0x10, &[1, 2, 3]),
        pkt7(0x12, &[]),
        pkt7(0x13, &[]),
        pkt7(0x3D, &[lo(SIGNAL), hi(SIGNAL), 5, 6]),
        pkt7(0x75, &[3, lo(DATA), hi(DATA), lo(DATA + 64), hi(DATA + 64)]),
    ]);
    assert_eq!(rig.memory.get64(SIGNAL), 5 | 6 << 32);
    let copied = [0, 4, 8, 12].map(|at| rig.memory.get(DATA + 64 + at));
    assert_eq!(copied, [10, 20, 30, 0]);
}

#[test]
fn long_copies_take_several_steps() {
    let mut rig = Rig::new("a630", 1);
    rig.memory.map(DATA, 0x2_0000);
    let words: Vec<u32> = (0..10_000).collect();
    rig.memory.words(DATA, &words);
    let to = DATA + 0x1_0000;
    rig.submit(&pkt7(0x75, &[10_000, lo(DATA), hi(DATA), lo(to), hi(to)]));
    let mut steps = 0;
    while matches!(rig.step(), Step::Progress) {
        steps += 1;
    }
    assert!(steps >= 4, "{steps}");
    assert!((0..10_000).all(|i| rig.memory.get(to + 4 * i) == i as u32));
}

#[test]
fn sums_of_memory() {
    let (a, b, c) = (DATA, DATA + 4, DATA + 8);
    let one = |flags: u32, sources: &[u64]| {
        let mut body = vec![flags, lo(SIGNAL), hi(SIGNAL)];
        body.extend(sources.iter().flat_map(|&at| [lo(at), hi(at)]));
        run(&[pkt7(0x73, &body)]).memory.get64(SIGNAL)
    };
    assert_eq!(one(0, &[a]), 10);
    assert_eq!(one(0, &[a, b, c]), 60);
    assert_eq!(one(1 | 1 << 30, &[a, b]), 10);
    assert_eq!(one(1, &[a]), u64::from(10u32.wrapping_neg()));
    assert_eq!(one(1 << 29, &[a, c]), 40 | (20 + 40) << 32);
    assert_eq!(one(1 << 29 | 2, &[c, a]), 20 | (40 - 20) << 32);
}

#[test]
fn registers_and_memory() {
    let rig = run(&[
        pkt4(0x0883, &[7, 8]),
        scratch(),
        // Two from memory, shifted.
        pkt7(0x42, &[0x0885 | 2 << 19 | 1 << 30, lo(DATA), hi(DATA)]),
        pkt7(
            0x3E,
            &[0x0885 | 2 << 18 | 1 << 30, lo(SIGNAL + 8), hi(SIGNAL)],
        ),
        // Adds to what is there; a count of 0 is one register.
        pkt7(0x3E, &[0x0883 | 1 << 31, lo(DATA), hi(DATA)]),
        pkt7(0x3E, &[0x0885 | 2 << 18 | 3 << 30, lo(DATA + 8), hi(DATA)]),
    ]);
    assert_eq!(rig.memory.get64(SIGNAL), 7 | 8 << 32);
    assert_eq!(rig.memory.get64(SIGNAL + 8), 40 | 80 << 32);
    assert_eq!(rig.memory.get64(DATA), 17 | 20 << 32);
    assert_eq!(rig.memory.get64(DATA + 8), 70 | 120 << 32);
}

#[test]
fn the_counter_is_read_whole() {
    let rig = run(&[
        wait_for_idle(),
        pkt7(0x3E, &[0x0980 | 2 << 18 | 1 << 30, lo(SIGNAL), hi(SIGNAL)]),
    ]);
    assert_eq!(rig.memory.get64(SIGNAL), rig.clock);
}

#[test]
fn registers_are_changed_in_place() {
    let modify = |flags: u32, first: u32, second: u32| {
        let rig = run(&[
            pkt4(0x0883, &[0x00FF_00F0, 3]),
            pkt7(0x21, &[0x0883 | flags, first, second]),
            scratch(),
        ]);
        rig.memory.get(SIGNAL)
    };
    assert_eq!(modify(0, 0xFFFF, 1), 0xF1);
    assert_eq!(modify(4 << 24, 0xFFFF, 1), 0xF01);
    assert_eq!(modify(1 << 29, 0xFF, u32::MAX), 0xEF);
    assert_eq!(modify(1 << 29 | 1 << 30, u32::MAX, 0x0884), 0x00FF_00F3);
    assert_eq!(modify(1 << 31, 0x0884, 0x80), 0x80);
    assert_eq!(modify(28 << 24, u32::MAX, 0), 0x000F_F00F);
}

#[test]
fn scratch_registers() {
    let rig = run(&[
        pkt7(0x4C, &[2 << 20, 4, 5, 6]),
        // CP_SCRATCH_TO_REG: two from number 3 to those from number 0 on.
        pkt7(0x4D, &[0x0883 | 3 << 20 | 1 << 24]),
        scratch(),
        // CP_REG_TO_SCRATCH: number 0 to number 7.
        pkt7(0x4A, &[0x0883 | 7 << 20]),
        pkt7(0x3E, &[0x088A, lo(SIGNAL + 8), hi(SIGNAL)]),
    ]);
    assert_eq!(rig.memory.get64(SIGNAL), 5 | 6 << 32);
    assert_eq!(rig.memory.get(SIGNAL + 8), 5);
}

#[test]
fn pairs_of_registers() {
    let rig = run(&[pkt7(0x5C, &[0x0883, 9, 0x0884, 8]), scratch()]);
    assert_eq!(rig.memory.get64(SIGNAL), 9 | 8 << 32);
}

#[test]
fn conditions() {
    let write = |function: u32, poll: u32, at: u64, reference: u32, mask: u32| {
        let head = [
            function | poll << 4 | 1 << 8,
            lo(at),
            hi(at),
            reference,
            mask,
        ];
        let body = [&head[..], &[lo(SIGNAL), hi(SIGNAL), 99]].concat();
        let rig = run(&[pkt4(0x0883, &[u32::MAX]), pkt7(0x45, &body)]);
        rig.memory.get(SIGNAL) == 99
    };
    for (function, below, same, above) in [
        (0, true, true, true),
        (1, true, false, false),
        (2, true, true, false),
        (3, false, true, false),
        (4, true, false, true),
        (5, false, true, true),
        (6, false, false, true),
    ] {
        for (reference, wanted) in [(21, below), (20, same), (19, above)] {
            let seen = write(function, 1, DATA + 4, reference, u32::MAX);
            assert_eq!(seen, wanted, "{function} {reference}");
        }
    }
    // The mask is for the value; numbers have signs only if asked for.
    assert!(write(3, 1, DATA + 4, 4, 4) && !write(3, 1, DATA + 4, 20, 4));
    assert!(write(6, 0, 0x0883, 5, u32::MAX) && !write(6 | 1 << 3, 0, 0x0883, 5, u32::MAX));
    assert!(write(1 | 1 << 3, 0, 0x0883, 0, u32::MAX));
    // To a register.
    let head = [1 << 4 | 5, lo(DATA), hi(DATA), 1, u32::MAX, 0x0884, 0, 3];
    let rig = run(&[pkt4(0x0883, &[1, 1]), pkt7(0x45, &head), scratch()]);
    assert_eq!(rig.memory.get64(SIGNAL), 1 | 3 << 32);
}

#[test]
fn what_is_done_on_a_condition_only() {
    for (first, second, runs) in [
        (10u64, 4u32, true),
        (10, 3, true),
        (10, 5, false),
        (60, 3, false),
    ] {
        let mut rig = Rig::new("a630", 3);
        rig.memory.words(DATA, &[1, second]);
        let at = DATA + if first == 10 { 0 } else { 60 };
        let conditional = write(SIGNAL, 1);
        let words = [
            pkt7(
                0x44,
                &[
                    lo(at),
                    hi(at),
                    lo(DATA + 4),
                    hi(DATA),
                    5,
                    conditional.len() as u32,
                ],
            ),
            conditional,
            write(SIGNAL + 4, 2),
        ];
        rig.submit(&words.concat());
        rig.finish();
        assert_eq!(
            rig.memory.get64(SIGNAL),
            u64::from(runs) | 2 << 32,
            "{first} {second}"
        );
    }
}

#[test]
fn buffers_call_buffers() {
    let mut rig = Rig::new("a630", 5);
    let call = |opcode, at: u64, words: usize| pkt7(opcode, &[lo(at), hi(at), words as u32]);
    let tail = write(SIGNAL + 8, 3);
    let inner = [write(SIGNAL, 1), call(0x57, IB2 + 0x1000, tail.len())].concat();
    rig.memory.words(IB2, &inner);
    rig.memory.words(IB2 + 0x1000, &tail);
    let last = write(SIGNAL + 12, 4);
    rig.memory.words(IB2 + 0x2000, &last);
    let outer = [
        call(0x3F, IB2, inner.len()),
        call(0x3F, IB2, 0),
        write(SIGNAL + 4, 2),
        call(0x57, IB2 + 0x2000, last.len()),
    ];
    rig.submit(&outer.concat());
    rig.finish();
    assert_eq!(rig.memory.get64(SIGNAL), 1 | 2 << 32);
    assert_eq!(rig.memory.get64(SIGNAL + 8), 3 | 4 << 32);
    // Several buffers of one submission, an empty one among them, and a rest that is no word.
    rig.memory.words(IB, &write(SIGNAL, 7));
    rig.memory.words(IB2, &write(SIGNAL + 4, 8));
    rig.begin(&[(IB, 16), (IB2 + 0x2000, 0), (IB2, 19)], false);
    rig.finish();
    assert_eq!(rig.memory.get64(SIGNAL), 7 | 8 << 32);
}

#[test]
fn waits_are_over_when_memory_says_so() {
    let mut rig = Rig::new("a630", 9);
    let words = [wait(5, SIGNAL, 3, u32::MAX), write(SIGNAL + 4, 1)].concat();
    rig.submit(&words);
    for value in [0, 1, 2] {
        rig.memory.put(SIGNAL, value);
        assert!(matches!(rig.run(), Step::Waiting), "{value}");
        assert_eq!(rig.memory.get(SIGNAL + 4), 0);
    }
    rig.memory.put(SIGNAL, 3);
    rig.finish();
    assert_eq!(rig.memory.get(SIGNAL + 4), 1);
    // CP_WAIT_MEM_GTE compares with a sign.
    rig.memory.put(SIGNAL, 0x8000_0000);
    rig.submit(&pkt7(0x14, &[0, lo(SIGNAL), hi(SIGNAL), 0]));
    assert!(matches!(rig.run(), Step::Waiting));
    rig.memory.put(SIGNAL, 0);
    rig.finish();
}

#[test]
fn events_write_values_times_and_interrupts() {
    let mut rig = Rig::new("a630", 11);
    let event = |bits: u32, at: u64, value| pkt7(0x46, &[bits, lo(at), hi(at), value]);
    let words = [
        event(4 | 1 << 31, SIGNAL, 5),
        event(4 | 1 << 30, SIGNAL + 8, 0),
        event(22, SIGNAL + 16, 6),
        event(29, SIGNAL + 20, 7),
        invalidate(),
        pkt7(0x46, &[24]),
        pkt7(0x46, &[49 | 1 << 31]),
        pkt7(0x40, &[12]),
    ];
    rig.submit(&words.concat());
    rig.finish();
    assert_eq!(rig.memory.get(SIGNAL), 5);
    assert_eq!(rig.memory.get64(SIGNAL + 8), rig.clock);
    assert_eq!(rig.memory.get64(SIGNAL + 16), 6 | 7 << 32);
    rig.interrupts.sort_unstable();
    assert_eq!(rig.interrupts, [0, 0, 12]);
}

#[test]
fn more_events_than_there_is_room_for() {
    let mut rig = Rig::new("a630", 13);
    let words: Vec<u32> = (0..200).flat_map(|i| flush(SIGNAL, i)).collect();
    rig.submit(&words);
    rig.finish();
    assert_eq!(rig.memory.get(SIGNAL), 199);
}

#[test]
fn a_reset_begins_anew() {
    let mut rig = Rig::new("a630", 15);
    rig.submit(&[write(SIGNAL, 1), pkt7(0x7F, &[]), write(SIGNAL, 2)].concat());
    let text = rig.fault();
    assert!(text.contains("opcode 0x7f"), "{text}");
    assert_eq!(rig.fault(), text);
    rig.reset();
    assert!(matches!(rig.run(), Step::Idle));
    assert_eq!(rig.memory.get(SIGNAL), 1);
    rig.submit(&[pkt4(0x0883, &[1]), scratch_one()].concat());
    rig.finish();
    // Registers are gone with the reset, and with another context.
    for switched in [false, true] {
        if !switched {
            rig.reset();
        } else {
            rig.submit(&pkt4(0x0883, &[1]));
            rig.finish();
        }
        let words = scratch_one();
        rig.memory.words(IB, &words);
        rig.begin(&[(IB, 16)], switched);
        let text = rig.fault();
        assert!(text.contains("CP_SCRATCH[0] is read"), "{text}");
        rig.reset();
    }
}

fn scratch_one() -> Vec<u32> {
    pkt7(0x3E, &[0x0883, lo(SIGNAL), hi(SIGNAL)])
}
