//! Packet headers, and what differs between chips.

/// PACKET3_PRED_EXEC and PACKET3_ACQUIRE_MEM.
const PRED_EXEC: u32 = 0x23;
const ACQUIRE_MEM: u32 = 0x58;

// ACQUIRE_MEM: everything. Size and base count 256 bytes; the high size word has 8 bits.
const COHER_SIZE: u32 = u32::MAX;
const COHER_SIZE_HI: u32 = 0xff;

/// The command processor addresses 48 bits.
pub(crate) const ADDRESS_BITS: u8 = 48;

pub(crate) const fn type3(opcode: u32, body: u32) -> u32 {
    0xc000_0000 | (body - 1) << 16 | opcode << 8
}

/// What differs between chips, as data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chip {
    /// ACQUIRE_MEM of everything, and without instruction caches and L2, for dispatches.
    pub(crate) acquire_all: &'static [u32],
    pub(crate) acquire_exec: &'static [u32],
    /// Cache bits of a RELEASE_MEM that makes writes visible.
    pub(crate) release_flush: u32,
    pub(crate) rsrc3: u32,
    pub(crate) lds_granule: u32,
    /// Whether a RELEASE_MEM hands its interrupt a context.
    pub(crate) context_id: bool,
    /// GPU_HDP_FLUSH_REQ and DONE.
    pub(crate) hdp_flush: [u32; 2],
}

const fn acquire_gfx9(coher_cntl: u32) -> [u32; 7] {
    const INTERVAL: u32 = 10;
    [
        type3(ACQUIRE_MEM, 6),
        coher_cntl,
        COHER_SIZE,
        COHER_SIZE_HI,
        0,
        0,
        INTERVAL,
    ]
}

const fn acquire_gfx10(gcr_cntl: u32) -> [u32; 8] {
    [
        type3(ACQUIRE_MEM, 7),
        0,
        COHER_SIZE,
        COHER_SIZE_HI,
        0,
        0,
        0,
        gcr_cntl,
    ]
}

// coher_cntl of gfx9.
const TC_WB: u32 = 1 << 18;
const TCL1: u32 = 1 << 22;
const TC: u32 = 1 << 23;
const SH_KCACHE: u32 = 1 << 27;
const SH_ICACHE: u32 = 1 << 29;

// gcr_cntl of gfx10 and later.
const GLI_INV: u32 = 1;
const GLM: u32 = 3 << 4;
const GLK: u32 = 3 << 6;
const GLV_INV: u32 = 1 << 8;
const GL1_INV: u32 = 1 << 9;
const GL2: u32 = 3 << 14;

pub(crate) const GFX942: Chip = Chip {
    acquire_all: &acquire_gfx9(TC_WB | TCL1 | TC | SH_KCACHE | SH_ICACHE),
    acquire_exec: &acquire_gfx9(TCL1 | SH_KCACHE),
    release_flush: 1 << 15 | 1 << 19, // TC_WB, TC_NC
    rsrc3: 0x2e2d,
    lds_granule: 512,
    context_id: false,
    hdp_flush: [0xe26, 0xe27],
};

pub(crate) const GFX1100: Chip = Chip {
    acquire_all: &acquire_gfx10(GLI_INV | GLM | GLK | GLV_INV | GL1_INV | GL2),
    acquire_exec: &acquire_gfx10(GLM | GLK | GLV_INV | GL1_INV),
    release_flush: 0xf << 12 | 3 << 20 | 1 << 22, // GLM, GLV, GL1, GL2, SEQ
    rsrc3: 0x2e28,
    lds_granule: 512,
    context_id: true,
    hdp_flush: [0xe26, 0xe27],
};

/// How the host is woken: a mailbox is written and an interrupt raised with the event's number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interrupt {
    pub(crate) mailbox: u64,
    pub(crate) event: u32,
}

/// A chip, as this process uses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    pub(crate) chip: &'static Chip,
    pub(crate) xccs: u32,
    pub(crate) interrupt: Option<Interrupt>,
}

pub(crate) const fn pred_exec(xcc_mask: u32) -> [u32; 2] {
    [type3(PRED_EXEC, 1), xcc_mask << 24]
}
