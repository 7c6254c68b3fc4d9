//! Dense lists: the plain sites of one region, in blocks of 64 variables.
//!
//! | words | what |
//! |---|---|
//! | one per block, and one more | where each block starts, and where the last one ends |
//! | a block whose start has [`EACH`] | the offsets / 8 of its first variables, one each; the others have none |
//! | any other block | where each variable's offsets start, and where the last one's end; then the offsets / 8 |
//!
//! Blocks have no gaps. Numbers of words are counted from the start of the table's words.

use super::build::groups;
use super::formula::Site;
use crate::value::low_mask;

/// In a block's start: its first variables have one site each, the others none.
const EACH: u32 = 1 << 31;
/// A start without its flag, and the most words that a table can have.
pub(super) const MOST: u32 = EACH - 1;

/// Variables of a block: as many as a word of the maps has bits.
const BLOCK: u32 = u64::BITS;

/// The sites of up to 64 variables.
#[derive(Clone, Copy)]
pub(super) enum Block<'t> {
    /// One offset for each of the first variables, of which there are at most 64.
    Each(&'t [u32]),
    /// For each variable, where its offsets are among the words: from its entry to the next.
    Bounds(&'t [u32]),
}

/// A region's list. Checked, or as somebody wrote it: what leaves the table is not there.
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
        let len = self.vars_of(index) + 1;
        let bounds = self.words.get(first..first.checked_add(len)?)?;
        Some(Block::Bounds(bounds))
    }

    /// All blocks, in order.
    fn all(&self) -> impl Iterator<Item = Block<'t>> + use<'t> {
        let list = *self;
        (0..blocks(list.vars)).filter_map(move |index| list.block(index))
    }

    /// For each word of the maps, which variables have sites.
    pub(super) fn used(&self) -> impl Iterator<Item = u64> + use<'t> {
        self.all().map(|block| match block {
            Block::Each(offsets) => low_mask(offsets.len().min(64) as u8),
            Block::Bounds(bounds) => {
                let pairs = bounds.windows(2).map(|w| matches!(w, [a, b] if a != b));
                let bits = pairs.zip(0u32..BLOCK);
                bits.fold(0, |all, (used, bit)| all | u64::from(used) << bit)
            }
        })
    }

    /// Number of sites.
    pub(super) fn sites(&self) -> usize {
        let of = |block| match block {
            Block::Each(offsets) => <[u32]>::len(offsets),
            Block::Bounds(bounds) => match (bounds.first(), bounds.last()) {
                (Some(&first), Some(&last)) => last.saturating_sub(first) as usize,
                _ => 0,
            },
        };
        self.all().map(of).sum()
    }

    /// Checks a list that starts at word `at`, of a region of `bytes` bytes. Returns its end.
    pub(super) fn check(&self, at: usize, bytes: u64) -> Option<usize> {
        let inside = |&o: &u32| (u64::from(o) + 1) * 8 <= bytes;
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
                (data.len() <= vars).then_some(data)?
            } else {
                let (bounds, offsets) = data.split_at_checked(vars + 1)?;
                let (first, last) = (*bounds.first()?, *bounds.last()?);
                let ordered = bounds.windows(2).all(|w| matches!(w, [a, b] if a <= b));
                if !ordered || first as usize != at + bounds.len() || last as usize != end {
                    return None;
                }
                offsets
            };
            if !offsets.iter().all(inside) {
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

/// Whether the sites of a block are of its first variables, one each. They are in the order of their variables.
fn one_each(sites: &[Site], block: u32) -> bool {
    let vars = block.saturating_mul(BLOCK)..;
    sites.iter().zip(vars).all(|(s, var)| s.var == var)
}

/// The sites of each block that has some, with the block's number.
fn by_block(sites: &[Site]) -> impl Iterator<Item = (u32, &[Site])> {
    groups(sites, |a, b| a.var / BLOCK == b.var / BLOCK)
        .filter_map(|of| Some((of.first()?.var / BLOCK, of)))
}

/// Words of a region's list that are no offsets. `sites` are the region's, in the order of their variables.
pub(super) fn overhead(sites: &[Site], vars: u32) -> usize {
    let bounds = by_block(sites)
        .filter(|&(block, of)| !one_each(of, block))
        .map(|(block, _)| vars.saturating_sub(block * BLOCK).min(BLOCK) as usize + 1)
        .sum::<usize>();
    bounds + blocks(vars) + 1
}

/// Writes a region's list from word `at` on and returns its end. `sites` as for [`overhead`].
pub(super) fn fill(sites: &[Site], vars: u32, words: &mut [u32], at: usize) -> Option<usize> {
    let mut start_at = at;
    let mut end = at.checked_add(blocks(vars))?.checked_add(1)?;
    let mut left = by_block(sites).peekable();
    for block in 0..vars.div_ceil(BLOCK) {
        let of = left
            .next_if(|&(of, _)| of == block)
            .map_or(&[][..], |b| b.1);
        let start = u32::try_from(end).ok()?;
        let each = one_each(of, block);
        *words.get_mut(start_at)? = if each { start | EACH } else { start };
        start_at += 1;
        if !each {
            let first = block * BLOCK;
            let behind = first + (vars - first).min(BLOCK);
            let mut offset_at = end + (behind - first) as usize + 1;
            let mut of = of.iter().peekable();
            for var in first..=behind {
                *words.get_mut(end)? = u32::try_from(offset_at).ok()?;
                end += 1;
                while of.next_if(|s| s.var == var).is_some() {
                    offset_at += 1;
                }
            }
        }
        for s in of {
            *words.get_mut(end)? = s.offset / 8;
            end += 1;
        }
    }
    *words.get_mut(start_at)? = u32::try_from(end).ok()?;
    Some(end)
}
