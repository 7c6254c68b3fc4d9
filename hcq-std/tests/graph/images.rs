//! Graphs as images, launched on other machines than they were built on.

use hcq_std::{Arg, BufferRole, Device, Error, GraphBuilder, GraphOptions, Grid, Replay, sim};

use crate::{Kernels, N, kernels, open};

/// What the graph makes of `x`, and then of `y`.
fn model(x: &mut [u32], add: u32, groups: usize) -> Vec<u32> {
    for v in &mut *x {
        *v = v.wrapping_mul(3).wrapping_add(add);
    }
    for v in &mut x[..16 * groups] {
        *v = v.wrapping_mul(5).wrapping_add(add);
    }
    let mut y: Vec<u32> = x.iter().map(|v| v.wrapping_mul(2)).collect();
    y[5] = add;
    y
}

/// A graph of kernels, copies, a number and a grid's size, on the first device, with a copy to each of the others and back.
/// Its first two launches follow each other directly.
fn image(devices: &[Device], kernels: &Kernels) -> Vec<u8> {
    let data: Vec<u32> = (0..N as u32).collect();
    let x = devices[0].alloc_from(&data).expect("memory");
    let y = devices[0].alloc::<u32>(N).expect("memory");
    let mut builder = GraphBuilder::new(devices).expect("a builder");
    let number = builder.param(0u32).expect("a number");
    let groups = builder.param(1u32).expect("a number");
    let args = [Arg::buffer(&x), 3u32.into(), number.into(), 64u32.into()];
    // SAFETY: the buffers have 64 numbers.
    unsafe { builder.exec(&kernels.step, &args, Grid::new(4, 16)) }.expect("a node");
    let grid = Grid::new((groups, 1u32, 1u32), 16);
    let args = [Arg::buffer(&x), 5u32.into(), number.into(), 64u32.into()];
    // SAFETY: as above, with at most four groups.
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
    unsafe { builder.exec(&kernels.add, &args, Grid::new(4, 16)) }.expect("a node");
    builder
        .write(&y.view(5..6).expect("a view"), number)
        .expect("a node");
    builder.name_param(number, "add");
    builder.name_param(groups, "groups");
    builder
        .describe(&x, "x", BufferRole::Input)
        .and_then(|b| b.describe(&y, "y", BufferRole::Output))
        .expect("described");
    let image = builder.image(&GraphOptions::default());
    image.unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn images_run_on_other_machines() {
    for names in [
        &["sim:amd-gfx1100"][..],
        &["sim:amd-gfx1100,aql"],
        &["sim:amd-gfx942"],
        &["sim:amd-gfx942,aql"],
        &["sim:nv-ampere"],
        &["sim:nv-ada"],
        &["sim:nv-hopper"],
        &["sim:nv-blackwell", "cpu"],
        &["sim:qcom-a630"],
        &["sim:qcom-a650", "cpu"],
        &["sim:qcom-a660"],
        &["sim:amd-gfx1201", "cpu"],
        &["sim:amd-gfx1100", "sim:amd-gfx942,aql"],
    ] {
        run_elsewhere(names, kernels);
    }
}

/// The device of this name, opened a second time on its machine, so that what devices have for themselves is elsewhere, too;
/// and the first one. Where it is dropped when all else is allocated, nothing is where its memory was.
pub(crate) fn second(name: &str) -> (Option<Device>, Vec<Device>) {
    let full = name.strip_prefix("sim:").expect("a simulated device");
    let (family, _) = full.split_once('-').expect("a chip");
    let name = match full.strip_suffix(",aql") {
        Some(_) => format!("{family},aql"),
        None => family.to_owned(),
    };
    let machine = full.trim_end_matches(",aql");
    let system = sim::machine(machine).expect("a machine");
    let first = open(&name, Some(&system));
    (Some(first), vec![open(&name, Some(&system))])
}

/// Images of graphs with these kernels run on machines with these devices where everything is elsewhere, two at once.
pub(crate) fn run_elsewhere(names: &[&str], kernels: fn(&Device) -> Kernels) {
    let open_all = || -> Vec<Device> { names.iter().map(|n| open(n, None)).collect() };
    let image = {
        let devices = open_all();
        image(&devices, &kernels(&devices[0]))
    };
    let (first, devices) = match names {
        [name] => second(name),
        _ => (None, open_all()),
    };
    // Something is where the buffers were, so that they are elsewhere.
    let elsewhere: Vec<_> = devices.iter().map(|d| d.alloc::<u64>(5000)).collect();
    // Programs, queues and signals of the second one are where the first one's are not.
    let mut replays = [(); 2].map(|()| {
        // SAFETY: made by this test.
        let replay = unsafe { Replay::from_bytes(&image, &devices) };
        replay.unwrap_or_else(|e| panic!("{names:?}: {e}"))
    });
    drop(first);
    for replay in &mut replays {
        assert!(replay.launch().is_err(), "a number has no value");
        replay.set("add", 11u32).expect("set");
        assert!(replay.set("add", 11u64).is_err() && replay.set("x", 1u32).is_err());
    }
    let mut data: Vec<u32> = (0..N as u32).collect();
    for (round, (add, groups)) in [(11, 1), (5, 4), (5, 4), (7, 2)].into_iter().enumerate() {
        let wanted = model(&mut data, add, groups);
        for (n, replay) in replays.iter_mut().enumerate() {
            let what = format!("{names:?}, {n}, launch {round}");
            replay.set("add", add).expect("set");
            replay.set("groups", groups as u32).expect("set");
            let done = replay.launch().and_then(|run| run.wait());
            done.unwrap_or_else(|e| panic!("{what}: {e}"));
            let y = replay.buffer::<u32>("y").expect("a buffer");
            assert_eq!(y.to_vec().expect("read"), wanted, "{what}");
            let x = replay.buffer::<u32>("x").expect("a buffer");
            assert_eq!(x.to_vec().expect("read"), data, "{what}");
        }
        if round == 1 {
            // Another input from here on.
            data = (0..N as u32).map(|i| 1000 - i).collect();
            for replay in &replays {
                let x = replay.buffer::<u32>("x").expect("a buffer");
                x.write(&data).expect("written");
            }
        }
    }
    drop(elsewhere);
}

#[test]
fn images_for_other_devices_and_damaged_ones_are_refused_in_words() {
    let device = open("sim:amd-gfx1100", None);
    let mut image = image(std::slice::from_ref(&device), &kernels(&device));
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
