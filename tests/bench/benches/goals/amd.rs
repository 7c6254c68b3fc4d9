//! P4 for AMD against RADV, which records for the same chip; the instruction counts that the goals rest on are in
//! `benches/instructions`, with limits. And how fast a simulated GPU is.

use std::path::Path;
use std::time::{Duration, Instant};

use hcq_bench::goal::Goals;
use hcq_std::{Bound, Buffer, Device, Error};

/// Where Debian's `mesa-vulkan-drivers` puts RADV.
const RADV: &str = "/usr/share/vulkan/icd.d/radeon_icd.x86_64.json";

pub(crate) fn print(goals: &mut Goals) {
    for line in [
        "P4 one dispatch, ours / RADV",
        "P4 wait, barrier, dispatch, signal, ours / RADV",
    ] {
        if goals.wants(line) {
            goals.skipped(line, why());
        }
    }
    simulated(goals);
}

/// Packets of a bound queue.
const PACKETS: u64 = 1000;

/// A queue of writes to memory, bound.
fn writes(device: &Device, target: &Buffer<u32>) -> Result<Bound, Error> {
    let mut commands = device.compute_queue(0)?.record();
    for n in 0..PACKETS {
        commands.write32(target.address() + 4 * (n % 1024), n)?;
    }
    commands.bind()
}

/// RELEASE_MEM packets of a simulated compute queue in a second. There is no goal: it says how long tests take.
fn simulated(goals: &Goals) {
    let line = "simulated gfx1100, packets per second";
    if !goals.wants(line) {
        return;
    }
    let run = || -> Result<f64, Error> {
        let device = Device::open("sim:amd-gfx1100")?;
        let target = device.alloc(1024)?;
        let mut bound = writes(&device, &target)?;
        bound.submit()?.wait()?;
        let (start, mut launches) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_millis(300) {
            bound.submit()?.wait()?;
            launches += 1;
        }
        Ok(f64::from(launches) * PACKETS as f64 / start.elapsed().as_secs_f64())
    };
    match run() {
        Ok(rate) => println!("{line} {rate:.0}"),
        Err(e) => panic!("{line}: {e}"),
    }
}

/// Why RADV does not record here.
fn why() -> &'static str {
    if Path::new(RADV).exists() {
        // `RADV_FORCE_FAMILY` makes a device without a GPU, whose winsys lacks cs_reset, cs_grow and cs_add_buffer.
        "RADV's device without a GPU compiles shaders and records nothing"
    } else {
        "RADV absent (Debian: mesa-vulkan-drivers); its device without a GPU records nothing"
    }
}
