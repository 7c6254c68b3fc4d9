//! AQL queues.

use super::support::*;
use crate::engine::Step;

const DESCRIPTOR: u64 = CODE - 0x100;

/// A kernel dispatch packet as its fields are laid out in `hsa_kernel_dispatch_packet_t`.
fn kernel(header: u32, local: [u32; 3], grid: [u32; 3], signal: u64) -> [u32; 16] {
    let dims = if grid[2] > 1 {
        3
    } else if grid[1] > 1 {
        2
    } else {
        1
    };
    [
        header | 2 | dims << 16,
        local[0] | local[1] << 16,
        local[2],
        grid[0],
        grid[1],
        grid[2],
        0,
        0,
        lo(DESCRIPTOR),
        hi(DESCRIPTOR),
        lo(KERNARG),
        hi(KERNARG),
        0,
        0,
        lo(signal),
        hi(signal),
    ]
}

const BARRIER: u32 = 1 << 8;
const SYSTEM: u32 = 2 << 9 | 2 << 11;
/// Properties of a kernel whose first user registers are its arguments' address.
const KERNARG_PTR: u32 = 1 << 3;

fn rig(target: &str, xccs: u8, seed: u64) -> Rig {
    let rig = Rig::aql(target, xccs, seed);
    rig.memory.put(CODE, NUMBER);
    descriptor(&rig, KERNARG_PTR, 0x84);
    rig
}

/// `kernel_descriptor_t` with these properties and `rsrc2`.
fn descriptor(rig: &Rig, properties: u32, rsrc2: u32) {
    rig.words(DESCRIPTOR, &[0; 16]);
    rig.memory.put64(DESCRIPTOR + 16, CODE - DESCRIPTOR);
    rig.words(DESCRIPTOR + 48, &[0xC0 << 12, rsrc2, properties]);
}

/// An `amd_signal_t` of kind "user".
fn signal(rig: &Rig, handle: u64, value: u64) {
    rig.memory.put64(handle, 1);
    rig.memory.put64(handle + 8, value);
}

#[test]
fn a_kernel_runs_and_completes() {
    for (target, xccs) in [
        ("gfx942", 8),
        ("gfx950", 8),
        ("gfx1100", 1),
        ("gfx1151", 1),
        ("gfx1201", 1),
    ] {
        let mut rig = rig(target, xccs, 1);
        signal(&rig, SIGNAL, 1);
        rig.memory.put64(SIGNAL + 16, DATA);
        rig.memory.put(SIGNAL + 24, 9);
        rig.submit(&kernel(SYSTEM, [4, 2, 2], [12, 4, 6], SIGNAL));
        rig.finish();
        // 3 x 2 x 3 groups.
        for group in 0..18 {
            assert_eq!(rig.memory.get(KERNARG + 4 * u64::from(group)), group + 1);
        }
        let log = rig.log();
        assert_eq!(log.len(), 18);
        let dispatch = &log[0].0;
        assert_eq!(dispatch.groups, [3, 2, 3]);
        assert_eq!(dispatch.local, [4, 2, 2]);
        assert_eq!(dispatch.program, CODE);
        assert_eq!(amd(dispatch).user_data, [lo(KERNARG), hi(KERNARG)]);
        assert_eq!(rig.memory.get64(SIGNAL + 8), 0);
        assert_eq!(rig.memory.get64(DATA), 9);
        assert_eq!(rig.interrupts, [9]);
        assert_eq!(rig.memory.get64(READ), 1);
        // The slot is free again.
        assert_eq!(rig.memory.get(RING) & 0xFFFF, 1);
    }
}

#[test]
fn user_registers_come_in_the_order_of_the_abi() {
    let mut rig = rig("gfx1100", 1, 2);
    // All but the flat scratch init, and 16 registers do not hold them all: leave out the descriptor.
    let properties = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 10;
    descriptor(&rig, properties, 9 << 1);
    rig.memory.put(CODE, COUNT);
    let mut words = kernel(BARRIER, [32, 1, 1], [32, 1, 1], 0);
    words[6] = 24;
    rig.submit(&words);
    rig.submit(&words);
    rig.finish();
    let log = rig.log();
    assert_eq!(log[1].0.wave, 32);
    let packet = RING + 64;
    let want = [packet, QUEUE, KERNARG, 1]
        .iter()
        .flat_map(|&value| [lo(value), hi(value)])
        .chain([24])
        .collect::<Vec<_>>();
    assert_eq!(amd(&log[1].0).user_data, want);
    // The queue's scratch descriptor goes first.
    let mut rig = self::rig("gfx1100", 1, 2);
    descriptor(&rig, 1 | 1 << 3, 6 << 1);
    rig.words(QUEUE + 144, &[lo(DATA), hi(DATA), 3, 4]);
    rig.submit(&kernel(0, [1, 1, 1], [1, 1, 1], 0));
    rig.finish();
    let want = [lo(DATA), hi(DATA), 3, 4, lo(KERNARG), hi(KERNARG)];
    assert_eq!(amd(&rig.log()[0].0).user_data, want);
}

#[test]
fn arguments_come_in_registers_where_they_can() {
    // Two words from the third on.
    let preload = (2 << 7 | 2) << 16;
    let mut rig = rig("gfx942", 1, 3);
    descriptor(&rig, KERNARG_PTR | preload, 4 << 1);
    rig.words(KERNARG, &[1, 2, 3, 4]);
    rig.memory.put(CODE + 0x100, NUMBER);
    rig.submit(&kernel(0, [1, 1, 1], [1, 1, 1], 0));
    rig.finish();
    let dispatch = &rig.log()[0].0;
    assert_eq!(dispatch.program, CODE + 0x100);
    assert_eq!(amd(dispatch).user_data, [lo(KERNARG), hi(KERNARG), 3, 4]);
    let mut rig = self::rig("gfx1201", 1, 3);
    descriptor(&rig, KERNARG_PTR | preload, 4 << 1);
    rig.submit(&kernel(0, [1, 1, 1], [1, 1, 1], 0));
    let text = rig.fault();
    assert!(text.contains("no arguments in registers"), "{text}");
}

#[test]
fn memory_of_a_launch_comes_from_packet_and_queue() {
    let mut rig = rig("gfx942", 8, 4);
    descriptor(&rig, KERNARG_PTR, 0x85);
    rig.words(DESCRIPTOR, &[1000, 16]);
    rig.memory.put(QUEUE + 140, 2 << 12 | 0x40);
    rig.memory.put64(QUEUE + 160, SCRATCH);
    rig.memory.put64(QUEUE + 168, 0x10_0000);
    let mut words = kernel(0, [64, 1, 1], [512, 1, 1], 0);
    words[6] = 32;
    words[7] = 1025;
    rig.submit(&words);
    rig.finish();
    for (dispatch, _) in rig.log() {
        assert_eq!(dispatch.local_memory, 1536);
        let scratch = dispatch.scratch.unwrap();
        assert_eq!(
            scratch.base,
            SCRATCH + 0x10_0000 * u64::from(dispatch.xcc.0)
        );
        assert_eq!((scratch.wave_bytes, scratch.waves), (2048, 0x40));
    }
    // 33 bytes of 64 lanes are more than 2048.
    words[6] = 33;
    rig.submit(&words);
    let text = rig.fault();
    assert!(
        text.contains("illegal launch: private_segment_size 33"),
        "{text}"
    );
}

#[test]
fn the_last_groups_may_be_smaller() {
    let mut rig = rig("gfx1100", 1, 5);
    rig.submit(&kernel(0, [64, 1, 1], [150, 1, 1], 0));
    rig.finish();
    let mut log: Vec<_> = rig
        .log()
        .iter()
        .map(|(dispatch, group)| (group[0], dispatch.local[0]))
        .collect();
    log.sort();
    assert_eq!(log, [(0, 64), (1, 64), (2, 22)]);
}

#[test]
fn the_header_comes_last() {
    let mut rig = rig("gfx1100", 1, 6);
    let words = kernel(0, [1, 1, 1], [1, 1, 1], 0);
    // All but the header; the rest is garbage until then, and the doorbell of a later packet has been rung.
    rig.push(&words);
    rig.memory.put(RING, 1);
    rig.push(&words);
    rig.ring();
    assert!(matches!(rig.run(), Step::Waiting));
    assert!(rig.log().is_empty());
    rig.memory.put(RING, words[0]);
    rig.finish();
    assert_eq!(rig.log().len(), 2);
    assert_eq!(rig.memory.get64(READ), 2);
}

#[test]
fn the_doorbell_says_how_far() {
    let words = kernel(0, [1, 1, 1], [1, 1, 1], 0);
    // Nothing has been written, the doorbell is as it was made.
    for fresh in [0, u64::MAX] {
        let mut rig = rig("gfx1100", 1, 7);
        rig.doorbell = fresh;
        assert!(matches!(rig.run(), Step::Idle));
    }
    // A doorbell without a packet of that index.
    let mut rig = rig("gfx1100", 1, 7);
    rig.push(&words);
    rig.ring();
    rig.doorbell = 1;
    let text = rig.fault();
    assert!(text.contains("while write_dispatch_id is 1"), "{text}");
    // More than a ring ahead.
    let mut rig = self::rig("gfx1100", 1, 7);
    rig.memory.put64(WRITE, 65);
    rig.doorbell = 64;
    let text = rig.fault();
    assert!(text.contains("more than a ring ahead"), "{text}");
    // Threads may ring in any order.
    let mut rig = self::rig("gfx1100", 1, 7);
    rig.push(&words);
    rig.push(&words);
    rig.ring();
    rig.finish();
    rig.doorbell = 0;
    assert!(matches!(rig.run(), Step::Idle));
    assert_eq!(rig.log().len(), 2);
}

#[test]
fn the_ring_wraps() {
    let mut rig = rig("gfx942", 8, 8);
    signal(&rig, SIGNAL, 200);
    for packet in 1..=200 {
        rig.submit(&kernel(BARRIER | SYSTEM, [1, 1, 1], [3, 1, 1], SIGNAL));
        rig.finish();
        assert_eq!(rig.memory.get64(READ), packet);
        assert_eq!(rig.memory.get64(SIGNAL + 8), 200 - packet);
    }
}

#[test]
fn packets_overlap_unless_a_barrier_bit_orders_them() {
    let overlap = |header: u32| {
        (0..20)
            .filter(|&seed| {
                let mut rig = rig("gfx1100", 1, seed);
                rig.push(&kernel(0, [1, 1, 1], [30, 1, 1], 0));
                rig.push(&kernel(header, [2, 1, 1], [60, 1, 1], 0));
                rig.ring();
                rig.finish();
                let second = rig
                    .log()
                    .iter()
                    .position(|(dispatch, _)| dispatch.local[0] == 2);
                second < Some(30)
            })
            .count()
    };
    assert!(overlap(0) > 10);
    assert_eq!(overlap(BARRIER), 0);
}

#[test]
fn a_signal_is_last() {
    for seed in 0..20 {
        let mut rig = rig("gfx942", 8, seed);
        signal(&rig, SIGNAL, 1);
        rig.words(KERNARG, &[0; 40]);
        rig.submit(&kernel(SYSTEM, [1, 1, 1], [40, 1, 1], SIGNAL));
        while rig.memory.get(SIGNAL + 8) == 1 {
            assert!(matches!(rig.step(), Step::Progress));
        }
        assert!((0..40).all(|at| rig.memory.get(KERNARG + 4 * at) == at as u32 + 1));
    }
}

#[test]
fn release_scopes_decide_what_memory_shows() {
    // Kernel arguments in cached memory, where the stores go too.
    for (xccs, scope, shown) in [
        (1, 0, false),
        (1, 1, false),
        (1, 2, true),
        (8, 0, false),
        (8, 1, true),
        (8, 2, true),
    ] {
        let mut rig = rig("gfx942", xccs, 9);
        let mut words = kernel(scope << 11, [1, 1, 1], [1, 1, 1], 0);
        words[10] = lo(CACHED);
        rig.submit(&words);
        rig.finish();
        assert_eq!(rig.memory.get(CACHED) == 1, shown, "{xccs} {scope}");
    }
}

#[test]
fn time_stamps_if_the_queue_asks_for_them() {
    for profiling in [0, 1 << 3] {
        let mut rig = rig("gfx1100", 1, 10);
        signal(&rig, SIGNAL, 1);
        rig.memory.put(QUEUE + 180, profiling);
        rig.submit(&kernel(0, [1, 1, 1], [1, 1, 1], SIGNAL));
        while rig.log().is_empty() {
            assert!(matches!(rig.step(), Step::Progress));
        }
        rig.clock = 2000;
        rig.finish();
        let stamps = (rig.memory.get64(SIGNAL + 32), rig.memory.get64(SIGNAL + 40));
        assert_eq!(stamps, if profiling != 0 { (1000, 2000) } else { (0, 0) });
    }
}

/// A barrier packet of this type.
fn barrier(kind: u32, signals: &[u64], completion: u64) -> [u32; 16] {
    let mut words = [0; 16];
    words[0] = kind;
    for (at, &handle) in signals.iter().enumerate() {
        words[2 + 2 * at] = lo(handle);
        words[3 + 2 * at] = hi(handle);
    }
    words[14] = lo(completion);
    words[15] = hi(completion);
    words
}

#[test]
fn barriers_wait_for_their_signals() {
    let (a, b, done) = (SIGNAL, SIGNAL + 64, SIGNAL + 128);
    // Type 3 is AND, 5 is OR; values of the two; whether it completes.
    for (kind, values, completes) in [
        (3, [0, 0], true),
        (3, [1, 0], false),
        (3, [0, u64::MAX], false),
        (5, [1, 1], false),
        (5, [1, 0], true),
    ] {
        let mut rig = rig("gfx942", 8, 11);
        signal(&rig, a, values[0]);
        signal(&rig, b, values[1]);
        signal(&rig, done, 1);
        rig.submit(&barrier(kind, &[0, a, 0, b], done));
        let step = rig.run();
        assert_eq!(
            matches!(step, Step::Idle),
            completes,
            "{kind} {values:?} {step:?}"
        );
        assert_eq!(rig.memory.get64(done + 8), u64::from(!completes));
        if !completes {
            rig.memory.put64(a + 8, 0);
            rig.memory.put64(b + 8, 0);
            rig.finish();
            assert_eq!(rig.memory.get64(done + 8), 0);
        }
    }
    // Without signals there is nothing to wait for.
    for kind in [3, 5] {
        let mut rig = rig("gfx942", 8, 11);
        rig.submit(&barrier(kind, &[], 0));
        rig.finish();
    }
}

#[test]
fn barrier_values_compare_signed() {
    // Condition, signal, value, mask, satisfied.
    for (condition, value, against, mask, satisfied) in [
        (0, 0x15, 5, 0xF, true),
        (1, 0x15, 5, 0xF, false),
        (2, u64::MAX, 0, u64::MAX, true),
        (3, u64::MAX, 0, u64::MAX, false),
        (3, 5, 5, u64::MAX, true),
    ] {
        let mut rig = rig("gfx1100", 1, 12);
        signal(&rig, SIGNAL, value);
        let mut words = [0; 16];
        words[0] = 2 << 16;
        for (at, wide) in [(2, SIGNAL), (4, against), (6, mask)] {
            words[at] = lo(wide);
            words[at + 1] = hi(wide);
        }
        words[8] = condition;
        rig.submit(&words);
        assert_eq!(
            matches!(rig.run(), Step::Idle),
            satisfied,
            "{condition} {value:#x}"
        );
    }
}

#[test]
fn vendor_packets_run_pm4() {
    let mut rig = rig("gfx1100", 1, 13);
    signal(&rig, SIGNAL, 1);
    let buffer = [state(CODE, DATA), dispatch([4, 1, 1])].concat();
    rig.words(BUFFER, &buffer);
    let mut words = [0; 16];
    words[0] = 1 << 16 | BARRIER | SYSTEM;
    words[1..5].copy_from_slice(&indirect(BUFFER, buffer.len() as u32));
    words[5] = 10;
    words[14] = lo(SIGNAL);
    words[15] = hi(SIGNAL);
    rig.submit(&words);
    // The signal comes when what the buffer began is over.
    while rig.memory.get(SIGNAL + 8) == 1 {
        assert!(matches!(rig.step(), Step::Progress));
    }
    let got = [0, 1, 2, 3].map(|at| rig.memory.get(DATA + 4 * at));
    assert_eq!(got, [1, 2, 3, 4]);
    rig.finish();
    assert_eq!(rig.memory.get64(READ), 1);
    // Something wrong in the buffer stops the queue.
    rig.memory.put(BUFFER, 0);
    signal(&rig, SIGNAL, 1);
    rig.submit(&words);
    let text = rig.fault();
    assert!(text.contains("type-0"), "{text}");
}

#[test]
fn illegal_packets() {
    let good = kernel(0, [64, 1, 1], [64, 1, 1], 0);
    let with = |at: usize, value: u32| {
        let mut words = good;
        words[at] = value;
        words
    };
    let mut buffer = [0; 16];
    buffer[0] = 1 << 16;
    buffer[1..5].copy_from_slice(&indirect(BUFFER, 1));
    buffer[5] = 10;
    let buffer_with = |at: usize, value: u32| {
        let mut words = buffer;
        words[at] = value;
        words
    };
    let cases: Vec<([u32; 16], &str)> = vec![
        (with(0, good[0] | 1 << 13), "reserved bits"),
        (with(0, good[0] | 3 << 9), "fence scope 3"),
        (with(0, good[0] | 3 << 11), "fence scope 3"),
        (with(0, 4 | 1 << 16), "packets of type 4"),
        (with(0, 6 | 1 << 16), "packets of type 6"),
        (with(0, 2), "no dimensions"),
        (with(0, good[0] | 1 << 18), "reserved bits 0x00040000"),
        (with(2, 1 | 1 << 16), "reserved bits 0x00010000"),
        (with(12, 1), "word 12"),
        (with(13, 1 << 31), "word 13"),
        (with(1, 1 << 16), "workgroup_size_x 0"),
        (with(3, 63), "workgroup_size_x 64 and grid_size_x 63"),
        (with(4, 2), "grid_size_y have to be 1"),
        (with(2, 2), "workgroup_size_z"),
        (with(8, lo(DESCRIPTOR + 32)), "kernel_object"),
        (with(9, 0), "memory violation"),
        (with(10, lo(KERNARG + 8)), "kernarg_address"),
        (with(7, 1 << 20), "illegal launch: group_segment_size"),
        (
            with(14, lo(SIGNAL + 32)),
            "does not lie on a multiple of 64",
        ),
        (with(14, 0x1000), "memory violation: Read of 0x1000"),
        (barrier(3 | 1 << 16, &[], 0), "reserved bits 0x00010000"),
        (
            barrier(3, &[SIGNAL + 8], 0),
            "does not lie on a multiple of 64",
        ),
        (buffer_with(0, 3 << 16), "AMD format 3"),
        (buffer_with(0, 0), "AMD format 0"),
        (
            buffer_with(0, 1 << 24 | 1 << 16),
            "reserved bits 0x01000000",
        ),
        (buffer_with(5, 9), "dw_cnt_remain is 9"),
        (buffer_with(6, 1), "word 6"),
        (buffer_with(1, 0xC000_4600), "no INDIRECT_BUFFER"),
        (buffer_with(4, 1), "not valid"),
    ];
    for (words, says) in cases {
        let mut rig = rig("gfx942", 8, 14);
        rig.submit(&words);
        let text = rig.fault();
        assert!(text.contains(says), "{says:?} is not in:\n{text}");
    }
    // A signal of another kind: a doorbell.
    let mut rig = rig("gfx942", 8, 14);
    rig.memory.put64(SIGNAL, u64::MAX);
    rig.submit(&kernel(0, [64, 1, 1], [64, 1, 1], SIGNAL));
    let text = rig.fault();
    assert!(text.contains("AMD_SIGNAL_KIND_USER"), "{text}");
    assert!(text.contains("kernel dispatch 0"), "{text}");
    assert!(text.contains("grid_size_x = 0x40"), "{text}");
}

#[test]
fn illegal_descriptors() {
    // Byte offset, value, what is said of it.
    for (target, offset, value, says) in [
        ("gfx942", 12, 1, "reserved bytes at 12"),
        ("gfx942", 36, 1, "reserved bytes at 36"),
        ("gfx942", 60, 1, "reserved bytes at 60"),
        (
            "gfx942",
            0,
            1,
            "group_segment_size is 0; the kernel itself needs 1",
        ),
        ("gfx942", 4, 1, "private_segment_size is 0"),
        ("gfx942", 16, 0x80, "not a multiple of 256"),
        ("gfx942", 44, 1 << 31, "COMPUTE_PGM_RSRC3"),
        ("gfx942", 48, 1 << 31, "COMPUTE_PGM_RSRC1"),
        ("gfx1100", 52, 1 << 31, "COMPUTE_PGM_RSRC2"),
        ("gfx942", 52, 0x84 | 1 << 15, "GRANULATED_LDS_SIZE"),
        (
            "gfx942",
            52,
            0x82,
            "name 2 user registers, USER_SGPR_COUNT 1",
        ),
        ("gfx942", 56, 1 << 3 | 1 << 7, "reserved bits 0x80"),
        (
            "gfx942",
            56,
            1 << 3 | 1 << 10,
            "reserved bits 0x400 on gfx942",
        ),
        ("gfx1201", 56, 1 << 3 | 1 << 15, "reserved bits 0x8000"),
        ("gfx942", 56, 1 << 3 | 1 << 5, "FLAT_SCRATCH_INIT"),
    ] {
        let mut rig = rig(target, 1, 15);
        rig.memory.put(DESCRIPTOR + offset, value);
        rig.submit(&kernel(0, [64, 1, 1], [64, 1, 1], 0));
        let text = rig.fault();
        assert!(text.contains(says), "{says:?} is not in:\n{text}");
    }
    // The queue's own descriptor.
    let mut rig = rig("gfx942", 1, 15);
    rig.memory.put(READ + 8, 120);
    rig.submit(&kernel(0, [64, 1, 1], [64, 1, 1], 0));
    let text = rig.fault();
    assert!(
        text.contains("read_dispatch_id_field_base_byte_offset is 120"),
        "{text}"
    );
}
