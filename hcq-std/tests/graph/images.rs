//! Graphs as images, launched on other machines than they were built on.

use hcq_std::{Arg, BufferRole, Device, Error, GraphBuilder, GraphOptions, Grid, Replay};

use crate::{N, kernels, open};

/// A graph of kernels, copies and a number, on the first device, with a copy to each of the others and back.
fn image(devices: &[Device], add: u32) -> (Vec<u8>, Vec<u32>) {
    let kernels = kernels(&devices[0]);
    let data: Vec<u32> = (0..N as u32).collect();
    let x = devices[0].alloc_from(&data).expect("memory");
    let y = devices[0].alloc::<u32>(N).expect("memory");
    let mut builder = GraphBuilder::new(devices).expect("a builder");
    let number = builder.param(0u32).expect("a number");
    let grid = Grid::new(4, 16);
    let args = [Arg::buffer(&x), 3u32.into(), number.into(), 64u32.into()];
    // SAFETY: the buffers have 64 numbers.
    unsafe { builder.exec(&kernels.step, &args, grid) }.expect("a node");
    let mut there = Vec::new();
    for device in &devices[1..] {
        let other = device.alloc::<u32>(N).expect("memory");
        builder.copy(&*other, &*x).expect("a node");
        builder.copy(&*x, &*other).expect("a node");
        there.push(other);
    }
    let args = [
        Arg::buffer(&x),
        Arg::buffer(&x),
        Arg::buffer(&y),
        64u32.into(),
    ];
    // SAFETY: as above.
    unsafe { builder.exec(&kernels.add, &args, grid) }.expect("a node");
    builder
        .write(&y.view(5..6).expect("a view"), number)
        .expect("a node");
    builder.name_param(number, "add");
    builder
        .describe(&x, "x", BufferRole::Input)
        .and_then(|b| b.describe(&y, "y", BufferRole::Output))
        .expect("described");
    let mut wanted: Vec<u32> = data.iter().map(|v| 2 * (v * 3 + add)).collect();
    wanted[5] = add;
    let image = builder.image(&GraphOptions::default());
    (image.unwrap_or_else(|e| panic!("{e}")), wanted)
}

#[test]
fn images_run_on_other_machines() {
    let open_all =
        |names: &[&str]| -> Vec<Device> { names.iter().map(|n| open(n, None)).collect() };
    for names in [
        &["sim:amd-gfx1100"][..],
        &["sim:amd-gfx1100,aql"],
        &["sim:amd-gfx942"],
        &["sim:amd-gfx942,aql"],
        &["sim:amd-gfx1201", "cpu"],
        &["sim:amd-gfx1100", "sim:amd-gfx942,aql"],
    ] {
        let (image, wanted) = image(&open_all(names), 11);
        let devices = open_all(names);
        // Something is where the buffers were, so that they are elsewhere.
        let elsewhere: Vec<_> = devices.iter().map(|d| d.alloc::<u64>(5000)).collect();
        // SAFETY: made by this test.
        let replay = unsafe { Replay::from_bytes(&image, &devices) };
        let mut replay = replay.unwrap_or_else(|e| panic!("{names:?}: {e}"));
        assert!(replay.launch().is_err(), "a number has no value");
        replay.set("add", 11u32).expect("set");
        assert!(replay.set("add", 11u64).is_err() && replay.set("x", 1u32).is_err());
        let launch = |replay: &mut Replay| {
            let done = replay.launch().and_then(|run| run.wait());
            done.unwrap_or_else(|e| panic!("{names:?}: {e}"));
        };
        launch(&mut replay);
        let y = replay.buffer::<u32>("y").expect("a buffer");
        assert_eq!(y.to_vec().expect("read"), wanted, "{names:?}");
        // Again, with x as the first launch left it.
        let x = replay.buffer::<u32>("x").expect("a buffer");
        let before = x.to_vec().expect("read");
        replay.set("add", 5u32).expect("set");
        launch(&mut replay);
        let mut wanted: Vec<u32> = before.iter().map(|v| 2 * (v * 3 + 5)).collect();
        wanted[5] = 5;
        assert_eq!(y.to_vec().expect("read"), wanted, "{names:?}");
        drop(elsewhere);
    }
}

#[test]
fn images_for_other_devices_and_damaged_ones_are_refused_in_words() {
    let (mut image, _) = image(&[open("sim:amd-gfx1100", None)], 1);
    // SAFETY: made by this test.
    let load = |image: &[u8], name| unsafe { Replay::from_bytes(image, &[open(name, None)]) };
    for (name, parts) in [
        ("sim:amd-gfx1201", ["gfx1100", "gfx1201"]),
        ("sim:amd-gfx1100,aql", ["amd gfx1100 3", "amd gfx1100 4"]),
        ("cpu", ["amd gfx1100", "cpu x86_64"]),
    ] {
        let e = load(&image, name).expect_err("another device").to_string();
        assert!(parts.iter().all(|p| e.contains(p)), "{e}");
    }
    let e = load(&image[..image.len() - 64], "sim:amd-gfx1100").expect_err("truncated");
    assert!(matches!(e, Error::Stored { .. }), "{e}");
    image[400] ^= 1;
    let e = load(&image, "sim:amd-gfx1100").expect_err("damaged");
    assert!(e.to_string().contains("checksum"), "{e}");
}
