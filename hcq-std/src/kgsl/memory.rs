//! Memory objects: allocated ones, and pages of the process.
//!
//! An object's GPU addresses are the kernel's choice, and it has them as long as it lives. It lives until it is freed and no
//! mapping of it is left.
#![allow(unsafe_code, reason = "hands addresses to the driver")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hcq_boards::qcom::CACHE_LINE;
use hcq_uapi::kgsl::{self, CacheMode, CacheOps, MemFlags};

use super::advice;
use super::device::Node;
use crate::Error;
use crate::ioctl::call_with;
use crate::mapping::Mapping;
use crate::qcom::driver::{Block, Caching};
use crate::seam::{Errno, page_bytes};

/// GPU addresses have 49 bits at most.
const ADDRESS_END: u64 = 1 << 49;
/// Addresses that a process may choose end here, or before (`KGSL_IOMMU_VA_END64`).
const COMMON_END: u64 = 1 << 39;

/// An object's number, freed when it is dropped.
#[derive(Debug)]
struct Object {
    node: Arc<Node>,
    id: u32,
}

impl Drop for Object {
    fn drop(&mut self) {
        let free = kgsl::kgsl_gpuobj_free {
            id: self.id,
            ..Default::default()
        };
        // What is not given back stays until the node is closed.
        let _ = self.node.give_back(free);
    }
}

/// Memory that the GPU sees.
#[derive(Debug)]
pub(super) struct Bo {
    /// Freed after the mapping, which holds it.
    _mapping: Option<Mapping>,
    object: Object,
    cpu: NonNull<u8>,
    address: u64,
    len: usize,
    /// Bytes from the object's start.
    offset: u64,
    /// Bytes of the object.
    whole: u64,
    is_coherent: bool,
}

// SAFETY: a plain range; who may access it when is its owner's business.
unsafe impl Send for Bo {}
// SAFETY: as above.
unsafe impl Sync for Bo {}

/// Large pages of the GPU's tables, by size.
const fn alignment(bytes: usize) -> u8 {
    match bytes {
        0x10_0000.. => 20,
        0x1_0000.. => 16,
        _ => 12,
    }
}

/// A step that failed: the call, and the answer.
type Step = (&'static str, Errno);

impl Bo {
    /// Zeroed memory.
    pub(super) fn allocate(
        node: &Arc<Node>,
        bytes: usize,
        caching: Caching,
    ) -> Result<Self, Error> {
        let page = page_bytes();
        let out_of_memory = |errno| Error::OutOfMemory {
            bytes: bytes as u64,
            errno,
        };
        let len = bytes.max(1).checked_next_multiple_of(page);
        let len = len.filter(|&n| u32::try_from(n).is_ok());
        let len = len.ok_or(out_of_memory(Errno::NOMEM))?;
        let explain = |(operation, errno): Step| match errno {
            Errno::NOMEM => out_of_memory(errno),
            errno => Node::failed(operation, errno, advice::memory(errno)),
        };
        if caching == Caching::Cached && !node.no_snoop.load(Ordering::Relaxed) {
            let flags = MemFlags::cache_mode(CacheMode::WriteBack) | MemFlags::IOCOHERENT;
            let bo = Self::create(node, bytes, len, flags).map_err(explain)?;
            if bo.is_coherent {
                return Ok(bo);
            }
            // The kernel drops the flag where the GPU cannot. It will not for the next one either.
            node.no_snoop.store(true, Ordering::Relaxed);
        }
        let mode = match caching {
            Caching::Uncached => CacheMode::Uncached,
            Caching::Cached | Caching::Gathered => CacheMode::WriteCombine,
        };
        Self::create(node, bytes, len, MemFlags::cache_mode(mode)).map_err(explain)
    }

    /// At one address for host and GPU, as graphs with processors need it, where the kernel finds one.
    fn create(node: &Arc<Node>, bytes: usize, len: usize, flags: MemFlags) -> Result<Self, Step> {
        if !node.own_addresses.load(Ordering::Relaxed) {
            match Self::create_at(node, bytes, len, flags | MemFlags::USE_CPU_MAP) {
                // Where host and GPU have no range in common, they have none for the next one either.
                Err(("mmap", Errno::NOMEM)) => node.own_addresses.store(true, Ordering::Relaxed),
                // Something else of the process is there.
                Err(("mmap", Errno(libc::EEXIST))) => {}
                other => return other,
            }
        }
        Self::create_at(node, bytes, len, flags)
    }

    fn create_at(
        node: &Arc<Node>,
        bytes: usize,
        len: usize,
        flags: MemFlags,
    ) -> Result<Self, Step> {
        let mut argument = kgsl::kgsl_gpuobj_alloc {
            size: len as u64,
            flags: flags | MemFlags::align(alignment(len)) | MemFlags::kind(kgsl::KGSL_MEMTYPE_CL),
            ..Default::default()
        };
        let file = node.file().map_err(|e| ("GPUOBJ_ALLOC", e))?;
        // SAFETY: the one address is that of a label with no bytes.
        unsafe { call_with(&*node.system, file, &mut argument) }
            .map_err(|e| ("GPUOBJ_ALLOC", e))?;
        // From here on whatever fails drops what there is.
        let object = Object {
            node: Arc::clone(node),
            id: argument.id,
        };
        let mapped = usize::try_from(argument.mmapsize).ok();
        let mapped = mapped.filter(|&n| n >= len && n <= isize::MAX as usize);
        let mapped = mapped.ok_or(("GPUOBJ_ALLOC with another size", Errno::IO))?;
        let offset = kgsl::mmap_offset(argument.id, page_bytes().trailing_zeros());
        let offset = offset.ok_or(("mmap", Errno::INVAL))?;
        let mapping = Mapping::new(&node.system, Some((file, offset)), mapped);
        let mapping = mapping.map_err(|e| ("mmap", e))?;
        let start = mapping.start();
        // An address that is to be the host's is known from here on.
        let (address, whole, flags) = place(&object)?;
        if whole < len as u64 {
            return Err(("GPUOBJ_ALLOC with another size", Errno::IO));
        }
        let cached = matches!(
            flags.caches(),
            CacheMode::WriteBack | CacheMode::WriteThrough
        );
        Ok(Self {
            _mapping: Some(mapping),
            object,
            cpu: start,
            address,
            len: bytes,
            offset: 0,
            whole,
            is_coherent: !cached || flags.contains(MemFlags::IOCOHERENT),
        })
    }

    /// Pages of this process. The kernel takes whole pages.
    pub(super) fn import(
        node: &Arc<Node>,
        cpu: NonNull<u8>,
        bytes: usize,
        writable: bool,
    ) -> Result<Self, Error> {
        let page = page_bytes();
        let at = cpu.as_ptr().expose_provenance();
        let start = at & !(page - 1);
        let end = at
            .checked_add(bytes.max(1))
            .and_then(|end| end.checked_next_multiple_of(page));
        let end = end.ok_or(Error::Address {
            address: at as u64,
            reason: "it ends beyond the last address",
        })?;
        let failed =
            |(operation, errno): Step| Node::failed(operation, errno, advice::import(errno));
        let (address, whole, is_coherent, object) =
            adopt(node, start, end - start, writable).map_err(failed)?;
        let offset = (at - start) as u64;
        Ok(Self {
            _mapping: None,
            object,
            cpu,
            address: address + offset,
            len: bytes,
            offset,
            whole,
            is_coherent,
        })
    }
}

/// Makes whole pages an object: its address, bytes, whether the GPU looks into the host's caches, and it. At the host's address,
/// if the GPU may have that one.
fn adopt(
    node: &Arc<Node>,
    start: usize,
    len: usize,
    writable: bool,
) -> Result<(u64, u64, bool, Object), Step> {
    if (start as u64).saturating_add(len as u64) <= COMMON_END {
        match adopt_at(node, start, len, writable, MemFlags::USE_CPU_MAP) {
            Err((_, Errno::NOMEM)) => {}
            other => return other,
        }
    }
    adopt_at(node, start, len, writable, MemFlags::empty())
}

fn adopt_at(
    node: &Arc<Node>,
    start: usize,
    len: usize,
    writable: bool,
    how: MemFlags,
) -> Result<(u64, u64, bool, Object), Step> {
    let what = "GPUOBJ_IMPORT of host memory";
    let pages = kgsl::kgsl_gpuobj_import_useraddr {
        virtaddr: start as u64,
    };
    let mut flags = MemFlags::cache_mode(CacheMode::WriteBack)
        | MemFlags::IOCOHERENT
        | MemFlags::kind(kgsl::KGSL_MEMTYPE_CL)
        | how;
    flags.set(MemFlags::GPUREADONLY, !writable);
    let mut argument = kgsl::kgsl_gpuobj_import {
        r#priv: std::ptr::from_ref(&pages).expose_provenance() as u64,
        priv_len: len as u64,
        flags,
        r#type: kgsl::KGSL_USER_MEM_TYPE_ADDR,
        id: 0,
    };
    let file = node.file().map_err(|e| (what, e))?;
    // SAFETY: the one address is that of a struct which is read; the pages that it names are the caller's, who promised
    // them to the device.
    unsafe { call_with(&*node.system, file, &mut argument) }.map_err(|e| (what, e))?;
    let object = Object {
        node: Arc::clone(node),
        id: argument.id,
    };
    let (address, whole, flags) = place(&object)?;
    if whole < len as u64 {
        return Err((what, Errno::IO));
    }
    Ok((address, whole, flags.contains(MemFlags::IOCOHERENT), object))
}

/// Where the GPU has an object, its bytes, and what it is.
fn place(object: &Object) -> Result<(u64, u64, MemFlags), Step> {
    let mut info = kgsl::kgsl_gpuobj_info {
        id: object.id,
        ..Default::default()
    };
    let called = object.node.call(&mut info);
    called.map_err(|e| ("GPUOBJ_INFO", e))?;
    let end = info.gpuaddr.checked_add(info.size);
    let fits = info.gpuaddr != 0
        && info.gpuaddr.is_multiple_of(page_bytes() as u64)
        && end.is_some_and(|end| end <= ADDRESS_END);
    if fits {
        Ok((info.gpuaddr, info.size, info.flags))
    } else {
        Err((
            "GPUOBJ_INFO with an address that the GPU cannot have",
            Errno::IO,
        ))
    }
}

impl Block for Bo {
    fn cpu(&self) -> NonNull<u8> {
        self.cpu
    }

    fn address(&self) -> u64 {
        self.address
    }

    fn len(&self) -> usize {
        self.len
    }

    fn is_coherent(&self) -> bool {
        self.is_coherent
    }

    fn flush(&self, start: usize, len: usize) -> Result<(), Errno> {
        if self.is_coherent || len == 0 {
            return Ok(());
        }
        let (offset, length) = lines(
            self.offset.saturating_add(start as u64),
            len as u64,
            self.whole,
        );
        let range = kgsl::kgsl_gpuobj_sync_obj {
            offset,
            length,
            id: self.object.id,
            op: CacheOps::CLEAN | CacheOps::INV | CacheOps::RANGE,
        };
        let mut argument = kgsl::kgsl_gpuobj_sync {
            objs: std::ptr::from_ref(&range).expose_provenance() as u64,
            obj_len: size_of_val(&range) as u32,
            count: 1,
        };
        let node = &self.object.node;
        // SAFETY: the one address is that of the range, which is read.
        unsafe { call_with(&*node.system, node.file()?, &mut argument) }
    }
}

/// The cache lines of `len` bytes at `start` of an object of `whole` bytes: the first one's offset, and their bytes.
fn lines(start: u64, len: u64, whole: u64) -> (u64, u64) {
    let line = u64::from(CACHE_LINE);
    let first = start.min(whole) / line * line;
    let end = start.saturating_add(len).min(whole);
    let end = end.checked_next_multiple_of(line).unwrap_or(end).min(whole);
    (first, end.saturating_sub(first))
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn ranges_are_widened_to_lines_inside_the_object() {
        for (given, lines_of_it) in [
            ((0, 1, 4096), (0, 64)),
            ((63, 1, 4096), (0, 64)),
            ((63, 2, 4096), (0, 128)),
            ((64, 64, 4096), (64, 64)),
            ((65, 126, 4096), (64, 128)),
            ((4000, 96, 4096), (3968, 128)),
            ((4000, u64::MAX, 4096), (3968, 128)),
            ((5000, 10, 4096), (4096, 0)),
            ((0, 100, 100), (0, 100)),
        ] {
            let (start, len, whole) = given;
            assert_eq!(lines(start, len, whole), lines_of_it, "{given:?}");
        }
    }
}
