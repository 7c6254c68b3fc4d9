//! What answers of the driver mean, and what a person can do about them.

use std::path::Path;

use super::device::NODE;
use crate::msm;
use crate::seam::{Errno, System};

/// The driver's class: there when the driver is, whatever `/dev` holds.
const CLASS: &str = "/sys/class/kgsl";

/// The node's driver does not answer as it should.
pub(super) const FOREIGN: &str =
    "the driver of this node is not kgsl, or broken (dmesg | grep kgsl)";

/// The node cannot be opened.
pub(super) fn open(system: &dyn System, errno: Errno) -> String {
    match errno {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => {
            if system.list(Path::new(CLASS)).is_ok() {
                format!(
                    "the driver is loaded, but there is no node here: in a container, add the device {NODE}"
                )
            } else if msm::is_loaded(system) {
                "this kernel has the mainline driver `msm`, and that has no render node: parts of it may not have come \
                 up (dmesg | grep -e msm -e adreno)"
                    .into()
            } else {
                "neither the kgsl driver is there, which comes with the kernels of Qualcomm's boards and of Android, nor \
                 Linux' own, msm; there may be no Adreno GPU"
                    .into()
            }
        }
        Errno::ACCES => permission(system),
        Errno::PERM => {
            "a security policy keeps this process out (SELinux; a container without the device)"
                .into()
        }
        Errno::BUSY => {
            "the GPU is being reset, or another process has it to itself; try again".into()
        }
        _ => "the kernel's log may say why (dmesg | grep kgsl)".into(),
    }
}

fn permission(system: &dyn System) -> String {
    match system.owner(Path::new(NODE)) {
        Ok(owner) if owner.mode & 0o060 == 0o060 => format!(
            "its group, number {}, may open it: join that group, then log in again; on Android, run as shell or root",
            owner.group
        ),
        Ok(owner) => format!(
            "its permissions ({:03o}) let no group in: run as root, or let udev set them",
            owner.mode
        ),
        Err(_) => "its permissions keep this user out; on Android, run as shell or root".into(),
    }
}

/// Memory cannot be had.
pub(super) const fn memory(errno: Errno) -> &'static str {
    match errno {
        Errno::NOMEM => "free buffers, or end other processes that use the GPU",
        Errno::INVAL => "one object has at most 4 GiB",
        _ => "the kernel's log may say why (dmesg | grep kgsl)",
    }
}

/// Memory of the process cannot be made known.
pub(super) const fn import(errno: Errno) -> &'static str {
    match errno {
        Errno::FAULT => "pages of it are not there, or may not be written",
        Errno::NOMEM => "there are not enough addresses or pages that can be held",
        Errno::INVAL => "memory of drivers cannot be shared in this way",
        _ => "the kernel's log may say why (dmesg | grep kgsl)",
    }
}

/// A context cannot be had.
pub(super) const fn context(errno: Errno) -> &'static str {
    match errno {
        Errno::NOSPC | Errno::NOMEM => {
            "other processes have all contexts, or there is no memory; end some"
        }
        Errno::INVAL => "the driver does not take compute contexts of this kind",
        _ => "the kernel's log may say why (dmesg | grep kgsl)",
    }
}
