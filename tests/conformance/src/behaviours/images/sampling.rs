//! What samplers make of textures.

use hcq_std::TexelFormat as F;
use hcq_std::{Arg, BorderColor, Device, Filter, Image2d, Sampling, Wrap};

use super::run;
use super::texels::{FLOATS, colors, grid, near, paint, texels};
use crate::check::bytes;
use crate::kinds::ImageKernel as K;
use crate::{Context, Failure};

/// What a sampler makes of an image along a row of places: four floats for each.
fn along(
    cx: &Context,
    image: &Image2d,
    memory: &[u8],
    sampling: &Sampling,
    (start, step): ([f32; 2], [f32; 2]),
    count: u32,
) -> Result<Vec<f32>, Failure> {
    let device = cx.device();
    let (kernel, sampler) = (cx.image_kernel(K::Sample)?, device.sampler(sampling)?);
    let texels = device.alloc_from(memory)?;
    let out = device.alloc_from(&vec![-7.0f32; 4 * count as usize])?;
    let args = [
        Arg::image(&texels, image)?,
        Arg::sampler(&sampler),
        Arg::from(&out),
        count.into(),
        1u32.into(),
        start[0].into(),
        start[1].into(),
        step[0].into(),
        step[1].into(),
    ];
    run(device, &kernel, &args, grid(count, 1))?;
    Ok(out.to_vec()?)
}

/// An image whose texel in a column and row is `16 * row + column`, in all components.
fn numbered(device: &Device, width: u32, height: u32) -> Result<(Image2d, Vec<u8>), Failure> {
    let image = device.image2d(F::Rgba32Float, width, height)?;
    let mut memory = bytes(80, image.bytes());
    for (x, y) in texels(&image) {
        let component = ((16 * y + x) as f32).to_le_bytes();
        memory[image.offset_of(x, y)..][..16].copy_from_slice(&component.repeat(4));
    }
    Ok((image, memory))
}

/// Each number four times.
fn fourfold(numbers: &[f32]) -> Vec<f32> {
    numbers.iter().flat_map(|&n| [n; 4]).collect()
}

pub(super) fn nearest(cx: &mut Context) -> Result<(), Failure> {
    let (image, memory) = numbered(cx.device(), 6, 5)?;
    let sampling = Sampling::default();
    // Columns from -1.75 to 7.25, in row 2; then rows from -1.75 to 5.75, in column 3.
    let places = ([-1.75, 2.5], [0.75, 0.0]);
    let seen = along(cx, &image, &memory, &sampling, places, 13)?;
    let columns = [
        0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 2.0, 3.0, 4.0, 5.0, 5.0, 5.0, 5.0,
    ];
    near(
        "columns",
        &seen,
        &fourfold(&columns.map(|column| 32.0 + column)),
    )?;
    let places = ([3.25, -1.75], [0.0, 0.75]);
    let seen = along(cx, &image, &memory, &sampling, places, 1)?;
    near("a row above", &seen, &fourfold(&[3.0]))?;
    for (y, row) in [
        (0.25, 0.0),
        (3.75, 3.0),
        (4.75, 4.0),
        (5.75, 4.0),
        (80.0, 4.0),
    ] {
        let places = ([3.25, y], [0.0, 0.0]);
        let seen = along(cx, &image, &memory, &sampling, places, 1)?;
        near("a row", &seen, &fourfold(&[16.0 * row + 3.0]))?;
    }
    Ok(())
}

pub(super) fn border(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    for (border, color, alpha) in [
        (BorderColor::TransparentBlack, 0.0, 0.0),
        (BorderColor::OpaqueBlack, 0.0, 1.0),
        (BorderColor::OpaqueWhite, 1.0, 1.0),
    ] {
        for (format, stored) in FLOATS {
            if format.components() != 4 {
                continue;
            }
            let image = device.image2d(format, 3, 2)?;
            let mut memory = bytes(81, image.bytes());
            paint(&image, stored, 82, &mut memory);
            let sampling = Sampling {
                wrap: [Wrap::ClampToBorder, Wrap::ClampToEdge],
                border,
                ..Sampling::default()
            };
            let inside = colors(&image, stored, 82);
            let outside = [color, color, color, alpha];
            let what = format!("{format}, {border:?}");
            // In the second row, two texels to the left and to the right.
            let places = ([-1.5, 1.5], [1.0, 0.0]);
            let seen = along(cx, &image, &memory, &sampling, places, 7)?;
            let wanted = [&outside, &outside, &inside[12..], &outside, &outside].concat();
            near(&what, &seen, &wanted)?;
            // Above and below the last one of a row goes on; with borders there, too, it does not.
            let above = ([0.5, -0.5], [1.0, 0.0]);
            let seen = along(cx, &image, &memory, &sampling, above, 3)?;
            near(&format!("{what}, above"), &seen, &inside[..12])?;
            let all_around = Sampling {
                wrap: [Wrap::ClampToBorder; 2],
                ..sampling
            };
            let seen = along(cx, &image, &memory, &all_around, above, 3)?;
            near(&format!("{what}, all around"), &seen, &outside.repeat(3))?;
        }
    }
    Ok(())
}

pub(super) fn wrapped(cx: &mut Context) -> Result<(), Failure> {
    let (image, memory) = numbered(cx.device(), 4, 2)?;
    let sampling = |wrap| Sampling {
        wrap: [wrap; 2],
        normalized: true,
        ..Sampling::default()
    };
    // Middles of columns from -3 to 7; row 2 is row 0 again, or row 1 mirrored.
    let places = ([-0.625, 1.25], [0.25, 0.0]);
    for (wrap, wanted) in [
        (
            Wrap::Repeat,
            [1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0, 0.0, 1.0, 2.0, 3.0],
        ),
        (
            Wrap::MirrorRepeat,
            [
                18.0, 17.0, 16.0, 16.0, 17.0, 18.0, 19.0, 19.0, 18.0, 17.0, 16.0,
            ],
        ),
        (
            Wrap::ClampToEdge,
            [
                16.0, 16.0, 16.0, 16.0, 17.0, 18.0, 19.0, 19.0, 19.0, 19.0, 19.0,
            ],
        ),
        (Wrap::ClampToBorder, [0.0; 11]),
    ] {
        let seen = along(cx, &image, &memory, &sampling(wrap), places, 11)?;
        near(&format!("{wrap:?}"), &seen, &fourfold(&wanted))?;
    }
    Ok(())
}

pub(super) fn linear(cx: &mut Context) -> Result<(), Failure> {
    let (image, memory) = numbered(cx.device(), 4, 3)?;
    let sampling = Sampling {
        filter: Filter::Linear,
        ..Sampling::default()
    };
    // Halfway between rows 0 and 1, at every quarter of a column.
    let places = ([0.5, 1.0], [0.25, 0.0]);
    let seen = along(cx, &image, &memory, &sampling, places, 13)?;
    let wanted: Vec<f32> = (0..13u8).map(|n| 8.0 + f32::from(n) / 4.0).collect();
    near("between texels", &seen, &fourfold(&wanted))?;
    // At the middles there is nothing between, and outside there is the last one.
    let places = ([-0.5, 2.5], [1.0, 0.0]);
    let seen = along(cx, &image, &memory, &sampling, places, 6)?;
    let wanted = [32.0, 32.0, 33.0, 34.0, 35.0, 35.0];
    near("at their middles", &seen, &fourfold(&wanted))?;
    // Half of it is the border's.
    let with_border = Sampling {
        wrap: [Wrap::ClampToBorder; 2],
        border: BorderColor::OpaqueWhite,
        ..sampling
    };
    let places = ([0.0, 1.5], [4.0, 0.0]);
    let seen = along(cx, &image, &memory, &with_border, places, 2)?;
    near("at the border", &seen, &fourfold(&[8.5, 10.0]))
}
