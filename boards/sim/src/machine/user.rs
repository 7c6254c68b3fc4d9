//! The caller's memory, as a kernel reads and writes it: an address that is not there is an error and nothing worse.
#![allow(
    unsafe_code,
    reason = "addresses of a process are numbers until the kernel has looked at them"
)]

use std::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// `TASK_SIZE_MAX` of x86-64 with four levels of page tables; addresses of processes are below it elsewhere too.
const TASK_SIZE: u64 = 0x7FFF_FFFF_F000;

/// `access_ok`: whether a range can be the process's at all.
pub(crate) fn access_ok(address: u64, bytes: u64) -> bool {
    address
        .checked_add(bytes)
        .is_some_and(|end| end <= TASK_SIZE)
}

fn checked(address: u64, len: usize) -> Result<usize, i32> {
    let bytes = u64::try_from(len).map_err(|_| libc::EFAULT)?;
    if address == 0 || !access_ok(address, bytes) {
        return Err(libc::EFAULT);
    }
    usize::try_from(address).map_err(|_| libc::EFAULT)
}

/// `copy_from_user`.
pub(crate) fn read(address: u64, bytes: &mut [u8]) -> Result<(), i32> {
    if bytes.is_empty() {
        return Ok(());
    }
    let from = checked(address, bytes.len())?;
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let remote = libc::iovec {
        iov_base: with_exposed_provenance_mut(from),
        iov_len: bytes.len(),
    };
    // SAFETY: `local` is writable for its length; the kernel checks `remote`.
    let copied = unsafe {
        libc::process_vm_readv(this_process(), &raw const local, 1, &raw const remote, 1, 0)
    };
    match usize::try_from(copied) {
        Ok(copied) if copied == bytes.len() => return Ok(()),
        Err(_) if refused() => {}
        _ => return Err(libc::EFAULT),
    }
    let source: *const u8 = with_exposed_provenance(from);
    // SAFETY: this host does not let a process ask, so the caller of the `ioctl` is believed: the memory is there.
    unsafe { std::ptr::copy_nonoverlapping(source, bytes.as_mut_ptr(), bytes.len()) };
    Ok(())
}

/// `copy_to_user`.
pub(crate) fn write(address: u64, bytes: &[u8]) -> Result<(), i32> {
    if bytes.is_empty() {
        return Ok(());
    }
    let to = checked(address, bytes.len())?;
    let local = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let remote = libc::iovec {
        iov_base: with_exposed_provenance_mut(to),
        iov_len: bytes.len(),
    };
    // SAFETY: `local` is only read; the kernel checks `remote`.
    let copied = unsafe {
        libc::process_vm_writev(this_process(), &raw const local, 1, &raw const remote, 1, 0)
    };
    match usize::try_from(copied) {
        Ok(copied) if copied == bytes.len() => return Ok(()),
        Err(_) if refused() => {}
        _ => return Err(libc::EFAULT),
    }
    let target: *mut u8 = with_exposed_provenance_mut(to);
    // SAFETY: as in `read`.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
    Ok(())
}

fn this_process() -> libc::pid_t {
    libc::pid_t::try_from(std::process::id()).unwrap_or(0)
}

/// Sandboxes forbid the call even for a process's own memory.
fn refused() -> bool {
    matches!(
        std::io::Error::last_os_error().raw_os_error(),
        Some(libc::EPERM | libc::ENOSYS)
    )
}

/// A plain value from the process.
pub(crate) fn get<T: FromBytes + IntoBytes>(address: u64) -> Result<T, i32> {
    let mut value = T::new_zeroed();
    read(address, value.as_mut_bytes())?;
    Ok(value)
}

/// A plain value to the process.
pub(crate) fn put<T: IntoBytes + Immutable>(address: u64, value: &T) -> Result<(), i32> {
    write(address, value.as_bytes())
}

/// Whether a range is mapped for reading and writing: what `hmm_range_fault` asks of the pages of a `USERPTR`.
pub(crate) fn is_mapped(address: u64, bytes: u64) -> bool {
    // A host that hides its mappings cannot be asked; the caller is believed.
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else {
        return true;
    };
    let Some(end) = address.checked_add(bytes) else {
        return false;
    };
    let mut at = address;
    for line in maps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(range), Some(access)) = (words.next(), words.next()) else {
            continue;
        };
        let parse = |text| u64::from_str_radix(text, 16).ok();
        let Some((Some(low), Some(high))) =
            range.split_once('-').map(|(a, b)| (parse(a), parse(b)))
        else {
            continue;
        };
        if high <= at {
            continue;
        }
        if low > at || !access.starts_with("rw") {
            return false;
        }
        at = high;
        if at >= end {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_looked_at() {
        let mut word = 7u32;
        let address = (&raw mut word).expose_provenance() as u64;
        assert_eq!(get::<u32>(address), Ok(7));
        assert_eq!(put(address, &9u32), Ok(()));
        assert_eq!(word, 9);
        for wrong in [0, 8, 0x1000, TASK_SIZE - 2, u64::MAX] {
            assert_eq!(get::<u32>(wrong), Err(libc::EFAULT), "{wrong:#x}");
            assert_eq!(put(wrong, &1u32), Err(libc::EFAULT), "{wrong:#x}");
        }
        assert!(is_mapped(address, 4));
        assert!(!is_mapped(0x1000, 4096));
        let code = (addresses_are_looked_at as fn()) as usize as u64;
        assert!(!is_mapped(code, 1), "code may not be written");
    }
}
