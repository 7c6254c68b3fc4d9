//! The command processor of Adreno A6xx, with the shader processors behind it as far as launches need them.
//!
//! Written from Mesa's register database alone (`adreno_pm4.xml`, `a6xx.xml`), from what Mesa's Vulkan driver does about caches and
//! waits (`tu_cmd_buffer.cc`, `tu_shader.cc`), and from `freedreno_devices.py`. What they do not describe stops the queue, with
//! the packet decoded.
//!
//! | module | what |
//! |---|---|
//! | `chip` | what differs between chips |
//! | `packet` | headers with their parity, packets as fields: reserved bits and reports |
//! | `registers` | registers that compute work may set |
//! | `stream` | the front: command buffers, packets |
//! | `state` | constants, descriptors and instructions that are loaded |
//! | `launch` | from registers to a launch, and its limits |
//! | `pipe` | the back: launches in flight, events at their end |
//!
//! # Order
//!
//! The front does packets one after the other. `CP_EXEC_CS` and `CP_RUN_OPENCL` start a launch and the front goes on; launches begin
//! in order, load their state then, and run side by side, their work-groups in an order that the machine's seed decides.
//! `CP_EVENT_WRITE` leaves an event behind that happens after all launches before it, and the front goes on: `CACHE_FLUSH_TS` writes
//! UCHE's stores to memory and then its value, `CACHE_INVALIDATE` makes UCHE forget. `CP_WAIT_FOR_IDLE` waits for all launches and
//! events. What the front itself does to memory and registers is done on the spot, whatever is in flight. So a command that relies
//! on a launch's results, or on an event, without waiting gets wrong ones under some seed.
//!
//! # Caches
//!
//! Programs and what loads their state go through UCHE (the L2 of [`Caches`](crate::cache::Caches), with one XCC): their stores stay
//! there until an event flushes them, and what it has read it gives again until it is invalidated, whatever the host or the
//! command processor wrote to memory meanwhile. Instructions have a cache of their own, which is filled anew when a program is
//! loaded. The command processor goes past UCHE both ways.
//!
//! # What is not simulated
//!
//! Drawing, blits, bindless descriptors, UBOs, shared constants, performance counters, GMEM, the stack in private memory. The
//! command processor does not read ahead, and its writes are in memory when the next packet is done: `CP_WAIT_FOR_ME` and
//! `CP_WAIT_MEM_WRITES` find nothing to wait for, and a missing one does not show.

mod chip;
mod launch;
mod memory;
mod packet;
mod pipe;
mod registers;
mod state;
mod stream;

use super::chip::Chip;
use super::seam::{CommandProcessor, Submission};
use crate::engine::{Cause, Engine, Fault, Host, Step};

/// A ring's command processor. `None`: nothing is known of such a chip's shader processors.
pub(crate) fn processor(chip: &'static Chip) -> Option<Box<dyn CommandProcessor>> {
    Some(Box::new(Cp {
        front: stream::Stream::new(chip, chip::find(chip.name)?),
        pipe: pipe::Pipe::default(),
        stopped: None,
    }))
}

/// A packet, kept for a report.
#[derive(Clone, Debug)]
struct Origin {
    /// 1 for the command buffers of a submission, 2 for those that they call.
    level: usize,
    /// Its address.
    at: u64,
    /// Its first words.
    words: Vec<u32>,
}

/// Why the queue stops: what [`Fault`] says, before it is one.
#[derive(Debug)]
struct Stopped(Box<Fault>);

impl Stopped {
    fn new(cause: Cause, origin: &Origin) -> Self {
        let packet = packet::describe(origin.level, origin.at, &origin.words);
        Self(Box::new(Fault { cause, packet }))
    }
}

struct Cp {
    front: stream::Stream,
    pipe: pipe::Pipe,
    stopped: Option<Box<Fault>>,
}

impl Cp {
    fn act(&mut self, host: &mut dyn Host) -> Result<Step, Stopped> {
        if host.random(2) == 0 && self.pipe.step(host, false)? {
            return Ok(Step::Progress);
        }
        match self.front.step(host, &mut self.pipe)? {
            stream::Done::Packet => Ok(Step::Progress),
            _ if self.pipe.step(host, true)? => Ok(Step::Progress),
            stream::Done::Waits => Ok(Step::Waiting),
            stream::Done::Nothing => Ok(Step::Idle),
        }
    }
}

impl Engine for Cp {
    fn step(&mut self, host: &mut dyn Host) -> Step {
        if let Some(fault) = &self.stopped {
            return Step::Fault(fault.clone());
        }
        match self.act(host) {
            Ok(step) => step,
            Err(Stopped(fault)) => {
                self.stopped = Some(fault.clone());
                Step::Fault(fault)
            }
        }
    }
}

impl CommandProcessor for Cp {
    fn begin(&mut self, submission: Submission) {
        if submission.switched {
            self.front.lose();
            self.pipe.lose();
        }
        self.front.begin(&submission);
    }

    fn reset(&mut self) {
        self.front.lose();
        self.front.abandon();
        self.pipe.lose();
        self.pipe.abandon();
        self.stopped = None;
    }
}

#[cfg(test)]
mod tests;
