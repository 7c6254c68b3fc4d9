//! From the shell's commands to the words of each kind of channel.
//!
//! A command is encoded without a look at those before it. So a launch waits for the engine to be idle instead of hanging
//! on the launch before it, and its descriptor, which lies behind its argument block, is never changed later.

use hcq_nostd::args::Arg;
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{BuildError, Derived, PatchList, PatchRoom, RegionId, Site};
use hcq_nostd::queue::{ComputeQueue, CopyQueue, Launch, Queue};
use hcq_nostd::record::{Block, Operand, RecordError, Recorder, Room};
use hcq_nostd::value::{Affine, Value};
use hcq_nv::compute::{NvCompute, Qmds, State};
use hcq_nv::copy::NvCopy;
use hcq_nv::device::Device;
use hcq_nv::gpfifo;
use hcq_nv::host::{Operation, Semaphore};
use hcq_nv::local_memory::LocalMemory;
use hcq_nv::setup::Setup;

use super::program::{FOREIGN, own};
use crate::backend::{Command, Exec, QueueKind};

/// Alignment of launch descriptors.
pub(super) const QMD_ALIGN: usize = 256;
/// 64-bit words of the largest launch descriptor.
const QMD_LONGS: usize = 48;
/// Words of a few commands.
const FEW: usize = 64;
/// Sites of one launch but for its arguments.
const SITES: usize = 64;
/// Derived variables of one launch: there are three sizes of a group, and their products.
const DERIVED: usize = 8;
/// The number of the descriptor's own memory while it is made.
const QMD_REGION: RegionId = RegionId(u16::MAX);

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
    Qmds::new(Region::from_words(&mut [], 0), QMD_REGION)
}

/// A command of a compute queue.
pub(super) fn compute<'w>(
    device: &Device,
    command: &Command<'_>,
    kernargs: Option<Block<'_, '_>>,
    words: &'w mut [u32],
    list: PatchList<'w>,
) -> Encoded<'w> {
    match *command {
        Command::Exec(ref e) => exec(device, e, kernargs.ok_or(NO_BLOCK)?, words, list),
        Command::Launch { words, .. } => by_reference(words, list),
        ref command => {
            let recorder = Recorder::new(words, list);
            let mut queue = NvCompute::over(device, recorder, no_qmds(), State::default());
            match command {
                Command::Barrier => {
                    queue.wait_for_idle()?.memory_barrier()?;
                }
                other => common(&mut queue, other)?,
            }
            Ok(queue.finish().0.finish())
        }
    }
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

/// A launch: its argument block first, its descriptor behind that.
fn exec<'w>(
    device: &Device,
    e: &Exec<'_>,
    mut block: Block<'_, '_>,
    words: &'w mut [u32],
    mut list: PatchList<'w>,
) -> Encoded<'w> {
    let program = own(e.program)?;
    let (at, bytes) = program.descriptor();
    let address = block.device_address(at).ok_or(NO_BLOCK)?;
    let mut memory = [0u64; QMD_LONGS];
    let needs_sites = has_variables(e);
    // Arguments may all be variables.
    let mut sites = match needs_sites {
        false => Vec::new(),
        true => vec![Site::EMPTY; SITES + e.args.len()],
    };
    let mut derived = [Derived::EMPTY; DERIVED];
    let first_derived = list.vars();
    let (len, made) = {
        let own = match needs_sites {
            true => PatchList::resume(
                &mut sites,
                &mut derived,
                PatchRoom::default(),
                first_derived,
            )?,
            false => PatchList::none(),
        };
        let qmds = Qmds::new(Region::from_words(&mut memory, address), QMD_REGION);
        // The words are this call's own: the list lives shorter than they do.
        let recorder = Recorder::new(&mut *words, own);
        let mut queue = NvCompute::over(device, recorder, qmds, State::default());
        queue.wait_for_idle()?.exec(Launch {
            program: program.prepared(),
            args: e.args,
            kernargs: block.reborrow(),
            groups: e.grid.groups,
            local: e.grid.local,
            local_memory: e.grid.local_memory,
        })?;
        let (len, own) = queue.finish().0.finish();
        (len, own.used())
    };
    let descriptor = zerocopy::IntoBytes::as_bytes(&memory);
    block.write(at, descriptor.get(..bytes).unwrap_or_default())?;
    if !needs_sites {
        return Ok((len, list));
    }
    let mut moved = [hcq_nostd::value::Var::new(0); DERIVED];
    for (n, one) in derived.iter().take(made.derived).enumerate() {
        let (before, rest) = moved.split_at_mut(n);
        if let Some(to) = rest.first_mut() {
            *to = list.derive(one.renumbered(first_derived, before))?;
        }
    }
    for site in sites.iter().take(made.sites) {
        let Some(mut formula) = site.formula() else {
            continue;
        };
        if let Some(n) = formula.of.var.index().checked_sub(first_derived) {
            let var = moved
                .get(n as usize)
                .filter(|_| (n as usize) < made.derived);
            let var = *var.ok_or(BuildError::TooMany)?;
            formula.of = Affine { var, ..formula.of };
        }
        let (region, offset) = site.place();
        if region == QMD_REGION {
            // Counted from the descriptor's start.
            let at = at.saturating_add(offset as usize);
            block.value(&mut list, at, formula.of.into(), &formula, Operand::Program)?;
        } else {
            list.site(region, offset, &formula);
        }
    }
    let used = list.used();
    if used.sites > list.sites().len() {
        return Err(RecordError::NoRoom(Room {
            words: len,
            sites: used.sites,
            derived: used.derived,
            beside: 0,
        }));
    }
    Ok((len, list))
}

/// Whether something of a launch is known at launch only.
fn has_variables(e: &Exec<'_>) -> bool {
    let is_var = |value: &Value| value.imm().is_none();
    e.grid.groups.iter().chain(&e.grid.local).any(is_var)
        || e.args.iter().any(|arg| match arg {
            Arg::Buffer(value) | Arg::Scalar { value, .. } => is_var(value),
            _ => false,
        })
}

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
