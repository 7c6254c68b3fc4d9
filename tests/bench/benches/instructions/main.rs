//! Instruction counts, which repeat where times do not: `cargo bench -p hcq-bench --bench instructions`.
//!
//! Needs valgrind, and `gungraun-runner` of the version in Cargo.lock (`cargo install gungraun-runner --version ...`).
//! A benchmark that takes more than its number in `limits.rs` fails.
#![allow(missing_docs, reason = "a benchmark")]

mod limits;

use std::hint::black_box;
use std::mem::ManuallyDrop;
use std::time::Duration;

use gungraun::prelude::*;
use gungraun::{Callgrind, EventKind, LibraryBenchmarkConfig, main};
use hcq_bench::amd::{self, Aql, Pm4};
use hcq_bench::engine::{Device, NOTHING};
use hcq_bench::graph::{At, Builder, Cpu as CpuGraph, Driver, Launcher, Pm4 as Pm4Graph};
use hcq_bench::nv;
use hcq_bench::patch::{Launch, sites, table};
use hcq_bench::patched::{self, Patched};
use hcq_bench::qcom;
use hcq_bench::queue::Queues;
use hcq_bench::submit::Host;
use hcq_cpu::PACKET_WORDS;
use hcq_cpu::control::Control;
use hcq_cpu::engine::Poll;
use hcq_cpu::packet::{Exec as ExecPacket, Packet};
use hcq_cpu::program::Program;
use hcq_cpu::queue::Compute;
use hcq_nostd::args::{Arg, ArgLayout, ArgSlot};
use hcq_nostd::mem::{Region, SharedWords};
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch as Exec, Queue};
use hcq_nostd::record::Block;
use hcq_nostd::signal::{Signal, Width};
use hcq_nostd::timeline::Timeline;
use hcq_nostd::value::Value;
use hcq_std::{Bound, Commands, Point};

/// Fails above this many instructions.
fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, instructions)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

/// Memory for as long as the benchmark's process lives. Everything is made before and dropped never, so that only the work
/// is counted.
fn leak(words: usize) -> &'static mut [u64] {
    vec![0u64; words].leak()
}

/// The same for a value.
fn keep<T>(value: T) -> &'static mut T {
    Box::leak(Box::new(value))
}

struct Graph {
    launch: Launch<'static>,
    inputs: Vec<u64>,
}

/// A graph whose next launch changes all of its inputs, or none.
fn graph(kernels: u32, shared: bool, changed: bool) -> &'static mut Graph {
    let sites = sites(kernels, shared);
    let vars = if shared { 2 } else { 2 * kernels as usize };
    let table: &'static [u64] = table(&sites, u64::from(kernels) * 32).leak();
    let state = leak(vars + 2 * vars.div_ceil(64));
    let [doorbell] = leak(1) else {
        unreachable!("one word")
    };
    let mut launch = Launch::new(table, state, leak(kernels as usize * 4), leak(64), doorbell);
    let mut inputs: Vec<u64> = (0..vars as u64)
        .map(|i| 0x7f00_0000_0000 + i * 4096)
        .collect();
    launch.launch(&inputs);
    if changed {
        inputs.iter_mut().for_each(|i| *i += 64);
    }
    keep(Graph { launch, inputs })
}

#[library_benchmark]
#[bench::shared_10(args = (graph(10, true, true)), config = at_most(limits::LAUNCH_10))]
#[bench::shared_1000(args = (graph(1000, true, true)), config = at_most(limits::LAUNCH_1000))]
#[bench::distinct_10(args = (graph(10, false, true)), config = at_most(limits::LAUNCH_10))]
#[bench::distinct_1000(args = (graph(1000, false, true)), config = at_most(limits::LAUNCH_1000))]
#[bench::unchanged_shared_1000(
    args = (graph(1000, true, false)), config = at_most(limits::UNCHANGED_SHARED_1000)
)]
#[bench::unchanged_distinct_1000(
    args = (graph(1000, false, false)), config = at_most(limits::UNCHANGED_DISTINCT_1000)
)]
fn launch(graph: &'static mut Graph) -> usize {
    black_box(graph.launch.launch(black_box(&graph.inputs)))
}

struct OfInputs<D: Driver> {
    launcher: Launcher<D>,
    inputs: Vec<u64>,
}

/// A recorded graph whose next launch changes all of its inputs, or none.
fn recorded<D: Driver + Default>(
    kernels: u32,
    shared: bool,
    at: At,
    changed: bool,
) -> &'static mut OfInputs<D> {
    let mut launcher = Builder::new(D::default(), kernels, shared, at).launcher();
    let [a, b] = launcher.two_inputs();
    launcher.launch(&a);
    let inputs = if changed { b } else { a };
    keep(OfInputs { launcher, inputs })
}

fn cpu(kernels: u32, shared: bool, changed: bool) -> &'static mut OfInputs<CpuGraph> {
    recorded(kernels, shared, At::Anywhere, changed)
}

fn pm4(kernels: u32, shared: bool, changed: bool) -> &'static mut OfInputs<Pm4Graph> {
    recorded(kernels, shared, At::Known, changed)
}

#[library_benchmark]
#[bench::shared_10(args = (cpu(10, true, true)), config = at_most(limits::GRAPH_10))]
#[bench::shared_1000(args = (cpu(1000, true, true)), config = at_most(limits::GRAPH_1000))]
#[bench::distinct_10(args = (cpu(10, false, true)), config = at_most(limits::GRAPH_10))]
#[bench::distinct_1000(args = (cpu(1000, false, true)), config = at_most(limits::GRAPH_1000))]
#[bench::unchanged_shared_1000(
    args = (cpu(1000, true, false)), config = at_most(limits::GRAPH_UNCHANGED_SHARED)
)]
#[bench::unchanged_distinct_1000(
    args = (cpu(1000, false, false)), config = at_most(limits::GRAPH_UNCHANGED_DISTINCT)
)]
fn graph_cpu(graph: &'static mut OfInputs<CpuGraph>) -> usize {
    black_box(graph.launcher.launch(black_box(&graph.inputs)))
}

#[library_benchmark]
#[bench::shared_10(args = (pm4(10, true, true)), config = at_most(limits::GRAPH_10))]
#[bench::distinct_1000(args = (pm4(1000, false, true)), config = at_most(limits::GRAPH_1000))]
#[bench::unchanged_shared_1000(
    args = (pm4(1000, true, false)), config = at_most(limits::GRAPH_UNCHANGED_SHARED)
)]
fn graph_pm4(graph: &'static mut OfInputs<Pm4Graph>) -> usize {
    black_box(graph.launcher.launch(black_box(&graph.inputs)))
}

static SLOTS: [ArgSlot; 3] = [
    ArgSlot::buffer(0),
    ArgSlot::buffer(8),
    ArgSlot::scalar(16, 4),
];

/// What is made once, before commands are recorded.
struct Recording {
    queue: Compute<'static>,
    program: Program<'static>,
    kernargs: Region<'static>,
}

fn recording() -> &'static mut Recording {
    let layout = ArgLayout {
        slots: &SLOTS,
        size: 24,
        align: 8,
    };
    keep(Recording {
        queue: Compute::new(vec![0u32; 8 * PACKET_WORDS].leak(), PatchList::none()),
        program: Program::new(0x1000).with_layout(layout),
        kernargs: Region::from_words(leak(4), 0x2000),
    })
}

impl Recording {
    #[inline]
    fn exec(&mut self) {
        let one = Value::Imm(1);
        let exec = Exec {
            program: black_box(&self.program),
            args: &[
                Arg::Buffer(0x3000u64.into()),
                Arg::Buffer(0x4000u64.into()),
                Arg::from(7u32),
            ],
            kernargs: Block::new(&mut self.kernargs, RegionId(1), 0, 24).expect("inside"),
            groups: black_box([one; 3]),
            local: black_box([one; 3]),
            local_memory: 0,
        };
        self.queue.exec(exec).expect("room");
    }
}

// One launch with two buffers and a scalar.
#[library_benchmark]
#[bench::two_buffers_and_a_scalar(args = (recording()), config = at_most(limits::RECORD_EXEC))]
fn record_exec(recording: &'static mut Recording) {
    recording.exec();
}

// The same between a wait and a barrier before, and a signal after it.
#[library_benchmark]
#[bench::wait_barrier_exec_signal(args = (recording()), config = at_most(limits::RECORD_GROUP))]
fn record_group(recording: &'static mut Recording) {
    let (address, value) = black_box((Value::Imm(0x1000), Value::Imm(7)));
    recording
        .queue
        .wait(address.into(), value)
        .and_then(|q| q.memory_barrier())
        .expect("room");
    recording.exec();
    recording.queue.signal(address.into(), value).expect("room");
}

// AMD: one launch with two pointers.
#[library_benchmark]
#[bench::two_pointers(args = (keep(amd::pm4(2))), config = at_most(limits::AMD_PM4_EXEC))]
fn amd_pm4_exec(recording: &'static mut Pm4) {
    recording.exec(0, black_box([0x3000, 0x4000]));
}

// The same between a wait and a barrier before, and a signal after it.
#[library_benchmark]
#[bench::wait_barrier_exec_signal(args = (keep(amd::pm4(2))), config = at_most(limits::AMD_PM4_GROUP))]
fn amd_pm4_group(recording: &'static mut Pm4) {
    let (address, value) = black_box((Value::Imm(0x1000), Value::Imm(7)));
    recording.group(0, black_box([0x3000, 0x4000]), address.into(), value);
}

// The same of AQL packets.
#[library_benchmark]
#[bench::two_pointers(args = (keep(amd::aql(2))), config = at_most(limits::AMD_AQL_EXEC))]
fn amd_aql_exec(recording: &'static mut Aql) {
    recording.exec(0, black_box([0x3000, 0x4000]));
}

#[library_benchmark]
#[bench::wait_barrier_exec_signal(args = (keep(amd::aql(2))), config = at_most(limits::AMD_AQL_GROUP))]
fn amd_aql_group(recording: &'static mut Aql) {
    let (address, value) = black_box((Value::Imm(0x1000), Value::Imm(7)));
    recording.group(0, black_box([0x3000, 0x4000]), address.into(), value);
}

// NVIDIA: one launch with two pointers, behind nothing, or behind another one.
fn nv_recording(before: usize) -> &'static mut nv::Recording<'static> {
    let mut recording = keep(nv::Memory::new(4)).recording();
    for n in 0..before {
        recording.exec(n, [0x1000, 0x2000]);
    }
    keep(recording)
}

#[library_benchmark]
#[bench::unchained(args = (nv_recording(0)), config = at_most(limits::NV_EXEC))]
#[bench::chained(args = (nv_recording(1)), config = at_most(limits::NV_EXEC_CHAINED))]
fn nv_exec(recording: &'static mut nv::Recording<'static>) {
    recording.exec(2, black_box([0x3000, 0x4000]));
}

// The same between a wait and a barrier before, and a signal after it.
#[library_benchmark]
#[bench::wait_barrier_exec_signal(args = (nv_recording(0)), config = at_most(limits::NV_GROUP))]
fn nv_group(recording: &'static mut nv::Recording<'static>) {
    let (address, value) = black_box((Value::Imm(0x1000), Value::Imm(7)));
    recording.group(2, black_box([0x3000, 0x4000]), address.into(), value);
}

// Adreno: one launch with two pointers.
#[library_benchmark]
#[bench::two_pointers(args = (keep(keep(qcom::Memory::new(4)).recording())), config = at_most(limits::QCOM_EXEC))]
fn qcom_exec(recording: &'static mut qcom::Recording<'static>) {
    recording.exec(0, black_box([0x3000, 0x4000]));
}

#[library_benchmark]
#[bench::wait_barrier_exec_signal(
    args = (keep(keep(qcom::Memory::new(4)).recording())), config = at_most(limits::QCOM_GROUP)
)]
fn qcom_group(recording: &'static mut qcom::Recording<'static>) {
    let (address, value) = black_box((Value::Imm(0x1000), Value::Imm(7)));
    recording.group(0, black_box([0x3000, 0x4000]), address.into(), value);
}

/// Launches that were patched before, and inputs that they all change with.
fn late<const N: usize>(
    of: fn(usize) -> Patched<N>,
    n: usize,
) -> (&'static mut Patched<N>, &'static [u64]) {
    let [_, other] = patched::inputs(n);
    (keep(of(n)), other.leak())
}

// Two pointers and a grid of each of a hundred launches.
#[library_benchmark]
#[bench::distinct_100(args = (late(nv::patched, 100)), config = at_most(limits::NV_PATCH_100))]
fn nv_patch((launches, inputs): (&'static mut Patched<3>, &'static [u64])) -> usize {
    black_box(launches.launch(black_box(inputs)))
}

#[library_benchmark]
#[bench::distinct_100(args = (late(qcom::patched, 100)), config = at_most(limits::QCOM_PATCH_100))]
fn qcom_patch((launches, inputs): (&'static mut Patched<2>, &'static [u64])) -> usize {
    black_box(launches.launch(black_box(inputs)))
}

// An entry, GPPut and the doorbell of a ring that was used before.
fn nv_host() -> &'static mut nv::Host {
    let host = keep(nv::Host::default());
    host.bound(0x1_0000, 400);
    host
}

#[library_benchmark]
#[bench::bound(args = (nv_host()), config = at_most(limits::NV_SUBMIT))]
fn nv_submit(host: &'static mut nv::Host) -> u64 {
    black_box(host.bound(black_box(0x1_0000), 400))
}

// A bound queue that was submitted before, up to the call of the kernel driver.
fn qcom_bound() -> &'static mut qcom::Bound {
    let bound = keep(qcom::Bound::default());
    bound.submit(7);
    bound
}

#[library_benchmark]
#[bench::bound(args = (qcom_bound()), config = at_most(limits::QCOM_SUBMIT))]
fn qcom_submit(bound: &'static mut qcom::Bound) {
    black_box(bound.submit(black_box(7)));
}

fn host() -> &'static mut Host<'static> {
    let mut host = Host::new(leak(64 * 8), leak(Control::WORDS));
    host.unbound(&[0; PACKET_WORDS]);
    keep(host)
}

#[library_benchmark]
#[bench::one(args = (host(), 1), config = at_most(limits::SUBMIT_1))]
#[bench::sixteen(args = (host(), 16), config = at_most(limits::SUBMIT_16))]
fn submit_packets(host: &'static mut Host<'static>, packets: usize) {
    static WORDS: [u32; 16 * PACKET_WORDS] = [7; 16 * PACKET_WORDS];
    host.unbound(black_box(&WORDS[..packets * PACKET_WORDS]));
}

/// A timeline that was submitted to before, as any but the first submission finds it.
fn timeline() -> &'static mut Timeline<'static> {
    let slots: &'static mut [u128] = vec![0u128; 2].leak();
    let slots: &'static mut [u64] = zerocopy::transmute_mut!(slots);
    let words = SharedWords::new(Region::from_words(slots, 0x1000)).expect("aligned");
    let signals = [0, 1].map(|i| Signal::at(words, i, Width::W64).expect("two slots"));
    let mut timeline = Timeline::new(signals, 62).expect("a span");
    timeline.submit().expect("room in the timeline");
    keep(timeline)
}

#[library_benchmark]
#[bench::core(args = (host(), timeline()), config = at_most(limits::SUBMIT_BOUND))]
fn submit_bound(host: &'static mut Host<'static>, timeline: &'static mut Timeline<'static>) -> u64 {
    black_box(host.bound(timeline, black_box(0x4000), 100))
}

fn exec_packet(data: u64) -> Packet {
    Packet::Exec(ExecPacket {
        kernel: NOTHING,
        args: data,
        args_size: 24,
        groups: [1; 3],
        local: [1; 3],
        local_memory: 0,
    })
}

fn signal_packet(address: u64) -> Packet {
    Packet::Signal {
        address,
        value: 7,
        notify: false,
    }
}

fn wait_packet(address: u64) -> Packet {
    Packet::Wait { address, value: 0 }
}

/// An engine with this many of a packet.
fn device(count: usize, packet: fn(u64) -> Packet) -> &'static mut Device {
    keep(Device::with(|data| vec![packet(data); count]))
}

#[library_benchmark]
#[bench::idle(args = (device(0, exec_packet)), config = at_most(limits::ENGINE_IDLE))]
#[bench::exec(args = (device(1, exec_packet)), config = at_most(limits::ENGINE_EXEC))]
#[bench::exec_16(args = (device(16, exec_packet)), config = at_most(limits::ENGINE_EXEC_16))]
#[bench::signal(args = (device(1, signal_packet)), config = at_most(limits::ENGINE_SIGNAL))]
#[bench::wait(args = (device(1, wait_packet)), config = at_most(limits::ENGINE_WAIT))]
fn poll(device: &'static mut Device) -> Poll {
    black_box(device.poll())
}

/// A device whose worker sleeps. It ends with the process, and so does what is made with it.
fn queues() -> &'static Queues {
    let queues = Box::leak(Box::new(Queues::new(Duration::ZERO)));
    queues.run(1);
    std::thread::sleep(Duration::from_millis(200));
    queues
}

/// A recording that has its memory already.
fn commands() -> (&'static Queues, &'static mut Commands) {
    let queues = queues();
    (queues, keep(queues.record(2)))
}

// One launch with two buffers and a scalar, through the library.
#[library_benchmark]
#[bench::two_buffers_and_a_scalar(args = (commands()), config = at_most(limits::LIBRARY_EXEC))]
fn library_exec((queues, commands): (&'static Queues, &'static mut Commands)) {
    black_box(queues).exec(commands);
}

/// A bound queue that was launched before.
fn bound() -> &'static mut Bound {
    let queues = queues();
    let mut bound = queues.bind(1);
    queues.submit_and_wait(&mut bound);
    std::thread::sleep(Duration::from_millis(200));
    keep(bound)
}

#[library_benchmark]
#[bench::worker_asleep(args = (bound()), config = at_most(limits::LIBRARY_BOUND))]
fn library_submit_bound(bound: &'static mut Bound) -> ManuallyDrop<Point> {
    ManuallyDrop::new(bound.submit().expect("submitted"))
}

library_benchmark_group!(
    name = graphs;
    benchmarks = launch, graph_cpu, graph_pm4
);
library_benchmark_group!(
    name = records;
    benchmarks = record_exec, record_group, library_exec
);
library_benchmark_group!(
    name = amd_records;
    benchmarks = amd_pm4_exec, amd_pm4_group, amd_aql_exec, amd_aql_group
);
library_benchmark_group!(
    name = nv_launches;
    benchmarks = nv_exec, nv_group, nv_patch, nv_submit
);
library_benchmark_group!(
    name = qcom_launches;
    benchmarks = qcom_exec, qcom_group, qcom_patch, qcom_submit
);
library_benchmark_group!(
    name = submits;
    benchmarks = submit_packets, submit_bound, library_submit_bound
);
library_benchmark_group!(
    name = engine;
    benchmarks = poll
);

main!(
    library_benchmark_groups = graphs,
    records,
    amd_records,
    nv_launches,
    qcom_launches,
    submits,
    engine
);
