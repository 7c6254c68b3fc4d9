//! What the shell needs of a kernel driver of Adreno GPUs: one private trait, which [`kgsl`](crate::kgsl) and
//! [`msm`](crate::msm) have, so that nothing above knows one from the other.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use hcq_nostd::fault::FaultRecord;

use crate::Error;
use crate::backend::Piece;
use crate::seam::{Errno, System};

/// How the host sees memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Caching {
    /// Through its caches where the GPU looks into them; else it gathers writes and caches nothing.
    Cached,
    /// It gathers writes and caches nothing.
    Gathered,
    /// As it is.
    Uncached,
}

/// What the driver says of the GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Its name, if the driver has one.
    pub(crate) name: Option<String>,
    /// The chip's id.
    pub(crate) chip: u32,
    /// Bytes of tile memory.
    pub(crate) tile_bytes: u64,
}

/// A driver's words for messages.
#[derive(Debug)]
pub(crate) struct Calls {
    /// Its name, as in the kernel's log.
    pub(crate) driver: &'static str,
    /// The call that submits.
    pub(crate) submit: &'static str,
    /// The call that sees to the host's caches.
    pub(crate) flush: &'static str,
}

/// Memory that the GPU sees, given back when it is dropped.
pub(crate) trait Block: fmt::Debug + Send + Sync {
    /// The host's address of the first byte.
    fn cpu(&self) -> NonNull<u8>;
    /// The GPU's address of the first byte.
    fn address(&self) -> u64;
    /// Bytes.
    fn len(&self) -> usize;
    /// Whether host and GPU see each other's writes without [`flush`](Self::flush).
    fn is_coherent(&self) -> bool;
    /// Writes the host's cache lines of a range to memory and lets them go. Lines that lie in the range only in part go
    /// as well.
    fn flush(&self, start: usize, len: usize) -> Result<(), Errno>;
}

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Clocks {
    /// The GPU's, in ticks.
    pub(crate) ticks: u64,
    /// [`System::now_ns`].
    pub(crate) ns: u64,
    /// How far one may be off the other, in nanoseconds.
    pub(crate) error_ns: u64,
}

/// Why a submission was refused. Nothing was submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The context is in error or gone.
    Fault,
    /// The driver's answer.
    Driver(Errno),
}

/// A queue of a process: submissions run one after the other and count from 1.
pub(crate) trait Context: fmt::Debug + Send + Sync {
    /// Submits words, all pieces in order. Returns the submission's number.
    fn submit(&self, pieces: &[Piece]) -> Result<u64, Refusal>;
    /// The last submission's number.
    fn submitted(&self) -> u64;
    /// The last one that is done, as known without asking.
    fn known(&self) -> u64;
    /// The last one that is done, asking the driver.
    fn retired(&self) -> u64;
    /// Sleeps until a submission is done, for a limited time; whether it is.
    fn wait(&self, number: u64, limit: Duration) -> bool;
    /// The fault that it stopped with, as known without asking.
    fn fault(&self) -> Option<FaultRecord>;
    /// The same, asking the driver.
    fn look(&self) -> Option<FaultRecord>;
    /// Ends it. What has not begun is dropped; returns when nothing of it runs.
    fn end(&self);
}

/// An opened GPU.
pub(crate) trait Driver: fmt::Debug + Send + Sync {
    /// What it is.
    fn facts(&self) -> &Facts;
    /// What messages call it, and its calls.
    fn calls(&self) -> &'static Calls;
    /// Who answers calls.
    fn system(&self) -> &Arc<dyn System>;
    /// Zeroed memory.
    fn allocate(&self, bytes: usize, caching: Caching) -> Result<Box<dyn Block>, Error>;
    /// Pages of this process: the block is the bytes asked for, what is around them on their pages is known to the GPU, too.
    fn import(
        &self,
        cpu: NonNull<u8>,
        bytes: usize,
        writable: bool,
    ) -> Result<Box<dyn Block>, Error>;
    /// Whether the GPU takes pages of the process, and looks into the host's caches for them as for memory of the driver.
    fn snoops(&self) -> bool;
    /// Whether what was submitted behind a submission that failed runs all the same. If so, submissions have to see to that
    /// themselves.
    fn runs_on(&self) -> bool {
        false
    }
    /// A new queue. With `fast` the GPU's clock is at its fastest while it runs.
    fn context(&self, fast: bool) -> Result<Arc<dyn Context>, Error>;
    /// Both clocks; `None` if the driver cannot read the GPU's.
    fn clocks(&self) -> Option<Clocks>;
}
