//! An instance: a graph recorded for memory of its own.
#![allow(
    unsafe_code,
    reason = "makes regions of memory that it owns, and keeps who borrows them"
)]

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use hcq_nostd::args::Arg;
use hcq_nostd::graph::{
    self, Addresses, DeviceRecord, Graph as Core, Instance, InstanceMemory, Kernel, Node, Place,
    QueueRecord, Records, Scratch, Spec, WorkRecord,
};
use hcq_nostd::mem::{Region, SharedWords};
use hcq_nostd::patch::{Derived, PatchList, Site};
use hcq_nostd::queue::SignalAt;
use hcq_nostd::timeline::Point;
use hcq_nostd::value::{Value, Var};

use super::builder::{GraphBuilder, OwnedArg, What};
use super::encode::{Drivers, Program};
use super::plan::{GraphPlan, kind, seen_by};
use crate::Error;
use crate::backend::{Command, Piece, Prepared, Purpose, QueueId};
use crate::heap::Allocation;
use crate::inner::Inner;
use crate::lent::Lent;

/// Alignment of a queue's words, of argument blocks and of what is beside queues.
const ALIGN: usize = 256;
const PAGE: usize = 4096;

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

/// Pages of the process, which several devices are told of.
struct Pages {
    start: NonNull<u8>,
    layout: std::alloc::Layout,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Pages {}
// SAFETY: a shared reference gives no access to it.
unsafe impl Sync for Pages {}

impl Pages {
    fn new(bytes: usize) -> Result<Arc<Self>, Error> {
        let size = bytes.max(1).next_multiple_of(PAGE);
        let none = Error::OutOfMemory {
            bytes: bytes as u64,
            errno: crate::seam::Errno::NOMEM,
        };
        let Ok(layout) = std::alloc::Layout::from_size_align(size, PAGE) else {
            return Err(none);
        };
        // SAFETY: at least a page.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        let start = NonNull::new(start).ok_or(none)?;
        Ok(Arc::new(Self { start, layout }))
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; the devices have forgotten it, since they keep it until then.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Memory that all devices see at one address: of one of them, or of the process.
fn common(
    devices: &[Arc<Inner>],
    bytes: usize,
    purpose: Purpose,
) -> Result<Vec<Arc<Allocation>>, Error> {
    if let [one] = devices {
        return Ok(vec![one.heap.allocate(bytes, purpose)?]);
    }
    // Processors see everybody's memory, and few see theirs as well as their own.
    for (n, owner) in devices.iter().enumerate() {
        let Ok(memory) = owner.heap.allocate(bytes, purpose) else {
            continue;
        };
        let others = devices.iter().enumerate().filter(|(o, _)| *o != n);
        let seen: Result<Vec<_>, Error> = others.map(|(_, d)| seen_by(&memory, d)).collect();
        if let Ok(seen) = seen {
            return Ok(std::iter::once(memory).chain(seen).collect());
        }
    }
    let pages = Pages::new(bytes)?;
    let adopt = |device: &Arc<Inner>| {
        let keep = Box::new(Arc::clone(&pages));
        let seen = device
            .heap
            .adopt(pages.start, pages.layout.size(), true, Some(keep))?;
        if seen.address() == pages.start.as_ptr().addr() as u64 {
            return Ok(seen);
        }
        Err(Error::Graph {
            reason: format!(
                "{} sees the process's memory at other addresses than the rest of the graph's devices",
                device.name
            ),
        })
    };
    devices.iter().map(adopt).collect()
}

/// Where everything of an instance is.
struct Places {
    words: Vec<u64>,
    kernargs: Vec<u64>,
    beside: Vec<u64>,
    signals: u64,
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
        let own = |kernel: &crate::program::Kernel, _| Some(Arc::clone(&kernel.kernel.program));
        let recipe = Self::with(builder, plan, addresses, variables, own)?;
        recipe.make_ready()?;
        Ok(recipe)
    }

    /// For any place: a variable for each base and one for what copies go through, and a program for each kernel.
    pub(super) fn anywhere(
        builder: &'a GraphBuilder,
        plan: &'a GraphPlan,
        bases: &[Var],
        programs: &[Option<Prepared>],
        variables: u32,
    ) -> Result<Self, Error> {
        let mut addresses: Vec<Value> = bases.iter().map(|&b| b.into()).collect();
        for input in &builder.inputs {
            if let Some(to) = addresses.get_mut(input.base as usize) {
                *to = input.var.into();
            }
        }
        let own = |_: &crate::program::Kernel, node: usize| programs.get(node).cloned().flatten();
        Self::with(builder, plan, addresses, variables, own)
    }

    fn with(
        builder: &'a GraphBuilder,
        plan: &'a GraphPlan,
        addresses: Vec<Value>,
        variables: u32,
        program: impl Fn(&crate::program::Kernel, usize) -> Option<Prepared>,
    ) -> Result<Self, Error> {
        let (mut programs, mut args, mut largest_block) = (Vec::new(), Vec::new(), 0);
        for (node, draft) in builder.drafts.iter().enumerate() {
            let What::Exec {
                kernel,
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
            let prepared = program(kernel, node);
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
        addresses.push(stage.first().map_or(0, |s| s.address()).into());
        let mut found = None;
        let mut placing = |records: &Records<'static>, sizes: &graph::Sizes| {
            let signals = signals(devices, sizes.signals)?;
            let first = signals
                .first()
                .ok_or(Error::Internal("a graph has no device"))?;
            let layout = Layout::new(devices, records.queues, records.devices)?;
            let places = Places {
                signals: first.address(),
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
    fn record(
        &self,
        addresses: &[Value],
        placing: Option<&mut Placing<'_>>,
    ) -> Result<(Core<'static>, Kept, Drivers<'a>), Error> {
        let plan = self.plan;
        let devices: &'a [Arc<Inner>] = &self.builder.devices;
        let queues = plan.plan.queues().len();
        let drivers = Drivers::new(devices, queues, placing.is_none());
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
            let spec = |place| Spec {
                problem,
                addresses,
                nodes: &nodes,
                variables: self.variables,
                place,
            };
            let trial = Places::trial(queues, devices.len());
            let trial = trial.addresses();
            let place = match placing {
                Some(_) => Place::At(&trial),
                None => Place::Anywhere,
            };
            let measured = self.measure(&spec(place), &drivers, &mut records)?;
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
            // SAFETY: as above.
            let words_lent = unsafe { words.lend() };
            // SAFETY: as above.
            let blocks_lent = unsafe { blocks.lend() };
            let memory = (words_lent, blocks_lent);
            let kept = (&mut sites[..], &mut derived[..]);
            let (made, steps) = (&plan.plan, &plan.steps);
            let recorded =
                graph::record(&spec(place), made, steps, &drivers, records, memory, kept);
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
        let half = self.largest_block.max(512).div_ceil(8) + 8;
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

/// What copies cross through, if there are any, as every device sees it.
pub(super) fn stage(devices: &[Arc<Inner>], bytes: u64) -> Result<Vec<Arc<Allocation>>, Error> {
    match usize::try_from(bytes) {
        Ok(0) => Ok(Vec::new()),
        Ok(bytes) => common(devices, bytes, Purpose::Exchange),
        Err(_) => Err(Error::TooLarge {
            what: "bytes of copies through the host",
            size: bytes,
            most: isize::MAX as u64,
        }),
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

/// Memory for so many signals and a spare one, as every device sees it.
pub(super) fn signals(devices: &[Arc<Inner>], slots: usize) -> Result<Vec<Arc<Allocation>>, Error> {
    let bytes = (slots * 16 + 16).next_multiple_of(64);
    common(devices, bytes, Purpose::Signals)
}

fn argument<'a>(addresses: &[Value], arg: &'a OwnedArg) -> Arg<'a> {
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

impl Places {
    /// Places to measure with: aligned, and different from each other.
    fn trial(queues: usize, devices: usize) -> Self {
        let at = |from: usize, n: usize| -> Vec<u64> {
            (from..from + n).map(|i| (i as u64 + 1) << 20).collect()
        };
        Self {
            signals: 1 << 20,
            words: at(1, queues),
            kernargs: at(1 + queues, devices),
            beside: at(1 + queues + devices, queues),
        }
    }

    fn addresses(&self) -> Addresses<'_> {
        Addresses {
            signals: self.signals,
            words: &self.words,
            kernargs: &self.kernargs,
            beside: &self.beside,
        }
    }
}

/// Bytes of a region, and where they are in their device's block.
#[derive(Clone, Copy)]
struct Part {
    device: usize,
    offset: usize,
    bytes: usize,
    /// With the host, which puts them into a ring.
    host: bool,
}

/// A block for each device, and what goes where.
pub(super) struct Layout {
    blocks: Vec<Option<Arc<Allocation>>>,
    /// As the graph's regions: words, argument blocks, what is beside.
    parts: Vec<Part>,
}

impl Layout {
    pub(super) fn new(
        devices: &[Arc<Inner>],
        queues: &[QueueRecord],
        parts_of: &[DeviceRecord],
    ) -> Result<Self, Error> {
        let mut ends = vec![0usize; devices.len()];
        let mut parts = Vec::new();
        let mut add = |device: usize, bytes: usize, host: bool| {
            let end = ends.get_mut(device);
            let offset = end.as_ref().map_or(0, |e| **e);
            if let (false, Some(end)) = (host, end) {
                *end = (offset + bytes).next_multiple_of(ALIGN);
            }
            parts.push(Part {
                device,
                offset,
                bytes,
                host,
            });
        };
        for record in queues {
            let device = usize::from(record.device());
            let backend = devices.get(device).map(|d| &d.backend);
            let kind = kind(record.engine());
            let align = backend.map_or(1, |b| b.reference_align(kind));
            let host = backend.is_some_and(|b| b.largest_part(kind).is_some());
            let words = (record.words() as usize).next_multiple_of(align);
            add(device, words * 4, host);
        }
        for (device, record) in parts_of.iter().enumerate() {
            let align = record.kernargs_align() as usize;
            if align > ALIGN {
                return Err(Error::Graph {
                    reason: format!("an argument block must be aligned to {align} bytes"),
                });
            }
            add(device, record.kernargs_bytes() as usize, false);
        }
        for record in queues {
            let bytes = record.beside_bytes() as usize;
            add(usize::from(record.device()), bytes, false);
        }
        let mut blocks = Vec::new();
        for (device, &bytes) in devices.iter().zip(&ends) {
            blocks.push(match bytes {
                0 => None,
                n => Some(device.heap.allocate(n, Purpose::Exchange)?),
            });
        }
        Ok(Self { blocks, parts })
    }

    fn address(&self, part: &Part) -> u64 {
        match self.blocks.get(part.device) {
            Some(Some(block)) if !part.host => block.address() + part.offset as u64,
            _ => 0,
        }
    }

    fn places(&self, records: &Records<'_>) -> Places {
        let all: Vec<u64> = self.parts.iter().map(|p| self.address(p)).collect();
        let (queues, devices) = (records.queues.len(), records.devices.len());
        let at = |from: usize, n: usize| all.get(from..from + n).unwrap_or_default().to_vec();
        Places {
            signals: 0,
            words: at(0, queues),
            kernargs: at(queues, devices),
            beside: at(queues + devices, queues),
        }
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
                let spare = first.address() + 16 * core.signal_slots() as u64;
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
