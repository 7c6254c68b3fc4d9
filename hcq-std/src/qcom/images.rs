//! Images and samplers as the GPU has them.

use hcq_qcom::image::{self, ALIGN, Format, Image, MAX_PITCH, MAX_SIDE};

use super::Qcom;
use super::program::own;
use crate::Error;
use crate::backend::{Images, Prepared};
use crate::image2d::{
    BorderColor, Filter, Image2d, ImageRules, SAMPLER_BYTES, Sampling, TexelFormat, Wrap,
};

const fn format(format: TexelFormat) -> Format {
    match format {
        TexelFormat::R8Unorm => Format::R8Unorm,
        TexelFormat::R8Snorm => Format::R8Snorm,
        TexelFormat::R8Uint => Format::R8Uint,
        TexelFormat::R8Sint => Format::R8Sint,
        TexelFormat::Rg8Unorm => Format::Rg8Unorm,
        TexelFormat::Rg8Uint => Format::Rg8Uint,
        TexelFormat::Rg8Sint => Format::Rg8Sint,
        TexelFormat::Rgba8Unorm => Format::Rgba8Unorm,
        TexelFormat::Rgba8Snorm => Format::Rgba8Snorm,
        TexelFormat::Rgba8Uint => Format::Rgba8Uint,
        TexelFormat::Rgba8Sint => Format::Rgba8Sint,
        TexelFormat::R16Unorm => Format::R16Unorm,
        TexelFormat::R16Float => Format::R16Float,
        TexelFormat::R16Uint => Format::R16Uint,
        TexelFormat::R16Sint => Format::R16Sint,
        TexelFormat::Rg16Float => Format::Rg16Float,
        TexelFormat::Rg16Uint => Format::Rg16Uint,
        TexelFormat::Rg16Sint => Format::Rg16Sint,
        TexelFormat::Rgba16Unorm => Format::Rgba16Unorm,
        TexelFormat::Rgba16Snorm => Format::Rgba16Snorm,
        TexelFormat::Rgba16Float => Format::Rgba16Float,
        TexelFormat::Rgba16Uint => Format::Rgba16Uint,
        TexelFormat::Rgba16Sint => Format::Rgba16Sint,
        TexelFormat::R32Float => Format::R32Float,
        TexelFormat::R32Uint => Format::R32Uint,
        TexelFormat::R32Sint => Format::R32Sint,
        TexelFormat::Rg32Float => Format::Rg32Float,
        TexelFormat::Rg32Uint => Format::Rg32Uint,
        TexelFormat::Rg32Sint => Format::Rg32Sint,
        TexelFormat::Rgba32Float => Format::Rgba32Float,
        TexelFormat::Rgba32Uint => Format::Rgba32Uint,
        TexelFormat::Rgba32Sint => Format::Rgba32Sint,
    }
}

/// An image, as the driver has it.
pub(super) fn lies(image: &Image2d) -> Result<Image, Error> {
    let (width, height) = (image.width(), image.height());
    let made = Image::with_pitch(format(image.format()), width, height, image.pitch());
    // An image of another device, whose rules are others.
    made.map_err(|_| Error::OtherDevice { what: "image" })
}

/// Whether an image is this one.
pub(super) fn is(of: &Image, image: &Image2d) -> bool {
    let sizes = (of.width(), of.height(), of.pitch());
    of.format() == format(image.format()) && sizes == (image.width(), image.height(), image.pitch())
}

const fn wrap(wrap: Wrap) -> image::Wrap {
    match wrap {
        Wrap::Repeat => image::Wrap::Repeat,
        Wrap::MirrorRepeat => image::Wrap::MirrorRepeat,
        Wrap::ClampToEdge => image::Wrap::ClampToEdge,
        Wrap::ClampToBorder => image::Wrap::ClampToBorder,
    }
}

impl Images for Qcom {
    fn rules(&self) -> ImageRules {
        ImageRules {
            pitch_align: ALIGN,
            most_pitch: MAX_PITCH,
            address_align: ALIGN,
            most_side: MAX_SIDE,
        }
    }

    fn sampler(&self, sampling: &Sampling) -> [u8; SAMPLER_BYTES] {
        let [s, t] = sampling.wrap.map(wrap);
        let filter = match sampling.filter {
            Filter::Nearest => image::Filter::Nearest,
            Filter::Linear => image::Filter::Linear,
        };
        let border = match sampling.border {
            BorderColor::TransparentBlack => image::BorderColor::TransparentBlack,
            BorderColor::OpaqueBlack => image::BorderColor::OpaqueBlack,
            BorderColor::OpaqueWhite => image::BorderColor::OpaqueWhite,
        };
        image::Sampler::new([s, t, t], filter, sampling.normalized, border).bytes()
    }

    fn prepared(&self, program: &Prepared, args: &[crate::Arg<'_>]) -> Result<Prepared, Error> {
        let program = own(program).map_err(Error::record("exec"))?;
        let way: Prepared = program.with_images(args)?;
        Ok(way)
    }
}
