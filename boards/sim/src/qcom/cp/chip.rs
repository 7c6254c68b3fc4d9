//! What differs between the chips' shader processors: `reg_size_vec4`, `fibers_per_sp` and `num_ccu` of Mesa's
//! `freedreno_devices.py`.

/// Shader processors of one chip.
#[derive(Debug)]
pub(super) struct Shaders {
    chip: &'static str,
    /// Vectors of four registers that a pair of waves of 64 fibers has (`reg_size_vec4`).
    pub(super) registers: u32,
    /// Fibers of a shader processor that may have private memory.
    pub(super) fibers: u64,
    /// Shader processors, each with private memory of its own.
    pub(super) processors: u64,
}

/// Waves of a shader processor (`max_waves`).
pub(super) const MAX_WAVES: u32 = 16;
/// Waves that take registers together (`wave_granularity`).
pub(super) const WAVE_GRANULARITY: u32 = 2;

static CHIPS: [Shaders; 3] = [
    Shaders {
        chip: "a630",
        registers: 96,
        fibers: 128 * 16,
        processors: 2,
    },
    Shaders {
        chip: "a650",
        registers: 64,
        fibers: 128 * 2 * 16,
        processors: 3,
    },
    Shaders {
        chip: "a660",
        registers: 64,
        fibers: 128 * 2 * 16,
        processors: 3,
    },
];

pub(super) fn find(chip: &str) -> Option<&'static Shaders> {
    CHIPS.iter().find(|shaders| shaders.chip == chip)
}
