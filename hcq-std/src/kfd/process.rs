//! The kernel's object for this process.

use std::sync::Arc;

use super::Node;
use crate::Error;
use crate::candidates::Attempt;
use crate::seam::System;

/// `/dev/kfd` of a system, opened once and shared by all GPUs.
#[derive(Debug)]
pub(crate) struct Process {
    system: Arc<dyn System>,
    nodes: Vec<Node>,
    skipped: Vec<Attempt>,
}

impl Process {
    /// Opens the interface and reads the topology.
    pub(crate) fn open(system: &Arc<dyn System>) -> Result<Arc<Self>, Error> {
        let _ = system;
        Err(Error::Internal("KFD is being written"))
    }

    /// Who answers its calls.
    pub(crate) fn system(&self) -> &Arc<dyn System> {
        &self.system
    }

    /// GPUs in the topology's order; the index is the ordinal of `amd:N`.
    pub(crate) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Nodes that cannot be seen, and why.
    pub(crate) fn skipped(&self) -> &[Attempt] {
        &self.skipped
    }
}
