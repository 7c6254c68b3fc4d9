//! A context: submissions, their timestamps, and what becomes of it in a fault.
#![allow(unsafe_code, reason = "hands lists to the driver")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hcq_nostd::fault::{Access, FaultKind, FaultRecord};
use hcq_uapi::kgsl::{self, CmdFlags, CmdbatchFlags, ContextFlags, PageFaultType};

use super::advice;
use super::device::Node;
use crate::Error;
use crate::backend::Piece;
use crate::ioctl::call_with;
use crate::qcom::feed::{Feed, Ring};
use crate::seam::Errno;

/// The priority that kernels give contexts which ask for none (`KGSL_CONTEXT_PRIORITY_MED`).
const PRIORITY: u32 = 8;
/// Page faults of one context that are read at most.
const MOST_FAULTS: u32 = 64;

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

/// A context of the kernel's. Its timestamps start somewhere, and have 32 bits.
#[derive(Debug)]
pub(super) struct Timestamps {
    node: Arc<Node>,
    id: u32,
    flags: CmdbatchFlags,
    /// Whether the kernel keeps addresses of page faults.
    tells_faults: bool,
}

/// A new context.
pub(super) fn new(node: &Arc<Node>, fast: bool) -> Result<Feed<Timestamps>, Error> {
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
    let context = Timestamps {
        node: Arc::clone(node),
        id: argument.drawctxt_id,
        flags: if fast {
            CmdbatchFlags::PWR_CONSTRAINT
        } else {
            CmdbatchFlags::empty()
        },
        tells_faults: argument.flags.contains(ContextFlags::FAULT_INFO),
    };
    let mut started = context.timestamp().map_err(|e| failed("READTIMESTAMP", e));
    if started.is_ok() && fast {
        let constrained = node.constrain(context.id);
        started = started.and_then(|first| {
            let refused = |e| failed("SETPROPERTY(PWR_CONSTRAINT)", e);
            constrained.map(|()| first).map_err(refused)
        });
    }
    match started {
        Ok(first) => Ok(Feed::new(context, first.into())),
        Err(error) => {
            context.end(None);
            Err(error)
        }
    }
}

impl Timestamps {
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
}

impl Ring for Timestamps {
    type List = Vec<kgsl::kgsl_command_object>;
    /// The kernel's queue of a context has 50 places (`_context_drawqueue_size`), and a call that finds none free sleeps.
    const MOST: usize = 48;

    fn list(&self, pieces: &[Piece], list: &mut Self::List) {
        let objects = pieces.iter().map(|piece| kgsl::kgsl_command_object {
            gpuaddr: piece.address,
            size: piece.words as u64 * 4,
            flags: CmdFlags::CMDLIST_IB,
            ..Default::default()
        });
        list.clear();
        list.extend(objects);
    }

    fn give(&self, last: u64, list: &mut Self::List) -> Result<u64, Errno> {
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
        Ok(extend(last, argument.timestamp))
    }

    fn done(&self, known: u64, _: &VecDeque<u64>) -> Result<u64, Errno> {
        Ok(extend(known, self.timestamp()?))
    }

    fn sleep(&self, mark: u64, limit: Duration) -> Result<(), Errno> {
        // 0 is without end, and so is more than 31 bits.
        let timeout = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
        let mut argument = kgsl::kgsl_device_waittimestamp_ctxtid {
            context_id: self.id,
            timestamp: low(mark),
            timeout: timeout.clamp(1, i32::MAX.cast_unsigned()),
        };
        self.node.call(&mut argument)
    }

    /// It was made invalid, destroyed, or the GPU is gone.
    fn is_lost(&self, errno: Errno) -> bool {
        matches!(
            errno.0,
            libc::EDEADLK | libc::EPROTO | libc::ENOENT | libc::ENODEV
        )
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

    fn look(&self) -> Result<Option<u64>, Errno> {
        // The context goes in, its state comes out.
        let mut value = self.id;
        self.node
            .property(kgsl::KGSL_PROP_GPU_RESET_STAT, &mut value)?;
        Ok(match value {
            // What others did is done again by the kernel, and nothing is lost.
            kgsl::KGSL_CTX_STAT_NO_ERROR | kgsl::KGSL_CTX_STAT_INNOCENT_CONTEXT_RESET_EXT => None,
            guilty => Some(guilty.into()),
        })
    }

    fn end(&self, _: Option<u64>) {
        let destroy = kgsl::kgsl_drawctxt_destroy {
            drawctxt_id: self.id,
        };
        // What is not given back stays until the node is closed.
        let _ = self.node.give_back(destroy);
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
