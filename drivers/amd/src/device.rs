//! One GPU as a process uses it.

use hcq_nostd::value::{Fit, Misfit};

use crate::chips::{Bases, Chip, RegisterError, Registers};

/// Device addresses have 48 bits.
pub(crate) const ADDRESS_BITS: u8 = 48;

/// How hosts that sleep are woken: the event's number goes into its mailbox and into an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Event {
    mailbox: u64,
    id: u32,
}

impl Event {
    /// A KFD event: the device address of its slot in the event page, and its number.
    ///
    /// # Errors
    /// [`Misfit`] for a mailbox that is not at an 8-byte boundary below 2^48, or a number that does not fit an
    /// interrupt's 28 bits.
    pub fn new(mailbox: u64, id: u32) -> Result<Self, Misfit> {
        Fit::aligned(ADDRESS_BITS, 3).check(mailbox)?;
        Fit::bits(28).check(id.into())?;
        Ok(Self { mailbox, id })
    }

    /// Device address of the mailbox.
    pub const fn mailbox(self) -> u64 {
        self.mailbox
    }

    /// The event's number.
    pub const fn id(self) -> u32 {
        self.id
    }
}

/// A bit of GPU_HDP_FLUSH_REQ and GPU_HDP_FLUSH_DONE: which engine asks for a flush and waits for its end.
///
/// Waiting for the bits of others hangs or returns early, depending on what they do; an engine waits for its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct HdpClient(u8);

impl HdpClient {
    /// The bit of a compute pipe: `CP2` and following for the first micro engine, `CP6` and following for the second.
    /// `None` if `me` is not 1 or 2, or `pipe` above 3.
    pub const fn compute(me: u8, pipe: u8) -> Option<Self> {
        match (me, pipe) {
            (1, 0..=3) => Some(Self(2 + pipe)),
            (2, 0..=3) => Some(Self(6 + pipe)),
            _ => None,
        }
    }

    /// The first pipe of the first micro engine. A process is not told which pipe its queue runs on; a compute pipe's
    /// bit is right for each, because a flush that one pipe has asked for covers what was written before it for all.
    pub const COMPUTE: Self = Self(2);

    /// The bit, in place.
    pub const fn mask(self) -> u32 {
        1 << self.0
    }
}

/// Why a device is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum DeviceError {
    /// No XCC, or more than the chip has.
    Xccs {
        /// How many.
        have: u8,
        /// The most there may be.
        max: u8,
    },
    /// Register bases that cannot be.
    Register(RegisterError),
}

impl core::fmt::Display for DeviceError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Self::Xccs { have, max } => write!(f, "{have} XCCs; the chip has one to {max}"),
            Self::Register(e) => write!(f, "{e}"),
        }
    }
}

impl core::error::Error for DeviceError {}

/// One GPU as a process uses it: what encoders need to know beside the commands.
#[derive(Clone, Copy, Debug)]
pub struct Device {
    chip: &'static Chip,
    registers: Registers,
    xccs: u8,
    event: Option<Event>,
    hdp_client: HdpClient,
}

impl Device {
    /// A GPU whose queues run on `xccs` XCCs, with the chip's usual register bases and nobody to wake.
    ///
    /// # Errors
    /// [`DeviceError::Xccs`].
    pub fn new(chip: &'static Chip, xccs: u8) -> Result<Self, DeviceError> {
        Self::with_bases(chip, xccs, chip.bases)
    }

    /// The same with the bases that `ip_discovery` gives.
    ///
    /// # Errors
    /// [`DeviceError`].
    pub fn with_bases(chip: &'static Chip, xccs: u8, bases: Bases) -> Result<Self, DeviceError> {
        let max = chip.max_xccs;
        if xccs == 0 || xccs > max {
            return Err(DeviceError::Xccs { have: xccs, max });
        }
        Ok(Self {
            chip,
            registers: Registers::new(chip.gc, bases).map_err(DeviceError::Register)?,
            xccs,
            event: None,
            hdp_client: HdpClient::COMPUTE,
        })
    }

    /// The same, waking hosts through an event. Without one a signal that should notify only writes its value.
    pub const fn with_event(self, event: Event) -> Self {
        Self {
            event: Some(event),
            ..self
        }
    }

    /// The same, flushing HDP as another engine.
    pub const fn with_hdp_client(self, hdp_client: HdpClient) -> Self {
        Self { hdp_client, ..self }
    }

    /// The chip.
    pub const fn chip(&self) -> &'static Chip {
        self.chip
    }

    /// Where its registers are.
    pub const fn registers(&self) -> &Registers {
        &self.registers
    }

    /// XCCs that each queue runs on.
    pub const fn xccs(&self) -> u8 {
        self.xccs
    }

    /// How hosts are woken.
    pub const fn event(&self) -> Option<Event> {
        self.event
    }

    /// The engine that flushes HDP.
    pub const fn hdp_client(&self) -> HdpClient {
        self.hdp_client
    }
}
