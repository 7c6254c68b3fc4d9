//! Images and samplers as arguments of kernels.
#![allow(unsafe_code, reason = "launches kernels")]

mod sampling;
mod texels;

use hcq_std::TexelFormat as F;
use hcq_std::{
    Arg, Device, Error, GraphBuilder, GraphOptions, Grid, Image2d, Kernel, Sampling, Value, Wrap,
};

use self::texels::{FLOATS, Stored, colors, grid, near, paint, texels};
use crate::check::{bulk, bytes, each, ensure, refused, says};
use crate::kinds::ImageKernel as K;
use crate::{Behaviour, Context, Failure, Needs};

/// The theme's behaviours.
pub static LIST: &[Behaviour] = &[
    Behaviour {
        name: "images.read",
        what: "texels of every format of floats and fractions are read, and what a format lacks is 0, and 1 for alpha",
        needs: Needs::COMPUTE.images(&[K::Read]),
        run: read,
    },
    Behaviour {
        name: "images.write",
        what: "texels of every format of floats and fractions are stored, and nothing between and around the rows",
        needs: Needs::COMPUTE.images(&[K::Write]),
        run: write,
    },
    Behaviour {
        name: "images.whole-numbers",
        what: "unsigned numbers of 8, 16 and 32 bits go from a texture to an image of more bits",
        needs: Needs::COMPUTE.images(&[K::CopyUint]),
        run: whole_numbers,
    },
    Behaviour {
        name: "images.round-trip",
        what: "bytes copied into an image, through a kernel into another, and copied out are the same bytes",
        needs: Needs::BOTH.images(&[K::Copy]),
        run: round_trip,
    },
    Behaviour {
        name: "images.parts",
        what: "a part of an image is an image: from there to there, and no texel around it",
        needs: Needs::COMPUTE.images(&[K::Copy]),
        run: parts,
    },
    Behaviour {
        name: "images.nearest",
        what: "the texel that a coordinate is in is read, and the last one outside",
        needs: Needs::COMPUTE.images(&[K::Sample]),
        run: sampling::nearest,
    },
    Behaviour {
        name: "images.border",
        what: "outside of an image its border's colour is read, in each colour and width of components",
        needs: Needs::COMPUTE.images(&[K::Sample]),
        run: sampling::border,
    },
    Behaviour {
        name: "images.wrapped",
        what: "coordinates from 0 to 1 go over the image, and on over it again or its mirror image",
        needs: Needs::COMPUTE.images(&[K::Sample]),
        run: sampling::wrapped,
    },
    Behaviour {
        name: "images.linear",
        what: "between the middles of texels there is what is between them",
        needs: Needs::COMPUTE.images(&[K::Sample]),
        run: sampling::linear,
    },
    Behaviour {
        name: "images.bound",
        what: "a bound queue reads the image whose address was set, and none that no image can be at",
        needs: Needs::COMPUTE.images(&[K::Read]),
        run: bound,
    },
    Behaviour {
        name: "images.in-graph",
        what: "a graph orders what touches an image's bytes, and takes another image at each launch",
        needs: Needs::BOTH.images(&[K::Copy, K::Read]),
        run: in_graph,
    },
    Behaviour {
        name: "images.refused",
        what: "wrong kinds, formats, sizes and places are refused with numbers, and record nothing",
        needs: Needs::COMPUTE.images(&K::ALL),
        run: refused_arguments,
    },
];

/// Runs a kernel and waits for it.
fn run(device: &Device, kernel: &Kernel, args: &[Arg<'_>], grid: Grid) -> Result<(), Failure> {
    let mut commands = device.compute_queue(0)?.record();
    // SAFETY: callers give images and buffers that hold all texels of the grid.
    unsafe { commands.exec(kernel, args, grid) }?;
    Ok(commands.submit()?.wait()?)
}

/// The first texel is so many bytes behind the beginning of a buffer, and as many are behind the last.
const GUARD: usize = 192;

/// A buffer that has an image inside.
fn room(image: &Image2d) -> usize {
    image.bytes() + 2 * GUARD
}

fn read(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.image_kernel(K::Read)?;
    for (seed, (format, stored)) in (1..).zip(FLOATS) {
        // Rows as close as they can be, and further apart.
        let close = device.image2d(format, 13, 7)?;
        for pitch in [close.pitch(), close.pitch() + 192] {
            let image = device.image2d_with_pitch(format, 13, 7, pitch)?;
            let mut memory = bytes(100 + seed, room(&image));
            paint(&image, stored, seed, &mut memory[GUARD..]);
            let from = device.alloc_from(&memory)?;
            let out = device.alloc_from(&vec![-7.0f32; 13 * 7 * 4 + 4])?;
            let place = from.view(GUARD..)?;
            let args = [
                Arg::image(&place, &image)?,
                Arg::from(&out),
                13u32.into(),
                7u32.into(),
            ];
            run(device, &kernel, &args, grid(13, 7))?;
            let mut wanted = colors(&image, stored, seed);
            wanted.extend([-7.0; 4]);
            near(
                &format!("{format}, rows of {pitch} bytes"),
                &out.to_vec()?,
                &wanted,
            )?;
            bulk("the image", &from.to_vec()?, &memory)?;
        }
    }
    Ok(())
}

fn write(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.image_kernel(K::Write)?;
    for (seed, (format, stored)) in (20..).zip(FLOATS) {
        let close = device.image2d(format, 11, 6)?;
        let image = device.image2d_with_pitch(format, 11, 6, close.pitch() + 128)?;
        let mut wanted = bytes(100 + seed, room(&image));
        let to = device.alloc_from(&wanted)?;
        let from = device.alloc_from(&colors(&image, stored, seed))?;
        let place = to.view(GUARD..)?;
        let args = [
            Arg::from(&from),
            Arg::image(&place, &image)?,
            11u32.into(),
            6u32.into(),
        ];
        run(device, &kernel, &args, grid(11, 6))?;
        paint(&image, stored, seed, &mut wanted[GUARD..]);
        bulk(&format!("{format}"), &to.to_vec()?, &wanted)?;
    }
    Ok(())
}

fn whole_numbers(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.image_kernel(K::CopyUint)?;
    let (width, height) = (9, 5);
    for (seed, format) in (40..).zip([
        F::R8Uint,
        F::Rg8Uint,
        F::Rgba8Uint,
        F::R16Uint,
        F::Rg16Uint,
        F::Rgba16Uint,
        F::R32Uint,
        F::Rg32Uint,
        F::Rgba32Uint,
    ]) {
        let image = device.image2d(format, width, height)?;
        let wide = device.image2d(F::Rgba32Uint, width, height)?;
        let memory = bytes(seed, image.bytes());
        let from = device.alloc_from(&memory)?;
        let to = device.alloc_from(&bytes(99, wide.bytes()))?;
        let args = [
            Arg::image(&from, &image)?,
            Arg::image(&to, &wide)?,
            width.into(),
            height.into(),
        ];
        run(device, &kernel, &args, grid(width, height))?;
        let mut wanted = bytes(99, wide.bytes());
        let (components, size) = (format.components(), format.component_bytes() as usize);
        for (x, y) in texels(&image) {
            for c in 0..4 {
                let mut word = [0; 4];
                if c < components {
                    let at = image.offset_of(x, y) + c as usize * size;
                    word[..size].copy_from_slice(&memory[at..at + size]);
                } else if c == 3 {
                    word[0] = 1;
                }
                wanted[wide.offset_of(x, y) + 4 * c as usize..][..4].copy_from_slice(&word);
            }
        }
        bulk(&format!("{format}"), &to.to_vec()?, &wanted)?;
    }
    Ok(())
}

fn round_trip(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.image_kernel(K::Copy)?;
    let (width, height) = (37, 21);
    // All bytes are texels of these: fractions without a sign.
    for (seed, format) in (60..).zip([F::Rgba8Unorm, F::Rgba16Unorm, F::R8Unorm, F::R16Unorm]) {
        let image = device.image2d(format, width, height)?;
        let len = image.bytes();
        let (source, back) = (
            device.alloc_from(&bytes(seed, len))?,
            device.alloc_from(&bytes(90, len))?,
        );
        let (one, two) = (
            device.alloc_from(&bytes(91, len))?,
            device.alloc_from(&bytes(92, len))?,
        );
        let copies = device.copy_queue(0)?;
        let there = copies.record().copy(&one, &source)?.submit()?;
        let mut commands = device.compute_queue(0)?.record();
        commands.after(&there)?;
        let args = [
            Arg::image(&one, &image)?,
            Arg::image(&two, &image)?,
            width.into(),
            height.into(),
        ];
        // SAFETY: both images have so many texels.
        unsafe { commands.exec(&kernel, &args, grid(width, height)) }?;
        let copied = commands.submit()?;
        let mut commands = copies.record();
        commands.after(&copied)?;
        commands.copy(&back, &two)?.submit()?.wait()?;
        let mut wanted = bytes(92, len);
        let row = (width * format.bytes()) as usize;
        for y in 0..height {
            let at = image.offset_of(0, y);
            wanted[at..at + row].copy_from_slice(&bytes(seed, len)[at..at + row]);
        }
        bulk(&format!("{format}"), &back.to_vec()?, &wanted)?;
    }
    Ok(())
}

fn parts(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.image_kernel(K::Copy)?;
    let whole = device.image2d(F::Rgba8Unorm, 96, 24)?;
    let part = device.image2d_with_pitch(F::Rgba8Unorm, 19, 9, whole.pitch())?;
    let memory = bytes(70, whole.bytes());
    let texels_of = device.alloc_from(&memory)?;
    // Within one image, side by side: from column 16, row 3 to column 48, row 8.
    let (from, to) = (whole.offset_of(16, 3), whole.offset_of(48, 8));
    let (source, destination) = (texels_of.view(from..)?, texels_of.view(to..)?);
    let args = [
        Arg::image(&source, &part)?,
        Arg::image(&destination, &part)?,
        32u32.into(),
        16u32.into(),
    ];
    // The grid is larger than the part: stores outside are lost.
    run(device, &kernel, &args, grid(32, 16))?;
    let mut wanted = memory.clone();
    for y in 0..9 {
        let (from, to) = (from + part.offset_of(0, y), to + part.offset_of(0, y));
        wanted[to..to + 4 * 19].copy_from_slice(&memory[from..from + 4 * 19]);
    }
    bulk("the image", &texels_of.to_vec()?, &wanted)
}

/// Buffers with an image each, and their texels as kernels have them.
struct Pictures {
    image: Image2d,
    buffers: Vec<hcq_std::Buffer<u8>>,
    colors: Vec<Vec<f32>>,
}

impl Pictures {
    fn new(device: &Device, count: u64) -> Result<Self, Failure> {
        let image = device.image2d(F::Rgba8Unorm, 20, 10)?;
        let (mut buffers, mut all) = (Vec::new(), Vec::new());
        for seed in 0..count {
            let mut memory = bytes(200 + seed, image.bytes() + 64);
            paint(&image, Stored::Unorm8, seed, &mut memory);
            buffers.push(device.alloc_from(&memory)?);
            all.push(colors(&image, Stored::Unorm8, seed));
        }
        Ok(Self {
            image,
            buffers,
            colors: all,
        })
    }
}

fn bound(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let kernel = cx.image_kernel(K::Read)?;
    let all = Pictures::new(device, 3)?;
    let out = device.alloc_from(&vec![-7.0f32; 20 * 10 * 4])?;
    let mut commands = device.compute_queue(0)?.record();
    let address = commands.var()?;
    let args = [
        Arg::image_at(address, &all.image),
        Arg::from(&out),
        20u32.into(),
        10u32.into(),
    ];
    // SAFETY: `out` has all texels; the addresses set are those of whole images.
    unsafe { commands.exec(&kernel, &args, grid(20, 10)) }?;
    let mut bound = commands.bind()?;
    refused("a launch without an address", bound.submit(), |e| {
        matches!(e, Error::Patch(_))
    })?;
    for turn in [0, 1, 2, 1, 1, 0] {
        bound.set(address, all.buffers[turn].address())?;
        bound.submit()?.wait()?;
        near(&format!("image {turn}"), &out.to_vec()?, &all.colors[turn])?;
        // Between the places where images can be.
        let align = u64::from(all.image.address_align());
        ensure!(align > 1, "images are at all addresses");
        bound.set(address, all.buffers[2].address() + align / 2)?;
        refused("a crooked address", bound.submit(), |e| {
            matches!(e, Error::Patch(_))
        })?;
        near("after it", &out.to_vec()?, &all.colors[turn])?;
    }
    Ok(())
}

fn in_graph(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let (copy, read) = (cx.image_kernel(K::Copy)?, cx.image_kernel(K::Read)?);
    let all = Pictures::new(device, 3)?;
    let image = all.image;
    let len = image.bytes();
    let other = device.alloc_from(&bytes(83, len))?;
    let (out, back) = (
        device.alloc_from(&vec![-7.0f32; 20 * 10 * 4])?,
        device.alloc_from(&bytes(84, len))?,
    );
    let pool = device.alloc_from(&bytes(85, len + 128))?;
    let mut builder = GraphBuilder::new([device])?;
    let first = all.buffers[0].view(..len)?;
    let input = builder.input(&first)?;
    let sizes: [Arg<'_>; 2] = [20u32.into(), 10u32.into()];
    // The input's texels into another image, which is then read as a texture, and copied out.
    let args = [input.image(&image)?, Arg::image(&other, &image)?];
    // SAFETY: both images have so many texels.
    unsafe { builder.exec(&copy, &[args, sizes].concat(), grid(20, 10)) }?;
    let args = [Arg::image(&other, &image)?, Arg::from(&out)];
    // SAFETY: as above; `out` has four floats for each.
    unsafe { builder.exec(&read, &[args, sizes].concat(), grid(20, 10)) }?;
    builder.copy(&back, &other)?;
    // And its first texels are replaced after all that.
    let patch = device.alloc_from(&[0xa5u8; 64])?;
    builder.copy(&other.view(..64)?, &patch)?;
    let mut graph = builder.build(&GraphOptions::default())?;
    let plan = graph.explain();
    says(&plan, &["read after write", "write after read"])?;
    let row = (image.width() * image.format().bytes()) as usize;
    // What is between the rows stays as it was, but where bytes were copied over it.
    let mut memory = bytes(83, len);
    let mut round = |graph: &mut hcq_std::Graph, turn: usize| -> Result<(), Failure> {
        graph.launch()?.wait()?;
        near(
            &format!("texels of launch {turn}"),
            &out.to_vec()?,
            &all.colors[turn],
        )?;
        let from = all.buffers[turn].to_vec()?;
        for y in 0..image.height() {
            let at = image.offset_of(0, y);
            memory[at..at + row].copy_from_slice(&from[at..at + row]);
        }
        bulk("the copy", &back.to_vec()?, &memory)?;
        memory[..64].fill(0xa5);
        bulk("the image behind it", &other.to_vec()?, &memory)
    };
    round(&mut graph, 0)?;
    for turn in [1, 2, 0, 0, 2] {
        graph.set_input(input, &all.buffers[turn].view(..len)?)?;
        round(&mut graph, turn)?;
        graph.set_input(input, &pool.view(32..32 + len)?)?;
        refused("an input that no image is at", graph.launch(), |e| {
            matches!(e, Error::Launch(_))
        })?;
        graph.set_input(input, &all.buffers[turn].view(..len)?)?;
        round(&mut graph, turn)?;
    }
    Ok(())
}

fn refused_arguments(cx: &mut Context) -> Result<(), Failure> {
    let device = cx.device();
    let (read, sample) = (cx.image_kernel(K::Read)?, cx.image_kernel(K::Sample)?);
    let copy_uint = cx.image_kernel(K::CopyUint)?;
    let rules = device
        .image_rules()
        .ok_or_else(|| Failure::new("no rules for images"))?;
    let image = device.image2d(F::Rgba8Unorm, 8, 4)?;
    let whole = device.image2d(F::Rgba8Uint, 8, 4)?;
    let texels = device.alloc_from(&bytes(86, image.bytes() + 64))?;
    let out = device.alloc_from(&vec![-7.0f32; 8 * 4 * 4])?;
    let sampler = device.sampler(&Sampling::default())?;
    let (picture, numbers) = (Arg::image(&texels, &image)?, Arg::image(&texels, &whole)?);
    let (eight, four): (Arg<'_>, Arg<'_>) = (8u32.into(), 4u32.into());
    let (buffer, floats) = (Arg::from(&texels), Arg::from(&out));
    let by = Arg::sampler(&sampler);
    let zero: Arg<'_> = 0.0f32.into();
    let mut commands = device.compute_queue(0)?.record();
    for (kernel, args, index, words) in [
        (&read, vec![buffer, floats, eight, four], 0, "a buffer"),
        (&read, vec![numbers, floats, eight, four], 0, "rgba8uint"),
        (&read, vec![by, floats, eight, four], 0, "bytes"),
        (&read, vec![picture, picture, eight, four], 1, "rgba8unorm"),
        (&read, vec![picture, floats, picture, four], 2, "rgba8unorm"),
        (
            &copy_uint,
            vec![picture, numbers, eight, four],
            0,
            "rgba8unorm",
        ),
        (
            &copy_uint,
            vec![numbers, picture, eight, four],
            1,
            "rgba8unorm",
        ),
        (
            &copy_uint,
            vec![numbers, floats, eight, four],
            1,
            "a buffer",
        ),
        (
            &sample,
            vec![
                picture, picture, floats, eight, four, zero, zero, zero, zero,
            ],
            1,
            "rgba8unorm",
        ),
    ] {
        let what = format!("{words} for argument {index} of `{}`", kernel.name());
        // SAFETY: it is refused; otherwise the behaviour fails.
        let result = unsafe { commands.exec(kernel, &args, grid(8, 4)) };
        let e = refused(
            &what,
            result,
            |e| matches!(e, Error::Argument { index: at, .. } if *at == index),
        )?;
        says(&e.to_string(), &[words])?;
    }
    // SAFETY: as above.
    let result = unsafe { commands.exec(&read, &[picture, floats, eight], grid(8, 4)) };
    let e = refused("an argument too few", result, |e| {
        matches!(e, Error::ArgumentCount { .. })
    })?;
    says(&e.to_string(), &["texture float in", "4", "3"])?;
    // An address that no image is at, known when it is recorded.
    let crooked = Value::from(texels.address() + u64::from(rules.address_align / 2));
    let args = [Arg::image_at(crooked, &image), floats, eight, four];
    // SAFETY: as above.
    let result = unsafe { commands.exec(&read, &args, grid(8, 4)) };
    refused("a crooked address", result, |e| {
        matches!(e, Error::Record { .. })
    })?;
    // Nothing of all that was recorded.
    commands.submit()?.wait()?;
    each("what nobody wrote", &out.to_vec()?, |_| -7.0)?;

    // Images that there are not, and places where none is.
    let numbers = |e: &Error| matches!(e, Error::Image2d { .. });
    let most = rules.most_side + 1;
    for (what, result) in [
        ("no columns", device.image2d(F::R8Uint, 0, 4)),
        ("no rows", device.image2d(F::R8Uint, 4, 0)),
        ("too many columns", device.image2d(F::R8Uint, most, 4)),
        ("too many rows", device.image2d(F::R8Uint, 4, most)),
        (
            "rows over each other",
            device.image2d_with_pitch(F::Rgba32Float, 100, 4, rules.pitch_align),
        ),
        (
            "crooked rows",
            device.image2d_with_pitch(F::R8Uint, 4, 4, rules.pitch_align + 4),
        ),
        (
            "rows too far apart",
            device.image2d_with_pitch(F::R8Uint, 4, 4, rules.most_pitch + rules.pitch_align),
        ),
    ] {
        refused(what, result, numbers)?;
    }
    let short = texels.view(..image.bytes() - 1)?;
    let e = refused("a buffer too short", Arg::image(&short, &image), numbers)?;
    let (have, need) = (image.bytes() - 1, image.bytes());
    says(&e.to_string(), &[&have.to_string(), &need.to_string()])?;
    let crooked = texels.view(rules.address_align as usize / 2..)?;
    refused("a crooked view", Arg::image(&crooked, &image), numbers)?;
    let repeats = Sampling {
        wrap: [Wrap::Repeat; 2],
        ..Sampling::default()
    };
    refused("texels that repeat", device.sampler(&repeats), |e| {
        matches!(e, Error::Sampling { .. })
    })?;
    Ok(())
}
