//! Launch descriptors (QMD): what the compute engine reads to run a grid.
//!
//! Three layouts: 3.0 of 64 words for Ampere and Ada, 4.0 and 5.0 of 96 words for Hopper and Blackwell. Their fields are
//! tables that were generated from NVIDIA's class headers; what the driver writes it finds there by name, when it is
//! compiled. [`Fields`] reads any descriptor back.

mod layouts;
mod tables;
pub mod view;

use hcq_nostd::value::{Field, Fit};

pub use layouts::{V3_0, V4_0, V5_0};
pub use view::{FieldValue, Fields, Unnamed};

/// Words of the longest descriptor.
pub const MAX_WORDS: usize = 96;
/// Alignment of a descriptor's address: SEND_PCAS_A and DEPENDENT_QMDn_POINTER count 256 bytes.
pub const ALIGN_LOG2: u8 = 8;
/// A signal lies at a multiple of 16.
pub(crate) const SIGNAL_ALIGN_LOG2: u8 = 4;
/// Alignment of constant bank 0: banks lie at multiples of 256.
pub(crate) const BANK_ALIGN_LOG2: u8 = 8;
/// Bits of a descriptor's address: 32 of them, counting 256 bytes.
pub const ADDRESS_BITS: u8 = 40;

/// A field of a descriptor as the header has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name, without the prefix of class and version.
    pub name: &'static str,
    /// Its lowest bit, from bit 0 of the descriptor.
    pub low: u16,
    /// Bits.
    pub width: u8,
    /// Bits from one to the next, for fields that are there several times; zero for others.
    pub stride: u8,
    /// How often it is there.
    pub count: u8,
}

impl Row {
    const fn new(name: &'static str, high: u16, low: u16) -> Self {
        Self {
            name,
            low,
            width: (high - low + 1) as u8,
            stride: 0,
            count: 1,
        }
    }

    const fn every(self, stride: u8, count: u8) -> Self {
        Self {
            stride,
            count,
            ..self
        }
    }
}

/// Bits of a descriptor: a field of one word, since none crosses a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub(crate) struct Bits {
    low: u16,
    width: u8,
    unit_log2: u8,
}

const fn same(a: &str, b: &str) -> bool {
    let (mut a, mut b) = (a.as_bytes(), b.as_bytes());
    while let ([x, rest_a @ ..], [y, rest_b @ ..]) = (a, b) {
        if *x != *y {
            return false;
        }
        (a, b) = (rest_a, rest_b);
    }
    a.is_empty() && b.is_empty()
}

/// The bits of a field of this name; the build fails if there is none.
const fn named(mut rows: &[Row], name: &str) -> Bits {
    while let [row, rest @ ..] = rows {
        if same(row.name, name) {
            return Bits {
                low: row.low,
                width: row.width,
                unit_log2: 0,
            };
        }
        rows = rest;
    }
    Bits::NONE
}

impl Bits {
    /// What a name that is in no table has. [`Layout::is_sound`] finds it.
    const NONE: Self = Self {
        low: 0,
        width: 0,
        unit_log2: 0,
    };

    /// The same, counting units of `2^unit_log2`.
    const fn unit(self, unit_log2: u8) -> Self {
        Self { unit_log2, ..self }
    }

    /// The same, `n` strides of `bits` further on.
    pub(crate) const fn nth(self, n: u16, bits: u16) -> Self {
        Self {
            low: self.low + n * bits,
            ..self
        }
    }

    /// The word that holds them.
    pub(crate) const fn word(self) -> usize {
        self.low as usize / 32
    }

    /// Byte offset of that word.
    pub(crate) const fn at(self) -> usize {
        self.word() * 4
    }

    /// Byte offset of the lowest bit, for fields that start at a byte.
    pub(crate) const fn byte(self) -> usize {
        self.low as usize / 8
    }

    /// Width in bits.
    pub(crate) const fn width(self) -> u8 {
        self.width
    }

    /// The place in that word.
    pub(crate) const fn field(self) -> Field {
        Field::new((self.low % 32) as u8, self.width).unit(self.unit_log2)
    }

    const fn is_sound(self) -> bool {
        self.width > 0 && self.low as usize % 32 + self.width as usize <= 32
    }
}

/// An address in two fields: the low 32 bits of what it is counted in, a word, and the rest, the low bits of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) lower: Bits,
    pub(crate) upper: Bits,
    /// Logarithm of what it is counted in.
    pub(crate) shift: u8,
}

impl Address {
    const fn named(rows: &[Row], names: [&str; 2], shift: u8) -> Self {
        let [lower, upper] = names;
        Self {
            lower: named(rows, lower),
            upper: named(rows, upper),
            shift,
        }
    }

    /// Bits that an address may have.
    pub(crate) const fn bits(self) -> u8 {
        32 + self.upper.width + self.shift
    }

    pub(crate) const fn nth(self, n: u16, bits: u16) -> Self {
        Self {
            lower: self.lower.nth(n, bits),
            upper: self.upper.nth(n, bits),
            shift: self.shift,
        }
    }

    const fn is_sound(self) -> bool {
        let at_words = self.lower.width == 32 && self.upper.low.is_multiple_of(32);
        self.lower.is_sound() && self.upper.is_sound() && at_words
    }

    /// Whether the two are a field of 64 bits, at the lower one's word.
    const fn is_one(self) -> bool {
        self.lower.low.is_multiple_of(32) && self.lower.low + 32 == self.upper.low
    }
}

/// A release: a semaphore written when the grid is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    pub(crate) enable: Bits,
    pub(crate) trap: Bits,
    pub(crate) payload64: Bits,
    pub(crate) address: Address,
    pub(crate) payload_lower: Bits,
    pub(crate) payload_upper: Bits,
}

impl Release {
    const fn is_sound(&self) -> bool {
        // The flags share a word, and address and payload are 64 bits in one piece each.
        self.enable.is_sound()
            && self.trap.is_sound()
            && self.payload64.is_sound()
            && self.address.is_sound()
            && self.enable.word() == self.trap.word()
            && self.enable.word() == self.payload64.word()
            && self.address.is_one()
            && self.payload_lower.low.is_multiple_of(32)
            && self.payload_lower.low + 32 == self.payload_upper.low
    }
}

/// A launch that starts when this one is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dependent {
    pub(crate) enable: Bits,
    pub(crate) action: Bits,
    pub(crate) prefetch: Bits,
    pub(crate) pointer: Bits,
}

/// Where a version has what the driver writes.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// QMD_MAJOR_VERSION.
    pub major: u8,
    /// QMD_MINOR_VERSION.
    pub minor: u8,
    /// Words of a descriptor.
    pub words: usize,
    /// All fields, by lowest bit.
    pub rows: &'static [Row],
    pub(crate) fixed: Fixed,
    pub(crate) grid: [Bits; 3],
    pub(crate) block: [Bits; 3],
    pub(crate) registers: Bits,
    pub(crate) barriers: Bits,
    pub(crate) sass_version: Bits,
    pub(crate) program: Address,
    pub(crate) prefetch: Address,
    pub(crate) prefetch_size: Bits,
    pub(crate) shared: Bits,
    /// MIN, TARGET and MAX_SM_CONFIG_SHARED_MEM_SIZE.
    pub(crate) shared_config: [Bits; 3],
    pub(crate) local_low: Bits,
    pub(crate) local_high: Bits,
    pub(crate) constant_valid: (Bits, u16),
    pub(crate) constant_invalidate: (Bits, u16),
    pub(crate) constant: Address,
    pub(crate) constant_size: Bits,
    pub(crate) releases: [Release; 2],
    pub(crate) dependent: Dependent,
    pub(crate) places: Places,
}

/// What each launch stores, worked out: byte offsets of whole words. They are narrow, so that no sum with a length wraps.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Places {
    /// Three words for the sizes of a grid.
    pub(crate) grid: u16,
    /// Two words with the sizes of a group, and where they are in them.
    pub(crate) group: u16,
    pub(crate) group_shifts: [u8; 3],
    /// Two words with the address of bank 0, and what it is counted in.
    pub(crate) bank: u16,
    pub(crate) bank_shift: u8,
    /// What the address must satisfy, and the bits that are zero then.
    pub(crate) bank_fit: Fit,
    pub(crate) bank_zero: u64,
    pub(crate) releases: [Fold; 2],
    /// The word of a dependent launch's address.
    pub(crate) pointer: u16,
    /// The word that says that there is one, and what it says.
    pub(crate) dependent: u16,
    pub(crate) dependent_flags: u32,
}

impl Places {
    /// What [`Layout::placed`] replaces.
    const NONE: Self = Self {
        grid: 0,
        group: 0,
        group_shifts: [0; 3],
        bank: 0,
        bank_shift: 0,
        bank_fit: Fit::ANY,
        bank_zero: 0,
        releases: [Fold::NONE; 2],
        pointer: 0,
        dependent: 0,
        dependent_flags: 0,
    };
}

/// What a release stores, worked out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fold {
    /// Two words with its address, and the bits of it that are zero.
    pub(crate) address: u16,
    pub(crate) zero: u64,
    /// Two words with its payload.
    pub(crate) payload: u16,
    /// The word of its flags: enabled with 64 bits of payload, in four words, and a trap.
    pub(crate) flags: u16,
    pub(crate) on: u32,
    pub(crate) trap: u32,
    /// Whether that is the upper word of the address: up to 3.0, where each release has flags of its own.
    pub(crate) shared: bool,
}

impl Fold {
    const NONE: Self = Self {
        address: 0,
        zero: 0,
        payload: 0,
        flags: 0,
        on: 0,
        trap: 0,
        shared: false,
    };

    const fn of(release: &Release) -> Self {
        let address = release.address;
        Self {
            address: address.lower.at() as u16,
            zero: u64::MAX << address.bits() | ((1 << SIGNAL_ALIGN_LOG2) - 1),
            payload: release.payload_lower.at() as u16,
            flags: release.enable.at() as u16,
            on: 1 << release.enable.field().shift | 1 << release.payload64.field().shift,
            trap: 1 << release.trap.field().shift,
            shared: release.enable.word() == address.upper.word(),
        }
    }
}

/// DEPENDENT_QMD_ACTION_QMD_SCHEDULE.
const SCHEDULE: u32 = 1;

/// Bits from one constant bank's address and size to the next.
pub(crate) const CONSTANT_STRIDE: u16 = 64;
/// Constant banks of a launch.
pub(crate) const CONSTANT_BANKS: usize = 8;

/// Fields that have the same value in every launch.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fixed {
    pub(crate) major: Bits,
    pub(crate) minor: Bits,
    pub(crate) group_id: Bits,
    /// QMD_TYPE, from 4.0 on.
    pub(crate) kind: Option<Bits>,
    /// SM_GLOBAL_CACHING_ENABLE, up to 3.0.
    pub(crate) global_caching: Option<Bits>,
    pub(crate) call_limit: Bits,
    pub(crate) sampler_index: Bits,
    pub(crate) membar: Bits,
    /// INVALIDATE_TEXTURE_HEADER, _SAMPLER, _DATA and SHADER_DATA_CACHE.
    pub(crate) invalidate: [Bits; 4],
}

impl Fixed {
    const fn named(rows: &[Row], minor: &str, kind: bool) -> Self {
        Self {
            major: named(rows, "QMD_MAJOR_VERSION"),
            minor: named(rows, minor),
            group_id: named(rows, "QMD_GROUP_ID"),
            kind: if kind {
                Some(named(rows, "QMD_TYPE"))
            } else {
                None
            },
            global_caching: if kind {
                None
            } else {
                Some(named(rows, "SM_GLOBAL_CACHING_ENABLE"))
            },
            call_limit: named(rows, "API_VISIBLE_CALL_LIMIT"),
            sampler_index: named(rows, "SAMPLER_INDEX"),
            membar: named(rows, "CWD_MEMBAR_TYPE"),
            invalidate: [
                named(rows, "INVALIDATE_TEXTURE_HEADER_CACHE"),
                named(rows, "INVALIDATE_TEXTURE_SAMPLER_CACHE"),
                named(rows, "INVALIDATE_TEXTURE_DATA_CACHE"),
                named(rows, "INVALIDATE_SHADER_DATA_CACHE"),
            ],
        }
    }

    const fn is_sound(&self) -> bool {
        let optional = match (self.kind, self.global_caching) {
            (Some(b), None) | (None, Some(b)) => b,
            _ => Bits::NONE,
        };
        all_sound(&self.invalidate)
            && all_sound(&[
                self.major,
                self.minor,
                self.group_id,
                optional,
                self.call_limit,
                self.sampler_index,
                self.membar,
            ])
    }
}

const fn all_sound(mut bits: &[Bits]) -> bool {
    while let [first, rest @ ..] = bits {
        if !first.is_sound() {
            return false;
        }
        bits = rest;
    }
    true
}

impl Layout {
    /// Bytes of a descriptor.
    pub const fn bytes(&self) -> usize {
        self.words * 4
    }

    /// The same with its [`Places`].
    const fn placed(self) -> Self {
        let ([gx, ..], [x, y, z]) = (self.grid, self.block);
        let group = 32 * x.word() as u16;
        let (dependent, bank_bits) = (&self.dependent, self.constant.bits());
        let [first, second] = &self.releases;
        let places = Places {
            grid: gx.at() as u16,
            group: x.at() as u16,
            group_shifts: [
                (x.low - group) as u8,
                (y.low - group) as u8,
                (z.low - group) as u8,
            ],
            bank: self.constant.lower.at() as u16,
            bank_shift: self.constant.shift,
            bank_fit: Fit::aligned(bank_bits, BANK_ALIGN_LOG2),
            bank_zero: u64::MAX << bank_bits | ((1 << BANK_ALIGN_LOG2) - 1),
            releases: [Fold::of(first), Fold::of(second)],
            pointer: dependent.pointer.at() as u16,
            dependent: dependent.enable.at() as u16,
            dependent_flags: 1 << dependent.enable.field().shift
                | SCHEDULE << dependent.action.field().shift
                | 1 << dependent.prefetch.field().shift,
        };
        Self { places, ..self }
    }

    /// Whether a launch can write its sizes in whole words: a grid's as three, a group's as two, whose other bits no launch
    /// changes.
    const fn has_whole_sizes(&self) -> bool {
        let ([gx, gy, gz], [x, y, z]) = (self.grid, self.block);
        let group = x.word();
        let mut shared: &[Bits] = &[
            self.shared,
            self.shared_config[0],
            self.shared_config[1],
            self.shared_config[2],
        ];
        while let [one, rest @ ..] = shared {
            if one.word() == group || one.word() == group + 1 {
                return false;
            }
            shared = rest;
        }
        gx.low.is_multiple_of(32)
            && gx.low + 32 == gy.low
            && gy.low + 32 == gz.low
            && y.word() <= group + 1
            && z.word() <= group + 1
            && x.low < y.low
            && y.low < z.low
    }

    /// Whether every field was found in the table.
    const fn is_sound(&self) -> bool {
        let [r0, r1] = &self.releases;
        self.fixed.is_sound()
            && self.has_whole_sizes()
            && self.constant.is_one()
            && all_sound(&self.grid)
            && all_sound(&self.block)
            && all_sound(&self.shared_config)
            && all_sound(&[
                self.registers,
                self.barriers,
                self.sass_version,
                self.prefetch_size,
                self.shared,
                self.local_low,
                self.local_high,
                self.constant_valid.0,
                self.constant_invalidate.0,
                self.constant_size,
                self.dependent.enable,
                self.dependent.action,
                self.dependent.prefetch,
                self.dependent.pointer,
            ])
            && self.program.is_sound()
            && self.prefetch.is_sound()
            && self.constant.is_sound()
            && r0.is_sound()
            && r1.is_sound()
            // Flags of their own, or one word for both.
            && Fold::of(r0).shared == Fold::of(r1).shared
            && (Fold::of(r0).shared || r0.enable.word() == r1.enable.word())
            // One word for all of a dependent launch's flags.
            && self.dependent.enable.word() == self.dependent.action.word()
            && self.dependent.enable.word() == self.dependent.prefetch.word()
            && self.dependent.pointer.low.is_multiple_of(32)
            && self.dependent.pointer.width == 32
    }

    const fn shared_config(rows: &[Row]) -> [Bits; 3] {
        [
            named(rows, "MIN_SM_CONFIG_SHARED_MEM_SIZE"),
            named(rows, "TARGET_SM_CONFIG_SHARED_MEM_SIZE"),
            named(rows, "MAX_SM_CONFIG_SHARED_MEM_SIZE"),
        ]
    }

    const fn grid(rows: &[Row], names: [&str; 3]) -> [Bits; 3] {
        let [x, y, z] = names;
        [named(rows, x), named(rows, y), named(rows, z)]
    }

    const fn block(rows: &[Row]) -> [Bits; 3] {
        [
            named(rows, "CTA_THREAD_DIMENSION0"),
            named(rows, "CTA_THREAD_DIMENSION1"),
            named(rows, "CTA_THREAD_DIMENSION2"),
        ]
    }
}

/// A name that is in no table stops the build here.
const _: () = assert!(V3_0.is_sound() && V4_0.is_sound() && V5_0.is_sound());

/// A descriptor under construction, in this side's memory. A shorter one leaves the end alone.
pub(crate) type Words = [u32; MAX_WORDS];

#[cfg(test)]
mod tests;
