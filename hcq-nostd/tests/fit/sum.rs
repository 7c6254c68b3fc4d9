//! A sum of parts of values, known or not: what packs several operands into one word.
//!
//! The core has the derived variable for it, and nothing for parts that are known; this is what a driver wants to call.

use hcq_nostd::patch::{BuildError, Derived, PatchList, Term};
use hcq_nostd::value::{Field, Misfit, Value};

/// The bits of a value that count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// All of them, in a field that must hold them.
    Field(Field),
    /// Bits `from + bits - 1 : from`, moved to bit `shl`; the others are cut.
    Cut { from: u8, bits: u8, shl: u8 },
}

/// Whether the bytes of the sum are reversed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Swap {
    No,
    Bytes32,
    Bytes64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum SumError {
    Misfit { part: usize, misfit: Misfit },
    Build(BuildError),
}

/// `base` plus parts of up to three values: an immediate if all are, a derived variable otherwise.
pub(crate) fn sum(
    list: &mut PatchList<'_>,
    mut base: u64,
    parts: &[(Value, Part)],
    swap: Swap,
) -> Result<Value, SumError> {
    let mut terms = Vec::new();
    for (index, (value, part)) in parts.iter().enumerate() {
        match (*value, *part) {
            (Value::Imm(v), Part::Field(field)) => {
                base += field.place(v).map_err(|misfit| SumError::Misfit {
                    part: index,
                    misfit,
                })?;
            }
            (Value::Imm(v), Part::Cut { from, bits, shl }) => {
                base += (v >> from & ((1 << bits) - 1)) << shl
            }
            (Value::Var(of), Part::Field(field)) => terms.push(Term::new(of, field)),
            (Value::Var(of), Part::Cut { from, bits, shl }) => {
                terms.push(Term::part(of, from, bits, shl))
            }
        }
    }
    let Some(derived) = Derived::sum(base, &terms) else {
        return Ok(match swap {
            Swap::No => base.into(),
            Swap::Bytes32 => (base as u32).swap_bytes().into(),
            Swap::Bytes64 => base.swap_bytes().into(),
        });
    };
    let derived = match swap {
        Swap::No => derived,
        Swap::Bytes32 => derived.swapped32(),
        Swap::Bytes64 => derived.swapped64(),
    };
    list.derive(derived)
        .map(Value::from)
        .map_err(SumError::Build)
}
