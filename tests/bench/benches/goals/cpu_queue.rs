//! P6 against the bare command ring: the CPU device with one worker, the ring with one worker, which behave alike.

use std::time::Duration;

use hcq_bench::baseline;
use hcq_bench::cpus::Cpus;
use hcq_bench::goal::Goals;
use hcq_bench::queue::Queues;
use hcq_bench::ratio::{Ratio, SPIN, ratio_of_sleepers, ratio_of_spinners};

/// Kernels of a submission.
const KERNELS: u16 = 1000;

pub(crate) fn print(goals: &mut Goals) {
    for (spins, worker) in [(true, "spinning"), (false, "sleeping")] {
        let lines = ["bound", "recorded anew"]
            .map(|how| format!("P6 {KERNELS} tiny kernels, {worker} worker, {how} / bare ring"));
        if lines.iter().any(|line| goals.wants(line))
            && let Err(missing) = compare(goals, spins, &lines)
        {
            lines.iter().for_each(|line| goals.skipped(line, missing));
        }
    }
}

fn compare(goals: &mut Goals, spins: bool, lines: &[String; 2]) -> Result<(), &'static str> {
    let spin = if spins { SPIN } else { Duration::ZERO };
    let cpus = Cpus::two().ok_or("a second processor")?;
    let mut bare = cpus
        .with_workers(|| baseline::Queue::start(spin))
        .ok_or("cc absent")?;
    let queues = cpus.with_workers(|| Queues::new(spin));
    let mut bound = queues.bind(KERNELS);
    bare.run(KERNELS);
    queues.submit_and_wait(&mut bound);
    assert_eq!(
        queues.result(),
        bare.result(),
        "both sides computed the same"
    );
    let mut line = |line: &str, ours: &mut dyn FnMut()| {
        if !goals.wants(line) {
            return;
        }
        let bare = || bare.run(KERNELS);
        let r: Ratio = if spins {
            ratio_of_spinners(ours, bare)
        } else {
            ratio_of_sleepers(ours, bare)
        };
        goals.at_most(line, r.median, 1.5);
        let [a, b] = [r.a_ns, r.b_ns].map(|ns| ns / f64::from(KERNELS));
        goals.note(
            line,
            &format!("{a:.1} ns a kernel, bare ring {b:.1} ns; {r}"),
        );
    };
    line(&lines[0], &mut || queues.submit_and_wait(&mut bound));
    line(&lines[1], &mut || queues.run(KERNELS));
    Ok(())
}
