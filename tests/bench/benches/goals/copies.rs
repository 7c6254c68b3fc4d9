//! A copy of 64 MiB on a copy queue against memcpy of the same memory.

use std::cell::RefCell;

use hcq_bench::cpus::Cpus;
use hcq_bench::goal::Goals;
use hcq_bench::queue::Copies;
use hcq_bench::ratio::ratio;

const MIB: usize = 64;

pub(crate) fn print(goals: &mut Goals) {
    let line = format!("copy of {MIB} MiB / memcpy");
    if !goals.wants(&line) {
        return;
    }
    // Both sides copy between the same two buffers: the same alignment, the same pages, all of them touched.
    let new = || Copies::new((MIB << 20) / 8);
    // On the same processor, too: one waits while the other one copies.
    let cpus = Cpus::one();
    let copies = RefCell::new(match &cpus {
        Some(cpus) => cpus.with_workers(new),
        None => new(),
    });
    for by_queue in [true, false] {
        copies.borrow().spoil();
        if by_queue {
            copies.borrow().by_queue();
        } else {
            copies.borrow_mut().by_memcpy();
        }
        assert!(
            copies.borrow().is_copied(),
            "both sides write the same bytes"
        );
    }
    let r = ratio(
        || copies.borrow().by_queue(),
        || copies.borrow_mut().by_memcpy(),
    );
    goals.at_most(&line, r.median, 1.1);
    let speed = |ns: f64| (MIB << 20) as f64 / ns;
    let [a, b, a_best, b_best] = [r.a_ns, r.b_ns, r.a_best, r.b_best].map(speed);
    goals.note(
        &line,
        &format!("{a:.1} GB/s, memcpy {b:.1} GB/s, fastest {a_best:.1} and {b_best:.1} GB/s; {r}"),
    );
}
