//! Images of kernels with private memory: each machine has its own, and nothing of the first one's is in the image.

use hcq_std::{Arg, BufferRole, Device, Error, GraphBuilder, GraphOptions, Grid, Kernel, Replay};

use crate::images::{run_elsewhere, second};
use crate::{Kernels, kernels_of, open, stock};

/// Work-groups at most, and work-items of one.
const GROUPS: usize = 4;
const ITEMS: usize = 256;

/// A program that keeps elements of its own in private memory, and adds up one of them.
struct Reduce {
    kernel: Kernel,
    /// Elements that a work-item reads.
    each: usize,
    /// The program's last argument, if it asks for their number.
    count: Option<u32>,
}

fn reduce(device: &Device) -> Reduce {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/objects");
    let target = device.target();
    let (file, each, count) = match target.starts_with("sm_") {
        true => (format!("reduce-{target}.cubin"), 128, Some(128)),
        false => (format!("reduce-{target}.co"), 8, None),
    };
    let object = std::fs::read(format!("{root}/{file}")).expect("a vector");
    let module = device.load_program(&object).expect("loaded");
    Reduce {
        kernel: module.kernel("reduce").expect("a kernel"),
        each,
        count,
    }
}

impl Reduce {
    fn args<'a>(&self, out: Arg<'a>, data: Arg<'a>, which: Arg<'a>) -> Vec<Arg<'a>> {
        let count = self.count.map(Arg::from);
        [out, data, which].into_iter().chain(count).collect()
    }

    /// What each group writes where element `i` is `i % 8`: AMD's program adds two of an item's elements, the other one takes
    /// one.
    fn wanted(&self, which: i32, groups: usize) -> Vec<f32> {
        let each = match self.count {
            None => which % 8 + (which + 3) % 8,
            Some(_) => which % 8,
        };
        let mut all = vec![0.0; GROUPS];
        all[..groups].fill((each * ITEMS as i32) as f32);
        all
    }

    fn data(&self) -> Vec<f32> {
        (0..GROUPS * ITEMS * self.each)
            .map(|i| (i % 8) as f32)
            .collect()
    }
}

/// Two launches that may run at once, on a queue each.
fn image(device: &Device) -> Result<Vec<u8>, Error> {
    let reduce = reduce(device);
    let data = device.alloc_from(&reduce.data())?;
    let outs = [device.alloc::<f32>(GROUPS)?, device.alloc::<f32>(GROUPS)?];
    let mut builder = GraphBuilder::new([device])?;
    let which = builder.param(0i32)?;
    let groups = builder.param(1u32)?;
    for (n, out) in outs.iter().enumerate() {
        let grid = match n {
            0 => Grid::new((groups, 1u32, 1u32), ITEMS as u32),
            _ => Grid::new(GROUPS as u32, ITEMS as u32),
        };
        let args = reduce.args(Arg::buffer(out), Arg::buffer(&data), which.into());
        // SAFETY: the program reads `each` elements for each item, and writes one for each group.
        unsafe { builder.exec(&reduce.kernel, &args, grid) }?;
        builder.describe(out, ["first", "second"][n], BufferRole::Output)?;
    }
    builder.name_param(which, "which");
    builder.name_param(groups, "groups");
    builder.describe(&data, "data", BufferRole::Input)?;
    builder.image(&GraphOptions::default())
}

/// A launch without an image, by which the device has private memory before.
fn launch(device: &Device, queue: usize) {
    let reduce = reduce(device);
    let data = device.alloc_from(&reduce.data()).expect("memory");
    let out = device.alloc::<f32>(GROUPS).expect("memory");
    let mut commands = device.compute_queue(queue).expect("a queue").record();
    let args = reduce.args(Arg::buffer(&out), Arg::buffer(&data), 1i32.into());
    // SAFETY: as above.
    unsafe {
        commands.exec(
            &reduce.kernel,
            &args,
            Grid::new(GROUPS as u32, ITEMS as u32),
        )
    }
    .expect("a launch");
    let point = commands.submit().expect("submitted");
    point.wait().expect("done");
    assert_eq!(out.to_vec().expect("idle"), reduce.wanted(1, GROUPS));
}

const NAMES: [&str; 9] = [
    "sim:amd-gfx1100",
    "sim:amd-gfx1100,aql",
    "sim:amd-gfx1201",
    "sim:amd-gfx942",
    "sim:amd-gfx942,aql",
    "sim:nv-ampere",
    "sim:nv-ada",
    "sim:nv-hopper",
    "sim:nv-blackwell",
];

#[test]
fn private_memory_is_the_machine_s_that_an_image_runs_on() {
    for name in NAMES {
        let image = image(&open(name, None)).unwrap_or_else(|e| panic!("{name}: {e}"));
        for busy in [None, Some(0), Some(1)] {
            let (first, devices) = second(name);
            let [device] = &devices[..] else {
                panic!("one device");
            };
            let elsewhere = device.alloc::<u64>(5000).expect("memory");
            if let Some(queue) = busy {
                launch(device, queue);
            }
            // SAFETY: made by this test.
            let replay = || unsafe { Replay::from_bytes(&image, &devices) };
            let mut replays = [(); 2].map(|()| replay().unwrap_or_else(|e| panic!("{name}: {e}")));
            drop(first);
            for (which, groups) in [(2, 1), (2, 4), (3, 4), (0, 2)] {
                for replay in &mut replays {
                    let what = format!("{name}, after a launch on {busy:?}, {which} in {groups}");
                    let buffer = |name| replay.buffer::<f32>(name).expect("a buffer");
                    let outs = ["first", "second"].map(buffer);
                    for out in &outs {
                        out.fill(0.0).expect("idle");
                    }
                    replay.set("which", which).expect("a number");
                    replay.set("groups", groups as u32).expect("a number");
                    let run = replay.launch().and_then(|run| run.wait());
                    run.unwrap_or_else(|e| panic!("{what}: {e}"));
                    let of = reduce(device);
                    let wanted = [of.wanted(which, groups), of.wanted(which, GROUPS)];
                    let have = outs.map(|out| out.to_vec().expect("idle"));
                    assert_eq!(have, wanted, "{what}");
                }
                launch(device, 0);
            }
            drop(elsewhere);
        }
    }
}

#[test]
fn a_machine_with_too_little_memory_says_so() {
    for name in ["sim:amd-gfx1100", "sim:nv-ampere"] {
        let image = image(&open(name, None)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let device = open(&format!("{name},vram=64"), None);
        // SAFETY: made by this test.
        let refused = unsafe { Replay::from_bytes(&image, [&device]) };
        let e = refused.expect_err("private memory of all waves is more");
        let words = e.to_string();
        assert!(
            words.contains("memory") && words.contains("free"),
            "{name}: {e}"
        );
        // Nothing of it stays: the device does what needs none.
        assert!(device.alloc_from(&[1u32; 64]).is_ok(), "{name}");
    }
}

/// The programs of the list of behaviours, which ask for private memory that they do not use: each for another amount.
fn private_kernels(device: &Device) -> Kernels {
    let mut object = stock(device.target());
    for (n, kernel) in ["add", "step"].into_iter().enumerate() {
        let header = format!("kernel {kernel}\n");
        let find = |object: &[u8], from: usize, what: &str| {
            let mut windows = object[from..].windows(what.len());
            let at = windows.position(|w| w == what.as_bytes());
            from + at.expect("a line of the bundle")
        };
        let line = "\nprivate_bytes 0\n";
        let at = find(&object, 0, &header);
        let at = find(&object, at, line);
        let bytes = format!("\nprivate_bytes {}\n", 300 + 1000 * n);
        object.splice(at..at + line.len(), bytes.into_bytes());
    }
    kernels_of(device, &object)
}

#[test]
fn private_memory_of_adreno_gpus_is_the_machine_s_too() {
    for name in ["sim:qcom-a630", "sim:qcom-a650", "sim:qcom-a660"] {
        run_elsewhere(&[name], private_kernels);
    }
}
