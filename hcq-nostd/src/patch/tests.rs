mod build;
mod dense;
mod fresh;
mod parse;
mod patcher;
mod places;
mod sums;

use super::*;
use crate::value::{Affine, Field, Fit, Misfit, Value, Var};
use std::vec;
use std::vec::Vec;

/// The bytes that a formula's site holds for `x`, computed from the words of its documentation alone.
fn naive_bytes(f: &Formula, x: u64) -> Vec<u8> {
    let modulus = 1u128 << 64;
    let adjusted =
        (u128::from(x) * u128::from(f.of.scale) % modulus + u128::from(f.of.add)) % modulus;
    let field = ((adjusted >> f.shr) & u128::from(f.mask)) << f.shl;
    let word = (u128::from(f.base) + field % modulus) % modulus;
    let mut bytes = word.to_le_bytes()[..8].to_vec();
    let width = match f.store {
        Store::Nothing => 0,
        Store::W8 => 1,
        Store::W16 => 2,
        Store::W32 => 4,
        Store::W64 | Store::Low32 | Store::High32 => 8,
    };
    bytes.truncate(width);
    if f.swap {
        bytes.reverse();
    }
    match f.store {
        Store::Low32 => bytes[..4].to_vec(),
        Store::High32 => bytes[4..].to_vec(),
        _ => bytes,
    }
}

/// Whether `x * scale + add` fits, over unbounded integers: `scale` and `add` are signed.
fn naive_fits(fit: Fit, of: Affine, x: u64) -> bool {
    let value = x.wrapping_mul(of.scale).wrapping_add(of.add);
    // Where negative numbers fit, the variable may be one.
    let readings = [
        Some(i128::from(x)),
        fit.signed.then(|| i128::from(x.cast_signed())),
    ];
    let fits = |x: i128| {
        let exact = x
            .checked_mul(i128::from(of.scale.cast_signed()))
            .and_then(|p| p.checked_add(i128::from(of.add.cast_signed())));
        match exact {
            None => false,
            Some(e) if e < 0 => {
                fit.signed && fit.bits > 0 && e >= -(1i128 << (fit.bits.min(64) - 1))
            }
            Some(e) => e < 1i128 << fit.bits.min(64),
        }
    };
    let wraps = fit.bits >= 64 && fit.most == u64::MAX;
    let small = wraps || readings.into_iter().flatten().any(fits);
    small
        && value.is_multiple_of(1 << fit.align_log2)
        && value >= u64::from(fit.least)
        && value <= fit.most
}

/// A list with as much room as any test here needs.
struct Room {
    sites: Vec<Site>,
    derived: Vec<Derived>,
}

impl Room {
    fn new(sites: usize) -> Self {
        Self {
            sites: vec![Site::EMPTY; sites],
            derived: vec![Derived::EMPTY; 64],
        }
    }

    fn list(&mut self) -> PatchList<'_> {
        PatchList::new(&mut self.sites, &mut self.derived)
    }
}

/// The table of a list, its bytes kept.
fn built(list: &mut PatchList<'_>, regions: &[u64]) -> Result<Vec<u64>, BuildError> {
    let mut out = vec![0; list.table_words(regions)?];
    list.build(regions, &mut out)?;
    Ok(out)
}

fn table(words: &[u64]) -> PatchTable<'_> {
    PatchTable::parse(zerocopy::IntoBytes::as_bytes(words)).expect("a table that was built")
}
