//! Queue meta data: what describes a launch of a grid to the compute engine.
//!
//! A QMD is a structure of 64 or 96 words in memory, aligned to 256 bytes. Each generation has layouts of its own; the tables
//! have all fields of NVIDIA's headers by their names there. A bit that belongs to no field has to be 0, and so has a field
//! whose meaning is not simulated: [`Grid::read`] tells which.

use std::sync::LazyLock;

use super::semaphore::{Reduction, Release};
use crate::engine::Cause;

mod v03_00;
mod v04_00;
mod v05_00;

/// Words of the longest layout.
pub(super) const MAX_WORDS: usize = 96;

/// A field, or several of the same kind at equal distances.
#[derive(Clone, Copy, Debug)]
struct Field {
    name: &'static str,
    /// Its lowest bit.
    bit: u16,
    bits: u16,
    /// Bits from one to the next.
    stride: u16,
    count: u16,
}

impl Field {
    const fn one(name: &'static str, bit: u16, bits: u16) -> Self {
        Self::each(name, bit, bits, 0, 1)
    }

    const fn each(name: &'static str, bit: u16, bits: u16, stride: u16, count: u16) -> Self {
        Self {
            name,
            bit,
            bits,
            stride,
            count,
        }
    }
}

/// A layout.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) major: u32,
    pub(super) minor: u32,
    /// Words of a QMD.
    pub(super) words: usize,
    fields: &'static [Field],
    /// Bits that belong to a field, a word each.
    defined: LazyLock<[u32; MAX_WORDS]>,
}

/// Ampere and Ada.
pub(super) static V03_00: Version = Version {
    major: 3,
    minor: 0,
    words: 64,
    fields: v03_00::FIELDS,
    defined: LazyLock::new(|| defined(v03_00::FIELDS)),
};
/// Hopper.
pub(super) static V04_00: Version = Version {
    major: 4,
    minor: 0,
    words: 96,
    fields: v04_00::FIELDS,
    defined: LazyLock::new(|| defined(v04_00::FIELDS)),
};
/// Blackwell.
pub(super) static V05_00: Version = Version {
    major: 5,
    minor: 0,
    words: 96,
    fields: v05_00::FIELDS,
    defined: LazyLock::new(|| defined(v05_00::FIELDS)),
};

/// Fields with a meaning here, and those that change nothing which programs could rely on.
static TAKEN: &[&str] = &[
    "QMD_GROUP_ID",
    "QMD_TYPE",
    "QMD_VERSION",
    "QMD_MINOR_VERSION",
    "QMD_MAJOR_VERSION",
    "SM_GLOBAL_CACHING_ENABLE",
    "INVALIDATE_TEXTURE_HEADER_CACHE",
    "INVALIDATE_TEXTURE_SAMPLER_CACHE",
    "INVALIDATE_TEXTURE_DATA_CACHE",
    "INVALIDATE_SHADER_DATA_CACHE",
    "INVALIDATE_INSTRUCTION_CACHE",
    "INVALIDATE_SHADER_CONSTANT_CACHE",
    "DEMOTE_L2_EVICT_LAST",
    "API_VISIBLE_CALL_LIMIT",
    "SAMPLER_INDEX",
    "DISABLE_AUTO_INVALIDATE",
    "CWD_MEMBAR_TYPE",
    "SEQUENTIALLY_RUN_CTAS",
    "CTA_RASTER_WIDTH",
    "CTA_RASTER_HEIGHT",
    "CTA_RASTER_DEPTH",
    "GRID_WIDTH",
    "GRID_HEIGHT",
    "GRID_DEPTH",
    "CTA_THREAD_DIMENSION0",
    "CTA_THREAD_DIMENSION1",
    "CTA_THREAD_DIMENSION2",
    "REGISTER_COUNT_V",
    "REGISTER_COUNT",
    "BARRIER_COUNT",
    "SHARED_MEMORY_SIZE",
    "SHARED_MEMORY_SIZE_SHIFTED7",
    "MIN_SM_CONFIG_SHARED_MEM_SIZE",
    "TARGET_SM_CONFIG_SHARED_MEM_SIZE",
    "MAX_SM_CONFIG_SHARED_MEM_SIZE",
    "SHADER_LOCAL_MEMORY_LOW_SIZE",
    "SHADER_LOCAL_MEMORY_HIGH_SIZE",
    "SHADER_LOCAL_MEMORY_LOW_SIZE_SHIFTED4",
    "SHADER_LOCAL_MEMORY_HIGH_SIZE_SHIFTED4",
    "PROGRAM_ADDRESS_LOWER",
    "PROGRAM_ADDRESS_UPPER",
    "PROGRAM_ADDRESS_LOWER_SHIFTED4",
    "PROGRAM_ADDRESS_UPPER_SHIFTED4",
    "PROGRAM_PREFETCH_ADDR_LOWER_SHIFTED",
    "PROGRAM_PREFETCH_ADDR_UPPER_SHIFTED",
    "PROGRAM_PREFETCH_SIZE",
    "PROGRAM_PREFETCH_TYPE",
    "ICC_PREFETCH_SIZE",
    "SASS_VERSION",
    "CORRELATION_ID",
    "DEBUG_ID_LOWER",
    "DEBUG_ID_UPPER",
];

/// As [`TAKEN`], of the families of fields that begin so.
static TAKEN_FAMILIES: &[&str] = &[
    "CONSTANT_BUFFER_",
    "RELEASE0_",
    "RELEASE1_",
    "RELEASE2_",
    "RELEASE_",
    "DEPENDENT_QMD",
];

/// A constant bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bank {
    /// GPU address.
    pub(super) address: u64,
    /// Bytes.
    pub(super) bytes: u32,
    /// Its lines in the constant cache are dropped before the launch.
    pub(super) invalidate: bool,
}

/// Which caches are emptied before the launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Invalidate {
    pub(super) data: bool,
    pub(super) instruction: bool,
    pub(super) constant: bool,
}

/// What a QMD asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    /// Nothing runs; what is written afterwards is.
    pub(super) null: bool,
    /// Work-groups ("CTAs").
    pub(super) groups: [u32; 3],
    /// Work-items ("threads") of one.
    pub(super) items: [u32; 3],
    /// One group after the other.
    pub(super) in_order: bool,
    pub(super) program: u64,
    pub(super) registers: u32,
    pub(super) barriers: u32,
    /// Bytes of shared memory of a group, those that the system keeps for itself included.
    pub(super) shared: u32,
    /// `MIN_`, `TARGET_` and `MAX_SM_CONFIG_SHARED_MEM_SIZE`: kilobytes / 4 + 1.
    pub(super) configs: [u32; 3],
    /// Bytes of local memory of an item at the low and at the high end.
    pub(super) local: [u32; 2],
    /// `SASS_VERSION`; `None` if this layout has none.
    pub(super) sass: Option<u32>,
    pub(super) banks: [Option<Bank>; 8],
    pub(super) invalidate: Invalidate,
    pub(super) releases: Vec<Release>,
    /// Addresses of QMDs that are scheduled when this one is done.
    pub(super) dependents: Vec<u64>,
}

/// Words of a QMD and what they mean.
#[derive(Clone, Copy, Debug)]
struct Reader<'a> {
    version: &'static Version,
    words: &'a [u32],
}

impl Reader<'_> {
    fn field(&self, name: &str) -> Option<&'static Field> {
        self.version.fields.iter().find(|field| field.name == name)
    }

    fn bits(&self, field: &Field, index: u16) -> u32 {
        let bit = usize::from(field.bit) + usize::from(field.stride) * usize::from(index);
        let word = |at: usize| u64::from(self.words.get(at).copied().unwrap_or_default());
        // No field is longer than a word; some cross from one to the next.
        let both = word(bit / 32) | word(bit / 32 + 1) << 32;
        let mask = (1u64 << field.bits) - 1;
        (both >> (bit % 32) & mask) as u32
    }

    fn each(&self, name: &str, index: u16) -> Option<u32> {
        let field = self.field(name).filter(|field| index < field.count)?;
        Some(self.bits(field, index))
    }

    fn opt(&self, name: &str) -> Option<u32> {
        self.each(name, 0)
    }

    /// 0 if this layout has no such field.
    fn get(&self, name: &str) -> u32 {
        self.opt(name).unwrap_or_default()
    }

    /// A field of one of the three releases, which are numbered in the name in version 3 and by index since.
    fn release(&self, index: u16, name: &str) -> u32 {
        self.opt(&format!("RELEASE{index}_{name}"))
            .or_else(|| self.each(&format!("RELEASE_{name}"), index))
            .unwrap_or_default()
    }

    fn semaphore(&self, index: u16, name: &str, old: &str) -> u32 {
        self.opt(&format!("RELEASE{index}_{old}"))
            .or_else(|| self.opt(&format!("RELEASE_SEMAPHORE{index}_{name}")))
            .unwrap_or_default()
    }

    fn dependent(&self, index: u16, name: &str) -> u32 {
        self.opt(&format!("DEPENDENT_QMD{index}_{name}"))
            .or_else(|| self.each(&format!("DEPENDENT_QMD_{name}"), index))
            .unwrap_or_default()
    }

    /// Fields that are not 0, with their place among their kind.
    fn set(&self) -> impl Iterator<Item = (&'static Field, u16, u32)> {
        self.version.fields.iter().flat_map(move |field| {
            (0..field.count)
                .map(move |index| (field, index, self.bits(field, index)))
                .filter(|&(_, _, value)| value != 0)
        })
    }
}

fn wide(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

fn refuse<T>(text: String) -> Result<T, Cause> {
    Err(Cause::Launch(text))
}

/// A field with its number, if there are several of its kind.
fn label(field: &Field, index: u16) -> String {
    if field.count == 1 {
        field.name.into()
    } else {
        format!("{}({index})", field.name)
    }
}

/// The fields of a QMD that are not 0, one a line.
pub(super) fn describe(version: &'static Version, words: &[u32]) -> String {
    let mut text = String::new();
    for (field, index, value) in (Reader { version, words }).set() {
        text.push_str(&format!("\n  {} = {value:#x}", label(field, index)));
    }
    text
}

/// The bits of each word that belong to a field.
fn defined(fields: &[Field]) -> [u32; MAX_WORDS] {
    let mut words = [0; MAX_WORDS];
    for field in fields {
        for index in 0..field.count {
            let first = field.bit + field.stride * index;
            for bit in first..first + field.bits {
                if let Some(word) = words.get_mut(usize::from(bit / 32)) {
                    *word |= 1 << (bit % 32);
                }
            }
        }
    }
    words
}

impl Grid {
    /// Reads a QMD.
    ///
    /// # Errors
    /// [`Cause::Packet`] for bits that belong to no field, [`Cause::Launch`] for another version, for fields that are not
    /// simulated and for values that mean nothing.
    pub(super) fn read(version: &'static Version, words: &[u32]) -> Result<Self, Cause> {
        let qmd = Reader { version, words };
        let minor = qmd
            .opt("QMD_MINOR_VERSION")
            .unwrap_or_else(|| qmd.get("QMD_VERSION"));
        let major = qmd.get("QMD_MAJOR_VERSION");
        if (major, minor) != (version.major, version.minor) {
            return refuse(format!(
                "a QMD of version {major}.{minor}; this GPU takes {}.{}",
                version.major, version.minor
            ));
        }
        for (at, (&word, defined)) in words.iter().zip(&*version.defined).enumerate() {
            let reserved = word & !defined;
            if reserved != 0 {
                return Err(Cause::Packet(format!(
                    "word {at} of the QMD has reserved bits {reserved:#x}"
                )));
            }
        }
        for (field, index, value) in qmd.set() {
            let taken = TAKEN.contains(&field.name)
                || TAKEN_FAMILIES.iter().any(|f| field.name.starts_with(f));
            if !taken {
                let name = label(field, index);
                return refuse(format!("{name} = {value:#x} is not simulated"));
            }
        }
        // QMD_TYPE_GRID_NULL and QMD_TYPE_GRID_CTA; before version 4 there is no type.
        let null = match qmd.opt("QMD_TYPE") {
            None | Some(2) => false,
            Some(1) => true,
            Some(other) => return refuse(format!("QMD_TYPE {other} is not simulated")),
        };
        let dimension = |new: &str, old: &str| qmd.opt(new).unwrap_or_else(|| qmd.get(old));
        let shifted = |name: &str, shift: u32| {
            let high = qmd.opt(&format!("{name}_SHIFTED{shift}"));
            high.map_or_else(|| qmd.get(name), |value| value << shift)
        };
        let program = match qmd.opt("PROGRAM_ADDRESS_LOWER") {
            Some(low) => wide(low, qmd.get("PROGRAM_ADDRESS_UPPER")),
            None => {
                let high = qmd.get("PROGRAM_ADDRESS_UPPER_SHIFTED4");
                wide(qmd.get("PROGRAM_ADDRESS_LOWER_SHIFTED4"), high) << 4
            }
        };
        let mut banks = [None; 8];
        for (index, bank) in (0..).zip(&mut banks) {
            if qmd.each("CONSTANT_BUFFER_VALID", index) == Some(1) {
                *bank = Some(qmd.bank(index));
            }
        }
        Ok(Self {
            null,
            groups: [
                dimension("GRID_WIDTH", "CTA_RASTER_WIDTH"),
                dimension("GRID_HEIGHT", "CTA_RASTER_HEIGHT"),
                dimension("GRID_DEPTH", "CTA_RASTER_DEPTH"),
            ],
            items: [
                qmd.get("CTA_THREAD_DIMENSION0"),
                qmd.get("CTA_THREAD_DIMENSION1"),
                qmd.get("CTA_THREAD_DIMENSION2"),
            ],
            in_order: qmd.get("SEQUENTIALLY_RUN_CTAS") != 0,
            program,
            registers: dimension("REGISTER_COUNT", "REGISTER_COUNT_V"),
            barriers: qmd.get("BARRIER_COUNT"),
            shared: shifted("SHARED_MEMORY_SIZE", 7),
            configs: [
                qmd.get("MIN_SM_CONFIG_SHARED_MEM_SIZE"),
                qmd.get("TARGET_SM_CONFIG_SHARED_MEM_SIZE"),
                qmd.get("MAX_SM_CONFIG_SHARED_MEM_SIZE"),
            ],
            local: [
                shifted("SHADER_LOCAL_MEMORY_LOW_SIZE", 4),
                shifted("SHADER_LOCAL_MEMORY_HIGH_SIZE", 4),
            ],
            sass: qmd.opt("SASS_VERSION"),
            banks,
            invalidate: Invalidate {
                data: qmd.get("INVALIDATE_SHADER_DATA_CACHE") != 0,
                instruction: qmd.get("INVALIDATE_INSTRUCTION_CACHE") != 0,
                constant: qmd.get("INVALIDATE_SHADER_CONSTANT_CACHE") != 0,
            },
            releases: qmd.releases()?,
            dependents: qmd.dependents()?,
        })
    }
}

impl Reader<'_> {
    fn bank(&self, index: u16) -> Bank {
        let part = |name: &str| self.each(name, index);
        let address = match part("CONSTANT_BUFFER_ADDR_LOWER") {
            Some(low) => wide(low, part("CONSTANT_BUFFER_ADDR_UPPER").unwrap_or_default()),
            None => {
                let low = part("CONSTANT_BUFFER_ADDR_LOWER_SHIFTED6").unwrap_or_default();
                let high = part("CONSTANT_BUFFER_ADDR_UPPER_SHIFTED6").unwrap_or_default();
                wide(low, high) << 6
            }
        };
        Bank {
            address,
            bytes: part("CONSTANT_BUFFER_SIZE_SHIFTED4").unwrap_or_default() << 4,
            invalidate: part("CONSTANT_BUFFER_INVALIDATE") == Some(1),
        }
    }

    fn releases(&self) -> Result<Vec<Release>, Cause> {
        let mut all = Vec::new();
        for index in 0..3 {
            if self.release(index, "ENABLE") == 0 {
                continue;
            }
            let wide_payload = self.release(index, "PAYLOAD64B") != 0;
            // SEMAPHORE_FOUR_WORDS, _ONE_WORD, _TWO_WORDS.
            let structure = self.release(index, "STRUCTURE_SIZE");
            let timestamp = match (structure, wide_payload) {
                (0, _) => true,
                (1, false) | (2, true) => false,
                _ => {
                    return refuse(format!(
                        "release {index}: STRUCTURE_SIZE {structure} with PAYLOAD64B {}",
                        u32::from(wide_payload)
                    ));
                }
            };
            let trap = self.release(index, "TRAP_TYPE");
            if trap != 0 {
                return refuse(format!(
                    "release {index}: TRAP_TYPE {trap} is not simulated"
                ));
            }
            let reduction = if self.release(index, "REDUCTION_ENABLE") == 0 {
                None
            } else {
                let format = self.release(index, "REDUCTION_FORMAT");
                let op = Reduction::of_compute(self.release(index, "REDUCTION_OP"));
                match (op, format) {
                    (Some(op), 0 | 1) => Some((op, format == 1)),
                    _ => return refuse(format!("release {index}: REDUCTION_FORMAT {format}")),
                }
            };
            let release = Release {
                address: wide(
                    self.semaphore(index, "ADDR_LOWER", "ADDRESS_LOWER"),
                    self.semaphore(index, "ADDR_UPPER", "ADDRESS_UPPER"),
                ),
                payload: wide(
                    self.semaphore(index, "PAYLOAD_LOWER", "PAYLOAD_LOWER"),
                    self.semaphore(index, "PAYLOAD_UPPER", "PAYLOAD_UPPER"),
                ),
                wide: wide_payload,
                timestamp,
                reduction,
            };
            release.check()?;
            all.push(release);
        }
        Ok(all)
    }

    fn dependents(&self) -> Result<Vec<u64>, Cause> {
        let mut all = Vec::new();
        for index in 0..2 {
            if self.dependent(index, "ENABLE") == 0 {
                continue;
            }
            // QMD_SCHEDULE and QMD_INVALIDATE_COPY_SCHEDULE: nothing of a QMD is kept between two launches here.
            let action = self.dependent(index, "ACTION");
            if !matches!(action, 1 | 3) {
                return refuse(format!(
                    "DEPENDENT_QMD{index}_ACTION {action} is not simulated"
                ));
            }
            let pointer = self.opt(&format!("DEPENDENT_QMD{index}_POINTER"));
            let pointer = pointer.or_else(|| self.each("DEPENDENT_QMD_POINTER", index));
            match pointer {
                Some(pointer) => all.push(u64::from(pointer) << 8),
                None => return refuse(format!("this layout has no DEPENDENT_QMD{index}_POINTER")),
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
pub(super) mod tests;
