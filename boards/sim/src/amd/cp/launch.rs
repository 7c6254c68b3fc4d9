//! From registers to a launch: what the hardware is told, and whether it can do that.

use super::Cause;
use super::chip::{Chip, Generation, Vgprs};
use super::registers::{self, Registers};
use crate::exec::{self, AmdRegisters, Dispatch, ScratchMemory};

/// Bits of `COMPUTE_DISPATCH_INITIATOR` (`gc_*_sh_mask.h`).
mod initiator {
    pub(super) const COMPUTE_SHADER_EN: u32 = 1 << 0;
    pub(super) const PARTIAL_TG_EN: u32 = 1 << 1;
    pub(super) const FORCE_START_AT_000: u32 = 1 << 2;
    pub(super) const USE_THREAD_DIMENSIONS: u32 = 1 << 5;
    pub(super) const ORDER_MODE: u32 = 1 << 6;
    pub(super) const SCALAR_L1_INV_VOL: u32 = 1 << 10;
    pub(super) const VECTOR_L1_INV_VOL: u32 = 1 << 11;
    pub(super) const CS_W32_EN: u32 = 1 << 15;
    pub(super) const DISABLE_DISP_PREMPT_EN: u32 = 1 << 17;

    /// What is done, and what changes nothing that programs may rely on.
    pub(super) const TAKEN: u32 = COMPUTE_SHADER_EN
        | PARTIAL_TG_EN
        | FORCE_START_AT_000
        | USE_THREAD_DIMENSIONS
        | ORDER_MODE
        | SCALAR_L1_INV_VOL
        | VECTOR_L1_INV_VOL
        | CS_W32_EN
        | DISABLE_DISP_PREMPT_EN;
}

/// Most work-items of a work-group.
const MAX_GROUP: u64 = 1024;

/// A launch that the hardware takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// As the executor sees it, for a work-group of full size.
    pub(super) dispatch: Dispatch,
    /// Work-items of the last work-group in each dimension.
    pub(super) edge: [u32; 3],
}

/// What a launch is made of, wherever it comes from.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) program: u64,
    pub(super) rsrc1: u32,
    pub(super) rsrc2: u32,
    pub(super) rsrc3: u32,
    pub(super) user_data: Vec<u32>,
    pub(super) start: [u32; 3],
    /// The first work-group after the last, in each dimension.
    pub(super) end: [u32; 3],
    pub(super) local: [u32; 3],
    pub(super) edge: [u32; 3],
    pub(super) wave32: bool,
    pub(super) tmpring: u32,
    pub(super) scratch_base: u64,
    pub(super) xcc: (u8, u8),
}

fn refuse<T>(text: String) -> Result<T, Cause> {
    Err(Cause::Launch(text))
}

/// The launch that `DISPATCH_DIRECT` asks for with these registers.
pub(super) fn from_registers(
    chip: &'static Chip,
    registers: &Registers,
    dims: [u32; 3],
    initiator: u32,
    xcc: (u8, u8),
) -> Result<Plan, Cause> {
    let reserved = initiator & !chip.initiator;
    if reserved != 0 {
        return Err(Cause::Packet(format!(
            "DISPATCH_DIRECT: dispatch_initiator has reserved bits {reserved:#x} on {}",
            chip.target
        )));
    }
    if initiator & initiator::COMPUTE_SHADER_EN == 0 {
        return refuse("dispatch_initiator lacks COMPUTE_SHADER_EN".into());
    }
    let other = initiator & !initiator::TAKEN;
    if other != 0 {
        return refuse(format!(
            "dispatch_initiator bits {other:#x} are not simulated"
        ));
    }
    let wanted = registers.get3(registers::NUM_THREAD_X);
    let (mut local, mut edge) = ([0; 3], [0; 3]);
    for ((full, partial), value) in local.iter_mut().zip(&mut edge).zip(wanted) {
        *full = value & 0xFFFF;
        *partial = value >> 16;
    }
    if chip.generation == Generation::Gfx12 && (local[0] | local[1]) & 0xE000 != 0 {
        return refuse("COMPUTE_NUM_THREAD_X or _Y interleaves, which is not simulated".into());
    }
    let mut end = dims;
    if initiator & initiator::USE_THREAD_DIMENSIONS != 0 {
        for (((end, full), partial), axis) in
            end.iter_mut().zip(local).zip(&mut edge).zip("XYZ".chars())
        {
            let rest = end.checked_rem(full).unwrap_or_default();
            if rest != 0 && (initiator & initiator::PARTIAL_TG_EN == 0 || *partial != rest) {
                return refuse(format!(
                    "{end} work-items do not make groups of COMPUTE_NUM_THREAD_{axis} = {full}, and the last group is not \
                     given as one of {rest}"
                ));
            }
            if rest == 0 {
                *partial = full;
            }
            *end = end.div_ceil(full.max(1));
        }
    }
    if initiator & initiator::PARTIAL_TG_EN == 0 {
        edge = local;
    }
    let start = if initiator & initiator::FORCE_START_AT_000 != 0 {
        [0; 3]
    } else {
        registers.get3(registers::START_X)
    };
    if registers.get3(registers::RESTART_X) != [0; 3] {
        return refuse("COMPUTE_RESTART_* is not 0: a launch does not begin in its middle".into());
    }
    let wide = |low, high| u64::from(registers.get(low)) | u64::from(registers.get(high)) << 32;
    let rsrc2 = registers.get(registers::RSRC2);
    let users = user_count(rsrc2)?;
    let user_data = (registers::USER_DATA_0..)
        .take(users as usize)
        .map(|address| registers.get(address))
        .collect();
    plan(
        chip,
        Request {
            program: wide(registers::PGM_LO, registers::PGM_HI) << 8,
            rsrc1: registers.get(registers::RSRC1),
            rsrc2,
            rsrc3: registers.get(chip.rsrc3),
            user_data,
            start,
            end,
            local,
            edge,
            wave32: initiator & initiator::CS_W32_EN != 0,
            tmpring: registers.get(registers::TMPRING_SIZE),
            scratch_base: wide(registers::SCRATCH_BASE_LO, registers::SCRATCH_BASE_HI) << 8,
            xcc,
        },
    )
}

/// User registers that a program asks for.
pub(super) fn user_count(rsrc2: u32) -> Result<u32, Cause> {
    let count = rsrc2 >> 1 & 0x1F;
    if count > registers::USER_DATA {
        return refuse(format!(
            "USER_SGPR = {count}, but there are {} user registers",
            registers::USER_DATA
        ));
    }
    Ok(count)
}

/// Checks a launch against what the chip has.
pub(super) fn plan(chip: &'static Chip, request: Request) -> Result<Plan, Cause> {
    let Request {
        start,
        end,
        local,
        edge,
        ..
    } = request;
    if request.program == 0 {
        return refuse("COMPUTE_PGM_LO/HI is 0".into());
    }
    let mut groups = [0; 3];
    for (((groups, start), end), axis) in groups.iter_mut().zip(start).zip(end).zip("xyz".chars()) {
        *groups = end.saturating_sub(start);
        if *groups == 0 {
            return refuse(format!("no work-groups in {axis}: from {start} to {end}"));
        }
    }
    let items: u64 = local.iter().map(|&n| u64::from(n)).product();
    if items == 0 || items > MAX_GROUP {
        return refuse(format!(
            "a work-group of {local:?} work-items; there can be 1 to {MAX_GROUP}"
        ));
    }
    if edge
        .iter()
        .zip(local)
        .any(|(&edge, full)| edge == 0 || edge > full)
    {
        return refuse(format!(
            "the last work-groups have {edge:?} work-items, all others {local:?}"
        ));
    }
    let wave = if request.wave32 { 32 } else { 64 };
    occupancy(chip, &request, items, wave)?;
    let local_memory = (request.rsrc2 >> 15 & 0x1FF) * chip.lds_unit;
    if local_memory > chip.lds_limit {
        return refuse(format!(
            "LDS_SIZE is {local_memory} bytes (in units of {}); a work-group can have {}",
            chip.lds_unit, chip.lds_limit
        ));
    }
    if chip.generation == Generation::Gfx12 && request.rsrc2 >> 6 & 1 != 0 {
        return refuse("DYNAMIC_VGPR is not simulated".into());
    }
    Ok(Plan {
        dispatch: Dispatch {
            target: chip.target,
            program: request.program,
            scratch: scratch(chip, &request)?,
            groups,
            start,
            local,
            wave,
            local_memory,
            xcc: request.xcc,
            registers: exec::Registers::Amd(AmdRegisters {
                rsrc1: request.rsrc1,
                rsrc2: request.rsrc2,
                rsrc3: request.rsrc3,
                user_data: request.user_data,
            }),
        },
        edge,
    })
}

/// Whether a work-group's waves fit into the unit that has to hold all of them. One that does not would wait for ever.
fn occupancy(chip: &'static Chip, request: &Request, items: u64, wave: u32) -> Result<(), Cause> {
    let file: &Vgprs = if request.wave32 {
        match &chip.vgprs32 {
            Some(file) => file,
            None => return refuse(format!("{} has no waves of 32 lanes", chip.target)),
        }
    } else {
        &chip.vgprs64
    };
    let count = ((request.rsrc1 & 0x3F) + 1) * file.unit;
    if count > file.limit {
        return refuse(format!(
            "VGPRS names {count} vector registers; a wave of {wave} can have {}",
            file.limit
        ));
    }
    let mut simds = chip.simds.0;
    if chip.generation == Generation::Gfx9 {
        let accum = ((request.rsrc3 & 0x3F) + 1) * 4;
        if accum > count {
            return refuse(format!(
                "ACCUM_OFFSET is {accum}, past the {count} vector registers"
            ));
        }
    } else {
        // WGP_MODE
        if request.rsrc1 >> 29 & 1 != 0 {
            simds = chip.simds.1;
        }
        if request.wave32 && request.rsrc3 & 0xF != 0 {
            return refuse("SHARED_VGPR_CNT is for waves of 64 lanes".into());
        }
    }
    let each = count.next_multiple_of(file.granule);
    let per_simd = (file.total / each).min(chip.waves);
    let waves = items.div_ceil(u64::from(wave));
    if waves > u64::from(per_simd * simds) {
        return refuse(format!(
            "a work-group of {waves} waves with {count} vector registers each does not fit: {per_simd} waves on each of \
             {simds} SIMDs"
        ));
    }
    Ok(())
}

/// Bytes of scratch of a wave, and waves of an XCC that have some.
pub(super) fn tmpring(chip: &Chip, value: u32) -> (u64, u32) {
    (
        u64::from(value >> 12) * chip.scratch_unit,
        (value & 0xFFF) * chip.scratch_engines,
    )
}

fn scratch(chip: &Chip, request: &Request) -> Result<Option<ScratchMemory>, Cause> {
    // SCRATCH_EN
    if request.rsrc2 & 1 == 0 {
        return Ok(None);
    }
    let (wave_bytes, waves) = tmpring(chip, request.tmpring);
    if wave_bytes == 0 || waves == 0 {
        return refuse(format!(
            "the program has scratch, and COMPUTE_TMPRING_SIZE = {:#x} gives {waves} waves {wave_bytes} bytes each",
            request.tmpring
        ));
    }
    if request.scratch_base == 0 {
        return refuse("the program has scratch, and its base is 0".into());
    }
    Ok(Some(ScratchMemory {
        base: request.scratch_base,
        wave_bytes,
        waves,
    }))
}
