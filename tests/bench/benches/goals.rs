//! Prints a line per performance goal: `cargo bench -p hcq-bench --bench goals`.
#![allow(missing_docs, reason = "a benchmark")]

use hcq_bench::baseline::{self, Site};
use hcq_bench::patch::{Launch, one_of, sites, table};
use hcq_bench::queue::Queues;
use hcq_bench::submit::Host;
use hcq_bench::{goal, ratio, ratio_of_workers};
use hcq_cpu::PACKET_WORDS;
use hcq_cpu::control::Control;
use hcq_nostd::mem::{Region, SharedWords};
use hcq_nostd::signal::{Signal, Width};
use hcq_nostd::timeline::Timeline;

struct Memory {
    table: Vec<u64>,
    state: Vec<u64>,
    ours: Vec<u64>,
    ring: Vec<u64>,
    doorbell: u64,
}

impl Memory {
    fn new(sites: &[Site]) -> Self {
        let words = sites
            .iter()
            .map(|s| s.offset as usize / 8 + 1)
            .max()
            .unwrap_or(0);
        let table = table(sites, words as u64 * 8);
        let vars = sites.iter().map(|s| s.slot as usize + 1).max().unwrap_or(0);
        Self {
            table,
            state: vec![0; vars + 2 * vars.div_ceil(64)],
            ours: vec![0; words],
            ring: vec![0; 2048],
            doorbell: 0,
        }
    }

    fn launch(&mut self) -> Launch<'_> {
        Launch::new(
            &self.table,
            &mut self.state,
            &mut self.ours,
            &mut self.ring,
            &mut self.doorbell,
        )
    }
}

fn inputs(n: usize) -> [Vec<u64>; 2] {
    let a: Vec<u64> = (0..n as u64).map(|i| 0x7f00_0000_0000 + i * 4096).collect();
    let b = a.iter().map(|v| v + 64).collect();
    [a, b]
}

fn patch_tables() {
    for (shared, name) in [(true, "shared"), (false, "distinct")] {
        for (n, limit) in [(10, 3.0), (100, 1.6), (1000, 1.3)] {
            let sites = sites(n, shared);
            let vars = if shared { 2 } else { 2 * n as usize };
            let [a, b] = inputs(vars);
            let mut memory = Memory::new(&sites);
            let mut theirs = vec![0u64; memory.ours.len()];
            let mut launch = memory.launch();
            // Both sides must have stored the same.
            assert_eq!(launch.launch(&a), sites.len());
            assert_eq!(launch.launch(&b), sites.len());
            let what = format!("P1 N={n} {name}");
            if baseline::AVAILABLE {
                baseline::stores(&mut theirs, &sites, &b);
                let (mut i, mut j) = (0, 0);
                let r = ratio(
                    || {
                        i ^= 1;
                        launch.launch(if i == 0 { &b } else { &a });
                    },
                    || {
                        j ^= 1;
                        baseline::stores_unchecked(
                            &mut theirs,
                            &sites,
                            if j == 0 { &b } else { &a },
                        );
                    },
                );
                goal::at_most(&what, r.median, limit);
                goal::note(
                    "ns per launch, bare loop",
                    &format!("{:.0}, {:.0}", r.a_ns, r.b_ns),
                );
            } else {
                goal::skipped(&what, "cc absent");
            }
            launch.launch(&b);
            // Nothing changed, against everything changed.
            let (mut i, what) = (0, format!("P3 N={n} {name} unchanged/all"));
            let mut other = Memory::new(&sites);
            let mut other = other.launch();
            let r = ratio(
                || {
                    launch.launch(&b);
                },
                || {
                    i ^= 1;
                    other.launch(if i == 0 { &a } else { &b });
                },
            );
            if shared && n == 1000 {
                goal::at_most(&what, r.median, 0.05);
            } else {
                goal::note(&what, &format!("{:.3}, {:.1} ns", r.median, r.a_ns));
            }
            if n == 1000 && !shared {
                goal::at_most(
                    "P3 distinct ns per kernel unchanged",
                    r.a_ns / f64::from(n),
                    0.5,
                );
            }
            drop(launch);
            baseline::stores(&mut theirs, &sites, &b);
            assert!(
                memory.ours == theirs || !baseline::AVAILABLE,
                "both sides store the same bytes"
            );
            let table_bytes = memory.table.len() * 8;
            goal::note(
                "bytes of table",
                &format!("{table_bytes} for {} pointers", sites.len()),
            );
            if n == 1000 {
                // Without the header, which is there once.
                let empty = table(&[], memory.ours.len() as u64 * 8).len() * 8;
                let per_pointer = (table_bytes - empty) as f64 / sites.len() as f64;
                goal::at_most(
                    &format!("P8 N={n} {name} bytes per pointer"),
                    per_pointer,
                    8.01,
                );
            }
        }
    }
    let mut at_one = 0.0;
    for n in [1u32, 1000, 100_000] {
        let sites = one_of(n);
        let mut memory = Memory::new(&sites);
        let [a, _] = inputs(2);
        let mut launch = memory.launch();
        launch.launch(&a);
        let (mut value, mut other) = (0u64, 0u64);
        let mut one = one_of(1);
        one.truncate(2);
        let mut small = Memory::new(&one);
        let mut small = small.launch();
        small.launch(&a);
        let r = ratio(
            || {
                value += 64;
                assert_eq!(launch.launch_one(1, value), 1);
            },
            || {
                other += 64;
                assert_eq!(small.launch_one(1, other), 1);
            },
        );
        if n == 1 {
            at_one = r.a_ns;
        }
        goal::at_most(
            &format!("P3 one of {n} sites changed / one of 1"),
            r.median,
            1.5,
        );
        goal::note("ns", &format!("{:.1} (alone {:.1})", r.a_ns, at_one));
    }
}

/// Submitting by hand, the host's half alone.
fn submits() {
    for packets in [1usize, 16, 256] {
        let words = vec![7u32; packets * PACKET_WORDS];
        let (mut ring, mut control) = (vec![0u64; 1024 * 8], vec![0u64; Control::WORDS]);
        let mut host = Host::new(&mut ring, &mut control);
        let mut to = vec![0u32; 1024 * PACKET_WORDS];
        let mut at = 0;
        let r = ratio(
            || host.unbound(&words),
            || {
                // A memcpy of the same bytes that walks the same ring.
                if at + words.len() > to.len() {
                    at = 0;
                }
                to[at..at + words.len()].copy_from_slice(&words);
                std::hint::black_box(&mut to);
                at += words.len();
            },
        );
        goal::at_most(
            &format!("P5 unbound submit of {packets} packets, ns"),
            r.a_ns,
            1.5 * r.b_ns + 100.0,
        );
        goal::note("memcpy of its bytes, ns", &format!("{:.1}", r.b_ns));
    }
    let (mut ring, mut control) = (vec![0u64; 1024 * 8], vec![0u64; Control::WORDS]);
    let mut host = Host::new(&mut ring, &mut control);
    let mut slots = [0u128; 2];
    let address = 0x1000;
    let slots: &mut [u64] = zerocopy::transmute_mut!(&mut slots);
    let words = SharedWords::new(Region::from_words(slots, address)).expect("aligned");
    let signals = [0, 1].map(|i| Signal::at(words, i, Width::W64).expect("two slots"));
    let mut timeline = Timeline::new(signals, 62).expect("a span");
    let r = ratio(
        || {
            host.bound(&mut timeline, 0x4000, 100);
        },
        || {
            std::hint::black_box(0);
        },
    );
    goal::at_most("P5 bound submit, ns", r.a_ns, 60.0);
}

/// The CPU device, against the bare command ring with one worker.
fn cpu_queue() {
    // As many looks as take about as long as our worker spins.
    for (sleeps, looks, name) in [(false, 8000, "spinning"), (true, 64, "sleeping")] {
        let Some(mut bare) = baseline::Queue::start(looks) else {
            goal::skipped(&format!("P6 {name}"), "cc absent");
            continue;
        };
        let queues = Queues::new(sleeps);
        let mut bound = queues.bind(1000);
        let mut line = |what: &str, run: &mut dyn FnMut()| {
            let r = ratio_of_workers(run, || bare.run(1000));
            goal::at_most(&format!("P6 1000 tiny kernels, {name} worker, {what} / bare ring"), r.median, 1.5);
            goal::note("ns per kernel", &format!("{:.1}, {:.1}", r.a_ns / 1000.0, r.b_ns / 1000.0));
        };
        line("bound", &mut || bound.submit().expect("submitted").wait().expect("done"));
        line("recorded anew", &mut || queues.run(1000));
    }
}

fn copies() {
    let queues = Queues::new(false);
    let words = (64 << 20) / 8;
    let from = queues.device().alloc_from(&vec![1u64; words]).expect("memory");
    let to = queues.device().alloc::<u64>(words).expect("memory");
    let source = vec![1u64; words];
    let mut target = vec![0u64; words];
    queues.copy(&to, &from);
    let r = ratio(
        || queues.copy(&to, &from),
        || {
            target.copy_from_slice(&source);
            std::hint::black_box(&mut target);
        },
    );
    goal::at_most("copy of 64 MiB / memcpy", r.median, 1.1);
    goal::note("GB/s", &format!("{:.1}, {:.1}", 67.1e6 / r.a_ns, 67.1e6 / r.b_ns));
}

fn main() {
    if std::env::args().any(|a| a == "P6") {
        cpu_queue();
        copies();
        return;
    }
    patch_tables();
    submits();
    cpu_queue();
    copies();
    println!("{} goals missed", goal::missed());
}
