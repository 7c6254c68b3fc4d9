//! An opened GPU.

use std::sync::Arc;

use super::{Node, Process};
use crate::Error;

/// A GPU with an address space of this process.
#[derive(Debug)]
pub(crate) struct Gpu {
    process: Arc<Process>,
    ordinal: usize,
    node: Node,
    name: String,
}

impl Gpu {
    /// Opens the GPU with this ordinal.
    pub(crate) fn open(process: &Arc<Process>, ordinal: usize) -> Result<Arc<Self>, Error> {
        let _ = (process, ordinal);
        Err(Error::Internal("KFD is being written"))
    }

    /// Whose it is.
    pub(crate) fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Its place in [`Process::nodes`].
    pub(crate) fn ordinal(&self) -> usize {
        self.ordinal
    }

    /// What the topology says of it.
    pub(crate) fn node(&self) -> &Node {
        &self.node
    }

    /// For messages: `amd:0`.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}
