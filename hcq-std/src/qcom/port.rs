//! The host's half of the queues: words are put where the GPU sees them, and handed to the kernel driver by reference.
#![allow(unsafe_code, reason = "makes a region of command memory")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hcq_nostd::mem::{Region, SharedWord, publish_fence};
use hcq_qcom::pm4::submit::CommandObject;

use super::copies::CopyRings;
use super::driver::{Block, Clocks, Context, Refusal};
use super::{Lane, Places};
use crate::Error;
use crate::backend::{Body, Piece, Port, PushError, QueueId, QueueKind};

/// Words start at cache lines of the command processor.
const ALIGN: u64 = 64;
/// Submissions that there is room for at first: more than a kernel is given without asking it what is done.
const IN_FLIGHT: usize = 64;
/// How long a GPU that slept may take to do something: it is powered up, and its firmware is loaded.
pub(super) const WAKE_UP: Duration = Duration::from_secs(2);

/// Words that a port needs beside those it is given.
#[derive(Debug)]
pub(super) struct PortWords {
    /// What every submission starts with: what hosts and copy queues have written is seen.
    pub(super) before: Box<[u32]>,
    /// What every submission ends with.
    pub(super) after: Box<[u32]>,
    /// Writes a timestamp, and then 1 where queues are tried.
    pub(super) probe: Box<[u32]>,
}

/// Command memory as a ring of bytes: positions only go up.
struct Arena {
    region: Region<'static>,
    put: u64,
    get: u64,
    /// Submissions that are not known to be done: number, and where their words end.
    in_flight: VecDeque<(u64, u64)>,
    /// Dropped after the region.
    _block: Box<dyn Block>,
}

impl Arena {
    fn new(block: Box<dyn Block>) -> Self {
        // SAFETY: mapped while the block lives, which is dropped after the region (M1). The host alone stores to it, to
        // words of submissions that are done (M2).
        let region = unsafe { Region::new(block.cpu(), block.len(), block.address()) };
        Self {
            region,
            put: 0,
            get: 0,
            in_flight: VecDeque::with_capacity(IN_FLIGHT),
            _block: block,
        }
    }

    fn bytes(&self) -> u64 {
        self.region.len() as u64
    }

    /// Takes back the words of submissions up to this one.
    fn retire(&mut self, done: u64) {
        while let Some(&(number, end)) = self.in_flight.front() {
            if number > done {
                break;
            }
            self.get = end;
            self.in_flight.pop_front();
        }
        if self.in_flight.is_empty() {
            // Nothing is read any more: the whole of it is in one piece.
            self.put = self.put.next_multiple_of(self.bytes().max(1));
            self.get = self.put;
        }
    }

    /// Where so many bytes in one piece would start and end, as positions; and how many are free.
    fn room(&self, bytes: u64) -> (Option<(u64, u64)>, u64) {
        let whole = self.bytes();
        let free = whole.saturating_sub(self.put - self.get);
        let at = self.put.next_multiple_of(ALIGN);
        let inside = at.checked_rem(whole).unwrap_or(0);
        // In one piece: what does not fit before the end starts at the beginning.
        let start = if inside + bytes > whole {
            at + (whole - inside)
        } else {
            at
        };
        let end = start + bytes;
        let fits = end - self.get <= whole;
        (fits.then_some((start, end)), free)
    }
}

/// The host's half of the queues of a GPU.
pub(super) struct QcomPort {
    lane: Arc<Lane>,
    context: Arc<dyn Context>,
    arena: Arena,
    words: PortWords,
    places: Places,
    copies: CopyRings,
    /// The pieces of a submission while it is made.
    list: Vec<Piece>,
}

impl QcomPort {
    pub(super) fn new(
        lane: &Arc<Lane>,
        arena: Box<dyn Block>,
        words: PortWords,
        places: Places,
        copies: CopyRings,
    ) -> Self {
        Self {
            context: lane.context(),
            lane: Arc::clone(lane),
            arena: Arena::new(arena),
            words,
            places,
            copies,
            list: Vec::new(),
        }
    }

    /// Where so many words in one piece would start and end.
    fn reserve(&mut self, words: usize) -> Result<(u64, u64), PushError> {
        let bytes = words as u64 * 4;
        if bytes + ALIGN > self.arena.bytes() {
            return Err(PushError::TooLarge);
        }
        let mut room = self.arena.room(bytes);
        if room.0.is_none() {
            let done = self.context.retired();
            self.arena.retire(done);
            room = self.arena.room(bytes);
        }
        room.0.ok_or(PushError::Full {
            need: bytes,
            free: room.1,
            get: self.context.known(),
        })
    }

    /// Words that a submission needs beside its own.
    const fn extra(&self) -> usize {
        self.words.before.len() + self.words.after.len()
    }

    fn push_words(&mut self, body: Body<'_>, end: &[u32]) -> Result<(), PushError> {
        let (words, pieces): (&[u32], &[Piece]) = match body {
            Body::Words(words) => (words, &[]),
            Body::Launch(words, pieces) => (words, pieces),
        };
        let before = self.words.before.len() + words.len();
        let behind = end.len() + self.words.after.len();
        let count = before + behind;
        if self.arena.in_flight.len() == self.arena.in_flight.capacity() {
            // What is done as far as that is known makes room in the list, before it grows.
            self.arena.retire(self.context.known());
        }
        let (start, finish) = self.reserve(count)?;
        let whole = self.arena.bytes();
        let at = usize::try_from(start.checked_rem(whole).unwrap_or(0));
        let at = at.map_err(|_| PushError::TooLarge)?;
        let mut write = |at: usize, words: &[u32]| {
            let written = self.arena.region.write_words(at, words);
            written.map_err(|_| PushError::TooLarge)
        };
        write(at, &self.words.before)?;
        write(at + self.words.before.len() * 4, words)?;
        write(at + before * 4, end)?;
        write(at + (before + end.len()) * 4, &self.words.after)?;
        let address = self.arena.region.device_address(at);
        let address = address.ok_or(PushError::TooLarge)?;
        let piece = |address, words: usize| {
            CommandObject::new(address, words).map_err(|_| PushError::TooLarge)?;
            Ok(Piece { address, words })
        };
        let list = &mut self.list;
        list.clear();
        if pieces.is_empty() {
            list.push(piece(address, count)?);
        } else {
            list.push(piece(address, before)?);
            for given in pieces.iter().filter(|p| p.words > 0) {
                list.push(piece(given.address, given.words)?);
            }
            if behind > 0 {
                list.push(piece(address + before as u64 * 4, behind)?);
            }
        }
        // What the host stored into memory that the GPU does not look into goes first.
        let flushed = self.lane.flush();
        let calls = self.lane.driver.calls();
        flushed.map_err(|errno| PushError::Refused(calls.flush, errno))?;
        // ORDER: words are in memory before the driver hands them to the GPU, also those of write-combined memory.
        publish_fence();
        match self.context.submit(list) {
            Ok(number) => {
                self.arena.put = finish;
                self.arena.in_flight.push_back((number, finish));
                Ok(())
            }
            Err(Refusal::Fault) => Err(PushError::Stopped),
            Err(Refusal::Driver(errno)) => Err(PushError::Refused(calls.submit, errno)),
        }
    }

    /// Lets the GPU write its time and a word, and waits for it. Both clocks at that moment, if it did.
    pub(super) fn probe(&mut self, limit: Duration) -> Result<Option<Clocks>, Error> {
        let word = self.places.probe_word()?;
        let time = self.places.probe_time()?;
        word.store(0);
        time.store(0);
        let system = Arc::clone(self.lane.system());
        let probe = self.words.probe.clone();
        let before = system.now_ns();
        match self.push_words(Body::Words(&[]), &probe) {
            Ok(()) => {}
            Err(PushError::Refused(operation, errno)) => {
                return Err(Error::System { operation, errno });
            }
            Err(PushError::Stopped) => return Ok(None),
            Err(_) => return Err(Error::Internal("new command memory has no room")),
        }
        let number = self.context.submitted();
        let start = Instant::now();
        while word.load() & 0xffff_ffff == 0 {
            if start.elapsed() >= limit || self.context.look().is_some() {
                return Ok(None);
            }
            self.context.wait(number, Duration::from_millis(1));
        }
        let after = system.now_ns();
        Ok(Some(Clocks {
            ticks: time.load(),
            ns: before / 2 + after / 2,
            error_ns: after.saturating_sub(before).div_ceil(2),
        }))
    }
}

impl Port for QcomPort {
    fn room(&mut self, queue: QueueId, body: Body<'_>, end: &[u32]) -> Result<(), PushError> {
        let words = body.words().len() + end.len();
        match queue.kind {
            QueueKind::Copy => self.copies.room(queue.index, words),
            QueueKind::Compute => {
                let extra = self.extra();
                self.reserve(extra + words).map(drop)
            }
        }
    }

    fn push(&mut self, queue: QueueId, body: Body<'_>, end: &[u32]) -> Result<(), PushError> {
        match queue.kind {
            QueueKind::Copy => self.copies.push(queue.index, body, end),
            QueueKind::Compute if queue.index == 0 => self.push_words(body, end),
            QueueKind::Compute => Err(PushError::Stopped),
        }
    }

    fn renew(&mut self, limit: Duration) -> Result<(), Error> {
        self.context = self.lane.context();
        // Nothing of the old context runs.
        self.arena.in_flight.clear();
        self.arena.get = self.arena.put;
        self.places.start_chain()?;
        match self.probe(limit.max(WAKE_UP))? {
            Some(_) => Ok(()),
            None => Err(Error::Recovery {
                reason: format!(
                    "a new queue did nothing: the GPU does not come back; the kernel's log may say why (dmesg | grep {})",
                    self.lane.driver.calls().driver
                ),
            }),
        }
    }
}

impl Places {
    fn word(&self, at: usize) -> Result<SharedWord<'static>, Error> {
        let word = self.words.get(at / 8).map(|(word, _)| word);
        word.ok_or(Error::Internal("the probe is outside its memory"))
    }

    /// The word that says whether the next submission may begin: it may. Returns its address.
    pub(super) fn start_chain(&self) -> Result<u64, Error> {
        self.word(super::CHAIN_AT)?.store(1);
        Ok(self.block.address() + super::CHAIN_AT as u64)
    }

    fn probe_word(&self) -> Result<SharedWord<'static>, Error> {
        self.word(super::PROBE_AT)
    }

    fn probe_time(&self) -> Result<SharedWord<'static>, Error> {
        self.word(super::PROBE_AT + 8)
    }
}
