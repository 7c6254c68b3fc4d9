//! Instruction counts, which repeat where times do not: `cargo bench -p hcq-bench --bench instructions`.
//!
//! Needs valgrind, and `gungraun-runner` of the version in Cargo.lock (`cargo install gungraun-runner --version ...`).
#![allow(missing_docs, reason = "a benchmark")]

use std::hint::black_box;

use gungraun::{library_benchmark, library_benchmark_group, main};
use hcq_bench::patch::{Launch, sites, table};
use hcq_bench::submit::Host;
use hcq_cpu::PACKET_WORDS;
use hcq_cpu::control::Control;
use hcq_cpu::program::Program;
use hcq_cpu::queue::Compute;
use hcq_nostd::args::{Arg, ArgLayout, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch as Exec, Queue};
use hcq_nostd::record::Block;
use hcq_nostd::value::Value;

/// Memory for as long as the benchmark's process lives.
fn leak(words: usize) -> &'static mut [u64] {
    vec![0u64; words].leak()
}

struct Graph {
    launch: Launch<'static>,
    inputs: Vec<u64>,
}

/// A graph whose next launch changes all of its inputs, or none.
fn graph(kernels: u32, shared: bool, changed: bool) -> Graph {
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
    Graph { launch, inputs }
}

#[library_benchmark]
#[bench::shared_10(graph(10, true, true))]
#[bench::shared_1000(graph(1000, true, true))]
#[bench::distinct_10(graph(10, false, true))]
#[bench::distinct_1000(graph(1000, false, true))]
#[bench::unchanged_shared_1000(graph(1000, true, false))]
#[bench::unchanged_distinct_1000(graph(1000, false, false))]
fn launch(mut graph: Graph) -> usize {
    black_box(graph.launch.launch(black_box(&graph.inputs)))
}

#[library_benchmark]
fn record_exec_with_two_buffers_and_a_scalar() -> usize {
    let slots = [
        ArgSlot::buffer(0),
        ArgSlot::buffer(8),
        ArgSlot::scalar(16, 4),
    ];
    let program = Program::new(0x1000).with_layout(ArgLayout {
        slots: &slots,
        size: 24,
        align: 8,
    });
    let (mut words, mut kernargs) = ([0u32; PACKET_WORDS], [0u64; 4]);
    let mut kernargs = Region::from_words(&mut kernargs, 0x2000);
    let mut q = Compute::new(&mut words, PatchList::none());
    let one = Value::Imm(1);
    let exec = Exec {
        program: black_box(&program),
        args: &[
            Arg::Buffer(0x3000u64.into()),
            Arg::Buffer(0x4000u64.into()),
            Arg::from(7u32),
        ],
        kernargs: Block::new(&mut kernargs, RegionId(1), 0, 24).expect("inside"),
        groups: black_box([one; 3]),
        local: black_box([one; 3]),
        local_memory: 0,
    };
    q.exec(exec).expect("room");
    black_box(q.words().len())
}

#[library_benchmark]
fn record_wait_barrier_signal() -> usize {
    let mut words = [0u32; 3 * PACKET_WORDS];
    let mut q = Compute::new(&mut words, PatchList::none());
    let (address, value) = black_box((Value::Imm(0x1000), Value::Imm(7)));
    q.wait(address.into(), value)
        .and_then(|q| q.memory_barrier())
        .and_then(|q| q.signal(address.into(), value))
        .expect("room");
    black_box(q.words().len())
}

fn host() -> Host<'static> {
    let mut host = Host::new(leak(64 * 8), leak(Control::WORDS));
    host.unbound(&[0; PACKET_WORDS]);
    host
}

#[library_benchmark]
#[bench::one(host(), 1)]
#[bench::sixteen(host(), 16)]
fn submit_packets(mut host: Host<'static>, packets: usize) -> Host<'static> {
    let words = [7u32; 16 * PACKET_WORDS];
    host.unbound(black_box(&words[..packets * PACKET_WORDS]));
    host
}

library_benchmark_group!(
    name = hot_paths;
    benchmarks =
        launch,
        record_exec_with_two_buffers_and_a_scalar,
        record_wait_barrier_signal,
        submit_packets
);

main!(library_benchmark_groups = hot_paths);
