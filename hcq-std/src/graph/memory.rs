//! An instance: a graph recorded for memory of its own.
#![allow(
    unsafe_code,
    reason = "makes regions of memory that it owns, and keeps who borrows them"
)]

use std::any::Any;
use std::sync::Arc;

use hcq_nostd::args::Arg;
use hcq_nostd::graph::{
    self, DeviceRecord, Graph as Core, Instance, InstanceMemory, Kernel, Node, Place, QueueRecord,
    Records, Scratch, Spec, WorkRecord,
};
use hcq_nostd::mem::{Region, SharedWords};
use hcq_nostd::patch::{Derived, PatchList, Site};
use hcq_nostd::queue::SignalAt;
use hcq_nostd::timeline::Point;
use hcq_nostd::value::{Value, Var};

use super::builder::{GraphBuilder, OwnedArg, What};
use super::encode::{Drivers, Program};
use super::layout::{Layout, Places};
use super::plan::{GraphPlan, kind};
use super::shared::{elsewhere, signals, stage};
use crate::Error;
use crate::backend::{Command, Piece, Prepared, QueueId};
use crate::heap::Allocation;
use crate::inner::Inner;
use crate::lent::Lent;

/// How a queue is submitted.
pub(super) enum Submission {
    /// Words in device memory, and those that run them.
    Launch { words: Vec<u32>, pieces: Vec<Piece> },
    /// Words that go into the ring each time; whether they are those of the queue's region.
    Words { staged: Vec<u32>, current: bool },
}

/// A queue of an instance.
pub(super) struct Feed {
    pub(super) id: QueueId,
    pub(super) submission: Submission,
    /// Words behind them in the ring that wake hosts, if those of the graph do not.
    pub(super) end: Box<[u32]>,
}

/// A graph in memory.
pub(super) struct Home {
    pub(super) instance: Instance<'static>,
    /// By the graph's queues; those that are not used have no words.
    pub(super) feeds: Vec<Feed>,
    /// Where each device sees the signals.
    pub(super) signals_at: Vec<u64>,
    /// The signals, to let go of those who wait for a device that is in error.
    pub(super) signals: SharedWords<'static>,
    _memory: Memory,
    // What the instance borrows; dropped after it.
    _regions: Lent<Region<'static>>,
    _state: Lent<u64>,
    _points: Lent<Point>,
    _kept: Box<dyn Any + Send + Sync>,
    /// Words of queues that the host puts into rings.
    _host: Vec<Lent<u64>>,
}

/// Memory of an instance that devices see. It goes when nothing in flight uses it, by the devices' own timelines.
struct Memory {
    _blocks: Vec<Arc<Allocation>>,
    /// The signals, as each device sees them; the first is the one that they are in.
    _signals: Vec<Arc<Allocation>>,
    _stage: Vec<Arc<Allocation>>,
}

struct Kept {
    _devices: Lent<DeviceRecord>,
    _queues: Lent<QueueRecord>,
    _works: Lent<WorkRecord>,
    _edges: Lent<u32>,
    _words: Lent<u32>,
    _blocks: Lent<u64>,
    _table: Lent<u64>,
}

fn graph_error(e: graph::GraphError) -> Error {
    Error::Graph {
        reason: e.to_string(),
    }
}

/// What is recorded for every instance alike.
pub(super) struct Recipe<'a> {
    builder: &'a GraphBuilder,
    plan: &'a GraphPlan,
    programs: Vec<Option<Program>>,
    args: Vec<Vec<Arg<'a>>>,
    /// Addresses of all bases, if they are numbers or variables whatever the instance.
    addresses: Vec<Value>,
    variables: u32,
    /// For each device, where what it has for itself lies, in graphs that are stored.
    own: Vec<Option<Var>>,
    largest_block: usize,
}

/// What is made of a recording: places for the regions that were measured, and the graph.
type Placing<'p> = dyn FnMut(&Records<'static>, &graph::Sizes) -> Result<Places, Error> + 'p;

impl<'a> Recipe<'a> {
    /// For instances in memory that is there when they are recorded.
    pub(super) fn new(builder: &'a GraphBuilder, plan: &'a GraphPlan) -> Result<Self, Error> {
        let mut addresses: Vec<Value> = Vec::new();
        for base in &builder.bases {
            let input = base.input.and_then(|i| builder.inputs.get(i));
            addresses.push(match input {
                Some(input) => input.var.into(),
                None => base.memory.address().into(),
            });
        }
        let variables = u32::try_from(builder.values.len()).unwrap_or(u32::MAX);
        let own = |prepared: &Prepared, _| Some(Arc::clone(prepared));
        let recipe = Self::with(builder, plan, addresses, (variables, Vec::new()), own)?;
        recipe.make_ready()?;
        Ok(recipe)
    }

    /// For any place: a variable for each base and one for what copies go through, a program for each kernel, and how many
    /// variables there are, with those of what devices have for themselves.
    pub(super) fn anywhere(
        builder: &'a GraphBuilder,
        plan: &'a GraphPlan,
        bases: &[Var],
        programs: &[Option<Prepared>],
        variables: (u32, Vec<Option<Var>>),
    ) -> Result<Self, Error> {
        let mut addresses: Vec<Value> = bases.iter().map(|&b| b.into()).collect();
        for input in &builder.inputs {
            if let Some(to) = addresses.get_mut(input.base as usize) {
                *to = input.var.into();
            }
        }
        let program = |_: &Prepared, n: usize| programs.get(n).cloned().flatten();
        Self::with(builder, plan, addresses, variables, program)
    }

    fn with(
        builder: &'a GraphBuilder,
        plan: &'a GraphPlan,
        addresses: Vec<Value>,
        (variables, own): (u32, Vec<Option<Var>>),
        program: impl Fn(&Prepared, usize) -> Option<Prepared>,
    ) -> Result<Self, Error> {
        let (mut programs, mut args, mut largest_block) = (Vec::new(), Vec::new(), 0);
        for (node, draft) in builder.drafts.iter().enumerate() {
            let What::Exec {
                kernel,
                program: known,
                args: owned,
                ..
            } = &draft.what
            else {
                programs.push(None);
                args.push(Vec::new());
                continue;
            };
            let heap = &kernel.kernel.heap;
            let device = builder
                .devices
                .iter()
                .position(|d| Arc::ptr_eq(&d.heap, heap));
            let device = device.ok_or(Error::OtherDevice { what: "kernel" })?;
            let core: Vec<Arg<'a>> = owned.iter().map(|a| argument(&addresses, a)).collect();
            let prepared = program(known, node);
            let prepared = prepared.ok_or(Error::Internal("a kernel has no program"))?;
            if let Some(d) = builder.devices.get(device) {
                let block = d.backend.kernargs(&prepared, &core);
                let (bytes, align) = block.map_err(Error::record("exec"))?;
                largest_block = largest_block.max(bytes.max(align));
            }
            programs.push(Some(Program { device, prepared }));
            args.push(core);
        }
        Ok(Self {
            builder,
            plan,
            programs,
            args,
            addresses,
            variables,
            own,
            largest_block,
        })
    }

    /// Sees to what programs need on the queues that they are planned on.
    fn make_ready(&self) -> Result<(), Error> {
        let queues: Vec<_> = self.plan.plan.queues().collect();
        for n in 0..self.plan.plan.works() {
            let work = u32::try_from(n).ok().and_then(|n| self.plan.plan.work(n));
            let Some(work) = work else { continue };
            let draft = self.builder.drafts.get(work.task as usize);
            let Some(What::Exec { kernel, .. }) = draft.map(|d| &d.what) else {
                continue;
            };
            let queue = queues.get(work.queue as usize);
            let device = queue.and_then(|q| self.builder.devices.get(usize::from(q.device)));
            if let (true, Some(queue), Some(device)) = (kernel.kernel.has_needs, queue, device) {
                let id = QueueId {
                    kind: kind(queue.engine),
                    index: usize::from(queue.index),
                };
                device.make_ready(&kernel.kernel.program, id)?;
            }
        }
        Ok(())
    }

    fn nodes(&self) -> Vec<Node<'_, Program>> {
        let parts = self.programs.iter().zip(&self.args);
        let all = self.builder.drafts.iter().zip(parts);
        all.map(|(draft, (program, args))| match (&draft.what, program) {
            (What::Exec { grid, .. }, Some(program)) => Node::Exec(Kernel {
                program,
                args,
                groups: grid.groups,
                local: grid.local,
                local_memory: grid.local_memory,
            }),
            (What::Write(value), _) => Node::Write(*value),
            _ => Node::Copy,
        })
        .collect()
    }

    /// Records the graph for memory of a new instance.
    pub(super) fn instance(&self) -> Result<Home, Error> {
        let (plan, devices) = (self.plan, &self.builder.devices);
        let stage = stage(devices, plan.stage_bytes)?;
        let mut addresses = self.addresses.clone();
        let stage_at = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        addresses.push(stage.first().map_or(0, |s| s.address()).into());
        let mut found = None;
        let mut placing = |records: &Records<'static>, sizes: &graph::Sizes| {
            let signals = signals(devices, sizes.signals)?;
            let first = signals
                .first()
                .ok_or(Error::Internal("a graph has no device"))?;
            let layout = Layout::new(devices, records.queues, records.devices)?;
            let apart = elsewhere(&stage, Some(stage_at)).chain(elsewhere(&signals, None));
            let places = Places {
                signals: first.address(),
                seen: apart.collect(),
                ..layout.places(records)
            };
            found = Some((signals, layout));
            Ok(places)
        };
        let (core, kept, drivers) = self.record(&addresses, Some(&mut placing))?;
        let (signals, layout) = found.ok_or(Error::Internal("a graph has no place"))?;
        let cuts = |queue| drivers.cuts(queue);
        Home::new(
            core,
            Box::new(kept),
            layout,
            (signals, stage),
            &cuts,
            devices,
        )
    }

    /// Records the graph for any place, and gives it to be looked at.
    pub(super) fn recorded<R>(
        &self,
        look: impl FnOnce(&Core<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let (core, _kept, _) = self.record(&self.addresses, None)?;
        look(&core)
    }

    /// Plans become words: for the places that are given once it is known how much there is, or for any place.
    fn record<'s>(
        &'s self,
        addresses: &[Value],
        placing: Option<&mut Placing<'_>>,
    ) -> Result<(Core<'static>, Kept, Drivers<'s>), Error> {
        let plan = self.plan;
        let devices: &'s [Arc<Inner>] = &self.builder.devices;
        let queues = plan.plan.queues().len();
        let stored = placing.is_none().then_some(&*self.own);
        let drivers = Drivers::new(devices, queues, stored);
        let nodes = self.nodes();
        let edges = plan.plan.explain().len();
        let mut devices_of = Lent::new(DeviceRecord::EMPTY, devices.len());
        let mut queues_of = Lent::new(QueueRecord::EMPTY, queues);
        let mut works_of = Lent::new(WorkRecord::EMPTY, plan.plan.works());
        let mut edges_of = Lent::new(0u32, edges);
        // SAFETY: lent once, like those below; who borrows it is dropped before it: on the way out of this function by the
        // order of declaration, and by who is given both.
        let devices_lent = unsafe { devices_of.lend() };
        // SAFETY: as above.
        let queues_lent = unsafe { queues_of.lend() };
        // SAFETY: as above.
        let works_lent = unsafe { works_of.lend() };
        // SAFETY: as above.
        let edges_lent = unsafe { edges_of.lend() };
        let mut records = Records {
            devices: devices_lent,
            queues: queues_lent,
            works: works_lent,
            edges: edges_lent,
        };
        plan.with_problem(|problem| {
            let spec = |place, seen| Spec {
                problem,
                addresses,
                nodes: &nodes,
                variables: self.variables,
                place,
                seen,
            };
            let trial = Places::trial(queues, devices.len());
            let trial = trial.addresses();
            let place = match placing {
                Some(_) => Place::At(&trial),
                None => Place::Anywhere,
            };
            let measured = self.measure(&spec(place, &[]), &drivers, &mut records)?;
            let places = match placing {
                Some(placing) => Some(placing(&records, &measured)?),
                None => None,
            };
            let mut words = Lent::new(0u32, measured.words);
            let mut blocks = Lent::new(0u64, measured.blocks);
            let mut sites = vec![Site::EMPTY; measured.sites];
            let mut derived = vec![Derived::EMPTY; measured.derived];
            let at = places.as_ref().map(Places::addresses);
            let place = at.as_ref().map_or(Place::Anywhere, Place::At);
            let seen = places.as_ref().map_or(&[][..], |p| &p.seen);
            // SAFETY: as above.
            let words_lent = unsafe { words.lend() };
            // SAFETY: as above.
            let blocks_lent = unsafe { blocks.lend() };
            let memory = (words_lent, blocks_lent);
            let kept = (&mut sites[..], &mut derived[..]);
            let (made, steps) = (&plan.plan, &plan.steps);
            let recorded = graph::record(
                &spec(place, seen),
                made,
                steps,
                &drivers,
                records,
                memory,
                kept,
            );
            let mut recorded = recorded.map_err(graph_error)?;
            let mut sizes = vec![0; measured.regions];
            let need = recorded.table_words(&mut sizes).map_err(graph_error)?;
            let mut table = Lent::new(0u64, need);
            // SAFETY: as above.
            let lent = unsafe { table.lend() };
            let core = recorded.build(&mut sizes, lent).map_err(graph_error)?;
            let records = Kept {
                _devices: devices_of,
                _queues: queues_of,
                _works: works_of,
                _edges: edges_of,
                _words: words,
                _blocks: blocks,
                _table: table,
            };
            Ok((core, records))
        })
        .map(|(core, kept)| (core, kept, drivers))
    }

    /// Counts, with as much scratch memory as a command takes.
    fn measure(
        &self,
        spec: &Spec<'_, Program>,
        drivers: &Drivers<'_>,
        records: &mut Records<'static>,
    ) -> Result<graph::Sizes, Error> {
        let arguments = self.args.iter().map(Vec::len).max().unwrap_or(0);
        // A number written by a compute queue is four commands, with something beside each.
        let half = self.largest_block.max(4096).div_ceil(8) + 8;
        let mut sites = vec![Site::EMPTY; 64 + 4 * arguments];
        let mut derived = vec![Derived::EMPTY; 16];
        let mut words = vec![0; 4096];
        let mut blocks = vec![0; 2 * half];
        loop {
            let mut scratch = Scratch {
                sites: &mut sites,
                derived: &mut derived,
                words: &mut words,
                blocks: &mut blocks,
            };
            let (plan, steps) = (&self.plan.plan, &self.plan.steps);
            match graph::measure(spec, plan, steps, drivers, records, &mut scratch) {
                Ok(sizes) => return Ok(sizes),
                Err(graph::GraphError::Record {
                    error: hcq_nostd::record::RecordError::NoRoom(need),
                    ..
                }) if need.words > words.len() || need.sites > sites.len() => {
                    words.resize(words.len().max(need.words), 0);
                    sites.resize(sites.len().max(need.sites), Site::EMPTY);
                }
                Err(e) => return Err(graph_error(e)),
            }
        }
    }
}

/// Words that wake a device's hosts, by way of a signal that nobody waits for.
fn wake(device: &Arc<Inner>, id: QueueId, spare: u64) -> Result<Box<[u32]>, Error> {
    let signal = SignalAt {
        address: spare.into(),
        notify: true,
    };
    let mut words = [0; 256];
    let command = Command::Signal(signal, 1u64.into());
    let list = PatchList::none();
    let encoded = device.backend.encode(id, &command, None, &mut words, list);
    let (n, _) = encoded.map_err(Error::record("signal"))?;
    Ok(words.get(..n).unwrap_or_default().into())
}

pub(super) fn argument<'a>(addresses: &[Value], arg: &'a OwnedArg) -> Arg<'a> {
    match arg {
        OwnedArg::Bytes { base, offset } => {
            let address = addresses.get(*base as usize);
            Arg::Buffer(address.copied().unwrap_or(Value::from(0u64)) + *offset)
        }
        OwnedArg::Scalar { value, size } => Arg::Scalar {
            value: *value,
            size: *size,
        },
        OwnedArg::Block(bytes) => Arg::Bytes(bytes),
    }
}

impl Home {
    /// Whether a launch failed when some queues had been submitted.
    pub(super) fn is_stuck(&self) -> bool {
        self.instance.is_stuck()
    }

    /// Queues wait on the signals of a launch that got stuck, for ever or until a recovery: then everything of it stays.
    pub(super) fn leave(&mut self) {
        if self.is_stuck() {
            let none = Memory {
                _blocks: Vec::new(),
                _signals: Vec::new(),
                _stage: Vec::new(),
            };
            std::mem::forget(std::mem::replace(&mut self._memory, none));
        }
    }

    /// Puts a graph into memory; `kept` is what it borrows, and `cuts` where a queue's words can be cut.
    pub(super) fn new(
        core: Core<'static>,
        kept: Box<dyn Any + Send + Sync>,
        layout: Layout,
        (signals, stage): (Vec<Arc<Allocation>>, Vec<Arc<Allocation>>),
        cuts: &dyn Fn(usize) -> Vec<usize>,
        devices: &[Arc<Inner>],
    ) -> Result<Self, Error> {
        let broken = |_| Error::Internal("a graph does not fit its memory");
        let mut host = Vec::new();
        // One region for each block, cut into parts from the front.
        let mut rest: Vec<(usize, Option<Region<'static>>)> = Vec::new();
        for block in &layout.blocks {
            // SAFETY: `Memory` holds the allocation as long as these regions, and is dropped after the instance that has
            // them. The instance alone stores to it, when nothing of it is in flight (M2).
            rest.push((0, block.as_ref().map(|b| unsafe { b.region() })));
        }
        let mut regions = Vec::new();
        for part in &layout.parts {
            if part.host || part.bytes == 0 {
                let mut memory = Lent::new(0u64, part.bytes.div_ceil(8));
                // SAFETY: lent once; `host` is dropped after the instance.
                regions.push(Region::from_words(unsafe { memory.lend() }, 0));
                host.push(memory);
                continue;
            }
            let none = || Error::Internal("a graph's region has no block");
            let (start, slot) = rest.get_mut(part.device).ok_or_else(none)?;
            let region = slot.take().ok_or_else(none)?;
            let skip = part.offset.checked_sub(*start).ok_or_else(none)?;
            let (_, region) = region.split_at(skip).map_err(broken)?;
            let (region, after) = region.split_at(part.bytes).map_err(broken)?;
            *start = part.offset + part.bytes;
            *slot = Some(after);
            regions.push(region);
        }
        let mut regions = Lent::of(regions);
        let mut state = Lent::new(0u64, core.state_words());
        let mut points = Lent::new(Point::ZERO, core.devices().len());
        let first = signals
            .first()
            .ok_or(Error::Internal("a graph has no device"))?;
        let shared: SharedWords<'static> = crate::signal::shared_words(first)?;
        // SAFETY: lent once; the instance is dropped before it, by the order of the fields.
        let regions_lent = unsafe { regions.lend() };
        // SAFETY: as above.
        let state_lent = unsafe { state.lend() };
        // SAFETY: as above.
        let points_lent = unsafe { points.lend() };
        let memory = InstanceMemory {
            regions: regions_lent,
            signals: shared,
            state: state_lent,
            points: points_lent,
        };
        let instance = core.bind(memory).map_err(|e| Error::Graph {
            reason: e.to_string(),
        })?;
        let mut instance = instance;
        if core.is_relocatable() {
            for (device, seen) in (0u16..).zip(&signals) {
                let set = instance.set_signals_address(device, seen.address());
                set.map_err(Error::Launch)?;
            }
        }
        let mut feeds = Vec::new();
        for (n, queue) in core.queues().iter().enumerate() {
            let id = QueueId {
                kind: kind(queue.engine()),
                index: usize::from(queue.index()),
            };
            let device = devices.get(usize::from(queue.device()));
            let device = device.ok_or(Error::Internal("a queue has no device"))?;
            let part = layout.parts.get(n);
            let part = part.ok_or(Error::Internal("a queue has no words"))?;
            let words = queue.words() as usize;
            let submission = if part.host {
                if device
                    .backend
                    .largest_part(id.kind)
                    .is_some_and(|most| words > most)
                {
                    return Err(Error::TooLarge {
                        what: "words of a graph's queue whose engine takes them from its ring only \
                               (Options::ring_packets makes rings larger)",
                        size: words as u64,
                        most: device.backend.largest_part(id.kind).unwrap_or(0) as u64,
                    });
                }
                Submission::Words {
                    staged: vec![0; words],
                    current: false,
                }
            } else {
                let pieces = pieces(layout.address(part), words, &cuts(n));
                Submission::Launch {
                    words: device.encode_launch(id, &pieces)?,
                    pieces,
                }
            };
            let mut queues = core.queues().iter();
            let home = queues.position(|q| q.device() == queue.device() && q.words() > 0);
            let end = if core.is_relocatable() && home == Some(n) {
                let seen = signals.get(usize::from(queue.device())).unwrap_or(first);
                let spare = seen.address() + 16 * core.signal_slots() as u64;
                wake(device, id, spare)?
            } else {
                Box::default()
            };
            feeds.push(Feed {
                id,
                submission,
                end,
            });
        }
        Ok(Self {
            instance,
            feeds,
            signals: shared,
            signals_at: signals.iter().map(|s| s.address()).collect(),
            _memory: Memory {
                _blocks: layout.blocks.into_iter().flatten().collect(),
                _signals: signals,
                _stage: stage,
            },
            _regions: regions,
            _state: state,
            _points: points,
            _kept: kept,
            _host: host,
        })
    }
}

/// The words as pieces that one command can run each.
fn pieces(address: u64, words: usize, cuts: &[usize]) -> Vec<Piece> {
    let mut start = 0;
    let ends = cuts.iter().copied().chain([words]);
    ends.filter_map(|end| {
        let words = end.checked_sub(start).filter(|&n| n > 0)?;
        let address = address + 4 * start as u64;
        start = end;
        Some(Piece { address, words })
    })
    .collect()
}
