//! A graph's queues through the devices' own encoders, command by command.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use hcq_nostd::args::Arg;
use hcq_nostd::graph::{Command, Encode, QueueAt, QueueMemory};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{BuildError, Derived, PatchList, PatchRoom, RegionId, Site};
use hcq_nostd::plan::Engine;
use hcq_nostd::queue::{SignalAt, WriteWidth};
use hcq_nostd::record::{Block, Operand, RecordError};
use hcq_nostd::value::{Affine, Value, Var};

use super::plan::kind;
use crate::arg::Grid;
use crate::backend::{
    Backend, Before, Command as Own, Descriptors, Exec, Prepared, QueueId, Stored,
};
use crate::inner::Inner;

/// Alignment of what is beside a command.
const ALIGN: usize = 64;
/// Derived variables of one command at most.
const DERIVED: usize = 16;
/// Words of one command at first.
const WORDS: usize = 1024;
/// Words that one command runs from device memory at most, nearly; what is longer is run by several.
const PIECE: usize = 1 << 19;

/// Bytes of a launch descriptor at most.
const DESCRIPTOR: usize = 512;

/// In place of memory that is lent elsewhere.
fn no_memory() -> Region<'static> {
    Region::from_words(&mut [], 0)
}

/// A kernel of a node.
pub(super) struct Program {
    pub(super) device: usize,
    pub(super) prepared: Prepared,
}

/// Memory in which one command is encoded.
struct Scratch {
    words: Vec<u32>,
    sites: Vec<Site>,
}

/// The devices of a graph.
pub(super) struct Drivers<'d> {
    devices: &'d [Arc<Inner>],
    scratch: RefCell<Scratch>,
    /// For each device, where what it has for itself lies, if the words are stored. Hosts are not woken by such words, since
    /// how that is done is the machine's that they were recorded on.
    stored: Option<&'d [Option<Var>]>,
    /// For each queue, where its words can be cut when they are run by reference.
    cuts: RefCell<Vec<Vec<usize>>>,
}

impl<'d> Drivers<'d> {
    pub(super) fn new(
        devices: &'d [Arc<Inner>],
        queues: usize,
        stored: Option<&'d [Option<Var>]>,
    ) -> Self {
        Self {
            devices,
            stored,
            scratch: RefCell::new(Scratch {
                words: vec![0; WORDS],
                sites: vec![Site::EMPTY; 64],
            }),
            cuts: RefCell::new(vec![Vec::new(); queues]),
        }
    }

    /// Where the words of a queue that was just recorded can be cut.
    pub(super) fn cuts(&self, queue: usize) -> Vec<usize> {
        let cuts = self.cuts.borrow();
        cuts.get(queue).cloned().unwrap_or_default()
    }

    /// Where things are when the words of a queue run, if they are stored.
    fn stored(&self, queue: QueueAt, memory: &QueueMemory<'_>) -> Option<Stored> {
        let own = self.stored?.get(usize::from(queue.device));
        Some(Stored {
            descriptors: memory.beside.address,
            own: own.copied().flatten(),
        })
    }

    fn backend(&self, device: usize) -> Result<&dyn Backend, RecordError> {
        let device = self.devices.get(device);
        device.map(|d| &*d.backend).ok_or(RecordError::Unsupported {
            operand: Operand::Program,
        })
    }
}

/// A queue while it is recorded.
pub(super) struct Queue<'m> {
    at: QueueAt,
    memory: QueueMemory<'m>,
    /// The last cut.
    last: Cell<usize>,
    /// What the commands so far have left for the next one.
    before: Before,
}

impl Queue<'_> {
    fn id(&self) -> QueueId {
        QueueId {
            kind: kind(self.at.engine),
            index: usize::from(self.at.index),
        }
    }
}

impl Encode for Drivers<'_> {
    type Program = Program;
    type Queue<'m> = Queue<'m>;

    fn kernargs(&self, program: &Program, args: &[Arg<'_>]) -> Result<(usize, usize), RecordError> {
        self.backend(program.device)?
            .kernargs(&program.prepared, args)
    }

    fn over<'m>(
        &self,
        at: QueueAt,
        memory: QueueMemory<'m>,
    ) -> Result<Self::Queue<'m>, RecordError> {
        if let Some(cuts) = self.cuts.borrow_mut().get_mut(at.queue as usize) {
            cuts.clear();
        }
        Ok(Queue {
            at,
            memory,
            last: Cell::new(0),
            before: Before::Nothing,
        })
    }

    fn command(
        &self,
        queue: &mut Queue<'_>,
        command: Command<'_, '_, Program>,
    ) -> Result<(), RecordError> {
        let backend = self.backend(usize::from(queue.at.device))?;
        let id = queue.id();
        match command {
            Command::Barrier => self.plain(backend, queue, id, &Own::Barrier),
            Command::Wait(signal, value) => {
                self.plain(backend, queue, id, &Own::Wait(signal, value))
            }
            Command::Signal(signal, value) => {
                let notify = signal.notify && self.stored.is_none();
                let signal = SignalAt { notify, ..signal };
                self.plain(backend, queue, id, &Own::Signal(signal, value))
            }
            Command::Timestamp(signal) => self.plain(backend, queue, id, &Own::Timestamp(signal)),
            Command::Write(address, value, width) => {
                self.plain(backend, queue, id, &Own::Write(address, value, width))?;
                if queue.at.engine == Engine::Copy {
                    return Ok(());
                }
                // Kernels behind it begin when the number is in memory, and look there.
                let halves = match (width, value) {
                    (WriteWidth::W32, value) => [Some(value), None],
                    (WriteWidth::W64, Value::Imm(v)) => {
                        [Some((v & 0xffff_ffff).into()), Some((v >> 32).into())]
                    }
                    (WriteWidth::W64, Value::Var(_)) => {
                        return Err(RecordError::Unsupported {
                            operand: Operand::Data,
                        });
                    }
                };
                for (at, half) in [0u64, 4].into_iter().zip(halves) {
                    if let Some(half) = half {
                        let there = Own::PollBit(address + at, u32::MAX, half);
                        self.plain(backend, queue, id, &there)?;
                    }
                }
                self.plain(backend, queue, id, &Own::Barrier)
            }
            Command::Copy {
                destination,
                source,
                bytes,
            } => {
                let copy = Own::Copy {
                    destination,
                    source,
                    bytes,
                };
                self.plain(backend, queue, id, &copy)
            }
            Command::Exec(mut launch) => {
                let grid = Grid {
                    groups: launch.groups,
                    local: launch.local,
                    local_memory: launch.local_memory,
                };
                let exec = Own::Exec(Exec {
                    program: &launch.program.prepared,
                    args: launch.args,
                    grid: &grid,
                });
                let block = launch.kernargs.reborrow();
                self.exec(backend, queue, id, &exec, block)?;
                self.cut(queue);
                Ok(())
            }
        }
    }

    fn finish<'m>(&self, queue: Self::Queue<'m>) -> QueueMemory<'m> {
        queue.memory
    }
}

impl Drivers<'_> {
    /// A command with no argument block; what its engine reads beside the words goes beside them.
    fn plain(
        &self,
        backend: &dyn Backend,
        queue: &mut Queue<'_>,
        id: QueueId,
        command: &Own<'_>,
    ) -> Result<(), RecordError> {
        match backend.beside(id.kind) {
            // What is beside the words are launch descriptors.
            0 => self.with_descriptors(backend, queue, (id, 0), command, None)?,
            bytes => {
                let at = queue.at;
                let memory = &mut queue.memory;
                let start = memory
                    .beside
                    .used
                    .checked_next_multiple_of(ALIGN)
                    .ok_or(BuildError::TooMany)?;
                let need = start.checked_add(bytes).ok_or(BuildError::TooMany)?;
                let have = memory.beside.region.len();
                // The block borrows the region while the recorder is used: take it out for that time.
                let mut region = std::mem::replace(&mut memory.beside.region, no_memory());
                let block = Block::new(&mut region, memory.beside.id, start, bytes)
                    .map_err(|_| RecordError::KernargsTooSmall { need, have });
                let block = block.map(|block| match memory.beside.address {
                    hcq_nostd::value::Value::Var(of) => block.based_on(of.var),
                    hcq_nostd::value::Value::Imm(_) => block,
                });
                let mut before = Before::Nothing;
                let descriptors = Descriptors {
                    memory: no_memory(),
                    id: memory.beside.id,
                    at: 0,
                    before: &mut before,
                    stored: self.stored(at, memory),
                };
                let done = block.and_then(|block| {
                    self.record_with(backend, memory, (id, at), command, Some(block), descriptors)
                });
                memory.beside.region = region;
                done?;
                memory.beside.used = need;
            }
        }
        self.cut(queue);
        Ok(())
    }

    /// A launch: its descriptor, if it has one, goes beside the words.
    fn exec(
        &self,
        backend: &dyn Backend,
        queue: &mut Queue<'_>,
        id: QueueId,
        command: &Own<'_>,
        block: Block<'_, '_>,
    ) -> Result<(), RecordError> {
        let beside = &queue.memory.beside;
        let (at, end) = match backend.descriptor() {
            0 => (0, beside.used),
            bytes => {
                let at = beside.used.checked_next_multiple_of(Descriptors::ALIGN);
                let at = at.ok_or(BuildError::TooMany)?;
                let end = at
                    .checked_add(bytes)
                    .and_then(|end| end.checked_next_multiple_of(Descriptors::ALIGN));
                (at, end.ok_or(BuildError::TooMany)?)
            }
        };
        let have = beside.region.len();
        if end > have {
            return Err(RecordError::KernargsTooSmall { need: end, have });
        }
        self.with_descriptors(backend, queue, (id, at), command, Some(block))?;
        queue.memory.beside.used = end;
        Ok(())
    }

    /// A command that may go into the last launch's descriptor; its own, if it is a launch, is at this offset.
    fn with_descriptors(
        &self,
        backend: &dyn Backend,
        queue: &mut Queue<'_>,
        (id, at): (QueueId, usize),
        command: &Own<'_>,
        block: Option<Block<'_, '_>>,
    ) -> Result<(), RecordError> {
        let of = (id, queue.at);
        let memory = &mut queue.memory;
        let mut region = std::mem::replace(&mut memory.beside.region, no_memory());
        // What a command that fails later has changed is put back.
        let last = queue.before.descriptor();
        let mut kept = [0; DESCRIPTOR];
        let bytes = backend.descriptor();
        if let (Some(last), Some(kept)) = (last, kept.get_mut(..bytes)) {
            let lost = |_| RecordError::KernargsTooSmall {
                need: last,
                have: 0,
            };
            region.read(last, kept).map_err(lost)?;
        }
        let mut before = queue.before;
        let descriptors = Descriptors {
            memory: region.reborrow(),
            id: memory.beside.id,
            at,
            before: &mut before,
            stored: self.stored(queue.at, memory),
        };
        let done = self.record_with(backend, memory, of, command, block, descriptors);
        match (&done, last) {
            (Ok(()), _) => queue.before = before,
            (Err(_), Some(last)) => {
                // It was read from there.
                let _ = region.write(last, kept.get(..bytes).unwrap_or_default());
            }
            (Err(_), None) => {}
        }
        memory.beside.region = region;
        done
    }

    /// Encodes into scratch memory, and moves words and sites to where they belong.
    fn record_with(
        &self,
        backend: &dyn Backend,
        memory: &mut QueueMemory<'_>,
        (id, at): (QueueId, QueueAt),
        command: &Own<'_>,
        mut block: Option<Block<'_, '_>>,
        descriptors: Descriptors<'_>,
    ) -> Result<(), RecordError> {
        let Descriptors {
            memory: mut of_launches,
            id: launches,
            at: own,
            before,
            stored,
        } = descriptors;
        let first = *before;
        let mut scratch = self.scratch.borrow_mut();
        let Scratch { words, sites } = &mut *scratch;
        let vars = memory.list().vars();
        let mut derived = [Derived::EMPTY; DERIVED];
        let (count, made) = loop {
            let list = PatchList::resume(sites, &mut derived, PatchRoom::default(), vars)?;
            let block = block.as_mut().map(Block::reborrow);
            *before = first;
            let descriptors = Descriptors {
                memory: of_launches.reborrow(),
                id: launches,
                at: own,
                before: &mut *before,
                stored,
            };
            let need = match backend.encode_behind(id, command, block, descriptors, words, list) {
                Ok((count, list)) => break (count, list.used()),
                Err(RecordError::NoRoom(need)) => need,
                Err(e) => return Err(e),
            };
            if need.words <= words.len() && need.sites <= sites.len() {
                return Err(RecordError::NoRoom(need));
            }
            words.resize(need.words.max(words.len()), 0);
            sites.resize(need.sites.max(sites.len()), Site::EMPTY);
        };
        let own = RegionId(u16::try_from(at.queue).map_err(|_| BuildError::TooMany)?);
        let base = u32::try_from(memory.recorder.used().words.saturating_mul(4))
            .map_err(|_| BuildError::TooMany)?;
        let words = words.get(..count).unwrap_or_default();
        let filed = sites.get(..made.sites).unwrap_or(sites);
        let derived = derived.get(..made.derived).unwrap_or_default();
        memory.recorder.command(|c| {
            c.words(words);
            // Derived variables get their numbers here: another command may have made the same ones already.
            let mut moved = [Var::new(0); DERIVED];
            for (n, one) in derived.iter().enumerate() {
                let (before, rest) = moved.split_at_mut(n);
                if let Some(to) = rest.first_mut() {
                    *to = c.list().derive(one.renumbered(vars, before))?;
                }
            }
            for site in filed {
                let Some(mut formula) = site.formula() else {
                    continue;
                };
                if let Some(n) = formula.of.var.index().checked_sub(vars) {
                    let var = moved
                        .get(n as usize)
                        .filter(|_| (n as usize) < made.derived);
                    let var = *var.ok_or(BuildError::TooMany)?;
                    formula.of = Affine { var, ..formula.of };
                }
                // Backends count the words as region 0, which is the first queue's here.
                let (region, offset) = match site.place() {
                    (RegionId(0), offset) => (own, offset.saturating_add(base)),
                    other => other,
                };
                c.list().site(region, offset, &formula);
            }
            Ok(())
        })?;
        Ok(())
    }

    /// Notes a place where long words can be cut: where the next piece is aligned for every engine.
    fn cut(&self, queue: &Queue<'_>) {
        let len = queue.memory.recorder.used().words;
        if len - queue.last.get() >= PIECE && len.is_multiple_of(8) {
            queue.last.set(len);
            if let Some(cuts) = self.cuts.borrow_mut().get_mut(queue.at.queue as usize) {
                cuts.push(len);
            }
        }
    }
}
