//! Launch descriptors (QMD 3.0 and 5.0): their fields as data, a prepared program, and what is written per launch.

use hcq_nostd::args::ArgLayout;
use hcq_nostd::patch::{Formula, PatchList, Store};
use hcq_nostd::queue::{Launch, Program as _};
use hcq_nostd::record::{Block, NameOperand, Operand, RecordError};
use hcq_nostd::value::{Field, Fit, Value, Var};

/// Bits `lo + width - 1 : lo` of a launch descriptor, counting units of `2^unit`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bits {
    lo: usize,
    width: u8,
    unit: u8,
}

pub(super) const fn bits(hi: usize, lo: usize) -> Bits {
    Bits {
        lo,
        width: (hi - lo + 1) as u8,
        unit: 0,
    }
}

impl Bits {
    /// Byte offset of the word that holds them. None crosses a word.
    pub(super) const fn at(self) -> usize {
        self.lo / 32 * 4
    }

    /// The place in that word.
    pub(super) const fn field(self) -> Field {
        Field::new((self.lo % 32) as u8, self.width).unit(self.unit)
    }

    pub(super) const fn unit(self, unit: u8) -> Self {
        Self { unit, ..self }
    }

    pub(super) const fn plus(self, bits: usize) -> Self {
        Self {
            lo: self.lo + bits,
            ..self
        }
    }
}

/// One of the two releases.
#[derive(Clone, Copy, Debug)]
pub(super) struct Release {
    pub(super) enable: Bits,
    pub(super) payload64b: Bits,
    pub(super) address_lower: Bits,
    pub(super) address_upper: Bits,
    pub(super) payload_lower: Bits,
}

/// What differs between generations of launch descriptors, as data with the vendor's bit ranges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QmdLayout {
    pub(crate) bytes: usize,
    pub(super) grid: [Bits; 3],
    pub(super) threads: [Bits; 3],
    /// The low 32 and the upper bits of bank 0's address.
    pub(super) constant_address: [Bits; 2],
    /// The unit is 16 bytes, in both.
    pub(super) constant_size: Bits,
    pub(super) shared_size: Bits,
    pub(super) shared_config: [Bits; 2],
    pub(super) releases: [Release; 2],
    pub(super) dependent_pointer: Bits,
    /// Enable, action and prefetch, from this bit on.
    pub(super) dependent: Bits,
}

pub(super) const DEPENDENT_ENABLE_SCHEDULE_PREFETCH: u64 = 1 | 1 << 1 | 1 << 4;
/// Banks are this many bits apart.
pub(super) const CONSTANT_STRIDE: usize = 64;

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
    pub(super) semaphore_bits: u8,
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

pub(super) const QMD_WORDS_MAX: usize = 96;
/// Descriptors and bank 0 lie at such an alignment.
pub(super) const QMD_ALIGN: usize = 256;

/// A descriptor under construction, in this side's memory.
pub(super) type Qmd = [u32; QMD_WORDS_MAX];

pub(super) fn set(qmd: &mut Qmd, at: Bits, value: u64) -> Result<(), RecordError> {
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
}

impl hcq_nostd::queue::Program for Program<'_> {
    fn kernargs_size(&self) -> usize {
        (self.layout.size as usize).max(self.prefix.len() * 4)
    }

    fn kernargs_align(&self) -> usize {
        QMD_ALIGN
    }
}

pub(super) fn release_enable(releases: &[Release]) -> u32 {
    releases.iter().fold(0, |word, r| {
        word | 1 << (r.enable.lo % 32) | 1 << (r.payload64b.lo % 32)
    })
}

pub(super) fn fold_release(
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

/// The smallest configuration that holds so many bytes: kilobytes / 4 + 1.
pub(super) fn shared_config(bytes: u32) -> Result<u64, RecordError> {
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
pub(super) fn write_qmd(
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
    block.write(0, &zerocopy::IntoBytes::as_bytes(&qmd)[..layout.bytes])?;
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
