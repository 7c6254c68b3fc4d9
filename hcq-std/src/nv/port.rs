//! The host's half of the channels.
#![allow(unsafe_code, reason = "makes regions of channels' memory")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hcq_nostd::mem::{Region, SharedWord};
use hcq_nostd::queue::WriteWidth;
use hcq_nv::device::Device;
use hcq_nv::gpfifo::{ChannelDoorbell, Entry, GpFifo, MAX_WORDS};

use super::channel::Channel;
use super::encode::{self, Progress};
use super::gpu::Gpu;
use super::memory::Bo;
use super::rings::Rings;
use crate::Error;
use crate::backend::{Body, Command, Piece, Port, PushError, QueueId, QueueKind};

/// Entries that are told together with the next ones.
fn silent(_: u64) {}

/// Words in a ring of their own, which entries run. A run of words is in one piece; what is skipped at the end counts with
/// it.
struct Words {
    memory: Region<'static>,
    address: u64,
    len: u64,
    put: u64,
    get: u64,
    /// Entries, and the place up to which their words are done with when they are.
    runs: VecDeque<(u64, u64)>,
}

impl Words {
    fn new(bo: &Bo) -> Result<Self, Error> {
        let cpu = bo
            .cpu()
            .ok_or(Error::Internal("words that the host does not see"))?;
        // SAFETY: mapped as long as the shared rings live, which the port holds (M1). The host alone stores to it, to words
        // that the channel has read (M2).
        let memory = unsafe { Region::new(cpu, bo.len(), bo.address()) };
        Ok(Self {
            memory,
            address: bo.address(),
            len: (bo.len() / 4) as u64,
            put: 0,
            get: 0,
            runs: VecDeque::new(),
        })
    }

    /// The channel has run this many entries.
    fn consumed(&mut self, entries: u64) {
        while let Some(&(entry, end)) = self.runs.front()
            && entry <= entries
        {
            self.get = end;
            self.runs.pop_front();
        }
    }

    /// Words to skip so that `need` are in one piece; `None` if they do not fit now.
    fn skip(&self, need: u64) -> Option<u64> {
        let at = self.put.checked_rem(self.len)?;
        let left = self.len - at;
        let skip = if need > left { left } else { 0 };
        (self.put - self.get + skip + need <= self.len).then_some(skip)
    }

    /// Puts the parts one behind the other; returns where they are. There is room.
    fn put(&mut self, skip: u64, parts: [&[u32]; 4], entry: u64) -> Option<u64> {
        let start = self.put + skip;
        let mut at = start.checked_rem(self.len)?;
        let address = self.address + 4 * at;
        for part in parts {
            let offset = usize::try_from(4 * at).ok()?;
            self.memory.write_words(offset, part).ok()?;
            at += part.len() as u64;
        }
        self.put = start + parts.iter().map(|p| p.len() as u64).sum::<u64>();
        self.runs.push_back((entry, self.put));
        Some(address)
    }
}

/// The host's half of a channel.
struct HostChannel {
    ring: GpFifo<'static>,
    doorbell: ChannelDoorbell<'static>,
    words: Words,
    /// Entries that the channel has run.
    done: SharedWord<'static>,
    /// That count when it was looked at.
    seen: u64,
    progress: Progress,
}

impl HostChannel {
    fn new(
        gpu: &Gpu,
        device: &Device,
        channel: &Channel,
        words: &Bo,
        (done, address): (SharedWord<'static>, u64),
    ) -> Result<Self, Error> {
        let bo = channel.ring();
        let cpu = bo
            .cpu()
            .ok_or(Error::Internal("a ring that the host does not see"))?;
        let broken = |_| Error::Internal("a channel's memory is too small");
        // SAFETY: mapped while the channel lives, and the port drops its channels before (M1). The host alone stores to
        // entries that the channel has run; USERD is only accessed by words (M2).
        let memory = unsafe { Region::new(cpu, bo.len(), bo.address()) };
        let (ring, rest) = memory.split_at(channel.ring_bytes()).map_err(broken)?;
        let gap = channel.userd() - channel.ring_bytes();
        let userd = rest.slice(gap, channel.userd_bytes()).map_err(broken)?;
        let ring = GpFifo::new(ring).map_err(|_| Error::Internal("a ring of no shape"))?;
        let doorbells = gpu.doorbells();
        // SAFETY: mapped as long as the GPU, which the shared rings hold (M1). It is written by words only (M2).
        let usermode = unsafe { Region::new(doorbells.start(), doorbells.len(), 0) };
        let entries = ring.len();
        let doorbell = ChannelDoorbell::new(userd, usermode, entries, channel.token());
        Ok(Self {
            doorbell: doorbell.map_err(broken)?,
            ring,
            words: Words::new(words)?,
            done,
            seen: 0,
            progress: Progress::new(device, address).map_err(Error::record("progress"))?,
        })
    }

    /// Looks how far the channel has come. Neither its entries nor their words are read any more by then; where the chip
    /// says its place itself (GPGet), it says what it has fetched, which is no more than that.
    fn look(&mut self) {
        let done = self.done.load();
        // A count that cannot be leaves everything as it was, and so as full as it was.
        if self.ring.consumed(done).is_ok() {
            self.seen = done;
            self.words.consumed(done);
        }
    }

    /// Room for so many entries, and so many words in one piece: how many to skip, or what is missing.
    fn make_room(&mut self, entries: u64, words: u64) -> Result<u64, PushError> {
        if entries >= self.ring.len() || words > self.words.len / 2 || words > MAX_WORDS {
            return Err(PushError::TooLarge);
        }
        for is_last in [false, true] {
            let skip = self.words.skip(words);
            if let (true, Some(skip)) = (entries <= self.ring.free(), skip) {
                return Ok(skip);
            }
            if !is_last {
                self.look();
            }
        }
        Err(PushError::Full {
            need: entries,
            // Where words are what is missing, entries of them are.
            free: self.ring.free().min(entries - 1),
            get: self.seen,
        })
    }

    /// Entries and words that a submission takes.
    fn needs(first: &[u32], words: &[u32], pieces: &[Piece], end: &[u32]) -> (u64, u64) {
        let with_first = !first.is_empty() && !pieces.is_empty();
        let entries = pieces.len() as u64 + 1 + u64::from(with_first);
        let own = (first.len() + words.len() + end.len() + Progress::WORDS) as u64;
        // Two runs of words, if there are two, each of which may skip.
        (entries, if with_first { 2 * own } else { own })
    }

    /// Entries for the pieces, and one for all other words. `first` is what the channel is told before anything else.
    fn push(
        &mut self,
        first: &[u32],
        words: &[u32],
        pieces: &[Piece],
        end: &[u32],
    ) -> Result<(), PushError> {
        let with_first = !first.is_empty() && !pieces.is_empty();
        let (entries, room) = Self::needs(first, words, pieces, end);
        let mut skip = self.make_room(entries, room)?;
        let mut each = pieces.iter();
        let runs: Result<Vec<Entry>, _> = each
            .by_ref()
            .map(|p| Entry::new(p.address, p.words))
            .collect();
        let runs = runs.map_err(|_| PushError::TooLarge)?;
        let mut before = first;
        if with_first {
            let at = self
                .words
                .put(skip, [first, &[], &[], &[]], self.ring.put() + 1);
            let entry = at.and_then(|at| Entry::new(at, first.len()).ok());
            self.submit(entry, false)?;
            before = &[];
            let rest = (words.len() + end.len() + Progress::WORDS) as u64;
            skip = self.words.skip(rest).ok_or(PushError::TooLarge)?;
        }
        for entry in runs {
            self.submit(Some(entry), false)?;
        }
        let count = self.ring.put() + 1;
        let progress = self.progress.at(count);
        let at = self.words.put(skip, [before, words, end, &progress], count);
        let len = before.len() + words.len() + end.len() + progress.len();
        let entry = at.and_then(|at| Entry::new(at, len).ok());
        self.submit(entry, true)
    }

    fn submit(&mut self, entry: Option<Entry>, tell: bool) -> Result<(), PushError> {
        let entry = entry.ok_or(PushError::TooLarge)?;
        let submitted = if tell {
            self.ring.submit_entry(entry, &mut self.doorbell)
        } else {
            self.ring.submit_entry(entry, &mut silent)
        };
        submitted.map(drop).map_err(|_| PushError::TooLarge)
    }
}

/// The host's half of the channels of a GPU.
pub(super) struct NvPort {
    channels: Vec<HostChannel>,
    device: Device,
    /// Keeps the channels; dropped after their halves.
    shared: Arc<Rings>,
}

impl NvPort {
    pub(super) fn new(shared: &Arc<Rings>, device: &Device) -> Result<Self, Error> {
        let mut port = Self {
            channels: Vec::new(),
            device: *device,
            shared: Arc::clone(shared),
        };
        port.make()?;
        Ok(port)
    }

    /// Makes the halves of the channels that there are.
    fn make(&mut self) -> Result<(), Error> {
        self.channels.clear();
        let (shared, device) = (&*self.shared, &self.device);
        let made = shared.with_live(|live| {
            let both = live.iter().zip(&shared.queues).enumerate();
            let halves = both.map(|(index, (channel, beside))| {
                let progress = shared.progress(index)?;
                HostChannel::new(&shared.gpu, device, channel, &beside.words, progress)
            });
            halves.collect::<Result<Vec<_>, Error>>()
        });
        self.channels = made?;
        Ok(())
    }

    /// Lets a channel store a word, and waits for it.
    fn try_channel(&mut self, index: usize, limit: Duration) -> Result<(), Error> {
        let compute = self.shared.counts().0;
        let queue = match index.checked_sub(compute) {
            None => QueueId {
                kind: QueueKind::Compute,
                index,
            },
            Some(index) => QueueId {
                kind: QueueKind::Copy,
                index,
            },
        };
        let (word, address) = self.shared.probe()?;
        word.store(0);
        let store = Command::Write(address.into(), 1u64.into(), WriteWidth::W32);
        let mut words = [0; 64];
        let list = hcq_nostd::patch::PatchList::none();
        let encoded = match queue.kind {
            QueueKind::Compute => encode::compute(&self.device, &store, &mut words, list),
            QueueKind::Copy => encode::copy(&self.device, &store, &mut words, list),
        };
        let (len, _) = encoded.map_err(Error::record("write32"))?;
        let words = words.get(..len).unwrap_or_default();
        let pushed = self.push(queue, Body::Words(&[]), words);
        pushed.map_err(|_| Error::Internal("a new ring has no room"))?;
        let start = Instant::now();
        while word.load() == 0 {
            if start.elapsed() >= limit {
                return Err(Error::Recovery {
                    reason: format!(
                        "a new {} channel did nothing for {} ms: the GPU may have to be reset (dmesg | grep -i nvrm)",
                        queue.kind,
                        limit.as_millis()
                    ),
                });
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }
}

/// What a body runs by reference.
const fn pieces<'a>(body: Body<'a>) -> &'a [Piece] {
    match body {
        Body::Words(_) => &[],
        Body::Launch(_, pieces) => pieces,
    }
}

impl Port for NvPort {
    fn room(&mut self, queue: QueueId, body: Body<'_>, end: &[u32]) -> Result<(), PushError> {
        let index = self.shared.flat(queue);
        let (Some(channel), Some(beside)) =
            (self.channels.get_mut(index), self.shared.queues.get(index))
        else {
            return Err(PushError::Stopped);
        };
        let first = beside.take_pending();
        let told = first.as_deref().unwrap_or_default();
        let (entries, words) = HostChannel::needs(told, body.words(), pieces(body), end);
        let room = channel.make_room(entries, words);
        if let Some(first) = first {
            beside.restore(&first);
        }
        room.map(drop)
    }

    fn push(&mut self, queue: QueueId, body: Body<'_>, end: &[u32]) -> Result<(), PushError> {
        let index = self.shared.flat(queue);
        let (Some(channel), Some(beside)) =
            (self.channels.get_mut(index), self.shared.queues.get(index))
        else {
            return Err(PushError::Stopped);
        };
        let pieces = pieces(body);
        let Some(first) = beside.take_pending() else {
            return channel.push(&[], body.words(), pieces, end);
        };
        let pushed = channel.push(&first, body.words(), pieces, end);
        match pushed {
            Ok(()) => beside.told(),
            Err(_) => beside.restore(&first),
        }
        pushed
    }

    fn renew(&mut self, limit: Duration) -> Result<(), Error> {
        let tried = self
            .make()
            .and_then(|()| (0..self.channels.len()).try_for_each(|n| self.try_channel(n, limit)));
        if tried.is_err() {
            // Not to be used before another recovery.
            self.channels.clear();
        }
        tried
    }
}
