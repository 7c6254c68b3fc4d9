//! Memory that several GPUs see.

use super::{Bo, Gpu, Node, advice};
use crate::Error;
use crate::seam::Errno;

impl Gpu {
    /// Maps memory of this GPU for a peer too; refused in words if no way joins them. As often as it is shared it has to be
    /// [unshared](Self::unshare).
    pub(crate) fn share(&self, bo: &Bo, peer: &Self) -> Result<(), Error> {
        let gpu_id = peer.node().gpu_id;
        if !self.process().is_same(peer.process()) {
            return Err(Error::OtherDevice { what: "buffer" });
        }
        if bo.join(gpu_id) {
            return Ok(());
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

    /// Takes memory of this GPU out of a peer's address space again, the last time: its accesses are faults from then on.
    pub(crate) fn unshare(&self, bo: &Bo, peer: &Self) {
        bo.leave_one(peer.node().gpu_id);
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
