//! Values that are known now, or only at launch.
//!
//! A command operand is a [`Value`]: an immediate, or a variable with an affine adjustment. Where it lands is a field of a
//! word. Both together are the one formula that every site of every vendor is an instance of:
//!
//! ```text
//! swap?( base + ((((var * scale + add) >> shr) & mask) << shl) )
//! ```
//!
//! A field never cuts a value silently. [`Fit`] says how many bits the value may have and how it must be aligned; an
//! immediate is checked when it is recorded, a variable at each launch that changed it.

use core::ops::{Add, Mul, Sub};

/// A number known only at launch: an address, a size, a signal value, a scalar argument, a grid size.
///
/// Variables are handed out by [`PatchList::var`](crate::patch::PatchList::var) and are dense from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Var(pub(crate) u32);

impl Var {
    /// The variable with this index. Index 0 is the first one that a patch list hands out.
    pub const fn new(index: u32) -> Self {
        Self(index)
    }

    /// The index among the variables of its patch list.
    pub const fn index(self) -> u32 {
        self.0
    }
}

/// `var * scale + add`, modulo 2^64. A negative `add` is its two's complement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Affine {
    /// The variable.
    pub var: Var,
    /// Multiplied with the variable.
    pub scale: u64,
    /// Added to the product.
    pub add: u64,
}

impl Affine {
    /// The value for `x`, modulo 2^64.
    pub const fn eval(&self, x: u64) -> u64 {
        x.wrapping_mul(self.scale).wrapping_add(self.add)
    }
}

/// What every command operand accepts: an immediate, or a variable with an affine adjustment.
///
/// ```
/// use hcq_nostd::value::{Value, Var};
/// let head = Var::new(0);
/// let next = Value::from(head) + 1;
/// assert_eq!(next.eval(|_| 41), 42);
/// assert_eq!((Value::from(8u64) * 4).imm(), Some(32));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Value {
    /// Known while recording.
    Imm(u64),
    /// Known at launch.
    Var(Affine),
}

impl Value {
    /// The immediate, if it is one.
    #[inline]
    pub const fn imm(self) -> Option<u64> {
        match self {
            Self::Imm(v) => Some(v),
            Self::Var(_) => None,
        }
    }

    #[inline]
    const fn offset(self, n: u64) -> Self {
        match self {
            Self::Imm(v) => Self::Imm(v.wrapping_add(n)),
            Self::Var(a) => Self::Var(Affine {
                add: a.add.wrapping_add(n),
                ..a
            }),
        }
    }

    /// The number for the variable's value that `of` gives.
    #[inline]
    pub fn eval(self, of: impl FnOnce(Var) -> u64) -> u64 {
        match self {
            Self::Imm(v) => v,
            Self::Var(a) => a.eval(of(a.var)),
        }
    }
}

impl From<u64> for Value {
    #[inline]
    fn from(v: u64) -> Self {
        Self::Imm(v)
    }
}

impl From<u32> for Value {
    #[inline]
    fn from(v: u32) -> Self {
        Self::Imm(v.into())
    }
}

impl From<Var> for Value {
    #[inline]
    fn from(var: Var) -> Self {
        Self::Var(Affine {
            var,
            scale: 1,
            add: 0,
        })
    }
}

/// Arithmetic is modulo 2^64, as in the field that the result is stored to.
impl Add<u64> for Value {
    type Output = Self;
    #[inline]
    fn add(self, n: u64) -> Self {
        self.offset(n)
    }
}

impl Sub<u64> for Value {
    type Output = Self;
    #[inline]
    fn sub(self, n: u64) -> Self {
        self.offset(n.wrapping_neg())
    }
}

impl Mul<u64> for Value {
    type Output = Self;
    #[inline]
    fn mul(self, n: u64) -> Self {
        match self {
            Self::Imm(v) => Self::Imm(v.wrapping_mul(n)),
            Self::Var(a) => Self::Var(Affine {
                var: a.var,
                scale: a.scale.wrapping_mul(n),
                add: a.add.wrapping_mul(n),
            }),
        }
    }
}

/// What a value must satisfy before it goes into a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Fit {
    /// The value must be below `2^bits`. 64 or more means no limit.
    pub bits: u8,
    /// The value must be a multiple of `2^align_log2`.
    pub align_log2: u8,
    /// The value must be at least this.
    pub least: u8,
    /// The value must be at most this.
    pub most: u64,
    /// Two's complements of negative numbers of `bits` bits fit too.
    pub signed: bool,
}

/// A value that does not fit its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Misfit {
    /// Below `2^bits` was needed.
    TooLarge {
        /// The value, its low 64 bits.
        value: u64,
        /// Bits of the field.
        bits: u8,
    },
    /// A multiple of `2^align_log2` was needed.
    Misaligned {
        /// The value.
        value: u64,
        /// Logarithm of the alignment.
        align_log2: u8,
    },
    /// At most `most` was needed.
    AboveLimit {
        /// The value.
        value: u64,
        /// The most there may be.
        most: u64,
    },
    /// At least `least` was needed.
    TooSmall {
        /// The value.
        value: u64,
        /// The least there may be.
        least: u8,
    },
}

impl core::fmt::Display for Misfit {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::TooLarge { value, bits } => write!(f, "{value:#x} does not fit {bits} bits"),
            Self::Misaligned { value, align_log2 } => {
                write!(f, "{value:#x} is not a multiple of 2^{align_log2}")
            }
            Self::AboveLimit { value, most } => write!(f, "{value} is more than {most}"),
            Self::TooSmall { value, least } => write!(f, "{value} is less than {least}"),
        }
    }
}

impl core::error::Error for Misfit {}

impl Fit {
    /// Anything goes.
    pub const ANY: Self = Self {
        bits: 64,
        align_log2: 0,
        least: 0,
        most: u64::MAX,
        signed: false,
    };

    /// Below `2^bits`.
    pub const fn bits(bits: u8) -> Self {
        Self { bits, ..Self::ANY }
    }

    /// Below `2^bits` and a multiple of `2^align_log2`.
    pub const fn aligned(bits: u8, align_log2: u8) -> Self {
        Self {
            bits,
            align_log2,
            ..Self::ANY
        }
    }

    /// From 1 up to below `2^bits`: a count that may not be zero.
    pub const fn count(bits: u8) -> Self {
        Self {
            bits,
            least: 1,
            ..Self::ANY
        }
    }

    /// From 0 to `most`: a limit that is no power of two.
    pub const fn at_most(most: u64) -> Self {
        Self { most, ..Self::ANY }
    }

    /// A number of `bits` bits, signed or not: from `-2^(bits - 1)`, as its two's complement, up to below `2^bits`.
    pub const fn signed(bits: u8) -> Self {
        Self {
            bits,
            signed: true,
            ..Self::ANY
        }
    }

    /// Checks one value.
    #[inline]
    pub const fn check(self, value: u64) -> Result<(), Misfit> {
        if self.bits < 64 && value >> self.bits != 0 && !self.takes_negative(value) {
            return Err(Misfit::TooLarge {
                value,
                bits: self.bits,
            });
        }
        self.check_rest(value)
    }

    /// Checks all but the number of bits.
    #[inline]
    const fn check_rest(self, value: u64) -> Result<(), Misfit> {
        if value & low_mask(self.align_log2) != 0 {
            return Err(Misfit::Misaligned {
                value,
                align_log2: self.align_log2,
            });
        }
        if value < self.least as u64 {
            return Err(Misfit::TooSmall {
                value,
                least: self.least,
            });
        }
        if value > self.most {
            return Err(Misfit::AboveLimit {
                value,
                most: self.most,
            });
        }
        Ok(())
    }

    /// Whether `value` is the two's complement of a negative number that fits.
    const fn takes_negative(self, value: u64) -> bool {
        self.signed && self.bits > 0 && value >= u64::MAX << (self.bits - 1)
    }

    /// Checks `x * scale + add` without wrapping: a sum that leaves 64 bits does not come back in as a small number.
    /// With 64 bits allowed and no limit, wrapping is the arithmetic asked for. Where negative numbers fit, `x` may itself
    /// be the two's complement of one.
    #[inline]
    pub(crate) fn check_affine(self, x: u64, scale: u64, add: u64) -> Result<(), Misfit> {
        if scale == 1 && add == 0 {
            return self.check(x);
        }
        self.check_adjusted(x, scale, add)
    }

    fn check_adjusted(self, x: u64, scale: u64, add: u64) -> Result<(), Misfit> {
        let value = x.wrapping_mul(scale).wrapping_add(add);
        if self.bits < 64 || self.most != u64::MAX {
            // `add` and `scale` may be two's complements of small negative numbers.
            let fits = |x: i128| {
                x.checked_mul(i128::from(scale.cast_signed()))
                    .and_then(|p| p.checked_add(i128::from(add.cast_signed())))
                    .is_some_and(|exact| self.takes(exact))
            };
            let negative = || self.signed && fits(i128::from(x.cast_signed()));
            let fits = fits(i128::from(x)) || negative();
            if !fits {
                return Err(Misfit::TooLarge {
                    value,
                    bits: self.bits,
                });
            }
        }
        self.check_rest(value)
    }

    /// Whether a number has few enough bits.
    fn takes(self, exact: i128) -> bool {
        let bits = self.bits.min(64);
        if exact < 0 {
            self.signed && bits > 0 && exact >= -(1 << (bits - 1))
        } else {
            exact < 1 << bits
        }
    }
}

/// A bit-field of a word: `bits` wide at bit `shift`, counting units of `2^unit_log2`.
///
/// ```
/// use hcq_nostd::value::Field;
/// // An address in 256-byte units, in bits 31:0.
/// const PGM_LO: Field = Field::new(0, 32).unit(8);
/// assert!(PGM_LO.place(0x1_0000).is_ok());
/// assert!(PGM_LO.place(0x1_0001).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Field {
    /// Lowest bit in the word.
    pub shift: u8,
    /// Width in bits.
    pub bits: u8,
    /// Logarithm of the unit that the field counts.
    pub unit_log2: u8,
}

impl Field {
    /// Bits `shift + bits - 1 : shift`, counting ones.
    pub const fn new(shift: u8, bits: u8) -> Self {
        Self {
            shift,
            bits,
            unit_log2: 0,
        }
    }

    /// The same field counting units of `2^unit_log2`.
    pub const fn unit(self, unit_log2: u8) -> Self {
        Self { unit_log2, ..self }
    }

    /// What a value must satisfy to go in.
    pub const fn fit(self) -> Fit {
        Fit {
            bits: self.bits.saturating_add(self.unit_log2),
            align_log2: self.unit_log2,
            ..Fit::ANY
        }
    }

    /// The mask of the unshifted field.
    pub const fn mask(self) -> u64 {
        low_mask(self.bits)
    }

    /// The field's bits for an immediate, in place.
    ///
    /// # Errors
    /// [`Misfit`]; bits that would leave a 64-bit word count as too large, too.
    pub const fn place(self, value: u64) -> Result<u64, Misfit> {
        if let Err(e) = self.fit().check(value) {
            return Err(e);
        }
        // A unit of 2^64 or more only takes zero, which the fit has seen to.
        let units = match value.checked_shr(self.unit_log2 as u32) {
            Some(units) => units,
            None => 0,
        };
        match units.checked_shl(self.shift as u32) {
            Some(placed) if placed >> self.shift == units => Ok(placed),
            None if units == 0 => Ok(0),
            _ => Err(Misfit::TooLarge {
                value,
                bits: self.bits,
            }),
        }
    }

    /// The same field, no wider than what is left of a word of `word` bits.
    pub(crate) const fn within(self, word: u8) -> Self {
        let left = word.saturating_sub(self.shift);
        if self.bits > left {
            Self { bits: left, ..self }
        } else {
            self
        }
    }
}

/// `bits` ones.
pub(crate) const fn low_mask(bits: u8) -> u64 {
    if bits >= 64 {
        u64::MAX
    } else {
        (1u64 << bits) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn affine_arithmetic_matches_integers() {
        let v = Value::from(Var::new(0));
        for (x, want) in [(0, 1), (7, 15)] {
            assert_eq!((v * 2 + 1).eval(|_| x), want);
            assert_eq!(((v + 3) * 2 - 5).eval(|_| x), want);
        }
        assert_eq!((v - 1).eval(|_| 0), u64::MAX);
    }

    #[test]
    fn fit_refuses_the_first_value_outside() {
        let f = Fit::aligned(16, 4);
        assert_eq!(f.check(0xfff0), Ok(()));
        assert_eq!(
            f.check(0x1_0000),
            Err(Misfit::TooLarge {
                value: 0x1_0000,
                bits: 16
            })
        );
        assert_eq!(
            f.check(0x18),
            Err(Misfit::Misaligned {
                value: 0x18,
                align_log2: 4
            })
        );
        assert_eq!(Fit::ANY.check(u64::MAX), Ok(()));
        assert_eq!(
            Fit::count(4).check(0),
            Err(Misfit::TooSmall { value: 0, least: 1 })
        );
        assert_eq!(Fit::count(4).check(1), Ok(()));
    }

    #[test]
    fn affine_check_does_not_wrap_into_range() {
        let f = Fit::bits(16);
        // 2^63 * 2 wraps to 0, which would look fine.
        assert!(f.check_affine(1 << 63, 2, 0).is_err());
        assert!(f.check_affine(0, 1, 1u64.wrapping_neg()).is_err());
        assert_eq!(f.check_affine(1, 1, 1u64.wrapping_neg()), Ok(()));
        assert_eq!(f.check_affine(0xfffe, 1, 1), Ok(()));
        assert!(f.check_affine(0xffff, 1, 1).is_err());
        // Whole 64-bit stores wrap by intent.
        assert_eq!(Fit::ANY.check_affine(0, 1, u64::MAX), Ok(()));
        // A limit is one, whatever the width.
        assert!(Fit::at_most(0x600).check_affine(1 << 63, 2, 0).is_err());
        assert!(
            Fit::at_most(0x600)
                .check_affine(5, 1, 6u64.wrapping_neg())
                .is_err()
        );
        assert_eq!(Fit::at_most(0x600).check_affine(0x300, 2, 0), Ok(()));
        assert!(Fit::at_most(0x600).check_affine(0x301, 2, 0).is_err());
    }

    #[test]
    fn limits_need_not_be_powers_of_two() {
        let f = Fit::at_most(0x600);
        assert_eq!(f.check(0x600), Ok(()));
        let above = Misfit::AboveLimit {
            value: 0x601,
            most: 0x600,
        };
        assert_eq!(f.check(0x601), Err(above));
    }

    #[test]
    fn signed_numbers_fit_as_their_twos_complement() {
        let f = Fit::signed(8);
        for v in [0, 0xff, -1i64 as u64, -128i64 as u64] {
            assert_eq!(f.check(v), Ok(()), "{v:#x}");
        }
        for v in [0x100, -129i64 as u64, 1 << 63] {
            assert!(f.check(v).is_err(), "{v:#x}");
        }
        // n - 3 with n = 1.
        let minus_three = 3u64.wrapping_neg();
        assert_eq!(f.check_affine(1, 1, minus_three), Ok(()));
        assert!(Fit::bits(8).check_affine(1, 1, minus_three).is_err());
        // -1 + 1, and -1 + 256.
        assert_eq!(f.check_affine(u64::MAX, 1, 1), Ok(()));
        assert_eq!(f.check_affine(u64::MAX, 1, 0x100), Ok(()));
        // What wraps does not become a small negative number.
        assert!(f.check_affine(u64::MAX >> 1, 2, 0).is_err());
    }

    #[test]
    fn field_places_units() {
        let f = Field::new(8, 4).unit(2);
        assert_eq!(f.place(0x3c), Ok(0xf00));
        assert!(f.place(0x40).is_err());
        assert!(f.place(2).is_err());
        assert_eq!(Field::new(0, 64).place(u64::MAX), Ok(u64::MAX));
    }

    #[test]
    fn no_geometry_of_a_field_panics_or_cuts() {
        for shift in 0..=u8::MAX {
            for bits in [0, 1, 8, 32, 63, 64, 65, 255] {
                for unit in [0, 1, 8, 63, 64, 65, 255] {
                    let f = Field::new(shift, bits).unit(unit);
                    for value in [0, 1, 0x100, 1 << 63, u64::MAX] {
                        let Ok(placed) = f.place(value) else { continue };
                        let exact = u128::from(value).checked_shr(unit.into()).unwrap_or(0);
                        let exact = if exact == 0 { 0 } else { exact << shift };
                        assert_eq!(u128::from(placed), exact, "{f:?} {value:#x}");
                    }
                }
            }
        }
        assert!(Field::new(60, 8).place(0xff).is_err());
        assert!(Fit::aligned(64, 64).check(1).is_err());
        assert_eq!(Fit::aligned(64, 200).check(0), Ok(()));
    }
}
