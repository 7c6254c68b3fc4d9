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

    /// Waits for a submission: until it is done, the device fails, the user asks to stop, or nothing has moved for as
    /// long as the device allows. `progress` is any number that changes when something moves.
    pub(super) fn wait(&self, point: &Point, progress: impl Fn() -> u64) -> Result<()> {
        let mut seen = progress();
        let mut since = Instant::now();
        loop {
            self.interrupt.check()?;
            match point.wait_timeout(SLICE) {
                Ok(()) => return Ok(()),
                Err(error @ Error::Timeout { .. }) => {
                    let now = progress();
                    if now != seen {
                        (seen, since) = (now, Instant::now());
                    } else if since.elapsed() >= self.device.wait_timeout() {
                        return Err(device_failure(&error).into());
                    }
                }
                Err(error) => return Err(device_failure(&error).into()),
            }
        }
    }
}

/// A device's error as a failure of this command.
pub fn device_failure(error: &Error) -> Failure {
    Failure::new(Exit::Device, error.to_string())
}
