//! When regions of a recording ran, by the device's clock.

use std::sync::Arc;

use crate::Error;
use crate::device::Device;
use crate::inner::Inner;
use crate::signal::Signal;

/// Start and end of something, in nanoseconds of the device's clock ([`Device::now_ns`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// Start.
    pub start_ns: u64,
    /// End.
    pub end_ns: u64,
}

impl Times {
    /// Nanoseconds in between.
    pub fn duration_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// A recorded region with a name, whose start and end the device writes.
///
/// ```
/// let device = hcq_std::Device::open("cpu")?;
/// let mut commands = device.compute_queue(0)?.record();
/// let region = commands.begin("nothing")?;
/// let point = commands.memory_barrier()?.end(&region)?.submit()?;
/// point.wait()?;
/// let times = region.times().expect("it has run");
/// assert!(times.start_ns <= times.end_ns && times.end_ns <= device.now_ns());
/// # Ok::<(), hcq_std::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Region {
    name: Arc<str>,
    start: Signal,
    end: Signal,
}

impl Region {
    pub(crate) fn new(inner: &Arc<Inner>, name: &str) -> Result<Self, Error> {
        let device = Device {
            inner: Arc::clone(inner),
        };
        Ok(Self {
            name: name.into(),
            start: device.signal()?,
            end: device.signal()?,
        })
    }

    pub(crate) fn start(&self) -> &Signal {
        &self.start
    }

    pub(crate) fn stop(&self) -> &Signal {
        &self.end
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When it ran last; `None` before its first end. Look when its submission is complete: until then the two may be of
    /// different launches.
    pub fn times(&self) -> Option<Times> {
        // The later one first: what is learnt of a device's clock for it serves the earlier one too.
        let end_ns = self.end.timestamp();
        let start_ns = self.start.timestamp();
        (start_ns != 0 && end_ns != 0).then_some(Times { start_ns, end_ns })
    }
}
