//! What the kernel does when the GPU fails: `dispatcher_do_fault`, `process_cmdobj_fault` and the reports of page faults.

use std::time::{Duration, Instant};

use hcq_uapi::kgsl::{
    ContextFlags, KGSL_CTX_STAT_GUILTY_CONTEXT_RESET_EXT, KGSL_FAULT_TYPE_MAX,
    KGSL_FAULT_TYPE_PAGEFAULT, PageFaultType, kgsl_fault, kgsl_fault_report, kgsl_pagefault_report,
};
use zerocopy::IntoBytes;

use super::command::Policy;
use super::dispatch::Sent;
use super::{Kernel, copy_struct};
use crate::machine::{FileId, user};
use crate::vm::{Need, PageFault, PageFaultReason};

/// `_fault_throttle_time` and `_fault_throttle_burst`.
const THROTTLE: Duration = Duration::from_millis(3000);
const MOST_FAULTS: u32 = 3;
/// `KGSL_MAX_FAULT_ENTRIES` and `KGSL_MAX_FAULT_TIME_THRESHOLD`.
const REPORTS: usize = 40;
const REMEMBERED: Duration = Duration::from_millis(5000);

/// Why the GPU has failed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// `ADRENO_HARD_FAULT`: the command processor does not take a packet.
    Hard,
    /// `ADRENO_IOMMU_PAGE_FAULT`.
    Page(PageFault),
    /// `ADRENO_TIMEOUT_FAULT`.
    Timeout,
    /// `ADRENO_CTX_DETATCH_TIMEOUT_FAULT`.
    Detached,
}

impl Kernel {
    /// `dispatcher_do_fault`: the GPU is reset, and what is in the rings begins anew, but for what its policy says.
    pub(super) fn recover(&mut self, index: usize, kind: Kind, why: &str) {
        self.resets += 1;
        let front = self
            .rings
            .get_mut(index)
            .and_then(|ring| ring.queue.front_mut());
        if let Some(Sent { context, command }) = front {
            let id = *context;
            let timestamp = command.timestamp;
            if !std::mem::replace(&mut command.told, true) {
                let text = format!("gpu fault ctx {id} ts {timestamp} in ring {index}: {why}");
                self.reports.push(text);
                if let Some(context) = self.contexts.get_mut(&id) {
                    context.faults += 1;
                    context.last_fault = timestamp;
                }
            }
            if let Kind::Page(fault) = kind {
                self.report_page_fault(id, &fault);
            }
            if self.is_lost(index, id, kind) {
                if let Some(context) = self.contexts.get_mut(&id) {
                    context.reset_status = KGSL_CTX_STAT_GUILTY_CONTEXT_RESET_EXT;
                }
                self.invalidate(id);
            }
        } else {
            self.reports
                .push(format!("gpu fault in ring {index}: {why}"));
        }
        self.reset();
        self.news = true;
    }

    /// `adreno_reset`, and the rings' commands again (`recover_dispatch_q`). Those of lost contexts are dropped.
    fn reset(&mut self) {
        self.caches.forget(0, u64::MAX);
        let mut dropped = Vec::new();
        for ring in &mut self.rings {
            ring.processor.reset();
            ring.running = false;
            ring.since = Instant::now();
            let all = std::mem::take(&mut ring.queue);
            for mut sent in all {
                let context = self.contexts.get(&sent.context);
                if context.is_none_or(super::context::Context::is_bad) {
                    dropped.push(sent);
                    continue;
                }
                if ring.queue.is_empty() {
                    sent.command.preamble = true;
                }
                ring.queue.push_back(sent);
            }
        }
        for Sent { context, command } in dropped {
            self.done_with(context, &command, false);
        }
        self.issue();
    }

    /// `process_cmdobj_fault`: what is done about the first command of a ring. Whether its context is lost.
    fn is_lost(&mut self, index: usize, id: u32, kind: Kind) -> bool {
        let Some(context) = self.contexts.get_mut(&id) else {
            return false;
        };
        let Some(ring) = self.rings.get_mut(index) else {
            return false;
        };
        let mut sent = ring.queue.iter_mut().filter(|sent| sent.context == id);
        let Some(Sent { command, .. }) = sent.next() else {
            return false;
        };
        let mut policy = command.policy;
        if policy.throttle {
            let since = context.fault_since;
            if since.is_none_or(|since| since.elapsed() > THROTTLE) {
                context.fault_since = Some(Instant::now());
                context.fault_count = 1;
            } else {
                context.fault_count += 1;
                policy.disabled |= context.fault_count > MOST_FAULTS;
            }
        }
        if policy.disabled || context.detached || matches!(kind, Kind::Timeout | Kind::Detached) {
            policy = Policy::default();
        }
        if matches!(kind, Kind::Hard) {
            policy.replay = false;
        }
        if std::mem::take(&mut policy.replay) {
            command.recovered = true;
            command.policy = policy;
            return false;
        }
        if std::mem::take(&mut policy.skip) {
            command.policy = policy;
            command.skip = true;
            command.recovered = false;
            // `_skip_cmd`: the next command of the context is on trial.
            match sent.next() {
                Some(Sent { command, .. }) => {
                    command.policy = policy;
                    command.preamble = true;
                    command.recovered = true;
                }
                None => context.skipped = Some(policy),
            }
            return false;
        }
        command.policy = policy;
        true
    }

    /// `kgsl_iommu_add_fault_info`, `kgsl_add_fault`.
    fn report_page_fault(&mut self, id: u32, fault: &PageFault) {
        let context = self.contexts.get_mut(&id);
        let Some(context) = context.filter(|context| {
            context.flags.contains(ContextFlags::FAULT_INFO) && !context.is_bad()
        }) else {
            return;
        };
        let kind = match fault.reason {
            PageFaultReason::NotPresent => PageFaultType::TRANSLATION,
            PageFaultReason::ReadOnly | PageFaultReason::NoExecute => PageFaultType::PERMISSION,
        };
        let access = match fault.need {
            Need::Write => PageFaultType::WRITE,
            Need::Read | Need::Execute => PageFaultType::READ,
        };
        let report = kgsl_pagefault_report {
            fault_addr: fault.address,
            fault_type: kind | access,
            ..Default::default()
        };
        context
            .reports
            .retain(|(when, _)| when.elapsed() < REMEMBERED);
        if context.reports.len() == REPORTS {
            context.reports.pop_front();
        }
        context.reports.push_back((Instant::now(), report));
    }

    /// An engine, or somebody's program in it, has broken down: every context is lost.
    pub(super) fn halt_all(&mut self, why: &str) {
        self.reports.push(format!("the GPU stopped: {why}"));
        self.halted = true;
        let ids: Vec<u32> = self.contexts.keys().copied().collect();
        for id in ids {
            self.invalidate(id);
        }
        for ring in &mut self.rings {
            ring.running = false;
        }
        let sent: Vec<Sent> = self
            .rings
            .iter_mut()
            .flat_map(|ring| std::mem::take(&mut ring.queue))
            .collect();
        for Sent { context, command } in sent {
            self.done_with(context, &command, false);
        }
        self.news = true;
    }

    /// `kgsl_ioctl_get_fault_report`: the number of types, how many faults of each type there are, or the faults, as the
    /// caller's list asks.
    pub(super) fn fault_report(
        &mut self,
        file: FileId,
        args: &mut kgsl_fault_report,
    ) -> Result<(), i32> {
        let context = self.owned(file, args.context_id)?;
        if !context.flags.contains(ContextFlags::FAULT_INFO) || !context.invalid {
            return Err(libc::EINVAL);
        }
        if args.faultlist == 0 {
            args.faultnents = KGSL_FAULT_TYPE_MAX;
            return Ok(());
        }
        let reports: Vec<kgsl_pagefault_report> =
            context.reports.iter().map(|&(_, report)| report).collect();
        let size = usize::try_from(args.faultsize).map_err(|_| libc::EFAULT)?;
        let size = size.min(size_of::<kgsl_fault>());
        let entry = |n: u32| {
            let offset = u64::from(n).checked_mul(args.faultsize.into());
            let at = offset.and_then(|offset| args.faultlist.checked_add(offset));
            at.ok_or(libc::EFAULT)
        };
        // Entries of no bytes ask for nothing, however many they are.
        let entries = if size == 0 { 0 } else { args.faultnents };
        for n in 0..entries {
            let bytes = u64::try_from(size).map_err(|_| libc::EFAULT)?;
            let fault: kgsl_fault = copy_struct(entry(n)?, bytes).map_err(|_| libc::EFAULT)?;
            if fault.fault != 0 {
                return write_details(args, &reports, size);
            }
        }
        // `kgsl_update_fault_count`.
        if !reports.is_empty() && args.faultnents > 0 {
            let count = kgsl_fault {
                r#type: KGSL_FAULT_TYPE_PAGEFAULT,
                count: u32::try_from(reports.len()).unwrap_or(u32::MAX),
                ..Default::default()
            };
            let bytes = count.as_bytes().get(..size).unwrap_or_default();
            user::write(entry(0)?, bytes)?;
        }
        Ok(())
    }
}

/// `kgsl_update_fault_details`.
fn write_details(
    args: &kgsl_fault_report,
    reports: &[kgsl_pagefault_report],
    size: usize,
) -> Result<(), i32> {
    let mut pages = kgsl_fault::default();
    for n in 0..u64::from(args.faultnents) {
        let at = n
            .checked_mul(args.faultsize.into())
            .and_then(|offset| args.faultlist.checked_add(offset));
        let bytes = u64::try_from(size).map_err(|_| libc::EFAULT)?;
        let fault: kgsl_fault =
            copy_struct(at.ok_or(libc::EFAULT)?, bytes).map_err(|_| libc::EFAULT)?;
        match fault.r#type {
            KGSL_FAULT_TYPE_PAGEFAULT => pages = fault,
            KGSL_FAULT_TYPE_MAX.. => return Err(libc::EINVAL),
            _ => {}
        }
    }
    let room = usize::try_from(pages.count).unwrap_or(usize::MAX);
    let size = usize::try_from(pages.size).unwrap_or(usize::MAX);
    let size = size.min(size_of::<kgsl_pagefault_report>());
    let mut at = pages.fault;
    for report in reports.iter().take(room) {
        user::write(at, report.as_bytes().get(..size).unwrap_or_default())?;
        at = at.wrapping_add(pages.size.into());
    }
    Ok(())
}
