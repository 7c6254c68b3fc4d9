//! The front: it reads packets one after the other and does, starts, or waits for what they say.
//!
//! A submission's command buffers are of level 1. They may call others, of level 2, which call none; either may end with a chain to
//! another of its level.

use std::collections::VecDeque;

use super::super::chip::Chip;
use super::super::seam::Submission;
use super::chip::Shaders;
use super::launch::{self, Start};
use super::memory;
use super::packet::{self, Header, address, bits, word};
use super::pipe::{Event, Pipe, Write};
use super::registers::{self, Registers};
use super::state::{self, Change};
use super::{Cause, Origin, Stopped};
use crate::engine::Host;
use crate::vm::AddressSpace;

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

/// A command buffer that is being read.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    /// Address of the next word.
    at: u64,
    /// Words left.
    left: u32,
}

impl Buffer {
    fn skip(&mut self, words: u32) {
        self.at = self.at.wrapping_add(4 * u64::from(words));
        self.left = self.left.saturating_sub(words);
    }
}

/// A `CP_MEMCPY` that is not over.
#[derive(Clone, Debug)]
struct Copy {
    from: u64,
    to: u64,
    /// Words left.
    left: u32,
    origin: Origin,
}

/// Words that are copied in one step.
const COPY_STEP: u32 = 4096;
/// Levels of command buffers.
const LEVELS: usize = 2;

pub(super) struct Stream {
    chip: &'static Chip,
    shaders: &'static Shaders,
    registers: Registers,
    /// What the next launch has to load first.
    changes: Vec<Change>,
    /// `CP_SET_MARKER` has said that what follows is compute work.
    compute: bool,
    waiting: VecDeque<Buffer>,
    /// The buffers that are being read, by level.
    stack: Vec<Buffer>,
    copy: Option<Copy>,
}

fn refuse<T>(text: impl Into<String>) -> Result<T, Cause> {
    Err(Cause::Packet(text.into()))
}

/// An address of which the packet has all bits, and which has to be a multiple of `to`.
fn aligned(at: u64, to: u64) -> Result<u64, Cause> {
    match at.is_multiple_of(to) {
        true => Ok(at),
        false => refuse(format!("the address {at:#x} is no multiple of {to}")),
    }
}

/// `cp_cond_function`
fn holds(function: u32, signed: bool, value: u32, reference: u32) -> Result<bool, Cause> {
    let order = if signed {
        value.cast_signed().cmp(&reference.cast_signed())
    } else {
        value.cmp(&reference)
    };
    Ok(match function {
        0 => true,
        1 => order.is_lt(),
        2 => order.is_le(),
        3 => order.is_eq(),
        4 => order.is_ne(),
        5 => order.is_ge(),
        6 => order.is_gt(),
        _ => return refuse(format!("FUNCTION {function} is none")),
    })
}

impl Stream {
    pub(super) fn new(chip: &'static Chip, shaders: &'static Shaders) -> Self {
        Self {
            chip,
            shaders,
            registers: Registers::default(),
            changes: Vec::new(),
            compute: false,
            waiting: VecDeque::new(),
            stack: Vec::new(),
            copy: None,
        }
    }

    /// Takes a submission's command buffers.
    pub(super) fn begin(&mut self, submission: &Submission) {
        // The kernel's own markers surround them.
        self.compute = false;
        let buffers = submission.ibs.iter().map(|&(at, bytes)| Buffer {
            at,
            // 20 bits of dwords, as the kernel has checked.
            left: u32::try_from(bytes / 4).unwrap_or(0) & 0xF_FFFF,
        });
        self.waiting.extend(buffers);
    }

    /// Registers, and what was queued to be loaded, are gone.
    pub(super) fn lose(&mut self) {
        self.registers.clear();
        self.changes.clear();
        self.compute = false;
    }

    /// What was to be done is gone.
    pub(super) fn abandon(&mut self) {
        self.waiting.clear();
        self.stack.clear();
        self.copy = None;
    }

    /// Does one packet, or a part of one.
    pub(super) fn step(&mut self, host: &mut dyn Host, pipe: &mut Pipe) -> Result<Done, Stopped> {
        if let Some(copy) = self.copy.take() {
            self.copy(host, copy)?;
            return Ok(Done::Packet);
        }
        while self.stack.last().is_some_and(|buffer| buffer.left == 0) {
            self.stack.pop();
        }
        let Some(&buffer) = self.stack.last() else {
            return Ok(match self.waiting.pop_front() {
                Some(buffer) => {
                    self.stack.push(buffer);
                    Done::Packet
                }
                None => Done::Nothing,
            });
        };
        let level = self.stack.len();
        let (words, read) = read_packet(host.vm(), buffer);
        let shown = words.iter().copied().take(packet::SHOWN + 1).collect();
        let origin = Origin {
            level,
            at: buffer.at,
            words: shown,
        };
        let header = read.map_err(|cause| Stopped::new(cause, &origin))?;
        // The packet may put another buffer on top, or move on in this one, so this one moves on first, and back if the packet
        // waits.
        if let Some(top) = self.stack.last_mut() {
            top.skip(header.length());
        }
        let done = self
            .packet(host, pipe, header, &words, &origin)
            .map_err(|cause| Stopped::new(cause, &origin))?;
        if done == Done::Waits
            && let Some(top) = self.stack.last_mut()
        {
            *top = buffer;
        }
        Ok(done)
    }

    fn packet(
        &mut self,
        host: &mut dyn Host,
        pipe: &mut Pipe,
        header: Header,
        words: &[u32],
        origin: &Origin,
    ) -> Result<Done, Cause> {
        let opcode = match header {
            Header::Registers { first, .. } => {
                let values = words.get(1..).unwrap_or_default();
                self.set((first..).zip(values.iter().copied()))?;
                return Ok(Done::Packet);
            }
            Header::Command { opcode, .. } => opcode,
        };
        packet::check(opcode, words)?;
        match opcode {
            packet::NOP | packet::WAIT_MEM_WRITES | packet::WAIT_FOR_ME => {}
            packet::WAIT_FOR_IDLE => return Ok(waits_unless(pipe.idle())),
            packet::SET_MARKER => self.marker(words)?,
            packet::LOAD_STATE6_FRAG => state::load(words, origin.clone(), &mut self.changes)?,
            packet::EXEC_CS => {
                let groups = [2, 3, 4].map(|at| word(words, at));
                return self.launch(pipe, Start::Groups(groups), origin);
            }
            packet::RUN_OPENCL => return self.launch(pipe, Start::Range, origin),
            packet::EXEC_CS_INDIRECT => return self.launch_indirect(host, pipe, words, origin),
            packet::EVENT_WRITE => return event(pipe, words, origin),
            packet::WAIT_REG_MEM => {
                if bits(words, 1, 8, 8) != 0 {
                    return refuse("CP_WAIT_REG_MEM: WRITE_MEMORY is for CP_COND_WRITE5");
                }
                return Ok(waits_unless(self.condition(host, words)?));
            }
            packet::WAIT_MEM_GTE => {
                let value = memory::read_u32(host.vm(), aligned(address(words, 2), 4)?)?;
                let reference = word(words, 4).cast_signed();
                return Ok(waits_unless(value.cast_signed() >= reference));
            }
            packet::MEM_WRITE => {
                let at = address(words, 1);
                let values = words.get(3..).unwrap_or_default();
                for (i, &value) in (0..).zip(values) {
                    memory::write_u32(host.vm(), at.wrapping_add(4 * i), value)?;
                }
            }
            packet::REG_TO_MEM => self.registers_to_memory(host, words)?,
            packet::MEM_TO_REG => self.memory_to_registers(host, words)?,
            packet::MEM_TO_MEM => sum(host.vm(), words)?,
            packet::MEMCPY => {
                self.copy = Some(Copy {
                    from: address(words, 2),
                    to: address(words, 4),
                    left: word(words, 1),
                    origin: origin.clone(),
                });
            }
            packet::COND_EXEC => self.skip_unless(host.vm(), words)?,
            packet::COND_WRITE5 => self.write_if(host, words)?,
            // These two wait before they touch a register.
            packet::REG_RMW | packet::REG_TO_SCRATCH if !pipe.idle() => return Ok(Done::Waits),
            packet::REG_RMW => self.modify(host, words)?,
            packet::REG_TO_SCRATCH | packet::SCRATCH_TO_REG | packet::SCRATCH_WRITE => {
                self.scratch(host, opcode, words)?;
            }
            packet::CONTEXT_REG_BUNCH => {
                let values = words.get(1..).unwrap_or_default();
                let (pairs, rest) = values.as_chunks::<2>();
                if !rest.is_empty() {
                    return refuse("CP_CONTEXT_REG_BUNCH: a register without a value");
                }
                self.set(pairs.iter().map(|&[register, value]| (register, value)))?;
            }
            packet::INTERRUPT => host.interrupt(word(words, 1)),
            packet::INDIRECT_BUFFER | packet::INDIRECT_BUFFER_CHAIN => {
                self.call(opcode, words)?;
            }
            _ => return refuse(format!("opcode {opcode:#04x} is not simulated")),
        }
        Ok(Done::Packet)
    }

    /// Writes registers, all or none.
    fn set(&mut self, values: impl Iterator<Item = (u32, u32)> + Clone) -> Result<(), Cause> {
        for (register, value) in values.clone() {
            Registers::check(self.chip, register, value)?;
        }
        for (register, value) in values {
            if register == registers::HLSQ_INVALIDATE_CMD {
                state::invalidate(value, &mut self.changes);
            }
            self.registers.set(register, value);
        }
        Ok(())
    }

    /// `CP_SET_MARKER`: `a6xx_marker`, or `a6xx_ifpc_mode`.
    fn marker(&mut self, words: &[u32]) -> Result<(), Cause> {
        if bits(words, 1, 8, 8) != 0 {
            return match word(words, 1) & 0xFF {
                0 | 1 => Ok(()),
                mode => refuse(format!("CP_SET_MARKER: IFPC_MODE {mode:#x} is none")),
            };
        }
        match bits(words, 1, 3, 0) {
            mode @ (1..=8 | 0xC) => {
                self.compute = mode == 8;
                Ok(())
            }
            mode @ (0xD | 0xE) => refuse(format!(
                "CP_SET_MARKER: MODE {mode:#x} is for the kernel's own commands"
            )),
            mode => refuse(format!("CP_SET_MARKER: MODE {mode:#x} is none")),
        }
    }

    fn launch(&mut self, pipe: &mut Pipe, start: Start, origin: &Origin) -> Result<Done, Cause> {
        if !self.compute {
            return Err(Cause::Launch(
                "CP_SET_MARKER has not said RM6_COMPUTE in this submission".into(),
            ));
        }
        let plan = launch::plan(self.chip, self.shaders, &self.registers, start)?;
        if !pipe.takes_launch() {
            return Ok(Done::Waits);
        }
        pipe.launch(plan, std::mem::take(&mut self.changes), origin.clone());
        Ok(Done::Packet)
    }

    /// `CP_EXEC_CS_INDIRECT`: the numbers of groups are in memory.
    fn launch_indirect(
        &mut self,
        host: &mut dyn Host,
        pipe: &mut Pipe,
        words: &[u32],
        origin: &Origin,
    ) -> Result<Done, Cause> {
        let mut groups = [0; 3];
        memory::read_words(host.vm(), address(words, 2), &mut groups)?;
        let (sizes, given) = (registers::HLSQ_CS_NDRANGE_0, word(words, 4));
        let have = self.registers.need(sizes)?;
        if (have ^ given) & !3 != 0 {
            return Err(Cause::Launch(format!(
                "the local size is {given:#x} in the packet and {have:#x} in HLSQ_CS_NDRANGE_0"
            )));
        }
        self.launch(pipe, Start::Groups(groups), origin)
    }

    /// What `POLL` and the words behind it ask for.
    fn condition(&self, host: &mut dyn Host, words: &[u32]) -> Result<bool, Cause> {
        let value = match bits(words, 1, 5, 4) {
            0 => {
                let register = address(words, 2);
                match u32::try_from(register).ok().filter(|&r| r <= 0x3_FFFF) {
                    Some(register) => self.registers.read(self.chip, register, host.clock())?,
                    None => return refuse(format!("there is no register {register:#x}")),
                }
            }
            1 => memory::read_u32(host.vm(), aligned(address(words, 2), 4)?)?,
            other => return refuse(format!("POLL {other} is not simulated")),
        };
        let (reference, mask) = (word(words, 4), word(words, 5));
        let signed = bits(words, 1, 3, 3) != 0;
        holds(bits(words, 1, 2, 0), signed, value & mask, reference)
    }

    fn registers_to_memory(&self, host: &mut dyn Host, words: &[u32]) -> Result<(), Cause> {
        let (first, at) = (bits(words, 1, 17, 0), address(words, 2));
        let count = bits(words, 1, 29, 18).max(1);
        let (wide, add) = (bits(words, 1, 30, 30) != 0, bits(words, 1, 31, 31) != 0);
        if wide && !count.is_multiple_of(2) {
            return refuse(format!("CP_REG_TO_MEM: 64B with CNT {count}"));
        }
        // Both halves of a counter are of the same moment.
        let clock = host.clock();
        let value = |register: u32| self.registers.read(self.chip, register, clock);
        let vm = host.vm();
        let step = if wide { 2 } else { 1 };
        for i in (0..count).step_by(step) {
            let to = at.wrapping_add(4 * u64::from(i));
            let low = value(first + i)?;
            if wide {
                let mut all = u64::from(low) | u64::from(value(first + i + 1)?) << 32;
                if add {
                    all = all.wrapping_add(memory::read_u64(vm, to)?);
                }
                memory::write_u64(vm, to, all)?;
            } else {
                let before = if add { memory::read_u32(vm, to)? } else { 0 };
                memory::write_u32(vm, to, low.wrapping_add(before))?;
            }
        }
        Ok(())
    }

    fn memory_to_registers(&mut self, host: &mut dyn Host, words: &[u32]) -> Result<(), Cause> {
        let count = bits(words, 1, 29, 19).max(1);
        let mut values = vec![0; count as usize];
        memory::read_words(host.vm(), address(words, 2), &mut values)?;
        if bits(words, 1, 30, 30) != 0 {
            values.iter_mut().for_each(|value| *value <<= 2);
        }
        let first = bits(words, 1, 17, 0);
        self.set((first..).zip(values.iter().copied()))
    }

    /// `CP_COND_EXEC`: what follows is done if one word is not 0 and another is below a number.
    fn skip_unless(&mut self, vm: &dyn AddressSpace, words: &[u32]) -> Result<(), Cause> {
        let first = memory::read_u32(vm, address(words, 1))?;
        let second = memory::read_u32(vm, address(words, 3))?.cast_signed();
        let count = word(words, 6);
        let Some(top) = self.stack.last_mut() else {
            return Ok(());
        };
        if count > top.left {
            return refuse(format!(
                "CP_COND_EXEC: {count} words, but the buffer has {} left",
                top.left
            ));
        }
        if first == 0 || second >= word(words, 5).cast_signed() {
            top.skip(count);
        }
        Ok(())
    }

    fn write_if(&mut self, host: &mut dyn Host, words: &[u32]) -> Result<(), Cause> {
        if !self.condition(host, words)? {
            return Ok(());
        }
        let (to, value) = (address(words, 6), word(words, 8));
        if bits(words, 1, 8, 8) != 0 {
            return Ok(memory::write_u32(host.vm(), aligned(to, 4)?, value)?);
        }
        match u32::try_from(to) {
            Ok(register) => self.set(std::iter::once((register, value))),
            Err(_) => refuse(format!("there is no register {to:#x}")),
        }
    }

    /// `CP_REG_RMW`: `((dst & src0) rot rotate) + src1`, or with `|` in place of `+`.
    fn modify(&mut self, host: &mut dyn Host, words: &[u32]) -> Result<(), Cause> {
        let clock = host.clock();
        let source = |at: usize, bit: u32| match bits(words, 1, bit, bit) {
            0 => Ok(word(words, at)),
            _ => self.registers.read(self.chip, word(words, at), clock),
        };
        let register = bits(words, 1, 17, 0);
        let (first, second) = (source(2, 31)?, source(3, 30)?);
        let value = self.registers.read(self.chip, register, clock)? & first;
        let value = value.rotate_left(bits(words, 1, 28, 24));
        let value = match bits(words, 1, 29, 29) {
            0 => value | second,
            _ => value.wrapping_add(second),
        };
        self.set(std::iter::once((register, value)))
    }

    fn scratch(&mut self, host: &mut dyn Host, opcode: u32, words: &[u32]) -> Result<(), Cause> {
        let (register, scratch) = (bits(words, 1, 17, 0), bits(words, 1, 22, 20));
        let values = words.get(2..).unwrap_or_default();
        let count = match opcode {
            packet::SCRATCH_WRITE => values.len() as u32,
            _ => bits(words, 1, 26, 24) + 1,
        };
        if scratch + count > registers::SCRATCHES {
            return refuse(format!(
                "scratch registers {scratch} to {}; there are {}",
                scratch + count - 1,
                registers::SCRATCHES
            ));
        }
        let scratch = registers::CP_SCRATCH + scratch;
        let (from, to) = match opcode {
            packet::SCRATCH_WRITE => {
                return self.set((scratch..).zip(values.iter().copied()));
            }
            packet::REG_TO_SCRATCH => (register, scratch),
            _ => (scratch, register),
        };
        let clock = host.clock();
        let values: Result<Vec<u32>, Cause> = (from..from + count)
            .map(|register| self.registers.read(self.chip, register, clock))
            .collect();
        self.set((to..).zip(values?.iter().copied()))
    }

    /// Calls a command buffer, or goes on in another.
    fn call(&mut self, opcode: u32, words: &[u32]) -> Result<(), Cause> {
        let buffer = Buffer {
            at: address(words, 1),
            left: bits(words, 3, 19, 0),
        };
        if opcode == packet::INDIRECT_BUFFER_CHAIN {
            if let Some(top) = self.stack.last_mut() {
                if top.left != 0 {
                    return refuse(format!(
                        "CP_INDIRECT_BUFFER_CHAIN: leaves {} words of this buffer",
                        top.left
                    ));
                }
                *top = buffer;
            }
            return Ok(());
        }
        if self.stack.len() >= LEVELS {
            return refuse(format!(
                "CP_INDIRECT_BUFFER: in a buffer of level {LEVELS}, the last there is"
            ));
        }
        self.stack.push(buffer);
        Ok(())
    }

    /// Does a part of a copy.
    fn copy(&mut self, host: &mut dyn Host, mut copy: Copy) -> Result<(), Stopped> {
        let now = copy.left.min(COPY_STEP);
        let mut words = vec![0; now as usize];
        let vm = host.vm();
        let copied = memory::read_words(vm, copy.from, &mut words).and_then(|()| {
            (0..)
                .zip(&words)
                .try_for_each(|(i, &w)| memory::write_u32(vm, copy.to.wrapping_add(4 * i), w))
        });
        copied.map_err(|fault| Stopped::new(fault.into(), &copy.origin))?;
        let bytes = 4 * u64::from(now);
        copy.from = copy.from.wrapping_add(bytes);
        copy.to = copy.to.wrapping_add(bytes);
        copy.left -= now;
        self.copy = Some(copy).filter(|copy| copy.left > 0);
        Ok(())
    }
}

fn waits_unless(over: bool) -> Done {
    if over { Done::Packet } else { Done::Waits }
}

/// Reads a packet's words. Without an error there are as many as the header says.
fn read_packet(vm: &dyn AddressSpace, buffer: Buffer) -> (Vec<u32>, Result<Header, Cause>) {
    let mut words = match memory::read_u32(vm, buffer.at) {
        Ok(word) => vec![word],
        Err(fault) => return (Vec::new(), Err(fault.into())),
    };
    let header = match Header::read(word(&words, 0)) {
        Ok(header) => header,
        Err(cause) => return (words, Err(cause)),
    };
    let length = header.length();
    if length > buffer.left {
        let text = format!(
            "a packet of {length} words, but the buffer has {} left",
            buffer.left
        );
        return (words, Err(Cause::Packet(text)));
    }
    words.resize(length as usize, 0);
    let body = words.get_mut(1..).unwrap_or_default();
    match memory::read_words(vm, buffer.at.wrapping_add(4), body) {
        Ok(()) => (words, Ok(header)),
        Err(fault) => (words, Err(fault.into())),
    }
}

/// `CP_EVENT_WRITE`: `vgt_event_type` of compute work, and of the caches of graphics, which hold nothing here.
fn event(pipe: &mut Pipe, words: &[u32], origin: &Origin) -> Result<Done, Cause> {
    let event = bits(words, 1, 7, 0);
    let (clock, interrupt) = (bits(words, 1, 30, 30) != 0, bits(words, 1, 31, 31) != 0);
    // Those that write something have an address and a value.
    let (flush, invalidate, writes) = match event {
        // CACHE_FLUSH_TS
        4 => (true, false, true),
        // RB_DONE_TS, PC_CCU_RESOLVE_TS, PC_CCU_FLUSH_DEPTH_TS, PC_CCU_FLUSH_COLOR_TS
        22 | 26 | 28 | 29 => (false, false, true),
        // PC_CCU_INVALIDATE_DEPTH, PC_CCU_INVALIDATE_COLOR, LABEL
        24 | 25 | 63 => (false, false, false),
        // CACHE_INVALIDATE
        49 => (false, true, false),
        _ => {
            return refuse(format!(
                "CP_EVENT_WRITE: event {event} is none of compute work"
            ));
        }
    };
    let count = words.len().saturating_sub(1);
    let write = match (writes, count) {
        (true, 4) if clock => Write::Clock(aligned(address(words, 2), 8)?),
        (true, 4) => Write::Value(address(words, 2), word(words, 4)),
        (false, 1) if !clock => Write::Nothing,
        _ => {
            return refuse(format!(
                "CP_EVENT_WRITE: event {event} with {count} words behind the header"
            ));
        }
    };
    if !pipe.takes_event() {
        return Ok(Done::Waits);
    }
    let event = Event {
        flush,
        invalidate,
        write,
        interrupt,
    };
    pipe.event(event, origin.clone());
    Ok(Done::Packet)
}

/// `CP_MEM_TO_MEM`: the sum of up to three numbers in memory, some of them negated.
fn sum(vm: &dyn AddressSpace, words: &[u32]) -> Result<(), Cause> {
    let wide = bits(words, 1, 29, 29) != 0;
    let size = if wide { 8 } else { 4 };
    let addresses = words.get(2..).unwrap_or_default();
    if !addresses.len().is_multiple_of(2) {
        return refuse("CP_MEM_TO_MEM: half an address");
    }
    let mut total = 0u64;
    for (i, at) in (0..).zip((4..words.len()).step_by(2)) {
        let at = aligned(address(words, at), size)?;
        let value = if wide {
            memory::read_u64(vm, at)?
        } else {
            memory::read_u32(vm, at)?.into()
        };
        total = match bits(words, 1, i, i) {
            0 => total.wrapping_add(value),
            _ => total.wrapping_sub(value),
        };
    }
    let to = aligned(address(words, 2), size)?;
    if wide {
        memory::write_u64(vm, to, total)?;
    } else {
        memory::write_u32(vm, to, total as u32)?;
    }
    Ok(())
}
