//! One GPU as a process uses it, and the private memory of its programs.

use hcq_nostd::value::{Field, Fit, Misfit, Value, Var};

use crate::chips::Chip;
use crate::pm4::packets::Packets;

/// Device addresses have 49 bits: descriptors hold 17 above the low word.
pub(crate) const ADDRESS_BITS: u8 = 49;

/// One GPU as a process uses it: what encoders need to know beside the commands.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    chip: &'static Chip,
    packets: &'static Packets,
    scrap: Value,
    border_colors: Value,
}

/// The word that cache flushes write, and the table of border colours.
pub(crate) const SCRAP_FIT: Fit = Fit::aligned(ADDRESS_BITS, 2);
pub(crate) const BORDER_COLORS_FIT: Fit = Fit::aligned(ADDRESS_BITS, 7);

impl Device {
    /// A GPU with two places that it can reach: a word at `scrap` that it writes at the end of cache flushes and nobody
    /// reads, and a table of [`BorderColor`](crate::image::BorderColor) entries at `border_colors`.
    ///
    /// # Errors
    /// [`Misfit`] for a word that is not at a 4-byte boundary, or a table that is not at a 128-byte boundary, below 2^49.
    pub fn new(chip: &'static Chip, scrap: u64, border_colors: u64) -> Result<Self, Misfit> {
        SCRAP_FIT.check(scrap)?;
        BORDER_COLORS_FIT.check(border_colors)?;
        Ok(Self {
            chip,
            packets: chip.generation.packets(),
            scrap: scrap.into(),
            border_colors: border_colors.into(),
        })
    }

    /// The same GPU for words that run where the two places are known at launch only: this far behind a variable. They are
    /// checked then.
    pub fn based_on(self, own: Var, scrap_at: u64, border_colors_at: u64) -> Self {
        Self {
            scrap: Value::from(own) + scrap_at,
            border_colors: Value::from(own) + border_colors_at,
            ..self
        }
    }

    /// The chip.
    pub const fn chip(&self) -> &'static Chip {
        self.chip
    }

    /// What the chip's generation differs in.
    pub(crate) const fn packets(&self) -> &'static Packets {
        self.packets
    }

    /// Device address of the word that cache flushes write.
    pub const fn scrap(&self) -> Value {
        self.scrap
    }

    /// Device address of the table of border colours.
    pub const fn border_colors(&self) -> Value {
        self.border_colors
    }
}

/// MEMSIZEPERITEM counts 512 bytes.
const PER_ITEM: Field = Field::new(0, 8).unit(9);
/// TOTALPVTMEMSIZE counts 4 KiB.
const TOTAL: Field = Field::new(0, 18).unit(12);
/// SP_CS_PVT_MEM_HW_STACK_OFFSET counts 2 KiB.
const STACK_OFFSET: Field = Field::new(0, 19).unit(11);
const ITEM_UNIT: u64 = 512;
const PAGE: u64 = 4096;

/// Private memory that a program needs.
///
/// Each shader processor has a part of its own: memory for each work-item that it has room for, and behind it the stack
/// that the hardware keeps, at an offset that is a power of two per work-item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PrivateNeed {
    /// Bytes of one work-item, a multiple of 512.
    pub item_bytes: u64,
    /// Bytes of all work-items of a shader processor, a multiple of 4096.
    pub core_bytes: u64,
    /// Where the hardware's stack begins, a multiple of 4096.
    pub stack_offset: u64,
    /// Bytes of memory for all shader processors.
    pub bytes: u64,
}

impl PrivateNeed {
    /// What a program takes that has this many bytes of private memory for each work-item.
    ///
    /// # Errors
    /// [`Misfit`] for more than the registers can say.
    ///
    /// ```
    /// use hcq_qcom::chips::Chip;
    /// use hcq_qcom::device::PrivateNeed;
    /// let need = PrivateNeed::new(Chip::named("630").ok_or("known")?, 0x1801)?;
    /// assert_eq!((need.item_bytes, need.core_bytes, need.stack_offset), (0x1a00, 0xd0_0000, 0x100_0000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(chip: &Chip, private_bytes: u32) -> Result<Self, Misfit> {
        let fibers = u64::from(chip.fibers_per_core);
        let item_bytes = u64::from(private_bytes).next_multiple_of(ITEM_UNIT);
        let core_bytes = item_bytes.saturating_mul(fibers).next_multiple_of(PAGE);
        let rounded = match item_bytes {
            0 => 0,
            bytes => bytes.next_power_of_two(),
        };
        let stack_offset = rounded.saturating_mul(fibers).max(PAGE);
        let need = Self {
            item_bytes,
            core_bytes,
            stack_offset,
            bytes: stack_offset.saturating_mul(chip.cores.into()),
        };
        need.registers()?;
        Ok(need)
    }

    /// SP_CS_PVT_MEM_PARAM, SP_CS_PVT_MEM_SIZE and SP_CS_PVT_MEM_HW_STACK_OFFSET.
    pub(crate) const fn registers(&self) -> Result<[u32; 3], Misfit> {
        let fields = (
            PER_ITEM.place(self.item_bytes),
            TOTAL.place(self.core_bytes),
            STACK_OFFSET.place(self.stack_offset),
        );
        match fields {
            // No field has more than 19 bits.
            (Ok(item), Ok(total), Ok(stack)) => Ok([item as u32, total as u32, stack as u32]),
            (Err(e), _, _) | (_, Err(e), _) | (_, _, Err(e)) => Err(e),
        }
    }
}

/// Memory for programs' private data. Dispatches of one queue follow each other, so that one piece does for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct PrivateMemory {
    address: u64,
    bytes: u64,
}

impl PrivateMemory {
    /// `bytes` bytes at a device address.
    ///
    /// # Errors
    /// [`Misfit`] for an address that is not at a 4096-byte boundary, or memory that does not end below 2^49.
    pub fn new(address: u64, bytes: u64) -> Result<Self, Misfit> {
        Fit::aligned(ADDRESS_BITS, 12).check(address)?;
        Fit::at_most(1 << ADDRESS_BITS).check(address.saturating_add(bytes))?;
        Ok(Self { address, bytes })
    }

    /// Its device address.
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Its bytes.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}
