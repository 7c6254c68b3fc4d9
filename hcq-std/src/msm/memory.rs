//! Memory objects.
//!
//! An object has its GPU address as long as it lives. It lives until its handle is closed and no mapping of it is left; newer
//! kernels let the call that closes a handle wait until nothing in flight names the object any more. So handles of objects that
//! the GPU may yet use are kept, and closed later.
#![allow(unsafe_code, reason = "memory that threads share by its owner's rules")]

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use hcq_uapi::drm::drm_gem_close;
use hcq_uapi::msm::{self, BoFlags, SubmitBoFlags};

use super::advice;
use super::node::{ADDRESS_END, Node};
use crate::Error;
use crate::backend::Piece;
use crate::mapping::{Mapping, Room};
use crate::qcom::driver::{Block, Caching};
use crate::seam::{Errno, page_bytes};

/// Where searches for addresses that host and GPU both have free begin: at so many places of the range.
const PLACES: u64 = 16;

/// An object with its address.
#[derive(Clone, Copy, Debug)]
struct Entry {
    address: u64,
    len: u64,
    handle: u32,
}

impl Entry {
    const fn end(&self) -> u64 {
        self.address.saturating_add(self.len)
    }
}

/// The objects of a node.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// By address.
    live: Vec<Entry>,
    /// The same objects as the kernel takes them.
    list: Vec<msm::drm_msm_gem_submit_bo>,
    /// Objects that are not used any more, but by what may be in flight.
    dead: Vec<Entry>,
    /// Where the last search for addresses found some.
    place: u64,
}

impl Table {
    /// All objects, for a submission.
    pub(super) fn submitted(&self) -> &[msm::drm_msm_gem_submit_bo] {
        &self.list
    }

    /// Words of an object, for a submission with [`submitted`](Self::submitted). `None` if there is no such object.
    pub(super) fn command(&self, piece: &Piece) -> Option<msm::drm_msm_gem_submit_cmd> {
        let behind = self.live.partition_point(|o| o.address <= piece.address);
        let index = behind.checked_sub(1)?;
        let object = self.live.get(index)?;
        let bytes = u32::try_from(piece.words.checked_mul(4)?).ok()?;
        let offset = piece.address - object.address;
        let inside = offset.checked_add(bytes.into())? <= object.len;
        inside.then_some(msm::drm_msm_gem_submit_cmd {
            r#type: msm::MSM_SUBMIT_CMD_BUF,
            submit_idx: u32::try_from(index).ok()?,
            submit_offset: u32::try_from(offset).ok()?,
            size: bytes,
            ..Default::default()
        })
    }

    fn insert(&mut self, entry: Entry) {
        let at = self.live.partition_point(|o| o.address < entry.address);
        let used = msm::drm_msm_gem_submit_bo {
            flags: SubmitBoFlags::READ | SubmitBoFlags::WRITE,
            handle: entry.handle,
            presumed: entry.address,
        };
        self.live.insert(at, entry);
        self.list.insert(at, used);
    }

    fn remove(&mut self, handle: u32) -> Option<Entry> {
        let at = self.live.iter().position(|o| o.handle == handle)?;
        self.list.remove(at);
        Some(self.live.remove(at))
    }

    /// The lowest gap of so many bytes in a range.
    fn gap(&self, within: &Range<u64>, bytes: u64) -> Option<u64> {
        let mut taken: Vec<&Entry> = self.live.iter().chain(&self.dead).collect();
        taken.sort_unstable_by_key(|o| o.address);
        let mut at = within.start;
        for object in taken {
            if object.end() <= at {
                continue;
            }
            if at.checked_add(bytes)? <= object.address {
                break;
            }
            at = object.end();
        }
        (at.checked_add(bytes)? <= within.end).then_some(at)
    }

    /// Closes handles that nothing in flight uses any more.
    fn reap(&mut self, node: &Node) {
        self.dead.retain(|object| !node.closes(object.handle));
    }
}

impl Node {
    /// Closes a handle unless the GPU may use the object.
    fn closes(&self, handle: u32) -> bool {
        let mut prepare = msm::drm_msm_gem_cpu_prep {
            handle,
            op: msm::MSM_PREP_WRITE | msm::MSM_PREP_NOSYNC,
            ..Default::default()
        };
        if matches!(self.call(&mut prepare), Err(Errno::BUSY)) {
            return false;
        }
        self.close(handle);
        true
    }

    fn close(&self, handle: u32) {
        // What is not given back stays until the node is closed.
        let _ = self.give_back(drm_gem_close { handle, pad: 0 });
    }

    fn info(&self, handle: u32, info: u32, value: u64) -> Result<u64, Errno> {
        let mut argument = msm::drm_msm_gem_info {
            handle,
            info,
            value,
            ..Default::default()
        };
        self.call(&mut argument)?;
        Ok(argument.value)
    }
}

/// An object's handle, given back when it is dropped.
#[derive(Debug)]
struct Object {
    node: Arc<Node>,
    handle: u32,
}

impl Drop for Object {
    fn drop(&mut self) {
        let mut table = self.node.table();
        match table.remove(self.handle) {
            // Nothing was ever submitted with it.
            None => self.node.close(self.handle),
            Some(entry) => table.dead.push(entry),
        }
        table.reap(&self.node);
    }
}

/// Memory that the GPU sees.
#[derive(Debug)]
pub(super) struct Bo {
    /// Ended before the handle is given back: it holds the object.
    _mapping: Mapping,
    _object: Object,
    cpu: NonNull<u8>,
    address: u64,
    len: usize,
}

// SAFETY: a plain range; who may access it when is its owner's business.
unsafe impl Send for Bo {}
// SAFETY: as above.
unsafe impl Sync for Bo {}

/// A step that failed: the call, and the answer.
type Step = (&'static str, Errno);

impl Bo {
    /// Zeroed memory.
    pub(super) fn allocate(
        node: &Arc<Node>,
        bytes: usize,
        caching: Caching,
    ) -> Result<Self, Error> {
        let out_of_memory = |errno| Error::OutOfMemory {
            bytes: bytes as u64,
            errno,
        };
        let len = bytes.max(1).checked_next_multiple_of(page_bytes());
        // The kernel cuts off what is above 32 bits.
        let len = len.filter(|&n| u32::try_from(n).is_ok());
        let len = len.ok_or(out_of_memory(Errno::NOMEM))?;
        let explain = |(operation, errno): Step| match errno {
            Errno::NOMEM => out_of_memory(errno),
            errno => Node::failed(operation, errno, advice::memory(errno)),
        };
        if caching == Caching::Cached && node.snoops() {
            match Self::create(node, bytes, len, BoFlags::CACHED_COHERENT) {
                // Where the GPU cannot, it will not for the next one either.
                Err(("GEM_NEW", Errno::INVAL)) => node.no_snoop.store(true, Ordering::Relaxed),
                other => return other.map_err(explain),
            }
        }
        Self::create(node, bytes, len, BoFlags::WC).map_err(explain)
    }

    fn create(node: &Arc<Node>, bytes: usize, len: usize, flags: BoFlags) -> Result<Self, Step> {
        let mut argument = msm::drm_msm_gem_new {
            size: len as u64,
            flags,
            handle: 0,
        };
        node.call(&mut argument).map_err(|e| ("GEM_NEW", e))?;
        let handle = argument.handle;
        // From here on whatever fails drops what there is.
        let object = Object {
            node: Arc::clone(node),
            handle,
        };
        let offset = node
            .info(handle, msm::MSM_INFO_GET_OFFSET, 0)
            .map_err(|e| ("GEM_INFO(GET_OFFSET)", e))?;
        let (mapping, address) = place(node, handle, len, offset)?;
        Ok(Self {
            cpu: mapping.start(),
            _mapping: mapping,
            _object: object,
            address,
            len: bytes,
        })
    }
}

/// Maps an object and gives it its GPU address: the same, as graphs with processors need it, where there is one.
fn place(node: &Arc<Node>, handle: u32, len: usize, offset: u64) -> Result<(Mapping, u64), Step> {
    let file = node.file().map_err(|e| ("mmap", e))?;
    // Held until the object is in the table, so that nobody else takes its addresses for free.
    let mut table = node.table();
    table.reap(node);
    let enter = |table: &mut Table, address| {
        table.insert(Entry {
            address,
            len: len as u64,
            handle,
        });
    };
    let file = Some((file, offset));
    if let Some((room, address)) = common(node, &mut table, handle, len) {
        let mapping = room.map(file).map_err(|e| ("mmap", e))?;
        enter(&mut table, address);
        return Ok((mapping, address));
    }
    let mapping = Mapping::new(&node.system, file, len).map_err(|e| ("mmap", e))?;
    let told = node.info(handle, msm::MSM_INFO_GET_IOVA, 0);
    let address = told.map_err(|e| ("GEM_INFO(GET_IOVA)", e))?;
    let end = address.checked_add(len as u64);
    let fits = address != 0
        && address.is_multiple_of(page_bytes() as u64)
        && end.is_some_and(|end| end <= ADDRESS_END);
    if !fits {
        let what = "GEM_INFO(GET_IOVA) with an address that the GPU cannot have";
        return Err((what, Errno::IO));
    }
    enter(&mut table, address);
    Ok((mapping, address))
}

/// An address range of the host's that is the object's GPU address now, too.
fn common(node: &Node, table: &mut Table, handle: u32, len: usize) -> Option<(Room, u64)> {
    let range = node.addresses.as_ref()?;
    let page = page_bytes() as u64;
    let step = (range.end - range.start) / PLACES / page * page;
    for _ in 0..PLACES {
        let first = range.start + table.place * step;
        let found = table.gap(&(first..range.end), len as u64);
        if let Some(address) = found
            && let Some(room) = Room::new(&node.system, address, len)
        {
            match node.info(handle, msm::MSM_INFO_SET_IOVA, address) {
                Ok(_) => return Some((room, address)),
                // Something of the kernel's is there.
                Err(Errno::BUSY | Errno::NOSPC) => {}
                Err(_) => return None,
            }
        }
        table.place = (table.place + 1) % PLACES;
    }
    None
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
        true
    }

    fn flush(&self, _: usize, _: usize) -> Result<(), Errno> {
        Ok(())
    }
}

/// Pages of the process that copy queues read: threads of the host. The GPU has nothing at their address.
#[derive(Debug)]
pub(super) struct Pages {
    cpu: NonNull<u8>,
    len: usize,
}

// SAFETY: a plain range that is only read; it stays as its owner promised.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

/// Marks addresses of the process's pages: more bits than GPUs have.
const FOREIGN: u64 = 1 << 56;

impl Pages {
    pub(super) const fn new(cpu: NonNull<u8>, len: usize) -> Self {
        Self { cpu, len }
    }
}

impl Block for Pages {
    fn cpu(&self) -> NonNull<u8> {
        self.cpu
    }

    fn address(&self) -> u64 {
        self.cpu.as_ptr().expose_provenance() as u64 | FOREIGN
    }

    fn len(&self) -> usize {
        self.len
    }

    fn is_coherent(&self) -> bool {
        true
    }

    fn flush(&self, _: usize, _: usize) -> Result<(), Errno> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Table};
    use crate::backend::Piece;

    fn table(objects: &[(u64, u64)]) -> Table {
        let mut table = Table::default();
        for (&(address, len), handle) in objects.iter().zip(1..) {
            table.insert(Entry {
                address,
                len,
                handle,
            });
        }
        table
    }

    #[test]
    fn words_are_found_in_their_object() {
        let table = table(&[(0x9000, 0x1000), (0x1000, 0x2000), (0x3000, 0x1000)]);
        let handles: Vec<u32> = table.submitted().iter().map(|o| o.handle).collect();
        assert_eq!(handles, [2, 3, 1], "by address");
        let find = |address, words| {
            let command = table.command(&Piece { address, words })?;
            Some((command.submit_idx, command.submit_offset, command.size))
        };
        assert_eq!(find(0x1000, 0x800), Some((0, 0, 0x2000)));
        assert_eq!(find(0x2ffc, 1), Some((0, 0x1ffc, 4)));
        assert_eq!(find(0x2ffc, 2), None, "two objects");
        assert_eq!(find(0x3000, 2), Some((1, 0, 8)));
        assert_eq!(find(0x9ff8, 2), Some((2, 0xff8, 8)));
        for (address, words) in [
            (0xfff, 1),
            (0x4000, 1),
            (0xa000, 1),
            (u64::MAX, 1),
            (0x1000, usize::MAX),
        ] {
            assert_eq!(find(address, words), None, "{address:#x} {words}");
        }
    }

    #[test]
    fn gaps_leave_out_what_is_in_flight() {
        let mut table = table(&[(0x1000, 0x1000), (0x4000, 0x1000), (0x6000, 0x1000)]);
        let all = 0x1000..0x9000;
        assert_eq!(table.gap(&all, 0x2000), Some(0x2000));
        assert_eq!(table.gap(&all, 0x1000), Some(0x2000));
        assert_eq!(table.gap(&all, 0x3000), None);
        assert_eq!(table.gap(&(0x5000..0x9000), 0x2000), Some(0x7000));
        let entry = table.remove(2).expect("there");
        assert_eq!(table.gap(&all, 0x4000), Some(0x2000));
        table.dead.push(entry);
        assert_eq!(table.gap(&all, 0x4000), None);
        assert_eq!(table.gap(&all, u64::MAX), None);
        assert_eq!(table.submitted().len(), 2);
    }
}
