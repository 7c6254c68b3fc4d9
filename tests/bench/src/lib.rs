//! Measuring: ratios of two things interleaved in one run, the C baselines, and the goals' lines.
//!
//! A time alone means little on a shared machine, which changes its speed from one moment to the next. [`ratio`] runs
//! short slices of A and B in the order A B B A, hundreds of times, and gives the median of the pairs' ratios.
//! Instruction counts (bench `instructions`) repeat.
#![allow(unsafe_code, reason = "calls the baselines, which are C")]

pub mod baseline;
pub mod goal;
pub mod patch;
pub mod queue;
pub mod submit;

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
}

/// Longest slice of one side.
const SLICE: Duration = Duration::from_micros(50);
/// Number of A B B A rounds.
const ROUNDS: usize = 400;
/// Time after which fewer rounds have to do, for things that take longer than a slice.
const LIMIT: Duration = Duration::from_secs(8);

/// Measures `a` against `b`. Both must do the same work; make sure before.
pub fn ratio(a: impl FnMut(), b: impl FnMut()) -> Ratio {
    measure(a, b, Duration::ZERO)
}

/// Measures two things that have worker threads of their own, which spin for a while when they have nothing to do: before
/// each slice the other side's worker is given the time to fall asleep, and this side's is woken.
pub fn ratio_of_workers(a: impl FnMut(), b: impl FnMut()) -> Ratio {
    measure(a, b, SPIN * 3)
}

/// How long a worker spins that is measured by [`ratio_of_workers`].
pub const SPIN: Duration = Duration::from_micros(200);

fn measure(mut a: impl FnMut(), mut b: impl FnMut(), pause: Duration) -> Ratio {
    let calls = calls_per_slice(&mut a).min(calls_per_slice(&mut b));
    let slice = |f: &mut dyn FnMut()| {
        if !pause.is_zero() {
            std::thread::sleep(pause);
            f();
        }
        let start = Instant::now();
        for _ in 0..calls {
            f();
        }
        start.elapsed().as_nanos() as f64 / f64::from(calls)
    };
    let (mut ratios, mut a_ns, mut b_ns) = (Vec::new(), Vec::new(), Vec::new());
    let start = Instant::now();
    while ratios.len() < ROUNDS && (start.elapsed() < LIMIT || ratios.len() < 15) {
        let (a1, b1) = (slice(&mut a), slice(&mut b));
        let (b2, a2) = (slice(&mut b), slice(&mut a));
        ratios.push((a1 + a2) / (b1 + b2));
        a_ns.push((a1 + a2) / 2.0);
        b_ns.push((b1 + b2) / 2.0);
    }
    let at = |v: &mut Vec<f64>, q: f64| {
        v.sort_by(f64::total_cmp);
        v[((v.len() - 1) as f64 * q) as usize]
    };
    Ratio {
        median: at(&mut ratios, 0.5),
        p10: at(&mut ratios, 0.1),
        p90: at(&mut ratios, 0.9),
        a_ns: at(&mut a_ns, 0.5),
        b_ns: at(&mut b_ns, 0.5),
    }
}

fn calls_per_slice(f: &mut impl FnMut()) -> u32 {
    let mut calls = 1u32;
    loop {
        let start = Instant::now();
        for _ in 0..calls {
            f();
        }
        let took = start.elapsed();
        if took >= SLICE / 2 || calls >= 1 << 20 {
            return calls.max(1);
        }
        calls *= 2;
    }
}
