//! Patching equals recording afresh.

use super::*;
use hcq_nostd::patch::{PatchTable, Patcher};
use hcq_nostd::value::Var;
use proptest::prelude::*;

/// An operand: a number, which may be given as `var * scale + add`.
#[derive(Clone, Copy, Debug)]
struct Op {
    value: u64,
    variable: bool,
    scale: u64,
    down: bool,
}

/// How operands become values: as they are, or as variables with these first values and then their own.
enum Give<'a> {
    Now,
    Later(&'a mut Vec<u64>),
}

impl Give<'_> {
    fn value(&mut self, op: Op, list: &mut PatchList<'_>) -> Value {
        match self {
            Give::Later(values) if op.variable => {
                let var: Value = list.var().expect("few").into();
                if op.down {
                    values.push(op.value.wrapping_add(5));
                    return var - 5;
                }
                values.push(op.value / op.scale);
                var * op.scale + op.value % op.scale
            }
            _ => op.value.into(),
        }
    }
}

fn op(value: impl Strategy<Value = u64>) -> impl Strategy<Value = Op> {
    let scale = prop_oneof![Just(1u64), Just(3), Just(8), Just(4096)];
    (value, any::<bool>(), scale, any::<bool>()).prop_map(|(value, variable, scale, down)| Op {
        value,
        variable,
        scale,
        // A sum that leaves 64 bits is a misfit.
        down: down && value < u64::MAX - 5,
    })
}

fn aligned(bits: u32) -> impl Strategy<Value = Op> {
    op(prop_oneof![any::<u64>(), 0u64..1 << 20, Just(u64::MAX)]
        .prop_map(move |v| v >> bits << bits))
}

fn any_op() -> impl Strategy<Value = Op> {
    aligned(0)
}

fn count() -> impl Strategy<Value = Op> {
    op(prop_oneof![1u64..100, Just(u64::from(u32::MAX)), Just(1)])
}

#[derive(Clone, Debug)]
enum Argument {
    Buffer(Op),
    Scalar(Op, u8),
    Bytes(Vec<u8>),
}

#[derive(Clone, Debug)]
enum Cmd {
    Signal(Op, bool, Op),
    Wait(Op, Op),
    Timestamp(Op),
    Write32(Op, Op),
    Write64(Op, Op),
    Poll(Op, u32, Op),
    Barrier,
    Indirect(Op, u32),
    Copy([Op; 3]),
    Exec([Op; 6], Vec<Argument>),
}

fn argument() -> impl Strategy<Value = Argument> {
    prop_oneof![
        any_op().prop_map(Argument::Buffer),
        op(any::<u8>().prop_map(u64::from)).prop_map(|o| Argument::Scalar(o, 1)),
        op(any::<u16>().prop_map(u64::from)).prop_map(|o| Argument::Scalar(o, 2)),
        op(any::<u32>().prop_map(u64::from)).prop_map(|o| Argument::Scalar(o, 4)),
        any_op().prop_map(|o| Argument::Scalar(o, 8)),
        proptest::collection::vec(any::<u8>(), 0..9).prop_map(Argument::Bytes),
    ]
}

fn cmd() -> impl Strategy<Value = Cmd> {
    let word = || op(any::<u32>().prop_map(u64::from));
    prop_oneof![
        (aligned(4), any::<bool>(), any_op()).prop_map(|(a, n, v)| Cmd::Signal(a, n, v)),
        (aligned(4), any_op()).prop_map(|(a, v)| Cmd::Wait(a, v)),
        aligned(4).prop_map(Cmd::Timestamp),
        (aligned(2), word()).prop_map(|(a, v)| Cmd::Write32(a, v)),
        (aligned(3), any_op()).prop_map(|(a, v)| Cmd::Write64(a, v)),
        (aligned(2), any::<u32>(), any::<u32>(), word()).prop_map(|(a, mask, v, o)| {
            let value = u64::from(mask & v);
            Cmd::Poll(a, mask, Op { value, ..o })
        }),
        Just(Cmd::Barrier),
        (aligned(6), any::<u32>()).prop_map(|(a, n)| Cmd::Indirect(a, n)),
        [any_op(), any_op(), any_op()].prop_map(Cmd::Copy),
        (
            [count(), count(), count(), count(), count(), count()],
            proptest::collection::vec(argument(), 0..7)
        )
            .prop_map(|(grid, args)| Cmd::Exec(grid, args)),
    ]
}

const COMMANDS: usize = 8;
/// Bytes of argument block per command.
const BLOCK: usize = 64;
const BLOCKS: usize = COMMANDS * BLOCK / 8;

/// Memory of both regions, as the words of a queue and its argument blocks.
#[derive(Debug, PartialEq)]
struct Memory {
    words: Vec<u64>,
    blocks: Vec<u64>,
}

impl Memory {
    fn new() -> Self {
        let filler = 0xa5a5_a5a5_a5a5_a5a5;
        Self {
            words: std::vec![filler; COMMANDS * PACKET_WORDS / 2],
            blocks: std::vec![filler; BLOCKS],
        }
    }
}

/// Records commands; a compute queue and a copy queue share one recorder, as their words do not differ. Returns the
/// number of words; the table goes to `table`.
fn record<'t>(
    memory: &mut Memory,
    commands: &[Cmd],
    give: &mut Give<'_>,
    table: &'t mut [u64],
) -> (usize, PatchTable<'t>) {
    let mut sites = std::vec![Site::EMPTY; COMMANDS * 16];
    let mut words = std::vec![FILLER; COMMANDS * PACKET_WORDS];
    let mut region = Region::from_words(&mut memory.blocks, 0x10_0000);
    let mut recorder = Recorder::new(&mut words, PatchList::new(&mut sites, &mut []));
    for (n, command) in commands.iter().enumerate() {
        let mut v = |o: Op, r: &mut Recorder<'_>| give.value(o, r.list());
        let r = &mut recorder;
        match command {
            Cmd::Copy([d, s, n]) => {
                let (d, s, n) = (v(*d, r), v(*s, r), v(*n, r));
                let mut q = Copy::over(recorder);
                q.copy(d, s, n).expect("a copy");
                recorder = q.finish();
            }
            command => {
                let mut q = Compute::over(recorder);
                compute(&mut q, n, command, &mut region, v);
                recorder = q.finish();
            }
        }
    }
    let (len, mut list) = recorder.finish();
    let built = list
        .build(&[len as u64 * 4, BLOCKS as u64 * 8], table)
        .expect("a table");
    for (slot, pair) in memory.words.iter_mut().zip(words[..len].chunks(2)) {
        *slot = u64::from(pair[0]) | u64::from(pair[1]) << 32;
    }
    (len, built)
}

fn compute(
    q: &mut Compute<'_>,
    n: usize,
    command: &Cmd,
    region: &mut Region<'_>,
    mut v: impl FnMut(Op, &mut Recorder<'_>) -> Value,
) {
    let r = q.recorder();
    match *command {
        Cmd::Signal(at, notify, value) => {
            let (address, value) = (v(at, r), v(value, r));
            q.signal(SignalAt { address, notify }, value)
        }
        Cmd::Wait(at, value) => {
            let (at, value) = (v(at, r), v(value, r));
            q.wait(at.into(), value)
        }
        Cmd::Timestamp(at) => {
            let at = v(at, r);
            q.timestamp(at.into())
        }
        Cmd::Write32(at, value) => {
            let (at, value) = (v(at, r), v(value, r));
            q.write(at, value, WriteWidth::W32)
        }
        Cmd::Write64(at, value) => {
            let (at, value) = (v(at, r), v(value, r));
            q.write(at, value, WriteWidth::W64)
        }
        Cmd::Poll(at, mask, expect) => {
            let (at, expect) = (v(at, r), v(expect, r));
            q.poll_bit(at, mask, expect)
        }
        Cmd::Barrier => q.memory_barrier(),
        Cmd::Indirect(at, count) => {
            let at = v(at, r);
            q.indirect(at, count)
        }
        Cmd::Copy(_) => unreachable!("no compute command"),
        Cmd::Exec([gx, gy, gz, lx, ly, lz], ref args) => {
            let args: Vec<Arg<'_>> = args
                .iter()
                .map(|a| match a {
                    Argument::Buffer(o) => Arg::Buffer(v(*o, r)),
                    Argument::Scalar(o, size) => Arg::Scalar {
                        value: v(*o, r),
                        size: *size,
                    },
                    Argument::Bytes(b) => Arg::Bytes(b),
                })
                .collect();
            let mut list = |o: Op| v(o, r);
            let groups = [list(gx), list(gy), list(gz)];
            let local = [list(lx), list(ly), list(lz)];
            q.exec(Launch {
                program: &Program::new(0x1234_5678_9abc_def0),
                args: &args,
                kernargs: Block::new(region, RegionId(1), n * BLOCK, BLOCK).expect("inside"),
                groups,
                local,
                local_memory: n as u32,
            })
        }
    }
    .expect("a sound command");
}

proptest! {
    #![proptest_config(crate::cases())]
    #[test]
    fn patching_equals_recording_afresh(commands in proptest::collection::vec(cmd(), 1..=COMMANDS)) {
        let (mut fresh, mut patched) = (Memory::new(), Memory::new());
        let (mut none, mut table) = (std::vec![0u64; 64], std::vec![0u64; 8192]);
        let (len, empty) = record(&mut fresh, &commands, &mut Give::Now, &mut none);
        prop_assert_eq!((empty.vars(), len), (0, commands.len() * PACKET_WORDS));

        let mut values = Vec::new();
        let (later, table) = record(&mut patched, &commands, &mut Give::Later(&mut values), &mut table);
        prop_assert_eq!(later, len);
        let mut state = std::vec![0u64; table.state_words()];
        let mut patcher = Patcher::new(table, &mut state).expect("state");
        {
            let mut regions = [
                Region::from_words(&mut patched.words, 0),
                Region::from_words(&mut patched.blocks, 0),
            ];
            // Unless there is no variable, nothing is stored before all have values.
            if !values.is_empty() {
                prop_assert!(patcher.apply(&mut regions).is_err());
            }
            for (i, value) in (0u32..).zip(&values) {
                patcher.set(Var::new(i), *value).expect("a variable");
            }
            patcher.apply(&mut regions).map_err(|e| TestCaseError::fail(std::format!("{e}")))?;
            prop_assert_eq!(patcher.apply(&mut regions), Ok(0));
        }
        prop_assert_eq!(&patched, &fresh);

        // Every packet is one again, and none holds poison.
        for packet in patched.words[..len / 2].chunks(PACKET_WORDS / 2) {
            let words: [u32; PACKET_WORDS] = core::array::from_fn(|i| (packet[i / 2] >> (i % 2 * 32)) as u32);
            prop_assert_eq!(Packet::decode(&words).map(|p| p.encode()), Ok(words));
        }
    }
}
