//! Text of any words, and packets that survive decoding, encoding and decoding.

use super::*;
use crate::chips::CHIPS;
use hcq_nostd::patch::PatchList;
use hcq_nostd::record::Recorder;
use proptest::prelude::*;
use std::string::ToString;
use std::vec::Vec;

fn streams() -> Vec<Stream> {
    let mut all: Vec<Stream> = CHIPS.iter().map(Stream::Pm4).collect();
    all.extend(CHIPS.iter().map(|c| Stream::Sdma(c.sdma)));
    all.push(Stream::Sdma(sdma::Version::new(9, 9, 9)));
    all.push(Stream::Aql);
    all
}

#[test]
fn lines_have_the_vendors_names() {
    let chip = Chip::named("gfx1100").expect("a known chip");
    let words = [
        0xc005_3c00,
        0x45,
        0xe26,
        0xe27,
        4,
        4,
        4,
        0xc006_5800,
        0,
        u32::MAX,
        0xff,
        0,
        0,
        0,
        0xc3f1,
        0xc006_4900,
        0x0070_f514,
        0x2000_0000,
        0xbcde_f010,
        0x7f2a,
        7,
        0,
        0,
        0xc002_3f00,
        0x1000,
        2,
        0x0080_0019,
        0xc000_7b00,
        0,
    ];
    assert_eq!(Dump::new(Stream::Pm4(chip), &words).to_string(), "\
0x0000: WAIT_REG_MEM WR_WAIT_WR_REG REQ=GPU_HDP_FLUSH_REQ(0xe26) DONE=GPU_HDP_FLUSH_DONE(0xe27) FUNCTION=>= REFERENCE=0x4 MASK=0x4 POLL_INTERVAL=4
0x0007: ACQUIRE_MEM GCR_CNTL=0xc3f1(GLI_INV_ALL | GLM_WB | GLM_INV | GLK_WB | GLK_INV | GLV_INV | GL1_INV | GL2_INV | GL2_WB) all POLL_INTERVAL=0
0x000f: RELEASE_MEM EVENT=CACHE_FLUSH_AND_INV_TS FLUSH=0x70f000(GLM_WB | GLM_INV | GLV_INV | GL1_INV | GL2_INV | GL2_WB | SEQ_FORWARD) DATA_SEL=32 ADDR=0x7f2abcdef010 DATA=0x7
0x0017: INDIRECT_BUFFER IB_BASE=0x200001000 IB_SIZE=25 VALID
0x001b: ?? 0xc0007b00: no packet has the opcode 0x7b
");
    let words = [
        1, 0xfff, 0, 0x1000, 1, 0x2000, 2, 0x3_0005, 0x10, 0x7f00, 9, 6, 3, 0xff,
    ];
    assert_eq!(
        Dump::new(Stream::Sdma(chip.sdma), &words).to_string(),
        "\
0x0000: COPY LINEAR count=0x1000 SRC_ADDR=0x100001000 DST_ADDR=0x200002000
0x0007: FENCE ADDR=0x7f0000000010 DATA=0x9
0x000b: TRAP INT_CONTEXT=0x3
0x000d: ?? 0x000000ff: no packet has the opcode 0xff
"
    );
    let mut words = [0; 20];
    words[..12].copy_from_slice(&[
        0x3_1502,
        0x2_0040,
        1,
        0x100,
        4,
        1,
        0,
        0x800,
        0x1_1300,
        0x7f44,
        0x4500_0000,
        0x812,
    ]);
    assert_eq!(Dump::new(Stream::Aql, &words).to_string(), "\
0x0000: KERNEL_DISPATCH barrier=1 acquire=system release=system workgroup_size=64,2,1 grid_size=256,4,1 private_segment_size=0x0 group_segment_size=0x800 kernel_object=0x7f4400011300 kernarg_address=0x81245000000
0x0010: ?? 0x00000000: a packet of 16 words ends after 4
");
}

/// Words that are packets more often than any words are.
fn likely() -> impl Strategy<Value = Vec<u32>> {
    let opcodes = [
        0x10u32, 0x15, 0x23, 0x3c, 0x3f, 0x40, 0x46, 0x49, 0x58, 0x76, 0x79,
    ];
    let word = prop_oneof![
        4 => any::<u32>(),
        2 => 0u32..32,
        1 => (prop::sample::select(opcodes.to_vec()), 0u32..8).prop_map(|(op, n)| 3 << 30 | n << 16 | op << 8),
        1 => (0u32..16, 0u32..4).prop_map(|(op, sub)| op | sub << 8),
        1 => Just(u32::MAX),
    ];
    proptest::collection::vec(word, 0..64)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 1000 }) })]

    /// Every line starts with the place of a packet, and the places cover all words.
    #[test]
    fn any_words_have_a_text(words in likely()) {
        for stream in streams() {
            let text = Dump::new(stream, &words).to_string();
            let mut last = None;
            for line in text.lines() {
                let (at, rest) = line.split_once(": ").expect("a place");
                let at = usize::from_str_radix(at.trim_start_matches("0x"), 16).expect("a number");
                prop_assert!(last.is_none_or(|l| l < at) && at < words.len().max(1) && !rest.is_empty());
                last = Some(at);
            }
            prop_assert_eq!(last.is_some(), !words.is_empty());
        }
    }

    /// Lines hand out every word once, in order, and say themselves whether they are packets.
    #[test]
    fn lines_cover_the_words(words in likely()) {
        for stream in streams() {
            let mut covered = Vec::new();
            for line in Dump::new(stream, &words).lines() {
                prop_assert_eq!(line.at, covered.len());
                prop_assert!(!line.words.is_empty());
                covered.extend_from_slice(line.words);
                prop_assert_eq!(line.malformed().is_some(), line.to_string().starts_with("??"));
            }
            prop_assert_eq!(&covered, &words);
        }
    }

    #[test]
    fn packets_come_back(words in likely()) {
        for at in 0..words.len() {
            let rest = &words[at..];
            if let Ok((packet, len)) = pm4::Packet::decode(rest) {
                let mut again = std::vec![0xa5a5_a5a5; len];
                let mut recorder = Recorder::new(&mut again, PatchList::none());
                recorder.command(|c| packet.record(c)).expect("what was decoded can be recorded");
                let (n, _) = recorder.finish();
                prop_assert_eq!(n, len);
                prop_assert_eq!(pm4::Packet::decode(&again), Ok((packet, len)));
                // A NOP's body holds anything.
                if !matches!(packet, pm4::Packet::Nop(_)) {
                    prop_assert_eq!(&again, &rest[..len]);
                }
            }
            let version = sdma::Version::new(6, 0, 0);
            if let Ok((packet, len)) = sdma::Packet::decode(rest, version) {
                let mut again = std::vec![0xa5a5_a5a5; len];
                let mut recorder = Recorder::new(&mut again, PatchList::none());
                recorder.command(|c| packet.record(c, version)).expect("what was decoded can be recorded");
                if !matches!(packet, sdma::Packet::Nop(_)) {
                    prop_assert_eq!(&again, &rest[..len]);
                }
            }
            if let Some(words) = rest.first_chunk()
                && let Ok(packet) = aql::Packet::decode(words)
                && packet != aql::Packet::Invalid
            {
                prop_assert_eq!(packet.words(), Some(*words));
            }
        }
    }
}
