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
    pub(super) device: &'a Device,
    pub(super) job: &'a Job,
    pub(super) inputs: &'a [Input],
    pub(super) interrupt: &'a Interrupt,
}

impl Context<'_> {
    pub(super) fn buffer_name(&self, index: usize) -> &str {
        self.job.buffers.get(index).map_or("", |b| b.name.as_str())
    }

    /// Waits for a submission of one command: see [`wait_watching`](Self::wait_watching).
    pub(super) fn wait(&self, point: &Point) -> Result<()> {
        self.wait_watching(point, || 0, |failure| failure)
    }

    /// Waits for a submission: until it is done, the device fails, the user asks to stop, or nothing has moved for as
    /// long as the device allows. `progress` is any number that changes when something moves; `explain` says more
    /// of a failure of the device.
    pub(super) fn wait_watching(
        &self,
        point: &Point,
        progress: impl Fn() -> u64,
        explain: impl FnOnce(Failure) -> Failure,
    ) -> Result<()> {
        let mut seen = progress();
        let mut since = Instant::now();
        loop {
            self.interrupt.check()?;
            match point.wait_timeout(SLICE.min(self.device.wait_timeout())) {
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
