//! Calls of NVIDIA's kernel modules, each with the argument that is its own.
#![allow(unsafe_code, reason = "ioctl takes a pointer")]

use std::fmt;
use std::sync::Arc;

use hcq_uapi::ioctl::Argument;
use hcq_uapi::nv::{self, Status};

use crate::Error;
use crate::seam::{Errno, Handle, System};

/// Why the driver did not do what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The system call failed.
    System(Errno),
    /// It succeeded, and the argument says otherwise: one of `NV_ERR_*`.
    Status(u32),
}

impl Refusal {
    /// The nearest error number of Linux.
    pub(super) const fn errno(self) -> Errno {
        match self {
            Self::System(errno) => errno,
            Self::Status(status) => match status {
                nv::NV_ERR_NO_MEMORY => Errno::NOMEM,
                nv::NV_ERR_INSUFFICIENT_RESOURCES | nv::NV_ERR_NO_FREE_FIFOS => Errno::NOSPC,
                nv::NV_ERR_INSUFFICIENT_PERMISSIONS => Errno::PERM,
                nv::NV_ERR_NOT_SUPPORTED | nv::NV_ERR_INVALID_CLASS => Errno::OPNOTSUPP,
                nv::NV_ERR_STATE_IN_USE | nv::NV_ERR_IN_USE => Errno::BUSY,
                nv::NV_ERR_INVALID_ADDRESS => Errno::FAULT,
                nv::NV_ERR_GPU_IS_LOST | nv::NV_ERR_RESET_REQUIRED => Errno::IO,
                _ => Errno::INVAL,
            },
        }
    }

    /// Whether there are none left of what was asked for.
    pub(super) const fn is_exhausted(self) -> bool {
        matches!(
            self,
            Self::Status(
                nv::NV_ERR_NO_MEMORY | nv::NV_ERR_INSUFFICIENT_RESOURCES | nv::NV_ERR_NO_FREE_FIFOS
            )
        )
    }

    /// As an error of a device.
    pub(super) fn of(self, device: &str, operation: &str, hint: impl Into<String>) -> Error {
        let operation = match self {
            Self::System(_) => operation.to_owned(),
            Self::Status(_) => format!("{operation} ({self})"),
        };
        Error::Driver {
            device: device.into(),
            operation,
            errno: self.errno(),
            hint: hint.into(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::System(errno) => write!(f, "{errno}"),
            Self::Status(status) => write!(f, "{}, {status:#x}", nv::status_name(status)),
        }
    }
}

/// Arguments with no address in them through which the kernel touches memory of Rust objects.
pub(super) trait Plain: Argument + Copy {}

impl Plain for nv::nv_ioctl_card_info_list {}
impl Plain for nv::nv_ioctl_register_fd {}
impl Plain for nv::nv_ioctl_rm_api_version {}
impl Plain for nv::nv_ioctl_alloc_os_event {}
impl Plain for nv::nv_ioctl_free_os_event {}
impl Plain for nv::nv_ioctl_nvos33_parameters_with_fd {}
impl Plain for nv::NVOS00_PARAMETERS {}
impl Plain for nv::UVM_INITIALIZE_PARAMS {}
impl Plain for nv::UVM_MM_INITIALIZE_PARAMS {}
impl Plain for nv::UVM_REGISTER_GPU_PARAMS {}
impl Plain for nv::UVM_UNREGISTER_GPU_PARAMS {}
impl Plain for nv::UVM_REGISTER_GPU_VASPACE_PARAMS {}
impl Plain for nv::UVM_UNREGISTER_GPU_VASPACE_PARAMS {}
impl Plain for nv::UVM_REGISTER_CHANNEL_PARAMS {}
impl Plain for nv::UVM_UNREGISTER_CHANNEL_PARAMS {}
impl Plain for nv::UVM_UNREGISTER_CHANNEL_PARAMS_580 {}
impl Plain for nv::UVM_ENABLE_PEER_ACCESS_PARAMS {}
impl Plain for nv::UVM_CREATE_EXTERNAL_RANGE_PARAMS {}
impl Plain for nv::UVM_MAP_EXTERNAL_ALLOCATION_PARAMS {}
impl Plain for nv::UVM_MAP_EXTERNAL_ALLOCATION_PARAMS_545 {}
impl Plain for nv::UVM_UNMAP_EXTERNAL_PARAMS {}
impl Plain for nv::UVM_FREE_PARAMS {}
impl Plain for nv::UVM_FREE_PARAMS_580 {}

/// Makes a call that has no status.
pub(super) fn call<A: Plain>(
    system: &dyn System,
    file: &Handle,
    argument: &mut A,
) -> Result<(), Errno> {
    // SAFETY: the argument holds no address of an object, by `Plain`.
    unsafe { call_with(system, file, argument) }
}

/// Makes a call, and looks at its status.
pub(super) fn ask<A: Plain + Status>(
    system: &dyn System,
    file: &Handle,
    argument: &mut A,
) -> Result<(), Refusal> {
    // SAFETY: as in `call`.
    unsafe { ask_with(system, file, argument) }
}

/// Makes a call that gives something back, a second time if the first is refused: a driver that is busy with a fault
/// refuses what it takes a moment later.
pub(super) fn give_back<A: Plain + Status>(
    system: &dyn System,
    file: &Handle,
    argument: A,
) -> Result<(), Refusal> {
    let mut first = argument;
    ask(system, file, &mut first).or_else(|_| {
        let mut second = argument;
        ask(system, file, &mut second)
    })
}

/// Makes a call whose argument holds addresses.
///
/// # Safety
/// Addresses in the argument are of memory that is as large as the call takes it to be, and writable where the call writes.
unsafe fn call_with<A: Argument>(
    system: &dyn System,
    file: &Handle,
    argument: &mut A,
) -> Result<(), Errno> {
    let pointer = std::ptr::from_mut(argument).cast();
    // SAFETY: the request is that of the argument's type; what it holds is the caller's promise.
    unsafe { system.ioctl(file, A::REQUEST.into(), pointer) }.map(drop)
}

/// The same with the status.
///
/// # Safety
/// As for [`call_with`].
pub(super) unsafe fn ask_with<A: Status>(
    system: &dyn System,
    file: &Handle,
    argument: &mut A,
) -> Result<(), Refusal> {
    // SAFETY: this function's contract.
    unsafe { call_with(system, file, argument) }.map_err(Refusal::System)?;
    match argument.status() {
        nv::NV_OK => Ok(()),
        status => Err(Refusal::Status(status)),
    }
}

/// An open file, closed when it is dropped.
#[derive(Debug)]
pub(super) struct File {
    system: Arc<dyn System>,
    handle: Option<Handle>,
}

impl File {
    pub(super) fn open(system: &Arc<dyn System>, path: &str) -> Result<Self, Errno> {
        let handle = system.open(std::path::Path::new(path), crate::seam::Open::ReadWrite)?;
        Ok(Self {
            system: Arc::clone(system),
            handle: Some(handle),
        })
    }

    /// The file, until it is dropped.
    pub(super) fn handle(&self) -> &Handle {
        const NONE: &Handle = &Handle::from_raw(-1);
        self.handle.as_ref().unwrap_or(NONE)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.system.close(handle);
        }
    }
}
