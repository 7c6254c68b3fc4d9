//! The planner's records, and how they share the caller's scratch.

use super::bits;
use super::problem::{Problem, Sizes};
use super::{Capacity, PlanError};
use core::mem::size_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Stands for no index.
pub(super) const NONE: u32 = u32::MAX;

/// A moment of a lane: 0 is before everything, 1 the device's entry, `n + 2` the end of work `n`. Later works of a lane
/// have greater tokens, so that a number per lane says all that is known of it.
pub(super) const ENTRY: u32 = 1;

pub(super) const fn token_of(work: u32) -> u32 {
    work.saturating_add(2)
}

pub(super) const fn work_of(token: u32) -> Option<u32> {
    token.checked_sub(2)
}

/// Something that a queue does for a task.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct WorkRec {
    pub(super) task: u32,
    /// 0 for a task's only work; 1 and 2 for a copy into and out of staging bytes.
    pub(super) part: u32,
    pub(super) stage: u32,
    /// The queue, or before it is chosen the first of `choices` queues.
    pub(super) queue: u32,
    pub(super) choices: u32,
    pub(super) lane: u32,
    /// The clock at its start.
    pub(super) row: u32,
    pub(super) touch: u32,
    pub(super) touches: u32,
    pub(super) wait: u32,
    pub(super) waits: u32,
    pub(super) signalled: u32,
    /// Timestamp slots.
    pub(super) begin: u32,
    pub(super) end: u32,
    pub(super) stage_offset: u64,
    /// When it ends if costs are true.
    pub(super) done: u64,
}

/// Bytes that a work touches.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct TouchRec {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) allocation: u32,
    pub(super) write: u32,
    /// Pieces that it covers.
    pub(super) lo: u32,
    pub(super) hi: u32,
}

/// One end of a touch, to be sorted.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct EndRec {
    pub(super) at: u64,
    pub(super) allocation: u32,
    /// Twice the touch, plus one for its end.
    pub(super) side: u32,
}

/// Where some touch starts or ends; the head of a segment if its bit is set.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct PieceRec {
    pub(super) at: u64,
    /// The head of the next segment.
    pub(super) next: u32,
    /// Who wrote the segment last.
    pub(super) writer: u32,
    pub(super) lane: u32,
    /// A chain of those who have read it since.
    pub(super) readers: u32,
}

/// A reader in a chain.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct ReaderRec {
    pub(super) token: u32,
    pub(super) lane: u32,
    pub(super) next: u32,
}

/// The last accesses of one kind, by a lane, to what may alias: the last one, and the last one to another allocation.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct AliasRec {
    pub(super) token: u32,
    pub(super) allocation: u32,
    pub(super) other_token: u32,
    pub(super) other_allocation: u32,
}

/// A sequence of works of which each is complete when the next one starts: a queue, or a place in flight of one.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct LaneRec {
    pub(super) queue: u32,
    pub(super) last: u32,
    /// The signal's number, `NONE` while nobody waits for the lane.
    pub(super) signal: u32,
}

/// A queue.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct QueueRec {
    pub(super) device: u32,
    pub(super) copy: u32,
    pub(super) index: u32,
    pub(super) in_order: u32,
    /// Its lanes.
    pub(super) lane: u32,
    pub(super) lanes: u32,
    /// The clock behind its last work.
    pub(super) row: u32,
    pub(super) reserved: u32,
    pub(super) free: u64,
    pub(super) step: u32,
    pub(super) steps: u32,
    /// Where its next step goes, while steps are laid out.
    pub(super) cursor: u32,
    /// The timestamp slot of its last work's end.
    pub(super) end: u32,
}

/// A device.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct DeviceRec {
    /// Its place in device order.
    pub(super) rank: u32,
    /// The device at this place in device order.
    pub(super) at_rank: u32,
    pub(super) compute: u32,
    pub(super) copy: u32,
    /// Its home queue, or `NONE`.
    pub(super) home: u32,
    pub(super) home_lane: u32,
    pub(super) group: u32,
    pub(super) used: u32,
    pub(super) entry_signalled: u32,
    /// The waits of its end.
    pub(super) wait: u32,
    pub(super) waits: u32,
}

impl DeviceRec {
    /// Whether it enters the graph and ends.
    pub(super) const fn starts(&self) -> bool {
        self.used != 0 && self.home != NONE
    }
}

/// What a lane must have done, and why.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct NeedRec {
    pub(super) token: u32,
    pub(super) why: u32,
    /// Allocation of the later access, or the device.
    pub(super) of: u32,
    /// Allocation of the earlier access.
    pub(super) from: u32,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// A wait.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct WaitRec {
    pub(super) need: NeedRec,
    /// Work, or with `at_end` device.
    pub(super) waiter: u32,
    pub(super) at_end: u32,
    pub(super) lane: u32,
    pub(super) reserved: u32,
}

/// Everything, carved from the scratch.
pub(super) struct Room<'s> {
    pub(super) works: &'s mut [WorkRec],
    pub(super) touches: &'s mut [TouchRec],
    pub(super) ends: &'s mut [EndRec],
    pub(super) spare_ends: &'s mut [EndRec],
    pub(super) pieces: &'s mut [PieceRec],
    pub(super) bits: &'s mut [u64],
    pub(super) readers: &'s mut [ReaderRec],
    pub(super) aliases: &'s mut [AliasRec],
    pub(super) lanes: &'s mut [LaneRec],
    pub(super) queues: &'s mut [QueueRec],
    pub(super) devices: &'s mut [DeviceRec],
    pub(super) needs: &'s mut [NeedRec],
    pub(super) needed: &'s mut [u32],
    pub(super) spare_needed: &'s mut [u32],
    pub(super) clock: &'s mut [u32],
    pub(super) rows: &'s mut [u32],
    pub(super) reach: &'s mut [u32],
    pub(super) waits: &'s mut [WaitRec],
}

/// Takes arrays one after the other, or with no memory counts their words.
struct Carver<'s> {
    memory: &'s mut [u64],
    /// Only count.
    measure: bool,
    words: usize,
}

impl<'s> Carver<'s> {
    fn take<T: FromBytes + IntoBytes + KnownLayout>(&mut self, n: usize) -> Option<&'s mut [T]> {
        let words = n.checked_mul(size_of::<T>())?.div_ceil(size_of::<u64>());
        self.words = self.words.checked_add(words)?;
        if self.measure {
            return Some(&mut []);
        }
        let (mine, rest) = core::mem::take(&mut self.memory).split_at_mut_checked(words)?;
        self.memory = rest;
        let (array, _) = <[T]>::mut_from_prefix_with_elems(mine.as_mut_bytes(), n).ok()?;
        Some(array)
    }

    fn room(&mut self, p: &Problem<'_>, s: &Sizes, c: &Capacity) -> Option<Room<'s>> {
        let devices = p.devices.len();
        let pieces = c.piece_slots(s);
        let rows = c.clocks.checked_add(s.queues)?.checked_mul(s.lanes)?;
        Some(Room {
            works: self.take(s.works)?,
            queues: self.take(s.queues)?,
            lanes: self.take(s.lanes)?,
            devices: self.take(devices)?,
            waits: self.take(c.waits)?,
            touches: self.take(s.touches)?,
            ends: self.take(s.touches.checked_mul(2)?)?,
            spare_ends: self.take(s.touches.checked_mul(2)?)?,
            pieces: self.take(pieces)?,
            bits: self.take(bits::words_for(pieces))?,
            readers: self.take(c.readers)?,
            aliases: self.take(s.aliases.checked_mul(4)?.checked_mul(s.lanes)?)?,
            needs: self.take(s.lanes)?,
            needed: self.take(s.lanes)?,
            spare_needed: self.take(s.lanes)?,
            clock: self.take(s.lanes)?,
            rows: self.take(rows)?,
            reach: self.take(devices.checked_mul(s.lanes)?)?,
        })
    }
}

/// 64-bit words that the room takes.
pub(super) fn words(p: &Problem<'_>, s: &Sizes, c: &Capacity) -> Option<usize> {
    let mut carver = Carver {
        memory: &mut [],
        measure: true,
        words: 0,
    };
    carver.room(p, s, c)?;
    Some(carver.words)
}

/// Carves the room.
pub(super) fn carve<'s>(
    p: &Problem<'_>,
    s: &Sizes,
    c: &Capacity,
    memory: &'s mut [u64],
) -> Result<Room<'s>, PlanError> {
    let need = words(p, s, c).ok_or(PlanError::TooMany)?;
    let have = memory.len();
    let mut carver = Carver {
        memory,
        measure: false,
        words: 0,
    };
    let room = carver.room(p, s, c).filter(|_| have >= need);
    room.ok_or(PlanError::Scratch { need, have })
}
