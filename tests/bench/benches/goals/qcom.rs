//! P4, P1 and P5 for Adreno: dispatches recorded and patched, bound queues up to the call of the kernel driver. Instruction
//! counts are in `benches/instructions`, with limits.

use std::hint::black_box;

use hcq_bench::baseline;
use hcq_bench::goal::Goals;
use hcq_bench::patched::{inputs, stores};
use hcq_bench::qcom::{BLOCK, Bound, Memory, afresh, patched};
use hcq_bench::ratio::ratio;

/// Launches of one recording: what is made around them does not count.
const LAUNCHES: usize = 64;

pub(crate) fn print(goals: &mut Goals) {
    record(goals);
    for (n, limit) in [(10, 3.0), (100, 1.6), (1000, 1.3)] {
        patch(goals, n, limit);
    }
    submit(goals);
}

fn launches(memory: &mut Memory) -> usize {
    let mut recording = memory.recording();
    for n in 0..LAUNCHES {
        let at = black_box(0x10_0000 + n as u64 * 64);
        recording.exec(n, [at, at + 32]);
    }
    recording.words().len()
}

/// Time and words of one dispatch. There is no goal for times: P4 counts instructions.
fn record(goals: &Goals) {
    let line = "P4 Adreno dispatch, ns";
    if !goals.wants(line) {
        return;
    }
    let mut memory = Memory::new(LAUNCHES);
    let words = launches(&mut memory);
    let (from, mut to) = (vec![7u32; words], vec![0u32; words]);
    let r = ratio(
        || {
            black_box(launches(&mut memory));
        },
        || to.copy_from_slice(black_box(&from)),
    );
    let one = |all: f64| all / LAUNCHES as f64;
    println!("{line} {:.1}", one(r.a_ns));
    let text = format!(
        "{} words, and 16 bytes of arguments; memcpy of the words {:.1} ns; {r}",
        one(words as f64),
        one(r.b_ns)
    );
    goals.note(line, &text);
}

/// Two pointers and a grid of each launch changed, against one store for each of them.
fn patch(goals: &mut Goals, n: usize, limit: f64) {
    let line = format!("P1 Adreno dispatches N={n} distinct");
    if !goals.wants(&line) {
        return;
    }
    if !baseline::AVAILABLE {
        return goals.skipped(&line, "cc absent");
    }
    let [a, b] = inputs(n);
    let mut ours = patched(n);
    assert_eq!(ours.launch(&b), ours.sites(), "all of them change");
    assert!(ours.memory() == afresh(n, &b), "what recording makes");
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
        "{:.1} ns a dispatch, bare loop {:.1} ns; {} places for {} inputs; {r}",
        r.a_ns / n as f64,
        r.b_ns / n as f64,
        ours.sites(),
        a.len()
    );
    goals.note(&line, &text);
}

/// The timeline's point, the values of the wait and the signal, the call's arguments.
fn submit(goals: &mut Goals) {
    let line = "P5 Adreno bound submit, up to the call, ns";
    if !goals.wants(line) {
        return;
    }
    let (mut bound, mut counter) = (Bound::default(), 0u64);
    let r = ratio(
        || {
            black_box(bound.submit(black_box(7)));
        },
        // A store, so that there is a pair; the goal is on the time alone.
        || {
            counter = black_box(counter + 1);
        },
    );
    goals.at_most(line, r.a_ns, 60.0);
}
