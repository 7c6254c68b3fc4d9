//! NVIDIA GPUs through NVIDIA's kernel driver: the resource manager and unified memory.
//!
//! From the bottom: the calls ([`call`]); a client and its objects ([`root`]); the driver's files and its GPUs ([`process`],
//! [`gpu`]), and how they wake hosts ([`event`]); memory and channels ([`memory`], [`channel`]). On them the device: memory by purpose ([`table`]), the channels
//! and what goes with them ([`rings`]), the host's half of them ([`port`]), words ([`encode`]), kernels ([`program`]).
//!
//! Compute queues and copy queues are channels of one group, which run side by side. Host and GPU meet in host memory that
//! is registered with the driver; device memory is for data and programs, where the host sees all of it.

mod advice;
mod call;
mod channel;
mod encode;
mod event;
mod fault;
mod gpu;
mod list;
mod memory;
mod port;
mod process;
mod program;
mod rings;
mod root;
mod space;
mod table;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;

use std::any::Any;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hcq_nostd::args::Arg;
use hcq_nostd::fault::{FaultKind, FaultRecord};
use hcq_nostd::mem::SharedWord;
use hcq_nostd::patch::PatchList;
use hcq_nostd::record::{Block, RecordError};
use hcq_nostd::signal::Width;
use hcq_nv::device::Device;
use hcq_nv::kernel::MAX_GROUP;

pub(crate) use self::list::candidates;
pub(crate) use self::process::Process;

use self::gpu::{Facts, Gpu};
use self::port::NvPort;
use self::program::own;
use self::rings::Rings;
use self::table::Table;
use crate::backend::{
    AllocateCode, Backend, Code, Command, Descriptors, Memory, Port, Prepared, Purpose, QueueId,
    QueueKind, Relocation,
};
use crate::clock::Told;
use crate::heap::lock;
use crate::info::DeviceInfo;
use crate::seam::System;
use crate::{Error, Options};

/// Sleeps of a waiting host, from the first to the longest. Interrupts end them; what comes without one, as what hosts and
/// other GPUs store, is late by at most as long as it was waited for.
const SHORT_SLEEP: Duration = Duration::from_millis(1);
const LONG_SLEEP: Duration = Duration::from_millis(5);
/// The same where no event wakes anybody.
const SHORT_NAP: Duration = Duration::from_micros(20);
const LONG_NAP: Duration = Duration::from_millis(1);
/// What images call the number of bytes that a thread has for itself.
const LOCAL_BYTES: u16 = 0;
/// Time between two looks for faults when nobody waits.
const LOOK_NS: u64 = 100_000;

/// A GPU.
pub(crate) struct Nv {
    info: DeviceInfo,
    device: Device,
    rings: Arc<Rings>,
    memory: Table,
    gpu: Arc<Gpu>,
    system: Arc<dyn System>,
    spin: Duration,
    /// What times of the GPU's clock are told by.
    clock: Mutex<Option<Told>>,
    last_look: AtomicU64,
    /// The fault that no recovery has ended.
    kept: Mutex<Option<FaultRecord>>,
    has_kept: AtomicBool,
    /// Keeps the GPU open; dropped last.
    _process: Arc<Process>,
}

fn describe(facts: &Facts) -> DeviceInfo {
    let chip = facts.chip;
    let visible = facts.window_bytes.min(facts.memory_bytes);
    DeviceInfo {
        name: facts.name.clone(),
        target: format!("sm_{}", chip.sm),
        memory_bytes: facts.memory_bytes,
        visible_memory_bytes: visible,
        compute_units: facts.sms(),
        dies: 1,
        wave_size: 32,
        local_memory_bytes: u64::from(chip.shared.max_bytes() - chip.shared.reserved),
        max_group: Some(MAX_GROUP),
        packets: "QMD",
    }
}

/// A GPU and the host's half of its rings.
type Opened = (Arc<dyn Backend>, Box<dyn Port>);

/// Opens a GPU. Options have been checked.
pub(crate) fn open(
    process: &Arc<Process>,
    ordinal: usize,
    options: &Options,
) -> Result<Opened, Error> {
    let gpu = process.gpu(ordinal)?;
    let device = Device::new(gpu.facts().chip).with_sm_version(gpu.facts().sm_version);
    let rings = Arc::new(Rings::new(&gpu, &device, options)?);
    let port = NvPort::new(&rings, &device)?;
    // No tick that queues write is older than the first measurement. If the driver does not tell the time now, it may later.
    let _ = gpu.calibrate();
    let nv = Nv {
        info: describe(gpu.facts()),
        device,
        rings,
        memory: Table::new(process, &gpu),
        system: Arc::clone(&gpu.root().system),
        gpu,
        spin: options.spin,
        clock: Mutex::default(),
        last_look: AtomicU64::new(0),
        kept: Mutex::default(),
        has_kept: AtomicBool::new(false),
        _process: Arc::clone(process),
    };
    Ok((Arc::new(nv), Box::new(port)))
}

/// Looks again and again for so long; whether it is ready.
fn spin(limit: Duration, ready: impl Fn() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        for _ in 0..32 {
            if ready() {
                return true;
            }
            std::hint::spin_loop();
        }
        if Instant::now() >= end {
            return false;
        }
    }
}

impl Nv {
    fn keep(&self, fault: FaultRecord) {
        *lock(&self.kept) = Some(fault);
        self.has_kept.store(true, Ordering::Release);
    }

    fn pass_time(&self, round: u32, limit: Duration, changed: impl Fn() -> bool) -> bool {
        if round == 0 {
            spin(self.spin, &changed);
        } else if !changed() && !self.sleep(round, limit, &changed) {
            let nap = SHORT_NAP.saturating_mul(1 << round.min(8)).min(LONG_NAP);
            std::thread::sleep(nap.min(limit));
        }
        changed()
    }

    /// Sleeps until an event; `false` if there is none to sleep on.
    fn sleep(&self, round: u32, limit: Duration, changed: impl Fn() -> bool) -> bool {
        let Some(events) = self.gpu.events() else {
            return false;
        };
        let sleep = SHORT_SLEEP
            .saturating_mul(1 << (round - 1).min(3))
            .min(LONG_SLEEP);
        let start = Instant::now();
        let Ok(came) = events.sleep(sleep.min(limit), &changed) else {
            return false;
        };
        if came {
            // It may have been an error: the next look is not too soon.
            self.last_look.store(0, Ordering::Relaxed);
        }
        if came && round > 2 && !changed() && start.elapsed() < SHORT_NAP {
            // Not one from before the wait, which nobody has taken back. A file that is always readable does not keep a
            // processor busy.
            std::thread::sleep(SHORT_NAP);
        }
        true
    }
}

impl Backend for Nv {
    fn target(&self) -> (&'static str, String, u32) {
        // What launch descriptors say of the instruction set is the machine's driver's word.
        let abi = 0x100 + u32::from(self.device.sass_version());
        ("nv", self.info.target.clone(), abi)
    }

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn width(&self) -> Width {
        // GA100's copy engines write 32 bits.
        match self.device.chip().copy.payload64 {
            true => Width::W64,
            false => Width::W32,
        }
    }

    fn queue_counts(&self) -> (usize, usize) {
        self.rings.counts()
    }

    fn allocate(&self, bytes: usize, purpose: Purpose) -> Result<Memory, Error> {
        self.memory.allocate(bytes, purpose)
    }

    fn adopt(&self, cpu: NonNull<u8>, bytes: usize, writable: bool) -> Result<Memory, Error> {
        self.memory.adopt(cpu, bytes, writable)
    }

    fn maps_adopted(&self) -> bool {
        true
    }

    fn import(&self, memory: &Memory, from: &dyn Backend) -> Result<Memory, Error> {
        let peer = from.as_any().downcast_ref::<Self>();
        self.memory.import(memory, peer.map(|nv| &nv.memory))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn hide(&self, memory: &Memory) {
        self.memory.hide(memory);
    }

    fn release(&self, memory: Memory) {
        self.memory.release(&memory);
    }

    fn takes_code(&self) -> bool {
        true
    }

    fn load(&self, bytes: &[u8], allocate: AllocateCode<'_>) -> Result<Box<dyn Code>, Error> {
        let loaded = program::Loaded::new(self.device, bytes, allocate)?;
        Ok(Box::new(loaded))
    }

    fn relocatable(
        &self,
        program: &Prepared,
        places: Relocation<'_>,
    ) -> Result<Option<Prepared>, Error> {
        let program = own(program).map_err(Error::record("exec"))?;
        let relocatable = program.relocatable(&self.device, places.code)?;
        Ok(Some(Arc::new(relocatable)))
    }

    fn private_parts(&self, program: &Prepared) -> Vec<u16> {
        match own(program) {
            // A channel is told where local memory is. Launches name none of it, and have to have it.
            Ok(program) if program.thread_bytes() > 0 => vec![LOCAL_BYTES],
            _ => Vec::new(),
        }
    }

    fn private_part(&self, program: &Prepared, queue: QueueId, part: u16) -> Option<u64> {
        let bytes = own(program).ok()?.thread_bytes();
        let is_ready = part == LOCAL_BYTES && self.rings.has_local(queue.index, bytes);
        is_ready.then_some(bytes.into())
    }

    fn ready(&self, program: &Prepared, queue: QueueId, is_idle: bool) -> Result<bool, Error> {
        let program = own(program).map_err(Error::record("exec"))?;
        let thread_bytes = program.thread_bytes();
        if self.rings.has_local(queue.index, thread_bytes) {
            return Ok(true);
        }
        self.rings.grow_local(queue.index, thread_bytes, is_idle)
    }

    fn kernargs(
        &self,
        program: &Prepared,
        _args: &[Arg<'_>],
    ) -> Result<(usize, usize), RecordError> {
        Ok(own(program)?.kernargs())
    }

    fn descriptor(&self) -> usize {
        self.device.chip().qmd.bytes()
    }

    fn encode<'w>(
        &self,
        queue: QueueId,
        command: &Command<'_>,
        _: Option<Block<'_, '_>>,
        words: &'w mut [u32],
        list: PatchList<'w>,
    ) -> Result<(usize, PatchList<'w>), RecordError> {
        match queue.kind {
            QueueKind::Compute => encode::compute(&self.device, command, words, list),
            QueueKind::Copy => encode::copy(&self.device, command, words, list),
        }
    }

    fn encode_behind<'w>(
        &self,
        queue: QueueId,
        command: &Command<'_>,
        beside: Option<Block<'_, '_>>,
        descriptors: Descriptors<'_>,
        words: &'w mut [u32],
        list: PatchList<'w>,
    ) -> Result<(usize, PatchList<'w>), RecordError> {
        let device = &self.device;
        match queue.kind {
            QueueKind::Compute => {
                encode::compute_behind(device, command, beside, descriptors, words, list)
            }
            QueueKind::Copy => encode::copy(device, command, words, list),
        }
    }

    fn fault(&self) -> Option<FaultRecord> {
        if self.has_kept.load(Ordering::Acquire) {
            return *lock(&self.kept);
        }
        let now = self.system.now_ns();
        let last = self.last_look.load(Ordering::Relaxed);
        if now.saturating_sub(last) < LOOK_NS {
            return None;
        }
        self.last_look.store(now, Ordering::Relaxed);
        // Under the lock: a channel says only once what it knows.
        let mut kept = lock(&self.kept);
        if kept.is_none() {
            *kept = Some(self.rings.fault()?);
            self.has_kept.store(true, Ordering::Release);
        }
        *kept
    }

    fn recover(&self, _limit: Duration) -> Result<(), Error> {
        // In error until the end, whatever happens.
        let fault = self.fault();
        self.keep(fault.unwrap_or(FaultRecord::new(FaultKind::Hardware, 0, 0)));
        self.rings.destroy();
        self.rings.create_again()
    }

    fn recovered(&self) {
        *lock(&self.kept) = None;
        self.has_kept.store(false, Ordering::Release);
    }

    fn stop(&self, _limit: Duration) -> bool {
        self.rings.destroy();
        true
    }

    fn now_ns(&self) -> u64 {
        self.system.now_ns()
    }

    fn timestamp_ns(&self, raw: u64) -> u64 {
        let mut clock = lock(&self.clock);
        if clock.is_none_or(|told| !told.covers(raw)) {
            // If the driver does not tell the time now, what it said before still holds.
            if let Ok(line) = self.gpu.calibrate() {
                *clock = Some(clock.map_or(Told::new(line), |told| told.next(line)));
            }
        }
        clock.map_or(0, |told| told.system_ns(raw))
    }

    fn clock_error_ns(&self) -> u64 {
        self.gpu.clock_error_ns()
    }

    fn relax(&self, round: u32, words: &[(SharedWord<'_>, u64)], limit: Duration) -> bool {
        let changed = || words.iter().any(|(word, seen)| word.load() != *seen);
        self.pass_time(round, limit, changed)
    }

    fn relax_room(&self, round: u32, queue: QueueId, get: u64, limit: Duration) -> bool {
        let index = self.rings.flat(queue);
        let changed = || self.rings.consumed(index, get) != get;
        // The count comes behind the interrupt of the submission that it counts.
        self.pass_time(round, limit, changed) || spin(SHORT_NAP, changed)
    }
}

impl Drop for Nv {
    fn drop(&mut self) {
        self.rings.destroy();
    }
}
