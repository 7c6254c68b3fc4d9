//! The compute engine of a channel.
//!
//! `SEND_PCAS_A` and `SEND_SIGNALING_PCAS2_B` schedule a grid by the address of its [QMD](super::qmd). From then on it runs on its
//! own: reading its QMD, emptying caches, running its groups, writing its semaphores, scheduling the grids that depend on it.
//!
//! # Order
//!
//! Grids that were scheduled one after the other run at the same time; only `WAIT_FOR_IDLE`, methods that imply it, and a
//! dependency in the QMD keep one from overtaking another. Groups of a grid come in ascending or in descending order, which
//! the seed decides, some each turn.
//!
//! # Memory
//!
//! A group runs on one of two multiprocessors. Each has caches of its own for instructions, constants and data, and a line
//! that was read stays as it is until `INVALIDATE_SHADER_CACHES*` or a QMD drops it: neither the host's stores nor those of other
//! multiprocessors reach it. Stores go through to memory at once.
//!
//! # Limits
//!
//! Queues of QMDs, clusters of groups, inline data and inline QMDs, macros, textures and performance counters are refused. Nothing
//! of a QMD is kept between launches. A membar that is missing does no harm here.

use super::channel::interrupt;
use super::chip::Chip;
use super::host::{Taken, time};
use super::qmd::{self, Grid, Version};
use super::semaphore::{Reduction, Release};
use crate::cache::{Levels, host};
use crate::engine::{Cause, Fault, Host};
use crate::exec::{ConstantBank, Dispatch, Kernel, NvRegisters, Registers, ScratchMemory};

mod launch;
mod methods;

use methods::{Use, offset};

/// Multiprocessors with caches of their own.
pub(super) const SMS: u8 = 2;
/// Grids on their way, of those that methods schedule.
const ROOM: usize = 16;
/// Grids on their way, all of them: "maximum number of resident grids per device" of the CUDA C++ Programming Guide.
const GRIDS: usize = 128;

/// What the methods say of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Memory {
    shared_window: u64,
    local_window: u64,
    /// Address of local memory.
    local: u64,
    /// Bytes of it for each texture processing cluster.
    local_bytes: u64,
}

/// A grid on its way.
struct Job {
    /// Address of its QMD.
    address: u64,
    words: Vec<u32>,
    /// What the QMD says, once it was read.
    grid: Option<Grid>,
    kernel: Option<Box<dyn Kernel>>,
    /// Groups that have run.
    done: u64,
    descending: bool,
    memory: Memory,
}

impl Job {
    fn fault(&self, version: &'static Version, cause: Cause) -> Box<Fault> {
        let mut packet = format!("QMD at {:#x}, {} groups done", self.address, self.done);
        packet.push_str(&qmd::describe(version, &self.words));
        Box::new(Fault { cause, packet })
    }
}

/// A compute engine.
pub(super) struct Compute {
    chip: &'static Chip,
    version: &'static Version,
    /// Place in the tables: Ampere and Ada, Hopper, Blackwell.
    generation: usize,
    registers: Vec<(u16, u32)>,
    jobs: Vec<Job>,
    /// Shared memory of each multiprocessor: what earlier groups have left there.
    shared: [Vec<u8>; SMS as usize],
}

impl std::fmt::Debug for Compute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let jobs = self.jobs.iter().map(|job| job.address);
        f.debug_struct("Compute")
            .field("gpu", &self.chip.gpu)
            .field("jobs", &jobs.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

fn refuse<T>(text: String) -> Result<T, Cause> {
    Err(Cause::Packet(text))
}

impl Compute {
    /// The engine of a chip; `None` if its class is not simulated.
    pub(super) fn new(chip: &'static Chip) -> Option<Self> {
        let (generation, version) = match chip.compute {
            0xC7C0 | 0xC9C0 => (0, &qmd::V03_00),
            0xCBC0 => (1, &qmd::V04_00),
            0xCEC0 => (2, &qmd::V05_00),
            _ => return None,
        };
        Some(Self {
            chip,
            version,
            generation,
            registers: Vec::new(),
            jobs: Vec::new(),
            shared: [const { Vec::new() }; SMS as usize],
        })
    }

    pub(super) fn class(&self) -> u32 {
        self.chip.compute
    }

    /// A method's name.
    pub(super) fn name(&self, method: u16) -> Option<&'static str> {
        methods::find(self.generation, method).map(|(name, ..)| name)
    }

    pub(super) fn busy(&self) -> bool {
        !self.jobs.is_empty()
    }

    fn get(&self, method: u16) -> u32 {
        let found = self.registers.iter().find(|(at, _)| *at == method);
        found.map(|&(_, value)| value).unwrap_or_default()
    }

    fn wide(&self, upper: u16, lower: u16) -> u64 {
        u64::from(self.get(upper)) << 32 | u64::from(self.get(lower))
    }

    /// Takes a method.
    pub(super) fn method(
        &mut self,
        host: &mut dyn Host,
        method: u16,
        data: u32,
    ) -> Result<Taken, Cause> {
        let class = self.class();
        let Some((name, kind, mask)) = methods::find(self.generation, method) else {
            return refuse(format!("class {class:#x} has no method {method:#x}"));
        };
        let reserved = data & !mask;
        if reserved != 0 {
            return refuse(format!(
                "{name} has reserved bits {reserved:#x} in class {class:#x}"
            ));
        }
        match kind {
            Use::Other => return refuse(format!("{name} is not simulated")),
            Use::Nothing => {}
            Use::State => match self.registers.iter_mut().find(|(at, _)| *at == method) {
                Some((_, value)) => *value = data,
                None => self.registers.push((method, data)),
            },
            Use::Acts => return self.act(host, method, data),
        }
        Ok(Taken::Set)
    }

    fn act(&mut self, host: &mut dyn Host, method: u16, data: u32) -> Result<Taken, Cause> {
        let idle = !self.busy();
        match method {
            offset::WAIT_FOR_IDLE | offset::PM_TRIGGER_WFI if idle => Ok(Taken::Done),
            offset::INVALIDATE_SHADER_CACHES_NO_WFI => self.invalidate_method(host, data),
            offset::INVALIDATE_SHADER_CACHES if idle => self.invalidate_method(host, data),
            offset::SEND_SIGNALING_PCAS_B => match data {
                // INVALIDATE, SCHEDULE.
                0 | 1 => Ok(Taken::Done),
                _ => Ok(self.send()),
            },
            offset::SEND_SIGNALING_PCAS2_B => {
                if data & !0xF != 0 {
                    return refuse("SELECT and OFFSET_MINUS_ONE are not simulated".into());
                }
                match data {
                    // NOP, INVALIDATE, PREFETCH: nothing of a QMD is kept.
                    0 | 1 | 8 => Ok(Taken::Done),
                    // SCHEDULE, INVALIDATE_COPY_SCHEDULE, PREFETCH_SCHEDULE, INVALIDATE_PREFETCH_COPY_SCHEDULE.
                    2 | 3 | 9 | 0xA => Ok(self.send()),
                    other => refuse(format!("PCAS_ACTION {other:#x} is not simulated")),
                }
            }
            offset::SET_REPORT_SEMAPHORE_D => self.report_old(host, data),
            offset::REPORT_SEMAPHORE_EXECUTE => self.report(host, data),
            _ => Ok(Taken::WhenIdle),
        }
    }

    /// `INVALIDATE_SHADER_CACHES*`: instructions in bit 0, data in bit 4, constants in bit 12. There are no locks to drop, and
    /// stores are never held back.
    fn invalidate_method(&self, host: &mut dyn Host, data: u32) -> Result<Taken, Cause> {
        let mut levels = Levels::empty();
        levels.set(Levels::INSTRUCTION, data & 1 != 0);
        levels.set(Levels::VECTOR, data & 1 << 4 != 0);
        levels.set(Levels::SCALAR, data & 1 << 12 != 0);
        invalidate(host, levels)?;
        Ok(Taken::Done)
    }

    fn send(&mut self) -> Taken {
        if self.jobs.len() >= ROOM {
            return Taken::WhenRoom;
        }
        self.schedule(u64::from(self.get(offset::SEND_PCAS_A)) << 8);
        Taken::Done
    }

    fn schedule(&mut self, address: u64) {
        let memory = Memory {
            shared_window: self.wide(
                offset::SET_SHADER_SHARED_MEMORY_WINDOW_A,
                offset::SET_SHADER_SHARED_MEMORY_WINDOW_B,
            ),
            local_window: self.wide(
                offset::SET_SHADER_LOCAL_MEMORY_WINDOW_A,
                offset::SET_SHADER_LOCAL_MEMORY_WINDOW_B,
            ),
            local: self.wide(
                offset::SET_SHADER_LOCAL_MEMORY_A,
                offset::SET_SHADER_LOCAL_MEMORY_B,
            ),
            local_bytes: self.wide(
                offset::SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A,
                offset::SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_B,
            ),
        };
        self.jobs.push(Job {
            address,
            words: Vec::new(),
            grid: None,
            kernel: None,
            done: 0,
            descending: false,
            memory,
        });
    }

    /// `SET_REPORT_SEMAPHORE_D`.
    fn report_old(&self, host: &mut dyn Host, data: u32) -> Result<Taken, Cause> {
        let bit = |at: u32| data >> at & 1 != 0;
        if data & 3 != 0 || bit(19) {
            return refuse("SET_REPORT_SEMAPHORE_D: traps are not simulated".into());
        }
        let release = Release {
            address: self.wide(
                offset::SET_REPORT_SEMAPHORE_A,
                offset::SET_REPORT_SEMAPHORE_B,
            ),
            payload: self.get(offset::SET_REPORT_SEMAPHORE_C).into(),
            wide: false,
            timestamp: !bit(28),
            reduction: reduction(bit(3), data >> 9 & 7, data >> 17 & 3)?,
        };
        self.write(host, &release, bit(2), bit(20))
    }

    /// `REPORT_SEMAPHORE_EXECUTE`.
    fn report(&self, host: &mut dyn Host, data: u32) -> Result<Taken, Cause> {
        let bit = |at: u32| data >> at & 1 != 0;
        if data & 3 != 0 || data >> 13 & 3 != 0 {
            return refuse(
                "REPORT_SEMAPHORE_EXECUTE: nothing but OPERATION_RELEASE is simulated".into(),
            );
        }
        let wide = bit(12);
        // FOUR_WORDS, ONE_WORD, TWO_WORDS.
        let timestamp = match (data >> 3 & 3, wide) {
            (0, _) => true,
            (1, false) | (2, true) => false,
            (size, _) => {
                return refuse(format!(
                    "STRUCTURE_SIZE {size} with PAYLOAD_SIZE64 {}",
                    u32::from(wide)
                ));
            }
        };
        let release = Release {
            address: self.wide(
                offset::SET_REPORT_SEMAPHORE_ADDRESS_UPPER,
                offset::SET_REPORT_SEMAPHORE_ADDRESS_LOWER,
            ),
            payload: self.wide(
                offset::SET_REPORT_SEMAPHORE_PAYLOAD_UPPER,
                offset::SET_REPORT_SEMAPHORE_PAYLOAD_LOWER,
            ),
            wide,
            timestamp,
            reduction: reduction(bit(6), data >> 7 & 7, data >> 10 & 3)?,
        };
        self.write(host, &release, bit(5), bit(2))
    }

    /// Writes a report semaphore; after everything before it unless `FLUSH_DISABLE` says otherwise.
    fn write(
        &self,
        host: &mut dyn Host,
        release: &Release,
        at_once: bool,
        awaken: bool,
    ) -> Result<Taken, Cause> {
        release.check()?;
        if self.busy() && !at_once {
            return Ok(Taken::WhenIdle);
        }
        release.write(host.vm(), time(host))?;
        if awaken {
            host.interrupt(interrupt::CHANNEL);
        }
        Ok(Taken::Done)
    }

    /// Brings one of the grids on.
    pub(super) fn turn(&mut self, host: &mut dyn Host) -> Result<(), Box<Fault>> {
        let count = u32::try_from(self.jobs.len()).unwrap_or(u32::MAX);
        if count == 0 {
            return Ok(());
        }
        let at = host.random(count) as usize;
        let (chip, version) = (self.chip, self.version);
        let Some(job) = self.jobs.get_mut(at) else {
            return Ok(());
        };
        let ended = if job.grid.is_none() {
            begin(chip, version, host, job).map(|()| false)
        } else {
            groups(host, job, &mut self.shared)
        };
        match ended {
            Err(cause) => {
                // The QMD is read by the engine itself, all that comes after it by SMs.
                if matches!(cause, Cause::Memory(_)) && !job.words.is_empty() {
                    host.interrupt(interrupt::PROGRAM);
                }
                Err(job.fault(version, cause))
            }
            Ok(false) => Ok(()),
            Ok(true) => {
                let job = self.jobs.swap_remove(at);
                let Some(grid) = &job.grid else {
                    return Ok(());
                };
                for release in &grid.releases {
                    let written = release.write(host.vm(), time(host));
                    written.map_err(|cause| job.fault(version, cause))?;
                }
                for &dependent in &grid.dependents {
                    if self.jobs.len() >= GRIDS {
                        let cause = Cause::Launch(format!(
                            "more than {GRIDS} grids are on their way: each depends on others twice"
                        ));
                        return Err(job.fault(version, cause));
                    }
                    self.schedule(dependent);
                }
                Ok(())
            }
        }
    }
}

fn reduction(enable: bool, op: u32, format: u32) -> Result<Option<(Reduction, bool)>, Cause> {
    if !enable {
        return Ok(None);
    }
    match (Reduction::of_compute(op), format) {
        (Some(op), 0 | 1) => Ok(Some((op, format == 1))),
        _ => refuse(format!("REDUCTION_FORMAT {format}")),
    }
}

fn invalidate(host: &mut dyn Host, levels: Levels) -> Result<(), Cause> {
    let parts = host.parts();
    for sm in 0..SMS {
        parts.caches.invalidate(sm, levels, parts.vm)?;
    }
    Ok(())
}

/// Reads a QMD and makes its grid ready.
fn begin(
    chip: &'static Chip,
    version: &'static Version,
    host: &mut dyn Host,
    job: &mut Job,
) -> Result<(), Cause> {
    let mut bytes = [0; 4 * qmd::MAX_WORDS];
    let bytes = bytes.get_mut(..4 * version.words).unwrap_or_default();
    host::read(host.vm(), job.address, bytes)?;
    let (words, _) = bytes.as_chunks();
    job.words = words.iter().map(|&word| u32::from_le_bytes(word)).collect();
    let grid = Grid::read(version, &job.words)?;
    let groups: u128 = grid.groups.iter().map(|&n| u128::from(n)).product();
    if grid.null || groups == 0 {
        // There is nothing to run.
        job.grid = Some(Grid { null: true, ..grid });
        return Ok(());
    }
    launch::check(chip, &grid, &job.memory)?;
    let mut levels = Levels::empty();
    levels.set(Levels::INSTRUCTION, grid.invalidate.instruction);
    levels.set(Levels::VECTOR, grid.invalidate.data);
    levels.set(Levels::SCALAR, grid.invalidate.constant);
    invalidate(host, levels)?;
    let sm = host.random(SMS.into()) as u8;
    job.descending = !grid.in_order && host.random(2) != 0;
    let parts = host.parts();
    for bank in grid.banks.iter().flatten().filter(|bank| bank.invalidate) {
        for sm in 0..SMS {
            let len = bank.bytes.into();
            let caches = &mut *parts.caches;
            caches.invalidate_range(sm, Levels::SCALAR, bank.address, len);
        }
    }
    let dispatch = dispatch(chip, &grid, &job.memory);
    let mut view = parts.caches.view(sm, parts.vm);
    let Some(kernel) = parts.executor.prepare(&dispatch, &mut *view)? else {
        return Err(Cause::Launch(format!(
            "nobody here can run the {} program at {:#x}",
            chip.target, grid.program
        )));
    };
    job.kernel = Some(kernel);
    job.grid = Some(grid);
    Ok(())
}

/// What the executor is told.
fn dispatch(chip: &'static Chip, grid: &Grid, memory: &Memory) -> Dispatch {
    let [low, high] = grid.local;
    let wave_bytes = launch::warp_local(grid);
    let scratch = (wave_bytes > 0).then_some(ScratchMemory {
        base: memory.local,
        wave_bytes,
        waves: chip.sms * chip.warps_per_sm,
    });
    Dispatch {
        target: chip.target,
        program: grid.program,
        groups: grid.groups,
        start: [0; 3],
        local: grid.items,
        wave: launch::WARP,
        local_memory: grid.shared.saturating_sub(launch::SYSTEM_SHARED),
        scratch,
        xcc: (0, 1),
        registers: Registers::Nv(NvRegisters {
            banks: grid.banks.map(|bank| {
                bank.map(|bank| ConstantBank {
                    address: bank.address,
                    bytes: bank.bytes,
                })
            }),
            registers: grid.registers,
            barriers: grid.barriers,
            thread_bytes: low + high,
            thread_memory: (memory.local != 0).then(|| {
                let clusters = u64::from(chip.gpcs * chip.tpcs_per_gpc);
                (memory.local, memory.local_bytes.saturating_mul(clusters))
            }),
            sass_version: grid.sass.unwrap_or_default(),
        }),
    }
}

/// Runs some groups; `true` if they were the last.
fn groups(
    host: &mut dyn Host,
    job: &mut Job,
    shared: &mut [Vec<u8>; SMS as usize],
) -> Result<bool, Cause> {
    let (Some(grid), Some(kernel)) = (&job.grid, &mut job.kernel) else {
        return Ok(true);
    };
    let [width, height, depth] = grid.groups.map(u64::from);
    let total = width.saturating_mul(height).saturating_mul(depth);
    // Large grids are not seen to end any more often than small ones.
    let most = u32::try_from(total / 16)
        .unwrap_or(u32::MAX)
        .clamp(1, 1 << 16);
    let count = 1 + u64::from(host.random(most));
    let sm = host.random(SMS.into()) as u8;
    let Some(local) = shared.get_mut(usize::from(sm)) else {
        return Ok(true);
    };
    let bytes = grid.shared.saturating_sub(launch::SYSTEM_SHARED) as usize;
    if local.len() < bytes {
        local.resize(bytes, 0);
    }
    let local = local.get_mut(..bytes).unwrap_or_default();
    let parts = host.parts();
    let mut view = parts.caches.view(sm, parts.vm);
    for _ in 0..count.min(total.saturating_sub(job.done)) {
        let number = if job.descending {
            total.saturating_sub(1).saturating_sub(job.done)
        } else {
            job.done
        };
        let rows = number.checked_div(width).unwrap_or(0);
        let group = [
            number.checked_rem(width).unwrap_or(0) as u32,
            rows.checked_rem(height).unwrap_or(0) as u32,
            rows.checked_div(height).unwrap_or(0) as u32,
        ];
        kernel.run_group(group, local, &mut *view)?;
        job.done = job.done.saturating_add(1);
    }
    Ok(job.done >= total)
}

#[cfg(test)]
pub(super) mod tests;
