//! Adreno GPUs: the driver's encoder over a kernel driver's context.
//!
//! There is one compute queue, which is a context of the kernel's. A submission to it begins with a memory barrier, so that
//! what hosts and copy queues wrote is seen, and ends with the timeline's signal, which writes the cache back. Copy queues
//! are threads of the host: see [`copies`].

mod bundle;
mod clock;
mod copies;
pub(crate) mod driver;
mod encode;
pub(crate) mod feed;
mod images;
mod list;
mod memory;
mod port;
mod program;

use std::any::Any;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use hcq_nostd::args::Arg;
use hcq_nostd::fault::{FaultKind, FaultRecord};
use hcq_nostd::mem::{Region, SharedWord, SharedWords};
use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::{SignalAt, WriteWidth};
use hcq_nostd::record::{Block as Beside, RecordError};
use hcq_nostd::signal::Width;
use hcq_nostd::value::Var;
use hcq_qcom::chips::{Chip, ChipId, MAX_GROUP};
use hcq_qcom::device::Device;
use hcq_qcom::image::BorderColor;

use self::clock::Clock;
use self::copies::Copies;
use self::driver::{Block, Caching, Context, Driver};
pub(crate) use self::list::candidate;
use self::memory::Table;
use self::port::{PortWords, QcomPort, WAKE_UP};
use self::program::{Target, own};
use crate::backend::{
    AllocateCode, Backend, Code, Command, Descriptors, Images, Memory, Port, Prepared, Purpose,
    QueueId, QueueKind, Relocation,
};
use crate::heap::lock;
use crate::info::DeviceInfo;
use crate::kgsl;
use crate::msm;
use crate::seam::{Errno, System};
use crate::{Error, Options};

/// Longest sleep of a waiting host before it looks around: hosts that set signals wake nobody in the kernel.
const NAP: Duration = Duration::from_millis(5);
/// Time between two looks for faults when nobody sleeps in the kernel.
const LOOK_NS: u64 = 1_000_000;

/// Bytes of the page that the device keeps for itself: the word that cache flushes write, what queues are tried with, and
/// border colours.
const OWN_BYTES: usize = 4096;
/// What images call the address of private memory.
const PRIVATE: u16 = 0;
const PROBE_AT: usize = 64;
const BORDERS_AT: usize = 1024;
/// 1 while no submission runs, or has failed, on a driver that [runs on](Driver::runs_on).
const CHAIN_AT: usize = 128;

/// Bytes of command memory for each of [`Options::ring_packets`].
const ENTRY_BYTES: usize = 64;

/// Calls `ready` again and again for the time of a spin.
fn spin_until(time: Duration, ready: impl Fn() -> bool) {
    let end = Instant::now() + time;
    loop {
        for _ in 0..32 {
            if ready() {
                return;
            }
            std::hint::spin_loop();
        }
        if Instant::now() >= end {
            return;
        }
    }
}

/// The context that there is now, and what submissions to it need.
#[derive(Debug)]
struct Lane {
    driver: Arc<dyn Driver>,
    table: Arc<Table>,
    fast: bool,
    context: RwLock<Arc<dyn Context>>,
}

impl Lane {
    fn context(&self) -> Arc<dyn Context> {
        let context = self.context.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&context)
    }

    fn system(&self) -> &Arc<dyn System> {
        self.driver.system()
    }

    fn flush(&self) -> Result<(), Errno> {
        self.table.flush()
    }

    /// A new context in the place of the old one, of which nothing runs any more.
    fn renew(&self) -> Result<(), Error> {
        self.context().end();
        let new = self.driver.context(self.fast)?;
        *self.context.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }
}

/// The page that the device keeps for itself.
#[derive(Debug)]
struct Places {
    words: SharedWords<'static>,
    /// Dropped after the words.
    block: Box<dyn Block>,
}

impl Places {
    #[allow(unsafe_code, reason = "makes a region of memory that it allocated")]
    fn new(driver: &dyn Driver) -> Result<Self, Error> {
        let block = driver.allocate(OWN_BYTES, Caching::Uncached)?;
        // SAFETY: mapped while the block lives, which is dropped after the words (M1). Before the GPU knows the page the
        // border colours are stored; from then on all access is atomic (M2).
        let mut region = unsafe { Region::new(block.cpu(), OWN_BYTES, block.address()) };
        let broken = |_| Error::Internal("a page is smaller than a page");
        let mut at = BORDERS_AT;
        for color in BorderColor::ALL {
            let entry = color.entry();
            region.write_words(at, &entry).map_err(broken)?;
            at += entry.len() * 4;
        }
        let words = SharedWords::new(region).map_err(broken)?;
        Ok(Self { words, block })
    }

    fn device(&self, chip: &'static Chip) -> Result<Device, Error> {
        let base = self.block.address();
        Device::new(chip, base, base + BORDERS_AT as u64)
            .map_err(|_| Error::Internal("a page is not where a GPU can have one"))
    }
}

/// The same GPU for words that are stored, whose page of its own is where this variable says.
fn at_variable(device: &Device, own: Var) -> Device {
    device.based_on(own, 0, BORDERS_AT as u64)
}

/// The words that a port adds to those it is given. With a chain a submission begins when the one before it is done, and never
/// if that one failed: it hangs as well then.
fn port_words(device: &Device, probe: u64, chain: Option<u64>) -> Result<PortWords, RecordError> {
    let mut words = [0; 256];
    let mut made = |command: Command<'_>| {
        let (n, _) = encode::compute(device, &command, None, &mut words, PatchList::none())?;
        Ok::<Box<[u32]>, RecordError>(words.get(..n).unwrap_or_default().into())
    };
    let at = |address: u64| SignalAt {
        address: address.into(),
        notify: false,
    };
    let time = made(Command::Timestamp(at(probe)))?;
    let word = made(Command::Write(probe.into(), 1u64.into(), WriteWidth::W32))?;
    let (mut before, mut after) = (made(Command::Barrier)?, Box::default());
    if let Some(chain) = chain {
        // Waits have a barrier behind them.
        let wait = made(Command::Wait(at(chain), 1u64.into()))?;
        let taken = made(Command::Write(chain.into(), 0u64.into(), WriteWidth::W32))?;
        before = [wait, taken].concat().into();
        after = made(Command::Signal(at(chain), 1u64.into()))?;
    }
    Ok(PortWords {
        before,
        after,
        probe: [time, word].concat().into(),
    })
}

/// A GPU.
pub(crate) struct Qcom {
    info: DeviceInfo,
    lane: Arc<Lane>,
    device: Device,
    target: Arc<Target>,
    table: Arc<Table>,
    copies: Copies,
    clock: Clock,
    spin: Duration,
    last_look: AtomicU64,
    /// What no recovery has ended.
    kept: Mutex<Option<FaultRecord>>,
    has_kept: AtomicBool,
}

/// A GPU and the host's half of its queues.
type Opened = (Arc<dyn Backend>, Box<dyn Port>);

/// Opens the GPU. Options have been checked.
pub(crate) fn open(
    ordinal: usize,
    fast: bool,
    only_msm: bool,
    options: &Options,
) -> Result<Opened, Error> {
    if ordinal != 0 {
        return Err(Error::Unavailable {
            name: format!("qcom:{ordinal}"),
            reason: "a board has one GPU".into(),
            hint: "use `qcom`".into(),
        });
    }
    let system = &options.system;
    let found = if only_msm {
        None
    } else {
        kgsl::Device::find(system)?
    };
    let driver: Arc<dyn Driver> = match found {
        Some(kgsl) => Arc::new(kgsl),
        None if only_msm || msm::is_there(&**system) => Arc::new(msm::Device::open(system)?),
        None => Arc::new(kgsl::Device::open(system)?),
    };
    open_on(&driver, fast, options)
}

fn facts(driver: &dyn Driver, chip: &Chip) -> DeviceInfo {
    let facts = driver.facts();
    DeviceInfo {
        name: facts.name.clone().unwrap_or_else(|| chip.to_string()),
        target: format!("a{}", chip.number),
        memory_bytes: 0,
        visible_memory_bytes: 0,
        compute_units: chip.cores.into(),
        dies: 1,
        wave_size: 64,
        local_memory_bytes: chip.shared_bytes.into(),
        max_group: Some(MAX_GROUP),
        packets: "PM4 of Adreno",
    }
}

fn open_on(driver: &Arc<dyn Driver>, fast: bool, options: &Options) -> Result<Opened, Error> {
    let id = ChipId(driver.facts().chip);
    let chip = Chip::find(id).map_err(|refusal| Error::Unavailable {
        name: "qcom".into(),
        reason: refusal.to_string(),
        hint: format!("the chips that there are: {}; use `cpu`", kgsl::known()),
    })?;
    let places = Places::new(&**driver)?;
    let device = places.device(chip)?;
    let probe = places.block.address() + PROBE_AT as u64;
    let chain = driver.runs_on().then(|| places.start_chain()).transpose()?;
    let words = port_words(&device, probe, chain).map_err(Error::record("memory_barrier"))?;
    let target = Arc::new(Target::new(driver, device)?);
    let table = Arc::new(Table::new(driver));
    let bytes = options.ring_packets.saturating_mul(ENTRY_BYTES).max(4096);
    let arena = driver.allocate(bytes, Caching::Gathered)?;
    let lane = Arc::new(Lane {
        driver: Arc::clone(driver),
        table: Arc::clone(&table),
        fast,
        context: RwLock::new(driver.context(fast)?),
    });
    let copies = Copies::new(
        driver.system(),
        &table,
        options.copy_queues,
        options.ring_packets,
        options.spin,
    )?;
    let mut port = QcomPort::new(&lane, arena, words, places, copies.rings()?);
    let silent = || Error::Unavailable {
        name: "qcom".into(),
        reason: format!("the GPU did nothing for {} ms", WAKE_UP.as_millis()),
        hint: format!(
            "its firmware may be missing, or it hangs (dmesg | grep {})",
            driver.calls().driver
        ),
    };
    // The first one wakes it up; the second one says what time it is.
    port.probe(WAKE_UP)?.ok_or_else(silent)?;
    let measured = port.probe(WAKE_UP)?.ok_or_else(silent)?;
    let qcom = Qcom {
        info: facts(&**driver, chip),
        clock: Clock::new(driver, measured),
        lane,
        device,
        target,
        table,
        copies,
        spin: options.spin,
        last_look: AtomicU64::new(0),
        kept: Mutex::default(),
        has_kept: AtomicBool::new(false),
    };
    Ok((Arc::new(qcom), Box::new(port)))
}

impl Qcom {
    fn keep(&self, fault: FaultRecord) {
        *lock(&self.kept) = Some(fault);
        self.has_kept.store(true, Ordering::Release);
    }

    /// A fault as known without asking.
    fn known_fault(&self) -> Option<FaultRecord> {
        if self.has_kept.load(Ordering::Acquire) {
            return *lock(&self.kept);
        }
        if let Some(fault) = self.copies.fault() {
            return Some(fault);
        }
        let fault = self.lane.context().fault()?;
        self.copies.fail(fault);
        Some(fault)
    }

    fn pass_time(&self, round: u32, limit: Duration, changed: impl Fn() -> bool) -> bool {
        let ready = || changed() || self.known_fault().is_some();
        if round == 0 {
            spin_until(self.spin, ready);
            return changed();
        }
        let nap = limit.min(NAP);
        let context = self.lane.context();
        let (known, submitted) = (context.known(), context.submitted());
        if self.copies.are_busy() || known >= submitted {
            // Nothing in the kernel wakes who waits for a copy queue or for another host.
            let nap = if known < submitted {
                Duration::from_millis(1)
            } else {
                nap
            };
            self.copies.sleep(nap.min(limit), ready);
            context.retired();
        } else if !ready() {
            context.wait(known + 1, nap);
        }
        changed()
    }
}

impl Backend for Qcom {
    fn adopts_coherently(&self) -> bool {
        self.lane.driver.snoops()
    }

    fn target(&self) -> (&'static str, String, u32) {
        ("qcom", self.info().target.clone(), 1)
    }

    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn width(&self) -> Width {
        Width::W32
    }

    fn queue_counts(&self) -> (usize, usize) {
        (1, self.copies.queues())
    }

    fn allocate(&self, bytes: usize, purpose: Purpose) -> Result<Memory, Error> {
        self.table.allocate(bytes, purpose)
    }

    fn adopt(&self, cpu: NonNull<u8>, bytes: usize, writable: bool) -> Result<Memory, Error> {
        self.table.adopt(cpu, bytes, writable)
    }

    fn maps_adopted(&self) -> bool {
        true
    }

    fn import(&self, memory: &Memory, _from: &dyn Backend) -> Result<Memory, Error> {
        self.table.import(memory)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn hide(&self, memory: &Memory) {
        self.table.hide(memory);
    }

    fn release(&self, _memory: Memory) {
        // It went when it was hidden, or when the copy queue that was on it let go.
    }

    fn takes_code(&self) -> bool {
        true
    }

    fn load(&self, bytes: &[u8], allocate: AllocateCode<'_>) -> Result<Box<dyn Code>, Error> {
        let loaded = program::Loaded::new(&self.target, bytes, allocate)?;
        Ok(Box::new(loaded))
    }

    fn relocatable(
        &self,
        program: &Prepared,
        places: Relocation<'_>,
    ) -> Result<Option<Prepared>, Error> {
        let program = own(program).map_err(Error::record("exec"))?;
        let ([private], Some(own)) = (places.private, places.own) else {
            return Err(Error::Internal("a stored program without its variables"));
        };
        let device = at_variable(&self.device, own);
        let stored = (places.code, *private);
        let relocatable = program.relocatable(device, stored, places.launched, places.args)?;
        Ok(Some(relocatable))
    }

    fn private_parts(&self, _program: &Prepared) -> Vec<u16> {
        // Every dispatch names some, for the hardware's stack.
        vec![PRIVATE]
    }

    fn private_part(&self, program: &Prepared, _queue: QueueId, part: u16) -> Option<u64> {
        let address = own(program).ok()?.private();
        (part == PRIVATE).then_some(address)
    }

    fn own_address(&self) -> Option<u64> {
        self.device.scrap().imm()
    }

    fn kernargs(
        &self,
        program: &Prepared,
        args: &[Arg<'_>],
    ) -> Result<(usize, usize), RecordError> {
        match program.downcast_ref::<program::Way>() {
            Some(way) => Ok(way.kernargs()),
            None => own(program)?.kernargs(args),
        }
    }

    fn images(&self) -> Option<&dyn Images> {
        Some(self)
    }

    fn encode<'w>(
        &self,
        queue: QueueId,
        command: &Command<'_>,
        beside: Option<Beside<'_, '_>>,
        words: &'w mut [u32],
        list: PatchList<'w>,
    ) -> Result<(usize, PatchList<'w>), RecordError> {
        match queue.kind {
            QueueKind::Compute => encode::compute(&self.device, command, beside, words, list),
            QueueKind::Copy => encode::copy(command, words, list),
        }
    }

    fn encode_behind<'w>(
        &self,
        queue: QueueId,
        command: &Command<'_>,
        beside: Option<Beside<'_, '_>>,
        descriptors: Descriptors<'_>,
        words: &'w mut [u32],
        list: PatchList<'w>,
    ) -> Result<(usize, PatchList<'w>), RecordError> {
        match (queue.kind, descriptors.stored.and_then(|stored| stored.own)) {
            (QueueKind::Compute, Some(own)) => {
                let device = at_variable(&self.device, own);
                encode::compute(&device, command, beside, words, list)
            }
            _ => self.encode(queue, command, beside, words, list),
        }
    }

    fn fault(&self) -> Option<FaultRecord> {
        if let Some(fault) = self.known_fault() {
            return Some(fault);
        }
        // Whoever asks again and again without ever sleeping in the kernel learns of it, too.
        let now = self.now_ns();
        let last = self.last_look.load(Ordering::Relaxed);
        if now.saturating_sub(last) < LOOK_NS {
            return None;
        }
        self.last_look.store(now, Ordering::Relaxed);
        let fault = self.lane.context().look()?;
        self.copies.fail(fault);
        Some(fault)
    }

    fn recover(&self, limit: Duration) -> Result<(), Error> {
        // In error until the end, whatever happens.
        let fault = self.fault();
        self.keep(fault.unwrap_or(FaultRecord::new(FaultKind::Hardware, 0, 0)));
        self.lane.renew()?;
        self.copies.recover(limit)
    }

    fn recovered(&self) {
        *lock(&self.kept) = None;
        self.has_kept.store(false, Ordering::Release);
    }

    fn stop(&self, limit: Duration) -> bool {
        let halted = self.copies.halt(limit) == 0;
        self.lane.context().end();
        halted
    }

    fn now_ns(&self) -> u64 {
        self.lane.system().now_ns()
    }

    fn timestamp_ns(&self, raw: u64) -> u64 {
        self.clock.system_ns(raw)
    }

    fn clock_error_ns(&self) -> u64 {
        self.clock.error_ns()
    }

    fn relax(&self, round: u32, words: &[(SharedWord<'_>, u64)], limit: Duration) -> bool {
        self.pass_time(round, limit, || {
            words.iter().any(|(word, seen)| word.load() != *seen)
        })
    }

    fn relax_room(&self, round: u32, queue: QueueId, get: u64, limit: Duration) -> bool {
        match queue.kind {
            QueueKind::Copy => self.copies.relax_room(round, queue.index, get, limit),
            QueueKind::Compute => {
                let context = self.lane.context();
                if round > 0 {
                    context.wait(get + 1, limit.min(NAP));
                }
                context.retired() != get
            }
        }
    }

    fn written(&self, _address: u64) {
        self.copies.notify();
    }

    fn reached(&self) {
        // What the GPU wrote into memory that it does not snoop is read from there. A refusal is a fault of the kernel's
        // that the next submission tells.
        let _ = self.table.flush();
    }
}

#[cfg(test)]
mod tests;
