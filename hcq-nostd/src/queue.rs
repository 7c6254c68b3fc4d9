//! What queues can be told: three small traits, implemented once per engine by a driver.
//!
//! What an engine cannot do is absent from its type. What each command means, to the byte, is what the CPU device does
//! with it; a driver that cannot do a command in that way refuses it while recording.
//!
//! Commands of one queue start in order and each one's effects are seen by the next, but for what a driver documents
//! otherwise. Between queues only signals order.

use crate::args::Arg;
use crate::record::{Block, RecordError};
use crate::value::Value;

/// A signal as a command's operand: where it is, and whether hosts sleep on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct SignalAt {
    /// Device address, 16-byte aligned: the value at 0 and the timestamp at 8.
    pub address: Value,
    /// Wake hosts that sleep until it is written, by interrupt where the engine has one. Set for timelines.
    pub notify: bool,
}

impl From<Value> for SignalAt {
    fn from(address: Value) -> Self {
        Self {
            address,
            notify: false,
        }
    }
}

/// Width of a `write` command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum WriteWidth {
    /// 32 bits, at a 4-byte boundary.
    W32,
    /// 64 bits, at an 8-byte boundary.
    W64,
}

/// Commands that every engine has.
pub trait Queue {
    /// Writes `value` to the signal when all earlier commands of this queue are complete and visible.
    ///
    /// # Errors
    /// [`RecordError`]; the queue is as it was.
    fn signal(&mut self, signal: SignalAt, value: Value) -> Result<&mut Self, RecordError>;

    /// Holds this queue until the signal's value is at least `value`, unsigned, in the width of the engine.
    ///
    /// # Errors
    /// [`RecordError`]; the queue is as it was.
    fn wait(&mut self, signal: SignalAt, value: Value) -> Result<&mut Self, RecordError>;

    /// Writes the device's clock to the signal's timestamp when all earlier commands of this queue are complete.
    ///
    /// Some engines store the clock together with a value: the signal's value is not to be relied on afterwards, nor the
    /// timestamp after a [`signal`](Self::signal). Give timestamps signals of their own.
    ///
    /// # Errors
    /// [`RecordError`]; the queue is as it was.
    fn timestamp(&mut self, signal: SignalAt) -> Result<&mut Self, RecordError>;

    /// Writes a number to memory when all earlier commands of this queue are complete.
    ///
    /// # Errors
    /// [`RecordError`]; the queue is as it was.
    fn write(
        &mut self,
        address: Value,
        value: Value,
        width: WriteWidth,
    ) -> Result<&mut Self, RecordError>;

    /// Holds this queue until `word & mask == expect`, for the 32-bit word at `address`.
    ///
    /// Engines that can only test one bit for clear or set refuse other masks, other values of `expect`
    /// ([`RecordError::Unsupported`]), and variables ([`RecordError::NotConstant`]).
    ///
    /// # Errors
    /// [`RecordError`]; the queue is as it was.
    fn poll_bit(
        &mut self,
        address: Value,
        mask: u32,
        expect: Value,
    ) -> Result<&mut Self, RecordError>;
}

/// What a queue needs to know of a prepared program to supply its argument block.
pub trait Program {
    /// Bytes of the argument block, with all that the driver keeps beside the arguments.
    fn kernargs_size(&self) -> usize;
    /// Alignment of the argument block's device address, a power of two.
    fn kernargs_align(&self) -> usize;
}

/// One launch of a program.
#[derive(Debug)]
pub struct Launch<'a, 'm, P> {
    /// The prepared program.
    pub program: &'a P,
    /// Its arguments, in order.
    pub args: &'a [Arg<'a>],
    /// Memory for the argument block: [`Program::kernargs_size`] bytes that nothing in flight reads.
    pub kernargs: Block<'a, 'm>,
    /// Number of work-groups, x, y, z. Each at least 1.
    pub groups: [Value; 3],
    /// Work-items per group, x, y, z. Each at least 1.
    pub local: [Value; 3],
    /// Bytes of group-local memory beyond what the program declares.
    pub local_memory: u32,
}

/// Commands of queues that run programs.
pub trait ComputeQueue: Queue {
    /// A program prepared for this engine.
    type Program<'p>: Program;

    /// Makes writes of hosts and of other engines visible to what follows, and writes of what precedes visible to them.
    ///
    /// # Errors
    /// [`RecordError`]; the queue is as it was.
    fn memory_barrier(&mut self) -> Result<&mut Self, RecordError>;

    /// Runs a program over a grid. The arguments are copied into the argument block.
    ///
    /// # Errors
    /// [`RecordError`]; the queue is as it was, the argument block's contents may have changed.
    fn exec(&mut self, launch: Launch<'_, '_, Self::Program<'_>>)
    -> Result<&mut Self, RecordError>;
}

/// Commands of queues that copy.
pub trait CopyQueue: Queue {
    /// Copies `bytes` bytes. The two ranges do not overlap.
    ///
    /// # Errors
    /// [`RecordError`]; the queue is as it was.
    fn copy(
        &mut self,
        destination: Value,
        source: Value,
        bytes: Value,
    ) -> Result<&mut Self, RecordError>;
}
