//! Contexts: `kgsl_ioctl_drawctxt_create` and its kin, and `adreno_drawctxt.c`.

use std::collections::VecDeque;
use std::time::Instant;

use hcq_uapi::kgsl::{
    ContextFlags, KGSL_CONTEXT_PREEMPT_STYLE_MASK, KGSL_CONTEXT_PRIORITY_MASK,
    KGSL_CONTEXT_PRIORITY_SHIFT, KGSL_CONTEXT_TYPE_MASK, KGSL_CTX_STAT_NO_ERROR,
    KGSL_TIMESTAMP_CONSUMED, KGSL_TIMESTAMP_EVENT_FENCE, KGSL_TIMESTAMP_QUEUED,
    KGSL_TIMESTAMP_RETIRED, kgsl_cmdstream_readtimestamp_ctxtid, kgsl_drawctxt_create,
    kgsl_pagefault_report, kgsl_timestamp_event, kgsl_timestamp_event_fence,
};

use super::command::{Policy, Queued};
use super::timestamps::compare;
use super::{Kernel, MEMSTORE_MAX};
use crate::machine::FileId;

/// `KGSL_MAX_CONTEXTS_PER_PROC`, which the kernel lets one more pass.
const MOST: usize = 201;
/// `KGSL_CONTEXT_PRIORITY_MED`.
const MEDIUM: u32 = 8;

/// `struct adreno_context`. A detached one lives until the GPU has done what it has of it.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) id: u32,
    /// Which context it is, as numbers are used again.
    pub(super) serial: u64,
    pub(super) file: FileId,
    pub(super) flags: ContextFlags,
    /// 0 is the highest.
    pub(super) priority: u32,
    pub(super) ring: usize,
    /// The last time stamp that was given out.
    pub(super) timestamp: u32,
    /// The last one of a command or a marker that was queued.
    pub(super) queued: u32,
    pub(super) queue: VecDeque<Queued>,
    /// Commands that are in the ring.
    pub(super) in_flight: u32,
    /// `KGSL_CONTEXT_PRIV_DETACHED`.
    pub(super) detached: bool,
    /// `KGSL_CONTEXT_PRIV_INVALID`.
    pub(super) invalid: bool,
    /// `ADRENO_CONTEXT_FAULT`: the next call that may say so says `EPROTO`.
    pub(super) faulted: bool,
    pub(super) reset_status: u32,
    /// Faults in a row, for `KGSL_FT_THROTTLE`, and when the first was.
    pub(super) fault_count: u32,
    pub(super) fault_since: Option<Instant>,
    pub(super) faults: i32,
    pub(super) last_fault: u32,
    /// With `FAULT_INFO`: page faults of the last seconds.
    pub(super) reports: VecDeque<(Instant, kgsl_pagefault_report)>,
    /// `ADRENO_CONTEXT_SKIP_CMD`: what the next command inherits after one was skipped.
    pub(super) skipped: Option<Policy>,
    /// The last power constraints, of the GPU and of the L3 cache.
    pub(super) constraint: Option<u32>,
    pub(super) l3_constraint: Option<u32>,
}

impl Context {
    /// `kgsl_context_is_bad`.
    pub(super) fn is_bad(&self) -> bool {
        self.detached || self.invalid
    }

    /// `kgsl_check_context_state`.
    pub(super) fn check(&self) -> Result<(), i32> {
        if self.invalid {
            Err(libc::EDEADLK)
        } else if self.detached {
            Err(libc::ENOENT)
        } else {
            Ok(())
        }
    }
}

impl Kernel {
    /// `kgsl_context_get_owner`: a context of this file that is not detached.
    pub(super) fn owned(&mut self, file: FileId, id: u32) -> Result<&mut Context, i32> {
        self.contexts
            .get_mut(&id)
            .filter(|context| context.file == file && !context.detached)
            .ok_or(libc::EINVAL)
    }

    /// `adreno_drawctxt_create`, `kgsl_context_init`.
    pub(super) fn create_context(
        &mut self,
        file: FileId,
        args: &mut kgsl_drawctxt_create,
    ) -> Result<(), i32> {
        let known = ContextFlags::PREAMBLE
            | ContextFlags::NO_GMEM_ALLOC
            | ContextFlags::PER_CONTEXT_TS
            | ContextFlags::USER_GENERATED_TS
            | ContextFlags::NO_FAULT_TOLERANCE
            | ContextFlags::INVALIDATE_ON_FAULT
            | ContextFlags::CTX_SWITCH
            | ContextFlags::PWR_CONSTRAINT
            | ContextFlags::IFH_NOP
            | ContextFlags::SECURE
            | ContextFlags::LPAC
            | ContextFlags::NO_SNAPSHOT
            | ContextFlags::FAULT_INFO;
        let numbers =
            KGSL_CONTEXT_PRIORITY_MASK | KGSL_CONTEXT_TYPE_MASK | KGSL_CONTEXT_PREEMPT_STYLE_MASK;
        let mut bits = args.flags.bits() & (known.bits() | numbers);
        if !self.chip().preemption {
            bits &= !KGSL_CONTEXT_PREEMPT_STYLE_MASK;
        }
        let flags = ContextFlags::from_bits_retain(bits);
        if !flags.contains(ContextFlags::PREAMBLE | ContextFlags::NO_GMEM_ALLOC) {
            return Err(libc::EINVAL);
        }
        if flags.intersects(ContextFlags::SECURE | ContextFlags::LPAC) {
            return Err(libc::EOPNOTSUPP);
        }
        let mut flags = flags | ContextFlags::PER_CONTEXT_TS;
        if flags.bits() & KGSL_CONTEXT_PRIORITY_MASK == 0 {
            flags = flags.with_priority(MEDIUM);
        }
        if self.contexts.len() >= MOST {
            return Err(libc::ENOSPC);
        }
        let free = (1..MEMSTORE_MAX).find(|id| !self.contexts.contains_key(id));
        let id = free.ok_or(libc::ENOSPC)?;
        let priority = (flags.bits() & KGSL_CONTEXT_PRIORITY_MASK) >> KGSL_CONTEXT_PRIORITY_SHIFT;
        // `dispatch_get_rb`.
        let rings = self.rings.len();
        let level = usize::try_from(priority).unwrap_or(0) / rings.max(1);
        self.serial += 1;
        let context = Context {
            id,
            serial: self.serial,
            file,
            flags,
            priority,
            ring: level.min(rings.saturating_sub(1)),
            timestamp: 0,
            queued: 0,
            queue: VecDeque::new(),
            in_flight: 0,
            detached: false,
            invalid: false,
            faulted: false,
            reset_status: KGSL_CTX_STAT_NO_ERROR,
            fault_count: 0,
            fault_since: None,
            faults: 0,
            last_fault: 0,
            reports: VecDeque::new(),
            skipped: None,
            constraint: None,
            l3_constraint: None,
        };
        self.contexts.insert(id, context);
        self.set_consumed(id, 0);
        self.set_retired(id, 0);
        (args.flags, args.drawctxt_id) = (flags, id);
        Ok(())
    }

    /// `kgsl_context_detach`, `adreno_drawctxt_detach`: what waits is dropped. What the GPU executes goes on; the context ends
    /// with it.
    pub(super) fn detach(&mut self, id: u32) {
        let Some(context) = self.contexts.get_mut(&id) else {
            return;
        };
        if std::mem::replace(&mut context.detached, true) {
            return;
        }
        let dropped = std::mem::take(&mut context.queue);
        self.jobs.retain(|&job| job != id);
        for queued in dropped {
            self.release(&queued);
        }
        self.news = true;
        self.end_context(id);
    }

    /// The end of a detached context, once nothing of it is executed: its time stamps have come, its events are cancelled, its
    /// number is free.
    pub(super) fn end_context(&mut self, id: u32) {
        let Some(context) = self.contexts.get(&id) else {
            return;
        };
        if !context.detached || context.in_flight > 0 {
            return;
        }
        let timestamp = context.timestamp;
        self.set_consumed(id, timestamp);
        self.set_retired(id, timestamp);
        self.fire_frees(id, true);
        self.contexts.remove(&id);
        // `kgsl_context_destroy`.
        self.set_consumed(id, 0);
        self.set_retired(id, 0);
        for ring in &mut self.rings {
            ring.forget(id);
        }
        self.end_process();
    }

    /// `adreno_drawctxt_invalidate`: the context is lost. All its time stamps have come, and what waits is dropped.
    pub(super) fn invalidate(&mut self, id: u32) {
        let Some(context) = self.contexts.get_mut(&id) else {
            return;
        };
        context.invalid = true;
        let timestamp = context.timestamp;
        let dropped = std::mem::take(&mut context.queue);
        self.jobs.retain(|&job| job != id);
        for queued in dropped {
            self.release(&queued);
        }
        self.set_consumed(id, timestamp);
        self.set_retired(id, timestamp);
        self.fire_frees(id, true);
    }

    /// `kgsl_ioctl_cmdstream_readtimestamp_ctxtid`.
    pub(super) fn read_timestamp(
        &mut self,
        file: FileId,
        args: &mut kgsl_cmdstream_readtimestamp_ctxtid,
    ) -> Result<(), i32> {
        let id = args.context_id;
        let timestamp = self.owned(file, id)?.timestamp;
        args.timestamp = match args.r#type {
            KGSL_TIMESTAMP_QUEUED => timestamp,
            KGSL_TIMESTAMP_CONSUMED => self.consumed(id),
            KGSL_TIMESTAMP_RETIRED => self.retired(id),
            _ => return Err(libc::EINVAL),
        };
        Ok(())
    }

    /// `kgsl_add_event`: only who makes time stamps may wait for those that were not given out yet.
    pub(super) fn check_event(&self, id: u32, timestamp: u32) -> Result<(), i32> {
        let context = self.contexts.get(&id).ok_or(libc::EINVAL)?;
        let future = compare(timestamp, context.timestamp).is_gt();
        if future && !context.flags.contains(ContextFlags::USER_GENERATED_TS) {
            return Err(libc::EINVAL);
        }
        Ok(())
    }

    /// `kgsl_ioctl_timestamp_event`, `kgsl_add_fence_event`: there is no file for a fence.
    pub(super) fn timestamp_event(
        &mut self,
        file: FileId,
        args: &kgsl_timestamp_event,
    ) -> Result<(), i32> {
        let room = u64::try_from(size_of::<kgsl_timestamp_event_fence>());
        if args.r#type != KGSL_TIMESTAMP_EVENT_FENCE || Ok(args.len) != room {
            return Err(libc::EINVAL);
        }
        if self.owned(file, args.context_id)?.invalid {
            return Err(libc::EINVAL);
        }
        Err(libc::EMFILE)
    }
}
