//! Adreno GPUs, behind kgsl and behind Linux' own driver msm: their test kernels are programs that Mesa's ir3 compiled, which this crate carries (`kernels/qcom`).

use hcq_std::{Device, Error, Kernel};

use super::{ImageKernel, Kind, Stock};

/// Devices named `qcom`: the GPU behind kgsl.
pub static CHIPS: Qcom = Qcom {
    simulated: false,
    msm: false,
};

/// Devices named `sim:qcom-…`: simulated GPUs behind kgsl.
pub static SIMULATED: Qcom = Qcom {
    simulated: true,
    msm: false,
};

/// Devices named `qcom,msm`: the GPU behind msm.
pub static MSM: Qcom = Qcom {
    simulated: false,
    msm: true,
};

/// Devices named `sim:qcom-…,msm`: simulated GPUs behind msm.
pub static SIMULATED_MSM: Qcom = Qcom {
    simulated: true,
    msm: true,
};

/// Adreno GPUs, real or simulated.
#[derive(Debug)]
pub struct Qcom {
    simulated: bool,
    msm: bool,
}

/// Submissions that no context takes at once: its queue in the kernel has 128 places.
const SMALLEST_RING: usize = 129;

macro_rules! bundle {
    ($name:literal) => {
        include_bytes!(concat!("../../kernels/qcom/stock-", $name, ".ir3"))
    };
}

/// Files of programs by chip.
static BUNDLES: &[(&str, &[u8])] = &[
    ("a630", bundle!("a630")),
    ("a650", bundle!("a650")),
    ("a660", bundle!("a660")),
];

/// The stock kernels for a chip.
pub fn bundle(target: &str) -> Option<&'static [u8]> {
    let (_, bytes) = BUNDLES.iter().find(|(name, _)| *name == target)?;
    Some(bytes)
}

fn named(device: &Device, name: &str) -> Result<Option<Kernel>, Error> {
    match bundle(device.target()) {
        Some(bytes) => device.load_program(bytes)?.kernel(name).map(Some),
        None => Ok(None),
    }
}

impl Kind for Qcom {
    fn name(&self) -> &'static str {
        match (self.simulated, self.msm) {
            (true, false) => "simulated Adreno",
            (true, true) => "simulated Adreno behind msm",
            (false, false) => "Adreno",
            (false, true) => "Adreno behind msm",
        }
    }

    fn serves(&self, device: &str) -> bool {
        let mut options = device.split(',').skip(1);
        super::is_of("qcom", self.simulated, device)
            && options.any(|o| matches!(o, "msm" | "msm=present")) == self.msm
    }

    fn kernel(&self, device: &Device, stock: Stock) -> Result<Option<Kernel>, Error> {
        named(device, stock.name())
    }

    fn image_kernel(&self, device: &Device, kernel: ImageKernel) -> Result<Option<Kernel>, Error> {
        named(device, kernel.name())
    }

    /// There is one GPU on a chip.
    fn peer(&self, _: &str, _: usize) -> Option<String> {
        None
    }

    /// Msm counts faults, and tells the log alone what they were.
    fn faults_tell_kind(&self) -> bool {
        !self.msm
    }

    fn faults_tell_access(&self) -> bool {
        !self.msm
    }

    fn faults_tell_address(&self) -> bool {
        !self.msm
    }

    fn wraps_memory(&self) -> bool {
        !self.msm
    }

    fn sees_late_stores(&self) -> bool {
        false
    }

    fn smallest_ring(&self) -> usize {
        SMALLEST_RING
    }

    /// The command processor goes on while the IOMMU tells of a fault; a simulated one stops there.
    fn faults_are_precise(&self) -> bool {
        self.simulated
    }
}
