//! Whether records that came from somewhere else are a graph.

use super::view::{ALIGN, Graph, NONE, PROCESSOR, RELOCATABLE, TAKES_PART};
use core::fmt;

/// What does not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Inconsistent {
    /// Counts beyond what there can be, or a flag that does not exist.
    Counts,
    /// A device with a kickoff, flag, alignment or argument blocks that cannot be.
    Device {
        /// Which.
        index: u32,
    },
    /// A queue of no device, or with words or bytes that are others' or not there.
    Queue {
        /// Which.
        index: u32,
    },
    /// A work on no queue, with timestamps that do not exist, or that waits for what comes after it.
    Work {
        /// Which.
        index: u32,
    },
    /// The patch table has other variables than the graph, or other regions.
    Table {
        /// The first region that differs; their number if the variables do.
        region: u32,
    },
}

impl fmt::Display for Inconsistent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Counts => f.write_str("the counts are no graph's"),
            Self::Device { index } => write!(f, "device {index} is malformed"),
            Self::Queue { index } => write!(f, "queue {index} is malformed"),
            Self::Work { index } => write!(f, "work {index} is malformed"),
            Self::Table { region } => {
                write!(f, "the patch table is another graph's, see region {region}")
            }
        }
    }
}

impl core::error::Error for Inconsistent {}

/// Slots of signals stay below this, so that no size overflows.
const SLOTS: u32 = 1 << 26;

/// Checks everything that a launch relies on. Time in proportion to the number of records.
pub(super) fn graph(g: &Graph<'_>) -> Result<(), Inconsistent> {
    counts(g).ok_or(Inconsistent::Counts)?;
    let mut end = 0;
    for (index, d) in (0u32..).zip(g.devices) {
        let sound = d.flags & !(TAKES_PART | PROCESSOR) == 0
            && d.reserved == 0
            && d.kickoff < g.counts.kickoffs
            && d.align.is_power_of_two()
            && d.align <= 1 << 16
            && d.address.is_multiple_of(d.align.into())
            && d.address.checked_add(d.kernargs.into()).is_some();
        let bad = Inconsistent::Device { index };
        end = after(end, d.kernargs_at, d.kernargs, g.blocks.len(), sound).ok_or(bad)?;
    }
    let mut words_end = 0;
    let mut last = None;
    for (index, q) in (0u32..).zip(g.queues) {
        let bad = Inconsistent::Queue { index };
        let device = g.devices.get(usize::from(q.device)).ok_or(bad)?;
        let key = (q.engine, q.index);
        let sound = q.engine <= 1
            && q.reserved == 0
            && (q.words == 0 && q.beside == 0 || device.takes_part())
            && last.is_none_or(|(d, k)| d != q.device || k < key)
            && q.address.is_multiple_of(ALIGN as u64)
            && q.beside_address.is_multiple_of(ALIGN as u64)
            && q.address.checked_add(u64::from(q.words) * 4).is_some()
            && q.beside_address.checked_add(q.beside.into()).is_some();
        last = Some((q.device, key));
        let bytes = g.words.len().checked_mul(4).ok_or(bad)?;
        let at = q.words_at.checked_mul(4).ok_or(bad)?;
        let len = q.words.checked_mul(4).ok_or(bad)?;
        words_end = after(words_end, at, len, bytes, sound).ok_or(bad)?;
        end = after(end, q.beside_at, q.beside, g.blocks.len(), sound).ok_or(bad)?;
    }
    for (index, w) in (0u32..).zip(g.works) {
        let slot = |n: u32| n < g.counts.timestamps;
        let times = w.begin == NONE && w.end == NONE || slot(w.begin) && slot(w.end);
        let waits = w.waits_for(g.edges);
        let sound = w.part <= 2
            && times
            && (w.queue as usize) < g.queues.len()
            && waits.len() == w.edges as usize
            && waits.iter().all(|e| *e < index);
        if !sound {
            return Err(Inconsistent::Work { index });
        }
    }
    let mut regions = g.table.region_bytes();
    for (region, need) in (0u32..).zip(g.regions()) {
        if regions.next() != Some(need.bytes) {
            return Err(Inconsistent::Table { region });
        }
    }
    let region = u32::try_from(g.region_count()).unwrap_or(u32::MAX);
    let own = g.vars().count();
    if regions.next().is_some() || own.is_none_or(|n| !g.table.derived_from(n)) {
        return Err(Inconsistent::Table { region });
    }
    Ok(())
}

fn counts(g: &Graph<'_>) -> Option<()> {
    let c = &g.counts;
    let slots = c.signals.checked_add(c.kickoffs)?;
    let slots = slots.checked_add(c.timestamps)?;
    // Every signal has a command, and every kickoff a device: no small graph asks for much memory.
    let most = g.words.len().checked_add(g.devices.len())?;
    let limits = slots < SLOTS
        && slots as usize <= most
        && g.region_count() < usize::from(u16::MAX)
        && c.flags & !RELOCATABLE == 0
        && c.reserved == 0
        && c.signals_address.is_multiple_of(16)
        && c.signals_address
            .checked_add(u64::from(slots) * 16)
            .is_some();
    limits.then_some(())
}

/// The end of a range that starts at `end` or later, at its alignment and inside.
fn after(end: u32, at: u32, len: u32, all: usize, sound: bool) -> Option<u32> {
    let next = at.checked_add(len)?;
    let inside = at >= end && at.is_multiple_of(ALIGN as u32) && next as usize <= all;
    (inside && sound).then_some(next)
}
