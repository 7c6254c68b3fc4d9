//! What answers of the driver mean, and what a person can do about them.

use std::path::Path;

use super::node::Refused;
use crate::seam::{Errno, System};

const LOG: &str = "the kernel's log may say why (dmesg | grep -e msm -e adreno)";

/// A node cannot be used.
pub(super) fn open(system: &dyn System, path: &str, (operation, errno): Refused) -> String {
    match (operation, errno) {
        ("open", Errno::NOENT | Errno::NODEV) => {
            format!("the driver has it, but there is no node here: in a container, add the device {path}")
        }
        ("open", Errno::ACCES) => permission(system, path),
        ("open", Errno::PERM) => {
            "a security policy keeps this process out (a container without the device)".into()
        }
        ("VERSION", _) => "the driver is older than its version 1.5: Linux 5.3 has that".into(),
        (_, Errno::NXIO) => {
            "the driver has no GPU: its firmware was not found (linux-firmware's qcom folder, and the board's own signed \
             a6*_zap file; dmesg | grep -e msm -e adreno)"
                .into()
        }
        _ => LOG.into(),
    }
}

fn permission(system: &dyn System, path: &str) -> String {
    match system.owner(Path::new(path)) {
        Ok(owner) if owner.mode & 0o060 == 0o060 => format!(
            "its group, number {}, may open it (`render` or `video` as a rule): join that group, then log in again",
            owner.group
        ),
        Ok(owner) => format!(
            "its permissions ({:03o}) let no group in: run as root, or let udev set them",
            owner.mode
        ),
        Err(_) => "its permissions keep this user out: join the group `render`".into(),
    }
}

/// Memory cannot be had.
pub(super) const fn memory(errno: Errno) -> &'static str {
    match errno {
        Errno::NOMEM => "free buffers, or end other processes that use the GPU",
        Errno::NOSPC => "the GPU's addresses are used up: free buffers",
        _ => LOG,
    }
}

/// A queue cannot be had.
pub(super) const fn queue(errno: Errno) -> &'static str {
    match errno {
        Errno::NODEV | Errno::NXIO => "the driver has no GPU: its firmware was not found",
        Errno::INVAL => "the driver does not take queues of this kind",
        _ => LOG,
    }
}
