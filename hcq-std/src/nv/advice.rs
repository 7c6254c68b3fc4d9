//! What answers of the driver mean, and what a person can do about them.

use hcq_uapi::nv::{self, ABIS};

use super::call::Refusal;
use super::process::{ABI_VARIABLE, CTL, PROC};
use crate::seam::{Errno, System};

/// A node that cannot be opened.
pub(super) fn node(system: &dyn System, path: &str, errno: Errno) -> String {
    match errno {
        Errno::NOENT | Errno::NODEV | Errno::NXIO if is_loaded(system) => {
            if path == super::process::UVM {
                "the nvidia driver is loaded, but its part for compute is not, or this container has no node for it: \
                 nvidia-modprobe -u -c 0, or start the container with --gpus all"
                    .into()
            } else {
                "the nvidia driver is loaded, but there is no such node: nvidia-modprobe -c 0 makes it; start a container \
                 with --gpus all"
                    .into()
            }
        }
        Errno::NOENT | Errno::NODEV | Errno::NXIO => {
            "the nvidia driver is not loaded, or there is no NVIDIA GPU (nvidia-modprobe -u -c 0; lspci | grep -i nvidia)"
                .into()
        }
        Errno::ACCES => {
            "its permissions keep this user out (ls -l shows them; NVreg_DeviceFileMode of the nvidia module sets them)"
                .into()
        }
        Errno::PERM => {
            "a cgroup keeps this process out: allow the device in the container (--gpus all)".into()
        }
        Errno::IO => "the GPU does not start, or fell off the bus (dmesg | grep -i nvrm)".into(),
        Errno::BUSY => "another process has it to itself; end that one".into(),
        _ => LOG.into(),
    }
}

const LOG: &str = "the kernel's log may say why (dmesg | grep -i nvrm)";

/// Whether the driver is there, whatever `/dev` holds.
pub(super) fn is_loaded(system: &dyn System) -> bool {
    system.read(std::path::Path::new(PROC), 4096).is_ok()
}

/// A branch of the driver that is not known.
pub(super) fn branch() -> String {
    let known: Vec<String> = ABIS.iter().map(|abi| abi.major.to_string()).collect();
    format!(
        "its interface changes from branch to branch, and those known are {}; {ABI_VARIABLE}=580 takes that branch's at your \
         own risk",
        known.join(", ")
    )
}

/// The driver's version cannot be found.
pub(super) fn version() -> String {
    format!("{PROC} and {CTL} say no version that can be read; {ABI_VARIABLE}=580 says it instead")
}

/// Who may compute on a GPU, if not everybody.
pub(super) const fn rules(rules: u32) -> Option<&'static str> {
    match rules {
        nv::NV2080_CTRL_GPU_COMPUTE_MODE_RULES_EXCLUSIVE_COMPUTE
        | nv::NV2080_CTRL_GPU_COMPUTE_MODE_RULES_EXCLUSIVE_COMPUTE_PROCESS => Some(
            "the GPU is in exclusive mode: another process may have it (nvidia-smi); `nvidia-smi -c 0` lets several in",
        ),
        nv::NV2080_CTRL_GPU_COMPUTE_MODE_RULES_COMPUTE_PROHIBITED => {
            Some("computing on this GPU is switched off; `nvidia-smi -c 0` switches it on")
        }
        _ => None,
    }
}

/// A call on a GPU that was refused.
pub(super) const fn refused(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Status(
            nv::NV_ERR_GPU_IS_LOST | nv::NV_ERR_RESET_REQUIRED | nv::NV_ERR_GPU_IN_FULLCHIP_RESET,
        )
        | Refusal::System(Errno::IO | Errno::NODEV) => {
            "the GPU is gone, or hangs in a reset (dmesg | grep -i nvrm); start the process again after it"
        }
        Refusal::Status(nv::NV_ERR_INSUFFICIENT_PERMISSIONS) => {
            "the driver keeps this user out (NVreg_RestrictProfilingToAdminUsers and its like), or a container does"
        }
        Refusal::Status(
            nv::NV_ERR_INSUFFICIENT_RESOURCES | nv::NV_ERR_NO_MEMORY | nv::NV_ERR_NO_FREE_FIFOS,
        ) => "other processes use most of the GPU (nvidia-smi); use fewer queues, or end others",
        Refusal::Status(
            nv::NV_ERR_INVALID_PARAM_STRUCT
            | nv::NV_ERR_INVALID_ARGUMENT
            | nv::NV_ERR_INVALID_PARAMETER,
        ) => "the driver takes another form of this call: its version may differ from what it says",
        Refusal::System(Errno(libc::EBADF)) => {
            "devices do not survive a fork: open them in the child"
        }
        _ => LOG,
    }
}

/// Memory of the caller that was refused.
pub(super) const fn host_memory(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Status(nv::NV_ERR_INVALID_ADDRESS) | Refusal::System(Errno::FAULT) => {
            "the kernel takes memory that can be written only; copy a read-only mapping instead"
        }
        Refusal::Status(nv::NV_ERR_NO_MEMORY) | Refusal::System(Errno::NOMEM) => {
            "pages cannot be pinned: there are too few, or ulimit -l is in the way"
        }
        other => refused(other),
    }
}

/// Peers that do not reach each other.
pub(super) const fn peer(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Status(nv::NV_ERR_NOT_SUPPORTED | nv::NV_ERR_INVALID_DEVICE) => {
            "the two GPUs reach each other neither by NVLink nor by PCIe (nvidia-smi topo -p2p r); copy through host memory"
        }
        other => refused(other),
    }
}
