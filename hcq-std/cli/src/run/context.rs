//! What every step of a run shares, and waiting that a person can end.

use std::time::{Duration, Instant};

use hcq_std::{Device, Error, Point};

use crate::data::input::Input;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::job::Job;

/// How long a wait may keep a Ctrl-C unanswered.
const SLICE: Duration = Duration::from_millis(50);

/// What every step of a run shares.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    /// The job's own device, and the further ones behind it.
    pub(super) devices: &'a [Device],
    pub(super) device: &'a Device,
    pub(super) job: &'a Job,
    pub(super) inputs: &'a [Input],
    pub(super) interrupt: &'a Interrupt,
}

impl<'a> Context<'a> {
    pub(super) fn buffer_name(&self, index: usize) -> &str {
        self.job.buffers.get(index).map_or("", |b| b.name.as_str())
    }

    /// The device of a buffer or task that names it.
    pub(super) fn device_of(&self, named: Option<usize>) -> &'a Device {
        let further = named.and_then(|n| self.devices.get(n + 1));
        further.unwrap_or(self.device)
    }

    /// The device that a buffer is on.
    pub(super) fn device_of_buffer(&self, index: usize) -> &'a Device {
        self.device_of(self.job.buffers.get(index).and_then(|b| b.device))
    }

    /// Waits for a submission of one command: see [`wait_watching`](Self::wait_watching).
    pub(super) fn wait(&self, point: &Point) -> Result<()> {
        let limit = |slice| point.wait_timeout(slice);
        self.wait_watching(limit, || 0, |failure| failure)
    }

    /// Waits for a submission, as `wait` does for some time: until it is done, the device fails, the user asks to stop, or nothing has moved for as
    /// long as the device allows. `progress` is any number that changes when something moves; `explain` says more
    /// of a failure of the device.
    pub(super) fn wait_watching(
        &self,
        wait: impl Fn(Duration) -> std::result::Result<(), Error>,
        progress: impl Fn() -> u64,
        explain: impl FnOnce(Failure) -> Failure,
    ) -> Result<()> {
        let mut seen = progress();
        let mut since = Instant::now();
        loop {
            self.interrupt.check()?;
            match wait(SLICE.min(self.device.wait_timeout())) {
                Ok(()) => return Ok(()),
                Err(Error::Timeout { .. }) => {
                    let now = progress();
                    if now != seen {
                        (seen, since) = (now, Instant::now());
                    } else if since.elapsed() >= self.device.wait_timeout() {
                        let ms = self.device.wait_timeout().as_millis();
                        let what =
                            format!("the wait for the device timed out: no progress for {ms} ms");
                        let help = "HCQDEV_WAIT_TIMEOUT_MS sets how long waits may stand still";
                        return Err(explain(Failure::new(Exit::Device, what).help(help)).into());
                    }
                }
                Err(error @ Error::Fault(_)) => return Err(explain(device_failure(&error)).into()),
                Err(error) => return Err(device_failure(&error).into()),
            }
        }
    }
}

/// A device's error as a failure of this command.
pub fn device_failure(error: &Error) -> Failure {
    match error {
        // Recovering is for programs that go on; this one ends.
        Error::Fault(record) => Failure::new(
            Exit::Device,
            format!("the device stopped with a fault: {record}"),
        ),
        _ => Failure::new(Exit::Device, error.to_string()),
    }
}
