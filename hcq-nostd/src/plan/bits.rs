//! A set of small numbers that finds the greatest one not above a given one in a handful of steps.

/// Levels of 64-way words; six hold 2^36 numbers.
const LEVELS: usize = 6;

/// The set, in the caller's words: a bit per number, above it a bit per word that is not zero, and so on.
#[derive(Debug)]
pub(super) struct Bits<'s> {
    words: &'s mut [u64],
    /// Where each level starts.
    starts: [usize; LEVELS],
    levels: usize,
}

/// Words per level for `n` numbers, until one word is enough.
fn level_words(n: usize) -> impl Iterator<Item = usize> {
    let mut next = Some(n);
    core::iter::from_fn(move || {
        let words = next?.div_ceil(64).max(1);
        next = (words > 1).then_some(words);
        Some(words)
    })
}

/// Words needed for numbers below `n`.
pub(super) fn words_for(n: usize) -> usize {
    level_words(n).sum()
}

const fn split(i: usize) -> (usize, u64) {
    (i / 64, 1 << (i % 64))
}

impl<'s> Bits<'s> {
    /// The empty set of numbers below `n`. `None` if the words are too few or `n` is beyond six levels.
    pub(super) fn new(n: usize, words: &'s mut [u64]) -> Option<Self> {
        let mut starts = [0; LEVELS];
        let mut levels = 0;
        let mut at = 0usize;
        for count in level_words(n) {
            *starts.get_mut(levels)? = at;
            at = at.checked_add(count)?;
            levels += 1;
        }
        let words = words.get_mut(..at)?;
        words.fill(0);
        Some(Self {
            words,
            starts,
            levels,
        })
    }

    fn word(&self, level: usize, index: usize) -> Option<u64> {
        let at = self.starts.get(level)?.checked_add(index)?;
        self.words.get(at).copied()
    }

    pub(super) fn contains(&self, i: u32) -> bool {
        let (word, bit) = split(i as usize);
        self.word(0, word).is_some_and(|w| w & bit != 0)
    }

    pub(super) fn insert(&mut self, i: u32) -> Option<()> {
        let mut index = i as usize;
        for start in self.starts.get(..self.levels)? {
            let (word, bit) = split(index);
            let w = self.words.get_mut(start + word)?;
            let had = *w;
            *w |= bit;
            if had != 0 {
                break;
            }
            index = word;
        }
        Some(())
    }

    pub(super) fn remove(&mut self, i: u32) -> Option<()> {
        let mut index = i as usize;
        for start in self.starts.get(..self.levels)? {
            let (word, bit) = split(index);
            let w = self.words.get_mut(start + word)?;
            *w &= !bit;
            if *w != 0 {
                break;
            }
            index = word;
        }
        Some(())
    }

    /// The greatest member that is at most `i`.
    pub(super) fn at_or_before(&self, i: u32) -> Option<u32> {
        let (mut word, bit) = split(i as usize);
        // Bits up to and including `i`, then, a level up, those below the word that was looked at.
        let mut mask = bit | (bit - 1);
        let mut level = 0;
        let found = loop {
            let w = self.word(level, word)? & mask;
            if w != 0 {
                break word * 64 + w.ilog2() as usize;
            }
            level += 1;
            if level == self.levels {
                return None;
            }
            let (up, bit) = split(word);
            (word, mask) = (up, bit - 1);
        };
        let mut index = found;
        while level > 0 {
            level -= 1;
            let w = self.word(level, index)?;
            index = index * 64 + w.checked_ilog2()? as usize;
        }
        u32::try_from(index).ok()
    }
}
