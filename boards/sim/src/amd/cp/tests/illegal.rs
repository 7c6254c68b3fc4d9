//! What stops a queue, and with which words.

use super::support::*;

/// A packet, and what the report has to say of it.
struct Case {
    target: &'static str,
    words: Vec<u32>,
    says: &'static [&'static str],
}

fn case(target: &'static str, words: Vec<u32>, says: &'static [&'static str]) -> Case {
    Case {
        target,
        words,
        says,
    }
}

fn check(cases: Vec<Case>) {
    for Case {
        target,
        words,
        says,
    } in cases
    {
        let mut rig = Rig::pm4(target, 1, 1);
        rig.memory.put(CODE, NUMBER);
        rig.submit(&words);
        let text = rig.fault();
        for part in says {
            assert!(
                text.contains(part),
                "{target} {words:08x?}: {part:?} is not in:\n{text}"
            );
        }
    }
}

fn with(mut words: Vec<u32>, at: usize, bits: u32) -> Vec<u32> {
    words[at] ^= bits;
    words
}

#[test]
fn headers() {
    check(vec![
        case("gfx942", vec![0], &["illegal packet", "type-0"]),
        case("gfx942", vec![1 << 30], &["illegal packet", "type-1"]),
        // SET_CONTEXT_REG, DRAW_INDEX_AUTO, MEM_SEMAPHORE: graphics, or gone.
        case(
            "gfx1100",
            packet(0x69, &[0, 0]),
            &["opcode 0x69", "gfx1100"],
        ),
        case("gfx1100", packet(0x2D, &[0, 0]), &["opcode 0x2d"]),
        case("gfx942", packet(0x39, &[0, 0, 0]), &["opcode 0x39"]),
        // There is no PRED_EXEC from gfx10 on.
        case("gfx1100", packet(0x23, &[1 << 24]), &["opcode 0x23"]),
        case("gfx942", with(flush(), 0, 1), &["reserved bits 0x1"]),
        case("gfx942", with(flush(), 0, 4), &["reserved bits 0x4"]),
        case("gfx942", with(packet(0x10, &[0]), 0, 1), &["NOP", "0x1"]),
        // Counts.
        case("gfx942", packet(0x46, &[0x407, 0]), &["3 words, not 2"]),
        case("gfx942", packet(0x15, &[1, 1, 1]), &["4 words, not 5"]),
        case(
            "gfx942",
            packet(0x76, &[0x240]),
            &["2 words, not 3 or more"],
        ),
        case(
            "gfx942",
            packet(0x37, &[0x500, 0, 0]),
            &["4 words, not 5 or more"],
        ),
        // gfx9's ACQUIRE_MEM has no GCR_CNTL, the others' has.
        case("gfx942", packet(0x58, &[0; 7]), &["8 words, not 7"]),
        case("gfx1201", packet(0x58, &[0; 6]), &["7 words, not 8"]),
    ]);
    // Bit 1 says that a packet is of a compute queue (PACKET3_COMPUTE).
    let mut rig = Rig::pm4("gfx942", 1, 1);
    rig.submit(&with(flush(), 0, 2));
    rig.finish();
}

/// Every bit of every word of a packet that is none of its fields is refused.
#[test]
fn reserved_bits() {
    let acquire9 = packet(0x58, &[0, u32::MAX, 0xFF, 0, 0, 10]);
    let acquire11 = packet(0x58, &[0, u32::MAX, 0xFF, 0, 0, 10, 0]);
    type Reserved = &'static [(usize, u32)];
    let cases: [(&str, Vec<u32>, Reserved); 10] = [
        ("gfx942", flush(), &[(1, 0x7FFF_F0C0)]),
        (
            "gfx942",
            acquire9,
            &[(1, 0x8133_7FC7), (5, 0xFF00_0000), (6, 0xFFFF_0000)],
        ),
        (
            "gfx1100",
            acquire11,
            &[
                (1, u32::MAX),
                (5, 0xFF00_0000),
                (6, 0xFFFF_0000),
                (7, 0xFFF8_0000),
            ],
        ),
        (
            "gfx942",
            release(0, DATA, 1),
            &[(1, 0xE9C4_40C0), (2, 0x18FC_FFFF), (3, 3)],
        ),
        (
            "gfx1201",
            release(0, DATA, 1),
            &[(1, 0x2800_00C0), (2, 0x18FC_FFFF), (3, 3)],
        ),
        (
            "gfx942",
            wait(3, DATA, 0, u32::MAX),
            &[(1, 0xFFFF_FF08), (2, 3), (6, 0x7FFF_0000)],
        ),
        (
            "gfx1100",
            wait(3, DATA, 0, u32::MAX),
            &[(1, 0xF9FF_FF08), (2, 3), (6, 0x7FFF_0000)],
        ),
        (
            "gfx1100",
            indirect(BUFFER, 1),
            &[(1, 3), (2, 0xFFFF_0000), (3, 0xC040_0000)],
        ),
        ("gfx1100", write_data(DATA, 0), &[(1, 0xF9EE_F0FF), (2, 3)]),
        ("gfx1100", set_sh(0x2E40, &[0]), &[(1, 0xFFFF_0000)]),
    ];
    for (target, words, reserved) in cases {
        for &(word, bits) in reserved {
            for bit in (0..32).map(|bit| 1 << bit).filter(|bit| bits & bit != 0) {
                let mut rig = Rig::pm4(target, 1, 1);
                rig.submit(&with(words.clone(), word, bit));
                let text = rig.fault();
                let says = format!("reserved bits {bit:#010x}");
                assert!(
                    text.contains(&says),
                    "{target} word {word}: {says} is not in:\n{text}"
                );
            }
        }
    }
}

#[test]
fn releases() {
    let release_as =
        |first: u32, select: u32| packet(0x49, &[first, select, lo(DATA), hi(DATA), 1, 0, 0]);
    let end = 0x14 | 5 << 8;
    check(vec![
        case("gfx942", release_as(0x14, 1 << 29), &["event_index 0"]),
        case(
            "gfx942",
            release_as(0x07 | 5 << 8, 1 << 29),
            &["event_type 0x7"],
        ),
        case(
            "gfx942",
            release_as(0x14 | 6 << 8, 1 << 29),
            &["event_index 6"],
        ),
        case(
            "gfx942",
            release_as(end | 2 << 25, 1 << 29),
            &["cache_policy"],
        ),
        case(
            "gfx942",
            release_as(end | 1 << 28, 1 << 29),
            &["pq_exe_status"],
        ),
        case("gfx942", release_as(end, 1 << 29 | 1 << 16), &["dst_sel"]),
        case("gfx942", release_as(end, 5 << 29), &["data_sel 5"]),
        case("gfx942", release_as(end, 1 << 29 | 1 << 24), &["int_sel 1"]),
        case("gfx942", release_as(end, 1 << 29 | 4 << 24), &["int_sel 4"]),
        case(
            "gfx1100",
            release_as(end | 1 << 31, 1 << 29),
            &["pws_enable"],
        ),
        case("gfx1100", release_as(end | 3 << 22, 1 << 29), &["seq = 3"]),
        case(
            "gfx1201",
            release_as(end | 1 << 19, 1 << 29),
            &["gl2_discard"],
        ),
        // 64 bits lie on a multiple of 8.
        case(
            "gfx942",
            packet(0x49, &[end, 2 << 29, lo(DATA + 4), hi(DATA), 1, 0, 0]),
            &["reserved bits 0x00000004"],
        ),
        // Somewhere else: the event faults, with its packet.
        case(
            "gfx942",
            release(0, 0x1000, 1),
            &[
                "memory violation: Write of 0x1000",
                "RELEASE_MEM",
                "int_ctxid",
            ],
        ),
    ]);
    // Policies 2 and 3 are of gfx10 and up.
    let mut rig = Rig::pm4("gfx1100", 1, 1);
    rig.submit(&release_as(end | 3 << 25, 1 << 29));
    rig.finish();
}

#[test]
fn acquires() {
    let gfx9 = |coher: u32, size: [u32; 2], base: u32| {
        packet(0x58, &[coher, size[0], size[1], base, 0, 10])
    };
    let gfx11 = |gcr: u32, size: [u32; 2]| packet(0x58, &[0, size[0], size[1], 0, 0, 10, gcr]);
    let all = [u32::MAX, 0xFF];
    check(vec![
        case(
            "gfx942",
            gfx9(1 << 22, [0x1000, 0], 0),
            &["not all of memory"],
        ),
        case("gfx942", gfx9(1 << 22, all, 1), &["not all of memory"]),
        case(
            "gfx942",
            gfx9(1 << 22, [0x1000, 0x100], 0),
            &["coher_size_hi is 0x100"],
        ),
        case("gfx1100", gfx11(2, all), &["gli_inv = 2"]),
        case("gfx1100", gfx11(2 << 11, all), &["gl2_range"]),
        case("gfx1100", gfx11(1 << 18, all), &["range_is_pa"]),
        case("gfx1100", gfx11(1 << 13, all), &["gl2_discard"]),
        case("gfx1100", gfx11(3 << 16, all), &["seq = 3"]),
        case("gfx1100", gfx11(1 << 14, [0, 0x1_0000]), &["coher_size_hi"]),
    ]);
    // The kernel and other runtimes fill more of the word than there is.
    for high in [0xFF, 0x00FF_FFFF, u32::MAX] {
        let mut rig = Rig::pm4("gfx942", 1, 1);
        rig.submit(&gfx9(0x28C4_0000, [u32::MAX, high], 0));
        rig.finish();
        let mut rig = Rig::pm4("gfx1201", 1, 1);
        rig.submit(&gfx11(0xC3F1, [u32::MAX, high]));
        rig.finish();
    }
}

#[test]
fn waits_copies_and_events() {
    let copy = |control: u32| packet(0x40, &[control, 0, 0, lo(DATA), hi(DATA)]);
    let flush_pair = |request: u32, done: u32, value: u32, mask: u32| {
        packet(0x3C, &[3 | 1 << 6, request, done, value, mask, 4])
    };
    check(vec![
        case("gfx942", wait(7, DATA, 0, 0), &["function 7"]),
        case("gfx942", wait(3, DATA, 0x100, 0xFF), &["never ends"]),
        case("gfx942", wait(1, DATA, 0, u32::MAX), &["never ends"]),
        case("gfx942", wait(6, DATA, u32::MAX, u32::MAX), &["never ends"]),
        case(
            "gfx942",
            wait(3, 0x2000, 0, 1),
            &["memory violation: Read of 0x2000"],
        ),
        case("gfx942", flush_pair(0xE26, 0xE28, 4, 4), &["0xe28"]),
        case("gfx942", flush_pair(0xE27, 0xE26, 4, 4), &["0xe27"]),
        case(
            "gfx942",
            packet(0x3C, &[3, 0xE26, 0, 4, 4, 4]),
            &["register 0xe26"],
        ),
        case(
            "gfx942",
            packet(0x3C, &[3 | 2 << 4, 0, 0, 0, 0, 4]),
            &["mem_space 2"],
        ),
        case("gfx942", copy(5), &["dst_sel 0"]),
        case("gfx942", copy(5 | 3 << 8), &["dst_sel 3"]),
        case("gfx942", copy(5 << 8), &["src_sel 0"]),
        case("gfx942", copy(4 | 5 << 8), &["src_sel 4"]),
        case("gfx942", copy(6 | 5 << 8), &["src_sel 6"]),
        case("gfx942", copy(9 | 5 << 8 | 1 << 29), &["pq_exe_status"]),
        case("gfx942", packet(0x37, &[0, 0, 0, 0]), &["dst_sel 0"]),
        case("gfx942", packet(0x46, &[7]), &["event_index 0"]),
        case(
            "gfx942",
            packet(0x46, &[0x10 | 4 << 8]),
            &["event_type 0x10"],
        ),
        case("gfx942", packet(0x46, &[0x35]), &["event_type 0x35"]),
    ]);
}

#[test]
fn registers() {
    let uconfig = |register: u32, value: u32| packet(0x79, &[register - 0xC000, value]);
    check(vec![
        // COMPUTE_VMID is the kernel's; COMPUTE_DISPATCH_INITIATOR comes with its packet.
        case("gfx942", set_sh(0x2E14, &[1]), &["register 0x2e14"]),
        case("gfx1100", set_sh(0x2E00, &[1]), &["register 0x2e00"]),
        // COMPUTE_PGM_RSRC3 is elsewhere on the other generation.
        case("gfx942", set_sh(0x2E28, &[0]), &["register 0x2e28"]),
        case("gfx1100", set_sh(0x2E2D, &[0]), &["register 0x2e2d"]),
        // Past the last user register, and past the space.
        case("gfx942", set_sh(0x2E4F, &[0, 0]), &["register 0x2e50"]),
        case("gfx942", packet(0x76, &[0xFFFF, 0]), &["past the end"]),
        // Bits: WAVESIZE has 13, 15 and 18 bits.
        case(
            "gfx942",
            set_sh(0x2E18, &[1 << 25]),
            &["COMPUTE_TMPRING_SIZE", "0x02000000"],
        ),
        case(
            "gfx1151",
            set_sh(0x2E18, &[1 << 27]),
            &["COMPUTE_TMPRING_SIZE", "0x08000000"],
        ),
        case(
            "gfx1201",
            set_sh(0x2E18, &[1 << 30]),
            &["COMPUTE_TMPRING_SIZE", "0x40000000"],
        ),
        case("gfx942", set_sh(0x2E0C, &[0, 0x100]), &["COMPUTE_PGM_HI"]),
        case(
            "gfx942",
            set_sh(0x2E12, &[1 << 29]),
            &["COMPUTE_PGM_RSRC1", "gfx942"],
        ),
        case(
            "gfx1100",
            set_sh(0x2E13, &[1 << 31]),
            &["COMPUTE_PGM_RSRC2"],
        ),
        case("gfx942", set_sh(0x2E2D, &[1 << 6]), &["COMPUTE_PGM_RSRC3"]),
        case("gfx942", uconfig(0xC201, 0), &["register 0xc201"]),
        case("gfx1201", uconfig(0xC200, 1 << 10), &["GRBM_GFX_INDEX"]),
    ]);
    let mut rig = Rig::pm4("gfx942", 1, 1);
    rig.submit(&[uconfig(0xC200, 0xE000_0000), uconfig(0xC342, 7)].concat());
    rig.finish();
}

#[test]
fn buffers() {
    let buffer = |words: Vec<u32>| {
        let mut rig = Rig::pm4("gfx942", 8, 1);
        rig.words(BUFFER, &words);
        rig.submit(&indirect(BUFFER, words.len() as u32));
        rig.fault()
    };
    let call = |bits: u32| packet(0x3F, &[lo(BUFFER), hi(BUFFER), bits]);
    check(vec![
        case("gfx942", call(4), &["not valid"]),
        case("gfx942", call(1 << 23), &["no words"]),
        case("gfx942", call(1 << 23 | 1 << 20 | 1), &["chain"]),
        case("gfx942", call(1 << 23 | 1 << 24 | 1), &["vmid"]),
        case("gfx942", call(1 << 23 | 1 << 21 | 1), &["offload_polling"]),
        case("gfx942", indirect(0x4000, 1), &["Read of 0x4000"]),
        // PRED_EXEC works in an indirect buffer only.
        case(
            "gfx942",
            packet(0x23, &[1 << 24]),
            &["PRED_EXEC", "in the ring"],
        ),
    ]);
    let text = buffer(indirect(BUFFER + 0x1000, 1));
    assert!(text.contains("one level"), "{text}");
    assert!(text.contains("in an indirect buffer"), "{text}");
    assert!(text.contains("XCC 0 of 8"), "{text}");
    let chain = packet(0x3F, &[lo(BUFFER), hi(BUFFER), 1 << 23 | 1 << 20 | 1]);
    let text = buffer([chain, flush()].concat());
    assert!(text.contains("leaves 2 words"), "{text}");
    let text = buffer(write_data(DATA, 1)[..3].to_vec());
    assert!(text.contains("5 words, of which 3 are there"), "{text}");
    let text = buffer(packet(0x23, &[1 << 24 | 3]));
    assert!(text.contains("the buffer has 0 left"), "{text}");
    let text = buffer([packet(0x23, &[1 << 24 | 3]), write_data(DATA, 1)].concat());
    assert!(text.contains("PRED_EXEC ends after 3"), "{text}");
    let inner = [
        packet(0x23, &[1 << 24 | 4]),
        packet(0x23, &[1 << 24 | 2]),
        flush(),
    ]
    .concat();
    let text = buffer(inner);
    assert!(text.contains("within the words of another"), "{text}");
}

#[test]
fn a_report_shows_the_packet() {
    let mut rig = Rig::pm4("gfx942", 1, 1);
    rig.submit(&[flush(), wait(3, DATA, 0x100, 0xFF)].concat());
    let text = rig.fault();
    let at = format!("WAIT_REG_MEM at {:#x}, in the ring", RING + 8);
    for part in [
        at.as_str(),
        "words: c0053c00 00000013 00030000 00007f00 00000100 000000ff 00000004",
        "function = 0x3",
        "mem_space = 0x1",
        "reference = 0x100",
        "poll_interval = 0x4",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}
