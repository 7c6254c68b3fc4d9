//! What stops a queue, what is reported, and what goes on.

use super::*;

pub(super) const ENGINE: u16 = 0x7fe;

/// The record of a fault with a kind, a place and a number.
pub(super) fn record(kind: FaultKind, address: u64, detail: u64) -> FaultRecord {
    FaultRecord {
        detail,
        ..FaultRecord::new(kind, ENGINE, address)
    }
}

pub(super) fn memory_record(address: u64, access: Access, position: u64) -> FaultRecord {
    FaultRecord {
        access,
        ..record(FaultKind::Memory, address, position)
    }
}

/// Runs words as packet number 3 of a queue, between packets that show that those before it ran and those after it did
/// not, beside another queue that must not notice. Checks all that holds for every fault; returns the record.
fn faults_with(memory: &Memory, mut host: Host, words: [u32; PACKET_WORDS]) -> FaultRecord {
    let marks = Memory::new(8);
    host.readable.push(marks.range());
    host.writable.push(marks.range());
    let (first, second) = (queue_memory(8), queue_memory(8));
    let ((mut other, qo), (mut submit, q)) = (queue(&first, 1), queue(&second, ENGINE));
    let mut queues = [qo, q];
    let mut engine = Engine::new(&mut queues, no_local()).with_copy_step(8);
    let before = memory.all();

    let mark = |n, value| write(marks.at(n), value).encode();
    submit.words(&[mark(0, 1), Packet::Nop.encode(), mark(0, 2)]);
    assert_eq!(poll(&mut engine, &mut host, 99), Poll::Ran(3));
    submit.words(&[words, mark(1, 1)]);
    let outcome = poll(&mut engine, &mut host, 99);
    let Poll::Fault { queue, record } = outcome else {
        panic!("{outcome:?} is no fault");
    };
    assert_eq!((queue, record.engine), (1, ENGINE));
    // Reported in shared memory, the packet is not consumed, nothing was stored.
    assert_eq!(submit.control.fault().get(), Some(record));
    assert_eq!((submit.get(), marks.get(0), marks.get(1)), (3, 2, 0));
    assert_eq!(memory.all(), before);
    assert!(engine.queues()[1].is_stopped());
    assert!(!engine.queues()[0].is_stopped());

    // It stays and is not reported again, and the other queue goes on.
    assert!(!engine.has_work());
    assert_eq!(poll(&mut engine, &mut host, 99), Poll::Idle);
    submit.words(&[mark(1, 2)]);
    assert_eq!(poll(&mut engine, &mut host, 99), Poll::Idle);
    other.words(&[mark(2, 5)]);
    assert_eq!(poll(&mut engine, &mut host, 99), Poll::Ran(1));
    assert_eq!(marks.get(2), 5);
    assert_eq!(submit.control.fault().get(), Some(record));
    assert_eq!(submit.get(), 3);

    // After a reset, what is new runs, and only that.
    engine.queues()[1].reset();
    assert_eq!(submit.control.fault().get(), None);
    assert_eq!(submit.get(), 6);
    assert!(!engine.queues()[1].is_stopped());
    assert_eq!(poll(&mut engine, &mut host, 99), Poll::Idle);
    submit.words(&[mark(1, 7)]);
    assert_eq!(poll(&mut engine, &mut host, 99), Poll::Ran(1));
    assert_eq!((marks.get(1), submit.get()), (7, 7));
    record
}

fn faults(memory: &Memory, packet: Packet) -> FaultRecord {
    faults_with(memory, Host::over(&[memory]), packet.encode())
}

#[test]
fn words_that_are_no_packet() {
    let memory = Memory::new(64);
    let command = |detail| record(FaultKind::Command, 3, detail);
    let run = |words| faults_with(&memory, Host::over(&[&memory]), words);
    for header in [0, 11, 0xff] {
        let mut words = [0; 16];
        words[0] = header;
        assert_eq!(run(words), command(header.into()));
    }
    let launch = exec(COUNT, memory.at(0), 8, [1; 3]).encode();
    for (packet, flag) in [(launch, 8), (launch, 31), (Packet::Nop.encode(), 9)] {
        let mut words = packet;
        words[0] |= 1 << flag;
        assert_eq!(run(words), command(words[0].into()));
    }
    for word in 13..16 {
        let mut words = launch;
        words[word] = 0x50 + word as u32;
        assert_eq!(run(words), command(words[word].into()));
    }
    let mut words = signal(memory.at(0), 1).encode();
    words[1] = 9;
    assert_eq!(run(words), command(9));
    let write = Packet::Write32 {
        address: memory.at(0),
        value: 1,
    };
    let mut words = write.encode();
    words[5] = 2;
    assert_eq!(run(words), command(0x2_0000_0001));
}

#[test]
fn memory_that_the_platform_does_not_know() {
    let memory = Memory::new(64);
    let (good, end) = (memory.at(0), memory.at(64));
    for address in [end, 16, u64::MAX - 15] {
        let run = |packet, address, access| {
            assert_eq!(
                faults(&memory, packet),
                memory_record(address, access, 3),
                "{packet}"
            );
        };
        run(write(address, 1), address, Access::Write);
        run(
            Packet::Write32 { address, value: 1 },
            address,
            Access::Write,
        );
        run(signal(address, 1), address, Access::Write);
        run(Packet::Wait { address, value: 0 }, address, Access::Read);
        run(
            Packet::Poll {
                address,
                mask: 0,
                expect: 0,
            },
            address,
            Access::Read,
        );
        run(Packet::Timestamp { address }, address + 8, Access::Write);
        run(exec(COUNT, address, 8, [1; 3]), address, Access::Read);
        run(exec(COUNT, address, 8, [2; 3]), address, Access::Read);
        let (to, from) = (address, good);
        let copy = |destination, source| Packet::Copy {
            destination,
            source,
            bytes: 15,
        };
        run(copy(to, from), address, Access::Write);
        run(copy(from, to), address, Access::Read);
        let address = address & !63;
        run(
            Packet::Indirect { address, count: 1 },
            address,
            Access::Read,
        );
    }
}

#[test]
fn a_signal_is_sixteen_bytes() {
    let memory = Memory::new(64);
    let last = memory.at(62);
    let mut host = Host::over(&[&memory]);
    // All but the last eight bytes.
    for range in host.readable.iter_mut().chain(&mut host.writable) {
        range.end -= 8;
    }
    for (packet, address, access) in [
        (signal(last, 1), last, Access::Write),
        (
            Packet::Wait {
                address: last,
                value: 0,
            },
            last,
            Access::Read,
        ),
        (Packet::Timestamp { address: last }, last + 8, Access::Write),
    ] {
        assert_eq!(
            faults_with(&memory, host.clone(), packet.encode()),
            memory_record(address, access, 3),
        );
    }
}

#[test]
fn access_is_checked_in_the_way_that_is_needed() {
    let memory = Memory::new(64);
    let (a, b) = (memory.at(0), memory.at(16));
    let copy = Packet::Copy {
        destination: a,
        source: b,
        bytes: 100,
    };
    let read_only = Host {
        writable: Vec::new(),
        ..Host::over(&[&memory])
    };
    let write_only = Host {
        readable: Vec::new(),
        ..Host::over(&[&memory])
    };
    assert_eq!(
        faults_with(&memory, read_only.clone(), copy.encode()),
        memory_record(a, Access::Write, 3)
    );
    assert_eq!(
        faults_with(&memory, write_only, copy.encode()),
        memory_record(b, Access::Read, 3)
    );
    assert_eq!(
        faults_with(&memory, read_only, signal(a, 1).encode()),
        memory_record(a, Access::Write, 3)
    );
}

#[test]
fn a_copy_moves_nothing_unless_it_can_move_all() {
    // Longer than a step, and only the end is not there.
    let memory = Memory::new(64);
    for i in 0..64 {
        memory.set(i, i as u64);
    }
    let (good, late) = (memory.at(0), memory.at(60));
    let copy = |destination, source| Packet::Copy {
        destination,
        source,
        bytes: 40,
    };
    assert_eq!(
        faults(&memory, copy(late, good)),
        memory_record(late, Access::Write, 3)
    );
    assert_eq!(
        faults(&memory, copy(good, late)),
        memory_record(late, Access::Read, 3)
    );
}

#[test]
fn misaligned_addresses() {
    let memory = Memory::new(64);
    let base = memory.at(0);
    let cases = |off: u64| {
        let address = base + off;
        [
            (16, signal(address, 1), Access::Write),
            (16, Packet::Wait { address, value: 0 }, Access::Read),
            (16, Packet::Timestamp { address }, Access::Write),
            (8, write(address, 1), Access::Write),
            (4, Packet::Write32 { address, value: 1 }, Access::Write),
            (
                4,
                Packet::Poll {
                    address,
                    mask: 0,
                    expect: 0,
                },
                Access::Read,
            ),
            (64, Packet::Indirect { address, count: 1 }, Access::Read),
        ]
    };
    for off in [1, 2, 4, 8, 16, 32] {
        for (align, packet, access) in cases(off) {
            if off % align != 0 {
                assert_eq!(
                    faults(&memory, packet),
                    memory_record(base + off, access, 3),
                    "{packet}"
                );
            }
        }
    }
    // Device addresses that are aligned, memory that is not: refused as well, not accessed.
    let shifted = Host {
        shift: 2,
        readable: std::vec![base - 2..base + 256],
        writable: std::vec![base - 2..base + 256],
        ..Host::default()
    };
    for (_, packet, access) in cases(0) {
        if matches!(packet, Packet::Timestamp { .. }) {
            continue;
        }
        assert_eq!(
            faults_moved(&memory, &shifted, packet),
            memory_record(base, access, 0),
            "{packet}"
        );
    }
}

/// The record of a packet that faults as the first of a queue, where other memory is not where it says.
fn faults_moved(memory: &Memory, host: &Host, packet: Packet) -> FaultRecord {
    let before = memory.all();
    let ring = queue_memory(1);
    let (mut submit, q) = queue(&ring, ENGINE);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, no_local());
    submit.push(&[packet]);
    let Poll::Fault { queue: 0, record } = poll(&mut engine, &mut host.clone(), 99) else {
        panic!("{packet} is no fault");
    };
    assert_eq!(memory.all(), before);
    record
}

#[test]
fn copies_that_overlap_or_leave_the_address_space() {
    let memory = Memory::new(64);
    let base = memory.at(0);
    let copy = |destination, source, bytes| Packet::Copy {
        destination,
        source,
        bytes,
    };
    for (packet, bytes) in [
        (copy(base, base, 1), 1),
        (copy(base + 99, base, 100), 100),
        (copy(base, base + 99, 100), 100),
        (copy(base, base + 7, 8), 8),
        (copy(u64::MAX - 7, base, 8), 8),
        (copy(base, u64::MAX - 7, 16), 16),
        (copy(0, 1 << 63, u64::MAX), u64::MAX),
    ] {
        assert_eq!(
            faults(&memory, packet),
            record(FaultKind::Command, 3, bytes),
            "{packet}"
        );
    }
    // Two device addresses of the same memory: `shift` applies to the second only.
    struct Twice(Host);
    impl Platform for Twice {
        fn now_ns(&mut self) -> u64 {
            1
        }
        fn translate(&mut self, address: u64, len: u64, access: Access) -> Option<NonNull<u8>> {
            self.0.translate(address & !(1 << 63), len, access)
        }
        fn kernel(&mut self, _: u64) -> Option<KernelFn> {
            None
        }
    }
    let ring = queue_memory(2);
    let (mut submit, q) = queue(&ring, ENGINE);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, no_local());
    submit.push(&[
        copy(base | 1 << 63, base + 8, 8),
        copy(base | 1 << 63, base + 8, 9),
    ]);
    // SAFETY: the platform knows `memory` only.
    let outcome = unsafe { engine.poll(&mut Twice(Host::over(&[&memory])), 99) };
    assert_eq!(
        outcome,
        Poll::Fault {
            queue: 0,
            record: record(FaultKind::Command, 1, 9)
        }
    );
}

#[test]
fn launches_that_cannot_be() {
    let memory = Memory::new(64);
    let args = memory.at(0);
    assert_eq!(
        faults(&memory, exec(0x99, args, 8, [1; 3])),
        record(FaultKind::Program, 3, 0x99)
    );
    assert_eq!(
        faults(&memory, exec(0x99, args, 8, [2; 3])),
        record(FaultKind::Program, 3, 0x99)
    );
    for groups in [[0, 1, 1], [1, 0, 1], [1, 1, 0], [0; 3], [u32::MAX; 3]] {
        assert_eq!(
            faults(&memory, exec(COUNT, args, 8, groups)),
            record(FaultKind::Command, 3, groups[0].into()),
            "{groups:?}"
        );
    }
    let spoilt = |spoil: fn(&mut Exec)| {
        let Packet::Exec(mut e) = exec(COUNT, args, 8, [1; 3]) else {
            unreachable!("just made")
        };
        spoil(&mut e);
        faults(&memory, Packet::Exec(e))
    };
    for spoil in [
        (|e| e.local[0] = 0) as fn(&mut Exec),
        |e| e.local[1] = 0,
        |e| e.local[2] = 0,
    ] {
        assert_eq!(spoilt(spoil), record(FaultKind::Command, 3, 0));
    }
    assert_eq!(
        spoilt(|e| e.local_memory = 1),
        record(FaultKind::Program, 3, 1)
    );
    // The first thing that is wrong is the one that is reported: nothing is looked up for a grid that is none.
    assert_eq!(
        faults(&memory, exec(0x99, u64::MAX, 8, [0; 3])),
        record(FaultKind::Command, 3, 0)
    );
}

#[test]
fn polls_that_no_word_can_end() {
    let memory = Memory::new(8);
    let packet = Packet::Poll {
        address: memory.at(0),
        mask: 0xf0,
        expect: 0x1f0,
    };
    assert_eq!(
        faults(&memory, packet),
        record(FaultKind::Command, 3, 0x1f0)
    );
}

#[test]
fn bound_queues_that_cannot_be() {
    let memory = Memory::new(64);
    let place = |word: usize, words: &[u32; PACKET_WORDS]| {
        for (i, pair) in words.chunks(2).enumerate() {
            memory.set(word + i, u64::from(pair[0]) | u64::from(pair[1]) << 32);
        }
    };
    let indirect = |address, count| Packet::Indirect { address, count };
    // Nested, also when empty.
    for inner in [indirect(memory.at(0), 1), indirect(0, 0)] {
        place(8, &Packet::Nop.encode());
        place(16, &inner.encode());
        assert_eq!(
            faults(&memory, indirect(memory.at(8), 2)),
            record(FaultKind::Command, memory.at(16), 9)
        );
    }
    // Malformed in the middle.
    place(16, &[0x77; 16]);
    assert_eq!(
        faults(&memory, indirect(memory.at(8), 3)),
        record(FaultKind::Command, memory.at(16), 0x77)
    );
    // A fault of an operand has the operand's address; the position is the ring's.
    place(8, &write(8, 1).encode());
    assert_eq!(
        faults(&memory, indirect(memory.at(8), 1)),
        memory_record(8, Access::Write, 3)
    );
    // Longer than its memory, and than the address space.
    for word in [48, 56] {
        place(word, &Packet::Nop.encode());
    }
    assert_eq!(
        faults(&memory, indirect(memory.at(48), 3)),
        memory_record(memory.at(64), Access::Read, 3)
    );
    let high = u64::MAX - 127;
    assert_eq!(
        faults(&memory, indirect(high, 2)),
        memory_record(high, Access::Read, 3)
    );
    // Also where memory is at every address: the packets do not go on at 0.
    struct Everywhere<'m>(&'m Memory);
    impl Platform for Everywhere<'_> {
        fn now_ns(&mut self) -> u64 {
            1
        }
        fn translate(&mut self, _: u64, _: u64, _: Access) -> Option<NonNull<u8>> {
            NonNull::new(core::ptr::with_exposed_provenance_mut(
                self.0.at(48) as usize
            ))
        }
        fn kernel(&mut self, _: u64) -> Option<KernelFn> {
            None
        }
    }
    let ring = queue_memory(2);
    let (mut submit, q) = queue(&ring, ENGINE);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, no_local());
    submit.push(&[indirect(high, 1), indirect(high, 2)]);
    // SAFETY: the packets there do nothing.
    let outcome = unsafe { engine.poll(&mut Everywhere(&memory), 99) };
    let record = memory_record(high, Access::Read, 1);
    assert_eq!(outcome, Poll::Fault { queue: 0, record });
    assert_eq!(
        faults(&memory, indirect(64, u32::MAX)),
        memory_record(64, Access::Read, 3)
    );
}
