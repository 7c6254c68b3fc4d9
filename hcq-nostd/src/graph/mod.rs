//! Graphs: a plan recorded once, launched many times, in time proportional to what changed.
//!
//! A graph is a [plan](crate::plan) whose steps were recorded by drivers: one bound queue for each engine, argument blocks
//! of which no two nodes share one, one patch table for all of it, and the values that differ from launch to launch as
//! variables. It knows no vendor; [`Encode`] is what it asks of the drivers. Everything lies in the caller's memory.
//!
//! # From tasks to a launch
//!
//! ```text
//! Problem --plan--> Plan --lay_out--> steps     what runs where and waits for what
//! measure  (steps, nodes, encoders)  -> Sizes   how much memory, command by command
//! record   (the same)                -> Recorded
//! build    (memory for the table)    -> Graph   plain bytes: shared by instances, written as an image
//! bind     (regions, signals, state) -> Instance
//! set ..   idle -> patch -> submit -> kickoff   a launch
//! ```
//!
//! | memory | how much | who reads it |
//! |---|---|---|
//! | [`Records`] | one each for devices, queues, works; edges at most the plan's waits | host |
//! | words, blocks | [`Sizes::words`], [`Sizes::blocks`] | host, to make instances |
//! | sites, derived | [`Sizes::sites`], [`Sizes::derived`] | nobody once the graph is built |
//! | table | [`Recorded::table_words`] | host, at launches |
//! | regions of an instance | [`Graph::regions`] | engines |
//! | signals of an instance | [`Graph::signal_slots`] | engines and host |
//! | state, points | [`Graph::state_words`], one per device | host |
//!
//! # Variables
//!
//! The caller's variables come first: [`Spec::variables`] of them, numbers 0 on, for inputs' addresses, scalar arguments
//! and grid sizes. The graph's own follow: for each device its timeline's slot and value to wait for and those to signal,
//! and, in a graph recorded for [any place](Place::Anywhere), each region's device address. Drivers' derived variables come
//! last.
//!
//! A value that is set goes to memory with the next launch. Values are checked then, all before the first store: a launch
//! with a value that does not fit is refused, and so are later ones until it fits.
//!
//! # Signals
//!
//! Queues wait for each other on signals of the graph's own. They start every launch at zero, and their values are the
//! plan's: so no wait and no signal inside the graph is patched, and a launch of which nothing changed stores the same few
//! words however many nodes there are. The host sets them back when nothing of the instance is in flight; it has waited for
//! that anyway, since it patches. Values that grow from launch to launch would need no reset, but a store for each wait and
//! signal of the graph, and would end at 32 bits. What a launch sets back is one signal for each queue that another one
//! waits for, and one kickoff for each peer group, whose value is one.
//!
//! Timelines are the devices': waited for at the start of each device's home queue, signalled at its end. An instance
//! remembers the [points](crate::timeline::Point) of its last launch, which never wrap: a graph left idle over any number
//! of roll-overs neither hangs nor passes early.
//!
//! # A launch
//!
//! [`Instance::idle`] waits for this instance's last launch, or refuses; only what it returns can be
//! [patched](Idle::patch). Then the caller, who holds the devices' submission locks from planning the timelines' next
//! submissions on, [submits](Launch::submit) the queues in their order, and [kicks off](Launch::kickoff). No queue begins
//! before: a group's queues wait for its kickoff, so that they may be submitted one by one. The order of queues and of
//! everything in them is the same at every launch.
//!
//! What fails before the first queue is submitted leaves the instance as it was. If it fails later, `submit` can be called
//! again; given up there, some queues wait for a kickoff that never comes, and the instance is stuck until the devices are
//! recovered ([`Instance::abandon`]).
//!
//! # What encoders have to know
//!
//! Commands come in the order of the queue's steps. On queues with several works [in flight](crate::plan::Order::InFlight)
//! a timestamp and a signal behind a launch are that launch's. [`Beside`] is for what engines read beside the words; its
//! addresses may be variables, as may those of argument blocks ([`Block::address`](crate::record::Block::address)).
//!
//! # Not checked
//!
//! What a kernel touches is what its task says; nobody else knows. Inputs that share bytes must have been
//! [declared so](crate::plan::Allocation::aliasing).

mod build;
mod check;
mod encode;
mod error;
mod instance;
mod launch;
mod source;
mod view;

pub use build::{Recorded, Records, Scratch, Sizes, measure, record};
pub use check::Inconsistent;
pub use encode::{Beside, Command, Encode, QueueAt, QueueMemory, compute, copy};
pub use error::{BindError, GraphError, LaunchError, Memory};
pub use instance::{
    Busy, DeviceTimelines, Entry, Idle, Instance, InstanceMemory, SlotAt, Timelines,
};
pub use launch::{Launch, Run};
pub(crate) use view::ALIGN;
pub use view::{Counts, DeviceRecord, Graph, Holds, QueueRecord, RegionNeed, WorkRecord};

use crate::args::Arg;
use crate::plan::Problem;
use crate::value::Value;

/// A kernel of a node.
#[derive(Debug)]
pub struct Kernel<'a, P> {
    /// The prepared program.
    pub program: &'a P,
    /// Its arguments, in order.
    pub args: &'a [Arg<'a>],
    /// Work-groups, x, y, z.
    pub groups: [Value; 3],
    /// Work-items per group, x, y, z.
    pub local: [Value; 3],
    /// Bytes of group-local memory beyond what the program declares.
    pub local_memory: u32,
}

/// What a task does, beside what the plan knows of it.
#[derive(Debug)]
pub enum Node<'a, P> {
    /// Runs a kernel.
    Exec(Kernel<'a, P>),
    /// Copies; the task's accesses say what.
    Copy,
    /// Writes this number to the first of the task's accesses, which has 4 or 8 bytes.
    Write(Value),
}

/// Where a graph runs.
#[derive(Clone, Copy, Debug)]
pub enum Place<'a> {
    /// Anywhere: every address of its own memory is a variable that [`Graph::bind`] sets. For images, and for several
    /// instances of one recording.
    Anywhere,
    /// In memory that is there already: its addresses are numbers in words and blocks, which takes fewer sites.
    At(&'a Addresses<'a>),
}

/// Device addresses of an instance's memory, known while recording.
#[derive(Clone, Copy, Debug)]
pub struct Addresses<'a> {
    /// The signals, at a multiple of 16.
    pub signals: u64,
    /// Each queue's words, at multiples of 64.
    pub words: &'a [u64],
    /// Each device's argument blocks.
    pub kernargs: &'a [u64],
    /// What is beside each queue, at multiples of 64.
    pub beside: &'a [u64],
}

/// Memory that one device sees at another address than the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Seen {
    /// The device.
    pub device: u16,
    /// The allocation, or the graph's signals.
    pub allocation: Option<u32>,
    /// Where this device sees it.
    pub address: u64,
}

/// What is to be recorded.
#[derive(Clone, Copy, Debug)]
pub struct Spec<'a, P> {
    /// What was planned.
    pub problem: &'a Problem<'a>,
    /// Device address of each allocation: a number, or a variable of the caller's for an input.
    pub addresses: &'a [Value],
    /// A node for each task, in the same order.
    pub nodes: &'a [Node<'a, P>],
    /// The caller's variables: those with numbers below this.
    pub variables: u32,
    /// Where it runs.
    pub place: Place<'a>,
    /// What devices see at other addresses than `addresses` and `place` say. Signals are looked up for known places only; at
    /// any place [`Instance::set_signals_address`] says where a device sees them.
    pub seen: &'a [Seen],
}
