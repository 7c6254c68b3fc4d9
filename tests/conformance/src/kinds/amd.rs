//! AMD GPUs: their test kernels are code objects that this crate carries (`kernels/amd`).

use hcq_std::{Device, Error, Kernel};

use super::{Kind, Stock};

/// Devices named `amd`: GPUs behind the kernel's driver.
pub static CARDS: Amd = Amd { simulated: false };

/// Devices named `sim:amd-…`: simulated GPUs.
pub static SIMULATED: Amd = Amd { simulated: true };

/// AMD GPUs, real or simulated.
#[derive(Debug)]
pub struct Amd {
    simulated: bool,
}

/// Submissions that 4096 bytes, the smallest ring, cannot hold: the shortest takes more than 32 bytes on every kind of
/// queue.
const SMALLEST_RING: usize = 4096 / 32;

macro_rules! object {
    ($name:literal) => {
        include_bytes!(concat!("../../kernels/amd/stock-", $name, ".co"))
    };
}

/// Code objects by chip.
static OBJECTS: &[(&str, &[u8])] = &[
    ("gfx942", object!("gfx942")),
    ("gfx950", object!("gfx950")),
    ("gfx1100", object!("gfx1100")),
    ("gfx1151", object!("gfx1151")),
    ("gfx1201", object!("gfx1201")),
];

/// The stock kernels' code object for a chip, by its LLVM name; features after a colon do not matter.
pub fn object(target: &str) -> Option<&'static [u8]> {
    let chip = target.split(':').next()?;
    let (_, bytes) = OBJECTS.iter().find(|(name, _)| *name == chip)?;
    Some(bytes)
}

impl Kind for Amd {
    fn name(&self) -> &'static str {
        if self.simulated {
            "simulated AMD"
        } else {
            "AMD"
        }
    }

    fn serves(&self, device: &str) -> bool {
        super::is_of("amd", self.simulated, device)
    }

    fn kernel(&self, device: &Device, stock: Stock) -> Result<Option<Kernel>, Error> {
        match object(device.target()) {
            Some(bytes) => device.load_program(bytes)?.kernel(stock.name()).map(Some),
            None => Ok(None),
        }
    }

    fn smallest_ring(&self) -> usize {
        SMALLEST_RING
    }

    /// A card reports a page fault when the packets after the one at fault may have run; a simulated one stops there.
    fn faults_are_precise(&self) -> bool {
        self.simulated
    }

    /// `kfd_hsa_memory_exception_data` has a flag for a page that is not there, and none for a write to it.
    fn faults_tell_access(&self) -> bool {
        false
    }

    /// The kernel takes a process off the GPU for good when it has a memory fault, as for [`recovers`](Kind::recovers). A
    /// simulated GPU opened by its name has a machine of its own.
    fn outlives_faults(&self) -> bool {
        self.simulated
    }

    /// The kernel takes a process off the GPU for good when it has a memory fault (`kfd_dqm_evict_pasid`): only a new process
    /// gets on. Its object is the address space's and not the file's (`kfd_release`), so that closing `/dev/kfd` ends nothing.
    fn recovers(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;

    #[test]
    fn names_that_are_served() {
        for (device, kind) in [
            ("amd", Some("AMD")),
            ("amd:1", Some("AMD")),
            ("amd,aql", Some("AMD")),
            ("amd:1,aql", Some("AMD")),
            ("sim:amd-gfx1100", Some("simulated AMD")),
            ("sim:amd-gfx942:1,gpus=4,aql,seed=7", Some("simulated AMD")),
            ("cpu", Some("CPU")),
            ("amdx", None),
            ("sim:amd", None),
        ] {
            assert_eq!(kinds::of(device).map(Kind::name), kind, "{device}");
        }
    }

    #[test]
    fn each_object_is_for_its_chip_and_has_every_program() {
        let has =
            |bytes: &[u8], text: &str| bytes.windows(text.len()).any(|w| w == text.as_bytes());
        for (chip, bytes) in OBJECTS {
            assert!(has(bytes, &format!("amdgcn-amd-amdhsa--{chip}")), "{chip}");
            for stock in Stock::ALL {
                let symbol = format!("\0{}.kd\0", stock.name());
                assert!(has(bytes, &symbol), "{chip}: {symbol:?}");
            }
        }
        assert_eq!(object("gfx942:sramecc+:xnack-"), object("gfx942"));
        assert_eq!(object("gfx90a"), None);
    }
}
