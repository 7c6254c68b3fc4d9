//! An instance: a graph recorded for memory of its own.
#![allow(
    unsafe_code,
    reason = "makes regions of memory that it owns, and keeps who borrows them"
)]

use std::ptr::NonNull;
use std::sync::Arc;

use hcq_nostd::args::Arg;
use hcq_nostd::graph::{
    self, Addresses, DeviceRecord, Graph as Core, Instance, InstanceMemory, Kernel, Node, Place,
    QueueRecord, Records, Scratch, Spec, WorkRecord,
};
use hcq_nostd::mem::{Region, SharedWords};
use hcq_nostd::patch::{Derived, Site};
use hcq_nostd::timeline::Point;
use hcq_nostd::value::Value;

use super::builder::{GraphBuilder, OwnedArg, What};
use super::encode::{Drivers, Program};
use super::plan::{GraphPlan, kind, seen_by};
use crate::Error;
use crate::backend::{Piece, Purpose, QueueId};
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
    _records: Kept,
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
    largest_block: usize,
}

impl<'a> Recipe<'a> {
    pub(super) fn new(builder: &'a GraphBuilder, plan: &'a GraphPlan) -> Result<Self, Error> {
        let (mut programs, mut args, mut largest_block) = (Vec::new(), Vec::new(), 0);
        for draft in &builder.drafts {
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
            let core: Vec<Arg<'a>> = owned.iter().map(|a| argument(builder, a)).collect();
            if let Some(d) = builder.devices.get(device) {
                let block = d.backend.kernargs(&kernel.kernel.program, &core);
                let (bytes, align) = block.map_err(Error::record("exec"))?;
                largest_block = largest_block.max(bytes.max(align));
            }
            programs.push(Some(Program {
                device,
                prepared: Arc::clone(&kernel.kernel.program),
            }));
            args.push(core);
        }
        let recipe = Self {
            builder,
            plan,
            programs,
            args,
            largest_block,
        };
        recipe.make_ready()?;
        Ok(recipe)
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
        let plan = self.plan;
        let devices = &self.builder.devices;
        let queues: Vec<_> = plan.plan.queues().collect();
        let drivers = Drivers::new(devices, queues.len());
        let nodes = self.nodes();
        let stage = match usize::try_from(plan.stage_bytes) {
            Ok(0) => Vec::new(),
            Ok(bytes) => common(devices, bytes, Purpose::Exchange)?,
            Err(_) => {
                return Err(Error::TooLarge {
                    what: "bytes of copies through the host",
                    size: plan.stage_bytes,
                    most: isize::MAX as u64,
                });
            }
        };
        let mut addresses: Vec<Value> = Vec::new();
        for base in &self.builder.bases {
            let input = base.input.and_then(|i| self.builder.inputs.get(i));
            addresses.push(match input {
                Some(input) => input.var.into(),
                None => base.memory.address().into(),
            });
        }
        addresses.push(stage.first().map_or(0, |s| s.address()).into());

        let edges = plan.plan.explain().len();
        let mut devices_of = Lent::new(DeviceRecord::EMPTY, devices.len());
        let mut queues_of = Lent::new(QueueRecord::EMPTY, queues.len());
        let mut works_of = Lent::new(WorkRecord::EMPTY, plan.plan.works());
        let mut edges_of = Lent::new(0u32, edges);
        // SAFETY: lent once, like those below; who borrows it is dropped before it: on the way out of this function by the
        // order of declaration, and in `Home` by that of the fields.
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
        let variables = u32::try_from(self.builder.values.len()).unwrap_or(u32::MAX);
        plan.with_problem(|problem| {
            let trial = Places::trial(queues.len(), devices.len());
            let measured = {
                let at = trial.addresses();
                let spec = Spec {
                    problem,
                    addresses: &addresses,
                    nodes: &nodes,
                    variables,
                    place: Place::At(&at),
                };
                self.measure(&spec, &drivers, &mut records)?
            };
            let signals = common(
                devices,
                (measured.signals * 16).next_multiple_of(64).max(64),
                Purpose::Signals,
            )?;
            let first = signals
                .first()
                .ok_or(Error::Internal("a graph has no device"))?;
            let layout = Layout::new(devices, &queues, &records)?;
            let places = Places {
                signals: first.address(),
                ..layout.places(&records)
            };

            let mut words = Lent::new(0u32, measured.words);
            let mut blocks = Lent::new(0u64, measured.blocks);
            let mut sites = vec![Site::EMPTY; measured.sites];
            let mut derived = vec![Derived::EMPTY; measured.derived];
            let at = places.addresses();
            let spec = Spec {
                problem,
                addresses: &addresses,
                nodes: &nodes,
                variables,
                place: Place::At(&at),
            };
            // SAFETY: as above.
            let words_lent = unsafe { words.lend() };
            // SAFETY: as above.
            let blocks_lent = unsafe { blocks.lend() };
            let memory = (words_lent, blocks_lent);
            let kept = (&mut sites[..], &mut derived[..]);
            let recorded = graph::record(
                &spec,
                &plan.plan,
                &plan.steps,
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
            Home::new(core, records, layout, signals, stage, &drivers, devices)
        })
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

fn argument<'a>(builder: &GraphBuilder, arg: &'a OwnedArg) -> Arg<'a> {
    match arg {
        OwnedArg::Bytes { base, offset } => {
            let base = builder.bases.get(*base as usize);
            let address = base.map_or(Value::from(0u64), |b| {
                let input = b.input.and_then(|i| builder.inputs.get(i));
                input.map_or(b.memory.address().into(), |i| i.var.into())
            });
            Arg::Buffer(address + *offset)
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
struct Layout {
    blocks: Vec<Option<Arc<Allocation>>>,
    /// As the graph's regions: words, argument blocks, what is beside.
    parts: Vec<Part>,
}

impl Layout {
    fn new(
        devices: &[Arc<Inner>],
        queues: &[hcq_nostd::plan::PlanQueue],
        records: &Records<'_>,
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
        for (queue, record) in queues.iter().zip(records.queues.iter()) {
            let device = usize::from(queue.device);
            let backend = devices.get(device).map(|d| &d.backend);
            let kind = kind(queue.engine);
            let align = backend.map_or(1, |b| b.reference_align(kind));
            let host = backend.is_some_and(|b| b.largest_part(kind).is_some());
            let words = (record.words() as usize).next_multiple_of(align);
            add(device, words * 4, host);
        }
        for (device, record) in records.devices.iter().enumerate() {
            let align = record.kernargs_align() as usize;
            if align > ALIGN {
                return Err(Error::Graph {
                    reason: format!("an argument block must be aligned to {align} bytes"),
                });
            }
            add(device, record.kernargs_bytes() as usize, false);
        }
        for (queue, record) in queues.iter().zip(records.queues.iter()) {
            add(
                usize::from(queue.device),
                record.beside_bytes() as usize,
                false,
            );
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

    fn new(
        core: Core<'static>,
        records: Kept,
        layout: Layout,
        signals: Vec<Arc<Allocation>>,
        stage: Vec<Arc<Allocation>>,
        drivers: &Drivers<'_>,
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
                let pieces = pieces(layout.address(part), words, &drivers.cuts(n));
                Submission::Launch {
                    words: device.encode_launch(id, &pieces)?,
                    pieces,
                }
            };
            feeds.push(Feed { id, submission });
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
            _records: records,
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
