//! The compute queue.
//!
//! A launch is a descriptor in memory and the methods that schedule it. Commands behind it change that descriptor as long
//! as they can: a signal becomes one of its releases, the next launch hangs on its dependent field and needs no methods.
//! So the queue has memory for descriptors of its own.

use hcq_nostd::mem::Region;
use hcq_nostd::patch::{BuildError, Formula, PatchList, RegionId, Store};
use hcq_nostd::queue::{ComputeQueue, Launch, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{Block, Command, NameOperand, Operand, RecordError, Recorder, Room};
use hcq_nostd::value::{Affine, Fit, Value, Var};

use super::program::Program;
use super::{Compute, PcasAction, QMD_ADDRESS, ShaderCaches, prefetch_schedule};
use crate::chips::Chip;
use crate::device::Device;
use crate::host::{self, WaitForIdle};
use crate::qmd::{ALIGN_LOG2, Fold, Release};
use crate::setup::Setup;

/// Memory for a queue's launch descriptors.
#[derive(Debug)]
pub struct Qmds<'m> {
    memory: Region<'m>,
    region: RegionId,
    stride: usize,
    /// Where the memory is, if that is known at launch only.
    base: Option<Affine>,
}

impl<'m> Qmds<'m> {
    /// Descriptors from the start of `memory` on, which is number `region` of the patch list. Its device address is a
    /// multiple of 256 below 2^40.
    pub fn new(memory: Region<'m>, region: RegionId) -> Self {
        Self {
            memory,
            region,
            stride: 0,
            base: None,
        }
    }

    /// The same for descriptors that lie at `base` when they run: a variable and an offset, a multiple of 256. The address that
    /// the memory has now is of no account.
    pub fn based_on(self, base: Affine) -> Self {
        Self {
            base: Some(base),
            ..self
        }
    }

    /// The same with this many bytes from one to the next, at least a descriptor's: for descriptors that lie beside
    /// something else. The usual distance is 256 bytes for 3.0, 512 for later ones.
    pub fn every(self, stride: usize) -> Self {
        Self { stride, ..self }
    }
}

/// The last launch, while commands can still change its descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Active {
    /// Byte offset of its descriptor.
    at: usize,
    /// Releases of it that are taken.
    releases: usize,
    /// The word of their flags.
    flags: u32,
}

/// What is known of the engine behind the words so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Engine {
    /// Every launch of the queue is complete.
    #[default]
    Idle,
    /// The last command was a launch, or signals that its descriptor took.
    Active(Active),
    /// Launches may be running.
    Busy,
}

/// Where a recording stands, beside its words: to go on with it in another queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    next: usize,
    engine: Engine,
}

impl State {
    /// Behind words that this recording knows nothing of: launches of theirs may be running, whose descriptors are out of
    /// reach. The first launch waits for the engine to be idle.
    ///
    /// ```
    /// use hcq_nostd::mem::Region;
    /// use hcq_nostd::patch::{PatchList, RegionId};
    /// use hcq_nostd::queue::ComputeQueue;
    /// use hcq_nostd::record::Recorder;
    /// use hcq_nv::chips::Chip;
    /// use hcq_nv::compute::{NvCompute, Qmds, State};
    /// use hcq_nv::device::Device;
    ///
    /// let device = Device::new(Chip::named("ga10x").ok_or("no such chip")?);
    /// let mut words = [0; 4];
    /// let recorder = Recorder::new(&mut words, PatchList::none());
    /// let qmds = Qmds::new(Region::from_words(&mut [], 0), RegionId(1));
    /// let mut queue = NvCompute::over(&device, recorder, qmds, State::running());
    /// assert_eq!(queue.memory_barrier()?.words().len(), 4);   // WFI, then the caches
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub const fn running() -> Self {
        Self {
            next: 0,
            engine: Engine::Busy,
        }
    }

    /// Byte offset where the next launch's descriptor goes.
    pub const fn next(&self) -> usize {
        self.next
    }

    /// The same with the next descriptor at this byte offset, a multiple of 256.
    pub const fn at(self, next: usize) -> Self {
        Self { next, ..self }
    }

    /// Byte offset of the descriptor that the next command may still change.
    pub const fn active(&self) -> Option<usize> {
        match self.engine {
            Engine::Active(active) => Some(active.at),
            Engine::Idle | Engine::Busy => None,
        }
    }

    /// The same, leaving the last launch's descriptor alone: its memory is not at hand any more.
    pub const fn sealed(self) -> Self {
        match self.engine {
            Engine::Active(_) => Self {
                engine: Engine::Busy,
                ..self
            },
            Engine::Idle | Engine::Busy => self,
        }
    }
}

/// A compute queue while it is recorded.
///
/// - Signals have 64 bits, and waits 63: an acquire looks at the sign of a difference of 64 bits.
/// - Value and timestamp of a signal are written by one release: a [`timestamp`](Queue::timestamp) makes the value zero.
/// - A launch starts when the one before it is complete, by its descriptor if nothing is in between, else by waiting for
///   the engine to be idle. A recording takes the engine to be idle at its start: what was submitted before is complete,
///   or [`wait_for_idle`](Self::wait_for_idle) is its first command.
#[derive(Debug)]
pub struct NvCompute<'m, 'q> {
    chip: &'static Chip,
    recorder: Recorder<'m>,
    qmds: Qmds<'q>,
    state: State,
    /// PM_TRIGGER in front of launches.
    monitored: bool,
}

impl<'m, 'q> NvCompute<'m, 'q> {
    /// An empty queue over the caller's words, region 0 of the patch list, and memory for descriptors.
    pub fn new(device: &Device, words: &'m mut [u32], qmds: Qmds<'q>, list: PatchList<'m>) -> Self {
        Self::over(device, Recorder::new(words, list), qmds, State::default())
    }

    /// A queue that records into an existing recorder, behind what it holds, from this state on.
    #[inline]
    pub fn over(device: &Device, recorder: Recorder<'m>, qmds: Qmds<'q>, state: State) -> Self {
        let chip = device.chip();
        let whole = chip.qmd.bytes().next_multiple_of(1 << ALIGN_LOG2);
        Self {
            chip,
            recorder,
            qmds: Qmds {
                stride: qmds.stride.max(whole),
                ..qmds
            },
            state,
            monitored: false,
        }
    }

    /// The same with a mark for performance monitors, PM_TRIGGER, in front of each launch that has methods.
    pub fn monitored(self) -> Self {
        Self {
            monitored: true,
            ..self
        }
    }

    /// The recorder, to declare variables or to look at what was recorded.
    pub fn recorder(&mut self) -> &mut Recorder<'m> {
        &mut self.recorder
    }

    /// The words so far.
    pub fn words(&self) -> &[u32] {
        self.recorder.words()
    }

    /// Where the recording stands.
    pub const fn state(&self) -> State {
        self.state
    }

    /// Memory taken so far; beside the words, bytes of descriptors.
    pub fn used(&self) -> Room {
        Room {
            beside: self.state.next,
            ..self.recorder.used()
        }
    }

    /// The recorder, and where the recording stands.
    #[inline]
    pub fn finish(self) -> (Recorder<'m>, State) {
        (self.recorder, self.state)
    }

    /// What the channel is told once, or when its local memory changes.
    ///
    /// # Errors
    /// [`RecordError`]; the queue is as it was.
    pub fn setup(&mut self, setup: &Setup) -> Result<&mut Self, RecordError> {
        let chip = self.chip;
        self.recorder.command(|c| setup.record(chip, c))?;
        self.state = self.state.sealed();
        Ok(self)
    }

    /// Holds the queue until all its launches are complete.
    ///
    /// # Errors
    /// [`RecordError`]; the queue is as it was.
    pub fn wait_for_idle(&mut self) -> Result<&mut Self, RecordError> {
        self.recorder.command(|c| {
            WaitForIdle { all: false }.record(c);
            Ok(())
        })?;
        self.state.engine = Engine::Idle;
        Ok(self)
    }

    /// A host command behind which every launch is complete.
    fn idling(
        &mut self,
        encode: impl FnOnce(&Chip, &mut Command<'_, '_>) -> Result<(), RecordError>,
    ) -> Result<&mut Self, RecordError> {
        let chip = self.chip;
        self.recorder.command(|c| encode(chip, c))?;
        self.state.engine = Engine::Idle;
        Ok(self)
    }

    /// A host command that launches may run beside.
    #[inline]
    fn passing(
        &mut self,
        encode: impl FnOnce(&Chip, &mut Command<'_, '_>) -> Result<(), RecordError>,
    ) -> Result<&mut Self, RecordError> {
        let chip = self.chip;
        self.recorder.command(|c| encode(chip, c))?;
        if let Engine::Active(_) = self.state.engine {
            self.state.engine = Engine::Busy;
        }
        Ok(self)
    }

    /// A signal: a release of the last launch, or the host's.
    fn release(&mut self, signal: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        let chip = self.chip;
        let Engine::Active(active) = self.state.engine else {
            return self.release_by_host(signal, value);
        };
        let Some(place) = chip.qmd.places.releases.get(active.releases) else {
            return self.release_by_host(signal, value);
        };
        // NON_BLOCKING_INTR_TYPE_TRAP, TRAP_UNCONDITIONAL.
        let trap = if signal.notify { place.trap } else { 0 };
        let flags = active.flags | place.on | trap;
        match (signal.address, value) {
            (Value::Imm(address), Value::Imm(value)) if address & place.zero == 0 => {
                let (memory, region) = (&mut self.qmds.memory, self.qmds.region);
                let Ok(mut block) = Block::new(memory, region, active.at, chip.qmd.bytes()) else {
                    return Err(RecordError::NoRoom(self.used()));
                };
                fold_known(&mut block, place, (address, value), flags)?;
            }
            (address, value) => self.fold_any(active, (address, value), flags)?,
        }
        let next = Active {
            releases: active.releases + 1,
            // Each release has its flags in a word of its own, or all have one.
            flags: if place.shared { 0 } else { flags },
            ..active
        };
        self.state.engine = Engine::Active(next);
        Ok(self)
    }

    #[inline(never)]
    fn release_by_host(
        &mut self,
        signal: SignalAt,
        value: Value,
    ) -> Result<&mut Self, RecordError> {
        self.idling(|chip, c| host::release(chip, c, signal, value))
    }

    /// A release of which something is not known yet, or wrong.
    #[cold]
    #[inline(never)]
    fn fold_any(
        &mut self,
        active: Active,
        values: (Value, Value),
        flags: u32,
    ) -> Result<(), RecordError> {
        let layout = self.chip.qmd;
        let (memory, region) = (&mut self.qmds.memory, self.qmds.region);
        let block = Block::new(memory, region, active.at, layout.bytes()).ok();
        let (Some(mut block), Some(place)) = (block, layout.releases.get(active.releases)) else {
            return Err(RecordError::NoRoom(self.used()));
        };
        let folded = self
            .recorder
            .command(|c| fold(c.list(), &mut block, place, values, flags));
        if let Err(e) = folded {
            // Some of the fields may hold something by now.
            unfold(&mut block, place, active.flags)?;
            return Err(e);
        }
        Ok(())
    }

    /// Runs a program, as [`ComputeQueue::exec`] does, whose constant bank 0 will be at `bank`: a variable, for argument
    /// blocks that are copied before each submission. The block's own device address is not looked at.
    ///
    /// # Errors
    /// [`RecordError`]; the queue is as it was, the argument block's contents may have changed.
    pub fn exec_with_bank(
        &mut self,
        launch: Launch<'_, '_, Program<'_>>,
        bank: Value,
    ) -> Result<&mut Self, RecordError> {
        self.launch(launch, Some(&bank))
    }

    fn launch(
        &mut self,
        mut launch: Launch<'_, '_, Program<'_>>,
        bank: Option<&Value>,
    ) -> Result<&mut Self, RecordError> {
        let layout = self.chip.qmd;
        // One made for another chip has other descriptors. Two of one chip are compared by their place: a chip is long.
        let program = launch.program;
        let chip = program.chip();
        if !core::ptr::eq(chip, self.chip) && chip != self.chip {
            let operand = Operand::Program;
            return Err(RecordError::Unsupported { operand });
        }
        let at = self.state.next;
        let next = at.saturating_add(self.qmds.stride);
        let engine = self.state.engine;
        let (memory, region) = (&mut self.qmds.memory, self.qmds.region);
        let block = Block::new(memory, region, at, layout.bytes()).ok();
        let Some((address, mut qmd)) = block.and_then(|b| Some((b.device_address(0)?, b))) else {
            return self.launch_later(&mut launch, bank);
        };
        let known = QMD_ADDRESS.check(address).is_ok()
            && self.qmds.base.is_none()
            && program.record_known(&mut qmd, &mut launch, bank);
        if !known {
            if self.qmds.base.is_some() {
                return self.launch_later(&mut launch, bank);
            }
            self.launch_any(&mut launch, bank, address)?;
        } else if !matches!(engine, Engine::Active(_)) {
            // Nothing was filed: without words there is nothing to take back.
            let monitored = self.monitored;
            self.recorder
                .command(|c| start(c, engine, monitored, address))?;
        }
        if let Engine::Active(before) = engine {
            self.chain(before.at, address)?;
        }
        self.state = State {
            next,
            engine: Engine::Active(Active {
                at,
                releases: 0,
                flags: 0,
            }),
        };
        Ok(self)
    }

    /// Records a launch of which something is not known yet, or wrong: all but that it follows another one.
    #[cold]
    #[inline(never)]
    fn launch_any(
        &mut self,
        launch: &mut Launch<'_, '_, Program<'_>>,
        bank: Option<&Value>,
        address: u64,
    ) -> Result<(), RecordError> {
        let State { next, engine } = self.state;
        let (memory, region) = (&mut self.qmds.memory, self.qmds.region);
        let Ok(mut qmd) = Block::new(memory, region, next, self.chip.qmd.bytes()) else {
            return Err(RecordError::NoRoom(self.recorder.used()));
        };
        let monitored = self.monitored;
        self.recorder.command(|c| {
            QMD_ADDRESS.check(address).operand(Operand::Program)?;
            let program = launch.program;
            program.record(c.list(), &mut qmd, launch, bank)?;
            start(c, engine, monitored, address)
        })?;
        Ok(())
    }

    /// Records a launch whose descriptor's address is not known yet, or says that there is no room for the descriptor.
    #[cold]
    #[inline(never)]
    fn launch_later(
        &mut self,
        launch: &mut Launch<'_, '_, Program<'_>>,
        bank: Option<&Value>,
    ) -> Result<&mut Self, RecordError> {
        let layout = self.chip.qmd;
        let State { next: at, engine } = self.state;
        let next = at.saturating_add(self.qmds.stride);
        let (memory, region) = (&mut self.qmds.memory, self.qmds.region);
        let block = Block::new(memory, region, at, layout.bytes()).ok();
        let base = self.qmds.base;
        let address = base.zip(u64::try_from(at).ok()).and_then(|(base, at)| {
            let add = base.add.checked_add(at)?;
            Some(Affine { add, ..base })
        });
        let (Some(mut qmd), Some(address)) = (block, address) else {
            return Err(RecordError::NoRoom(Room {
                beside: next,
                ..self.recorder.used()
            }));
        };
        let monitored = self.monitored;
        self.recorder.command(|c| {
            let program = launch.program;
            program.record(c.list(), &mut qmd, launch, bank)?;
            match engine {
                Engine::Active(before) => {
                    let pointer = layout.dependent.pointer;
                    let at = u32::try_from(before.at.saturating_add(pointer.at()));
                    let at = at.map_err(|_| BuildError::TooMany)?;
                    let formula = Formula::field(address, 0, pointer.field());
                    c.list().site(region, at, &formula);
                    return Ok(());
                }
                Engine::Busy => WaitForIdle { all: false }.record(c),
                Engine::Idle => {}
            }
            if monitored {
                Compute::PmTrigger.record(c)?;
            }
            Compute::SendPcas(Value::Var(address)).record(c)?;
            Compute::SignalingPcas(PcasAction::PrefetchSchedule).record(c)
        })?;
        if let Engine::Active(before) = engine {
            // The pointer has a site.
            self.chain(before.at, 0)?;
        }
        self.state = State {
            next,
            engine: Engine::Active(Active {
                at,
                releases: 0,
                flags: 0,
            }),
        };
        Ok(self)
    }

    /// Makes the launch at `address`, which was found to be one, follow the one whose descriptor is at byte offset `before`.
    #[inline]
    fn chain(&mut self, before: usize, address: u64) -> Result<(), RecordError> {
        let places = &self.chip.qmd.places;
        // 40 bits that count 256 bytes.
        let pointer = (address >> ALIGN_LOG2) as u32;
        // The pointer has a word of its own, and so have the flags, but for zeros.
        let stores = [
            (places.pointer, pointer),
            (places.dependent, places.dependent_flags),
        ];
        for (at, word) in stores {
            // That descriptor was found to be inside its memory, so this cannot wrap.
            let at = before.wrapping_add(at.into());
            let stored = self.qmds.memory.write(at, &word.to_le_bytes());
            if stored.is_err() {
                return Err(RecordError::NoRoom(self.recorder.used()));
            }
        }
        Ok(())
    }
}

/// Words that start a launch, if not the one before does.
#[inline]
fn start(
    c: &mut Command<'_, '_>,
    engine: Engine,
    monitored: bool,
    address: u64,
) -> Result<(), RecordError> {
    match engine {
        Engine::Active(_) => return Ok(()),
        Engine::Busy => WaitForIdle { all: false }.record(c),
        Engine::Idle => {}
    }
    if monitored {
        Compute::PmTrigger.record(c)?;
    }
    c.words(&prefetch_schedule(address));
    Ok(())
}

/// Writes a release of numbers: address, flags and payload.
#[inline]
fn fold_known(
    block: &mut Block<'_, '_>,
    place: &Fold,
    (address, value): (u64, u64),
    flags: u32,
) -> Result<(), RecordError> {
    let upper = if place.shared { flags } else { 0 };
    let address = address | u64::from(upper) << 32;
    block.write(place.address.into(), &address.to_le_bytes())?;
    block.write(place.payload.into(), &value.to_le_bytes())?;
    if !place.shared {
        block.write(place.flags.into(), &flags.to_le_bytes())?;
    }
    Ok(())
}

/// Writes a release: address, flags and payload.
#[cold]
fn fold(
    list: &mut PatchList<'_>,
    block: &mut Block<'_, '_>,
    place: &Release,
    (address, value): (Value, Value),
    flags: u32,
) -> Result<(), RecordError> {
    let (_, align_log2) = host::SIGNAL;
    // Up to 3.0 the upper word holds the flags, too.
    let shared = place.enable.word() == place.address.upper.word();
    let whole = Formula {
        base: if shared { u64::from(flags) << 32 } else { 0 },
        fit: Fit::aligned(place.address.bits(), align_log2),
        ..Formula::whole(Var::new(0))
    };
    let at = place.address.lower.at();
    block.value(list, at, address, &whole, Operand::Signal)?;
    let at = place.payload_lower.at();
    block.whole(list, at, value, Store::W64, Operand::Data)?;
    if !shared {
        let at = place.enable.at();
        block.whole(list, at, flags.into(), Store::W32, Operand::Signal)?;
    }
    Ok(())
}

/// Takes a release back that could not be written in full.
fn unfold(block: &mut Block<'_, '_>, place: &Release, flags: u32) -> Result<(), RecordError> {
    for at in [
        place.address.lower,
        place.address.upper,
        place.payload_lower,
        place.payload_upper,
    ] {
        block.write(at.at(), &[0; 4])?;
    }
    block.write(place.enable.at(), &flags.to_le_bytes())
}

impl Queue for NvCompute<'_, '_> {
    #[inline]
    fn signal(&mut self, signal: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.release(signal, value)
    }

    #[inline]
    fn wait(&mut self, signal: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.passing(|chip, c| host::wait(chip, c, signal, value))
    }

    /// The engine stores a value with the clock: the signal's value becomes zero.
    fn timestamp(&mut self, signal: SignalAt) -> Result<&mut Self, RecordError> {
        self.release(signal, 0u64.into())
    }

    fn write(
        &mut self,
        address: Value,
        value: Value,
        width: WriteWidth,
    ) -> Result<&mut Self, RecordError> {
        self.idling(|chip, c| host::write(chip, c, address, value, width))
    }

    fn poll_bit(
        &mut self,
        address: Value,
        mask: u32,
        expect: Value,
    ) -> Result<&mut Self, RecordError> {
        self.passing(|chip, c| host::poll_bit(chip, c, address, mask, expect))
    }
}

impl ComputeQueue for NvCompute<'_, '_> {
    type Program<'p> = Program<'p>;

    /// Invalidates the caches of instructions, data and constants, when every launch before is complete.
    fn memory_barrier(&mut self) -> Result<&mut Self, RecordError> {
        let running = self.state.engine != Engine::Idle;
        self.idling(|_, c| {
            if running {
                WaitForIdle { all: false }.record(c);
            }
            c.words(&ShaderCaches::all().words());
            Ok(())
        })
    }

    #[inline]
    fn exec(&mut self, launch: Launch<'_, '_, Program<'_>>) -> Result<&mut Self, RecordError> {
        self.launch(launch, None)
    }
}
