use super::super::channel::ChannelEngine;
use super::super::tests::support::*;
use crate::engine::Cause;

const COPY: u32 = 4;
/// NON_PIPELINED, pitch layouts.
const PLAIN: u32 = 0x182;
const PIPELINED: u32 = 0x181;
const FLUSH: u32 = 1 << 2;
const ONE_WORD: u32 = 1 << 3;
const FOUR_WORDS: u32 = 2 << 3;
const MULTI_LINE: u32 = 1 << 9;
const REMAP: u32 = 1 << 10;

fn rig(seed: u64) -> Rig {
    Rig::on("ampere", ChannelEngine::Copy(0), seed)
}

/// The words of a copy.
fn copy(from: u64, to: u64, bytes: u32, launch: u32) -> Vec<u32> {
    vec![
        inc(COPY, 0x400, 4),
        (from >> 32) as u32,
        from as u32,
        (to >> 32) as u32,
        to as u32,
        inc(COPY, 0x418, 1),
        bytes,
        inc(COPY, 0x300, 1),
        launch,
    ]
}

fn signal(address: u64, value: u32, launch: u32) -> Vec<u32> {
    vec![
        inc(COPY, 0x240, 3),
        (address >> 32) as u32,
        address as u32,
        value,
        inc(COPY, 0x300, 1),
        launch,
    ]
}

#[test]
fn bytes_go_where_they_are_sent() {
    let mut rig = rig(1);
    for at in 0..0x1_0000 / 4 {
        rig.memory.put(DATA + 4 * at, at as u32 + 1);
    }
    let to = DATA + 0x4_0000;
    rig.submit(&copy(DATA + 3, to + 1, 0x1_8000, PLAIN));
    rig.finish();
    let byte = |rig: &Rig, at: u64| rig.memory.get(at & !3) >> (8 * (at & 3)) & 0xFF;
    for at in (0..0x1_8000).step_by(37).chain([0, 1, 0x1_7FFF]) {
        assert_eq!(
            byte(&rig, to + 1 + at),
            byte(&rig, DATA + 3 + at),
            "{at:#x}"
        );
    }
    assert_eq!((byte(&rig, to), byte(&rig, to + 1 + 0x1_8000)), (0, 0));
}

#[test]
fn lines_have_pitches() {
    let mut rig = rig(2);
    for at in 0..64 {
        rig.memory.put(DATA + 4 * at, 100 + at as u32);
    }
    let to = DATA + 0x1000;
    // Lines of 8 bytes, 16 apart, written 12 apart.
    rig.submit(&[inc(COPY, 0x410, 2), 16, 12, inc(COPY, 0x41C, 1), 3]);
    rig.submit(&copy(DATA, to, 8, PLAIN | MULTI_LINE));
    rig.finish();
    let words: Vec<u32> = (0..9).map(|at| rig.memory.get(to + 4 * at)).collect();
    assert_eq!(words, [100, 101, 0, 104, 105, 0, 108, 109, 0]);
}

#[test]
fn elements_are_remapped() {
    let mut rig = rig(3);
    rig.memory.write(DATA, &[0x0403_0201, 0x0807_0605]);
    let to = DATA + 0x1000;
    rig.memory.write(to, &[0xEEEE_EEEE; 4]);
    // Two components of two bytes each: Y, X, a constant, nothing.
    let components = 1 | 4 << 8 | 6 << 12 | 1 << 16 | 1 << 20 | 3 << 24;
    rig.submit(&[inc(COPY, 0x700, 3), 0x1234_ABCD, 0, components]);
    rig.submit(&copy(DATA, to, 2, PLAIN | REMAP));
    rig.finish();
    let words: Vec<u32> = (0..4).map(|at| rig.memory.get(to + 4 * at)).collect();
    assert_eq!(words, [0x0201_0403, 0xEEEE_ABCD, 0x0605_0807, 0xEEEE_ABCD]);
}

#[test]
fn constants_fill_without_a_source() {
    let mut rig = rig(4);
    let to = DATA + 0x1000;
    rig.submit(&[inc(COPY, 0x700, 3), 0x1234_5678, 0, 4 | 3 << 16]);
    rig.submit(&copy(0, to, 3, PLAIN | REMAP));
    rig.finish();
    let words: Vec<u32> = (0..4).map(|at| rig.memory.get(to + 4 * at)).collect();
    assert_eq!(words, [0x1234_5678, 0x1234_5678, 0x1234_5678, 0]);
}

#[test]
fn semaphores_of_one_and_four_words() {
    let mut rig = rig(5);
    rig.memory.put64(SIGNAL, u64::MAX);
    rig.memory.put64(SIGNAL + 16, u64::MAX);
    rig.submit(&signal(SIGNAL, 7, FLUSH | ONE_WORD));
    rig.submit(&signal(SIGNAL + 16, 9, FLUSH | FOUR_WORDS));
    // 64 bits: SEMAPHORE_PAYLOAD_SIZE.
    rig.submit(&[inc(COPY, 0x24C, 1), 3]);
    rig.submit(&signal(SIGNAL + 32, 9, FLUSH | FOUR_WORDS | 1 << 27));
    rig.finish();
    assert_eq!(rig.memory.get64(SIGNAL), 0xFFFF_FFFF_0000_0007);
    assert_eq!(rig.memory.get64(SIGNAL + 16), 9);
    let time = rig.memory.get64(SIGNAL + 24);
    assert!((1000..=rig.clock).contains(&time), "{time}");
    assert_eq!(rig.memory.get64(SIGNAL + 32), 3 << 32 | 9);
}

/// What another copy engine, or a host, sees of a copy when a signal comes.
fn early(launch: u32, seed: u64) -> bool {
    let mut rig = rig(seed);
    let bytes = 0x4_0000;
    rig.memory.put(DATA + u64::from(bytes) - 4, 77);
    let to = DATA + 0x8_0000;
    rig.submit(&copy(DATA, to, bytes, PIPELINED));
    rig.submit(&signal(SIGNAL, 1, launch));
    while rig.memory.get(SIGNAL) == 0 {
        rig.step();
    }
    rig.memory.get(to + u64::from(bytes) - 4) != 77
}

#[test]
fn a_signal_with_a_flush_comes_after_the_data() {
    assert!((0..50).all(|seed| !early(FLUSH | ONE_WORD, seed)));
    // One without may come before, and may not.
    let early: Vec<bool> = (0..50).map(|seed| early(ONE_WORD, seed)).collect();
    assert!(early.contains(&true) && early.contains(&false));
}

/// Whether a second copy has read what the first had not written yet.
fn overtakes(second: u32, seed: u64) -> bool {
    let mut rig = rig(seed);
    let bytes = 0x4_0000;
    rig.memory.put(DATA + u64::from(bytes) - 4, 5);
    let middle = DATA + 0x4_0000;
    rig.submit(&copy(DATA, middle, bytes, PLAIN));
    rig.submit(&copy(
        middle + u64::from(bytes) - 4,
        DATA + 0x8_0000,
        4,
        second,
    ));
    rig.finish();
    rig.memory.get(DATA + 0x8_0000) != 5
}

#[test]
fn only_pipelined_copies_overtake() {
    assert!((0..50).all(|seed| !overtakes(PLAIN, seed)));
    assert!((0..50).any(|seed| overtakes(PIPELINED, seed)));
}

#[test]
fn a_host_release_waits_only_if_told() {
    let late = |execute: u32, seed: u64| {
        let mut rig = rig(seed);
        let bytes = 0x4_0000;
        rig.memory.put(DATA + u64::from(bytes) - 4, 5);
        let to = DATA + 0x8_0000;
        rig.submit(&copy(DATA, to, bytes, PLAIN));
        rig.submit(&semaphore(SIGNAL, 1, execute));
        while rig.memory.get(SIGNAL) == 0 {
            rig.step();
        }
        rig.memory.get(to + u64::from(bytes) - 4) == 5
    };
    assert!((0..30).all(|seed| late(1 | 1 << 20, seed)));
    assert!((0..30).any(|seed| !late(1, seed)));
}

#[test]
fn what_is_not_simulated_is_refused() {
    let cases: &[(u32, &str)] = &[
        (0x82, "memory layout"),
        (0x102, "memory layout"),
        (PLAIN | 1 << 12, "no privileges"),
        (PLAIN | 1 << 13, "no privileges"),
        (0x183, "DATA_TRANSFER_TYPE 3"),
        (3 << 3, "CONDITIONAL_INTR"),
        (1 << 5, "INTERRUPT_TYPE 1"),
        (ONE_WORD | 1 << 19 | 10 << 14, "SEMAPHORE_REDUCTION 0xa"),
    ];
    for &(launch, wanted) in cases {
        let mut rig = rig(6);
        rig.submit(&signal(SIGNAL, 1, launch));
        let fault = rig.fault();
        assert!(fault.to_string().contains(wanted), "{wanted}: {fault}");
        assert!(fault.to_string().contains("LAUNCH_DMA"), "{fault}");
    }
    // Bits that are none, and addresses of more than 49 bits.
    for words in [
        [inc(COPY, 0x300, 1), 1 << 20],
        [inc(COPY, 0x400, 1), 1 << 17],
    ] {
        let mut rig = rig(6);
        rig.submit(&words);
        assert!(rig.fault().to_string().contains("reserved bits"));
    }
}

#[test]
fn addresses_have_57_bits_from_hopper_on() {
    let far = 1u64 << 56;
    for generation in ["hopper", "blackwell"] {
        let mut rig = Rig::on(generation, ChannelEngine::Copy(1), 7);
        rig.memory.map(far, 0x1000);
        rig.memory.put(far, 4711);
        rig.submit(&copy(far, DATA, 4, PLAIN));
        rig.finish();
        assert_eq!(rig.memory.get(DATA), 4711);
    }
}

#[test]
fn unmapped_memory_is_a_fault() {
    let mut rig = rig(8);
    rig.submit(&copy(DATA, 0x5000, 4, PLAIN));
    rig.submit(&signal(SIGNAL, 1, FLUSH | ONE_WORD));
    let fault = rig.fault();
    let Cause::Memory(page) = &fault.cause else {
        panic!("{fault}");
    };
    assert_eq!(page.address, 0x5000);
    assert!(fault.packet.contains("0x1 lines of 0x4 from"), "{fault}");
    assert_eq!(rig.memory.get(SIGNAL), 0);
}
