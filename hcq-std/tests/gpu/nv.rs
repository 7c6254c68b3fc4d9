//! NVIDIA: each generation.

use hcq_std::{Arg, Error, Grid};

use crate::{Gpu, Result};

/// Each generation, and the oldest driver.
const NV: Gpu = Gpu {
    names: &[
        "sim:nv-hopper",
        "sim:nv-ampere",
        "sim:nv-ada,seed=5",
        "sim:nv-blackwell",
        "sim:nv-hopper,driver=535.129.03",
    ],
    extension: "cubin",
    // The last one picks a factor of 1 out of the program's constants.
    saxpy_rest: || vec![0u64.into(), 0u8.into()],
    elsewhere: ("sm_90", "-arch="),
    machine_of_two: "nv-ada,gpus=2",
    three_names: ["nv:0", "nv:1", "nv:2"],
    recovers: true,
};

every_test!(NV);

#[test]
fn a_device_says_what_it_is() -> Result {
    NV.each(|device| {
        let info = device.info();
        assert!(device.target().starts_with("sm_"), "{info:?}");
        assert!(info.memory_bytes > 0 && info.compute_units > 0, "{info:?}");
        assert_eq!((info.packets, info.wave_size), ("QMD", 32));
        let (compute, copy) = device.queue_counts();
        assert_eq!((compute, copy), (2, 1));
        Ok(())
    })
}

#[test]
fn a_signature_says_what_a_cubin_does_not() -> Result {
    NV.each(|device| {
        let saxpy = NV.kernel(device, "saxpy");
        let known = saxpy.arguments().expect("the cubin's");
        let sizes: Vec<u32> = known.iter().map(|a| a.size).collect();
        assert_eq!(sizes, [8, 8, 4, 4, 8, 1]);
        assert!(known.iter().all(|a| a.size_only));

        let module = device.load_program(&NV.object("vadd", device.target()))?;
        let signature = "float *out; const float *a; const float *b;";
        let add = module.kernel_with("vadd", signature)?;
        let known = add.arguments().expect("the signature's");
        assert_eq!(known[1].to_string(), "const f32 *a");
        let x = device.alloc::<f32>(64)?;
        let mut commands = device.compute_queue(0)?.record();
        let wrong = [Arg::buffer(&x), 5u64.into(), Arg::buffer(&x)];
        // SAFETY: refused.
        let e = unsafe { commands.exec(&add, &wrong, Grid::new(1, 64)) };
        assert!(matches!(e, Err(Error::Argument { index: 1, .. })), "{e:?}");
        let e = module.kernel_with("vadd", "float *out; int n;");
        let e = e.expect_err("other sizes").to_string();
        assert!(e.contains("[8, 8, 8]") && e.contains("[8, 4]"), "{e}");
        Ok(())
    })
}

#[test]
fn local_memory_is_there_when_a_program_needs_it() -> Result {
    NV.each(|device| {
        const GROUPS: usize = 3;
        let reduce = NV.kernel(device, "reduce");
        let input: Vec<f32> = (0..GROUPS * 256 * 128).map(|i| (i % 8) as f32).collect();
        let data = device.alloc_from(&input)?;
        let out = device.alloc::<f32>(GROUPS)?;
        for index in [0, 1] {
            let mut commands = device.compute_queue(index)?.record();
            let args = [
                Arg::buffer(&out),
                Arg::buffer(&data),
                5i32.into(),
                128u32.into(),
            ];
            // SAFETY: the program reads 128 elements per item, and writes one per group.
            unsafe { commands.exec(&reduce, &args, Grid::new(GROUPS as u32, 256)) }?;
            commands.submit()?.wait()?;
            // Each item picks element 5 of its own.
            assert_eq!(out.to_vec()?, [5.0 * 256.0; GROUPS]);
            out.fill(0.0)?;
        }
        Ok(())
    })
}

/// A kernel with a small stack comes first, one with a large one later, while the first may still run.
#[test]
fn local_memory_grows_behind_what_uses_it() -> Result {
    NV.each(|device| {
        const N: usize = 256;
        let (add, reduce) = (NV.kernel(device, "vadd"), NV.kernel(device, "reduce"));
        let x = device.alloc_from(&[1.0f32; N * 128])?;
        let (y, out) = (device.alloc::<f32>(N)?, device.alloc::<f32>(1)?);
        let queue = device.compute_queue(0)?;
        let mut commands = queue.record();
        for _ in 0..20 {
            let args = [Arg::buffer(&y), Arg::buffer(&y), Arg::buffer(&x)];
            // SAFETY: the kernel adds as many floats as there are items.
            unsafe { commands.exec(&add, &args, Grid::new(4, 64)) }?;
        }
        commands.submit()?;
        let args = [
            Arg::buffer(&out),
            Arg::buffer(&x),
            1i32.into(),
            128u32.into(),
        ];
        // SAFETY: the program reads 128 elements per item, and writes one.
        unsafe { commands.exec(&reduce, &args, Grid::new(1, 256)) }?;
        commands.submit()?.wait()?;
        assert_eq!((y.to_vec()?, out.to_vec()?), (vec![20.0; N], vec![256.0]));
        Ok(())
    })
}
