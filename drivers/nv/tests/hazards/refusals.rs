//! Launches and releases that are refused: each says why, and the queue goes on as if it had not been there.

use hcq_nostd::args::{Arg, ArgLayout, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _, Queue};
use hcq_nostd::record::{Block, Operand, RecordError};
use hcq_nostd::value::{Misfit, Value};
use hcq_nv::compute::{NvCompute, Program, Qmds};
use hcq_nv::local_memory::LocalMemory;

use super::lab::*;

/// A launch in numbers, sound until something of it is changed.
#[derive(Clone)]
struct Wish<'a> {
    args: Vec<Arg<'a>>,
    groups: [u64; 3],
    local: [u64; 3],
    local_memory: u32,
    kernargs: usize,
    bank: Option<u64>,
}

fn misfit(operand: Operand, misfit: Misfit) -> RecordError {
    RecordError::Misfit { operand, misfit }
}

#[test]
fn a_refused_launch_says_why_and_leaves_no_trace() {
    for name in ["ga10x", "gh100", "gb20x"] {
        let device = device(name);
        let chip = device.chip();
        let kernel = kernel(&device);
        let slots = [
            ArgSlot::buffer(kernel.arguments_at),
            ArgSlot::scalar(kernel.arguments_at + 8, 4),
        ];
        let layout = ArgLayout {
            slots: &slots,
            size: kernel.arguments_at + 12,
            align: 8,
        };
        let program = Program::new(&device, &kernel, layout, &LocalMemory::NONE).expect("fits");
        let bytes = program.kernargs_size();
        let sound = Wish {
            args: vec![Arg::Buffer(0x7000u64.into()), 5u32.into()],
            groups: [3, 2, 1],
            local: [32, 2, 1],
            local_memory: 0,
            kernargs: bytes,
            bank: None,
        };
        let (address_bits, shared) = (
            if chip.qmd.major == 3 { 49 } else { 57 },
            u64::from(chip.shared.max_bytes()),
        );
        let limit = |operand, value, max| RecordError::Limit {
            operand,
            value,
            max,
        };
        let wrong_scalar = Arg::Scalar {
            value: (1u64 << 32).into(),
            size: 4,
        };
        let but = |change: &dyn Fn(&mut Wish<'static>)| {
            let mut wish = sound.clone();
            change(&mut wish);
            wish
        };
        let wrong: Vec<(Wish<'_>, RecordError)> = vec![
            (
                but(&|w| w.kernargs -= 1),
                RecordError::KernargsTooSmall {
                    need: bytes,
                    have: bytes - 1,
                },
            ),
            (
                but(&|w| w.groups[0] = 1 << 31),
                limit(Operand::Groups(0), 1 << 31, 0x7fff_ffff),
            ),
            (
                but(&|w| w.groups[2] = 0x1_0000),
                limit(Operand::Groups(2), 0x1_0000, 0xffff),
            ),
            (
                but(&|w| w.groups[1] = 0),
                misfit(Operand::Groups(1), Misfit::TooSmall { value: 0, least: 1 }),
            ),
            (but(&|w| w.local[2] = 65), limit(Operand::Local(2), 65, 64)),
            (
                but(&|w| w.local = [512, 2, 2]),
                limit(Operand::Local(3), 2048, 1024),
            ),
            (
                but(&|w| w.args.truncate(1)),
                RecordError::ArgumentCount { need: 2, have: 1 },
            ),
            (
                but(&|w| w.args.push(1u32.into())),
                RecordError::ArgumentCount { need: 2, have: 3 },
            ),
            (
                but(&|w| w.args.swap(0, 1)),
                RecordError::ArgumentKind { index: 0 },
            ),
            (
                but(&|w| w.args[1] = wrong_scalar),
                misfit(
                    Operand::Argument(1),
                    Misfit::TooLarge {
                        value: 1 << 32,
                        bits: 32,
                    },
                ),
            ),
            (
                but(&|w| w.bank = Some(0x180)),
                misfit(
                    Operand::Kernargs,
                    Misfit::Misaligned {
                        value: 0x180,
                        align_log2: 8,
                    },
                ),
            ),
            (
                but(&|w| w.bank = Some(1 << address_bits)),
                misfit(
                    Operand::Kernargs,
                    Misfit::TooLarge {
                        value: 1 << address_bits,
                        bits: address_bits,
                    },
                ),
            ),
            (
                but(&|w| w.local_memory = chip.shared.max_bytes()),
                limit(Operand::LocalMemory, shared + 1024, shared),
            ),
        ];

        let record = |wishes: &[(Wish<'_>, Option<RecordError>)]| {
            let (mut words, mut qmds, mut bank) = ([0u32; 16], vec![0u64; 512], vec![0u64; 256]);
            let memory = Region::from_words(&mut qmds, QMD);
            let qmds_of = Qmds::new(memory, RegionId(1));
            let mut q = NvCompute::new(&device, &mut words, qmds_of, PatchList::none());
            let mut blocks = Region::from_words(&mut bank, KERNARGS);
            for (wish, refused) in wishes {
                let before = (q.state(), q.used(), q.words().to_vec());
                let launch = Launch {
                    program: &program,
                    args: &wish.args,
                    kernargs: Block::new(&mut blocks, RegionId(2), 0, wish.kernargs)
                        .expect("inside"),
                    groups: wish.groups.map(Value::from),
                    local: wish.local.map(Value::from),
                    local_memory: wish.local_memory,
                };
                let recorded = match wish.bank {
                    Some(bank) => q.exec_with_bank(launch, bank.into()),
                    None => q.exec(launch),
                };
                assert_eq!(recorded.err(), *refused, "{name}");
                if refused.is_some() {
                    assert_eq!((q.state(), q.used(), q.words().to_vec()), before, "{name}");
                }
            }
            (q.words().to_vec(), qmds)
        };
        let whole = record(&[(sound.clone(), None), (sound.clone(), None)]);
        for (wish, error) in wrong {
            let between = record(&[
                (sound.clone(), None),
                (wish, Some(error)),
                (sound.clone(), None),
            ]);
            assert_eq!(between, whole, "{name}: {error}");
        }
    }
}

#[test]
fn a_refused_release_says_why_and_leaves_no_trace() {
    for (name, bits) in [("ga10x", 40), ("gh100", 57), ("gb20x", 57)] {
        let record = |wrong: Option<(u64, Misfit)>| {
            let mut bench = Bench::new(name);
            let words = bench.record(PatchList::none(), |s| {
                s.exec().expect("room");
                s.q.signal(signal(0x1000), 7u64.into()).expect("room");
                if let Some((address, misfit)) = wrong {
                    let refused = s.q.signal(signal(address), 8u64.into()).err();
                    let operand = Operand::Signal;
                    assert_eq!(refused, Some(RecordError::Misfit { operand, misfit }));
                }
                s.q.signal(signal(0x2000), 9u64.into()).expect("room");
                s.exec().expect("room");
            });
            (words, bench.qmds)
        };
        let whole = record(None);
        let (value, align_log2) = (0x1008, 4);
        let misaligned = Misfit::Misaligned { value, align_log2 };
        let value = 1 << bits;
        for wrong in [
            (0x1008, misaligned),
            (value, Misfit::TooLarge { value, bits }),
        ] {
            assert_eq!(record(Some(wrong)), whole, "{name}");
        }
    }
}
