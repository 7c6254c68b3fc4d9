//! Launches: work-groups, alone and shared.

use core::ptr::NonNull;

use hcq_nostd::fault::{Access, FaultKind};
use hcq_nostd::mem::Region;

#[cfg(target_has_atomic = "64")]
use super::BlockedOn;
use super::queue::{Launched, State, Stop};
use super::run::{Context, Step};
use super::{EngineQueue, Platform};
use crate::abi::{Group, KernelFn};
use crate::packet::Exec;
#[cfg(target_has_atomic = "64")]
use crate::share::Job;

/// A launch that runs longer than this calls sleeping engines to help.
#[cfg(target_has_atomic = "64")]
const HELP_AFTER_NS: u64 = 5_000;

impl<'m> EngineQueue<'m> {
    /// Checks a launch, and runs it or begins with it.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    #[inline(always)]
    pub(super) unsafe fn exec(
        &mut self,
        platform: &mut impl Platform,
        context: &Context<'_, 'm>,
        exec: &Exec,
        budget: u32,
    ) -> Result<Step, Stop> {
        let [gx, gy, gz] = exec.groups.map(u64::from);
        let total = match (gx * gy).checked_mul(gz) {
            None | Some(0) => return Err(self.fault(FaultKind::Command, gx)),
            Some(total) => total,
        };
        let [lx, ly, lz] = exec.local;
        if lx == 0 || ly == 0 || lz == 0 {
            return Err(self.fault(FaultKind::Command, 0));
        }
        if exec.local_memory as usize > context.local.len() {
            return Err(self.fault(FaultKind::Program, exec.local_memory.into()));
        }
        if total > 1 {
            // SAFETY: this function's contract.
            return unsafe { self.launch(platform, context, *exec, total, budget) };
        }
        let (kernel, args) = self.resolve(platform, exec)?;
        // SAFETY: this function's contract.
        unsafe { call_one(kernel, args, exec, context.local, [0; 3]) };
        Ok(Step::Done(1))
    }

    /// Begins with a launch of several groups.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    #[inline(never)]
    unsafe fn launch(
        &mut self,
        platform: &mut impl Platform,
        context: &Context<'_, 'm>,
        exec: Exec,
        total: u64,
        budget: u32,
    ) -> Result<Step, Stop> {
        let job = self.offer(platform, context, &exec, total)?;
        let launched = Launched {
            exec,
            total,
            next: 0,
            job,
            since: job.is_some().then(|| platform.now_ns()),
        };
        // SAFETY: this function's contract.
        unsafe { self.groups(platform, context, launched, budget) }
    }

    /// Publishes a launch if others may help: as which job.
    #[cfg(target_has_atomic = "64")]
    fn offer(
        &mut self,
        platform: &mut impl Platform,
        context: &Context<'_, 'm>,
        exec: &Exec,
        total: u64,
    ) -> Result<Option<&'m Job>, Stop> {
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
        &mut self,
        _: &mut impl Platform,
        _: &Context<'_, 'm>,
        _: &Exec,
        _: u64,
    ) -> Result<Option<&'m super::queue::Job>, Stop> {
        Ok(None)
    }

    /// The kernel and the CPU address of its argument block.
    #[inline]
    fn resolve(
        &mut self,
        platform: &mut impl Platform,
        exec: &Exec,
    ) -> Result<(KernelFn, NonNull<u8>), Stop> {
        let args = self.check(platform, exec.args, exec.args_size.into(), Access::Read)?;
        match platform.kernel(exec.kernel) {
            Some(kernel) => Ok((kernel, args)),
            None => Err(self.fault(FaultKind::Program, exec.kernel)),
        }
    }

    /// Runs groups of a launch until it is complete or the budget is used up.
    ///
    /// # Safety
    /// As for [`run`](Self::run).
    pub(super) unsafe fn groups(
        &mut self,
        platform: &mut impl Platform,
        context: &Context<'_, 'm>,
        mut launched: Launched<'m>,
        budget: u32,
    ) -> Result<Step, Stop> {
        let resolved = self.resolve(platform, &launched.exec);
        #[cfg(target_has_atomic = "64")]
        if let Some(job) = launched.job {
            let (kernel, args) = match resolved {
                Ok(found) => found,
                Err(stop) => {
                    // What others have begun comes to its end first: whoever sees the fault may free the memory.
                    job.fail();
                    if job.withdraw() {
                        return Err(stop);
                    }
                    self.state = State::Exec(launched);
                    self.held = BlockedOn::Helpers;
                    return Ok(Step::Held);
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
                    self.held = BlockedOn::Helpers;
                    return Ok(if ran > 0 {
                        Step::Partly(ran)
                    } else {
                        Step::Held
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
}

/// Calls a kernel for one group.
///
/// # Safety
/// The kernel may be called with these arguments and grid; `local` has `exec.local_memory` bytes at a 64-byte boundary.
#[inline]
unsafe fn call_one(
    kernel: KernelFn,
    args: NonNull<u8>,
    exec: &Exec,
    local: &Region<'_>,
    group: [u32; 3],
) {
    let group = Group {
        group,
        groups: exec.groups,
        local: exec.local,
        local_size: exec.local_memory,
        local_memory: if exec.local_memory == 0 {
            core::ptr::null_mut()
        } else {
            local.as_ptr().as_ptr().cast()
        },
        reserved: 0,
    };
    // SAFETY: this function's contract.
    unsafe { kernel(args.as_ptr().cast(), &raw const group) }
}

/// Calls a kernel for `count` groups from number `first` on.
///
/// # Safety
/// As for [`call_one`].
pub(super) unsafe fn call(
    kernel: KernelFn,
    args: NonNull<u8>,
    exec: &Exec,
    local: &Region<'_>,
    first: u64,
    count: u64,
) {
    let [gx, gy, _] = exec.groups.map(|n| n.max(1));
    let (row, rows) = (u64::from(gx), u64::from(gy));
    // Each is below the number of groups in its dimension.
    let narrow = |n: u64| (n & 0xffff_ffff) as u32;
    let [mut x, mut y, mut z] = match first {
        0 => [0; 3],
        _ => [
            narrow(first % row),
            narrow(first / row % rows),
            narrow(first / row / rows),
        ],
    };
    for _ in 0..count {
        // SAFETY: this function's contract.
        unsafe { call_one(kernel, args, exec, local, [x, y, z]) };
        x += 1;
        if x == gx {
            (x, y) = (0, y + 1);
        }
        if y == gy {
            (y, z) = (0, z.wrapping_add(1));
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
    local: &Region<'_>,
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
