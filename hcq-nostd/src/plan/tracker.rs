//! Who has touched which bytes.
//!
//! All places where an access starts or ends are sorted beforehand; what lies between two of them is a piece. Adjacent
//! pieces with one history are a segment: its last writer, and a chain of those who have read it since. Segments tile all
//! pieces; an access splits those at its two ends, and a write makes one segment of what it covers.
//!
//! Room that is short never loses an order. With too few pieces, neighbours become one. With no reader left, a segment is
//! not split but touched whole, which is right since its history is one, or its reader takes the writer's place, so that
//! everybody later follows it.

use super::bits::Bits;
use super::explain::Why;
use super::order::Needs;
use super::scratch::{EndRec, NONE, NeedRec, PieceRec, ReaderRec, TouchRec};
use crate::sort;

/// In a piece's lane: the token in the writer's place is a reader's.
const SPILLED: u32 = 1 << 31;

#[derive(Debug)]
pub(super) struct Tracker<'s> {
    pieces: &'s mut [PieceRec],
    bits: Bits<'s>,
    readers: &'s mut [ReaderRec],
    /// Readers from here on were never used.
    fresh: u32,
    /// A chain of those that came back, and its length.
    free: u32,
    free_len: u32,
    /// The index of the last piece, at which no segment starts.
    end: u32,
    /// Pieces are 2^this neighbours each.
    shift: u32,
    pub(super) exact: bool,
    pub(super) effort: u64,
}

impl<'s> Tracker<'s> {
    /// Sorts the ends of all touches and gives each touch its pieces. `None` if the records do not fit each other.
    pub(super) fn new(
        touches: &mut [TouchRec],
        (ends, spare): (&mut [EndRec], &mut [EndRec]),
        pieces: &'s mut [PieceRec],
        bits: &'s mut [u64],
        readers: &'s mut [ReaderRec],
    ) -> Option<Self> {
        let ends = ends.get_mut(..touches.len().checked_mul(2)?)?;
        for ((i, t), pair) in (0u32..).zip(touches.iter()).zip(ends.chunks_exact_mut(2)) {
            let allocation = t.allocation;
            let [lo, hi] = pair else { return None };
            (lo.at, lo.allocation, lo.side) = (t.start, allocation, 2 * i);
            (hi.at, hi.allocation, hi.side) = (t.end, allocation, 2 * i + 1);
        }
        let key = |e: &EndRec| (u128::from(e.allocation) << 64) | u128::from(e.at);
        sort::with_spare(ends, spare, key)?;
        let mut last = 0u32;
        let mut before = ends.first().map(key);
        for e in ends.iter() {
            last += u32::from(before != Some(key(e)));
            before = Some(key(e));
        }

        // The last place is only ever an end. Piece `i` stands for the places `i << shift` and on.
        let room = u32::try_from(pieces.len()).ok()?.checked_sub(1)?;
        let mut shift = 0;
        while blocks(last, shift) > room {
            shift += 1;
        }
        let end = blocks(last, shift);
        let mut i = 0u32;
        let mut before = None;
        for e in ends.iter() {
            if before != Some(key(e)) {
                i += u32::from(before.is_some());
                before = Some(key(e));
                let at = if i == last { end } else { i >> shift };
                if i == last || at << shift == i {
                    pieces.get_mut(at as usize)?.at = e.at;
                }
            }
            let t = touches.get_mut((e.side / 2) as usize)?;
            if e.side.is_multiple_of(2) {
                t.lo = i >> shift;
            } else {
                t.hi = blocks(i, shift);
            }
        }
        let mut bits = Bits::new(pieces.len(), bits)?;
        bits.insert(0)?;
        let first = pieces.first_mut()?;
        (first.next, first.writer, first.lane, first.readers) = (end, 0, 0, NONE);
        Some(Self {
            pieces,
            bits,
            readers,
            fresh: 0,
            free: NONE,
            free_len: 0,
            end,
            shift,
            exact: shift == 0,
            effort: 0,
        })
    }

    fn piece(&self, i: u32) -> Option<&PieceRec> {
        self.pieces.get(i as usize)
    }

    fn reader(&self, i: u32) -> Option<&ReaderRec> {
        self.readers.get(i as usize)
    }

    /// Adds to `needs` whom a touch must follow.
    pub(super) fn collect(&mut self, t: &TouchRec, needs: &mut Needs<'_>) -> Option<()> {
        let write = t.write != 0;
        let mut at = self.bits.at_or_before(t.lo)?;
        while at < t.hi {
            let p = *self.piece(at)?;
            self.effort += 1;
            let exact = self.shift == 0 && p.lane & SPILLED == 0;
            let need = |token, why| NeedRec {
                token,
                why: if exact { why } else { Why::Capacity } as u32,
                of: t.allocation,
                from: t.allocation,
                start: t.start.max(p.at),
                end: t.end,
            };
            // The bytes in common, which the next segment's start bounds; of a coarse tracker, the touch's.
            let bounded = |n: NeedRec, next: u64| match self.shift {
                0 => NeedRec {
                    end: t.end.min(next),
                    ..n
                },
                _ => NeedRec {
                    start: t.start,
                    ..n
                },
            };
            let next = self.piece(p.next)?.at;
            if p.writer != 0 {
                let why = if write {
                    Why::WriteAfterWrite
                } else {
                    Why::ReadAfterWrite
                };
                needs.add(p.lane & !SPILLED, bounded(need(p.writer, why), next))?;
            }
            let mut chain = if write { p.readers } else { NONE };
            while chain != NONE {
                let r = *self.reader(chain)?;
                self.effort += 1;
                let why = if self.shift == 0 {
                    Why::WriteAfterRead
                } else {
                    Why::Capacity
                } as u32;
                let need = NeedRec {
                    why,
                    ..need(r.token, Why::WriteAfterRead)
                };
                needs.add(r.lane, bounded(need, next))?;
                chain = r.next;
            }
            at = p.next;
        }
        Some(())
    }

    /// Notes a touch by the work with this token, whose lanes known to be complete at its start are in `clock`.
    pub(super) fn record(
        &mut self,
        t: &TouchRec,
        (token, lane): (u32, u32),
        clock: &[u32],
    ) -> Option<()> {
        let lo = self.split(t.lo)?;
        let hi = if t.hi == self.end {
            t.hi
        } else {
            let hi = self.split(t.hi)?;
            if hi == t.hi { hi } else { self.piece(hi)?.next }
        };
        let mut at = lo;
        while at < hi {
            self.effort += 1;
            let next = self.piece(at)?.next;
            if t.write != 0 {
                self.prune(at, |_| true)?;
                if at != lo {
                    self.bits.remove(at)?;
                }
            } else {
                // Who follows this reader follows those whom it follows.
                let known = |r: &ReaderRec| {
                    let done = clock.get(r.lane as usize).copied();
                    r.token == token || done.is_some_and(|c| c >= r.token)
                };
                self.prune(at, known)?;
                self.push(at, token, lane)?;
            }
            at = next;
        }
        if t.write != 0 {
            let p = self.pieces.get_mut(lo as usize)?;
            (p.next, p.writer, p.lane, p.readers) = (hi, token, lane, NONE);
        }
        Some(())
    }

    /// Makes a segment start at piece `at`; without room for that, returns the start of the segment that holds it.
    fn split(&mut self, at: u32) -> Option<u32> {
        if self.bits.contains(at) {
            return Some(at);
        }
        let from = self.bits.at_or_before(at)?;
        let old = *self.piece(from)?;
        let mut len = 0;
        let mut chain = old.readers;
        while chain != NONE {
            chain = self.reader(chain)?.next;
            len += 1;
        }
        let fresh = u32::try_from(self.readers.len())
            .ok()?
            .checked_sub(self.fresh)?;
        if len > fresh.checked_add(self.free_len)? {
            self.exact = false;
            return Some(from);
        }
        self.effort += u64::from(len) + 1;
        let p = self.pieces.get_mut(at as usize)?;
        (p.next, p.writer, p.lane, p.readers) = (old.next, old.writer, old.lane, NONE);
        let mut chain = old.readers;
        while chain != NONE {
            let r = *self.reader(chain)?;
            self.push(at, r.token, r.lane)?;
            chain = r.next;
        }
        self.pieces.get_mut(from as usize)?.next = at;
        self.bits.insert(at)?;
        Some(at)
    }

    /// Adds a reader to a segment, or puts it in the writer's place.
    fn push(&mut self, at: u32, token: u32, lane: u32) -> Option<()> {
        let slot = if self.free != NONE {
            let slot = self.free;
            self.free = self.reader(slot)?.next;
            self.free_len -= 1;
            slot
        } else if (self.fresh as usize) < self.readers.len() {
            self.fresh += 1;
            self.fresh - 1
        } else {
            self.exact = false;
            let p = self.pieces.get_mut(at as usize)?;
            (p.writer, p.lane) = (token, lane | SPILLED);
            return Some(());
        };
        let p = self.pieces.get_mut(at as usize)?;
        let r = self.readers.get_mut(slot as usize)?;
        (r.token, r.lane, r.next) = (token, lane, p.readers);
        p.readers = slot;
        Some(())
    }

    /// Takes readers out of a segment's chain.
    fn prune(&mut self, at: u32, drop: impl Fn(&ReaderRec) -> bool) -> Option<()> {
        let p = self.pieces.get_mut(at as usize)?;
        let mut chain = core::mem::replace(&mut p.readers, NONE);
        let mut kept = NONE;
        while chain != NONE {
            self.effort += 1;
            let r = self.readers.get_mut(chain as usize)?;
            let next = r.next;
            if drop(r) {
                r.next = self.free;
                self.free = chain;
                self.free_len += 1;
            } else {
                r.next = kept;
                kept = chain;
            }
            chain = next;
        }
        self.pieces.get_mut(at as usize)?.readers = kept;
        Some(())
    }
}

/// Blocks of `2^shift` that hold `n` pieces.
const fn blocks(n: u32, shift: u32) -> u32 {
    if n == 0 { 0 } else { ((n - 1) >> shift) + 1 }
}
