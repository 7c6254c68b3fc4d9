//! Launches that hang on the one before them: what is recorded, and that a simulated GPU runs it in order.
#![cfg(feature = "sim")]
#![allow(unsafe_code, reason = "launches kernels, reads a recording's memory")]

use std::sync::Arc;

use hcq_nostd::mem::Region;
use hcq_nv::chips::Chip;
use hcq_nv::compute::{Compute, PcasAction};
use hcq_nv::host::{Operation, WaitForIdle};
use hcq_nv::packet::Packet;
use hcq_nv::qmd::Fields;

use crate::heap::Allocation;
use crate::{
    Arg, Buffer, Commands, Device, Error, Graph, GraphBuilder, GraphOptions, Grid, Kernel,
};

const NAMES: [(&str, &str); 4] = [
    ("nv-ampere", "ga10x"),
    ("nv-ada", "ad10x"),
    ("nv-hopper", "gh100"),
    ("nv-blackwell", "gb20x"),
];
const N: usize = 128;
/// Bytes of a short first chunk.
const PIECE: usize = 8192;

fn open(name: &str) -> Device {
    open_with(name, crate::Options::default())
}

fn open_with(name: &str, options: crate::Options) -> Device {
    let options = options.wait_timeout_ms(10_000);
    let name = format!("sim:{name}");
    Device::open_with(&name, &options).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// `out[i] = a[i] + b[i]`.
fn vadd(device: &Device) -> Kernel {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/objects");
    let path = format!("{root}/vadd-{}.cubin", device.target());
    let object = std::fs::read(path).expect("a vector");
    let module = device.load_program(&object).expect("a program");
    let signature = "float *out; const float *a; const float *b;";
    module.kernel_with("vadd", signature).expect("a kernel")
}

/// Buffers and a kernel, which are at the same places on every device of a name.
struct Bench {
    device: Device,
    add: Kernel,
    buffers: [Buffer<f32>; 3],
}

impl Bench {
    fn new(name: &str) -> Self {
        Self::on(open(name))
    }

    /// Recordings begin with a chunk for a few launches, and each further one is twice as long.
    fn in_pieces(name: &str) -> Self {
        Self::on(open_with(
            name,
            crate::Options::default().arena_bytes(PIECE),
        ))
    }

    fn on(device: Device) -> Self {
        let buffers = [0f32, 1.0, 2.0].map(|v| device.alloc_from(&[v; N]).expect("memory"));
        Self {
            add: vadd(&device),
            device,
            buffers,
        }
    }

    fn record(&self) -> Commands {
        self.device.compute_queue(0).expect("a queue").record()
    }

    fn args(&self, [out, a, b]: [usize; 3]) -> [Arg<'_>; 3] {
        [out, a, b].map(|n| Arg::buffer(&self.buffers[n]))
    }

    /// `out = a + b`, by numbers of buffers.
    fn exec(&self, commands: &mut Commands, of: [usize; 3]) {
        let grid = Grid::new(N as u32 / 64, 64);
        // SAFETY: as many items as all buffers have elements.
        let recorded = unsafe { commands.exec(&self.add, &self.args(of), grid) };
        recorded.expect("a launch");
    }
}

/// The chunk that a short recording's argument blocks and descriptors are in.
fn memory(commands: &Commands) -> Arc<Allocation> {
    let [chunk] = &commands.recording.chunks[..] else {
        panic!("a recording with several chunks");
    };
    Arc::clone(&chunk.allocation)
}

/// Bytes of it from the start on.
fn read(memory: &Allocation, len: usize) -> Vec<u8> {
    // SAFETY: the allocation is held; nothing is in flight while a test reads.
    let region: Region<'_> = unsafe { memory.region() };
    let mut bytes = vec![0; len];
    region.read(0, &mut bytes).expect("inside");
    bytes
}

/// The descriptor at a device address.
fn descriptor(memory: &Allocation, address: u64) -> Vec<u32> {
    let at = usize::try_from(address - memory.address()).expect("inside");
    let bytes = read(memory, at + 4 * 96);
    let (words, _) = bytes[at..].as_chunks::<4>();
    words.iter().map(|&w| u32::from_le_bytes(w)).collect()
}

/// What matters of each packet: `WFI`, `PCAS`, `acquire`, `release`.
fn short(mut words: &[u32]) -> (Vec<&'static str>, Vec<u64>) {
    let (mut names, mut sent) = (Vec::new(), Vec::new());
    while !words.is_empty() {
        let (packet, n) = Packet::decode(words).expect("a packet");
        words = &words[n..];
        names.push(match packet {
            Packet::WaitForIdle(WaitForIdle { all: false }) => "WFI",
            Packet::Compute(Compute::SendPcas(address)) => {
                sent.push(address.imm().expect("known"));
                continue;
            }
            Packet::Compute(Compute::SignalingPcas(PcasAction::PrefetchSchedule)) => "PCAS",
            Packet::Semaphore(s) => match s.operation {
                Operation::Release { .. } => "release",
                _ => "acquire",
            },
            Packet::NonStallInterrupt(_) => "interrupt",
            other => panic!("{other}"),
        });
    }
    (names, sent)
}

/// Names of a layout's fields: whether a dependent launch is there and where, and the first release's payload.
fn names(chip: &Chip) -> [&'static str; 3] {
    match chip.qmd.major {
        3 => [
            "DEPENDENT_QMD0_ENABLE",
            "DEPENDENT_QMD0_POINTER",
            "RELEASE0_PAYLOAD_LOWER",
        ],
        4 => [
            "DEPENDENT_QMD_ENABLE",
            "DEPENDENT_QMD0_POINTER",
            "RELEASE_SEMAPHORE0_PAYLOAD_LOWER",
        ],
        _ => [
            "DEPENDENT_QMD0_ENABLE",
            "DEPENDENT_QMD0_POINTER",
            "RELEASE_SEMAPHORE0_PAYLOAD_LOWER",
        ],
    }
}

/// The chain from a descriptor on: each one's address and first payload.
fn chain(chip: &Chip, memory: &Allocation, first: u64) -> Vec<(u64, u32)> {
    let [enable, pointer, payload] = names(chip);
    let (mut all, mut at) = (Vec::new(), first);
    loop {
        let words = descriptor(memory, at);
        let fields = Fields::new(chip.qmd, &words).expect("long enough");
        let get = |name| fields.get(name).unwrap_or_else(|| panic!("{name}"));
        all.push((at, get(payload)));
        if get(enable) == 0 {
            return all;
        }
        at = u64::from(get(pointer)) << 8;
        assert!(all.iter().all(|(other, _)| *other != at), "a circle");
    }
}

#[test]
fn a_launch_hangs_on_the_one_before_it() {
    for (name, chip) in NAMES {
        let bench = Bench::new(name);
        let chip = Chip::named(chip).expect("a chip");
        let signal = bench.device.signal().expect("a signal");
        let mut commands = bench.record();
        for _ in 0..3 {
            bench.exec(&mut commands, [0, 1, 2]);
        }
        // Two releases are the descriptor's, and the launches go on behind them.
        commands.signal(&signal, 7u64).expect("room");
        commands.timestamp(&signal).expect("room");
        bench.exec(&mut commands, [0, 1, 2]);
        let (words, sent) = short(commands.recording.words());
        assert_eq!(words, ["WFI", "PCAS"], "{name}");
        let all = chain(chip, &memory(&commands), sent[0]);
        let payloads: Vec<u32> = all.iter().map(|(_, payload)| *payload).collect();
        assert_eq!(payloads, [0, 0, 7, 0], "{name}");
        commands
            .submit()
            .and_then(|point| point.wait())
            .unwrap_or_else(|e| panic!("{name}: {e}"));

        // What is no launch ends a chain, and means what it meant.
        let mut commands = bench.record();
        bench.exec(&mut commands, [0, 1, 2]);
        commands.wait(&signal, 0u64).expect("room");
        bench.exec(&mut commands, [0, 1, 2]);
        bench.exec(&mut commands, [0, 1, 2]);
        for n in 1..=3u64 {
            commands.signal(&signal, n).expect("room");
        }
        bench.exec(&mut commands, [0, 1, 2]);
        commands
            .write32(bench.buffers[0].address(), 0u32)
            .expect("room");
        bench.exec(&mut commands, [0, 1, 2]);
        let (words, sent) = short(commands.recording.words());
        let wanted = [
            "WFI", "PCAS", "acquire", "WFI", "PCAS", "release", "PCAS", "release", "PCAS",
        ];
        assert_eq!(words, wanted, "{name}");
        let memory = memory(&commands);
        let lengths: Vec<usize> = sent
            .iter()
            .map(|&first| chain(chip, &memory, first).len())
            .collect();
        assert_eq!(lengths, [1, 2, 1, 1], "{name}");
        commands
            .submit()
            .and_then(|point| point.wait())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(signal.value(), 3);
    }
}

#[test]
fn a_command_that_fails_leaves_the_last_launch_as_it_was() {
    for (name, chip) in NAMES {
        let bench = Bench::new(name);
        let chip = Chip::named(chip).expect("a chip");
        let mut commands = bench.record();
        let late = commands.var().expect("few");
        bench.exec(&mut commands, [0, 1, 2]);
        let memory = memory(&commands);
        let first = short(commands.recording.words()).1[0];
        let before = descriptor(&memory, first);
        let words = commands.recording.words().to_vec();
        let refused = |e: Result<&mut Commands, Error>| {
            assert!(matches!(e, Err(Error::Record { .. })), "{name}: {e:?}");
        };
        // An address that no semaphore can have, and one whose value is known late.
        refused(commands.signal_at(0x1004u64, 1u64));
        refused(commands.signal_at(1u64 << 60, late));
        // More items than a group can have.
        let args = bench.args([0, 1, 2]);
        // SAFETY: refused.
        refused(unsafe { commands.exec(&bench.add, &args, Grid::new(1, 2048)) });
        assert_eq!(descriptor(&memory, first), before, "{name}");
        assert_eq!(commands.recording.words(), words, "{name}");
        assert!(commands.recording.filed.is_empty(), "{name}");
        bench.exec(&mut commands, [0, 1, 2]);
        assert_eq!(commands.recording.words(), words, "{name}");
        assert_eq!(chain(chip, &memory, first).len(), 2, "{name}");
    }
}

/// Grids, arguments, and a release's address and payload that are known late: what a bound queue makes of them is what a
/// recording with the same numbers makes.
#[test]
fn patched_chains_are_what_is_recorded_afresh() {
    for (name, _) in NAMES {
        let (late, now) = (Bench::new(name), Bench::new(name));
        let signals = [&late, &now].map(|b| [0; 2].map(|_| b.device.signal().expect("a signal")));
        let record = |bench: &Bench,
                      commands: &mut Commands,
                      [groups, out, at, value]: [hcq_nostd::value::Value; 4]| {
            for n in 0..3 {
                let [_, a, b] = bench.args([0, 1, 2]);
                let args = [Arg::address(out), a, b];
                let grid = Grid::new((groups, 1u32, 1u32), 64);
                // SAFETY: at most as many items as all buffers have elements.
                unsafe { commands.exec(&bench.add, &args, grid) }.expect("a launch");
                if n == 1 {
                    commands.signal_at(at, value).expect("room");
                }
            }
        };
        let mut commands = late.record();
        let vars = [0; 4].map(|_| commands.var().expect("few"));
        record(&late, &mut commands, vars.map(Into::into));
        let patched = memory(&commands);
        let words = commands.recording.words().to_vec();
        assert_eq!(short(&words).0, ["WFI", "PCAS"], "{name}");
        let mut bound = commands.bind().expect("bound");
        for (round, (groups, out, signal)) in
            (1u64..).zip([(1, 0, 0), (2, 1, 1), (2, 2, 0), (1, 2, 1)])
        {
            let of = |bench: &Bench, n: usize| {
                [
                    groups,
                    bench.buffers[out].address(),
                    signals[n][signal].address(),
                    round << 33 | round,
                ]
            };
            bound.set_all(vars[0], &of(&late, 0)).expect("variables");
            let point = bound.submit().expect("all are known");
            point.wait().unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(signals[0][signal].value(), round << 33 | round, "{name}");
            let mut commands = now.record();
            record(&now, &mut commands, of(&now, 1).map(Into::into));
            let afresh = memory(&commands);
            assert_eq!(afresh.address(), patched.address(), "machines alike");
            assert_eq!(commands.recording.words(), words, "{name}");
            // A recording that is dropped gives its bytes back, so all begin at the start.
            let len = 3 * 4096;
            assert_eq!(read(&afresh, len), read(&patched, len), "{name}, {round}");
        }
    }
}

/// `x = x + y` and `y = x + y` in turn, which no other order gives: each launch finds what the one before has stored,
/// whatever order the engines take.
fn fibonacci(steps: usize) -> [f32; 2] {
    (0..steps).fold([1.0, 2.0], |[x, y], n| match n % 2 {
        0 => [x + y, y],
        _ => [x, x + y],
    })
}

const ORDERS: [[usize; 3]; 2] = [[1, 1, 2], [2, 1, 2]];
const STEPS: usize = 20;

#[test]
fn chained_launches_run_in_order_whatever_the_seed() {
    for (name, _) in NAMES {
        for seed in 0..12 {
            let bench = Bench::new(&format!("{name},seed={seed}"));
            let mut commands = bench.record();
            for step in 0..STEPS {
                bench.exec(&mut commands, ORDERS[step % 2]);
            }
            assert_eq!(short(commands.recording.words()).0, ["WFI", "PCAS"]);
            let point = commands.submit().expect("submitted");
            point.wait().unwrap_or_else(|e| panic!("{name}: {e}"));
            let [x, y] = fibonacci(STEPS);
            assert_eq!(
                bench.buffers[1].to_vec().expect("idle"),
                [x; N],
                "{name}, seed {seed}"
            );
            assert_eq!(
                bench.buffers[2].to_vec().expect("idle"),
                [y; N],
                "{name}, seed {seed}"
            );
        }
    }
}

/// The chunks that a recording's argument blocks and descriptors are in.
fn chunks(commands: &Commands) -> Vec<Arc<Allocation>> {
    let all = commands.recording.chunks.iter();
    all.map(|chunk| Arc::clone(&chunk.allocation)).collect()
}

/// The launches of each chunk are a chain of their own, sent by words of their own. A signal behind the last one of a chunk
/// is still its release.
#[test]
fn a_chain_ends_with_its_chunk_and_another_one_follows() {
    for (name, chip) in NAMES {
        let chip = Chip::named(chip).expect("a chip");
        for seed in 0..4 {
            let bench = Bench::in_pieces(&format!("{name},seed={seed}"));
            let signal = bench.device.signal().expect("a signal");
            let mut commands = bench.record();
            for step in 0..STEPS {
                bench.exec(&mut commands, ORDERS[step % 2]);
                commands.signal(&signal, step as u64 + 1).expect("room");
            }
            let chunks = chunks(&commands);
            assert!(
                (2..STEPS / 2).contains(&chunks.len()),
                "{name}: {} chunks",
                chunks.len()
            );
            let (words, sent) = short(commands.recording.words());
            assert_eq!(words, ["WFI", "PCAS"].repeat(chunks.len()), "{name}");
            let chains = chunks.iter().zip(sent).map(|(memory, first)| {
                // `descriptor` finds an address of another chunk to be outside.
                chain(chip, memory, first)
            });
            let payloads: Vec<u32> = chains.flatten().map(|(_, payload)| payload).collect();
            let wanted: Vec<u32> = (1..=STEPS as u32).collect();
            assert_eq!(payloads, wanted, "{name}");
            let point = commands.submit().expect("submitted");
            point.wait().unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(signal.value(), STEPS as u64);
            let [x, y] = fibonacci(STEPS);
            assert_eq!(bench.buffers[1].to_vec().expect("idle"), [x; N], "{name}");
            assert_eq!(bench.buffers[2].to_vec().expect("idle"), [y; N], "{name}");
        }
    }
}

/// The same bound, with grids and releases that are known late: equal to a recording with the numbers, in every chunk.
#[test]
fn chains_of_several_chunks_are_patched_to_what_is_recorded_afresh() {
    for (name, _) in NAMES {
        let late = Bench::in_pieces(name);
        let signal = late.device.signal().expect("a signal");
        let record =
            |bench: &Bench, commands: &mut Commands, [groups, at]: [hcq_nostd::value::Value; 2]| {
                for step in 0..STEPS {
                    let args = bench.args(ORDERS[step % 2]);
                    let grid = Grid::new((groups, 1u32, 1u32), 64);
                    // SAFETY: at most as many items as all buffers have elements.
                    unsafe { commands.exec(&bench.add, &args, grid) }.expect("a launch");
                    commands.signal_at(at, step as u64 + 1).expect("room");
                }
            };
        let bytes = |chunks: &[Arc<Allocation>]| -> Vec<Vec<u8>> {
            chunks.iter().map(|c| read(c, c.len())).collect()
        };
        let mut commands = late.record();
        let vars = [0; 2].map(|_| commands.var().expect("few"));
        record(&late, &mut commands, vars.map(Into::into));
        let patched = chunks(&commands);
        assert!(
            (2..STEPS / 2).contains(&patched.len()),
            "{name}: {} chunks",
            patched.len()
        );
        let words = commands.recording.words().to_vec();
        let mut bound = commands.bind().expect("bound");
        for groups in [1, 2, 1] {
            bound
                .set_all(vars[0], &[groups, signal.address()])
                .expect("variables");
            let point = bound.submit().expect("all are known");
            point.wait().unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(signal.value(), STEPS as u64, "{name}");
            // A device that has recorded nothing: others begin with the longest chunk that they had.
            let now = Bench::in_pieces(name);
            let at = now.device.signal().expect("a signal").address();
            let mut commands = now.record();
            record(&now, &mut commands, [groups, at].map(Into::into));
            let afresh = chunks(&commands);
            let places = |chunks: &[Arc<Allocation>]| -> Vec<u64> {
                chunks.iter().map(|chunk| chunk.address()).collect()
            };
            assert_eq!(places(&afresh), places(&patched), "machines alike");
            assert_eq!(commands.recording.words(), words, "{name}");
            assert_eq!(bytes(&afresh), bytes(&patched), "{name}, {groups}");
        }
    }
}

/// The same as a graph with one compute queue: its words do not grow with its launches.
#[test]
fn a_graph_s_launches_hang_on_each_other() {
    for (name, _) in NAMES {
        let words = [1, STEPS].map(|steps| {
            let bench = Bench::new(&format!("{name},seed=3"));
            let mut builder = GraphBuilder::new([&bench.device]).expect("a builder");
            for step in 0..steps {
                let args = bench.args(ORDERS[step % 2]);
                let grid = Grid::new(N as u32 / 64, 64);
                // SAFETY: as many items as all buffers have elements.
                unsafe { builder.exec(&bench.add, &args, grid) }.expect("a node");
            }
            let mut graph: Graph = builder.build(&GraphOptions::default()).expect("a graph");
            for run in 1..=2 {
                let launched = graph.launch().and_then(|run| run.wait());
                launched.unwrap_or_else(|e| panic!("{name}: {e}"));
                if steps % 2 == 0 {
                    let [x, y] = fibonacci(run * steps);
                    assert_eq!(bench.buffers[1].to_vec().expect("idle"), [x; N], "{name}");
                    assert_eq!(bench.buffers[2].to_vec().expect("idle"), [y; N], "{name}");
                }
            }
            graph.stats().words
        });
        assert_eq!(words[0], words[1], "{name}");
    }
}
