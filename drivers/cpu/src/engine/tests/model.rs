//! Random programs on several queues, with whatever order of steps, against the same commands one after the other.

use super::*;
use crate::share::{Job, Share};
use proptest::prelude::*;

const CELLS: usize = 24;

/// A command on the cells. Ranges of one command do not overlap, but for a launch that works in place.
#[derive(Clone, Copy, Debug)]
enum Op {
    Write64 {
        cell: usize,
        value: u64,
    },
    Write32 {
        cell: usize,
        high: bool,
        value: u32,
    },
    Copy {
        to: usize,
        from: usize,
        cells: usize,
    },
    Mix {
        to: usize,
        from: usize,
        groups: usize,
        factor: u64,
    },
    Count {
        at: usize,
        groups: usize,
    },
}

impl Op {
    fn writes(self) -> Range<usize> {
        match self {
            Self::Write64 { cell, .. } | Self::Write32 { cell, .. } => cell..cell + 1,
            Self::Copy { to, cells, .. } => to..to + cells,
            Self::Mix { to, groups, .. } => to..to + groups,
            Self::Count { at, groups } => at..at + groups,
        }
    }

    fn reads(self) -> Range<usize> {
        match self {
            Self::Copy { from, cells, .. } => from..from + cells,
            Self::Mix { from, groups, .. } => from..from + groups,
            _ => self.writes(),
        }
    }

    fn conflicts(self, other: Self) -> bool {
        let overlap = |a: Range<usize>, b: Range<usize>| a.start < b.end && b.start < a.end;
        overlap(self.writes(), other.writes())
            || overlap(self.writes(), other.reads())
            || overlap(self.reads(), other.writes())
    }

    /// What it does, one group after the other.
    fn apply(self, cells: &mut [u64]) {
        match self {
            Self::Write64 { cell, value } => cells[cell] = value,
            Self::Write32 { cell, high, value } => {
                let (shift, value) = (if high { 32 } else { 0 }, u64::from(value));
                cells[cell] = cells[cell] & !(0xffff_ffff << shift) | value << shift;
            }
            Self::Copy { to, from, cells: n } => cells.copy_within(from..from + n, to),
            Self::Mix {
                to,
                from,
                groups,
                factor,
            } => {
                for g in 0..groups {
                    cells[to + g] = cells[from + g].wrapping_mul(factor).wrapping_add(g as u64);
                }
            }
            Self::Count { at, groups } => {
                for cell in &mut cells[at..at + groups] {
                    *cell += 1;
                }
            }
        }
    }

    /// As a packet; `args` is a place for three words of arguments.
    fn packet(self, data: &Memory, args: (&Memory, usize)) -> Packet {
        let put = |words: &[u64]| {
            for (i, w) in words.iter().enumerate() {
                args.0.set(args.1 + i, *w);
            }
            args.0.at(args.1)
        };
        // The same number of groups in another shape.
        let grid = |groups: usize| match groups as u32 {
            n if n.is_multiple_of(4) => [2, n / 4, 2],
            n if n.is_multiple_of(3) => [1, 3, n / 3],
            n => [n, 1, 1],
        };
        match self {
            Self::Write64 { cell, value } => write(data.at(cell), value),
            Self::Write32 { cell, high, value } => Packet::Write32 {
                address: data.at(cell) + if high { 4 } else { 0 },
                value,
            },
            Self::Copy { to, from, cells } => Packet::Copy {
                destination: data.at(to),
                source: data.at(from),
                bytes: cells as u64 * 8,
            },
            Self::Mix {
                to,
                from,
                groups,
                factor,
            } => {
                let args = put(&[data.at(to), data.at(from), factor]);
                exec(MIX, args, 24, grid(groups))
            }
            Self::Count { at, groups } => exec(COUNT, put(&[data.at(at)]), 8, grid(groups)),
        }
    }
}

fn op() -> impl Strategy<Value = Op> {
    // Two ranges of equal length, apart.
    let ranges = || {
        (1usize..=8, any::<usize>(), any::<usize>(), any::<bool>()).prop_map(|(n, a, b, swap)| {
            let a = a % (CELLS - 2 * n + 1);
            let b = a + n + b % (CELLS - 2 * n - a + 1);
            if swap { (b, a, n) } else { (a, b, n) }
        })
    };
    prop_oneof![
        (0..CELLS, any::<u64>()).prop_map(|(cell, value)| Op::Write64 { cell, value }),
        (0..CELLS, any::<bool>(), any::<u32>()).prop_map(|(cell, high, value)| {
            // Miri ends with an internal error on atomics of two sizes in one place.
            if cfg!(miri) {
                let value = value.into();
                return Op::Write64 { cell, value };
            }
            Op::Write32 { cell, high, value }
        }),
        ranges().prop_map(|(to, from, cells)| Op::Copy { to, from, cells }),
        (ranges(), 2u64..9, any::<bool>()).prop_map(|((to, from, groups), factor, in_place)| {
            let from = if in_place { to } else { from };
            Op::Mix {
                to,
                from,
                groups,
                factor,
            }
        }),
        (1usize..=12, any::<usize>()).prop_map(|(groups, at)| Op::Count {
            at: at % (CELLS - groups + 1),
            groups
        }),
    ]
}

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Memory of a program: cells, a signal and a flag per command, argument blocks, packets of bound queues.
struct World {
    data: Memory,
    signals: Memory,
    flags: Memory,
    args: Memory,
    bound: Memory,
}

/// The packets of each queue. Commands that touch the same cells are in the order of `program` by waits of the later one,
/// and there are some waits more, all for earlier commands: no two queues can wait for each other.
fn compile(
    program: &[(usize, Op)],
    queues: usize,
    dice: &mut Dice,
    world: &World,
) -> Vec<Vec<Packet>> {
    let mut packets = std::vec![Vec::new(); queues];
    let mut count = std::vec![0u64; queues];
    let mut done = Vec::new();
    for (i, &(q, op)) in program.iter().enumerate() {
        for (j, &(p, earlier)) in program[..i].iter().enumerate() {
            if p == q || !(op.conflicts(earlier) || dice.roll(8) == 0) {
                continue;
            }
            packets[q].push(match dice.roll(2) {
                0 => Packet::Wait {
                    address: world.signals.at(2 * p),
                    value: done[j],
                },
                _ => Packet::Poll {
                    address: world.flags.at(j) + 4,
                    mask: 1 << (j % 32),
                    expect: 1 << (j % 32),
                },
            });
        }
        packets[q].push(op.packet(&world.data, (&world.args, 3 * i)));
        count[q] += 1;
        done.push(count[q]);
        // Bits of the mask and others.
        let value = 0x8000_0001 | 1 << (i % 32);
        packets[q].push(Packet::Write32 {
            address: world.flags.at(i) + 4,
            value,
        });
        packets[q].push(Packet::Signal {
            address: world.signals.at(2 * q),
            value: count[q],
            notify: dice.roll(2) == 0,
        });
        match dice.roll(6) {
            0 => packets[q].push(Packet::Barrier),
            1 => packets[q].push(Packet::Nop),
            2 => packets[q].push(Packet::Timestamp {
                address: world.signals.at(2 * q),
            }),
            _ => {}
        }
    }
    packets
}

/// Moves some packets into bound queues.
fn bind(packets: Vec<Packet>, dice: &mut Dice, next: &mut usize, world: &World) -> Vec<Packet> {
    let mut out = Vec::new();
    let mut left = packets.as_slice();
    while !left.is_empty() {
        let n = (dice.roll(6) as usize + 1).min(left.len());
        let (now, rest) = left.split_at(n);
        left = rest;
        if dice.roll(3) != 0 {
            out.extend_from_slice(now);
            continue;
        }
        let first = *next;
        for words in now.iter().map(Packet::encode) {
            for pair in words.chunks(2) {
                let word = u64::from(pair[0]) | u64::from(pair[1]) << 32;
                world.bound.set(*next, word);
                *next += 1;
            }
        }
        out.push(Packet::Indirect {
            address: world.bound.at(first),
            count: n as u32,
        });
    }
    out
}

/// Runs a program with steps in an order that `seed` gives, and compares the cells.
fn check(program: &[(usize, Op)], queues: usize, seed: u64) {
    let mut dice = Dice(seed | 1);
    let n = program.len();
    let world = World {
        data: Memory::new(CELLS),
        signals: Memory::new(2 * queues),
        flags: Memory::new(n),
        args: Memory::new(3 * n),
        bound: Memory::new(8 * n * (n + 8)),
    };
    let compiled = compile(program, queues, &mut dice, &world);
    let mut next = 0;
    let packets: Vec<Vec<Packet>> = compiled
        .into_iter()
        .map(|p| bind(p, &mut dice, &mut next, &world))
        .collect();

    let rings: Vec<_> = (0..queues)
        .map(|_| queue_memory(1 + dice.roll(9) as usize))
        .collect();
    let jobs: Vec<_> = (0..queues).map(|_| Job::new()).collect();
    let share = Share::new(&jobs, 0);
    let (mut submits, engine_queues): (Vec<_>, Vec<_>) =
        (0u16..).zip(&rings).map(|(id, m)| queue(m, id)).unzip();
    // All queues on one engine, or one engine each; and one or two more that only help.
    let mut sets: Vec<Vec<_>> = match dice.roll(2) {
        0 => Vec::from([engine_queues]),
        _ => engine_queues.into_iter().map(|q| Vec::from([q])).collect(),
    };
    sets.resize_with(sets.len() + 1 + dice.roll(2) as usize, Vec::new);
    let mut job = 0;
    let mut engines = Vec::new();
    for set in &mut sets {
        let first = job;
        job += set.len();
        let engine = Engine::new(set, no_local()).with_copy_step(8 * (1 + dice.roll(9)));
        engines.push(match dice.roll(4) {
            0 => engine,
            _ => engine.with_share(share, first).expect("none promised"),
        });
    }
    let memory = [
        &world.data,
        &world.signals,
        &world.flags,
        &world.args,
        &world.bound,
    ];
    let mut host = Host {
        tick: 700,
        ..Host::over(&memory)
    };

    let mut sent = std::vec![0usize; queues];
    let mut steps = 0;
    loop {
        let finished = (0..queues)
            .all(|q| sent[q] == packets[q].len() && submits[q].get() == packets[q].len() as u64);
        if finished {
            break;
        }
        steps += 1;
        assert!(steps < 200_000, "stuck: {program:?}");
        if dice.roll(4) == 0 {
            let q = dice.roll(queues as u64) as usize;
            let s = &mut submits[q];
            s.ring
                .consumed(s.control.get())
                .expect("no further than put");
            let room = (s.ring.len() - (s.ring.put() - s.ring.get())) as usize;
            let n = room.min(packets[q].len() - sent[q]);
            let n = dice.roll(n as u64 + 1) as usize;
            s.push(&packets[q][sent[q]..sent[q] + n]);
            sent[q] += n;
        } else {
            let e = dice.roll(engines.len() as u64) as usize;
            let outcome = poll(&mut engines[e], &mut host, dice.roll(13) as u32);
            assert!(!matches!(outcome, Poll::Fault { .. }), "{outcome:?}");
        }
    }
    for e in &mut engines {
        assert_eq!(poll(e, &mut host, 99), Poll::Idle);
    }
    let mut want = [0; CELLS];
    program.iter().for_each(|(_, op)| op.apply(&mut want));
    assert_eq!(world.data.all(), want, "{program:?}");
    for q in 0..queues {
        let commands = program.iter().filter(|(p, _)| *p == q).count();
        assert_eq!(world.signals.get(2 * q), commands as u64);
    }
}

/// Words that may be packets, with addresses in and around some memory.
fn wild(base: u64) -> impl Strategy<Value = [u32; PACKET_WORDS]> {
    let address = prop_oneof![
        8 => (0u64..70).prop_map(move |w| base - 24 + w * 8),
        2 => (0u64..9).prop_map(move |p| base + p * 64),
        1 => (0u64..600).prop_map(move |b| base - 8 + b),
        1 => any::<u64>(),
    ];
    let small = prop_oneof![8 => 0u64..9, 2 => 0u64..600, 1 => any::<u64>()];
    (
        0u32..12,
        any::<u8>(),
        address.clone(),
        prop_oneof![address, small.clone()],
        small,
        any::<[u32; 9]>(),
    )
        .prop_map(|(opcode, odd, a, b, c, rest)| {
            let mut words = [0; PACKET_WORDS];
            words[0] = opcode | if odd & 1 == 0 { 0 } else { 0x100 };
            for (at, v) in [(2, a), (4, b), (6, c)] {
                let used = matches!((opcode, at), (_, 2) | (1..=6 | 9, 4) | (1 | 2, 6));
                if used || odd & 0xf0 == 0x20 {
                    (words[at], words[at + 1]) = (v as u32, (v >> 32) as u32);
                }
            }
            match opcode {
                1 => words[6..13].fill(1),
                6 => words[1] = rest[0],
                _ => {}
            }
            if odd & 0xf0 == 0x10 {
                words[usize::from(odd & 15)] = rest[1];
            }
            words
        })
}

proptest! {
    #![proptest_config(crate::cases())]
    #[test]
    fn any_order_of_steps_gives_what_the_serial_order_gives(
        queues in 1usize..=3,
        program in proptest::collection::vec((0usize..3, op()), 1..if cfg!(miri) { 8 } else { 30 }),
        seed: u64,
    ) {
        let program: Vec<_> = program.into_iter().map(|(q, op)| (q % queues, op)).collect();
        check(&program, queues, seed);
    }

    #[test]
    fn wild_packets_fault_or_run_and_always_end(
        packets in proptest::collection::vec(wild(0x10_0000), 1..8),
        inside in proptest::collection::vec(wild(0x10_0000), 8),
        budget in 1u32..9,
    ) {
        // Device address 0x10_0000 is 64 words of memory; bound queues may be in there.
        let memory = Memory::new(64);
        let ring = queue_memory(8);
        for (i, pair) in inside.iter().flatten().collect::<Vec<_>>().chunks(2).enumerate() {
            memory.set(i, u64::from(*pair[0]) | u64::from(*pair[1]) << 32);
        }
        let (mut submit, q) = queue(&ring, 0);
        let mut queues = [q];
        let mut engine = Engine::new(&mut queues, no_local()).with_copy_step(16);
        let mut host = Host {
            shift: memory.at(0).wrapping_sub(0x10_0000),
            readable: std::vec![0x10_0000..0x10_0200],
            writable: std::vec![0x10_0000..0x10_0200],
            no_kernels: true,
            tick: 1,
            ..Host::default()
        };
        submit.words(&packets);
        let mut polls = 0u64;
        let last = loop {
            polls += 1;
            // A bound queue has at most 2^32 packets, but not in this memory.
            prop_assert!(polls < 10_000, "no end");
            match poll(&mut engine, &mut host, budget) {
                Poll::Ran(n) => prop_assert!(n <= budget),
                other => break other,
            }
        };
        let consumed = submit.get() as usize;
        match last {
            Poll::Idle => prop_assert_eq!(consumed, packets.len()),
            Poll::Blocked(_) => prop_assert!(consumed < packets.len()),
            Poll::Fault { record, .. } => {
                prop_assert!(consumed < packets.len());
                prop_assert_eq!(submit.control.fault().get(), Some(record));
                prop_assert_eq!(poll(&mut engine, &mut host, budget), Poll::Idle);
            }
            Poll::Ran(_) => prop_assert!(false),
        }
    }
}
