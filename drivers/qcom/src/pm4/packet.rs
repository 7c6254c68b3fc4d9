//! Any packet, and a stream of them as text.

use hcq_nostd::record::{Command, RecordError};

use super::dispatch::{ExecCs, RunOpenCl, SetMarker};
use super::event_write::EventWrite;
use super::event_write7::EventWrite7;
use super::header::{Header, Kind};
use super::indirect_buffer::IndirectBuffer;
use super::load_state::LoadState;
use super::mem_write::MemWrite;
use super::op;
use super::reg_to_mem::RegToMem;
use super::registers::Registers;
use super::sync::{Nop, WaitForIdle, WaitMemWrites};
use super::wait_reg_mem::WaitRegMem;
use crate::chips::Generation;
use crate::malformed::Malformed;

/// Any packet that this driver records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Packet<'w> {
    /// Type 4.
    Registers(Registers<'w>),
    /// CP_NOP.
    Nop(Nop<'w>),
    /// CP_WAIT_MEM_WRITES.
    WaitMemWrites(WaitMemWrites),
    /// CP_WAIT_FOR_IDLE.
    WaitForIdle(WaitForIdle),
    /// CP_RUN_OPENCL.
    RunOpenCl(RunOpenCl),
    /// CP_EXEC_CS.
    ExecCs(ExecCs),
    /// CP_LOAD_STATE6_FRAG.
    LoadState(LoadState),
    /// CP_WAIT_REG_MEM.
    WaitRegMem(WaitRegMem),
    /// CP_MEM_WRITE.
    MemWrite(MemWrite),
    /// CP_REG_TO_MEM.
    RegToMem(RegToMem),
    /// CP_INDIRECT_BUFFER.
    IndirectBuffer(IndirectBuffer),
    /// CP_EVENT_WRITE.
    EventWrite(EventWrite),
    /// CP_EVENT_WRITE7.
    EventWrite7(EventWrite7),
    /// CP_SET_MARKER.
    SetMarker(SetMarker),
}

impl<'w> Packet<'w> {
    /// The packet that starts here, and its number of words.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn decode(words: &'w [u32], generation: Generation) -> Result<(Self, usize), Malformed> {
        let first = *words
            .first()
            .ok_or(Malformed::Truncated { need: 1, have: 0 })?;
        let header = Header::parse(first)?;
        let opcode = match header.kind() {
            Kind::Registers(_) => {
                let packet = Self::Registers(Registers::decode(words)?);
                return Ok((packet, header.count() as usize + 1));
            }
            Kind::Command(opcode) => opcode,
        };
        let packet = match (opcode, generation) {
            (op::NOP, _) => Self::Nop(Nop::decode(words)?),
            (op::WAIT_MEM_WRITES, _) => Self::WaitMemWrites(WaitMemWrites::decode(words)?),
            (op::WAIT_FOR_IDLE, _) => Self::WaitForIdle(WaitForIdle::decode(words)?),
            (op::RUN_OPENCL, _) => Self::RunOpenCl(RunOpenCl::decode(words)?),
            (op::EXEC_CS, _) => Self::ExecCs(ExecCs::decode(words)?),
            (op::LOAD_STATE6_FRAG, _) => Self::LoadState(LoadState::decode(words)?),
            (op::WAIT_REG_MEM, _) => Self::WaitRegMem(WaitRegMem::decode(words)?),
            (op::MEM_WRITE, _) => Self::MemWrite(MemWrite::decode(words)?),
            (op::REG_TO_MEM, _) => Self::RegToMem(RegToMem::decode(words)?),
            (op::INDIRECT_BUFFER, _) => Self::IndirectBuffer(IndirectBuffer::decode(words)?),
            (op::EVENT_WRITE, Generation::A6xx) => Self::EventWrite(EventWrite::decode(words)?),
            (op::EVENT_WRITE, Generation::A7xx) => Self::EventWrite7(EventWrite7::decode(words)?),
            (op::SET_MARKER, _) => Self::SetMarker(SetMarker::decode(words)?),
            _ => {
                return Err(Malformed::Opcode {
                    opcode: opcode.into(),
                });
            }
        };
        Ok((packet, header.count() as usize + 1))
    }

    /// Appends the packet.
    ///
    /// # Errors
    /// [`RecordError`] for operands that its fields cannot hold.
    pub fn record(&self, c: &mut Command<'_, '_>) -> Result<(), RecordError> {
        match self {
            Self::Registers(p) => p.record(c),
            Self::Nop(p) => p.record(c),
            Self::WaitMemWrites(p) => p.record(c),
            Self::WaitForIdle(p) => p.record(c),
            Self::RunOpenCl(p) => p.record(c),
            Self::ExecCs(p) => p.record(c)?,
            Self::LoadState(p) => p.record(c)?,
            Self::WaitRegMem(p) => p.record(c)?,
            Self::MemWrite(p) => p.record(c)?,
            Self::RegToMem(p) => p.record(c)?,
            Self::IndirectBuffer(p) => p.record(c)?,
            Self::EventWrite(p) => p.record(c)?,
            Self::EventWrite7(p) => p.record(c)?,
            Self::SetMarker(p) => p.record(c),
        }
        Ok(())
    }
}

impl core::fmt::Display for Packet<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Registers(p) => write!(f, "{p}"),
            Self::Nop(p) => write!(f, "{p}"),
            Self::WaitMemWrites(_) => f.write_str("CP_WAIT_MEM_WRITES"),
            Self::WaitForIdle(_) => f.write_str("CP_WAIT_FOR_IDLE"),
            Self::RunOpenCl(_) => f.write_str("CP_RUN_OPENCL"),
            Self::ExecCs(p) => write!(f, "{p}"),
            Self::LoadState(p) => write!(f, "{p}"),
            Self::WaitRegMem(p) => write!(f, "{p}"),
            Self::MemWrite(p) => write!(f, "{p}"),
            Self::RegToMem(p) => write!(f, "{p}"),
            Self::IndirectBuffer(p) => write!(f, "{p}"),
            Self::EventWrite(p) => write!(f, "{p}"),
            Self::EventWrite7(p) => write!(f, "{p}"),
            Self::SetMarker(p) => write!(f, "{p}"),
        }
    }
}
