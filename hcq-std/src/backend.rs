//! What a device must do for the shell: one private trait, so that other devices join without a change above it.
//!
//! A [`Backend`] is shared; its [`Port`], the host's half of its rings, belongs to whoever holds the submission lock.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use hcq_cpu::abi::KernelFn;
use hcq_nostd::args::Arg;
use hcq_nostd::fault::FaultRecord;
use hcq_nostd::mem::{Region, SharedWord};
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{SignalAt, WriteWidth};
use hcq_nostd::record::RecordError;
use hcq_nostd::signal::Width;
use hcq_nostd::value::Value;

use crate::Error;
use crate::arg::Grid;

/// The two kinds of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueKind {
    /// Runs kernels.
    Compute,
    /// Copies.
    Copy,
}

impl fmt::Display for QueueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Compute => "compute",
            Self::Copy => "copy",
        })
    }
}

/// A queue of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueId {
    pub(crate) kind: QueueKind,
    pub(crate) index: usize,
}

/// Device memory, as a backend handed it out.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Where the host reaches it.
    pub(crate) cpu: NonNull<u8>,
    /// Bytes, at most `isize::MAX`.
    pub(crate) len: usize,
    /// Where the device reaches it.
    pub(crate) address: u64,
    /// Whether the device may write.
    pub(crate) writable: bool,
    /// How it is given back.
    pub(crate) origin: Origin,
}

// SAFETY: a plain range; who may access it when is its owner's business.
#[allow(unsafe_code, reason = "a range of memory is no thread's own")]
unsafe impl Send for Memory {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "a range of memory is no thread's own")]
unsafe impl Sync for Memory {}

/// Where memory came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The process's allocator.
    Heap,
    /// A mapping of its own.
    Mapping,
    /// The caller.
    Caller,
}

/// A program prepared by a backend, opaque to the shell.
pub(crate) type Prepared = Arc<dyn Any + Send + Sync>;

/// One argument's place, and the size and alignment of the whole block.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) slots: Box<[hcq_nostd::args::ArgSlot]>,
    pub(crate) size: u32,
    pub(crate) align: u32,
}

/// What a kernel is made from.
#[derive(Debug)]
pub(crate) enum Source {
    /// A function of this process.
    Function {
        entry: KernelFn,
        layout: Option<Layout>,
    },
}

/// A launch for the encoder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exec<'a> {
    pub(crate) program: &'a Prepared,
    pub(crate) args: &'a [Arg<'a>],
    /// The argument block: `len` bytes at `offset` of the chunk that goes with the command, region number `id`.
    pub(crate) id: RegionId,
    pub(crate) offset: usize,
    pub(crate) len: usize,
    pub(crate) grid: &'a Grid,
}

/// A command with no vendor in it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Command<'a> {
    Wait(SignalAt, Value),
    Signal(SignalAt, Value),
    Timestamp(SignalAt),
    Write(Value, Value, WriteWidth),
    PollBit(Value, u32, Value),
    Barrier,
    Exec(Exec<'a>),
    Copy {
        destination: Value,
        source: Value,
        bytes: Value,
    },
    /// Run the words of a bound queue.
    Launch {
        address: u64,
        words: usize,
    },
}

/// Why words were not published. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PushError {
    /// No room now; the ring's get when it was looked at.
    Full { need: u64, free: u64, get: u64 },
    /// They never fit.
    TooLarge,
}

/// The host's half of a device's rings.
pub(crate) trait Port: Send {
    /// Publishes words on a queue, both parts or nothing, and wakes the device.
    fn push(&mut self, queue: QueueId, parts: [&[u32]; 2]) -> Result<(), PushError>;
}

/// A device.
pub(crate) trait Backend: Send + Sync {
    /// Width of its signals.
    fn width(&self) -> Width;
    /// Compute and copy queues.
    fn queue_counts(&self) -> (usize, usize);

    /// Zeroed memory, aligned to 64 bytes at least.
    fn allocate(&self, bytes: usize) -> Result<Memory, Error>;
    /// Makes caller memory known to the device.
    fn adopt(&self, cpu: NonNull<u8>, bytes: usize, writable: bool) -> Result<Memory, Error>;
    /// From now on commands that name this memory are faults.
    fn hide(&self, memory: &Memory);
    /// Gives memory back. It was hidden, and no command that could have seen it before is in flight.
    fn release(&self, memory: Memory);

    /// Prepares a kernel.
    fn prepare(&self, source: Source) -> Result<Prepared, Error>;
    /// The program is not launched any more.
    fn retire(&self, program: &Prepared);
    /// Bytes and alignment of the argument block for these arguments.
    fn kernargs(&self, program: &Prepared, args: &[Arg<'_>])
    -> Result<(usize, usize), RecordError>;

    /// Encodes one command at the start of `words`; returns the number of words. An exec comes with the memory that its
    /// argument block is in.
    fn encode<'w>(
        &self,
        kind: QueueKind,
        command: &Command<'_>,
        kernargs: Option<&mut Region<'static>>,
        words: &'w mut [u32],
        list: PatchList<'w>,
    ) -> Result<(usize, PatchList<'w>), RecordError>;

    /// The fault that the device stopped with.
    fn fault(&self) -> Option<FaultRecord>;
    /// Starts afresh: what was published and not run is dropped.
    fn recover(&self, limit: Duration) -> Result<(), Error>;
    /// Stops for good. `false` if something still runs after the limit.
    fn stop(&self, limit: Duration) -> bool;

    /// Nanoseconds of the clock that timestamps are in.
    fn now_ns(&self) -> u64;
    /// Passes time, at most `limit`, unless one of the words has changed from what was seen; whether one has. It spins
    /// in round 0 and sleeps in later ones.
    fn relax(&self, round: u32, words: &[(SharedWord<'_>, u64)], limit: Duration) -> bool;
    /// The same for a queue's get.
    fn relax_room(&self, round: u32, queue: QueueId, get: u64, limit: Duration) -> bool;
    /// The queue's get.
    fn consumed(&self, queue: QueueId) -> u64;
    /// The host has written to device memory that somebody may sleep on.
    fn written(&self, address: u64);
}
