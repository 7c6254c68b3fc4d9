//! A against B, interleaved in one run.

use std::fmt;
use std::time::{Duration, Instant};

/// A against B.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    /// Median of the pairs' ratios.
    pub median: f64,
    /// A tenth of the pairs were below this.
    pub p10: f64,
    /// A tenth of the pairs were above this.
    pub p90: f64,
    /// Median nanoseconds of one call of A.
    pub a_ns: f64,
    /// Median nanoseconds of one call of B.
    pub b_ns: f64,
    /// Nanoseconds of one call in A's fastest pair: what it takes while nobody else runs.
    pub a_best: f64,
    /// The same of B.
    pub b_best: f64,
    /// Number of pairs.
    pub pairs: usize,
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.3} (p10 {:.3}, p90 {:.3}, {} pairs)",
            self.median, self.p10, self.p90, self.pairs
        )
    }
}

/// Longest slice of one side.
const SLICE: Duration = Duration::from_micros(50);
/// Number of A B B A rounds.
const ROUNDS: usize = 400;
/// Fewest rounds that a ratio is made of.
const FEWEST: usize = 15;
/// Time after which fewer rounds have to do, for things that take longer than a slice.
const LIMIT: Duration = Duration::from_secs(6);

/// How long a worker spins that is measured by [`ratio_of_spinners`].
pub const SPIN: Duration = Duration::from_micros(200);
/// Time after which such a worker sleeps.
const ASLEEP: Duration = Duration::from_micros(600);

/// Measures `a` against `b`. Both must do the same work; make sure before.
pub fn ratio(mut a: impl FnMut(), mut b: impl FnMut()) -> Ratio {
    let calls = calls_per_slice(&mut a).min(calls_per_slice(&mut b));
    pairs(&mut || timed(&mut a, calls), &mut || timed(&mut b, calls))
}

/// Measures two things that have worker threads of their own, which look for work during [`SPIN`] and then sleep.
///
/// Two workers and the caller may be more than the machine has processors, so only one worker is awake at a time: before
/// each slice the other side's worker has had the time to fall asleep, and an untimed call wakes this side's.
pub fn ratio_of_spinners(mut a: impl FnMut(), mut b: impl FnMut()) -> Ratio {
    let calls = calls_per_slice(&mut a).min(calls_per_slice(&mut b));
    pairs(&mut || woken(&mut a, calls), &mut || woken(&mut b, calls))
}

/// Measures two things whose workers sleep as soon as they have nothing to do: both sleep before each call, and every call
/// wakes one.
pub fn ratio_of_sleepers(mut a: impl FnMut(), mut b: impl FnMut()) -> Ratio {
    pairs(&mut || asleep(&mut a), &mut || asleep(&mut b))
}

/// One slice of a side of [`ratio_of_spinners`]: nanoseconds of a call.
pub fn woken(f: &mut impl FnMut(), calls: u32) -> f64 {
    std::thread::sleep(ASLEEP);
    f();
    timed(f, calls)
}

fn asleep(f: &mut impl FnMut()) -> f64 {
    std::thread::sleep(ASLEEP);
    timed(f, 1)
}

fn timed(f: &mut impl FnMut(), calls: u32) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        f();
    }
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}

/// Runs the sides in the order A B B A; each runs a slice and gives the nanoseconds of its unit of work. Ends early where
/// a side gives a figure that is not a positive number.
pub fn pairs(a: &mut dyn FnMut() -> f64, b: &mut dyn FnMut() -> f64) -> Ratio {
    let (mut ratios, mut a_ns, mut b_ns) = (Vec::new(), Vec::new(), Vec::new());
    let start = Instant::now();
    while ratios.len() < ROUNDS && (start.elapsed() < LIMIT || ratios.len() < FEWEST) {
        let (a1, b1) = (a(), b());
        let (b2, a2) = (b(), a());
        if ![a1, b1, b2, a2]
            .iter()
            .all(|ns| ns.is_finite() && *ns > 0.0)
        {
            break;
        }
        ratios.push((a1 + a2) / (b1 + b2));
        a_ns.push((a1 + a2) / 2.0);
        b_ns.push((b1 + b2) / 2.0);
    }
    Ratio {
        median: quantile(&mut ratios, 0.5),
        p10: quantile(&mut ratios, 0.1),
        p90: quantile(&mut ratios, 0.9),
        a_ns: quantile(&mut a_ns, 0.5),
        b_ns: quantile(&mut b_ns, 0.5),
        a_best: quantile(&mut a_ns, 0.0),
        b_best: quantile(&mut b_ns, 0.0),
        pairs: ratios.len(),
    }
}

/// NaN of nothing.
fn quantile(v: &mut [f64], q: f64) -> f64 {
    v.sort_by(f64::total_cmp);
    let last = v.len().saturating_sub(1) as f64;
    v.get((last * q).round() as usize)
        .copied()
        .unwrap_or(f64::NAN)
}

/// How many calls fill a slice. The shortest of three attempts counts, since others may have run in between.
fn calls_per_slice(f: &mut impl FnMut()) -> u32 {
    let mut calls = 1u32;
    loop {
        let ns = (0..3)
            .map(|_| timed(f, calls) * f64::from(calls))
            .fold(f64::INFINITY, f64::min);
        if ns * 2.0 >= SLICE.as_nanos() as f64 || calls >= 1 << 20 {
            return calls;
        }
        calls *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn slices_go_a_b_b_a_and_pairs_are_summed() {
        let order = RefCell::new(String::new());
        let mut ns = [4.0, 2.0].into_iter().cycle();
        let r = pairs(
            &mut || {
                order.borrow_mut().push('a');
                ns.next().unwrap_or(0.0)
            },
            &mut || {
                order.borrow_mut().push('b');
                1.5
            },
        );
        assert_eq!(r.pairs, ROUNDS);
        assert!(order.borrow().starts_with("abbaabba"));
        assert_eq!((r.median, r.p10, r.p90), (2.0, 2.0, 2.0));
        assert_eq!((r.a_ns, r.b_ns), (3.0, 1.5));
    }

    #[test]
    fn a_side_that_ends_leaves_the_pairs_before() {
        let mut left = 5;
        let r = pairs(&mut || 1.0, &mut || {
            left -= 1;
            if left > 0 { 2.0 } else { f64::NAN }
        });
        assert_eq!((r.pairs, r.median), (2, 0.5));
        assert!(pairs(&mut || 0.0, &mut || 1.0).median.is_nan());
    }

    #[test]
    fn quantiles_of_odd_and_even_numbers_of_values() {
        assert_eq!(quantile(&mut [3.0, 1.0, 2.0], 0.5), 2.0);
        assert_eq!(quantile(&mut [4.0, 1.0, 3.0, 2.0], 0.0), 1.0);
        assert_eq!(quantile(&mut [4.0, 1.0, 3.0, 2.0], 0.9), 4.0);
        assert!(quantile(&mut [], 0.5).is_nan());
    }
}
