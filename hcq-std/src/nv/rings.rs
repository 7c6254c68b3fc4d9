//! The channels of a GPU, and the memory that goes with them.
#![allow(unsafe_code, reason = "makes regions of channels' memory")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use hcq_nostd::fault::FaultRecord;
use hcq_nostd::mem::{Region, SharedWord, SharedWords};
use hcq_nv::device::Device;
use hcq_nv::local_memory::{LocalMemory, LocalMemoryError, Need};

use super::channel::{Channel, Group, NoChannel, Plan};
use super::encode;
use super::fault;
use super::gpu::Gpu;
use super::memory::{Bo, VideoRequest};
use crate::backend::{QueueId, QueueKind};
use crate::heap::lock;
use crate::seam::Errno;
use crate::{Error, Options};

/// Bytes of a channel's words for each entry of its ring.
const WORDS_BYTES_PER_ENTRY: usize = 64;
/// The most entries that a ring is made with: the options count packets of 64 bytes, and an entry runs many.
const MOST_ENTRIES: usize = 1 << 16;

/// Bytes of local memory up to which a thread gets what it asks for: all threads that a GPU can hold have as much.
const USUAL_STACK: u32 = 1024;

/// Local memory and where it is.
#[derive(Debug)]
struct Block {
    local: LocalMemory,
    _memory: Bo,
}

/// A queue beside its channel: what stays when channels are made anew.
#[derive(Debug)]
pub(super) struct Beside {
    pub(super) plan: Plan,
    /// Memory for words that go with an entry.
    pub(super) words: Bo,
    local: Mutex<Option<Block>>,
    /// Words that the channel is told before anything else.
    pending: Mutex<Vec<u32>>,
    has_pending: AtomicBool,
}

impl Beside {
    /// Takes the words that the channel is told first, to be given back if they were not.
    pub(super) fn take_pending(&self) -> Option<Vec<u32>> {
        // ORDER: pairs with the release in `tell`: whoever launches what needs the words comes after them.
        if !self.has_pending.load(Ordering::Acquire) {
            return None;
        }
        Some(std::mem::take(&mut *lock(&self.pending)))
    }

    /// The words were not told.
    pub(super) fn restore(&self, words: &[u32]) {
        // What was noted meanwhile comes after them.
        lock(&self.pending).splice(..0, words.iter().copied());
    }

    /// The words were told.
    pub(super) fn told(&self) {
        let pending = lock(&self.pending);
        if pending.is_empty() {
            self.has_pending.store(false, Ordering::Release);
        }
    }

    fn tell(&self, words: &[u32]) {
        let mut pending = lock(&self.pending);
        pending.extend_from_slice(words);
        self.has_pending.store(true, Ordering::Release);
    }
}

/// The channels of a GPU.
pub(super) struct Rings {
    pub(super) gpu: Arc<Gpu>,
    device: Device,
    pub(super) queues: Vec<Beside>,
    compute: usize,
    /// `None` while there are none.
    live: Mutex<Option<Group>>,
    /// How far each channel has come, a word for each, and one to try channels with.
    progress: Bo,
}

impl Rings {
    /// Makes the channels: as many as asked for, or as there are to be had.
    pub(super) fn new(gpu: &Arc<Gpu>, device: &Device, options: &Options) -> Result<Self, Error> {
        let entries = options
            .ring_packets
            .clamp(16, MOST_ENTRIES)
            .next_power_of_two();
        let count = options.compute_queues + options.copy_queues;
        let mut rings = Self {
            gpu: Arc::clone(gpu),
            device: *device,
            queues: Vec::new(),
            compute: 0,
            live: Mutex::default(),
            progress: Bo::host(gpu, (count + 1) * 8)?,
        };
        let mut group = Group::new(gpu)?;
        for (kind, count) in [
            (QueueKind::Compute, options.compute_queues),
            (QueueKind::Copy, options.copy_queues),
        ] {
            for n in 0..count {
                let plan = Plan { kind, entries };
                match group.add(plan) {
                    Ok(()) => {}
                    // Other processes have their share; a device without copy queues is one, without compute queues not.
                    Err(NoChannel::Exhausted(_)) if n > 0 || kind == QueueKind::Copy => break,
                    Err(e) => return Err(e.into()),
                }
                rings.queues.push(Beside {
                    plan,
                    words: Bo::host(gpu, entries * WORDS_BYTES_PER_ENTRY)?,
                    local: Mutex::default(),
                    pending: Mutex::default(),
                    has_pending: AtomicBool::new(false),
                });
            }
            if kind == QueueKind::Compute {
                rings.compute = rings.queues.len();
            }
        }
        group.start()?;
        rings.live = Mutex::new(Some(group));
        rings.introduce()?;
        Ok(rings)
    }

    /// What new channels are told first.
    fn introduce(&self) -> Result<(), Error> {
        for queue in &self.queues {
            lock(&queue.pending).clear();
            let local = lock(&queue.local).as_ref().map(|block| block.local);
            let words = encode::introduction(&self.device, queue.plan.kind, local);
            queue.tell(&words.map_err(Error::record("setup"))?);
        }
        Ok(())
    }

    /// Compute and copy queues.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.compute, self.queues.len().saturating_sub(self.compute))
    }

    pub(super) fn flat(&self, queue: QueueId) -> usize {
        match queue.kind {
            QueueKind::Compute => queue.index,
            QueueKind::Copy => self.compute.saturating_add(queue.index),
        }
    }

    /// Calls with the channels that there are.
    pub(super) fn with_live<R>(&self, call: impl FnOnce(&[Channel]) -> R) -> R {
        match &*lock(&self.live) {
            Some(group) => call(&group.channels),
            None => call(&[]),
        }
    }

    fn word(&self, index: usize) -> Result<(SharedWord<'static>, u64), Error> {
        let broken = || Error::Internal("a word of memory is not there");
        let cpu = self.progress.cpu().ok_or_else(broken)?;
        // SAFETY: mapped as long as this lives, which whoever uses the word sees to; all access is atomic.
        let region = unsafe { Region::new(cpu, self.progress.len(), self.progress.address()) };
        let words = SharedWords::new(region).map_err(|_| broken())?;
        words.get(index).ok_or_else(broken)
    }

    /// Where a channel says how many entries it has run, and that word's address.
    pub(super) fn progress(&self, queue: usize) -> Result<(SharedWord<'static>, u64), Error> {
        self.word(queue)
    }

    /// A word that channels are tried with, and its address.
    pub(super) fn probe(&self) -> Result<(SharedWord<'static>, u64), Error> {
        self.word(self.progress.len() / 8 - 1)
    }

    /// How many entries a channel has run.
    pub(super) fn consumed(&self, queue: usize, known: u64) -> u64 {
        self.word(queue).map_or(known, |(word, _)| word.load())
    }

    /// The error that stopped a channel.
    pub(super) fn fault(&self) -> Option<FaultRecord> {
        self.with_live(|channels| fault::look(&self.gpu, channels))
    }

    /// Whether a queue has at least this much local memory for a thread.
    pub(super) fn has_local(&self, queue: usize, thread_bytes: u32) -> bool {
        self.queues.get(queue).is_some_and(|queue| {
            let local = lock(&queue.local);
            local
                .as_ref()
                .is_some_and(|block| block.local.thread_bytes() >= thread_bytes)
        })
    }

    /// Sees to at least this much local memory for each thread of a queue. `false` if there is some that launches in flight
    /// may use.
    pub(super) fn grow_local(
        &self,
        queue: usize,
        thread_bytes: u32,
        is_idle: bool,
    ) -> Result<bool, Error> {
        let Some(beside) = self.queues.get(queue) else {
            return Err(Error::Internal("local memory of a queue that there is not"));
        };
        let mut local = lock(&beside.local);
        match &*local {
            Some(block) if block.local.thread_bytes() >= thread_bytes => return Ok(true),
            Some(_) if !is_idle => return Ok(false),
            _ => {}
        }
        let refused = |e: LocalMemoryError| Error::Program {
            what: format!("a kernel with {thread_bytes} bytes of local memory per thread"),
            reason: e.to_string(),
        };
        // What every kernel has is enough for most. More comes in powers of two, so that it is rarely allocated anew; exactly
        // if that is too much.
        let topology = &self.gpu.facts().topology;
        let rounded = thread_bytes
            .checked_next_power_of_two()
            .filter(|_| thread_bytes > USUAL_STACK)
            .and_then(|bytes| Need::new(topology, bytes).ok())
            .and_then(|need| Some((need, self.local_memory(&need).ok()?)));
        let (need, memory) = match rounded {
            Some(found) => found,
            None => {
                let need = Need::new(topology, thread_bytes).map_err(refused)?;
                (need, self.local_memory(&need)?)
            }
        };
        let new = LocalMemory::new(self.device.chip(), memory.address(), &need);
        let new = new.map_err(refused)?;
        let words = encode::local_memory(&self.device, new).map_err(Error::record("setup"))?;
        // The old one goes: nothing that uses it is running, and what was recorded with it finds the new one.
        *local = Some(Block {
            local: new,
            _memory: memory,
        });
        beside.tell(&words);
        Ok(true)
    }

    fn local_memory(&self, need: &Need) -> Result<Bo, Error> {
        let bytes = usize::try_from(need.bytes).map_err(|_| Error::OutOfMemory {
            bytes: need.bytes,
            errno: Errno::NOMEM,
        })?;
        Bo::video(&self.gpu, VideoRequest::new(bytes.max(128 << 10)))
    }

    /// Ends all channels.
    pub(super) fn destroy(&self) {
        let group = lock(&self.live).take();
        drop(group);
    }

    /// Makes all channels again.
    pub(super) fn create_again(&self) -> Result<(), Error> {
        let mut group = Group::new(&self.gpu)?;
        for queue in &self.queues {
            group.add(queue.plan)?;
        }
        group.start()?;
        for index in 0..self.queues.len() {
            self.word(index)?.0.store(0);
        }
        self.introduce()?;
        *lock(&self.live) = Some(group);
        Ok(())
    }
}
