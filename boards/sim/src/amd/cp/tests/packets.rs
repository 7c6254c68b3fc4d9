//! Single packets.

use super::support::*;
use crate::engine::Step;

const TARGETS: [&str; 5] = ["gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201"];

#[test]
fn chips_and_their_names() {
    for target in TARGETS {
        assert!(Rig::pm4(target, 1, 0).engine.is_some());
        assert!(Rig::aql(target, 1, 0).engine.is_some());
    }
    for target in ["gfx90a", "gfx1100 ", "", "gfx12"] {
        assert!(Rig::pm4(target, 1, 0).engine.is_none());
        assert!(Rig::aql(target, 1, 0).engine.is_none());
    }
    for xccs in [0, 9] {
        assert!(Rig::pm4("gfx942", xccs, 0).engine.is_none());
        assert!(Rig::aql("gfx942", xccs, 0).engine.is_none());
    }
}

#[test]
fn fillers_and_nops_skip() {
    let mut rig = Rig::pm4("gfx1100", 1, 1);
    let mut words = vec![2 << 30, 0xFFFF_1000, 0x8000_0000];
    // A NOP over three words that are no packets.
    words.extend(packet(0x10, &[0xDEAD_BEEF, 0, u32::MAX]));
    words.extend(write_data(DATA, 9));
    rig.submit(&words);
    rig.finish();
    assert_eq!(rig.memory.get(DATA), 9);
    assert_eq!(rig.memory.get64(READ), words.len() as u64);
}

#[test]
fn the_read_pointer_follows_and_the_ring_wraps() {
    let mut rig = Rig::pm4("gfx1100", 1, 2);
    // Three words left at the end: the next packet is cut by it.
    rig.submit(&packet(0x10, &vec![0; 1020]));
    rig.finish();
    assert_eq!(rig.memory.get64(READ), 1021);
    for turn in 1..2000 {
        rig.submit(&write_data(DATA + 4 * (turn % 16), turn as u32));
        rig.finish();
        assert_eq!(rig.memory.get64(READ), 1021 + 5 * turn);
        assert_eq!(rig.memory.get(DATA + 4 * (turn % 16)), turn as u32);
    }
}

#[test]
fn a_full_ring_is_taken_and_no_more() {
    let mut rig = Rig::pm4("gfx942", 1, 3);
    rig.submit(&packet(0x10, &vec![0; 1023]));
    rig.finish();
    assert_eq!(rig.memory.get64(READ), 1024);
    rig.push(&packet(0x10, &vec![0; 1024]));
    rig.ring();
    let text = rig.fault();
    assert!(text.contains("more than the ring has"), "{text}");
}

#[test]
fn the_doorbell_does_not_go_back_and_does_not_come_first() {
    let mut rig = Rig::pm4("gfx942", 1, 4);
    rig.submit(&packet(0x10, &[0, 0]));
    rig.finish();
    rig.doorbell = 1;
    let text = rig.fault();
    assert!(text.contains("goes back"), "{text}");

    let mut rig = Rig::pm4("gfx942", 1, 4);
    rig.push(&packet(0x10, &[0, 0]));
    rig.doorbell = 3;
    let text = rig.fault();
    assert!(text.contains("write pointer in memory"), "{text}");
}

#[test]
fn a_packet_has_to_be_whole() {
    let mut rig = Rig::pm4("gfx942", 1, 5);
    rig.push(&write_data(DATA, 1)[..4]);
    rig.ring();
    let text = rig.fault();
    assert!(text.contains("5 words, of which 4 are there"), "{text}");
    assert!(text.contains("WRITE_DATA"), "{text}");
    // It stays stopped.
    assert!(matches!(rig.step(), Step::Fault(_)));
}

#[test]
fn waits_compare_unsigned_under_the_mask() {
    // Function, value, reference, mask, satisfied.
    let cases = [
        (0, 5, 9, u32::MAX, true),
        (1, 5, 6, u32::MAX, true),
        (1, 6, 6, u32::MAX, false),
        (2, 6, 6, u32::MAX, true),
        (3, 0x1234, 0x34, 0xFF, true),
        (3, 0x1235, 0x34, 0xFF, false),
        (4, 0x1234, 0x34, 0xFF, false),
        (5, 0x8000_0000, 5, u32::MAX, true),
        (5, 4, 5, u32::MAX, false),
        (6, 5, 5, u32::MAX, false),
        (6, u32::MAX, 5, u32::MAX, true),
    ];
    for (function, value, reference, mask, satisfied) in cases {
        let mut rig = Rig::pm4("gfx1201", 1, 6);
        rig.memory.put(DATA, value);
        rig.submit(&wait(function, DATA, reference, mask));
        let step = rig.run();
        let text = format!("{function} {value:#x} {reference:#x} {mask:#x}: {step:?}");
        assert_eq!(matches!(step, Step::Idle), satisfied, "{text}");
        assert_eq!(matches!(step, Step::Waiting), !satisfied, "{text}");
    }
}

#[test]
fn a_wait_ends_when_the_host_writes() {
    let mut rig = Rig::pm4("gfx942", 1, 7);
    rig.submit(&[wait(5, DATA, 3, u32::MAX), write_data(DATA + 4, 1)].concat());
    assert!(matches!(rig.run(), Step::Waiting));
    assert_eq!(rig.memory.get64(READ), 0);
    rig.memory.put(DATA, 3);
    rig.finish();
    assert_eq!(rig.memory.get(DATA + 4), 1);
}

#[test]
fn the_hdp_is_flushed_by_its_pair_of_registers() {
    for target in TARGETS {
        for bits in [1 << 2, u32::MAX] {
            let mut rig = Rig::pm4(target, 1, 8);
            // wr_wait_wr_reg, equal.
            let words = packet(0x3C, &[3 | 1 << 6, 0xE26, 0xE27, bits, bits, 0x20]);
            rig.submit(&words);
            rig.finish();
        }
        // DONE without REQ: the bit never comes.
        let mut rig = Rig::pm4(target, 1, 8);
        rig.submit(&packet(0x3C, &[3, 0xE27, 0, 4, 4, 0x20]));
        assert!(matches!(rig.run(), Step::Waiting));
    }
}

#[test]
fn data_is_copied_from_packet_memory_and_clock() {
    let mut rig = Rig::pm4("gfx1151", 1, 9);
    rig.clock = 0x1_2345_6789;
    rig.memory.put64(DATA + 0x80, 0x1111_2222_3333_4444);
    let copy = |control, source: u64, to: u64| {
        packet(0x40, &[control, lo(source), hi(source), lo(to), hi(to)])
    };
    rig.submit(
        &[
            copy(5 | 5 << 8 | 1 << 20, 0xABCD_0000, DATA),
            copy(5 | 5 << 8 | 1 << 16, 0x9_8765_4321, DATA + 8),
            copy(1 | 5 << 8, DATA + 0x80, DATA + 16),
            copy(1 | 5 << 8 | 1 << 16, DATA + 0x80, DATA + 24),
            copy(9 | 5 << 8 | 1 << 16, 0, DATA + 32),
            copy(9 | 5 << 8, 0, DATA + 40),
        ]
        .concat(),
    );
    rig.finish();
    assert_eq!(rig.memory.get64(DATA), 0xABCD_0000);
    assert_eq!(rig.memory.get64(DATA + 8), 0x9_8765_4321);
    assert_eq!(rig.memory.get64(DATA + 16), 0x3333_4444);
    assert_eq!(rig.memory.get64(DATA + 24), 0x1111_2222_3333_4444);
    assert_eq!(rig.memory.get64(DATA + 32), 0x1_2345_6789);
    assert_eq!(rig.memory.get64(DATA + 40), 0x2345_6789);
}

#[test]
fn write_data_writes_on_or_in_place() {
    let mut rig = Rig::pm4("gfx942", 1, 10);
    rig.submit(
        &[
            packet(0x37, &[5 << 8, lo(DATA), hi(DATA), 1, 2, 3]),
            packet(0x37, &[5 << 8 | 1 << 16, lo(DATA + 32), hi(DATA), 1, 2, 3]),
        ]
        .concat(),
    );
    rig.finish();
    let got: Vec<u32> = (0..10).map(|at| rig.memory.get(DATA + 4 * at)).collect();
    assert_eq!(got, [1, 2, 3, 0, 0, 0, 0, 0, 3, 0]);
}

#[test]
fn releases_write_what_they_select() {
    for target in TARGETS {
        let mut rig = Rig::pm4(target, 1, 11);
        rig.clock = 0x77_0000_0001;
        let event = |select: u32, to: u64, value: u64, context| {
            let first = 0x14 | 5 << 8;
            packet(
                0x49,
                &[first, select, lo(to), hi(to), lo(value), hi(value), context],
            )
        };
        rig.submit(
            &[
                event(1 << 29, DATA, 0x1_0000_0002, 0),
                event(2 << 29, DATA + 8, 0x3_0000_0004, 0),
                event(3 << 29, DATA + 16, 5, 0),
                // Interrupts: alone, after the data, data confirmed without one, with nothing to write.
                event(1 << 24, 0, 0, 21),
                event(1 << 29 | 2 << 24, DATA + 24, 6, 22),
                event(1 << 29 | 3 << 24, DATA + 32, 7, 23),
                event(2 << 24, 0, 0, 24),
            ]
            .concat(),
        );
        rig.finish();
        assert_eq!(rig.memory.get64(DATA), 2);
        assert_eq!(rig.memory.get64(DATA + 8), 0x3_0000_0004);
        assert_eq!(rig.memory.get64(DATA + 16), 0x77_0000_0001);
        assert_eq!(rig.memory.get64(DATA + 24), 6);
        assert_eq!(rig.memory.get64(DATA + 32), 7);
        assert_eq!(rig.interrupts, [21, 22, 24]);
    }
}

#[test]
fn buffers_are_called_and_chained() {
    let mut rig = Rig::pm4("gfx1100", 1, 12);
    let far = BUFFER + 0x1000;
    // The chain's last packet goes on elsewhere: INDIRECT_BUFFER with bit 20.
    let tail = write_data(DATA + 4, 2);
    let mut first = write_data(DATA, 1);
    first.extend(packet(
        0x3F,
        &[lo(far), hi(far), tail.len() as u32 | 1 << 20 | 1 << 23],
    ));
    rig.words(BUFFER, &first);
    rig.words(far, &tail);
    rig.submit(
        &[
            indirect(BUFFER, first.len() as u32),
            write_data(DATA + 8, 3),
        ]
        .concat(),
    );
    rig.finish();
    let got: Vec<u32> = (0..3).map(|at| rig.memory.get(DATA + 4 * at)).collect();
    assert_eq!(got, [1, 2, 3]);
}

#[test]
fn a_buffer_in_the_ring_itself() {
    let mut rig = Rig::pm4("gfx942", 1, 13);
    // INDIRECT_BUFFER to the body of the NOP behind it.
    let body = write_data(DATA, 5);
    let mut words = indirect(RING + 4 * 5, body.len() as u32);
    words.extend(packet(0x10, &body));
    rig.submit(&words);
    rig.finish();
    assert_eq!(rig.memory.get(DATA), 5);
    assert_eq!(rig.memory.get64(READ), words.len() as u64);
}
