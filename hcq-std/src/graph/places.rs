//! What an image's variables stand for on the devices that it is launched on.

use std::sync::Arc;

use hcq_nostd::image::{Image, LoadError};

use super::plan::kind;
use super::replay::refused;
use crate::Error;
use crate::backend::QueueId;
use crate::inner::Inner;
use crate::program::{Kernel, Module};

/// What the variables of an image stand for on these devices.
pub(super) struct Places<'i> {
    image: &'i Image<'static>,
    devices: &'i [Arc<Inner>],
    programs: &'i [Module],
    /// Kernels that something was asked of, and their programs' numbers.
    kernels: Vec<(u32, Kernel)>,
}

impl<'i> Places<'i> {
    pub(super) fn new(
        image: &'i Image<'static>,
        devices: &'i [Arc<Inner>],
        programs: &'i [Module],
    ) -> Self {
        Self {
            image,
            devices,
            programs,
            kernels: Vec::new(),
        }
    }

    /// The kernels that something was asked of. They have the memory that they were prepared for.
    pub(super) fn kernels(self) -> Vec<Kernel> {
        self.kernels.into_iter().map(|(_, kernel)| kernel).collect()
    }

    fn kernel(&mut self, code: u32, name: &str) -> Result<&Kernel, Error> {
        let mut known = self.kernels.iter();
        let known = known.position(|(c, k)| *c == code && k.name() == name);
        let index = known.unwrap_or(self.kernels.len());
        if known.is_none() {
            let module = self.programs.get(code as usize);
            let module = module.ok_or(Error::Internal("a program is missing"))?;
            self.kernels.push((code, module.kernel(name)?));
        }
        let kernel = self.kernels.get(index);
        Ok(&kernel.ok_or(Error::Internal("a kernel is missing"))?.1)
    }

    /// Where a code object is, or a kernel of a shared object.
    pub(super) fn code(&mut self, code: u32, name: &str) -> Result<u64, Error> {
        let module = self.programs.get(code as usize);
        let module = module.ok_or(Error::Internal("a program is missing"))?;
        match module.base() {
            Some(base) => Ok(base),
            None => {
                let entry = self.kernel(code, name)?.entry();
                entry.ok_or(Error::Internal("a kernel has no entry"))
            }
        }
    }

    /// Sees to a kernel's private memory on a queue, and says a number of it.
    pub(super) fn private(
        &mut self,
        code: u32,
        name: &str,
        (queue, part): (u16, u16),
    ) -> Result<u64, Error> {
        let record = self.image.graph().queues().get(usize::from(queue));
        let record = record.ok_or(Error::Internal("a queue is missing"))?;
        let device = self.devices.get(usize::from(record.device()));
        let device = device.ok_or(Error::Internal("a device is missing"))?;
        let id = QueueId {
            kind: kind(record.engine()),
            index: usize::from(record.index()),
        };
        let (compute, _) = device.backend.queue_counts();
        if id.index >= compute {
            return Err(Error::NoSuchQueue {
                kind: id.kind,
                index: id.index,
                count: compute,
            });
        }
        let kernel = self.kernel(code, name)?;
        let program = &kernel.kernel.program;
        if kernel.kernel.has_needs {
            device.make_ready(program, id)?;
        }
        let number = device.backend.private_part(program, id, part);
        number.ok_or_else(|| Error::Graph {
            reason: format!(
                "the image asks for number {part} of the private memory of kernel {name}, which {} does not have",
                device.name
            ),
        })
    }

    /// Where memory is that a device has for itself; nowhere for a device that takes no part and has none.
    pub(super) fn own(&self, device: u16) -> Result<u64, Error> {
        let index = usize::from(device);
        let own = self
            .devices
            .get(index)
            .and_then(|d| d.backend.own_address());
        let record = self.image.graph().devices().get(index);
        match own {
            Some(own) => Ok(own),
            None if record.is_none_or(|d| !d.takes_part()) => Ok(0),
            None => Err(refused(
                LoadError::Target { device },
                "it has no memory of its own",
            )),
        }
    }
}
