//! From registers and loaded state to a launch.

use super::support::*;

/// A machine with a program that numbers its groups, or another.
fn rig(program: u32, seed: u64) -> Rig {
    let rig = Rig::new("a630", seed);
    rig.memory.put(CODE, program);
    rig
}

/// Runs words on a machine with programs.
fn run(words: &[Vec<u32>]) -> Rig {
    let mut rig = rig(NUMBER, 3);
    rig.submit(&words.concat());
    rig.finish();
    rig
}

#[track_caller]
fn refused(words: &[Vec<u32>], because: &str) {
    let mut rig = rig(NUMBER, 3);
    rig.submit(&words.concat());
    let text = rig.fault();
    assert!(text.contains(because), "{text}\nnot: {because}");
}

#[test]
fn every_group_runs_once() {
    for seed in 0..8 {
        let mut rig = rig(NUMBER, seed);
        rig.submit(&[launch([5, 3, 2], DATA, 0), flush(SIGNAL, 1)].concat());
        rig.finish();
        for i in 0..30 {
            assert_eq!(rig.memory.get(DATA + 4 * i), i as u32 + 1);
        }
        assert_eq!(rig.log().len(), 30);
        let (dispatch, registers) = rig.given();
        assert_eq!(dispatch.target, "a630");
        assert_eq!((dispatch.program, dispatch.wave), (CODE, 64));
        assert_eq!((dispatch.groups, dispatch.local), ([5, 3, 2], [64, 1, 1]));
        assert_eq!(dispatch.local_memory, 2048);
        assert_eq!(registers.global, [320, 3, 2]);
        assert_eq!((registers.full_registers, registers.half_registers), (4, 0));
        assert_eq!(registers.constants, [lo(DATA), hi(DATA), 0, 0]);
    }
}

#[test]
fn a_range_may_end_in_smaller_groups() {
    let mut words = state(CODE, [3, 2, 1]);
    words.extend(pkt4(0xB991, &[150]));
    words.extend(constants(0, &[lo(DATA), hi(DATA), 0, 0]));
    words.extend(pkt7(0x31, &[0]));
    let rig = run(&[words]);
    let log = rig.log();
    assert_eq!(log.len(), 6);
    for (dispatch, [x, ..]) in log {
        assert_eq!(dispatch.local, [if x == 2 { 22 } else { 64 }, 1, 1]);
    }
}

#[test]
fn groups_may_be_in_memory() {
    let indirect = |local: u32| {
        [
            state(CODE, [2, 3, 1]),
            constants(0, &[lo(DATA), hi(DATA), 0, 0]),
            pkt7(0x41, &[0, lo(ARGS), hi(ARGS), local << 2]),
        ]
    };
    let mut rig = rig(NUMBER, 1);
    rig.memory.words(ARGS, &[2, 3, 1]);
    rig.submit(&indirect(63).concat());
    rig.finish();
    assert_eq!(rig.log().len(), 6);
    rig.submit(&indirect(62).concat());
    assert!(
        rig.fault()
            .contains("the local size is 0xf8 in the packet and 0xff")
    );
}

#[test]
fn state_stays_until_it_is_dropped() {
    let again = [exec([1; 3]), wait_for_idle()].concat();
    let rig = run(&[launch([1; 3], DATA, 0), again.clone()]);
    assert_eq!(rig.log().len(), 2);
    // Constants are loaded in parts, and the program reads those up to CONSTLEN.
    let rig = run(&[
        state(CODE, [1; 3]),
        constants(1, &[5, 6, 7, 8, 9, 10, 11, 12]),
        constants(0, &[lo(DATA), hi(DATA), 3, 4]),
        constants(200, &[1; 4]),
        exec([1; 3]),
    ]);
    let (_, registers) = rig.given();
    assert_eq!(registers.constants.len(), 4 * 64);
    assert_eq!(
        registers.constants[2..12],
        [3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    );
    assert!(registers.constants[12..].iter().all(|&c| c == 0));
    let program = [pkt4(0xBB08, &[0x60]), again];
    refused(
        &[launch([1; 3], DATA, 0), program.concat()],
        "no instructions were loaded",
    );
    // What was queued before is dropped with the rest; images are apart.
    let mut rig = super::launches::rig(NUMBER, 3);
    let words = [
        state(CODE, [1; 3]),
        constants(0, &[1; 4]),
        pkt4(0xBB08, &[0x20]),
        load(0, 0xD, 1, CODE),
        exec([1; 3]),
    ];
    rig.submit(&words.concat());
    assert!(rig.fault().contains("Write of 0x0"));
    assert!(rig.given().1.constants.is_empty());
}

#[test]
fn descriptors_are_loaded_or_fetched() {
    let mut rig = rig(NUMBER, 2);
    for i in 0..16 {
        rig.memory.put(DATA + 0x100 + 4 * i, 100 + i as u32);
        rig.memory.put(DATA + 0x140 + 4 * i, 200 + i as u32);
        rig.memory.put(DATA + 0x180 + 4 * i, 300 + i as u32);
    }
    let words = [
        state(CODE, [1; 3]),
        constants(0, &[lo(SIGNAL), hi(SIGNAL), 0, 0]),
        // One of two textures is loaded, the other one is in the table.
        load(1, 0x5, 1, DATA + 0x100),
        pkt4(0xA9E6, &[lo(DATA + 0x100), hi(DATA)]),
        load(0, 0x5, 1, DATA + 0x180),
        pkt4(0xB180, &[0x3000, 5]),
        load(3, 0xD, 1, DATA + 0x140),
        pkt4(0xA9BA, &[0x80]),
        pkt4(0xAA00, &[0x40]),
        pkt4(0xA9BB, &[1 << 8 | 2 << 9 | 1 << 17 | 1 << 22]),
        exec([1; 3]),
    ];
    rig.submit(&words.concat());
    rig.finish();
    let (_, registers) = rig.given();
    let row = |from: u32| std::array::from_fn(|i| from + i as u32);
    assert_eq!(registers.textures, [row(100), row(200)]);
    assert_eq!(registers.images, [row(200)]);
    assert_eq!(registers.samplers, [[300, 301, 302, 303]]);
    let mut without = words;
    without[3] = Vec::new();
    refused(&without, "texture 1 of 2 was not loaded");
    without[5] = Vec::new();
    refused(&without, "no SP_PS_TP_BORDER_COLOR_BASE_ADDR");
    without[7] = pkt4(0xA9BA, &[0]);
    refused(&without, "SP_CS_TEX_COUNT is 0, and 2 are used");
    without[7] = pkt4(0xB309, &[1]);
    refused(&without, "SP_CS_TEX_COUNT was not set");
}

#[test]
fn registers_that_do_not_fit_together() {
    let with = |register: u32, value: u32| {
        [
            state(CODE, [1; 3]),
            constants(0, &[lo(DATA), hi(DATA), 0, 0]),
            pkt4(register, &[value]),
            exec([1; 3]),
        ]
    };
    for (register, value, because) in [
        (0xA9BB, 0, "SP_CS_CONFIG lacks ENABLED"),
        (0xA9BB, 0x101, "bindless"),
        (0xB987, 16, "HLSQ_CS_CNTL lacks ENABLED"),
        (0xAB00, 0xD, "shared constants"),
        (0xBB11, 1, "shared constants"),
        (
            0xA9B0,
            4 << 7 | 1 << 20,
            "THREADSIZE is 1 in SP_CS_CTRL_REG0 and 0 in HLSQ_CS_CNTL_1",
        ),
        (0xB998, 0xFC | 1 << 10, "THREADSIZE_SCALAR"),
        (0xB990, 63 << 2, "KERNELDIM is 0"),
        (
            0xB990,
            3 | 31 << 2,
            "1 groups of 32 items in X, and GLOBALSIZE_X is 64",
        ),
        (0xB992, 64, "GLOBALOFF_X is 64"),
        (0xB993, 2, "1 groups of 1 items in Y, and GLOBALSIZE_Y is 2"),
        (
            0xB997,
            0xFC_FCCC00 | 0x20,
            "WGIDCONSTID is r8.x; it has to be r48 or higher",
        ),
        (0xB997, 0x00FC_20C0, "WGSIZECONSTID is r8.x"),
        (0xA9B1, 3 << 5, "CONSTLEN_512 is for A7xx"),
        (0xB987, 0x100 | 65, "CONSTLEN is 260 vectors"),
        (0xA9BC, 0, "the first instruction is byte 0x0 of 0x0"),
        (0xA9B3, 0x80, "the first instruction is byte 0x80 of 0x80"),
        (0xA9B3, 4, "the first instruction is byte 0x4 of 0x80"),
        (
            0xA9B4,
            0x2000_0020,
            "instructions were loaded from 0x520000000, and SP_CS_OBJ_START is 0x520000020",
        ),
    ] {
        refused(&with(register, value), because);
    }
    let room = [
        state(CODE, [1; 3]),
        pkt4(0xA9B1, &[1]),
        pkt4(0xB987, &[0x100 | 33]),
    ];
    refused(
        &[room.concat(), exec([1; 3])],
        "CONSTLEN is 132 vectors, and CONSTANTRAMMODE leaves room for 128",
    );
    refused(
        &[state(CODE, [1; 3]), exec([0, 1, 1])],
        "GLOBALSIZE_X is 64",
    );
    let mut plain = state(CODE, [1; 3]);
    plain.splice(0..2, pkt7(0x10, &[0]));
    refused(
        &[plain, exec([1; 3])],
        "CP_SET_MARKER has not said RM6_COMPUTE",
    );
    refused(
        &[pkt7(0x65, &[8]), exec([1; 3])],
        "SP_CS_CONFIG was not set by this context",
    );
}

#[test]
fn markers_and_registers_do_not_outlive_what_they_are_of() {
    let mut rig = rig(NUMBER, 3);
    rig.submit(&launch([1; 3], DATA, 0));
    rig.finish();
    // The marker is of a submission, registers are of a context.
    rig.submit(&exec([1; 3]));
    assert!(rig.fault().contains("CP_SET_MARKER"));
    rig.reset();
    rig.submit(&launch([1; 3], DATA, 0));
    rig.finish();
    rig.submit(&[pkt7(0x65, &[8]), exec([1; 3])].concat());
    rig.finish();
    let words = [pkt7(0x65, &[8]), exec([1; 3])].concat();
    rig.memory.words(IB, &words);
    rig.begin(&[(IB, 4 * words.len() as u64)], true);
    assert!(rig.fault().contains("SP_CS_CONFIG was not set"));
}

#[test]
fn a_groups_waves_have_to_fit() {
    let with = |local: u32, control: u32, hlsq: u32| {
        [
            state(CODE, [1; 3]),
            constants(0, &[lo(DATA), hi(DATA), 0, 0]),
            pkt4(0xB990, &[3 | (local - 1) << 2, local]),
            pkt4(0xA9B0, &[control]),
            pkt4(0xB998, &[0xFC | hlsq]),
            exec([1; 3]),
        ]
    };
    // 96 vectors of four for two waves: 12 registers leave room for 16 waves, 13 for 14.
    run(&with(1024, 12 << 7, 0));
    refused(
        &with(1024, 13 << 7, 0),
        "1024 items with 13 registers each does not fit: 14 waves of 64",
    );
    run(&with(896, 13 << 7, 0));
    // Half registers take half, unless they are merged.
    refused(&with(1024, 12 << 7 | 1 << 1, 0), "with 13 registers");
    run(&with(1024, 12 << 7 | 60 << 1 | 1 << 31, 0));
    // Waves of 128 take twice as many each.
    let rig = run(&with(1024, 12 << 7 | 1 << 20, 1 << 9));
    assert_eq!(rig.given().0.wave, 128);
    refused(&with(1024, 25 << 7 | 1 << 20, 1 << 9), "does not fit");
}

#[test]
fn private_memory_has_to_be_there() {
    const STACK: u64 = 0x5_4000_0000;
    let with = |item: u32, total: u32, offset: u32| {
        [
            state(CODE, [1; 3]),
            constants(0, &[lo(DATA), hi(DATA), 0, 0]),
            pkt4(0xA9B6, &[item, lo(STACK), hi(STACK), total]),
            pkt4(0xA9BD, &[offset]),
            exec([1; 3]),
        ]
    };
    // 512 bytes for 2048 fibers of two shader processors: 1 MiB each.
    let mut rig = rig(NUMBER, 3);
    rig.memory.map(STACK, 2 << 20);
    rig.submit(&with(1, 256, 512).concat());
    rig.finish();
    let (_, registers) = rig.given();
    assert_eq!(registers.fiber_bytes, 512);
    assert_eq!(registers.fiber_memory, Some((STACK, 1 << 20)));
    refused(&with(1, 256, 512), "Write of 0x540000000: NotPresent");
    refused(
        &with(1, 255, 512),
        "take 0x100000 bytes of each shader processor; there are 0xff000",
    );
    refused(
        &with(1, 256, 511),
        "the hardware's stack at 0xff800 is within",
    );
    let mut short = Rig::new("a630", 3);
    short.memory.put(CODE, NUMBER);
    short.memory.map(STACK, (2 << 20) - 0x1000);
    short.submit(&with(1, 256, 512).concat());
    let text = short.fault();
    assert!(text.contains("Write of 0x5401fffff: NotPresent"), "{text}");
}

#[test]
fn local_memory_holds_what_was_there() {
    let mut rig = rig(LOCAL, 3);
    for (size, bytes) in [(1, 2048), (0, 32 << 10), (31, 32 << 10)] {
        let words = [
            launch([1; 3], DATA, 0),
            pkt4(0xA9B1, &[size | 2 << 5]),
            exec([1; 3]),
            flush(SIGNAL, 1),
        ];
        rig.submit(&words.concat());
        rig.finish();
        let last = rig.log().last().cloned().expect("a group");
        assert_eq!(last.0.local_memory, bytes);
    }
    assert_eq!(rig.memory.get(DATA) & 0xFF, 0x77);
}

#[test]
fn programs_that_nobody_knows_and_code_that_is_not_there() {
    let mut rig = Rig::new("a650", 3);
    rig.submit(&launch([1; 3], DATA, 0));
    let text = rig.fault();
    assert!(
        text.contains("nobody can run the program at 0x520000000"),
        "{text}"
    );
    assert!(text.contains("CP_EXEC_CS at"), "{text}");
    let mut rig = Rig::new("a660", 3);
    let mut words = state(HOLE, [1; 3]);
    words.extend(exec([1; 3]));
    rig.submit(&words);
    assert!(rig.fault().contains("Execute of 0x600000000: NotPresent"));
    // Constants that are not there are the load's fault.
    let mut rig = Rig::new("a630", 3);
    let words = [state(CODE, [1; 3]), load(1, 0xD, 1, HOLE), exec([1; 3])];
    rig.submit(&words.concat());
    let text = rig.fault();
    assert!(text.contains("Read of 0x600000000: NotPresent"), "{text}");
    assert!(text.contains("CP_LOAD_STATE6_FRAG at"), "{text}");
}

#[test]
fn a_programs_fault_is_its_launchs() {
    let mut rig = rig(COPY, 3);
    rig.submit(&launch([1; 3], HOLE, DATA));
    let text = rig.fault();
    assert!(text.contains("Read of 0x600000000"), "{text}");
    assert!(text.contains("NGROUPS_X = 0x1"), "{text}");
    let mut rig = Rig::new("a630", 3);
    rig.memory.put(CODE, 77);
    rig.submit(&launch([1; 3], DATA, 0));
    assert!(rig.fault().contains("program: what is 77?"));
}
