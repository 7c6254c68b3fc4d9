//! Dense lists: the plain sites of one region, or its sites of one formula, in blocks of 64 variables.
//!
//! An offset is a plain site's byte offset / 8, or the byte offset of a site with a formula.
//!
//! | words | what |
//! |---|---|
//! | one per block, and one more | where each block starts, and where the last one ends |
//! | a block whose start has [`EACH`] | the offsets of its first variables, one each; the others have none |
//! | a block whose start has [`MASK`] | two words with a bit for each variable that has a site; the offsets of these, one each |
//! | any other block | two words with a bit for each variable that has sites; where the offsets of each of these start, and where the last one's end; then the offsets |
//!
//! Blocks have no gaps. Numbers of words are counted from the start of the table's words.

use super::arrange::groups;
use super::formula::Site;
use crate::value::low_mask;

/// In a block's start: its first variables have one site each, the others none.
const EACH: u32 = 1 << 31;
/// In a block's start: its variables have one site each or none, as a mask says.
const MASK: u32 = 1 << 30;
/// A start without its flags, and the most words that a table can have.
pub(super) const MOST: u32 = MASK - 1;

/// Variables of a block: as many as a word of the maps has bits.
const BLOCK: u32 = u64::BITS;

/// The sites of up to 64 variables.
#[derive(Clone, Copy)]
pub(super) enum Block<'t> {
    /// One offset for each of the first variables, of which there are at most 64.
    Each(&'t [u32]),
    /// One offset for each variable whose bit is set.
    Mask(u64, &'t [u32]),
    /// For each variable whose bit is set, where its offsets are among the words: from its entry to the next.
    Bounds(u64, &'t [u32]),
}

impl Block<'_> {
    /// Which variables have sites.
    #[inline]
    pub(super) fn mask(&self) -> u64 {
        match *self {
            Self::Each(offsets) => low_mask(offsets.len().min(64) as u8),
            Self::Mask(mask, _) | Self::Bounds(mask, _) => mask,
        }
    }
}

/// In order, the place of a variable among those of a mask.
#[inline]
pub(super) fn rank(mask: u64, var: u32) -> usize {
    let below = (1u64 << (var & 63)) - 1;
    (mask & below).count_ones() as usize
}

/// Variables that changed: bits in some words of the maps.
#[derive(Clone, Copy)]
pub(super) struct Changed<'c> {
    /// The number of the first word.
    pub(super) first: usize,
    pub(super) bits: &'c [u64],
}

impl Changed<'_> {
    /// The words with their numbers.
    #[inline]
    pub(super) fn words(&self) -> impl Iterator<Item = (usize, u64)> {
        (self.first..).zip(self.bits.iter().copied())
    }
}

/// A list. Checked, or as somebody wrote it: what leaves the table is not there.
#[derive(Clone, Copy)]
pub(super) struct Dense<'t> {
    words: &'t [u32],
    starts: &'t [u32],
    vars: u32,
}

impl<'t> Dense<'t> {
    /// The list of `vars` variables that starts at word `first`.
    #[inline]
    pub(super) fn new(words: &'t [u32], first: u32, vars: u32) -> Option<Self> {
        let first = first as usize;
        let len = blocks(vars).checked_add(1)?;
        let starts = words.get(first..first.checked_add(len)?)?;
        Some(Self {
            words,
            starts,
            vars,
        })
    }

    /// Number of variables of a block.
    #[inline]
    fn vars_of(&self, block: usize) -> usize {
        let before = block.saturating_mul(BLOCK as usize);
        (self.vars as usize)
            .saturating_sub(before)
            .min(BLOCK as usize)
    }

    /// The sites of the variables of one word of the maps.
    #[inline]
    pub(super) fn block(&self, index: usize) -> Option<Block<'t>> {
        let &[start, next] = self.starts.get(index..)?.first_chunk()?;
        let first = (start & MOST) as usize;
        if start & EACH != 0 {
            let offsets = self.words.get(first..(next & MOST) as usize)?;
            return Some(Block::Each(offsets));
        }
        if start & MASK != 0 {
            let data = self.words.get(first..(next & MOST) as usize)?;
            let (mask, offsets) = data.split_first_chunk()?;
            return Some(Block::Mask(mask_of(*mask), offsets));
        }
        let (mask, data) = self.words.get(first..)?.split_first_chunk()?;
        let mask = mask_of(*mask);
        let bounds = data.get(..mask.count_ones() as usize + 1)?;
        Some(Block::Bounds(mask, bounds))
    }

    /// Calls `store` with the offsets and the value of each changed variable that has sites. `values` are all variables'.
    /// Returns how many offsets that were. Apart, so that the loops have all registers.
    #[inline(never)]
    pub(super) fn walk(
        &self,
        changed: Changed<'_>,
        values: &[u64],
        mut store: impl FnMut(&[u32], u64),
    ) -> usize {
        let mut walked = 0;
        for (word, changed) in changed.words() {
            let (Some(block), Some(values)) = (self.block(word), values.get(word * 64..)) else {
                break;
            };
            let mask = block.mask();
            let mut left = changed & mask;
            let all = left == mask;
            match block {
                Block::Bounds(_, bounds) => {
                    let mut at = 0;
                    while left != 0 {
                        let var = left.trailing_zeros();
                        left &= left - 1;
                        if !all {
                            at = rank(mask, var);
                        }
                        if let Some(&value) = values.get(var as usize) {
                            let of = self.between(bounds, at);
                            store(of, value);
                            walked += of.len();
                        }
                        at += 1;
                    }
                }
                Block::Each(offsets) | Block::Mask(_, offsets) if all => {
                    let mut one = |offset| {
                        if let Some(&value) = values.get(left.trailing_zeros() as usize) {
                            store(core::slice::from_ref(offset), value);
                        }
                        left &= left.wrapping_sub(1);
                    };
                    // Four at a time: the compiler does not unroll volatile stores by itself.
                    let (fours, rest) = offsets.as_chunks();
                    for [a, b, c, d] in fours {
                        one(a);
                        one(b);
                        one(c);
                        one(d);
                    }
                    rest.iter().for_each(one);
                    walked += offsets.len();
                }
                Block::Each(offsets) | Block::Mask(_, offsets) => {
                    walked += left.count_ones() as usize;
                    while left != 0 {
                        let var = left.trailing_zeros();
                        left &= left - 1;
                        let offset = offsets.get(rank(mask, var));
                        if let (Some(offset), Some(&value)) = (offset, values.get(var as usize)) {
                            store(core::slice::from_ref(offset), value);
                        }
                    }
                }
            }
        }
        walked
    }

    /// The offsets from one bound to the next.
    #[inline(always)]
    pub(super) fn between(&self, bounds: &[u32], at: usize) -> &'t [u32] {
        match bounds.get(at..).and_then(|s| s.first_chunk()) {
            Some(&[from, to]) => self
                .words
                .get(from as usize..to as usize)
                .unwrap_or_default(),
            None => &[],
        }
    }

    /// The offsets of a block of which all variables have one site each.
    #[inline]
    pub(super) fn block_of_one_each(&self, index: usize) -> Option<&'t [u32; 64]> {
        let &[start, next] = self.starts.get(index..)?.first_chunk()?;
        let (first, end) = (start & MOST, next & MOST);
        if start & EACH == 0 || end.wrapping_sub(first) != BLOCK {
            return None;
        }
        self.words.get(first as usize..)?.first_chunk()
    }

    /// The offsets of one variable's sites.
    pub(super) fn sites_of(&self, var: u32) -> &'t [u32] {
        let bit = var % BLOCK;
        let Some(block) = self.block((var / BLOCK) as usize) else {
            return &[];
        };
        let (mask, at) = (block.mask(), rank(block.mask(), bit));
        match block {
            _ if mask >> bit & 1 == 0 => &[],
            Block::Each(offsets) | Block::Mask(_, offsets) => {
                offsets.get(at..=at).unwrap_or_default()
            }
            Block::Bounds(_, bounds) => self.between(bounds, at),
        }
    }

    /// All blocks, in order.
    fn all(&self) -> impl Iterator<Item = Block<'t>> + use<'t> {
        let list = *self;
        (0..blocks(list.vars)).filter_map(move |index| list.block(index))
    }

    /// For each word of the maps, which variables have sites.
    pub(super) fn used(&self) -> impl Iterator<Item = u64> + use<'t> {
        self.all().map(|block| block.mask())
    }

    /// Whether the other list, of as many variables, has sites of all of which this one has some.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        let mut both = self.used().zip(other.used());
        both.all(|(mine, others)| mine & !others == 0)
    }

    /// Number of sites.
    pub(super) fn sites(&self) -> usize {
        let of = |block| match block {
            Block::Each(offsets) | Block::Mask(_, offsets) => <[u32]>::len(offsets),
            Block::Bounds(_, bounds) => match (bounds.first(), bounds.last()) {
                (Some(&first), Some(&last)) => last.saturating_sub(first) as usize,
                _ => 0,
            },
        };
        self.all().map(of).sum()
    }

    /// Checks a list that starts at word `at`, of a region that has the offsets which are `inside`. Returns its end.
    pub(super) fn check(&self, at: usize, inside: impl Fn(u32) -> bool) -> Option<usize> {
        let mut at = at.checked_add(self.starts.len())?;
        for (index, pair) in self.starts.windows(2).enumerate() {
            let &[start, next] = pair else { return None };
            let end = (next & MOST) as usize;
            if (start & MOST) as usize != at {
                return None;
            }
            let data = self.words.get(at..end)?;
            let vars = self.vars_of(index);
            let offsets = if start & EACH != 0 {
                (start & MASK == 0 && data.len() <= vars).then_some(data)?
            } else {
                let (mask, data) = data.split_first_chunk()?;
                let mask = mask_of(*mask);
                if mask & !low_mask(vars.min(64) as u8) != 0 {
                    return None;
                }
                let used = mask.count_ones() as usize;
                if start & MASK != 0 {
                    (used == data.len()).then_some(data)?
                } else {
                    let (bounds, offsets) = data.split_at_checked(used + 1)?;
                    let (first, last) = (*bounds.first()?, *bounds.last()?);
                    let ordered = bounds.windows(2).all(|w| matches!(w, [a, b] if a < b));
                    let begin = at + 2 + bounds.len();
                    if !ordered || first as usize != begin || last as usize != end {
                        return None;
                    }
                    offsets
                }
            };
            if !offsets.iter().all(|&o| inside(o)) {
                return None;
            }
            at = end;
        }
        (*self.starts.last()? as usize == at).then_some(at)
    }
}

/// Number of blocks of so many variables.
fn blocks(vars: u32) -> usize {
    vars.div_ceil(BLOCK) as usize
}

/// A mask, low word first.
fn mask_of([low, high]: [u32; 2]) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// What offsets count.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    /// Single bytes.
    One,
    /// Eight bytes.
    Eight,
}

/// How the sites of a block are written. They are in the order of their variables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Each,
    Mask(u64),
    Bounds(u64),
}

fn kind_of(sites: &[Site], block: u32) -> Kind {
    if one_each(sites, block) {
        return Kind::Each;
    }
    let mask = sites.iter().fold(0, |all, s| all | 1u64 << (s.var % BLOCK));
    match mask.count_ones() as usize == sites.len() {
        true => Kind::Mask(mask),
        false => Kind::Bounds(mask),
    }
}

/// Whether the sites of a block are of its first variables, one each.
fn one_each(sites: &[Site], block: u32) -> bool {
    let vars = block.saturating_mul(BLOCK)..;
    sites.iter().zip(vars).all(|(s, var)| s.var == var)
}

/// The sites of each block that has some, with the block's number.
fn by_block(sites: &[Site]) -> impl Iterator<Item = (u32, &[Site])> {
    groups(sites, |a, b| a.var / BLOCK == b.var / BLOCK)
        .filter_map(|of| Some((of.first()?.var / BLOCK, of)))
}

/// Words of a list that are no offsets. `sites` are the list's, in the order of their variables.
pub(super) fn overhead(sites: &[Site], vars: u32) -> usize {
    let of = |(block, of)| match kind_of(of, block) {
        Kind::Each => 0,
        Kind::Mask(_) => 2,
        Kind::Bounds(mask) => 2 + mask.count_ones() as usize + 1,
    };
    by_block(sites).map(of).sum::<usize>() + blocks(vars) + 1
}

/// Whether sites of one region that are stored alike, of so many variables in use, should be a dense list and not runs.
/// `sites` as for [`overhead`].
///
/// A site is a word in both. Runs take five words more per variable in use, dense lists what their blocks take; and a block
/// takes the time of a run or two when it is looked at: it should have some sites for it.
pub(super) fn is_worth_it(sites: &[Site], vars: u32, used: usize) -> bool {
    const SITES_OF_A_BLOCK: usize = 8;
    let small = overhead(sites, vars) <= (5 * used).max(sites.len());
    small && sites.len() >= SITES_OF_A_BLOCK * by_block(sites).count()
}

/// Writes a list from word `at` on, with offsets that count so many bytes, and returns its end. `sites` as for
/// [`overhead`].
pub(super) fn fill(
    sites: &[Site],
    vars: u32,
    unit: Unit,
    words: &mut [u32],
    at: usize,
) -> Option<usize> {
    let mut start_at = at;
    let mut end = at.checked_add(blocks(vars))?.checked_add(1)?;
    let mut left = by_block(sites).peekable();
    for block in 0..vars.div_ceil(BLOCK) {
        let of = left
            .next_if(|&(of, _)| of == block)
            .map_or(&[][..], |b| b.1);
        let start = u32::try_from(end).ok()?;
        let kind = kind_of(of, block);
        let flag = match kind {
            Kind::Each => EACH,
            Kind::Mask(_) => MASK,
            Kind::Bounds(_) => 0,
        };
        *words.get_mut(start_at)? = start | flag;
        start_at += 1;
        if let Kind::Mask(mask) | Kind::Bounds(mask) = kind {
            for half in [mask as u32, (mask >> 32) as u32] {
                *words.get_mut(end)? = half;
                end += 1;
            }
        }
        if let Kind::Bounds(mask) = kind {
            let mut offset_at = end + mask.count_ones() as usize + 1;
            for sites in groups(of, |a, b| a.var == b.var) {
                *words.get_mut(end)? = u32::try_from(offset_at).ok()?;
                end += 1;
                offset_at += sites.len();
            }
            *words.get_mut(end)? = u32::try_from(offset_at).ok()?;
            end += 1;
        }
        for s in of {
            *words.get_mut(end)? = match unit {
                Unit::Eight => s.offset / 8,
                Unit::One => s.offset,
            };
            end += 1;
        }
    }
    *words.get_mut(start_at)? = u32::try_from(end).ok()?;
    Some(end)
}
