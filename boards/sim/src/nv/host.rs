//! The host engine ("PBDMA") of a channel.
//!
//! It reads GP entries from the channel's ring, the pushbuffer's segments that they name, and the method headers in those; it
//! executes the host's methods itself and hands all others to the engine of their subchannel.
//!
//! # What is where
//!
//! | | |
//! |---|---|
//! | `GPPut` | an entry's index, taken when the doorbell rings; past the ring's end it stops the channel (`INTR_0_GPPTR`) |
//! | `GPGet` | moves when an entry is *begun*: its place in the ring is the host's again, its segment is not |
//! | subchannels | fixed: 1 is compute, 4 is the copy engine beside it; on a copy channel 0 to 4 are the copy engine; 5 to 7 are software's |
//! | semaphores | compare and write as `SEM_EXECUTE` says, past all caches |
//!
//! # Order
//!
//! Methods go one after the other. What they start does not: grids and copies run on while later methods are executed, in an
//! order that the seed decides. [`WFI`](methods::offset::WFI) and a release with `RELEASE_WFI` wait for the engine that the
//! channel last sent a method to, nothing else does.
//!
//! # Limits
//!
//! A channel has no privileges: TLB invalidations are refused. Masks of subdevices, CRCs of entries and segments, `SET_REFERENCE`
//! and the semaphore methods before Volta are not simulated. A wait for a semaphore never times out.

use super::channel::{ChannelEngine, ChannelMemory, ChannelRequest, Objects, interrupt};
use super::compute::Compute;
use super::copy::Copy;
use crate::cache::host;
use crate::engine::{Cause, Engine, Fault, Host, Step};

mod methods;
mod pushbuffer;

pub(super) use methods::time;
use methods::{Acquire, Action, State, offset};
use pushbuffer::{Advance, Entry, Header};

/// What differs between the channel classes.
#[derive(Clone, Copy, Debug)]
struct Classes {
    /// Bits of `SEM_ADDR_HI`.
    semaphore_high: u32,
    /// Segments may lie above 40 bits: `SET_PB_SEGMENT_EXTENDED_BASE`.
    wide: bool,
    /// USERD has a `GPGet`.
    gp_get: bool,
}

impl Classes {
    /// `clc56f.h`, `clc86f.h`, `clc96f.h`, `clca6f.h`.
    fn of(class: u32) -> Option<Self> {
        let (semaphore_high, wide, gp_get) = match class {
            0xC36F | 0xC46F | 0xC56F | 0xC76F => (0xFF, false, true),
            0xC86F => (0x01FF_FFFF, true, true),
            0xC96F | 0xCA6F => (0x01FF_FFFF, true, false),
            _ => return None,
        };
        Some(Self {
            semaphore_high,
            wide,
            gp_get,
        })
    }
}

/// How many methods that only set something go by in a step.
const BURST: u32 = 64;

/// How an engine took a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It set something.
    Set,
    /// It did something that others can see.
    Done,
    /// It has to be sent again when the engine is idle.
    WhenIdle,
    /// It has to be sent again when the engine has room.
    WhenRoom,
}

/// Which engine a method is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Compute,
    Copy,
}

/// What is left of a pushbuffer segment.
#[derive(Clone, Copy, Debug)]
struct Segment {
    address: u64,
    words: u32,
}

/// A run of methods whose header was read.
#[derive(Clone, Copy, Debug)]
struct Run {
    subchannel: u8,
    method: u16,
    left: u32,
    advance: Advance,
}

/// A method with its data.
#[derive(Clone, Copy, Debug)]
struct Method {
    subchannel: u8,
    method: u16,
    data: u32,
    /// Where the word is, for reports.
    address: u64,
}

/// A channel.
#[derive(Debug)]
pub(super) struct Channel {
    classes: Classes,
    engine: ChannelEngine,
    memory: ChannelMemory,
    objects: Objects,
    get: u32,
    base: u64,
    segment: Option<Segment>,
    run: Option<Run>,
    /// A method that was read and could not be executed yet.
    pending: Option<Method>,
    /// The semaphore that the channel waits for.
    acquire: Option<Acquire>,
    state: State,
    last: Option<Target>,
    compute: Compute,
    copy: Copy,
    stopped: Option<Box<Fault>>,
}

impl Channel {
    /// A channel's engine; `None` if its class is not simulated.
    pub(super) fn new(request: &ChannelRequest) -> Option<Self> {
        Some(Self {
            classes: Classes::of(request.class)?,
            engine: request.engine,
            memory: request.memory.clone(),
            objects: request.objects.clone(),
            get: 0,
            base: 0,
            segment: None,
            run: None,
            pending: None,
            acquire: None,
            state: State::default(),
            last: None,
            compute: Compute::new(request.chip)?,
            copy: Copy::new(request.chip)?,
            stopped: None,
        })
    }

    /// The next GP entry; `false` if there is none.
    fn fetch(&mut self, host: &dyn Host) -> Result<bool, Cause> {
        let put = host.doorbell();
        let entries = self.memory.entries;
        if put >= u64::from(entries) {
            return Err(Cause::Packet(format!(
                "GPPut is {put:#x}, and the ring has {entries} entries"
            )));
        }
        if put == u64::from(self.get) {
            return Ok(false);
        }
        let mut bytes = [0; 8];
        let address = self.memory.gpfifo.wrapping_add(8 * u64::from(self.get));
        host::read(host.vm(), address, &mut bytes)?;
        let entry = pushbuffer::entry(&self.classes, u64::from_le_bytes(bytes))?;
        self.get = self.get.wrapping_add(1).checked_rem(entries).unwrap_or(0);
        if self.classes.gp_get {
            self.memory.userd.set_gp_get(self.get);
        }
        match entry {
            Entry::Nop => {}
            Entry::ExtendedBase(base) => self.base = base,
            Entry::Segment { address, words } => {
                let address = self.base | address;
                self.segment = Some(Segment { address, words });
            }
        }
        Ok(true)
    }

    /// The next method. `None`: there is none yet, or a word was one that is no method.
    fn read(&mut self, host: &dyn Host) -> Result<Option<Method>, Cause> {
        let Some(Segment { address, words }) = self.segment else {
            return Ok(None);
        };
        let mut bytes = [0; 4];
        host::read(host.vm(), address, &mut bytes)?;
        let word = u32::from_le_bytes(bytes);
        self.segment = (words > 1).then_some(Segment {
            address: address.wrapping_add(4),
            words: words.saturating_sub(1),
        });
        if let Some(run) = &mut self.run {
            let method = Method {
                subchannel: run.subchannel,
                method: run.method,
                data: word,
                address,
            };
            match run.advance {
                Advance::Never => {}
                Advance::Each => run.method = run.method.wrapping_add(4),
                Advance::Once => {
                    run.method = run.method.wrapping_add(4);
                    run.advance = Advance::Never;
                }
            }
            run.left = run.left.saturating_sub(1);
            if run.left == 0 {
                self.run = None;
            }
            return Ok(Some(method));
        }
        match pushbuffer::header(word)? {
            Header::Nop => Ok(None),
            Header::End => {
                self.segment = None;
                Ok(None)
            }
            Header::Immediate {
                subchannel,
                method,
                data,
            } => Ok(Some(Method {
                subchannel,
                method,
                data,
                address,
            })),
            Header::Methods {
                subchannel,
                method,
                count,
                advance,
            } => {
                self.run = (count > 0).then_some(Run {
                    subchannel,
                    method,
                    left: count,
                    advance,
                });
                Ok(None)
            }
        }
    }

    fn target(&self, subchannel: u8) -> Result<Target, Cause> {
        let target = match (self.engine, subchannel) {
            (ChannelEngine::Graphics, 1) => Target::Compute,
            (ChannelEngine::Graphics, 4) | (ChannelEngine::Copy(_), 0..=4) => Target::Copy,
            (ChannelEngine::Graphics, 0 | 2 | 3) => {
                return Err(Cause::Packet(format!(
                    "subchannel {subchannel} belongs to an engine that is not simulated"
                )));
            }
            _ => {
                return Err(Cause::Packet(format!(
                    "subchannel {subchannel} is for software's methods, and nobody takes them"
                )));
            }
        };
        let class = self.class(target);
        if !self.objects.has(class) {
            return Err(Cause::Packet(format!(
                "subchannel {subchannel}: the channel has no object of class {class:#x}"
            )));
        }
        Ok(target)
    }

    fn class(&self, target: Target) -> u32 {
        match target {
            Target::Compute => self.compute.class(),
            Target::Copy => self.copy.class(),
        }
    }

    fn set_object(&mut self, subchannel: u8, data: u32) -> Result<Taken, Cause> {
        let target = self.target(subchannel)?;
        // NVCLASS, and ENGINE above it.
        let (class, own) = (data & 0xFFFF, self.class(target));
        if class != own || data & 0xFFE0_0000 != 0 {
            return Err(Cause::Packet(format!(
                "SET_OBJECT names {data:#x} on subchannel {subchannel}; its engine is of class {own:#x}"
            )));
        }
        self.last = Some(target);
        Ok(Taken::Set)
    }

    fn busy(&self, target: Option<Target>) -> bool {
        match target {
            Some(Target::Compute) => self.compute.busy(),
            Some(Target::Copy) => self.copy.busy(),
            None => false,
        }
    }

    /// Executes a method.
    fn execute(&mut self, host: &mut dyn Host, method: Method) -> Result<Taken, Cause> {
        let Method {
            subchannel,
            method,
            data,
            ..
        } = method;
        if method == offset::SET_OBJECT {
            return self.set_object(subchannel, data);
        }
        if method >= 0x100 {
            let target = self.target(subchannel)?;
            self.last = Some(target);
            return match target {
                Target::Compute => self.compute.method(host, method, data),
                Target::Copy => self.copy.method(method, data),
            };
        }
        match self.state.method(&self.classes, method, data)? {
            Action::Done => Ok(Taken::Set),
            Action::Yield => Ok(Taken::Done),
            Action::Interrupt => {
                host.interrupt(interrupt::CHANNEL);
                Ok(Taken::Done)
            }
            Action::WaitForIdle if self.busy(self.last) => Ok(Taken::WhenIdle),
            Action::WaitForIdle => Ok(Taken::Done),
            Action::Release { wait: true, .. } if self.busy(self.last) => Ok(Taken::WhenIdle),
            Action::Release { release, .. } => {
                release.write(host.vm(), time(host))?;
                Ok(Taken::Done)
            }
            Action::Acquire(acquire) => {
                if !acquire.passes(host.vm())? {
                    self.acquire = Some(acquire);
                }
                Ok(Taken::Done)
            }
        }
    }

    /// Methods, until one does something.
    fn methods(&mut self, host: &mut dyn Host) -> Result<Step, Cause> {
        if let Some(acquire) = self.acquire {
            if !acquire.passes(host.vm())? {
                return Ok(Step::Waiting);
            }
            self.acquire = None;
        }
        let mut any = false;
        for _ in 0..BURST {
            if self.pending.is_none() {
                if self.segment.is_none() && !self.fetch(host)? {
                    break;
                }
                any = true;
                self.pending = self.read(host)?;
            }
            if let Some(method) = self.pending {
                match self.execute(host, method)? {
                    Taken::Set => {
                        self.pending = None;
                        any = true;
                    }
                    Taken::Done => {
                        self.pending = None;
                        return Ok(Step::Progress);
                    }
                    Taken::WhenIdle | Taken::WhenRoom if any => return Ok(Step::Progress),
                    Taken::WhenIdle | Taken::WhenRoom => return Ok(Step::Waiting),
                }
            }
        }
        Ok(if any { Step::Progress } else { Step::Idle })
    }

    /// What the channel was at, in words.
    fn describe(&self) -> String {
        let before = self.get.checked_sub(1);
        let entry = before.unwrap_or_else(|| self.memory.entries.saturating_sub(1));
        let at = self.memory.gpfifo.wrapping_add(8 * u64::from(entry));
        let mut text = format!("GP entry {entry:#x} at {at:#x}");
        if let Some(segment) = self.segment {
            text.push_str(&format!(
                "\n{} words of its segment left, from {:#x} on",
                segment.words, segment.address
            ));
        }
        if let Some(method) = self.pending {
            text.push_str(&format!(
                "\n{:#x}: subchannel {}, method {:#x} {} = {:#x}",
                method.address,
                method.subchannel,
                method.method,
                self.name(&method),
                method.data
            ));
        }
        text
    }

    fn name(&self, method: &Method) -> &'static str {
        let copies = matches!(self.engine, ChannelEngine::Copy(_)) || method.subchannel == 4;
        let name = if method.method < 0x100 {
            methods::name(method.method)
        } else if copies {
            self.copy.name(method.method)
        } else {
            self.compute.name(method.method)
        };
        name.unwrap_or("(unknown)")
    }

    fn turn(&mut self, host: &mut dyn Host) -> Result<Step, Box<Fault>> {
        let (compute, copy) = (self.compute.busy(), self.copy.busy());
        let busy = compute || copy;
        if !(busy && host.random(2) == 0) {
            let step = self.methods(host).map_err(|cause| {
                Box::new(Fault {
                    cause,
                    packet: self.describe(),
                })
            })?;
            if !busy || matches!(step, Step::Progress) {
                return Ok(step);
            }
        }
        if compute && !(copy && host.random(2) == 0) {
            self.compute.turn(host)?;
        } else {
            self.copy.turn(host)?;
        }
        Ok(Step::Progress)
    }
}

impl Engine for Channel {
    fn step(&mut self, host: &mut dyn Host) -> Step {
        if let Some(fault) = &self.stopped {
            return Step::Fault(fault.clone());
        }
        match self.turn(host) {
            Ok(step) => step,
            Err(fault) => {
                self.stopped = Some(fault.clone());
                Step::Fault(fault)
            }
        }
    }
}

#[cfg(test)]
mod tests;
