//! P4 and P5 for AMD against peers that record for the same chip. The instruction counts that the goals rest on are in
//! `benches/instructions`, with limits.

use std::path::Path;

use hcq_bench::goal::Goals;

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
