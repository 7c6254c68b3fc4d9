//! AMD GPUs: the drivers' encoders over the kernel's queues.
//!
//! Compute queues take PM4 words, or AQL packets for devices opened with `aql`; copy queues take SDMA packets. A
//! submission to a compute queue begins with a memory barrier, so that what hosts and copy engines wrote is seen, and ends
//! with the timeline's signal, which writes caches back and raises the interrupt that sleeping hosts wait for.

mod encode;
mod memory;
mod port;
mod program;
mod rings;
mod scratch;

use std::any::Any;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hcq_amd::chips::{Bases, Chip};
use hcq_amd::device::{Device, Event};
use hcq_amd::sdma;
use hcq_nostd::args::Arg;
use hcq_nostd::fault::{FaultKind, FaultRecord};
use hcq_nostd::mem::SharedWord;
use hcq_nostd::patch::PatchList;
use hcq_nostd::record::{Block, RecordError};
use hcq_nostd::signal::Width;

use self::memory::Table;
use self::port::AmdPort;
use self::program::{Target, own};
use self::rings::Rings;
use crate::backend::{
    AllocateCode, Backend, Code, Command, Memory, Port, Prepared, Purpose, QueueId, QueueKind,
    Relocation,
};
use crate::clock::Told;
use crate::heap::lock;
use crate::info::DeviceInfo;
use crate::kfd::{Gpu, Node, Process};
use crate::seam::System;
use crate::{Error, Options};

/// `GC_HWID`, `SDMA0_HWID` and `NBIF_HWID` of Linux's soc15_hw_ip.h.
const GC: u16 = 11;
const SDMA: u16 = 42;
const NBIF: u16 = 108;

/// Longest sleep of a waiting host before it looks around: old kernels may give its wake-up to another thread, and hosts
/// that set signals raise no interrupt.
const NAP: Duration = Duration::from_millis(5);
/// Time between two looks for faults when nobody sleeps in the kernel.
const LOOK_NS: u64 = 1_000_000;

/// A GPU.
pub(crate) struct Amd {
    info: DeviceInfo,
    gpu: Arc<Gpu>,
    system: Arc<dyn System>,
    target: Target,
    sdma: sdma::Version,
    rings: Arc<Rings>,
    memory: Table,
    spin: Duration,
    /// What times of the GPU's clock are told by.
    clock: Mutex<Option<Told>>,
    last_look: AtomicU64,
    /// What no recovery has ended: a queue's exception, or the fault that a recovery could not end.
    kept: Mutex<Option<FaultRecord>>,
    has_kept: AtomicBool,
}

fn unavailable(name: &str, reason: impl ToString, hint: &str) -> Error {
    Error::Unavailable {
        name: name.into(),
        reason: reason.to_string(),
        hint: hint.into(),
    }
}

/// What encoders need to know of a GPU.
fn describe(gpu: &Gpu) -> Result<Device, Error> {
    let (node, name) = (gpu.node(), gpu.name());
    let chip = Chip::from_kfd(node.gfx_target_version);
    let chip = chip.map_err(|e| unavailable(name, e, "use another GPU, or `cpu`"))?;
    let base = |hwid, segment: usize, usual: u32| {
        let known = node.ip(hwid).and_then(|ip| ip.bases.get(segment));
        known.copied().unwrap_or(usual)
    };
    let bases = Bases {
        gc0: base(GC, 0, chip.bases.gc0),
        nbif2: base(NBIF, 2, chip.bases.nbif2),
    };
    let hint = "the kernel describes it in a way that this version does not know";
    let xccs = u8::try_from(node.xccs).unwrap_or(u8::MAX);
    let device = Device::with_bases(chip, xccs, bases);
    let event = Event::new(gpu.event().mailbox, gpu.event().id);
    let event = event.map_err(|e| unavailable(name, e, hint))?;
    Ok(device
        .map_err(|e| unavailable(name, e, hint))?
        .with_event(event))
}

/// Upper halves of the addresses where waves see group-local and private memory.
fn apertures(gpu: &Gpu) -> (u32, u32) {
    let apertures = gpu.apertures();
    let upper = |base: u64| u32::try_from(base >> 32).unwrap_or(0);
    (upper(apertures.lds_base), upper(apertures.scratch_base))
}

fn facts(node: &Node, device: &Device, aql: bool) -> DeviceInfo {
    let chip = device.chip();
    DeviceInfo {
        name: node.name.clone(),
        target: chip.target.to_string(),
        memory_bytes: node.vram_bytes(),
        visible_memory_bytes: node.visible_bytes(),
        compute_units: node.compute_units(),
        dies: node.xccs,
        wave_size: if chip.wave32 { 32 } else { 64 },
        local_memory_bytes: chip.lds.bytes.into(),
        max_group: Some(hcq_amd::kernel::MAX_GROUP),
        packets: if aql { "AQL" } else { "PM4" },
    }
}

/// A GPU and the host's half of its rings.
type Opened = (Arc<dyn Backend>, Box<dyn Port>);

/// Opens a GPU. Options have been checked.
pub(crate) fn open(
    process: &Arc<Process>,
    ordinal: usize,
    aql: bool,
    options: &Options,
) -> Result<Opened, Error> {
    let gpu = Gpu::open(process, ordinal)?;
    let node = gpu.node();
    let device = describe(&gpu)?;
    let version = node.ip(SDMA).map(|ip| {
        let (major, minor, revision) = ip.version;
        sdma::Version::new(major, minor, revision)
    });
    // An engine whose packets are not known is as good as none.
    let version = version.unwrap_or(device.chip().sdma);
    let copies = node.sdma_engines > 0 && version.max_copy().is_ok();
    let rings = Arc::new(Rings::new(&gpu, &device, aql, copies, options)?);
    let target = Target {
        device,
        apertures: apertures(&gpu),
        aql,
        queues: rings.counts().0,
    };
    let words = encode::PortWords::new(&device, version, copies, rings.probe_address());
    let words = words.map_err(Error::record("memory_barrier"))?;
    let port = AmdPort::new(&rings, words, device.xccs())?;
    // No tick that queues write is older than the first measurement. If the kernel does not tell the time now, it may later.
    let _ = gpu.calibrate();
    let amd = Amd {
        info: facts(node, &device, aql),
        system: Arc::clone(process.system()),
        target,
        sdma: version,
        rings,
        memory: Table::new(&gpu),
        spin: options.spin,
        clock: Mutex::default(),
        last_look: AtomicU64::new(0),
        kept: Mutex::default(),
        has_kept: AtomicBool::new(false),
        gpu: Arc::clone(&gpu),
    };
    Ok((Arc::new(amd), Box::new(port)))
}

impl Amd {
    fn spin_until(&self, ready: impl Fn() -> bool) {
        let end = std::time::Instant::now() + self.spin;
        loop {
            for _ in 0..32 {
                if ready() {
                    return;
                }
                std::hint::spin_loop();
            }
            if std::time::Instant::now() >= end {
                return;
            }
        }
    }

    /// Device address of a queue's `amd_queue_t`, which queues of PM4 words have none of.
    fn descriptor(&self, queue: usize) -> u64 {
        match self.target.aql {
            true => self.rings.descriptor(queue),
            false => 0,
        }
    }

    fn keep(&self, fault: FaultRecord) {
        *lock(&self.kept) = Some(fault);
        self.has_kept.store(true, Ordering::Release);
    }

    fn pass_time(&self, round: u32, limit: Duration, changed: impl Fn() -> bool) -> bool {
        if round == 0 {
            self.spin_until(&changed);
            return changed();
        }
        // Interrupts that come after this end the call at once.
        let seen = self.gpu.seen();
        if !changed() && self.gpu.wait_since(seen, limit.min(NAP)).is_err() {
            // Time is to pass all the same.
            std::thread::sleep(Duration::from_millis(1));
        }
        changed()
    }
}

impl Backend for Amd {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn width(&self) -> Width {
        Width::W32
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

    fn import(&self, memory: &Memory, from: &dyn Backend) -> Result<Memory, Error> {
        let peer = from.as_any().downcast_ref::<Self>();
        self.memory.import(memory, peer.map(|amd| &amd.memory))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn maps_adopted(&self) -> bool {
        true
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
        let loaded = program::Loaded::new(self.target, bytes, allocate)?;
        Ok(Box::new(loaded))
    }

    fn relocatable(
        &self,
        program: &Prepared,
        places: Relocation<'_>,
    ) -> Result<Option<Prepared>, Error> {
        let program = own(program).map_err(Error::record("exec"))?;
        let relocatable = program.relocatable(&self.target, places)?;
        Ok(Some(Arc::new(relocatable)))
    }

    fn private_parts(&self, program: &Prepared) -> Vec<u16> {
        own(program).map_or(Vec::new(), |program| program.parts(&self.target))
    }

    fn private_part(&self, program: &Prepared, queue: QueueId, part: u16) -> Option<u64> {
        let descriptor = self.descriptor(queue.index);
        own(program)
            .ok()?
            .part(&self.target, queue.index, descriptor, part)
    }

    fn target(&self) -> (&'static str, String, u32) {
        // Words for rings of PM4 and of AQL packets, and for one XCC and several, are not the same.
        let abi = 1 + u32::from(self.target.aql) + 2 * u32::from(self.target.device.xccs());
        ("amd", self.info.target.clone(), abi)
    }

    fn ready(&self, program: &Prepared, queue: QueueId, is_idle: bool) -> Result<bool, Error> {
        let program = own(program).map_err(Error::record("exec"))?;
        if program.is_ready(queue.index) {
            return Ok(true);
        }
        let lanes = program.lanes();
        let scratch = match self.rings.scratch.get(queue.index) {
            Some(scratch) if lanes > 0 => scratch,
            _ => {
                let descriptor = self.descriptor(queue.index);
                program.make_ready(&self.target, queue.index, None, descriptor)?;
                return Ok(true);
            }
        };
        let block = match scratch.enough(lanes) {
            Some(block) => block,
            // Packets find scratch memory through the queue's descriptor: it changes when nothing runs.
            None if self.target.aql && !is_idle => return Ok(false),
            None => {
                let block = scratch.grow(&self.gpu, self.target.device.chip(), lanes)?;
                if self.target.aql {
                    self.rings.describe_again(queue.index)?;
                }
                block
            }
        };
        let descriptor = self.descriptor(queue.index);
        program.make_ready(&self.target, queue.index, Some(block), descriptor)?;
        Ok(true)
    }

    fn kernargs(
        &self,
        program: &Prepared,
        _args: &[Arg<'_>],
    ) -> Result<(usize, usize), RecordError> {
        Ok(own(program)?.kernargs())
    }

    fn beside(&self, kind: QueueKind) -> usize {
        match kind {
            QueueKind::Compute if self.target.aql => encode::BESIDE_WORDS * 4,
            _ => 0,
        }
    }

    fn largest_part(&self, kind: QueueKind) -> Option<usize> {
        let plan = self.rings.plans.first()?;
        let words = plan.entries() / 2 * hcq_amd::aql::PACKET_WORDS as u64;
        (kind == QueueKind::Compute && self.target.aql)
            .then(|| usize::try_from(words).unwrap_or(hcq_amd::aql::PACKET_WORDS))
    }

    fn reference_align(&self, kind: QueueKind) -> usize {
        match kind {
            QueueKind::Compute => 1,
            QueueKind::Copy => sdma::indirect::Indirect::ALIGN,
        }
    }

    fn encode<'w>(
        &self,
        queue: QueueId,
        command: &Command<'_>,
        beside: Option<Block<'_, '_>>,
        words: &'w mut [u32],
        list: PatchList<'w>,
    ) -> Result<(usize, PatchList<'w>), RecordError> {
        let device = &self.target.device;
        match queue.kind {
            QueueKind::Copy => encode::sdma(self.sdma, device.event(), command, words, list),
            QueueKind::Compute if self.target.aql => {
                encode::aql(device, queue.index, command, beside, words, list)
            }
            QueueKind::Compute => encode::pm4(device, queue.index, command, beside, words, list),
        }
    }

    fn fault(&self) -> Option<FaultRecord> {
        if let Some(fault) = self.gpu.fault() {
            return Some(fault);
        }
        if self.has_kept.load(Ordering::Acquire) {
            return *lock(&self.kept);
        }
        // Whoever asks again and again without ever sleeping in the kernel learns of it, too.
        let now = self.system.now_ns();
        let last = self.last_look.load(Ordering::Relaxed);
        if now.saturating_sub(last) < LOOK_NS {
            return None;
        }
        self.last_look.store(now, Ordering::Relaxed);
        if let Some(fault) = self.gpu.look_for_fault() {
            return Some(fault);
        }
        let exception = self.rings.exception()?;
        self.keep(exception);
        Some(exception)
    }

    fn recover(&self, _limit: Duration) -> Result<(), Error> {
        // In error until the end, whatever happens.
        let fault = self.fault();
        self.keep(fault.unwrap_or(FaultRecord::new(FaultKind::Hardware, 0, 0)));
        self.rings.destroy();
        self.gpu.clear_fault();
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
            // If the kernel does not tell the time now, what it said before still holds.
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
        self.pass_time(round, limit, || changed() || self.gpu.fault().is_some()) && changed()
    }

    fn relax_room(&self, round: u32, queue: QueueId, get: u64, limit: Duration) -> bool {
        let index = self.rings.flat(queue);
        let changed = || self.rings.consumed(index, get) != get;
        self.pass_time(round, limit, || changed() || self.gpu.fault().is_some()) && changed()
    }
}

impl Drop for Amd {
    fn drop(&mut self) {
        self.rings.destroy();
    }
}
