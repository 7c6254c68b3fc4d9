use super::*;
use hcq_nostd::args::{Arg, ArgLayout, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{BuildError, POISON, RegionId, Site};
use hcq_nostd::record::{Block, Room};
use hcq_nostd::value::Misfit;
use std::vec::Vec;

mod patching;

const FILLER: u32 = 0xa5a5_a5a5;
/// Addresses whose halves are told apart.
const A: u64 = 0x1122_3344_5566_7780;
const B: u64 = 0x99aa_bbcc_ddee_ff00;

/// Records one command over filler, checks that it is one packet and that nothing else was stored.
fn recorded<K>(
    record: impl FnOnce(&mut CpuQueue<'_, K>) -> Result<(), RecordError>,
) -> [u32; PACKET_WORDS] {
    let mut words = [FILLER; 3 * PACKET_WORDS];
    let mut queue = CpuQueue::new(&mut words, PatchList::none());
    record(&mut queue).expect("a sound command");
    let (len, _) = queue.finish().finish();
    assert_eq!(len, PACKET_WORDS);
    assert!(words[PACKET_WORDS..].iter().all(|&w| w == FILLER));
    words[..PACKET_WORDS].try_into().expect("one packet")
}

fn both(words: [u32; PACKET_WORDS], want: [u32; PACKET_WORDS], packet: Packet) {
    assert_eq!(words, want, "{packet}");
    assert_eq!(Packet::decode(&words), Ok(packet));
    assert_eq!(packet.encode(), want);
}

/// A packet of these words and zeros.
fn zeros(words: &[u32]) -> [u32; PACKET_WORDS] {
    core::array::from_fn(|i| words.get(i).copied().unwrap_or(0))
}

fn plain(address: u64) -> SignalAt {
    Value::from(address).into()
}

#[test]
fn signals_and_waits() {
    let words = recorded::<RunsKernels>(|q| q.signal(plain(A), B.into()).map(|_| ()));
    both(
        words,
        zeros(&[4, 0, 0x5566_7780, 0x1122_3344, 0xddee_ff00, 0x99aa_bbcc]),
        Packet::Signal {
            address: A,
            value: B,
            notify: false,
        },
    );
    let notify = SignalAt {
        notify: true,
        ..plain(u64::MAX - 15)
    };
    let words = recorded::<Copies>(|q| q.signal(notify, u64::MAX.into()).map(|_| ()));
    let ones = u32::MAX;
    both(
        words,
        zeros(&[0x104, 0, 0xffff_fff0, ones, ones, ones]),
        Packet::Signal {
            address: u64::MAX - 15,
            value: u64::MAX,
            notify: true,
        },
    );
    let words = recorded::<Copies>(|q| q.wait(plain(A), 7u64.into()).map(|_| ()));
    both(
        words,
        zeros(&[5, 0, 0x5566_7780, 0x1122_3344, 7]),
        Packet::Wait {
            address: A,
            value: 7,
        },
    );
    let words = recorded::<RunsKernels>(|q| q.timestamp(plain(A)).map(|_| ()));
    both(
        words,
        zeros(&[7, 0, 0x5566_7780, 0x1122_3344]),
        Packet::Timestamp { address: A },
    );
}

#[test]
fn writes_and_polls() {
    let words = recorded::<RunsKernels>(|q| {
        let value = Value::from(u32::MAX);
        q.write(Value::from(A + 4), value, WriteWidth::W32)
            .map(|_| ())
    });
    both(
        words,
        zeros(&[3, 0, 0x5566_7784, 0x1122_3344, u32::MAX]),
        Packet::Write32 {
            address: A + 4,
            value: u32::MAX,
        },
    );
    let words = recorded::<Copies>(|q| q.write(A.into(), B.into(), WriteWidth::W64).map(|_| ()));
    both(
        words,
        zeros(&[0x103, 0, 0x5566_7780, 0x1122_3344, 0xddee_ff00, 0x99aa_bbcc]),
        Packet::Write64 {
            address: A,
            value: B,
        },
    );
    let words = recorded::<Copies>(|q| {
        q.poll_bit(A.into(), 0xf0f0_0001, 0xf000_0001u32.into())
            .map(|_| ())
    });
    both(
        words,
        zeros(&[6, 0xf0f0_0001, 0x5566_7780, 0x1122_3344, 0xf000_0001]),
        Packet::Poll {
            address: A,
            mask: 0xf0f0_0001,
            expect: 0xf000_0001,
        },
    );
}

#[test]
fn copies_barriers_and_bound_queues() {
    let words = recorded::<Copies>(|q| {
        q.copy((A + 1).into(), B.into(), 0x1_0000_0003u64.into())
            .map(|_| ())
    });
    both(
        words,
        zeros(&[
            2,
            0,
            0x5566_7781,
            0x1122_3344,
            0xddee_ff00,
            0x99aa_bbcc,
            3,
            1,
        ]),
        Packet::Copy {
            destination: A + 1,
            source: B,
            bytes: 0x1_0000_0003,
        },
    );
    let words = recorded::<RunsKernels>(|q| q.memory_barrier().map(|_| ()));
    both(words, zeros(&[8]), Packet::Barrier);
    let words = recorded::<Copies>(|q| q.indirect(B.into(), u32::MAX).map(|_| ()));
    both(
        words,
        zeros(&[9, 0, 0xddee_ff00, 0x99aa_bbcc, u32::MAX]),
        Packet::Indirect {
            address: B,
            count: u32::MAX,
        },
    );
}

const SLOTS: [ArgSlot; 3] = [
    ArgSlot::scalar(0, 4),
    ArgSlot::buffer(8),
    ArgSlot::scalar(16, 2),
];
const LAYOUT: ArgLayout<'static> = ArgLayout {
    slots: &SLOTS,
    size: 24,
    align: 8,
};
const ARGS: [Arg<'static>; 3] = [
    Arg::Scalar {
        value: Value::Imm(0xdead_beef),
        size: 4,
    },
    Arg::Buffer(Value::Imm(A)),
    Arg::Scalar {
        value: Value::Imm(0xffff),
        size: 2,
    },
];

#[test]
fn launches() {
    let mut memory = [0xa5a5_a5a5_a5a5_a5a5u64; 6];
    let mut region = Region::from_words(&mut memory, 0x7_0000_1000);
    let program = Program::new(A).with_layout(LAYOUT).with_local_memory(96);
    assert_eq!(program.kernargs_for(&ARGS), 24);
    let words = recorded::<RunsKernels>(|q| {
        q.exec(Launch {
            program: &program,
            args: &ARGS,
            kernargs: Block::new(&mut region, RegionId(1), 16, 24).expect("inside"),
            groups: [1u64.into(), u32::MAX.into(), 3u64.into()],
            local: [u32::MAX.into(), 1u64.into(), 9u64.into()],
            local_memory: 4,
        })
        .map(|_| ())
    });
    both(
        words,
        zeros(&[
            1,
            100,
            0x5566_7780,
            0x1122_3344,
            0x0000_1010,
            7,
            1,
            u32::MAX,
            3,
            u32::MAX,
            1,
            9,
            24,
        ]),
        Packet::Exec(Exec {
            kernel: A,
            args: 0x7_0000_1010,
            args_size: 24,
            groups: [1, u32::MAX, 3],
            local: [u32::MAX, 1, 9],
            local_memory: 100,
        }),
    );
    // The padding of the block is as it was.
    let filler = 0xa5a5_a5a5_a5a5_a5a5;
    assert_eq!(
        memory,
        [
            filler,
            filler,
            0xa5a5_a5a5_dead_beef,
            A,
            0xa5a5_a5a5_a5a5_ffff,
            filler
        ]
    );
}

#[test]
fn a_kernel_of_unknown_signature_has_its_arguments_packed() {
    let mut memory = [0u64; 4];
    let mut region = Region::from_words(&mut memory, 0x1000);
    let program = Program::new(5);
    let args = [
        Arg::from(1u8),
        Arg::from(2u16),
        Arg::Bytes(&[7, 8, 9]),
        Arg::from(-1i32),
        Arg::from(1.0f64),
    ];
    assert_eq!(program.kernargs_for(&args), 24);
    let words = recorded::<RunsKernels>(|q| {
        q.exec(Launch {
            program: &program,
            args: &args,
            kernargs: Block::new(&mut region, RegionId(1), 0, 32).expect("inside"),
            groups: [1u64.into(); 3],
            local: [1u64.into(); 3],
            local_memory: 0,
        })
        .map(|_| ())
    });
    assert_eq!(words[4..6], [0x1000, 0]);
    assert_eq!(words[12], 24);
    assert_eq!(
        memory,
        [
            0x0009_0807_0002_0001,
            0x0000_0000_ffff_ffff,
            1f64.to_bits(),
            0
        ]
    );
}

/// A queue's state that a refused command must leave alone.
fn state<K>(q: &mut CpuQueue<'_, K>) -> (Vec<u32>, Room, u32, Vec<(RegionId, u32)>) {
    let used = q.recorder().used();
    let list = q.recorder().list();
    let (vars, places) = (list.vars(), list.sites().iter().map(Site::place).collect());
    (q.words().to_vec(), used, vars, places)
}

/// Runs a command that is refused, on a queue that holds one command with two sites and has room for two more.
fn refused<K>(
    record: impl FnOnce(&mut CpuQueue<'_, K>, Value) -> Result<(), RecordError>,
) -> RecordError {
    let (mut words, mut sites) = ([FILLER; 3 * PACKET_WORDS], [Site::EMPTY; 16]);
    let mut q = CpuQueue::<K>::new(&mut words, PatchList::new(&mut sites, &mut []));
    let var: Value = q.recorder().list().var().expect("the first").into();
    q.signal((var + 16).into(), var).expect("room");
    let before = state(&mut q);
    let error = record(&mut q, var).expect_err("a command that is no good");
    assert_eq!(state(&mut q), before, "{error}");
    // And the queue is still good.
    q.wait(plain(16), var).expect("room");
    assert_eq!(q.words().len(), 2 * PACKET_WORDS);
    assert_eq!(
        q.words()[PACKET_WORDS..][..6],
        [5, 0, 16, 0, POISON, POISON]
    );
    assert_eq!(q.recorder().used().sites, 3);
    error
}

fn misaligned(operand: Operand, value: u64, align_log2: u8) -> RecordError {
    RecordError::Misfit {
        operand,
        misfit: Misfit::Misaligned { value, align_log2 },
    }
}

#[test]
fn misaligned_addresses_are_refused() {
    let signal = misaligned(Operand::Signal, A + 8, 4);
    let at = plain(A + 8);
    assert_eq!(
        refused::<Copies>(|q, v| q.signal(at, v).map(|_| ())),
        signal
    );
    assert_eq!(
        refused::<RunsKernels>(|q, v| q.wait(at, v).map(|_| ())),
        signal
    );
    assert_eq!(
        refused::<RunsKernels>(|q, _| q.timestamp(at).map(|_| ())),
        signal
    );
    for (width, align, off) in [(WriteWidth::W32, 2, 2), (WriteWidth::W64, 3, 4)] {
        assert_eq!(
            refused::<Copies>(|q, v| q.write((A + off).into(), v, width).map(|_| ())),
            misaligned(Operand::Address, A + off, align)
        );
    }
    assert_eq!(
        refused::<Copies>(|q, v| q.poll_bit((A + 1).into(), 1, v).map(|_| ())),
        misaligned(Operand::Address, A + 1, 2)
    );
    assert_eq!(
        refused::<Copies>(|q, _| q.indirect((B + 32).into(), 1).map(|_| ())),
        misaligned(Operand::Address, B + 32, 6)
    );
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let error = refused::<RunsKernels>(|q, v| {
        q.write(v, 0x1_0000_0000u64.into(), WriteWidth::W32)
            .map(|_| ())
    });
    assert_eq!(
        error,
        RecordError::Misfit {
            operand: Operand::Data,
            misfit: Misfit::TooLarge {
                value: 0x1_0000_0000,
                bits: 32
            }
        }
    );
    for expect in [0x11u64, 0x1_0000_0000] {
        assert_eq!(
            refused::<Copies>(|q, v| q.poll_bit(v, 0xf0, expect.into()).map(|_| ())),
            RecordError::Limit {
                operand: Operand::Data,
                value: expect,
                max: 0xf0
            }
        );
    }
}

/// A launch that is sound but for what `spoil` does to it, refused.
fn spoilt(
    program: &Program<'_>,
    args: &[Arg<'_>],
    at: usize,
    len: usize,
    spoil: impl FnOnce(&mut Launch<'_, '_, Program<'_>>, Value),
) -> RecordError {
    refused::<RunsKernels>(|q, v| {
        let mut memory = [0u64; 8];
        let mut region = Region::from_words(&mut memory, 0x1000);
        let mut launch = Launch {
            program,
            args,
            kernargs: Block::new(&mut region, RegionId(1), at, len).expect("inside"),
            groups: [v; 3],
            local: [v; 3],
            local_memory: 1,
        };
        spoil(&mut launch, v);
        q.exec(launch).map(|_| ())
    })
}

#[test]
fn launches_that_do_not_fit_are_refused() {
    let program = Program::new(A).with_layout(LAYOUT);
    for d in 0..3usize {
        for (value, misfit) in [
            (0u64, Misfit::TooSmall { value: 0, least: 1 }),
            (
                1 << 32,
                Misfit::TooLarge {
                    value: 1 << 32,
                    bits: 32,
                },
            ),
        ] {
            let groups = spoilt(&program, &ARGS, 0, 24, |l, _| l.groups[d] = value.into());
            let operand = Operand::Groups(d as u8);
            assert_eq!(groups, RecordError::Misfit { operand, misfit });
            let local = spoilt(&program, &ARGS, 0, 24, |l, _| l.local[d] = value.into());
            let operand = Operand::Local(d as u8);
            assert_eq!(local, RecordError::Misfit { operand, misfit });
        }
    }
    let greedy = program.with_local_memory(u32::MAX);
    assert_eq!(
        spoilt(&greedy, &ARGS, 0, 24, |_, _| ()),
        RecordError::Limit {
            operand: Operand::LocalMemory,
            value: 1 << 32,
            max: u32::MAX.into()
        }
    );
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    let (known, unknown) = (Program::new(A).with_layout(LAYOUT), Program::new(A));
    assert_eq!(
        spoilt(&known, &ARGS, 0, 23, |_, _| ()),
        RecordError::KernargsTooSmall { need: 24, have: 23 }
    );
    assert_eq!(
        spoilt(&unknown, &ARGS, 0, 12, |_, _| ()),
        RecordError::KernargsTooSmall { need: 18, have: 12 }
    );
    assert_eq!(
        spoilt(&known, &ARGS[..2], 0, 24, |_, _| ()),
        RecordError::ArgumentCount { need: 3, have: 2 }
    );
    let four = [ARGS[0], ARGS[1], ARGS[2], ARGS[2]];
    assert_eq!(
        spoilt(&known, &four, 0, 24, |_, _| ()),
        RecordError::ArgumentCount { need: 3, have: 4 }
    );
    let other = [
        (0, Arg::from(1u64)),
        (0, Arg::Bytes(&[0; 4])),
        (1, Arg::from(1u64)),
        (2, Arg::from(1u8)),
        (2, Arg::Buffer(A.into())),
    ];
    for (index, arg) in other {
        let mut args = ARGS;
        args[usize::from(index)] = arg;
        assert_eq!(
            spoilt(&known, &args, 0, 24, |_, _| ()),
            RecordError::ArgumentKind { index }
        );
    }
    let odd = Arg::Scalar {
        value: 1u64.into(),
        size: 3,
    };
    assert_eq!(
        spoilt(&unknown, &[odd], 0, 24, |_, _| ()),
        RecordError::ArgumentKind { index: 0 }
    );
    let wide = Arg::Scalar {
        value: 0x100u64.into(),
        size: 1,
    };
    assert_eq!(
        spoilt(&unknown, &[ARGS[1], wide], 0, 24, |_, _| ()),
        RecordError::Misfit {
            operand: Operand::Argument(1),
            misfit: Misfit::TooLarge {
                value: 0x100,
                bits: 8
            }
        }
    );
}

#[test]
fn argument_blocks_are_aligned_for_what_is_in_them() {
    let (known, unknown) = (Program::new(A).with_layout(LAYOUT), Program::new(A));
    let error = |value, align_log2| misaligned(Operand::Kernargs, value, align_log2);
    assert_eq!(spoilt(&known, &ARGS, 4, 24, |_, _| ()), error(0x1004, 3));
    assert_eq!(spoilt(&unknown, &ARGS, 4, 24, |_, _| ()), error(0x1004, 3));
    let narrow = [Arg::from(1u32), Arg::from(1u8)];
    assert_eq!(
        spoilt(&unknown, &narrow, 2, 24, |_, _| ()),
        error(0x1002, 2)
    );
    // Where that is enough, less alignment does.
    let mut memory = [0u64; 8];
    let mut region = Region::from_words(&mut memory, 0x1000);
    let words = recorded::<RunsKernels>(|q| {
        q.exec(Launch {
            program: &unknown,
            args: &narrow,
            kernargs: Block::new(&mut region, RegionId(1), 12, 5).expect("inside"),
            groups: [1u64.into(); 3],
            local: [1u64.into(); 3],
            local_memory: 0,
        })
        .map(|_| ())
    });
    assert_eq!((words[4], words[12]), (0x100c, 5));
}

#[test]
fn argument_blocks_end_within_the_address_space() {
    for base in [u64::MAX - 15, u64::MAX - 23] {
        let error = refused::<RunsKernels>(|q, v| {
            let mut memory = [0u64; 8];
            let mut region = Region::from_words(&mut memory, base);
            q.exec(Launch {
                program: &Program::new(A),
                args: &[],
                kernargs: Block::new(&mut region, RegionId(1), 16, 8).expect("inside"),
                groups: [v; 3],
                local: [v; 3],
                local_memory: 0,
            })
            .map(|_| ())
        });
        let misfit = Misfit::TooLarge {
            value: u64::MAX,
            bits: 64,
        };
        let operand = Operand::Kernargs;
        assert_eq!(error, RecordError::Misfit { operand, misfit });
    }
}

#[test]
fn full_memory_is_refused_with_what_is_needed() {
    // No room for words: the recorder counts to the end.
    let mut words = [FILLER; PACKET_WORDS + 15];
    let mut q = Copy::new(&mut words, PatchList::none());
    q.wait(plain(16), 1u64.into()).expect("room");
    let before = state(&mut q);
    let error = q.copy(A.into(), B.into(), 1u64.into()).map(|_| ());
    let room = |words, sites| {
        RecordError::NoRoom(Room {
            words,
            sites,
            ..Room::default()
        })
    };
    assert_eq!(error, Err(room(32, 0)));
    assert_eq!(state(&mut q), before);

    // No room for sites.
    let (mut words, mut sites) = ([FILLER; 2 * PACKET_WORDS], [Site::EMPTY; 2]);
    let mut q = Copy::new(&mut words, PatchList::new(&mut sites, &mut []));
    let v = q.recorder().list().var().expect("the first").into();
    let before = state(&mut q);
    assert_eq!(q.copy(v, v, v).map(|_| ()), Err(room(16, 3)));
    assert_eq!(state(&mut q), before);
    q.copy(v, v, 8u64.into()).expect("two sites");

    // A recorder over nothing measures.
    let mut q = Copy::new(&mut [], PatchList::none());
    assert_eq!(q.copy(v, v, v).map(|_| ()), Err(room(16, 3)));
}

#[test]
fn two_sites_in_one_place_are_found_when_the_table_is_built() {
    // The same argument block for two launches: the second would overwrite the first.
    let (mut words, mut sites) = ([0; 2 * PACKET_WORDS], [Site::EMPTY; 4]);
    let mut q = Compute::new(&mut words, PatchList::new(&mut sites, &mut []));
    let v: Value = q.recorder().list().var().expect("the first").into();
    let mut memory = [0u64; 1];
    let mut region = Region::from_words(&mut memory, 0x1000);
    for _ in 0..2 {
        q.exec(Launch {
            program: &Program::new(1),
            args: &[Arg::Buffer(v)],
            kernargs: Block::new(&mut region, RegionId(1), 0, 8).expect("inside"),
            groups: [1u64.into(); 3],
            local: [1u64.into(); 3],
            local_memory: 0,
        })
        .expect("room");
    }
    let mut table = [0u64; 64];
    assert_eq!(
        q.recorder().list().build(&[128, 8], &mut table).map(|_| ()),
        Err(BuildError::Overlap {
            region: 1,
            offset: 0
        })
    );
}
