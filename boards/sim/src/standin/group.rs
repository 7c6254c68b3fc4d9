//! What a stand-in is given.

use std::fmt;
use std::ops::Range;

use super::part;
use crate::engine::Cause;
use crate::exec::{Registers, ShaderMemory};

/// A work-group that a stand-in runs: what its program's registers and memory hold.
pub struct Group<'a> {
    /// The group's numbers.
    pub group: [u32; 3],
    /// Work-groups of the launch.
    pub groups: [u32; 3],
    /// Work-items that run. What a program takes its size to be is [`local_size`](Self::local_size).
    pub items: [u32; 3],
    /// Lanes of a wave.
    pub wave: u32,
    /// The argument block, as the same program in C would have it: AMD's memory of arguments, NVIDIA's constant bank 0 from its
    /// parameters on, Adreno's constants in the places of C.
    pub arguments: &'a [u8],
    /// What only this vendor's launches have: constants, descriptors of textures and images.
    pub registers: &'a Registers,
    pub(super) local: [u32; 3],
    pub(super) grid: [u32; 3],
    /// The group's local memory.
    pub local_memory: &'a mut [u8],
    /// Memory through the caches.
    pub memory: &'a mut dyn ShaderMemory,
}

impl fmt::Debug for Group<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("group", &self.group)
            .field("items", &self.items)
            .finish_non_exhaustive()
    }
}

impl Group<'_> {
    /// The argument of 4 bytes at an offset; 0 past the end of the block.
    pub fn u32_at(&self, offset: usize) -> u32 {
        u32::from_le_bytes(part(self.arguments, offset))
    }

    /// The argument of 8 bytes at an offset; 0 past the end of the block.
    pub fn u64_at(&self, offset: usize) -> u64 {
        u64::from_le_bytes(part(self.arguments, offset))
    }

    /// The argument of type `float` at an offset; 0 past the end of the block.
    pub fn f32_at(&self, offset: usize) -> f32 {
        f32::from_bits(self.u32_at(offset))
    }

    /// Work-items of a group, as the program finds them (AMD's dispatch packet, constants); as many as run if it does not look.
    pub fn local_size(&self, dimension: usize) -> u32 {
        self.local.get(dimension).copied().unwrap_or(1)
    }

    /// Work-items of the launch, as the program finds them; as many as run if it does not look.
    pub fn grid_size(&self, dimension: usize) -> u32 {
        self.grid.get(dimension).copied().unwrap_or(1)
    }

    /// Numbers of this group's work-items in the launch, in dimension 0, as far as they are below `n`.
    pub fn items_below(&self, n: u32) -> Range<u32> {
        let [group, ..] = self.group;
        let [items, ..] = self.items;
        let first = group.wrapping_mul(self.local_size(0));
        first.min(n)..first.saturating_add(items).min(n)
    }

    /// Loads 4 bytes.
    ///
    /// # Errors
    /// [`Cause::Memory`].
    pub fn load_u32(&mut self, address: u64) -> Result<u32, Cause> {
        let mut bytes = [0; 4];
        self.memory.load(address, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    /// Stores 4 bytes.
    ///
    /// # Errors
    /// [`Cause::Memory`].
    pub fn store_u32(&mut self, address: u64, value: u32) -> Result<(), Cause> {
        Ok(self.memory.store(address, &value.to_le_bytes())?)
    }

    /// Loads words that lie together.
    ///
    /// # Errors
    /// [`Cause::Memory`].
    pub fn load_words(&mut self, address: u64, count: usize) -> Result<Vec<u32>, Cause> {
        let mut bytes = vec![0; 4 * count];
        self.memory.load(address, &mut bytes)?;
        let (words, _) = bytes.as_chunks();
        Ok(words.iter().map(|&word| u32::from_le_bytes(word)).collect())
    }

    /// Stores words that lie together.
    ///
    /// # Errors
    /// [`Cause::Memory`].
    pub fn store_words(&mut self, address: u64, words: &[u32]) -> Result<(), Cause> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        Ok(self.memory.store(address, &bytes)?)
    }

    /// Loads a word of local memory. Past its end there are zeros.
    pub fn local_load(&self, index: usize) -> u32 {
        index
            .checked_mul(4)
            .map_or(0, |at| u32::from_le_bytes(part(self.local_memory, at)))
    }

    /// Stores a word to local memory. Past its end it is lost.
    pub fn local_store(&mut self, index: usize, word: u32) {
        let to = index
            .checked_mul(4)
            .and_then(|at| self.local_memory.get_mut(at..))
            .and_then(|rest| rest.first_chunk_mut());
        if let Some(to) = to {
            *to = word.to_le_bytes();
        }
    }
}
