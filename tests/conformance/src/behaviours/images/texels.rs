//! Texels as they lie in memory, and as kernels have them.

use hcq_std::{Grid, Image2d, TexelFormat as F};

use crate::Failure;
use crate::check::{byte, same};

/// How components are stored.
#[derive(Clone, Copy)]
pub(super) enum Stored {
    Unorm8,
    Snorm8,
    Unorm16,
    Snorm16,
    Half,
    Float,
}

/// Formats of floats and fractions.
pub(super) const FLOATS: [(F, Stored); 14] = [
    (F::R8Unorm, Stored::Unorm8),
    (F::R8Snorm, Stored::Snorm8),
    (F::Rg8Unorm, Stored::Unorm8),
    (F::Rgba8Unorm, Stored::Unorm8),
    (F::Rgba8Snorm, Stored::Snorm8),
    (F::R16Unorm, Stored::Unorm16),
    (F::R16Float, Stored::Half),
    (F::Rg16Float, Stored::Half),
    (F::Rgba16Unorm, Stored::Unorm16),
    (F::Rgba16Snorm, Stored::Snorm16),
    (F::Rgba16Float, Stored::Half),
    (F::R32Float, Stored::Float),
    (F::Rg32Float, Stored::Float),
    (F::Rgba32Float, Stored::Float),
];

impl Stored {
    /// The component with this number, below 256, as it lies in memory.
    pub(super) fn raw(self, n: u8) -> Vec<u8> {
        let signed = i16::from(n) - 127;
        match self {
            Self::Unorm8 => vec![n],
            Self::Snorm8 => vec![(signed.min(127) as i8).cast_unsigned()],
            Self::Unorm16 => (u16::from(n) << 8 | 7).to_le_bytes().into(),
            Self::Snorm16 => (signed.min(127) * 256).to_le_bytes().into(),
            Self::Half => half(n).to_le_bytes().into(),
            Self::Float => (f32::from(n) + 0.1).to_le_bytes().into(),
        }
    }

    /// What kernels have it as.
    pub(super) fn value(self, n: u8) -> f32 {
        let signed = i16::from(n) - 127;
        match self {
            Self::Unorm8 => f32::from(n) / 255.0,
            Self::Snorm8 => f32::from(signed.min(127)) / 127.0,
            Self::Unorm16 => f32::from(u16::from(n) << 8 | 7) / 65535.0,
            Self::Snorm16 => f32::from(signed.min(127) * 256) / 32767.0,
            Self::Half => f32::from(n),
            Self::Float => f32::from(n) + 0.1,
        }
    }
}

/// A whole number as a float of 16 bits.
pub(super) fn half(n: u8) -> u16 {
    match f32::from(n).to_bits() {
        0 => 0,
        bits => ((bits >> 13) - (112 << 10)) as u16,
    }
}

/// The number of a component of a texel in a pattern.
pub(super) fn number(image: &Image2d, seed: u64, x: u32, y: u32, c: u32) -> u8 {
    byte(seed, (4 * (y * image.width() + x) + c) as usize)
}

/// Puts a pattern's texels over bytes.
pub(super) fn paint(image: &Image2d, stored: Stored, seed: u64, to: &mut [u8]) {
    let components = image.format().components();
    for (x, y) in texels(image) {
        let raw = (0..components).flat_map(|c| stored.raw(number(image, seed, x, y, c)));
        let at = image.offset_of(x, y);
        for (to, from) in to[at..].iter_mut().zip(raw) {
            *to = from;
        }
    }
}

/// A pattern's texels as kernels have them, four floats each.
pub(super) fn colors(image: &Image2d, stored: Stored, seed: u64) -> Vec<f32> {
    let components = image.format().components();
    let lacking = [0.0, 0.0, 0.0, 1.0];
    let texel = |(x, y)| {
        (0..4).map(move |c| {
            if c < components {
                stored.value(number(image, seed, x, y, c))
            } else {
                lacking[c as usize]
            }
        })
    };
    texels(image).flat_map(texel).collect()
}

pub(super) fn texels(image: &Image2d) -> impl Iterator<Item = (u32, u32)> + use<> {
    let (width, height) = (image.width(), image.height());
    (0..height).flat_map(move |y| (0..width).map(move |x| (x, y)))
}

/// Items for an image, some of them outside.
pub(super) fn grid(width: u32, height: u32) -> Grid {
    Grid::new([width.div_ceil(8), height.div_ceil(4), 1], [8, 4, 1])
}

/// Fails unless floats are what is wanted, but for the last bits of a quotient.
#[track_caller]
pub(super) fn near(what: &str, seen: &[f32], wanted: &[f32]) -> Result<(), Failure> {
    same(&format!("{what}: floats"), seen.len(), wanted.len())?;
    let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-6 * b.abs().max(1.0);
    match seen.iter().zip(wanted).position(|pair| !close(pair)) {
        None => Ok(()),
        Some(at) => Err(Failure::new(format!(
            "{what}: [{at}] is {}, {} wanted",
            seen[at], wanted[at]
        ))),
    }
}
