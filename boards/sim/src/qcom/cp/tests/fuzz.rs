//! Whatever is in a command buffer: no panic, no step without an end, and a queue that has stopped stays stopped.

use proptest::collection::vec;
use proptest::prelude::*;

use super::support::*;
use crate::engine::Step;

const OPCODES: [u32; 28] = [
    0x10, 0x12, 0x13, 0x14, 0x21, 0x26, 0x31, 0x33, 0x34, 0x3C, 0x3D, 0x3E, 0x3F, 0x40, 0x41, 0x42,
    0x44, 0x45, 0x46, 0x4A, 0x4C, 0x4D, 0x57, 0x5C, 0x65, 0x73, 0x75, 0x22,
];

/// Words that look like something: small numbers, single bits, addresses that are there, registers.
fn word() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        0u32..64,
        (0u32..32).prop_map(|bit| 1 << bit),
        Just(u32::MAX),
        Just(5),
        (0u32..0x400).prop_map(|at| lo(DATA) + 4 * at),
        (0u32..0x40).prop_map(|at| lo(IB2) + 4 * at),
        0x0883u32..0x088B,
        0xA9B0u32..0xA9F4,
        0xB987u32..0xB99C,
        (0u32..4, 0u32..40)
            .prop_map(|(kind, units)| kind << 14 | 2 << 16 | 0xD << 18 | units << 22),
    ]
}

fn any_packet() -> impl Strategy<Value = Vec<u32>> {
    prop_oneof![
        1 => vec(word(), 1..4),
        8 => (prop::sample::select(&OPCODES[..]), vec(word(), 0..9))
            .prop_map(|(opcode, body)| pkt7(opcode, &body)),
        3 => (0xA9B0u32..0xB9A0, vec(word(), 1..5)).prop_map(|(register, values)| pkt4(register, &values)),
        2 => Just(launch([3, 2, 1], DATA, SIGNAL)),
        1 => Just([state(CODE, [2, 1, 1]), pkt7(0x31, &[0])].concat()),
        2 => prop_oneof![Just(wait_for_idle()), Just(flush(SIGNAL, 1)), Just(invalidate())],
        1 => Just(pkt7(0x3F, &[lo(IB2), hi(IB2), 32])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn command_buffers(
        chip in prop::sample::select(&["a630", "a650", "a660"][..]),
        first in vec(any_packet(), 1..12),
        second in vec(any_packet(), 1..12),
        seed in any::<u64>(),
        program in 0u32..6,
        again in any::<bool>(),
    ) {
        let mut rig = Rig::new(chip, seed);
        rig.memory.put(CODE, program);
        rig.memory.words(IB2, &second.concat());
        for _ in 0..1 + u32::from(again) {
            rig.submit(&first.concat());
            let mut stopped = None;
            for _ in 0..300 {
                match rig.step() {
                    Step::Fault(fault) => {
                        prop_assert!(!fault.packet.is_empty());
                        let text = fault.to_string();
                        prop_assert_eq!(stopped.get_or_insert_with(|| text.clone()), &text);
                    }
                    _ => prop_assert!(stopped.is_none()),
                }
            }
            rig.reset();
            prop_assert!(matches!(rig.step(), Step::Idle));
        }
    }

    #[test]
    fn words(words in vec(any::<u32>(), 1..200), seed in any::<u64>()) {
        let mut rig = Rig::new("a630", seed);
        rig.submit(&words);
        for _ in 0..100 {
            rig.step();
        }
    }
}
