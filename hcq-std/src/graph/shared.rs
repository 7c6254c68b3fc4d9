//! Memory that all devices of a graph see: its signals, and what copies between them go through.
#![allow(unsafe_code, reason = "allocates pages of the process")]

use std::ptr::NonNull;
use std::sync::Arc;

use hcq_nostd::graph::Seen;

use super::plan::is_processor;
use crate::Error;
use crate::backend::Purpose;
use crate::heap::Allocation;
use crate::inner::Inner;

const PAGE: usize = 4096;

/// Pages of the process, which several devices are told of.
struct Pages {
    start: NonNull<u8>,
    layout: std::alloc::Layout,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Pages {}
// SAFETY: a shared reference gives no access to it.
unsafe impl Sync for Pages {}

impl Pages {
    fn new(bytes: usize) -> Result<Arc<Self>, Error> {
        let size = bytes.max(1).next_multiple_of(PAGE);
        let none = Error::OutOfMemory {
            bytes: bytes as u64,
            errno: crate::seam::Errno::NOMEM,
        };
        let Ok(layout) = std::alloc::Layout::from_size_align(size, PAGE) else {
            return Err(none);
        };
        // SAFETY: at least a page.
        let start = unsafe { std::alloc::alloc_zeroed(layout) };
        let start = NonNull::new(start).ok_or(none)?;
        Ok(Arc::new(Self { start, layout }))
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout; the devices have forgotten it, since they keep it until then.
        unsafe { std::alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// Memory that all devices see: of one of them, or of the process where their drivers have nothing in common. By device; the
/// first one's address is the one that the graph is recorded for.
fn common(
    devices: &[Arc<Inner>],
    bytes: usize,
    purpose: Purpose,
) -> Result<Vec<Arc<Allocation>>, Error> {
    if let [one] = devices {
        return Ok(vec![one.heap.allocate(bytes, purpose)?]);
    }
    let mut drivers = devices.iter().filter(|d| !is_processor(d));
    let driver = drivers.next().map(|d| d.backend.target().0);
    if drivers.all(|d| Some(d.backend.target().0) == driver) {
        for owner in devices {
            let Ok(memory) = owner.heap.allocate(bytes, purpose) else {
                continue;
            };
            let all = devices.iter().map(|d| match Arc::ptr_eq(d, owner) {
                true => Ok(Arc::clone(&memory)),
                false if d.backend.adopts_coherently() => d.heap.import(&memory),
                false => Err(incoherent(d)),
            });
            if let Ok(all) = all.collect::<Result<Vec<_>, Error>>() {
                return Ok(all);
            }
        }
    }
    if let Some(device) = devices.iter().find(|d| !d.backend.adopts_coherently()) {
        return Err(incoherent(device));
    }
    let pages = Pages::new(bytes)?;
    let adopt = |device: &Arc<Inner>| {
        let (start, len) = (pages.start, pages.layout.size());
        let keep = Box::new(Arc::clone(&pages));
        device.heap.adopt(start, len, true, Some(keep))
    };
    devices.iter().map(adopt).collect()
}

fn incoherent(device: &Inner) -> Error {
    Error::Graph {
        reason: format!(
            "{} does not see what others store into memory that is not its own, so that it waits for nobody but processors",
            device.name
        ),
    }
}

/// What devices see at other addresses than the first one.
pub(super) fn elsewhere(
    all: &[Arc<Allocation>],
    allocation: Option<u32>,
) -> impl Iterator<Item = Seen> {
    let first = all.first().map_or(0, |a| a.address());
    let apart = (0u16..).zip(all).filter(move |(_, a)| a.address() != first);
    apart.map(move |(device, a)| Seen {
        device,
        allocation,
        address: a.address(),
    })
}

/// What copies cross through, if there are any, as every device sees it.
pub(super) fn stage(devices: &[Arc<Inner>], bytes: u64) -> Result<Vec<Arc<Allocation>>, Error> {
    match usize::try_from(bytes) {
        Ok(0) => Ok(Vec::new()),
        Ok(bytes) => common(devices, bytes, Purpose::Exchange),
        Err(_) => Err(Error::TooLarge {
            what: "bytes of copies through the host",
            size: bytes,
            most: isize::MAX as u64,
        }),
    }
}

/// Memory for so many signals and a spare one, as every device sees it.
pub(super) fn signals(devices: &[Arc<Inner>], slots: usize) -> Result<Vec<Arc<Allocation>>, Error> {
    let bytes = (slots * 16 + 16).next_multiple_of(64);
    common(devices, bytes, Purpose::Signals)
}
