//! One queue's state: what is fetched, what is held, what stopped it.

use hcq_nostd::fault::{Access, FaultKind, FaultRecord};
use hcq_nostd::mem::Region;
use hcq_nostd::ring::RingError;
use zerocopy::IntoBytes;

use super::{BlockedOn, Platform};
use crate::PACKET_BYTES;
use crate::control::Control;
use crate::packet::{Exec, Malformed, Packet, Raw};
#[cfg(target_has_atomic = "64")]
use crate::share::Job;

/// Without 64-bit atomics no launch is shared.
#[cfg(not(target_has_atomic = "64"))]
#[derive(Debug)]
pub(super) enum Job {}

/// One queue of an engine.
#[derive(Debug)]
pub struct EngineQueue<'m> {
    ring: Region<'m>,
    packets: u64,
    pub(super) control: Control<'m>,
    id: u16,
    pub(super) get: u64,
    /// Byte offset of packet `get` in the ring.
    place: usize,
    /// Packets up to this count were seen to be published.
    published: u64,
    /// Packets of an INDIRECT that are left: address of the next, and how many.
    pub(super) indirect: Option<(u64, u32)>,
    pub(super) state: State<'m>,
    /// With [`Step::Held`](super::run::Step): by what.
    pub(super) held: BlockedOn,
    /// With [`Stop`]: why.
    pub(super) noted: FaultRecord,
}

/// A fault was noted in the queue. Apart from the record, so that what cannot fail often is small.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop;

/// What a queue is doing.
#[derive(Clone, Copy, Debug)]
pub(super) enum State<'m> {
    /// Fetch the next packet.
    Ready,
    /// Try this packet, which held the queue before.
    Held(Packet),
    /// In the middle of a launch.
    Exec(Launched<'m>),
    /// In the middle of a copy.
    Copy {
        destination: u64,
        source: u64,
        left: u64,
    },
    /// Stopped by a fault.
    Stopped,
}

/// A launch in progress.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(
    not(target_has_atomic = "64"),
    allow(dead_code, reason = "no launch is shared")
)]
pub(super) struct Launched<'m> {
    pub(super) exec: Exec,
    pub(super) total: u64,
    /// The next group, when this engine runs them all.
    pub(super) next: u64,
    /// Where it was published for others.
    pub(super) job: Option<&'m Job>,
    /// When it was published; `None` once helpers were called.
    pub(super) since: Option<u64>,
}

impl<'m> EngineQueue<'m> {
    /// A queue over a ring's memory, which the engine only reads, and its control block. It goes on where the control
    /// block's get stands. `id` is the engine number in fault records.
    ///
    /// # Errors
    /// [`RingError::Shape`] if the ring is not a whole number of packets.
    pub fn new(ring: Region<'m>, control: Control<'m>, id: u16) -> Result<Self, RingError> {
        let bytes = ring.len();
        if bytes == 0 || !bytes.is_multiple_of(PACKET_BYTES) {
            return Err(RingError::Shape {
                bytes,
                entry: PACKET_BYTES,
            });
        }
        let packets = (bytes / PACKET_BYTES) as u64;
        let get = control.get();
        Ok(Self {
            ring,
            packets,
            control,
            id,
            get,
            place: place(get, packets),
            published: get,
            indirect: None,
            state: State::Ready,
            held: BlockedOn::Helpers,
            noted: FaultRecord::new(FaultKind::Command, id, get),
        })
    }

    /// The control block.
    pub fn control(&self) -> &Control<'m> {
        &self.control
    }

    /// Whether a fault has stopped it.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, State::Stopped)
    }

    /// Drops everything published and starts afresh after a fault.
    ///
    /// In the middle of a shared launch, no further groups of it are begun; those that other engines have begun come to
    /// their end some time later.
    pub fn reset(&mut self) {
        #[cfg(target_has_atomic = "64")]
        if let State::Exec(Launched { job: Some(job), .. }) = self.state {
            job.withdraw();
        }
        self.get = self.control.put();
        self.published = self.get;
        self.place = place(self.get, self.packets);
        self.control.set_get(self.get);
        self.control.fault().clear();
        self.indirect = None;
        self.state = State::Ready;
    }

    pub(super) fn has_work(&self) -> bool {
        match self.state {
            State::Ready => self.indirect.is_some() || self.control.put() != self.get,
            State::Held(_) | State::Exec(_) | State::Copy { .. } => true,
            State::Stopped => false,
        }
    }

    /// Reads the next packet's words; whether there is one.
    #[inline(always)]
    pub(super) fn fetch(
        &mut self,
        platform: &mut impl Platform,
        raw: &mut Raw,
    ) -> Result<bool, Stop> {
        if self.indirect.is_some() {
            *raw = self.fetch_indirect(platform)?;
            return Ok(true);
        }
        if self.get == self.published {
            let put = self.control.put();
            if put == self.get {
                return Ok(false);
            }
            if put.wrapping_sub(self.get) > self.packets {
                // More than the ring holds: whoever stored this has overwritten packets.
                return Err(self.fault(FaultKind::Command, put));
            }
            self.published = put;
        }
        match self.ring.read(self.place, raw.as_mut_bytes()) {
            Ok(()) => Ok(true),
            Err(_) => Err(self.fault(FaultKind::Command, self.published)),
        }
    }

    #[inline(never)]
    fn fetch_indirect(&mut self, platform: &mut impl Platform) -> Result<Raw, Stop> {
        let address = self.indirect.map_or(0, |(address, _)| address);
        let from = platform.translate(address, PACKET_BYTES as u64, Access::Read);
        match from.map(|p| p.cast::<Raw>()) {
            // SAFETY: the platform vouches for 64 readable bytes; nobody stores to a bound queue in flight.
            Some(from) if from.is_aligned() => Ok(unsafe { from.read() }),
            _ => Err(self.memory_fault(address, Access::Read)),
        }
    }

    /// What the words that `fetch` gave mean.
    pub(super) fn decode(&mut self, raw: &Raw) -> Result<Packet, Stop> {
        match Packet::from_raw(raw) {
            // Packets of a bound queue contain no bound queue.
            Ok(Packet::Indirect { .. }) if self.indirect.is_some() => {
                Err(self.fault(FaultKind::Command, raw.header().into()))
            }
            Ok(packet) => Ok(packet),
            Err(error) => Err(self.malformed(&error)),
        }
    }

    /// The packet that `fetch` gave is done.
    #[inline]
    pub(super) fn retire(&mut self) {
        if let Some((address, left)) = self.indirect {
            self.indirect = None;
            if left > 1 {
                self.indirect = Some((address.wrapping_add(PACKET_BYTES as u64), left - 1));
                return;
            }
        }
        self.get = self.get.wrapping_add(1);
        self.place += PACKET_BYTES;
        if self.place >= self.ring.len() {
            self.place = 0;
        }
    }

    /// Notes a fault of the packet at hand: its place in the ring, or its address in a bound queue.
    #[cold]
    pub(super) fn fault(&mut self, kind: FaultKind, detail: u64) -> Stop {
        let at = self.indirect.map_or(self.get, |(address, _)| address);
        self.noted = FaultRecord::new(kind, self.id, at);
        self.noted.detail = detail;
        Stop
    }

    #[cold]
    pub(super) fn memory_fault(&mut self, address: u64, access: Access) -> Stop {
        self.noted = FaultRecord::new(FaultKind::Memory, self.id, address);
        self.noted.access = access;
        self.noted.detail = self.get;
        Stop
    }

    #[cold]
    fn malformed(&mut self, error: &Malformed) -> Stop {
        let detail = match *error {
            Malformed::Opcode { header } | Malformed::Flags { header } => header.into(),
            Malformed::Reserved { value, .. } => value.into(),
            Malformed::Operand { value } => value,
        };
        self.fault(FaultKind::Command, detail)
    }

    /// Reports the fault that was noted, and stops.
    #[cold]
    pub(super) fn stop(&mut self) -> FaultRecord {
        self.state = State::Stopped;
        self.control.set_get(self.get);
        self.control.fault().report(&self.noted);
        self.noted
    }
}

/// Byte offset of a packet in a ring of so many, at least one.
fn place(get: u64, packets: u64) -> usize {
    // Less than the ring's length, which is a `usize`.
    (get % packets.max(1)) as usize * PACKET_BYTES
}
