//! Methods that the host engine executes itself (`dev_pbdma.ref.txt`, chapter 6; `clc76f.h`, `clc86f.h`, `NV*_SEM_*`).

use super::super::semaphore::{Reduction, Release};
use super::{Cause, Classes};
use crate::cache::host;
use crate::engine::Host;
use crate::vm::AddressSpace;

/// Byte offsets.
pub(super) mod offset {
    pub(in super::super) const SET_OBJECT: u16 = 0x00;
    pub(in super::super) const ILLEGAL: u16 = 0x04;
    pub(in super::super) const NOP: u16 = 0x08;
    pub(in super::super) const NON_STALL_INTERRUPT: u16 = 0x20;
    pub(in super::super) const MEM_OP_A: u16 = 0x28;
    pub(in super::super) const MEM_OP_B: u16 = 0x2C;
    pub(in super::super) const MEM_OP_C: u16 = 0x30;
    pub(in super::super) const MEM_OP_D: u16 = 0x34;
    pub(in super::super) const SET_REFERENCE: u16 = 0x50;
    pub(in super::super) const SEM_ADDR_LO: u16 = 0x5C;
    pub(in super::super) const SEM_ADDR_HI: u16 = 0x60;
    pub(in super::super) const SEM_PAYLOAD_LO: u16 = 0x64;
    pub(in super::super) const SEM_PAYLOAD_HI: u16 = 0x68;
    pub(in super::super) const SEM_EXECUTE: u16 = 0x6C;
    pub(in super::super) const WFI: u16 = 0x78;
    pub(in super::super) const YIELD: u16 = 0x80;
    pub(in super::super) const CLEAR_FAULTED: u16 = 0x84;
}

/// A host method's name.
pub(super) fn name(method: u16) -> Option<&'static str> {
    Some(match method {
        offset::SET_OBJECT => "SET_OBJECT",
        offset::ILLEGAL => "ILLEGAL",
        offset::NOP => "NOP",
        offset::NON_STALL_INTERRUPT => "NON_STALL_INTERRUPT",
        offset::MEM_OP_A => "MEM_OP_A",
        offset::MEM_OP_B => "MEM_OP_B",
        offset::MEM_OP_C => "MEM_OP_C",
        offset::MEM_OP_D => "MEM_OP_D",
        offset::SET_REFERENCE => "SET_REFERENCE",
        offset::SEM_ADDR_LO => "SEM_ADDR_LO",
        offset::SEM_ADDR_HI => "SEM_ADDR_HI",
        offset::SEM_PAYLOAD_LO => "SEM_PAYLOAD_LO",
        offset::SEM_PAYLOAD_HI => "SEM_PAYLOAD_HI",
        offset::SEM_EXECUTE => "SEM_EXECUTE",
        offset::WFI => "WFI",
        offset::YIELD => "YIELD",
        offset::CLEAR_FAULTED => "CLEAR_FAULTED",
        _ => return None,
    })
}

/// What a host method does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// It is done.
    Done,
    /// A semaphore that has to have a value first.
    Acquire(Acquire),
    /// A semaphore to be written, after the engine is idle if `wait`.
    Release { release: Release, wait: bool },
    /// The engine has to be idle first.
    WaitForIdle,
    /// The rest of the time slice is given away.
    Yield,
    /// An interrupt.
    Interrupt,
}

/// What values let a channel pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    Equal,
    StrictGeq,
    CircularGeq,
    And,
    Nor,
}

/// A wait for a semaphore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Acquire {
    address: u64,
    payload: u64,
    wide: bool,
    compare: Compare,
}

impl Acquire {
    /// Whether the semaphore lets the channel pass now.
    pub(super) fn passes(&self, vm: &dyn AddressSpace) -> Result<bool, Cause> {
        let mut bytes = [0; 8];
        let len = if self.wide { 8 } else { 4 };
        host::read(vm, self.address, bytes.get_mut(..len).unwrap_or_default())?;
        let (value, payload) = (u64::from_le_bytes(bytes), self.payload);
        Ok(match (self.compare, self.wide) {
            (Compare::Equal, _) => value == payload,
            (Compare::StrictGeq, _) => value >= payload,
            (Compare::CircularGeq, true) => value.wrapping_sub(payload).cast_signed() >= 0,
            (Compare::CircularGeq, false) => {
                (value as u32).wrapping_sub(payload as u32).cast_signed() >= 0
            }
            (Compare::And, _) => value & payload != 0,
            (Compare::Nor, true) => !(value | payload) != 0,
            (Compare::Nor, false) => !(value | payload) as u32 != 0,
        })
    }
}

/// What the host methods have set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct State {
    address_low: u32,
    address_high: u32,
    payload_low: u32,
    payload_high: u32,
    /// `MEM_OP_A` to `_C`, as far as they were sent for the next `MEM_OP_D`.
    memory: [Option<u32>; 3],
}

fn refuse<T>(text: String) -> Result<T, Cause> {
    Err(Cause::Packet(text))
}

fn only(name: &str, data: u32, mask: u32) -> Result<(), Cause> {
    let reserved = data & !mask;
    if reserved != 0 {
        return refuse(format!("{name} has reserved bits {reserved:#x}"));
    }
    Ok(())
}

impl State {
    /// Executes a method other than `SET_OBJECT`.
    pub(super) fn method(
        &mut self,
        classes: &Classes,
        method: u16,
        data: u32,
    ) -> Result<Action, Cause> {
        match method {
            offset::NOP => {}
            offset::ILLEGAL => return refuse("the method that is always illegal".into()),
            offset::CLEAR_FAULTED => return refuse("a software method".into()),
            offset::NON_STALL_INTERRUPT => return Ok(Action::Interrupt),
            offset::MEM_OP_A | offset::MEM_OP_B | offset::MEM_OP_C => {
                let at = usize::from((method - offset::MEM_OP_A) / 4);
                if let Some(word) = self.memory.get_mut(at) {
                    *word = Some(data);
                }
            }
            offset::MEM_OP_D => return self.memory_operation(data),
            offset::SET_REFERENCE => return refuse("SET_REFERENCE is not simulated".into()),
            offset::SEM_ADDR_LO => {
                only("SEM_ADDR_LO", data, !3)?;
                self.address_low = data;
            }
            offset::SEM_ADDR_HI => {
                only("SEM_ADDR_HI", data, classes.semaphore_high)?;
                self.address_high = data;
            }
            offset::SEM_PAYLOAD_LO => self.payload_low = data,
            offset::SEM_PAYLOAD_HI => self.payload_high = data,
            offset::SEM_EXECUTE => return self.execute(data),
            offset::WFI => {
                only("WFI", data, 1)?;
                return Ok(Action::WaitForIdle);
            }
            offset::YIELD => {
                only("YIELD", data, 3)?;
                return Ok(Action::Yield);
            }
            _ => return refuse(format!("there is no host method {method:#x}")),
        }
        Ok(Action::Done)
    }

    fn execute(&self, data: u32) -> Result<Action, Cause> {
        let bit = |at: u32| data >> at & 1 != 0;
        let wide = bit(24);
        let address = u64::from(self.address_low) | u64::from(self.address_high) << 32;
        let payload = if wide {
            u64::from(self.payload_low) | u64::from(self.payload_high) << 32
        } else {
            self.payload_low.into()
        };
        let compare = match data & 7 {
            0 => Compare::Equal,
            2 => Compare::StrictGeq,
            3 => Compare::CircularGeq,
            4 => Compare::And,
            5 => Compare::Nor,
            operation @ (1 | 6) => {
                let reduces = operation == 6;
                // OPERATION, RELEASE_WFI, PAYLOAD_SIZE, RELEASE_TIMESTAMP; REDUCTION and REDUCTION_FORMAT where one is done.
                let used = 0x0310_0007 | if reduces { 0xF800_0000 } else { 0 };
                only("SEM_EXECUTE of a release", data, used)?;
                let reduction = if reduces {
                    let number = data >> 27 & 0xF;
                    match Reduction::of_host(number) {
                        Some(reduction) => {
                            // The bit-wise ones have no sign.
                            Some((reduction, !bit(31)))
                        }
                        None => return refuse(format!("reduction {number:#x}")),
                    }
                } else {
                    None
                };
                let release = Release {
                    address,
                    payload,
                    wide,
                    timestamp: bit(25),
                    reduction,
                };
                release.check()?;
                return Ok(Action::Release {
                    release,
                    wait: bit(20),
                });
            }
            other => return refuse(format!("SEM_EXECUTE has no operation {other}")),
        };
        // OPERATION, ACQUIRE_SWITCH_TSG, PAYLOAD_SIZE.
        only("SEM_EXECUTE of an acquire", data, 0x0100_1007)?;
        if wide && !address.is_multiple_of(8) {
            return refuse(format!(
                "the semaphore at {address:#x} is not aligned to its 8 bytes"
            ));
        }
        Ok(Action::Acquire(Acquire {
            address,
            payload,
            wide,
            compare,
        }))
    }

    /// `MEM_OP_D`: what it asks for is done already, since the host engine's accesses go to memory one after the other and
    /// nothing is kept of page tables.
    fn memory_operation(&mut self, data: u32) -> Result<Action, Cause> {
        let [a, b, c] = std::mem::take(&mut self.memory);
        let (Some(a), Some(b), Some(c)) = (a, b, c) else {
            return refuse("MEM_OP_D without MEM_OP_A, _B and _C before it".into());
        };
        let operation = data >> 27;
        match operation {
            // MEMBAR: MEMBAR_TYPE_SYS_MEMBAR or _MEMBAR, and nothing else.
            5 if a | b | data & 0x07FF_FFFF == 0 && c <= 1 => Ok(Action::Done),
            // L2_PEERMEM_INVALIDATE, L2_SYSMEM_INVALIDATE, L2_CLEAN_COMPTAGS, L2_FLUSH_DIRTY, L2_SYSMEM_NCOH_INVALIDATE,
            // L2_WAIT_FOR_SYS_PENDING_READS.
            0x0D..=0x11 | 0x15 if a | b | c | data & 0x07FF_FFFF == 0 => Ok(Action::Done),
            5 | 0x0D..=0x11 | 0x15 => refuse(format!(
                "MEM_OP of operation {operation:#x} with other fields set"
            )),
            // MMU_TLB_INVALIDATE, MMU_TLB_INVALIDATE_TARGETED, MMU_OPERATION, ACCESS_COUNTER_CLR.
            9..=0x0B | 0x16 => refuse(format!(
                "MEM_OP of operation {operation:#x} is for privileged channels"
            )),
            _ => refuse(format!("MEM_OP has no operation {operation:#x}")),
        }
    }
}

/// The time that semaphores get: the timer counts nanoseconds in steps of 32 (`NV_USERMODE_TIME_0_NSEC`).
pub(in super::super) fn time(host: &dyn Host) -> u64 {
    host.clock() & !0x1F
}
