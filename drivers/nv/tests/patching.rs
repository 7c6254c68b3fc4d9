//! Any commands, any of their operands known at launch: patching equals recording afresh, and what is refused changes
//! nothing.

use hcq_nostd::args::{Arg, ArgLayout, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{Derived, PatchList, Patcher, RegionId, Site};
use hcq_nostd::queue::{ComputeQueue, CopyQueue, Launch, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{Block, RecordError, Recorder};
use hcq_nostd::value::{Value, Var};
use hcq_nv::chips::{CHIPS, Chip};
use hcq_nv::compute::{NvCompute, Program, Qmds};
use hcq_nv::copy::NvCopy;
use hcq_nv::device::Device;
use hcq_nv::kernel::{Bank, Kernel, Local, Origin};
use hcq_nv::local_memory::LocalMemory;
use proptest::prelude::*;

/// An operand: a number, given as it is or as `var * scale + rest`.
#[derive(Clone, Copy, Debug)]
struct Op {
    value: u64,
    variable: bool,
    scale: u64,
}

/// How operands become values: as they are, or as variables with these values, declared in this order; and whether code,
/// argument blocks and descriptors lie at variables as well.
enum Give<'a> {
    Now,
    Later(&'a mut Vec<(Var, u64)>, bool),
}

impl Give<'_> {
    /// A variable for a place, if places are variables.
    fn place(&mut self, at: u64, list: &mut PatchList<'_>) -> Option<Var> {
        match self {
            Give::Later(values, true) => {
                let var: Var = list.var().expect("few");
                values.push((var, at));
                Some(var)
            }
            _ => None,
        }
    }

    fn value(&mut self, op: Op, list: &mut PatchList<'_>) -> Value {
        match self {
            Give::Later(values, _) if op.variable => {
                let var: Var = list.var().expect("few");
                values.push((var, op.value / op.scale));
                Value::from(var) * op.scale + op.value % op.scale
            }
            _ => op.value.into(),
        }
    }
}

#[derive(Clone, Debug)]
enum Cmd {
    Signal(Op, bool, Op),
    Wait(Op, Op),
    Timestamp(Op),
    Write(Op, Op, bool),
    Poll(Op, u32, bool),
    Barrier,
    Idle,
    Exec([Op; 3], [Op; 3], [Op; 2], u32, Option<Op>),
    Copy(Op, Op, Op),
    /// Refused by every engine.
    Wrong(u8),
}

fn op(value: impl Strategy<Value = u64>) -> impl Strategy<Value = Op> {
    let scale = prop_oneof![Just(1u64), Just(3), Just(8), Just(4096)];
    (value, any::<bool>(), scale).prop_map(|(value, variable, scale)| Op {
        value,
        variable,
        scale,
    })
}

/// One that every chip's semaphores reach.
fn address(align_log2: u32) -> impl Strategy<Value = Op> {
    let any = prop_oneof![0u64..1 << 40, 0u64..1 << 20, Just((1u64 << 40) - 64)];
    op(any.prop_map(move |a| a >> align_log2 << align_log2))
}

/// One whose range does not leave the address space.
fn low_address() -> impl Strategy<Value = Op> {
    op(0u64..1 << 47)
}

fn word() -> impl Strategy<Value = Op> {
    op(prop_oneof![
        any::<u32>().prop_map(u64::from),
        0u64..4,
        Just(u64::from(u32::MAX))
    ])
}

fn size(most: u64) -> impl Strategy<Value = Op> {
    op(prop_oneof![1..=most, Just(1), Just(most)])
}

fn command() -> impl Strategy<Value = Cmd> {
    let groups = || (size(0x7fff_ffff), size(0xffff), size(0xffff)).prop_map(|(x, y, z)| [x, y, z]);
    let local = || (size(64), size(4), size(4)).prop_map(|(x, y, z)| [x, y, z]);
    let args = || (address(0), word()).prop_map(|(a, b)| [a, b]);
    prop_oneof![
        (address(4), any::<bool>(), word()).prop_map(|(a, n, v)| Cmd::Signal(a, n, v)),
        (address(4), word()).prop_map(|(a, v)| Cmd::Signal(a, true, v)),
        (address(4), word()).prop_map(|(a, v)| Cmd::Wait(a, v)),
        address(4).prop_map(Cmd::Timestamp),
        (address(3), word(), any::<bool>()).prop_map(|(a, v, w)| Cmd::Write(a, v, w)),
        (address(2), 0u32..32, any::<bool>()).prop_map(|(a, n, s)| Cmd::Poll(a, 1 << n, s)),
        Just(Cmd::Barrier),
        Just(Cmd::Idle),
        (
            groups(),
            local(),
            args(),
            0u32..4096,
            proptest::option::of(address(8))
        )
            .prop_map(|(g, l, a, m, b)| Cmd::Exec(g, l, a, m, b)),
        (low_address(), low_address(), size(1 << 22)).prop_map(|(d, s, n)| Cmd::Copy(d, s, n)),
        any::<u8>().prop_map(Cmd::Wrong),
    ]
}

/// The commands that every engine has; `None` for another.
fn common<'m, Q: Queue>(
    q: &mut Q,
    list: fn(&mut Q) -> &mut PatchList<'m>,
    give: &mut Give<'_>,
    cmd: &Cmd,
) -> Option<Result<(), RecordError>> {
    let mut value = |q: &mut Q, op: Op| give.value(op, list(q));
    let result = match *cmd {
        Cmd::Signal(at, notify, v) => {
            let (address, v) = (value(q, at), value(q, v));
            q.signal(SignalAt { address, notify }, v).map(|_| ())
        }
        Cmd::Wait(at, v) => {
            let (address, v) = (value(q, at), value(q, v));
            q.wait(address.into(), v).map(|_| ())
        }
        Cmd::Timestamp(at) => {
            let address = value(q, at);
            q.timestamp(address.into()).map(|_| ())
        }
        Cmd::Write(at, v, wide) => {
            let width = match wide {
                true => WriteWidth::W64,
                false => WriteWidth::W32,
            };
            let (address, v) = (value(q, at), value(q, v));
            q.write(address, v, width).map(|_| ())
        }
        Cmd::Poll(at, mask, set) => {
            let address = value(q, at);
            let expect = if set { u64::from(mask) } else { 0 };
            q.poll_bit(address, mask, expect.into()).map(|_| ())
        }
        Cmd::Wrong(which) => {
            let wrong = match which % 4 {
                0 => q.signal(Value::from(8u64).into(), 1u64.into()).is_err(),
                1 => q.wait(Value::from(1u64 << 60).into(), 1u64.into()).is_err(),
                2 => q.wait(Value::from(16u64).into(), u64::MAX.into()).is_err(),
                _ => q.poll_bit(4u64.into(), 3, 3u64.into()).is_err(),
            };
            assert!(wrong, "a wrong command was recorded");
            Ok(())
        }
        _ => return None,
    };
    Some(result)
}

const WORDS: usize = 512;
const BASE: u64 = 0x7_0000_0000;
const QMD: u64 = 0x12_0000_0000;
/// Where a kernel's image is.
const CODE: u64 = 0x9_8765_4300;
/// Bytes of one argument block, and of a launch descriptor with what is behind it.
const BLOCK: usize = 1024;
const DESCRIPTOR: usize = 512;
const COMMANDS: usize = 12;

#[derive(PartialEq)]
struct Memory {
    words: Vec<u64>,
    blocks: Vec<u64>,
    qmds: Vec<u64>,
}

impl Memory {
    fn new() -> Self {
        Self {
            words: vec![0; WORDS / 2],
            blocks: vec![0x5a5a_5a5a_5a5a_5a5a; COMMANDS * BLOCK / 8],
            qmds: vec![0x5a5a_5a5a_5a5a_5a5a; COMMANDS * DESCRIPTOR / 8],
        }
    }

    fn keep(&mut self, words: &[u32]) {
        Region::from_words(&mut self.words, 0)
            .write_words(0, words)
            .expect("room");
    }

    fn first_difference(&self, other: &Self) -> Option<(&'static str, usize)> {
        let parts = [
            ("words", &self.words, &other.words),
            ("blocks", &self.blocks, &other.blocks),
            ("descriptors", &self.qmds, &other.qmds),
        ];
        let different = |a: &[u64], b: &[u64]| (0..a.len()).find(|&i| a[i] != b[i]);
        let mut parts = parts.into_iter();
        parts.find_map(|(name, a, b)| different(a, b).map(|at| (name, at * 8)))
    }
}

fn kernel(chip: &Chip, code: u64) -> Kernel {
    let at = chip.bank_words.len as u32 * 4;
    let mut banks = [None; 8];
    banks[0] = Some(Bank {
        address: 0,
        bytes: at + 12,
    });
    banks[4] = Some(Bank {
        address: code + 0x1_0a80,
        bytes: 0x70,
    });
    Kernel {
        entry: code + 0x1_0480,
        code_bytes: 0x400,
        registers: 32,
        barriers: 1,
        shared_bytes: 0x1400,
        local: Local::High(0),
        banks,
        arguments_at: at,
        max_group: 1024,
        block: None,
        origin: Origin::Cuda,
    }
}

/// Records commands; the recorder with what it holds.
fn record<'m>(
    engine: usize,
    commands: &[Cmd],
    give: &mut Give<'_>,
    memory: &mut Memory,
    list: PatchList<'m>,
    words: &'m mut [u32],
) -> Recorder<'m> {
    let chip = &CHIPS[engine % CHIPS.len()];
    let device = Device::new(chip);
    if engine >= CHIPS.len() {
        let mut q = NvCopy::new(&device, words, list);
        for cmd in commands {
            if let Some(result) = common(&mut q, |q| q.recorder().list(), give, cmd) {
                result.expect("a sound command");
            } else if let Cmd::Copy(to, from, bytes) = *cmd {
                let [to, from, bytes] =
                    [to, from, bytes].map(|op| give.value(op, q.recorder().list()));
                q.copy(to, from, bytes).expect("a sound command");
            }
        }
        return q.finish();
    }
    let at = chip.bank_words.len as u32 * 4;
    let slots = [ArgSlot::buffer(at), ArgSlot::scalar(at + 8, 4)];
    let layout = ArgLayout {
        slots: &slots,
        size: at + 12,
        align: 8,
    };
    let prepared = |code| {
        let program = Program::new(&device, &kernel(chip, code), layout, &LocalMemory::NONE);
        program.expect("a program")
    };
    let mut list = list;
    let program = match give.place(CODE, &mut list) {
        Some(var) => prepared(0).based_on(var),
        None => prepared(CODE),
    };
    let blocks_at = give.place(BASE, &mut list);
    let qmds_at = give.place(QMD, &mut list);
    let mut blocks = Region::from_words(&mut memory.blocks, BASE);
    let qmds = Region::from_words(&mut memory.qmds, QMD);
    let qmds = Qmds::new(qmds, RegionId(2)).every(DESCRIPTOR);
    let qmds = match qmds_at {
        Some(var) => qmds.based_on(var.into()),
        None => qmds,
    };
    let mut q = NvCompute::new(&device, words, qmds, list);
    let mut launches = 0;
    for cmd in commands {
        if let Some(result) = common(&mut q, |q| q.recorder().list(), give, cmd) {
            result.expect("a sound command");
            continue;
        }
        match *cmd {
            Cmd::Barrier => {
                q.memory_barrier().expect("room");
            }
            Cmd::Idle => {
                q.wait_for_idle().expect("room");
            }
            Cmd::Exec(groups, local, [a, b], local_memory, bank) => {
                let mut value = |op| give.value(op, q.recorder().list());
                let (groups, local) = (groups.map(&mut value), local.map(&mut value));
                let args = [
                    Arg::Buffer(value(a)),
                    Arg::Scalar {
                        value: value(b),
                        size: 4,
                    },
                ];
                let bank = bank.map(value);
                let at = launches * BLOCK;
                let kernargs = Block::new(&mut blocks, RegionId(1), at, BLOCK).expect("inside");
                let kernargs = match blocks_at {
                    Some(var) => kernargs.based_on(var),
                    None => kernargs,
                };
                launches += 1;
                let launch = Launch {
                    program: &program,
                    args: &args,
                    kernargs,
                    groups,
                    local,
                    local_memory,
                };
                match bank {
                    Some(bank) => q.exec_with_bank(launch, bank).expect("room"),
                    None => q.exec(launch).expect("room"),
                };
            }
            _ => {}
        }
    }
    q.finish().0
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 400 }) })]

    #[test]
    fn patching_equals_recording_afresh(
        engine in 0usize..2 * CHIPS.len(),
        commands in proptest::collection::vec(command(), 1..COMMANDS),
        anywhere in any::<bool>(),
    ) {
        let mut fresh = Memory::new();
        let mut words = vec![0; WORDS];
        let recorder = record(engine, &commands, &mut Give::Now, &mut fresh, PatchList::none(), &mut words);
        let (len, _) = recorder.finish();
        fresh.keep(&words[..len]);

        // What was refused has left nothing behind.
        let sound: Vec<Cmd> = commands.iter().filter(|c| !matches!(c, Cmd::Wrong(_))).cloned().collect();
        let (mut without, mut words) = (Memory::new(), vec![0; WORDS]);
        let recorder = record(engine, &sound, &mut Give::Now, &mut without, PatchList::none(), &mut words);
        let (len_without, _) = recorder.finish();
        without.keep(&words[..len_without]);
        prop_assert!(without == fresh, "a refused command: {:?}", without.first_difference(&fresh));

        let (mut patched, mut values) = (Memory::new(), Vec::new());
        let (mut sites, mut derived, mut words) = (vec![Site::EMPTY; 1024], vec![Derived::EMPTY; 64], vec![0; WORDS]);
        let list = PatchList::new(&mut sites, &mut derived);
        let recorder = record(engine, &commands, &mut Give::Later(&mut values, anywhere), &mut patched, list, &mut words);
        let (patched_len, mut list) = recorder.finish();
        prop_assert_eq!(patched_len, len);
        let sizes = [len * 4, COMMANDS * BLOCK, COMMANDS * DESCRIPTOR].map(|n| n as u64);
        let mut table = vec![0; 16384];
        let table = list.build(&sizes, &mut table).expect("a table");
        let mut state = vec![0; table.state_words()];
        let mut patcher = Patcher::new(table, &mut state).expect("room");
        patched.keep(&words[..len]);
        for (var, value) in values {
            patcher.set(var, value).expect("a variable");
        }
        let mut regions = [
            Region::from_words(&mut patched.words, 0),
            Region::from_words(&mut patched.blocks, BASE),
            Region::from_words(&mut patched.qmds, QMD),
        ];
        patcher.apply(&mut regions).expect("values that fit");
        prop_assert!(patched == fresh, "differs at {:?}", patched.first_difference(&fresh));
    }
}
