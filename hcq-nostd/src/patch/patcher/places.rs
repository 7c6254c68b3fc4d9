//! A graph's own variables, which it knows as a device's together: each place where one is stored is looked up once, and
//! kept as a word. A launch walks these words and stores. That is for values that every field takes as they are; for others
//! the variables are those that were [kept](Patcher::keep_own), with all that fields can be.

use super::super::Store;
use super::super::record::FormulaRecord;
use super::super::table::{PatchTable, Run};
use super::Patcher;
use crate::mem::Region;
use crate::sort;
use crate::value::{Var, low_mask};

/// Where the variables that were kept are stored.
#[derive(Debug, Default)]
pub(super) struct Places<'m> {
    /// For each of them, a limit: its fields take smaller values, and take them as they are.
    limits: &'m [u64],
    /// The places, in the order of the variables.
    list: &'m [u64],
    /// Those that changed are below their limits. Never without places.
    pub(super) suffice: bool,
}

impl Places<'_> {
    /// Nothing has changed.
    pub(super) const fn clean(&mut self) {
        self.suffice = !self.limits.is_empty();
    }
}

/// What a site takes of a value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Low,
    High,
    Whole,
}

/// The halves of 64 bits in the order of their addresses.
const HALVES: [Part; 2] = match cfg!(target_endian = "little") {
    true => [Part::Low, Part::High],
    false => [Part::High, Part::Low],
};

/// A store in one word.
///
/// | bits | what |
/// |---|---|
/// | 31:0 | byte offset |
/// | 47:32 | region |
/// | 48 | the high half of the value is stored, not the low one |
/// | 49 | all of it, at an 8-byte boundary |
/// | 50 | with this store a site is complete |
/// | 63:58 | variable, counted from the first of the graph's own |
#[derive(Clone, Copy)]
struct Place(u64);

impl Place {
    const VARIABLE: u32 = 58;

    fn new(among: u32, region: u16, offset: u32, part: Part, last: bool) -> Self {
        let part = match part {
            Part::Low => 0,
            Part::High => 1,
            Part::Whole => 2,
        };
        let what = u64::from(last) << 50 | part << 48;
        let at = u64::from(region) << 32 | u64::from(offset);
        Self(u64::from(among) << Self::VARIABLE | what | at)
    }

    #[inline(always)]
    const fn among(self) -> usize {
        (self.0 >> Self::VARIABLE) as usize
    }

    #[inline(always)]
    const fn region(self) -> usize {
        (self.0 >> 32) as usize & 0xffff
    }

    /// Stores, and returns whether that completes a site. The place is inside: the table was checked, and the region is as
    /// large as it says.
    #[inline(always)]
    fn store(self, region: &mut Region<'_>, value: u64) -> bool {
        let at = (self.0 & 0xffff_ffff) as usize;
        let stored = if self.0 >> 49 & 1 != 0 {
            region.store_u64(at, value)
        } else {
            let half = value >> (32 * (self.0 >> 48 & 1));
            region.store_u32(at, half as u32)
        };
        stored.is_ok() && self.0 >> 50 & 1 != 0
    }
}

/// What a formula's sites take of a value below the limit that comes with it; `None` if it is no part of it.
fn part_of(f: &FormulaRecord) -> Option<(Part, u64)> {
    let formula = f.formula(0)?;
    let (of, fit) = (formula.of, formula.fit);
    let as_it_is = of.scale == 1 && of.add == 0 && formula.base == 0 && formula.shl == 0;
    if !as_it_is || formula.swap || fit.align_log2 != 0 || fit.least != 0 {
        return None;
    }
    // The field is cut: below this nothing is lost.
    let whole = formula.mask & formula.mask.wrapping_add(1) == 0;
    let cut = match (formula.store, formula.shr) {
        (Store::W32 | Store::Low32, 0 | 32) if formula.mask & 0xffff_ffff == 0xffff_ffff => {
            u64::MAX
        }
        (Store::High32, 0) if formula.mask == u64::MAX => u64::MAX,
        (Store::W64 | Store::W32 | Store::Low32, 0) if whole => formula.mask,
        _ => return None,
    };
    let part = match (formula.store, formula.shr) {
        (Store::W64, _) => Part::Whole,
        (Store::High32, _) | (_, 32) => Part::High,
        _ => Part::Low,
    };
    let most = fit.most.min(low_mask(fit.bits)).min(cut);
    Some((part, most.saturating_add(1)))
}

impl PatchTable<'_> {
    /// Words that a [patcher](Patcher::keep_places) needs to keep the places of the `count` variables from `first` on.
    pub(crate) fn place_words(&self, first: u32, count: u32) -> usize {
        let runs = self.runs_of(first, count).iter();
        // A site may take two stores.
        let runs = runs.fold(0usize, |n, r| n.saturating_add(2 * r.count as usize));
        let vars = first..first.saturating_add(count);
        let lists = self.all_lists();
        let listed = lists.flat_map(|list| vars.clone().map(move |var| list.sites_of(var).len()));
        let start = runs.saturating_add(count as usize);
        listed.fold(start, |n, sites| n.saturating_add(sites.saturating_mul(2)))
    }

    fn runs_of(&self, first: u32, count: u32) -> &[Run] {
        let end = first.saturating_add(count);
        let from = self.runs.partition_point(|r| r.var < first);
        let to = self.runs.partition_point(|r| r.var < end);
        self.runs.get(from..to).unwrap_or_default()
    }
}

/// Places while they are looked up.
struct Finder<'m> {
    limits: &'m mut [u64],
    list: &'m mut [u64],
    found: usize,
}

impl Finder<'_> {
    fn keep(&mut self, place: Place) -> Option<()> {
        *self.list.get_mut(self.found)? = place.0;
        self.found += 1;
        Some(())
    }

    /// A 64-bit store at an 8-byte boundary, of any value.
    fn plain(&mut self, among: u32, region: u16, offset: u32) -> Option<()> {
        let offset = offset.checked_mul(8)?;
        self.keep(Place::new(among, region, offset, Part::Whole, true))
    }

    /// Sites with a formula, at byte offsets.
    fn sites(&mut self, among: u32, f: &FormulaRecord, region: u16, at: &[u32]) -> Option<()> {
        if at.is_empty() {
            return Some(());
        }
        let limit = self.limits.get_mut(among as usize)?;
        let Some((part, most)) = part_of(f) else {
            *limit = 0;
            return Some(());
        };
        *limit = most.min(*limit);
        for &offset in at {
            let place = |offset, part, last| Place::new(among, region, offset, part, last);
            if part != Part::Whole || offset.is_multiple_of(8) {
                self.keep(place(offset, part, true))?;
                continue;
            }
            let [first, second] = HALVES;
            self.keep(place(offset, first, false))?;
            self.keep(place(offset.checked_add(4)?, second, true))?;
        }
        Some(())
    }
}

impl<'m> Patcher<'m> {
    /// [Keeps](Self::keep_own) variables and where they are stored, in `memory` of [`PatchTable::place_words`].
    pub(crate) fn keep_places(&mut self, first: Var, count: u32, memory: &'m mut [u64]) {
        self.keep_own(first, count);
        if self.own.count == count {
            self.places = self.find(first.0, count, memory).unwrap_or_default();
            self.places.clean();
        }
    }

    /// None if some are where no word of the list says.
    fn find(&self, first: u32, count: u32, memory: &'m mut [u64]) -> Option<Places<'m>> {
        let (limits, list) = memory.split_at_mut_checked(count as usize)?;
        limits.fill(u64::MAX);
        let mut finder = Finder {
            limits,
            list,
            found: 0,
        };
        let table = &self.table;
        for run in table.runs_of(first, count) {
            let formula = table.formulas.get(run.formula as usize)?;
            let among = run.var.checked_sub(first)?;
            finder.sites(among, formula, run.region, table.run_words(run))?;
        }
        for (region, record) in (0u16..).zip(table.regions) {
            let list = table.list(record.starts);
            for (among, list) in (0..count).filter_map(|among| Some((among, list?))) {
                for &offset in list.sites_of(first.checked_add(among)?) {
                    finder.plain(among, region, offset)?;
                }
            }
        }
        for record in table.lists {
            let formula = table.formulas.get(record.formula as usize)?;
            let list = table.list(record.starts)?;
            for among in 0..count {
                let offsets = list.sites_of(first.checked_add(among)?);
                finder.sites(among, formula, record.region, offsets)?;
            }
        }
        let Finder {
            limits,
            list,
            found,
        } = finder;
        let list = list.get_mut(..found)?;
        sort::in_place(list, |p| p >> Place::VARIABLE);
        Some(Places {
            limits,
            list,
            suffice: false,
        })
    }

    /// Gives a graph's own variables their values, those of a device and its entry being `N` in a row; `None` leaves them
    /// as they are. They are never derived, and there are as many.
    #[inline]
    pub(crate) fn set_places<const N: usize, D, E>(
        &mut self,
        first: Var,
        devices: &[D],
        entries: &[E],
        values: impl Fn(&D, &E) -> Option<[u64; N]>,
    ) {
        // The first time they become known.
        if self.unknown_left != 0 || self.places.limits.is_empty() {
            let values = devices.iter().zip(entries).map(|(d, e)| values(d, e));
            return self.put_all(first, values);
        }
        let kept = self.values.get_mut(self.own.first as usize..);
        let (kept, _) = kept.unwrap_or_default().as_chunks_mut::<N>();
        let (limits, _) = self.places.limits.as_chunks::<N>();
        let (mut changed, mut suffice, mut bit) = (0, self.places.suffice, 1u64);
        for ((kept, limits), (d, e)) in kept.iter_mut().zip(limits).zip(devices.iter().zip(entries))
        {
            if let Some(values) = values(d, e) {
                for (i, ((kept, value), limit)) in
                    kept.iter_mut().zip(&values).zip(limits).enumerate()
                {
                    if *kept != *value {
                        *kept = *value;
                        changed |= bit << i;
                        suffice &= *value < *limit;
                    }
                }
            }
            bit <<= N;
        }
        self.own.dirty |= changed;
        self.places.suffice = suffice;
    }

    #[cold]
    fn put_all<const N: usize>(
        &mut self,
        first: Var,
        values: impl Iterator<Item = Option<[u64; N]>>,
    ) {
        for (var, values) in (first.0..).step_by(N).zip(values) {
            for (var, value) in (var..).zip(values.into_iter().flatten()) {
                self.put(var, value);
            }
        }
    }

    /// Stores those that were kept and changed, if they are below their limits. Returns how many sites that were.
    #[inline]
    pub(super) fn store_places(&mut self, regions: &mut [Region<'_>]) -> usize {
        let (dirty, mut stored) = (self.own.dirty, 0);
        self.own.dirty = 0;
        let values = self.values.get(self.own.first as usize..);
        let values = values.unwrap_or_default();
        for &place in self.places.list {
            let place = Place(place);
            if dirty >> place.among() & 1 == 0 {
                continue;
            }
            let (region, value) = (regions.get_mut(place.region()), values.get(place.among()));
            if let (Some(region), Some(&value)) = (region, value) {
                stored += usize::from(place.store(region, value));
            }
        }
        stored
    }
}
