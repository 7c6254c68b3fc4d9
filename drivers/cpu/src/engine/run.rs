//! Running one queue: packets, work-groups, copies.

use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering, fence};

use hcq_nostd::fault::{Access, FaultKind, FaultRecord};
use hcq_nostd::mem::{Region, SharedWord};

use super::{BlockedOn, EngineQueue, Launched, Platform, State};
use crate::abi::{Group, KernelFn};
use crate::packet::{Exec, Packet};
#[cfg(target_has_atomic = "64")]
use crate::share::Job;

#[cfg(target_has_atomic = "64")]
/// A launch that runs longer than this calls sleeping engines to help.
const HELP_AFTER_NS: u64 = 5_000;

/// What a queue uses of its engine.
pub(super) struct Context<'a, 'm> {
    pub(super) local: &'a mut Region<'m>,
    pub(super) copy_step: u64,
    #[cfg(target_has_atomic = "64")]
    pub(super) job: Option<&'m Job>,
    /// Local memory that every helper has.
    #[cfg(target_has_atomic = "64")]
    pub(super) shared_local: usize,
}

/// What became of a packet.
enum Step {
    /// Go on with the next. This many steps were taken.
    Done(u32),
    /// Try again later.
    Held(BlockedOn),
    /// In the middle; the state is set. This many steps were taken.
    Partly(u32),
}

impl<'m> EngineQueue<'m> {
    /// Runs up to `budget` steps. Returns how many it took, and what holds the queue or the fault that stops it.
    ///
    /// # Safety
    /// As for [`Engine::poll`](super::Engine::poll).
    pub(super) unsafe fn run(
        &mut self,
        platform: &mut impl Platform,
        context: &mut Context<'_, 'm>,
        budget: u32,
    ) -> (u32, Result<Option<BlockedOn>, FaultRecord>) {
        let mut ran = 0u32;
        let before = self.get;
        let mut published = before;
        let result = loop {
            if ran >= budget {
                break Ok(None);
            }
            // SAFETY: this function's contract.
            let step = match self.state {
                State::Stopped => break Ok(None),
                // SAFETY: this function's contract.
                State::Exec(launched) => unsafe {
                    self.groups(platform, context, launched, budget - ran)
                },
                State::Copy {
                    destination,
                    source,
                    left,
                } => {
                    let rest = [destination, source, left];
                    // SAFETY: this function's contract.
                    unsafe { self.go_on(platform, context, rest) }
                }
                // SAFETY: this function's contract.
                State::Held(packet) => unsafe {
                    self.packet(platform, context, packet, budget - ran)
                },
                State::Ready => match self.fetch(platform) {
                    Ok(None) => break Ok(None),
                    // SAFETY: this function's contract.
                    Ok(Some(packet)) => unsafe {
                        self.packet(platform, context, packet, budget - ran)
                    },
                    Err(record) => Err(record),
                },
            };
            match step {
                Ok(Step::Done(steps)) => {
                    self.state = State::Ready;
                    self.retire();
                    // A launch that others ran to its end is still a packet of this queue.
                    ran = ran.saturating_add(steps.max(1));
                    // Room in the ring does not wait for the end of a long run.
                    if self.get.wrapping_sub(published) >= 32 {
                        published = self.get;
                        self.control.set_get(published);
                    }
                }
                Ok(Step::Held(on)) => break Ok(Some(on)),
                Ok(Step::Partly(steps)) => ran = ran.saturating_add(steps.max(1)),
                Err(record) => break Err(record),
            }
        };
        if self.get != published {
            self.control.set_get(self.get);
        }
        (ran, result)
    }

    /// # Safety
    /// As for [`run`](Self::run).
    unsafe fn packet(
        &mut self,
        platform: &mut impl Platform,
        context: &mut Context<'_, 'm>,
        packet: Packet,
        budget: u32,
    ) -> Result<Step, FaultRecord> {
        match packet {
            Packet::Exec(exec) => {
                let launched = self.launch(platform, context, exec)?;
                // SAFETY: this function's contract.
                return unsafe { self.groups(platform, context, launched, budget) };
            }
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
                    self.state = State::Held(packet);
                    return Ok(Step::Held(BlockedOn::Signal {
                        address,
                        wanted: value,
                        seen,
                    }));
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
                    self.state = State::Held(packet);
                    return Ok(Step::Held(BlockedOn::Word {
                        address,
                        mask,
                        expect,
                        seen,
                    }));
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
                    self.state = State::Ready;
                    return Ok(Step::Partly(1));
                }
            }
            Packet::Nop => {}
        }
        Ok(Step::Done(1))
    }

    /// The CPU address of a range, or the fault.
    fn check(
        &self,
        platform: &mut impl Platform,
        address: u64,
        len: u64,
        access: Access,
    ) -> Result<NonNull<u8>, FaultRecord> {
        if len == 0 {
            return Ok(NonNull::dangling());
        }
        platform
            .translate(address, len, access)
            .ok_or_else(|| self.memory_fault(address, access))
    }

    /// A 64-bit word at the start of `len` bytes, 8 or a signal's 16, which is also its alignment.
    fn word64<'a>(
        &self,
        platform: &mut impl Platform,
        address: u64,
        len: u64,
        access: Access,
    ) -> Result<SharedWord<'a>, FaultRecord> {
        let cell = self.check(platform, address, len, access)?.cast::<u64>();
        if !cell.is_aligned() || !address.is_multiple_of(len) {
            return Err(self.memory_fault(address, access));
        }
        // SAFETY: the platform vouches for the bytes until the packet is done, and the word is used no longer.
        Ok(unsafe { SharedWord::new(cell) })
    }

    fn word32<'a>(
        &self,
        platform: &mut impl Platform,
        address: u64,
        access: Access,
    ) -> Result<&'a AtomicU32, FaultRecord> {
        let cell = self.check(platform, address, 4, access)?.cast::<u32>();
        if !cell.is_aligned() || !address.is_multiple_of(4) {
            return Err(self.memory_fault(address, access));
        }
        // SAFETY: the platform vouches for the bytes until the packet is done, and the word is used no longer; hosts
        // access memory that queues write or poll atomically.
        Ok(unsafe { AtomicU32::from_ptr(cell.as_ptr()) })
    }

    /// Checks a launch, and publishes it if others may help.
    fn launch(
        &self,
        platform: &mut impl Platform,
        context: &Context<'_, 'm>,
        exec: Exec,
    ) -> Result<Launched<'m>, FaultRecord> {
        let [gx, gy, gz] = exec.groups.map(u64::from);
        let total = gx.checked_mul(gy).and_then(|n| n.checked_mul(gz));
        let total = total
            .filter(|&n| n > 0)
            .ok_or_else(|| self.fault(FaultKind::Command, gx))?;
        if exec.local.contains(&0) {
            return Err(self.fault(FaultKind::Command, 0));
        }
        if exec.local_memory as usize > context.local.len() {
            return Err(self.fault(FaultKind::Program, exec.local_memory.into()));
        }
        let job = self.offer(platform, context, &exec, total)?;
        Ok(Launched {
            exec,
            total,
            next: 0,
            job,
            since: job.is_some().then(|| platform.now_ns()),
        })
    }

    /// Publishes a launch if others may help: as which job.
    #[cfg(target_has_atomic = "64")]
    fn offer(
        &self,
        platform: &mut impl Platform,
        context: &Context<'_, 'm>,
        exec: &Exec,
        total: u64,
    ) -> Result<Option<&'m Job>, FaultRecord> {
        if let Some(job) = context.job
            && let (2.., Ok(groups)) = (total, u32::try_from(total))
            && exec.local_memory as usize <= context.shared_local
            // Others may still run groups of a launch that a reset has dropped.
            && job.withdraw()
        {
            // Helpers find the kernel and its arguments as this queue does; look before they do.
            self.resolve(platform, exec)?;
            job.publish(exec, groups);
            return Ok(Some(job));
        }
        Ok(None)
    }

    #[cfg(not(target_has_atomic = "64"))]
    fn offer(
        &self,
        _: &mut impl Platform,
        _: &Context<'_, 'm>,
        _: &Exec,
        _: u64,
    ) -> Result<Option<&'m super::Job>, FaultRecord> {
        Ok(None)
    }

    /// The kernel and the CPU address of its argument block.
    #[inline]
    fn resolve(
        &self,
        platform: &mut impl Platform,
        exec: &Exec,
    ) -> Result<(KernelFn, NonNull<u8>), FaultRecord> {
        let args = self.check(platform, exec.args, exec.args_size.into(), Access::Read)?;
        let kernel = platform
            .kernel(exec.kernel)
            .ok_or_else(|| self.fault(FaultKind::Program, exec.kernel))?;
        Ok((kernel, args))
    }

    /// Runs groups of a launch until it is complete or the budget is used up.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    unsafe fn groups(
        &mut self,
        platform: &mut impl Platform,
        context: &mut Context<'_, 'm>,
        mut launched: Launched<'m>,
        budget: u32,
    ) -> Result<Step, FaultRecord> {
        let resolved = self.resolve(platform, &launched.exec);
        #[cfg(target_has_atomic = "64")]
        if let Some(job) = launched.job {
            let (kernel, args) = match resolved {
                Ok(found) => found,
                Err(record) => {
                    // What others have begun comes to its end first: whoever sees the fault may free the memory.
                    job.fail();
                    if job.withdraw() {
                        return Err(record);
                    }
                    self.state = State::Exec(launched);
                    return Ok(Step::Held(BlockedOn::Helpers));
                }
            };
            let mut ran = 0u32;
            while ran < budget {
                let Some(claim) = job.claim() else {
                    if job.withdraw() {
                        if job.has_failed() {
                            return Err(self.fault(FaultKind::Program, launched.exec.kernel));
                        }
                        return Ok(Step::Done(ran));
                    }
                    self.state = State::Exec(launched);
                    // Groups that others run are not this queue's steps.
                    return Ok(if ran > 0 {
                        Step::Partly(ran)
                    } else {
                        Step::Held(BlockedOn::Helpers)
                    });
                };
                // SAFETY: this function's contract; the claim's groups are nobody else's.
                unsafe {
                    call(
                        kernel,
                        args,
                        &launched.exec,
                        context.local,
                        claim.first,
                        claim.count,
                    )
                };
                job.finish(claim.count);
                ran = ran.saturating_add(u32::try_from(claim.count).unwrap_or(u32::MAX));
                if let Some(since) = launched.since
                    && job.has_work()
                    && platform.now_ns().saturating_sub(since) >= HELP_AFTER_NS
                {
                    launched.since = None;
                    platform.wake_helpers();
                }
            }
            self.state = State::Exec(launched);
            return Ok(Step::Partly(ran));
        }
        let (kernel, args) = resolved?;
        let count = (launched.total - launched.next).min(budget.into());
        // SAFETY: this function's contract.
        unsafe {
            call(
                kernel,
                args,
                &launched.exec,
                context.local,
                launched.next,
                count,
            )
        };
        launched.next += count;
        let ran = u32::try_from(count).unwrap_or(u32::MAX);
        if launched.next == launched.total {
            return Ok(Step::Done(ran));
        }
        self.state = State::Exec(launched);
        Ok(Step::Partly(ran))
    }

    /// The next step of a copy.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    unsafe fn go_on(
        &mut self,
        platform: &mut impl Platform,
        context: &Context<'_, 'm>,
        [destination, source, left]: [u64; 3],
    ) -> Result<Step, FaultRecord> {
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
    ) -> Result<Step, FaultRecord> {
        let step = left.min(context.copy_step);
        let len = usize::try_from(step).map_err(|_| self.memory_fault(source, Access::Read))?;
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

/// Calls a kernel for `count` groups from number `first` on.
///
/// # Safety
/// The kernel may be called with these arguments and grid; `local` has `exec.local_memory` bytes at a 64-byte boundary.
unsafe fn call(
    kernel: KernelFn,
    args: NonNull<u8>,
    exec: &Exec,
    local: &mut Region<'_>,
    first: u64,
    count: u64,
) {
    let [gx, gy, _] = exec.groups;
    let (row, plane) = (
        u64::from(gx.max(1)),
        u64::from(gx.max(1)) * u64::from(gy.max(1)),
    );
    let narrow = |n: u64| (n & 0xffff_ffff) as u32;
    let mut id = if first == 0 {
        [0; 3]
    } else {
        [
            narrow(first % row),
            narrow(first / row % u64::from(gy.max(1))),
            narrow(first / plane),
        ]
    };
    let memory: *mut c_void = if exec.local_memory == 0 {
        core::ptr::null_mut()
    } else {
        local.as_ptr().as_ptr().cast()
    };
    for _ in 0..count {
        let group = Group {
            group: id,
            groups: exec.groups,
            local: exec.local,
            local_size: exec.local_memory,
            local_memory: memory,
            reserved: 0,
        };
        // SAFETY: this function's contract.
        unsafe { kernel(args.as_ptr().cast(), &raw const group) };
        let [x, y, z] = &mut id;
        *x += 1;
        if *x >= gx {
            *x = 0;
            *y += 1;
            if *y >= gy {
                (*y, *z) = (0, z.wrapping_add(1));
            }
        }
    }
}

/// Claims groups of another queue's launch and runs them. `None` if there were none.
///
/// # Safety
/// As for [`Engine::poll`](super::Engine::poll).
#[cfg(target_has_atomic = "64")]
pub(super) unsafe fn help(
    job: &Job,
    platform: &mut impl Platform,
    local: &mut Region<'_>,
) -> Option<u32> {
    let claim = job.claim()?;
    let exec = job.exec();
    let args = if exec.args_size == 0 {
        Some(NonNull::dangling())
    } else {
        platform.translate(exec.args, exec.args_size.into(), Access::Read)
    };
    match (platform.kernel(exec.kernel), args) {
        (Some(kernel), Some(args)) if exec.local_memory as usize <= local.len() => {
            // SAFETY: this function's contract.
            unsafe { call(kernel, args, &exec, local, claim.first, claim.count) }
        }
        // The publisher's platform knew them a moment ago, or its share promised more local memory than this engine's:
        // the groups are lost, and the launch is a fault.
        _ => job.fail(),
    }
    job.finish(claim.count);
    u32::try_from(claim.count).ok()
}
