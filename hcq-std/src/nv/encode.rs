//! From the shell's commands to the words of each kind of channel.
//!
//! A launch's descriptor lies beside its argument block. The first launch of a recording waits for the engine to be idle and
//! is sent by words; one that follows another directly hangs on it, by the descriptor of the one before, and takes none.
//! Signals and timestamps behind a launch are releases of its descriptor as long as it has some. All of that happens before
//! the recording is submitted: no descriptor is changed once the channel may read it.

use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, CopyQueue, Launch, Queue, SignalAt};
use hcq_nostd::record::{Block, Operand, RecordError, Recorder};
use hcq_nostd::value::Value;
use hcq_nv::compute::{NvCompute, Qmds, State};
use hcq_nv::copy::NvCopy;
use hcq_nv::device::Device;
use hcq_nv::gpfifo;
use hcq_nv::host::{Operation, Semaphore};
use hcq_nv::local_memory::LocalMemory;
use hcq_nv::setup::Setup;

use super::program::{FOREIGN, own};
use crate::backend::{Before, Command, Descriptors, QueueKind, Stored};

/// Words of a few commands.
const FEW: usize = 64;
type Encoded<'w> = Result<(usize, PatchList<'w>), RecordError>;

/// Commands that all queues have.
fn common<Q: Queue>(queue: &mut Q, command: &Command<'_>) -> Result<(), RecordError> {
    match *command {
        Command::Wait(signal, value) => queue.wait(signal, value)?,
        Command::Signal(signal, value) => queue.signal(signal, value)?,
        Command::Timestamp(signal) => queue.timestamp(signal)?,
        Command::Write(address, value, width) => queue.write(address, value, width)?,
        Command::PollBit(address, mask, expect) => queue.poll_bit(address, mask, expect)?,
        // The shell refuses these before they come here.
        Command::Barrier | Command::Exec(_) | Command::Copy { .. } | Command::Launch { .. } => {
            return Err(FOREIGN);
        }
    };
    Ok(())
}

/// What runs by reference is an entry of the ring, and no word.
fn by_reference<'w>(words: usize, list: PatchList<'w>) -> Encoded<'w> {
    if words as u64 > gpfifo::MAX_WORDS {
        return Err(RecordError::Limit {
            operand: Operand::Length,
            value: words as u64,
            max: gpfifo::MAX_WORDS,
        });
    }
    Ok((0, list))
}

/// No memory for descriptors: commands that make none.
fn no_qmds() -> Qmds<'static> {
    Qmds::new(Region::from_words(&mut [], 0), RegionId(u16::MAX))
}

/// A command of a compute queue on its own: not a launch, which has a descriptor.
pub(super) fn compute<'w>(
    device: &Device,
    command: &Command<'_>,
    words: &'w mut [u32],
    list: PatchList<'w>,
) -> Encoded<'w> {
    let mut before = Before::Nothing;
    let descriptors = Descriptors {
        memory: Region::from_words(&mut [], 0),
        id: RegionId(u16::MAX),
        at: 0,
        before: &mut before,
        stored: None,
    };
    compute_behind(device, command, None, descriptors, words, list)
}

/// A command of a compute queue behind others of its recording.
pub(super) fn compute_behind<'w>(
    device: &Device,
    command: &Command<'_>,
    kernargs: Option<Block<'_, '_>>,
    descriptors: Descriptors<'_>,
    words: &'w mut [u32],
    list: PatchList<'w>,
) -> Encoded<'w> {
    if let Command::Launch { words, .. } = *command {
        return by_reference(words, list);
    }
    let Descriptors {
        memory,
        id,
        at,
        before,
        stored,
    } = descriptors;
    let state = match *before {
        Before::Nv(state) => state,
        // Launches of recordings before this one may be running.
        Before::Nothing => State::running(),
    };
    let qmds = Qmds::new(memory, id);
    let qmds = match stored {
        Some(Stored {
            descriptors: Value::Var(base),
            ..
        }) => qmds.based_on(base),
        // A number is what the memory says itself.
        _ => qmds,
    };
    let recorder = Recorder::new(words, list);
    let mut queue = NvCompute::over(device, recorder, qmds, state.at(at));
    match *command {
        Command::Barrier => {
            queue.memory_barrier()?;
        }
        Command::Exec(ref e) => {
            queue.exec(Launch {
                program: own(e.program)?.prepared(),
                args: e.args,
                kernargs: kernargs.ok_or(NO_BLOCK)?,
                groups: e.grid.groups,
                local: e.grid.local,
                local_memory: e.grid.local_memory,
            })?;
        }
        // A release of a descriptor stays one. Nobody is woken by its trap, but by the interrupt at the
        // submission's end.
        Command::Signal(signal, value) if state.active().is_some() => {
            let signal = SignalAt {
                notify: false,
                ..signal
            };
            queue.signal(signal, value)?;
        }
        ref other => common(&mut queue, other)?,
    }
    let (recorder, state) = queue.finish();
    *before = Before::Nv(state);
    Ok(recorder.finish())
}

/// A command of a copy queue.
pub(super) fn copy<'w>(
    device: &Device,
    command: &Command<'_>,
    words: &'w mut [u32],
    list: PatchList<'w>,
) -> Encoded<'w> {
    if let Command::Launch { words, .. } = *command {
        return by_reference(words, list);
    }
    let mut queue = NvCopy::new(device, words, list);
    match *command {
        Command::Copy {
            destination,
            source,
            bytes,
        } => {
            queue.copy(destination, source, bytes)?;
        }
        ref other => common(&mut queue, other)?,
    }
    Ok(queue.finish().finish())
}

const NO_BLOCK: RecordError = RecordError::KernargsTooSmall { need: 1, have: 0 };

/// Words that `record` appends.
fn words_of(
    record: impl FnOnce(&mut [u32]) -> Result<usize, RecordError>,
) -> Result<Vec<u32>, RecordError> {
    let mut words = [0; FEW];
    let len = record(&mut words)?;
    Ok(words.get(..len).unwrap_or_default().to_vec())
}

/// What a new channel is told.
pub(super) fn introduction(
    device: &Device,
    kind: QueueKind,
    local: Option<LocalMemory>,
) -> Result<Vec<u32>, RecordError> {
    words_of(|words| match kind {
        QueueKind::Compute => {
            let recorder = Recorder::new(words, PatchList::none());
            let mut queue = NvCompute::over(device, recorder, no_qmds(), State::default());
            queue.setup(&Setup::compute(device))?;
            if let Some(local) = local {
                queue.setup(&Setup::local_memory(local))?;
            }
            Ok(queue.words().len())
        }
        QueueKind::Copy => {
            let mut queue = NvCopy::new(device, words, PatchList::none());
            queue.setup(&Setup::copy(device))?;
            Ok(queue.words().len())
        }
    })
}

/// What a compute channel is told of local memory.
pub(super) fn local_memory(device: &Device, local: LocalMemory) -> Result<Vec<u32>, RecordError> {
    words_of(|words| {
        let recorder = Recorder::new(words, PatchList::none());
        let mut queue = NvCompute::over(device, recorder, no_qmds(), State::default());
        queue.wait_for_idle()?.setup(&Setup::local_memory(local))?;
        Ok(queue.words().len())
    })
}

/// Words that say how far a channel has come: a number behind everything that it was given before. It waits for no engine:
/// the words up to it were read, which is all that their memory is needed for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    words: [u32; Self::WORDS],
}

impl Progress {
    pub(super) const WORDS: usize = 6;
    /// SEM_PAYLOAD_LO, and SEM_PAYLOAD_HI behind it.
    const PAYLOAD: usize = 3;

    pub(super) fn new(device: &Device, address: u64) -> Result<Self, RecordError> {
        let semaphore = Semaphore {
            address: address.into(),
            payload: 0u64.into(),
            wide: true,
            operation: Operation::Release {
                wait_for_idle: false,
                timestamp: false,
            },
        };
        let mut words = [0; Self::WORDS];
        let mut recorder = Recorder::new(&mut words, PatchList::none());
        recorder.command(|c| semaphore.record(c, device.chip().semaphore_bits))?;
        Ok(Self { words })
    }

    /// The words for this many entries.
    pub(super) fn at(&self, count: u64) -> [u32; Self::WORDS] {
        let mut words = self.words;
        let halves = [(count & 0xffff_ffff) as u32, (count >> 32) as u32];
        for (word, half) in words.iter_mut().skip(Self::PAYLOAD).zip(halves) {
            *word = half;
        }
        words
    }
}
