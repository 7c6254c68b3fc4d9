//! The copy engine of a channel.
//!
//! `LAUNCH_DMA` moves lines of bytes, writes a semaphore, or both. A launch takes what the methods before it have set and runs on
//! its own; several are on their way at once.
//!
//! # Order
//!
//! - A `PIPELINED` transfer may begin before those before it have ended, a `NON_PIPELINED` one begins after them.
//! - A launch's semaphore is written after its own transfer. With `FLUSH_ENABLE` everything that was launched before is in
//!   memory then; without, nothing is said about it.
//! - Transfers go in parts of up to 64 KiB, one a turn, so that others see them half done.
//!
//! # Memory
//!
//! The engine reads and writes memory past the caches of the multiprocessors: lines that those have read stay as they are.
//!
//! # Limits
//!
//! Lines in pitch layout through page tables, and elements with `REMAP_ENABLE`. Block-linear layouts, physical addresses, secure
//! copies, conditional rendering and fences of the monitored kind are refused.

use std::collections::VecDeque;

use super::channel::interrupt;
use super::chip::Chip;
use super::host::{Taken, time};
use crate::cache::host;
use crate::engine::{Cause, Fault, Host};

mod launch;
mod methods;

use launch::{Launch, Order};
use methods::{Use, offset};

/// Bytes of a part.
const PART: u64 = 64 << 10;
/// Launches on their way.
const ROOM: usize = 8;

/// What the methods have set.
#[derive(Clone, Debug, Default)]
struct Registers(Vec<(u16, u32)>);

impl Registers {
    /// 0 if nobody has set it.
    fn get(&self, method: u16) -> u32 {
        let found = self.0.iter().find(|(at, _)| *at == method);
        found.map(|&(_, value)| value).unwrap_or_default()
    }

    fn set(&mut self, method: u16, data: u32) {
        match self.0.iter_mut().find(|(at, _)| *at == method) {
            Some((_, value)) => *value = data,
            None => self.0.push((method, data)),
        }
    }
}

/// A launch on its way.
#[derive(Debug)]
struct Job {
    launch: Launch,
    line: u64,
    /// Elements of the line that are done.
    done: u64,
}

impl Job {
    /// Whether everything has moved.
    fn moved(&self) -> bool {
        self.launch.order == Order::Nothing
            || self.launch.length == 0
            || self.line >= self.launch.lines
    }

    /// What it is, in words.
    fn describe(&self) -> String {
        let launch = &self.launch;
        let mut text = String::from("LAUNCH_DMA:");
        if launch.order != Order::Nothing {
            text.push_str(&format!(
                " {:#x} lines of {:#x} from {:#x} to {:#x}, {:#x} and {:#x} of the next done;",
                launch.lines,
                launch.length,
                launch.source,
                launch.destination,
                self.line,
                self.done
            ));
        }
        match &launch.semaphore {
            Some(release) => text.push_str(&format!(" a semaphore at {:#x}", release.address)),
            None => text.push_str(" no semaphore"),
        }
        text
    }
}

/// A copy engine.
#[derive(Debug)]
pub(super) struct Copy {
    chip: &'static Chip,
    /// Place in the tables: before Hopper, Hopper, Blackwell.
    generation: usize,
    registers: Registers,
    jobs: VecDeque<Job>,
}

impl Copy {
    /// The engine of a chip; `None` if its class is not simulated.
    pub(super) fn new(chip: &'static Chip) -> Option<Self> {
        let generation = match chip.copy {
            0xC7B5 => 0,
            0xC8B5 => 1,
            0xC9B5 | 0xCAB5 => 2,
            _ => return None,
        };
        let mut registers = Registers::default();
        // SET_RENDER_ENABLE_C_MODE_TRUE.
        registers.set(offset::SET_RENDER_ENABLE_C, 1);
        Some(Self {
            chip,
            generation,
            registers,
            jobs: VecDeque::new(),
        })
    }

    pub(super) fn class(&self) -> u32 {
        self.chip.copy
    }

    /// A method's name.
    pub(super) fn name(&self, method: u16) -> Option<&'static str> {
        methods::find(self.generation, method).map(|(name, ..)| name)
    }

    pub(super) fn busy(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Takes a method.
    pub(super) fn method(&mut self, method: u16, data: u32) -> Result<Taken, Cause> {
        let class = self.class();
        let Some((name, kind, mask)) = methods::find(self.generation, method) else {
            return Err(Cause::Packet(format!(
                "class {class:#x} has no method {method:#x}"
            )));
        };
        let reserved = data & !mask;
        if reserved != 0 {
            return Err(Cause::Packet(format!(
                "{name} has reserved bits {reserved:#x} in class {class:#x}"
            )));
        }
        match kind {
            Use::Nothing => {}
            Use::State | Use::Other => self.registers.set(method, data),
            Use::Launch => {
                if self.jobs.len() >= ROOM {
                    return Ok(Taken::WhenRoom);
                }
                let launch = Launch::read(&self.registers, data)?;
                match self.registers.get(offset::SET_RENDER_ENABLE_C) {
                    0 => return Ok(Taken::Set),
                    1 => {}
                    mode => {
                        return Err(Cause::Launch(format!(
                            "SET_RENDER_ENABLE_C mode {mode} is not simulated"
                        )));
                    }
                }
                self.jobs.push_back(Job {
                    launch,
                    line: 0,
                    done: 0,
                });
                return Ok(Taken::Done);
            }
        }
        Ok(Taken::Set)
    }

    /// Launches that may do something now.
    fn ready(&self) -> Vec<usize> {
        let mut ready = Vec::new();
        for (at, job) in self.jobs.iter().enumerate() {
            let launch = &job.launch;
            let first = at == 0;
            if job.moved() {
                // A semaphore with a flush comes after everything before it, and nothing else has anything to wait for.
                if first || !launch.flush {
                    ready.push(at);
                }
            } else if first || launch.order == Order::Pipelined {
                ready.push(at);
            }
            // Nothing passes a transfer that waits for all before it.
            if launch.order == Order::AfterAll && !job.moved() && !first {
                break;
            }
        }
        ready
    }

    /// Moves a part, or ends a launch.
    pub(super) fn turn(&mut self, host: &mut dyn Host) -> Result<(), Box<Fault>> {
        let ready = self.ready();
        let Some(last) = ready.len().checked_sub(1) else {
            return Ok(());
        };
        let pick = host.random(last as u32 + 1) as usize;
        let Some(&at) = ready.get(pick) else {
            return Ok(());
        };
        let Some(job) = self.jobs.get_mut(at) else {
            return Ok(());
        };
        let ended = step(host, job, at == 0).map_err(|cause| {
            let packet = job.describe();
            Box::new(Fault { cause, packet })
        })?;
        if ended {
            self.jobs.remove(at);
        }
        Ok(())
    }
}

/// Brings a launch on; `true` if it is over. `first`: all those before it are.
fn step(host: &mut dyn Host, job: &mut Job, first: bool) -> Result<bool, Cause> {
    if !job.moved() {
        part(host, job)?;
        if !job.moved() {
            return Ok(false);
        }
    }
    // With a flush it has to wait for those before it.
    if !first && job.launch.flush {
        return Ok(false);
    }
    if let Some(semaphore) = &job.launch.semaphore {
        semaphore.write(host.vm(), time(host))?;
    }
    if job.launch.interrupt {
        host.interrupt(interrupt::COPY);
    }
    Ok(true)
}

/// Moves the next part of a launch.
fn part(host: &mut dyn Host, job: &mut Job) -> Result<(), Cause> {
    let launch = &job.launch;
    let line = |base: u64, pitch: u64| base.wrapping_add(pitch.wrapping_mul(job.line));
    let from = line(launch.source, launch.source_pitch);
    let to = line(launch.destination, launch.destination_pitch);
    let left = launch.length.saturating_sub(job.done);
    let count = match &launch.remap {
        None => {
            let count = left.min(PART);
            let mut bytes = vec![0; count as usize];
            host::read(host.vm(), from.wrapping_add(job.done), &mut bytes)?;
            host::write(host.vm(), to.wrapping_add(job.done), &bytes)?;
            count
        }
        Some(remap) => {
            let (source, destination) = (remap.source_bytes(), remap.destination_bytes());
            let count = left.min(PART / source.max(destination));
            let mut read = vec![0; (count * source) as usize];
            if remap.reads() {
                host::read(host.vm(), from.wrapping_add(job.done * source), &mut read)?;
            }
            let to = to.wrapping_add(job.done * destination);
            let mut write = vec![0; (count * destination) as usize];
            if remap.keeps() {
                host::read(host.vm(), to, &mut write)?;
            }
            let elements = write.chunks_mut(destination as usize);
            for (to, from) in elements.zip(read.chunks(source as usize)) {
                remap.element(from, to);
            }
            host::write(host.vm(), to, &write)?;
            count
        }
    };
    job.done += count;
    if job.done >= launch.length {
        job.done = 0;
        job.line += 1;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
