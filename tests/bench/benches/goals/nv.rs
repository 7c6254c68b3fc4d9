//! P4, P1 and P5 for NVIDIA: launch descriptors recorded and patched, entries submitted. Instruction counts are in
//! `benches/instructions`, with limits.

use std::hint::black_box;

use hcq_bench::baseline;
use hcq_bench::goal::Goals;
use hcq_bench::nv::{BLOCK, Host, Memory, afresh, patched};
use hcq_bench::patched::{inputs, stores};
use hcq_bench::ratio::ratio;

/// Launches of one recording: what is made around them does not count.
const LAUNCHES: usize = 64;

pub(crate) fn print(goals: &mut Goals) {
    record(goals, "NVIDIA dispatch, chained", true);
    record(goals, "NVIDIA dispatch, unchained", false);
    for (n, limit) in [(10, 3.0), (100, 1.6), (1000, 1.3)] {
        patch(goals, n, limit);
    }
    submit(goals);
}

fn launches(memory: &mut Memory, chained: bool) -> [usize; 3] {
    let mut recording = memory.recording();
    for n in 0..LAUNCHES {
        let at = black_box(0x10_0000 + n as u64 * 64);
        if !chained {
            recording.wait_for_idle();
        }
        recording.exec(n, [at, at + 32]);
    }
    recording.bytes(LAUNCHES)
}

/// Time and bytes of one launch. There is no goal for times: P4 counts instructions.
fn record(goals: &Goals, name: &str, chained: bool) {
    let line = format!("P4 {name}, ns");
    if !goals.wants(&line) {
        return;
    }
    let mut memory = Memory::new(LAUNCHES);
    let bytes = launches(&mut memory, chained);
    let all: usize = bytes.iter().sum();
    let (from, mut to) = (vec![7u8; all], vec![0u8; all]);
    let r = ratio(
        || {
            black_box(launches(&mut memory, chained));
        },
        || to.copy_from_slice(black_box(&from)),
    );
    let one = |all: f64| all / LAUNCHES as f64;
    println!("{line} {:.1}", one(r.a_ns));
    let [words, descriptors, banks] = bytes.map(|all| one(all as f64));
    let text = format!(
        "{words:.1} bytes of words, {descriptors:.0} of a descriptor, {banks:.0} of constants; memcpy of as many {:.1} ns; {r}",
        one(r.b_ns)
    );
    goals.note(&line, &text);
}

/// Two pointers and a grid of each launch changed, against one store for each of them.
fn patch(goals: &mut Goals, n: usize, limit: f64) {
    let line = format!("P1 NVIDIA launches N={n} distinct");
    if !goals.wants(&line) {
        return;
    }
    if !baseline::AVAILABLE {
        return goals.skipped(&line, "cc absent");
    }
    let [a, b] = inputs(n);
    let mut ours = patched(n);
    assert_eq!(ours.launch(&b), ours.sites(), "all of them change");
    let (blocks, qmds) = afresh(n, &b);
    assert!(
        ours.memory().ends_with(&[blocks, qmds].concat()),
        "what recording makes"
    );
    let sites = stores(n, BLOCK as u32);
    let mut theirs = vec![0u64; n * BLOCK / 8];
    baseline::stores(&mut theirs, &sites, &a);
    let (mut i, mut j) = (0, 0);
    let r = ratio(
        || {
            i ^= 1;
            ours.launch(if i == 0 { &b } else { &a });
        },
        || {
            j ^= 1;
            baseline::stores_unchecked(&mut theirs, &sites, if j == 0 { &b } else { &a });
        },
    );
    goals.at_most(&line, r.median, limit);
    let text = format!(
        "{:.1} ns a launch descriptor, bare loop {:.1} ns; {} places for {} inputs; {r}",
        r.a_ns / n as f64,
        r.b_ns / n as f64,
        ours.sites(),
        a.len()
    );
    goals.note(&line, &text);
}

/// An entry, GPPut and the doorbell.
fn submit(goals: &mut Goals) {
    let line = "P5 NVIDIA bound submit, ns";
    if !goals.wants(line) {
        return;
    }
    let (mut host, mut counter) = (Host::default(), 0u64);
    let r = ratio(
        || {
            black_box(host.bound(black_box(0x1_0000), 400));
        },
        // A store, so that there is a pair; the goal is on the time alone.
        || {
            counter = black_box(counter + 1);
        },
    );
    goals.at_most(line, r.a_ns, 60.0);
}
