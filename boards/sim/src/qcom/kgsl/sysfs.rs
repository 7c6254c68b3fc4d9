//! Files of sysfs: attributes of the device, as `adreno_sysfs.c` and `kgsl_pwrctrl.c` show them while the GPU sleeps.

use super::Kernel;
use crate::machine::tree::Tree;

/// Where the device is.
const DEVICE: &str = "/sys/class/kgsl/kgsl-3d0";

impl Kernel {
    pub(super) fn files(&self) -> Tree {
        let mut tree = Tree::default();
        let chip = self.chip();
        let fastest = chip.clocks.first().copied().unwrap_or(0);
        let slowest = chip.clocks.last().copied().unwrap_or(0);
        let levels = chip.clocks.len();
        let last = levels.saturating_sub(1);
        let all: String = chip.clocks.iter().map(|hz| format!("{hz} ")).collect();
        let mhz: String = chip
            .clocks
            .iter()
            .map(|hz| format!("{} ", hz / 1_000_000))
            .collect();
        let idle = self.settings.options.idle_ms;
        for (name, text) in [
            // `_gpu_model_show` has no line's end.
            ("gpu_model", chip.model.to_owned()),
            ("gpu_available_frequencies", format!("{all}\n")),
            ("freq_table_mhz", format!("{mhz}\n")),
            ("num_pwrlevels", format!("{levels}\n")),
            ("max_gpuclk", format!("{fastest}\n")),
            ("gpuclk", format!("{slowest}\n")),
            ("max_pwrlevel", "0\n".to_owned()),
            ("min_pwrlevel", format!("{last}\n")),
            ("thermal_pwrlevel", "0\n".to_owned()),
            ("default_pwrlevel", format!("{last}\n")),
            ("max_clock_mhz", format!("{}\n", fastest / 1_000_000)),
            ("min_clock_mhz", format!("{}\n", slowest / 1_000_000)),
            ("clock_mhz", format!("{}\n", slowest / 1_000_000)),
            ("idle_timer", format!("{idle}\n")),
            ("force_clk_on", "0\n".to_owned()),
            ("force_no_nap", "0\n".to_owned()),
            ("reset_count", "0\n".to_owned()),
            // REPLAY, THROTTLE and SKIPCMD.
            ("ft_policy", "0xC2\n".to_owned()),
            ("ft_pagefault_policy", "0x2\n".to_owned()),
            ("preemption", format!("{}\n", u8::from(chip.preemption))),
        ] {
            tree.add(format!("{DEVICE}/{name}"), text);
        }
        tree.add("/sys/kernel/gpu/gpu_model".into(), chip.model.into());
        tree
    }
}
