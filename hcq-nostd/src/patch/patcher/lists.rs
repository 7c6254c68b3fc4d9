//! Lists of sites with one formula: looked up once, and then a straight walk.

use super::super::dense::{Changed, Dense};
use super::super::record::{FormulaRecord, Range, Shape};
use super::super::stores::{self, Checked};
use super::super::table::ListRecord;
use super::{PatchError, Patcher, var_at};
use crate::mem::Region;
use crate::value::Var;

impl<'m> Patcher<'m> {
    /// All lists of formulas.
    #[inline]
    fn lists(
        &self,
    ) -> impl Iterator<Item = (&'m ListRecord, &'m FormulaRecord, Dense<'m>)> + use<'m> {
        let table = self.table;
        table.lists.iter().filter_map(move |record| {
            let formula = table.formulas.get(record.formula as usize)?;
            Some((record, formula, table.list(record.starts)?))
        })
    }

    /// Whether the fields of all sites in lists of formulas can take the values of the changed variables.
    pub(super) fn check_lists(&self, changed: Changed<'_>) -> Result<(), PatchError> {
        for (record, _, list) in self.lists() {
            if record.covered == 0 && !record.range.is_all() {
                self.check_list(record.range, list, changed)?;
            }
        }
        Ok(())
    }

    /// Whether the fields of a list, and of those that it covers, can take the values of the changed variables. Apart, so that
    /// the loop has all registers.
    #[inline(never)]
    fn check_list(
        &self,
        range: Range,
        list: Dense<'_>,
        changed: Changed<'_>,
    ) -> Result<(), PatchError> {
        for (word, changed) in changed.words() {
            let values = self.values.get(word * 64..).unwrap_or_default();
            let mut left = changed & list.block(word).map_or(0, |b| b.mask());
            while left != 0 {
                let value = values.get(left.trailing_zeros() as usize);
                if !value.is_some_and(|&value| range.has(value)) {
                    self.check_closely(word, left)?;
                    break;
                }
                left &= left - 1;
            }
        }
        Ok(())
    }

    /// Whether the fields of all lists can take the values of some variables of one word of the maps.
    #[cold]
    fn check_closely(&self, word: usize, which: u64) -> Result<(), PatchError> {
        for (_, formula, list) in self.lists() {
            let mut left = which & list.block(word).map_or(0, |b| b.mask());
            while left != 0 {
                let var = var_at(word, left);
                left &= left - 1;
                let value = self.values.get(var as usize).copied().unwrap_or(0);
                let misfit = |misfit| PatchError::Misfit {
                    var: Var(var),
                    misfit,
                };
                formula.check(value).map_err(misfit)?;
            }
        }
        Ok(())
    }

    /// Stores the sites of the changed variables that are in lists of formulas.
    pub(super) fn store_lists(
        &self,
        checked: Checked,
        regions: &mut [Region<'_>],
        changed: Changed<'_>,
    ) -> usize {
        let mut stored = 0;
        for (record, formula, list) in self.lists() {
            let Some(region) = regions.get_mut(usize::from(record.region)) else {
                continue;
            };
            let (values, mut region) = (&*self.values, region.reborrow());
            stored += match formula.shape() {
                Shape::Nothing => 0,
                Shape::Low => list.walk(changed, values, move |offsets, value| {
                    stores::word(checked, &mut region, offsets, value);
                }),
                Shape::Scaled(scale, add) => list.walk(changed, values, move |offsets, value| {
                    let value = value.wrapping_mul(scale).wrapping_add(add);
                    stores::word(checked, &mut region, offsets, value);
                }),
                Shape::Word => list.walk(changed, values, move |offsets, value| {
                    stores::word(checked, &mut region, offsets, formula.word(value));
                }),
                Shape::Any => list.walk(changed, values, move |offsets, value| {
                    let (store, value) = formula.eval(value);
                    stores::run(checked, &mut region, offsets, store, value);
                }),
            };
        }
        stored
    }
}
