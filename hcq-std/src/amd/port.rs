//! The host's half of the rings.
#![allow(unsafe_code, reason = "makes regions of rings, writes doorbells")]

use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hcq_amd::aql::{self, PACKET_WORDS};
use hcq_amd::pm4::submit::{self, SubmitError};
use hcq_amd::sdma;
use hcq_nostd::mem::{Region, SharedWord, publish_fence};
use hcq_nostd::ring::{Doorbell, Ring, RingError, WouldBlock};

use super::encode::PortWords;
use super::rings::{Plan, Rings, SLOT, indices};
use crate::Error;
use crate::backend::{Body, Piece, Port, PushError, QueueId, QueueKind};
use crate::kfd::HwQueue;

/// Words in front of an SDMA packet at most, so that it does not wrap or ends where it has to.
const SDMA_PADDING: usize = 16;

/// Where an engine is told of new entries.
struct Bell {
    write: SharedWord<'static>,
    register: NonNull<u64>,
    units: u64,
    aql: bool,
}

// SAFETY: the register may be written from any thread; the submission lock says from which.
unsafe impl Send for Bell {}

impl Doorbell for Bell {
    fn ring(&mut self, put: u64) {
        let count = put.wrapping_mul(self.units);
        self.write.store(count);
        let told = if self.aql {
            aql::submit::doorbell_index(put)
        } else {
            count
        };
        // ORDER: ring and write index are in memory before the register is written, also where stores of different
        // kinds of memory pass each other.
        publish_fence();
        // SAFETY: the queue's doorbell, mapped while the queue lives: the port drops its rings before the queues go. 64
        // bits in one store.
        unsafe { self.register.as_ptr().write_volatile(told) };
    }
}

/// Entries that are published together with the next ones.
fn silent(_: u64) {}

struct HostRing {
    plan: Plan,
    ring: Ring<'static>,
    base: u64,
    read: SharedWord<'static>,
    bell: Bell,
    /// Memory for the PM4 words of an AQL queue.
    slots: Option<Region<'static>>,
    next_slot: u64,
}

/// The host's half of the rings of a GPU.
pub(super) struct AmdPort {
    rings: Vec<HostRing>,
    words: PortWords,
    xccs: u8,
    /// Words of one submission in one piece.
    joined: Vec<u32>,
    /// Keeps the queues; dropped after the rings.
    shared: Arc<Rings>,
}

impl AmdPort {
    pub(super) fn new(shared: &Arc<Rings>, words: PortWords, xccs: u8) -> Result<Self, Error> {
        let mut port = Self {
            rings: Vec::new(),
            words,
            xccs,
            joined: Vec::new(),
            shared: Arc::clone(shared),
        };
        port.make()?;
        Ok(port)
    }

    /// Makes the rings of the queues that there are.
    fn make(&mut self) -> Result<(), Error> {
        self.rings.clear();
        let shared = &*self.shared;
        let made = shared.with_live(|live| {
            let parts = live.iter().zip(&shared.plans).zip(&shared.slots);
            let rings = parts.map(|((queue, plan), slots)| {
                let mut ring = HostRing::new(*plan, queue, slots.as_ref())?;
                if let Some(slots) = &mut ring.slots {
                    let written = slots.write_words(0, &self.words.barrier);
                    written.map_err(|_| Error::Internal("a barrier does not fit its slot"))?;
                }
                Ok(ring)
            });
            rings.collect::<Result<Vec<_>, Error>>()
        });
        self.rings = made?;
        Ok(())
    }

    /// Lets a queue store a word, and waits for it.
    fn try_queue(&mut self, index: usize, limit: Duration) -> Result<(), Error> {
        let Some(plan) = self.shared.plans.get(index).copied() else {
            return Ok(());
        };
        let word = self.shared.probe()?;
        word.store(0);
        let compute = self.shared.counts().0;
        let (kind, index) = match plan.kind {
            QueueKind::Compute => (plan.kind, index),
            QueueKind::Copy => (plan.kind, index.saturating_sub(compute)),
        };
        let [on_compute, on_copy] = &self.words.probes;
        let probe = match kind {
            QueueKind::Compute => on_compute.clone(),
            QueueKind::Copy => on_copy.clone(),
        };
        let pushed = self.push(QueueId { kind, index }, Body::Words(&[]), &probe);
        pushed.map_err(|_| Error::Internal("a new ring has no room"))?;
        let start = Instant::now();
        while word.load() == 0 {
            if start.elapsed() >= limit {
                return Err(Error::Recovery {
                    reason: format!(
                        "a new {kind} queue did nothing for {} ms: after a memory fault the kernel keeps a process off \
                         the GPU, so that it takes a new process",
                        limit.as_millis()
                    ),
                });
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        Ok(())
    }
}

/// Words that run what is in one piece for several XCCs.
const FRAME: usize = 8;

/// Words of a copy queue's ring that a submission takes at most.
fn copies(body: Body<'_>, end: &[u32]) -> usize {
    let pieces = match body {
        Body::Words(_) => 0,
        Body::Launch(_, pieces) => pieces.len(),
    };
    let launch = sdma::indirect::Indirect::WORDS + SDMA_PADDING;
    body.words().len() + end.len() + pieces * launch + 2 * SDMA_PADDING
}

impl HostRing {
    fn new(plan: Plan, queue: &HwQueue, slots: Option<&crate::kfd::Bo>) -> Result<Self, Error> {
        let bo = queue.ring();
        let cpu = bo
            .cpu()
            .ok_or(Error::Internal("a ring that the host does not see"))?;
        // SAFETY: mapped while the queue lives, and the port drops its rings before (M1). The host alone stores to it, to
        // entries that the engine has consumed (M2).
        let memory = unsafe { Region::new(cpu, bo.len(), bo.address()) };
        let broken = |_| Error::Internal("a ring does not fit its memory");
        let ring = Ring::new(memory, plan.entry()).map_err(broken)?;
        // Where the engine may say a place, a full ring would look empty.
        let ring = if plan.aql {
            ring
        } else {
            ring.keep_free(1).map_err(broken)?
        };
        let [read, write] = indices(queue)?;
        let slots = slots.and_then(|bo| {
            // SAFETY: mapped as long as the shared rings live, which the port holds (M1). The port alone stores to it, to
            // slots whose packets were consumed a turn of the ring ago (M2).
            Some(unsafe { Region::new(bo.cpu()?, bo.len(), bo.address()) })
        });
        Ok(Self {
            plan,
            ring,
            base: bo.address(),
            read,
            bell: Bell {
                write,
                register: queue.doorbell(),
                units: plan.units(),
                aql: plan.aql,
            },
            slots,
            next_slot: 0,
        })
    }

    /// Room for so many entries, or what is missing.
    fn make_room(&mut self, need: u64) -> Result<(), PushError> {
        if need > self.ring.capacity() {
            return Err(PushError::TooLarge);
        }
        if need <= self.ring.free() {
            return Ok(());
        }
        let get = self.plan.consumed(self.read.load(), self.ring.get());
        // A count that cannot be leaves the ring as it was, and so as full as it was.
        let _ = self.ring.consumed(get);
        let free = self.ring.free();
        if need > free {
            let get = self.ring.get();
            return Err(PushError::Full { need, free, get });
        }
        Ok(())
    }

    fn failed(&self, error: SubmitError) -> PushError {
        match error {
            SubmitError::Ring(RingError::Full(WouldBlock { need, free })) => PushError::Full {
                need,
                free,
                get: self.ring.get(),
            },
            _ => PushError::TooLarge,
        }
    }

    /// One after the other, for engines that read packets of any length across the ring's end.
    fn push_words(&mut self, parts: [&[u32]; 3]) -> Result<(), PushError> {
        let need = parts.iter().map(|p| p.len()).sum::<usize>() as u64;
        self.make_room(need)?;
        let mut hole = self.ring.reserve(need).map_err(|_| PushError::TooLarge)?;
        let mut at = 0;
        for part in parts {
            hole.fill(at, part).map_err(|_| PushError::TooLarge)?;
            at += part.len() as u64;
        }
        hole.publish(&mut self.bell);
        Ok(())
    }

    /// For several XCCs: what is predicated runs from an indirect buffer, which is in the ring too.
    fn push_indirect(&mut self, words: &[u32]) -> Result<(), PushError> {
        let base = self.base;
        match submit::submit_in_ring(&mut self.ring, base, words, &mut self.bell) {
            Ok(_) => Ok(()),
            Err(SubmitError::Ring(RingError::Full(WouldBlock { need, .. }))) => {
                self.make_room(need)?;
                let again = submit::submit_in_ring(&mut self.ring, base, words, &mut self.bell);
                again.map(|_| ()).map_err(|e| self.failed(e))
            }
            Err(e) => Err(self.failed(e)),
        }
    }

    /// The same behind words that the ring itself runs.
    fn push_launch(&mut self, before: [&[u32]; 2], end: &[u32]) -> Result<(), PushError> {
        // The end is in one piece, so that as many words again may be skipped; and what runs it.
        let [first, second] = before;
        let direct = (first.len() + second.len()) as u64;
        self.make_room(direct + (2 * end.len() + FRAME) as u64)?;
        let mut hole = self.ring.reserve(direct).map_err(|_| PushError::TooLarge)?;
        let filled = hole.fill(0, first).is_ok() && hole.fill(first.len() as u64, second).is_ok();
        if !filled {
            return Err(PushError::TooLarge);
        }
        if end.is_empty() {
            hole.publish(&mut self.bell);
            return Ok(());
        }
        hole.publish(&mut silent);
        let base = self.base;
        let pushed = submit::submit_in_ring(&mut self.ring, base, end, &mut self.bell);
        pushed.map(|_| ()).map_err(|e| self.failed(e))
    }

    fn push_copies(&mut self, body: Body<'_>, end: &[u32]) -> Result<(), PushError> {
        let pieces = match body {
            Body::Words(_) => &[],
            Body::Launch(_, pieces) => pieces,
        };
        self.make_room(copies(body, end) as u64)?;
        if !body.words().is_empty() {
            sdma::submit::submit(&mut self.ring, body.words(), &mut silent)
                .map_err(|e| self.failed(e))?;
        }
        for &Piece { address, words } in pieces {
            sdma::submit::submit_bound(&mut self.ring, address, words, &mut silent)
                .map_err(|e| self.failed(e))?;
        }
        if end.is_empty() {
            // All of it is in the ring: the engine is told once.
            self.bell.ring(self.ring.put());
            return Ok(());
        }
        let pushed = sdma::submit::submit(&mut self.ring, end, &mut self.bell);
        pushed.map(|_| ()).map_err(|e| self.failed(e))
    }

    /// A packet that runs the barrier, the body's packets, and one that runs the end's words.
    fn push_packets(&mut self, barrier: usize, body: &[u32], end: &[u32]) -> Result<(), PushError> {
        let need = (body.len() / PACKET_WORDS + 2) as u64;
        self.make_room(need)?;
        let slots = self.slots.as_mut().ok_or(PushError::TooLarge)?;
        let turn = self.next_slot.checked_rem(self.plan.entries()).unwrap_or(0);
        let at = usize::try_from(turn + 1)
            .ok()
            .and_then(|n| n.checked_mul(SLOT))
            .filter(|_| end.len() * 4 <= SLOT)
            .ok_or(PushError::TooLarge)?;
        slots
            .write_words(at, end)
            .map_err(|_| PushError::TooLarge)?;
        let packet = |at: usize, words: usize| {
            let address = slots.device_address(at)?;
            aql::vendor::Pm4Ib::ordered(address.into(), words)
                .ok()?
                .words()
        };
        let first = packet(0, barrier).ok_or(PushError::TooLarge)?;
        let failed = |_| PushError::TooLarge;
        aql::submit::submit(&mut self.ring, &first, &mut silent).map_err(failed)?;
        if !body.is_empty() {
            aql::submit::submit(&mut self.ring, body, &mut silent).map_err(failed)?;
        }
        if end.is_empty() {
            self.bell.ring(self.ring.put());
            return Ok(());
        }
        let last = packet(at, end.len()).ok_or(PushError::TooLarge)?;
        aql::submit::submit(&mut self.ring, &last, &mut self.bell).map_err(failed)?;
        self.next_slot += 1;
        Ok(())
    }
}

impl Port for AmdPort {
    fn room(&mut self, queue: QueueId, body: Body<'_>, end: &[u32]) -> Result<(), PushError> {
        let index = self.shared.flat(queue);
        let barrier = self.words.barrier.len();
        let Some(ring) = self.rings.get_mut(index) else {
            return Err(PushError::Stopped);
        };
        let words = body.words().len();
        let need = match (queue.kind, body) {
            (QueueKind::Copy, _) => copies(body, end),
            (QueueKind::Compute, _) if ring.plan.aql => words / PACKET_WORDS + 2,
            (QueueKind::Compute, _) if self.xccs == 1 => barrier + words + end.len(),
            // What is in one piece may skip as many words again.
            (QueueKind::Compute, Body::Words(_)) => 2 * (barrier + words + end.len()) + FRAME,
            (QueueKind::Compute, Body::Launch(..)) => barrier + words + 2 * end.len() + FRAME,
        };
        ring.make_room(need as u64)
    }

    fn push(&mut self, queue: QueueId, body: Body<'_>, end: &[u32]) -> Result<(), PushError> {
        let index = self.shared.flat(queue);
        let barrier = &*self.words.barrier;
        let Some(ring) = self.rings.get_mut(index) else {
            return Err(PushError::Stopped);
        };
        match (queue.kind, body) {
            (QueueKind::Copy, _) => ring.push_copies(body, end),
            (QueueKind::Compute, _) if ring.plan.aql => {
                ring.push_packets(barrier.len(), body.words(), end)
            }
            (QueueKind::Compute, _) if self.xccs == 1 => {
                ring.push_words([barrier, body.words(), end])
            }
            (QueueKind::Compute, Body::Words(words)) => {
                self.joined.clear();
                for part in [barrier, words, end] {
                    self.joined.extend_from_slice(part);
                }
                ring.push_indirect(&self.joined)
            }
            (QueueKind::Compute, Body::Launch(launch, _)) => {
                ring.push_launch([barrier, launch], end)
            }
        }
    }

    fn renew(&mut self, limit: Duration) -> Result<(), Error> {
        let tried = self
            .make()
            .and_then(|()| (0..self.rings.len()).try_for_each(|n| self.try_queue(n, limit)));
        if tried.is_err() {
            // Not to be used before another recovery.
            self.rings.clear();
        }
        tried
    }
}
