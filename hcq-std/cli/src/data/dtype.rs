//! Element types of buffers and scalars.

use std::fmt;

/// A number type that buffers hold and kernels take. Little-endian in memory and in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// IEEE single.
    F32,
    /// IEEE double.
    F64,
}

impl Dtype {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F32,
        Self::F64,
    ];

    /// Its name in a job file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Bytes of one element.
    pub const fn size(self) -> u64 {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// Whether it is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    /// Smallest and largest whole number that it holds exactly as its own kind; `None` for floats.
    pub const fn int_range(self) -> Option<(i128, i128)> {
        match self {
            Self::I8 => Some((i8::MIN as i128, i8::MAX as i128)),
            Self::I16 => Some((i16::MIN as i128, i16::MAX as i128)),
            Self::I32 => Some((i32::MIN as i128, i32::MAX as i128)),
            Self::I64 => Some((i64::MIN as i128, i64::MAX as i128)),
            Self::U8 => Some((0, u8::MAX as i128)),
            Self::U16 => Some((0, u16::MAX as i128)),
            Self::U32 => Some((0, u32::MAX as i128)),
            Self::U64 => Some((0, u64::MAX as i128)),
            Self::F32 | Self::F64 => None,
        }
    }

    /// Its numpy type string.
    pub const fn numpy(self) -> &'static str {
        match self {
            Self::I8 => "|i1",
            Self::I16 => "<i2",
            Self::I32 => "<i4",
            Self::I64 => "<i8",
            Self::U8 => "|u1",
            Self::U16 => "<u2",
            Self::U32 => "<u4",
            Self::U64 => "<u8",
            Self::F32 => "<f4",
            Self::F64 => "<f8",
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A number as a job file writes it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Number {
    /// Written without a point.
    Int(i128),
    /// Written with a point, an exponent, or as `inf` / `nan`.
    Float(f64),
}

/// A number of a certain type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scalar {
    /// Its type.
    pub dtype: Dtype,
    /// Its bits, in the low bytes.
    pub bits: u64,
}

impl Scalar {
    /// `number` as a `dtype`; the error says why it does not fit.
    pub fn new(dtype: Dtype, number: Number) -> Result<Self, String> {
        let bits = match (dtype, number) {
            (Dtype::F32, Number::Int(v)) => u64::from((v as f32).to_bits()),
            (Dtype::F32, Number::Float(v)) => {
                let narrow = v as f32;
                if narrow.is_infinite() && v.is_finite() {
                    return Err(format!("{v} is too large for f32"));
                }
                u64::from(narrow.to_bits())
            }
            (Dtype::F64, Number::Int(v)) => (v as f64).to_bits(),
            (Dtype::F64, Number::Float(v)) => v.to_bits(),
            (_, Number::Float(v)) => {
                return Err(format!("{v} is not a whole number, as {dtype} needs"));
            }
            (_, Number::Int(v)) => {
                let (low, high) = dtype.int_range().unwrap_or((0, 0));
                if v < low || v > high {
                    return Err(format!("{v} does not fit {dtype} ({low} to {high})"));
                }
                // Two's complement, in as many bytes as the type has.
                (v as u64) & (u64::MAX >> (64 - 8 * dtype.size()))
            }
        };
        Ok(Self { dtype, bits })
    }

    /// The bytes of the value, little-endian.
    pub fn bytes(self) -> ([u8; 8], usize) {
        (self.bits.to_le_bytes(), self.dtype.size() as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_kept() {
        for dtype in Dtype::ALL {
            assert_eq!(Dtype::from_name(dtype.name()), Some(dtype));
            let Some((low, high)) = dtype.int_range() else {
                continue;
            };
            for (v, fits) in [
                (low, true),
                (high, true),
                (low - 1, false),
                (high + 1, false),
            ] {
                assert_eq!(
                    Scalar::new(dtype, Number::Int(v)).is_ok(),
                    fits,
                    "{dtype} {v}"
                );
            }
            assert!(Scalar::new(dtype, Number::Float(1.0)).is_err());
        }
    }

    #[test]
    fn floats_keep_their_bits() {
        assert_eq!(
            Scalar::new(Dtype::F32, Number::Float(2.5)).unwrap().bits,
            u64::from(2.5f32.to_bits())
        );
        assert_eq!(
            Scalar::new(Dtype::F64, Number::Int(-3)).unwrap().bits,
            (-3.0f64).to_bits()
        );
        assert!(Scalar::new(Dtype::F32, Number::Float(1e300)).is_err());
        assert!(Scalar::new(Dtype::F32, Number::Float(f64::INFINITY)).is_ok());
    }

    #[test]
    fn negative_numbers_are_twos_complement() {
        let s = Scalar::new(Dtype::I16, Number::Int(-2)).unwrap();
        let (bytes, n) = s.bytes();
        assert_eq!(&bytes[..n], &(-2i16).to_le_bytes());
    }
}
