use super::*;
use std::string::ToString;
use std::vec::Vec;

#[test]
fn methods_have_the_vendor_s_names() {
    let words = [
        0x2005_0017,
        0x2000_0040,
        0x10,
        5,
        0,
        0x0100_0003, //
        0x2001_25a6,
        0x1011, //
        0x2005_0017,
        0x2000_0050,
        0x10,
        9,
        0,
        0x0310_0001, //
        0x2001_0008,
        0, //
        0x2001_2000,
        0xc9c0, //
        0x2002_21ec,
        0x7293,
        0, //
        0x2003_20b9,
        0,
        0x8000,
        0xff, //
        0x2003_8090,
        0x10,
        0x2000_0040,
        0x2a, //
        0x2001_80c0,
        0x14,        //
        0x8003_2044, //
        0x2002_2060,
        1,
        2, //
        0x2005_0017,
        0x41,
        0x10,
        9,
        0,
        0x0310_0001, //
        0x2005_0017,
    ];
    assert_eq!(
        Dump::new(&words).to_string(),
        "\
0x0000: SEM_EXECUTE ACQ_CIRC_GEQ ADDR=0x1020000040 PAYLOAD=0x5 64BIT
0x0006: INVALIDATE_SHADER_CACHES_NO_WFI INSTRUCTION | GLOBAL_DATA | CONSTANT
0x0008: SEM_EXECUTE RELEASE ADDR=0x1020000050 PAYLOAD=0x9 64BIT RELEASE_WFI RELEASE_TIMESTAMP
0x000e: NON_STALL_INTERRUPT
0x0010: SET_OBJECT CLASS_ID=0xc9c0
0x0012: SET_SHADER_LOCAL_MEMORY_WINDOW BASE_ADDRESS=0x729300000000
0x0015: SET_SHADER_LOCAL_MEMORY_NON_THROTTLED SIZE=0x8000 MAX_SM_COUNT=0xff
0x0019: SET_SEMAPHORE ADDR=0x1020000040 PAYLOAD=0x2a 32BIT
0x001d: LAUNCH_DMA DATA_TRANSFER_TYPE=NONE FLUSH_ENABLE SEMAPHORE_TYPE=WITH_TIMESTAMP
0x001f: METHOD SUBCHANNEL=1 0x110=0x3
0x0020: METHOD SUBCHANNEL=1 0x180=0x1 0x184=0x2
0x0023: ?? 0x20050017: word 1 holds reserved bits or values: 0x00000041
0x0029: ?? 0x20050017: a command of 6 words ends after 1
"
    );
}

/// Random words are text, and what is decoded is recorded as the same words.
#[test]
fn random_words_never_panic_and_decode_to_themselves() {
    use hcq_nostd::patch::PatchList;
    use hcq_nostd::record::Recorder;

    let headers = [
        0x2005_0017u32,
        0x2001_001e,
        0x2001_0008,
        0x2001_2000,
        0x2002_20a8,
        0x2002_21ec,
        0x2002_21e4,
        0x2003_20b9,
        0x2001_20ad,
        0x2001_20b0,
        0x2001_25a6,
        0x2003_8090,
        0x2004_8090,
        0x2004_8100,
        0x2008_8100,
        0x2001_8106,
        0x2001_80c0,
        0x2001_2050,
    ];
    let mut state = 0x1234_5678_9abc_def1u64;
    let mut next = || {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 33) as u32
    };
    let (mut same, mut refused) = (0, 0);
    for round in 0..2000 {
        let words: Vec<u32> = (0..32)
            .map(|i| match (next() % 4, i % 3) {
                (0, _) => next(),
                (1, _) => next() & 0xff,
                (2, _) => next() & next() & next(),
                _ => headers[next() as usize % headers.len()],
            })
            .collect();
        assert!(!Dump::new(&words).to_string().is_empty(), "{round}");
        let mut at = 0;
        while at < words.len() {
            match Packet::decode(&words[at..]) {
                Ok((packet, len)) => {
                    let mut out = [0; 64];
                    let mut recorder = Recorder::new(&mut out, PatchList::none());
                    // A field may hold more bits than this driver gives it a value for.
                    if recorder.command(|c| packet.record(c)).is_ok() {
                        assert_eq!(recorder.words(), &words[at..at + len], "{packet}");
                        same += 1;
                    }
                    at += len;
                }
                Err(_) => {
                    refused += 1;
                    at += 1;
                }
            }
        }
    }
    assert!(same > 1000 && refused > 1000, "{same} and {refused}");
}
