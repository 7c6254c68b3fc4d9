//! An opened GPU.

use std::sync::{Arc, Mutex};

use hcq_uapi::kfd::kfd_process_device_apertures;

use super::event::Events;
use super::process::Vm;
use super::queue::Doorbells;
use super::{Node, Process};
use crate::Error;
use crate::clock::Track;
use crate::seam::{Errno, Handle};

/// A GPU with an address space of this process. Memory and queues hold it; when the last of them is gone, its events and
/// its doorbells are given back. The address space itself stays with the process, where the kernel keeps it.
#[derive(Debug)]
pub(crate) struct Gpu {
    process: Arc<Process>,
    node: Node,
    name: String,
    vm: Arc<Vm>,
    events: Events,
    doorbells: Mutex<Option<Doorbells>>,
    track: Mutex<Option<Track>>,
}

impl Gpu {
    /// Opens the GPU with this ordinal.
    pub(crate) fn open(process: &Arc<Process>, ordinal: usize) -> Result<Arc<Self>, Error> {
        let name = format!("amd:{ordinal}");
        let Some(node) = process.nodes().get(ordinal) else {
            return Err(Error::Unavailable {
                reason: match process.nodes().len() {
                    0 => "no AMD GPU is visible to this process".into(),
                    1 => "there is one AMD GPU, amd:0".into(),
                    n => format!("there are {n} AMD GPUs, amd:0 to amd:{}", n - 1),
                },
                hint: super::advice::hidden(process.skipped()),
                name,
            });
        };
        let vm = process.acquire(&name, node)?;
        let events = Events::new(process, &name, &vm, node.gpu_id)?;
        Ok(Arc::new(Self {
            process: Arc::clone(process),
            node: node.clone(),
            name,
            vm,
            events,
            doorbells: Mutex::default(),
            track: Mutex::default(),
        }))
    }

    /// Whose it is.
    pub(crate) fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// What the topology says of it.
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// For messages: `amd:0`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Where local, private and all other memory lies in addresses of this GPU.
    pub(crate) fn apertures(&self) -> &kfd_process_device_apertures {
        &self.vm.apertures
    }

    pub(super) fn render(&self) -> &Handle {
        &self.vm.render
    }

    pub(super) fn events(&self) -> &Events {
        &self.events
    }

    pub(super) fn doorbells(&self) -> &Mutex<Option<Doorbells>> {
        &self.doorbells
    }

    pub(super) fn track(&self) -> &Mutex<Option<Track>> {
        &self.track
    }

    /// An error of this GPU's driver.
    pub(super) fn failed(&self, operation: impl Into<String>, errno: Errno, hint: String) -> Error {
        Error::Driver {
            device: self.name.clone(),
            operation: operation.into(),
            errno,
            hint,
        }
    }
}

#[cfg(test)]
mod tests;
