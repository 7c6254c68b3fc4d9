//! Who has touched allocations that may share bytes with another one.
//!
//! Which bytes of two such allocations meet is known only at launch, so that an access conflicts with all earlier ones to
//! the other allocation. For each lane the last one is enough; but what an allocation did itself is the tracker's, so the
//! last one to a different allocation is kept beside it.

use super::explain::Why;
use super::order::Needs;
use super::problem::Allocation;
use super::scratch::{AliasRec, NeedRec, TouchRec};

#[derive(Debug)]
pub(super) struct Aliases<'s> {
    /// By alias number, kind of access and lane.
    records: &'s mut [AliasRec],
    lanes: usize,
    pub(super) effort: u64,
}

/// Kinds of access.
const fn kind(input: bool, write: bool) -> usize {
    (if input { 2 } else { 0 }) + (if write { 1 } else { 0 })
}

impl<'s> Aliases<'s> {
    pub(super) fn new(records: &'s mut [AliasRec], lanes: usize) -> Self {
        records.fill(AliasRec::default());
        Self {
            records,
            lanes,
            effort: 0,
        }
    }

    /// The first record of an alias number and kind.
    fn first(&self, alias: u32, kind: usize) -> Option<usize> {
        let row = (alias as usize)
            .checked_sub(1)?
            .checked_mul(4)?
            .checked_add(kind)?;
        row.checked_mul(self.lanes)
    }

    /// Adds to `needs` whom a touch of allocation `a` must follow because of other allocations.
    pub(super) fn collect(
        &mut self,
        a: &Allocation,
        t: &TouchRec,
        needs: &mut Needs<'_>,
    ) -> Option<()> {
        if a.alias == 0 {
            return Some(());
        }
        for (input, write) in [(true, true), (true, false), (false, true), (false, false)] {
            // Two that are no inputs are apart, and two reads never conflict.
            if !(input || a.input) || !(write || t.write != 0) {
                continue;
            }
            let why = match (write, t.write != 0) {
                (true, false) => Why::ReadAfterWrite,
                (true, true) => Why::WriteAfterWrite,
                (false, _) => Why::WriteAfterRead,
            };
            let first = self.first(a.alias, kind(input, write))?;
            let records = self
                .records
                .get(first..first.checked_add(self.lanes)?)?
                .iter();
            for (lane, r) in (0u32..).zip(records) {
                let (token, from) = if r.allocation == t.allocation {
                    (r.other_token, r.other_allocation)
                } else {
                    (r.token, r.allocation)
                };
                self.effort += 1;
                if token != 0 {
                    let need = NeedRec {
                        token,
                        why: why as u32,
                        of: t.allocation,
                        from,
                        start: t.start,
                        end: t.end,
                    };
                    needs.add(lane, need)?;
                }
            }
        }
        Some(())
    }

    /// Notes a touch.
    pub(super) fn record(
        &mut self,
        a: &Allocation,
        t: &TouchRec,
        (token, lane): (u32, u32),
    ) -> Option<()> {
        if a.alias == 0 {
            return Some(());
        }
        let first = self.first(a.alias, kind(a.input, t.write != 0))?;
        let r = self.records.get_mut(first.checked_add(lane as usize)?)?;
        if r.token != 0 && r.allocation != t.allocation {
            (r.other_token, r.other_allocation) = (r.token, r.allocation);
        }
        (r.token, r.allocation) = (token, t.allocation);
        Some(())
    }
}
