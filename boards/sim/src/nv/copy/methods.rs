//! Methods of the copy classes (`clc7b5.h`, `clc8b5.h`, `clcab5.h`).

/// What a method is to this engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It sets what a launch uses.
    State,
    /// `LAUNCH_DMA`.
    Launch,
    /// It changes nothing here.
    Nothing,
    /// It sets what only launches use that are not simulated.
    Other,
}

use Use::{Launch, Nothing, Other, State};

/// A method: byte offset, name, use, and the bits that its data may have before Hopper, on Hopper and on Blackwell; 0 if there is no
/// such method.
type Row = (u16, &'static str, Use, [u32; 3]);

const W: [u32; 3] = [u32::MAX; 3];
/// The upper part of an address: 49 bits, then 57.
const UPPER: [u32; 3] = [0x1_FFFF, 0x1FF_FFFF, 0x1FF_FFFF];

pub(super) mod offset {
    pub(in super::super) const SET_SEMAPHORE_A: u16 = 0x240;
    pub(in super::super) const SET_SEMAPHORE_B: u16 = 0x244;
    pub(in super::super) const SET_SEMAPHORE_PAYLOAD: u16 = 0x248;
    pub(in super::super) const SET_SEMAPHORE_PAYLOAD_UPPER: u16 = 0x24C;
    pub(in super::super) const SET_RENDER_ENABLE_C: u16 = 0x25C;
    pub(in super::super) const LAUNCH_DMA: u16 = 0x300;
    pub(in super::super) const OFFSET_IN_UPPER: u16 = 0x400;
    pub(in super::super) const OFFSET_IN_LOWER: u16 = 0x404;
    pub(in super::super) const OFFSET_OUT_UPPER: u16 = 0x408;
    pub(in super::super) const OFFSET_OUT_LOWER: u16 = 0x40C;
    pub(in super::super) const PITCH_IN: u16 = 0x410;
    pub(in super::super) const PITCH_OUT: u16 = 0x414;
    pub(in super::super) const LINE_LENGTH_IN: u16 = 0x418;
    pub(in super::super) const LINE_COUNT: u16 = 0x41C;
    pub(in super::super) const SET_REMAP_CONST_A: u16 = 0x700;
    pub(in super::super) const SET_REMAP_CONST_B: u16 = 0x704;
    pub(in super::super) const SET_REMAP_COMPONENTS: u16 = 0x708;
}

#[rustfmt::skip]
static METHODS: &[Row] = &[
    (0x100, "NOP", Nothing, W),
    (0x140, "PM_TRIGGER", Nothing, W),
    (0x21C, "SET_MONITORED_FENCE_TYPE", Other, [1; 3]),
    (0x220, "SET_MONITORED_FENCE_SIGNAL_ADDR_BASE_UPPER", Other, UPPER),
    (0x224, "SET_MONITORED_FENCE_SIGNAL_ADDR_BASE_LOWER", Other, W),
    (offset::SET_SEMAPHORE_A, "SET_SEMAPHORE_A", State, UPPER),
    (offset::SET_SEMAPHORE_B, "SET_SEMAPHORE_B", State, W),
    (offset::SET_SEMAPHORE_PAYLOAD, "SET_SEMAPHORE_PAYLOAD", State, W),
    (offset::SET_SEMAPHORE_PAYLOAD_UPPER, "SET_SEMAPHORE_PAYLOAD_UPPER", State, W),
    (0x254, "SET_RENDER_ENABLE_A", Other, [0xFF, 0x1FF_FFFF, 0x1FF_FFFF]),
    (0x258, "SET_RENDER_ENABLE_B", Other, W),
    (offset::SET_RENDER_ENABLE_C, "SET_RENDER_ENABLE_C", State, [7; 3]),
    (0x260, "SET_SRC_PHYS_MODE", Other, [0x3FF; 3]),
    (0x264, "SET_DST_PHYS_MODE", Other, [0x3FF; 3]),
    (offset::LAUNCH_DMA, "LAUNCH_DMA", Launch, [0xFFCF_FFFF, 0xFFFF_FFFF, 0xFFFF_F7FF]),
    (offset::OFFSET_IN_UPPER, "OFFSET_IN_UPPER", State, UPPER),
    (offset::OFFSET_IN_LOWER, "OFFSET_IN_LOWER", State, W),
    (offset::OFFSET_OUT_UPPER, "OFFSET_OUT_UPPER", State, UPPER),
    (offset::OFFSET_OUT_LOWER, "OFFSET_OUT_LOWER", State, W),
    (offset::PITCH_IN, "PITCH_IN", State, W),
    (offset::PITCH_OUT, "PITCH_OUT", State, W),
    (offset::LINE_LENGTH_IN, "LINE_LENGTH_IN", State, W),
    (offset::LINE_COUNT, "LINE_COUNT", State, W),
    (0x500, "SET_SECURE_COPY_MODE", Other, [0, 1, 1]),
    (0x514, "SET_DECRYPT_AUTH_TAG_COMPARE_ADDR_UPPER", Other, [0, 0x1FF_FFFF, 0x1FF_FFFF]),
    (0x518, "SET_DECRYPT_AUTH_TAG_COMPARE_ADDR_LOWER", Other, [0, u32::MAX, u32::MAX]),
    (0x530, "SET_ENCRYPT_AUTH_TAG_ADDR_UPPER", Other, [0, 0x1FF_FFFF, 0x1FF_FFFF]),
    (0x534, "SET_ENCRYPT_AUTH_TAG_ADDR_LOWER", Other, [0, u32::MAX, u32::MAX]),
    (0x538, "SET_ENCRYPT_IV_ADDR_UPPER", Other, [0, 0x1FF_FFFF, 0x1FF_FFFF]),
    (0x53C, "SET_ENCRYPT_IV_ADDR_LOWER", Other, [0, u32::MAX, u32::MAX]),
    (0x6FC, "SET_MEMORY_SCRUB_PARAMETERS", Other, [0, 1, 1]),
    (offset::SET_REMAP_CONST_A, "SET_REMAP_CONST_A", State, W),
    (offset::SET_REMAP_CONST_B, "SET_REMAP_CONST_B", State, W),
    (offset::SET_REMAP_COMPONENTS, "SET_REMAP_COMPONENTS", State, [0x0333_7777; 3]),
    (0x70C, "SET_DST_BLOCK_SIZE", Other, [0xFFFF, 0xFFFF, 0x3_FFFF]),
    (0x710, "SET_DST_WIDTH", Other, W),
    (0x714, "SET_DST_HEIGHT", Other, W),
    (0x718, "SET_DST_DEPTH", Other, W),
    (0x71C, "SET_DST_LAYER", Other, W),
    (0x720, "SET_DST_ORIGIN", Other, W),
    (0x728, "SET_SRC_BLOCK_SIZE", Other, [0xFFFF, 0xFFFF, 0x3_FFFF]),
    (0x72C, "SET_SRC_WIDTH", Other, W),
    (0x730, "SET_SRC_HEIGHT", Other, W),
    (0x734, "SET_SRC_DEPTH", Other, W),
    (0x738, "SET_SRC_LAYER", Other, W),
    (0x73C, "SET_SRC_ORIGIN", Other, W),
    (0x744, "SRC_ORIGIN_X", Other, W),
    (0x748, "SRC_ORIGIN_Y", Other, W),
    (0x74C, "DST_ORIGIN_X", Other, W),
    (0x750, "DST_ORIGIN_Y", Other, W),
    (0x1114, "PM_TRIGGER_END", Nothing, W),
];

/// A method of a generation: its name, its use, the bits that its data may have.
pub(super) fn find(generation: usize, method: u16) -> Option<(&'static str, Use, u32)> {
    let (_, name, kind, masks) = METHODS.iter().find(|row| row.0 == method)?;
    let mask = masks.get(generation).copied().filter(|&mask| mask != 0)?;
    Some((name, *kind, mask))
}
