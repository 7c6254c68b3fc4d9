//! Steps become commands.

use super::build::Records;
use super::encode::{Beside, Command, Encode, QueueAt, QueueMemory};
use super::error::{GraphError, Memory};
use super::view::{
    DeviceRecord, Of, PER_DEVICE, PROCESSOR, QueueRecord, TAKES_PART, Vars, beside_region,
    kernargs_region, slot, words_region,
};
use super::{Addresses, Kernel, Node, Place, Spec};
use crate::mem::Region;
use crate::patch::PatchList;
use crate::plan::{Action, Engine, Part, Plan, Signal, Step, Work};
use crate::queue::{Launch, SignalAt, WriteWidth};
use crate::record::{Block, RecordError, Recorder};
use crate::value::{Value, Var};

/// What the steps of one graph are turned into commands with.
pub(super) struct Source<'a, 'p, 's, E: Encode> {
    pub(super) spec: &'a Spec<'p, E::Program>,
    pub(super) plan: &'a Plan<'s>,
    pub(super) encode: &'a E,
    pub(super) vars: Vars,
    pub(super) kickoffs: u32,
}

/// Where a queue is recorded, besides its words.
pub(super) struct Around<'r, 'm> {
    pub(super) at: QueueAt,
    pub(super) kernargs: &'r mut Region<'m>,
    /// The kernargs' device address, if it is a variable.
    pub(super) base: Option<Var>,
    /// Bytes of argument blocks taken so far by the device.
    pub(super) cursor: &'r mut usize,
    /// The largest alignment so far.
    pub(super) align: &'r mut usize,
    /// Measuring: blocks are at the start of the scratch, and their places only counted.
    pub(super) measure: bool,
}

pub(super) fn short(what: Memory, need: usize, have: usize) -> Result<(), GraphError> {
    if have < need {
        return Err(GraphError::Short { what, need, have });
    }
    Ok(())
}

pub(super) enum StepError {
    Record(RecordError),
    Graph(GraphError),
}

impl From<RecordError> for StepError {
    fn from(e: RecordError) -> Self {
        Self::Record(e)
    }
}

impl From<GraphError> for StepError {
    fn from(e: GraphError) -> Self {
        Self::Graph(e)
    }
}

impl<'a, 'p, 's, E: Encode> Source<'a, 'p, 's, E> {
    /// Checks that there is one of everything for everything.
    pub(super) fn new(
        spec: &'a Spec<'p, E::Program>,
        plan: &'a Plan<'s>,
        encode: &'a E,
        records: &Records<'_>,
    ) -> Result<Self, GraphError> {
        let (devices, queues) = (spec.problem.devices.len(), plan.queues().len());
        short(Memory::Nodes, spec.problem.tasks.len(), spec.nodes.len())?;
        let allocations = spec.problem.allocations.len();
        short(Memory::Addresses, allocations, spec.addresses.len())?;
        short(Memory::Devices, devices, records.devices.len())?;
        short(Memory::Queues, queues, records.queues.len())?;
        if let Place::At(a) = spec.place {
            short(Memory::Places, queues, a.words.len())?;
            short(Memory::Places, queues, a.beside.len())?;
            short(Memory::Places, devices, a.kernargs.len())?;
        }
        let groups = spec.problem.devices.iter().enumerate();
        let firsts = groups.filter(|(i, d)| {
            let before = spec.problem.devices.iter().take(*i);
            !before.clone().any(|b| b.group == d.group)
        });
        let kickoffs = u32::try_from(firsts.count()).map_err(|_| GraphError::TooMany)?;
        Ok(Self {
            spec,
            plan,
            encode,
            vars: Vars {
                variables: spec.variables,
                devices,
                queues,
                relocatable: matches!(spec.place, Place::Anywhere),
            },
            kickoffs,
        })
    }

    pub(super) const fn known_place(&self) -> bool {
        matches!(self.spec.place, Place::At(_))
    }

    /// Where a device's argument blocks will be, if that is a variable.
    pub(super) fn kernargs_base(&self, device: u16) -> Option<Var> {
        let region = self.vars.queues.saturating_add(usize::from(device));
        self.vars.region(region).filter(|_| !self.known_place())
    }

    /// Signal slots in all.
    pub(super) fn slots(&self) -> Option<usize> {
        let own = self.plan.signals().checked_add(self.kickoffs)?;
        usize::try_from(own.checked_add(self.plan.timestamps())?).ok()
    }

    /// The number of a peer group's kickoff.
    fn kickoff(&self, group: u16) -> u32 {
        let mut n = 0;
        for (i, d) in self.spec.problem.devices.iter().enumerate() {
            let mut before = self.spec.problem.devices.iter().take(i);
            if before.any(|b| b.group == d.group) {
                continue;
            }
            if d.group == group {
                break;
            }
            n += 1;
        }
        n
    }

    /// All that records hold before anything is measured.
    pub(super) fn fill(&self, records: &mut Records<'_>) {
        let taking_part = |device: u16| {
            let mut all = self.plan.devices();
            all.any(|(d, used)| d == device && used)
        };
        for (device, (r, d)) in
            (0u16..).zip(records.devices.iter_mut().zip(self.spec.problem.devices))
        {
            let has_queues = d.compute.count > 0 || d.copy.count > 0;
            let part = if has_queues && taking_part(device) {
                TAKES_PART
            } else {
                0
            };
            *r = DeviceRecord {
                group: d.group,
                flags: part | if d.cpu { PROCESSOR } else { 0 },
                kickoff: self.kickoff(d.group),
                ..DeviceRecord::EMPTY
            };
        }
        for (r, q) in records.queues.iter_mut().zip(self.plan.queues()) {
            *r = QueueRecord {
                device: q.device,
                engine: u16::from(q.engine == Engine::Copy),
                index: q.index,
                ..QueueRecord::EMPTY
            };
        }
    }

    /// Where everything will be, as far as that is known.
    pub(super) fn set_addresses(&self, records: &mut Records<'_>) {
        let Place::At(a) = self.spec.place else {
            return;
        };
        for (d, address) in records.devices.iter_mut().zip(a.kernargs) {
            d.address = *address;
        }
        for (q, (words, beside)) in records.queues.iter_mut().zip(a.words.iter().zip(a.beside)) {
            (q.address, q.beside_address) = (*words, *beside);
        }
    }

    /// Where a device sees an allocation, or the signals, if not where all do.
    fn seen(&self, device: u16, allocation: Option<u32>) -> Option<u64> {
        let mut all = self.spec.seen.iter();
        all.find(|s| s.device == device && s.allocation == allocation)
            .map(|s| s.address)
    }

    fn signals_base(&self, device: u16) -> Result<Value, GraphError> {
        match self.spec.place {
            Place::At(a) => Ok(self.seen(device, None).unwrap_or(a.signals).into()),
            Place::Anywhere => {
                let var = self.vars.signals(device).ok_or(GraphError::TooMany)?;
                Ok(var.into())
            }
        }
    }

    pub(super) fn memory<'m>(
        &self,
        at: QueueAt,
        region: Region<'m>,
        words: &'m mut [u32],
        list: PatchList<'m>,
    ) -> Result<QueueMemory<'m>, GraphError> {
        let (queues, devices) = (self.vars.queues, self.vars.devices);
        let id = words_region(at.queue).ok_or(GraphError::TooMany)?;
        let beside = beside_region(queues, devices, at.queue).ok_or(GraphError::TooMany)?;
        let queue = at.queue as usize;
        let place =
            |region: usize, known: for<'x> fn(&Addresses<'x>) -> &'x [u64]| match self.spec.place {
                Place::At(a) => Some(known(a).get(queue).copied().unwrap_or(0).into()),
                Place::Anywhere => self.vars.region(region).map(Value::from),
            };
        let words_at = place(queue, |a| a.words).ok_or(GraphError::TooMany)?;
        let beside_at = queue.saturating_add(queues).saturating_add(devices);
        let address = place(beside_at, |a| a.beside).ok_or(GraphError::TooMany)?;
        Ok(QueueMemory {
            recorder: Recorder::in_region(words, list, id),
            words_at,
            beside: Beside {
                region,
                id: beside,
                address,
                used: 0,
            },
        })
    }

    pub(super) fn step(
        &self,
        queue: &mut E::Queue<'_>,
        around: &mut Around<'_, '_>,
        step: &Step,
    ) -> Result<(), StepError> {
        let device = around.at.device;
        let base = self.signals_base(device)?;
        let timeline = |device, of| {
            let var = self.vars.timeline(device, of);
            var.map(Value::from).ok_or(GraphError::TooMany)
        };
        let own = self.plan.signals();
        let command = match *step {
            Step::Barrier => Command::Barrier,
            Step::Wait { on, .. } => {
                let (address, value) = match on {
                    Signal::Queue { signal, value } => (slot(base, signal), value.into()),
                    Signal::Timeline { device } => (
                        timeline(device, Of::WaitAddress)?,
                        timeline(device, Of::WaitValue)?,
                    ),
                    Signal::Kickoff { group } => {
                        let index = own.saturating_add(self.kickoff(group));
                        (slot(base, index), 1u64.into())
                    }
                };
                Command::Wait(address.into(), value)
            }
            Step::Signal(Signal::Timeline { device }) => {
                let at = SignalAt {
                    address: timeline(device, Of::SignalAddress)?,
                    notify: true,
                };
                Command::Signal(at, timeline(device, Of::SignalValue)?)
            }
            Step::Signal(Signal::Queue { signal, value }) => {
                Command::Signal(slot(base, signal).into(), value.into())
            }
            // Groups are kicked off by the host.
            Step::Signal(Signal::Kickoff { .. }) => return Err(GraphError::Steps.into()),
            Step::Timestamp { slot: index } => {
                let first = own.saturating_add(self.kickoffs);
                Command::Timestamp(slot(base, first.saturating_add(index)).into())
            }
            Step::Work { work } => {
                let work = self.plan.work(work).ok_or(GraphError::Steps)?;
                return self.work(queue, around, &work);
            }
        };
        Ok(self.encode.command(queue, command)?)
    }

    fn work(
        &self,
        queue: &mut E::Queue<'_>,
        around: &mut Around<'_, '_>,
        work: &Work,
    ) -> Result<(), StepError> {
        let wrong = GraphError::Node { task: work.task };
        let task = self.spec.problem.tasks.get(work.task as usize);
        let node = self.spec.nodes.get(work.task as usize);
        let (Some(task), Some(node)) = (task, node) else {
            return Err(GraphError::Steps.into());
        };
        let device = around.at.device;
        let at = |allocation: u32, offset: u64| {
            let usual = || self.spec.addresses.get(allocation as usize).copied();
            let seen = self.seen(device, Some(allocation)).map(Value::from);
            seen.or_else(usual).map(|a| a + offset).ok_or(wrong)
        };
        let command = match (task.action, node, task.accesses) {
            (Action::Exec { .. }, Node::Exec(kernel), _) => {
                return self.exec(queue, around, work.task, kernel);
            }
            (Action::Copy, Node::Copy, [from, to]) => {
                let (from_at, to_at) = ((from.allocation, from.offset), (to.allocation, to.offset));
                let (source, destination) = match work.part {
                    Part::Whole => (from_at, to_at),
                    Part::IntoStage { allocation, offset } => (from_at, (allocation, offset)),
                    Part::OutOfStage { allocation, offset } => ((allocation, offset), to_at),
                };
                Command::Copy {
                    destination: at(destination.0, destination.1)?,
                    source: at(source.0, source.1)?,
                    bytes: from.len.into(),
                }
            }
            (Action::Write { .. }, Node::Write(value), [to, ..]) => {
                let width = match to.len {
                    4 => WriteWidth::W32,
                    8 => WriteWidth::W64,
                    _ => return Err(wrong.into()),
                };
                Command::Write(at(to.allocation, to.offset)?, *value, width)
            }
            _ => return Err(wrong.into()),
        };
        Ok(self.encode.command(queue, command)?)
    }

    fn exec(
        &self,
        queue: &mut E::Queue<'_>,
        around: &mut Around<'_, '_>,
        task: u32,
        kernel: &Kernel<'_, E::Program>,
    ) -> Result<(), StepError> {
        let (bytes, align) = self.encode.kernargs(kernel.program, kernel.args)?;
        if !align.is_power_of_two() || align > 1 << 16 {
            return Err(GraphError::Alignment { task, align }.into());
        }
        // A block of its own for each node, and never two in one cache line of 16 bytes.
        let align = align.max(16);
        let first = around
            .cursor
            .checked_next_multiple_of(align)
            .ok_or(GraphError::TooMany)?;
        let end = first.checked_add(bytes).ok_or(GraphError::TooMany)?;
        let place = if around.measure { 0 } else { first };
        let region =
            kernargs_region(self.vars.queues, around.at.device).ok_or(GraphError::TooMany)?;
        let have = around.kernargs.len();
        let block = Block::new(around.kernargs, region, place, bytes)
            .map_err(|_| RecordError::KernargsTooSmall { need: bytes, have })?;
        let kernargs = match around.base {
            Some(base) => block.based_on(base),
            None => block,
        };
        self.encode.command(
            queue,
            Command::Exec(Launch {
                program: kernel.program,
                args: kernel.args,
                kernargs,
                groups: kernel.groups,
                local: kernel.local,
                local_memory: kernel.local_memory,
            }),
        )?;
        (*around.cursor, *around.align) = (end, (*around.align).max(align));
        Ok(())
    }
}

const _: () = assert!(PER_DEVICE == Of::SignalValue as u32 + 1);
