//! From a plan's steps to a recorded graph.

use super::encode::{Encode, QueueAt};
use super::error::{GraphError, Memory};
use super::source::{Around, Source, StepError, short};
use super::view::{Counts, DeviceRecord, Graph, QueueRecord, RELOCATABLE, WorkRecord, aligned};
use super::{Place, Spec};
use crate::mem::Region;
use crate::patch::{Derived, PatchList, PatchRoom, Site};
use crate::plan::{Event, Explained, Part, Plan, PlanQueue, Step};
use crate::record::{RecordError, Room};
use zerocopy::IntoBytes;

/// Records in which a graph is made: the caller's memory, as many as their comments say.
#[derive(Debug)]
pub struct Records<'g> {
    /// One for each device of the problem.
    pub devices: &'g mut [DeviceRecord],
    /// One for each queue of the plan, used or not.
    pub queues: &'g mut [QueueRecord],
    /// One for each work of the plan.
    pub works: &'g mut [WorkRecord],
    /// At most one for each wait that the plan [explains](Plan::explain).
    pub edges: &'g mut [u32],
}

/// Memory that a recording works in. For [`measure`] it holds one command at a time, for [`record`] what was measured.
#[derive(Debug)]
pub struct Scratch<'s> {
    /// Patch sites.
    pub sites: &'s mut [Site],
    /// Derived variables.
    pub derived: &'s mut [Derived],
    /// 32-bit words: for `record` all that the graph keeps, see [`Sizes::words`].
    pub words: &'s mut [u32],
    /// 64-bit words of blocks: for `record` all that the graph keeps, see [`Sizes::blocks`]. For `measure` the first half
    /// serves as argument block, the other as what is beside a queue.
    pub blocks: &'s mut [u64],
}

/// Memory that a recording needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Sizes {
    /// Patch sites.
    pub sites: usize,
    /// Derived variables.
    pub derived: usize,
    /// 32-bit words of all queues, each queue's padded to 64 bytes.
    pub words: usize,
    /// 64-bit words of blocks: argument blocks, and what is beside queues.
    pub blocks: usize,
    /// Signal slots of each instance.
    pub signals: usize,
    /// Regions of each instance.
    pub regions: usize,
}

/// A graph whose patch table is not built yet.
#[derive(Debug)]
pub struct Recorded<'g, 's> {
    counts: Counts,
    records: Records<'g>,
    edges: usize,
    works: usize,
    words: &'g [u32],
    blocks: &'g [u8],
    list: PatchList<'s>,
}

/// Counts what the graph takes, command by command, and fills the queue and device records for [`record`]. Argument blocks
/// are exact; commands that share what is beside the words or a derived variable, or that need no words of their own behind
/// others, take less together.
///
/// # Errors
/// [`GraphError`]; a scratch that cannot hold a single command is [`RecordError::NoRoom`] or
/// [`RecordError::KernargsTooSmall`], with what that command needs.
pub fn measure<E: Encode>(
    spec: &Spec<'_, E::Program>,
    plan: &Plan<'_>,
    steps: &[Step],
    encode: &E,
    records: &mut Records<'_>,
    scratch: &mut Scratch<'_>,
) -> Result<Sizes, GraphError> {
    let source = Source::new(spec, plan, encode, records)?;
    let mut sizes = Sizes {
        signals: source.slots().ok_or(GraphError::TooMany)?,
        regions: plan
            .queues()
            .len()
            .saturating_mul(2)
            .saturating_add(spec.problem.devices.len()),
        ..Sizes::default()
    };
    source.fill(records);
    let vars = source.vars.count().ok_or(GraphError::TooMany)?;
    let half = scratch.blocks.len() / 2;
    for (queue, q) in (0u32..).zip(plan.queues()) {
        let mut of = (QueueRecord::EMPTY, DeviceRecord::EMPTY);
        if let (Some(q_of), Some(d_of)) = (
            records.queues.get(queue as usize),
            records.devices.get(usize::from(q.device)),
        ) {
            of = (*q_of, *d_of);
        }
        let at = at(queue, &q);
        let (mut words, mut beside) = (0usize, 0usize);
        let (mut cursor, mut align) = (of.1.kernargs as usize, of.1.align as usize);
        let mine = steps.get(q.steps.clone()).ok_or(GraphError::Steps)?;
        for (step, s) in (q.steps.start..).zip(mine) {
            let fail = |error| failed(queue, step, error);
            let room = PatchRoom::default();
            let list = PatchList::resume(scratch.sites, scratch.derived, room, vars)?;
            let (kernargs, rest) = scratch.blocks.split_at_mut(half.min(scratch.blocks.len()));
            let mut kernargs = Region::from_words(kernargs, 0);
            let memory = source.memory(at, Region::from_words(rest, 0), scratch.words, list);
            let mut queue_of = encode.over(at, memory?).map_err(fail)?;
            let mut around = Around {
                at,
                kernargs: &mut kernargs,
                base: source.kernargs_base(q.device),
                cursor: &mut cursor,
                align: &mut align,
                measure: true,
            };
            source
                .step(&mut queue_of, &mut around, s)
                .map_err(|e| match e {
                    StepError::Record(e) => fail(e),
                    StepError::Graph(e) => e,
                })?;
            let memory = encode.finish(queue_of);
            let used = memory.recorder.used();
            words = words.saturating_add(used.words);
            beside = beside.saturating_add(memory.beside.used);
            sizes.sites = sizes.sites.saturating_add(used.sites);
            sizes.derived = sizes.derived.saturating_add(used.derived);
        }
        let narrow = |n: usize| u32::try_from(n).map_err(|_| GraphError::TooMany);
        if let Some(d) = records.devices.get_mut(usize::from(q.device)) {
            (d.kernargs, d.align) = (narrow(cursor)?, narrow(align)?);
        }
        if let Some(r) = records.queues.get_mut(queue as usize) {
            (r.words, r.beside) = (narrow(words)?, narrow(beside)?);
        }
    }
    place(records, &mut sizes).ok_or(GraphError::TooMany)?;
    Ok(sizes)
}

/// Gives everything its place in words and blocks.
fn place(records: &mut Records<'_>, sizes: &mut Sizes) -> Option<()> {
    let (mut words, mut bytes) = (0usize, 0usize);
    for d in records.devices.iter_mut() {
        d.kernargs_at = u32::try_from(bytes).ok()?;
        bytes = aligned(bytes.checked_add(d.kernargs as usize)?)?;
    }
    for q in records.queues.iter_mut() {
        q.words_at = u32::try_from(words).ok()?;
        words = aligned(words.checked_add(q.words as usize)?.checked_mul(4)?)? / 4;
        q.beside_at = u32::try_from(bytes).ok()?;
        bytes = aligned(bytes.checked_add(q.beside as usize)?)?;
    }
    u32::try_from(words.checked_mul(4)?).ok()?;
    u32::try_from(bytes).ok()?;
    (sizes.words, sizes.blocks) = (words, bytes / 8);
    Some(())
}

/// Records every queue. The records are as [`measure`] left them, and the memory is at least as large as it said.
///
/// # Errors
/// [`GraphError`].
pub fn record<'g, 's, E: Encode>(
    spec: &Spec<'_, E::Program>,
    plan: &Plan<'_>,
    steps: &[Step],
    encode: &E,
    mut records: Records<'g>,
    memory: (&'g mut [u32], &'g mut [u64]),
    scratch: (&'s mut [Site], &'s mut [Derived]),
) -> Result<Recorded<'g, 's>, GraphError> {
    let source = Source::new(spec, plan, encode, &records)?;
    source.set_addresses(&mut records);
    let (words, blocks) = memory;
    let (sites, derived) = scratch;
    blocks.fill(0);
    let mut vars = source.vars.count().ok_or(GraphError::TooMany)?;
    let mut used = PatchRoom::default();
    let mut cursors = (u16::MAX, 0usize);
    let (mut words_end, mut bytes_end) = (0usize, 0usize);
    for (queue, q) in (0u32..).zip(plan.queues()) {
        // All queues of a device come together.
        if cursors.0 != q.device {
            cursors = (q.device, 0);
        }
        let at = at(queue, &q);
        let device = records.devices.get(usize::from(q.device));
        let mine = records.queues.get_mut(queue as usize);
        let (Some(device), Some(mine)) = (device, mine) else {
            return Err(GraphError::Steps);
        };
        // Measured for this graph, the words may be padded by less than the next queue's place says.
        let first = mine.words_at as usize;
        let have = words.len();
        let room = words.get_mut(first..).ok_or(GraphError::Short {
            what: Memory::Words,
            need: first,
            have,
        })?;
        let (kernargs, beside) = split_blocks(blocks, device, mine)?;
        let mut kernargs = Region::from_words(kernargs, device.address);
        let beside = Region::from_words(beside, mine.beside_address);
        let list = PatchList::resume(&mut *sites, &mut *derived, used, vars)?;
        let mut queue_of = encode
            .over(at, source.memory(at, beside, room, list)?)
            .map_err(|e| failed(queue, q.steps.start, e))?;
        let mut align = 1;
        let mut around = Around {
            at,
            kernargs: &mut kernargs,
            base: source.kernargs_base(q.device),
            cursor: &mut cursors.1,
            align: &mut align,
            measure: false,
        };
        let steps_of = steps.get(q.steps.clone()).ok_or(GraphError::Steps)?;
        for (step, s) in (q.steps.start..).zip(steps_of) {
            source
                .step(&mut queue_of, &mut around, s)
                .map_err(|e| match e {
                    StepError::Record(e) => failed(queue, step, e),
                    StepError::Graph(e) => e,
                })?;
        }
        let memory = encode.finish(queue_of);
        let beside = memory.beside.used;
        let (n, list) = memory.recorder.finish();
        (used, vars) = (list.used(), list.vars());
        (mine.words, mine.beside) = (
            u32::try_from(n).map_err(|_| GraphError::TooMany)?,
            u32::try_from(beside).map_err(|_| GraphError::TooMany)?,
        );
        words_end = words_end.max(first.saturating_add(n));
        bytes_end = bytes_end.max((mine.beside_at as usize).saturating_add(beside));
    }
    for d in records.devices.iter() {
        bytes_end = bytes_end.max((d.kernargs_at as usize).saturating_add(d.kernargs as usize));
    }
    let (works, edges) = works(plan, &mut records)?;
    let words: &'g [u32] = words;
    let blocks: &'g [u64] = blocks;
    let counts = Counts {
        variables: spec.variables,
        flags: if source.known_place() { 0 } else { RELOCATABLE },
        signals: plan.signals(),
        kickoffs: source.kickoffs,
        timestamps: plan.timestamps(),
        reserved: 0,
        signals_address: match spec.place {
            Place::Anywhere => 0,
            Place::At(a) => a.signals,
        },
    };
    Ok(Recorded {
        counts,
        edges,
        works,
        words: words.get(..words_end).unwrap_or(words),
        blocks: blocks
            .as_bytes()
            .get(..bytes_end)
            .unwrap_or(blocks.as_bytes()),
        list: PatchList::resume(sites, derived, used, vars)?,
        records,
    })
}

/// The argument blocks of a device, and what is beside one queue.
fn split_blocks<'b>(
    blocks: &'b mut [u64],
    d: &DeviceRecord,
    q: &QueueRecord,
) -> Result<(&'b mut [u64], &'b mut [u64]), GraphError> {
    let end = (q.beside_at as usize).saturating_add(q.beside as usize);
    let have = blocks.len();
    let need = end.div_ceil(8);
    let missing = GraphError::Short {
        what: Memory::Blocks,
        need,
        have,
    };
    let (first, rest) = blocks
        .split_at_mut_checked(q.beside_at as usize / 8)
        .ok_or(missing)?;
    let beside = rest
        .get_mut(..(q.beside as usize).div_ceil(8))
        .ok_or(missing)?;
    let from = d.kernargs_at as usize / 8;
    let to = from.saturating_add((d.kernargs as usize).div_ceil(8));
    let kernargs = first.get_mut(from..to).ok_or(missing)?;
    Ok((kernargs, beside))
}

fn at(queue: u32, q: &PlanQueue) -> QueueAt {
    QueueAt {
        queue,
        device: q.device,
        engine: q.engine,
        index: q.index,
    }
}

fn failed(queue: u32, step: usize, error: RecordError) -> GraphError {
    let step = u32::try_from(step).unwrap_or(u32::MAX);
    GraphError::Record { queue, step, error }
}

/// Files works and what they wait for. Returns how many there are of both.
fn works(plan: &Plan<'_>, records: &mut Records<'_>) -> Result<(usize, usize), GraphError> {
    let waits = plan.explain().filter(|e| edge(e).is_some()).count();
    short(Memory::Works, plan.works(), records.works.len())?;
    short(Memory::Edges, waits, records.edges.len())?;
    let works = records.works.iter_mut().take(plan.works());
    for (n, w) in (0u32..).zip(works) {
        let work = plan.work(n).ok_or(GraphError::Steps)?;
        *w = WorkRecord {
            part: match work.part {
                Part::Whole => 0,
                Part::IntoStage { .. } => 1,
                Part::OutOfStage { .. } => 2,
            },
            ..WorkRecord::new(work.task, work.queue, work.timestamps)
        };
    }
    let between = plan.explain().filter_map(|e| edge(&e));
    for (n, (to, (waiter, first))) in (0u32..).zip(records.edges.iter_mut().zip(between)) {
        *to = first;
        // A work's waits come together.
        if let Some(w) = records.works.get_mut(waiter as usize) {
            if w.edges == 0 {
                w.edge = n;
            }
            w.edges = w.edges.saturating_add(1);
        }
    }
    Ok((plan.works(), waits))
}

/// The two works of a wait between works.
fn edge(e: &Explained) -> Option<(u32, u32)> {
    match (e.waiter, e.waits_for) {
        (Event::Work { work }, Event::Work { work: first }) => Some((work, first)),
        _ => None,
    }
}

impl<'g> Recorded<'g, '_> {
    /// What was recorded, in all.
    pub fn used(&self) -> Room {
        let patch = self.list.used();
        Room {
            words: self.words.len(),
            sites: patch.sites,
            derived: patch.derived,
            beside: self.blocks.len(),
        }
    }

    fn region_sizes<'o>(&self, out: &'o mut [u64]) -> Result<&'o [u64], GraphError> {
        let (queues, devices) = (self.records.queues.len(), self.records.devices.len());
        let need = queues.saturating_mul(2).saturating_add(devices);
        let have = out.len();
        let what = Memory::Regions;
        let out = out
            .get_mut(..need)
            .ok_or(GraphError::Short { what, need, have })?;
        let words = self.records.queues.iter().map(|q| u64::from(q.words) * 4);
        let kernargs = self.records.devices.iter().map(|d| u64::from(d.kernargs));
        let beside = self.records.queues.iter().map(|q| u64::from(q.beside));
        for (to, bytes) in out.iter_mut().zip(words.chain(kernargs).chain(beside)) {
            *to = bytes;
        }
        Ok(out)
    }

    /// 64-bit words that [`build`](Self::build) needs for the patch table. `sizes` has a word for each region.
    ///
    /// # Errors
    /// [`GraphError`].
    pub fn table_words(&mut self, sizes: &mut [u64]) -> Result<usize, GraphError> {
        let sizes = self.region_sizes(sizes)?;
        Ok(self.list.table_words(sizes)?)
    }

    /// Builds the patch table, and the graph is done. `sizes` has a word for each region, and is free afterwards.
    ///
    /// # Errors
    /// [`GraphError`].
    pub fn build(
        mut self,
        sizes: &mut [u64],
        table: &'g mut [u64],
    ) -> Result<Graph<'g>, GraphError> {
        let sizes = self.region_sizes(sizes)?;
        let table = self.list.build(sizes, table)?;
        let Records {
            devices,
            queues,
            works,
            edges,
        } = self.records;
        let works = works.get_mut(..self.works).unwrap_or_default();
        let edges = edges.get_mut(..self.edges).unwrap_or_default();
        let graph = Graph {
            counts: self.counts,
            devices,
            queues,
            works,
            edges,
            words: self.words,
            blocks: self.blocks,
            table,
        };
        // What drivers say that they have taken, too.
        graph.check().map_err(GraphError::Inconsistent)?;
        Ok(graph)
    }
}
