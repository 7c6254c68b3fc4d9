//! Dense lists: the plain sites of one region, in blocks of 64 variables.
//!
//! | words | what |
//! |---|---|
//! | one per block, and one more | where each block starts, and where the last one ends |
//! | a block whose start has [`EACH`] | the offsets / 8 of its first variables, one each; the others have none |
//! | a block whose start has [`MASK`] | two words with a bit for each variable that has a site; the offsets / 8 of these, one each |
//! | any other block | where each variable's offsets start, and where the last one's end; then the offsets / 8 |
//!
//! Blocks have no gaps. Numbers of words are counted from the start of the table's words.

use super::build::groups;
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
        if start & MASK != 0 {
            let data = self.words.get(first..(next & MOST) as usize)?;
            let (mask, offsets) = data.split_first_chunk()?;
            return Some(Block::Mask(mask_of(*mask), offsets));
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
            Block::Mask(mask, _) => mask,
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
            Block::Each(offsets) | Block::Mask(_, offsets) => <[u32]>::len(offsets),
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
                (start & MASK == 0 && data.len() <= vars).then_some(data)?
            } else if start & MASK != 0 {
                let (mask, offsets) = data.split_first_chunk()?;
                let mask = mask_of(*mask);
                let known = mask & !low_mask(vars.min(64) as u8) == 0;
                (known && mask.count_ones() as usize == offsets.len()).then_some(offsets)?
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

/// A mask, low word first.
fn mask_of([low, high]: [u32; 2]) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

/// How the sites of a block are written. They are in the order of their variables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Each,
    Mask(u64),
    Bounds,
}

fn kind_of(sites: &[Site], block: u32) -> Kind {
    if one_each(sites, block) {
        return Kind::Each;
    }
    let mask = sites.iter().fold(0, |all, s| all | 1u64 << (s.var % BLOCK));
    match mask.count_ones() as usize == sites.len() {
        true => Kind::Mask(mask),
        false => Kind::Bounds,
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

/// Words of a region's list that are no offsets. `sites` are the region's, in the order of their variables.
pub(super) fn overhead(sites: &[Site], vars: u32) -> usize {
    let of = |(block, of)| match kind_of(of, block) {
        Kind::Each => 0,
        Kind::Mask(_) => 2,
        Kind::Bounds => vars.saturating_sub(block * BLOCK).min(BLOCK) as usize + 1,
    };
    by_block(sites).map(of).sum::<usize>() + blocks(vars) + 1
}

/// Whether a region's plain sites, of so many variables in use, should be a dense list and not runs. `sites` as for
/// [`overhead`].
///
/// A site is a word in both. Runs take five words more per variable in use, dense lists what their blocks take; and a block
/// takes the time of a run or two when it is looked at: it should have some sites for it.
pub(super) fn is_worth_it(sites: &[Site], vars: u32, used: usize) -> bool {
    const SITES_OF_A_BLOCK: usize = 8;
    let small = overhead(sites, vars) <= (5 * used).max(sites.len());
    small && sites.len() >= SITES_OF_A_BLOCK * by_block(sites).count()
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
        let kind = kind_of(of, block);
        let flag = match kind {
            Kind::Each => EACH,
            Kind::Mask(_) => MASK,
            Kind::Bounds => 0,
        };
        *words.get_mut(start_at)? = start | flag;
        start_at += 1;
        if let Kind::Mask(mask) = kind {
            for half in [mask as u32, (mask >> 32) as u32] {
                *words.get_mut(end)? = half;
                end += 1;
            }
        }
        if kind == Kind::Bounds {
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
