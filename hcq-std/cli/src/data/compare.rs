//! Outputs held against expected values.

use std::cmp::Ordering;

use super::dtype::Dtype;

/// How far a value may be off: `|got - want| <= atol + rtol * |want|`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Relative to the expected value.
    pub rtol: f64,
    /// Absolute.
    pub atol: f64,
}

/// The result of comparing two arrays.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Comparison {
    /// Elements compared.
    pub elements: u64,
    /// Elements outside the tolerance.
    pub mismatches: u64,
    /// Largest absolute error.
    pub max_abs: f64,
    /// Largest relative error among elements whose expected value is not zero.
    pub max_rel: f64,
    /// Index, value and expected value of the first mismatch.
    pub first: Option<(u64, String, String)>,
}

impl Comparison {
    /// Adds the result for the elements that follow.
    pub fn extend(&mut self, next: Self) {
        if let Some((index, value, expected)) = next.first {
            let index = self.elements + index;
            self.first.get_or_insert((index, value, expected));
        }
        self.elements += next.elements;
        self.mismatches += next.mismatches;
        self.max_abs = self.max_abs.max(next.max_abs);
        self.max_rel = self.max_rel.max(next.max_rel);
    }
}

/// Compares arrays of `dtype` given as little-endian bytes, element by element. Not-a-number equals itself. Bytes
/// that one side lacks count as mismatches.
pub fn compare(dtype: Dtype, got: &[u8], want: &[u8], tolerance: Tolerance) -> Comparison {
    let mut out = Comparison::default();
    let size = dtype.size() as usize;
    for (g, w) in got.chunks_exact(size).zip(want.chunks_exact(size)) {
        let index = out.elements;
        out.elements += 1;
        if g == w {
            continue;
        }
        let (equal, abs, scale) = if dtype.is_float() {
            let (a, b) = (float(dtype, g), float(dtype, w));
            (a == b || (a.is_nan() && b.is_nan()), (a - b).abs(), b.abs())
        } else {
            let (a, b) = (int(dtype, g), int(dtype, w));
            (a == b, a.abs_diff(b) as f64, b.unsigned_abs() as f64)
        };
        if equal {
            continue;
        }
        // One not-a-number, or one infinity, is as wrong as can be.
        let abs = if abs.is_nan() { f64::INFINITY } else { abs };
        out.max_abs = out.max_abs.max(abs);
        if scale > 0.0 && !scale.is_nan() {
            let rel = abs / scale;
            out.max_rel = out
                .max_rel
                .max(if rel.is_nan() { f64::INFINITY } else { rel });
        }
        let allowed = if scale.is_finite() {
            tolerance.atol + tolerance.rtol * scale
        } else {
            0.0
        };
        if abs.partial_cmp(&allowed) != Some(Ordering::Less) && abs != allowed {
            out.mismatches += 1;
            out.first
                .get_or_insert_with(|| (index, text(dtype, g), text(dtype, w)));
        }
    }
    let longer = got.len().max(want.len()) / size;
    let missing = longer as u64 - out.elements;
    out.mismatches += missing;
    out
}

fn float(dtype: Dtype, bytes: &[u8]) -> f64 {
    match dtype {
        Dtype::F32 => f64::from(f32::from_bits(bits(bytes) as u32)),
        _ => f64::from_bits(bits(bytes)),
    }
}

fn int(dtype: Dtype, bytes: &[u8]) -> i128 {
    let raw = i128::from(bits(bytes));
    match dtype.int_range() {
        Some((_, high)) if raw > high => raw - (1i128 << (8 * dtype.size())),
        _ => raw,
    }
}

fn bits(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |n, &b| (n << 8) | u64::from(b))
}

fn text(dtype: Dtype, bytes: &[u8]) -> String {
    match dtype {
        Dtype::F32 => f32::from_bits(bits(bytes) as u32).to_string(),
        Dtype::F64 => f64::from_bits(bits(bytes)).to_string(),
        _ => int(dtype, bytes).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Tolerance = Tolerance {
        rtol: 0.0,
        atol: 0.0,
    };

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn tolerance_is_numpy_s() {
        let got = f32s(&[1.0, 100.5, -3.0]);
        let want = f32s(&[1.0, 100.0, -3.25]);
        let c = compare(Dtype::F32, &got, &want, EXACT);
        assert_eq!((c.elements, c.mismatches), (3, 2));
        assert_eq!(c.first, Some((1, "100.5".into(), "100".into())));
        assert_eq!(c.max_abs, 0.5);
        assert!((c.max_rel - 0.25 / 3.25).abs() < 1e-12);
        assert_eq!(
            compare(
                Dtype::F32,
                &got,
                &want,
                Tolerance {
                    rtol: 0.0,
                    atol: 0.5
                }
            )
            .mismatches,
            0
        );
        assert_eq!(
            compare(
                Dtype::F32,
                &got,
                &want,
                Tolerance {
                    rtol: 0.01,
                    atol: 0.0
                }
            )
            .mismatches,
            1
        );
    }

    #[test]
    fn odd_floats() {
        let nan = f32::NAN;
        let inf = f32::INFINITY;
        let loose = Tolerance {
            rtol: 1.0,
            atol: 1e30,
        };
        for (a, b, same) in [
            (nan, f32::from_bits(0x7fc0_0001), true),
            (nan, 1.0, false),
            (1.0, nan, false),
            (inf, inf, true),
            (inf, -inf, false),
            (1.0, inf, false),
            (inf, 1.0, false),
            (0.0, -0.0, true),
        ] {
            let c = compare(Dtype::F32, &f32s(&[a]), &f32s(&[b]), loose);
            assert_eq!(c.mismatches == 0, same, "{a} {b} {c:?}");
        }
    }

    #[test]
    fn integers_are_exact() {
        let c = compare(
            Dtype::U64,
            &u64::MAX.to_le_bytes(),
            &(u64::MAX - 1).to_le_bytes(),
            EXACT,
        );
        assert_eq!((c.mismatches, c.max_abs), (1, 1.0));
        let c = compare(Dtype::I8, &[0xff], &[0x01], EXACT);
        assert_eq!(c.first, Some((0, "-1".into(), "1".into())));
        assert_eq!(
            compare(
                Dtype::I64,
                &(-5i64).to_le_bytes(),
                &(-6i64).to_le_bytes(),
                Tolerance {
                    rtol: 0.0,
                    atol: 1.0
                }
            )
            .mismatches,
            0
        );
    }

    #[test]
    fn pieces_add_up() {
        let got = f32s(&[1.0, 2.0, 3.5, 4.0, 5.0, 0.0]);
        let want = f32s(&[1.0, 2.0, 3.0, 4.25, 5.0, 1.0]);
        let mut sum = Comparison::default();
        for (g, w) in got.chunks(8).zip(want.chunks(8)) {
            sum.extend(compare(Dtype::F32, g, w, EXACT));
        }
        assert_eq!(sum, compare(Dtype::F32, &got, &want, EXACT));
        assert_eq!(sum.first, Some((2, "3.5".into(), "3".into())));
    }

    #[test]
    fn a_missing_tail_is_a_mismatch() {
        assert_eq!(
            compare(Dtype::F32, &f32s(&[1.0]), &f32s(&[1.0, 2.0]), EXACT).mismatches,
            1
        );
    }
}
