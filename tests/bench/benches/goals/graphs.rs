//! P1, P3, P7, P8 of whole graphs: planned, recorded by a driver's encoder, bound, launched into a ring up to the doorbell
//! and the kickoff.

use hcq_bench::alloc;
use hcq_bench::baseline;
use hcq_bench::goal::Goals;
use hcq_bench::graph::{At, Builder, Cpu, Driver, Launcher, Pm4};
use hcq_bench::ratio::ratio;

/// Inputs of a graph: two for all kernels, or two for each.
const KINDS: [(bool, &str); 2] = [(true, "shared"), (false, "distinct")];

pub(crate) fn print(goals: &mut Goals) {
    of::<Cpu>(goals, "CPU graph", At::Anywhere);
    of::<Pm4>(goals, "PM4 graph", At::Known);
}

fn of<D: Driver + Default>(goals: &mut Goals, graph: &str, at: At) {
    for (shared, name) in KINDS {
        let made = |n| Builder::new(D::default(), n, shared, at);
        for (n, limit) in [(10, 3.0), (100, 1.6), (1000, 1.3)] {
            let line = format!("P1 {graph} N={n} {name}");
            if goals.wants(&line) {
                all_changed(goals, &line, &mut made(n).launcher(), limit);
            }
        }
        unchanged(goals, graph, name, |n| made(n).launcher());
        build(goals, graph, name, made);
        memory::<D>(goals, graph, name, shared);
    }
}

fn all_changed<D: Driver>(goals: &mut Goals, line: &str, launcher: &mut Launcher<D>, limit: f64) {
    if !baseline::AVAILABLE {
        return goals.skipped(line, "cc absent");
    }
    let sites = launcher.bare();
    let [a, b] = launcher.two_inputs();
    let mut theirs = vec![0u64; launcher.arguments().len()];
    for inputs in [&b, &a] {
        assert!(launcher.launch(inputs) >= sites.len());
        baseline::stores(&mut theirs, &sites, inputs);
        assert!(launcher.arguments() == theirs, "both sides store the same");
    }
    let (mut i, mut j) = (0, 0);
    let r = ratio(
        || {
            i ^= 1;
            launcher.launch(if i == 0 { &b } else { &a });
        },
        || {
            j ^= 1;
            baseline::stores_unchecked(&mut theirs, &sites, if j == 0 { &b } else { &a });
        },
    );
    launcher.launch(&a);
    baseline::stores(&mut theirs, &sites, &a);
    assert!(launcher.arguments() == theirs, "they still store the same");
    goals.at_most(line, r.median, limit);
    let text = format!("{:.0} ns a launch, bare loop {:.0} ns; {r}", r.a_ns, r.b_ns);
    goals.note(line, &text);
}

fn unchanged<D: Driver>(
    goals: &mut Goals,
    graph: &str,
    name: &str,
    made: impl Fn(u32) -> Launcher<D>,
) {
    let ratio_line = format!("P3 {graph} N=1000 {name} unchanged/all");
    let one_line = format!("P3 {graph} N=1000 {name}, one input changed/all");
    let marginal_line = format!("P3 {graph} {name} unchanged, marginal ns per kernel");
    if ![&ratio_line, &one_line, &marginal_line]
        .iter()
        .any(|line| goals.wants(line))
    {
        return;
    }
    let (mut ns, mut text) = (Vec::new(), String::new());
    for n in [10, 1000] {
        let (mut idle, mut busy) = (made(n), made(n));
        let [a, b] = idle.two_inputs();
        idle.launch(&b);
        let own = idle.launch(&b);
        let mut i = 0;
        let mut all = || {
            i ^= 1;
            busy.launch(if i == 0 { &a } else { &b });
        };
        let r = ratio(
            || {
                idle.launch(&b);
            },
            &mut all,
        );
        ns.push(r.a_ns);
        if n < 1000 {
            continue;
        }
        text = format!("; unchanged/all {r}, {own} sites of the timeline stored");
        // Looking at 2,000 inputs is a part of it where each has its own: there the time per kernel is the goal.
        if name == "shared" {
            goals.at_most(&ratio_line, r.median, 0.05);
            continue;
        }
        let mut value = 0x7f00_0000_0000;
        let r = ratio(
            || {
                value ^= 64;
                assert_eq!(idle.launch_one(7, value), own + 1);
            },
            &mut all,
        );
        goals.at_most(&one_line, r.median, 0.05);
        let what = format!(
            "{:.1} ns with one input, {:.1} ns with all; {r}",
            r.a_ns, r.b_ns
        );
        goals.note(&one_line, &what);
    }
    let [few, many] = ns[..] else { return };
    // What each kernel adds: between 10 and 1000 of them.
    goals.at_most(&marginal_line, (many - few) / 990.0, 0.5);
    goals.note(
        &marginal_line,
        &format!("{few:.1} ns with 10 kernels, {many:.1} ns with 1000{text}"),
    );
}

/// Planning, measuring, recording, the patch table, and binding: with all memory there.
fn build<D: Driver>(goals: &mut Goals, graph: &str, name: &str, made: impl Fn(u32) -> Builder<D>) {
    let each = format!("P7 {graph} N=1000 {name} build, ns per kernel");
    let growth = format!("P7 {graph} {name} build, t(1000)/t(100)");
    if !goals.wants(&each) && !goals.wants(&growth) {
        return;
    }
    let (mut small, mut large) = (made(100), made(1000));
    let [mut few, mut many] = [Vec::new(), Vec::new()];
    let mut ratios = Vec::new();
    for _ in 0..60 {
        // A B B A; ten small ones take about as long as a large one.
        let (a, b) = (large.time(1), small.time(10));
        let (c, d) = (small.time(10), large.time(1));
        ratios.push((a + d) / (b + c));
        few.push((b + c) / 2.0);
        many.push((a + d) / 2.0);
    }
    let median = |v: &mut Vec<f64>| {
        v.sort_by(f64::total_cmp);
        v[v.len() / 2]
    };
    let (few, many) = (median(&mut few), median(&mut many));
    goals.at_most(&each, many / 1000.0, 1000.0);
    goals.at_most(&growth, median(&mut ratios), 12.0);
    let us = |ns: f64| ns / 1000.0;
    goals.note(
        &growth,
        &format!("{:.0} us with 1000, {:.1} us with 100", us(many), us(few)),
    );
}

fn memory<D: Driver + Default>(goals: &mut Goals, graph: &str, name: &str, shared: bool) {
    let made = |n, at| Builder::new(D::default(), n, shared, at).launcher();
    let bytes = format!("P8 {graph} N=1000 {name} table bytes per pointer");
    if goals.wants(&bytes) {
        // What the second half adds. Where it goes is known, so that every site is a pointer's.
        let of = |n, at| made(n, at).table_bytes();
        let [half, all] = [500, 1000].map(|n| of(n, At::Known));
        goals.at_most(&bytes, (all - half) as f64 / 1000.0, 8.0);
        let mut text = format!("{all} bytes for 2000 pointers");
        if D::PLACES.contains(&At::Anywhere) {
            let all = of(1000, At::Anywhere);
            text += &format!(
                "; {all} and as many addresses of blocks as kernels where it can go anywhere"
            );
        }
        goals.note(&bytes, &text);
    }
    let allocations = format!("P8 {graph} N=100 {name} allocations of 100 launches");
    if goals.wants(&allocations) {
        let mut launcher = made(100, At::Known);
        let [a, b] = launcher.two_inputs();
        let before = alloc::count();
        for _ in 0..50 {
            launcher.launch(&a);
            launcher.launch(&b);
        }
        let count = alloc::count() - before;
        goals.at_most(&allocations, count as f64, 0.0);
    }
}
