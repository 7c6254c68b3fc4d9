//! What a graph asks of the drivers that record its queues.

use crate::args::Arg;
use crate::mem::Region;
use crate::patch::{PatchList, RegionId};
use crate::plan::Engine;
use crate::queue::{ComputeQueue, CopyQueue, Launch, Queue, SignalAt, WriteWidth};
use crate::record::{Operand, RecordError, Recorder};
use crate::value::Value;

/// Which queue of a plan is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct QueueAt {
    /// Its number in the plan.
    pub queue: u32,
    /// Its device.
    pub device: u16,
    /// Its kind.
    pub engine: Engine,
    /// Its number among those of its device and kind.
    pub index: u16,
}

/// Bytes of a queue beside its words, for drivers whose engines read some: ring packets (AQL), launch descriptors (QMD).
#[derive(Debug)]
pub struct Beside<'m> {
    /// The bytes. Their device address here is that of the recording, see [`address`](Self::address).
    pub region: Region<'m>,
    /// Their number in the patch list, for [`Block`](crate::record::Block)s.
    pub id: RegionId,
    /// Where they are when the queue runs: a number, or a variable of a graph that is recorded for any place.
    pub address: Value,
    /// Bytes taken so far, from the start on.
    pub used: usize,
}

/// What a queue is recorded with.
#[derive(Debug)]
pub struct QueueMemory<'m> {
    /// The words, and the graph's patch list.
    pub recorder: Recorder<'m>,
    /// Where word 0 is when the queue runs, at a multiple of 64.
    pub words_at: Value,
    /// Bytes beside the words.
    pub beside: Beside<'m>,
}

impl<'m> QueueMemory<'m> {
    /// The patch list of the recorder.
    pub fn list(&mut self) -> &mut PatchList<'m> {
        self.recorder.list()
    }
}

/// Something that a queue is told.
#[derive(Debug)]
pub enum Command<'a, 'm, P> {
    /// [`ComputeQueue::memory_barrier`]; on compute queues only.
    Barrier,
    /// [`Queue::wait`].
    Wait(SignalAt, Value),
    /// [`Queue::signal`].
    Signal(SignalAt, Value),
    /// [`Queue::timestamp`].
    Timestamp(SignalAt),
    /// [`ComputeQueue::exec`].
    Exec(Launch<'a, 'm, P>),
    /// [`CopyQueue::copy`]; on a compute queue if [`WithoutCopy`](crate::plan::WithoutCopy) says so.
    Copy {
        /// Destination address.
        destination: Value,
        /// Source address.
        source: Value,
        /// Bytes.
        bytes: Value,
    },
    /// [`Queue::write`].
    Write(Value, Value, WriteWidth),
}

/// The drivers of a graph's queues.
///
/// One implementation serves all queues of a graph. Where their drivers differ, `Queue` and `Program` are enums with a
/// variant per driver (or boxes, where there is a heap), and [`compute`], [`copy`] and [`Launch::of`] do the rest:
///
/// ```text
/// enum AnyQueue<'m> { Pm4(Pm4Compute<'m>), Sdma(SdmaCopy<'m>), Cpu(hcq_cpu::queue::Compute<'m>) }
/// ```
///
/// A queue keeps what it is given in [`QueueMemory`] and gives it back in [`finish`](Self::finish). Sites in the words are
/// filed by the recorder, sites beside them under [`Beside::id`].
pub trait Encode {
    /// A program prepared for one of the engines.
    type Program;
    /// A queue while it is recorded.
    type Queue<'m>;

    /// Bytes and alignment (a power of two) of the argument block of a launch, with all that the driver keeps beside the
    /// arguments.
    ///
    /// # Errors
    /// [`RecordError`] for arguments that the program does not take.
    fn kernargs(
        &self,
        program: &Self::Program,
        args: &[Arg<'_>],
    ) -> Result<(usize, usize), RecordError>;

    /// A queue that records into this memory, which is empty.
    ///
    /// # Errors
    /// [`RecordError`], if the device has no such queue.
    fn over<'m>(
        &self,
        at: QueueAt,
        memory: QueueMemory<'m>,
    ) -> Result<Self::Queue<'m>, RecordError>;

    /// Records one command, whole or not at all.
    ///
    /// # Errors
    /// [`RecordError`]; the queue is as it was.
    fn command(
        &self,
        queue: &mut Self::Queue<'_>,
        command: Command<'_, '_, Self::Program>,
    ) -> Result<(), RecordError>;

    /// Gives the memory back, with [`Beside::used`] as it now is.
    fn finish<'m>(&self, queue: Self::Queue<'m>) -> QueueMemory<'m>;
}

impl<'a, 'm, P> Launch<'a, 'm, P> {
    /// The same launch of a program that this one's holds, for encoders whose program is an enum.
    pub fn of<Q>(self, program: &'a Q) -> Launch<'a, 'm, Q> {
        Launch {
            program,
            args: self.args,
            kernargs: self.kernargs,
            groups: self.groups,
            local: self.local,
            local_memory: self.local_memory,
        }
    }
}

impl<'a, 'm, P> Command<'a, 'm, P> {
    /// The same command for another driver's programs: `of` finds the program in this one's, for [`Launch::of`].
    ///
    /// # Errors
    /// [`RecordError::Unsupported`] if it is none of that driver's.
    pub fn of<Q>(
        self,
        of: impl FnOnce(&'a P) -> Option<&'a Q>,
    ) -> Result<Command<'a, 'm, Q>, RecordError> {
        Ok(match self {
            Self::Barrier => Command::Barrier,
            Self::Wait(signal, value) => Command::Wait(signal, value),
            Self::Signal(signal, value) => Command::Signal(signal, value),
            Self::Timestamp(signal) => Command::Timestamp(signal),
            Self::Exec(launch) => {
                let program = of(launch.program).ok_or(RecordError::Unsupported {
                    operand: Operand::Program,
                })?;
                Command::Exec(launch.of(program))
            }
            Self::Copy {
                destination,
                source,
                bytes,
            } => Command::Copy {
                destination,
                source,
                bytes,
            },
            Self::Write(address, value, width) => Command::Write(address, value, width),
        })
    }
}

/// The commands that every engine has; gives back what is none.
fn common<'a, 'm, P, Q: Queue>(
    queue: &mut Q,
    command: Command<'a, 'm, P>,
) -> Result<Option<Command<'a, 'm, P>>, RecordError> {
    match command {
        Command::Wait(signal, value) => queue.wait(signal, value)?,
        Command::Signal(signal, value) => queue.signal(signal, value)?,
        Command::Timestamp(signal) => queue.timestamp(signal)?,
        Command::Write(address, value, width) => queue.write(address, value, width)?,
        other => return Ok(Some(other)),
    };
    Ok(None)
}

/// Records a command on a compute queue.
///
/// # Errors
/// [`RecordError`]; a copy is [unsupported](RecordError::Unsupported). The queue is as it was.
pub fn compute<'p, Q: ComputeQueue>(
    queue: &mut Q,
    command: Command<'_, '_, Q::Program<'p>>,
) -> Result<(), RecordError> {
    match common(queue, command)? {
        Some(Command::Barrier) => queue.memory_barrier().map(drop),
        Some(Command::Exec(launch)) => queue.exec(launch).map(drop),
        Some(_) => Err(RecordError::Unsupported {
            operand: Operand::Source,
        }),
        None => Ok(()),
    }
}

/// Records a command on a copy queue.
///
/// # Errors
/// [`RecordError`]; a launch is [unsupported](RecordError::Unsupported). The queue is as it was.
pub fn copy<P, Q: CopyQueue>(
    queue: &mut Q,
    command: Command<'_, '_, P>,
) -> Result<(), RecordError> {
    match common(queue, command)? {
        Some(Command::Copy {
            destination,
            source,
            bytes,
        }) => queue.copy(destination, source, bytes).map(drop),
        // What others wrote is seen by what follows a wait, on every copy engine.
        Some(Command::Barrier) | None => Ok(()),
        Some(_) => Err(RecordError::Unsupported {
            operand: Operand::Program,
        }),
    }
}
