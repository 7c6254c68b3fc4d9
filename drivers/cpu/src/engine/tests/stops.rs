//! Queues that stop in the middle, of which several stop, and that start again.

use super::faults::{ENGINE, memory_record, record};
use super::*;

#[test]
fn memory_that_goes_away_while_a_packet_is_held_or_in_the_middle() {
    let (memory, ring) = (Memory::new(64), queue_memory(2));
    let gone = |address, access| Poll::Fault {
        queue: 0,
        record: memory_record(address, access, 0),
    };
    let address = memory.at(0);
    memory.set(8, memory.at(16));
    for (packet, first, fault) in [
        (
            Packet::Wait { address, value: 1 },
            None,
            gone(address, Access::Read),
        ),
        (
            Packet::Poll {
                address,
                mask: 1,
                expect: 1,
            },
            None,
            gone(address, Access::Read),
        ),
        (
            exec(COUNT, memory.at(8), 8, [3, 1, 1]),
            Some(Poll::Ran(1)),
            gone(memory.at(8), Access::Read),
        ),
        (
            Packet::Copy {
                destination: memory.at(32),
                source: memory.at(40),
                bytes: 24,
            },
            Some(Poll::Ran(1)),
            gone(memory.at(41), Access::Read),
        ),
    ] {
        ring.set(0, 0);
        ring.set(8, 0);
        ring.set(16, 0);
        let (mut submit, q) = queue(&ring, ENGINE);
        let mut queues = [q];
        let mut engine = Engine::new(&mut queues, no_local()).with_copy_step(8);
        submit.push(&[packet, Packet::Nop]);
        let outcome = poll(&mut engine, &mut Host::over(&[&memory]), 1);
        match first {
            Some(first) => assert_eq!(outcome, first),
            None => assert!(matches!(outcome, Poll::Blocked(_))),
        }
        assert_eq!(poll(&mut engine, &mut Host::default(), 1), fault);
        assert_eq!(
            poll(&mut engine, &mut Host::over(&[&memory]), 9),
            Poll::Idle
        );
        assert_eq!(submit.get(), 0);
    }
}

#[test]
fn a_kernel_that_goes_away_in_the_middle_of_its_launch() {
    let (memory, ring) = (Memory::new(64), queue_memory(1));
    memory.set(0, memory.at(1));
    let (mut submit, q) = queue(&ring, ENGINE);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, no_local());
    let mut host = Host::over(&[&memory]);
    submit.push(&[exec(COUNT, memory.at(0), 8, [5, 1, 1])]);
    assert_eq!(poll(&mut engine, &mut host, 2), Poll::Ran(2));
    host.no_kernels = true;
    assert_eq!(
        poll(&mut engine, &mut host, 2),
        Poll::Fault {
            queue: 0,
            record: record(FaultKind::Program, 0, COUNT)
        }
    );
    assert_eq!(memory.all()[1..6], [1, 1, 0, 0, 0]);
}

#[test]
fn a_put_that_is_not_between_get_and_a_ring_further() {
    for put in [5, u64::MAX, 1 << 40] {
        let ring = queue_memory(4);
        let (submit, q) = queue(&ring, ENGINE);
        let mut queues = [q];
        let mut engine = Engine::new(&mut queues, no_local());
        submit.control.set_put(put);
        let record = record(FaultKind::Command, 0, put);
        assert_eq!(
            poll(&mut engine, &mut Host::default(), 99),
            Poll::Fault { queue: 0, record }
        );
        assert_eq!(submit.control.fault().get(), Some(record));
        // A reset takes put for what it is.
        engine.queues()[0].reset();
        assert_eq!(submit.get(), put);
        assert_eq!(poll(&mut engine, &mut Host::default(), 99), Poll::Idle);
    }
    // Going back is ahead by nearly 2^64.
    let ring = queue_memory(4);
    let (mut submit, q) = queue(&ring, ENGINE);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, no_local());
    submit.push(&[Packet::Nop; 3]);
    assert_eq!(poll(&mut engine, &mut Host::default(), 99), Poll::Ran(3));
    submit.control.set_put(2);
    assert_eq!(
        poll(&mut engine, &mut Host::default(), 99),
        Poll::Fault {
            queue: 0,
            record: record(FaultKind::Command, 3, 2)
        }
    );
}

#[test]
fn the_first_fault_stays_in_the_control_block() {
    // A control block that says so already, as after the engine was made anew.
    let (memory, ring) = (Memory::new(1), queue_memory(4));
    let (mut submit, q) = queue(&ring, ENGINE);
    let first = FaultRecord::new(FaultKind::Hardware, 1, 2);
    submit.control.fault().report(&first);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, no_local());
    submit.words(&[[0; 16]]);
    let mut host = Host::over(&[&memory]);
    assert!(matches!(
        poll(&mut engine, &mut host, 9),
        Poll::Fault { queue: 0, .. }
    ));
    assert_eq!(submit.control.fault().get(), Some(first));
}

#[test]
fn faults_of_several_queues_come_one_poll_after_the_other() {
    let rings = [queue_memory(2), queue_memory(2), queue_memory(2)];
    let (mut submits, queues): (Vec<_>, Vec<_>) =
        (0u16..).zip(&rings).map(|(id, m)| queue(m, id)).unzip();
    let mut queues = queues;
    let mut engine = Engine::new(&mut queues, no_local());
    for s in &mut submits {
        s.words(&[Packet::Nop.encode(), [0xff; 16]]);
    }
    let mut seen = Vec::new();
    for _ in 0..3 {
        match poll(&mut engine, &mut Host::default(), 99) {
            Poll::Fault { queue, record } => seen.push((queue, record.engine, record.address)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(seen, [(0, 0, 1), (1, 1, 1), (2, 2, 1)]);
    assert_eq!(poll(&mut engine, &mut Host::default(), 99), Poll::Idle);
}

#[test]
fn a_reset_in_the_middle_drops_what_was_begun() {
    let (memory, ring) = (Memory::new(64), queue_memory(4));
    let (mut submit, q) = queue(&ring, ENGINE);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, no_local()).with_copy_step(8);
    let mut host = Host::over(&[&memory]);
    memory.set(0, memory.at(1));
    for (packet, budget) in [
        (exec(COUNT, memory.at(0), 8, [5, 1, 1]), 2),
        (
            Packet::Copy {
                destination: memory.at(32),
                source: memory.at(0),
                bytes: 24,
            },
            1,
        ),
        (
            Packet::Wait {
                address: memory.at(62),
                value: 1,
            },
            1,
        ),
    ] {
        submit.push(&[packet, write(memory.at(60), 1)]);
        poll(&mut engine, &mut host, budget);
        assert!(engine.has_work());
        engine.queues()[0].reset();
        assert!(!engine.has_work());
        assert_eq!(poll(&mut engine, &mut host, 9), Poll::Idle);
    }
    assert_eq!(memory.get(60), 0);
    submit.push(&[write(memory.at(60), 2)]);
    assert_eq!(poll(&mut engine, &mut host, 9), Poll::Ran(1));
    assert_eq!(memory.get(60), 2);
}
