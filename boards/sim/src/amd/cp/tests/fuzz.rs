//! Whatever is in a ring: no panic, no step without an end, and a queue that has stopped stays stopped.

use proptest::collection::vec;
use proptest::prelude::*;

use super::support::*;
use crate::engine::Step;

const TARGETS: [&str; 5] = ["gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201"];
const OPCODES: [u32; 13] = [
    0x10, 0x15, 0x23, 0x37, 0x3C, 0x3F, 0x40, 0x46, 0x49, 0x58, 0x76, 0x79, 0x1E,
];

/// Words that look like something: small numbers, single bits, addresses that are there.
fn word() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        0u32..64,
        (0u32..32).prop_map(|bit| 1 << bit),
        Just(u32::MAX),
        Just(hi(DATA)),
        (0u32..0x1000).prop_map(|at| lo(DATA) + 4 * at),
        (0u32..0x1000).prop_map(|at| lo(BUFFER) + 4 * at),
        Just(1 << 23 | 16),
        (0x200u32..0x260),
    ]
}

/// A packet whose header fits its body, most of the time.
fn any_packet() -> impl Strategy<Value = Vec<u32>> {
    prop_oneof![
        1 => vec(word(), 1..4),
        8 => (prop::sample::select(&OPCODES[..]), vec(word(), 1..9))
            .prop_map(|(opcode, body)| packet(opcode, &body)),
        2 => Just([state(CODE, DATA), dispatch([3, 2, 1])].concat()),
        2 => prop_oneof![Just(flush()), Just(release(1 << 15, SIGNAL, 1)), Just(indirect(BUFFER, 32))],
    ]
}

fn steps(rig: &mut Rig) {
    let mut stopped = None;
    for _ in 0..300 {
        match rig.step() {
            Step::Fault(fault) => {
                let text = fault.to_string();
                assert!(!fault.packet.is_empty());
                assert_eq!(*stopped.get_or_insert_with(|| text.clone()), text);
            }
            _ => assert!(stopped.is_none()),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pm4(
        target in prop::sample::select(&TARGETS[..]),
        ring in vec(any_packet(), 1..12),
        buffer in vec(any_packet(), 1..12),
        seed in any::<u64>(),
        program in 0u32..6,
    ) {
        let mut rig = Rig::pm4(target, 8, seed);
        rig.memory.put(CODE, program);
        rig.words(BUFFER, &buffer.concat());
        rig.submit(&ring.concat());
        steps(&mut rig);
    }

    #[test]
    fn aql(
        target in prop::sample::select(&TARGETS[..]),
        xccs in 1u8..=8,
        slots in vec((0u32..0x2000, vec(word(), 15)), 1..12),
        buffer in vec(any_packet(), 1..12),
        seed in any::<u64>(),
        program in 0u32..6,
    ) {
        let mut rig = Rig::aql(target, xccs, seed);
        rig.memory.put(CODE, program);
        rig.words(BUFFER, &buffer.concat());
        // A packet that is good, so that something is in flight.
        let call = buffer.concat().len() as u32;
        let mut good = vec![1 << 16];
        good.extend(indirect(BUFFER, call));
        good.extend([10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        rig.push(&good);
        for (header, rest) in slots {
            // Types that there are, most of the time.
            let mut slot = vec![header & !0xF8 | header >> 8 << 16];
            slot.extend(rest);
            rig.push(&slot);
        }
        rig.ring();
        steps(&mut rig);
    }

    #[test]
    fn pointers(
        doorbells in vec((any::<u64>(), 0u64..0x2000, any::<bool>()), 1..8),
        aql in any::<bool>(),
    ) {
        let mut rig = if aql { Rig::aql("gfx942", 8, 1) } else { Rig::pm4("gfx942", 8, 1) };
        for (wild, near, pick) in doorbells {
            rig.doorbell = if pick { wild } else { near };
            rig.memory.put64(WRITE, rig.doorbell.wrapping_add(u64::from(aql)));
            steps_or_stop(&mut rig);
        }
    }
}

fn steps_or_stop(rig: &mut Rig) {
    for _ in 0..50 {
        if !matches!(rig.step(), Step::Progress) {
            break;
        }
    }
}
