//! Variables that change with every launch, a graph's own: what they cost is what every launch costs.

use super::super::dense::{Changed, Dense};
use super::super::stores::Checked;
use super::super::table::{FEEDS_FORMULA, Run};
use super::places::Places;
use super::{PatchError, Patcher};
use crate::mem::Region;
use crate::value::{Var, low_mask};

/// Where the sites of the variables are that change with every launch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Own {
    /// The first variable and how many; none if they are treated as all others are.
    pub(super) first: u32,
    pub(super) count: u32,
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
    /// Says that the `count` variables from `first` on, 64 at most, change with every launch: what it waits for, what it
    /// signals. Their sites are looked up here, so that [`set_own`](Self::set_own) need not. Variables that others are computed
    /// from, that are computed themselves or that the table does not have are treated as all others, which costs time and
    /// nothing else. The last call counts.
    ///
    /// ```
    /// use hcq_nostd::mem::Region;
    /// use hcq_nostd::patch::{Formula, PatchList, Patcher, RegionId, Site};
    /// use hcq_nostd::value::Fit;
    ///
    /// let mut sites = [Site::EMPTY; 2];
    /// let mut list = PatchList::new(&mut sites, &mut []);
    /// let (address, value) = (list.var()?, list.var()?);
    /// list.site(RegionId(0), 0, &Formula::whole(address));
    /// list.site(RegionId(0), 8, &Formula::low(value, Fit::bits(32)));
    /// let mut table = [0; 64];
    /// let table = list.build(&[16], &mut table)?;
    /// let mut state = [0; 8];
    /// let mut patcher = Patcher::new(table, &mut state)?;
    /// patcher.keep_own(address, 2);
    ///
    /// let mut words = [0u64; 2];
    /// for n in 1..4 {
    ///     patcher.set_own(address, [0x8000, n])?;
    ///     patcher.apply(&mut [Region::from_words(&mut words, 0x1000)])?;
    ///     assert_eq!(words, [0x8000, n]);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keep_own(&mut self, first: Var, count: u32) {
        let (before, mut left) = (self.own.first, self.own.dirty);
        while left != 0 {
            self.mark_dirty(before.wrapping_add(left.trailing_zeros()));
            left &= left - 1;
        }
        self.own = self.find_own(first.0, count).unwrap_or_default();
        self.places = Places::default();
    }

    /// Does what [`set_all`](Self::set_all) does, faster for variables that were [kept](Self::keep_own) and known before.
    ///
    /// # Errors
    /// As for [`set_all`](Self::set_all).
    #[inline]
    pub fn set_own<const N: usize>(
        &mut self,
        first: Var,
        values: [u64; N],
    ) -> Result<(), PatchError> {
        const { assert!(N <= u64::BITS as usize) }
        let among = first.0.wrapping_sub(self.own.first);
        let inside = among < self.own.count && self.own.count - among >= N as u32;
        let kept = self.values.get_mut(first.0 as usize..);
        let (Some(kept), true, 0) = (
            kept.and_then(<[u64]>::first_chunk_mut::<N>),
            inside,
            self.unknown_left,
        ) else {
            // The first time they become known.
            return self.set_all(first, &values);
        };
        let mut changed = 0;
        for (bit, (kept, value)) in kept.iter_mut().zip(values).enumerate() {
            changed |= u64::from(*kept != value) << bit;
            *kept = value;
        }
        self.own.dirty |= changed << (among & 63);
        self.places.suffice &= changed == 0;
        Ok(())
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

    /// The runs of those that changed.
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
                    if let Some(values) = self.values.get(word * 64..)
                        && changed != 0
                    {
                        stored += self.store_block(checked, &list, word, changed, values, region);
                    }
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
        self.places.clean();
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
