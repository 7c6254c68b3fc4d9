//! Values for many variables at once.

use super::super::compare;
use super::{PatchError, Patcher};
use crate::value::Var;

impl Patcher<'_> {
    /// Gives `values.len()` variables from `first` on their values. Costs a comparison for those that did not change.
    ///
    /// # Errors
    /// [`PatchError::NoSuchVariable`], [`PatchError::IsDerived`]; nothing has changed then.
    pub fn set_all(&mut self, first: Var, values: &[u64]) -> Result<(), PatchError> {
        let vars = self.table.vars();
        let end = u32::try_from(values.len())
            .ok()
            .and_then(|n| first.0.checked_add(n))
            .filter(|&e| e <= vars);
        let end = end.ok_or(PatchError::NoSuchVariable {
            var: Var(vars.max(first.0)),
            vars,
        })?;
        if let Some(var) = self.first_derived(first.0, end) {
            return Err(PatchError::IsDerived { var });
        }
        self.put_values(first, values);
        Ok(())
    }

    /// The same for variables that the table has, and that are not computed.
    #[inline]
    pub(crate) fn put_values(&mut self, first: Var, values: &[u64]) {
        let first = first.0 as usize;
        if values.len() <= 64 - first % 64 {
            return self.put_part(first, values);
        }
        self.put_many(first, values);
    }

    fn put_many(&mut self, first: usize, values: &[u64]) {
        // Up to the next word of the maps, whole words, and what is left.
        let (head, others) = match first % 64 {
            0 => (&[][..], values),
            shift => values.split_at_checked(64 - shift).unwrap_or((values, &[])),
        };
        let (blocks, tail) = others.as_chunks::<64>();
        if !head.is_empty() {
            self.put_part(first, head);
        }
        if !blocks.is_empty() {
            self.put_blocks(first + head.len(), blocks);
        }
        if !tail.is_empty() {
            self.put_part(first + (values.len() - tail.len()), tail);
        }
    }

    /// Gives variables of one word of the maps their values.
    #[inline(never)]
    fn put_part(&mut self, at: usize, new: &[u64]) {
        let kept = self.values.get_mut(at..).unwrap_or_default();
        let mut changed = compare::update(kept, new);
        if self.unknown_left != 0 {
            changed |= self.learn(at, new.len());
        }
        let word = at / 64;
        if changed != 0
            && let Some(dirty) = self.dirty.get_mut(word)
        {
            *dirty |= changed << (at % 64);
            self.touch(word, word + 1);
        }
    }

    /// Gives the variables of whole words of the maps their values.
    fn put_blocks(&mut self, at: usize, new: &[[u64; 64]]) {
        if self.unknown_left != 0 {
            for (at, new) in (at..).step_by(64).zip(new) {
                self.put_part(at, new);
            }
            return;
        }
        let word = at / 64;
        let kept = self.values.get_mut(at..).unwrap_or_default();
        let (kept, _) = kept.as_chunks_mut::<64>();
        let dirty = self.dirty.get_mut(word..).unwrap_or_default();
        let (mut from, mut to) = (usize::MAX, 0);
        for (i, ((kept, new), dirty)) in kept.iter_mut().zip(new).zip(dirty).enumerate() {
            let changed = compare::update64(kept, new);
            if changed != 0 {
                *dirty |= changed;
                (from, to) = (from.min(i), i + 1);
            }
        }
        if to != 0 {
            self.touch(word + from, word + to);
        }
    }

    /// Those of `n` variables from `at` on that had no value before.
    #[cold]
    fn learn(&mut self, at: usize, n: usize) -> u64 {
        let mut learnt = 0;
        for (i, var) in (at..).take(n.min(64)).enumerate() {
            let bit = 1 << (var % 64);
            if let Some(unknown) = self.unknown.get_mut(var / 64)
                && *unknown & bit != 0
            {
                *unknown &= !bit;
                self.unknown_left -= 1;
                learnt |= 1 << i;
            }
        }
        learnt
    }
}
