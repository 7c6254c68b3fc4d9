//! NVIDIA GPUs: their test kernels are cubins that this crate carries (`kernels/nv`).

use hcq_std::{Device, Error, Kernel};

use super::{Kind, Stock};

/// Devices named `nv`: GPUs behind the kernel's driver.
pub static CARDS: Nv = Nv { simulated: false };

/// Devices named `sim:nv-…`: simulated GPUs.
pub static SIMULATED: Nv = Nv { simulated: true };

/// NVIDIA GPUs, real or simulated.
#[derive(Debug)]
pub struct Nv {
    simulated: bool,
}

macro_rules! cubin {
    ($name:literal) => {
        include_bytes!(concat!("../../kernels/nv/stock-", $name, ".cubin"))
    };
}

/// Cubins by what they were compiled for.
static CUBINS: &[(&str, &[u8])] = &[
    ("sm_86", cubin!("sm_86")),
    ("sm_89", cubin!("sm_89")),
    ("sm_90", cubin!("sm_90")),
    ("sm_120", cubin!("sm_120")),
];

/// The stock kernels' cubin for an architecture.
pub fn cubin(target: &str) -> Option<&'static [u8]> {
    let (_, bytes) = CUBINS.iter().find(|(name, _)| *name == target)?;
    Some(bytes)
}

impl Kind for Nv {
    fn name(&self) -> &'static str {
        if self.simulated {
            "simulated NVIDIA"
        } else {
            "NVIDIA"
        }
    }

    fn serves(&self, device: &str) -> bool {
        super::is_of("nv", self.simulated, device)
    }

    fn kernel(&self, device: &Device, stock: Stock) -> Result<Option<Kernel>, Error> {
        match cubin(device.target()) {
            Some(bytes) => device.load_program(bytes)?.kernel(stock.name()).map(Some),
            None => Ok(None),
        }
    }

    /// What the access was the driver remembers of programs only (`kgrctxRecordMmuFault`). A channel tells the address and the
    /// reason (`NV906F_CTRL_GET_MMU_FAULT_INFO_PARAMS`), and one reason, a page that is not there, is of reads and writes.
    fn faults_tell_access(&self) -> bool {
        false
    }

    /// The channel's answer is that of firmware which is not public, and may be that it knows nothing.
    fn faults_tell_address(&self) -> bool {
        self.simulated
    }

    /// A cubin has the size and the place of each argument (`EIATTR_KPARAM_INFO`).
    fn programs_tell_arguments(&self) -> bool {
        false
    }

    /// A GPU reports a page fault when the methods after the one at fault may have run; a simulated one stops there.
    fn faults_are_precise(&self) -> bool {
        self.simulated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cubin_has_every_program() {
        let has =
            |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|w| w == text.as_bytes());
        for (target, bytes) in CUBINS {
            for stock in Stock::ALL {
                let section = format!(".text.{}\0", stock.name());
                assert!(has(bytes, &section), "{target}: {section:?}");
            }
        }
        assert_eq!(cubin("sm_75"), None);
    }
}
