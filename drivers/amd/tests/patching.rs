//! Any commands, any of their operands known at launch: patching equals recording afresh, and what is refused changes
//! nothing.

use hcq_amd::aql::{self, AqlCompute, PACKET_BYTES};
use hcq_amd::chips::Chip;
use hcq_amd::device::{Device, Event};
use hcq_amd::hidden::{Apertures, HiddenKind, HiddenSlot};
use hcq_amd::kernel::{Arguments, Kernel, MAX_GROUP, Properties};
use hcq_amd::pm4::{self, Pm4Compute};
use hcq_amd::scratch::{Need, Scratch, Topology};
use hcq_amd::sdma::SdmaCopy;
use hcq_nostd::args::{Arg, ArgLayout, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{Derived, PatchList, Patcher, RegionId, Site};
use hcq_nostd::queue::{ComputeQueue, CopyQueue, Launch, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{Block, RecordError, Recorder};
use hcq_nostd::value::{Value, Var};
use proptest::prelude::*;

/// An operand: a number, given as it is or as `var * scale + rest`.
#[derive(Clone, Copy, Debug)]
struct Op {
    value: u64,
    variable: bool,
    scale: u64,
}

/// How operands become values: as they are, or as variables with these values, declared in this order; and whether code,
/// argument blocks, scratch memory and apertures are variables as well.
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
    Poll(Op, u32, Op),
    Barrier,
    Exec([Op; 3], [Op; 3], [Op; 2], u32, Properties),
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

fn address(align_log2: u32) -> impl Strategy<Value = Op> {
    let any = prop_oneof![0u64..1 << 48, 0u64..1 << 20, Just((1u64 << 48) - 64)];
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
    let groups = || (size(0xffff), size(0x3f), size(3)).prop_map(|(x, y, z)| [x, y, z]);
    let local = || (size(64), size(4), size(4)).prop_map(|(x, y, z)| [x, y, z]);
    let args = || (address(0), word()).prop_map(|(a, b)| [a, b]);
    prop_oneof![
        (address(4), any::<bool>(), word()).prop_map(|(a, n, v)| Cmd::Signal(a, n, v)),
        (address(4), word()).prop_map(|(a, v)| Cmd::Wait(a, v)),
        address(4).prop_map(Cmd::Timestamp),
        (address(3), word(), any::<bool>()).prop_map(|(a, v, w)| Cmd::Write(a, v, w)),
        (address(2), word()).prop_map(|(a, v)| Cmd::Poll(a, u32::MAX, v)),
        Just(Cmd::Barrier),
        (groups(), local(), args(), 0u32..4096, properties())
            .prop_map(|(g, l, a, m, p)| Cmd::Exec(g, l, a, m, p)),
        (low_address(), low_address(), size(1 << 22)).prop_map(|(d, s, n)| Cmd::Copy(d, s, n)),
        any::<u8>().prop_map(Cmd::Wrong),
    ]
}

/// Registers that a kernel asks for. One with a descriptor of private memory has private memory.
fn properties() -> impl Strategy<Value = Properties> {
    (any::<bool>(), any::<bool>()).prop_map(|(pointer, private)| {
        let mut properties = Properties::KERNARG_SEGMENT_PTR;
        properties.set(Properties::DISPATCH_PTR, pointer);
        properties.set(Properties::PRIVATE_SEGMENT_BUFFER, private);
        properties
    })
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
            let (at, v) = (value(q, at), value(q, v));
            q.wait(at.into(), v).map(|_| ())
        }
        Cmd::Timestamp(at) => {
            let at = value(q, at);
            q.timestamp(at.into()).map(|_| ())
        }
        Cmd::Write(at, v, wide) => {
            let (at, v) = (value(q, at), value(q, v));
            let width = if wide {
                WriteWidth::W64
            } else {
                WriteWidth::W32
            };
            q.write(at, v, width).map(|_| ())
        }
        Cmd::Poll(at, mask, v) => {
            let (at, v) = (value(q, at), value(q, v));
            q.poll_bit(at, mask, v).map(|_| ())
        }
        Cmd::Wrong(which) => {
            let odd = Value::from(0x1_0001u64);
            let refused = match which % 5 {
                0 => q.signal(odd.into(), 0u64.into()).map(|_| ()),
                1 => q
                    .wait(Value::from(0x1000u64).into(), (1u64 << 32).into())
                    .map(|_| ()),
                2 => q.write(odd, 0u64.into(), WriteWidth::W32).map(|_| ()),
                3 => q
                    .poll_bit(Value::from(0x1000u64), 1, 2u64.into())
                    .map(|_| ()),
                _ => q.timestamp((Value::from(1u64 << 48)).into()).map(|_| ()),
            };
            assert!(refused.is_err(), "{which}");
            Ok(())
        }
        _ => return None,
    };
    Some(result)
}

const HIDDEN: [HiddenSlot; 7] = [
    HiddenSlot {
        kind: HiddenKind::BlockCount(0),
        offset: 16,
        size: 4,
    },
    HiddenSlot {
        kind: HiddenKind::GroupSize(1),
        offset: 20,
        size: 2,
    },
    HiddenSlot {
        kind: HiddenKind::GridDims,
        offset: 22,
        size: 2,
    },
    HiddenSlot {
        kind: HiddenKind::DynamicLdsSize,
        offset: 24,
        size: 4,
    },
    HiddenSlot {
        kind: HiddenKind::PrivateBase,
        offset: 28,
        size: 4,
    },
    HiddenSlot {
        kind: HiddenKind::SharedBase,
        offset: 12,
        size: 4,
    },
    HiddenSlot {
        kind: HiddenKind::QueuePtr,
        offset: 32,
        size: 8,
    },
];
const SLOTS: [ArgSlot; 2] = [ArgSlot::buffer(0), ArgSlot::scalar(8, 4)];
const ARGUMENTS: Arguments<'static> = Arguments {
    layout: ArgLayout {
        slots: &SLOTS,
        size: 12,
        align: 8,
    },
    hidden: &HIDDEN,
};
/// Argument blocks: bytes of each, and how many there are.
const BLOCK: usize = 128;
const BLOCKS: usize = 8;
const BASE: u64 = 0x8_1234_5000;
const WORDS: usize = 4096;

/// Where a code object's image is, a part of scratch memory, and `amd_queue_t`.
const CODE: u64 = 0x7f44_0001_0000;
const SCRATCH: u64 = 0x6e12_3456_7800;
const QUEUE: u64 = 0x7f55_0000_4000;

fn kernel(properties: Properties, code: u64) -> Kernel {
    let has_private = properties.contains(Properties::PRIVATE_SEGMENT_BUFFER);
    Kernel {
        entry: code + 0x2300,
        object: code + 0x1300,
        rsrc: [0x60af_0080, 0x1390, 0],
        properties,
        group_bytes: 64,
        private_bytes: if has_private { 48 } else { 0 },
        kernarg_bytes: 40,
        max_group: MAX_GROUP,
    }
}

/// Words, then argument blocks or packets and argument blocks, as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Memory {
    words: Vec<u64>,
    packets: Vec<u64>,
    blocks: Vec<u64>,
}

impl Memory {
    fn new() -> Self {
        let filler = u64::from_ne_bytes([0xa5; 8]);
        Self {
            words: vec![0; WORDS / 2],
            packets: vec![filler; 64 * PACKET_BYTES / 8],
            blocks: vec![filler; BLOCKS * BLOCK / 8],
        }
    }

    /// Which part differs, and at which of its 64-bit words first.
    fn first_difference(&self, other: &Self) -> Option<(&'static str, usize)> {
        let parts = [
            ("words", &self.words, &other.words),
            ("packets", &self.packets, &other.packets),
            ("blocks", &self.blocks, &other.blocks),
        ];
        parts
            .into_iter()
            .find_map(|(name, a, b)| Some((name, a.iter().zip(b).position(|(a, b)| a != b)?)))
    }

    fn keep(&mut self, words: &[u32]) {
        let mut region = Region::from_words(&mut self.words, 0);
        region.write_words(0, words).expect("room");
    }
}

/// An argument block.
fn kernargs<'r, 'm>(blocks: &'r mut Region<'m>, n: usize, base: Option<Var>) -> Block<'r, 'm> {
    let block = Block::new(blocks, RegionId(1), n * BLOCK, BLOCK).expect("inside");
    match base {
        Some(var) => block.based_on(var),
        None => block,
    }
}

/// Records the commands; what the engine cannot do is left out.
fn record<'m>(
    engine: usize,
    commands: &[Cmd],
    give: &mut Give<'_>,
    memory: &mut Memory,
    list: PatchList<'m>,
    words: &'m mut [u32],
    packets: &'m mut [u64],
) -> Recorder<'m> {
    let event = Event::new(0x7e55_0000_2018, 3).expect("an event");
    let (name, xccs) = [("gfx1100", 1), ("gfx942", 8), ("gfx1201", 1), ("gfx942", 1)][engine];
    let device = Device::new(Chip::named(name).expect("known"), xccs)
        .expect("a device")
        .with_event(event);
    let mut blocks = Region::from_words(&mut memory.blocks, BASE);
    let mut next = 0;
    let mut exec = |cmd: &Cmd, give: &mut Give<'_>, list: &mut PatchList<'_>| {
        let Cmd::Exec(groups, local, args, local_memory, properties) = *cmd else {
            return None;
        };
        if next == BLOCKS {
            return None;
        }
        next += 1;
        let [groups, local] = [groups, local].map(|sizes| sizes.map(|s| give.value(s, list)));
        let [buffer, number] = args.map(|a| give.value(a, list));
        let args = [
            Arg::Buffer(buffer),
            Arg::Scalar {
                value: number,
                size: 4,
            },
        ];
        let [code, queue, private, shared] =
            [CODE, QUEUE, 0x2_0000, 0x1_0000].map(|at| (give.place(at, list), at));
        let block = give.place(BASE, list);
        let value = |(var, at): (Option<Var>, u64)| var.map_or(at.into(), Value::from);
        let apertures = Apertures {
            private_base_hi: value(private),
            shared_base_hi: value(shared),
            queue: value(queue),
        };
        let n = next - 1;
        let launch = (n, groups, local, args, local_memory);
        Some((launch, properties, apertures, code.0, block))
    };
    let need = |properties: Properties| {
        let topology = Topology {
            xccs: xccs.into(),
            ses_per_xcc: 2,
            cus_per_xcc: 3,
            slots_per_cu: 32,
        };
        let bytes = kernel(properties, 0).private_bytes;
        Need::new(device.chip(), &topology, bytes).expect("little")
    };
    match engine {
        0 | 1 => {
            let mut q = Pm4Compute::new(&device, words, list);
            for cmd in commands {
                if let Some(result) = common(&mut q, |q| q.recorder().list(), give, cmd) {
                    result.expect("a sound command");
                } else if matches!(cmd, Cmd::Barrier) {
                    q.memory_barrier().expect("room");
                } else if let Some((launch, properties, apertures, code, base)) =
                    exec(cmd, give, q.recorder().list())
                {
                    let (n, groups, local, args, local_memory) = launch;
                    let need = need(properties);
                    // Where code and scratch memory are variables, the program is prepared for nowhere.
                    let at = |place: u64| if code.is_some() { 0 } else { place };
                    let scratch = match need.bytes {
                        0 => Scratch::NONE,
                        _ => Scratch::new(at(SCRATCH), &need).expect("aligned"),
                    };
                    let kernel = kernel(properties, at(CODE));
                    let program = pm4::Program::new(&device, &kernel, ARGUMENTS, &scratch, 0);
                    let mut program = program.expect("a program").with_apertures(apertures);
                    if let Some(code) = code {
                        program = program.based_on(code);
                    }
                    if code.is_some() && need.bytes > 0 {
                        let list = q.recorder().list();
                        let size = give.place(need.tmpring_size.into(), list);
                        let part = need.bytes / u64::from(xccs);
                        let parts: Vec<Var> = (0..u64::from(xccs))
                            .filter_map(|xcc| give.place(SCRATCH + xcc * part, list))
                            .collect();
                        let more = [&parts[..], &parts[..1]].concat();
                        let refused = program.clone().with_scratch_at(parts[0], &more);
                        assert!(refused.is_err(), "a part too many");
                        let size = size.expect("a variable");
                        program = program.with_scratch_at(size, &parts).expect("all parts");
                    }
                    q.exec(Launch {
                        program: &program,
                        args: &args,
                        kernargs: kernargs(&mut blocks, n, base),
                        groups,
                        local,
                        local_memory,
                    })
                    .expect("room");
                }
            }
            q.finish()
        }
        2 => {
            let packets = Region::from_words(packets, 0);
            let mut q =
                AqlCompute::new(&device, words, 0x1000u64.into(), packets, RegionId(2), list);
            for cmd in commands {
                if let Some(result) = common(&mut q, |q| q.recorder().list(), give, cmd) {
                    result.expect("a sound command");
                } else if matches!(cmd, Cmd::Barrier) {
                    q.memory_barrier().expect("room");
                } else if let Some((launch, properties, apertures, code, base)) =
                    exec(cmd, give, q.recorder().list())
                {
                    let (n, groups, local, args, local_memory) = launch;
                    let scratch = match need(properties).bytes {
                        0 => Scratch::NONE,
                        _ => Scratch::new(SCRATCH, &need(properties)).expect("aligned"),
                    };
                    let properties = Properties::KERNARG_SEGMENT_PTR
                        | properties & Properties::PRIVATE_SEGMENT_BUFFER;
                    let kernel = kernel(properties, if code.is_some() { 0 } else { CODE });
                    let program = aql::Program::new(&device, &kernel, ARGUMENTS, &scratch);
                    let mut program = program.expect("a program").with_apertures(apertures);
                    if let Some(code) = code {
                        program = program.based_on(code);
                    }
                    q.exec(Launch {
                        program: &program,
                        args: &args,
                        kernargs: kernargs(&mut blocks, n, base),
                        groups,
                        local,
                        local_memory,
                    })
                    .expect("room");
                }
            }
            q.finish().0
        }
        _ => {
            let mut q =
                SdmaCopy::new(device.chip().sdma, device.event(), words, list).expect("known");
            for cmd in commands {
                if let Some(result) = common(&mut q, |q| q.recorder().list(), give, cmd) {
                    result.expect("a sound command");
                } else if let Cmd::Copy(to, from, bytes) = *cmd {
                    let [to, from, bytes] =
                        [to, from, bytes].map(|op| give.value(op, q.recorder().list()));
                    q.copy(to, from, bytes).expect("a sound command");
                }
            }
            q.finish()
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 400 }) })]

    #[test]
    fn patching_equals_recording_afresh(
        engine in 0usize..4,
        commands in proptest::collection::vec(command(), 1..12),
        anywhere in any::<bool>(),
    ) {
        let mut fresh = Memory::new();
        let mut words = vec![0; WORDS];
        let mut packets = fresh.packets.clone();
        let recorder = record(engine, &commands, &mut Give::Now, &mut fresh, PatchList::none(), &mut words, &mut packets);
        let (len, _) = recorder.finish();
        fresh.keep(&words[..len]);
        fresh.packets = packets;

        // What was refused has left nothing behind.
        let sound: Vec<Cmd> = commands.iter().filter(|c| !matches!(c, Cmd::Wrong(_))).cloned().collect();
        let mut without = Memory::new();
        let (mut words, mut packets) = (vec![0; WORDS], without.packets.clone());
        let recorder = record(engine, &sound, &mut Give::Now, &mut without, PatchList::none(), &mut words, &mut packets);
        let (len_without, _) = recorder.finish();
        without.keep(&words[..len_without]);
        without.packets = packets;
        prop_assert!(without == fresh, "a refused command: {:?}", without.first_difference(&fresh));

        let mut patched = Memory::new();
        let (mut sites, mut derived, mut words) = (vec![Site::EMPTY; 1024], vec![Derived::EMPTY; 64], vec![0; WORDS]);
        let (mut packets, mut values) = (patched.packets.clone(), Vec::new());
        let list = PatchList::new(&mut sites, &mut derived);
        let mut give = Give::Later(&mut values, anywhere);
        let recorder = record(engine, &commands, &mut give, &mut patched, list, &mut words, &mut packets);
        let (patched_len, mut list) = recorder.finish();
        prop_assert_eq!(patched_len, len);
        let sizes = [len * 4, patched.blocks.len() * 8, 64 * PACKET_BYTES].map(|n| n as u64);
        let mut table = vec![0; 8192];
        let table = list.build(&sizes, &mut table).expect("a table");
        let mut state = vec![0; table.state_words()];
        let mut patcher = Patcher::new(table, &mut state).expect("room");
        patched.keep(&words[..len]);
        patched.packets = packets;
        for (var, value) in values {
            patcher.set(var, value).expect("a variable");
        }
        let mut regions = [
            Region::from_words(&mut patched.words, 0),
            Region::from_words(&mut patched.blocks, BASE),
            Region::from_words(&mut patched.packets, 0),
        ];
        patcher.apply(&mut regions).expect("values that fit");
        prop_assert!(patched == fresh, "differs at {:?}", patched.first_difference(&fresh));
    }
}
