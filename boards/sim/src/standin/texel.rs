//! Texels of Adreno's textures and storage images, and the programs that move them.
//!
//! Descriptors are those of Mesa's `a6xx.xml` (`A6XX_TEX_CONST_*`, `a6xx_format`): linear images of two dimensions, whose texels
//! are what the program's instruction says, floats and fractions or whole numbers. What they do not have reads as 0, and 1 for the
//! last component; outside of an image there are zeros, and what is stored there is lost. Samplers have other ideas of that:
//! see [`sampler`](super::sampler).

use super::Group;
use super::sampler::Sampler;
use crate::engine::Cause;

/// How a component is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Unorm,
    Snorm,
    Float,
    Uint,
    Sint,
}

/// What a program has components as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbers {
    /// 32-bit floats.
    Floats,
    /// Whole numbers of 32 bits without a sign.
    Unsigned,
}

impl Numbers {
    fn are(self, kind: Kind) -> bool {
        match self {
            Self::Floats => matches!(kind, Kind::Unorm | Kind::Snorm | Kind::Float),
            Self::Unsigned => kind == Kind::Uint,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Floats => "floats",
            Self::Unsigned => "unsigned numbers",
        }
    }
}

/// A component of 1.0, as registers have it.
const ONE: u32 = 1.0f32.to_bits();

/// A linear image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Image {
    base: u64,
    pub(super) width: u32,
    pub(super) height: u32,
    /// Bytes of a row.
    pitch: u32,
    components: usize,
    /// Bytes of a component.
    pub(super) bytes: usize,
    pub(super) kind: Kind,
    /// `a6xx_tex_swiz` of each component.
    swizzle: [u32; 4],
}

const fn bits(value: u32, high: u32, low: u32) -> u32 {
    (value >> low) & (u32::MAX >> (31 - (high - low)))
}

/// Components, bytes of one, and kind of an `a6xx_format`.
fn format(number: u32) -> Option<(usize, usize, Kind)> {
    Some(match number {
        0x03 => (1, 1, Kind::Unorm),
        0x04 => (1, 1, Kind::Snorm),
        0x05 => (1, 1, Kind::Uint),
        0x06 => (1, 1, Kind::Sint),
        0x0F => (2, 1, Kind::Unorm),
        0x10 => (2, 1, Kind::Snorm),
        0x11 => (2, 1, Kind::Uint),
        0x12 => (2, 1, Kind::Sint),
        0x15 => (1, 2, Kind::Unorm),
        0x16 => (1, 2, Kind::Snorm),
        0x17 => (1, 2, Kind::Float),
        0x18 => (1, 2, Kind::Uint),
        0x19 => (1, 2, Kind::Sint),
        0x30 => (4, 1, Kind::Unorm),
        0x32 => (4, 1, Kind::Snorm),
        0x33 => (4, 1, Kind::Uint),
        0x34 => (4, 1, Kind::Sint),
        0x43 => (2, 2, Kind::Unorm),
        0x44 => (2, 2, Kind::Snorm),
        0x45 => (2, 2, Kind::Float),
        0x46 => (2, 2, Kind::Uint),
        0x47 => (2, 2, Kind::Sint),
        0x4A => (1, 4, Kind::Float),
        0x4B => (1, 4, Kind::Uint),
        0x4C => (1, 4, Kind::Sint),
        0x60 => (4, 2, Kind::Unorm),
        0x61 => (4, 2, Kind::Snorm),
        0x62 => (4, 2, Kind::Float),
        0x63 => (4, 2, Kind::Uint),
        0x64 => (4, 2, Kind::Sint),
        0x67 => (2, 4, Kind::Float),
        0x68 => (2, 4, Kind::Uint),
        0x69 => (2, 4, Kind::Sint),
        0x82 => (4, 4, Kind::Float),
        0x83 => (4, 4, Kind::Uint),
        0x84 => (4, 4, Kind::Sint),
        _ => return None,
    })
}

impl Image {
    fn read(what: &str, descriptor: &[u32; 16], numbers: Numbers) -> Result<Self, Cause> {
        let [first, size, layout, _, low, high, ..] = *descriptor;
        let refuse = |text: String| Err(Cause::Program(format!("{what}: {text}")));
        let number = bits(first, 29, 22);
        let format = format(number).filter(|&(_, _, kind)| numbers.are(kind));
        let Some((components, bytes, kind)) = format else {
            return refuse(format!(
                "format {number:#x} is none that the program's {} can be",
                numbers.name()
            ));
        };
        let plain = [
            ("TILE_MODE", bits(first, 1, 0)),
            ("SRGB", bits(first, 2, 2)),
            ("MIPLVLS", bits(first, 19, 16)),
            ("SAMPLES", bits(first, 21, 20)),
            ("SWAP", bits(first, 31, 30)),
        ];
        if let Some((name, value)) = plain.into_iter().find(|&(_, value)| value != 0) {
            return refuse(format!("{name} is {value}, which is not simulated"));
        }
        // A6XX_TEX_2D
        if bits(layout, 31, 29) != 1 {
            return refuse(format!("TYPE is {}, not 2D", bits(layout, 31, 29)));
        }
        let image = Self {
            base: u64::from(low & !31) | u64::from(bits(high, 16, 0)) << 32,
            width: bits(size, 14, 0),
            height: bits(size, 29, 15),
            pitch: bits(layout, 28, 7),
            components,
            bytes,
            kind,
            swizzle: [4, 7, 10, 13].map(|at| bits(first, at + 2, at)),
        };
        if u64::from(image.pitch) < u64::from(image.width) * image.texel() as u64 {
            return refuse(format!(
                "PITCH is {} bytes for {} texels of {}",
                image.pitch,
                image.width,
                image.texel()
            ));
        }
        Ok(image)
    }

    /// Bytes of a texel.
    fn texel(&self) -> usize {
        self.components * self.bytes
    }

    /// Where a texel is; `None` outside of the image.
    fn at(&self, x: u32, y: u32) -> Option<u64> {
        let row = u64::from(y) * u64::from(self.pitch);
        let inside = x < self.width && y < self.height;
        let offset = row + u64::from(x) * self.texel() as u64;
        inside.then(|| self.base.wrapping_add(offset))
    }

    /// A component as registers have it.
    pub(super) fn decode(&self, raw: &[u8]) -> u32 {
        let mut bytes = [0; 4];
        for (to, from) in bytes.iter_mut().zip(raw) {
            *to = *from;
        }
        let value = u32::from_le_bytes(bytes);
        let signed = |most: f32, value: i32| (value as f32 / most).max(-1.0);
        let with_sign = |value: u32| match self.bytes {
            1 => i32::from(value as u8 as i8),
            2 => i32::from(value as u16 as i16),
            _ => value.cast_signed(),
        };
        let float = match (self.kind, self.bytes) {
            (Kind::Unorm, 1) => value as f32 / 255.0,
            (Kind::Unorm, _) => value as f32 / 65535.0,
            (Kind::Snorm, 1) => signed(127.0, with_sign(value)),
            (Kind::Snorm, _) => signed(32767.0, with_sign(value)),
            (Kind::Float, 2) => from_half(value as u16),
            (Kind::Float | Kind::Uint, _) => return value,
            (Kind::Sint, _) => return with_sign(value).cast_unsigned(),
        };
        float.to_bits()
    }

    /// The component's bytes, the lowest first. Of whole numbers that are too large the upper bits are lost.
    fn encode(&self, word: u32) -> [u8; 4] {
        let value = f32::from_bits(word);
        let fraction = |least: f32, most: f32| {
            // Not a number is 0.
            let value = if value.is_nan() { 0.0 } else { value };
            (value.clamp(least, 1.0) * most).round_ties_even()
        };
        let word = match (self.kind, self.bytes) {
            (Kind::Unorm, 1) => fraction(0.0, 255.0) as u32,
            (Kind::Unorm, _) => fraction(0.0, 65535.0) as u32,
            (Kind::Snorm, 1) => (fraction(-1.0, 127.0) as i32).cast_unsigned(),
            (Kind::Snorm, _) => (fraction(-1.0, 32767.0) as i32).cast_unsigned(),
            (Kind::Float, 2) => to_half(value).into(),
            (Kind::Float | Kind::Uint | Kind::Sint, _) => word,
        };
        word.to_le_bytes()
    }

    /// What stands for 1 in the program's registers.
    const fn one(&self) -> u32 {
        match self.kind {
            Kind::Uint | Kind::Sint => 1,
            Kind::Unorm | Kind::Snorm | Kind::Float => ONE,
        }
    }

    /// A texel of these components, of which the format has the first ones.
    pub(super) fn completed(&self, components: impl IntoIterator<Item = u32>) -> [u32; 4] {
        let mut texel = [0, 0, 0, self.one()];
        let components = components.into_iter().take(self.components);
        for (to, from) in texel.iter_mut().zip(components) {
            *to = from;
        }
        texel
    }

    /// Its components in the order that the descriptor wants.
    pub(super) fn swizzled(&self, texel: [u32; 4]) -> [u32; 4] {
        self.swizzle.map(|from| match from {
            0..=3 => texel.get(from as usize).copied().unwrap_or_default(),
            5 => self.one(),
            _ => 0,
        })
    }

    /// A texel of the image; `None` outside.
    pub(super) fn texel_at(
        &self,
        group: &mut Group<'_>,
        x: u32,
        y: u32,
    ) -> Result<Option<[u32; 4]>, Cause> {
        let Some(at) = self.at(x, y) else {
            return Ok(None);
        };
        let mut raw = [0; 16];
        let raw = raw.get_mut(..self.texel()).unwrap_or_default();
        group.memory.load(at, raw)?;
        let components = raw.chunks(self.bytes).map(|raw| self.decode(raw));
        Ok(Some(self.completed(components)))
    }

    /// What `isam` reads.
    fn load(&self, group: &mut Group<'_>, x: u32, y: u32) -> Result<[u32; 4], Cause> {
        let texel = self.texel_at(group, x, y)?;
        Ok(texel.map_or([0; 4], |texel| self.swizzled(texel)))
    }

    /// What `stib` writes.
    fn store(&self, group: &mut Group<'_>, x: u32, y: u32, texel: [u32; 4]) -> Result<(), Cause> {
        let Some(at) = self.at(x, y) else {
            return Ok(());
        };
        let components = texel.iter().take(self.components);
        let raw: Vec<u8> = components
            .flat_map(|&value| self.encode(value).into_iter().take(self.bytes))
            .collect();
        Ok(group.memory.store(at, &raw)?)
    }
}

/// A number of 16 bits.
fn from_half(half: u16) -> f32 {
    let sign = u32::from(half >> 15) << 31;
    let (exponent, mantissa) = (u32::from(half >> 10 & 0x1F), u32::from(half & 0x3FF));
    match exponent {
        0 => {
            let value = mantissa as f32 / (1 << 24) as f32;
            f32::from_bits(value.to_bits() | sign)
        }
        31 => f32::from_bits(sign | 0x7F80_0000 | mantissa << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | mantissa << 13),
    }
}

/// The nearest number of 16 bits; of two, the even one.
fn to_half(value: f32) -> u16 {
    let all = value.to_bits();
    let sign = (all >> 16) as u16 & 0x8000;
    let magnitude = all & 0x7FFF_FFFF;
    if magnitude > 0x7F80_0000 {
        return sign | 0x7E00;
    }
    // Halfway between the greatest number and the one that would follow.
    if magnitude >= 0x477F_F000 {
        return sign | 0x7C00;
    }
    if magnitude < 0x3880_0000 {
        // Below the normal ones there are multiples of 2^-24.
        let scaled = f32::from_bits(magnitude) * (1 << 24) as f32;
        return sign | scaled.round_ties_even() as u16;
    }
    let rest = magnitude & 0x1FFF;
    let kept = (magnitude >> 13) - (112 << 10);
    let up = rest > 0x1000 || (rest == 0x1000 && kept & 1 != 0);
    sign | (kept + u32::from(up)) as u16
}

fn texture(group: &Group<'_>, numbers: Numbers) -> Result<Image, Cause> {
    let first = group.registers.adreno().and_then(|r| r.textures.first());
    first.map_or_else(
        || Err(Cause::Program("there is no texture".into())),
        |words| Image::read("texture 0", words, numbers),
    )
}

fn storage(group: &Group<'_>, numbers: Numbers) -> Result<Image, Cause> {
    let first = group.registers.adreno().and_then(|r| r.images.first());
    first.map_or_else(
        || Err(Cause::Program("there is no storage image".into())),
        |words| Image::read("storage image 0", words, numbers),
    )
}

/// Columns and rows of a group's items, as far as they are below two numbers.
fn places(group: &Group<'_>, width: u32, height: u32) -> Vec<(u32, u32)> {
    let [column, row, _] = group.group;
    let [columns, rows, _] = group.items;
    let (x0, y0) = (
        column.wrapping_mul(group.local_size(0)),
        row.wrapping_mul(group.local_size(1)),
    );
    (0..rows)
        .flat_map(|y| (0..columns).map(move |x| (x0.wrapping_add(x), y0.wrapping_add(y))))
        .filter(|&(x, y)| x < width && y < height)
        .collect()
}

/// Four words of a place in a buffer.
fn place(base: u64, width: u32, x: u32, y: u32) -> u64 {
    let index = x.wrapping_add(y.wrapping_mul(width)).wrapping_mul(4);
    base.wrapping_add(4 * u64::from(index))
}

/// `out[x, y] = texture[x, y]`, four floats each.
pub(super) fn read_image(group: &mut Group<'_>) -> Result<(), Cause> {
    let (out, width, height) = (group.u64_at(0), group.u32_at(8), group.u32_at(12));
    let image = texture(group, Numbers::Floats)?;
    for (x, y) in places(group, width, height) {
        let words = image.load(group, x, y)?;
        group.store_words(place(out, width, x, y), &words)?;
    }
    Ok(())
}

/// `image[x, y] = in[x, y]`, four floats each.
pub(super) fn write_image(group: &mut Group<'_>) -> Result<(), Cause> {
    let (input, width, height) = (group.u64_at(0), group.u32_at(8), group.u32_at(12));
    let image = storage(group, Numbers::Floats)?;
    for (x, y) in places(group, width, height) {
        let words = group.load_words(place(input, width, x, y), 4)?;
        let texel = words.first_chunk().copied().unwrap_or([0; 4]);
        image.store(group, x, y, texel)?;
    }
    Ok(())
}

/// `image[x, y] = texture[x, y]`, floats.
pub(super) fn copy_image(group: &mut Group<'_>) -> Result<(), Cause> {
    copied(group, Numbers::Floats)
}

/// `image[x, y] = texture[x, y]`, unsigned numbers.
pub(super) fn copy_image_uint(group: &mut Group<'_>) -> Result<(), Cause> {
    copied(group, Numbers::Unsigned)
}

/// `out[x, y] = sampler(texture, start + [x, y] * step)`, four floats each.
pub(super) fn sample_image(group: &mut Group<'_>) -> Result<(), Cause> {
    let (out, width, height) = (group.u64_at(0), group.u32_at(8), group.u32_at(12));
    let [x0, y0, dx, dy] = [16, 20, 24, 28].map(|at| group.f32_at(at));
    let image = texture(group, Numbers::Floats)?;
    let sampler = Sampler::of(group)?;
    for (x, y) in places(group, width, height) {
        let [u, v] = [(x, x0, dx), (y, y0, dy)].map(|(i, start, step)| start + i as f32 * step);
        let words = sampler.sample(group, &image, [u, v])?;
        group.store_words(place(out, width, x, y), &words)?;
    }
    Ok(())
}

fn copied(group: &mut Group<'_>, numbers: Numbers) -> Result<(), Cause> {
    let (width, height) = (group.u32_at(0), group.u32_at(4));
    let (from, to) = (texture(group, numbers)?, storage(group, numbers)?);
    for (x, y) in places(group, width, height) {
        let texel = from.load(group, x, y)?;
        to.store(group, x, y, texel)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_and_read() {
        for (value, half) in [
            (0.0, 0x0000),
            (-0.0, 0x8000),
            (1.0, 0x3C00),
            (-2.0, 0xC000),
            (65504.0, 0x7BFF),
            (65519.9, 0x7BFF),
            (65520.0, 0x7C00),
            (f32::INFINITY, 0x7C00),
            (f32::NEG_INFINITY, 0xFC00),
            (6.103_515_6e-5, 0x0400),
            (5.960_464_5e-8, 0x0001),
            (2.980_232_2e-8, 0x0000),
            (8.940_697e-8, 0x0002),
            // Halfway: to the even one.
            (1.0 + 1.0 / 2048.0, 0x3C00),
            (1.0 + 3.0 / 2048.0, 0x3C02),
            (2048.0 + 1.5, 0x6801),
        ] {
            assert_eq!(to_half(value), half, "{value}");
        }
        assert_eq!(to_half(f32::NAN) & 0x7E00, 0x7E00);
        for half in 0..=u16::MAX {
            let value = from_half(half);
            if value.is_nan() {
                assert_eq!(half & 0x7C00, 0x7C00);
                assert_ne!(half & 0x03FF, 0);
            } else {
                assert_eq!(to_half(value), half, "{half:#x}");
            }
        }
    }

    /// RGBA32F of 5 by 3, rows of 128 bytes, at 5_0000_1000.
    const PLAIN: [u32; 16] = [
        8 | 1 << 7 | 2 << 10 | 3 << 13 | 0x82 << 22,
        5 | 3 << 15,
        128 << 7 | 1 << 29,
        0,
        0x1000,
        5,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ];

    #[test]
    fn descriptors_are_read_and_what_is_not_simulated_is_refused() {
        let image = Image::read("it", &PLAIN, Numbers::Floats).unwrap();
        assert_eq!((image.width, image.height, image.pitch), (5, 3, 128));
        assert_eq!((image.base, image.texel()), (0x5_0000_1000, 16));
        assert_eq!(image.swizzle, [0, 1, 2, 3]);
        assert_eq!(image.at(4, 2), Some(0x5_0000_1000 + 256 + 64));
        assert_eq!((image.at(5, 0), image.at(0, 3)), (None, None));
        for (word, bits, because) in [
            (0, 1u32, "TILE_MODE is 1"),
            (0, 4, "SRGB is 1"),
            (0, 1 << 16, "MIPLVLS is 1"),
            (0, 1 << 20, "SAMPLES is 1"),
            (0, 1 << 30, "SWAP is 1"),
            (0, 1 << 22, "format 0x83 is none"),
            (1, 8, "PITCH is 128 bytes for 13 texels of 16"),
            (2, 1 << 30, "TYPE is 3, not 2D"),
        ] {
            let mut words = PLAIN;
            words[word] ^= bits;
            let text = Image::read("it", &words, Numbers::Floats)
                .unwrap_err()
                .to_string();
            assert!(text.contains(because), "{text}");
        }
    }

    fn image(number: u32, numbers: Numbers) -> Result<Image, Cause> {
        let mut words = PLAIN;
        words[0] = words[0] & !(0xFF << 22) | number << 22;
        Image::read("it", &words, numbers)
    }

    #[test]
    fn whole_numbers_are_what_their_format_says() {
        for (number, value, bytes, back) in [
            (0x33, 0x1FE, &[0xFE][..], 0xFE),
            (0x34, 0xFFFF_FFFE, &[0xFE], 0xFFFF_FFFE),
            (0x63, 0xBEEF, &[0xEF, 0xBE], 0xBEEF),
            (0x64, 0xBEEF, &[0xEF, 0xBE], 0xFFFF_BEEF),
            (0x83, 0x8000_0001, &[1, 0, 0, 0x80], 0x8000_0001),
            (0x84, 0x8000_0001, &[1, 0, 0, 0x80], 0x8000_0001),
        ] {
            let components = format(number).map(|(components, ..)| components);
            assert_eq!(components, Some(4), "{number:#x}");
            let with_sign = format(number).is_some_and(|(.., kind)| kind == Kind::Sint);
            let image = Image {
                kind: if with_sign { Kind::Sint } else { Kind::Uint },
                bytes: bytes.len(),
                ..image(0x82, Numbers::Floats).unwrap()
            };
            let all = image.encode(value);
            assert_eq!(&all[..image.bytes], bytes, "{number:#x} {value:#x}");
            assert_eq!(image.decode(bytes), back, "{number:#x} {value:#x}");
        }
        // What a format lacks is 0, and 1 for the last.
        let two = image(0x68, Numbers::Unsigned).unwrap();
        assert_eq!(two.completed([7, 8, 9, 10]), [7, 8, 0, 1]);
        assert_eq!(two.swizzled([7, 8, 0, 1]), [7, 8, 0, 1]);
        for (number, numbers, words) in [
            (0x82, Numbers::Unsigned, "unsigned numbers"),
            (0x84, Numbers::Unsigned, "unsigned numbers"),
            (0x83, Numbers::Floats, "floats"),
            (0x30, Numbers::Unsigned, "unsigned numbers"),
        ] {
            let text = image(number, numbers).unwrap_err().to_string();
            let wanted = format!("format {number:#x} is none that the program's {words} can be");
            assert!(text.contains(&wanted), "{text}");
        }
    }

    #[test]
    fn components_are_what_their_format_says() {
        let image = |number: u32| image(number, Numbers::Floats).unwrap();
        for (number, value, bytes, back) in [
            (0x30, 0.5, &[128][..], 128.0 / 255.0),
            (0x30, 7.0, &[255], 1.0),
            (0x30, -1.0, &[0], 0.0),
            (0x30, f32::NAN, &[0], 0.0),
            (0x32, -1.0, &[0x81], -1.0),
            (0x32, 0.5, &[64], 64.0 / 127.0),
            (0x60, 1.0, &[0xFF, 0xFF], 1.0),
            (0x61, -0.5, &[0x00, 0xC0], -16384.0 / 32767.0),
            (0x62, 1.5, &[0x00, 0x3E], 1.5),
            (0x82, 0.1, &[0xCD, 0xCC, 0xCC, 0x3D], 0.1),
        ] {
            let image = image(number);
            let all = image.encode(f32::to_bits(value));
            assert_eq!(&all[..image.bytes], bytes, "{number:#x} {value}");
            assert_eq!(
                image.decode(bytes),
                f32::to_bits(back),
                "{number:#x} {value}"
            );
        }
        assert_eq!(image(0x32).decode(&[0x80]), (-1.0f32).to_bits());
    }
}
