//! Scratch memory: how much a queue needs, COMPUTE_TMPRING_SIZE, and buffer descriptors.

use hcq_nostd::value::{Fit, Misfit};

use crate::chips::{Chip, INDEX_STRIDE_32, INDEX_STRIDE_64};
use crate::device::ADDRESS_BITS;

/// Lanes that scratch memory is interleaved for, whatever the wave's width.
const LANES: u32 = 64;
/// COMPUTE_TMPRING_SIZE.WAVES, 11:0.
const WAVES_BITS: u8 = 12;
/// The unit of COMPUTE_DISPATCH_SCRATCH_BASE.
const BASE_ALIGN_LOG2: u8 = 8;

/// The parts of a GPU that waves with scratch memory run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Topology {
    /// XCCs.
    pub xccs: u32,
    /// Shader engines of an XCC.
    pub ses_per_xcc: u32,
    /// Compute units of an XCC.
    pub cus_per_xcc: u32,
    /// KFD's `max_slots_scratch_cu`.
    pub slots_per_cu: u32,
}

/// Why there can be no such scratch memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum ScratchError {
    /// A topology with nothing in it, or with more than 64 bits can count.
    Topology,
    /// COMPUTE_TMPRING_SIZE.WAVESIZE cannot hold it.
    WaveSize(Misfit),
    /// COMPUTE_TMPRING_SIZE.WAVES cannot hold it.
    Waves(Misfit),
    /// The memory's address or size is not what its registers and descriptors take.
    Memory(Misfit),
}

impl core::fmt::Display for ScratchError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Topology => {
                f.write_str("a topology without compute units, or one that overflows")
            }
            Self::WaveSize(m) => write!(f, "scratch memory of a wave: {m}"),
            Self::Waves(m) => write!(f, "waves with scratch memory: {m}"),
            Self::Memory(m) => write!(f, "scratch memory: {m}"),
        }
    }
}

impl core::error::Error for ScratchError {}

/// How much scratch memory a queue needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Need {
    /// Bytes for all XCCs.
    pub bytes: u64,
    /// Bytes of a lane, rounded up.
    pub lane_bytes: u32,
    /// COMPUTE_TMPRING_SIZE.
    pub tmpring_size: u32,
}

impl Need {
    /// What kernels with `private_bytes` bytes per work-item need.
    ///
    /// # Errors
    /// [`ScratchError`]; a size that its register field cannot hold is refused, not cut.
    pub fn new(chip: &Chip, topology: &Topology, private_bytes: u32) -> Result<Self, ScratchError> {
        let ring = chip.tmpring;
        let lane_bytes = private_bytes
            .checked_next_multiple_of((ring.unit / LANES).max(1))
            .ok_or(ScratchError::WaveSize(too_large(
                private_bytes.into(),
                ring.wavesize_bits,
            )))?;
        let parts = [
            topology.xccs,
            topology.ses_per_xcc,
            topology.cus_per_xcc,
            topology.slots_per_cu,
        ];
        if parts.contains(&0) {
            return Err(ScratchError::Topology);
        }
        if lane_bytes == 0 {
            return Ok(Self {
                bytes: 0,
                lane_bytes,
                tmpring_size: 0,
            });
        }
        let wave_bytes = u64::from(lane_bytes) * u64::from(LANES);
        let slots = u64::from(topology.cus_per_xcc).checked_mul(topology.slots_per_cu.into());
        let per_xcc = slots
            .and_then(|s| s.checked_mul(wave_bytes))
            .ok_or(ScratchError::Topology)?;
        let bytes = per_xcc
            .checked_mul(topology.xccs.into())
            .ok_or(ScratchError::Topology)?;

        let unit = u64::from(ring.unit.max(1));
        let wavesize = wave_bytes.div_ceil(unit);
        Fit::bits(ring.wavesize_bits)
            .check(wavesize)
            .map_err(ScratchError::WaveSize)?;
        let engines = if ring.waves_per_se {
            topology.ses_per_xcc
        } else {
            1
        };
        let fit = per_xcc / (wavesize * unit).max(1) / u64::from(engines).max(1);
        let waves = fit.min(
            slots
                .unwrap_or(u64::MAX)
                .saturating_mul(topology.xccs.into()),
        );
        Fit::bits(WAVES_BITS)
            .check(waves)
            .map_err(ScratchError::Waves)?;
        // 12 bits, and at most 18.
        let tmpring_size = waves as u32 | (wavesize as u32) << WAVES_BITS;
        Ok(Self {
            bytes,
            lane_bytes,
            tmpring_size,
        })
    }
}

const fn too_large(value: u64, bits: u8) -> Misfit {
    Misfit::TooLarge { value, bits }
}

/// Scratch memory that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Scratch {
    address: u64,
    bytes: u64,
    lane_bytes: u32,
    tmpring_size: u32,
}

impl Scratch {
    /// None: for kernels without private memory.
    pub const NONE: Self = Self {
        address: 0,
        bytes: 0,
        lane_bytes: 0,
        tmpring_size: 0,
    };

    /// `need.bytes` bytes at `address`.
    ///
    /// # Errors
    /// [`ScratchError::Memory`] if the address is not at a 256-byte boundary below 2^48, or the end not below 2^48.
    pub fn new(address: u64, need: &Need) -> Result<Self, ScratchError> {
        Fit::aligned(ADDRESS_BITS, BASE_ALIGN_LOG2)
            .check(address)
            .map_err(ScratchError::Memory)?;
        let end = address.saturating_add(need.bytes);
        if end > 1 << ADDRESS_BITS {
            return Err(ScratchError::Memory(too_large(end, ADDRESS_BITS)));
        }
        Ok(Self {
            address,
            bytes: need.bytes,
            lane_bytes: need.lane_bytes,
            tmpring_size: need.tmpring_size,
        })
    }

    /// Device address.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Bytes in all.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes of a lane.
    pub const fn lane_bytes(&self) -> u32 {
        self.lane_bytes
    }

    /// COMPUTE_TMPRING_SIZE.
    pub const fn tmpring_size(&self) -> u32 {
        self.tmpring_size
    }

    /// Where the part of each of `xccs` XCCs starts: the first one's address, and the distance.
    ///
    /// # Errors
    /// [`Misfit`] for parts that do not start at a 256-byte boundary.
    pub fn parts(&self, xccs: u8) -> Result<(u64, u64), Misfit> {
        let part = self.bytes / u64::from(xccs.max(1));
        Fit::aligned(64, BASE_ALIGN_LOG2).check(part)?;
        Ok((self.address, part))
    }

    /// The descriptor in `amd_queue_t`, `SQ_BUF_RSRC_WORD0` to `3`, of which NUM_RECORDS is what one XCC has.
    ///
    /// # Errors
    /// [`ScratchError::Memory`] if one XCC has 2^32 bytes or more.
    pub fn queue_descriptor(&self, chip: &Chip, xccs: u8) -> Result<[u32; 4], ScratchError> {
        let part = self.bytes / u64::from(xccs.max(1));
        let records = u32::try_from(part).map_err(|_| ScratchError::Memory(too_large(part, 32)))?;
        let scratch = &chip.scratch;
        let [low, high] = crate::pm4::split(self.address);
        Ok([
            low,
            high | scratch.word1,
            records,
            scratch.word3 | scratch.queue_index_stride,
        ])
    }
}

/// The descriptor in a wave's registers, for the XCC whose scratch memory is at `base`. Lanes are interleaved as wide as
/// the wave is.
pub(crate) fn wave_descriptor(chip: &Chip, base: u64, wave32: bool) -> [u32; 4] {
    let scratch = &chip.scratch;
    let [low, high] = crate::pm4::split(base);
    let stride = if wave32 {
        INDEX_STRIDE_32
    } else {
        INDEX_STRIDE_64
    };
    [low, high | scratch.word1, u32::MAX, scratch.word3 | stride]
}

#[cfg(test)]
mod tests;
