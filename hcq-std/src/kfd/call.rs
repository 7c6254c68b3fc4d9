//! Calls of `/dev/kfd`.
#![allow(unsafe_code, reason = "arguments hold addresses")]

use hcq_uapi::ioctl::Argument;
use hcq_uapi::kfd;

use crate::ioctl::{Plain, call_with};
pub(super) use crate::ioctl::{call, give_back};
use crate::seam::{Errno, Handle, System};

impl Plain for kfd::kfd_ioctl_get_version_args {}
impl Plain for kfd::kfd_ioctl_acquire_vm_args {}
impl Plain for kfd::kfd_ioctl_runtime_enable_args {}
impl Plain for kfd::kfd_ioctl_set_xnack_mode_args {}
impl Plain for kfd::kfd_ioctl_get_clock_counters_args {}
impl Plain for kfd::kfd_ioctl_get_available_memory_args {}
impl Plain for kfd::kfd_ioctl_alloc_memory_of_gpu_args {}
impl Plain for kfd::kfd_ioctl_free_memory_of_gpu_args {}
impl Plain for kfd::kfd_ioctl_create_queue_args {}
impl Plain for kfd::kfd_ioctl_destroy_queue_args {}
impl Plain for kfd::kfd_ioctl_create_event_args {}
impl Plain for kfd::kfd_ioctl_destroy_event_args {}
impl Plain for kfd::kfd_ioctl_set_event_args {}

/// Maps memory to GPUs, or takes it from them. Returns how many of them, from the first, are done, and the error that
/// stopped it.
fn each<A: Argument>(
    system: &dyn System,
    file: &Handle,
    mut argument: A,
    done: impl Fn(&A) -> u32,
    gpus: &[u32],
) -> (usize, Result<(), Errno>) {
    // SAFETY: the one address is that of the list, which the call reads `n_devices` numbers of.
    let result = unsafe { call_with(system, file, &mut argument) };
    // The kernel counts past the first error's GPU never, and a count beyond the list is no kernel's.
    let done = usize::try_from(done(&argument))
        .unwrap_or(0)
        .min(gpus.len());
    match result {
        Ok(()) if done < gpus.len() => (done, Err(Errno::IO)),
        other => (done, other),
    }
}

fn count(gpus: &[u32]) -> u32 {
    u32::try_from(gpus.len()).unwrap_or(u32::MAX)
}

/// Maps memory to GPUs.
pub(super) fn map(
    system: &dyn System,
    file: &Handle,
    handle: u64,
    gpus: &[u32],
) -> (usize, Result<(), Errno>) {
    let argument = kfd::kfd_ioctl_map_memory_to_gpu_args {
        handle,
        device_ids_array_ptr: gpus.as_ptr().expose_provenance() as u64,
        n_devices: count(gpus),
        n_success: 0,
    };
    each(system, file, argument, |a| a.n_success, gpus)
}

/// Takes memory from GPUs.
pub(super) fn unmap(
    system: &dyn System,
    file: &Handle,
    handle: u64,
    gpus: &[u32],
) -> (usize, Result<(), Errno>) {
    let argument = kfd::kfd_ioctl_unmap_memory_from_gpu_args {
        handle,
        device_ids_array_ptr: gpus.as_ptr().expose_provenance() as u64,
        n_devices: count(gpus),
        n_success: 0,
    };
    each(system, file, argument, |a| a.n_success, gpus)
}

/// Waits for one of the events. The result is one of `KFD_IOC_WAIT_RESULT_*`.
pub(super) fn wait(
    system: &dyn System,
    file: &Handle,
    events: &mut [kfd::kfd_event_data],
    timeout_ms: u32,
) -> Result<u32, Errno> {
    let mut argument = kfd::kfd_ioctl_wait_events_args {
        events_ptr: events.as_mut_ptr().expose_provenance() as u64,
        num_events: u32::try_from(events.len()).unwrap_or(u32::MAX),
        wait_for_all: 0,
        timeout: timeout_ms,
        wait_result: kfd::KFD_IOC_WAIT_RESULT_FAIL,
    };
    // SAFETY: the one address is that of the events, as many as it says, borrowed for writing.
    unsafe { call_with(system, file, &mut argument) }?;
    Ok(argument.wait_result)
}

/// How many GPUs have apertures.
pub(super) fn aperture_count(system: &dyn System, file: &Handle) -> Result<usize, Errno> {
    let mut argument = kfd::kfd_ioctl_get_process_apertures_new_args::default();
    // SAFETY: with no room for any the call writes through no address.
    unsafe { call_with(system, file, &mut argument) }?;
    // A thousand GPUs are more than any machine has.
    Ok(usize::try_from(argument.num_of_nodes)
        .unwrap_or(0)
        .min(1024))
}

/// The apertures of all GPUs of the process, at most `room`.
pub(super) fn apertures(
    system: &dyn System,
    file: &Handle,
    room: usize,
) -> Result<Vec<kfd::kfd_process_device_apertures>, Errno> {
    let mut all = vec![kfd::kfd_process_device_apertures::default(); room];
    let mut argument = kfd::kfd_ioctl_get_process_apertures_new_args {
        kfd_process_device_apertures_ptr: all.as_mut_ptr().expose_provenance() as u64,
        num_of_nodes: u32::try_from(room).unwrap_or(u32::MAX),
        ..Default::default()
    };
    // SAFETY: the one address is that of the array, as long as it says, writable.
    unsafe { call_with(system, file, &mut argument) }?;
    all.truncate(usize::try_from(argument.num_of_nodes).unwrap_or(0));
    Ok(all)
}
