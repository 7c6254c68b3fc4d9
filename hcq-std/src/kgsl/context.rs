//! A context: submissions, their timestamps, and what becomes of it in a fault.
#![allow(unsafe_code, reason = "hands lists to the driver")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

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

/// Timestamps that the kernel counts in 32 bits, as numbers that do not roll over.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    submitted: u64,
    retired: u64,
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

/// A context.
#[derive(Debug)]
pub(super) struct Queue {
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
        };
        let first = queue.timestamp().map_err(|e| failed("READTIMESTAMP", e))?;
        *lock(&queue.counts) = Counts {
            submitted: first.into(),
            retired: first.into(),
        };
        if fast {
            node.constrain(queue.id)
                .map_err(|e| failed("SETPROPERTY(PWR_CONSTRAINT)", e))?;
        }
        Ok(queue)
    }

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

    fn reached(&self, timestamp: u32) -> u64 {
        let mut counts = lock(&self.counts);
        let retired = extend(counts.retired, timestamp);
        // What was never submitted is not done.
        if retired <= counts.submitted {
            counts.retired = retired;
        }
        counts.retired
    }
}

impl Context for Queue {
    fn submit(&self, pieces: &[Piece]) -> Result<u64, Refusal> {
        if self.fault().is_some() || self.has_ended.load(Ordering::Acquire) {
            return Err(Refusal::Fault);
        }
        let list: Vec<kgsl::kgsl_command_object> = pieces
            .iter()
            .map(|piece| kgsl::kgsl_command_object {
                gpuaddr: piece.address,
                size: piece.words as u64 * 4,
                flags: CmdFlags::CMDLIST_IB,
                ..Default::default()
            })
            .collect();
        let mut argument = kgsl::kgsl_gpu_command {
            flags: self.flags,
            cmdlist: list.as_ptr().expose_provenance() as u64,
            cmdsize: size_of::<kgsl::kgsl_command_object>() as u32,
            numcmds: u32::try_from(list.len()).map_err(|_| Refusal::Driver(Errno::INVAL))?,
            context_id: self.id,
            ..Default::default()
        };
        let file = self.node.file().map_err(Refusal::Driver)?;
        // Held over the call: timestamps are in the order of submissions.
        let mut counts = lock(&self.counts);
        // SAFETY: the one address is that of the list, as long as it says, which is read. What the words do is promised by
        // those who recorded them.
        let submitted = unsafe { call_with(&*self.node.system, file, &mut argument) };
        match submitted {
            Ok(()) => {
                let number = extend(counts.submitted, argument.timestamp);
                if number == counts.submitted {
                    // The kernel's count does not go on: nothing that is waited for would mean anything.
                    drop(counts);
                    self.fail(argument.timestamp.into());
                    return Err(Refusal::Fault);
                }
                counts.submitted = number;
                Ok(number)
            }
            Err(errno) => {
                drop(counts);
                match self.judge(errno) {
                    Some(_) => Err(Refusal::Fault),
                    None => Err(Refusal::Driver(errno)),
                }
            }
        }
    }

    fn submitted(&self) -> u64 {
        lock(&self.counts).submitted
    }

    fn known(&self) -> u64 {
        lock(&self.counts).retired
    }

    fn retired(&self) -> u64 {
        match self.timestamp() {
            Ok(timestamp) => self.reached(timestamp),
            Err(errno) => {
                self.judge(errno);
                self.known()
            }
        }
    }

    fn wait(&self, number: u64, limit: Duration) -> bool {
        let counts = *lock(&self.counts);
        if counts.retired >= number {
            return true;
        }
        if number > counts.submitted || self.fault().is_some() {
            return false;
        }
        // 0 is without end, and so is more than 31 bits.
        let timeout = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
        let mut argument = kgsl::kgsl_device_waittimestamp_ctxtid {
            context_id: self.id,
            timestamp: low(number),
            timeout: timeout.clamp(1, i32::MAX.cast_unsigned()),
        };
        match self.node.call(&mut argument) {
            Ok(()) => self.reached(low(number)) >= number,
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

    fn fault(&self) -> Option<FaultRecord> {
        if !self.is_faulted.load(Ordering::Acquire) {
            return None;
        }
        *lock(&self.fault)
    }

    fn look(&self) -> Option<FaultRecord> {
        if let Some(fault) = self.fault() {
            return Some(fault);
        }
        // The context goes in, its state comes out.
        let mut value = self.id;
        let status = match self
            .node
            .property(kgsl::KGSL_PROP_GPU_RESET_STAT, &mut value)
        {
            Ok(()) => value,
            Err(errno) => return self.judge(errno),
        };
        match status {
            // What others did is done again by the kernel, and nothing is lost.
            kgsl::KGSL_CTX_STAT_NO_ERROR | kgsl::KGSL_CTX_STAT_INNOCENT_CONTEXT_RESET_EXT => None,
            guilty => Some(self.fail(guilty.into())),
        }
    }

    fn end(&self) {
        if self.has_ended.swap(true, Ordering::AcqRel) {
            return;
        }
        let destroy = kgsl::kgsl_drawctxt_destroy {
            drawctxt_id: self.id,
        };
        // What is not given back stays until the node is closed.
        let _ = self.node.give_back(destroy);
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
