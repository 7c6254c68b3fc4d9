//! The lines of one cache.

/// Bytes of the longest line.
pub(super) const LINE: usize = 128;

/// Lines of a set: those that an address can be in.
const WAYS: usize = 8;

/// The address of a line that holds nothing. Lines are aligned, so it is not one of theirs.
const FREE: u64 = u64::MAX;

/// A copy of some bytes of memory that lie together.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// Where its first byte is.
    pub(super) address: u64,
    /// Which bytes it has, the first as bit 0.
    pub(super) valid: u128,
    /// Which of these memory does not have yet.
    pub(super) dirty: u128,
    pub(super) bytes: [u8; LINE],
}

/// The bits of `len` bytes from `offset` on.
fn bits(offset: usize, len: usize) -> u128 {
    let ones = match len {
        0 => 0,
        1..LINE => (1u128 << len) - 1,
        _ => u128::MAX,
    };
    ones << (offset % LINE)
}

impl Line {
    const EMPTY: Self = Self {
        address: FREE,
        valid: 0,
        dirty: 0,
        bytes: [0; LINE],
    };

    pub(super) fn free(&mut self) {
        (self.address, self.valid, self.dirty) = (FREE, 0, 0);
    }

    fn part(&mut self, offset: usize, len: usize) -> &mut [u8] {
        self.bytes.get_mut(offset..offset + len).unwrap_or_default()
    }

    /// Reads bytes, if the line has all of them.
    pub(super) fn read(&self, offset: usize, bytes: &mut [u8]) -> bool {
        let wanted = bits(offset, bytes.len());
        let Some(from) = self.bytes.get(offset..offset + bytes.len()) else {
            return false;
        };
        let has = self.valid & wanted == wanted;
        if has {
            bytes.copy_from_slice(from);
        }
        has
    }

    /// Takes bytes that the line does not have yet.
    pub(super) fn fill(&mut self, offset: usize, bytes: &[u8]) {
        let new = bits(offset, bytes.len());
        let had = self.valid & new;
        if had == 0 {
            let part = self.part(offset, bytes.len());
            if part.len() != bytes.len() {
                return;
            }
            part.copy_from_slice(bytes);
        } else if had != new {
            for (i, &byte) in (offset..).zip(bytes) {
                if had & bits(i, 1) == 0
                    && let Some(to) = self.bytes.get_mut(i)
                {
                    *to = byte;
                }
            }
        }
        self.valid |= new;
    }

    /// Changes those bytes that the line has.
    pub(super) fn update(&mut self, offset: usize, bytes: &[u8]) {
        for (i, &byte) in (offset..).zip(bytes) {
            if self.valid & bits(i, 1) != 0
                && let Some(to) = self.bytes.get_mut(i)
            {
                *to = byte;
            }
        }
    }

    /// Takes stores that memory does not have.
    pub(super) fn store(&mut self, offset: usize, bytes: &[u8]) {
        let part = self.part(offset, bytes.len());
        if part.len() == bytes.len() {
            part.copy_from_slice(bytes);
            let new = bits(offset, bytes.len());
            self.valid |= new;
            self.dirty |= new;
        }
    }
}

/// The lines of one cache.
#[derive(Debug)]
pub(super) struct Lines {
    size: usize,
    sets: usize,
    /// Set after set; empty until the first line comes.
    lines: Vec<Line>,
    /// Takes what no set has room for, which is nothing.
    spare: Line,
}

impl Lines {
    /// An empty cache of this many lines of `size` bytes, a power of two up to [`LINE`].
    pub(super) fn new(size: usize, count: usize) -> Self {
        Self {
            size,
            sets: count.div_ceil(WAYS).max(1),
            lines: Vec::new(),
            spare: Line::EMPTY,
        }
    }

    /// Bytes of a line.
    pub(super) fn size(&self) -> usize {
        self.size
    }

    pub(super) fn clear(&mut self) {
        self.each(Line::free);
    }

    /// Calls a function with each line that holds something.
    pub(super) fn each(&mut self, mut f: impl FnMut(&mut Line)) {
        self.lines
            .iter_mut()
            .filter(|line| line.address != FREE)
            .for_each(&mut f);
    }

    fn base(&self, address: u64) -> u64 {
        address - address % self.size as u64
    }

    /// Where the set of a line begins.
    fn set(&self, base: u64) -> usize {
        // Buffers that start at round addresses must not all meet in one set.
        let number = (base / self.size as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        (number % self.sets as u64) as usize * WAYS
    }

    /// The line of an address, if the cache has it.
    pub(super) fn find(&mut self, address: u64) -> Option<&mut Line> {
        let base = self.base(address);
        let set = self.set(base);
        self.lines
            .get_mut(set..set + WAYS)?
            .iter_mut()
            .find(|line| line.address == base)
    }

    /// The line of an address, made if need be, and what was displaced with stores in it.
    pub(super) fn claim(
        &mut self,
        address: u64,
        random: &mut fastrand::Rng,
    ) -> (&mut Line, Option<Line>) {
        if self.lines.is_empty() {
            self.lines = vec![Line::EMPTY; self.sets * WAYS];
        }
        let base = self.base(address);
        let start = self.set(base);
        let set = self.lines.get(start..start + WAYS).unwrap_or_default();
        let way = set
            .iter()
            .position(|line| line.address == base)
            .or_else(|| set.iter().position(|line| line.address == FREE))
            .unwrap_or_else(|| random.usize(..WAYS));
        let line = match self.lines.get_mut(start + way) {
            Some(line) => line,
            None => &mut self.spare,
        };
        let mut displaced = None;
        if line.address != base {
            if line.dirty != 0 {
                displaced = Some(line.clone());
            }
            line.free();
            line.address = base;
        }
        (line, displaced)
    }
}
