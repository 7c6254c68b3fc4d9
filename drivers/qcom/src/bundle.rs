//! Several programs of Mesa's ir3 compiler in a file.
//!
//! The compiler gives instructions and a structure that says how to run them, and has no file for both. This is one: what
//! [`Variant`] has of each program, its name, and its arguments as the fields of a C struct. Little endian; nothing in the file is
//! trusted.
//!
//! | bytes | what |
//! |---|---|
//! | 0 | `IR3PROGS` |
//! | 8 | version, 1 |
//! | 12 | number of the chip that the instructions are for, such as 630 |
//! | 16 | number of programs |
//! | 20 | bytes of the file |
//! | 24 | 8 bytes that are 0 |
//! | 32 | a record of 24 words for each program, then what these name |
//!
//! | words of a record | what |
//! |---|---|
//! | 0, 1 | where the name is, and its bytes |
//! | 2, 3 | the signature: fields of a C struct, `texture2d` and `image2d` as types of images |
//! | 4, 5 | the arguments, 4 bytes each, and how many: kind (0 address of a buffer, 1 number, 2 texture, 3 storage image), bytes of a number |
//! | 6, 7 | the instructions, at a multiple of 8 |
//! | 8, 9 | the immediates, and how many |
//! | 10, 11 | the textures in each texture register, a byte each |
//! | 12 to 14 | `branchstack`, `pvtmem_size`, `shared_size` |
//! | 15, 16 | `info.max_reg`, `info.max_half_reg`, signed |
//! | 17 | `mergedregs` bit 0, `info.double_threadsize` bit 1, reads `num_work_groups` bit 2 |
//! | 18 | `cs.work_group_id` bits 7:0, `cs.local_invocation_id` bits 15:8 |
//! | 19 to 21 | `constlen`, `max_const_offset_vec4`, `ubo_state.range[0].offset` |
//! | 22, 23 | offset and size of the driver's parameters |
//!
//! ```
//! use hcq_qcom::bundle::{Bundle, ParamKind};
//!
//! let file = include_bytes!("../../../tests/conformance/kernels/qcom/stock-a630.ir3");
//! let bundle = Bundle::parse(file)?;
//! let fill = bundle.find("fill").ok_or("no such program")?;
//! assert_eq!(fill.signature(), "uint32_t *out; uint32_t value; uint32_t n;");
//! assert!(fill.params().eq([ParamKind::Buffer, ParamKind::Scalar(4), ParamKind::Scalar(4)]));
//! let mut immediates = [0; 16];
//! let kernel = fill.variant(&mut immediates)?.kernel(0x5_2000_0000)?;
//! assert_eq!(kernel.code_bytes as usize, fill.code().len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::ir3::Variant;

/// What a file begins with.
pub const MAGIC: [u8; 8] = *b"IR3PROGS";
const VERSION: u32 = 1;
const HEADER: usize = 32;
const RECORD: usize = 96;
/// Bytes of an instruction.
const INSTRUCTION: u32 = 8;
// Words of a record.
const NAME: usize = 0;
const SIGNATURE: usize = 2;
const ARGUMENTS: usize = 4;
const CODE: usize = 6;
const IMMEDIATES: usize = 8;
const TEXTURES: usize = 10;
const FLAGS: usize = 17;
const REGISTERS: usize = 18;
const MERGED: u32 = 1;
const DOUBLE: u32 = 2;
const GROUP_COUNT: u32 = 4;

/// Why a file is none of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum BundleError {
    /// It does not begin as such a file.
    Magic,
    /// It ends before something that it says it has.
    Truncated {
        /// Where that is.
        at: u32,
        /// Bytes of it.
        bytes: u64,
    },
    /// A number that cannot be.
    Number {
        /// Offset of its word.
        at: u32,
        /// It.
        value: u32,
    },
    /// A name or a signature that is no text.
    Text {
        /// Where it is.
        at: u32,
    },
    /// Memory for fewer immediates than there are.
    Immediates {
        /// Immediates of the program.
        need: usize,
        /// Room.
        have: usize,
    },
}

impl core::fmt::Display for BundleError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Magic => f.write_str("the file has no programs of ir3"),
            Self::Truncated { at, bytes } => {
                write!(f, "the file ends before the {bytes} bytes at {at:#x}")
            }
            Self::Number { at, value } => write!(f, "{value:#x} at {at:#x} cannot be"),
            Self::Text { at } => write!(f, "what is at {at:#x} is no text"),
            Self::Immediates { need, have } => {
                write!(
                    f,
                    "the program has {need} immediates, there is room for {have}"
                )
            }
        }
    }
}

impl core::error::Error for BundleError {}

/// What an argument is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ParamKind {
    /// A buffer's device address.
    Buffer,
    /// A number of 1, 2, 4 or 8 bytes.
    Scalar(u8),
    /// A texture.
    Texture,
    /// A storage image.
    Storage,
}

impl ParamKind {
    const fn read([kind, bytes, zero, zero_too]: [u8; 4]) -> Option<Self> {
        match (kind, bytes, zero, zero_too) {
            (0, 8, 0, 0) => Some(Self::Buffer),
            (1, 1 | 2 | 4 | 8, 0, 0) => Some(Self::Scalar(bytes)),
            (2, 0, 0, 0) => Some(Self::Texture),
            (3, 0, 0, 0) => Some(Self::Storage),
            _ => None,
        }
    }
}

/// A file of programs, all of which have been looked at.
#[derive(Clone, Copy, Debug)]
pub struct Bundle<'d> {
    data: &'d [u8],
    chip: u16,
    records: &'d [[u8; RECORD]],
}

/// A program of a file.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'d> {
    words: [u32; RECORD / 4],
    name: &'d str,
    signature: &'d str,
    arguments: &'d [[u8; 4]],
    code: &'d [u8],
    immediates: &'d [[u8; 4]],
    textures: &'d [u8],
}

fn get(data: &[u8], at: u32, bytes: u64) -> Result<&[u8], BundleError> {
    let end = usize::try_from(u64::from(at).saturating_add(bytes)).ok();
    end.and_then(|end| data.get(at as usize..end))
        .ok_or(BundleError::Truncated { at, bytes })
}

fn word(data: &[u8], at: u32) -> Result<u32, BundleError> {
    match get(data, at, 4)?.first_chunk() {
        Some(bytes) => Ok(u32::from_le_bytes(*bytes)),
        None => Err(BundleError::Truncated { at, bytes: 4 }),
    }
}

impl<'d> Bundle<'d> {
    /// The programs of a file.
    ///
    /// # Errors
    /// [`BundleError`].
    pub fn parse(data: &'d [u8]) -> Result<Self, BundleError> {
        if !data.starts_with(&MAGIC) {
            return Err(BundleError::Magic);
        }
        let is = |at, wanted: fn(u32, usize) -> bool| {
            let value = word(data, at)?;
            match wanted(value, data.len()) {
                true => Ok(value),
                false => Err(BundleError::Number { at, value }),
            }
        };
        is(8, |version, _| version == VERSION)?;
        let chip = is(12, |chip, _| u16::try_from(chip).is_ok())? as u16;
        let count = word(data, 16)?;
        is(20, |bytes, have| bytes as usize == have)?;
        is(24, |zero, _| zero == 0)?;
        is(28, |zero, _| zero == 0)?;
        let records = get(data, HEADER as u32, u64::from(count) * RECORD as u64)?;
        let bundle = Self {
            data,
            chip,
            records: records.as_chunks().0,
        };
        for (record, at) in bundle.records.iter().zip((HEADER as u32..).step_by(RECORD)) {
            bundle.entry(record, at)?;
        }
        Ok(bundle)
    }

    fn entry(&self, record: &'d [u8; RECORD], at: u32) -> Result<Entry<'d>, BundleError> {
        let mut words = [0; RECORD / 4];
        for (word, bytes) in words.iter_mut().zip(record.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        let one = |i: usize| words.get(i).copied().unwrap_or_default();
        let wrong = |i: usize| BundleError::Number {
            at: at.wrapping_add(4 * i as u32),
            value: one(i),
        };
        let part = |i, size: u64| get(self.data, one(i), u64::from(one(i + 1)) * size);
        let text =
            |i| core::str::from_utf8(part(i, 1)?).map_err(|_| BundleError::Text { at: one(i) });
        let name = text(NAME)?;
        if name.is_empty() {
            return Err(wrong(NAME + 1));
        }
        let arguments = part(ARGUMENTS, 4)?.as_chunks().0;
        if arguments.iter().any(|a| ParamKind::read(*a).is_none()) {
            return Err(wrong(ARGUMENTS));
        }
        let instructions = one(CODE + 1);
        if instructions == 0 || !instructions.is_multiple_of(INSTRUCTION) {
            return Err(wrong(CODE + 1));
        }
        if !one(CODE).is_multiple_of(INSTRUCTION) {
            return Err(wrong(CODE));
        }
        if one(FLAGS) > (MERGED | DOUBLE | GROUP_COUNT) {
            return Err(wrong(FLAGS));
        }
        if one(REGISTERS) > 0xffff {
            return Err(wrong(REGISTERS));
        }
        for i in [15, 16] {
            i16::try_from(one(i).cast_signed()).map_err(|_| wrong(i))?;
        }
        Ok(Entry {
            words,
            name,
            signature: text(SIGNATURE)?,
            arguments,
            code: part(CODE, 1)?,
            immediates: part(IMMEDIATES, 4)?.as_chunks().0,
            textures: part(TEXTURES, 1)?,
        })
    }

    /// Number of the chip that the instructions are for, such as 630.
    pub const fn chip(&self) -> u16 {
        self.chip
    }

    /// The programs, in the file's order.
    pub fn programs(&self) -> impl Iterator<Item = Entry<'d>> + Clone + use<'d> {
        let bundle = *self;
        // All of them were read before.
        bundle
            .records
            .iter()
            .filter_map(move |record| bundle.entry(record, 0).ok())
    }

    /// The program of this name.
    pub fn find(&self, name: &str) -> Option<Entry<'d>> {
        self.programs().find(|program| program.name == name)
    }
}

impl<'d> Entry<'d> {
    /// Its name.
    pub const fn name(&self) -> &'d str {
        self.name
    }

    /// Its arguments as the fields of a C struct, such as `uint32_t *out; uint32_t n;`, with `texture2d` and `image2d` as types
    /// of images. May be empty though there are arguments.
    pub const fn signature(&self) -> &'d str {
        self.signature
    }

    /// What its arguments are, in order.
    pub fn params(&self) -> impl ExactSizeIterator<Item = ParamKind> + Clone + use<'d> {
        // All of them were read before.
        self.arguments
            .iter()
            .map(|bytes| ParamKind::read(*bytes).unwrap_or(ParamKind::Buffer))
    }

    /// Its instructions, to be copied to where the GPU sees them.
    pub const fn code(&self) -> &'d [u8] {
        self.code
    }

    /// How many immediates [`variant`](Self::variant) needs room for.
    pub const fn immediate_count(&self) -> usize {
        self.immediates.len()
    }

    /// The program as the compiler describes it, with its immediates in the memory given.
    ///
    /// # Errors
    /// [`BundleError::Immediates`].
    pub fn variant<'v>(&self, immediates: &'v mut [u32]) -> Result<Variant<'v>, BundleError>
    where
        'd: 'v,
    {
        let (need, have) = (self.immediates.len(), immediates.len());
        let immediates = immediates
            .get_mut(..need)
            .ok_or(BundleError::Immediates { need, have })?;
        for (to, from) in immediates.iter_mut().zip(self.immediates) {
            *to = u32::from_le_bytes(*from);
        }
        let word = |i: usize| self.words.get(i).copied().unwrap_or_default();
        let [work_group_id, local_invocation_id, ..] = word(REGISTERS).to_le_bytes();
        let register = |i| i16::try_from(word(i).cast_signed()).unwrap_or(-1);
        let flag = |bit| word(FLAGS) & bit != 0;
        Ok(Variant {
            code: self.code,
            branch_stack: word(12),
            private_bytes: word(13),
            shared_bytes: word(14),
            max_reg: register(15),
            max_half_reg: register(16),
            merged_registers: flag(MERGED),
            double_waves: flag(DOUBLE),
            work_group_id,
            local_invocation_id,
            constlen: word(19),
            immediates,
            max_const_offset: word(20),
            arguments_offset: word(21),
            driver_params: (word(22), word(23)),
            group_count: flag(GROUP_COUNT),
            textures: self.textures,
        })
    }
}

#[cfg(test)]
mod tests;
