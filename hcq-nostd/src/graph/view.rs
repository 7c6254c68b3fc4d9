//! A recorded graph as plain records, and where everything of it is.

use super::check;
use crate::patch::{PatchTable, RegionId};
use crate::plan::Engine;
use crate::signal::Signal;
use crate::value::{Value, Var};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Stands for no index.
pub(crate) const NONE: u32 = u32::MAX;

/// The graph can run at any addresses.
pub(crate) const RELOCATABLE: u32 = 1;

/// Alignment of words and blocks within their memory, and of each region's device address, in bytes.
pub(crate) const ALIGN: usize = 64;

/// Variables of each device: the timeline's address and value to wait for, and those to signal.
pub(crate) const PER_DEVICE: u32 = 4;

/// Counts of a graph.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Counts {
    /// The caller's variables, which come first.
    pub(crate) variables: u32,
    pub(crate) flags: u32,
    /// Signals of the graph's own, which start every launch at zero.
    pub(crate) signals: u32,
    /// Kickoffs: one for each peer group.
    pub(crate) kickoffs: u32,
    pub(crate) timestamps: u32,
    pub(crate) reserved: u32,
    /// Where the signals are, unless the graph is relocatable.
    pub(crate) signals_address: u64,
}

/// A device of a graph.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct DeviceRecord {
    pub(crate) group: u16,
    /// Bit 0: it takes part and has a timeline here. Bit 1: it is a processor.
    pub(crate) flags: u16,
    /// Its peer group's kickoff.
    pub(crate) kickoff: u32,
    /// Its argument blocks: byte offset in the blocks, bytes, alignment.
    pub(crate) kernargs_at: u32,
    pub(crate) kernargs: u32,
    pub(crate) align: u32,
    pub(crate) reserved: u32,
    /// Where they are, unless the graph is relocatable.
    pub(crate) address: u64,
}

pub(crate) const TAKES_PART: u16 = 1;
pub(crate) const PROCESSOR: u16 = 2;

impl DeviceRecord {
    /// Fills memory before use.
    pub const EMPTY: Self = Self {
        group: 0,
        flags: 0,
        kickoff: 0,
        kernargs_at: 0,
        kernargs: 0,
        align: 1,
        reserved: 0,
        address: 0,
    };

    /// Its peer group.
    pub const fn group(&self) -> u16 {
        self.group
    }

    /// Whether it runs something of the graph, so that a launch takes a point of its timeline.
    pub const fn takes_part(&self) -> bool {
        self.flags & TAKES_PART != 0
    }

    /// Whether it is a processor.
    pub const fn is_processor(&self) -> bool {
        self.flags & PROCESSOR != 0
    }

    /// Bytes of argument blocks.
    pub const fn kernargs_bytes(&self) -> u32 {
        self.kernargs
    }

    /// Alignment of their device address.
    pub const fn kernargs_align(&self) -> u32 {
        self.align
    }
}

/// A queue of a graph.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct QueueRecord {
    pub(crate) device: u16,
    /// 0 compute, 1 copy.
    pub(crate) engine: u16,
    pub(crate) index: u16,
    pub(crate) reserved: u16,
    /// Its words: the first one's place among all words, and how many.
    pub(crate) words_at: u32,
    pub(crate) words: u32,
    /// What is beside them: byte offset in the blocks, and bytes.
    pub(crate) beside_at: u32,
    pub(crate) beside: u32,
    /// Where the words are, unless the graph is relocatable.
    pub(crate) address: u64,
    /// Where the bytes beside them are, unless the graph is relocatable.
    pub(crate) beside_address: u64,
}

impl QueueRecord {
    /// Fills memory before use.
    pub const EMPTY: Self = Self {
        device: 0,
        engine: 0,
        index: 0,
        reserved: 0,
        words_at: 0,
        words: 0,
        beside_at: 0,
        beside: 0,
        address: 0,
        beside_address: 0,
    };

    /// Its device.
    pub const fn device(&self) -> u16 {
        self.device
    }

    /// Its kind.
    pub const fn engine(&self) -> Engine {
        if self.engine == 0 {
            Engine::Compute
        } else {
            Engine::Copy
        }
    }

    /// Its number among those of its device and kind.
    pub const fn index(&self) -> u16 {
        self.index
    }

    /// 32-bit words; zero if the graph does not use it.
    pub const fn words(&self) -> u32 {
        self.words
    }

    /// Bytes beside the words.
    pub const fn beside_bytes(&self) -> u32 {
        self.beside
    }
}

/// A work of a graph, for profiles and for people: what a queue does for a task.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct WorkRecord {
    pub(crate) task: u32,
    /// 0 for all of it, 1 and 2 for a copy into and out of staging bytes.
    pub(crate) part: u32,
    pub(crate) queue: u32,
    pub(crate) begin: u32,
    pub(crate) end: u32,
    /// The works that its queue waits for before it: first edge, and how many.
    pub(crate) edge: u32,
    pub(crate) edges: u32,
}

impl WorkRecord {
    /// Fills memory before use.
    pub const EMPTY: Self = Self {
        task: 0,
        part: 0,
        queue: 0,
        begin: NONE,
        end: NONE,
        edge: 0,
        edges: 0,
    };

    /// A work for tests of profiles, and for those who keep their own: its task, its queue, its timestamp slots.
    pub const fn new(task: u32, queue: u32, timestamps: Option<(u32, u32)>) -> Self {
        let (begin, end) = match timestamps {
            Some(slots) => slots,
            None => (NONE, NONE),
        };
        Self {
            task,
            queue,
            begin,
            end,
            ..Self::EMPTY
        }
    }

    /// The same with its edges: the first one's place, and how many.
    #[must_use]
    pub const fn waiting(self, edge: u32, edges: u32) -> Self {
        Self {
            edge,
            edges,
            ..self
        }
    }

    /// The task, and so the node.
    pub const fn task(&self) -> u32 {
        self.task
    }

    /// The queue.
    pub const fn queue(&self) -> u32 {
        self.queue
    }

    /// Timestamp slots of its start and end, if the plan takes times. The start may be the end of the work before it.
    pub const fn timestamps(&self) -> Option<(u32, u32)> {
        if self.end == NONE {
            None
        } else {
            Some((self.begin, self.end))
        }
    }

    /// The works that it waits for, among all edges.
    pub fn waits_for<'e>(&self, edges: &'e [u32]) -> &'e [u32] {
        let first = self.edge as usize;
        first
            .checked_add(self.edges as usize)
            .and_then(|end| edges.get(first..end))
            .unwrap_or_default()
    }
}

const _: () = assert!(
    size_of::<Counts>() == 32
        && size_of::<DeviceRecord>() == 32
        && size_of::<QueueRecord>() == 40
        && size_of::<WorkRecord>() == 28
);

/// A recorded graph: what [`Recorded::build`](super::Recorded::build) makes, or what an [image](crate::image) holds. It
/// borrows everything, and any number of [instances](super::Instance) can be made of it.
#[derive(Clone, Copy, Debug)]
pub struct Graph<'g> {
    pub(crate) counts: Counts,
    pub(crate) devices: &'g [DeviceRecord],
    pub(crate) queues: &'g [QueueRecord],
    pub(crate) works: &'g [WorkRecord],
    pub(crate) edges: &'g [u32],
    pub(crate) words: &'g [u32],
    pub(crate) blocks: &'g [u8],
    pub(crate) table: PatchTable<'g>,
}

/// A region that an instance needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RegionNeed {
    /// What it holds.
    pub holds: Holds,
    /// Bytes; none for what the graph does not use.
    pub bytes: u64,
    /// Alignment of its device address. On this side it starts at an 8-byte boundary.
    pub align: u64,
    /// Where the graph was recorded for; `None` if it runs anywhere.
    pub address: Option<u64>,
}

/// What a region of an instance holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Holds {
    /// A queue's words, which its engine reads.
    Words {
        /// The queue.
        queue: u32,
    },
    /// Argument blocks, which a device's kernels read.
    Kernargs {
        /// The device.
        device: u16,
    },
    /// What a queue's engine, or whoever submits it, reads beside the words.
    Beside {
        /// The queue.
        queue: u32,
    },
}

impl<'g> Graph<'g> {
    /// The caller's variables: numbers 0 up to this.
    pub const fn variables(&self) -> u32 {
        self.counts.variables
    }

    /// The devices, numbered as in the plan's problem.
    pub const fn devices(&self) -> &'g [DeviceRecord] {
        self.devices
    }

    /// The queues, numbered as in the plan.
    pub const fn queues(&self) -> &'g [QueueRecord] {
        self.queues
    }

    /// The works, in program order.
    pub const fn works(&self) -> &'g [WorkRecord] {
        self.works
    }

    /// Numbers of works that others wait for; see [`WorkRecord::waits_for`].
    pub const fn edges(&self) -> &'g [u32] {
        self.edges
    }

    /// The words of a queue, with poison where variables go.
    pub fn words(&self, queue: u32) -> &'g [u32] {
        let Some(q) = self.queues.get(queue as usize) else {
            return &[];
        };
        let first = q.words_at as usize;
        first
            .checked_add(q.words as usize)
            .and_then(|end| self.words.get(first..end))
            .unwrap_or_default()
    }

    /// The patch table of all regions.
    pub const fn table(&self) -> &PatchTable<'g> {
        &self.table
    }

    /// Whether it can run at any addresses.
    pub const fn is_relocatable(&self) -> bool {
        self.counts.flags & RELOCATABLE != 0
    }

    /// Timestamp slots.
    pub const fn timestamps(&self) -> u32 {
        self.counts.timestamps
    }

    /// Signals that a launch sets back: the graph's own and the kickoffs.
    pub const fn resets(&self) -> u32 {
        self.counts.signals.saturating_add(self.counts.kickoffs)
    }

    /// Signal slots of 16 bytes that an instance needs: the graph's own, kickoffs, timestamps.
    pub const fn signal_slots(&self) -> usize {
        self.resets().saturating_add(self.counts.timestamps) as usize
    }

    /// 64-bit words of state that an instance needs.
    pub fn state_words(&self) -> usize {
        let (first, count) = self.own();
        let own = self.table.place_words(first, count);
        self.table.state_words().saturating_add(own)
    }

    /// Regions that an instance needs, in this order: each queue's words, each device's argument blocks, what is beside
    /// each queue.
    pub fn regions(&self) -> impl Iterator<Item = RegionNeed> + 'g {
        let known = !self.is_relocatable();
        let words = (0u32..).zip(self.queues).map(move |(queue, q)| RegionNeed {
            holds: Holds::Words { queue },
            bytes: u64::from(q.words) * 4,
            align: ALIGN as u64,
            address: known.then_some(q.address),
        });
        let kernargs = (0u16..)
            .zip(self.devices)
            .map(move |(device, d)| RegionNeed {
                holds: Holds::Kernargs { device },
                bytes: d.kernargs.into(),
                align: d.align.max(1).into(),
                address: known.then_some(d.address),
            });
        let beside = (0u32..).zip(self.queues).map(move |(queue, q)| RegionNeed {
            holds: Holds::Beside { queue },
            bytes: q.beside.into(),
            align: ALIGN as u64,
            address: known.then_some(q.beside_address),
        });
        words.chain(kernargs).chain(beside)
    }

    /// Number of regions.
    pub const fn region_count(&self) -> usize {
        self.queues
            .len()
            .saturating_mul(2)
            .saturating_add(self.devices.len())
    }

    /// The variables that a launch gives values by itself: the first, and how many.
    pub(crate) fn own(&self) -> (u32, u32) {
        let count = (self.devices.len() as u32).saturating_mul(PER_DEVICE);
        (self.counts.variables, count)
    }

    pub(crate) fn vars(&self) -> Vars {
        Vars {
            variables: self.counts.variables,
            devices: self.devices.len(),
            queues: self.queues.len(),
            relocatable: self.is_relocatable(),
        }
    }

    /// Checks that the parts go together, for records that came from somewhere else.
    pub(crate) fn check(&self) -> Result<(), check::Inconsistent> {
        check::graph(self)
    }
}

/// The graph's own variables, behind the caller's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vars {
    pub(crate) variables: u32,
    pub(crate) devices: usize,
    pub(crate) queues: usize,
    pub(crate) relocatable: bool,
}

/// What a device's variable is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    WaitAddress = 0,
    WaitValue = 1,
    SignalAddress = 2,
    SignalValue = 3,
}

impl Vars {
    fn at(&self, offset: usize) -> Option<Var> {
        let offset = u32::try_from(offset).ok()?;
        self.variables.checked_add(offset).map(Var::new)
    }

    fn after(&self, device: usize) -> Option<usize> {
        device.checked_mul(PER_DEVICE as usize)
    }

    /// A variable of a device's timeline.
    pub(crate) fn timeline(&self, device: u16, of: Of) -> Option<Var> {
        self.at(self.after(usize::from(device))?.checked_add(of as usize)?)
    }

    /// Where a device sees the signals.
    pub(crate) fn signals(&self, device: u16) -> Option<Var> {
        self.at(self.after(self.devices)?.checked_add(usize::from(device))?)
    }

    /// A region's device address.
    pub(crate) fn region(&self, region: usize) -> Option<Var> {
        let first = self.after(self.devices)?.checked_add(self.devices)?;
        self.at(first.checked_add(region)?)
    }

    /// All variables, the caller's included.
    pub(crate) fn count(&self) -> Option<u32> {
        let last = if self.relocatable {
            let regions = self.queues.checked_mul(2)?.checked_add(self.devices)?;
            self.region(regions)
        } else {
            self.at(self.after(self.devices)?)
        };
        last.map(Var::index)
    }
}

/// Numbers of regions.
pub(crate) fn words_region(queue: u32) -> Option<RegionId> {
    u16::try_from(queue).ok().map(RegionId)
}

pub(crate) fn kernargs_region(queues: usize, device: u16) -> Option<RegionId> {
    let n = queues.checked_add(usize::from(device))?;
    u16::try_from(n).ok().map(RegionId)
}

pub(crate) fn beside_region(queues: usize, devices: usize, queue: u32) -> Option<RegionId> {
    let n = queues.checked_add(devices)?.checked_add(queue as usize)?;
    u16::try_from(n).ok().map(RegionId)
}

/// The address of a signal slot.
pub(crate) fn slot(base: Value, index: u32) -> Value {
    base + u64::from(index) * Signal::BYTES as u64
}

/// The next multiple of 64 bytes.
pub(crate) fn aligned(bytes: usize) -> Option<usize> {
    bytes.checked_next_multiple_of(ALIGN)
}
