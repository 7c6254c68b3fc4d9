//! Kernel dispatches: from packet and kernel descriptor to a launch, as AMDGPUUsage describes it ("Kernel Descriptor",
//! "Initial Kernel Execution State").

use super::{Cause, queue};
use crate::amd::cp::chip::{Chip, Generation};
use crate::amd::cp::launch::{self, Plan, Request};
use crate::amd::cp::layout::{address, bits};
use crate::amd::cp::{memory, registers};
use crate::vm::AddressSpace;

/// `KERNEL_CODE_PROPERTY_*` (`AMDHSAKernelDescriptor.h`).
mod property {
    pub(super) const PRIVATE_SEGMENT_BUFFER: u32 = 1 << 0;
    pub(super) const DISPATCH_PTR: u32 = 1 << 1;
    pub(super) const QUEUE_PTR: u32 = 1 << 2;
    pub(super) const KERNARG_SEGMENT_PTR: u32 = 1 << 3;
    pub(super) const DISPATCH_ID: u32 = 1 << 4;
    pub(super) const FLAT_SCRATCH_INIT: u32 = 1 << 5;
    pub(super) const PRIVATE_SEGMENT_SIZE: u32 = 1 << 6;
    pub(super) const WAVEFRONT_SIZE32: u32 = 1 << 10;
    /// `RESERVED0` and `RESERVED1`.
    pub(super) const RESERVED: u32 = 0xF380;
}

/// How far into a program that takes arguments in registers the hardware begins, if it can give them.
const PRELOAD_ENTRY: u64 = 256;

fn refuse<T>(text: String) -> Result<T, Cause> {
    Err(Cause::Packet(text))
}

/// Bits of a descriptor's 32-bit word at a byte offset.
fn at(descriptor: &[u32; 16], offset: usize) -> u32 {
    bits(descriptor, offset / 4, 31, 0)
}

/// The launch of a kernel dispatch packet on one XCC.
pub(super) fn plan(
    chip: &'static Chip,
    vm: &dyn AddressSpace,
    words: &[u32; 16],
    packet: u64,
    queue: u64,
    index: u64,
    xcc: (u8, u8),
) -> Result<Plan, Cause> {
    let (local, grid) = sizes(words)?;
    let object = address(words, 8);
    if object == 0 || !object.is_multiple_of(64) {
        return refuse(format!(
            "kernel_object {object:#x} is no kernel descriptor: those lie on multiples of 64"
        ));
    }
    let descriptor: [u32; 16] = memory::read_words(vm, object)?;
    check_descriptor(chip, &descriptor)?;
    let properties = at(&descriptor, 56) & 0xFFFF;
    let preload = at(&descriptor, 56) >> 16;
    let (group, private) = (bits(words, 7, 31, 0), bits(words, 6, 31, 0));
    for (name, packet, kernel) in [
        ("group_segment_size", group, at(&descriptor, 0)),
        ("private_segment_size", private, at(&descriptor, 4)),
    ] {
        if packet < kernel {
            return refuse(format!(
                "{name} is {packet}; the kernel itself needs {kernel}"
            ));
        }
    }
    let kernarg = address(words, 10);
    if !kernarg.is_multiple_of(16) {
        return refuse(format!(
            "kernarg_address {kernarg:#x} does not lie on a multiple of 16"
        ));
    }
    let lds = group.div_ceil(chip.lds_unit);
    if lds > 0x1FF {
        return Err(Cause::Launch(format!(
            "group_segment_size {group}; a work-group can have {} bytes",
            chip.lds_limit
        )));
    }
    let wave32 = properties & property::WAVEFRONT_SIZE32 != 0;
    let tmpring = memory::read_u32(vm, queue.wrapping_add(queue::COMPUTE_TMPRING_SIZE))?;
    let rsrc2 = at(&descriptor, 52);
    if rsrc2 & 1 != 0 {
        let lanes = if wave32 { 32 } else { 64 };
        let (wave_bytes, _) = launch::tmpring(chip, tmpring);
        if u64::from(private) * lanes > wave_bytes {
            return Err(Cause::Launch(format!(
                "private_segment_size {private} makes {} bytes of a wave, but compute_tmpring_size has {wave_bytes}",
                u64::from(private) * lanes
            )));
        }
    }
    let each = memory::read_u64(
        vm,
        queue.wrapping_add(queue::SCRATCH_BACKING_MEMORY_BYTE_SIZE),
    )?;
    let backing = memory::read_u64(
        vm,
        queue.wrapping_add(queue::SCRATCH_BACKING_MEMORY_LOCATION),
    )?;
    let offset = at(&descriptor, 16);
    let offset = u64::from(offset) | u64::from(at(&descriptor, 20)) << 32;
    let mut program = object.wrapping_add(offset);
    if !program.is_multiple_of(256) {
        return refuse(format!(
            "the kernel begins at {program:#x}, which is not a multiple of 256"
        ));
    }
    let mut user_data = Vec::new();
    let mut wide = |value: u64| user_data.extend([value as u32, (value >> 32) as u32]);
    let has = |bit| properties & bit != 0;
    if has(property::PRIVATE_SEGMENT_BUFFER) {
        for word in 0..2 {
            wide(memory::read_u64(
                vm,
                queue.wrapping_add(queue::SCRATCH_RESOURCE_DESCRIPTOR + 8 * word),
            )?);
        }
    }
    if has(property::DISPATCH_PTR) {
        wide(packet);
    }
    if has(property::QUEUE_PTR) {
        wide(queue);
    }
    if has(property::KERNARG_SEGMENT_PTR) {
        wide(kernarg);
    }
    if has(property::DISPATCH_ID) {
        wide(index);
    }
    if has(property::PRIVATE_SEGMENT_SIZE) {
        user_data.push(private);
    }
    let (length, skip) = (preload & 0x7F, u64::from(preload >> 7));
    if length != 0 {
        if !chip.preload {
            return refuse(format!("{} takes no arguments in registers", chip.target));
        }
        for word in 0..u64::from(length) {
            let at = kernarg.wrapping_add(4 * (skip + word));
            user_data.push(memory::read_u32(vm, at)?);
        }
        program = program.wrapping_add(PRELOAD_ENTRY);
    }
    let count = launch::user_count(rsrc2)?;
    // Compilers count more than they name where a chip initialises registers wrongly otherwise (gfx1100 with waves of 32
    // lanes: LLVM's `hasUserSGPRInit16Bug`). Nobody says what the rest holds.
    if user_data.len() > count as usize {
        return refuse(format!(
            "kernel_code_properties and kernarg_preload name {} user registers, USER_SGPR_COUNT {count}",
            user_data.len()
        ));
    }
    user_data.resize(count as usize, UNDEFINED);
    let mut edge = [0; 3];
    let mut end = [0; 3];
    for (((edge, end), local), grid) in edge.iter_mut().zip(&mut end).zip(local).zip(grid) {
        *end = grid.div_ceil(local.max(1));
        let rest = grid.checked_rem(local).unwrap_or_default();
        *edge = if rest == 0 { local } else { rest };
    }
    launch::plan(
        chip,
        Request {
            program,
            rsrc1: at(&descriptor, 48),
            rsrc2: rsrc2 | lds << 15,
            rsrc3: at(&descriptor, 44),
            user_data,
            start: [0; 3],
            end,
            local,
            edge,
            wave32,
            tmpring,
            scratch_base: match backing {
                0 => 0,
                base => base.wrapping_add(each.wrapping_mul(u64::from(xcc.0))),
            },
            xcc,
        },
    )
}

/// What registers hold that nobody defines.
const UNDEFINED: u32 = 0xDEAD_5A5A;

/// Work-items of a work-group and of the grid.
fn sizes(words: &[u32; 16]) -> Result<([u32; 3], [u32; 3]), Cause> {
    let dims = bits(words, 0, 17, 16) as usize;
    if dims == 0 {
        return refuse("setup names no dimensions".into());
    }
    let local = [
        bits(words, 1, 15, 0),
        bits(words, 1, 31, 16),
        bits(words, 2, 15, 0),
    ];
    let grid = [3, 4, 5].map(|word| bits(words, word, 31, 0));
    for (d, ((axis, local), grid)) in "xyz".chars().zip(local).zip(grid).enumerate() {
        if d >= dims && (local, grid) != (1, 1) {
            return refuse(format!(
                "{dims} dimensions, so workgroup_size_{axis} and grid_size_{axis} have to be 1, not {local} and {grid}"
            ));
        }
        if local == 0 || grid < local {
            return refuse(format!(
                "workgroup_size_{axis} {local} and grid_size_{axis} {grid}: a grid has one whole work-group at least"
            ));
        }
    }
    Ok((local, grid))
}

fn check_descriptor(chip: &'static Chip, descriptor: &[u32; 16]) -> Result<(), Cause> {
    for offset in [12, 24, 28, 32, 36, 40, 60] {
        let value = at(descriptor, offset);
        if value != 0 {
            return refuse(format!(
                "kernel descriptor: reserved bytes at {offset} are {value:#x}"
            ));
        }
    }
    let properties = at(descriptor, 56) & 0xFFFF;
    let mut reserved = property::RESERVED;
    if chip.generation == Generation::Gfx9 {
        reserved |= property::WAVEFRONT_SIZE32;
    }
    if properties & reserved != 0 {
        return refuse(format!(
            "kernel descriptor: kernel_code_properties has reserved bits {:#x} on {}",
            properties & reserved,
            chip.target
        ));
    }
    if properties & property::FLAT_SCRATCH_INIT != 0 {
        return refuse(format!(
            "kernel descriptor: FLAT_SCRATCH_INIT, but {} sets up flat scratch itself",
            chip.target
        ));
    }
    let [rsrc1, rsrc2] = [at(descriptor, 48), at(descriptor, 52)];
    registers::check_sh(chip, registers::RSRC1, rsrc1)?;
    registers::check_sh(chip, registers::RSRC2, rsrc2)?;
    registers::check_sh(chip, chip.rsrc3, at(descriptor, 44))?;
    if rsrc2 >> 15 & 0x1FF != 0 {
        return refuse(
            "kernel descriptor: GRANULATED_LDS_SIZE is for the command processor to fill".into(),
        );
    }
    Ok(())
}
