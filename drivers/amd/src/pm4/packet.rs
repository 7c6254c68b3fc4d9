//! Any packet, and a stream of them as text.

use hcq_nostd::record::{Command, RecordError};

use super::acquire_mem::AcquireMem;
use super::copy_data::CopyData;
use super::dispatch_direct::DispatchDirect;
use super::event_write::EventWrite;
use super::indirect_buffer::IndirectBuffer;
use super::nop::Nop;
use super::pred_exec::PredExec;
use super::release_mem::ReleaseMem;
use super::set_reg::SetReg;
use super::wait_reg_mem::WaitRegMem;
use super::{op, parse_header};
use crate::chips::{Chip, Registers};
use crate::malformed::Malformed;

/// Any packet that this driver records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packet<'w> {
    /// NOP.
    Nop(Nop),
    /// DISPATCH_DIRECT.
    DispatchDirect(DispatchDirect),
    /// PRED_EXEC.
    PredExec(PredExec),
    /// WAIT_REG_MEM.
    WaitRegMem(WaitRegMem),
    /// INDIRECT_BUFFER.
    IndirectBuffer(IndirectBuffer),
    /// COPY_DATA.
    CopyData(CopyData),
    /// EVENT_WRITE.
    EventWrite(EventWrite),
    /// RELEASE_MEM.
    ReleaseMem(ReleaseMem),
    /// ACQUIRE_MEM.
    AcquireMem(AcquireMem),
    /// SET_SH_REG, SET_UCONFIG_REG.
    SetReg(SetReg<'w>),
}

impl<'w> Packet<'w> {
    /// The packet that starts here, and its number of words.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &'w [u32]) -> Result<(Self, usize), Malformed> {
        let first = *words
            .first()
            .ok_or(Malformed::Truncated { need: 1, have: 0 })?;
        let (opcode, len) = parse_header(first)?;
        let packet = match opcode {
            op::NOP => Self::Nop(Nop::decode(words)?),
            op::DISPATCH_DIRECT => Self::DispatchDirect(DispatchDirect::decode(words)?),
            op::PRED_EXEC => Self::PredExec(PredExec::decode(words)?),
            op::WAIT_REG_MEM => Self::WaitRegMem(WaitRegMem::decode(words)?),
            op::INDIRECT_BUFFER => Self::IndirectBuffer(IndirectBuffer::decode(words)?),
            op::COPY_DATA => Self::CopyData(CopyData::decode(words)?),
            op::EVENT_WRITE => Self::EventWrite(EventWrite::decode(words)?),
            op::RELEASE_MEM => Self::ReleaseMem(ReleaseMem::decode(words)?),
            op::ACQUIRE_MEM => Self::AcquireMem(AcquireMem::decode(words)?),
            op::SET_SH_REG | op::SET_UCONFIG_REG => Self::SetReg(SetReg::decode(words)?),
            _ => {
                return Err(Malformed::Opcode {
                    opcode: opcode.into(),
                });
            }
        };
        Ok((packet, len))
    }

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError`] for operands that its fields cannot hold.
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        match self {
            Self::Nop(p) => p.record(c),
            Self::DispatchDirect(p) => p.record(c)?,
            Self::PredExec(p) => p.record(c),
            Self::WaitRegMem(p) => p.record(c)?,
            Self::IndirectBuffer(p) => p.record(c)?,
            Self::CopyData(p) => p.record(c)?,
            Self::EventWrite(p) => p.record(c),
            Self::ReleaseMem(p) => p.record(c)?,
            Self::AcquireMem(p) => p.record(c),
            Self::SetReg(p) => {
                p.record(c);
            }
        }
        Ok(())
    }

    /// The packet as text, with the names of a chip.
    pub fn text(self, chip: &'static Chip) -> PacketText<'w> {
        let registers = Registers::new(chip.gc, chip.bases).ok();
        PacketText {
            packet: self,
            chip,
            registers,
        }
    }
}

/// A packet as text: vendor names of the packet and of its fields.
#[derive(Clone, Copy, Debug)]
pub struct PacketText<'w> {
    packet: Packet<'w>,
    chip: &'static Chip,
    registers: Option<Registers>,
}

impl core::fmt::Display for PacketText<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let register = |address, f: &mut core::fmt::Formatter<'_>| match self
            .registers
            .and_then(|r| r.name(address))
        {
            Some((name, 0)) => write!(f, "{name}({address:#x})"),
            Some((name, ahead)) => write!(f, "{name}+{ahead}({address:#x})"),
            None => write!(f, "reg({address:#x})"),
        };
        match &self.packet {
            Packet::Nop(p) => write!(f, "{p}"),
            Packet::DispatchDirect(p) => write!(f, "{p}"),
            Packet::PredExec(p) => write!(f, "{p}"),
            Packet::WaitRegMem(p) => p.write(f, register),
            Packet::IndirectBuffer(p) => write!(f, "{p}"),
            Packet::CopyData(p) => p.write(f, register),
            Packet::EventWrite(p) => write!(f, "{p}"),
            Packet::ReleaseMem(p) => p.write(f, self.chip.generation),
            Packet::AcquireMem(p) => write!(f, "{p}"),
            Packet::SetReg(p) => p.write(f, register),
        }
    }
}
