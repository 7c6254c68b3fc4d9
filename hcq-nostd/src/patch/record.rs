//! Formulas as tables have them.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::formula::{Formula, Site, Store};
use crate::value::{Affine, Fit, Misfit, Var, low_mask};

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct FormulaRecord {
    scale: u64,
    add: u64,
    mask: u64,
    base: u64,
    shr: u8,
    shl: u8,
    bits: u8,
    align_log2: u8,
    store: u8,
    swap: u8,
    least: u8,
    signed: u8,
    most: u64,
}

impl FormulaRecord {
    pub(super) fn from_site(s: &Site) -> Self {
        Self {
            scale: s.scale,
            add: s.add,
            mask: s.mask,
            base: s.base,
            shr: s.shr,
            shl: s.shl,
            bits: s.bits,
            align_log2: s.align_log2,
            store: s.store,
            swap: s.swap,
            least: s.least,
            signed: s.signed,
            most: s.most,
        }
    }

    /// Whether the field can take the variable's value.
    #[inline]
    pub(super) fn check(&self, value: u64) -> Result<(), Misfit> {
        // Most values of most fields; the rest is looked at more closely, and has a reason.
        let plain = self.scale == 1 && self.add == 0;
        let small = value <= self.most && (self.bits >= 64 || value >> (self.bits & 63) == 0);
        let whole = value & low_mask(self.align_log2) == 0;
        if plain && small && whole && value >= u64::from(self.least) {
            return Ok(());
        }
        self.check_closely(value)
    }

    #[inline(never)]
    fn check_closely(&self, value: u64) -> Result<(), Misfit> {
        self.fit().check_affine(value, self.scale, self.add)
    }

    #[inline]
    fn fit(&self) -> Fit {
        Fit {
            bits: self.bits,
            align_log2: self.align_log2,
            least: self.least,
            most: self.most,
            signed: self.signed != 0,
        }
    }

    /// Values that certainly fit: what is not among them is to be [checked](Self::check).
    pub(super) fn range(&self) -> Range {
        if self.takes_all() {
            return Range::ALL;
        }
        self.limited().unwrap_or(Range::NONE)
    }

    /// The range, unless there is none for such a formula.
    fn limited(&self) -> Option<Range> {
        let (scale, add) = (self.scale, self.add.cast_signed());
        if scale == 0 || scale.cast_signed() < 0 || self.add & low_mask(self.align_log2) != 0 {
            return None;
        }
        let most = self.most.min(low_mask(self.bits));
        let (most, least) = if add < 0 {
            let less = add.unsigned_abs();
            let least = u64::from(self.least).checked_add(less)?;
            (most.saturating_add(less), least)
        } else {
            let more = add.unsigned_abs();
            (
                most.checked_sub(more)?,
                u64::from(self.least).saturating_sub(more),
            )
        };
        let least = least.checked_add(scale - 1)?.checked_div(scale)?;
        let most = most.checked_div(scale)?;
        let align = u32::from(self.align_log2).saturating_sub(scale.trailing_zeros());
        // Both counted in units, so that one comparison will do for both limits and the alignment.
        let unaligned = low_mask(align.min(64) as u8);
        let least = least.checked_add(unaligned)? & !unaligned;
        let steps = most.checked_sub(least)?.checked_shr(align)?;
        Some(Range {
            least,
            count: steps.saturating_add(1),
            align: align.into(),
        })
    }

    /// Whether any value fits.
    fn takes_all(&self) -> bool {
        self.bits >= 64 && self.align_log2 == 0 && self.least == 0 && self.most == u64::MAX
    }

    /// Whether its sites are stored, and not only checked.
    pub(super) fn stores(&self) -> bool {
        self.store != Store::Nothing as u8
    }

    /// How a site's word is found.
    pub(super) fn shape(&self) -> Shape {
        if !self.stores() {
            return Shape::Nothing;
        }
        if self.store != Store::W32 as u8 || self.swap != 0 {
            return Shape::Any;
        }
        let whole = self.mask & low_mask(32) == low_mask(32) && (self.shr, self.shl) == (0, 0);
        let add = self.add.wrapping_add(self.base);
        match (whole, self.scale, add) {
            (true, 1, 0) => Shape::Low,
            (true, scale, add) => Shape::Scaled(scale, add),
            (false, ..) => Shape::Word,
        }
    }

    /// The low half of a word that is stored as it is.
    #[inline(always)]
    pub(super) fn word(&self, value: u64) -> u64 {
        let of = value.wrapping_mul(self.scale).wrapping_add(self.add);
        let field = ((of >> (self.shr & 63)) & self.mask) << (self.shl & 63);
        self.base.wrapping_add(field)
    }

    /// What a site holds for a variable's value, and how it is stored. A table's records were checked.
    #[inline]
    pub(super) fn eval(&self, value: u64) -> (Store, u64) {
        if self.store == Store::W32 as u8 && self.swap == 0 {
            // Most of them; the store takes the low half.
            return (Store::W32, self.word(value));
        }
        self.eval_any(value)
    }

    #[inline(never)]
    fn eval_any(&self, value: u64) -> (Store, u64) {
        match self.formula(0) {
            Some(f) => (f.store, f.eval(value)),
            None => (Store::Nothing, 0),
        }
    }

    #[inline]
    pub(super) fn formula(&self, var: u32) -> Option<Formula> {
        Some(Formula {
            of: Affine {
                var: Var(var),
                scale: self.scale,
                add: self.add,
            },
            shr: (self.shr < 64).then_some(self.shr)?,
            mask: self.mask,
            shl: (self.shl < 64).then_some(self.shl)?,
            base: self.base,
            swap: self.swap != 0,
            store: Store::from_u8(self.store)?,
            fit: self.fit(),
        })
    }
}

/// `count` values from `least` on, each `2^align` more than the one before. `align` is below 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Range {
    least: u64,
    count: u64,
    align: u64,
}

impl Range {
    /// Of all values, and no other range has as many.
    const ALL: Self = Self {
        least: 0,
        count: u64::MAX,
        align: 0,
    };
    /// Of no value.
    const NONE: Self = Self {
        count: 0,
        ..Self::ALL
    };

    /// Whether there is nothing to check.
    #[inline]
    pub(super) fn is_all(&self) -> bool {
        *self == Self::ALL
    }

    /// Whether the other range has all that this one has.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        let last = self
            .least
            .wrapping_add(self.count.wrapping_sub(1) << (self.align & 63));
        let ends = other.has(self.least) && other.has(last) && self.align >= other.align;
        self.count == 0 || ends || other.is_all()
    }

    /// Whether it has a value. The last one of all is an exception: it has to be checked, and fits.
    #[inline(always)]
    pub(super) fn has(&self, value: u64) -> bool {
        // What is between two steps gets high bits.
        let steps = value
            .wrapping_sub(self.least)
            .rotate_right(self.align as u32 & 63);
        steps < self.count
    }
}

/// How a formula's word is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// There is none.
    Nothing,
    /// The low 32 bits of the value.
    Low,
    /// The low 32 bits of the value, times a number, and another one added.
    Scaled(u64, u64),
    /// 32 bits, not swapped: [`FormulaRecord::word`].
    Word,
    /// [`FormulaRecord::eval`].
    Any,
}

#[cfg(test)]
mod tests {
    use super::super::RegionId;
    use super::*;
    use crate::testing::cases;
    use proptest::prelude::*;

    fn record(of: Affine, fit: Fit) -> FormulaRecord {
        FormulaRecord::from_site(&Site::new(RegionId(0), 0, &Formula::low(of, fit)))
    }

    fn of(scale: u64, add: u64) -> Affine {
        Affine {
            var: Var(0),
            scale,
            add,
        }
    }

    #[test]
    fn ranges_are_within_wider_ones() {
        let range = |scale, fit| record(of(scale, 0), fit).range();
        let (narrow, wide) = (range(64, Fit::count(32)), range(1, Fit::count(32)));
        assert!(narrow.is_within(&wide) && !wide.is_within(&narrow));
        assert!(wide.is_within(&wide) && wide.is_within(&Range::ALL));
        assert!(Range::NONE.is_within(&wide) && !wide.is_within(&Range::NONE));
        let aligned = range(1, Fit::aligned(32, 4));
        assert!(aligned.is_within(&range(1, Fit::bits(32))));
        assert!(!aligned.is_within(&wide), "zero is not");
        assert!(!range(1, Fit::bits(32)).is_within(&aligned));
    }

    #[test]
    fn ranges_of_usual_fields_are_exact() {
        let count = Fit {
            most: 0x7fff_ffff,
            ..Fit::count(32)
        };
        for (of, fit, first, last) in [
            (of(1, 0), count, 1, 0x7fff_ffff),
            (of(1, 0), Fit::bits(40), 0, (1 << 40) - 1),
            (of(64, 0), Fit::count(32), 1, (1 << 26) - 1),
            (of(1, 1u64.wrapping_neg()), Fit::bits(8), 1, 256),
            (of(3, 2), Fit::at_most(100), 0, 32),
            (of(3, 5u64.wrapping_neg()), Fit::count(8), 2, 86),
            (of(1, 0), Fit::at_most(9), 0, 9),
        ] {
            let record = record(of, fit);
            let range = record.range();
            assert!(range.has(first) && range.has(last), "{range:?}");
            for out in [first.wrapping_sub(1), last + 1] {
                assert!(!range.has(out), "{range:?} has {out}");
                assert!(record.check(out).is_err(), "{out}");
            }
        }
        let aligned = record(of(4, 0), Fit::aligned(32, 4)).range();
        assert!(aligned.has(8) && !aligned.has(9) && !aligned.has(2));
        assert!(aligned.has((1 << 30) - 4) && !aligned.has(1 << 30));
        for (of, fit) in [
            (of(0, 1), Fit::bits(8)),
            (of(1u64.wrapping_neg(), 100), Fit::bits(8)),
            (of(1, 1), Fit::aligned(32, 4)),
            (of(1, 300), Fit::bits(8)),
            (
                of(1, 0),
                Fit {
                    least: 10,
                    ..Fit::at_most(9)
                },
            ),
        ] {
            assert_eq!(record(of, fit).range(), Range::NONE);
        }
        assert!(!Range::NONE.has(0) && !Range::NONE.has(u64::MAX));
        assert!(record(of(0, 1), Fit::ANY).range().is_all());
        assert!(!record(of(1, 0), Fit::count(64)).range().is_all());
    }

    proptest! {
        #![proptest_config(cases(5000))]

        #[test]
        fn what_a_range_has_fits(
            scale in prop_oneof![Just(1u64), 0u64..70, any::<u64>()],
            add in prop_oneof![Just(0u64), 0u64..300, any::<u64>(), (0u64..300).prop_map(u64::wrapping_neg)],
            bits in 0u8..70,
            align_log2 in prop_oneof![3 => Just(0u8), 1 => 0u8..70],
            least: u8,
            most in prop_oneof![Just(u64::MAX), 0u64..300, any::<u64>()],
            signed: bool,
            base in prop_oneof![0u64..300, any::<u64>()],
            shift in 0u32..64,
            (other_scale, other_bits, other_align, other_least) in (1u64..9, 0u8..70, 0u8..8, 0u8..9),
        ) {
            let fit = Fit { bits, align_log2, least, most, signed };
            let record = record(of(scale, add), fit);
            let range = record.range();
            let other = Fit { least: other_least, ..Fit::aligned(other_bits, other_align) };
            let other = self::record(of(other_scale, 0), other).range();
            let first = range.least;
            let last = first.wrapping_add(range.count.wrapping_sub(1) << range.align);
            let near = [first, last].into_iter().flat_map(|x| [x, x.wrapping_sub(1), x.wrapping_add(1)]);
            for x in near.chain([base >> shift, base << shift]) {
                let fits = record.check(x).is_ok();
                prop_assert!(fits || !range.has(x) && !range.is_all(), "{x:#x}");
                let within = range.is_within(&other);
                prop_assert!(!within || !range.has(x) || other.has(x) || other.is_all(), "{x:#x}");
            }
        }
    }
}
