//! NVIDIA: pushbuffer methods, launch descriptors (QMD 3.0 and 5.0), and the compute and copy queues.
//!
//! A launch descriptor is written when a program is launched, and again by the commands after it: a signal becomes a
//! release in it, the next launch hangs on its dependent field. So the queue owns the memory of its descriptors.

use hcq_nostd::args::ArgLayout;
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{Formula, PatchList, RegionId, Store};
use hcq_nostd::queue::{
    ComputeQueue, CopyQueue, Launch, Program as _, Queue, SignalAt, WriteWidth,
};
use hcq_nostd::record::{Block, Command, NameOperand, Operand, RecordError, Recorder, Room};
use hcq_nostd::value::{Field, Fit, Value, Var};

use super::lab::Recording;

// Subchannels.
const HOST: u32 = 0;
const COMPUTE: u32 = 1;
const COPY: u32 = 4;

// Host methods.
const NON_STALL_INTERRUPT: u32 = 0x20;
const SEM_ADDR_LO: u32 = 0x5c;

// SEM_EXECUTE.
const ACQ_CIRC_GEQ: u32 = 3;
const ACQ_AND: u32 = 4;
const ACQ_NOR: u32 = 5;
const RELEASE: u32 = 1;
const RELEASE_WFI: u32 = 1 << 20;
const PAYLOAD_SIZE_64BIT: u32 = 1 << 24;
const RELEASE_TIMESTAMP: u32 = 1 << 25;

// Compute methods.
const SET_OBJECT: u32 = 0;
const SET_SHADER_SHARED_MEMORY_WINDOW_A: u32 = 0x2a0;
const SEND_PCAS_A: u32 = 0x2b4;
const SEND_SIGNALING_PCAS2_B: u32 = 0x2c0;
const PCAS_ACTION_PREFETCH_SCHEDULE: u32 = 9;
const SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A: u32 = 0x2e4;
const MAX_SM_COUNT: u32 = 0xff;
const SET_SHADER_LOCAL_MEMORY_A: u32 = 0x790;
const SET_SHADER_LOCAL_MEMORY_WINDOW_A: u32 = 0x7b0;
const INVALIDATE_SHADER_CACHES_NO_WFI: u32 = 0x1698;
const INVALIDATE_INSTRUCTION: u32 = 1;
const INVALIDATE_GLOBAL_DATA: u32 = 1 << 4;
const INVALIDATE_CONSTANT: u32 = 1 << 12;

// Copy methods.
const SET_SEMAPHORE_A: u32 = 0x240;
const LAUNCH_DMA: u32 = 0x300;
const OFFSET_IN_UPPER: u32 = 0x400;
const LINE_LENGTH_IN: u32 = 0x418;

// LAUNCH_DMA.
const TRANSFER_NON_PIPELINED: u32 = 2;
const FLUSH_ENABLE: u32 = 1 << 2;
const SEMAPHORE_FOUR_WORDS: u32 = 2 << 3;
const SRC_PITCH: u32 = 1 << 7;
const DST_PITCH: u32 = 1 << 8;

/// Bytes that one LAUNCH_DMA copies at most here.
const MAX_LINE: u64 = 1 << 31;

/// Header of an incrementing method run.
const fn method(subchannel: u32, method: u32, count: u32) -> u32 {
    const INCREMENTING: u32 = 1 << 29;
    assert!(count < 1 << 13 && method < 1 << 14);
    INCREMENTING | count << 16 | subchannel << 13 | method >> 2
}

/// Bits `lo + width - 1 : lo` of a launch descriptor, counting units of `2^unit`.
#[derive(Clone, Copy, Debug)]
struct Bits {
    lo: usize,
    width: u8,
    unit: u8,
}

const fn bits(hi: usize, lo: usize) -> Bits {
    Bits {
        lo,
        width: (hi - lo + 1) as u8,
        unit: 0,
    }
}

impl Bits {
    /// Byte offset of the word that holds them. None crosses a word.
    const fn at(self) -> usize {
        self.lo / 32 * 4
    }

    /// The place in that word.
    const fn field(self) -> Field {
        Field::new((self.lo % 32) as u8, self.width).unit(self.unit)
    }

    const fn unit(self, unit: u8) -> Self {
        Self { unit, ..self }
    }

    const fn plus(self, bits: usize) -> Self {
        Self {
            lo: self.lo + bits,
            ..self
        }
    }
}

/// One of the two releases.
#[derive(Clone, Copy, Debug)]
struct Release {
    enable: Bits,
    payload64b: Bits,
    address_lower: Bits,
    address_upper: Bits,
    payload_lower: Bits,
}

/// What differs between generations of launch descriptors, as data with the vendor's bit ranges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QmdLayout {
    pub(crate) bytes: usize,
    grid: [Bits; 3],
    threads: [Bits; 3],
    /// The low 32 and the upper bits of bank 0's address.
    constant_address: [Bits; 2],
    /// The unit is 16 bytes, in both.
    constant_size: Bits,
    shared_size: Bits,
    shared_config: [Bits; 2],
    releases: [Release; 2],
    dependent_pointer: Bits,
    /// Enable, action and prefetch, from this bit on.
    dependent: Bits,
}

const DEPENDENT_ENABLE_SCHEDULE_PREFETCH: u64 = 1 | 1 << 1 | 1 << 4;
/// Banks are this many bits apart.
const CONSTANT_STRIDE: usize = 64;

pub(crate) const QMD_3_0: QmdLayout = QmdLayout {
    bytes: 256,
    grid: [bits(415, 384), bits(431, 416), bits(463, 448)],
    threads: [bits(607, 592), bits(623, 608), bits(639, 624)],
    constant_address: [bits(1055, 1024), bits(1072, 1056)],
    constant_size: bits(1087, 1075),
    shared_size: bits(561, 544),
    shared_config: [bits(567, 562), bits(662, 657)],
    releases: [
        Release {
            enable: bits(823, 823),
            payload64b: bits(829, 829),
            address_lower: bits(799, 768),
            address_upper: bits(807, 800),
            payload_lower: bits(863, 832),
        },
        Release {
            enable: bits(951, 951),
            payload64b: bits(957, 957),
            address_lower: bits(927, 896),
            address_upper: bits(935, 928),
            payload_lower: bits(991, 960),
        },
    ],
    dependent_pointer: bits(511, 480).unit(8),
    dependent: bits(516, 512),
};

pub(crate) const QMD_5_0: QmdLayout = QmdLayout {
    bytes: 384,
    grid: [bits(1279, 1248), bits(1295, 1280), bits(1327, 1312)],
    threads: [bits(1103, 1088), bits(1119, 1104), bits(1127, 1120)],
    constant_address: [bits(1375, 1344), bits(1394, 1376)],
    constant_size: bits(1407, 1395),
    shared_size: bits(1162, 1152).unit(7),
    shared_config: [bits(1168, 1163), bits(1180, 1175)],
    releases: [
        Release {
            enable: bits(288, 288),
            payload64b: bits(300, 300),
            address_lower: bits(511, 480),
            address_upper: bits(536, 512),
            payload_lower: bits(575, 544),
        },
        Release {
            enable: bits(304, 304),
            payload64b: bits(316, 316),
            address_lower: bits(799, 768),
            address_upper: bits(824, 800),
            payload_lower: bits(863, 832),
        },
    ],
    dependent_pointer: bits(415, 384).unit(8),
    dependent: bits(340, 336),
};

/// What differs between chips.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chip {
    pub(crate) qmd: &'static QmdLayout,
    /// Bits of a semaphore's address.
    semaphore_bits: u8,
    /// Bits that bank 0's address is shifted by.
    constant_shift: u8,
}

pub(crate) const AMPERE: Chip = Chip {
    qmd: &QMD_3_0,
    semaphore_bits: 40,
    constant_shift: 0,
};
pub(crate) const ADA: Chip = AMPERE;
pub(crate) const BLACKWELL: Chip = Chip {
    qmd: &QMD_5_0,
    semaphore_bits: 57,
    constant_shift: 6,
};

const QMD_WORDS_MAX: usize = 96;
/// Descriptors and bank 0 lie at such an alignment.
const QMD_ALIGN: usize = 256;

/// A descriptor under construction, in this side's memory.
type Qmd = [u32; QMD_WORDS_MAX];

fn set(qmd: &mut Qmd, at: Bits, value: u64) -> Result<(), RecordError> {
    let placed = at.field().place(value).operand(Operand::Program)?;
    let word = &mut qmd[at.lo / 32];
    *word = *word & !((at.field().mask() << at.field().shift) as u32) | placed as u32;
    Ok(())
}

/// A program prepared for one chip: its launch descriptor and the driver's words in constant bank 0.
#[derive(Clone, Debug)]
pub(crate) struct Program<'p> {
    chip: &'static Chip,
    layout: ArgLayout<'p>,
    prefix: &'p [u32],
    shared_bytes: u32,
    qmd: Qmd,
}

impl<'p> Program<'p> {
    /// From a loaded program's descriptor. `banks` are the sizes in bytes of its constant banks by number.
    pub(crate) fn new(
        chip: &'static Chip,
        template: &[u32],
        banks: &[(usize, u64)],
        shared_bytes: u32,
        prefix: &'p [u32],
        layout: ArgLayout<'p>,
    ) -> Result<Self, RecordError> {
        let mut qmd = [0; QMD_WORDS_MAX];
        qmd[..template.len()].copy_from_slice(template);
        for &(bank, bytes) in banks {
            set(
                &mut qmd,
                chip.qmd.constant_size.plus(bank * CONSTANT_STRIDE),
                bytes.div_ceil(16),
            )?;
        }
        Ok(Self {
            chip,
            layout,
            prefix,
            shared_bytes,
            qmd,
        })
    }

    fn qmd_bytes(&self) -> &[u8] {
        &zerocopy::IntoBytes::as_bytes(&self.qmd)[..self.chip.qmd.bytes]
    }
}

impl hcq_nostd::queue::Program for Program<'_> {
    fn kernargs_size(&self) -> usize {
        (self.layout.size as usize).max(self.prefix.len() * 4)
    }

    fn kernargs_align(&self) -> usize {
        QMD_ALIGN
    }
}

fn semaphore(
    c: &mut Command<'_, '_>,
    chip: &Chip,
    address: (Value, u8),
    (payload, fit): (Value, Fit),
    execute: u32,
) -> Result<(), RecordError> {
    c.word(method(HOST, SEM_ADDR_LO, 5));
    c.pair(address.0, Fit::aligned(chip.semaphore_bits, address.1))
        .operand(Operand::Address)?;
    c.pair(payload, fit).operand(Operand::Data)?;
    c.word(execute);
    Ok(())
}

// The commands of the host engine, for every channel.

/// A release with timestamp writes 16 bytes: the value, and the clock after it.
fn release(
    c: &mut Command<'_, '_>,
    chip: &Chip,
    at: SignalAt,
    value: Value,
) -> Result<(), RecordError> {
    let execute = RELEASE | RELEASE_WFI | PAYLOAD_SIZE_64BIT | RELEASE_TIMESTAMP;
    semaphore(c, chip, (at.address, 4), (value, Fit::ANY), execute)?;
    if at.notify {
        c.words(&[method(HOST, NON_STALL_INTERRUPT, 1), 0]);
    }
    Ok(())
}

fn wait(
    c: &mut Command<'_, '_>,
    chip: &Chip,
    at: SignalAt,
    value: Value,
) -> Result<(), RecordError> {
    semaphore(
        c,
        chip,
        (at.address, 3),
        (value, Fit::ANY),
        ACQ_CIRC_GEQ | PAYLOAD_SIZE_64BIT,
    )
}

fn write(
    c: &mut Command<'_, '_>,
    chip: &Chip,
    address: Value,
    value: Value,
    width: WriteWidth,
) -> Result<(), RecordError> {
    match width {
        WriteWidth::W32 => semaphore(
            c,
            chip,
            (address, 2),
            (value, Fit::bits(32)),
            RELEASE | RELEASE_WFI,
        ),
        WriteWidth::W64 => {
            let execute = RELEASE | RELEASE_WFI | PAYLOAD_SIZE_64BIT;
            semaphore(c, chip, (address, 3), (value, Fit::ANY), execute)
        }
    }
}

/// One bit, and known now: an acquire tests for any bit set or any bit clear.
fn poll_bit(
    c: &mut Command<'_, '_>,
    chip: &Chip,
    address: Value,
    mask: u32,
    expect: Value,
) -> Result<(), RecordError> {
    let expect = expect.imm().ok_or(RecordError::NotConstant {
        operand: Operand::Data,
    })?;
    if !mask.is_power_of_two() {
        return Err(RecordError::Unsupported {
            operand: Operand::Mask,
        });
    }
    let (payload, operation) = match expect {
        0 => (!mask, ACQ_NOR),
        e if e == u64::from(mask) => (mask, ACQ_AND),
        _ => {
            return Err(RecordError::Unsupported {
                operand: Operand::Data,
            });
        }
    };
    semaphore(
        c,
        chip,
        (address, 2),
        (payload.into(), Fit::bits(32)),
        operation,
    )
}

/// What a channel is told once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Setup {
    pub(crate) compute_class: Option<u32>,
    pub(crate) copy_class: Option<u32>,
    pub(crate) local_window: Option<u64>,
    pub(crate) shared_window: Option<u64>,
    /// Address, and bytes per TPC.
    pub(crate) local_memory: Option<[u64; 2]>,
}

fn setup(c: &mut Command<'_, '_>, setup: &Setup) -> Result<(), RecordError> {
    for (subchannel, class) in [(COMPUTE, setup.compute_class), (COPY, setup.copy_class)] {
        if let Some(class) = class {
            c.words(&[method(subchannel, SET_OBJECT, 1), class]);
        }
    }
    let windows = [
        (SET_SHADER_LOCAL_MEMORY_WINDOW_A, setup.local_window),
        (SET_SHADER_SHARED_MEMORY_WINDOW_A, setup.shared_window),
        (
            SET_SHADER_LOCAL_MEMORY_A,
            setup.local_memory.map(|[address, _]| address),
        ),
    ];
    for (first, address) in windows {
        if let Some(address) = address {
            c.word(method(COMPUTE, first, 2));
            c.pair_high_first(address.into(), Fit::bits(49))
                .operand(Operand::Address)?;
        }
    }
    if let Some([_, bytes]) = setup.local_memory {
        c.word(method(COMPUTE, SET_SHADER_LOCAL_MEMORY_NON_THROTTLED_A, 3));
        c.pair_high_first(bytes.into(), Fit::bits(40))
            .operand(Operand::Length)?;
        c.word(MAX_SM_COUNT);
    }
    Ok(())
}

/// The last launch, while commands can still be folded into its descriptor.
#[derive(Clone, Copy, Debug)]
struct Active {
    slot: usize,
    releases: usize,
}

/// Memory for launch descriptors, one region each. (A driver cuts them from one.)
pub(crate) type Slots<'m> = Vec<(RegionId, Region<'m>)>;

#[derive(Debug)]
pub(crate) struct NvQueue<'m, 'q> {
    chip: &'static Chip,
    recorder: Recorder<'m>,
    slots: Slots<'q>,
    used: usize,
    active: Option<Active>,
}

impl<'m, 'q> NvQueue<'m, 'q> {
    pub(crate) fn new(
        chip: &'static Chip,
        words: &'m mut [u32],
        slots: Slots<'q>,
        list: PatchList<'m>,
    ) -> Self {
        Self {
            chip,
            recorder: Recorder::new(words, list),
            slots,
            used: 0,
            active: None,
        }
    }

    pub(crate) fn finish(self) -> (usize, PatchList<'m>) {
        self.recorder.finish()
    }

    pub(crate) fn setup(&mut self, what: &Setup) -> Result<&mut Self, RecordError> {
        self.host(|c, _| setup(c, what))
    }

    /// A command of words alone; nothing is folded into the launch before it any more.
    fn host(
        &mut self,
        encode: impl FnOnce(&mut Command<'_, '_>, &Chip) -> Result<(), RecordError>,
    ) -> Result<&mut Self, RecordError> {
        let chip = self.chip;
        self.recorder.command(|c| encode(c, chip))?;
        self.active = None;
        Ok(self)
    }

    fn release(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        let chip = self.chip;
        let Some(Active { slot, releases }) =
            self.active.filter(|a| a.releases < chip.qmd.releases.len())
        else {
            return self.host(|c, chip| release(c, chip, at, value));
        };
        let (id, region) = &mut self.slots[slot];
        let mut block = Block::new(region, *id, 0, chip.qmd.bytes).expect("checked by exec");
        let place = &chip.qmd.releases[releases];
        let folded = self
            .recorder
            .command(|c| fold_release(c.list(), &mut block, place, at.address, value));
        if let Err(e) = folded {
            // Some of the fields may be poison by now.
            for at in [
                place.address_lower,
                place.address_upper,
                place.payload_lower,
                place.payload_lower.plus(32),
            ] {
                block.write(at.at(), &[0; 4]).expect("inside");
            }
            return Err(e);
        }
        if place.enable.at() != place.address_upper.at() {
            let word = release_enable(&chip.qmd.releases[..=releases]);
            block
                .write(place.enable.at(), &word.to_le_bytes())
                .expect("inside");
        }
        self.active = Some(Active {
            slot,
            releases: releases + 1,
        });
        Ok(self)
    }
}

fn release_enable(releases: &[Release]) -> u32 {
    releases.iter().fold(0, |word, r| {
        word | 1 << (r.enable.lo % 32) | 1 << (r.payload64b.lo % 32)
    })
}

fn fold_release(
    list: &mut PatchList<'_>,
    block: &mut Block<'_, '_>,
    place: &Release,
    address: Value,
    payload: Value,
) -> Result<(), RecordError> {
    let any = Var::new(0);
    // 32 bits below, the field's bits above, 16-byte aligned for the timestamp.
    let fit = Fit::aligned(32 + place.address_upper.width, 4);
    block.value(
        list,
        place.address_lower.at(),
        address,
        &Formula::low(any, fit),
        Operand::Signal,
    )?;
    // Up to Ada the upper word also holds the flags.
    let same = place.enable.at() == place.address_upper.at();
    let base = if same {
        release_enable(std::slice::from_ref(place))
    } else {
        0
    };
    let upper = Formula {
        base: base.into(),
        ..Formula::high(any, fit)
    };
    block.value(
        list,
        place.address_upper.at(),
        address,
        &upper,
        Operand::Signal,
    )?;
    block.whole(
        list,
        place.payload_lower.at(),
        payload,
        Store::W64,
        Operand::Data,
    )
}

impl<'m> Recording<'m> for NvQueue<'m, '_> {
    fn list(&mut self) -> &mut PatchList<'m> {
        self.recorder.list()
    }
}

impl Queue for NvQueue<'_, '_> {
    fn signal(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.release(at, value)
    }

    fn wait(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.host(|c, chip| wait(c, chip, at, value))
    }

    /// The engine stores a value with the clock: the signal's value becomes zero.
    fn timestamp(&mut self, at: SignalAt) -> Result<&mut Self, RecordError> {
        self.release(at, 0u64.into())
    }

    fn write(
        &mut self,
        address: Value,
        value: Value,
        width: WriteWidth,
    ) -> Result<&mut Self, RecordError> {
        self.host(|c, chip| write(c, chip, address, value, width))
    }

    fn poll_bit(
        &mut self,
        address: Value,
        mask: u32,
        expect: Value,
    ) -> Result<&mut Self, RecordError> {
        self.host(|c, chip| poll_bit(c, chip, address, mask, expect))
    }
}

impl ComputeQueue for NvQueue<'_, '_> {
    type Program<'p> = Program<'p>;

    fn memory_barrier(&mut self) -> Result<&mut Self, RecordError> {
        self.host(|c, _| {
            let what = INVALIDATE_INSTRUCTION | INVALIDATE_GLOBAL_DATA | INVALIDATE_CONSTANT;
            c.words(&[method(COMPUTE, INVALIDATE_SHADER_CACHES_NO_WFI, 1), what]);
            Ok(())
        })
    }

    fn exec(&mut self, launch: Launch<'_, '_, Program<'_>>) -> Result<&mut Self, RecordError> {
        let (layout, slot) = (self.chip.qmd, self.used);
        let room = Room {
            beside: (slot + 1) * layout.bytes.next_multiple_of(QMD_ALIGN),
            ..self.recorder.used()
        };
        let (id, region) = self.slots.get_mut(slot).ok_or(RecordError::NoRoom(room))?;
        let mut block =
            Block::new(region, *id, 0, layout.bytes).map_err(|_| RecordError::NoRoom(room))?;
        let address = block.device_address(0).ok_or(RecordError::NoRoom(room))?;
        let chained = self.active.is_some();
        self.recorder.command(|c| {
            write_qmd(c.list(), &mut block, launch)?;
            if !chained {
                c.word(method(COMPUTE, SEND_PCAS_A, 1));
                c.field(0, address.into(), Field::new(0, 32).unit(8))?;
                c.words(&[
                    method(COMPUTE, SEND_SIGNALING_PCAS2_B, 1),
                    PCAS_ACTION_PREFETCH_SCHEDULE,
                ]);
            }
            Ok(())
        })?;
        if let Some(active) = self.active {
            // Everything that can fail has not: now the launch before may point here.
            let pointer = layout
                .dependent_pointer
                .field()
                .place(address)
                .operand(Operand::Program)? as u32;
            let flags =
                (DEPENDENT_ENABLE_SCHEDULE_PREFETCH as u32) << layout.dependent.field().shift;
            let region = &mut self.slots[active.slot].1;
            region
                .store_u32(layout.dependent_pointer.at(), pointer)
                .expect("inside");
            region
                .store_u32(layout.dependent.at(), flags)
                .expect("inside");
        }
        self.active = Some(Active { slot, releases: 0 });
        self.used = slot + 1;
        Ok(self)
    }
}

/// The smallest configuration that holds so many bytes: kilobytes / 4 + 1.
fn shared_config(bytes: u32) -> Result<u64, RecordError> {
    const KILOBYTES: [u32; 3] = [32, 64, 100];
    let fits = KILOBYTES
        .iter()
        .find(|k| bytes <= *k * 1024)
        .ok_or(RecordError::Limit {
            operand: Operand::LocalMemory,
            value: bytes.into(),
            max: 100 * 1024,
        })?;
    Ok(u64::from(fits / 4 + 1))
}

/// The argument block and the launch descriptor.
fn write_qmd(
    list: &mut PatchList<'_>,
    block: &mut Block<'_, '_>,
    mut launch: Launch<'_, '_, Program<'_>>,
) -> Result<(), RecordError> {
    let (program, layout) = (launch.program, launch.program.chip.qmd);
    let (need, have) = (program.kernargs_size(), launch.kernargs.len());
    let too_small = RecordError::KernargsTooSmall { need, have };
    if have < need {
        return Err(too_small);
    }
    launch
        .kernargs
        .write(0, zerocopy::IntoBytes::as_bytes(program.prefix))?;
    program
        .layout
        .write(launch.args, &mut launch.kernargs, list)?;

    let bank = launch.kernargs.device_address(0).ok_or(too_small)?;
    Fit::aligned(49, program.chip.constant_shift)
        .check(bank)
        .operand(Operand::Kernargs)?;
    let bank = bank >> program.chip.constant_shift;
    let mut qmd = program.qmd;
    set(
        &mut qmd,
        layout.constant_address[0],
        bank & u64::from(u32::MAX),
    )?;
    set(&mut qmd, layout.constant_address[1], bank >> 32)?;
    if launch.local_memory > 0 {
        let bytes = program
            .shared_bytes
            .saturating_add(launch.local_memory)
            .next_multiple_of(128);
        let config = shared_config(bytes)?;
        set(&mut qmd, layout.shared_size, bytes.into())?;
        for place in layout.shared_config {
            set(&mut qmd, place, config)?;
        }
    }
    let ready = Program {
        qmd,
        ..program.clone()
    };
    block.write(0, ready.qmd_bytes())?;
    for d in 0..3u8 {
        let (grid, threads) = (layout.grid[usize::from(d)], layout.threads[usize::from(d)]);
        // The grid's fields have their words to themselves, the threads' their halves and bytes.
        let count = Formula {
            fit: Fit::count(grid.width),
            ..Formula::field(Var::new(0), 0, grid.field())
        };
        block.value(
            list,
            grid.at(),
            launch.groups[usize::from(d)],
            &count,
            Operand::Groups(d),
        )?;
        let store = if threads.width == 8 {
            Store::W8
        } else {
            Store::W16
        };
        let count = Formula {
            fit: Fit::count(threads.width),
            ..Formula::narrow(Var::new(0), store)
        };
        block.value(
            list,
            threads.lo / 8,
            launch.local[usize::from(d)],
            &count,
            Operand::Local(d),
        )?;
    }
    Ok(())
}

/// A copy engine's channel.
#[derive(Debug)]
pub(crate) struct NvCopyQueue<'m> {
    chip: &'static Chip,
    recorder: Recorder<'m>,
}

impl<'m> NvCopyQueue<'m> {
    pub(crate) fn new(chip: &'static Chip, words: &'m mut [u32], list: PatchList<'m>) -> Self {
        Self {
            chip,
            recorder: Recorder::new(words, list),
        }
    }

    pub(crate) fn finish(self) -> (usize, PatchList<'m>) {
        self.recorder.finish()
    }

    pub(crate) fn setup(&mut self, what: &Setup) -> Result<&mut Self, RecordError> {
        self.host(|c, _| setup(c, what))
    }

    fn host(
        &mut self,
        encode: impl FnOnce(&mut Command<'_, '_>, &Chip) -> Result<(), RecordError>,
    ) -> Result<&mut Self, RecordError> {
        let chip = self.chip;
        self.recorder.command(|c| encode(c, chip))?;
        Ok(self)
    }
}

impl<'m> Recording<'m> for NvCopyQueue<'m> {
    fn list(&mut self) -> &mut PatchList<'m> {
        self.recorder.list()
    }
}

/// The copy engine's own semaphore has 32 bits of value.
fn copy_release(
    c: &mut Command<'_, '_>,
    chip: &Chip,
    at: SignalAt,
    value: Value,
) -> Result<(), RecordError> {
    c.word(method(COPY, SET_SEMAPHORE_A, 3));
    c.pair_high_first(at.address, Fit::aligned(chip.semaphore_bits, 4))
        .operand(Operand::Signal)?;
    c.field(0, value, Field::new(0, 32))?;
    c.words(&[
        method(COPY, LAUNCH_DMA, 1),
        FLUSH_ENABLE | SEMAPHORE_FOUR_WORDS,
    ]);
    Ok(())
}

fn copy(c: &mut Command<'_, '_>, to: Value, from: Value, line: Value) -> Result<(), RecordError> {
    let address = Fit::bits(49);
    c.word(method(COPY, OFFSET_IN_UPPER, 4));
    c.pair_high_first(from, address).operand(Operand::Source)?;
    c.pair_high_first(to, address)
        .operand(Operand::Destination)?;
    c.word(method(COPY, LINE_LENGTH_IN, 1));
    let at = c.position();
    c.word(0);
    c.set_value(at, line, Fit::count(32))
        .operand(Operand::Length)?;
    c.words(&[
        method(COPY, LAUNCH_DMA, 1),
        TRANSFER_NON_PIPELINED | SRC_PITCH | DST_PITCH,
    ]);
    Ok(())
}

impl Queue for NvCopyQueue<'_> {
    fn signal(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.host(|c, chip| copy_release(c, chip, at, value))
    }

    fn wait(&mut self, at: SignalAt, value: Value) -> Result<&mut Self, RecordError> {
        self.host(|c, chip| wait(c, chip, at, value))
    }

    /// The engine stores a value with the clock: the signal's value becomes zero.
    fn timestamp(&mut self, at: SignalAt) -> Result<&mut Self, RecordError> {
        self.host(|c, chip| copy_release(c, chip, at, 0u64.into()))
    }

    fn write(
        &mut self,
        address: Value,
        value: Value,
        width: WriteWidth,
    ) -> Result<&mut Self, RecordError> {
        self.host(|c, chip| write(c, chip, address, value, width))
    }

    fn poll_bit(
        &mut self,
        address: Value,
        mask: u32,
        expect: Value,
    ) -> Result<&mut Self, RecordError> {
        self.host(|c, chip| poll_bit(c, chip, address, mask, expect))
    }
}

impl CopyQueue for NvCopyQueue<'_> {
    /// A length that is known at launch is one launch's, and not zero.
    fn copy(&mut self, to: Value, from: Value, bytes: Value) -> Result<&mut Self, RecordError> {
        self.host(|c, _| {
            let Some(bytes) = bytes.imm() else {
                return copy(c, to, from, bytes);
            };
            let mut done = 0;
            while done < bytes {
                let n = (bytes - done).min(MAX_LINE);
                copy(c, to + done, from + done, n.into())?;
                done += n;
            }
            Ok(())
        })
    }
}

/// Where the golden data is put right.
pub(crate) struct ReleaseFlags {
    pub(crate) word: u64,
    pub(crate) enable: u32,
    pub(crate) payload64b: u32,
}

impl QmdLayout {
    /// Byte offset of the word that holds a bank's size, from bit 19 on.
    pub(crate) fn constant_size_word(&self, bank: usize) -> u64 {
        self.constant_size.plus(bank * CONSTANT_STRIDE).at() as u64
    }

    pub(crate) fn release_flags(&self) -> [ReleaseFlags; 2] {
        self.releases.map(|r| ReleaseFlags {
            word: r.enable.at() as u64,
            enable: 1 << (r.enable.lo % 32),
            payload64b: 1 << (r.payload64b.lo % 32),
        })
    }
}
