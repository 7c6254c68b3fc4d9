//! The copy engines.
//!
//! An engine reads a ring of packets that the host writes. Its pointers count bytes and never wrap; what lies between them
//! may wrap around the ring's end. The doorbell tells the engine how far to read, and the write pointer in memory has to have
//! been there before (`kgd_hqd_sdma_load` takes up work from it when a queue comes back). The read pointer in memory moves when
//! a packet is done: its space is the host's again.
//!
//! # Memory
//!
//! Everything that an engine reads and writes is memory itself. The L2 of the compute units is on another way to it: stores
//! that it has not written back are not copied, and lines that it has read stay as they are when a copy writes to memory
//! under them. The exception is a fence with a memory type other than uncached (version 6 and later), which stays in the L2
//! as any store does.
//!
//! # Order
//!
//! Packets are executed one after the other, each whole before the next. A copy proceeds in parts of up to 64 KiB, one a
//! step, so that others see it half done.
//!
//! # Limits
//!
//! A process's queue has no privileges: registers, physical addresses, other address spaces are faults. So is every packet
//! that is not listed here: NOP, COPY (linear), WRITE (linear), INDIRECT, FENCE, TRAP, POLL_REGMEM, TIMESTAMP (global).
//! A poll whose retries are used up is over without having come true, as in hardware, which tells the kernel of it by an
//! interrupt that no process sees; each step is one poll.

mod packet;

use crate::cache::host;
use crate::engine::{Cause, Engine, Fault, Host, QueueMemory, Step};
use packet::{Packet, Version};

/// A chip's version of the engine, by the chip's LLVM name (`IP_VERSION` of `SDMA0_HWIP`).
static CHIPS: &[(&str, &Version)] = &[
    ("gfx942", &packet::V4_4),
    ("gfx950", &packet::V4_4),
    ("gfx1100", &packet::V6_0),
    ("gfx1151", &packet::V6_1),
    ("gfx1201", &packet::V7_0),
];

/// An indirect buffer ends the ring's packet on a multiple of this: 8 dwords (`sdma_v7_0_ring_emit_ib`).
const INDIRECT_END: u64 = 32;

/// The copy engine of a chip (its LLVM name) for a queue; `None` if the chip is not known.
pub fn engine(target: &str, memory: QueueMemory) -> Option<Box<dyn Engine>> {
    let (_, version) = CHIPS.iter().find(|(name, _)| *name == target)?;
    Some(Box::new(Sdma {
        version,
        memory,
        read: 0,
        indirect: None,
        copy: None,
        polls: 0,
        stopped: false,
    }))
}

/// An indirect buffer on its way.
#[derive(Clone, Copy, Debug)]
struct Indirect {
    base: u64,
    words: u32,
    done: u32,
    /// Bytes of the ring that are done when it is.
    ring_bytes: u64,
}

/// What is left of a copy.
#[derive(Clone, Copy, Debug)]
struct Copy {
    src: u64,
    dst: u64,
    left: u64,
    words: u32,
}

#[derive(Debug)]
struct Sdma {
    version: &'static Version,
    memory: QueueMemory,
    /// Bytes of the ring that are done.
    read: u64,
    indirect: Option<Indirect>,
    copy: Option<Copy>,
    /// Polls of the current packet that did not come true.
    polls: u32,
    stopped: bool,
}

/// A packet, with where it is.
struct Found {
    address: u64,
    words: Vec<u32>,
}

impl Sdma {
    /// Address of a dword at a count of bytes of the ring.
    fn ring_address(&self, count: u64) -> u64 {
        let offset = count.checked_rem(self.memory.ring_bytes).unwrap_or(0);
        self.memory.ring.wrapping_add(offset)
    }

    /// How far the host has written.
    fn written(&self, host: &dyn Host) -> Result<u64, Cause> {
        // The doorbell first: the pointer that is in memory then is at least what was rung.
        let rung = host.doorbell();
        let mut bytes = [0; 8];
        host::read(host.vm(), self.memory.write_pointer, &mut bytes)?;
        let pointer = u64::from_le_bytes(bytes);
        let wrong = |why: String| Err(Cause::Packet(why));
        if rung < self.read {
            // A queue starts with a doorbell nobody has rung yet.
            return if rung == 0 {
                Ok(self.read)
            } else {
                wrong(format!(
                    "the doorbell went back from {:#x} to {rung:#x}",
                    self.read
                ))
            };
        }
        if !rung.is_multiple_of(4) {
            return wrong(format!(
                "the doorbell {rung:#x} is not a whole number of dwords"
            ));
        }
        if rung - self.read > self.memory.ring_bytes {
            return wrong(format!(
                "the doorbell {rung:#x} is {} bytes past the read pointer {:#x}; the ring has {}",
                rung - self.read,
                self.read,
                self.memory.ring_bytes
            ));
        }
        if pointer < rung {
            return wrong(format!(
                "the doorbell {rung:#x} was rung before the write pointer, {pointer:#x}, was stored"
            ));
        }
        Ok(rung)
    }

    /// Reads dwords of the current stream, `from` on.
    fn dwords(&self, host: &dyn Host, from: u32, count: u32) -> Result<Vec<u32>, Cause> {
        let mut words = Vec::new();
        for i in from..from.saturating_add(count) {
            let address = match &self.indirect {
                Some(ib) => ib.base.wrapping_add(4 * u64::from(ib.done + i)),
                None => self.ring_address(self.read.wrapping_add(4 * u64::from(i))),
            };
            let mut bytes = [0; 4];
            host::read(host.vm(), address, &mut bytes)?;
            words.push(u32::from_le_bytes(bytes));
        }
        Ok(words)
    }

    /// The packet that is next; `None` if the ring is empty.
    fn next(&self, host: &dyn Host) -> Result<Option<Found>, Box<Fault>> {
        let (address, available) = match &self.indirect {
            Some(ib) => (
                ib.base.wrapping_add(4 * u64::from(ib.done)),
                ib.words - ib.done,
            ),
            None => {
                let address = self.ring_address(self.read);
                let written = self
                    .written(host)
                    .map_err(|cause| self.fault(cause, address, &[]))?;
                (address, ((written - self.read) / 4) as u32)
            }
        };
        if available == 0 {
            return Ok(None);
        }
        let read = |from, count| {
            self.dwords(host, from, count)
                .map_err(|cause| self.fault(cause, address, &[]))
        };
        let header = read(0, 1)?;
        let mut words = read(0, available.min(4))?;
        let first = header.first().copied().unwrap_or_default();
        let length = packet::length(first, |at| words.get(at as usize).copied());
        let length = match length {
            Some(length) if length <= available => length,
            _ => {
                let end = match self.indirect {
                    Some(_) => "the end of its indirect buffer",
                    None => "the write pointer",
                };
                let cause = Cause::Packet(format!("the packet is cut off by {end}"));
                words.truncate(available as usize);
                return Err(self.fault(cause, address, &words));
            }
        };
        Ok(Some(Found {
            address,
            words: read(0, length)?,
        }))
    }

    fn fault(&self, cause: Cause, address: u64, words: &[u32]) -> Box<Fault> {
        let mut packet = packet::describe(self.version, address, words);
        if let Some(ib) = &self.indirect {
            packet.push_str(&format!(
                "\nin the indirect buffer of {} words at {:#x}",
                ib.words, ib.base
            ));
        }
        Box::new(Fault { cause, packet })
    }

    /// Goes past a packet that is done.
    fn advance(&mut self, host: &dyn Host, words: u32) -> Result<(), Cause> {
        self.polls = 0;
        match &mut self.indirect {
            Some(ib) => {
                ib.done += words;
                if ib.done < ib.words {
                    return Ok(());
                }
                self.read = self.read.wrapping_add(ib.ring_bytes);
                self.indirect = None;
            }
            None => self.read = self.read.wrapping_add(4 * u64::from(words)),
        }
        let pointer = self.memory.read_pointer;
        host::write(host.vm(), pointer, &self.read.to_le_bytes())?;
        Ok(())
    }

    fn execute(&mut self, host: &mut dyn Host, found: &Found) -> Result<Step, Cause> {
        let length = found.words.len() as u32;
        let packet = Packet::decode(self.version, &found.words).map_err(Cause::Packet)?;
        match packet {
            Packet::Nop | Packet::HdpFlush => {}
            Packet::Copy { src, dst, bytes } => {
                self.copy = Some(Copy {
                    src,
                    dst,
                    left: bytes,
                    words: length,
                });
                return self.copy_part(host);
            }
            Packet::Write { dst, words } => {
                let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
                host::write(host.vm(), dst, &bytes)?;
            }
            Packet::Indirect { base, words } => {
                if self.indirect.is_some() {
                    let why = "an indirect buffer inside an indirect buffer";
                    return Err(Cause::Packet(why.into()));
                }
                let end = self.read.wrapping_add(4 * u64::from(length));
                if !end.is_multiple_of(INDIRECT_END) {
                    let why = format!("it ends at {end:#x}, which is not an 8-dword boundary");
                    return Err(Cause::Packet(why));
                }
                self.indirect = Some(Indirect {
                    base,
                    words,
                    done: 0,
                    ring_bytes: 4 * u64::from(length),
                });
                return Ok(Step::Progress);
            }
            Packet::Fence {
                address,
                data,
                uncached: true,
            } => host::write(host.vm(), address, &data.to_le_bytes())?,
            Packet::Fence { address, data, .. } => {
                let parts = host.parts();
                let mut l2 = parts.caches.view(0, parts.vm);
                l2.store(address, &data.to_le_bytes())?;
            }
            Packet::Trap { context } => host.interrupt(context),
            Packet::Poll {
                address,
                func,
                value,
                mask,
                retries,
            } => {
                let mut bytes = [0; 4];
                host::read(host.vm(), address, &mut bytes)?;
                let seen = u32::from_le_bytes(bytes) & mask;
                if !func.holds(seen, value) && retries.is_none_or(|n| self.polls < n) {
                    self.polls = self.polls.saturating_add(1);
                    return Ok(Step::Waiting);
                }
            }
            Packet::Timestamp { address } => {
                let now = host.clock();
                host::write(host.vm(), address, &now.to_le_bytes())?;
            }
        }
        self.advance(host, length)?;
        Ok(Step::Progress)
    }

    /// Copies a part of what is left.
    fn copy_part(&mut self, host: &mut dyn Host) -> Result<Step, Cause> {
        let Some(mut copy) = self.copy else {
            return Ok(Step::Progress);
        };
        let part = 4096 * (1 + u64::from(host.random(16)));
        let part = part.min(copy.left);
        let mut bytes = vec![0; part as usize];
        host::read(host.vm(), copy.src, &mut bytes)?;
        host::write(host.vm(), copy.dst, &bytes)?;
        copy.src = copy.src.wrapping_add(part);
        copy.dst = copy.dst.wrapping_add(part);
        copy.left -= part;
        if copy.left > 0 {
            self.copy = Some(copy);
        } else {
            self.copy = None;
            self.advance(host, copy.words)?;
        }
        Ok(Step::Progress)
    }
}

impl Engine for Sdma {
    fn step(&mut self, host: &mut dyn Host) -> Step {
        if self.stopped {
            return Step::Idle;
        }
        let found = match self.next(host) {
            Ok(Some(found)) => found,
            Ok(None) => return Step::Idle,
            Err(fault) => {
                self.stopped = true;
                return Step::Fault(fault);
            }
        };
        let result = match self.copy {
            Some(_) => self.copy_part(host),
            None => self.execute(host, &found),
        };
        result.unwrap_or_else(|cause| {
            self.stopped = true;
            Step::Fault(self.fault(cause, found.address, &found.words))
        })
    }
}

#[cfg(test)]
mod tests;
