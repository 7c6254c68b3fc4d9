//! Values, what changed of them, and the stores of that.

mod lists;
mod own;
mod places;
mod values;

use self::own::Own;
use self::places::Places;
use super::dense::{Block, Changed, Dense, rank};
use super::formula::Store;
use super::stores::{self, Checked};
use super::table::{FEEDS_FORMULA, PatchTable, RegionRecord, Run};
use crate::mem::Region;
use crate::value::{Misfit, Var, low_mask};

/// Why nothing was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum PatchError {
    /// The state memory is too small.
    StateTooSmall {
        /// 64-bit words needed.
        need: usize,
        /// 64-bit words given.
        have: usize,
    },
    /// A variable that some site needs never got a value.
    Unresolved {
        /// The first of them.
        var: Var,
    },
    /// The table has no such variable.
    NoSuchVariable {
        /// The variable.
        var: Var,
        /// How many there are.
        vars: u32,
    },
    /// The variable is computed from others.
    IsDerived {
        /// The variable.
        var: Var,
    },
    /// A value does not fit one of its fields.
    Misfit {
        /// The variable.
        var: Var,
        /// How it does not fit.
        misfit: Misfit,
    },
    /// Not the number of regions that the table was built for.
    RegionCount {
        /// Regions needed.
        need: usize,
        /// Regions given.
        have: usize,
    },
    /// A region is shorter than the table was built for, or does not start at an 8-byte boundary.
    Region {
        /// Its index.
        index: usize,
        /// Bytes needed.
        need: u64,
        /// Bytes given.
        have: u64,
    },
}

impl core::fmt::Display for PatchError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::StateTooSmall { need, have } => {
                write!(f, "the state needs {need} words, {have} were given")
            }
            Self::Unresolved { var } => write!(f, "variable {} has no value", var.index()),
            Self::NoSuchVariable { var, vars } => {
                write!(f, "no variable {} among {vars}", var.index())
            }
            Self::IsDerived { var } => {
                write!(f, "variable {} is computed from others", var.index())
            }
            Self::Misfit { var, misfit } => write!(f, "variable {}: {misfit}", var.index()),
            Self::RegionCount { need, have } => write!(f, "{need} regions needed, {have} given"),
            Self::Region { index, need, have } => {
                write!(
                    f,
                    "region {index} needs {need} bytes at an 8-byte boundary, {have} were given"
                )
            }
        }
    }
}

impl core::error::Error for PatchError {}

/// A table with its variables' values: remembers what changed, stores that and nothing else.
///
/// Values are checked when they are [applied](Self::apply), all before the first store: a launch whose values do not fit
/// leaves the memory as it was, and is refused until they do.
#[derive(Debug)]
pub struct Patcher<'m> {
    table: PatchTable<'m>,
    values: &'m mut [u64],
    /// Bit per variable: changed since it was stored.
    dirty: &'m mut [u64],
    /// Bit per variable: needs a value (some site or derived variable uses it) and has none.
    unknown: &'m mut [u64],
    unknown_left: usize,
    /// Words of `dirty` that may be non-zero.
    dirty_from: usize,
    dirty_to: usize,
    /// Bit per derived variable: an input changed since it was computed.
    stale: &'m mut [u64],
    stale_from: usize,
    stale_to: usize,
    own: Own,
    places: Places<'m>,
}

impl<'m> Patcher<'m> {
    /// All variables unknown. `state` has [`PatchTable::state_words`].
    ///
    /// # Errors
    /// [`PatchError::StateTooSmall`].
    pub fn new(table: PatchTable<'m>, state: &'m mut [u64]) -> Result<Self, PatchError> {
        let (need, have) = (table.state_words(), state.len());
        let too_small = PatchError::StateTooSmall { need, have };
        let state = state.get_mut(..need).ok_or(too_small)?;
        state.fill(0);
        let (values, maps) = state
            .split_at_mut_checked(table.vars() as usize)
            .ok_or(too_small)?;
        let (dirty, maps) = maps
            .split_at_mut_checked(table.map_words())
            .ok_or(too_small)?;
        let (unknown, stale) = maps
            .split_at_mut_checked(table.map_words())
            .ok_or(too_small)?;
        for (u, s) in unknown.iter_mut().zip(table.special) {
            *u = s.bits;
        }
        for list in table.all_lists() {
            for (u, used) in unknown.iter_mut().zip(list.used()) {
                *u |= used;
            }
        }
        let mut patcher = Self {
            table,
            values,
            dirty,
            unknown,
            unknown_left: 0,
            dirty_from: 0,
            dirty_to: 0,
            stale,
            stale_from: 0,
            stale_to: 0,
            own: Own::default(),
            places: Places::default(),
        };
        // Derived variables are computed, whoever uses them, and stored the first time even if they come out as the zero
        // that they start with.
        for (index, d) in table.derived.iter().enumerate() {
            if let Some(u) = patcher.unknown.get_mut(d.out as usize / 64) {
                *u &= !(1 << (d.out % 64));
            }
            patcher.mark_dirty(d.out);
            patcher.mark_stale(index);
        }
        let count = |n: usize, u: &u64| n + u.count_ones() as usize;
        patcher.unknown_left = patcher.unknown.iter().fold(0, count);
        Ok(patcher)
    }

    /// The table.
    pub fn table(&self) -> &PatchTable<'m> {
        &self.table
    }

    /// The value that the next launch uses, if the variable has one. None for those that are computed from others.
    pub fn get(&self, var: Var) -> Option<u64> {
        let unknown = self.unknown.get(var.0 as usize / 64)? >> (var.0 % 64) & 1;
        let value = self.values.get(var.0 as usize).copied();
        value.filter(|_| unknown == 0 && !self.table.is_derived(var))
    }

    /// Gives a variable its value from the next launch on.
    ///
    /// # Errors
    /// [`PatchError::NoSuchVariable`], [`PatchError::IsDerived`].
    #[inline]
    pub fn set(&mut self, var: Var, value: u64) -> Result<(), PatchError> {
        if !self.table.derived.is_empty() && self.table.is_derived(var) {
            return Err(PatchError::IsDerived { var });
        }
        if var.0 >= self.table.vars() {
            return Err(PatchError::NoSuchVariable {
                var,
                vars: self.table.vars(),
            });
        }
        self.put(var.0, value);
        Ok(())
    }

    /// The first derived variable from `first` up to `end`.
    #[inline]
    fn first_derived(&self, first: u32, end: u32) -> Option<Var> {
        let derived = self.table.derived;
        if derived.is_empty() {
            return None;
        }
        let at = derived.partition_point(|d| d.out < first);
        derived.get(at).filter(|d| d.out < end).map(|d| Var(d.out))
    }

    #[inline]
    fn touch(&mut self, from: usize, to: usize) {
        if self.dirty_from >= self.dirty_to {
            (self.dirty_from, self.dirty_to) = (from, to);
        } else {
            self.dirty_from = self.dirty_from.min(from);
            self.dirty_to = self.dirty_to.max(to);
        }
    }

    fn mark_dirty(&mut self, var: u32) {
        let word = var as usize / 64;
        if let Some(dirty) = self.dirty.get_mut(word) {
            *dirty |= 1 << (var % 64);
            self.touch(word, word + 1);
        }
    }

    #[inline]
    fn put(&mut self, var: u32, value: u64) {
        let (word, bit) = (var as usize / 64, 1u64 << (var % 64));
        let (Some(slot), Some(dirty), Some(unknown)) = (
            self.values.get_mut(var as usize),
            self.dirty.get_mut(word),
            self.unknown.get_mut(word),
        ) else {
            return;
        };
        let now_known = *unknown & bit != 0;
        if *slot == value && !now_known {
            return;
        }
        *slot = value;
        *dirty |= bit;
        *unknown &= !bit;
        self.unknown_left -= usize::from(now_known);
        self.touch(word, word + 1);
    }

    /// Marks every variable changed: the next launch stores all sites. For memory that was filled anew.
    pub fn touch_all(&mut self) {
        let vars = self.table.vars();
        for (word, d) in (0u32..).zip(self.dirty.iter_mut()) {
            let n = vars.saturating_sub(word.saturating_mul(64)).min(64);
            *d = if n == 64 { u64::MAX } else { (1u64 << n) - 1 };
        }
        self.touch(0, self.dirty.len());
    }

    /// Whether a launch would store something.
    pub fn is_dirty(&self) -> bool {
        self.dirty_from < self.dirty_to || self.own.dirty != 0
    }

    /// Stores all sites of the variables that changed. Returns how many sites that were.
    ///
    /// # Errors
    /// [`PatchError`]; nothing was stored then, and the changes are still to be made.
    pub fn apply(&mut self, regions: &mut [Region<'_>]) -> Result<usize, PatchError> {
        if self.unknown_left != 0 {
            return Err(PatchError::Unresolved {
                var: self.first_unknown(),
            });
        }
        let checked = stores::check(&self.table, regions)?;
        if self.own.dirty != 0 && !self.places.suffice {
            self.check_own()?;
        }
        let mut stored = 0;
        if self.dirty_from < self.dirty_to {
            stored += self.apply_dirty(checked, regions)?;
        }
        if self.own.dirty != 0 {
            stored += match self.places.suffice {
                true => self.store_places(regions),
                false => self.store_own(checked, regions),
            };
        }
        Ok(stored)
    }

    /// The same for regions that passed the check when they were bound, and are still those, if nothing changed but
    /// variables whose places are known. `None` if [`apply`](Self::apply) has to look.
    #[inline]
    pub(crate) fn apply_bound(&mut self, regions: &mut [Region<'_>]) -> Option<usize> {
        let known = self.unknown_left == 0 && self.places.suffice;
        if !known || self.dirty_from < self.dirty_to {
            return None;
        }
        Some(self.store_places(regions))
    }

    /// Checks and stores what changed, but for the variables that were kept.
    #[inline(never)]
    fn apply_dirty(
        &mut self,
        checked: Checked,
        regions: &mut [Region<'_>],
    ) -> Result<usize, PatchError> {
        // What is in no run and in no formula's list is a whole 64-bit store, which takes any value.
        let with_runs = self.stale_from < self.stale_to || self.has_changed_runs();
        if with_runs {
            self.check_values()?;
        }
        if !self.table.lists.is_empty() {
            self.check_lists(self.changed())?;
        }
        let mut stored = 0;
        let (first, count) = self.table.dense;
        for index in first..first + count {
            if let (Some(record), Some(region)) =
                (self.table.regions.get(index), regions.get_mut(index))
            {
                stored += self.store_dense(checked, record, region);
            }
        }
        if with_runs {
            stored += self.store_runs(checked, regions);
        }
        if !self.table.lists.is_empty() {
            stored += self.store_lists(checked, regions, self.changed());
        }
        for word in self.dirty_from..self.dirty_to {
            if let Some(dirty) = self.dirty.get_mut(word) {
                *dirty = 0;
            }
        }
        (self.dirty_from, self.dirty_to) = (0, 0);
        Ok(stored)
    }

    /// Whether some that changed have runs.
    #[inline]
    fn has_changed_runs(&self) -> bool {
        let special = self
            .table
            .special
            .get(self.dirty_from..)
            .unwrap_or_default();
        let changed = self
            .dirty
            .get(self.dirty_from..self.dirty_to)
            .unwrap_or_default();
        special
            .iter()
            .zip(changed)
            .any(|(s, changed)| s.bits & changed != 0)
    }

    /// Checks what changed, and computes what depends on it.
    #[inline(never)]
    fn check_values(&mut self) -> Result<(), PatchError> {
        self.check_changed()?;
        if self.stale_from < self.stale_to {
            self.derive_stale()?;
        }
        Ok(())
    }

    #[cold]
    fn first_unknown(&self) -> Var {
        let bit = self.unknown.iter().enumerate().find(|(_, u)| **u != 0);
        let index = bit.map_or(0, |(word, u)| word * 64 + u.trailing_zeros() as usize);
        Var(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// Checks the fields of all changed variables that were set, and notes which derived ones must be computed.
    #[inline]
    fn check_changed(&mut self) -> Result<(), PatchError> {
        for word in self.dirty_from..self.dirty_to {
            let special = self.table.special(word);
            let mut left = self.dirty.get(word).copied().unwrap_or(0) & special;
            if left == 0 {
                continue;
            }
            let mut runs = self.table.runs_of_word(word);
            if left == special && self.table.derived.is_empty() {
                for run in runs {
                    self.check_run(run)?;
                }
                continue;
            }
            while left != 0 {
                let var = var_at(word, left);
                left &= left - 1;
                // A derived one may still hold a value that was refused; it is computed and checked below.
                if let Some(index) = self.table.derived_index(var) {
                    self.mark_stale(index);
                    continue;
                }
                runs = PatchTable::runs_from(runs, var);
                runs = self.check_runs(runs, var)?;
            }
        }
        Ok(())
    }

    /// Checks a variable's fields, `runs` being its and what is behind them, which is returned; the derived variables that
    /// it feeds become stale.
    #[inline]
    fn check_runs<'t>(&mut self, runs: &'t [Run], var: u32) -> Result<&'t [Run], PatchError> {
        let mut left = runs;
        while let Some((run, behind)) = left.split_first()
            && run.var == var
        {
            left = behind;
            if run.formula == FEEDS_FORMULA {
                for &index in self.table.run_words(run) {
                    self.mark_stale(index as usize);
                }
                continue;
            }
            self.check_run(run)?;
        }
        Ok(left)
    }

    /// Whether the fields of one run can take the value of its variable.
    #[inline]
    fn check_run(&self, run: &Run) -> Result<(), PatchError> {
        let value = self.values.get(run.var as usize).copied().unwrap_or(0);
        let formula = self.table.formulas.get(run.formula as usize);
        match formula.map(|f| f.check(value)) {
            Some(Err(misfit)) => Err(PatchError::Misfit {
                var: Var(run.var),
                misfit,
            }),
            _ => Ok(()),
        }
    }

    fn mark_stale(&mut self, index: usize) {
        let word = index / 64;
        if let Some(stale) = self.stale.get_mut(word) {
            *stale |= 1 << (index % 64);
            if self.stale_from >= self.stale_to {
                (self.stale_from, self.stale_to) = (word, word + 1);
            } else {
                self.stale_from = self.stale_from.min(word);
                self.stale_to = self.stale_to.max(word + 1);
            }
        }
    }

    /// Computes stale derived variables in the order of their outputs, so that inputs which are derived themselves are up
    /// to date. When one does not fit, the rest stays stale.
    fn derive_stale(&mut self) -> Result<(), PatchError> {
        while self.stale_from < self.stale_to {
            let word = self.stale_from;
            let Some(left) = self.stale.get(word).copied().filter(|&w| w != 0) else {
                self.stale_from += 1;
                continue;
            };
            let index = word * 64 + left.trailing_zeros() as usize;
            if let Some(d) = self.table.derived.get(index) {
                let of = |var: u32| self.values.get(var as usize).copied().unwrap_or(0);
                let value = d
                    .eval(of)
                    .map_err(|(var, misfit)| PatchError::Misfit { var, misfit })?;
                self.put(d.out, value);
                let bit = 1 << (d.out % 64);
                if self
                    .dirty
                    .get(d.out as usize / 64)
                    .is_some_and(|w| w & bit != 0)
                {
                    let runs = self.table.runs_of_word(d.out as usize / 64);
                    self.check_runs(PatchTable::runs_from(runs, d.out), d.out)?;
                }
            }
            if let Some(stale) = self.stale.get_mut(word) {
                *stale &= !(1 << (index % 64));
            }
        }
        (self.stale_from, self.stale_to) = (0, 0);
        Ok(())
    }

    /// The words of `dirty` that may be non-zero.
    #[inline]
    fn changed(&self) -> Changed<'_> {
        let words = self.dirty.get(self.dirty_from..self.dirty_to);
        Changed {
            first: self.dirty_from,
            bits: words.unwrap_or_default(),
        }
    }

    /// The dense sites of changed variables in one region.
    #[inline(never)]
    fn store_dense(
        &self,
        checked: Checked,
        record: &RegionRecord,
        region: &mut Region<'_>,
    ) -> usize {
        let Some(list) = self.table.list(record.starts) else {
            return 0;
        };
        let mut stored = 0;
        for (word, changed) in self.changed().words() {
            if changed == 0 {
                continue;
            }
            let Some(values) = self.values.get(word * 64..) else {
                break;
            };
            if changed == u64::MAX
                && let (Some(offsets), Some(values)) =
                    (list.block_of_one_each(word), values.first_chunk())
            {
                stores::block(checked, region, offsets, values);
                stored += 64;
                continue;
            }
            stored += self.store_block(checked, &list, word, changed, values, region);
        }
        stored
    }

    /// The dense sites of changed variables of one word of the maps. `values` start with theirs.
    #[inline]
    fn store_block(
        &self,
        checked: Checked,
        list: &Dense<'_>,
        word: usize,
        changed: u64,
        values: &[u64],
        region: &mut Region<'_>,
    ) -> usize {
        match list.block(word) {
            Some(Block::Each(offsets)) => {
                let which = changed & low_mask(offsets.len().min(64) as u8);
                stores::one_each(checked, region, offsets, values, which);
                which.count_ones() as usize
            }
            Some(Block::Mask(mask, offsets)) => {
                let which = changed & mask;
                stores::masked(checked, region, offsets, values, mask, which);
                which.count_ones() as usize
            }
            Some(Block::Bounds(mask, bounds)) => {
                let (mut left, mut at, mut stored) = (changed & mask, 0, 0);
                let all = left == mask;
                while left != 0 {
                    let var = left.trailing_zeros();
                    left &= left - 1;
                    if !all {
                        at = rank(mask, var);
                    }
                    if let Some(&value) = values.get(var as usize) {
                        let offsets = list.between(bounds, at);
                        stores::plain(checked, region, offsets, value);
                        stored += offsets.len();
                    }
                    at += 1;
                }
                stored
            }
            None => 0,
        }
    }

    /// The runs of changed variables.
    #[inline(never)]
    fn store_runs(&self, checked: Checked, regions: &mut [Region<'_>]) -> usize {
        let mut stored = 0;
        for (word, changed) in self.changed().words() {
            let special = self.table.special(word);
            let mut left = changed & special;
            if left == 0 {
                continue;
            }
            let mut runs = self.table.runs_of_word(word);
            if left == special {
                for run in runs {
                    stored += self.store_run(checked, regions, run);
                }
                continue;
            }
            while left != 0 {
                let var = var_at(word, left);
                left &= left - 1;
                runs = PatchTable::runs_from(runs, var);
                while let Some((run, behind)) = runs.split_first()
                    && run.var == var
                {
                    runs = behind;
                    stored += self.store_run(checked, regions, run);
                }
            }
        }
        stored
    }

    /// The sites of one run.
    #[inline(always)]
    fn store_run(&self, checked: Checked, regions: &mut [Region<'_>], run: &Run) -> usize {
        let value = self.values.get(run.var as usize).copied().unwrap_or(0);
        let formula = self.table.formulas.get(run.formula as usize);
        let region = regions.get_mut(usize::from(run.region));
        let (Some(formula), Some(region)) = (formula, region) else {
            return 0;
        };
        let (store, value) = formula.eval(value);
        if store == Store::Nothing {
            return 0;
        }
        let offsets = self.table.run_words(run);
        stores::run(checked, region, offsets, store, value);
        offsets.len()
    }
}

/// The variable of the lowest bit in word `word` of a map.
#[inline]
fn var_at(word: usize, bits: u64) -> u32 {
    // There are fewer than 2^32 variables.
    (word as u32).wrapping_mul(64) | bits.trailing_zeros()
}
