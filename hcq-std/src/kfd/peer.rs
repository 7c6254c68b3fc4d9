//! Memory that several GPUs see.
#![cfg_attr(
    not(test),
    allow(dead_code, reason = "the shell has no devices that share memory yet")
)]

use super::{Bo, Gpu, Node, advice};
use crate::Error;
use crate::heap::lock;
use crate::seam::Errno;

impl Gpu {
    /// Maps memory of this GPU for a peer too; refused in words if no way joins them.
    pub(crate) fn share(&self, bo: &Bo, peer: &Self) -> Result<(), Error> {
        let gpu_id = peer.node().gpu_id;
        if lock(bo.gpus()).contains(&gpu_id) {
            return Ok(());
        }
        if !self.process().is_same(peer.process()) {
            return Err(Error::OtherDevice { what: "buffer" });
        }
        // Host memory is within reach of all.
        if bo.is_device_local() && !peer.reaches(self) {
            return Err(self.failed(
                format!("sharing memory with {}", peer.name()),
                Errno::OPNOTSUPP,
                no_link(self.node(), peer.node()),
            ));
        }
        self.map(bo, &[gpu_id]).map_err(|(operation, errno)| {
            let operation = format!("{operation} of {}", peer.name());
            self.failed(operation, errno, peer_hint(errno).into())
        })
    }

    /// Whether this GPU has a way to the other's memory.
    pub(crate) fn reaches(&self, other: &Self) -> bool {
        self.node().gpu_id == other.node().gpu_id
            || self.node().link_to(other.node().index).is_some()
    }
}

/// No way between two GPUs.
fn no_link(owner: &Node, peer: &Node) -> String {
    let why = if owner.visible_bytes() < owner.vram_bytes() {
        advice::small_bar(owner)
    } else {
        "it needs XGMI, or PCIe with CONFIG_HSA_AMD_P2P in the kernel and no IOMMU translation (iommu=pt)".into()
    };
    format!(
        "the topology has no way from node {} to node {}: {why}; copy through host memory instead",
        peer.index, owner.index
    )
}

/// A peer's mapping was refused.
fn peer_hint(errno: Errno) -> &'static str {
    match errno {
        Errno::INVAL => {
            "open the peer's device first; else the driver refuses this way between the GPUs"
        }
        Errno::NOMEM => "the peer has no room for the mapping",
        _ => advice::lost(errno),
    }
}

#[cfg(test)]
mod tests;
