//! Arenas: who may use which bytes of a region, and until when.
//!
//! Both kinds hand out offsets and leave the memory to its owner. A [`Bump`] is filled once and reset whole. A
//! [`FencedArena`] wraps, and never hands out bytes that a submission in flight still reads: what was handed out since
//! the last [`fence`](FencedArena::fence) belongs to one timeline point and comes back when that point is complete.
//! Fence in the order of the points: bytes come back in the order in which they were handed out.
//!
//! ```
//! use hcq_nostd::arena::{ArenaError, FencedArena, Mark};
//! use hcq_nostd::timeline::Point;
//!
//! let mut marks = [Mark::EMPTY; 4];
//! let mut arena = FencedArena::new(0, 256, &mut marks)?;
//! let a = arena.alloc(200, 16)?;
//! arena.fence(Point::from_raw(1));                       // the submission with point 1 reads it
//! assert_eq!(arena.alloc(100, 16), Err(ArenaError::WouldBlock { wait_for: Point::from_raw(1) }));
//! arena.retire(Point::from_raw(1));                      // it is complete
//! assert_eq!(arena.alloc(100, 16)?, a);
//! # Ok::<(), ArenaError>(())
//! ```

use crate::timeline::Point;

/// Why there are no bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ArenaError {
    /// The alignment is not a power of two, or the arena's start is not that of a sensible address.
    Alignment {
        /// The alignment asked for.
        align: u64,
    },
    /// No waiting helps: the request does not fit the whole arena, or not beside what was handed out since the last
    /// fence. In the second case [`rewind`](FencedArena::rewind) and take the submission's bytes again: with nothing in
    /// flight they start at the arena's beginning, and fit if any arrangement does.
    TooLarge {
        /// Bytes asked for.
        size: u64,
        /// Bytes that there are for it, padding included.
        most: u64,
    },
    /// Work in flight reads the bytes until this point.
    WouldBlock {
        /// The point whose completion makes room.
        wait_for: Point,
    },
}

impl core::fmt::Display for ArenaError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Alignment { align } => write!(f, "{align} is no alignment"),
            Self::TooLarge { size, most } => {
                write!(f, "{size} bytes asked for, {most} is the most")
            }
            Self::WouldBlock { wait_for } => {
                write!(f, "no room until point {} is complete", wait_for.raw())
            }
        }
    }
}

impl core::error::Error for ArenaError {}

/// `at` rounded up so that `base + at` is a multiple of `align`.
fn align_up(base: u64, at: u64, align: u64) -> Option<u64> {
    let address = base.checked_add(at)?;
    address.checked_next_multiple_of(align)?.checked_sub(base)
}

fn check(align: u64) -> Result<(), ArenaError> {
    if align.is_power_of_two() {
        Ok(())
    } else {
        Err(ArenaError::Alignment { align })
    }
}

/// An arena that is filled once.
///
/// ```
/// use hcq_nostd::arena::Bump;
/// let mut arena = Bump::new(0x1008, 64);
/// assert_eq!(arena.alloc(8, 16), Ok(8));      // offset 8, address 0x1010
/// assert_eq!(arena.used(), 16);
/// assert!(arena.alloc(49, 1).is_err());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Bump {
    base: u64,
    size: u64,
    at: u64,
}

impl Bump {
    /// `size` bytes at device address `base`, which alignments count from.
    pub const fn new(base: u64, size: u64) -> Self {
        Self { base, size, at: 0 }
    }

    /// Offset of `size` bytes whose address is a multiple of `align`.
    ///
    /// # Errors
    /// [`ArenaError::Alignment`], [`ArenaError::TooLarge`]; nothing has changed.
    pub fn alloc(&mut self, size: u64, align: u64) -> Result<u64, ArenaError> {
        check(align)?;
        let too_large = ArenaError::TooLarge {
            size,
            most: self.size - self.at,
        };
        let at = align_up(self.base, self.at, align).ok_or(too_large)?;
        let end = at
            .checked_add(size)
            .filter(|&e| e <= self.size)
            .ok_or(too_large)?;
        self.at = end;
        Ok(at)
    }

    /// Bytes taken, padding included.
    pub const fn used(&self) -> u64 {
        self.at
    }

    /// Takes everything back. For when nothing in flight reads it.
    pub const fn reset(&mut self) {
        self.at = 0;
    }
}

/// One submission's share of a fenced arena, in caller memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Mark {
    /// Bytes handed out in all up to here, with what was skipped.
    end: u64,
    point: u64,
}

impl Mark {
    /// Fills the memory before use.
    pub const EMPTY: Self = Self { end: 0, point: 0 };
}

/// The largest arena, so that counts of bytes stay clear of 2^64.
const MOST: u64 = 1 << 62;

/// A wrapping arena whose bytes come back when the work that reads them is complete.
#[derive(Debug)]
pub struct FencedArena<'m> {
    base: u64,
    size: u64,
    /// Bytes handed out in all; the place is this modulo `size`.
    head: u64,
    /// Bytes that came back in all.
    tail: u64,
    /// Bytes handed out up to the last fence.
    fenced: u64,
    marks: &'m mut [Mark],
    first: usize,
    used: usize,
}

impl<'m> FencedArena<'m> {
    /// `size` bytes at device address `base`, which alignments count from. `marks` holds one entry per submission in
    /// flight; with fewer, several submissions share one and come back together.
    ///
    /// # Errors
    /// [`ArenaError::TooLarge`] if there is not even one mark, or with more than 2^62 bytes.
    pub fn new(base: u64, size: u64, marks: &'m mut [Mark]) -> Result<Self, ArenaError> {
        let most = if marks.is_empty() { 0 } else { MOST };
        if size > most || marks.is_empty() || base.checked_add(size).is_none() {
            return Err(ArenaError::TooLarge { size, most });
        }
        Ok(Self {
            base,
            size,
            head: 0,
            tail: 0,
            fenced: 0,
            marks,
            first: 0,
            used: 0,
        })
    }

    /// Bytes handed out and not back, with what was skipped.
    pub fn used(&self) -> u64 {
        self.head - self.tail
    }

    /// Offset of `size` bytes in one piece whose address is a multiple of `align`.
    ///
    /// # Errors
    /// [`ArenaError`]; nothing has changed.
    #[inline]
    pub fn alloc(&mut self, size: u64, align: u64) -> Result<u64, ArenaError> {
        check(align)?;
        if self.head > 2 * MOST {
            self.recount();
        }
        let too_large = ArenaError::TooLarge {
            size,
            most: self.size,
        };
        if self.size == 0 {
            return Err(too_large);
        }
        // With nothing in flight there is nothing to go round: start over, so that what fits an empty arena fits.
        let (head, tail) = if self.head == self.tail {
            (0, 0)
        } else {
            (self.head, self.tail)
        };
        let place = head.checked_rem(self.size).unwrap_or(0);
        let here = align_up(self.base, place, align)
            .filter(|a| a.checked_add(size).is_some_and(|e| e <= self.size));
        let (at, skip) = match here {
            Some(at) => (at, at - place),
            None => {
                let at = align_up(self.base, 0, align).ok_or(too_large)?;
                if at.checked_add(size).is_none_or(|e| e > self.size) {
                    return Err(too_large);
                }
                (at, self.size - place + at)
            }
        };
        let need = skip.checked_add(size).ok_or(too_large)?;
        if need > self.size - (head - tail) {
            return Err(match self.marks.get(self.first).filter(|_| self.used > 0) {
                Some(mark) => ArenaError::WouldBlock {
                    wait_for: Point::from_raw(mark.point),
                },
                None => ArenaError::TooLarge {
                    size,
                    most: self.size - (head - tail),
                },
            });
        }
        if (head, tail) != (self.head, self.tail) {
            (self.tail, self.fenced) = (0, 0);
        }
        self.head = head + need;
        Ok(at)
    }

    /// The mark `i` places after the oldest.
    fn mark_mut(&mut self, i: usize) -> Option<&mut Mark> {
        let at = self.first.checked_add(i)?.checked_rem(self.marks.len())?;
        self.marks.get_mut(at)
    }

    /// Counts from a whole number of turns less; no place changes.
    #[cold]
    fn recount(&mut self) {
        let turns = self.tail - self.tail.checked_rem(self.size).unwrap_or(0);
        self.head -= turns;
        self.tail -= turns;
        self.fenced -= turns;
        for i in 0..self.used {
            if let Some(m) = self.mark_mut(i) {
                m.end -= turns;
            }
        }
    }

    /// What was handed out since the last fence is read by work that is complete at `point`.
    pub fn fence(&mut self, point: Point) {
        if self.head == self.fenced {
            return;
        }
        self.fenced = self.head;
        let mark = Mark {
            end: self.head,
            point: point.raw(),
        };
        if self.used == self.marks.len() {
            // No mark left: the newest one takes these bytes too, and comes back with the later of the two points.
            if let Some(m) = self.mark_mut(self.used.wrapping_sub(1)) {
                *m = Mark {
                    end: mark.end,
                    point: mark.point.max(m.point),
                };
            }
            return;
        }
        if let Some(m) = self.mark_mut(self.used) {
            *m = mark;
            self.used += 1;
        }
    }

    /// Gives back what was handed out since the last fence: the submission was not made.
    pub fn rewind(&mut self) {
        self.head = self.fenced;
    }

    /// Everything up to this point is complete.
    #[inline]
    pub fn retire(&mut self, completed: Point) {
        while self.used > 0 {
            let Some(mark) = self
                .marks
                .get(self.first)
                .filter(|m| m.point <= completed.raw())
            else {
                break;
            };
            self.tail = mark.end;
            self.first = (self.first + 1).checked_rem(self.marks.len()).unwrap_or(0);
            self.used -= 1;
        }
    }
}

#[cfg(test)]
mod tests;
