use super::RegionId;
use super::arrange::{Parts, arrange, count_by, groups, list_of, split};
use super::dense::{self, Dense, Unit};
use super::formula::{Derived, Formula, Site, Store};
use super::record::FormulaRecord;
use super::table::{
    FEEDS_FORMULA, Header, ListRecord, PatchTable, RegionRecord, Run, Special, TableError,
};
use crate::sort;
use crate::value::{Affine, Fit, Misfit, Value, Var};

/// Room that recording into a patch list takes, or lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PatchRoom {
    /// [`Site`]s.
    pub sites: usize,
    /// [`Derived`] variables.
    pub derived: usize,
}

/// Why a list is no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum BuildError {
    /// The list's own memory was too small for what was recorded.
    NoRoom(PatchRoom),
    /// The memory for the table is too small.
    TableTooSmall {
        /// 64-bit words needed.
        need: usize,
        /// 64-bit words given.
        have: usize,
    },
    /// A site names a region that was not given a size.
    NoSuchRegion {
        /// Its number.
        region: u16,
    },
    /// A site does not lie in its region, or not at its alignment.
    Place {
        /// Region number.
        region: u16,
        /// Byte offset.
        offset: u32,
    },
    /// A site names a variable that the list never handed out.
    NoSuchVariable {
        /// The variable.
        var: Var,
    },
    /// A product of two known numbers leaves 64 bits.
    Product {
        /// One.
        a: u64,
        /// The other.
        b: u64,
    },
    /// Two sites store to the same byte.
    Overlap {
        /// Region number.
        region: u16,
        /// Byte offset of the second one.
        offset: u32,
    },
    /// More than 2^31 sites or 2^32 variables or regions.
    TooMany,
    /// A formula or derived variable that is none. Cannot come from this crate's encoders.
    Malformed(TableError),
}

impl core::fmt::Display for BuildError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::NoRoom(r) => write!(
                f,
                "recording needed {} sites and {} derived variables",
                r.sites, r.derived
            ),
            Self::TableTooSmall { need, have } => {
                write!(f, "the table needs {need} words, {have} were given")
            }
            Self::NoSuchRegion { region } => {
                write!(f, "a site is in region {region}, which was given no size")
            }
            Self::Place { region, offset } => write!(
                f,
                "the site at {region}:{offset:#x} is outside or misaligned"
            ),
            Self::Product { a, b } => write!(f, "{a} times {b} does not fit 64 bits"),
            Self::NoSuchVariable { var } => {
                write!(
                    f,
                    "a site needs variable {}, which was not declared",
                    var.index()
                )
            }
            Self::Overlap { region, offset } => {
                write!(f, "two sites store to {region}:{offset:#x}")
            }
            Self::TooMany => write!(f, "too many sites, variables or regions"),
            Self::Malformed(e) => write!(f, "{e}"),
        }
    }
}

impl core::error::Error for BuildError {}

/// Collects sites while commands are recorded, in the caller's memory.
///
/// When the memory runs out the list goes on counting, so that the error can say how much is needed; with no memory at
/// all a recording measures itself.
#[derive(Debug)]
pub struct PatchList<'m> {
    sites: &'m mut [Site],
    site_len: usize,
    derived: &'m mut [Derived],
    derived_len: usize,
    vars: u32,
    /// Fingerprint and variable of the last derived ones for which there was no memory, number `n` at `n % RECENT`: what
    /// is recorded twice must count once there too, or the room asked for would be too large.
    unstored: [(u32, u32); RECENT],
    /// Whether `sites` is in the table's order, with its marks and indices set.
    planned: bool,
}

/// A new derived variable is compared with this many before it: a launch has three grid sizes and a packed local size.
const RECENT: usize = 4;

/// A state of the list to come back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    sites: usize,
    derived: usize,
    vars: u32,
}

impl<'m> PatchList<'m> {
    /// An empty list. A derived variable takes one derived slot and one site per variable that it is made of.
    pub fn new(sites: &'m mut [Site], derived: &'m mut [Derived]) -> Self {
        Self {
            sites,
            site_len: 0,
            derived,
            derived_len: 0,
            vars: 0,
            unstored: [(0, 0); RECENT],
            planned: false,
        }
    }

    /// A list that goes on where another one stopped: `used` and `vars` are what [`used`](Self::used) and
    /// [`vars`](Self::vars) said then, and the memory holds what was filed, at least. For whoever keeps the memory of a
    /// recording and makes it larger in between.
    ///
    /// # Errors
    /// [`BuildError::NoRoom`] if the memory holds less.
    pub fn resume(
        sites: &'m mut [Site],
        derived: &'m mut [Derived],
        used: PatchRoom,
        vars: u32,
    ) -> Result<Self, BuildError> {
        let list = Self {
            site_len: used.sites,
            derived_len: used.derived,
            vars,
            ..Self::new(sites, derived)
        };
        if list.overflowed() {
            return Err(BuildError::NoRoom(used));
        }
        Ok(list)
    }

    /// A list for queues without variables.
    pub fn none() -> Self {
        Self::new(&mut [], &mut [])
    }

    /// Declares the next variable.
    ///
    /// # Errors
    /// [`BuildError::TooMany`] after 2^32 - 1.
    pub fn var(&mut self) -> Result<Var, BuildError> {
        let var = Var(self.vars);
        self.vars = self.vars.checked_add(1).ok_or(BuildError::TooMany)?;
        self.planned = false;
        Ok(var)
    }

    /// Forgets all sites and variables.
    pub fn clear(&mut self) {
        self.rewind(Mark {
            sites: 0,
            derived: 0,
            vars: 0,
        });
        self.planned = false;
    }

    /// Number of variables so far, derived ones included.
    pub fn vars(&self) -> u32 {
        self.vars
    }

    /// Room taken so far, or needed when it is more than there is.
    pub fn used(&self) -> PatchRoom {
        PatchRoom {
            sites: self.site_len,
            derived: self.derived_len,
        }
    }

    /// The sites filed so far, in the order of recording until the list is built.
    pub fn sites(&self) -> &[Site] {
        self.sites.get(..self.site_len).unwrap_or(self.sites)
    }

    /// Whether more was recorded than there is memory for.
    pub(crate) fn overflowed(&self) -> bool {
        self.site_len > self.sites.len() || self.derived_len > self.derived.len()
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            sites: self.site_len,
            derived: self.derived_len,
            vars: self.vars,
        }
    }

    pub(crate) fn rewind(&mut self, to: Mark) {
        (self.site_len, self.derived_len, self.vars) = (to.sites, to.derived, to.vars);
    }

    /// Files a site.
    #[inline]
    pub fn site(&mut self, region: RegionId, offset: u32, formula: &Formula) {
        self.push(Site::new(region, offset, formula));
    }

    #[inline]
    fn push(&mut self, site: Site) {
        if let Some(slot) = self.sites.get_mut(self.site_len) {
            *slot = site;
        }
        self.site_len = self.site_len.saturating_add(1);
        self.planned = false;
    }

    /// Requires of a value what no field of it does: a limit of a program, a product that must not be zero. An immediate
    /// is checked here, a variable at each launch that changes it.
    ///
    /// The table needs a region, even if nothing but limits is filed.
    ///
    /// # Errors
    /// [`Misfit`] for an immediate.
    pub fn require(&mut self, value: Value, fit: Fit) -> Result<(), Misfit> {
        match value {
            Value::Imm(v) => fit.check(v),
            Value::Var(of) => {
                let store = Store::Nothing;
                let limit = Formula {
                    store,
                    fit,
                    ..Formula::whole(of)
                };
                self.push(Site::new(RegionId(0), 0, &limit));
                Ok(())
            }
        }
    }

    /// Declares a derived variable, or finds the one of the last few that is the same.
    ///
    /// # Errors
    /// [`BuildError::TooMany`], or [`BuildError::Malformed`] if it is made of variables that do not exist yet.
    pub fn derive(&mut self, mut derived: Derived) -> Result<Var, BuildError> {
        let recent = self.derived_len.saturating_sub(RECENT)..self.derived_len;
        for n in recent.rev() {
            let same = match self.derived.get(n) {
                Some(d) => d.same_as(&derived).then_some(d.out),
                None => {
                    let known = self.unstored.get(n % RECENT);
                    known.filter(|k| k.0 == derived.fingerprint()).map(|k| k.1)
                }
            };
            if let Some(out) = same {
                return Ok(Var(out));
            }
        }
        derived.out = self.vars;
        let index = u32::try_from(self.derived_len).map_err(|_| BuildError::TooMany)?;
        if !derived.is_sound() {
            return Err(BuildError::Malformed(TableError::Derived { index }));
        }
        let out = self.var()?;
        for (i, t) in derived.inputs().iter().enumerate() {
            let twice = derived.inputs().iter().take(i).any(|u| u.var() == t.var());
            if !twice {
                self.push(Site::feeds(t.var(), index));
            }
        }
        if let Some(slot) = self.derived.get_mut(self.derived_len) {
            *slot = derived;
        } else if let Some(slot) = self.unstored.get_mut(self.derived_len % RECENT) {
            *slot = (derived.fingerprint(), out.0);
        }
        self.derived_len = self.derived_len.saturating_add(1);
        Ok(out)
    }

    /// `a * b` as a value: an immediate, an adjusted variable, or a derived one, whichever is the least.
    ///
    /// # Errors
    /// [`BuildError::Product`] if two immediates leave 64 bits; a variable is checked at launch. [`BuildError::TooMany`];
    /// [`BuildError::Malformed`] for variables that this list does not have.
    pub fn product(&mut self, a: Value, b: Value) -> Result<Value, BuildError> {
        Ok(match (a, b) {
            (Value::Imm(a), Value::Imm(b)) => {
                Value::Imm(a.checked_mul(b).ok_or(BuildError::Product { a, b })?)
            }
            (Value::Imm(n), v) | (v, Value::Imm(n)) => v * n,
            (Value::Var(a), Value::Var(b)) => self.derive(Derived::product(a, b))?.into(),
        })
    }

    /// 64-bit words that [`build`](Self::build) needs for regions of these sizes in bytes. Sorts the sites.
    ///
    /// # Errors
    /// [`BuildError`], all but `TableTooSmall`.
    pub fn table_words(&mut self, regions: &[u64]) -> Result<usize, BuildError> {
        Ok(self.plan(regions)?.0.total_words())
    }

    /// Puts the sites in the table's order and counts its sections. Returns the header and which sites are stored how.
    fn plan(&mut self, regions: &[u64]) -> Result<(Header, Parts), BuildError> {
        if self.overflowed() {
            return Err(BuildError::NoRoom(self.used()));
        }
        let vars = self.vars;
        let planned = self.planned;
        let sites = self.sites.get_mut(..self.site_len).unwrap_or_default();
        if sites.len() > dense::MOST as usize || regions.len() >= usize::from(u16::MAX) {
            return Err(BuildError::TooMany);
        }
        for s in sites.iter() {
            check_site(s, regions, vars)?;
        }
        let parts = if planned {
            Parts::of(sites)
        } else {
            check_overlap(sites)?;
            arrange(sites, vars)
        };
        self.planned = true;

        let [plain, listed, rest] = parts.split(sites);
        let formulas = listed
            .iter()
            .chain(rest)
            .filter(|s| s.formula != FEEDS_FORMULA)
            .map(|s| s.formula + 1)
            .max()
            .unwrap_or(0);
        let lists = count_by(listed, list_of);
        let runs = count_by(rest, |s| (s.var, s.formula, s.region));
        let overhead = groups(plain, |a, b| a.region == b.region)
            .chain(groups(listed, |a, b| list_of(a) == list_of(b)))
            .map(|of| dense::overhead(of, vars))
            .try_fold(0usize, usize::checked_add);
        let words = overhead
            .and_then(|n| n.checked_add(sites.len()))
            .and_then(|n| u32::try_from(n).ok())
            .filter(|&n| n <= dense::MOST);
        let count = |n: usize| u32::try_from(n).map_err(|_| BuildError::TooMany);
        let header = Header::new(
            vars,
            count(regions.len())?,
            count(self.derived_len)?,
            formulas,
            [count(lists)?, count(runs)?],
            words.ok_or(BuildError::TooMany)?,
        )
        .ok_or(BuildError::TooMany)?;
        Ok((header, parts))
    }

    /// Builds the table for regions of these sizes in bytes. The list can be built again, also after more recording.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build<'t>(
        &mut self,
        regions: &[u64],
        out: &'t mut [u64],
    ) -> Result<PatchTable<'t>, BuildError> {
        let (header, parts) = self.plan(regions)?;
        let (need, have) = (header.total_words(), out.len());
        let out = out
            .get_mut(..need)
            .ok_or(BuildError::TableTooSmall { need, have })?;
        out.fill(0);
        let sites = self.sites.get(..self.site_len).unwrap_or_default();
        let derived = self.derived.get(..self.derived_len).unwrap_or_default();
        fill(&header, parts.split(sites), derived, regions, out).ok_or(BuildError::TooMany)?;
        PatchTable::parse(zerocopy::IntoBytes::as_bytes(&*out)).map_err(BuildError::Malformed)
    }
}

/// A site must be a store of a known variable, inside its region and aligned.
fn check_site(s: &Site, regions: &[u64], vars: u32) -> Result<(), BuildError> {
    if s.is_feeds() {
        return Ok(());
    }
    let (region, offset) = (s.region, s.offset);
    let malformed = BuildError::Malformed(TableError::Formula { index: 0 });
    let size = regions
        .get(usize::from(region))
        .ok_or(BuildError::NoSuchRegion { region })?;
    let f = s.formula().ok_or(malformed)?;
    let end = u64::from(offset) + u64::from(f.store.bytes());
    if end > *size || !offset.is_multiple_of(f.store.align()) {
        return Err(BuildError::Place { region, offset });
    }
    if s.var >= vars {
        return Err(BuildError::NoSuchVariable { var: Var(s.var) });
    }
    Ok(())
}

/// Sorts by place; every site must be alone. Each was found to be a store.
fn check_overlap(sites: &mut [Site]) -> Result<(), BuildError> {
    let stores = |s: &Site| !s.is_feeds() && !s.is_limit();
    sort::in_place(sites, |s| {
        u64::from(!stores(s)) << 63 | u64::from(s.region) << 32 | u64::from(s.offset)
    });
    let bytes = |s: &Site| s.formula().map_or(0, |f| f.store.bytes());
    for pair in sites.windows(2) {
        let [a, b] = pair else { continue };
        if !stores(b) {
            break;
        }
        if a.region == b.region && b.offset - a.offset < bytes(a) {
            let (region, offset) = (b.region, b.offset);
            return Err(BuildError::Overlap { region, offset });
        }
    }
    Ok(())
}

/// Writes every section. `None` if a count does not fit, which `plan` has ruled out.
fn fill(
    header: &Header,
    [plain, listed, rest]: [&[Site]; 3],
    derived: &[Derived],
    regions: &[u64],
    out: &mut [u64],
) -> Option<()> {
    let t = header.sections_mut(zerocopy::IntoBytes::as_mut_bytes(out))?;
    for (record, d) in t.derived.iter_mut().zip(derived) {
        *record = *d;
    }
    for (record, &bytes) in t.regions.iter_mut().zip(regions) {
        *record = RegionRecord {
            bytes,
            starts: u32::MAX,
            reserved: 0,
        };
    }

    let mut at = 0usize;
    for chunk in groups(plain, |a, b| a.region == b.region) {
        let record = t.regions.get_mut(usize::from(chunk.first()?.region))?;
        record.starts = u32::try_from(at).ok()?;
        at = dense::fill(chunk, header.vars, Unit::Eight, t.words, at)?;
    }
    let mut lists = t.lists.iter_mut();
    for chunk in groups(listed, |a, b| list_of(a) == list_of(b)) {
        let s = chunk.first()?;
        let formula = FormulaRecord::from_site(s);
        *lists.next()? = ListRecord {
            formula: s.formula,
            region: s.region,
            covered: 0,
            starts: u32::try_from(at).ok()?,
            reserved: 0,
            range: formula.range(),
        };
        *t.formulas.get_mut(s.formula as usize)? = formula;
        at = dense::fill(chunk, header.vars, Unit::One, t.words, at)?;
    }
    let mut checked: Option<(ListRecord, Dense<'_>)> = None;
    for record in t.lists.iter_mut() {
        let list = Dense::new(t.words, record.starts, header.vars)?;
        let by = checked.as_ref().map(|(r, l)| (r, l));
        if by.is_some_and(|by| ListRecord::covers(by, (record, &list))) {
            record.covered = 1;
        } else {
            checked = Some((*record, list));
        }
    }

    // Runs: sites of one variable, formula and region.
    let mut runs = t.runs.iter_mut();
    for chunk in groups(rest, |a, b| {
        (a.var, a.formula, a.region) == (b.var, b.formula, b.region)
    }) {
        let s = chunk.first()?;
        *runs.next()? = Run {
            var: s.var,
            region: if s.formula == FEEDS_FORMULA {
                0
            } else {
                s.region
            },
            reserved: 0,
            formula: s.formula,
            first: u32::try_from(at).ok()?,
            count: u32::try_from(chunk.len()).ok()?,
        };
        if s.formula != FEEDS_FORMULA {
            *t.formulas.get_mut(s.formula as usize)? = FormulaRecord::from_site(s);
        }
        for s in chunk {
            *t.words.get_mut(at)? = s.offset;
            at += 1;
        }
    }
    let mut first_run = 0u32;
    let mut left: &[Run] = t.runs;
    for (word, special) in (0u32..).zip(t.special.iter_mut()) {
        let n = left.iter().take_while(|r| r.var / 64 == word).count();
        let (mine, others) = split(left, n);
        let bits = mine.iter().fold(0u64, |b, r| b | 1 << (r.var % 64));
        *special = Special {
            bits,
            first_run,
            reserved: 0,
        };
        first_run = first_run.checked_add(u32::try_from(n).ok()?)?;
        left = others;
    }
    Some(())
}

impl From<Var> for u32 {
    fn from(var: Var) -> Self {
        var.0
    }
}

impl From<Affine> for Value {
    fn from(a: Affine) -> Self {
        Self::Var(a)
    }
}
