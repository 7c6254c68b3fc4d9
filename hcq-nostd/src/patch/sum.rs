use super::build::{BuildError, PatchList};
use super::formula::{Derived, Term};
use crate::value::{Field, Misfit, Value};

/// The bits of a value that a sum takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Part {
    /// All of them, in a field that must hold them.
    Field(Field),
    /// Bits `from + bits - 1 : from`, moved to bit `shl`; the others are cut.
    Cut {
        /// The lowest bit taken.
        from: u8,
        /// How many.
        bits: u8,
        /// Where the lowest one goes.
        shl: u8,
    },
}

/// Whether a sum is stored with its bytes reversed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Swap {
    /// As it is.
    No,
    /// The bytes of its low 32 bits; it must not have more.
    Bytes32,
    /// All eight.
    Bytes64,
}

/// Why a sum is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum SumError {
    /// An immediate does not fit its field.
    Misfit {
        /// Which part; their number for the sum of all.
        part: usize,
        /// How it does not fit.
        misfit: Misfit,
    },
    /// The list cannot take it: more than three variables, or no memory to count in.
    Build(BuildError),
}

impl core::fmt::Display for SumError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Misfit { part, misfit } => write!(f, "part {part}: {misfit}"),
            Self::Build(e) => write!(f, "{e}"),
        }
    }
}

impl core::error::Error for SumError {}

impl Part {
    const fn place(self, value: u64) -> Result<u64, Misfit> {
        match self {
            Self::Field(field) => field.place(value),
            Self::Cut { from, bits, shl } => {
                let cut = Field::new(shl, bits).within(64);
                match value.checked_shr(from as u32) {
                    Some(v) => cut.place(v & cut.mask()),
                    None => Ok(0),
                }
            }
        }
    }
}

impl PatchList<'_> {
    /// `base` plus parts of values, of which up to three are variables: an immediate if none is, a derived variable
    /// otherwise. What packs several operands into one word, or computes a big-endian one.
    ///
    /// ```
    /// use hcq_nostd::patch::{Derived, Part, PatchList, Site, Swap};
    /// use hcq_nostd::value::{Field, Value};
    /// let (mut sites, mut derived) = ([Site::EMPTY; 2], [Derived::EMPTY; 1]);
    /// let mut list = PatchList::new(&mut sites, &mut derived);
    /// let (x, y) = (Part::Field(Field::new(2, 10)), Part::Field(Field::new(12, 10)));
    /// let known = list.sum(3, &[(31u64.into(), x), (3u64.into(), y)], Swap::No)?;
    /// assert_eq!(known.imm(), Some(0x307f));
    /// let local = list.var()?;
    /// let packed = list.sum(3, &[(Value::from(local) - 1, x), (3u64.into(), y)], Swap::No)?;
    /// assert_eq!(packed.imm(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`SumError`].
    pub fn sum(
        &mut self,
        base: u64,
        parts: &[(Value, Part)],
        swap: Swap,
    ) -> Result<Value, SumError> {
        let too_large = |value, bits| SumError::Misfit {
            part: parts.len(),
            misfit: Misfit::TooLarge { value, bits },
        };
        let (mut known, mut terms, mut n) = (base, [None; 3], 0usize);
        for (part, (value, bits)) in parts.iter().enumerate() {
            match (*value, *bits) {
                (Value::Imm(v), bits) => {
                    let placed = bits
                        .place(v)
                        .map_err(|misfit| SumError::Misfit { part, misfit })?;
                    known = known.checked_add(placed).ok_or(too_large(placed, 64))?;
                    continue;
                }
                (Value::Var(of), bits) => {
                    let slot = terms
                        .get_mut(n)
                        .ok_or(SumError::Build(BuildError::TooMany))?;
                    *slot = Some(match bits {
                        Part::Field(field) => Term::new(of, field),
                        Part::Cut { from, bits, shl } => Term::part(of, from, bits, shl),
                    });
                }
            }
            n += 1;
        }
        let derived = match terms {
            [Some(a), Some(b), Some(c)] => Derived::sum(known, &[a, b, c]),
            [Some(a), Some(b), None] => Derived::sum(known, &[a, b]),
            [Some(a), ..] => Derived::sum(known, &[a]),
            [None, ..] => None,
        };
        let Some(derived) = derived else {
            return Ok(Value::Imm(match swap {
                Swap::No => known,
                Swap::Bytes32 => u32::try_from(known)
                    .map_err(|_| too_large(known, 32))?
                    .swap_bytes()
                    .into(),
                Swap::Bytes64 => known.swap_bytes(),
            }));
        };
        let derived = match swap {
            Swap::No => derived,
            Swap::Bytes32 => derived.swapped32(),
            Swap::Bytes64 => derived.swapped64(),
        };
        self.derive(derived)
            .map(Value::from)
            .map_err(SumError::Build)
    }
}
