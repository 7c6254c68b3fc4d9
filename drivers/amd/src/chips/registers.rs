//! Where registers are: offsets in their IP block from the vendor's headers, and the blocks' bases.

/// First register of SET_SH_REG, and the first behind its range.
pub(crate) const SH_REG: core::ops::Range<u32> = 0x2c00..0x3000;

/// Bases of the segments that this driver uses, in dwords, as `ip_discovery` gives them.
///
/// On a live system they are in `/sys/class/drm/renderD*/device/ip_discovery/die/0/<hwid>/<instance>/base_addr`: hardware
/// id 11 is GC, 108 NBIF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Bases {
    /// GC, segment 0.
    pub gc0: u32,
    /// NBIF, segment 2.
    pub nbif2: u32,
}

impl Bases {
    /// GC 9.4.3 and 9.5.0.
    pub const GFX9_4_3: Self = Self {
        gc0: 0x2000,
        nbif2: 0xd20,
    };
    /// GC 11 and 12.
    pub const GFX11: Self = Self {
        gc0: 0x1260,
        nbif2: 0xd20,
    };
}

/// Offsets of the compute registers in segment 0 of GC, `reg*` of `gc_*_offset.h`, and of the HDP flush registers in
/// segment 2 of NBIF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct GcOffsets {
    /// COMPUTE_START_X, then START_Y and Z, NUM_THREAD_X, Y and Z.
    pub start_x: u32,
    /// COMPUTE_PGM_LO, then HI.
    pub pgm_lo: u32,
    /// COMPUTE_DISPATCH_SCRATCH_BASE_LO, then HI.
    pub dispatch_scratch_base_lo: u32,
    /// COMPUTE_PGM_RSRC1, then RSRC2.
    pub pgm_rsrc1: u32,
    /// COMPUTE_PGM_RSRC3.
    pub pgm_rsrc3: u32,
    /// COMPUTE_RESOURCE_LIMITS.
    pub resource_limits: u32,
    /// COMPUTE_TMPRING_SIZE.
    pub tmpring_size: u32,
    /// COMPUTE_RESTART_X, then Y and Z.
    pub restart_x: u32,
    /// COMPUTE_USER_DATA_0 and the 15 after it.
    pub user_data_0: u32,
    /// GPU_HDP_FLUSH_REQ.
    pub hdp_flush_req: u32,
    /// GPU_HDP_FLUSH_DONE.
    pub hdp_flush_done: u32,
}

impl GcOffsets {
    /// `gc_9_4_3_offset.h`, `nbio_7_9_0_offset.h`. Those of gfx950 are at the same place.
    pub const GFX9_4_3: Self = Self {
        start_x: 0xe04,
        pgm_lo: 0xe0c,
        dispatch_scratch_base_lo: 0xe10,
        pgm_rsrc1: 0xe12,
        pgm_rsrc3: 0xe2d,
        resource_limits: 0xe15,
        tmpring_size: 0xe18,
        restart_x: 0xe1b,
        user_data_0: 0xe40,
        hdp_flush_req: 0x106,
        hdp_flush_done: 0x107,
    };

    /// `gc_11_0_0_offset.h`, `gc_11_5_0_offset.h`; `nbio_4_3_0_offset.h`, and block BIF_BX_PF1 of `nbio_7_11_0_offset.h`.
    pub const GFX11: Self = Self {
        start_x: 0x1ba4,
        pgm_lo: 0x1bac,
        dispatch_scratch_base_lo: 0x1bb0,
        pgm_rsrc1: 0x1bb2,
        pgm_rsrc3: 0x1bc8,
        resource_limits: 0x1bb5,
        tmpring_size: 0x1bb8,
        restart_x: 0x1bbb,
        user_data_0: 0x1be0,
        hdp_flush_req: 0x106,
        hdp_flush_done: 0x107,
    };

    /// `gc_12_0_0_offset.h`, `nbif_6_3_1_offset.h`: nothing has moved.
    pub const GFX12: Self = Self::GFX11;
}

/// Dword addresses of the registers that encoders write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Registers {
    /// COMPUTE_START_X.
    pub start_x: u32,
    /// COMPUTE_PGM_LO.
    pub pgm_lo: u32,
    /// COMPUTE_DISPATCH_SCRATCH_BASE_LO.
    pub dispatch_scratch_base_lo: u32,
    /// COMPUTE_PGM_RSRC1.
    pub pgm_rsrc1: u32,
    /// COMPUTE_PGM_RSRC3.
    pub pgm_rsrc3: u32,
    /// COMPUTE_RESOURCE_LIMITS.
    pub resource_limits: u32,
    /// COMPUTE_TMPRING_SIZE.
    pub tmpring_size: u32,
    /// COMPUTE_RESTART_X.
    pub restart_x: u32,
    /// COMPUTE_USER_DATA_0.
    pub user_data_0: u32,
    /// GPU_HDP_FLUSH_REQ.
    pub hdp_flush_req: u32,
    /// GPU_HDP_FLUSH_DONE.
    pub hdp_flush_done: u32,
}

/// A base that puts a register where no packet reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct RegisterError {
    /// The base.
    pub base: u32,
    /// The offset.
    pub offset: u32,
}

impl core::fmt::Display for RegisterError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Self { base, offset } = self;
        write!(
            f,
            "a register at offset {offset:#x} of base {base:#x} is out of the packets' reach"
        )
    }
}

impl core::error::Error for RegisterError {}

impl Registers {
    /// The addresses for these offsets and bases.
    ///
    /// # Errors
    /// [`RegisterError`] for a base that puts a compute register out of the range of SET_SH_REG, or an HDP register
    /// behind the 18 bits of a WAIT_REG_MEM.
    pub fn new(at: &GcOffsets, bases: Bases) -> Result<Self, RegisterError> {
        let place = |base: u32, offset: u32, range: core::ops::Range<u32>| {
            let address = base.checked_add(offset).filter(|a| range.contains(a));
            address.ok_or(RegisterError { base, offset })
        };
        let sh = |offset| place(bases.gc0, offset, SH_REG);
        let nbif = |offset| place(bases.nbif2, offset, 0..1 << 18);
        Ok(Self {
            start_x: sh(at.start_x)?,
            pgm_lo: sh(at.pgm_lo)?,
            dispatch_scratch_base_lo: sh(at.dispatch_scratch_base_lo)?,
            pgm_rsrc1: sh(at.pgm_rsrc1)?,
            pgm_rsrc3: sh(at.pgm_rsrc3)?,
            resource_limits: sh(at.resource_limits)?,
            tmpring_size: sh(at.tmpring_size)?,
            restart_x: sh(at.restart_x)?,
            user_data_0: sh(at.user_data_0)?,
            hdp_flush_req: nbif(at.hdp_flush_req)?,
            hdp_flush_done: nbif(at.hdp_flush_done)?,
        })
    }

    /// The name of the register at this dword address, and how far behind the named one it is.
    pub fn name(&self, address: u32) -> Option<(&'static str, u32)> {
        let known = [
            (self.start_x, 3, "COMPUTE_START_X"),
            (self.start_x.wrapping_add(3), 3, "COMPUTE_NUM_THREAD_X"),
            (self.pgm_lo, 2, "COMPUTE_PGM_LO"),
            (
                self.dispatch_scratch_base_lo,
                2,
                "COMPUTE_DISPATCH_SCRATCH_BASE_LO",
            ),
            (self.pgm_rsrc1, 1, "COMPUTE_PGM_RSRC1"),
            (self.pgm_rsrc1.wrapping_add(1), 1, "COMPUTE_PGM_RSRC2"),
            (self.pgm_rsrc3, 1, "COMPUTE_PGM_RSRC3"),
            (self.resource_limits, 1, "COMPUTE_RESOURCE_LIMITS"),
            (self.tmpring_size, 1, "COMPUTE_TMPRING_SIZE"),
            (self.restart_x, 3, "COMPUTE_RESTART_X"),
            (self.user_data_0, 16, "COMPUTE_USER_DATA_0"),
            (self.hdp_flush_req, 1, "GPU_HDP_FLUSH_REQ"),
            (self.hdp_flush_done, 1, "GPU_HDP_FLUSH_DONE"),
        ];
        known.into_iter().find_map(|(first, count, name)| {
            let ahead = address.wrapping_sub(first);
            (ahead < count).then_some((name, ahead))
        })
    }
}
