//! Prints a line per performance goal: `cargo bench -p hcq-bench --bench goals [FILTER]`. README.md says how to read them.
#![allow(missing_docs, reason = "a benchmark")]

mod amd;
mod copies;
mod cpu_queue;
mod graph;
mod graphs;
mod nv;
mod peers;
mod qcom;
mod submits;
mod tinygrad;

use hcq_bench::alloc::Counting;
use hcq_bench::goal::Goals;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let mut goals = Goals::from_args();
    graph::print(&mut goals);
    graphs::print(&mut goals);
    submits::print(&mut goals);
    cpu_queue::print(&mut goals);
    peers::print(&mut goals);
    tinygrad::print(&mut goals);
    amd::print(&mut goals);
    nv::print(&mut goals);
    qcom::print(&mut goals);
    copies::print(&mut goals);
    println!("{}", goals.summary());
}
