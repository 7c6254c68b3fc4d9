//! Any command of a pushbuffer, and back to its words.

use hcq_nostd::record::{Command, RecordError};

use crate::compute::{Compute, SetObject};
use crate::copy::Copy;
use crate::host::{NonStallInterrupt, Semaphore, WaitForIdle};
use crate::malformed::Malformed;
use crate::method::Run;

/// Any run of methods: one that this driver records, or another one as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packet<'w> {
    /// SET_OBJECT.
    SetObject(SetObject),
    /// SEM_ADDR_LO to SEM_EXECUTE.
    Semaphore(Semaphore),
    /// WFI.
    WaitForIdle(WaitForIdle),
    /// NON_STALL_INTERRUPT.
    NonStallInterrupt(NonStallInterrupt),
    /// Methods of the compute engine.
    Compute(Compute),
    /// Methods of the copy engine.
    Copy(Copy),
    /// Methods that this driver does not record.
    Other(Run<'w>),
}

/// Bits of a semaphore's address in the widest class.
const SEMAPHORE_BITS: u8 = 57;

impl<'w> Packet<'w> {
    /// The run that starts here, and its number of words.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &'w [u32]) -> Result<(Self, usize), Malformed> {
        let run = Run::decode(words)?;
        let known = None
            .or_else(|| Some(Semaphore::decode(&run)?.map(Self::Semaphore)))
            .or_else(|| Some(WaitForIdle::decode(&run)?.map(Self::WaitForIdle)))
            .or_else(|| Some(NonStallInterrupt::decode(&run)?.map(Self::NonStallInterrupt)))
            .or_else(|| Some(SetObject::decode(&run)?.map(Self::SetObject)))
            .or_else(|| Some(Compute::decode(&run)?.map(Self::Compute)))
            .or_else(|| Some(Copy::decode(&run)?.map(Self::Copy)));
        let packet = known.unwrap_or(Ok(Self::Other(run)))?;
        Ok((packet, run.len()))
    }

    /// Appends it.
    ///
    /// # Errors
    /// [`RecordError`] for operands that its fields cannot hold.
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        match self {
            Self::SetObject(p) => p.record(c)?,
            Self::Semaphore(p) => p.record(c, SEMAPHORE_BITS)?,
            Self::WaitForIdle(p) => p.record(c),
            Self::NonStallInterrupt(p) => p.record(c),
            Self::Compute(p) => p.record(c)?,
            Self::Copy(p) => p.record(c)?,
            Self::Other(run) => run.record(c),
        }
        Ok(())
    }
}

impl core::fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::SetObject(p) => write!(f, "{p}"),
            Self::Semaphore(p) => write!(f, "{p}"),
            Self::WaitForIdle(WaitForIdle { all }) => {
                f.write_str(if *all { "WFI SCOPE=ALL" } else { "WFI" })
            }
            Self::NonStallInterrupt(_) => f.write_str("NON_STALL_INTERRUPT"),
            Self::Compute(p) => write!(f, "{p}"),
            Self::Copy(p) => write!(f, "{p}"),
            Self::Other(run) => {
                let header = run.header;
                write!(f, "METHOD SUBCHANNEL={}", header.subchannel())?;
                if let crate::method::Kind::Immediate(data) = header.kind() {
                    return write!(f, " {:#x}={data:#x}", header.method());
                }
                for (index, word) in run.data.iter().enumerate() {
                    write!(f, " {:#x}={word:#x}", header.method_of(index))?;
                }
                Ok(())
            }
        }
    }
}
