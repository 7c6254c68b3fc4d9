//! What answers of the driver mean, and what a person can do about them.

use std::path::Path;

use super::process::KFD;
use super::{Node, QueueType};
use crate::candidates::Attempt;
use crate::seam::{Errno, System};

/// The folder of the driver's class: there when the driver is, whatever `/dev` holds.
const CLASS: &str = "/sys/class/kfd/kfd";

/// `/dev/kfd` cannot be opened.
pub(crate) fn kfd(system: &dyn System, errno: Errno) -> String {
    match errno {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => {
            if system.list(Path::new(CLASS)).is_ok() {
                "the driver is loaded, but this container has no node: start it with --device /dev/kfd --device /dev/dri"
                    .into()
            } else {
                "the amdgpu driver is not loaded, or there is no AMD GPU (modprobe amdgpu; lspci | grep -i amd)".into()
            }
        }
        Errno::ACCES => permission(system, KFD),
        Errno::PERM => {
            "a cgroup or a 32-bit process is kept out: allow the device in the container (--device /dev/kfd)".into()
        }
        Errno::BUSY => "another process has it to itself; end that one".into(),
        Errno::INVAL | Errno(libc::EAGAIN) => {
            "the driver is being reset or taken out; try again when dmesg says that it is done".into()
        }
        _ => "the kernel's log may say why (dmesg)".into(),
    }
}

/// A render node cannot be opened.
pub(crate) fn render(system: &dyn System, path: &str, errno: Errno) -> String {
    match errno {
        Errno::NOENT | Errno::NODEV | Errno::NXIO => {
            "the container has no such node: start it with --device /dev/dri; or the GPU went away"
                .into()
        }
        Errno::ACCES => permission(system, path),
        Errno::PERM => {
            "a cgroup keeps this process out: allow the node in the container (--device /dev/dri)"
                .into()
        }
        _ => "the kernel's log may say why (dmesg)".into(),
    }
}

/// The group to join for a file.
fn permission(system: &dyn System, path: &str) -> String {
    let group = system.owner(Path::new(path)).ok().map(|owner| {
        let name = group_name(system, owner.group);
        (owner, name)
    });
    match group {
        Some((owner, _)) if owner.mode & 0o060 != 0o060 => format!(
            "its permissions ({:03o}) let no group in: udev rules of the distribution's ROCm or libdrm package set them",
            owner.mode
        ),
        Some((_, Some(name))) => {
            format!(
                "join the group that owns it (sudo usermod -aG {name} $USER), then log in again"
            )
        }
        Some((owner, None)) => format!(
            "its group has number {} and no name here: in a container, add it (--group-add {})",
            owner.group, owner.group
        ),
        None => "join the group that owns it (usermod -aG render $USER), then log in again".into(),
    }
}

fn group_name(system: &dyn System, number: u32) -> Option<String> {
    let bytes = system.read(Path::new("/etc/group"), 1 << 20).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let found = fields.nth(1)?.parse() == Ok(number);
        found.then(|| name.to_owned())
    })
}

/// A GPU that is not there by its number.
pub(super) fn hidden(skipped: &[Attempt]) -> String {
    match skipped.first() {
        None => "`hcq devices` lists what there is".into(),
        Some(first) => format!("others are there but not visible: {first}"),
    }
}

/// A GPU's address space was refused.
pub(super) fn acquire(errno: Errno) -> &'static str {
    match errno {
        Errno::BUSY => {
            "another library of this process (ROCm's runtime) has this GPU already; use one of the two in a process"
        }
        Errno::INVAL => {
            "the render node is not this GPU's, or the process forked after it opened a device"
        }
        _ => "the kernel's log may say why (dmesg)",
    }
}

/// An event was refused.
pub(super) fn event(errno: Errno) -> &'static str {
    match errno {
        Errno::NOSPC => {
            "a process has at most 4096 signal events; close devices that are not needed"
        }
        Errno::INVAL => {
            "another library of this process (ROCm's runtime) may have the events to itself"
        }
        _ => lost(errno),
    }
}

/// A call on a GPU that is open.
pub(super) fn lost(errno: Errno) -> &'static str {
    match errno {
        Errno::NODEV | Errno::IO => {
            "the GPU is gone, or hangs in a reset (dmesg); start the process again after it"
        }
        Errno(libc::EBADF) => "devices do not survive a fork: open them in the child",
        _ => "the kernel's log may say why (dmesg)",
    }
}

/// Memory was refused for a reason other than its amount.
pub(super) fn memory(errno: Errno) -> &'static str {
    match errno {
        Errno(libc::EADDRINUSE) => "another library of this process manages these addresses (SVM)",
        _ => lost(errno),
    }
}

/// Host-visible device memory on a GPU whose window is small.
pub(super) fn small_bar(node: &Node) -> String {
    let mib = |bytes: u64| bytes >> 20;
    let window = match node.window_bytes {
        Some(window) => format!(
            "the host sees {} of {} MiB",
            mib(window),
            mib(node.vram_bytes())
        ),
        None => format!("the host does not see all {} MiB", mib(node.vram_bytes())),
    };
    format!(
        "{window} of device memory: switch on `Above 4G Decoding` and `Resizable BAR` (Smart Access Memory) in the firmware"
    )
}

/// Host memory was refused.
pub(super) fn userptr(errno: Errno) -> &'static str {
    match errno {
        Errno::FAULT | Errno::PERM => {
            "the kernel takes memory that can be written only; copy a read-only mapping instead"
        }
        Errno::NOMEM => {
            "pages cannot be pinned: the kernel limits GPUs to part of the host's memory"
        }
        _ => memory(errno),
    }
}

/// A queue was refused.
pub(super) fn queue(kind: QueueType, node: &Node, errno: Errno) -> String {
    match (errno, kind) {
        (Errno::NOMEM, QueueType::Sdma { .. } | QueueType::SdmaXgmi) => {
            let engines = match kind {
                QueueType::SdmaXgmi => node.sdma_xgmi_engines,
                _ => node.sdma_engines,
            };
            format!(
                "no SDMA queue is left: {engines} engines have {} each for all processes; copy on a compute queue, or end \
                 other users of the GPU",
                node.sdma_queues_per_engine
            )
        }
        (Errno::NOMEM | Errno::NOSPC, _) => {
            "no queue is left: a process has 127 on a GPU (255 on MI300); use fewer".into()
        }
        (Errno::PERM, _) => {
            "more queues than the hardware has are not allowed (amdgpu.sched_policy=1); end other users of the GPU".into()
        }
        (Errno::INVAL, _) => {
            "the kernel did not accept the queue's memory or sizes (dmesg with amdgpu's debug messages says which)".into()
        }
        _ => lost(errno).into(),
    }
}
