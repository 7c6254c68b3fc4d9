//! What a behaviour is given.

use hcq_std::{Access, Device, Kernel, Options};

use crate::kinds::{self, Kind, Stock};
use crate::{Failure, Needs};

/// Milliseconds without progress after which a behaviour's waits give up, unless the environment says otherwise.
const WAIT_TIMEOUT_MS: u64 = 10_000;

/// A device opened for one behaviour, and all that a behaviour may ask.
#[derive(Debug)]
pub struct Context {
    name: String,
    kind: Option<&'static dyn Kind>,
    options: Options,
    device: Device,
}

impl Context {
    pub(crate) fn new(name: String, options: Option<Options>) -> Result<Self, Failure> {
        let mut options = options.unwrap_or_default();
        if options.wait_timeout_ms.is_none() && std::env::var_os("HCQDEV_WAIT_TIMEOUT_MS").is_none()
        {
            options = options.wait_timeout_ms(WAIT_TIMEOUT_MS);
        }
        let device = Device::open_with(&name, &options)?;
        Ok(Self {
            kind: kinds::of(&name),
            name,
            options,
            device,
        })
    }

    /// Whether the device has all that a behaviour needs.
    pub(crate) fn check(&self, needs: &Needs) -> Result<(), Failure> {
        let (compute, copy) = self.device.queue_counts();
        for (kind, need, have) in [
            ("compute", needs.compute, compute),
            ("copy", needs.copy, copy),
        ] {
            if have < need {
                return Err(Failure::missing(format!(
                    "{need} {kind} queues; the device has {have}"
                )));
            }
        }
        if needs.recovery && !self.kind.is_none_or(Kind::recovers) {
            return Err(Failure::missing("recovery from faults"));
        }
        if needs.precise_faults && !self.kind.is_none_or(Kind::faults_are_precise) {
            return Err(Failure::missing("faults that stop a queue at the command"));
        }
        for &stock in needs.kernels {
            self.kernel(&self.device, stock)?;
        }
        Ok(())
    }

    /// Closes the device. A behaviour that passes leaves it in order.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        if self.device.fault().is_none() {
            self.device.close()?;
        }
        Ok(())
    }

    /// The device opened for this behaviour.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Another device of the same name, with options of its own.
    pub fn open(&self, options: impl FnOnce(Options) -> Options) -> Result<Device, Failure> {
        Ok(Device::open_with(
            &self.name,
            &options(self.options.clone()),
        )?)
    }

    /// One of the stock kernels on a device.
    pub fn kernel(&self, device: &Device, stock: Stock) -> Result<Kernel, Failure> {
        let Some(kind) = self.kind else {
            let name = &self.name;
            return Err(Failure::missing(format!(
                "test kernels for devices named `{name}`"
            )));
        };
        let missing = || {
            Failure::missing(format!(
                "kernel `{}` for {} devices",
                stock.name(),
                kind.name()
            ))
        };
        kind.kernel(device, stock)?.ok_or_else(missing)
    }

    /// What a fault record says of an access to no memory.
    pub fn access(&self, access: Access) -> Access {
        if self.kind.is_none_or(Kind::faults_tell_access) {
            access
        } else {
            Access::Unknown
        }
    }

    /// Submissions that the smallest ring surely cannot hold at once.
    pub fn smallest_ring(&self) -> usize {
        self.kind.map_or(16, Kind::smallest_ring)
    }

    /// An address, 4096-byte aligned, where no device of this kind has memory.
    pub fn unmapped(&self) -> u64 {
        self.kind.map_or(kinds::UNMAPPED, Kind::unmapped)
    }
}
