//! Programs in the container that Qualcomm's OpenCL compiler writes.
//!
//! The container has no public description: places are as observed. A program is one kernel; its arguments follow its name,
//! whose length only the caller knows. Nothing in the file is trusted.

use hcq_nostd::args::ArgSlot;

use crate::image::Sampler;
use crate::kernel::{Arguments, ArgumentsError, Constant, Given, ImageSlot, Kernel, Param, Style};

// Words of the file's header.
const REGISTERS_AT: u32 = 0x34;
const CONSTANTS_AT: u32 = 0xac;
const HAS_CONSTANTS: u32 = 0xb0;
const CODE_AT: u32 = 0xc0;
const CODE_BYTES: u32 = 0x100;
const IMAGE_AT: u32 = 0x110;
// Words of the block of registers.
const FULL_REGISTERS: u32 = 0x14;
const HALF_REGISTERS: u32 = 0x18;
// Words of the image's block.
const FIRST_INSTRUCTION: u32 = 0xc4;
const PRIVATE_BYTES: u32 = 0xc8;
const SHARED_BYTES: u32 = 0xd8;
const SAMPLERS: u32 = 0xdc;
const BRANCH_STACK: u32 = 0x108;
const NAME: u32 = 0x158;

/// Bytes of a sampler between the name and the arguments.
const SAMPLER_ENTRY: u32 = 8;
/// Bytes of an argument's record that are read.
const ARGUMENT: usize = 32;
const CONSTANT: u32 = 40;
/// More are nonsense: each takes at least four bytes of 4096.
const MAX_ARGUMENTS: usize = 1024;
/// Bytes of a kernel's name that are looked at.
const MAX_NAME: usize = 256;
/// Samplers of a file whose meaning is known.
const MAX_FILE_SAMPLERS: u32 = 1;

/// The samplers of a program that has one: its own, and a zero one behind it.
static SAMPLER: [Sampler; 2] = [Sampler::TEXELS, Sampler::ZERO];

/// Why a file is no program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum ContainerError {
    /// It ends before something that it says it has.
    Truncated {
        /// Offset of what is missing.
        at: u32,
        /// Bytes of it.
        bytes: u32,
    },
    /// A number that cannot be.
    Number {
        /// Its offset.
        at: u32,
        /// It.
        value: u32,
    },
    /// The kernel has another name, or none.
    Name,
    /// Memory for fewer constants than there are.
    Constants {
        /// Constants of the program.
        need: usize,
        /// Room.
        have: usize,
    },
    /// The arguments cannot be laid out.
    Arguments(ArgumentsError),
}

impl core::fmt::Display for ContainerError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Truncated { at, bytes } => {
                write!(f, "the file ends before the {bytes} bytes at {at:#x}")
            }
            Self::Number { at, value } => write!(f, "{value:#x} at {at:#x} cannot be"),
            Self::Name => f.write_str("the kernel has another name"),
            Self::Constants { need, have } => {
                write!(
                    f,
                    "the program has {need} constants, there is room for {have}"
                )
            }
            Self::Arguments(e) => write!(f, "{e}"),
        }
    }
}

impl core::error::Error for ContainerError {}

impl From<ArgumentsError> for ContainerError {
    fn from(e: ArgumentsError) -> Self {
        Self::Arguments(e)
    }
}

/// What an argument is, as far as the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ArgumentKind {
    /// A buffer or a number.
    Plain,
    /// A texture.
    Texture,
    /// A storage image.
    Storage,
}

/// An argument's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Argument {
    /// Where it is in the argument block, in bytes; of no account for images.
    pub offset: u32,
    /// What it is.
    pub kind: ArgumentKind,
}

/// A program's file.
#[derive(Clone, Copy, Debug)]
pub struct Container<'d> {
    data: &'d [u8],
    code: &'d [u8],
    kernel: Kernel,
    /// Offset of the first argument, and how many there are.
    arguments_at: u32,
    arguments: usize,
    constants_at: u32,
    constants: usize,
    samplers: &'static [Sampler],
}

fn get(data: &[u8], at: u32, bytes: u32) -> Result<&[u8], ContainerError> {
    let start = at as usize;
    start
        .checked_add(bytes as usize)
        .and_then(|end| data.get(start..end))
        .ok_or(ContainerError::Truncated { at, bytes })
}

fn word(data: &[u8], at: u32) -> Result<u32, ContainerError> {
    match get(data, at, 4)?.first_chunk() {
        Some(bytes) => Ok(u32::from_le_bytes(*bytes)),
        None => Err(ContainerError::Truncated { at, bytes: 4 }),
    }
}

/// The word at `field` of the block at `block`.
fn field(data: &[u8], block: u32, field: u32) -> Result<u32, ContainerError> {
    let (at, bytes) = (block, field);
    let at = block
        .checked_add(field)
        .ok_or(ContainerError::Truncated { at, bytes })?;
    word(data, at)
}

/// A number that must fit a byte.
fn byte(data: &[u8], block: u32, at: u32, divisor: u32) -> Result<u8, ContainerError> {
    let value = field(data, block, at)?;
    u8::try_from(value / divisor).map_err(|_| ContainerError::Number {
        at: block.wrapping_add(at),
        value,
    })
}

impl<'d> Container<'d> {
    /// A program whose kernel has this name.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub fn parse(data: &'d [u8], name: &str) -> Result<Self, ContainerError> {
        let (code_at, code_bytes) = (word(data, CODE_AT)?, word(data, CODE_BYTES)?);
        let code = get(data, code_at, code_bytes)?;
        let (image, registers) = (word(data, IMAGE_AT)?, word(data, REGISTERS_AT)?);
        let kernel = Kernel {
            style: Style::OpenCl,
            code: 0,
            code_bytes,
            first_instruction: field(data, image, FIRST_INSTRUCTION)?,
            full_registers: byte(data, registers, FULL_REGISTERS, 1)?,
            half_registers: byte(data, registers, HALF_REGISTERS, 1)?,
            merged_registers: false,
            double_waves: false,
            branch_stack: byte(data, image, BRANCH_STACK, 2)?,
            private_bytes: field(data, image, PRIVATE_BYTES)?,
            shared_bytes: field(data, image, SHARED_BYTES)?,
        };
        let file_samplers = field(data, image, SAMPLERS)?;
        if file_samplers > MAX_FILE_SAMPLERS {
            let at = image.wrapping_add(SAMPLERS);
            return Err(ContainerError::Number {
                at,
                value: file_samplers,
            });
        }
        let samplers: &[Sampler] = if file_samplers == 0 { &[] } else { &SAMPLER };
        let name_at = image.checked_add(NAME).ok_or(ContainerError::Name)?;
        let length = u32::try_from(name.len()).map_err(|_| ContainerError::Name)?;
        if length == 0 || get(data, name_at, length)? != name.as_bytes() {
            return Err(ContainerError::Name);
        }
        let end = name_at.checked_add(length).ok_or(ContainerError::Name)?;
        let padded = end
            .checked_next_multiple_of(4)
            .ok_or(ContainerError::Name)?;
        // A name that goes on is another name.
        if get(data, end, padded.wrapping_sub(end))?
            .iter()
            .any(|b| *b != 0)
        {
            return Err(ContainerError::Name);
        }
        let arguments_at = padded
            .checked_add(file_samplers * SAMPLER_ENTRY)
            .ok_or(ContainerError::Name)?;
        let mut container = Self {
            data,
            code,
            kernel,
            arguments_at,
            arguments: 0,
            constants_at: 0,
            constants: 0,
            samplers,
        };
        container.count_arguments()?;
        if word(data, HAS_CONSTANTS)? != 0 {
            let constants_at = word(data, CONSTANTS_AT)?;
            let between = code_at.saturating_sub(constants_at);
            get(data, constants_at, between)?;
            container.constants_at = constants_at;
            container.constants = (between / CONSTANT) as usize;
            for constant in container.constants() {
                constant?;
            }
        }
        Ok(container)
    }

    /// The name of the kernel in a file: the longest run of letters, digits and underscores at its place with which the file
    /// [parses](Self::parse). `None` if there is none. The file does not say how long it is, and a record behind it may start
    /// with what could be part of one.
    pub fn name(data: &'d [u8]) -> Option<&'d str> {
        let image = word(data, IMAGE_AT).ok()?;
        let at = image.checked_add(NAME)? as usize;
        let rest = data.get(at..)?;
        let rest = rest.get(..rest.len().min(MAX_NAME))?;
        let run = rest
            .iter()
            .take_while(|b| b.is_ascii_alphanumeric() || **b == b'_')
            .count();
        (1..=run).rev().find_map(|length| {
            let name = core::str::from_utf8(rest.get(..length)?).ok()?;
            Self::parse(data, name).ok().map(|_| name)
        })
    }

    fn count_arguments(&mut self) -> Result<(), ContainerError> {
        let mut at = self.arguments_at;
        while let Some((argument, next)) = self.argument_at(at)? {
            _ = argument;
            self.arguments += 1;
            if self.arguments > MAX_ARGUMENTS {
                return Err(ArgumentsError::TooMany {
                    count: self.arguments,
                    max: MAX_ARGUMENTS,
                }
                .into());
            }
            at = next;
        }
        Ok(())
    }

    /// The argument whose record is at `at`, and where the next one is. `None` behind the last.
    fn argument_at(&self, at: u32) -> Result<Option<(Argument, u32)>, ContainerError> {
        let start = at as usize;
        let end = start.saturating_add(ARGUMENT);
        // Records end with one of length zero, or with the file.
        let Some(record) = self.data.get(start..end) else {
            return Ok(None);
        };
        let mut words = record.as_chunks::<4>().0.iter();
        let mut next = || words.next().copied().map(u32::from_le_bytes);
        let [Some(length), _, _, Some(offset), _, _, _, Some(kind)] =
            core::array::from_fn(|_| next())
        else {
            return Ok(None);
        };
        if length == 0 {
            return Ok(None);
        }
        let wrong = |at, value| ContainerError::Number { at, value };
        if (length as usize) < ARGUMENT || !length.is_multiple_of(4) {
            return Err(wrong(at, length));
        }
        let kind = match kind {
            1 => ArgumentKind::Texture,
            2 => ArgumentKind::Storage,
            _ => ArgumentKind::Plain,
        };
        let offset = offset
            .checked_mul(4)
            .ok_or(wrong(at.wrapping_add(12), offset))?;
        // A record that leaves the file is none: so is the rest of a longer name.
        let next = at.checked_add(length).ok_or(wrong(at, length))?;
        if next as usize > self.data.len() {
            return Err(wrong(at, length));
        }
        Ok(Some((Argument { offset, kind }, next)))
    }

    /// The program, once its instructions are at a device address. It is checked when it is
    /// [prepared](crate::pm4::Program::new).
    pub const fn kernel(&self, code: u64) -> Kernel {
        Kernel {
            code,
            ..self.kernel
        }
    }

    /// Its instructions, to be copied to where the GPU sees them.
    pub const fn code(&self) -> &'d [u8] {
        self.code
    }

    /// Its arguments, in order.
    pub fn arguments(&self) -> impl Iterator<Item = Argument> + Clone + '_ {
        let mut at = self.arguments_at;
        let one = move || {
            // All of them were read before.
            let (argument, next) = self.argument_at(at).ok()??;
            at = next;
            Some(argument)
        };
        core::iter::from_fn(one).take(self.arguments)
    }

    /// How many constants [`layout`](Self::layout) needs room for.
    pub const fn constant_count(&self) -> usize {
        self.constants
    }

    fn constants(&self) -> impl Iterator<Item = Result<Constant, ContainerError>> + '_ {
        (0..self.constants)
            .zip((self.constants_at..).step_by(CONSTANT as usize))
            .map(|(_, at)| {
                let bytes = if field(self.data, at, 24)? == 0 { 2 } else { 4 };
                let elements = field(self.data, at, 16)?;
                let offset = elements.checked_mul(bytes).ok_or(ContainerError::Number {
                    at: at.wrapping_add(16),
                    value: elements,
                })?;
                Ok(Constant {
                    value: field(self.data, at, 0)?,
                    offset,
                    bytes: if bytes == 2 { 2 } else { 4 },
                })
            })
    }

    /// Lays out the arguments, of which the caller says what the file does not: which are numbers, of how many bytes, and
    /// the images' shapes. `slots` takes one entry per argument, `images` one per image, `constants` one per
    /// [constant](Self::constant_count).
    ///
    /// # Errors
    /// [`ContainerError::Constants`], [`ContainerError::Arguments`].
    pub fn layout<'p>(
        &self,
        params: &[Param],
        slots: &'p mut [ArgSlot],
        images: &'p mut [ImageSlot],
        constants: &'p mut [Constant],
    ) -> Result<Arguments<'p>, ContainerError> {
        let (need, have) = (self.constants, constants.len());
        let constants = constants
            .get_mut(..need)
            .ok_or(ContainerError::Constants { need, have })?;
        for (to, constant) in constants.iter_mut().zip(self.constants()) {
            *to = constant?;
        }
        let count = u16::try_from(self.arguments.min(params.len())).unwrap_or(u16::MAX);
        if params.len() != self.arguments {
            return Err(ArgumentsError::Kind { index: count }.into());
        }
        for (index, (param, argument)) in (0u16..).zip(params.iter().zip(self.arguments())) {
            let same = matches!(
                (param, argument.kind),
                (Param::Buffer | Param::Scalar(_), ArgumentKind::Plain)
                    | (Param::Texture(_), ArgumentKind::Texture)
                    | (Param::Storage(_), ArgumentKind::Storage)
            );
            if !same {
                return Err(ArgumentsError::Kind { index }.into());
            }
        }
        let given = Given {
            storage_first: true,
            texture_map: None,
            constants,
            samplers: self.samplers,
        };
        let placed = params
            .iter()
            .zip(self.arguments())
            .map(|(param, argument)| (*param, argument.offset));
        Ok(Arguments::new(placed, given, slots, images)?)
    }
}

#[cfg(test)]
mod tests;
