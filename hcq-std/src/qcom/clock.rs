//! The GPU's clock, a crystal, as times of the host's.

use std::sync::{Arc, Mutex};

use hcq_qcom::chips::TIMESTAMP_HZ;

use super::driver::{Clocks, Driver};
use crate::clock::{Calibration, RATE_BITS, Told};
use crate::heap::lock;

/// Marks a time that a copy queue wrote: the host's clock, in nanoseconds. The GPU's counter takes 15000 years to get there.
pub(super) const HOST_TIME: u64 = 1 << 63;
/// How far two ways of reading the GPU's clock may be apart to be of the same clock: 50 ms.
const SAME: u64 = TIMESTAMP_HZ as u64 / 20;

/// Nanoseconds of a tick.
const RATE: u64 = ((1_000_000_000u128 << RATE_BITS) / TIMESTAMP_HZ as u128) as u64;

const fn line(clocks: &Clocks) -> Calibration {
    Calibration {
        ticks: clocks.ticks,
        ns: clocks.ns,
        rate: RATE,
    }
}

/// A tick, by which a time is rounded, in nanoseconds.
const TICK_NS: u64 = 1_000_000_000u64.div_ceil(TIMESTAMP_HZ as u64);

/// What may be added to an error in so much time: crystals are this much off what is written on them at most, and so is the
/// host's clock while it is slewed (`NTP_MAXFREQ`, 500 parts of a million, the larger of both).
const fn drift_ns(since: u64) -> u64 {
    since / 2000
}

/// Measurements so far.
#[derive(Clone, Copy, Debug)]
struct Track {
    told: Told,
    /// The last one.
    last: Clocks,
    /// How far times may be off that were told of ticks up to the last one.
    error_ns: u64,
}

impl Track {
    const fn new(first: Clocks) -> Self {
        Self {
            told: Told::new(line(&first)),
            last: first,
            error_ns: first.error_ns.saturating_add(2 * TICK_NS),
        }
    }

    /// With one more. A line never starts before the last one's end.
    fn next(self, now: Clocks) -> Self {
        let line = line(&now);
        let before = self.told.system_ns(line.ticks);
        let ahead = before.saturating_sub(line.ns);
        let since = now.ns.saturating_sub(self.last.ns);
        let error_ns = now
            .error_ns
            .saturating_add(ahead + drift_ns(since) + 2 * TICK_NS);
        Self {
            told: self.told.next(Calibration {
                ns: line.ns.max(before),
                ..line
            }),
            last: now,
            error_ns: self.error_ns.max(error_ns),
        }
    }
}

/// What times of the GPU are told by.
#[derive(Debug)]
pub(super) struct Clock {
    driver: Arc<dyn Driver>,
    /// Whether the driver reads the counter that timestamps are of.
    reads: bool,
    track: Mutex<Track>,
}

impl Clock {
    /// A clock that was measured by a timestamp that the GPU wrote.
    pub(super) fn new(driver: &Arc<dyn Driver>, measured: Clocks) -> Self {
        let read = driver.clocks();
        // Kernels read a timer that some chips do not have timestamps of.
        let reads = read.is_some_and(|read| {
            let since = read.ns.saturating_sub(measured.ns);
            let ticks = u128::from(since) * u128::from(TIMESTAMP_HZ) / 1_000_000_000;
            let expected = measured.ticks.saturating_add(ticks as u64);
            read.ticks.abs_diff(expected) < SAME
        });
        let first = read.filter(|_| reads).unwrap_or(measured);
        Self {
            driver: Arc::clone(driver),
            reads,
            track: Mutex::new(Track::new(first)),
        }
    }

    /// A time as a queue wrote it, in nanoseconds of the host's clock.
    pub(super) fn system_ns(&self, raw: u64) -> u64 {
        if raw & HOST_TIME != 0 {
            return raw & !HOST_TIME;
        }
        let mut track = lock(&self.track);
        if self.reads
            && !track.told.covers(raw)
            && let Some(now) = self.driver.clocks()
        {
            *track = track.next(now);
        }
        track.told.system_ns(raw)
    }

    /// Nanoseconds by which times may be off that were told.
    pub(super) fn error_ns(&self) -> u64 {
        let track = *lock(&self.track);
        if self.reads {
            return track.error_ns;
        }
        let since = self.driver.system().now_ns().saturating_sub(track.last.ns);
        track.error_ns.saturating_add(drift_ns(since))
    }
}
