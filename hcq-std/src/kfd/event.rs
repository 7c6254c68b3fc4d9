//! Interrupts and faults.

use std::time::Duration;

use hcq_nostd::fault::FaultRecord;

use super::Gpu;
use crate::Error;

/// What a GPU writes to wake a sleeping host: the value `id` to `mailbox`, then an interrupt with context `id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SignalEvent {
    /// The kernel's number, less than 4096.
    pub(crate) id: u32,
    /// Address of a 64-bit word in the event page.
    pub(crate) mailbox: u64,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The signal event.
    Signal,
    /// A fault was reported.
    Fault,
    /// Time was over.
    Timeout,
}

impl Gpu {
    /// The event that wakes [`wait`](Self::wait).
    pub(crate) fn event(&self) -> SignalEvent {
        SignalEvent { id: 0, mailbox: 0 }
    }

    /// Sleeps until the signal event, a fault or the end of the time, counted in whole milliseconds; zero only looks.
    pub(crate) fn wait(&self, limit: Duration) -> Result<Woken, Error> {
        let _ = limit;
        Err(Error::Internal("KFD is being written"))
    }

    /// The first fault that a wait or a look has seen. No call is made.
    pub(crate) fn fault(&self) -> Option<FaultRecord> {
        None
    }

    /// Asks the kernel for faults without sleeping.
    pub(crate) fn look_for_fault(&self) -> Option<FaultRecord> {
        None
    }

    /// Forgets the fault, when the queues are destroyed.
    pub(crate) fn clear_fault(&self) -> Result<(), Error> {
        Ok(())
    }
}
