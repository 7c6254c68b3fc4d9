//! Images given to programs whose files do not say what texels they want, and what the memory around a launch makes of them.
#![cfg(feature = "sim")]
#![allow(missing_docs)]
#![allow(unsafe_code, reason = "launches kernels")]

use hcq_std::{
    Arg, BorderColor, BufferRole, Device, Error, GraphBuilder, GraphOptions, Grid, Kernel, Replay,
    Sampling, TexelFormat, Wrap,
};

const COPY: &[u8] = include_bytes!("../../tests/conformance/kernels/qcom/cl/copy_image.bin");
const READ: &[u8] = include_bytes!("../../tests/conformance/kernels/qcom/cl/read_image.bin");

/// The only program of a container.
fn kernel(device: &Device, container: &[u8]) -> Result<Kernel, Error> {
    let module = device.load_program(container)?;
    let name = module.kernels().first().cloned().unwrap_or_default();
    module.kernel(&name)
}

fn run(device: &Device, kernel: &Kernel, args: &[Arg<'_>]) -> Result<(), Error> {
    let mut commands = device.compute_queue(0)?.record();
    // SAFETY: all texels of 8 by 4 are in the images and buffers given.
    unsafe { commands.exec(kernel, args, Grid::new([1, 1, 1], [8, 4, 1])) }?;
    commands.submit()?.wait()
}

#[test]
fn containers_take_images_of_any_texels() -> Result<(), Error> {
    let device = Device::open("sim:qcom-a630")?;
    let (copy, read) = (kernel(&device, COPY)?, kernel(&device, READ)?);
    assert!(copy.arguments().is_none());
    let floats = device.image2d(TexelFormat::Rgba32Float, 8, 4)?;
    let bytes = device.image2d(TexelFormat::Rgba8Unorm, 8, 4)?;
    let numbers: Vec<f32> = (0..8 * 4 * 4u8).map(|n| f32::from(n) / 255.0).collect();
    let from = device.alloc_from(&numbers)?;
    let to = device.alloc::<u8>(bytes.bytes())?;
    let out = device.alloc::<f32>(numbers.len())?;
    let sizes: [Arg<'_>; 2] = [8u32.into(), 4u32.into()];
    // The container says which of them is written, and nothing of texels: each launch may have others.
    let images = [Arg::image(&from, &floats)?, Arg::image(&to, &bytes)?];
    run(&device, &copy, &[images, sizes].concat())?;
    let stored = to.to_vec()?;
    for n in 0..8 * 4 * 4usize {
        let (row, column) = (n / 32, n % 32);
        assert_eq!(stored[row * bytes.pitch() as usize + column], n as u8);
    }
    for (image, buffer) in [
        (&bytes, Arg::image(&to, &bytes)?),
        (&floats, Arg::image(&from, &floats)?),
    ] {
        out.write(&vec![0.0; numbers.len()])?;
        run(&device, &read, &[[buffer, Arg::from(&out)], sizes].concat())?;
        assert_eq!(out.to_vec()?, numbers, "{image:?}");
    }
    Ok(())
}

#[test]
fn containers_know_where_images_belong() -> Result<(), Error> {
    let device = Device::open("sim:qcom-a650")?;
    let read = kernel(&device, READ)?;
    let image = device.image2d(TexelFormat::Rgba32Float, 8, 4)?;
    let (from, out) = (
        device.alloc::<f32>(8 * 4 * 4)?,
        device.alloc_from(&[-7.0f32; 8 * 4 * 4])?,
    );
    let picture = Arg::image(&from, &image)?;
    let sizes: [Arg<'_>; 2] = [8u32.into(), 4u32.into()];
    for args in [
        [picture, picture],
        [Arg::from(&from), Arg::from(&out)],
        [Arg::from(&out), picture],
    ] {
        let result = run(&device, &read, &[args, sizes].concat());
        assert!(
            matches!(&result, Err(Error::Program { .. } | Error::Record { .. })),
            "{result:?}"
        );
    }
    assert_eq!(out.to_vec()?, [-7.0; 8 * 4 * 4]);
    // All that is wrong has left the program as it was.
    run(
        &device,
        &read,
        &[[picture, Arg::from(&out)], sizes].concat(),
    )?;
    assert_eq!(out.to_vec()?, [0.0; 8 * 4 * 4]);
    Ok(())
}

/// Images of one buffer that share no byte are not waited for, and those that do are.
#[test]
fn a_graph_knows_the_bytes_of_images() -> Result<(), Error> {
    let device = Device::open("sim:qcom-a660")?;
    let bundle = include_bytes!("../../tests/conformance/kernels/qcom/stock-a660.ir3");
    let copy = device.load_program(bundle)?.kernel("copy_image")?;
    let image = device.image2d(TexelFormat::Rgba8Unorm, 8, 4)?;
    let room = image.bytes().next_multiple_of(64);
    let all = device.alloc_from(&vec![0x11u8; 3 * room])?;
    let (bytes, sizes): (_, [Arg<'_>; 2]) = (device.alloc::<u8>(64)?, [8u32.into(), 4u32.into()]);
    let places = [all.view(..room)?, all.view(room..)?];
    let images = [
        Arg::image(&places[0], &image)?,
        Arg::image(&places[1], &image)?,
    ];
    for (start, waits) in [(0, true), (room, true), (2 * room, false)] {
        let mut builder = GraphBuilder::new([&device])?;
        // SAFETY: both images are whole.
        unsafe {
            builder.exec(
                &copy,
                &[images, sizes].concat(),
                Grid::new([1, 1, 1], [8, 4, 1]),
            )
        }?;
        // Behind the last texel nothing is touched, though the next row would begin there.
        builder.copy(&all.view(start..start + 64)?, &bytes)?;
        let mut graph = builder.build(&GraphOptions::default())?;
        let plan = graph.explain();
        assert_eq!(plan.contains(" after "), waits, "{start}: {plan}");
        graph.launch()?.wait()?;
    }
    Ok(())
}

#[test]
fn images_are_stored_with_a_graph_and_descriptors_are_not() -> Result<(), Error> {
    let device = Device::open("sim:qcom-a650")?;
    let bundle = include_bytes!("../../tests/conformance/kernels/qcom/stock-a650.ir3");
    let module = device.load_program(bundle)?;
    let (copy, sample) = (module.kernel("copy_image")?, module.kernel("sample_image")?);
    let floats = device.image2d(TexelFormat::Rgba32Float, 8, 4)?;
    let halves = device.image2d(TexelFormat::Rgba16Float, 8, 4)?;
    let numbers: Vec<f32> = (0..8 * 4 * 4u8).map(f32::from).collect();
    let from = device.alloc_from(&numbers)?;
    let between = device.alloc::<u8>(halves.bytes())?;
    let out = device.alloc::<f32>(numbers.len())?;
    let sampler = device.sampler(&Sampling {
        wrap: [Wrap::ClampToBorder; 2],
        border: BorderColor::OpaqueWhite,
        ..Sampling::default()
    })?;
    let sizes: [Arg<'_>; 2] = [8u32.into(), 4u32.into()];
    let images = [Arg::image(&from, &floats)?, Arg::image(&between, &halves)?];
    let grid = Grid::new([1, 1, 1], [8, 4, 1]);
    let start = |builder: &mut GraphBuilder| -> Result<(), Error> {
        // SAFETY: both images are whole.
        unsafe { builder.exec(&copy, &[images, sizes].concat(), grid) }?;
        let read = [
            Arg::image(&between, &halves)?,
            Arg::sampler(&sampler),
            Arg::from(&out),
        ];
        // From a row above the first one on.
        let places = [0.5f32, -0.5, 1.0, 1.0].map(Arg::from);
        let args = [&read[..], &sizes[..], &places[..]].concat();
        // SAFETY: as above.
        unsafe { builder.exec(&sample, &args, grid) }?;
        Ok(())
    };
    let mut builder = GraphBuilder::new([&device])?;
    start(&mut builder)?;
    builder
        .describe(&from, "from", BufferRole::Input)?
        .describe(&out, "out", BufferRole::Output)?;
    let stored = builder.image(&GraphOptions::default())?;

    // Elsewhere nothing lies where it lay: something else is there first.
    let other = Device::open("sim:qcom-a650,seed=11")?;
    let _first = (other.alloc::<u8>(12345)?, other.load_program(bundle)?);
    // SAFETY: its programs and its graph are those above.
    let mut replay = unsafe { Replay::from_bytes(&stored, &[other]) }?;
    let mut wanted = vec![1.0f32; 32];
    wanted.extend(&numbers[..96]);
    for add in [0.0, 100.0] {
        let moved: Vec<f32> = numbers.iter().map(|n| n + add).collect();
        replay.buffer::<f32>("from")?.write(&moved)?;
        replay.launch()?.wait()?;
        let seen = replay.buffer::<f32>("out")?.to_vec()?;
        assert_eq!(seen[..32], wanted[..32]);
        let inside: Vec<f32> = wanted[32..].iter().map(|n| n + add).collect();
        assert_eq!(seen[32..], inside);
    }

    // A descriptor made by hand has an address in it, which is of this machine.
    let mut builder = GraphBuilder::new([&device])?;
    let args = [Arg::bytes(&[0; 64]), Arg::image(&between, &halves)?];
    // SAFETY: it is not launched.
    unsafe { builder.exec(&copy, &[args, sizes].concat(), grid) }?;
    let error = builder.image(&GraphOptions::default()).expect_err("stored");
    let words = "argument 0 is an image's descriptor";
    assert!(error.to_string().contains(words), "{error}");
    Ok(())
}
