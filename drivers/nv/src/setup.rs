//! What a channel is told once, before its first work, and when its local memory changes.

use hcq_nostd::record::{Command, RecordError};

use crate::chips::Chip;
use crate::compute::{Compute, SetObject};
use crate::device::{Device, Windows};
use crate::local_memory::LocalMemory;
use crate::method::subchannel;

/// SMs that may use local memory at once: all of them.
const MAX_SMS: u16 = 0xff;

/// What a channel is told. What is `None` stays as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Setup {
    /// The class at the compute subchannel.
    pub compute_class: Option<u16>,
    /// The class at the copy subchannel.
    pub copy_class: Option<u16>,
    /// The window to local memory.
    pub local_window: Option<u64>,
    /// The window to shared memory.
    pub shared_window: Option<u64>,
    /// Local memory. Nothing that uses the memory before may be running, or run later.
    pub local_memory: Option<LocalMemory>,
}

impl Setup {
    /// For a compute channel of this GPU, without local memory.
    pub fn compute(device: &Device) -> Self {
        let Windows { shared, local } = device.windows();
        Self {
            compute_class: Some(device.chip().classes.compute),
            local_window: Some(local),
            shared_window: Some(shared),
            ..Self::default()
        }
    }

    /// For a copy channel of this GPU.
    pub fn copy(device: &Device) -> Self {
        Self {
            copy_class: Some(device.chip().classes.copy),
            ..Self::default()
        }
    }

    /// For a compute channel that has other local memory from here on.
    pub fn local_memory(memory: LocalMemory) -> Self {
        Self {
            local_memory: Some(memory),
            ..Self::default()
        }
    }

    pub(crate) fn record(&self, chip: &Chip, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        for (subchannel, class) in [
            (subchannel::COMPUTE, self.compute_class),
            (subchannel::COPY, self.copy_class),
        ] {
            if let Some(class) = class {
                SetObject { subchannel, class }.record(c)?;
            }
        }
        let memory = self.local_memory;
        let methods = [
            self.local_window.map(|at| Compute::LocalWindow(at.into())),
            self.shared_window
                .map(|at| Compute::SharedWindow(at.into())),
            memory.map(|m| Compute::LocalMemory(m.address().into())),
            memory.map(|m| Compute::LocalMemorySize {
                tpc_bytes: m.tpc_bytes().into(),
                max_sms: MAX_SMS,
            }),
        ];
        for method in methods.iter().flatten() {
            method.record_in(c, chip.local_memory_bits)?;
        }
        Ok(())
    }
}
