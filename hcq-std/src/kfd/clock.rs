//! The GPU's clock and the host's.

use super::Gpu;
use crate::Error;

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

/// A line through measurements of both clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Calibration {
    ticks: u64,
    ns: u64,
    ns_per_tick: f64,
}

impl Calibration {
    /// The nanoseconds of the system's clock at which the GPU's clock was `ticks`. Later ticks are never earlier times.
    pub(crate) fn system_ns(&self, ticks: u64) -> u64 {
        let _ = (self.ticks, self.ns_per_tick, ticks);
        self.ns
    }
}

impl Gpu {
    /// Reads both clocks.
    pub(crate) fn clock_counters(&self) -> Result<Clocks, Error> {
        Err(Error::Internal("KFD is being written"))
    }

    /// The line as measured by now. The longer the GPU is open, the better the rate.
    pub(crate) fn calibrate(&self) -> Result<Calibration, Error> {
        Err(Error::Internal("KFD is being written"))
    }
}
