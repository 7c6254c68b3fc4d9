//! Render nodes: which of them is msm's, and what its GPU is.
#![allow(unsafe_code, reason = "the driver's name is read by pointer")]

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hcq_uapi::drm::{drm_gem_close, drm_version};
use hcq_uapi::msm;

use super::memory::Table;
use crate::Error;
use crate::heap::lock;
use crate::ioctl::{Plain, call, call_with};
use crate::qcom::driver::Facts;
use crate::seam::{Errno, Handle, Open, System};

/// The device's name in messages.
pub(super) const NAME: &str = "qcom";
/// Where nodes are.
const NODES: &str = "/dev/dri";
/// Where the kernel tells of them, whatever `/dev` holds.
const CLASS: &str = "/sys/class/drm";
/// The GPU's driver below msm, and its name in older kernels.
const DRIVERS: [&str; 2] = [
    "/sys/bus/platform/drivers/adreno",
    "/sys/bus/platform/drivers/msm_gpu",
];
/// The first version that tells of a queue's faults (Linux 5.3).
const OLDEST: (i32, i32) = (1, 5);
/// The first one with memory that the GPU snoops.
const SNOOPS: (i32, i32) = (1, 8);
/// GPU addresses have 49 bits at most.
pub(super) const ADDRESS_END: u64 = 1 << 49;

impl Plain for msm::drm_msm_param {}
impl Plain for msm::drm_msm_gem_new {}
impl Plain for msm::drm_msm_gem_info {}
impl Plain for msm::drm_msm_gem_cpu_prep {}
impl Plain for msm::drm_msm_submitqueue {}
impl Plain for msm::drm_msm_submitqueue_close {}
impl Plain for msm::drm_msm_wait_fence {}
impl Plain for drm_gem_close {}

/// An operation that was refused, and the answer.
pub(super) type Refused = (&'static str, Errno);

/// The node, open.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) system: Arc<dyn System>,
    /// `None` only while it is dropped.
    file: Option<Handle>,
    /// Addresses that the process may choose from; `None` if the kernel chooses.
    pub(super) addresses: Option<Range<u64>>,
    /// Whether the GPU was found not to look into the host's caches.
    pub(super) no_snoop: AtomicBool,
    pub(super) table: std::sync::Mutex<Table>,
}

impl Drop for Node {
    fn drop(&mut self) {
        // Closing takes all objects and queues with it.
        if let Some(file) = self.file.take() {
            self.system.close(file);
        }
    }
}

impl Node {
    pub(super) fn file(&self) -> Result<&Handle, Errno> {
        self.file.as_ref().ok_or(Errno::NODEV)
    }

    /// Makes a call.
    pub(super) fn call<A: Plain>(&self, argument: &mut A) -> Result<(), Errno> {
        call(&*self.system, self.file()?, argument)
    }

    /// Makes a call that gives something back.
    pub(super) fn give_back<A: Plain>(&self, argument: A) -> Result<(), Errno> {
        crate::ioctl::give_back(&*self.system, self.file()?, argument)
    }

    /// A parameter.
    pub(super) fn parameter(&self, number: u32) -> Result<u64, Errno> {
        parameter(&*self.system, self.file()?, number)
    }

    /// Whether the GPU may look into the host's caches.
    pub(super) fn snoops(&self) -> bool {
        !self.no_snoop.load(Ordering::Relaxed)
    }

    /// A call that was refused.
    pub(super) fn failed(operation: &str, errno: Errno, hint: &str) -> Error {
        Error::Driver {
            device: NAME.into(),
            operation: operation.into(),
            errno,
            hint: hint.into(),
        }
    }
}

fn parameter(system: &dyn System, file: &Handle, number: u32) -> Result<u64, Errno> {
    let mut argument = msm::drm_msm_param {
        pipe: msm::MSM_PIPE_3D0,
        param: number,
        ..Default::default()
    };
    call(system, file, &mut argument)?;
    Ok(argument.value)
}

/// What a node turned out to be.
#[derive(Debug)]
pub(super) enum Looked {
    /// Another driver's.
    Foreign,
    /// Nobody knows, or a GPU that cannot be used.
    Refused(Refused),
    /// A GPU's.
    Gpu(Gpu),
}

/// A GPU, open.
#[derive(Debug)]
pub(super) struct Gpu {
    pub(super) file: Handle,
    pub(super) facts: Facts,
    addresses: Option<Range<u64>>,
    snoops: bool,
}

impl Gpu {
    pub(super) fn node(self, system: &Arc<dyn System>) -> (Arc<Node>, Facts) {
        let node = Node {
            system: Arc::clone(system),
            file: Some(self.file),
            addresses: self.addresses,
            no_snoop: AtomicBool::new(!self.snoops),
            table: std::sync::Mutex::default(),
        };
        (Arc::new(node), self.facts)
    }
}

/// Whether this kernel has msm for its GPU.
pub(super) fn is_loaded(system: &dyn System) -> bool {
    let mut drivers = DRIVERS.iter();
    drivers.any(|driver| system.list(Path::new(driver)).is_ok())
}

/// Paths of all render nodes of a kernel that has msm for its GPU, in order. Others' nodes are left alone where there is none:
/// opening them may wake a GPU up.
pub(super) fn paths(system: &dyn System) -> Vec<String> {
    if !is_loaded(system) {
        return Vec::new();
    }
    let numbers = |folder: &str| -> Vec<u32> {
        let names = system.list(Path::new(folder)).unwrap_or_default();
        let number = |name: &String| name.strip_prefix("renderD")?.parse().ok();
        let mut numbers: Vec<u32> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    };
    let mut found = numbers(NODES);
    if found.is_empty() {
        found = numbers(CLASS);
    }
    let path = |number: u32| format!("{NODES}/renderD{number}");
    found.into_iter().map(path).collect()
}

/// Opens a node and asks what it is.
pub(super) fn look(system: &dyn System, path: &str) -> Looked {
    let file = match system.open(Path::new(path), Open::ReadWrite) {
        Ok(file) => file,
        Err(errno) => return Looked::Refused(("open", errno)),
    };
    let answer = match version(system, &file) {
        Ok(None) => Looked::Foreign,
        Ok(Some(version)) if version < OLDEST || version.0 != OLDEST.0 => {
            Looked::Refused(("VERSION", Errno::NOSYS))
        }
        Ok(Some(version)) => match ask(system, &file) {
            Ok((facts, addresses)) => {
                return Looked::Gpu(Gpu {
                    file,
                    facts,
                    addresses,
                    snoops: version >= SNOOPS,
                });
            }
            Err(refused) => Looked::Refused(refused),
        },
        // Drivers without a version are not DRM's.
        Err(_) => Looked::Foreign,
    };
    system.close(file);
    answer
}

/// The driver's version; `None` if it is another driver.
fn version(system: &dyn System, file: &Handle) -> Result<Option<(i32, i32)>, Errno> {
    let mut name = [0u8; 16];
    let mut argument = drm_version {
        name_len: name.len() as u64,
        name: name.as_mut_ptr().expose_provenance() as u64,
        ..Default::default()
    };
    // SAFETY: the one address is that of `name`, with as many bytes as it says, any of which are valid; the other texts
    // have no room and no address.
    unsafe { call_with(system, file, &mut argument) }?;
    let told = usize::try_from(argument.name_len).ok();
    let is_msm = told.and_then(|n| name.get(..n)) == Some(b"msm");
    Ok(is_msm.then_some((argument.version_major, argument.version_minor)))
}

fn ask(system: &dyn System, file: &Handle) -> Result<(Facts, Option<Range<u64>>), Refused> {
    let id = parameter(system, file, msm::MSM_PARAM_CHIP_ID)
        .map_err(|errno| ("GET_PARAM(CHIP_ID)", errno))?;
    let tile = parameter(system, file, msm::MSM_PARAM_GMEM_SIZE)
        .map_err(|errno| ("GET_PARAM(GMEM_SIZE)", errno))?;
    // Kernels without these, or without page tables of the process's own, choose addresses themselves.
    let start = parameter(system, file, msm::MSM_PARAM_VA_START);
    let bytes = parameter(system, file, msm::MSM_PARAM_VA_SIZE);
    let addresses = match (start, bytes) {
        (Ok(start), Ok(bytes)) => start
            .checked_add(bytes)
            .map(|end| start..end.min(ADDRESS_END))
            .filter(|range| !range.is_empty()),
        _ => None,
    };
    let facts = Facts {
        name: None,
        // Above the id is the speed bin.
        chip: (id & 0xffff_ffff) as u32,
        tile_bytes: tile,
    };
    Ok((facts, addresses))
}

impl Node {
    /// The objects that there are.
    pub(super) fn table(&self) -> std::sync::MutexGuard<'_, Table> {
        lock(&self.table)
    }
}
