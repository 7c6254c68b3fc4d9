//! P1, P3, P8: patch tables against the bare loop of stores, and against themselves with less that changed.

use hcq_bench::baseline::{self, Site};
use hcq_bench::goal::Goals;
use hcq_bench::patch::{Launch, one_of, sites, table};
use hcq_bench::ratio::ratio;

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

/// Two sets of inputs that have nothing in common.
fn inputs(n: usize) -> [Vec<u64>; 2] {
    let a: Vec<u64> = (0..n as u64).map(|i| 0x7f00_0000_0000 + i * 4096).collect();
    let b = a.iter().map(|v| v + 64).collect();
    [a, b]
}

pub(crate) fn print(goals: &mut Goals) {
    for (shared, name) in [(true, "shared"), (false, "distinct")] {
        for (n, limit) in [(10, 3.0), (100, 1.6), (1000, 1.3)] {
            all_changed(goals, &format!("P1 N={n} {name}"), &sites(n, shared), limit);
        }
        unchanged(goals, name, shared);
    }
    for n in [1, 1000, 100_000] {
        one_changed(goals, n);
    }
    for (shared, name) in [(true, "shared"), (false, "distinct")] {
        table_size(goals, name, shared);
    }
}

fn all_changed(goals: &mut Goals, line: &str, sites: &[Site], limit: f64) {
    if !goals.wants(line) {
        return;
    }
    if !baseline::AVAILABLE {
        return goals.skipped(line, "cc absent");
    }
    let vars = sites.iter().map(|s| s.slot as usize + 1).max().unwrap_or(0);
    let [a, b] = inputs(vars);
    let mut memory = Memory::new(sites);
    let mut theirs = vec![0u64; memory.ours.len()];
    for inputs in [&a, &b] {
        assert_eq!(memory.launch().launch(inputs), sites.len());
        baseline::stores(&mut theirs, sites, inputs);
        assert!(memory.ours == theirs, "both sides store the same bytes");
    }
    let mut launch = memory.launch();
    let (mut i, mut j) = (0, 0);
    let r = ratio(
        || {
            i ^= 1;
            launch.launch(if i == 0 { &b } else { &a });
        },
        || {
            j ^= 1;
            baseline::stores_unchecked(&mut theirs, sites, if j == 0 { &b } else { &a });
        },
    );
    launch.launch(&a);
    baseline::stores(&mut theirs, sites, &a);
    assert!(
        memory.ours == theirs,
        "both sides still store the same bytes"
    );
    goals.at_most(line, r.median, limit);
    let text = format!("{:.0} ns a launch, bare loop {:.0} ns; {r}", r.a_ns, r.b_ns);
    goals.note(line, &text);
}

fn unchanged(goals: &mut Goals, name: &str, shared: bool) {
    let ratio_line = format!("P3 N=1000 {name} unchanged/all");
    let marginal_line = format!("P3 {name} unchanged, marginal ns per kernel");
    if !goals.wants(&ratio_line) && !goals.wants(&marginal_line) {
        return;
    }
    let (mut ns, mut text) = (Vec::new(), String::new());
    for n in [10, 1000] {
        let sites = sites(n, shared);
        let vars = sites.iter().map(|s| s.slot as usize + 1).max().unwrap_or(0);
        let [a, b] = inputs(vars);
        let (mut idle, mut busy) = (Memory::new(&sites), Memory::new(&sites));
        let (mut idle, mut busy) = (idle.launch(), busy.launch());
        idle.launch(&b);
        assert_eq!(idle.launch(&b), 0, "nothing changed");
        let mut i = 0;
        let r = ratio(
            || {
                idle.launch(&b);
            },
            || {
                i ^= 1;
                busy.launch(if i == 0 { &a } else { &b });
            },
        );
        ns.push(r.a_ns);
        if n == 1000 {
            if shared {
                goals.at_most(&ratio_line, r.median, 0.05);
            } else {
                // Looking at 2,000 inputs is a part of it; the goal is on the time per kernel.
                text = format!("; unchanged/all {r}");
            }
        }
    }
    let [few, many] = ns[..] else { return };
    // What each kernel adds: between 10 and 1000 of them.
    goals.at_most(&marginal_line, (many - few) / 990.0, 0.5);
    goals.note(
        &marginal_line,
        &format!("{few:.1} ns with 10 kernels, {many:.1} ns with 1000{text}"),
    );
}

fn one_changed(goals: &mut Goals, n: u32) {
    let line = format!("P3 one of {n} sites changed / one of 1");
    if !goals.wants(&line) {
        return;
    }
    let (mut memory, mut small) = (Memory::new(&one_of(n)), Memory::new(&one_of(1)));
    let [a, _] = inputs(2);
    let (mut launch, mut small) = (memory.launch(), small.launch());
    launch.launch(&a);
    small.launch(&a);
    let (mut value, mut other) = (0u64, 0u64);
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
    goals.at_most(&line, r.median, 1.5);
    goals.note(&line, &format!("{:.1} ns, {:.1} ns; {r}", r.a_ns, r.b_ns));
}

fn table_size(goals: &mut Goals, name: &str, shared: bool) {
    let line = format!("P8 N=1000 {name} table bytes per pointer");
    // What the second half adds, so that the header, which is there once, does not count.
    let [half, all] = [500, 1000].map(|n| table(&sites(n, shared), 32_000).len() * 8);
    goals.at_most(&line, (all - half) as f64 / 1000.0, 8.0);
    goals.note(&line, &format!("{all} bytes for 2000 pointers"));
}
