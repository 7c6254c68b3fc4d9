//! Any commands, any of their operands known at launch: patching equals recording afresh, and what is refused changes
//! nothing.

use hcq_nostd::args::{Arg, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{Derived, PatchList, Patcher, RegionId, Site};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{Block, RecordError, Recorder};
use hcq_nostd::value::{Value, Var};
use hcq_qcom::chips::Chip;
use hcq_qcom::device::{Device, PrivateMemory};
use hcq_qcom::image::{Format, Image, Sampler};
use hcq_qcom::kernel::{Arguments, Constant, Given, ImageSlot, Kernel, NO_REGISTER, Param, Style};
use hcq_qcom::pm4::{AdrenoCompute, Program};
use proptest::prelude::*;

/// An operand: a number, given as it is or as `var * scale + rest`.
#[derive(Clone, Copy, Debug)]
struct Op {
    value: u64,
    variable: bool,
    scale: u64,
}

/// How operands become values: as they are, or as variables with these values, declared in this order; and whether code,
/// argument blocks, private memory and what the device has for itself are variables as well.
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
    Signal(Op, Op),
    Wait(Op, Op),
    Timestamp(Op),
    Write(Op, Op, bool),
    Poll(Op, u32, Op),
    Barrier,
    /// Groups, local sizes, buffer, number, two textures and a storage image, more group-local memory, style.
    Exec([Op; 3], [Op; 3], Box<[Op; 5]>, u32, bool),
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
    let any = prop_oneof![0u64..1 << 49, 0u64..1 << 20, Just((1u64 << 49) - 64)];
    op(any.prop_map(move |a| a >> align_log2 << align_log2))
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
    let args = || {
        let images = (address(6), address(6), address(6));
        (address(0), word(), images).prop_map(|(a, b, (c, d, e))| Box::new([a, b, c, d, e]))
    };
    prop_oneof![
        (address(4), word()).prop_map(|(a, v)| Cmd::Signal(a, v)),
        (address(4), word()).prop_map(|(a, v)| Cmd::Wait(a, v)),
        address(4).prop_map(Cmd::Timestamp),
        (address(3), word(), any::<bool>()).prop_map(|(a, v, w)| Cmd::Write(a, v, w)),
        (address(2), any::<u32>(), word()).prop_map(|(a, m, v)| Cmd::Poll(a, m, v)),
        Just(Cmd::Barrier),
        (groups(), local(), args(), 0u32..4096, any::<bool>())
            .prop_map(|(g, l, a, m, s)| Cmd::Exec(g, l, a, m, s)),
        any::<u8>().prop_map(Cmd::Wrong),
    ]
}

/// Argument blocks: bytes of each, and how many there are.
const BLOCK: usize = 4096;
const BLOCKS: usize = 6;
const BASE: u64 = 0x5_1234_5000;
const WORDS: usize = 2048;
/// Where instructions, private memory and what the device has for itself are.
const CODE: u64 = 0x5_2000_0000;
const PRIVATE: u64 = 0x5_4000_0000;
const OWN: u64 = 0x1_5000_1000;
const SCRAP_AT: u64 = 0x40;
const BORDERS_AT: u64 = 0x2000;

/// A program of either style, with a constant, numbers, images and a texture in two registers.
fn with_program<R>(
    device: &Device,
    open_cl: bool,
    code: u64,
    run: impl FnOnce(Program<'_>) -> R,
) -> R {
    let image = Image::new(Format::Rgba16Float, 100, 7).expect("an image");
    let params = [
        (Param::Buffer, 64),
        (Param::Scalar(4), 72),
        (Param::Texture(Some(image)), 0),
        (Param::Texture(Some(image)), 0),
        (Param::Storage(Some(image)), 0),
    ];
    let (mut slots, mut images) = ([ArgSlot::buffer(0); 5], [ImageSlot::EMPTY; 4]);
    let constants = [Constant {
        value: 0x3c00,
        offset: 128,
        bytes: 2,
    }];
    let given = Given {
        storage_first: open_cl,
        texture_map: if open_cl { None } else { Some(&[1, 0, 1]) },
        constants: &constants,
        samplers: &[Sampler::TEXELS, Sampler::ZERO],
    };
    let arguments = Arguments::new(params.into_iter(), given, &mut slots, &mut images);
    let kernel = Kernel {
        style: if open_cl {
            Style::OpenCl
        } else {
            Style::Ir3 {
                group_id: NO_REGISTER,
                group_count: 0x28,
                group_size: 0x30,
                local_id: 4,
            }
        },
        code: code + 0x180,
        code_bytes: 0x1000,
        first_instruction: 0,
        full_registers: 4,
        half_registers: 2,
        merged_registers: false,
        double_waves: false,
        branch_stack: 1,
        private_bytes: 100,
        shared_bytes: 64,
    };
    let private = PrivateMemory::new(PRIVATE, 1 << 32).expect("memory");
    let arguments = arguments.expect("a layout");
    run(Program::new(device, &kernel, &arguments, &private).expect("a program"))
}

/// Words, then argument blocks, as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Memory {
    words: Vec<u64>,
    blocks: Vec<u64>,
}

impl Memory {
    fn new() -> Self {
        let filler = u64::from_ne_bytes([0xa5; 8]);
        Self {
            words: vec![0; WORDS / 2],
            blocks: vec![filler; BLOCKS * BLOCK / 8],
        }
    }

    /// Which part differs, and at which of its 64-bit words first.
    fn first_difference(&self, other: &Self) -> Option<(&'static str, usize)> {
        let parts = [
            ("words", &self.words, &other.words),
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

fn exec(
    q: &mut AdrenoCompute<'_>,
    device: &Device,
    give: &mut Give<'_>,
    cmd: &Cmd,
    blocks: &mut Region<'_>,
    number: usize,
) -> Result<(), RecordError> {
    let &Cmd::Exec(groups, local, ref args, local_memory, open_cl) = cmd else {
        return Ok(());
    };
    let list = q.recorder().list();
    let [groups, local] = [groups, local].map(|sizes| sizes.map(|s| give.value(s, list)));
    let [buffer, value, a, b, c] = args.map(|arg| give.value(arg, list));
    let args = [
        Arg::Buffer(buffer),
        Arg::Scalar { value, size: 4 },
        Arg::Buffer(a),
        Arg::Buffer(b),
        Arg::Buffer(c),
    ];
    let places = [CODE, PRIVATE, BASE].map(|at| give.place(at, list));
    let (code, places) = match places {
        [Some(code), Some(private), Some(block)] => (0, Some((code, private, block))),
        _ => (CODE, None),
    };
    with_program(device, open_cl, code, |mut program| {
        assert!(program.kernargs_size() <= BLOCK);
        let mut kernargs = Block::new(blocks, RegionId(1), number * BLOCK, BLOCK).expect("inside");
        if let Some((code, private, block)) = places {
            program = program.based_on(code).with_private_at(private);
            kernargs = kernargs.based_on(block);
        }
        q.exec(Launch {
            program: &program,
            args: &args,
            kernargs,
            groups,
            local,
            local_memory,
        })
        .map(drop)
    })
}

fn wrong(q: &mut AdrenoCompute<'_>, device: &Device, which: u8) {
    let odd = Value::from(0x1_0001u64);
    let even = Value::from(0x1000u64);
    let refused = match which % 6 {
        0 => q.signal(odd.into(), 0u64.into()).map(drop),
        1 => q.wait(even.into(), (1u64 << 32).into()).map(drop),
        2 => q.write(odd, 0u64.into(), WriteWidth::W32).map(drop),
        3 => q.poll_bit(even, 1, (1u64 << 32).into()).map(drop),
        4 => q.timestamp(Value::from(1u64 << 49).into()).map(drop),
        _ => {
            // An image that is not aligned is seen when all else is recorded.
            let one = Op {
                value: 1,
                variable: false,
                scale: 1,
            };
            let cmd = Cmd::Exec([one; 3], [one; 3], Box::new([one; 5]), 0, which >= 128);
            let mut memory = vec![0; BLOCK / 8];
            let mut blocks = Region::from_words(&mut memory, BASE);
            exec(q, device, &mut Give::Now, &cmd, &mut blocks, 0)
        }
    };
    assert!(refused.is_err(), "{which}");
}

fn record<'m>(
    chip: usize,
    commands: &[Cmd],
    give: &mut Give<'_>,
    memory: &mut Memory,
    list: PatchList<'m>,
    words: &'m mut [u32],
) -> Recorder<'m> {
    let chip = Chip::named(["618", "630", "660"][chip]).expect("known");
    let device = Device::new(chip, OWN + SCRAP_AT, OWN + BORDERS_AT).expect("a device");
    let mut list = list;
    let device = match give.place(OWN, &mut list) {
        Some(own) => device.based_on(own, SCRAP_AT, BORDERS_AT),
        None => device,
    };
    let mut blocks = Region::from_words(&mut memory.blocks, BASE);
    let mut next = 0;
    let mut q = AdrenoCompute::new(&device, words, list);
    for cmd in commands {
        let mut value = |q: &mut AdrenoCompute<'_>, op| give.value(op, q.recorder().list());
        match *cmd {
            Cmd::Signal(at, v) => {
                let (address, v) = (value(&mut q, at), value(&mut q, v));
                let notify = true;
                q.signal(SignalAt { address, notify }, v).map(drop)
            }
            Cmd::Wait(at, v) => {
                let (at, v) = (value(&mut q, at), value(&mut q, v));
                q.wait(at.into(), v).map(drop)
            }
            Cmd::Timestamp(at) => {
                let at = value(&mut q, at);
                q.timestamp(at.into()).map(drop)
            }
            Cmd::Write(at, v, wide) => {
                let (at, v) = (value(&mut q, at), value(&mut q, v));
                let width = match wide {
                    true => WriteWidth::W64,
                    false => WriteWidth::W32,
                };
                q.write(at, v, width).map(drop)
            }
            Cmd::Poll(at, mask, v) => {
                // Bits outside the mask are refused: no word ever matches.
                let mask = mask | u32::try_from(v.value).expect("a word");
                let (at, v) = (value(&mut q, at), value(&mut q, v));
                q.poll_bit(at, mask, v).map(drop)
            }
            Cmd::Barrier => q.memory_barrier().map(drop),
            Cmd::Exec(..) if next < BLOCKS => {
                next += 1;
                exec(&mut q, &device, give, cmd, &mut blocks, next - 1)
            }
            Cmd::Exec(..) => Ok(()),
            Cmd::Wrong(which) => {
                wrong(&mut q, &device, which);
                Ok(())
            }
        }
        .expect("a sound command");
    }
    q.finish()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 400 }) })]

    #[test]
    fn patching_equals_recording_afresh(
        chip in 0usize..3,
        commands in proptest::collection::vec(command(), 1..12),
        anywhere in any::<bool>(),
    ) {
        let mut fresh = Memory::new();
        let mut words = vec![0; WORDS];
        let recorder = record(chip, &commands, &mut Give::Now, &mut fresh, PatchList::none(), &mut words);
        let (len, _) = recorder.finish();
        fresh.keep(&words[..len]);

        // What was refused has left nothing behind.
        let sound: Vec<Cmd> = commands.iter().filter(|c| !matches!(c, Cmd::Wrong(_))).cloned().collect();
        let mut without = Memory::new();
        let mut words = vec![0; WORDS];
        let recorder = record(chip, &sound, &mut Give::Now, &mut without, PatchList::none(), &mut words);
        let (len_without, _) = recorder.finish();
        without.keep(&words[..len_without]);
        prop_assert!(without == fresh, "a refused command: {:?}", without.first_difference(&fresh));

        let mut patched = Memory::new();
        let (mut sites, mut derived, mut words) = (vec![Site::EMPTY; 1024], vec![Derived::EMPTY; 96], vec![0; WORDS]);
        let mut values = Vec::new();
        let list = PatchList::new(&mut sites, &mut derived);
        let mut give = Give::Later(&mut values, anywhere);
        let recorder = record(chip, &commands, &mut give, &mut patched, list, &mut words);
        let (patched_len, mut list) = recorder.finish();
        prop_assert_eq!(patched_len, len);
        let sizes = [len * 4, patched.blocks.len() * 8].map(|n| n as u64);
        let mut table = vec![0; 8192];
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
        ];
        patcher.apply(&mut regions).expect("values that fit");
        prop_assert!(patched == fresh, "differs at {:?}", patched.first_difference(&fresh));
    }
}
