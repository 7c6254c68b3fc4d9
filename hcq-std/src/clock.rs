//! Clocks of GPUs as times of the host's clock.

/// A line through measurements of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Calibration {
    /// Of the GPU's clock, where it was measured.
    pub(crate) ticks: u64,
    /// Of the host's clock, there.
    pub(crate) ns: u64,
    /// Nanoseconds of one tick, times 2^[`RATE_BITS`].
    pub(crate) rate: u64,
}

/// Bits behind the point of a [`Calibration`]'s rate.
pub(crate) const RATE_BITS: u32 = 32;

impl Calibration {
    /// The nanoseconds of the system's clock at which the GPU's clock was `ticks`. Later ticks are never earlier times.
    pub(crate) fn system_ns(&self, ticks: u64) -> u64 {
        let span = |ticks: u64| {
            let ns = (u128::from(ticks) * u128::from(self.rate)) >> RATE_BITS;
            u64::try_from(ns).unwrap_or(u64::MAX)
        };
        match ticks.checked_sub(self.ticks) {
            Some(after) => self.ns.saturating_add(span(after)),
            // Rounded down on both sides, so that the order stays.
            None => {
                let before = self.ticks - ticks;
                let ns = (u128::from(before) * u128::from(self.rate)).div_ceil(1 << RATE_BITS);
                self.ns
                    .saturating_sub(u64::try_from(ns).unwrap_or(u64::MAX))
            }
        }
    }
}

/// Times as they are told, over any number of measurements: a later tick never gets an earlier time.
///
/// Ticks up to a measurement keep the line that it made: a better one would move them, some before and some after others
/// that were told already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// For ticks up to where it was measured.
    older: Option<Calibration>,
    line: Calibration,
}

impl Told {
    pub(crate) const fn new(line: Calibration) -> Self {
        Self { older: None, line }
    }

    /// Whether a tick lies before the last measurement, so that there is nothing to measure for it.
    pub(crate) const fn covers(&self, ticks: u64) -> bool {
        ticks <= self.line.ticks
    }

    /// With one more measurement.
    pub(crate) fn next(self, line: Calibration) -> Self {
        // One that is no newer says nothing new.
        if self.covers(line.ticks) {
            return self;
        }
        Self {
            older: Some(self.line),
            line,
        }
    }

    /// The nanoseconds of the system's clock at which the GPU's clock was `ticks`.
    pub(crate) fn system_ns(&self, ticks: u64) -> u64 {
        match self.older {
            Some(older) if ticks <= older.ticks => older.system_ns(ticks),
            // Back from its measurement the new line may pass below where the old one ended.
            Some(older) => self.line.system_ns(ticks).max(older.ns),
            None => self.line.system_ns(ticks),
        }
    }
}

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clocks {
    /// The GPU's, in ticks.
    pub(crate) gpu_ticks: u64,
    /// [`System::now_ns`](crate::seam::System::now_ns), halfway through the call.
    pub(crate) system_ns: u64,
    /// Nanoseconds that the call took: the error is at most half of it.
    pub(crate) width_ns: u64,
}

/// Measurements nearer than this say less of the rate than is known already: the error of one is about a microsecond.
const BASELINE_NS: u64 = 10_000_000;
/// Crystals are this much off what is written on them at most, in parts of a million; so is the host's clock while it is slewed
/// (`NTP_MAXFREQ`, the larger of both).
const OFF_PPM: u64 = 500;

impl Clocks {
    /// How far it may be off, by a clock with ticks of so many nanoseconds.
    const fn error_ns(&self, tick_ns: u64) -> u64 {
        self.width_ns.div_ceil(2).saturating_add(tick_ns)
    }
}

const fn line(at: &Clocks, rate: u64) -> Calibration {
    Calibration {
        ticks: at.gpu_ticks,
        ns: at.system_ns,
        rate,
    }
}

/// What a GPU's measurements have come to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Track {
    /// Nanoseconds of a tick, as it is written on the crystal.
    tick_ns: u32,
    first: Clocks,
    line: Calibration,
    /// The last measurement.
    last: Clocks,
    /// How far times may be off that any line so far has told, of ticks from the first measurement to the line's own.
    error_ns: u64,
}

impl Track {
    /// `tick_ns` is what a tick is taken for until it was measured.
    pub(crate) const fn new(first: Clocks, tick_ns: u32) -> Self {
        Self {
            tick_ns,
            first,
            line: line(&first, (tick_ns as u64) << RATE_BITS),
            last: first,
            error_ns: first.error_ns(tick_ns as u64),
        }
    }

    /// The line as measured by now.
    pub(crate) const fn line(&self) -> Calibration {
        self.line
    }

    /// Nanoseconds by which times may be off that were told of ticks since the first measurement.
    pub(crate) const fn error_ns(&self) -> u64 {
        self.error_ns
    }

    /// How far the line through a measurement, going on from `told`, may be off between the last measurement and this one.
    fn error(&self, now: &Clocks, measured: bool, told: u64) -> u64 {
        let tick_ns = u64::from(self.tick_ns);
        let since = now.system_ns.saturating_sub(self.last.system_ns);
        // Of the rate: it was measured over a longer time than it is used for, or it is what is written on the crystal. That it
        // changes meanwhile is not reckoned with.
        let rate = if measured {
            self.first
                .error_ns(tick_ns)
                .saturating_add(now.error_ns(tick_ns))
        } else {
            since.saturating_mul(OFF_PPM) / 1_000_000
        };
        let ahead = told.saturating_sub(now.system_ns);
        let offset = now.error_ns(tick_ns).saturating_add(ahead);
        // Where the last line ended the new one may not pass below.
        offset.saturating_add(rate).saturating_add(tick_ns)
    }

    /// Takes one more measurement. The line goes through it, unless the last line was ahead: then it goes on from there, so
    /// that a tick measured later is never told an earlier time than one told before.
    pub(crate) fn add(&mut self, now: Clocks) {
        // The first again says nothing new.
        if self.first == now {
            return;
        }
        let ns = now.system_ns.saturating_sub(self.first.system_ns);
        let ticks = now.gpu_ticks.saturating_sub(self.first.gpu_ticks);
        let mut rate = self.line.rate;
        let measured = ns >= BASELINE_NS && ticks > 0;
        if measured {
            let measured = (u128::from(ns) << RATE_BITS) / u128::from(ticks);
            rate = u64::try_from(measured).unwrap_or(rate).max(1);
        }
        let told = self.line.system_ns(now.gpu_ticks);
        self.error_ns = self.error_ns.max(self.error(&now, measured, told));
        self.last = now;
        self.line = Calibration {
            ns: now.system_ns.max(told),
            ..line(&now, rate)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOMINAL: u64 = 10 << RATE_BITS;

    #[test]
    fn a_measurement_moves_nothing_that_was_told() {
        let slow = Calibration {
            ticks: 1000,
            ns: 10_000,
            rate: NOMINAL,
        };
        // A steep line: at tick 1001 it is below what the first one says at 1000.
        let steep = Calibration {
            ticks: 2000,
            ns: 20_000,
            rate: 2 * NOMINAL,
        };
        let told = Told::new(slow);
        let before: Vec<u64> = (0..=1000).map(|t| told.system_ns(t)).collect();
        let told = told.next(steep);
        let after: Vec<u64> = (0..=3000).map(|t| told.system_ns(t)).collect();
        assert_eq!(after[..=1000], before);
        assert!(steep.system_ns(1001) < slow.system_ns(1000) && after.is_sorted());
        // No newer one takes its place.
        assert_eq!(told.next(slow).system_ns(3000), after[3000]);
    }

    fn at(gpu_ticks: u64, system_ns: u64) -> Clocks {
        Clocks {
            gpu_ticks,
            system_ns,
            width_ns: 0,
        }
    }

    #[test]
    fn a_line_goes_both_ways_and_keeps_the_order() {
        let track = Track::new(at(1000, 50_000), 10);
        let line = track.line;
        assert_eq!(line.system_ns(1000), 50_000);
        assert_eq!(line.system_ns(1001), 50_010);
        assert_eq!(line.system_ns(999), 49_990);
        assert_eq!(line.system_ns(0), 40_000);
        assert_eq!(line.system_ns(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_rate_is_measured_once_the_baseline_is_long() {
        let mut track = Track::new(at(0, 0), 10);
        // Too near: the rate stays.
        track.add(at(100, 2000));
        assert_eq!(track.line.rate, NOMINAL);
        // 100 MHz that is 50 ppm slow, over one second.
        track.add(at(99_995_000, 1_000_000_000));
        let ns = track.line.system_ns(99_995_000 * 2);
        assert!(ns.abs_diff(2_000_000_000) < 10, "{ns}");
    }

    #[test]
    fn measurements_never_turn_time_back() {
        let mut track = Track::new(at(0, 0), 10);
        let (mut last, mut tick, mut ns) = (0, 0, 0);
        let mut random = 12345u64;
        for _ in 0..2000 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            tick += 1_000_000 + (random >> 40) % 1000;
            // Errors of up to a microsecond, at times.
            ns = tick * 10 + (random >> 20) % 1000;
            let told = track.line.system_ns(tick - 1);
            assert!(told >= last);
            track.add(at(tick, ns));
            last = track.line.system_ns(tick);
            assert!(last >= told);
        }
        assert!(last.abs_diff(ns) < 5000, "{last} and {ns}");
    }

    /// Ticks told in order, some long after they were written, with measurements between that change the rate.
    #[test]
    fn what_is_told_later_of_a_later_tick_is_no_earlier() {
        let mut random = 777u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            (random >> 33) % below
        };
        let mut track = Track::new(at(0, 0), 10);
        let mut told = Told::new(track.line);
        let (mut written, mut last, mut measured) = (0, 0, 0u64);
        for _ in 0..20_000 {
            written += next(2000);
            if !told.covers(written) {
                // Measured a while later, with an error.
                measured = measured.max(written) + 1 + next(500_000);
                track.add(at(measured, measured * 10 + next(4000)));
                told = told.next(track.line);
            }
            let now = told.system_ns(written);
            assert!(now >= last, "tick {written}: {now} after {last}");
            last = now;
        }
        assert!(last.abs_diff(written * 10) < 20_000, "{last} of {written}");
    }

    /// Ticks of a clock whose rate and whose measurements are wrong by as much as is said, told whenever.
    #[test]
    fn the_error_is_what_is_said() {
        let mut random = 4242u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
            (random >> 33) % below
        };
        for ppm in [-400i64, -100, 0, 3, 400] {
            // What the system's clock says at a tick.
            let truth = |tick: u64| {
                let ns = i128::from(tick) * (10_000_000 + 10 * i128::from(ppm)) / 1_000_000;
                u64::try_from(ns).expect("small") + 1_000_000
            };
            let measure = |tick: u64, next: &mut dyn FnMut(u64) -> u64| {
                let width_ns = 200 + next(3000);
                let off = next(width_ns) as i64 - (width_ns / 2) as i64;
                Clocks {
                    gpu_ticks: tick,
                    system_ns: truth(tick).saturating_add_signed(off),
                    width_ns,
                }
            };
            let mut track = Track::new(measure(0, &mut next), 10);
            let mut told = Told::new(track.line);
            let (mut written, mut measured) = (0, 0u64);
            for round in 0..3000 {
                let (steps, late) = if round % 100 == 0 {
                    (9_000_000, 5_000_000)
                } else {
                    (3000, 20_000)
                };
                written += next(steps);
                if !told.covers(written) {
                    measured = measured.max(written) + 1 + next(late);
                    track.add(measure(measured, &mut next));
                    told = told.next(track.line);
                }
                let (seen, right) = (told.system_ns(written), truth(written));
                assert!(
                    seen.abs_diff(right) <= track.error_ns,
                    "{ppm} ppm, round {round}: {seen} is not {right} within {}",
                    track.error_ns
                );
            }
            assert!(track.error_ns < 50_000, "{ppm}: {}", track.error_ns);
        }
    }

    #[test]
    fn clocks_that_stand_still_or_turn_back_divide_by_nothing() {
        let mut track = Track::new(at(u64::MAX, u64::MAX), 10);
        track.add(at(0, 0));
        track.add(at(u64::MAX, 0));
        track.add(at(u64::MAX, u64::MAX));
        track.line.system_ns(0);
    }
}
