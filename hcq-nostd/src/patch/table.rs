//! The bytes of a patch table.
//!
//! | section | entry | what |
//! |---|---|---|
//! | header | 48 bytes | magic, version, counts |
//! | derived | 112 | variables computed from others, inputs before outputs |
//! | formulas | 48 | all of a formula but its variable |
//! | regions | 16 | size in bytes, and where the dense list of the region's plain sites starts |
//! | lists | 40 | where the dense list of one formula's sites in one region starts, and which values fit; sorted by formula and region |
//! | special | 16 per 64 variables | which of them have runs, and the first run; absent if there are dense lists only |
//! | runs | 20 | other sites of one variable, formula and region, sorted by variable |
//! | words | 4 | [dense lists](super::dense), and the runs' byte offsets |
//!
//! The words have no gaps: dense lists in the order of their regions, those of formulas in their order, then the runs' in
//! the order of the runs. So no two share words, and checking or applying a table takes time in proportion to its size,
//! whoever made it.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::dense::Dense;
use super::formula::{Derived, Site, Store};
use super::record::{FormulaRecord, Range};
use crate::mem::Region;
use crate::value::Var;

/// Why bytes are not a patch table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum TableError {
    /// Not at an 8-byte boundary, or shorter or longer than its header says.
    Size {
        /// Bytes given.
        have: usize,
    },
    /// Wrong magic number: not a table, or of a machine with another byte order.
    Magic,
    /// A version that this crate does not know.
    Version {
        /// The table's version.
        seen: u16,
    },
    /// A derived variable that is none, or is computed before its inputs.
    Derived {
        /// Which one.
        index: u32,
    },
    /// A shift or store width that does not exist.
    Formula {
        /// Which one.
        index: u32,
    },
    /// A dense list that is not ordered, or leaves the table or its region.
    Dense {
        /// The region.
        region: u32,
    },
    /// A formula's list that is out of order, names something that does not exist, or leaves the table or its region.
    List {
        /// Which one.
        index: u32,
    },
    /// A run that is out of order, or names something that does not exist, or leaves its region.
    Run {
        /// Which one.
        index: u32,
    },
    /// The index of runs does not match the runs.
    Special {
        /// Which word.
        index: u32,
    },
}

impl core::fmt::Display for TableError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Size { have } => write!(f, "{have} bytes are no whole patch table"),
            Self::Magic => write!(f, "not a patch table"),
            Self::Version { seen } => write!(f, "patch table of version {seen}"),
            Self::Derived { index } => write!(f, "derived variable {index} is malformed"),
            Self::Formula { index } => write!(f, "formula {index} is malformed"),
            Self::Dense { region } => write!(f, "the dense list of region {region} is malformed"),
            Self::List { index } => write!(f, "the list {index} of a formula is malformed"),
            Self::Run { index } => write!(f, "run {index} is malformed"),
            Self::Special { index } => write!(f, "word {index} of the run index is malformed"),
        }
    }
}

impl core::error::Error for TableError {}

const MAGIC: u32 = u32::from_le_bytes(*b"HCQP");
const VERSION: u16 = 3;

/// A run whose words are numbers of derived variables.
pub(super) const FEEDS_FORMULA: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Header {
    magic: u32,
    version: u16,
    reserved: u16,
    pub(super) vars: u32,
    regions: u32,
    derived: u32,
    formulas: u32,
    lists: u32,
    runs: u32,
    words: u32,
    unused: u32,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct RegionRecord {
    pub(super) bytes: u64,
    /// Index of the dense list in the words, or `u32::MAX`.
    pub(super) starts: u32,
    pub(super) reserved: u32,
}

impl RegionRecord {
    /// Whether a site of this width can be at a byte offset.
    fn takes(&self, offset: u32, store: Store) -> bool {
        let end = u64::from(offset) + u64::from(store.bytes());
        end <= self.bytes && offset.is_multiple_of(store.align())
    }
}

/// Sites of one formula in one region.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct ListRecord {
    pub(super) formula: u32,
    pub(super) region: u16,
    /// 1 if the last list before that is not covered [covers](Self::covers) this one.
    pub(super) covered: u16,
    /// Index of the dense list in the words.
    pub(super) starts: u32,
    pub(super) reserved: u32,
    /// The formula's range.
    pub(super) range: Range,
}

impl ListRecord {
    /// Whether another list needs no check of its own: this one has all variables of that one, and of each all values in its
    /// range fit both formulas. Dense lists with their records.
    pub(super) fn covers(
        (mine, my_list): (&Self, &Dense<'_>),
        (other, list): (&Self, &Dense<'_>),
    ) -> bool {
        mine.range.is_within(&other.range) && list.is_within(my_list)
    }
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Special {
    pub(super) bits: u64,
    pub(super) first_run: u32,
    pub(super) reserved: u32,
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Run {
    pub(super) var: u32,
    pub(super) region: u16,
    pub(super) reserved: u16,
    pub(super) formula: u32,
    pub(super) first: u32,
    pub(super) count: u32,
}

const _: () = assert!(
    size_of::<Header>() == 48 && size_of::<FormulaRecord>() == 48 && size_of::<Run>() == 20
);
const _: () = assert!(size_of::<Derived>() == 112 && size_of::<Site>() == 64);

/// The sections while they are written.
pub(super) struct SectionsMut<'a> {
    pub(super) derived: &'a mut [Derived],
    pub(super) formulas: &'a mut [FormulaRecord],
    pub(super) regions: &'a mut [RegionRecord],
    pub(super) lists: &'a mut [ListRecord],
    pub(super) special: &'a mut [Special],
    pub(super) runs: &'a mut [Run],
    pub(super) words: &'a mut [u32],
}

impl Header {
    /// `None` if the size is beyond what this machine can address.
    pub(super) fn new(
        vars: u32,
        regions: u32,
        derived: u32,
        formulas: u32,
        [lists, runs]: [u32; 2],
        words: u32,
    ) -> Option<Self> {
        let mut header = Self {
            magic: MAGIC,
            version: VERSION,
            reserved: 0,
            vars,
            regions,
            derived,
            formulas,
            lists,
            runs,
            words,
            unused: 0,
            bytes: 0,
        };
        header.bytes = header.computed_bytes()?;
        isize::try_from(header.bytes).ok()?;
        Some(header)
    }

    fn computed_bytes(&self) -> Option<u64> {
        let part = |n: u32, size: usize| u64::from(n).checked_mul(size as u64);
        let sum = (size_of::<Self>() as u64)
            .checked_add(part(self.derived, size_of::<Derived>())?)?
            .checked_add(part(self.formulas, size_of::<FormulaRecord>())?)?
            .checked_add(part(self.regions, size_of::<RegionRecord>())?)?
            .checked_add(part(self.lists, size_of::<ListRecord>())?)?
            .checked_add(part(self.specials(), size_of::<Special>())?)?
            .checked_add(part(self.runs, size_of::<Run>())?)?
            .checked_add(part(self.words, size_of::<u32>())?)?;
        sum.checked_next_multiple_of(8)
    }

    /// Without runs there is nothing to index; but variables cost a 32nd of their state at least, so that no small table can
    /// ask for a large one.
    fn specials(&self) -> u32 {
        let bounded = u64::from(self.words) * 16 > u64::from(self.vars);
        if self.runs == 0 && bounded {
            0
        } else {
            self.vars.div_ceil(64)
        }
    }

    /// Size in 64-bit words. Fits, as `new` and `parse` have seen to.
    pub(super) fn total_words(&self) -> usize {
        usize::try_from(self.bytes / 8).unwrap_or(usize::MAX)
    }

    pub(super) fn sections_mut<'a>(&self, bytes: &'a mut [u8]) -> Option<SectionsMut<'a>> {
        let (header, rest) = Header::mut_from_prefix(bytes).ok()?;
        *header = *self;
        let (derived, rest) =
            <[Derived]>::mut_from_prefix_with_elems(rest, self.derived as usize).ok()?;
        let (formulas, rest) =
            <[FormulaRecord]>::mut_from_prefix_with_elems(rest, self.formulas as usize).ok()?;
        let (regions, rest) =
            <[RegionRecord]>::mut_from_prefix_with_elems(rest, self.regions as usize).ok()?;
        let (lists, rest) =
            <[ListRecord]>::mut_from_prefix_with_elems(rest, self.lists as usize).ok()?;
        let specials = self.specials() as usize;
        let (special, rest) = <[Special]>::mut_from_prefix_with_elems(rest, specials).ok()?;
        let (runs, rest) = <[Run]>::mut_from_prefix_with_elems(rest, self.runs as usize).ok()?;
        let (words, _) = <[u32]>::mut_from_prefix_with_elems(rest, self.words as usize).ok()?;
        Some(SectionsMut {
            derived,
            formulas,
            regions,
            lists,
            special,
            runs,
            words,
        })
    }
}

/// A checked patch table. Cheap to copy; it borrows the bytes.
///
/// Every offset in it was checked against the sizes of the regions that it was built for; a
/// [`Patcher`](super::Patcher) checks once per launch that the regions given are at least that large, and no more.
#[derive(Clone, Copy, Debug)]
pub struct PatchTable<'t> {
    bytes: &'t [u8],
    pub(super) vars: u32,
    pub(super) derived: &'t [Derived],
    pub(super) formulas: &'t [FormulaRecord],
    pub(super) regions: &'t [RegionRecord],
    pub(super) lists: &'t [ListRecord],
    pub(super) special: &'t [Special],
    pub(super) runs: &'t [Run],
    pub(super) words: &'t [u32],
    /// The first region with a dense list, and how many from there to the last one.
    pub(super) dense: (usize, usize),
}

impl<'t> PatchTable<'t> {
    /// Checks bytes from anywhere, once. Time in proportion to their number.
    ///
    /// # Errors
    /// [`TableError`]. The bytes must start at an 8-byte boundary.
    pub fn parse(bytes: &'t [u8]) -> Result<Self, TableError> {
        let have = bytes.len();
        let size = TableError::Size { have };
        let (header, rest) = Header::ref_from_prefix(bytes).map_err(|_| size)?;
        if !bytes.as_ptr().addr().is_multiple_of(8) {
            return Err(size);
        }
        if header.magic != MAGIC {
            return Err(TableError::Magic);
        }
        if header.version != VERSION {
            return Err(TableError::Version {
                seen: header.version,
            });
        }
        if header.computed_bytes() != Some(header.bytes)
            || u64::try_from(have).ok() != Some(header.bytes)
        {
            return Err(size);
        }
        let specials = header.specials() as usize;
        let (derived, rest) =
            <[Derived]>::ref_from_prefix_with_elems(rest, header.derived as usize)
                .map_err(|_| size)?;
        let (formulas, rest) =
            <[FormulaRecord]>::ref_from_prefix_with_elems(rest, header.formulas as usize)
                .map_err(|_| size)?;
        let (regions, rest) =
            <[RegionRecord]>::ref_from_prefix_with_elems(rest, header.regions as usize)
                .map_err(|_| size)?;
        let (lists, rest) = <[ListRecord]>::ref_from_prefix_with_elems(rest, header.lists as usize)
            .map_err(|_| size)?;
        let (special, rest) =
            <[Special]>::ref_from_prefix_with_elems(rest, specials).map_err(|_| size)?;
        let (runs, rest) =
            <[Run]>::ref_from_prefix_with_elems(rest, header.runs as usize).map_err(|_| size)?;
        let (words, _) =
            <[u32]>::ref_from_prefix_with_elems(rest, header.words as usize).map_err(|_| size)?;
        let is_dense = |r: &RegionRecord| r.starts != u32::MAX;
        let first = regions.iter().position(is_dense).unwrap_or(0);
        let end = regions
            .iter()
            .rposition(is_dense)
            .map_or(0, |last| last + 1);
        let table = Self {
            bytes,
            vars: header.vars,
            derived,
            formulas,
            regions,
            lists,
            special,
            runs,
            words,
            dense: (first, end.saturating_sub(first)),
        };
        table.check_derived()?;
        table.check_formulas()?;
        let end = table.check_dense()?;
        let end = table.check_lists(end)?;
        if table.check_runs(end)? != table.words.len() {
            return Err(size);
        }
        table.check_special()?;
        Ok(table)
    }

    fn check_derived(&self) -> Result<(), TableError> {
        let mut least = 0;
        for (index, d) in (0u32..).zip(self.derived) {
            if !d.is_sound() || d.out < least || d.out >= self.vars {
                return Err(TableError::Derived { index });
            }
            least = d.out + 1;
        }
        Ok(())
    }

    fn check_formulas(&self) -> Result<(), TableError> {
        for (index, f) in (0u32..).zip(self.formulas) {
            f.formula(0).ok_or(TableError::Formula { index })?;
        }
        Ok(())
    }

    /// Returns where the dense lists end.
    fn check_dense(&self) -> Result<usize, TableError> {
        let mut at = 0;
        for (region, record) in (0u32..).zip(self.regions) {
            if record.starts == u32::MAX {
                continue;
            }
            let list = self
                .list(record.starts)
                .filter(|_| record.starts as usize == at);
            let inside = |o: u32| (u64::from(o) + 1) * 8 <= record.bytes;
            let end = list.and_then(|list| list.check(at, inside));
            at = end.ok_or(TableError::Dense { region })?;
        }
        Ok(at)
    }

    /// Lists of formulas whose words start at word `at`. Returns their end.
    fn check_lists(&self, mut at: usize) -> Result<usize, TableError> {
        let mut last = None;
        let mut checked: Option<(&ListRecord, Dense<'_>)> = None;
        for (index, record) in (0u32..).zip(self.lists) {
            let bad = TableError::List { index };
            let place = Some((record.formula, record.region));
            let region = self.regions.get(usize::from(record.region)).ok_or(bad)?;
            let formula = self.formulas.get(record.formula as usize).ok_or(bad)?;
            let store = formula.formula(0).ok_or(bad)?.store;
            let list = self.list(record.starts).ok_or(bad)?;
            if place < last || record.starts as usize != at || record.range != formula.range() {
                return Err(bad);
            }
            last = place;
            let end = list.check(at, |o| region.takes(o, store));
            at = end.ok_or(bad)?;
            if record.covered == 0 {
                checked = Some((record, list));
                continue;
            }
            let by = checked.as_ref().map(|(r, l)| (*r, l)).ok_or(bad)?;
            if !ListRecord::covers(by, (record, &list)) {
                return Err(bad);
            }
        }
        Ok(at)
    }

    /// Runs whose words start at word `at`. Returns their end.
    fn check_runs(&self, mut at: usize) -> Result<usize, TableError> {
        let mut last = 0;
        for (index, run) in (0u32..).zip(self.runs) {
            let bad = TableError::Run { index };
            if run.var < last || run.var >= self.vars || run.count == 0 || run.first as usize != at
            {
                return Err(bad);
            }
            last = run.var;
            let offsets = self.run_words(run);
            if offsets.len() != run.count as usize {
                return Err(bad);
            }
            at = at.checked_add(offsets.len()).ok_or(bad)?;
            let sound = if run.formula == FEEDS_FORMULA {
                offsets.iter().all(|&d| {
                    self.derived
                        .get(d as usize)
                        .is_some_and(|d| d.out > run.var)
                })
            } else {
                let record = self.regions.get(usize::from(run.region)).ok_or(bad)?;
                let formula = self.formulas.get(run.formula as usize);
                let formula = formula.and_then(|f| f.formula(run.var)).ok_or(bad)?;
                offsets.iter().all(|&o| record.takes(o, formula.store))
            };
            if !sound {
                return Err(bad);
            }
        }
        Ok(at)
    }

    fn check_special(&self) -> Result<(), TableError> {
        let mut left = self.runs;
        let mut first = 0u32;
        for (index, special) in (0u32..).zip(self.special) {
            let n = left.iter().take_while(|r| r.var / 64 == index).count();
            let (mine, others) = left.split_at_checked(n).unwrap_or((left, &[]));
            let bits = mine.iter().fold(0u64, |b, r| b | 1 << (r.var % 64));
            if special.bits != bits || special.first_run != first {
                return Err(TableError::Special { index });
            }
            first = first.saturating_add(u32::try_from(n).unwrap_or(u32::MAX));
            left = others;
        }
        Ok(())
    }

    /// The dense list that starts at a word, if there is one.
    #[inline]
    pub(super) fn list(&self, starts: u32) -> Option<Dense<'t>> {
        Dense::new(self.words, starts, self.vars)
    }

    /// All dense lists: of plain sites, and of formulas.
    pub(super) fn all_lists(&self) -> impl Iterator<Item = Dense<'t>> + use<'t> {
        let plain = self.regions.iter().map(|r| r.starts);
        let starts = plain.chain(self.lists.iter().map(|l| l.starts));
        let table = *self;
        starts.filter_map(move |starts| table.list(starts))
    }

    /// Those regions of a launch that may have dense lists, with their records.
    #[inline]
    pub(super) fn dense<'r, 'm>(
        &self,
        regions: &'r mut [Region<'m>],
    ) -> impl Iterator<Item = (&'t RegionRecord, &'r mut Region<'m>)> + use<'t, 'r, 'm> {
        let (first, count) = self.dense;
        let records = self.regions.get(first..).unwrap_or_default();
        let regions = regions.get_mut(first..).unwrap_or_default();
        records.iter().zip(regions).take(count)
    }

    /// The words of a run; fewer than it counts if it leaves the table.
    #[inline]
    pub(super) fn run_words(&self, run: &Run) -> &'t [u32] {
        let first = run.first as usize;
        first
            .checked_add(run.count as usize)
            .and_then(|end| self.words.get(first..end))
            .unwrap_or_default()
    }

    /// The runs of one variable and of those behind it in its word of the maps. `from` are all of that word or, better, what
    /// is behind the runs of one before it in there.
    #[inline]
    pub(super) fn runs_from(from: &'t [Run], var: u32) -> &'t [Run] {
        // Variables that change together are neighbours, mostly.
        if from.first().is_some_and(|r| r.var == var) {
            return from;
        }
        let at = from.partition_point(|r| r.var < var);
        from.get(at..).unwrap_or_default()
    }

    /// Which variables of a word of the maps have runs.
    #[inline]
    pub(super) fn special(&self, word: usize) -> u64 {
        self.special.get(word).map_or(0, |s| s.bits)
    }

    /// The runs of a word of the maps.
    #[inline]
    pub(super) fn runs_of_word(&self, word: usize) -> &'t [Run] {
        let Some(special) = self.special.get(word) else {
            return &[];
        };
        let next = self.special.get(word + 1);
        let end = next.map_or(self.runs.len(), |s| s.first_run as usize);
        let runs = self.runs.get(special.first_run as usize..end);
        runs.unwrap_or_default()
    }

    /// The table's bytes, to be stored and [parsed](Self::parse) again.
    pub fn as_bytes(&self) -> &'t [u8] {
        self.bytes
    }

    /// Number of variables, derived ones included.
    pub fn vars(&self) -> u32 {
        self.vars
    }

    /// Number of sites.
    pub fn sites(&self) -> usize {
        let stores = |formula: u32| {
            let formula = self.formulas.get(formula as usize);
            formula.is_some_and(FormulaRecord::stores)
        };
        let plain = self.regions.iter().map(|r| r.starts);
        let listed = self.lists.iter().filter(|l| stores(l.formula));
        let lists = plain.chain(listed.map(|l| l.starts));
        let dense = lists.filter_map(|starts| self.list(starts));
        let runs = self.runs.iter().filter(|r| stores(r.formula));
        dense.map(|list| list.sites()).sum::<usize>()
            + runs.map(|r| r.count as usize).sum::<usize>()
    }

    /// The sizes in bytes of the regions that it stores to.
    pub fn region_bytes(&self) -> impl ExactSizeIterator<Item = u64> + 't {
        self.regions.iter().map(|r| r.bytes)
    }

    /// Whether `var` is computed from others.
    pub fn is_derived(&self, var: Var) -> bool {
        self.derived_index(var.0).is_some()
    }

    /// Whether the variables from `first` on, and no others, are computed.
    pub(crate) fn derived_from(&self, first: u32) -> bool {
        let computed = self.vars.checked_sub(first).map(|n| n as usize);
        computed == Some(self.derived.len()) && self.derived.iter().all(|d| d.out >= first)
    }

    #[inline]
    pub(super) fn derived_index(&self, var: u32) -> Option<usize> {
        if self.derived.is_empty() {
            return None;
        }
        self.derived.binary_search_by_key(&var, |d| d.out).ok()
    }

    /// 64-bit words of state that a [`Patcher`](super::Patcher) needs.
    pub fn state_words(&self) -> usize {
        let maps = 2 * self.map_words() + self.derived.len().div_ceil(64);
        (self.vars as usize).saturating_add(maps)
    }

    /// Words of a bit map of the variables.
    pub(super) fn map_words(&self) -> usize {
        self.vars.div_ceil(64) as usize
    }
}
