//! A queue: submissions, their fences, and what becomes of it when the GPU hangs.
#![allow(unsafe_code, reason = "hands lists to the driver")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use hcq_nostd::fault::{FaultKind, FaultRecord};
use hcq_uapi::msm::{self, SubmitFlags};

use super::advice;
use super::node::Node;
use crate::Error;
use crate::backend::Piece;
use crate::ioctl::call_with;
use crate::qcom::feed::{Feed, Ring};
use crate::seam::Errno;

/// Pieces of one submission at most: the kernel's ring has room for some 2000 calls (`MSM_GPU_RINGBUFFER_SZ`), and a
/// submission that finds less waits in the kernel.
const MOST_PIECES: usize = 1024;
/// How long the end of a queue is waited for: the kernel ends submissions that hang, one after the other.
const END_LIMIT: Duration = Duration::from_secs(10);
/// The answer for a queue that a submission hung in.
const HUNG: Errno = Errno(libc::EDEADLK);

/// The mark of the fence after one with a mark. A queue's numbers go up from 1 and begin anew behind the last one; which
/// that is differs between kernels. Marks have the number below, and above it how often it began anew. `None` if the
/// number is none that comes after.
fn after(last: u64, fence: u32) -> Option<u64> {
    let (rounds, before) = (last >> 32, low(last));
    let rounds = if fence > before {
        rounds
    } else if before - fence > u32::MAX / 4 {
        rounds + 1
    } else {
        return None;
    };
    Some(rounds << 32 | u64::from(fence))
}

fn low(mark: u64) -> u32 {
    (mark & 0xffff_ffff) as u32
}

/// A queue of the kernel's.
#[derive(Debug)]
pub(super) struct Fences {
    node: Arc<Node>,
    id: u32,
    /// Faults of the queue when nothing had been submitted.
    before: u32,
}

/// A new queue, of the middle priority.
pub(super) fn new(node: &Arc<Node>) -> Result<Feed<Fences>, Error> {
    let failed = |operation, errno| Node::failed(operation, errno, advice::queue(errno));
    let priorities = node.parameter(msm::MSM_PARAM_PRIORITIES).unwrap_or(1);
    let mut argument = msm::drm_msm_submitqueue {
        prio: u32::try_from(priorities / 2).unwrap_or(0),
        ..Default::default()
    };
    node.call(&mut argument)
        .map_err(|e| failed("SUBMITQUEUE_NEW", e))?;
    let mut queue = Fences {
        node: Arc::clone(node),
        id: argument.id,
        before: 0,
    };
    match queue.faults() {
        Ok(faults) => {
            queue.before = faults;
            Ok(Feed::new(queue, 0))
        }
        Err(errno) => {
            queue.end(None);
            Err(failed("SUBMITQUEUE_QUERY(FAULTS)", errno))
        }
    }
}

impl Fences {
    /// Times that the GPU hung in a submission of the queue.
    fn faults(&self) -> Result<u32, Errno> {
        let mut faults = 0u32;
        let mut argument = msm::drm_msm_submitqueue_query {
            data: std::ptr::from_mut(&mut faults).expose_provenance() as u64,
            id: self.id,
            param: msm::MSM_SUBMITQUEUE_PARAM_FAULTS,
            len: size_of_val(&faults) as u32,
            pad: 0,
        };
        let file = self.node.file()?;
        // SAFETY: the one address is that of a number, with its size.
        unsafe { call_with(&*self.node.system, file, &mut argument) }?;
        Ok(faults)
    }

    /// An error if a submission hung. The kernel counts it before the next one runs, so whoever has seen something of
    /// that one hears of it here.
    fn check(&self) -> Result<(), Errno> {
        if self.faults()? == self.before {
            Ok(())
        } else {
            Err(HUNG)
        }
    }

    /// Waits for a fence until a time of the system's clock.
    fn wait(&self, mark: u64, until_ns: u64) -> Result<(), Errno> {
        let mut argument = msm::drm_msm_wait_fence {
            fence: low(mark),
            timeout: msm::drm_msm_timespec {
                tv_sec: i64::try_from(until_ns / 1_000_000_000).unwrap_or(i64::MAX),
                tv_nsec: i64::try_from(until_ns % 1_000_000_000).unwrap_or(0),
            },
            queueid: self.id,
            ..Default::default()
        };
        self.node.call(&mut argument)
    }

    fn after(&self, limit: Duration) -> u64 {
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        // A time in the past is not waited for.
        let until = self.node.system.now_ns().saturating_add(limit);
        until.min(i64::MAX.cast_unsigned())
    }
}

/// Words of a submission, and the same as the kernel takes them: where objects are in its list is known at the call only.
#[derive(Debug, Default)]
pub(super) struct Submission {
    pieces: Vec<Piece>,
    commands: Vec<msm::drm_msm_gem_submit_cmd>,
}

impl Ring for Fences {
    type List = Submission;
    /// After one that hung each of the others has to hang as well, for as long.
    const MOST: usize = 8;

    fn list(&self, pieces: &[Piece], list: &mut Self::List) {
        list.pieces.clear();
        list.pieces.extend_from_slice(pieces);
    }

    fn give(&self, last: u64, list: &mut Self::List) -> Result<u64, Errno> {
        let Submission { pieces, commands } = list;
        if pieces.len() > MOST_PIECES {
            return Err(Errno(libc::E2BIG));
        }
        // Held over the call: no object goes, and none comes that a piece could be in.
        let table = self.node.table();
        let bos = table.submitted();
        commands.clear();
        for piece in pieces {
            commands.push(table.command(piece).ok_or(Errno::FAULT)?);
        }
        let count = |len: usize| u32::try_from(len).map_err(|_| Errno::NOMEM);
        let mut argument = msm::drm_msm_gem_submit {
            flags: SubmitFlags::NO_IMPLICIT.gpu(),
            nr_bos: count(bos.len())?,
            nr_cmds: count(commands.len())?,
            bos: bos.as_ptr().expose_provenance() as u64,
            cmds: commands.as_ptr().expose_provenance() as u64,
            queueid: self.id,
            ..Default::default()
        };
        let file = self.node.file()?;
        // SAFETY: both addresses are those of lists as long as it says, which are read. What the words do is promised by
        // those who recorded them.
        unsafe { call_with(&*self.node.system, file, &mut argument) }?;
        // One that does not come after the last means nothing: the mark stays where it was.
        Ok(after(last, argument.fence).unwrap_or(last))
    }

    fn done(&self, known: u64, queued: &VecDeque<u64>) -> Result<u64, Errno> {
        let mut done = known;
        for &mark in queued.iter().filter(|mark| **mark > known) {
            match self.wait(mark, 0) {
                Ok(()) => done = mark,
                Err(Errno(libc::ETIMEDOUT)) => break,
                // Kernels take a number for one of the future after numbers have begun anew. A later one tells, too.
                Err(Errno::INVAL) => {}
                Err(errno) => return Err(errno),
            }
        }
        if done > known {
            self.check()?;
        }
        Ok(done)
    }

    fn sleep(&self, mark: u64, limit: Duration) -> Result<(), Errno> {
        self.wait(mark, self.after(limit))?;
        self.check()
    }

    /// It hung, its memory cannot be used any more, it was closed, or the GPU is gone.
    fn is_lost(&self, errno: Errno) -> bool {
        matches!(
            errno.0,
            libc::EDEADLK | libc::EPIPE | libc::ENOENT | libc::ENODEV | libc::ENXIO
        )
    }

    /// The kernel tells the log alone what happened. The detail has the faults of all of the process's queues above, and
    /// those of this one below.
    fn describe(&self, detail: u64) -> FaultRecord {
        let all = self.node.parameter(msm::MSM_PARAM_FAULTS).unwrap_or(0);
        let own = self.faults().map_or(detail & 0xffff_ffff, u64::from);
        FaultRecord {
            detail: all << 32 | own,
            ..FaultRecord::new(FaultKind::Hardware, 0, 0)
        }
    }

    fn look(&self) -> Result<Option<u64>, Errno> {
        let faults = self.faults()?;
        Ok((faults != self.before).then_some(faults.into()))
    }

    fn end(&self, last: Option<u64>) {
        // What was submitted runs all the same, so it is waited for. The kernel ends what hangs.
        if let Some(mark) = last {
            let _ = self.wait(mark, self.after(END_LIMIT));
        }
        let close = msm::drm_msm_submitqueue_close { id: self.id };
        // What is not given back stays until the node is closed.
        let _ = self.node.give_back(close);
    }
}

#[cfg(test)]
mod tests {
    use super::after;

    #[test]
    fn marks_go_on_where_numbers_begin_anew() {
        let round = 1u64 << 32;
        for (last, fence, mark) in [
            (0, 1, Some(1)),
            (1, 2, Some(2)),
            (5, 9, Some(9)),
            (5, 5, None),
            (5, 4, None),
            // 6.1 and later have 31 bits, those before 32, and neither begins with 0.
            (0x7fff_fffe, 1, Some(round + 1)),
            (0xffff_ffff, 0, Some(round)),
            (round + 0x7fff_fffd, 0x7fff_fffe, Some(round + 0x7fff_fffe)),
            (round + 0x7fff_fffe, 3, Some(2 * round + 3)),
            (round + 3, 2, None),
        ] {
            assert_eq!(after(last, fence), mark, "{last:#x} {fence:#x}");
        }
    }
}
