//! A graph's own variables: they change with every launch, and what they cost is what every launch costs.

use super::super::stores::Checked;
use super::super::table::{FEEDS_FORMULA, Run, START_MASK};
use super::{PatchError, Patcher};
use crate::mem::Region;
use crate::value::Var;

/// Where the sites of a graph's own variables are, which change with every launch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Own {
    /// The first variable and how many; none if they are treated as all others are.
    first: u32,
    count: u32,
    /// Bit per variable of them: changed since it was stored.
    pub(super) dirty: u64,
    /// Their runs.
    runs: (usize, usize),
    /// Whether some have sites in dense lists.
    dense: bool,
}

impl<'m> Patcher<'m> {
    /// Says that the `count` variables from `first` on are a graph's own, and change with every launch.
    pub(crate) fn keep_own(&mut self, first: u32, count: u32) {
        self.own = self.find_own(first, count).unwrap_or_default();
    }

    /// Gives a graph's own variables from `first` on their values. They are never derived, and there are as many.
    #[inline]
    pub(crate) fn set_own<const N: usize>(&mut self, first: Var, values: [u64; N]) {
        let kept = self.values.get_mut(first.0 as usize..);
        let Some(kept) = kept.and_then(<[u64]>::first_chunk_mut::<N>) else {
            return;
        };
        let among = first.0.wrapping_sub(self.own.first);
        // The first time they become known.
        if self.unknown_left != 0 || among >= self.own.count {
            for (var, value) in (first.0..).zip(values) {
                self.put(var, value);
            }
            return;
        }
        let mut changed = 0;
        for (bit, (kept, value)) in kept.iter_mut().zip(values).enumerate() {
            changed |= u64::from(*kept != value) << bit;
            *kept = value;
        }
        self.own.dirty |= changed << (among & 63);
    }

    /// None for variables that other ones are computed from, or that are computed, or for too many.
    fn find_own(&self, first: u32, count: u32) -> Option<Own> {
        let end = first.checked_add(count).filter(|&e| e <= self.table.vars)?;
        if count > u64::BITS {
            return None;
        }
        let runs = self.table.runs;
        let from = runs.partition_point(|r| r.var < first);
        let to = runs.partition_point(|r| r.var < end);
        let plain = |r: &Run| r.formula != FEEDS_FORMULA;
        if !runs.get(from..to)?.iter().all(plain) || self.first_derived(first, end).is_some() {
            return None;
        }
        let dense = |r| {
            let starts = self.table.starts(r);
            let of = starts.and_then(|s| s.get(first as usize..=end as usize));
            of.and_then(|s| Some((s.first()? ^ s.last()?) & START_MASK != 0))
        };
        Some(Own {
            first,
            count,
            dirty: 0,
            runs: (from, to),
            dense: self.table.regions.iter().filter_map(dense).any(|d| d),
        })
    }

    /// The runs of a graph's own variables that changed.
    #[inline]
    fn own_runs(&self) -> impl Iterator<Item = (&'m Run, u64)> {
        let (from, to) = self.own.runs;
        let runs = self.table.runs.get(from..to).unwrap_or_default();
        runs.iter().filter_map(|run| {
            let among = run.var.wrapping_sub(self.own.first);
            let changed = self.own.dirty >> (among & 63) & 1 != 0;
            let value = self.values.get(run.var as usize);
            value.filter(|_| changed).map(|&value| (run, value))
        })
    }

    #[inline]
    pub(super) fn check_own(&self) -> Result<(), PatchError> {
        for (run, value) in self.own_runs() {
            let formula = self.table.formulas.get(run.formula as usize);
            if let Some(Err(misfit)) = formula.map(|f| f.check(value)) {
                let var = Var(run.var);
                return Err(PatchError::Misfit { var, misfit });
            }
        }
        Ok(())
    }

    #[inline]
    pub(super) fn store_own(&mut self, checked: Checked, regions: &mut [Region<'_>]) -> usize {
        let mut stored = 0;
        for (run, value) in self.own_runs() {
            stored += self.store_run(checked, regions, run, value);
        }
        if self.own.dense {
            let (first, count) = (self.own.first as usize, self.own.count as usize);
            let values = self.values.get(first..).unwrap_or_default();
            for (record, region) in self.table.dense(regions) {
                let starts = self.table.starts(record).unwrap_or_default();
                let starts = starts.get(first..).unwrap_or_default();
                if let (Some(a), Some(b)) = (starts.first(), starts.get(count))
                    && (a ^ b) & START_MASK != 0
                {
                    stored += self.store_few(checked, starts, values, self.own.dirty, region);
                }
            }
        }
        self.own.dirty = 0;
        stored
    }
}
