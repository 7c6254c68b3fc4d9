//! Programs that Mesa's ir3 compiler makes: instructions without a container, and what the compiler says of them.
//!
//! Source: `ir3_shader.h` of Mesa (`ir3_shader_variant`, `ir3_const_state`, `ir3_shader_branchstack_hw`).

use hcq_nostd::args::ArgSlot;

use crate::image::Sampler;
use crate::kernel::{
    Arguments, ArgumentsError, CONSTANT_BYTES, Constant, Given, ImageSlot, Kernel, MAX_SAMPLERS,
    NO_REGISTER, Param, Style,
};

/// Bytes of a constant register.
const VEC4: u32 = 16;
/// Where the work-group's size is among the compiler's parameters, in words: `local_group_size_x` of `ir3_driver_params_cs`. The
/// number of work-groups, `num_work_groups_x`, is the first of them.
const LOCAL_SIZE_WORD: u32 = 8;
/// `branchstack_size` of A6xx.
const BRANCH_STACK: u32 = 64;
/// Bytes of an instruction.
const INSTRUCTION: usize = 8;

/// A sampler for each texture, as the compiler has them for programs that read texels at whole coordinates.
static SAMPLERS: [Sampler; MAX_SAMPLERS] = [Sampler::TEXELS; MAX_SAMPLERS];

/// What the compiler says of a program: fields of `ir3_shader_variant`, by their names there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant<'d> {
    /// The instructions.
    pub code: &'d [u8],
    /// `branchstack`.
    pub branch_stack: u32,
    /// `pvtmem_size`: bytes.
    pub private_bytes: u32,
    /// `shared_size`: bytes.
    pub shared_bytes: u32,
    /// `info.max_reg`: the last full register of four words, -1 for none.
    pub max_reg: i16,
    /// `info.max_half_reg`: the last half register, -1 for none.
    pub max_half_reg: i16,
    /// `mergedregs`.
    pub merged_registers: bool,
    /// `info.double_threadsize`.
    pub double_waves: bool,
    /// `cs.work_group_id`: its register, 0xfc for none.
    pub work_group_id: u8,
    /// `cs.local_invocation_id`: its register, 0xfc for none.
    pub local_invocation_id: u8,
    /// `constlen`: constant registers of four words that it uses.
    pub constlen: u32,
    /// Constants that go to `max_const_offset_vec4`.
    pub immediates: &'d [u32],
    /// `allocs.max_const_offset_vec4`.
    pub max_const_offset: u32,
    /// `ubo_state.range[0].offset`: bytes before the arguments.
    pub arguments_offset: u32,
    /// `allocs.consts[IR3_CONST_ALLOC_DRIVER_PARAMS]`, offset and size in constant registers.
    pub driver_params: (u32, u32),
    /// Whether it reads `num_work_groups` of [`driver_params`](Self::driver_params); of no account if there are none.
    pub group_count: bool,
    /// `image_mapping.tex_to_image`, as many as `num_tex`: which texture is in each texture register.
    pub textures: &'d [u8],
}

/// Why a program is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum VariantError {
    /// No instructions, or part of one, or 4 GiB of them.
    Code {
        /// Bytes.
        bytes: usize,
    },
    /// A register's number that cannot be.
    Register {
        /// It.
        number: i16,
    },
    /// Constants end behind those that there are.
    Constants {
        /// Where they end, in bytes.
        end: u64,
    },
    /// Memory for fewer constants than there are.
    Room {
        /// Constants of the program.
        need: usize,
        /// Room.
        have: usize,
    },
    /// The arguments cannot be laid out.
    Arguments(ArgumentsError),
}

impl core::fmt::Display for VariantError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Code { bytes } => write!(f, "{bytes} bytes are no instructions"),
            Self::Register { number } => write!(f, "there is no register {number}"),
            Self::Constants { end } => write!(f, "constants end at byte {end} of {CONSTANT_BYTES}"),
            Self::Room { need, have } => {
                write!(
                    f,
                    "the program has {need} constants, there is room for {have}"
                )
            }
            Self::Arguments(e) => write!(f, "{e}"),
        }
    }
}

impl core::error::Error for VariantError {}

impl From<ArgumentsError> for VariantError {
    fn from(e: ArgumentsError) -> Self {
        Self::Arguments(e)
    }
}

/// A count of registers from the last one's number.
fn registers(last: i16) -> Result<u8, VariantError> {
    last.checked_add(1)
        .and_then(|n| u8::try_from(n).ok())
        .ok_or(VariantError::Register { number: last })
}

impl Variant<'_> {
    /// A program without anything, to be filled in.
    pub const EMPTY: Variant<'static> = Variant {
        code: &[],
        branch_stack: 0,
        private_bytes: 0,
        shared_bytes: 0,
        max_reg: -1,
        max_half_reg: -1,
        merged_registers: false,
        double_waves: false,
        work_group_id: NO_REGISTER,
        local_invocation_id: NO_REGISTER,
        constlen: 0,
        immediates: &[],
        max_const_offset: 0,
        arguments_offset: 0,
        driver_params: (0, 0),
        group_count: false,
        textures: &[],
    };

    /// The program, once its instructions are at a device address. The rest is checked when it is
    /// [prepared](crate::pm4::Program::new).
    ///
    /// # Errors
    /// [`VariantError`].
    pub fn kernel(&self, code: u64) -> Result<Kernel, VariantError> {
        let bytes = self.code.len();
        let code_bytes = u32::try_from(bytes)
            .ok()
            .filter(|_| bytes > 0 && bytes.is_multiple_of(INSTRUCTION))
            .ok_or(VariantError::Code { bytes })?;
        let (driver, size) = self.driver_params;
        let group_size = if size == 0 {
            NO_REGISTER
        } else {
            let constant = driver.saturating_mul(4).saturating_add(LOCAL_SIZE_WORD);
            let end = u64::from(constant) * 4 + 12;
            // A register's number is what means none.
            u8::try_from(constant)
                .ok()
                .filter(|c| *c < NO_REGISTER)
                .ok_or(VariantError::Constants { end })?
        };
        // In front of the size, if there is one.
        let group_count = match group_size {
            NO_REGISTER => NO_REGISTER,
            _ if !self.group_count => NO_REGISTER,
            size => size.saturating_sub(LOCAL_SIZE_WORD as u8),
        };
        let end = u64::from(self.constlen) * u64::from(VEC4);
        if end > CONSTANT_BYTES.into() {
            return Err(VariantError::Constants { end });
        }
        // Two of the compiler's levels take one of the hardware's.
        let branch_stack = match self.branch_stack {
            0 => 0,
            levels => (levels / 2 + 1).min(BRANCH_STACK / 2),
        };
        Ok(Kernel {
            style: Style::Ir3 {
                group_id: self.work_group_id,
                group_count,
                group_size,
                local_id: self.local_invocation_id,
            },
            code,
            code_bytes,
            first_instruction: 0,
            full_registers: registers(self.max_reg)?,
            half_registers: registers(self.max_half_reg)?,
            merged_registers: self.merged_registers,
            double_waves: self.double_waves,
            branch_stack: branch_stack as u8,
            private_bytes: self.private_bytes,
            shared_bytes: self.shared_bytes,
        })
    }

    /// Lays out the arguments: buffers and numbers one after the other at their natural alignment, as a C struct has them,
    /// images and samplers in their registers. There is a sampler register for each texture register, and as many as there are
    /// sampler arguments; those that no argument fills have [`Sampler::TEXELS`]. `slots` takes one entry per argument, `images` one per texture register and storage image,
    /// `constants` one per immediate.
    ///
    /// # Errors
    /// [`VariantError::Constants`], [`VariantError::Room`], [`VariantError::Arguments`].
    pub fn layout<'p>(
        &'p self,
        params: &[Param],
        slots: &'p mut [ArgSlot],
        images: &'p mut [ImageSlot],
        constants: &'p mut [Constant],
    ) -> Result<Arguments<'p>, VariantError> {
        let (need, have) = (self.immediates.len(), constants.len());
        let constants = constants
            .get_mut(..need)
            .ok_or(VariantError::Room { need, have })?;
        let first = u64::from(self.max_const_offset) * u64::from(VEC4);
        let end = first.saturating_add((need as u64).saturating_mul(4));
        if end > CONSTANT_BYTES.into() {
            return Err(VariantError::Constants { end });
        }
        let first = self.max_const_offset * VEC4;
        let places = (first..).step_by(4);
        for ((to, value), offset) in constants.iter_mut().zip(self.immediates).zip(places) {
            *to = Constant {
                value: *value,
                offset,
                bytes: 4,
            };
        }
        let given = params.iter().filter(|p| matches!(p, Param::Sampler));
        let count = self.textures.len().max(given.count());
        let samplers = SAMPLERS.get(..count).ok_or(ArgumentsError::TooMany {
            count,
            max: MAX_SAMPLERS,
        })?;
        let mut end = self.arguments_offset;
        let placed = params.iter().map(move |param| {
            let bytes = match param {
                Param::Buffer => 8,
                Param::Scalar(bytes) => u32::from(*bytes),
                Param::Storage(_) | Param::Texture(_) | Param::Sampler => return (*param, 0),
            };
            // What leaves 32 bits is behind all constants, which is an error of its own.
            let at = end
                .checked_next_multiple_of(bytes.max(1))
                .unwrap_or(u32::MAX);
            end = at.saturating_add(bytes);
            (*param, at)
        });
        let given = Given {
            storage_first: false,
            texture_map: Some(self.textures),
            constants,
            samplers,
        };
        Ok(Arguments::new(placed, given, slots, images)?)
    }
}

#[cfg(test)]
mod tests;
