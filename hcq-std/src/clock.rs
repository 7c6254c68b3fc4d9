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
}
