//! A context: submissions, their timestamps, and what becomes of it in a fault.
#![allow(unsafe_code, reason = "hands lists to the driver")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hcq_nostd::fault::{Access, FaultKind, FaultRecord};
use hcq_uapi::kgsl::{self, CmdFlags, CmdbatchFlags, ContextFlags, PageFaultType};

use super::advice;
use super::device::Node;
use crate::Error;
use crate::backend::Piece;
use crate::heap::lock;
use crate::ioctl::call_with;
use crate::qcom::driver::{Context, Refusal};
use crate::seam::Errno;

/// The priority that kernels give contexts which ask for none (`KGSL_CONTEXT_PRIORITY_MED`).
const PRIORITY: u32 = 8;
/// Page faults of one context that are read at most.
const MOST_FAULTS: u32 = 64;

/// Submissions that the kernel is given at once: its queue of a context has 50 places (`_context_drawqueue_size`), and a call
/// that finds none free sleeps.
const MOST_QUEUED: usize = 48;
/// Longest sleep of the thread that feeds the kernel, between two looks at whether it is still needed.
const FEED_NAP: Duration = Duration::from_millis(20);

/// A submission's list of commands.
type List = Box<[kgsl::kgsl_command_object]>;

/// Submissions. They count from 1; the kernel's timestamps start somewhere, and have 32 bits.
#[derive(Debug, Default)]
struct Counts {
    submitted: u64,
    retired: u64,
    /// The last timestamp that the kernel gave out, as a number that does not roll over.
    given: u64,
    /// The last one that is done.
    done: u64,
    /// Timestamps of submissions that the kernel has and that are not known to be done.
    queued: VecDeque<u64>,
    /// Submissions that the kernel has no room for yet.
    waiting: VecDeque<List>,
    /// Whether a thread sees to them.
    is_fed: bool,
}

/// The number that a 32-bit timestamp stands for, at or after a number that it was seen to be past; earlier timestamps
/// are that number.
fn extend(past: u64, timestamp: u32) -> u64 {
    let step = timestamp.wrapping_sub((past & 0xffff_ffff) as u32);
    match i32::try_from(step) {
        Ok(_) => past.saturating_add(step.into()),
        Err(_) => past,
    }
}

fn low(number: u64) -> u32 {
    (number & 0xffff_ffff) as u32
}

/// A context. What is submitted beyond what the kernel takes at once waits here; a thread hands it on.
#[derive(Debug)]
pub(super) struct Queue {
    lane: Arc<Lane>,
    feeder: Mutex<Option<JoinHandle<()>>>,
}

/// What a context's users and its thread share.
#[derive(Debug)]
struct Lane {
    node: Arc<Node>,
    id: u32,
    flags: CmdbatchFlags,
    /// Whether the kernel keeps addresses of page faults.
    tells_faults: bool,
    counts: Mutex<Counts>,
    fault: Mutex<Option<FaultRecord>>,
    is_faulted: AtomicBool,
    has_ended: AtomicBool,
}

impl Queue {
    pub(super) fn new(node: &Arc<Node>, fast: bool) -> Result<Self, Error> {
        let mut wanted = ContextFlags::PREAMBLE
            | ContextFlags::NO_GMEM_ALLOC
            | ContextFlags::NO_FAULT_TOLERANCE
            | ContextFlags::FAULT_INFO;
        wanted.set(ContextFlags::PWR_CONSTRAINT, fast);
        let mut argument = kgsl::kgsl_drawctxt_create {
            flags: wanted
                .with_type(kgsl::KGSL_CONTEXT_TYPE_CL)
                .with_priority(PRIORITY)
                .with_preempt_style(kgsl::KGSL_CONTEXT_PREEMPT_STYLE_FINEGRAIN),
            drawctxt_id: 0,
        };
        let failed = |operation, errno| Node::failed(operation, errno, advice::context(errno));
        node.call(&mut argument)
            .map_err(|e| failed("DRAWCTXT_CREATE", e))?;
        // From here on whatever fails drops it.
        let queue = Self {
            lane: Arc::new(Lane {
                node: Arc::clone(node),
                id: argument.drawctxt_id,
                flags: if fast {
                    CmdbatchFlags::PWR_CONSTRAINT
                } else {
                    CmdbatchFlags::empty()
                },
                tells_faults: argument.flags.contains(ContextFlags::FAULT_INFO),
                counts: Mutex::default(),
                fault: Mutex::default(),
                is_faulted: AtomicBool::new(false),
                has_ended: AtomicBool::new(false),
            }),
            feeder: Mutex::default(),
        };
        let lane = &queue.lane;
        let first = lane.timestamp().map_err(|e| failed("READTIMESTAMP", e))?;
        *lock(&lane.counts) = Counts {
            given: first.into(),
            done: first.into(),
            ..Counts::default()
        };
        if fast {
            node.constrain(lane.id)
                .map_err(|e| failed("SETPROPERTY(PWR_CONSTRAINT)", e))?;
        }
        Ok(queue)
    }
}

impl Lane {
    /// The timestamp of the last submission that is done.
    fn timestamp(&self) -> Result<u32, Errno> {
        let mut argument = kgsl::kgsl_cmdstream_readtimestamp_ctxtid {
            context_id: self.id,
            r#type: kgsl::KGSL_TIMESTAMP_RETIRED,
            timestamp: 0,
        };
        self.node.call(&mut argument)?;
        Ok(argument.timestamp)
    }

    /// What became of the context, once: in error from the first fault on.
    fn fail(&self, detail: u64) -> FaultRecord {
        let mut fault = lock(&self.fault);
        let record = *fault.get_or_insert_with(|| self.describe(detail));
        self.is_faulted.store(true, Ordering::Release);
        record
    }

    fn describe(&self, detail: u64) -> FaultRecord {
        let page = if self.tells_faults {
            self.page_fault()
        } else {
            None
        };
        match page {
            Some(page) => {
                let is = |kind| page.fault_type.contains(kind);
                FaultRecord {
                    access: match (is(PageFaultType::READ), is(PageFaultType::WRITE)) {
                        (true, false) => Access::Read,
                        (false, true) => Access::Write,
                        _ => Access::Unknown,
                    },
                    detail: page.fault_type.bits().into(),
                    ..FaultRecord::new(FaultKind::Memory, 0, page.fault_addr)
                }
            }
            None => FaultRecord {
                detail,
                ..FaultRecord::new(FaultKind::Hardware, 0, 0)
            },
        }
    }

    /// The first page fault that the kernel kept.
    fn page_fault(&self) -> Option<kgsl::kgsl_pagefault_report> {
        let mut kinds = [kgsl::kgsl_fault::default(); kgsl::KGSL_FAULT_TYPE_MAX as usize];
        self.fault_report(&mut kinds)?;
        let pages = kinds
            .iter_mut()
            .find(|k| k.r#type == kgsl::KGSL_FAULT_TYPE_PAGEFAULT && k.count > 0)?;
        let count = pages.count.min(MOST_FAULTS);
        let mut reports = vec![kgsl::kgsl_pagefault_report::default(); count as usize];
        let mut wanted = [kgsl::kgsl_fault {
            fault: reports.as_mut_ptr().expose_provenance() as u64,
            r#type: kgsl::KGSL_FAULT_TYPE_PAGEFAULT,
            count,
            size: size_of::<kgsl::kgsl_pagefault_report>() as u32,
            padding: 0,
        }];
        self.fault_report(&mut wanted)?;
        reports.into_iter().next()
    }

    fn fault_report(&self, list: &mut [kgsl::kgsl_fault]) -> Option<()> {
        let mut argument = kgsl::kgsl_fault_report {
            faultlist: list.as_mut_ptr().expose_provenance() as u64,
            faultnents: u32::try_from(list.len()).ok()?,
            faultsize: size_of::<kgsl::kgsl_fault>() as u32,
            context_id: self.id,
            padding: 0,
        };
        let file = self.node.file().ok()?;
        // SAFETY: the list has as many entries as it says, writable; those with an address have room there for as many
        // structs of their size as they say.
        unsafe { call_with(&*self.node.system, file, &mut argument) }.ok()
    }

    /// What an answer says of the context.
    fn judge(&self, errno: Errno) -> Option<FaultRecord> {
        match errno.0 {
            // It was made invalid, destroyed, or the GPU is gone.
            libc::EDEADLK | libc::EPROTO | libc::ENOENT | libc::ENODEV => {
                Some(self.fail(u64::from(errno.0.unsigned_abs())))
            }
            _ => None,
        }
    }

    fn known_fault(&self) -> Option<FaultRecord> {
        if !self.is_faulted.load(Ordering::Acquire) {
            return None;
        }
        *lock(&self.fault)
    }

    fn is_over(&self) -> bool {
        self.has_ended.load(Ordering::Acquire) || self.is_faulted.load(Ordering::Acquire)
    }

    /// The kernel says that it has come to a timestamp.
    fn reached(counts: &mut Counts, timestamp: u32) {
        let done = extend(counts.done, timestamp);
        // What it never gave out is not done.
        if done <= counts.given {
            counts.done = done;
        }
        while counts.queued.front().is_some_and(|t| *t <= counts.done) {
            counts.queued.pop_front();
            counts.retired = counts.retired.saturating_add(1);
        }
    }

    /// Hands a list to the kernel.
    fn give(&self, counts: &mut Counts, list: &List) -> Result<(), Errno> {
        let mut argument = kgsl::kgsl_gpu_command {
            flags: self.flags,
            cmdlist: list.as_ptr().expose_provenance() as u64,
            cmdsize: size_of::<kgsl::kgsl_command_object>() as u32,
            numcmds: u32::try_from(list.len()).map_err(|_| Errno::INVAL)?,
            context_id: self.id,
            ..Default::default()
        };
        let file = self.node.file()?;
        // SAFETY: the one address is that of the list, as long as it says, which is read. What the words do is promised by
        // those who recorded them.
        unsafe { call_with(&*self.node.system, file, &mut argument) }?;
        let given = extend(counts.given, argument.timestamp);
        if given == counts.given {
            // The kernel's count does not go on: nothing that is waited for would mean anything.
            return Err(Errno(libc::EPROTO));
        }
        counts.given = given;
        counts.queued.push_back(given);
        Ok(())
    }

    /// Looks how far the kernel is, and gives it what it has room for.
    fn pump(&self) {
        match self.timestamp() {
            Ok(timestamp) => {
                let mut counts = lock(&self.counts);
                Self::reached(&mut counts, timestamp);
                self.feed(counts);
            }
            Err(errno) => {
                self.judge(errno);
            }
        }
    }

    fn feed(&self, mut counts: MutexGuard<'_, Counts>) {
        while counts.queued.len() < MOST_QUEUED && !self.is_over() {
            let Some(list) = counts.waiting.pop_front() else {
                return;
            };
            match self.give(&mut counts, &list) {
                Ok(()) => {}
                // Later, perhaps.
                Err(Errno::NOMEM | Errno(libc::EAGAIN)) => {
                    counts.waiting.push_front(list);
                    return;
                }
                Err(errno) => {
                    drop(counts);
                    if self.judge(errno).is_none() {
                        self.fail(u64::from(errno.0.unsigned_abs()));
                    }
                    return;
                }
            }
        }
    }

    /// Sleeps until the kernel has come to a timestamp; whether it has.
    fn sleep(&self, timestamp: u32, limit: Duration) -> bool {
        // 0 is without end, and so is more than 31 bits.
        let timeout = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
        let mut argument = kgsl::kgsl_device_waittimestamp_ctxtid {
            context_id: self.id,
            timestamp,
            timeout: timeout.clamp(1, i32::MAX.cast_unsigned()),
        };
        match self.node.call(&mut argument) {
            Ok(()) => {
                let mut counts = lock(&self.counts);
                Self::reached(&mut counts, timestamp);
                self.feed(counts);
                true
            }
            Err(errno) => {
                let over = errno.0 == libc::ETIMEDOUT;
                if !over && self.judge(errno).is_none() {
                    // Time is to pass all the same.
                    std::thread::sleep(Duration::from_millis(1).min(limit));
                }
                false
            }
        }
    }

    /// The life of the thread that feeds the kernel.
    fn run(&self) {
        loop {
            let first = {
                let mut counts = lock(&self.counts);
                if self.is_over() || counts.waiting.is_empty() {
                    counts.is_fed = false;
                    return;
                }
                counts.queued.front().copied()
            };
            match first {
                Some(first) => {
                    self.sleep(low(first), FEED_NAP);
                }
                // What it refused a moment ago, it may take now.
                None => std::thread::sleep(Duration::from_millis(1)),
            }
            self.pump();
        }
    }
}

impl Context for Queue {
    fn submit(&self, pieces: &[Piece]) -> Result<u64, Refusal> {
        let lane = &self.lane;
        if lane.is_over() {
            return Err(Refusal::Fault);
        }
        let list: List = pieces
            .iter()
            .map(|piece| kgsl::kgsl_command_object {
                gpuaddr: piece.address,
                size: piece.words as u64 * 4,
                flags: CmdFlags::CMDLIST_IB,
                ..Default::default()
            })
            .collect();
        // Held over the call: timestamps are in the order of submissions.
        let mut counts = lock(&lane.counts);
        if counts.waiting.is_empty() && counts.queued.len() < MOST_QUEUED {
            match lane.give(&mut counts, &list) {
                Ok(()) => {
                    counts.submitted = counts.submitted.saturating_add(1);
                    return Ok(counts.submitted);
                }
                Err(errno) => {
                    drop(counts);
                    return Err(match lane.judge(errno) {
                        Some(_) => Refusal::Fault,
                        None => Refusal::Driver(errno),
                    });
                }
            }
        }
        if !counts.is_fed {
            let (feeds, mut feeder) = (Arc::clone(lane), lock(&self.feeder));
            let thread = std::thread::Builder::new().name("hcq-feed".into());
            let started = thread.spawn(move || feeds.run());
            let refused = |_| Refusal::Driver(Errno(libc::EAGAIN));
            // The one before has nothing more to do.
            *feeder = Some(started.map_err(refused)?);
            counts.is_fed = true;
        }
        counts.waiting.push_back(list);
        counts.submitted = counts.submitted.saturating_add(1);
        let submitted = counts.submitted;
        drop(counts);
        lane.pump();
        Ok(submitted)
    }

    fn submitted(&self) -> u64 {
        lock(&self.lane.counts).submitted
    }

    fn known(&self) -> u64 {
        lock(&self.lane.counts).retired
    }

    fn retired(&self) -> u64 {
        self.lane.pump();
        self.known()
    }

    fn wait(&self, number: u64, limit: Duration) -> bool {
        let lane = &self.lane;
        let end = Instant::now() + limit;
        loop {
            let next = {
                let counts = lock(&lane.counts);
                if counts.retired >= number {
                    return true;
                }
                if number > counts.submitted || lane.is_over() {
                    return false;
                }
                // The submission's own timestamp, or the last one that the kernel has given out before it.
                let ahead = usize::try_from(number - counts.retired - 1).unwrap_or(usize::MAX);
                let own = counts.queued.get(ahead).or(counts.queued.back());
                own.copied()
            };
            let left = end.saturating_duration_since(Instant::now());
            let came = match next {
                Some(timestamp) => lane.sleep(low(timestamp), left),
                None => {
                    std::thread::sleep(Duration::from_millis(1).min(left));
                    lane.pump();
                    false
                }
            };
            if !came && Instant::now() >= end {
                return self.known() >= number;
            }
        }
    }

    fn fault(&self) -> Option<FaultRecord> {
        self.lane.known_fault()
    }

    fn look(&self) -> Option<FaultRecord> {
        let lane = &self.lane;
        if let Some(fault) = lane.known_fault() {
            return Some(fault);
        }
        // The context goes in, its state comes out.
        let mut value = lane.id;
        let property = kgsl::KGSL_PROP_GPU_RESET_STAT;
        let status = match lane.node.property(property, &mut value) {
            Ok(()) => value,
            Err(errno) => return lane.judge(errno),
        };
        match status {
            // What others did is done again by the kernel, and nothing is lost.
            kgsl::KGSL_CTX_STAT_NO_ERROR | kgsl::KGSL_CTX_STAT_INNOCENT_CONTEXT_RESET_EXT => None,
            guilty => Some(lane.fail(guilty.into())),
        }
    }

    fn end(&self) {
        let lane = &self.lane;
        if lane.has_ended.swap(true, Ordering::AcqRel) {
            return;
        }
        let destroy = kgsl::kgsl_drawctxt_destroy {
            drawctxt_id: lane.id,
        };
        // What is not given back stays until the node is closed.
        let _ = lane.node.give_back(destroy);
        lock(&lane.counts).waiting.clear();
        let feeder = lock(&self.feeder).take();
        if let Some(feeder) = feeder {
            // It looks at least every few milliseconds, and then has nothing to do.
            let _ = feeder.join();
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::extend;

    #[test]
    fn timestamps_go_on_where_they_roll_over() {
        for (past, timestamp, number) in [
            (0, 0, 0),
            (0, 1, 1),
            (5, 4, 5),
            (0xffff_fffe, 0xffff_ffff, 0xffff_ffff),
            (0xffff_fffe, 3, 0x1_0000_0003),
            (0x1_0000_0003, 0xffff_ffff, 0x1_0000_0003),
            (0x7_ffff_ffff, 0, 0x8_0000_0000),
            (0x10, 0x7fff_ffff, 0x7fff_ffff),
            (0x10, 0x8000_000f, 0x8000_000f),
            (0x10, 0x8000_0010, 0x10),
        ] {
            assert_eq!(extend(past, timestamp), number, "{past:#x} {timestamp:#x}");
        }
    }
}
