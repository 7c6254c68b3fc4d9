//! A graph's own variables: they change with every launch, and what they cost is what every launch costs.

use super::super::dense::{Changed, Dense};
use super::super::stores::Checked;
use super::super::table::{FEEDS_FORMULA, Run};
use super::{PatchError, Patcher};
use crate::mem::Region;
use crate::value::{Var, low_mask};

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
    /// Whether some have sites in the dense lists of regions.
    dense: bool,
    /// Whether some have sites in lists of formulas.
    listed: bool,
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
        let bits = low_mask(count.min(u64::BITS) as u8);
        let used = |list: Dense<'_>| {
            let mut used = (0..).zip(list.used());
            used.any(|(word, used)| used & at_word(first, bits, word) != 0)
        };
        let plain = self.table.regions.iter().map(|r| r.starts);
        let dense = plain.filter_map(|at| self.table.list(at)).any(used);
        let of_formulas = self.table.lists.iter().map(|l| l.starts);
        let listed = of_formulas.filter_map(|at| self.table.list(at)).any(used);
        Some(Own {
            first,
            count,
            dirty: 0,
            runs: (from, to),
            dense,
            listed,
        })
    }

    /// The runs of a graph's own variables that changed.
    #[inline]
    fn own_runs(&self) -> impl Iterator<Item = &'m Run> {
        let (from, to) = self.own.runs;
        let runs = self.table.runs.get(from..to).unwrap_or_default();
        runs.iter().filter(|run| {
            let among = run.var.wrapping_sub(self.own.first);
            self.own.dirty >> (among & 63) & 1 != 0
        })
    }

    #[inline]
    pub(super) fn check_own(&self) -> Result<(), PatchError> {
        for run in self.own_runs() {
            self.check_run(run)?;
        }
        if self.own.listed {
            let (first, bits) = &self.own_changed();
            self.check_lists(Changed {
                first: *first,
                bits,
            })?;
        }
        Ok(())
    }

    /// The changed ones of a graph's own variables, in two words of the maps from the first one on.
    #[inline]
    fn own_changed(&self) -> (usize, [u64; 2]) {
        let (first, dirty) = (self.own.first, self.own.dirty);
        let word = first as usize / 64;
        (
            word,
            [word, word + 1].map(|word| at_word(first, dirty, word)),
        )
    }

    #[inline]
    pub(super) fn store_own(&mut self, checked: Checked, regions: &mut [Region<'_>]) -> usize {
        let mut stored = 0;
        for run in self.own_runs() {
            stored += self.store_run(checked, regions, run);
        }
        if self.own.dense {
            for (record, region) in self.table.dense(regions) {
                let Some(list) = self.table.list(record.starts) else {
                    continue;
                };
                let (first, bits) = self.own_changed();
                for (word, changed) in (first..).zip(bits) {
                    stored += self.store_block(checked, &list, word, changed, region);
                }
            }
        }
        if self.own.listed {
            let (first, bits) = &self.own_changed();
            stored += self.store_lists(
                checked,
                regions,
                Changed {
                    first: *first,
                    bits,
                },
            );
        }
        self.own.dirty = 0;
        stored
    }
}

/// Those of 64 bits, which are for the variables from `first` on, that are in one word of the maps.
#[inline]
fn at_word(first: u32, bits: u64, word: usize) -> u64 {
    let (of, shift) = (first as usize / 64, first % 64);
    match word.checked_sub(of) {
        Some(0) => bits << shift,
        Some(1) if shift != 0 => bits >> (64 - shift),
        _ => 0,
    }
}
