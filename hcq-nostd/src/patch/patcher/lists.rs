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
        for (record, formula, list) in self.lists() {
            // One formula's variables are often the same in two regions.
            if record.covered == 0 && !record.range.is_all() {
                self.check_list(formula, record.range, list, changed)?;
            }
        }
        Ok(())
    }

    /// Whether the fields of a list can take the values of the changed variables. Apart, so that the loop has all registers.
    #[inline(never)]
    fn check_list(
        &self,
        formula: &FormulaRecord,
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
                    check_closely(formula, values, word, left)?;
                    break;
                }
                left &= left - 1;
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

/// Whether the fields of a formula can take the values of these variables, from the first one that may not fit on.
#[cold]
fn check_closely(
    formula: &FormulaRecord,
    values: &[u64],
    word: usize,
    mut left: u64,
) -> Result<(), PatchError> {
    while left != 0 {
        let var = Var(var_at(word, left));
        let value = values.get(left.trailing_zeros() as usize);
        let fits = formula.check(value.copied().unwrap_or(0));
        fits.map_err(|misfit| PatchError::Misfit { var, misfit })?;
        left &= left - 1;
    }
    Ok(())
}
