//! Packets written by hand, bit by bit, and what they do.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::cache::tests::Pages;
use crate::cache::{Caches, Levels};
use crate::engine::Parts;
use crate::exec::{Dispatch, Executor, Kernel, ShaderMemory};
use crate::vm::{AddressSpace, Mtype, PageFaultReason};

struct Nobody;

impl Executor for Nobody {
    fn prepare(
        &mut self,
        _: &Dispatch,
        _: &mut dyn ShaderMemory,
    ) -> Result<Option<Box<dyn Kernel>>, Cause> {
        Ok(None)
    }
}

const BASE: u64 = 0x7000_0000_0000;
const RING: u64 = BASE;
const RING_BYTES: u64 = 1024;
const POINTERS: u64 = BASE + 0x1000;
const DATA: u64 = BASE + 0x2000;
const END: u64 = BASE + 0x80_0000;

/// A machine of one queue.
struct Bench {
    vm: Pages,
    caches: Caches,
    rung: u64,
    clock: u64,
    interrupts: Vec<u32>,
    engine: Option<Box<dyn Engine>>,
    put: u64,
}

impl Host for Bench {
    fn vm(&self) -> &dyn AddressSpace {
        &self.vm
    }

    fn parts(&mut self) -> Parts<'_> {
        Parts {
            vm: &self.vm,
            caches: &mut self.caches,
            executor: Box::leak(Box::new(Nobody)),
        }
    }

    fn clock(&self) -> u64 {
        self.clock
    }

    fn interrupt(&mut self, context: u32) {
        self.interrupts.push(context);
    }

    fn doorbell(&self) -> u64 {
        self.rung
    }

    fn random(&mut self, below: u32) -> u32 {
        below - 1
    }
}

impl Bench {
    fn new(target: &str) -> Self {
        let memory = QueueMemory {
            ring: RING,
            ring_bytes: RING_BYTES,
            read_pointer: POINTERS,
            write_pointer: POINTERS + 8,
            eop: 0,
            eop_bytes: 0,
            save_area: 0,
            save_area_bytes: 0,
            control_stack_bytes: 0,
        };
        Self {
            vm: Pages::new((END - BASE) as usize),
            caches: Caches::new(1),
            rung: 0,
            clock: 0x1_2345_6789,
            interrupts: Vec::new(),
            engine: engine(target, memory),
            put: 0,
        }
    }

    fn word(&self, address: u64) -> u32 {
        let bytes = self.vm.host(address, 4);
        u32::from_le_bytes(bytes.try_into().expect("four bytes"))
    }

    fn long(&self, address: u64) -> u64 {
        let bytes = self.vm.host(address, 8);
        u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
    }

    fn write(&mut self, words: &[u32]) {
        for word in words {
            let at = RING + self.put % RING_BYTES;
            self.vm.host_write(at, &word.to_le_bytes());
            self.put += 4;
        }
    }

    fn ring(&mut self) {
        self.vm.host_write(POINTERS + 8, &self.put.to_le_bytes());
        self.rung = self.put;
    }

    fn submit(&mut self, words: &[u32]) {
        self.write(words);
        self.ring();
    }

    fn step(&mut self) -> Step {
        let mut engine = self.engine.take().expect("a chip that is known");
        let step = engine.step(self);
        self.engine = Some(engine);
        step
    }

    /// Steps until nothing moves.
    fn run(&mut self) -> Step {
        for _ in 0..10_000 {
            match self.step() {
                Step::Progress => {}
                other => return other,
            }
        }
        panic!("no end");
    }

    fn fault(&mut self) -> String {
        match self.run() {
            Step::Fault(fault) => fault.to_string(),
            other => panic!("no fault: {other:?}"),
        }
    }
}

fn lo(address: u64) -> u32 {
    address as u32
}

fn hi(address: u64) -> u32 {
    (address >> 32) as u32
}

const CHIPS: [&str; 5] = ["gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201"];

#[test]
fn chips_by_name() {
    let memory = QueueMemory {
        ring: 0,
        ring_bytes: 0,
        read_pointer: 0,
        write_pointer: 0,
        eop: 0,
        eop_bytes: 0,
        save_area: 0,
        save_area_bytes: 0,
        control_stack_bytes: 0,
    };
    for chip in CHIPS {
        assert!(engine(chip, memory).is_some(), "{chip}");
    }
    for other in ["", "gfx1030", "gfx9", "gfx942 "] {
        assert!(engine(other, memory).is_none(), "{other}");
    }
}

#[test]
fn each_packet_does_its_work_on_each_chip() {
    for chip in CHIPS {
        let mut b = Bench::new(chip);
        b.vm.host_write(DATA, b"from here to there");
        let fence = if chip.starts_with("gfx9") {
            5
        } else {
            0x0003_0005
        };
        b.submit(&[
            // NOP with two words of anything.
            0x0002_0000,
            0xdead_beef,
            0xffff_ffff,
            // COPY of 18 bytes.
            1,
            17,
            0,
            lo(DATA),
            hi(DATA),
            lo(DATA + 0x101),
            hi(DATA + 0x101),
            // WRITE of three words.
            2,
            lo(DATA + 0x200),
            hi(DATA + 0x200),
            2,
            1,
            2,
            3,
            // TIMESTAMP.
            0x20d,
            lo(DATA + 0x208),
            hi(DATA + 0x208),
            // FENCE, TRAP.
            fence,
            lo(DATA + 0x300),
            hi(DATA + 0x300),
            0xabcd,
            6,
            0x0fff_fff1,
        ]);
        assert!(matches!(b.run(), Step::Idle), "{chip}");
        assert_eq!(b.vm.host(DATA + 0x100, 20), b"\0from here to there\0");
        assert_eq!((b.word(DATA + 0x200), b.word(DATA + 0x204)), (1, 2));
        assert_eq!(b.long(DATA + 0x208), 0x1_2345_6789);
        assert_eq!((b.word(DATA + 0x300), b.word(DATA + 0x304)), (0xabcd, 0));
        assert_eq!(b.interrupts, [0x0fff_fff1]);
        assert_eq!(b.long(POINTERS), 4 * 26);
    }
}

#[test]
fn the_read_pointer_counts_bytes_and_packets_wrap_around_the_end() {
    let mut b = Bench::new("gfx1100");
    for turn in 0..200u32 {
        b.submit(&[2, lo(DATA), hi(DATA), 0, turn]);
        assert!(matches!(b.step(), Step::Progress));
        assert!(matches!(b.step(), Step::Idle));
        assert_eq!(b.word(DATA), turn);
        assert_eq!(b.long(POINTERS), u64::from(turn + 1) * 20);
    }
}

#[test]
fn what_is_not_rung_does_not_exist() {
    let mut b = Bench::new("gfx942");
    b.write(&[2, lo(DATA), hi(DATA), 0, 7]);
    assert!(matches!(b.step(), Step::Idle));
    b.vm.host_write(POINTERS + 8, &20u64.to_le_bytes());
    assert!(matches!(b.step(), Step::Idle), "the doorbell decides");
    b.rung = 20;
    assert!(matches!(b.step(), Step::Progress));
    assert_eq!(b.word(DATA), 7);
}

#[test]
fn doorbells_that_cannot_be() {
    for (rung, pointer, text) in [
        (4, 0, "before the write pointer"),
        (6, 8, "whole number of dwords"),
        (
            RING_BYTES + 4,
            RING_BYTES + 4,
            "1028 bytes past the read pointer",
        ),
    ] {
        let mut b = Bench::new("gfx942");
        b.vm.host_write(POINTERS + 8, &pointer.to_le_bytes());
        b.rung = rung;
        let fault = b.fault();
        assert!(fault.contains(text), "{fault}");
        assert!(matches!(b.step(), Step::Idle), "it has stopped for good");
    }
    let mut b = Bench::new("gfx942");
    b.submit(&[0, 0]);
    b.run();
    b.rung = 4;
    let fault = b.fault();
    assert!(fault.contains("went back from 0x8 to 0x4"), "{fault}");
}

#[test]
fn a_packet_is_published_whole() {
    let whole = [2, lo(DATA), hi(DATA), 1, 7, 8];
    for words in 1..whole.len() {
        let mut b = Bench::new("gfx1201");
        b.submit(&whole[..words]);
        let fault = b.fault();
        assert!(fault.contains("cut off by the write pointer"), "{fault}");
        assert_eq!(b.word(DATA), 0, "nothing of it was executed");
    }
}

#[test]
fn a_big_copy_is_seen_half_done() {
    let (src, dst, bytes) = (BASE + 0x10_0000, BASE + 0x40_0000, 0x20_0000 + 5);
    for chip in CHIPS {
        let mut b = Bench::new(chip);
        b.vm.host_write(src, &vec![0x5a; bytes as usize]);
        b.submit(&[1, bytes - 1, 0, lo(src), hi(src), lo(dst), hi(dst)]);
        let mut steps = 0;
        while matches!(b.step(), Step::Progress) {
            steps += 1;
            let last = u64::from(bytes) - 1;
            let done = b.vm.host(dst + last, 1) == [0x5a];
            assert_eq!(done, b.long(POINTERS) == 28, "done and told together");
        }
        assert_eq!(steps, 33, "{chip}");
        assert_eq!(b.vm.host(dst, bytes as usize + 1).last(), Some(&0));
        assert!(b.vm.host(dst, bytes as usize).iter().all(|&x| x == 0x5a));
    }
}

#[test]
fn the_l2_is_on_another_way() {
    let mut b = Bench::new("gfx1100");
    let copy = |from, to| [1, 3, 0, lo(from), hi(from), lo(to), hi(to)];
    // A store that has not been written back is not copied.
    b.vm.host_write(DATA, &1u32.to_le_bytes());
    b.caches
        .view(0, &b.vm)
        .store(DATA, &2u32.to_le_bytes())
        .expect("mapped");
    b.submit(&copy(DATA, DATA + 0x100));
    b.run();
    assert_eq!(b.word(DATA + 0x100), 1);
    b.caches.write_back(0, Levels::L2, &b.vm).expect("mapped");
    b.submit(&copy(DATA, DATA + 0x100));
    b.run();
    assert_eq!(b.word(DATA + 0x100), 2);
    // A line that the L2 has read stays as it was.
    let mut seen = [0; 4];
    let at = DATA + 0x200;
    b.caches.view(0, &b.vm).load(at, &mut seen).expect("mapped");
    b.submit(&copy(DATA, at));
    b.run();
    b.caches.view(0, &b.vm).load(at, &mut seen).expect("mapped");
    assert_eq!((b.word(at), seen), (2, [0; 4]));
}

#[test]
fn a_fence_of_another_type_stays_in_the_l2() {
    let mut b = Bench::new("gfx1100");
    for mtype in 0..4u32 {
        let at = DATA + 0x100 * u64::from(mtype);
        b.submit(&[mtype << 16 | 5, lo(at), hi(at), 9]);
        b.run();
        assert_eq!(b.word(at), if mtype == 3 { 9 } else { 0 });
    }
    b.caches.write_back(0, Levels::L2, &b.vm).expect("mapped");
    assert_eq!(b.word(DATA), 9);
    // Pages that are not cached go past it anyway.
    b.vm.mtype.set(Mtype::Uc);
    b.submit(&[5, lo(DATA), hi(DATA), 10]);
    b.run();
    assert_eq!(b.word(DATA), 10);
}

#[test]
fn polls_compare_unsigned_under_a_mask() {
    // For each comparison: whether it holds with a value below, at and above the reference.
    let holds = [
        [true, true, true],
        [true, false, false],
        [true, true, false],
        [false, true, false],
        [true, false, true],
        [false, true, true],
        [false, false, true],
    ];
    for (func, wanted) in (0u32..).zip(holds) {
        for (value, want) in [0x12_7fff_ffffu64, 0x12_8000_0000, 0x12_8000_0001]
            .into_iter()
            .zip(wanted)
        {
            let mut b = Bench::new("gfx942");
            let header = 1 << 31 | func << 28 | 8;
            b.vm.host_write(DATA, &(value as u32).to_le_bytes());
            let poll = [header, lo(DATA), hi(DATA), 0x8000_0000, !0, 0x0fff_0010];
            b.submit(&poll);
            let step = b.step();
            let done = matches!(step, Step::Progress);
            assert_eq!(done, want, "function {func}, value {value:#x}: {step:?}");
            assert_eq!(b.long(POINTERS), if want { 24 } else { 0 });
        }
    }
    let mut b = Bench::new("gfx942");
    let poll = 1 << 31 | 3 << 28 | 8;
    b.submit(&[poll, lo(DATA), hi(DATA), 0x50, 0xf0, 0x0fff_0010, 6, 5]);
    b.vm.host_write(DATA, &0x60u32.to_le_bytes());
    for _ in 0..5000 {
        assert!(matches!(b.step(), Step::Waiting));
    }
    b.vm.host_write(DATA, &0x5fu32.to_le_bytes());
    assert!(matches!(b.run(), Step::Idle));
    assert_eq!(b.interrupts, [5]);
}

#[test]
fn a_poll_with_an_end_is_over_without_having_come_true() {
    let mut b = Bench::new("gfx1151");
    let poll = 1 << 31 | 3 << 28 | 8;
    b.submit(&[poll, lo(DATA), hi(DATA), 1, !0, 3 << 16 | 10, 6, 5]);
    for _ in 0..3 {
        assert!(matches!(b.step(), Step::Waiting));
    }
    assert!(matches!(b.step(), Step::Progress));
    assert_eq!(b.long(POINTERS), 24);
    // The next poll counts from the beginning.
    b.run();
    b.submit(&[poll, lo(DATA), hi(DATA), 1, !0, 1 << 16]);
    assert!(matches!(b.step(), Step::Waiting));
    assert!(matches!(b.step(), Step::Progress));
}

#[test]
fn a_flush_of_the_host_data_path_has_nothing_to_wait_for() {
    let mut b = Bench::new("gfx942");
    b.submit(&[
        1 << 26 | 3 << 28 | 8,
        0x389c,
        0x3898,
        1 << 10,
        1 << 10,
        0x0fff_000a,
    ]);
    assert!(matches!(b.run(), Step::Idle));
    assert_eq!(b.long(POINTERS), 24);
}

#[test]
fn an_indirect_buffer_runs_before_what_follows_it() {
    let ib = DATA + 0x1000;
    for chip in CHIPS {
        let mut b = Bench::new(chip);
        let words: Vec<u32> = [
            [2, lo(DATA), hi(DATA), 0, 7].as_slice(),
            &[6, 1],
            &[0x0002_0000, 0, 0],
        ]
        .concat();
        for (i, word) in (0u64..).zip(&words) {
            b.vm.host_write(ib + 4 * i, &word.to_le_bytes());
        }
        b.submit(&[0, 0, 4, lo(ib), hi(ib), words.len() as u32, 0, 0, 6, 2]);
        let mut seen = VecDeque::new();
        while matches!(b.step(), Step::Progress) {
            seen.push_back(b.long(POINTERS));
        }
        // Two NOPs, the indirect buffer with its three packets, the trap.
        assert_eq!(seen, [4, 8, 8, 8, 8, 32, 40], "{chip}");
        assert_eq!(
            (b.word(DATA), b.interrupts.as_slice()),
            (7, [1, 2].as_slice())
        );
    }
}

#[test]
fn indirect_buffers_that_cannot_be() {
    let ib = DATA + 0x1000;
    let at = |pad: usize, packet: [u32; 6]| {
        let mut b = Bench::new("gfx1201");
        b.vm.host_write(ib, &4u32.to_le_bytes());
        b.vm.host_write(ib + 12, &1u32.to_le_bytes());
        b.vm.host_write(ib + 32, &2u32.to_le_bytes());
        b.write(&vec![0; pad]);
        b.submit(&packet);
        b.fault()
    };
    let good = [4, lo(ib), hi(ib), 8, 0, 0];
    for (pad, packet, text) in [
        (0, good, "it ends at 0x18, which is not an 8-dword boundary"),
        (3, good, "not an 8-dword boundary"),
        (2, [4, lo(ib) + 16, hi(ib), 8, 0, 0], "not 32-byte aligned"),
        (2, [4, lo(ib), hi(ib), 0, 0, 0], "of no words"),
        (
            2,
            [4, lo(ib), hi(ib), 1 << 20, 0, 0],
            "reserved bits 0x00100000 of dword 3",
        ),
        (2, [1 << 16 | 4, lo(ib), hi(ib), 8, 0, 0], "field vmid"),
        (2, [1 << 31 | 4, lo(ib), hi(ib), 8, 0, 0], "field priv"),
        (2, good, "an indirect buffer inside an indirect buffer"),
        (
            2,
            [4, lo(ib) + 32, hi(ib), 4, 0, 0],
            "cut off by the end of its indirect buffer",
        ),
        (2, [4, lo(END), hi(END), 4, 0, 0], "memory violation"),
    ] {
        let fault = at(pad, packet);
        assert!(fault.contains(text), "{text}: {fault}");
    }
    assert!(at(2, good).contains(&format!("in the indirect buffer of 8 words at {ib:#x}")));
}

#[test]
fn illegal_packets() {
    let (l, h) = (lo(DATA), hi(DATA));
    let copy = |header, count, parameter| vec![header, count, parameter, l, h, l + 256, h];
    let old = ["gfx942", "gfx950"].as_slice();
    let new = ["gfx1100", "gfx1151", "gfx1201"].as_slice();
    let all = CHIPS.as_slice();
    let poll = |header: u32, last| vec![header | 8, l, h, 0, 0, last];
    for (chips, words, text) in [
        // A count of one version is reserved bits of another.
        (
            old,
            copy(1, 1 << 22, 0),
            "reserved bits 0x00400000 of dword 1",
        ),
        (
            new,
            copy(1, 1 << 30, 0),
            "reserved bits 0x40000000 of dword 1",
        ),
        (all, copy(1, 3, 1), "reserved bits 0x00000001 of dword 2"),
        (
            old,
            copy(1, 3, 1 << 18),
            "reserved bits 0x00040000 of dword 2",
        ),
        (
            old,
            copy(1 | 1 << 19, 3, 0),
            "reserved bits 0x00080000 of dword 0",
        ),
        (new, copy(1 | 1 << 19, 3, 0), "field cpv"),
        (new, copy(1 | 1 << 25, 3, 0), "field backwards"),
        (all, copy(1 | 1 << 27, 3, 0), "field broadcast"),
        (all, copy(1 | 1 << 16, 3, 0), "field encrypt"),
        (all, copy(1 | 1 << 18, 3, 0), "field tmz"),
        (all, copy(1, 3, 1 << 16), "byte swapping"),
        (
            all,
            copy(0x101, 3, 0),
            "COPY (operation 1, sub-operation 1)",
        ),
        (all, vec![2, l + 2, h, 0, 0], "not 4-byte aligned"),
        (all, vec![2, l, h, 1 << 24, 0], "byte swapping"),
        (
            all,
            vec![2, l, h, 1 << 20, 0],
            "reserved bits 0x00100000 of dword 3",
        ),
        (
            all,
            vec![0x102, l, h, 0, 0],
            "WRITE (operation 2, sub-operation 1)",
        ),
        // Memory types came with version 5.
        (
            old,
            vec![3 << 16 | 5, l, h, 0],
            "reserved bits 0x00030000 of dword 0",
        ),
        (new, vec![4 << 16 | 5, l, h, 0], "memory type 4"),
        (new, vec![1 << 23 | 5, l, h, 0], "field gpa"),
        (
            new,
            vec![1 << 21 | 5, l, h, 0],
            "reserved bits 0x00200000 of dword 0",
        ),
        (all, vec![5, l + 1, h, 0], "not 4-byte aligned"),
        (all, vec![0x105, l, h, 0], "FENCE has no sub-operation 1"),
        (all, vec![6, 1 << 28], "reserved bits 0x10000000 of dword 1"),
        (
            all,
            vec![6 | 1 << 16, 0],
            "reserved bits 0x00010000 of dword 0",
        ),
        (all, poll(1 << 31 | 7 << 28, 0), "comparison 7"),
        (
            all,
            poll(1 << 31, 1 << 28),
            "reserved bits 0x10000000 of dword 5",
        ),
        (all, poll(0, 0), "may not read registers"),
        (all, poll(1 << 31 | 1 << 26, 0), "polls registers"),
        (all, poll(1 << 31 | 0x100, 0), "sub-operation 1"),
        (
            old,
            poll(1 << 31 | 1 << 20, 0),
            "reserved bits 0x00100000 of dword 0",
        ),
        (new, poll(1 << 31 | 1 << 24, 0), "field cpv"),
        (
            all,
            vec![1 << 31 | 8, l + 2, h, 0, 0, 0],
            "not 4-byte aligned",
        ),
        (all, vec![0x20d, l + 4, h], "not 8-byte aligned"),
        (
            all,
            vec![0x10d, l, h],
            "TIMESTAMP (operation 13, sub-operation 1)",
        ),
        (
            all,
            vec![0x0d, l, h],
            "TIMESTAMP (operation 13, sub-operation 0)",
        ),
        (old, vec![1 << 24 | 0x20d, l, h], "reserved bits 0x01000000"),
        (all, vec![1 << 30], "reserved bits 0x40000000 of dword 0"),
        (all, vec![0x100], "NOP has no sub-operation 1"),
        (all, vec![3], "unknown (operation 3"),
        (all, vec![7], "SEM (operation 7"),
        (all, vec![9], "COND_EXE (operation 9"),
        (all, vec![10], "ATOMIC (operation 10"),
        (all, vec![11], "CONST_FILL (operation 11"),
        (all, vec![12], "PTEPDE (operation 12"),
        (all, vec![14], "SRBM_WRITE (operation 14"),
        (all, vec![15], "PRE_EXE (operation 15"),
        (all, vec![17], "GCR_REQ (operation 17"),
        (all, vec![0xff], "unknown (operation 255"),
    ] {
        for chip in chips {
            let mut b = Bench::new(chip);
            b.submit(&words);
            let fault = b.fault();
            assert!(fault.starts_with("illegal packet: "), "{fault}");
            assert!(fault.contains(text), "{chip}, {text}: {fault}");
            assert!(
                fault.contains(&format!("[0] {:#010x}", words[0])),
                "{fault}"
            );
            assert_eq!(b.long(POINTERS), 0, "it was not done");
            assert!(b.vm.host(DATA, 512).iter().all(|&x| x == 0));
        }
    }
}

#[test]
fn addresses_without_memory_are_faults_that_name_the_packet() {
    let bad = END;
    for (words, text) in [
        (
            vec![1, 15, 0, lo(bad - 8), hi(bad), lo(DATA), hi(DATA)],
            "Read",
        ),
        (
            vec![1, 15, 0, lo(DATA), hi(DATA), lo(bad), hi(bad)],
            "Write",
        ),
        (vec![2, lo(bad), hi(bad), 0, 1], "Write"),
        (vec![5, lo(bad), hi(bad), 1], "Write"),
        (vec![1 << 31 | 8, lo(bad), hi(bad), 1, 1, 0], "Read"),
        (vec![0x20d, lo(bad), hi(bad)], "Write"),
    ] {
        let mut b = Bench::new("gfx942");
        b.submit(&words);
        let Step::Fault(fault) = b.run() else {
            panic!("{words:x?}: no fault");
        };
        let Cause::Memory(page) = &fault.cause else {
            panic!("{fault}");
        };
        assert_eq!(page.reason, PageFaultReason::NotPresent);
        assert_eq!(page.address, bad);
        assert_eq!(format!("{:?}", page.need), text);
        assert!(fault.packet.contains("SDMA 4.4 packet at 0x700000000000"));
    }
}

proptest! {
    /// No words bring an engine down, and none are executed past the write pointer.
    #[test]
    fn random_words_never_panic(
        chip in 0..5usize,
        words in prop::collection::vec(prop_oneof![
            any::<u32>(),
            0..20u32,
            (0..14u32, 0..4u32).prop_map(|(op, sub)| op | sub << 8),
            Just(lo(DATA)),
            Just(hi(DATA)),
        ], 1..200),
    ) {
        let mut b = Bench::new(CHIPS[chip]);
        b.submit(&words);
        for _ in 0..300 {
            match b.step() {
                Step::Progress => prop_assert!(b.long(POINTERS) <= 4 * words.len() as u64),
                Step::Waiting | Step::Idle => break,
                Step::Fault(fault) => {
                    prop_assert!(!fault.to_string().is_empty());
                    break;
                }
            }
        }
    }
}
