//! What each command does, in what order, and how much of it at a time.

use super::*;

/// Runs packets on a queue of its own and returns the polls' outcomes until nothing runs any more.
fn run(memory: &Memory, packets: &[Packet]) -> (Poll, Host) {
    let ring = queue_memory(packets.len());
    let (mut submit, q) = queue(&ring, 1);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, no_local());
    let mut host = Host::over(&[memory]);
    submit.push(packets);
    assert!(engine.has_work());
    let first = poll(&mut engine, &mut host, u32::MAX);
    assert_eq!(submit.get(), packets.len() as u64);
    assert!(!engine.has_work());
    assert_eq!(poll(&mut engine, &mut host, u32::MAX), Poll::Idle);
    (first, host)
}

#[test]
fn writes_store_their_width_and_signals_their_value() {
    let memory = Memory::new(8);
    for i in 0..8 {
        memory.set(i, u64::MAX);
    }
    let (outcome, host) = run(
        &memory,
        &[
            Packet::Write32 {
                address: memory.at(0) + 4,
                value: 0x1234_5678,
            },
            write(memory.at(1), 0x1122_3344_5566_7788),
            signal(memory.at(2), 7),
            Packet::Signal {
                address: memory.at(4),
                value: 8,
                notify: true,
            },
            Packet::Timestamp {
                address: memory.at(6),
            },
        ],
    );
    assert_eq!(outcome, Poll::Ran(5));
    assert_eq!(
        memory.all(),
        [
            0x1234_5678_ffff_ffff,
            0x1122_3344_5566_7788,
            7,
            u64::MAX,
            8,
            u64::MAX,
            u64::MAX,
            1
        ]
    );
    let told = [(0, 4, false), (1, 0, false), (2, 0, false), (4, 0, true)];
    assert_eq!(
        host.written,
        told.map(|(word, byte, notify)| (memory.at(word) + byte, notify))
    );
}

#[test]
fn nothing_and_a_barrier_change_nothing() {
    let memory = Memory::new(1);
    let (outcome, host) = run(&memory, &[Packet::Nop, Packet::Barrier]);
    assert_eq!(outcome, Poll::Ran(2));
    assert!(host.written.is_empty());
}

#[test]
fn copies_move_any_bytes_to_any_place() {
    let memory = Memory::new(64);
    for (from, to, len) in [
        (0, 256, 8),
        (1, 256, 8),
        (3, 258, 33),
        (0, 100, 100),
        (100, 0, 100),
        (7, 511, 1),
        (0, 512, 0),
    ] {
        let mut want: Vec<u8> = (0..512u32).map(|i| (i / 2 * 3) as u8).collect();
        memory.set_bytes(&want);
        let (outcome, _) = run(
            &memory,
            &[Packet::Copy {
                destination: memory.at(0) + to,
                source: memory.at(0) + from,
                bytes: len,
            }],
        );
        assert_eq!(outcome, Poll::Ran(1));
        want.copy_within(from as usize..(from + len) as usize, to as usize);
        assert_eq!(memory.bytes(), want, "{from} {to} {len}");
    }
}

#[test]
fn later_packets_see_what_earlier_ones_did() {
    // Written, copied on, used by a kernel, and copied back.
    let memory = Memory::new(32);
    let word = |i| memory.at(i);
    let copy = |to, from, words: u64| Packet::Copy {
        destination: word(to),
        source: word(from),
        bytes: words * 8,
    };
    memory.set(24, word(12));
    memory.set(25, word(8));
    let (outcome, _) = run(
        &memory,
        &[
            write(word(0), 10),
            write(word(1), 20),
            write(word(0), 11),
            copy(8, 0, 2),
            // The third argument, too.
            write(word(26), 3),
            exec(MIX, word(24), 24, [2, 1, 1]),
            copy(0, 12, 2),
            signal(word(16), 1),
        ],
    );
    assert_eq!(outcome, Poll::Ran(9));
    assert_eq!([memory.get(0), memory.get(1)], [33, 61]);
    assert_eq!(memory.get(16), 1);
}

#[test]
fn a_wait_holds_its_queue_until_the_signal_is_large_enough() {
    let (memory, ring) = (Memory::new(4), queue_memory(4));
    let (mut submit, q) = queue(&ring, 0);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, no_local());
    let mut host = Host::over(&[&memory]);
    let (address, wanted) = (memory.at(0), 1 << 63);
    submit.push(&[
        Packet::Nop,
        Packet::Wait {
            address,
            value: wanted,
        },
        write(memory.at(2), 1),
    ]);
    let blocked = |seen| {
        Poll::Blocked(Blocked {
            queue: 0,
            on: BlockedOn::Signal {
                address,
                wanted,
                seen,
            },
        })
    };
    assert_eq!(poll(&mut engine, &mut host, 9), Poll::Ran(1));
    for seen in [0, 1, wanted - 1] {
        memory.set(0, seen);
        assert_eq!(poll(&mut engine, &mut host, 9), blocked(seen));
        assert!(engine.has_work());
        assert_eq!((submit.get(), memory.get(2)), (1, 0));
    }
    // The comparison is unsigned, and more than wanted is enough.
    memory.set(0, u64::MAX);
    assert_eq!(poll(&mut engine, &mut host, 9), Poll::Ran(2));
    assert_eq!((submit.get(), memory.get(2)), (3, 1));
    // A wait for what is there already holds nothing.
    submit.push(&[Packet::Wait {
        address,
        value: u64::MAX,
    }]);
    assert_eq!(poll(&mut engine, &mut host, 9), Poll::Ran(1));
}

#[test]
fn a_poll_holds_its_queue_until_the_masked_word_is_equal() {
    let (memory, ring) = (Memory::new(2), queue_memory(4));
    let (mut submit, q) = queue(&ring, 0);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, no_local());
    let mut host = Host::over(&[&memory]);
    // The upper half of the word.
    let address = memory.at(0) + 4;
    let (mask, expect) = (0xff00, 0x1200);
    submit.push(&[
        Packet::Poll {
            address,
            mask,
            expect,
        },
        write(memory.at(1), 1),
    ]);
    for seen in [0, 0x1300, 0xffff_ffff, 0x0012_0000u32] {
        memory.set(0, u64::from(seen) << 32 | 0x1200);
        let on = BlockedOn::Word {
            address,
            mask,
            expect,
            seen,
        };
        assert_eq!(
            poll(&mut engine, &mut host, 9),
            Poll::Blocked(Blocked { queue: 0, on })
        );
        assert_eq!((submit.get(), memory.get(1)), (0, 0));
    }
    memory.set(0, 0xabcd_12ef << 32);
    assert_eq!(poll(&mut engine, &mut host, 9), Poll::Ran(2));
    // All bits clear, and no bits at all.
    memory.set(0, 0);
    submit.push(&[
        Packet::Poll {
            address,
            mask: u32::MAX,
            expect: 0,
        },
        Packet::Poll {
            address,
            mask: 0,
            expect: 0,
        },
    ]);
    assert_eq!(poll(&mut engine, &mut host, 9), Poll::Ran(2));
}

#[test]
fn queues_of_one_engine_wait_for_each_other() {
    let memory = Memory::new(16);
    let (first, second) = (queue_memory(8), queue_memory(8));
    let ((mut a, qa), (mut b, qb)) = (queue(&first, 0), queue(&second, 1));
    let mut queues = [qa, qb];
    let mut engine = Engine::new(&mut queues, no_local());
    let mut host = Host::over(&[&memory]);
    let (sa, sb, data) = (memory.at(0), memory.at(2), memory.at(4));
    let wait = |address, value| Packet::Wait { address, value };
    a.push(&[
        wait(sb, 1),
        Packet::Copy {
            destination: data + 8,
            source: data,
            bytes: 8,
        },
        signal(sa, 1),
        wait(sb, 2),
        signal(sa, 2),
    ]);
    b.push(&[
        write(data, 42),
        signal(sb, 1),
        wait(sa, 1),
        Packet::Copy {
            destination: data + 16,
            source: data + 8,
            bytes: 8,
        },
        signal(sb, 2),
        wait(sa, 3),
    ]);
    let outcome = settle(&mut engine, &mut host);
    let on = BlockedOn::Signal {
        address: sa,
        wanted: 3,
        seen: 2,
    };
    assert_eq!(outcome, Poll::Blocked(Blocked { queue: 1, on }));
    assert_eq!([memory.get(5), memory.get(6)], [42, 42]);
    assert_eq!((a.get(), b.get()), (5, 5));
    // One queue that is held does not hold the other.
    a.push(&[signal(sa, 3)]);
    assert_eq!(settle(&mut engine, &mut host), Poll::Idle);
    assert_eq!((a.get(), b.get()), (6, 6));
}

#[test]
fn the_first_queue_that_is_held_is_the_one_that_is_named() {
    let memory = Memory::new(8);
    let rings = [queue_memory(8), queue_memory(8), queue_memory(8)];
    let (mut submits, queues): (Vec<_>, Vec<_>) =
        (0u16..).zip(&rings).map(|(id, m)| queue(m, id)).unzip();
    let mut queues = queues;
    let mut engine = Engine::new(&mut queues, no_local());
    let mut host = Host::over(&[&memory]);
    let wait = |n: usize| Packet::Wait {
        address: memory.at(2 * n),
        value: 1,
    };
    submits[1].push(&[Packet::Nop, wait(1)]);
    submits[2].push(&[Packet::Nop, wait(2), Packet::Nop]);
    // Wherever the last poll's budget ended.
    for (budget, queue) in [(1, 1), (1, 1), (9, 1)] {
        while let Poll::Ran(_) = poll(&mut engine, &mut host, budget) {}
        let Poll::Blocked(blocked) = poll(&mut engine, &mut host, budget) else {
            panic!("nothing is held")
        };
        assert_eq!(blocked.queue, queue);
    }
    memory.set(2, 1);
    assert_eq!(poll(&mut engine, &mut host, 9), Poll::Ran(1));
    let Poll::Blocked(blocked) = poll(&mut engine, &mut host, 9) else {
        panic!("nothing is held")
    };
    assert_eq!(blocked.queue, 2);
    memory.set(4, 1);
    assert_eq!(settle(&mut engine, &mut host), Poll::Idle);
}

#[test]
fn a_poll_runs_no_more_than_its_budget() {
    let (memory, ring) = (Memory::new(64), queue_memory(64));
    let (mut submit, q) = queue(&ring, 0);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, no_local()).with_copy_step(16);
    let mut host = Host::over(&[&memory]);
    submit.push(&[Packet::Nop; 5]);
    assert_eq!(poll(&mut engine, &mut host, 0), Poll::Ran(0));
    assert_eq!(poll(&mut engine, &mut host, 3), Poll::Ran(3));
    assert_eq!(submit.get(), 3);
    assert_eq!(poll(&mut engine, &mut host, 3), Poll::Ran(2));
    assert_eq!(submit.get(), 5);

    // A launch in pieces; it is a packet of the ring until all its groups are done.
    memory.set(0, memory.at(8));
    submit.push(&[exec(COUNT, memory.at(0), 8, [5, 2, 1]), Packet::Nop]);
    for (budget, ran, done) in [(4, 4, 4), (1, 1, 5), (3, 3, 8)] {
        assert_eq!(poll(&mut engine, &mut host, budget), Poll::Ran(ran));
        let counts = memory.all()[8..18].iter().sum::<u64>();
        assert_eq!((submit.get(), counts), (5, done));
        assert!(engine.has_work());
    }
    assert_eq!(poll(&mut engine, &mut host, 2), Poll::Ran(2));
    assert_eq!(submit.get(), 6);
    assert_eq!(poll(&mut engine, &mut host, 2), Poll::Ran(1));
    assert!(memory.all()[8..18].iter().all(|&n| n == 1));

    // A copy in steps.
    for i in 0..8 {
        memory.set(i, 100 + i as u64);
    }
    submit.push(&[
        Packet::Copy {
            destination: memory.at(32),
            source: memory.at(0),
            bytes: 60,
        },
        signal(memory.at(48), 1),
    ]);
    for (budget, words) in [(1, 2), (2, 6)] {
        assert_eq!(poll(&mut engine, &mut host, budget), Poll::Ran(budget));
        let have = memory.all()[32..40].to_vec();
        let want: Vec<u64> = (0..8)
            .map(|i| if i < words { 100 + i } else { 0 })
            .collect();
        assert_eq!((have, submit.get()), (want, 7));
    }
    assert_eq!(poll(&mut engine, &mut host, 9), Poll::Ran(2));
    assert_eq!((memory.get(38), memory.get(39)), (106, 107));
    assert_eq!((submit.get(), memory.get(48)), (9, 1));
}

#[test]
fn the_last_step_of_a_copy_is_as_long_as_what_is_left() {
    for step in [1u64, 3, 8, 59, 60, 61] {
        let (memory, ring) = (Memory::new(24), queue_memory(1));
        let (mut submit, q) = queue(&ring, 0);
        let mut queues = [q];
        let mut engine = Engine::new(&mut queues, no_local()).with_copy_step(step);
        let mut want = [0; 24 * 8];
        want[..64].fill(0xff);
        memory.set_bytes(&want);
        submit.push(&[Packet::Copy {
            destination: memory.at(10),
            source: memory.at(0),
            bytes: 60,
        }]);
        let ran = 60u64.div_ceil(step) as u32;
        let outcome = poll(&mut engine, &mut Host::over(&[&memory]), 1000);
        assert_eq!(outcome, Poll::Ran(ran), "{step}");
        want[80..140].fill(0xff);
        assert_eq!(memory.bytes(), want, "{step}");
    }
}

#[test]
fn the_budget_goes_round_among_the_queues() {
    let rings = [queue_memory(32), queue_memory(32), queue_memory(32)];
    let (mut submits, queues): (Vec<_>, Vec<_>) =
        (0u16..).zip(&rings).map(|(id, m)| queue(m, id)).unzip();
    let mut queues = queues;
    let mut engine = Engine::new(&mut queues, no_local());
    let mut host = Host::default();
    for s in &mut submits {
        s.push(&[Packet::Nop; 30]);
    }
    for polls in 1..=15u64 {
        assert_eq!(poll(&mut engine, &mut host, 4), Poll::Ran(4));
        let gets: Vec<_> = submits.iter().map(Submit::get).collect();
        let spread = gets.iter().max().expect("3") - gets.iter().min().expect("3");
        assert!(spread <= 8, "{gets:?}");
        assert_eq!(gets.iter().sum::<u64>(), polls * 4);
    }
}

#[test]
fn room_in_the_ring_is_told_in_the_middle_of_a_long_run() {
    // The last packet copies get out of the control block while the run goes on.
    let (memory, ring) = (Memory::new(1), queue_memory(50));
    let (mut submit, q) = queue(&ring, 0);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, no_local());
    let mut packets = [Packet::Nop; 50];
    packets[49] = Packet::Copy {
        destination: memory.at(0),
        source: ring.at(8),
        bytes: 8,
    };
    submit.push(&packets);
    let outcome = poll(&mut engine, &mut Host::over(&[&memory, &ring]), 1000);
    assert_eq!(outcome, Poll::Ran(50));
    assert_eq!((memory.get(0), submit.get()), (32, 50));
}

/// Packets in memory for a bound queue.
fn bound(memory: &Memory, word: usize, packets: &[Packet]) -> Packet {
    let words: Vec<u32> = packets.iter().flat_map(Packet::encode).collect();
    for (i, pair) in words.chunks(2).enumerate() {
        memory.set(word + i, u64::from(pair[0]) | u64::from(pair[1]) << 32);
    }
    Packet::Indirect {
        address: memory.at(word),
        count: packets.len() as u32,
    }
}

#[test]
fn a_bound_queue_runs_in_place_of_its_packet() {
    let (memory, ring) = (Memory::new(64), queue_memory(8));
    let (mut submit, q) = queue(&ring, 0);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, no_local());
    let mut host = Host::over(&[&memory]);
    let (s, data) = (memory.at(0), memory.at(2));
    let inner = [
        write(data, 2),
        Packet::Wait {
            address: s,
            value: 5,
        },
        write(data, 3),
    ];
    let indirect = bound(&memory, 8, &inner);
    let none = Packet::Indirect {
        address: 3,
        count: 0,
    };
    submit.push(&[write(data, 1), indirect, none, write(data, 4)]);

    assert_eq!(poll(&mut engine, &mut host, 2), Poll::Ran(2));
    assert_eq!((submit.get(), memory.get(2)), (1, 1));
    assert_eq!(poll(&mut engine, &mut host, 9), Poll::Ran(1));
    assert_eq!((submit.get(), memory.get(2)), (1, 2));
    let on = BlockedOn::Signal {
        address: s,
        wanted: 5,
        seen: 0,
    };
    for _ in 0..2 {
        assert_eq!(
            poll(&mut engine, &mut host, 9),
            Poll::Blocked(Blocked { queue: 0, on })
        );
    }
    memory.set(0, 6);
    assert_eq!(poll(&mut engine, &mut host, 1), Poll::Ran(1));
    assert_eq!((submit.get(), memory.get(2)), (1, 2));
    assert_eq!(poll(&mut engine, &mut host, 1), Poll::Ran(1));
    assert_eq!((submit.get(), memory.get(2)), (2, 3));
    assert_eq!(poll(&mut engine, &mut host, 9), Poll::Ran(2));
    assert_eq!((submit.get(), memory.get(2)), (4, 4));

    // Again, and with other contents; from then on the ring's packets.
    submit.push(&[indirect, bound(&memory, 8, &[write(data, 9)]), write(s, 1)]);
    // The memory now holds the second one's packet first.
    assert_eq!(settle(&mut engine, &mut host), Poll::Idle);
    assert_eq!((submit.get(), memory.get(2), memory.get(0)), (7, 9, 1));
}

#[test]
fn launches_and_copies_of_a_bound_queue_run_in_pieces() {
    let (memory, ring) = (Memory::new(64), queue_memory(2));
    let (mut submit, q) = queue(&ring, 0);
    let mut queues = [q];
    let mut engine = Engine::new(&mut queues, no_local()).with_copy_step(8);
    let mut host = Host::over(&[&memory]);
    memory.set(0, memory.at(2));
    let packets = [
        exec(COUNT, memory.at(0), 8, [3, 1, 1]),
        Packet::Copy {
            destination: memory.at(5),
            source: memory.at(2),
            bytes: 24,
        },
    ];
    submit.push(&[bound(&memory, 16, &packets)]);
    for step in 0..7 {
        assert_eq!(submit.get(), 0, "{step}");
        assert_eq!(poll(&mut engine, &mut host, 1), Poll::Ran(1));
    }
    assert_eq!(submit.get(), 1);
    assert_eq!(poll(&mut engine, &mut host, 1), Poll::Idle);
    assert_eq!(memory.all()[2..8], [1; 6]);
}

#[test]
fn the_ring_wraps_at_every_offset() {
    let most = if cfg!(miri) { 3 } else { 6 };
    for len in 1..=most {
        let (memory, ring) = (Memory::new(2), queue_memory(len));
        let (mut submit, q) = queue(&ring, 0);
        let mut queues = [q];
        let mut engine = Engine::new(&mut queues, no_local());
        let mut host = Host::over(&[&memory]);
        let mut sent = 0u64;
        // Every batch size at every offset.
        for batch in 1..=len {
            for _ in 0..2 * len {
                let packets: Vec<_> = (1..=batch as u64)
                    .map(|i| write(memory.at(0), sent + i))
                    .collect();
                submit.push(&packets);
                sent += batch as u64;
                host.written.clear();
                assert_eq!(poll(&mut engine, &mut host, 100), Poll::Ran(batch as u32));
                assert_eq!((memory.get(0), submit.get()), (sent, sent));
                assert_eq!(host.written.len(), batch);
            }
        }
    }
}

#[test]
fn a_queue_goes_on_where_get_stands() {
    let (memory, ring) = (Memory::new(2), queue_memory(3));
    for start in [0, 1, 2, 3, 7, u64::MAX - 1] {
        ring.set(0, start);
        ring.set(8, start);
        let (submit, q) = queue(&ring, 0);
        let mut queues = [q];
        let mut engine = Engine::new(&mut queues, no_local());
        assert!(!engine.has_work());
        // By hand: the host's ring begins at 0.
        let place = (start % 3) as usize * 8 + Control::WORDS;
        for (i, pair) in write(memory.at(1), start).encode().chunks(2).enumerate() {
            ring.set(place + i, u64::from(pair[0]) | u64::from(pair[1]) << 32);
        }
        submit.control.set_put(start + 1);
        let mut host = Host::over(&[&memory]);
        assert_eq!(poll(&mut engine, &mut host, 9), Poll::Ran(1));
        assert_eq!((memory.get(1), submit.get()), (start, start + 1));
    }
}

#[test]
fn a_ring_is_a_whole_number_of_packets() {
    let memory = queue_memory(2);
    let control = Control::new(memory.words()).expect("enough words");
    for bytes in [0, 8, 56, 72, 127] {
        let ring = memory.region().slice(0, bytes).expect("inside");
        assert_eq!(
            EngineQueue::new(ring, control, 0).map(|_| ()),
            Err(RingError::Shape {
                bytes,
                entry: PACKET_BYTES
            })
        );
    }
}

#[test]
fn an_engine_without_queues_is_idle() {
    let mut queues = [];
    let mut engine = Engine::new(&mut queues, no_local());
    assert!(!engine.has_work());
    assert_eq!(poll(&mut engine, &mut Host::default(), 9), Poll::Idle);
}
