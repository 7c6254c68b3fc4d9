//! Running one queue: packets, work-groups, copies.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering, fence};

use hcq_nostd::fault::{Access, FaultKind};
use hcq_nostd::mem::{Region, SharedWord};

use zerocopy::FromZeros;

use super::queue::{State, Stop};
use super::{BlockedOn, EngineQueue, Platform};
use crate::packet::{Exec, Packet, Raw};
#[cfg(target_has_atomic = "64")]
use crate::share::Job;

/// What a queue uses of its engine.
pub(super) struct Context<'a, 'm> {
    pub(super) local: &'a Region<'m>,
    pub(super) copy_step: u64,
    #[cfg(target_has_atomic = "64")]
    pub(super) job: Option<&'m Job>,
    /// Local memory that every helper has.
    #[cfg(target_has_atomic = "64")]
    pub(super) shared_local: usize,
}

/// What became of a packet.
pub(super) enum Step {
    /// Go on with the next. This many steps were taken.
    Done(u32),
    /// Try again later; `held` says why.
    Held,
    /// In the middle; the state is set. This many steps were taken.
    Partly(u32),
}

impl<'m> EngineQueue<'m> {
    /// Runs up to `budget` steps. Returns how many it took, and whether the queue is held.
    ///
    /// # Safety
    /// As for [`Engine::poll`](super::Engine::poll).
    pub(super) unsafe fn run(
        &mut self,
        platform: &mut impl Platform,
        context: &Context<'_, 'm>,
        budget: u32,
    ) -> (u32, Result<Option<BlockedOn>, Stop>) {
        let mut ran = 0u32;
        let mut told = self.get;
        let mut raw = Raw::new_zeroed();
        let result = loop {
            if ran >= budget {
                break Ok(None);
            }
            let left = budget - ran;
            let step = if let State::Ready = self.state {
                match self.fetch(platform, &mut raw) {
                    Ok(false) => break Ok(None),
                    Ok(true) => match Exec::from_raw(&raw) {
                        // SAFETY: this function's contract.
                        Some(exec) => unsafe { self.exec(platform, context, &exec, left) },
                        // SAFETY: this function's contract.
                        None => unsafe { self.other(platform, context, &raw) },
                    },
                    Err(Stop) => Err(Stop),
                }
            } else {
                // SAFETY: this function's contract.
                match unsafe { self.go_on(platform, context, left) } {
                    Some(step) => step,
                    None => break Ok(None),
                }
            };
            match step {
                Ok(Step::Done(steps)) => {
                    self.retire();
                    // A launch that others ran to its end is still a packet of this queue.
                    ran = ran.saturating_add(steps.max(1));
                    // Room in the ring does not wait for the end of a long run.
                    if self.get.wrapping_sub(told) >= 32 {
                        told = self.get;
                        self.control.set_get(told);
                    }
                }
                Ok(Step::Held) => break Ok(Some(self.held)),
                Ok(Step::Partly(steps)) => ran = ran.saturating_add(steps.max(1)),
                Err(Stop) => break Err(Stop),
            }
        };
        if self.get != told {
            self.control.set_get(self.get);
        }
        (ran, result)
    }

    /// Goes on with what was begun or held before. `None` if the queue is stopped.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    #[inline(never)]
    unsafe fn go_on(
        &mut self,
        platform: &mut impl Platform,
        context: &Context<'_, 'm>,
        budget: u32,
    ) -> Option<Result<Step, Stop>> {
        // Each of them sets the state again if it does not come to its end.
        let step = match core::mem::replace(&mut self.state, State::Ready) {
            State::Stopped => {
                self.state = State::Stopped;
                return None;
            }
            State::Ready => Ok(Step::Partly(1)),
            // SAFETY: this function's contract.
            State::Held(packet) => unsafe { self.packet(platform, context, packet) },
            // SAFETY: this function's contract.
            State::Exec(launched) => unsafe { self.groups(platform, context, launched, budget) },
            State::Copy {
                destination,
                source,
                left,
            } => {
                let rest = [destination, source, left];
                // SAFETY: this function's contract.
                unsafe { self.copy_on(platform, context, rest) }
            }
        };
        Some(step)
    }

    /// Runs a packet that is no launch, or words that are no packet.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    #[inline(never)]
    unsafe fn other(
        &mut self,
        platform: &mut impl Platform,
        context: &Context<'_, 'm>,
        raw: &Raw,
    ) -> Result<Step, Stop> {
        let packet = self.decode(raw)?;
        // SAFETY: this function's contract.
        unsafe { self.packet(platform, context, packet) }
    }

    /// # Safety
    /// As for [`run`](Self::run).
    unsafe fn packet(
        &mut self,
        platform: &mut impl Platform,
        context: &Context<'_, 'm>,
        packet: Packet,
    ) -> Result<Step, Stop> {
        match packet {
            // SAFETY: this function's contract. (`run` has seen to launches; a budget of one group is right for any.)
            Packet::Exec(exec) => return unsafe { self.exec(platform, context, &exec, 1) },
            Packet::Copy {
                destination,
                source,
                bytes,
            } => {
                let overlap = destination.abs_diff(source) < bytes;
                let past_end =
                    destination.checked_add(bytes).is_none() || source.checked_add(bytes).is_none();
                if overlap || past_end {
                    return Err(self.fault(FaultKind::Command, bytes));
                }
                // Both ranges whole before the first byte moves.
                let from = self.check(platform, source, bytes, Access::Read)?;
                let to = self.check(platform, destination, bytes, Access::Write)?;
                // Two device addresses may be the same memory.
                let apart = from.addr().get().abs_diff(to.addr().get());
                if (apart as u64) < bytes {
                    return Err(self.fault(FaultKind::Command, bytes));
                }
                // SAFETY: this function's contract.
                return unsafe { self.copy(context, [from, to], [destination, source, bytes]) };
            }
            Packet::Write32 { address, value } => {
                self.word32(platform, address, Access::Write)?
                    .store(value, Ordering::Release);
                platform.written(address, false);
            }
            Packet::Write64 { address, value } => {
                self.word64(platform, address, 8, Access::Write)?
                    .store(value);
                platform.written(address, false);
            }
            Packet::Signal {
                address,
                value,
                notify,
            } => {
                self.word64(platform, address, 16, Access::Write)?
                    .store(value);
                platform.written(address, notify);
            }
            Packet::Wait { address, value } => {
                let seen = self.word64(platform, address, 16, Access::Read)?.load();
                if seen < value {
                    self.held = BlockedOn::Signal {
                        address,
                        wanted: value,
                        seen,
                    };
                    self.state = State::Held(packet);
                    return Ok(Step::Held);
                }
            }
            Packet::Poll {
                address,
                mask,
                expect,
            } => {
                if expect & !mask != 0 {
                    // No word can ever match.
                    return Err(self.fault(FaultKind::Command, expect.into()));
                }
                let seen = self
                    .word32(platform, address, Access::Read)?
                    .load(Ordering::Acquire);
                if seen & mask != expect {
                    self.held = BlockedOn::Word {
                        address,
                        mask,
                        expect,
                        seen,
                    };
                    self.state = State::Held(packet);
                    return Ok(Step::Held);
                }
            }
            Packet::Timestamp { address } => {
                let now = platform.now_ns();
                if !address.is_multiple_of(16) {
                    return Err(self.memory_fault(address, Access::Write));
                }
                // Cannot wrap: the address is a multiple of 16.
                self.word64(platform, address.wrapping_add(8), 8, Access::Write)?
                    .store(now);
            }
            // ORDER: pairs with the fences and atomics of whoever shares memory with this queue.
            Packet::Barrier => fence(Ordering::SeqCst),
            Packet::Indirect { address, count } => {
                if count != 0 {
                    let bytes = u64::from(count) * crate::PACKET_BYTES as u64;
                    let past_end = address.checked_add(bytes).is_none();
                    if past_end || !address.is_multiple_of(crate::PACKET_BYTES as u64) {
                        return Err(self.memory_fault(address, Access::Read));
                    }
                    self.indirect = Some((address, count));
                    return Ok(Step::Partly(1));
                }
            }
            Packet::Nop => {}
        }
        Ok(Step::Done(1))
    }

    /// The CPU address of a range, or the fault.
    #[inline]
    pub(super) fn check(
        &mut self,
        platform: &mut impl Platform,
        address: u64,
        len: u64,
        access: Access,
    ) -> Result<NonNull<u8>, Stop> {
        if len == 0 {
            return Ok(NonNull::dangling());
        }
        match platform.translate(address, len, access) {
            Some(at) => Ok(at),
            None => Err(self.memory_fault(address, access)),
        }
    }

    /// A 64-bit word at the start of `len` bytes, 8 or a signal's 16, which is also its alignment.
    fn word64<'a>(
        &mut self,
        platform: &mut impl Platform,
        address: u64,
        len: u64,
        access: Access,
    ) -> Result<SharedWord<'a>, Stop> {
        let cell = self.check(platform, address, len, access)?.cast::<u64>();
        if !cell.is_aligned() || !address.is_multiple_of(len) {
            return Err(self.memory_fault(address, access));
        }
        // SAFETY: the platform vouches for the bytes until the packet is done, and the word is used no longer.
        Ok(unsafe { SharedWord::new(cell) })
    }

    fn word32<'a>(
        &mut self,
        platform: &mut impl Platform,
        address: u64,
        access: Access,
    ) -> Result<&'a AtomicU32, Stop> {
        let cell = self.check(platform, address, 4, access)?.cast::<u32>();
        if !cell.is_aligned() || !address.is_multiple_of(4) {
            return Err(self.memory_fault(address, access));
        }
        // SAFETY: the platform vouches for the bytes until the packet is done, and the word is used no longer; hosts
        // access memory that queues write or poll atomically.
        Ok(unsafe { AtomicU32::from_ptr(cell.as_ptr()) })
    }

    /// The next step of a copy.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    unsafe fn copy_on(
        &mut self,
        platform: &mut impl Platform,
        context: &Context<'_, 'm>,
        [destination, source, left]: [u64; 3],
    ) -> Result<Step, Stop> {
        let step = left.min(context.copy_step);
        let from = self.check(platform, source, step, Access::Read)?;
        let to = self.check(platform, destination, step, Access::Write)?;
        // SAFETY: this function's contract.
        unsafe { self.copy(context, [from, to], [destination, source, left]) }
    }

    /// One step of a copy.
    ///
    /// # Safety
    /// As for [`run`](Self::run); `from` and `to` have the bytes of the step and are what the device addresses stand for.
    unsafe fn copy(
        &mut self,
        context: &Context<'_, 'm>,
        [from, to]: [NonNull<u8>; 2],
        [destination, source, left]: [u64; 3],
    ) -> Result<Step, Stop> {
        let step = left.min(context.copy_step);
        let Ok(len) = usize::try_from(step) else {
            return Err(self.memory_fault(source, Access::Read));
        };
        // SAFETY: the platform vouches for both ranges, which were seen not to overlap when the copy began; what others
        // do with them meanwhile is ordered by signals.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), len) };
        if step == left {
            return Ok(Step::Done(1));
        }
        let (destination, source) = (destination.wrapping_add(step), source.wrapping_add(step));
        self.state = State::Copy {
            destination,
            source,
            left: left - step,
        };
        Ok(Step::Partly(1))
    }
}
