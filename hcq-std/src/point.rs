//! Points: submissions by their place in the device's order.

use std::sync::Arc;
use std::time::Duration;

use hcq_nostd::timeline::Point as CorePoint;

use crate::Error;
use crate::inner::Inner;

/// A submission. When it is complete, so are all that were submitted to the device before it, on any queue.
#[derive(Clone, Debug)]
pub struct Point {
    pub(crate) inner: Arc<Inner>,
    pub(crate) point: CorePoint,
}

impl Point {
    /// Its place in the device's order, from 1.
    pub fn number(&self) -> u64 {
        self.point.raw()
    }

    /// Whether it is complete.
    ///
    /// # Errors
    /// [`Error::Fault`] if it is not and the device is in error; [`Error::Lost`].
    pub fn is_done(&self) -> Result<bool, Error> {
        self.inner.is_complete(self.point)
    }

    /// Waits until it is complete.
    ///
    /// # Errors
    /// [`Error::Timeout`] after the device's time without progress; [`Error::Fault`]; [`Error::Lost`].
    pub fn wait(&self) -> Result<(), Error> {
        self.wait_timeout(self.inner.wait_timeout)
    }

    /// Waits until it is complete, with a time without progress of its own.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), Error> {
        self.inner
            .wait_point(self.point, timeout, "a wait for a submission")
    }
}
