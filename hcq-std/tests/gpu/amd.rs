//! AMD: each chip that there are programs for, and both kinds of packets.

use hcq_std::{Arg, Grid};

use crate::{Gpu, Result};

/// PM4 on one XCC and on eight, AQL on both, and the newest generation.
const AMD: Gpu = Gpu {
    names: &[
        "sim:amd-gfx1100",
        "sim:amd-gfx1100,aql",
        "sim:amd-gfx942",
        "sim:amd-gfx942,aql",
        "sim:amd-gfx1201",
        "sim:amd-gfx1201,aql,seed=5",
    ],
    extension: "co",
    saxpy_rest: || vec![0u64.into()],
    elsewhere: ("gfx1100", "gfx1100"),
    machine_of_two: "amd-gfx1100,gpus=2",
    three_names: ["amd:0", "amd:1,aql", "amd:2"],
    recovers: false,
};

every_test!(AMD);

#[test]
fn a_device_says_what_it_is() -> Result {
    AMD.each(|device| {
        let info = device.info();
        assert!(device.name().contains(device.target()), "{info:?}");
        assert!(info.memory_bytes > 0 && info.compute_units > 0, "{info:?}");
        let packets = if device.name().contains("aql") {
            "AQL"
        } else {
            "PM4"
        };
        assert_eq!(info.packets, packets);
        let (compute, copy) = device.queue_counts();
        assert_eq!((compute, copy), (2, 1));
        Ok(())
    })
}

#[test]
fn private_memory_is_there_when_a_program_needs_it() -> Result {
    AMD.each(|device| {
        const GROUPS: usize = 3;
        let reduce = AMD.kernel(device, "reduce");
        let input: Vec<f32> = (0..GROUPS * 256 * 8).map(|i| (i % 8) as f32).collect();
        let data = device.alloc_from(&input)?;
        let out = device.alloc::<f32>(GROUPS)?;
        for index in [0, 1] {
            let mut commands = device.compute_queue(index)?.record();
            let args = [Arg::buffer(&out), Arg::buffer(&data), 2i32.into()];
            // SAFETY: the program reads 8 elements per item, and writes one per group.
            unsafe { commands.exec(&reduce, &args, Grid::new(GROUPS as u32, 256)) }?;
            commands.submit()?.wait()?;
            // Each item adds elements 2 and 5 of its eight.
            assert_eq!(out.to_vec()?, [7.0 * 256.0; GROUPS]);
            out.fill(0.0)?;
        }
        Ok(())
    })
}
