//! What is not taken, and what the report says.

use super::support::*;

fn fault(words: &[u32]) -> String {
    let mut rig = Rig::new("a630", 1);
    rig.submit(words);
    rig.fault()
}

#[track_caller]
fn refused(words: &[u32], because: &str) {
    let text = fault(words);
    assert!(text.contains(because), "{text}\nnot: {because}");
}

#[test]
fn headers() {
    let nop = pkt7(0x10, &[])[0];
    let register = pkt4(0x0883, &[1]);
    for (word, because) in [
        (0, "type 4 and 7, this is of 0"),
        (0xC000_1000, "this is of 12"),
        (nop ^ 1 << 15, "the count 0 has the wrong parity"),
        (nop ^ 1 << 23, "the opcode 0x10 has the wrong parity"),
        (nop ^ 1, "the count 1 has the wrong parity"),
        (nop ^ 1 << 16, "the opcode 0x11 has the wrong parity"),
        (nop | 1 << 14, "bits 14 and 27:24 are reserved"),
        (nop | 1 << 24, "bits 14 and 27:24 are reserved"),
        (register[0] ^ 1 << 7, "the count 1 has the wrong parity"),
        (
            register[0] ^ 1 << 27,
            "the register 0x0883 has the wrong parity",
        ),
        (
            register[0] ^ 1 << 8,
            "the register 0x0882 has the wrong parity",
        ),
        (register[0] | 1 << 26, "bit 26 is reserved"),
        (register[0] ^ 1 ^ 1 << 7, "no registers"),
    ] {
        refused(&[word, 0, 0], because);
    }
    refused(
        &pkt7(0x10, &[0; 9])[..9],
        "a packet of 10 words, but the buffer has 9 left",
    );
}

#[test]
fn commands() {
    for (opcode, name) in [
        (0x22, "CP_DRAW_INDX is not taken here"),
        (0x32, "CP_LOAD_STATE6_GEOM is not taken here"),
        (0x53, "CP_SMMU_TABLE_UPDATE is not taken here"),
        (0x5F, "CP_SET_PROTECTED_MODE is not taken here"),
        (0x7E, "opcode 0x7e is none that A6xx has"),
    ] {
        refused(&pkt7(opcode, &[0]), name);
    }
    for (words, because) in [
        (
            pkt7(0x26, &[0]),
            "CP_WAIT_FOR_IDLE: 1 words behind the header; there have to be 0",
        ),
        (
            pkt7(0x33, &[0, 1, 1]),
            "CP_EXEC_CS: 3 words behind the header",
        ),
        (pkt7(0x3D, &[lo(DATA), 5]), "CP_MEM_WRITE: 2 words"),
        (
            pkt7(0x33, &[1, 1, 1, 1]),
            "CP_EXEC_CS: word 1 is 0x00000001: reserved bits 0x00000001",
        ),
        (
            pkt7(0x31, &[2]),
            "CP_RUN_OPENCL: word 1 is 0x00000002: reserved",
        ),
        (
            pkt7(0x3E, &[0x0883, lo(DATA) | 1, 5]),
            "CP_REG_TO_MEM: word 2",
        ),
        (
            pkt7(0x3E, &[0x0980 | 3 << 18 | 1 << 30, lo(DATA), 5]),
            "64B with CNT 3",
        ),
        (
            pkt7(0x3E, &[0x0800, lo(DATA), 5]),
            "register 0x0800 is protected",
        ),
        (
            pkt7(0x3E, &[0x0210, lo(DATA), 5]),
            "register 0x0210 is read, which is not simulated",
        ),
        (
            pkt7(0x3E, &[0x0883, lo(DATA), 5]),
            "CP_SCRATCH[0] is read, and nobody has set it",
        ),
        (
            pkt7(0x42, &[0x0980, lo(DATA), 5]),
            "CP_ALWAYS_ON_COUNTER_LO is protected",
        ),
        (pkt7(0x65, &[0]), "CP_SET_MARKER: MODE 0x0 is none"),
        (
            pkt7(0x65, &[0xD]),
            "CP_SET_MARKER: MODE 0xd is for the kernel's own commands",
        ),
        (pkt7(0x65, &[0x20]), "CP_SET_MARKER: word 1"),
        (pkt7(0x65, &[0x102]), "IFPC_MODE 0x2"),
        (wait(7, DATA, 0, 0), "FUNCTION 7 is none"),
        (wait(3, DATA + 2, 0, 0), "is no multiple of 4"),
        (
            pkt7(0x3C, &[3 | 2 << 4, lo(DATA), 5, 0, 0, 0]),
            "POLL 2 is not simulated",
        ),
        (
            pkt7(0x3C, &[3 | 1 << 4 | 1 << 8, lo(DATA), 5, 0, 0, 0]),
            "WRITE_MEMORY is for CP_COND_WRITE5",
        ),
        (
            pkt7(0x3C, &[3, 0, 1, 0, 0, 0]),
            "there is no register 0x100000000",
        ),
        (pkt7(0x46, &[4]), "event 4 with 1 words behind the header"),
        (pkt7(0x46, &[49, 0, 0, 0]), "event 49 with 4 words"),
        (pkt7(0x46, &[49 | 1 << 30]), "event 49 with 1 words"),
        (pkt7(0x46, &[5]), "event 5 is none of compute work"),
        (
            pkt7(0x46, &[4 | 1 << 29, 0, 0, 0]),
            "CP_EVENT_WRITE: word 1",
        ),
        (
            pkt7(0x46, &[4 | 1 << 30, lo(DATA + 4), 5, 0]),
            "is no multiple of 8",
        ),
        (
            pkt7(0x73, &[0, lo(DATA), 5, lo(DATA), 5, lo(DATA)]),
            "half an address",
        ),
        (
            pkt7(0x73, &[1 << 29, lo(DATA + 4), 5, lo(DATA), 5]),
            "is no multiple of 8",
        ),
        (
            pkt7(0x44, &[lo(DATA), 5, lo(DATA), 5, 1, 9]),
            "9 words, but the buffer has 0 left",
        ),
        (
            pkt7(0x4C, &[7 << 20, 1, 2]),
            "scratch registers 7 to 8; there are 8",
        ),
        (
            pkt7(0x5C, &[0x0883, 1, 0x0884]),
            "a register without a value",
        ),
    ] {
        refused(&words, because);
    }
    let chain = [pkt7(0x57, &[lo(IB2), 5, 1]), pkt7(0x10, &[])].concat();
    refused(&chain, "CP_INDIRECT_BUFFER_CHAIN: leaves 1 words");
}

#[test]
fn calls_have_two_levels() {
    let mut rig = Rig::new("a630", 1);
    let call = pkt7(0x3F, &[lo(IB2), hi(IB2), 4]);
    rig.memory.words(IB2, &call);
    rig.submit(&call);
    let text = rig.fault();
    assert!(
        text.contains("in a buffer of level 2, the last there is"),
        "{text}"
    );
    assert!(text.contains("in an IB of level 2"), "{text}");
}

#[test]
fn registers() {
    for (register, value, because) in [
        (0x0800, 0, "register 0x0800 is protected"),
        (0x0980, 0, "CP_ALWAYS_ON_COUNTER_LO is protected"),
        (
            0xA800,
            0,
            "register 0xa800 is none that compute work sets here",
        ),
        (
            0xA9B1,
            0x80,
            "SP_CS_CTRL_REG1 = 0x00000080: reserved bits 0x00000080",
        ),
        (0xA9B4, 0x10, "SP_CS_OBJ_START_LO = 0x00000010: reserved"),
        (0xA9BB, 0x10, "SP_CS_CONFIG = 0x00000010: reserved"),
        (0xB987, 0x200, "HLSQ_CS_CNTL = 0x00000200: reserved"),
    ] {
        refused(&pkt4(register, &[value]), because);
    }
    // All or none of a write.
    let mut rig = Rig::new("a630", 1);
    rig.submit(&pkt4(0x088A, &[1, 2]));
    assert!(rig.fault().contains("register 0x088b"));
}

#[test]
fn loads() {
    let load = |word: u32, more: &[u32]| pkt7(0x34, &[&[word, lo(DATA), 5], more].concat());
    for (words, because) in [
        (load(0xD << 18 | 1 << 14 | 2 << 16, &[]), "NUM_UNIT is 0"),
        (
            load(0x8 << 18 | 1 << 22 | 2 << 16, &[]),
            "STATE_BLOCK 0x8 with STATE_TYPE 0 is none of compute programs",
        ),
        (
            load(0xD << 18 | 2 << 14 | 1 << 22 | 2 << 16, &[]),
            "ST6_UBO is not simulated",
        ),
        (
            load(0xD << 18 | 1 << 14 | 1 << 22 | 1 << 16, &[]),
            "STATE_SRC 1 is not simulated",
        ),
        (
            load(0xD << 18 | 1 << 14 | 1 << 22 | 2 << 16 | 256, &[]),
            "units 256 to 256 of Constants; there are 256",
        ),
        (
            load(0xD << 18 | 1 << 14 | 1 << 22, &[1, 2, 3]),
            "3 words of data; 1 units of Constants have 4",
        ),
        (
            load(0xD << 18 | 1 << 14 | 1 << 22 | 2 << 16, &[1]),
            "1 words behind the address",
        ),
        (
            load(0xD << 18 | 1 << 22, &[0; 32]),
            "instructions within a packet",
        ),
        (
            load(0xD << 18 | 1 << 22 | 2 << 16 | 1, &[]),
            "not the program's first",
        ),
        (
            pkt7(
                0x34,
                &[0xD << 18 | 1 << 14 | 1 << 22 | 2 << 16, lo(DATA) | 8, 5],
            ),
            "is no multiple of 16",
        ),
    ] {
        refused(&words, because);
    }
}

#[test]
fn memory() {
    for (words, because) in [
        (write(HOLE, 1), "Write of 0x600000000: NotPresent"),
        (write(FIXED, 1), "Write of 0x610000000: ReadOnly"),
        (flush(HOLE, 1), "Write of 0x600000000: NotPresent"),
        (wait(3, HOLE, 0, 0), "Read of 0x600000000: NotPresent"),
        (
            pkt7(0x3F, &[lo(HOLE), 6, 1]),
            "Read of 0x600000000: NotPresent",
        ),
        (
            pkt7(0x75, &[1, lo(HOLE), 6, lo(DATA), 5]),
            "CP_MEMCPY at 0x530000000",
        ),
        (pkt7(0x75, &[1, lo(DATA), 5, lo(FIXED), 6]), "ReadOnly"),
    ] {
        refused(&words, because);
    }
    let mut rig = Rig::new("a630", 1);
    rig.begin(&[(HOLE, 4)], false);
    let text = rig.fault();
    assert!(
        text.contains("no packet at 0x600000000, in an IB of level 1"),
        "{text}"
    );
}

#[test]
fn a_report_shows_the_packet() {
    let text = fault(&[write(DATA, 1), wait(7, DATA, 5, 0xFF)].concat());
    for line in [
        "illegal packet: FUNCTION 7 is none",
        "CP_WAIT_REG_MEM at 0x530000010, in an IB of level 1",
        "words: 70bc8006 00000017 11000000 00000005 00000005 000000ff 00000020",
        "FUNCTION = 0x7",
        "POLL = 0x1",
        "REF = 0x5",
    ] {
        assert!(text.contains(line), "{text}\nlacks {line}");
    }
    let text = fault(&pkt4(0xA9B0, &[0x280, 0xFF]));
    assert!(
        text.contains("write of 2 registers at 0x530000000"),
        "{text}"
    );
    assert!(
        text.contains("SP_CS_CTRL_REG0 = 0x280\n  SP_CS_CTRL_REG1 = 0xff"),
        "{text}"
    );
}
