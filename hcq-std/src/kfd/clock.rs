//! The GPU's clock and the host's.

use hcq_uapi::kfd::kfd_ioctl_get_clock_counters_args;

use super::call::call;
use super::{Gpu, advice};
use crate::Error;
use crate::clock::{Calibration, Clocks, Track};
use crate::heap::lock;

/// The reference clock of all chips known here is 100 MHz.
const TICK_NS: u32 = 10;

impl Gpu {
    /// Reads both clocks: the narrowest of a few tries.
    pub(crate) fn clock_counters(&self) -> Result<Clocks, Error> {
        let process = self.process();
        let system = &**process.system();
        let mut best: Option<Clocks> = None;
        for _ in 0..4 {
            let mut argument = kfd_ioctl_get_clock_counters_args {
                gpu_id: self.node().gpu_id,
                ..Default::default()
            };
            let before = system.now_ns();
            call(system, process.file(), &mut argument).map_err(|errno| {
                self.failed("GET_CLOCK_COUNTERS", errno, advice::lost(errno).into())
            })?;
            let width_ns = system.now_ns().saturating_sub(before);
            let clocks = Clocks {
                gpu_ticks: argument.gpu_clock_counter,
                system_ns: before.saturating_add(width_ns / 2),
                width_ns,
            };
            if best.is_none_or(|best| width_ns < best.width_ns) {
                best = Some(clocks);
            }
        }
        best.ok_or(Error::Internal("a clock was never read"))
    }

    /// The line as measured by now. The longer the GPU is open, the better the rate.
    pub(crate) fn calibrate(&self) -> Result<Calibration, Error> {
        let now = self.clock_counters()?;
        let mut track = lock(self.track());
        let track = track.get_or_insert(Track::new(now, TICK_NS));
        track.add(now);
        Ok(track.line())
    }

    /// Nanoseconds by which times may be off that were told of ticks since the first measurement; 0 before it.
    pub(crate) fn clock_error_ns(&self) -> u64 {
        lock(self.track()).map_or(0, |track| track.error_ns())
    }
}
