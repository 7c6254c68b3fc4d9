//! P5: what a submission costs the host.

use std::hint::black_box;

use hcq_bench::cpus::Cpus;
use hcq_bench::goal::Goals;
use hcq_bench::queue::{Queues, time_to_submit};
use hcq_bench::ratio::{SPIN, pairs, ratio};
use hcq_bench::submit::Host;
use hcq_cpu::PACKET_WORDS;
use hcq_cpu::control::Control;
use hcq_nostd::mem::{Region, SharedWords};
use hcq_nostd::signal::{Signal, Width};
use hcq_nostd::timeline::Timeline;

/// Packets of the rings.
const RING: usize = 1024;

pub(crate) fn print(goals: &mut Goals) {
    for packets in [1, 16, 256] {
        unbound(goals, packets);
    }
    bound(goals);
    bound_by_library(goals);
}

/// By hand, with an engine that is always done: the words go into the ring.
fn unbound(goals: &mut Goals, packets: usize) {
    let line = format!("P5 unbound submit of {packets} packets, ns");
    if !goals.wants(&line) {
        return;
    }
    let words = vec![7u32; packets * PACKET_WORDS];
    let (mut ring, mut control) = (vec![0u64; RING * 8], vec![0u64; Control::WORDS]);
    let mut host = Host::new(&mut ring, &mut control);
    // The bare copy walks a ring of the same size.
    let mut to = vec![0u32; RING * PACKET_WORDS];
    let mut at = 0;
    let r = ratio(
        || host.unbound(black_box(&words)),
        || {
            if at + words.len() > to.len() {
                at = 0;
            }
            to[at..at + words.len()].copy_from_slice(black_box(&words));
            black_box(&mut to);
            at += words.len();
        },
    );
    goals.at_most(&line, r.a_ns, 1.5 * r.b_ns + 100.0);
    goals.note(&line, &format!("memcpy of its bytes {:.1} ns; {r}", r.b_ns));
}

/// By hand: INDIRECT, the timeline's wait and signal, the doorbell.
fn bound(goals: &mut Goals) {
    let line = "P5 bound submit, core, ns";
    if !goals.wants(line) {
        return;
    }
    let (mut ring, mut control) = (vec![0u64; RING * 8], vec![0u64; Control::WORDS]);
    let mut host = Host::new(&mut ring, &mut control);
    let mut slots = [0u128; 2];
    let slots: &mut [u64] = zerocopy::transmute_mut!(&mut slots);
    let words = SharedWords::new(Region::from_words(slots, 0x1000)).expect("aligned");
    let signals = [0, 1].map(|i| Signal::at(words, i, Width::W64).expect("two slots"));
    let mut timeline = Timeline::new(signals, 62).expect("a span");
    let (mut counter, packets) = (0u64, 100);
    let r = ratio(
        || {
            black_box(host.bound(&mut timeline, 0x4000, packets));
        },
        // A store, so that there is a pair; the goal is on the time alone.
        || {
            counter = black_box(counter + 1);
        },
    );
    goals.at_most(line, r.a_ns, 60.0);
}

/// Through the library: with its locks, reference counts, and a worker that is awake and runs what is submitted.
fn bound_by_library(goals: &mut Goals) {
    let line = "P5 bound submit, library, ns";
    if !goals.wants(line) {
        return;
    }
    let Some(cpus) = Cpus::two() else {
        return goals.skipped(line, "a second processor");
    };
    let queues = cpus.with_workers(|| Queues::new(SPIN));
    let mut bound = queues.bind(1);
    let mut counter = 0u64;
    let r = pairs(
        &mut || {
            // The first one wakes the worker.
            time_to_submit(&mut bound, 1);
            time_to_submit(&mut bound, 100)
        },
        &mut || {
            counter = black_box(counter + 1);
            1.0
        },
    );
    goals.at_most(line, r.a_ns, 60.0);
    goals.note(
        line,
        &format!(
            "p10 {:.0} ns, p90 {:.0} ns of 100 submissions each",
            r.p10, r.p90
        ),
    );
}
