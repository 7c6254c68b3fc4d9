//! Why there is no graph, no instance, no launch.

use super::Inconsistent;
use crate::patch::{BuildError, PatchError};
use crate::record::RecordError;
use crate::signal::SignalError;
use crate::timeline::Point;
use crate::value::Var;
use crate::wait::WaitError;
use core::fmt;

/// A piece of memory that the caller supplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Memory {
    /// Nodes: one for each task.
    Nodes,
    /// Addresses: one for each allocation.
    Addresses,
    /// Device records: one for each device.
    Devices,
    /// Queue records: one for each queue of the plan.
    Queues,
    /// Work records: one for each work of the plan.
    Works,
    /// Edges.
    Edges,
    /// 32-bit words of all queues.
    Words,
    /// 64-bit words of argument blocks and of what is beside queues.
    Blocks,
    /// Known addresses: of each queue's words and bytes beside, of each device's argument blocks.
    Places,
    /// Regions of an instance.
    Regions,
    /// Signal slots of 16 bytes.
    Signals,
    /// 64-bit words of an instance's state.
    State,
    /// Points: one for each device.
    Points,
    /// Timeline entries: one for each device.
    Entries,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nodes => "nodes",
            Self::Addresses => "addresses of allocations",
            Self::Devices => "device records",
            Self::Queues => "queue records",
            Self::Works => "work records",
            Self::Edges => "edges",
            Self::Words => "words of queues",
            Self::Blocks => "64-bit words of blocks",
            Self::Places => "known addresses",
            Self::Regions => "regions",
            Self::Signals => "signal slots",
            Self::State => "64-bit words of state",
            Self::Points => "points",
            Self::Entries => "timeline entries",
        })
    }
}

/// Why there is no graph. What was recorded so far is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum GraphError {
    /// Not enough of something.
    Short {
        /// Of what.
        what: Memory,
        /// How many are needed.
        need: usize,
        /// How many were given.
        have: usize,
    },
    /// The node is of another kind than its task, or writes another number of bytes than 4 or 8.
    Node {
        /// Number of the task and of the node.
        task: u32,
    },
    /// A driver could not record a step.
    Record {
        /// The queue, in the plan.
        queue: u32,
        /// The step, from the plan's first.
        step: u32,
        /// Why.
        error: RecordError,
    },
    /// A driver asks for an argument block that is not aligned to a power of two of at most 2^16.
    Alignment {
        /// Number of the task.
        task: u32,
        /// What it asks for.
        align: usize,
    },
    /// The steps are not the plan's.
    Steps,
    /// The patch table cannot be built.
    Build(BuildError),
    /// What was recorded is no graph: addresses that are not aligned, or a driver that says something else than it did.
    Inconsistent(Inconsistent),
    /// Counts or sizes beyond 32 bits.
    TooMany,
}

impl fmt::Display for GraphError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Short { what, need, have } => write!(f, "{need} {what} needed, {have} given"),
            Self::Node { task } => write!(f, "node {task} does not fit its task"),
            Self::Record { queue, step, error } => {
                write!(f, "step {step}, on queue {queue}: {error}")
            }
            Self::Alignment { task, align } => {
                write!(f, "node {task}: no block can be aligned to {align}")
            }
            Self::Steps => f.write_str("the steps are not those of the plan"),
            Self::Build(e) => write!(f, "{e}"),
            Self::Inconsistent(e) => write!(f, "{e}"),
            Self::TooMany => f.write_str("the graph is too large"),
        }
    }
}

impl core::error::Error for GraphError {}

impl From<BuildError> for GraphError {
    fn from(e: BuildError) -> Self {
        Self::Build(e)
    }
}

/// Why a graph cannot run in some memory. Nothing of it was started; the memory's contents are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum BindError {
    /// Not enough of something.
    Short {
        /// Of what.
        what: Memory,
        /// How many are needed.
        need: usize,
        /// How many were given.
        have: usize,
    },
    /// A region that is too short.
    Region {
        /// Its number.
        index: usize,
        /// Bytes needed.
        need: u64,
        /// Bytes given.
        have: u64,
    },
    /// A region whose device address is not aligned.
    Misaligned {
        /// Its number.
        index: usize,
        /// Its address.
        address: u64,
        /// The alignment that it needs.
        align: u64,
    },
    /// The graph was recorded for other addresses.
    Address {
        /// The region's number; the number of regions for the signals.
        index: usize,
        /// Where it was recorded for.
        need: u64,
        /// Where it is.
        have: u64,
    },
    /// The signals' memory is not one.
    Signals(SignalError),
    /// The patch table does not go with the memory.
    Patch(PatchError),
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Short { what, need, have } => write!(f, "{need} {what} needed, {have} given"),
            Self::Region { index, need, have } => {
                write!(f, "region {index} needs {need} bytes, {have} were given")
            }
            Self::Misaligned {
                index,
                address,
                align,
            } => write!(
                f,
                "region {index} at {address:#x} must be aligned to {align}"
            ),
            Self::Address { index, need, have } => write!(
                f,
                "region {index} is at {have:#x}, the graph was recorded for {need:#x}"
            ),
            Self::Signals(e) => write!(f, "{e}"),
            Self::Patch(e) => write!(f, "{e}"),
        }
    }
}

impl core::error::Error for BindError {}

impl From<PatchError> for BindError {
    fn from(e: PatchError) -> Self {
        Self::Patch(e)
    }
}

impl From<SignalError> for BindError {
    fn from(e: SignalError) -> Self {
        Self::Signals(e)
    }
}

/// Why nothing was launched, or changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum LaunchError {
    /// The instance's last launch still runs.
    Busy {
        /// A device that is not done.
        device: u16,
        /// The point that it has to reach.
        point: Point,
    },
    /// An earlier launch reached some queues and not all of them, so that its work never ends. Recover the devices, then
    /// [`Instance::abandon`](super::Instance::abandon) it.
    Stuck {
        /// Queues that were reached.
        submitted: u32,
    },
    /// Waiting for the last launch took too long, or a device is in error.
    Wait(WaitError),
    /// A variable has no value, or one that does not fit. The instance keeps the memory of its last launch, and is not
    /// launched until the values fit.
    Patch(PatchError),
    /// The caller's variables end before this one.
    NoSuchVariable {
        /// The variable.
        var: Var,
        /// How many there are.
        variables: u32,
    },
    /// Not an entry for each device.
    Entries {
        /// Devices.
        need: usize,
        /// Entries given.
        have: usize,
    },
}

impl fmt::Display for LaunchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Busy { device, point } => write!(
                f,
                "the last launch still runs, device {device} up to point {}",
                point.raw()
            ),
            Self::Stuck { submitted } => write!(
                f,
                "a launch reached {submitted} queues and then failed; recover the devices first"
            ),
            Self::Wait(e) => write!(f, "waiting for the last launch: {e}"),
            Self::Patch(e) => write!(f, "{e}"),
            Self::NoSuchVariable { var, variables } => {
                write!(f, "no variable {} among {variables}", var.index())
            }
            Self::Entries { need, have } => {
                write!(f, "{need} timeline entries needed, {have} given")
            }
        }
    }
}

impl core::error::Error for LaunchError {}

impl From<PatchError> for LaunchError {
    fn from(e: PatchError) -> Self {
        Self::Patch(e)
    }
}

impl From<WaitError> for LaunchError {
    fn from(e: WaitError) -> Self {
        Self::Wait(e)
    }
}
