//! Images: how texels lie in a buffer, and samplers, for kernels that take textures and storage images.

use std::fmt;
use std::str::FromStr;

use crate::backend::Images;
use crate::inner::Inner;
use crate::{Device, Error};

/// What kernels have a texel's components as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TexelKind {
    /// Floats; fractions of 8 and 16 bits are floats from 0 to 1, or from -1 to 1.
    Float,
    /// Signed numbers.
    Int,
    /// Unsigned numbers.
    Uint,
}

impl TexelKind {
    /// As signatures have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Int => "int",
            Self::Uint => "uint",
        }
    }
}

impl fmt::Display for TexelKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How texels are stored: components in the order red, green, blue, alpha, the bits of each, and how they are read. `Unorm` and
/// `Snorm` are fractions: the largest number stands for 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(
    missing_docs,
    reason = "components, bits of one, kind: what the name says"
)]
#[non_exhaustive]
pub enum TexelFormat {
    R8Unorm,
    R8Snorm,
    R8Uint,
    R8Sint,
    Rg8Unorm,
    Rg8Uint,
    Rg8Sint,
    Rgba8Unorm,
    Rgba8Snorm,
    Rgba8Uint,
    Rgba8Sint,
    R16Unorm,
    R16Float,
    R16Uint,
    R16Sint,
    Rg16Float,
    Rg16Uint,
    Rg16Sint,
    Rgba16Unorm,
    Rgba16Snorm,
    Rgba16Float,
    Rgba16Uint,
    Rgba16Sint,
    R32Float,
    R32Uint,
    R32Sint,
    Rg32Float,
    Rg32Uint,
    Rg32Sint,
    Rgba32Float,
    Rgba32Uint,
    Rgba32Sint,
}

impl TexelFormat {
    /// All of them.
    pub const ALL: [Self; 32] = [
        Self::R8Unorm,
        Self::R8Snorm,
        Self::R8Uint,
        Self::R8Sint,
        Self::Rg8Unorm,
        Self::Rg8Uint,
        Self::Rg8Sint,
        Self::Rgba8Unorm,
        Self::Rgba8Snorm,
        Self::Rgba8Uint,
        Self::Rgba8Sint,
        Self::R16Unorm,
        Self::R16Float,
        Self::R16Uint,
        Self::R16Sint,
        Self::Rg16Float,
        Self::Rg16Uint,
        Self::Rg16Sint,
        Self::Rgba16Unorm,
        Self::Rgba16Snorm,
        Self::Rgba16Float,
        Self::Rgba16Uint,
        Self::Rgba16Sint,
        Self::R32Float,
        Self::R32Uint,
        Self::R32Sint,
        Self::Rg32Float,
        Self::Rg32Uint,
        Self::Rg32Sint,
        Self::Rgba32Float,
        Self::Rgba32Uint,
        Self::Rgba32Sint,
    ];

    /// Its name, as job files have it: `rgba8unorm`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::R8Unorm => "r8unorm",
            Self::R8Snorm => "r8snorm",
            Self::R8Uint => "r8uint",
            Self::R8Sint => "r8sint",
            Self::Rg8Unorm => "rg8unorm",
            Self::Rg8Uint => "rg8uint",
            Self::Rg8Sint => "rg8sint",
            Self::Rgba8Unorm => "rgba8unorm",
            Self::Rgba8Snorm => "rgba8snorm",
            Self::Rgba8Uint => "rgba8uint",
            Self::Rgba8Sint => "rgba8sint",
            Self::R16Unorm => "r16unorm",
            Self::R16Float => "r16float",
            Self::R16Uint => "r16uint",
            Self::R16Sint => "r16sint",
            Self::Rg16Float => "rg16float",
            Self::Rg16Uint => "rg16uint",
            Self::Rg16Sint => "rg16sint",
            Self::Rgba16Unorm => "rgba16unorm",
            Self::Rgba16Snorm => "rgba16snorm",
            Self::Rgba16Float => "rgba16float",
            Self::Rgba16Uint => "rgba16uint",
            Self::Rgba16Sint => "rgba16sint",
            Self::R32Float => "r32float",
            Self::R32Uint => "r32uint",
            Self::R32Sint => "r32sint",
            Self::Rg32Float => "rg32float",
            Self::Rg32Uint => "rg32uint",
            Self::Rg32Sint => "rg32sint",
            Self::Rgba32Float => "rgba32float",
            Self::Rgba32Uint => "rgba32uint",
            Self::Rgba32Sint => "rgba32sint",
        }
    }

    /// Components of a texel, from 1 to 4.
    pub const fn components(self) -> u32 {
        match self.name().as_bytes() {
            [b'r', b'g', b'b', ..] => 4,
            [b'r', b'g', ..] => 2,
            _ => 1,
        }
    }

    /// Bytes of a component: 1, 2 or 4.
    pub const fn component_bytes(self) -> u32 {
        match self.name().as_bytes() {
            [b'r', b'8', ..] | [b'r', b'g', b'8', ..] | [b'r', b'g', b'b', b'a', b'8', ..] => 1,
            [b'r', b'1', ..] | [b'r', b'g', b'1', ..] | [b'r', b'g', b'b', b'a', b'1', ..] => 2,
            _ => 4,
        }
    }

    /// Bytes of a texel.
    pub const fn bytes(self) -> u32 {
        self.components() * self.component_bytes()
    }

    /// What kernels have its components as.
    pub const fn kind(self) -> TexelKind {
        match self.name().as_bytes() {
            [.., b'u', b'i', b'n', b't'] => TexelKind::Uint,
            [.., b's', b'i', b'n', b't'] => TexelKind::Int,
            _ => TexelKind::Float,
        }
    }
}

impl fmt::Display for TexelFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no format has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no format `{0}`")]
pub struct UnknownFormat(pub String);

impl FromStr for TexelFormat {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        let mut all = Self::ALL.into_iter();
        all.find(|f| f.name() == name)
            .ok_or_else(|| UnknownFormat(name.to_owned()))
    }
}

/// What images of a device have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImageRules {
    /// What the bytes of a row are a multiple of.
    pub pitch_align: u32,
    /// Bytes of a row at most.
    pub most_pitch: u32,
    /// What an image's address is a multiple of. Buffers begin at such addresses.
    pub address_align: u32,
    /// Texels in a row, and rows, at most.
    pub most_side: u32,
}

/// How an image of two dimensions lies in memory, row behind row, and what its texels are. [`Device::image2d`] makes it, and
/// [`Arg::image`](crate::Arg::image) puts it over a buffer.
///
/// ```
/// # #[cfg(feature = "sim")] {
/// use hcq_std::{Arg, Device, TexelFormat};
/// let device = Device::open("sim:qcom-a650")?;
/// let image = device.image2d(TexelFormat::Rgba8Unorm, 100, 30)?;
/// assert_eq!((image.pitch(), image.bytes()), (448, 29 * 448 + 400));
/// let texels = device.alloc::<u8>(image.bytes())?;
/// let _argument = Arg::image(&texels, &image)?;
/// // A part of it: 16 columns from column 32 on, 8 rows from row 2 on.
/// let part = device.image2d_with_pitch(TexelFormat::Rgba8Unorm, 16, 8, image.pitch())?;
/// let _argument = Arg::image(&texels.view(image.offset_of(32, 2)..)?, &part)?;
/// # }
/// # Ok::<(), hcq_std::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image2d {
    format: TexelFormat,
    width: u32,
    height: u32,
    pitch: u32,
    address_align: u32,
}

impl Image2d {
    /// How its texels are stored.
    pub const fn format(&self) -> TexelFormat {
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

    /// What its address is a multiple of.
    pub const fn address_align(&self) -> u32 {
        self.address_align
    }

    /// Bytes from its first texel to behind its last.
    pub const fn bytes(&self) -> usize {
        self.offset_of(self.width, self.height - 1)
    }

    /// Byte of the texel in this column and row. The image is not looked at: what is outside has an offset, too.
    pub const fn offset_of(&self, column: u32, row: u32) -> usize {
        // At most 2^32 times a pitch of 32 bits, and a row: fits the 64-bit hosts that there are.
        row as usize * self.pitch as usize + column as usize * self.format.bytes() as usize
    }

    /// Whether it may lie at an address known now, and in so many bytes.
    pub(crate) fn check_place(&self, address: Option<u64>, bytes: u64) -> Result<(), Error> {
        let align = u64::from(self.address_align);
        check("its address", address.unwrap_or(0), (0, u64::MAX), align)?;
        check(
            "the buffer's length",
            bytes,
            (self.bytes() as u64, u64::MAX),
            1,
        )
    }

    /// What it is, in words.
    pub(crate) fn described(&self) -> String {
        let (format, kind) = (self.format, self.format.kind());
        format!("an image of {format}, whose texels are {kind}")
    }
}

fn check(
    what: &'static str,
    value: u64,
    (least, most): (u64, u64),
    align: u64,
) -> Result<(), Error> {
    if (least..=most).contains(&value) && value.is_multiple_of(align) {
        return Ok(());
    }
    Err(Error::Image2d {
        what,
        value,
        least,
        most,
        align,
    })
}

/// What a coordinate outside of an image reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Wrap {
    /// The image again.
    Repeat,
    /// The image again, mirrored.
    MirrorRepeat,
    /// The last texel.
    #[default]
    ClampToEdge,
    /// The border's colour.
    ClampToBorder,
}

/// How a texel is picked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Filter {
    /// The one that the coordinate is in.
    #[default]
    Nearest,
    /// Between the four whose middles are around the coordinate.
    Linear,
}

/// A colour around an image. Around images of whole numbers only the first is what it says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BorderColor {
    /// All components 0.
    #[default]
    TransparentBlack,
    /// Alpha 1, the others 0.
    OpaqueBlack,
    /// All components 1.
    OpaqueWhite,
}

/// How a kernel reads textures between and outside of texels. By default it is the nearest texel, at coordinates that count texels,
/// and the last one outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sampling {
    /// Outside of the columns, and outside of the rows. Coordinates that count texels do not repeat (nor do Vulkan's,
    /// `VkSamplerCreateInfo`).
    pub wrap: [Wrap; 2],
    /// How a texel is picked.
    pub filter: Filter,
    /// Whether coordinates go from 0 to 1 over the image; else they count texels, of which the first has its middle at 0.5.
    pub normalized: bool,
    /// The colour for [`Wrap::ClampToBorder`].
    pub border: BorderColor,
}

/// Bytes of a sampler among a kernel's arguments.
pub(crate) const SAMPLER_BYTES: usize = 16;

/// A sampler of a device, for kernels that take one: [`Device::sampler`] makes it, [`Arg::sampler`](crate::Arg::sampler) gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    sampling: Sampling,
    pub(crate) bytes: [u8; SAMPLER_BYTES],
}

impl Sampler {
    /// What it does.
    pub const fn sampling(&self) -> Sampling {
        self.sampling
    }
}

impl Inner {
    fn images(&self) -> Result<&dyn Images, Error> {
        self.backend.images().ok_or_else(|| Error::NoImages {
            device: self.name.clone(),
        })
    }
}

impl Device {
    /// What images of this device have to be; `None` if its kernels take none.
    pub fn image_rules(&self) -> Option<ImageRules> {
        self.inner.backend.images().map(Images::rules)
    }

    /// An image whose rows follow each other as closely as this device lets them.
    ///
    /// # Errors
    /// [`Error::NoImages`]; [`Error::Image2d`] for a side of zero, or more than the device has.
    pub fn image2d(&self, format: TexelFormat, width: u32, height: u32) -> Result<Image2d, Error> {
        let align = self.inner.images()?.rules().pitch_align;
        let row = width.saturating_mul(format.bytes());
        let pitch = row.checked_next_multiple_of(align).unwrap_or(row);
        self.image2d_with_pitch(format, width, height, pitch)
    }

    /// An image with a row each `pitch` bytes: a part of a larger one, or one that somebody else laid out.
    ///
    /// # Errors
    /// [`Error::NoImages`]; [`Error::Image2d`] for a side of zero, a pitch less than a row, or what is against the device's
    /// [rules](Self::image_rules).
    pub fn image2d_with_pitch(
        &self,
        format: TexelFormat,
        width: u32,
        height: u32,
        pitch: u32,
    ) -> Result<Image2d, Error> {
        let rules = self.inner.images()?.rules();
        let sides = (1, u64::from(rules.most_side));
        check("its width", width.into(), sides, 1)?;
        check("its height", height.into(), sides, 1)?;
        let row = u64::from(width) * u64::from(format.bytes());
        let pitches = (row, u64::from(rules.most_pitch));
        check("its pitch", pitch.into(), pitches, rules.pitch_align.into())?;
        Ok(Image2d {
            format,
            width,
            height,
            pitch,
            address_align: rules.address_align,
        })
    }

    /// A sampler.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use hcq_std::{Arg, Device, Filter, Sampling, Wrap};
    /// let device = Device::open("sim:qcom-a650")?;
    /// let smooth = device.sampler(&Sampling {
    ///     wrap: [Wrap::Repeat; 2],
    ///     filter: Filter::Linear,
    ///     normalized: true,
    ///     ..Sampling::default()
    /// })?;
    /// let _argument = Arg::sampler(&smooth);
    /// # }
    /// # Ok::<(), hcq_std::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoImages`]; [`Error::Sampling`] if coordinates that count texels are to repeat.
    pub fn sampler(&self, sampling: &Sampling) -> Result<Sampler, Error> {
        let images = self.inner.images()?;
        let repeats = |wrap: &&Wrap| matches!(wrap, Wrap::Repeat | Wrap::MirrorRepeat);
        if let Some(&wrap) = sampling.wrap.iter().find(repeats)
            && !sampling.normalized
        {
            return Err(Error::Sampling { wrap });
        }
        Ok(Sampler {
            sampling: *sampling,
            bytes: images.sampler(sampling),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_what_their_names_say() {
        let mut names = std::collections::BTreeSet::new();
        for format in TexelFormat::ALL {
            assert_eq!(format.name(), format!("{format:?}").to_lowercase());
            assert_eq!(format.name().parse(), Ok(format));
            assert!(names.insert(format.name()));
        }
        for (format, components, bytes, kind) in [
            (TexelFormat::R8Snorm, 1, 1, TexelKind::Float),
            (TexelFormat::Rg8Sint, 2, 2, TexelKind::Int),
            (TexelFormat::Rgba8Unorm, 4, 4, TexelKind::Float),
            (TexelFormat::R16Float, 1, 2, TexelKind::Float),
            (TexelFormat::Rg16Uint, 2, 4, TexelKind::Uint),
            (TexelFormat::Rgba16Unorm, 4, 8, TexelKind::Float),
            (TexelFormat::R32Sint, 1, 4, TexelKind::Int),
            (TexelFormat::Rg32Float, 2, 8, TexelKind::Float),
            (TexelFormat::Rgba32Uint, 4, 16, TexelKind::Uint),
        ] {
            let seen = (format.components(), format.bytes(), format.kind());
            assert_eq!(seen, (components, bytes, kind), "{format}");
        }
        let unknown = "bgra8unorm".parse::<TexelFormat>().expect_err("none");
        assert_eq!(unknown.to_string(), "there is no format `bgra8unorm`");
    }

    #[cfg(feature = "sim")]
    #[test]
    fn what_no_image_of_the_device_is_is_refused_with_numbers() -> Result<(), Error> {
        let device = Device::open("sim:qcom-a650")?;
        let format = TexelFormat::Rgba8Unorm;
        let refused =
            |image: Result<Image2d, Error>| image.map(drop).expect_err("no image").to_string();
        for (image, words) in [
            (
                device.image2d(format, 0, 1),
                "its width is 0, which an image cannot have: from 1 to 16384",
            ),
            (
                device.image2d(format, 1, 16385),
                "its height is 16385, which an image cannot have: from 1 to 16384",
            ),
            (
                device.image2d_with_pitch(format, 17, 1, 64),
                "its pitch is 64, which an image cannot have: from 68 to 4194240, a multiple of 64",
            ),
            (
                device.image2d_with_pitch(format, 16, 1, 96),
                "its pitch is 96, which an image cannot have: from 64 to 4194240, a multiple of 64",
            ),
            (
                device.image2d_with_pitch(format, 16, 1, 4_194_304),
                "its pitch is 4194304, which an image cannot have: from 64 to 4194240, a multiple of 64",
            ),
        ] {
            assert_eq!(refused(image), words);
        }
        let image = device.image2d(format, 16, 3)?;
        let texels = device.alloc::<u8>(2 * image.bytes())?;
        for (range, words) in [
            (64..64 + 192, None),
            (
                64..64 + 191,
                Some("the buffer's length is 191, which an image cannot have: at least 192"),
            ),
            (
                32..320,
                Some("which an image cannot have: a multiple of 64"),
            ),
        ] {
            let view = texels.view(range)?;
            let error = crate::Arg::image(&view, &image).map(drop).err();
            let text = error.map(|e| e.to_string());
            match words {
                None => assert_eq!(text, None),
                Some(words) => assert!(
                    text.as_deref().is_some_and(|t| t.ends_with(words)),
                    "{text:?}"
                ),
            }
        }
        let sampling = Sampling {
            wrap: [Wrap::ClampToEdge, Wrap::MirrorRepeat],
            ..Sampling::default()
        };
        let error = device
            .sampler(&sampling)
            .map(drop)
            .expect_err("it counts texels");
        assert!(
            error.to_string().contains("cannot have MirrorRepeat"),
            "{error}"
        );
        device.sampler(&Sampling {
            normalized: true,
            ..sampling
        })?;

        let host = Device::open("cpu")?;
        assert_eq!(host.image_rules(), None);
        for error in [
            host.image2d(format, 1, 1).map(drop),
            host.sampler(&Sampling::default()).map(drop),
        ] {
            assert!(matches!(error, Err(Error::NoImages { .. })), "{error:?}");
        }
        Ok(())
    }
}
