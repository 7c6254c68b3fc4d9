//! Whether a multiprocessor takes a launch.
//!
//! The checks are those whose errors `gk104_sked_error` of Linux' nouveau (`nvkm/engine/gr/gf100.c`) names; limits are in the
//! "Technical Specifications per Compute Capability" of NVIDIA's CUDA C++ Programming Guide.

use super::super::chip::Chip;
use super::super::qmd::Grid;
use super::{Cause, Memory};

/// Work-items of a group.
const MAX_ITEMS: u64 = 1024;
/// In the third dimension.
const MAX_DEPTH: u32 = 64;
/// Registers of an item.
const MAX_REGISTERS: u32 = 255;
/// Registers of a multiprocessor.
const REGISTERS: u64 = 64 << 10;
/// Registers of a warp are counted in these.
const REGISTER_UNIT: u64 = 256;
/// Barriers of a group.
const MAX_BARRIERS: u32 = 16;
/// Items of a warp.
pub(super) const WARP: u32 = 32;
/// Bytes of a constant bank.
const MAX_BANK: u32 = 64 << 10;
/// Bytes of shared memory that the system keeps for itself in every group.
pub(super) const SYSTEM_SHARED: u32 = 1 << 10;
/// Bytes of local memory of an item.
const MAX_LOCAL: u32 = 512 << 10;
/// Bytes of the windows through which a program sees its shared and its local memory.
const WINDOW: u64 = 1 << 24;
/// Local memory of a texture processing cluster is given out in these.
const LOCAL_UNIT: u64 = 0x8000;

fn refuse<T>(text: String) -> Result<T, Cause> {
    Err(Cause::Launch(text))
}

/// Bytes of local memory of a warp.
pub(super) fn warp_local(grid: &Grid) -> u64 {
    let [low, high] = grid.local.map(u64::from);
    ((low + high) * u64::from(WARP)).next_multiple_of(0x200)
}

/// Checks a launch.
///
/// # Errors
/// [`Cause::Launch`].
pub(super) fn check(chip: &Chip, grid: &Grid, memory: &Memory) -> Result<(), Cause> {
    let [_, _, depth] = grid.items;
    let items: u64 = grid.items.iter().map(|&n| u64::from(n)).product();
    if items == 0 {
        return refuse(format!(
            "CTA_THREAD_DIMENSION_ZERO: groups of {:?} items",
            grid.items
        ));
    }
    if items > MAX_ITEMS || depth > MAX_DEPTH {
        return refuse(format!(
            "TOTAL_THREADS: groups of {:?} items; there can be {MAX_ITEMS}, {MAX_DEPTH} in the third dimension",
            grid.items
        ));
    }
    if let Some(sass) = grid.sass
        && sass != u32::from(chip.sass_version)
    {
        return refuse(format!(
            "SASS_VERSION {sass:#x}; {} runs {:#x}",
            chip.gpu, chip.sass_version
        ));
    }
    if grid.program == 0 || !grid.program.is_multiple_of(16) {
        return refuse(format!(
            "PROGRAM_OFFSET: no instruction can be at {:#x}",
            grid.program
        ));
    }
    let warps = items.div_ceil(u64::from(WARP));
    let per_warp = (u64::from(grid.registers) * u64::from(WARP)).next_multiple_of(REGISTER_UNIT);
    if grid.registers == 0 || grid.registers > MAX_REGISTERS {
        return refuse(format!(
            "REGISTER_COUNT: {} registers; an item can have 1 to {MAX_REGISTERS}",
            grid.registers
        ));
    }
    if warps * per_warp > REGISTERS {
        return refuse(format!(
            "TOTAL_REGISTER_COUNT: {warps} warps of {per_warp} registers each; a multiprocessor has {REGISTERS}"
        ));
    }
    if grid.barriers > MAX_BARRIERS {
        return refuse(format!(
            "BARRIER_COUNT {}; a group can have {MAX_BARRIERS}",
            grid.barriers
        ));
    }
    shared(chip, grid)?;
    for (index, bank) in grid.banks.iter().enumerate() {
        if let Some(bank) = bank
            && (bank.bytes > MAX_BANK || !bank.address.is_multiple_of(64))
        {
            return refuse(format!(
                "CONSTANT_BUFFER_SIZE: bank {index} has {:#x} bytes at {:#x}; it can have {MAX_BANK:#x}, at a multiple of 64",
                bank.bytes, bank.address
            ));
        }
    }
    local(chip, grid, memory)
}

fn shared(chip: &Chip, grid: &Grid) -> Result<(), Cause> {
    let limit = chip.shared_kib << 10;
    if grid.shared > limit {
        return refuse(format!(
            "SHARED_MEMORY_SIZE {:#x}; a multiprocessor has {limit:#x}",
            grid.shared
        ));
    }
    let [min, target, max] = grid.configs;
    // Kilobytes / 4 + 1; 0 leaves the choice to the hardware.
    let top = chip.shared_kib / 4 + 1;
    if min > max || target < min || target > max || max > top {
        return refuse(format!(
            "SM_CONFIG_SHARED_MEM_SIZE: {target:#x} of {min:#x} to {max:#x}; the largest there is is {top:#x}"
        ));
    }
    let holds = max.saturating_sub(1) << 12;
    if holds < grid.shared {
        return refuse(format!(
            "SHARED_CONFIG_TOO_SMALL: configured for {holds:#x} bytes at most, and a group has {:#x}",
            grid.shared
        ));
    }
    Ok(())
}

fn local(chip: &Chip, grid: &Grid, memory: &Memory) -> Result<(), Cause> {
    let (shared, windowed) = (memory.shared_window, memory.local_window);
    if shared.abs_diff(windowed) < WINDOW {
        return refuse(format!(
            "MEMORY_WINDOW_OVERLAP: the window of shared memory is at {shared:#x}, that of local memory at {windowed:#x}"
        ));
    }
    let [low, high] = grid.local;
    if !low.is_multiple_of(16) || !high.is_multiple_of(16) || low + high > MAX_LOCAL {
        return refuse(format!(
            "LOCAL_MEMORY_SIZE: {low:#x} and {high:#x} bytes; both are multiples of 16, and {MAX_LOCAL:#x} at most"
        ));
    }
    if low + high == 0 {
        return Ok(());
    }
    let warps = u64::from(chip.warps_per_sm * chip.sms_per_tpc);
    let wanted = (warp_local(grid) * warps).next_multiple_of(LOCAL_UNIT);
    if memory.local == 0 || memory.local_bytes < wanted {
        return refuse(format!(
            "TOTAL_TEMP_SIZE: {wanted:#x} bytes of local memory for each TPC; SET_SHADER_LOCAL_MEMORY gives {:#x} at {:#x}",
            memory.local_bytes, memory.local
        ));
    }
    Ok(())
}
