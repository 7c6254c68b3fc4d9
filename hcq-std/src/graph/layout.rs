//! Where everything of an instance is: a block of memory for each device, cut into the graph's regions.

use std::sync::Arc;

use hcq_nostd::graph::{Addresses, DeviceRecord, QueueRecord, Records, Seen};

use super::plan::kind;
use crate::Error;
use crate::backend::Purpose;
use crate::heap::Allocation;
use crate::inner::Inner;

/// Alignment of a queue's words, of argument blocks and of what is beside queues.
const ALIGN: usize = 256;

/// Where everything of an instance is.
pub(super) struct Places {
    pub(super) words: Vec<u64>,
    pub(super) kernargs: Vec<u64>,
    pub(super) beside: Vec<u64>,
    pub(super) signals: u64,
    pub(super) seen: Vec<Seen>,
}

impl Places {
    /// Places to measure with: aligned, and different from each other.
    pub(super) fn trial(queues: usize, devices: usize) -> Self {
        let at = |from: usize, n: usize| -> Vec<u64> {
            (from..from + n).map(|i| (i as u64 + 1) << 20).collect()
        };
        Self {
            signals: 1 << 20,
            seen: Vec::new(),
            words: at(1, queues),
            kernargs: at(1 + queues, devices),
            beside: at(1 + queues + devices, queues),
        }
    }

    pub(super) fn addresses(&self) -> Addresses<'_> {
        Addresses {
            signals: self.signals,
            words: &self.words,
            kernargs: &self.kernargs,
            beside: &self.beside,
        }
    }
}

/// Bytes of a region, and where they are in their device's block.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) device: usize,
    pub(super) offset: usize,
    pub(super) bytes: usize,
    /// With the host, which puts them into a ring.
    pub(super) host: bool,
}

/// A block for each device, and what goes where.
pub(super) struct Layout {
    pub(super) blocks: Vec<Option<Arc<Allocation>>>,
    /// As the graph's regions: words, argument blocks, what is beside.
    pub(super) parts: Vec<Part>,
}

impl Layout {
    pub(super) fn new(
        devices: &[Arc<Inner>],
        queues: &[QueueRecord],
        parts_of: &[DeviceRecord],
    ) -> Result<Self, Error> {
        let mut ends = vec![0usize; devices.len()];
        let mut parts = Vec::new();
        let mut add = |device: usize, bytes: usize, host: bool| {
            let end = ends.get_mut(device);
            let offset = end.as_ref().map_or(0, |e| **e);
            if let (false, Some(end)) = (host, end) {
                *end = (offset + bytes).next_multiple_of(ALIGN);
            }
            parts.push(Part {
                device,
                offset,
                bytes,
                host,
            });
        };
        for record in queues {
            let device = usize::from(record.device());
            let backend = devices.get(device).map(|d| &d.backend);
            let kind = kind(record.engine());
            let align = backend.map_or(1, |b| b.reference_align(kind));
            let host = backend.is_some_and(|b| b.largest_part(kind).is_some());
            let words = (record.words() as usize).next_multiple_of(align);
            add(device, words * 4, host);
        }
        for (device, record) in parts_of.iter().enumerate() {
            let align = record.kernargs_align() as usize;
            if align > ALIGN {
                return Err(Error::Graph {
                    reason: format!("an argument block must be aligned to {align} bytes"),
                });
            }
            add(device, record.kernargs_bytes() as usize, false);
        }
        for record in queues {
            let bytes = record.beside_bytes() as usize;
            add(usize::from(record.device()), bytes, false);
        }
        let mut blocks = Vec::new();
        for (device, &bytes) in devices.iter().zip(&ends) {
            blocks.push(match bytes {
                0 => None,
                n => Some(device.heap.allocate(n, Purpose::Exchange)?),
            });
        }
        Ok(Self { blocks, parts })
    }

    pub(super) fn address(&self, part: &Part) -> u64 {
        match self.blocks.get(part.device) {
            Some(Some(block)) if !part.host => block.address() + part.offset as u64,
            _ => 0,
        }
    }

    pub(super) fn places(&self, records: &Records<'_>) -> Places {
        let all: Vec<u64> = self.parts.iter().map(|p| self.address(p)).collect();
        let (queues, devices) = (records.queues.len(), records.devices.len());
        let at = |from: usize, n: usize| all.get(from..from + n).unwrap_or_default().to_vec();
        Places {
            signals: 0,
            seen: Vec::new(),
            words: at(0, queues),
            kernargs: at(queues, devices),
            beside: at(queues + devices, queues),
        }
    }
}
