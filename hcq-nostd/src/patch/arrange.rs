//! The order of a table's sites: which are in dense lists, which in lists of formulas, and which in runs.

use super::dense;
use super::formula::Site;
use super::table::FEEDS_FORMULA;
use crate::sort;

/// Marks a site of a region whose plain sites are stored densely, while building.
const DENSE: u32 = u32::MAX - 1;

/// How many sites in the table's order are in the dense lists of regions, and then in those of formulas.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    plain: usize,
    listed: usize,
}

impl Parts {
    /// Of sites that are in the table's order.
    pub(super) fn of(sites: &[Site]) -> Self {
        let plain = sites.iter().take_while(|s| s.formula == DENSE).count();
        let (_, others) = split(sites, plain);
        let listed = others.iter().take_while(|s| s.listed != 0).count();
        Self { plain, listed }
    }

    /// The sites of the dense lists of regions, of those of formulas, and of runs.
    pub(super) fn split<'s>(&self, sites: &'s [Site]) -> [&'s [Site]; 3] {
        let (plain, others) = split(sites, self.plain);
        let (listed, rest) = split(others, self.listed);
        [plain, listed, rest]
    }
}

/// What the sites of one list of a formula have in common.
pub(super) fn list_of(s: &Site) -> (u32, u16, u8) {
    (s.formula, s.region, s.listed)
}

/// Marks sites of one formula and region, which are in the order of their variables, as those of a list; of several if most
/// variables have equally few: a list with one site each is looked through faster.
fn mark_listed(sites: &mut [Site]) {
    const LISTS: u8 = 4;
    let each = groups(sites, |a, b| a.var == b.var).map(<[Site]>::len);
    let (used, most) = each.fold((0, 0), |(used, most), n| (used + 1, n.max(most)));
    if most > LISTS.into() || sites.len() * 4 < used * most * 3 {
        for s in sites {
            s.listed = 1;
        }
        return;
    }
    for of in groups_mut(sites, |a, b| a.var == b.var) {
        for (s, n) in of.iter_mut().zip(1..=LISTS) {
            s.listed = n;
        }
    }
}

/// Moves the sites that are marked dense to the front and returns their number. All keep their order.
fn gather_dense(sites: &mut [Site]) -> usize {
    sort::to_front(sites, &|s: &Site| s.formula == DENSE)
}

/// Sorts sites of dense lists to the front, gives the others their formula's index and sorts them into lists of formulas
/// and runs.
pub(super) fn arrange(sites: &mut [Site], vars: u32) -> Parts {
    for s in sites.iter_mut() {
        s.listed = 0;
        let plain = !s.is_feeds() && s.formula().is_some_and(|f| f.is_plain(s.offset));
        s.formula = if plain { DENSE } else { 0 };
    }
    let plain = gather_dense(sites);
    let plain = sites.get_mut(..plain).unwrap_or_default();
    // They are in the order of their regions and offsets, and stay so for each variable.
    for region in groups_mut(plain, |a, b| a.region == b.region) {
        sort::in_place(region, |s| s.var);
    }
    for chunk in groups_mut(plain, |a, b| a.region == b.region) {
        if !dense::is_worth_it(chunk, vars, count_by(chunk, |s| s.var)) {
            for s in chunk {
                s.formula = 0;
            }
        }
    }
    let dense = gather_dense(plain);
    let rest = sites.get_mut(dense..).unwrap_or_default();
    sort::in_place(rest, |s| (s.is_feeds(), s.key()));
    let mut index = 0u32;
    let mut last = None;
    for s in rest.iter_mut() {
        if s.is_feeds() {
            s.formula = FEEDS_FORMULA;
            continue;
        }
        let key = s.key();
        if last.is_some_and(|l| l != key) {
            index = index.saturating_add(1);
        }
        last = Some(key);
        s.formula = index;
    }
    sort::in_place(rest, |s| {
        packed([s.formula, s.region.into(), s.var, s.offset])
    });
    for chunk in groups_mut(rest, |a, b| list_of(a) == list_of(b)) {
        let feeds = chunk.first().is_some_and(Site::is_feeds);
        if !feeds && dense::is_worth_it(chunk, vars, count_by(chunk, |s| s.var)) {
            mark_listed(chunk);
        }
    }
    let listed = sort::to_front(rest, &|s: &Site| s.listed != 0);
    let lists = rest.get_mut(..listed).unwrap_or_default();
    for chunk in groups_mut(lists, |a, b| (a.formula, a.region) == (b.formula, b.region)) {
        sort::in_place(chunk, |s| s.listed);
    }
    let runs = rest.get_mut(listed..).unwrap_or_default();
    sort::in_place(runs, |s| {
        packed([s.var, s.formula, s.region.into(), s.offset])
    });
    Parts {
        plain: dense,
        listed,
    }
}

/// Four numbers as one, which orders as they do: faster to compare.
fn packed(of: [u32; 4]) -> u128 {
    of.into_iter().fold(0, |all, n| all << 32 | u128::from(n))
}

/// The first `n` items and the others; all of them if there are fewer.
pub(super) fn split<T>(items: &[T], n: usize) -> (&[T], &[T]) {
    items.split_at_checked(n).unwrap_or((items, &[]))
}

/// How many items from the first on are each the same as the one before.
fn group<T>(items: &[T], same: impl Fn(&T, &T) -> bool) -> usize {
    let pairs = items.iter().zip(items.iter().skip(1));
    pairs
        .take_while(|(a, b)| same(a, b))
        .count()
        .saturating_add(1)
        .min(items.len())
}

/// The groups of items that are each the same as the one before: `chunk_by`, without its panic.
pub(super) fn groups<T>(items: &[T], same: impl Fn(&T, &T) -> bool) -> impl Iterator<Item = &[T]> {
    let mut left = items;
    core::iter::from_fn(move || {
        let (chunk, others) = split(left, group(left, &same));
        left = others;
        (!chunk.is_empty()).then_some(chunk)
    })
}

/// The same, to be changed.
fn groups_mut<T>(items: &mut [T], same: impl Fn(&T, &T) -> bool) -> impl Iterator<Item = &mut [T]> {
    let mut left = items;
    core::iter::from_fn(move || {
        let n = group(left, &same);
        let (chunk, others) = core::mem::take(&mut left).split_at_mut_checked(n)?;
        left = others;
        (!chunk.is_empty()).then_some(chunk)
    })
}

/// Number of runs of equal keys.
pub(super) fn count_by<K: PartialEq>(sites: &[Site], key: impl Fn(&Site) -> K) -> usize {
    groups(sites, |a, b| key(a) == key(b)).count()
}
