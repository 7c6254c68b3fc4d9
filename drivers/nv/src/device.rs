//! One GPU as a process uses it.

use hcq_nostd::value::{Fit, Misfit};

use crate::chips::Chip;

/// Where a process maps the windows through which kernels reach shared and local memory by generic address: ranges of
/// its address space that nothing else is mapped at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Windows {
    /// Address of the window to shared memory, at a 16 MiB boundary below 2^49.
    pub shared: u64,
    /// Address of the window to local memory, at a 16 MiB boundary below 2^49.
    pub local: u64,
}

/// Logarithm of a window's size.
const WINDOW_LOG2: u8 = 24;
/// SET_SHADER_SHARED_MEMORY_WINDOW_A and SET_SHADER_LOCAL_MEMORY_WINDOW_A have 17 bits.
pub(crate) const WINDOW_BITS: u8 = 49;

impl Default for Windows {
    /// Where nothing else is, in processes whose memory the kernel places.
    fn default() -> Self {
        Self {
            shared: 0x7294_0000_0000,
            local: 0x7293_0000_0000,
        }
    }
}

/// A GPU: its chip, and what a process has arranged with it.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    chip: &'static Chip,
    windows: Windows,
    sass_version: u8,
}

impl Device {
    /// A GPU of this chip, with the usual windows.
    pub fn new(chip: &'static Chip) -> Self {
        Self {
            chip,
            windows: Windows::default(),
            sass_version: chip.sass_version,
        }
    }

    /// The same with windows elsewhere.
    ///
    /// # Errors
    /// [`Misfit`] for an address that is not at its boundary or too high.
    pub fn with_windows(self, windows: Windows) -> Result<Self, Misfit> {
        let fit = Fit::aligned(WINDOW_BITS, WINDOW_LOG2);
        fit.check(windows.shared)?;
        fit.check(windows.local)?;
        Ok(Self { windows, ..self })
    }

    /// The same with the version of SASS that the kernel driver's `NV2080_CTRL_GR_INFO_INDEX_SM_VERSION` says: its major
    /// version in bits 11:8, its minor one in bits 3:0.
    pub fn with_sm_version(self, sm_version: u32) -> Self {
        let [low, high, ..] = sm_version.to_le_bytes();
        Self {
            sass_version: (high & 0xf) << 4 | low & 0xf,
            ..self
        }
    }

    /// Its chip.
    pub const fn chip(&self) -> &'static Chip {
        self.chip
    }

    /// Its windows.
    pub const fn windows(&self) -> Windows {
        self.windows
    }

    /// SASS_VERSION of its launch descriptors.
    pub const fn sass_version(&self) -> u8 {
        self.sass_version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sass_versions_follow_the_kernel_driver() {
        let device = Device::new(Chip::named("gb20x").expect("a chip"));
        assert_eq!(device.sass_version(), 0xa4);
        assert_eq!(device.with_sm_version(0x0a04).sass_version(), 0xa4);
        assert_eq!(device.with_sm_version(0x0806).sass_version(), 0x86);
    }

    #[test]
    fn windows_lie_where_their_methods_reach() {
        let device = Device::new(Chip::named("ga10x").expect("a chip"));
        let windows = |shared, local| device.with_windows(Windows { shared, local });
        assert!(windows(1 << 48, 1 << 24).is_ok());
        assert!(windows(1 << 49, 1 << 24).is_err());
        assert!(windows(1 << 24, 1 << 23).is_err());
        assert!(device.with_windows(Windows::default()).is_ok());
    }
}
