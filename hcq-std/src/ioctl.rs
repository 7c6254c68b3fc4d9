//! Calls of kernel drivers, each with the argument that is its own.
#![allow(unsafe_code, reason = "ioctl takes a pointer")]

use hcq_uapi::ioctl::Argument;

use crate::seam::{Errno, Handle, System};

/// Arguments with no address in them through which the kernel or a GPU touches memory of Rust objects. Addresses of device
/// memory are none: what runs on a device is promised elsewhere.
pub(crate) trait Plain: Argument + Copy {}

/// Makes a call.
pub(crate) fn call<A: Plain>(
    system: &dyn System,
    file: &Handle,
    argument: &mut A,
) -> Result<(), Errno> {
    // SAFETY: the argument holds no address of an object, by `Plain`.
    unsafe { call_with(system, file, argument) }
}

/// Makes a call that gives something back, a second time if the first is refused: a driver in the middle of a reset
/// refuses what it takes a moment later, and what is not given back stays until the process ends.
pub(crate) fn give_back<A: Plain>(
    system: &dyn System,
    file: &Handle,
    argument: A,
) -> Result<(), Errno> {
    let mut first = argument;
    call(system, file, &mut first).or_else(|_| {
        let mut second = argument;
        call(system, file, &mut second)
    })
}

/// Makes a call whose argument holds addresses.
///
/// # Safety
/// Addresses in the argument are of memory that is as large as the call takes it to be, and writable where the call writes.
pub(crate) unsafe fn call_with<A: Argument>(
    system: &dyn System,
    file: &Handle,
    argument: &mut A,
) -> Result<(), Errno> {
    let pointer = std::ptr::from_mut(argument).cast();
    // SAFETY: the request is that of the argument's type, with its size; what it holds is the caller's promise.
    unsafe { system.ioctl(file, A::REQUEST.into(), pointer) }.map(drop)
}
