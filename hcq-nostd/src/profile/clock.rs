//! A device's clock by the host's.

use super::TickRate;
use crate::sort;

/// Both clocks, looked at together: the host's, the device's, the host's again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ClockSample {
    /// Nanoseconds of the host before.
    pub before_ns: u64,
    /// The device's ticks.
    pub ticks: u64,
    /// Nanoseconds of the host after.
    pub after_ns: u64,
}

/// Where a device's clock stands by the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct ClockMap {
    rate: TickRate,
    ticks: u64,
    host_ns: u64,
    error_ns: u64,
}

impl TickRate {
    /// The rate at which a device's clock ran between two calibrations, by the host's. `None` if no time has passed.
    ///
    /// Nominal rates are off by some parts per million: by a microsecond within a second.
    pub fn between(first: &ClockMap, last: &ClockMap) -> Option<Self> {
        let ticks = u128::from(last.ticks.checked_sub(first.ticks)?);
        let ns = u128::from(last.host_ns.checked_sub(first.host_ns)?);
        let hz = ticks.checked_mul(1_000_000_000)?.checked_div(ns)?;
        let hz = u64::try_from(hz).ok().filter(|hz| *hz > 0)?;
        Some(Self { hz })
    }
}

impl ClockMap {
    /// The clock that most samples agree on: the median of where each puts it, which a sample that was held up does not
    /// move. Sorts the samples. Those whose host clock went back are left out; `None` if there are no others.
    ///
    /// The [error](Self::error_ns) is a bound if all samples agree with each other: every one says that the device was
    /// looked at between its two times. If they do not, because the rate is not quite the clock's, it is the spread of the
    /// middle half and half the width of the median sample.
    ///
    /// ```
    /// use hcq_nostd::profile::{ClockMap, ClockSample, TickRate};
    /// let sample = |before_ns, ticks, after_ns| ClockSample { before_ns, ticks, after_ns };
    /// let mut samples = [sample(1000, 50, 1020), sample(2000, 150, 2020), sample(3000, 250, 3900)];
    /// let clock = ClockMap::calibrate(&mut samples, TickRate { hz: 100_000_000 }).unwrap();
    /// assert_eq!((clock.host_ns(350), clock.error_ns()), (4010, 10));
    /// ```
    pub fn calibrate(samples: &mut [ClockSample], rate: TickRate) -> Option<Self> {
        // Bad ones to the end.
        sort::in_place(samples, |s| s.after_ns < s.before_ns);
        let good = samples.iter().take_while(|s| s.after_ns >= s.before_ns);
        let n = good.count();
        let samples = samples.get_mut(..n)?;
        let reference = samples.first().copied()?;
        let offset = |s: &ClockSample| offset(s, &reference, rate);
        sort::in_place(samples, |s| offset(s).0);
        let at = |numerator: usize| {
            let index = n.saturating_sub(1).saturating_mul(numerator) / 4;
            samples.get(index)
        };
        let (lower, median, upper) = (at(1)?, at(2)?, at(3)?);
        let (middle, half) = offset(median);
        let spread = |s| offset(s).0.abs_diff(middle);
        let spread = u128::from(half) + spread(lower).max(spread(upper));
        // Where all samples together allow it to be.
        let from = samples
            .iter()
            .map(|s| offset(s).0 - i128::from(offset(s).1));
        let to = samples
            .iter()
            .map(|s| offset(s).0 + i128::from(offset(s).1));
        let (from, to) = (from.max()?, to.min()?);
        let (middle, error) = if from <= to {
            // `clamp` can panic, for all that the compiler knows.
            let middle = middle.max(from).min(to);
            (middle, (middle - from).max(to - middle).unsigned_abs())
        } else {
            (middle, spread)
        };
        let host = i128::from(reference.before_ns) + middle;
        Some(Self {
            rate,
            ticks: reference.ticks,
            host_ns: u64::try_from(host.max(0)).unwrap_or(u64::MAX),
            error_ns: u64::try_from(error).unwrap_or(u64::MAX),
        })
    }

    /// The host's time at a tick, in nanoseconds.
    pub const fn host_ns(&self, ticks: u64) -> u64 {
        if ticks >= self.ticks {
            let since = self.rate.to_ns(ticks - self.ticks);
            self.host_ns.saturating_add(since)
        } else {
            let before = self.rate.to_ns(self.ticks - ticks);
            self.host_ns.saturating_sub(before)
        }
    }

    /// How far off it may be at the time of the calibration, in nanoseconds.
    pub const fn error_ns(&self) -> u64 {
        self.error_ns
    }

    /// The rate.
    pub const fn rate(&self) -> TickRate {
        self.rate
    }

    /// The same clock at another rate, such as a [measured](TickRate::between) one.
    #[must_use]
    pub const fn at_rate(self, rate: TickRate) -> Self {
        Self { rate, ..self }
    }
}

/// Where a sample puts the reference's tick, in nanoseconds from the reference's first look at the host's clock, and how
/// far off that may be.
fn offset(s: &ClockSample, reference: &ClockSample, rate: TickRate) -> (i128, u64) {
    let half = (s.after_ns - s.before_ns).div_ceil(2);
    let middle = i128::from(s.before_ns) + i128::from(half) - i128::from(reference.before_ns);
    let ticks = if s.ticks >= reference.ticks {
        i128::from(rate.to_ns(s.ticks - reference.ticks))
    } else {
        -i128::from(rate.to_ns(reference.ticks - s.ticks))
    };
    (middle - ticks, half)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;
    use std::vec::Vec;

    /// Samples of a clock that is `offset` nanoseconds behind, some of them held up before or after the device's look.
    fn samples(rng: &mut Rng, n: u64, offset: u64, ns_per_tick: u64) -> Vec<ClockSample> {
        (1..=n)
            .map(|i| {
                let late = if rng.one_in(4) { 100_000 } else { 10 };
                let at = i * 1000 * ns_per_tick;
                ClockSample {
                    before_ns: offset + at - 40 - rng.below(late).min(offset),
                    ticks: at / ns_per_tick,
                    after_ns: offset + at + 40 + rng.below(late),
                }
            })
            .collect()
    }

    #[test]
    fn the_error_holds_and_outliers_do_not_move_it() {
        for seed in 0..200 {
            let mut rng = Rng(seed);
            let offset = 1_000_000 + rng.below(1 << 40);
            let mut all = samples(&mut rng, 1 + seed, offset, 10);
            let rate = TickRate { hz: 100_000_000 };
            let clock = ClockMap::calibrate(&mut all, rate).unwrap();
            let ticks = 12_345;
            let off = clock.host_ns(ticks).abs_diff(offset + ticks * 10);
            assert!(
                off <= clock.error_ns(),
                "seed {seed}: {off} of {}",
                clock.error_ns()
            );
            if seed > 20 {
                assert!(clock.error_ns() < 60, "seed {seed}: {}", clock.error_ns());
            }
        }
    }

    #[test]
    fn a_rate_that_is_off_is_measured() {
        let mut rng = Rng(1);
        // Nominally 100 MHz, in truth 10.001 ns a tick.
        let rate = TickRate { hz: 100_000_000 };
        let mut at = |tick: u64| {
            let mut all: Vec<_> = (0..33)
                .map(|i| {
                    let ticks = tick + i * 100;
                    let ns = 5_000_000 + ticks * 10 + ticks / 1000;
                    ClockSample {
                        before_ns: ns - 20 - rng.below(9),
                        ticks,
                        after_ns: ns + 20 + rng.below(9),
                    }
                })
                .collect();
            ClockMap::calibrate(&mut all, rate).unwrap()
        };
        let (first, last) = (at(1_000_000), at(101_000_000));
        let measured = TickRate::between(&first, &last).unwrap();
        assert!(measured.hz.abs_diff(99_990_001) < 200, "{measured:?}");
        let truth = 5_000_000 + 51_000_000 * 10 + 51_000;
        assert!(first.host_ns(51_000_000).abs_diff(truth) > 40_000);
        assert!(first.at_rate(measured).host_ns(51_000_000).abs_diff(truth) < 200);
        assert_eq!(TickRate::between(&first, &first), None);
        assert_eq!(TickRate::between(&last, &first), None);
    }

    #[test]
    fn no_sample_no_clock_and_no_number_panics() {
        let rate = TickRate { hz: 0 };
        assert_eq!(ClockMap::calibrate(&mut [], rate), None);
        let back = ClockSample {
            before_ns: 9,
            ticks: 1,
            after_ns: 8,
        };
        assert_eq!(ClockMap::calibrate(&mut [back; 3], rate), None);
        let mut rng = Rng(3);
        let any = [0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX];
        for _ in 0..crate::testing::rounds(20_000) {
            let mut of = || any[rng.below(5) as usize];
            let mut all: Vec<_> = (0..5)
                .map(|_| ClockSample {
                    before_ns: of(),
                    ticks: of(),
                    after_ns: of(),
                })
                .collect();
            let hz = of();
            if let Some(clock) = ClockMap::calibrate(&mut all, TickRate { hz }) {
                let _ = (clock.host_ns(0), clock.host_ns(u64::MAX));
                let _ = TickRate::between(&clock, &clock);
            }
        }
    }
}
