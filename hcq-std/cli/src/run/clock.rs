//! The host's clock against the device's.

use std::time::Instant;

use super::context::{Context, device_failure};
use crate::failure::Result;

/// How often the two are compared; the closest pair counts.
const TRIES: usize = 8;

/// One moment on both clocks.
pub(super) struct Clock {
    host: Instant,
    device_ns: u64,
}

impl Clock {
    /// Lets the device note its time, several times, and believes the note that the host can place best.
    pub(super) fn measure(context: &Context<'_>) -> Result<Self> {
        let failed = |e: hcq_std::Error| device_failure(&e);
        let signal = context.device.signal().map_err(failed)?;
        let queue = context.device.compute_queue(0).map_err(failed)?;
        let mut best = None;
        for _ in 0..TRIES {
            let before = Instant::now();
            let mut commands = queue.record();
            let point = commands.timestamp(&signal).and_then(|c| c.submit()).map_err(failed)?;
            context.wait(&point, || 0)?;
            let window = before.elapsed();
            if best.as_ref().is_none_or(|&(narrowest, _)| window < narrowest) {
                best = Some((window, Self { host: before + window / 2, device_ns: signal.timestamp() }));
            }
        }
        Ok(best.map_or_else(|| Self { host: Instant::now(), device_ns: 0 }, |b| b.1))
    }

    /// The device's time at a moment of the host.
    pub(super) fn device_ns(&self, at: Instant) -> u64 {
        let ahead = at.saturating_duration_since(self.host).as_nanos() as u64;
        let behind = self.host.saturating_duration_since(at).as_nanos() as u64;
        self.device_ns.wrapping_add(ahead).saturating_sub(behind)
    }
}
