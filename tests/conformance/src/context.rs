//! What a behaviour is given.

use std::ptr::NonNull;

use hcq_std::{Access, Buffer, Device, Element, Error, FaultKind, FaultRecord, Kernel, Options};

use crate::check::{ensure, refused, same};
use crate::kinds::{self, ImageKernel, Kind, Stock};
use crate::report::Faults;
use crate::{Failure, Needs};

/// Milliseconds without progress after which a behaviour's waits give up, unless the environment says otherwise.
const WAIT_TIMEOUT_MS: u64 = 10_000;

/// Devices opened for one behaviour, and all that a behaviour may ask.
#[derive(Debug)]
pub struct Context {
    name: String,
    kind: Option<&'static dyn Kind>,
    options: Options,
    device: Device,
    /// The same device, and its peers if there are any.
    devices: Vec<Device>,
}

impl Context {
    pub(crate) fn new(
        name: String,
        options: Option<Options>,
        devices: usize,
    ) -> Result<Self, Failure> {
        let mut options = options.unwrap_or_default();
        if options.wait_timeout_ms.is_none() && std::env::var_os("HCQDEV_WAIT_TIMEOUT_MS").is_none()
        {
            options = options.wait_timeout_ms(WAIT_TIMEOUT_MS);
        }
        let kind = kinds::of(&name);
        let devices = open_together(&name, kind, &options, devices.max(1))?;
        let Some(device) = devices.first().cloned() else {
            return Err(Failure::new("no device was opened"));
        };
        Ok(Self {
            name,
            kind,
            options,
            device,
            devices,
        })
    }

    /// Whether the device has all that a behaviour needs.
    pub(crate) fn check(&self, needs: &Needs) -> Result<(), Failure> {
        for device in &self.devices {
            let (compute, copy) = device.queue_counts();
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
        }
        if needs.faults == Faults::Outlived && !self.outlives_faults() {
            return Err(Failure::missing(
                "devices that work after a fault of another",
            ));
        }
        if needs.recovery && !self.kind.is_none_or(Kind::recovers) {
            return Err(Failure::missing("recovery from faults"));
        }
        if needs.precise_faults && !self.kind.is_none_or(Kind::faults_are_precise) {
            return Err(Failure::missing("faults that stop a queue at the command"));
        }
        if needs.own_addresses && !self.kind.is_none_or(Kind::has_own_addresses) {
            return Err(Failure::missing("an address space of the device's own"));
        }
        for &stock in needs.kernels {
            self.kernel(&self.device, stock)?;
        }
        if !needs.images.is_empty() && self.device.image_rules().is_none() {
            return Err(Failure::missing(
                "images: kernels of this device take buffers and numbers",
            ));
        }
        for &kernel in needs.images {
            self.image_kernel(kernel)?;
        }
        Ok(())
    }

    /// Closes the devices. A behaviour that passes leaves them in order.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        drop(self.device);
        for device in self.devices {
            if device.fault().is_none() {
                device.close()?;
            }
        }
        Ok(())
    }

    /// The device opened for this behaviour.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The devices that were asked for with [`Needs::devices`], all of one machine; the first is [`device`](Self::device).
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The first two of [`devices`](Self::devices).
    pub(crate) fn pair(&self) -> Result<[&Device; 2], Failure> {
        match &self.devices[..] {
            [one, two, ..] => Ok([one, two]),
            _ => Err(Failure::missing("a second device of the same machine")),
        }
    }

    /// Devices of a machine of their own, with options of their own: as many as a behaviour has in
    /// [`devices`](Self::devices).
    pub(crate) fn open_peers(
        &self,
        options: impl FnOnce(Options) -> Options,
    ) -> Result<Vec<Device>, Failure> {
        let options = options(self.options.clone());
        open_together(&self.name, self.kind, &options, self.devices.len())
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

    /// One of the kernels with images on the device.
    pub fn image_kernel(&self, kernel: ImageKernel) -> Result<Kernel, Failure> {
        let found = match self.kind {
            Some(kind) => kind.image_kernel(&self.device, kernel)?,
            None => None,
        };
        found.ok_or_else(|| {
            let (kernel, name) = (kernel.name(), &self.name);
            Failure::missing(format!("kernel `{kernel}` for devices named `{name}`"))
        })
    }

    /// Fails unless the fault of an access to no memory says that it is one, or that something failed if it need not.
    pub(crate) fn same_kind(&self, record: &FaultRecord) -> Result<(), Failure> {
        if self.kind.is_none_or(Kind::faults_tell_kind) {
            return same("its kind", record.kind, FaultKind::Memory);
        }
        same("its kind", record.kind, FaultKind::Hardware)?;
        ensure!(record.detail != 0, "the driver counts no fault");
        Ok(())
    }

    /// Fails unless the fault of an access to no memory says what the access was, or nothing of it if it need not.
    pub(crate) fn same_access(&self, record: &FaultRecord, access: Access) -> Result<(), Failure> {
        let may_be_silent = !self.kind.is_none_or(Kind::faults_tell_access);
        if may_be_silent && record.access == Access::Unknown {
            return Ok(());
        }
        same("its access", record.access, access)
    }

    /// Fails unless the fault of a command that is no launch says which page it was on, or nothing if it need not.
    pub(crate) fn same_page(&self, record: &FaultRecord, address: u64) -> Result<(), Failure> {
        let may_be_silent = !self.kind.is_none_or(Kind::faults_tell_address);
        if may_be_silent && (record.address, record.access) == (0, Access::Unknown) {
            return Ok(());
        }
        // Some devices report the page only.
        same("its page", record.address & !0xfff, address & !0xfff)
    }

    /// [`Device::wrap`]; fails with what is missing where the driver takes no memory of callers, which it has to say.
    ///
    /// # Safety
    /// That of [`Device::wrap`].
    #[allow(unsafe_code, reason = "passes the caller's word on")]
    pub(crate) unsafe fn wrap<T: Element>(
        &self,
        device: &Device,
        memory: NonNull<T>,
        len: usize,
    ) -> Result<Buffer<T>, Failure> {
        // SAFETY: this function's contract.
        let wrapped = unsafe { device.wrap(memory, len) };
        if self.kind.is_none_or(Kind::wraps_memory) {
            return Ok(wrapped?);
        }
        let unfit = |e: &Error| matches!(e, Error::Unavailable { .. });
        let e = refused("memory of the caller", wrapped, unfit)?;
        Err(Failure::missing(format!(
            "memory of the caller as a buffer: {e}"
        )))
    }

    /// Fails with what is missing, unless submissions see what the host stores into wrapped memory later.
    pub(crate) fn need_late_stores(&self) -> Result<(), Failure> {
        if self.kind.is_none_or(Kind::sees_late_stores) {
            return Ok(());
        }
        Err(Failure::missing(
            "wrapped memory in which a submission sees what the host stores after it",
        ))
    }

    /// Whether programs tell addresses from numbers in their arguments.
    pub(crate) fn programs_tell_arguments(&self) -> bool {
        self.kind.is_none_or(Kind::programs_tell_arguments)
    }

    fn outlives_faults(&self) -> bool {
        self.kind.is_none_or(Kind::outlives_faults)
    }

    /// How many of so many faults a behaviour can make: one where a fault is the last that the process sees of its devices.
    pub(crate) fn faults(&self, wanted: usize) -> usize {
        if self.outlives_faults() { wanted } else { 1 }
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

/// Opens devices of one machine: the one of this name, and those beside it. A simulated machine is made for them, unless there
/// is one device only, which makes its own.
fn open_together(
    name: &str,
    kind: Option<&'static dyn Kind>,
    options: &Options,
    count: usize,
) -> Result<Vec<Device>, Failure> {
    let mut options = options.clone();
    if count > 1
        && let Some(machine) = kinds::machine(name)
    {
        options = options.system(hcq_std::sim::machine(&machine)?);
    }
    let mut devices = vec![Device::open_with(name, &options)?];
    for number in 1..count {
        let missing = |e: &dyn std::fmt::Display| {
            Failure::missing(format!(
                "{count} devices of one machine; there are {number}: {e}"
            ))
        };
        let peer = match kind {
            Some(kind) => kind.peer(name, number),
            None => Some(kinds::counted(name, number)),
        };
        let peer = peer.ok_or_else(|| missing(&"a machine has no more of this kind"))?;
        match Device::open_with(&peer, &options) {
            Ok(device) => devices.push(device),
            Err(e @ (Error::Unavailable { .. } | Error::UnknownDevice { .. })) => {
                return Err(missing(&e));
            }
            Err(e) => return Err(e.into()),
        }
    }
    Ok(devices)
}
