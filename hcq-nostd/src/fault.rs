//! Device faults: data, and a state that stays.
//!
//! A fault is a record. A device that has one stays in error: waits return it at once, submissions are refused, and only
//! an explicit [`DeviceState::recover`] ends it.

use crate::mem::{SharedWord, SharedWords};

/// What went wrong. An open set: devices report what this crate does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum FaultKind {
    /// An access to an address that is not mapped, or not in that way.
    Memory,
    /// A command that the engine does not know, or with fields that it refuses.
    Command,
    /// A program did something illegal, or does not exist.
    Program,
    /// The engine or its kernel driver reported an error of the hardware, or a reset.
    Hardware,
    /// Another number, from the device.
    Other(u16),
}

impl FaultKind {
    const fn code(self) -> u16 {
        match self {
            Self::Memory => 1,
            Self::Command => 2,
            Self::Program => 3,
            Self::Hardware => 4,
            Self::Other(n) => n,
        }
    }

    const fn from_code(n: u16) -> Self {
        match n {
            1 => Self::Memory,
            2 => Self::Command,
            3 => Self::Program,
            4 => Self::Hardware,
            n => Self::Other(n),
        }
    }
}

/// How memory was accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Access {
    /// Not known, or no access.
    Unknown,
    /// A read.
    Read,
    /// A write.
    Write,
    /// An instruction fetch.
    Execute,
}

impl Access {
    const fn code(self) -> u8 {
        match self {
            Self::Unknown => 0,
            Self::Read => 1,
            Self::Write => 2,
            Self::Execute => 3,
        }
    }

    const fn from_code(n: u8) -> Self {
        match n {
            1 => Self::Read,
            2 => Self::Write,
            3 => Self::Execute,
            _ => Self::Unknown,
        }
    }
}

/// A fault as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct FaultRecord {
    /// What went wrong.
    pub kind: FaultKind,
    /// How memory was accessed.
    pub access: Access,
    /// Number of the engine or queue, as its driver counts.
    pub engine: u16,
    /// The address at fault, or the command's position in its queue.
    pub address: u64,
    /// A number of the device's own: an opcode, a status word.
    pub detail: u64,
    /// The last timeline value that the device reached.
    pub last_signalled: u64,
    /// The first one that it did not.
    pub first_not_signalled: u64,
}

impl FaultRecord {
    /// A record with nothing known but its kind and place.
    pub const fn new(kind: FaultKind, engine: u16, address: u64) -> Self {
        Self {
            kind,
            access: Access::Unknown,
            engine,
            address,
            detail: 0,
            last_signalled: 0,
            first_not_signalled: 0,
        }
    }
}

impl core::fmt::Display for FaultRecord {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.kind {
            FaultKind::Memory => f.write_str("memory fault")?,
            FaultKind::Command => f.write_str("invalid command")?,
            FaultKind::Program => f.write_str("program fault")?,
            FaultKind::Hardware => f.write_str("hardware error")?,
            FaultKind::Other(n) => write!(f, "fault {n}")?,
        }
        match self.access {
            Access::Unknown => {}
            Access::Read => f.write_str(" reading")?,
            Access::Write => f.write_str(" writing")?,
            Access::Execute => f.write_str(" executing")?,
        }
        write!(
            f,
            " at {:#x} on engine {} (detail {:#x}",
            self.address, self.engine, self.detail
        )?;
        if self.first_not_signalled != 0 {
            write!(
                f,
                ", timeline reached {}, not {}",
                self.last_signalled, self.first_not_signalled
            )?;
        }
        f.write_str(")")
    }
}

impl core::error::Error for FaultRecord {}

/// Where an engine reports its first fault, in memory that both sides see: eight 64-bit words.
///
/// Word 0 is the state (0 none, 1 being written, 2 valid), words 1 to 6 the record.
#[derive(Clone, Copy, Debug)]
pub struct FaultCell<'m> {
    words: SharedWords<'m>,
}

impl<'m> FaultCell<'m> {
    /// 64-bit words that a cell takes.
    pub const WORDS: usize = 8;

    const VALID: u64 = 2;

    /// A cell over the first eight words; `None` if there are fewer.
    pub fn new(words: SharedWords<'m>) -> Option<Self> {
        (words.len() >= Self::WORDS).then_some(Self { words })
    }

    fn word(&self, index: usize) -> Option<SharedWord<'m>> {
        self.words.get(index).map(|(w, _)| w)
    }

    /// Reports a fault. The first one stays: with several engines on one cell, each has to be the only one that reports
    /// at a time.
    pub fn report(&self, record: &FaultRecord) {
        let Some(state) = self.word(0) else { return };
        if state.load() != 0 {
            return;
        }
        state.store(1);
        let head = u64::from(record.kind.code())
            | u64::from(record.access.code()) << 16
            | u64::from(record.engine) << 32;
        let words = [
            head,
            record.address,
            record.detail,
            record.last_signalled,
            record.first_not_signalled,
        ];
        for (index, word) in (1..).zip(words) {
            if let Some(slot) = self.word(index) {
                slot.store(word);
            }
        }
        // ORDER: the release of this store pairs with the acquire in `get`, which then sees the record.
        state.store(Self::VALID);
    }

    /// The fault, if there is one.
    pub fn get(&self) -> Option<FaultRecord> {
        if self.word(0)?.load() != Self::VALID {
            return None;
        }
        let head = self.word(1)?.load();
        Some(FaultRecord {
            kind: FaultKind::from_code((head & 0xffff) as u16),
            access: Access::from_code((head >> 16 & 0xff) as u8),
            engine: (head >> 32 & 0xffff) as u16,
            address: self.word(2)?.load(),
            detail: self.word(3)?.load(),
            last_signalled: self.word(4)?.load(),
            first_not_signalled: self.word(5)?.load(),
        })
    }

    /// Forgets the fault, when the engine is stopped.
    pub fn clear(&self) {
        if let Some(state) = self.word(0) {
            state.store(0);
        }
    }
}

/// Whether a device may be used.
///
/// ```
/// use hcq_nostd::fault::{DeviceState, FaultKind, FaultRecord};
/// let mut state = DeviceState::new();
/// assert!(state.check().is_ok());
/// state.fail(FaultRecord::new(FaultKind::Memory, 0, 0xdead_0000));
/// state.fail(FaultRecord::new(FaultKind::Hardware, 0, 0));     // the first fault is the one that counts
/// assert_eq!(state.check().map_err(|f| f.kind), Err(FaultKind::Memory));
/// assert!(state.recover().is_some());
/// assert!(state.check().is_ok());
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceState {
    fault: Option<FaultRecord>,
}

impl DeviceState {
    /// In order.
    pub const fn new() -> Self {
        Self { fault: None }
    }

    /// `Ok` while there is no fault.
    ///
    /// # Errors
    /// The first fault.
    pub const fn check(&self) -> Result<(), FaultRecord> {
        match self.fault {
            None => Ok(()),
            Some(f) => Err(f),
        }
    }

    /// Enters the error state; stays with the first fault.
    pub fn fail(&mut self, fault: FaultRecord) {
        self.fault.get_or_insert(fault);
    }

    /// Leaves the error state and returns the fault. For whoever has reset the device.
    pub fn recover(&mut self) -> Option<FaultRecord> {
        self.fault.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mem::Region;

    #[test]
    fn a_record_survives_its_cell() {
        let mut memory = [0u64; 8];
        let words = SharedWords::new(Region::from_words(&mut memory, 0)).expect("aligned");
        let cell = FaultCell::new(words).expect("eight words");
        assert_eq!(cell.get(), None);
        let record = FaultRecord {
            kind: FaultKind::Other(0x1234),
            access: Access::Execute,
            engine: 0xfffe,
            address: u64::MAX,
            detail: 5,
            last_signalled: 6,
            first_not_signalled: 7,
        };
        cell.report(&record);
        cell.report(&FaultRecord::new(FaultKind::Memory, 0, 0));
        assert_eq!(cell.get(), Some(record));
        cell.clear();
        assert_eq!(cell.get(), None);
    }

    #[test]
    fn a_cell_needs_its_words() {
        let mut memory = [0u64; 7];
        let words = SharedWords::new(Region::from_words(&mut memory, 0)).expect("aligned");
        assert!(FaultCell::new(words).is_none());
    }
}
