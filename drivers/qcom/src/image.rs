//! Images: descriptors of textures (which programs sample) and of storage images (which they read and write texel by texel),
//! samplers, border colours.
//!
//! Sources: A6XX_TEX_CONST_*, A6XX_TEX_SAMP_* and `a6xx_format` of `a6xx.xml`, `bcolor_entry` of Mesa's freedreno driver.

use hcq_nostd::value::{Field, Fit, Misfit};

use crate::device::ADDRESS_BITS;

/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: u32 = 64;
const DESCRIPTOR_WORDS: usize = 16;
/// Bytes of a sampler.
pub const SAMPLER_BYTES: u32 = 16;
/// Where an image's address is in its descriptor: BASE_LO and BASE_HI.
pub(crate) const ADDRESS_AT: u32 = 16;
/// Alignment of an image's address.
const ALIGN_LOG2: u8 = 6;
/// What an image's address must be.
pub(crate) const ADDRESS_FIT: Fit = Fit::aligned(ADDRESS_BITS, ALIGN_LOG2);
/// What an image's address and the bytes of a row are multiples of.
pub const ALIGN: u32 = 1 << ALIGN_LOG2;
/// Texels in a row, and rows, at most.
pub const MAX_SIDE: u32 = 16384;
/// Bytes of a row at most: the largest multiple of [`ALIGN`] that PITCH holds.
pub const MAX_PITCH: u32 = (1 << 22) - ALIGN;

/// How texels are stored, `a6xx_format`. Components are in the order red, green, blue, alpha.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[expect(
    missing_docs,
    reason = "component size, number, kind: what the name says"
)]
#[repr(u8)]
pub enum Format {
    R8Unorm = 3,
    R8Snorm = 4,
    R8Uint = 5,
    R8Sint = 6,
    Rg8Unorm = 15,
    Rg8Uint = 17,
    Rg8Sint = 18,
    R16Unorm = 21,
    R16Float = 23,
    R16Uint = 24,
    R16Sint = 25,
    Rgba8Unorm = 48,
    Rgba8Snorm = 50,
    Rgba8Uint = 51,
    Rgba8Sint = 52,
    Rg16Float = 69,
    Rg16Uint = 70,
    Rg16Sint = 71,
    R32Float = 74,
    R32Uint = 75,
    R32Sint = 76,
    Rgba16Unorm = 96,
    Rgba16Snorm = 97,
    Rgba16Float = 98,
    Rgba16Uint = 99,
    Rgba16Sint = 100,
    Rg32Float = 103,
    Rg32Uint = 104,
    Rg32Sint = 105,
    Rgba32Float = 130,
    Rgba32Uint = 131,
    Rgba32Sint = 132,
}

impl Format {
    /// Bytes of a texel.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::R8Unorm | Self::R8Snorm | Self::R8Uint | Self::R8Sint => 1,
            Self::Rg8Unorm | Self::Rg8Uint | Self::Rg8Sint => 2,
            Self::R16Unorm | Self::R16Float | Self::R16Uint | Self::R16Sint => 2,
            Self::Rgba8Unorm | Self::Rgba8Snorm | Self::Rgba8Uint | Self::Rgba8Sint => 4,
            Self::Rg16Float | Self::Rg16Uint | Self::Rg16Sint => 4,
            Self::R32Float | Self::R32Uint | Self::R32Sint => 4,
            Self::Rgba16Unorm | Self::Rgba16Snorm | Self::Rgba16Float => 8,
            Self::Rgba16Uint | Self::Rgba16Sint => 8,
            Self::Rg32Float | Self::Rg32Uint | Self::Rg32Sint => 8,
            Self::Rgba32Float | Self::Rgba32Uint | Self::Rgba32Sint => 16,
        }
    }
}

/// PITCH: bytes of a row, a multiple of 64.
const PITCH: Field = Field::new(7, 22);
const FMT_SHIFT: u32 = 22;
const HEIGHT_SHIFT: u32 = 15;
/// TYPE: A6XX_TEX_2D.
const TYPE_2D: u32 = 1 << 29;
/// SWIZ_X to SWIZ_W: components in their order.
const SWIZZLE_XYZW: u32 = 1 << 7 | 2 << 10 | 3 << 13;
/// Bits that the vendor's OpenCL sets in every descriptor of a linear image and the register database does not explain: bit
/// 3 of a texture's first word, PLANE_PITCH, the low bits of word 7.
const TEXTURE_BIT_3: u32 = 1 << 3;
const PLANE_PITCH: u32 = 0x40_0000 << 8;
const WORD_7: u32 = 13;

/// A linear image of two dimensions, without its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Image {
    format: Format,
    width: u32,
    height: u32,
    pitch: u32,
}

impl Image {
    /// An image whose rows follow each other at the next multiple of 64 bytes.
    ///
    /// # Errors
    /// [`Misfit`] for a side of zero or more than [`MAX_SIDE`].
    pub fn new(format: Format, width: u32, height: u32) -> Result<Self, Misfit> {
        let row = width.saturating_mul(format.bytes());
        let pitch = row.checked_next_multiple_of(64).unwrap_or(row);
        Self::with_pitch(format, width, height, pitch)
    }

    /// An image with a row each `pitch` bytes.
    ///
    /// # Errors
    /// [`Misfit`] for a side of zero or more than [`MAX_SIDE`], a pitch that is less than a row, no multiple of 64, or more
    /// than 22 bits.
    pub fn with_pitch(format: Format, width: u32, height: u32, pitch: u32) -> Result<Self, Misfit> {
        let side = Fit {
            least: 1,
            ..Fit::at_most(MAX_SIDE.into())
        };
        side.check(width.into())?;
        side.check(height.into())?;
        let fit = Fit {
            align_log2: ALIGN_LOG2,
            ..Fit::bits(22)
        };
        fit.check(pitch.into())?;
        let row = width.saturating_mul(format.bytes());
        if pitch < row {
            return Err(Misfit::AboveLimit {
                value: row.into(),
                most: pitch.into(),
            });
        }
        Ok(Self {
            format,
            width,
            height,
            pitch,
        })
    }

    /// How its texels are stored.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Texels in a row.
    pub const fn width(&self) -> u32 {
        self.width
    }

    /// Rows.
    pub const fn height(&self) -> u32 {
        self.height
    }

    /// Bytes from a row to the next.
    pub const fn pitch(&self) -> u32 {
        self.pitch
    }

    /// Bytes that it takes.
    pub const fn bytes(&self) -> u64 {
        self.pitch as u64 * self.height as u64
    }

    const fn descriptor(&self, first: u32) -> [u32; DESCRIPTOR_WORDS] {
        let mut words = [0; DESCRIPTOR_WORDS];
        // All fits: see `with_pitch`. PITCHALIGN is the logarithm of what the pitch is a multiple of, in units of 64.
        let align = self.pitch.trailing_zeros().saturating_sub(6) & 0xf;
        words[0] = first | (self.format as u32) << FMT_SHIFT;
        words[1] = self.width | self.height << HEIGHT_SHIFT;
        words[2] = TYPE_2D | self.pitch << PITCH.shift | align;
        words[6] = PLANE_PITCH;
        words[7] = WORD_7;
        words
    }

    /// The descriptor of a texture, with address 0.
    pub(crate) const fn texture(&self) -> [u32; DESCRIPTOR_WORDS] {
        self.descriptor(SWIZZLE_XYZW | TEXTURE_BIT_3)
    }

    /// The descriptor of a storage image, with address 0.
    pub(crate) const fn storage(&self) -> [u32; DESCRIPTOR_WORDS] {
        self.descriptor(0)
    }

    /// The descriptor of a texture at a device address, for an argument that is given whole at each launch.
    ///
    /// # Errors
    /// [`Misfit`] for an address that is not at a 64-byte boundary below 2^49.
    pub fn texture_at(&self, address: u64) -> Result<[u8; DESCRIPTOR_BYTES as usize], Misfit> {
        at(&self.texture(), address)
    }

    /// The descriptor of a storage image at a device address, for an argument that is given whole at each launch.
    ///
    /// # Errors
    /// [`Misfit`] for an address that is not at a 64-byte boundary below 2^49.
    pub fn storage_at(&self, address: u64) -> Result<[u8; DESCRIPTOR_BYTES as usize], Misfit> {
        at(&self.storage(), address)
    }
}

/// A descriptor with an address, as bytes.
fn at(
    words: &[u32; DESCRIPTOR_WORDS],
    address: u64,
) -> Result<[u8; DESCRIPTOR_BYTES as usize], Misfit> {
    ADDRESS_FIT.check(address)?;
    let mut words = *words;
    let [low, high] = crate::pm4::split(address);
    [words[4], words[5]] = [low, high];
    Ok(bytes(&words))
}

/// Words as the device reads them.
pub(crate) fn bytes(words: &[u32; DESCRIPTOR_WORDS]) -> [u8; DESCRIPTOR_BYTES as usize] {
    zerocopy::transmute!(*words)
}

/// What a coordinate outside of an image reads, `a6xx_tex_clamp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Wrap {
    /// The image again.
    Repeat = 0,
    /// The last texel.
    ClampToEdge = 1,
    /// The image again, mirrored.
    MirrorRepeat = 2,
    /// The border colour.
    ClampToBorder = 3,
}

/// How a texel is picked, `a6xx_tex_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Filter {
    /// The nearest.
    Nearest = 0,
    /// Between the nearest ones.
    Linear = 1,
}

/// A colour around an image: entries of the device's table, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum BorderColor {
    /// All components 0.
    TransparentBlack = 0,
    /// Alpha 1, the others 0.
    OpaqueBlack = 1,
    /// All components 1.
    OpaqueWhite = 2,
}

/// These bits, if a component is there.
const fn when(there: bool, bits: u32) -> u32 {
    if there { bits } else { 0 }
}

/// Bytes of the device's table of border colours.
pub const BORDER_COLORS_BYTES: usize = 3 * BORDER_COLOR_BYTES;
const BORDER_COLOR_BYTES: usize = 128;

impl BorderColor {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 3] = [Self::TransparentBlack, Self::OpaqueBlack, Self::OpaqueWhite];

    /// Its entry, 128 bytes: the colour in each kind of number that an image's texels can be.
    pub const fn entry(self) -> [u32; BORDER_COLOR_BYTES / 4] {
        let (color, alpha) = match self {
            Self::TransparentBlack => (false, false),
            Self::OpaqueBlack => (false, true),
            Self::OpaqueWhite => (true, true),
        };
        let mut words = [0; BORDER_COLOR_BYTES / 4];
        // Single floats.
        let one = 0x3f80_0000;
        words[0] = when(color, one);
        words[1] = when(color, one);
        words[2] = when(color, one);
        words[3] = when(alpha, one);
        // 16 bits: unsigned, signed, half floats.
        words[4] = when(color, 0xffff_ffff);
        words[5] = when(color, 0xffff) | when(alpha, 0xffff_0000);
        words[6] = when(color, 0x7fff_7fff);
        words[7] = when(color, 0x7fff) | when(alpha, 0x7fff_0000);
        words[8] = when(color, 0x3c00_3c00);
        words[9] = when(color, 0x3c00) | when(alpha, 0x3c00_0000);
        // 5:6:5, and 5:5:5:1 above it; 4:4:4:4.
        words[10] = when(color, 0x7fff_ffff) | when(alpha, 1 << 31);
        words[11] = when(color, 0x0fff) | when(alpha, 0xf000);
        // 8 bits: unsigned, signed.
        words[12] = when(color, 0x00ff_ffff) | when(alpha, 0xff00_0000);
        words[13] = when(color, 0x007f_7f7f) | when(alpha, 0x7f00_0000);
        // 10:10:10:2, depth of 24 bits, and the half floats again for sRGB.
        words[14] = when(color, 0x3fff_ffff) | when(alpha, 3 << 30);
        words[15] = when(color, 0x00ff_ffff);
        words[16] = words[8];
        words[17] = words[9];
        words
    }
}

/// CUBEMAPSEAMLESSFILTOFF and UNNORM_COORDS.
const SEAMLESS_OFF: u32 = 1 << 4;
const UNNORM_COORDS: u32 = 1 << 5;

/// A sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Sampler {
    words: [u32; SAMPLER_BYTES as usize / 4],
}

impl Sampler {
    /// Four zero words: nearest texels, repeated, with coordinates from 0 to 1.
    pub const ZERO: Self = Self { words: [0; 4] };
    /// The nearest texel at coordinates that count texels, and the border's colour, transparent black, outside: what
    /// programs use that read images with whole coordinates.
    pub const TEXELS: Self = Self::new(
        [Wrap::ClampToBorder; 3],
        Filter::Nearest,
        false,
        BorderColor::TransparentBlack,
    );

    /// A sampler for images without mipmaps. Coordinates that are not `normalized` count texels.
    pub const fn new(
        wrap: [Wrap; 3],
        filter: Filter,
        normalized: bool,
        border: BorderColor,
    ) -> Self {
        let [s, t, r] = wrap;
        let filter = filter as u32;
        let wrap = (s as u32) << 5 | (t as u32) << 8 | (r as u32) << 11;
        let unnormalized = if normalized { 0 } else { UNNORM_COORDS };
        // BCOLOR counts entries of 128 bytes.
        let border = (border as u32) << 7;
        Self {
            words: [
                filter << 1 | filter << 3 | wrap,
                SEAMLESS_OFF | unnormalized,
                border,
                0,
            ],
        }
    }

    /// A sampler of these words.
    pub const fn from_words(words: [u32; 4]) -> Self {
        Self { words }
    }

    /// Its words.
    pub const fn words(&self) -> [u32; 4] {
        self.words
    }

    /// Its words as the device reads them, for an argument that is given at each launch.
    pub fn bytes(&self) -> [u8; SAMPLER_BYTES as usize] {
        zerocopy::transmute!(self.words)
    }
}
