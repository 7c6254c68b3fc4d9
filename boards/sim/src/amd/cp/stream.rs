//! The front of one XCC: it reads packets one after the other and does, starts, or waits for what they say.
//!
//! # What waits for what
//!
//! `DISPATCH_DIRECT` starts a launch and goes on. `RELEASE_MEM` leaves an event behind and goes on. Everything else is done on
//! the spot, in particular `ACQUIRE_MEM`, `WRITE_DATA` and `COPY_DATA`, whatever is still in flight; `EVENT_WRITE` with
//! `CS_PARTIAL_FLUSH` waits for all launches of this XCC, `WAIT_REG_MEM` for memory or a register.
//!
//! # Indirect buffers
//!
//! The ring, or an AQL packet, calls one; a buffer calls none (compute queues have one level of them), but may end with
//! `INDIRECT_BUFFER` with the chain bit, which goes on elsewhere.

use super::chip::{Chip, Generation};
use super::layout::{self, bits};
use super::pipe::Pipe;
use super::registers::{Registers, Space};
use super::{Cause, Stopped, launch, memory, sync};
use crate::engine::{Host, Parts};
use crate::vm::AddressSpace;

/// Where packets come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Ring,
    Buffer,
}

impl Place {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ring => "in the ring",
            Self::Buffer => "in an indirect buffer",
        }
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// There was none.
    Nothing,
    /// It is over, for the front.
    Packet,
    /// It has to be looked at again.
    Waits,
}

/// An indirect buffer that is being read.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    /// Address of the next word.
    at: u64,
    /// Words left.
    left: u32,
    /// Words left that are of other XCCs.
    skip: u32,
    /// Words left that are of this XCC alone.
    own: u32,
}

/// The front of one XCC.
pub(super) struct Stream {
    chip: &'static Chip,
    /// Number of this XCC, and of all.
    xcc: (u8, u8),
    /// This XCC's share of launches.
    share: (u8, u8),
    registers: Registers,
    buffer: Option<Buffer>,
    /// What was asked of the HDP; it is done at once.
    hdp: u32,
    pub(super) pipe: Pipe,
}

fn refuse<T>(text: impl Into<String>) -> Result<T, Cause> {
    Err(Cause::Packet(text.into()))
}

impl Stream {
    pub(super) fn new(chip: &'static Chip, xcc: (u8, u8), share: (u8, u8)) -> Self {
        Self {
            chip,
            xcc,
            share,
            registers: Registers::new(),
            buffer: None,
            hdp: 0,
            pipe: Pipe::new(xcc.0),
        }
    }

    /// Which XCC of how many this is.
    pub(super) fn xcc(&self) -> (u8, u8) {
        self.xcc
    }

    /// This XCC's share of a launch.
    pub(super) fn share(&self) -> (u8, u8) {
        self.share
    }

    /// Whether an indirect buffer is being read.
    pub(super) fn in_buffer(&self) -> bool {
        self.buffer.is_some()
    }

    /// Takes the next packet of the indirect buffer.
    pub(super) fn step_buffer(&mut self, host: &mut dyn Host) -> Result<Done, Stopped> {
        let Some(mut buffer) = self.buffer else {
            return Ok(Done::Nothing);
        };
        if buffer.skip > 0 {
            let skip = std::mem::take(&mut buffer.skip);
            buffer.at = buffer.at.wrapping_add(4 * u64::from(skip));
            buffer.left = buffer.left.saturating_sub(skip);
            self.buffer = Some(buffer).filter(|buffer| buffer.left > 0);
            return Ok(Done::Packet);
        }
        let at = buffer.at;
        let words = read_packet(host.vm(), buffer.left, |word| {
            at.wrapping_add(4 * u64::from(word))
        })
        .map_err(|(cause, words)| self.stopped(cause, Place::Buffer, at, &words))?;
        let length = words.length;
        if buffer.own > 0 && length > buffer.own {
            let cause = Cause::Packet(format!(
                "{length} words, but PRED_EXEC ends after {} of them",
                buffer.own
            ));
            return Err(self.stopped(cause, Place::Buffer, at, &words.words));
        }
        // The packet may put another buffer in its place, so this one moves on first, and back if the packet waits.
        let before = self.buffer;
        buffer.at = at.wrapping_add(4 * u64::from(length));
        buffer.left = buffer.left.saturating_sub(length);
        buffer.own = buffer.own.saturating_sub(length);
        self.buffer = Some(buffer);
        let done = self.execute(host, &words.words, at, Place::Buffer)?;
        if done == Done::Waits {
            self.buffer = before;
        } else {
            self.buffer = self.buffer.filter(|buffer| buffer.left > 0);
        }
        Ok(done)
    }

    /// A fault with this packet as its reason.
    pub(super) fn stopped(&self, cause: Cause, place: Place, at: u64, words: &[u32]) -> Stopped {
        Stopped::new(cause, self.describe(place, at, words))
    }

    fn describe(&self, place: Place, at: u64, words: &[u32]) -> String {
        let text = layout::describe(self.chip, place.name(), at, words);
        match self.xcc {
            (_, 0 | 1) => text,
            (xcc, of) => format!("XCC {xcc} of {of}: {text}"),
        }
    }

    /// Does what one packet says.
    pub(super) fn execute(
        &mut self,
        host: &mut dyn Host,
        words: &[u32],
        at: u64,
        place: Place,
    ) -> Result<Done, Stopped> {
        self.packet(host, words, at, place)
            .map_err(|cause| self.stopped(cause, place, at, words))
    }

    fn packet(
        &mut self,
        host: &mut dyn Host,
        words: &[u32],
        at: u64,
        place: Place,
    ) -> Result<Done, Cause> {
        let header = bits(words, 0, 31, 0);
        let opcode = layout::opcode(header);
        if header >> 30 == 2 {
            return Ok(Done::Packet);
        }
        if opcode == layout::NOP {
            return match header & 0xFD {
                0 => Ok(Done::Packet),
                bits => refuse(format!("NOP: header has reserved bits {bits:#x}")),
            };
        }
        let Some(layout) = layout::layout(self.chip, words) else {
            return refuse(format!(
                "opcode {opcode:#04x} is none that a compute queue of {} takes here",
                self.chip.target
            ));
        };
        layout.check(words)?;
        match opcode {
            layout::DISPATCH_DIRECT => return self.dispatch(words, at, place),
            layout::PRED_EXEC => self.pred_exec(words, place)?,
            layout::WRITE_DATA => self.write_data(host, words)?,
            layout::WAIT_REG_MEM => return self.wait(host, words),
            layout::INDIRECT_BUFFER => self.indirect(words, place)?,
            layout::COPY_DATA => self.copy_data(host, words)?,
            layout::EVENT_WRITE => return self.event(words),
            layout::RELEASE_MEM => {
                let release = sync::release(self.chip, words)?;
                if !self.pipe.takes_event() {
                    return Ok(Done::Waits);
                }
                let text = self.describe(place, at, words);
                self.pipe.event(release, text);
            }
            layout::ACQUIRE_MEM => sync::acquire(self.chip, words)?.apply(self.xcc.0, host)?,
            layout::SET_SH_REG => self.set(words, Space::Sh)?,
            layout::SET_UCONFIG_REG => self.set(words, Space::Uconfig)?,
            _ => return refuse(format!("{} is not simulated", layout.name)),
        }
        Ok(Done::Packet)
    }

    fn set(&mut self, words: &[u32], space: Space) -> Result<(), Cause> {
        let values = words.get(2..).unwrap_or_default();
        let offset = bits(words, 1, 15, 0);
        self.registers.set(self.chip, space, offset, values)
    }

    fn dispatch(&mut self, words: &[u32], at: u64, place: Place) -> Result<Done, Cause> {
        let dims = [1, 2, 3].map(|word| bits(words, word, 31, 0));
        let initiator = bits(words, 4, 31, 0);
        let plan = launch::from_registers(self.chip, &self.registers, dims, initiator, self.xcc)?;
        if !self.pipe.takes_launch() {
            return Ok(Done::Waits);
        }
        let text = self.describe(place, at, words);
        self.pipe.launch(plan, self.share, text);
        Ok(Done::Packet)
    }

    fn pred_exec(&mut self, words: &[u32], place: Place) -> Result<(), Cause> {
        let count = bits(words, 1, 13, 0);
        let selected = bits(words, 1, 31, 24) >> self.xcc.0 & 1 != 0;
        let (Place::Buffer, Some(buffer)) = (place, &mut self.buffer) else {
            return refuse("PRED_EXEC: works in an indirect buffer only");
        };
        if count > buffer.left {
            return refuse(format!(
                "PRED_EXEC: {count} words, but the buffer has {} left",
                buffer.left
            ));
        }
        if buffer.own > 0 {
            return refuse("PRED_EXEC: within the words of another");
        }
        if selected {
            buffer.own = count;
        } else {
            buffer.skip = count;
        }
        Ok(())
    }

    /// Calls an indirect buffer.
    pub(super) fn indirect(&mut self, words: &[u32], place: Place) -> Result<(), Cause> {
        let chain = bits(words, 3, 20, 20) != 0;
        let left = bits(words, 3, 19, 0);
        if bits(words, 3, 23, 23) == 0 {
            return refuse("INDIRECT_BUFFER: not valid");
        }
        if bits(words, 3, 27, 24) != 0 {
            return refuse("INDIRECT_BUFFER: vmid is for the kernel's own queues");
        }
        if bits(words, 3, 21, 21) != 0 {
            return refuse("INDIRECT_BUFFER: offload_polling is not simulated");
        }
        if left == 0 {
            return refuse("INDIRECT_BUFFER: no words");
        }
        match (place, self.buffer) {
            (Place::Ring, None) if chain => {
                return refuse("INDIRECT_BUFFER: chain is for the end of an indirect buffer");
            }
            (Place::Buffer, _) if !chain => {
                return refuse("INDIRECT_BUFFER: compute queues have one level of them");
            }
            (Place::Buffer, Some(buffer)) if buffer.left != 0 => {
                return refuse(format!(
                    "INDIRECT_BUFFER: chain leaves {} words of this buffer",
                    buffer.left
                ));
            }
            _ => {}
        }
        self.buffer = Some(Buffer {
            at: layout::address(words, 1),
            left,
            skip: 0,
            own: 0,
        });
        Ok(())
    }

    fn event(&mut self, words: &[u32]) -> Result<Done, Cause> {
        // VGT_EVENT_TYPE: CS_PARTIAL_FLUSH; index 4 is "*S_PARTIAL_FLUSH".
        match (bits(words, 1, 5, 0), bits(words, 1, 11, 8)) {
            (7, 4) if bits(words, 1, 31, 31) != 0 => {
                refuse("EVENT_WRITE: offload_enable is not simulated")
            }
            (7, 4) if self.pipe.launches_over() => Ok(Done::Packet),
            (7, 4) => Ok(Done::Waits),
            (event, index) => refuse(format!(
                "EVENT_WRITE: event_type {event:#x} with event_index {index}: only CS_PARTIAL_FLUSH, 0x7 with index 4, is \
                 simulated"
            )),
        }
    }

    fn wait(&mut self, host: &mut dyn Host, words: &[u32]) -> Result<Done, Cause> {
        let function = bits(words, 1, 2, 0);
        let (reference, mask) = (bits(words, 4, 31, 0), bits(words, 5, 31, 0));
        if function == 7 {
            return refuse("WAIT_REG_MEM: function 7 is reserved");
        }
        // Wider than memory or reference can ever be under the mask.
        let never = match function {
            3 => reference & !mask != 0,
            4 => mask == 0 && reference == 0,
            1 => reference == 0,
            5 => reference > mask,
            6 => reference >= mask,
            _ => false,
        };
        if never {
            return refuse(format!(
                "WAIT_REG_MEM: nothing under mask {mask:#x} satisfies function {function} with {reference:#x}: this never ends"
            ));
        }
        let value = match (bits(words, 1, 5, 4), bits(words, 1, 7, 6)) {
            (1, 0 | 3) => memory::read_u32(host.vm(), layout::address(words, 2))?,
            (0, 1) => {
                let pair = (bits(words, 2, 17, 0), bits(words, 3, 17, 0));
                if pair != self.chip.hdp {
                    return refuse(format!(
                        "WAIT_REG_MEM: writes register {:#x} and waits for {:#x}; only GPU_HDP_FLUSH_REQ and _DONE, \
                         {:#x} and {:#x}, are simulated",
                        pair.0, pair.1, self.chip.hdp.0, self.chip.hdp.1
                    ));
                }
                self.hdp |= reference;
                self.hdp
            }
            (0, 0) => {
                let register = bits(words, 2, 17, 0);
                if register != self.chip.hdp.1 {
                    return refuse(format!(
                        "WAIT_REG_MEM: register {register:#x} is not simulated"
                    ));
                }
                self.hdp
            }
            (space, operation) => {
                return refuse(format!(
                    "WAIT_REG_MEM: mem_space {space} with operation {operation} is reserved"
                ));
            }
        } & mask;
        let satisfied = match function {
            0 => true,
            1 => value < reference,
            2 => value <= reference,
            3 => value == reference,
            4 => value != reference,
            5 => value >= reference,
            _ => value > reference,
        };
        Ok(if satisfied { Done::Packet } else { Done::Waits })
    }

    fn write_data(&self, host: &mut dyn Host, words: &[u32]) -> Result<(), Cause> {
        let at = layout::address(words, 2);
        let advance = u64::from(bits(words, 1, 16, 16) == 0);
        let data = words.get(4..).unwrap_or_default();
        let through_l2 =
            self.destination("WRITE_DATA", bits(words, 1, 11, 8), bits(words, 1, 26, 25))?;
        for (index, &word) in (0..).zip(data) {
            let at = at.wrapping_add(4 * advance * index);
            self.store(host, at, &word.to_le_bytes(), through_l2)?;
        }
        Ok(())
    }

    /// Whether a destination is behind the L2, or memory itself.
    fn destination(&self, name: &str, select: u32, policy: u32) -> Result<bool, Cause> {
        let gfx9 = self.chip.generation == Generation::Gfx9;
        if gfx9 && policy > 1 {
            return refuse(format!("{name}: cache_policy {policy} is reserved on gfx9"));
        }
        match select {
            2 => Ok(true),
            5 => Ok(false),
            _ => refuse(format!(
                "{name}: dst_sel {select} is not simulated; 5 is memory, 2 the L2"
            )),
        }
    }

    fn store(
        &self,
        host: &mut dyn Host,
        at: u64,
        bytes: &[u8],
        through_l2: bool,
    ) -> Result<(), Cause> {
        let Parts { vm, caches, .. } = host.parts();
        if through_l2 {
            caches.view(self.xcc.0, vm).store(at, bytes)?;
        } else {
            crate::cache::host::write(vm, at, bytes)?;
        }
        Ok(())
    }

    fn copy_data(&self, host: &mut dyn Host, words: &[u32]) -> Result<(), Cause> {
        let gfx9 = self.chip.generation == Generation::Gfx9;
        if gfx9 && bits(words, 1, 14, 13) > 1 {
            return refuse("COPY_DATA: src_cache_policy is reserved on gfx9");
        }
        if bits(words, 1, 29, 29) != 0 {
            return refuse("COPY_DATA: pq_exe_status is not simulated");
        }
        let wide = bits(words, 1, 16, 16) != 0;
        let source = bits(words, 1, 3, 0);
        let through_l2 =
            self.destination("COPY_DATA", bits(words, 1, 11, 8), bits(words, 1, 26, 25))?;
        let value = match source {
            1 if wide => memory::read_u64(host.vm(), layout::address(words, 2))?,
            1 => u64::from(memory::read_u32(host.vm(), layout::address(words, 2))?),
            5 => layout::address(words, 2),
            9 => host.clock(),
            _ => {
                return refuse(format!(
                    "COPY_DATA: src_sel {source} is not simulated; 1 is memory, 5 the packet, 9 the GPU's clock"
                ));
            }
        };
        let bytes = value.to_le_bytes();
        let len = if wide { 8 } else { 4 };
        self.store(
            host,
            layout::address(words, 4),
            bytes.get(..len).unwrap_or_default(),
            through_l2,
        )
    }
}

/// A packet's words; of a NOP only the first.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) words: Vec<u32>,
    /// Words that the packet takes.
    pub(super) length: u32,
}

/// Reads the packet whose words are at `at(0)`, `at(1)`, ..., of which `left` are there.
pub(super) fn read_packet(
    vm: &dyn AddressSpace,
    left: u32,
    at: impl Fn(u32) -> u64,
) -> Result<Words, (Cause, Vec<u32>)> {
    let read = |word| memory::read_u32(vm, at(word)).map_err(Cause::from);
    let header = read(0).map_err(|cause| (cause, Vec::new()))?;
    let mut words = vec![header];
    let Some((length, body)) = layout::length(header) else {
        let text = format!("type-{} packets are none of this engine", header >> 30);
        return Err((Cause::Packet(text), words));
    };
    let there = length.min(left);
    for word in 1..if body { there } else { 1 } {
        match read(word) {
            Ok(value) => words.push(value),
            Err(cause) => return Err((cause, words)),
        }
    }
    if length > left {
        let text = format!("{length} words, of which {left} are there");
        return Err((Cause::Packet(text), words));
    }
    Ok(Words { words, length })
}
