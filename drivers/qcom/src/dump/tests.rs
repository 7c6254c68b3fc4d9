//! Text of any words, and packets that survive decoding, encoding and decoding.

use super::*;
use crate::pm4::op;
use hcq_nostd::patch::PatchList;
use hcq_nostd::record::Recorder;
use proptest::prelude::*;
use std::string::ToString;
use std::vec::Vec;

const GENERATIONS: [Generation; 2] = [Generation::A6xx, Generation::A7xx];

#[test]
fn lines_have_freedrenos_names() {
    let words = [
        0x70e5_0001,
        8,
        0x70bc_8006,
        0x15,
        0x0010_0040,
        5,
        3,
        u32::MAX,
        0x20,
        0x7034_8003,
        0x4036_4000,
        0x1000_0000,
        5,
        0x40b1_8002,
        0x3000,
        5,
        0x703e_8003,
        0x4008_0980,
        0x48,
        5,
        0x7046_0004,
        4,
        0x0010_0040,
        5,
        7,
        0x7046_0001,
        0x31,
        0x70b3_0004,
        0,
        4,
        2,
        1,
        0x70bf_8003,
        0x1000,
        5,
        9,
        0x4000_0101,
        1,
        0x7035_8000,
    ];
    assert_eq!(Dump::new(Generation::A6xx, &words).to_string(), "\
0x0000: CP_SET_MARKER MODE=RM6_COMPUTE
0x0002: CP_WAIT_REG_MEM POLL_ADDR=0x500100040 FUNCTION=>= REF=0x3 MASK=0xffffffff DELAY_LOOP_CYCLES=32
0x0009: CP_LOAD_STATE6_FRAG SB6_CS_SHADER ST6_CONSTANTS NUM_UNIT=256 EXT_SRC_ADDR=0x510000000
0x000d: PKT4 SP_PS_TP_BORDER_COLOR_BASE_ADDR(0xb180)=0x3000 SP_PS_TP_BORDER_COLOR_BASE_ADDR+1(0xb181)=0x5
0x0010: CP_REG_TO_MEM REG=CP_ALWAYS_ON_COUNTER(0x980) CNT=2 64B DEST=0x500000048
0x0014: CP_EVENT_WRITE EVENT=CACHE_FLUSH_TS ADDR=0x500100040 VALUE=0x7
0x0019: CP_EVENT_WRITE EVENT=CACHE_INVALIDATE
0x001b: CP_EXEC_CS NGROUPS=0x4,0x2,0x1
0x0020: CP_INDIRECT_BUFFER IB_BASE=0x500001000 IB_SIZE=9
0x0024: PKT4 reg(0x1)=0x1
0x0026: ?? 0x70358000: 0x70358000 has a wrong parity bit
");
}

/// Words that are packets more often than any words are.
fn likely() -> impl Strategy<Value = Vec<u32>> {
    let opcodes = [
        op::NOP,
        op::WAIT_MEM_WRITES,
        op::WAIT_FOR_IDLE,
        op::RUN_OPENCL,
        op::EXEC_CS,
        op::LOAD_STATE6_FRAG,
        op::WAIT_REG_MEM,
        op::MEM_WRITE,
        op::REG_TO_MEM,
        op::INDIRECT_BUFFER,
        op::EVENT_WRITE,
        op::SET_MARKER,
        0x7f,
    ];
    let command = (prop::sample::select(opcodes.to_vec()), 0u32..8)
        .prop_map(|(op, n)| Header::command(op, n).expect("fits").word());
    let registers =
        (0u32..1 << 18, 1u32..8).prop_map(|(r, n)| Header::registers(r, n).expect("fits").word());
    let states = [
        0x4036_4000u32,
        0x01b6_0000,
        0x0056_0000,
        0x0054_4000,
        0x0076_c000,
    ];
    let word = prop_oneof![
        3 => any::<u32>(),
        3 => (0u32..32).prop_map(|n| n << 4),
        3 => 0u32..32,
        1 => prop::sample::select(std::vec![4u32, 0x31, 0x0800_0004, 0x0810_0004, 0x0830_0016, 0x0840_0001, 0x0000_7015, 0x32, 0x4008_0980, 8]),
        1 => prop::sample::select(states.to_vec()),
        4 => command,
        2 => registers,
        1 => Just(u32::MAX),
    ];
    proptest::collection::vec(word, 0..64)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 1000 }) })]

    /// Lines hand out every word once, in order, and say themselves whether they are packets.
    #[test]
    fn any_words_have_a_text(words in likely()) {
        for generation in GENERATIONS {
            let dump = Dump::new(generation, &words);
            let mut covered = Vec::new();
            for line in dump.lines() {
                prop_assert_eq!(line.at, covered.len());
                prop_assert!(!line.words.is_empty());
                covered.extend_from_slice(line.words);
                prop_assert_eq!(line.malformed().is_some(), line.to_string().starts_with("??"));
            }
            prop_assert_eq!(&covered, &words);
            prop_assert_eq!(dump.to_string().lines().count(), dump.lines().count());
        }
    }

    #[test]
    fn packets_come_back(words in likely()) {
        for (at, generation) in (0..words.len()).flat_map(|at| GENERATIONS.map(|g| (at, g))) {
            let rest = &words[at..];
            let Ok((packet, len)) = Packet::decode(rest, generation) else {
                continue;
            };
            let mut again = std::vec![0xa5a5_a5a5; len];
            let mut recorder = Recorder::new(&mut again, PatchList::none());
            recorder.command(|c| packet.record(c)).expect("what was decoded can be recorded");
            prop_assert_eq!(recorder.finish().0, len);
            prop_assert_eq!(&again, &rest[..len]);
        }
    }

    /// One bit of a header that is another one is seen.
    #[test]
    fn a_flipped_bit_makes_another_header_or_none(register in 0u32..1 << 18, count in 1u32..128, bit in 0u32..32) {
        for header in [Header::registers(register, count), Header::command(0x46, count)] {
            let header = header.expect("fits");
            prop_assert_eq!(Header::parse(header.word()), Ok(header));
            prop_assert!(Header::parse(header.word() ^ 1 << bit).is_err());
        }
    }
}
