//! The GPU's ring: what is executed, in which order, and what comes of it (`msm_ringbuffer.c`, `a6xx_submit`, `msm_gpu.c`).

use std::time::{Duration, Instant};

use hcq_uapi::msm::{MSM_SUBMIT_CMD_BUF, MSM_SUBMIT_CMD_CTX_RESTORE_BUF};

use super::Kernel;
use crate::cache::Levels;
use crate::engine::Step;
use crate::exec::Executor;
use crate::machine::FileId;
use crate::machine::order::Turned;
use crate::qcom::host::Asked;
use crate::qcom::seam::Submission;

/// `num_hw_submissions`.
const IN_RING: usize = 8;
/// `DRM_MSM_HANGCHECK_PROGRESS_RETRIES`.
const RETRIES: u32 = 3;
/// One turn in so many lets memory do something of its own accord.
const WANDER: u8 = 8;

/// Commands of a submission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Commands {
    /// `MSM_SUBMIT_CMD_*`.
    pub(super) kind: u32,
    pub(super) address: u64,
    pub(super) bytes: u64,
}

/// `struct msm_gem_submit`.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) file: FileId,
    pub(super) queue: u32,
    /// 0 is the highest.
    pub(super) priority: u32,
    pub(super) fence: u32,
    pub(super) ibs: Vec<Commands>,
    /// Objects that it uses, and whether it writes them.
    pub(super) objects: Vec<(u64, bool)>,
}

/// `hangcheck_handler`: what it saw when it last looked, and when.
#[derive(Debug)]
pub(super) struct Hangcheck {
    since: Instant,
    /// A submission is done since then.
    retired: bool,
    /// Commands were executed since then.
    moved: bool,
    retries: u32,
}

impl Default for Hangcheck {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            retired: true,
            moved: false,
            retries: 0,
        }
    }
}

impl Hangcheck {
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Looks, if it is time. Whether the GPU hangs.
    fn look(&mut self, period: Duration) -> bool {
        if self.since.elapsed() < period {
            return false;
        }
        self.since = Instant::now();
        let moved = std::mem::take(&mut self.moved);
        if std::mem::take(&mut self.retired) {
            self.retries = 0;
            return false;
        }
        // `made_progress`.
        if moved && self.retries < RETRIES {
            self.retries += 1;
            return false;
        }
        true
    }
}

impl Kernel {
    /// Whether the GPU or the scheduler has something to do.
    pub(super) fn has_work(&self) -> bool {
        !(self.halted || self.pending.is_empty() && self.ring.is_empty())
    }

    /// `drm_sched_main`: from the scheduler to the ring, the highest priority first, what came first before others.
    fn schedule(&mut self) -> bool {
        let mut moved = false;
        while self.ring.len() < IN_RING {
            let jobs = self.pending.iter().enumerate();
            let first = jobs.min_by_key(|&(at, job)| (job.priority, at));
            let Some((at, _)) = first else {
                break;
            };
            let job = self.pending.remove(at);
            self.ring.push_back(job);
            moved = true;
        }
        moved
    }

    /// The GPU's power goes: its caches have been written back, its registers are lost.
    fn collapse(&mut self) {
        self.caches.forget(0, u64::MAX);
        self.processor.reset();
    }

    /// One turn.
    pub(super) fn step(&mut self, executor: &mut dyn Executor) -> Turned {
        if self.halted {
            return Turned::Idle;
        }
        if self.random.u8(..WANDER) == 0 {
            self.wander();
        }
        let moved = self.schedule();
        let Some(job) = self.ring.front() else {
            self.power.rest();
            return if moved { Turned::Moved } else { Turned::Idle };
        };
        let file = job.file;
        if let Some(late) = self.late.checked_sub(1) {
            self.late = late;
            return Turned::Moved;
        }
        if self
            .power
            .begin(self.settings.options.idle_ms, &mut self.random)
        {
            self.suspends += 1;
            self.collapse();
        }
        if !self.power.is_awake() {
            return Turned::Moved;
        }
        if !self.running {
            self.begin();
            return Turned::Moved;
        }
        let Some(owner) = self.files.get(&file) else {
            return Turned::Idle;
        };
        let mut asked = Asked {
            table: &owner.table,
            caches: &mut self.caches,
            executor,
            random: &mut self.random,
        };
        let period = self.settings.options.hang();
        match self.processor.step(&mut asked) {
            Step::Idle => {
                self.retire();
                Turned::Moved
            }
            Step::Progress => {
                self.hang.moved = true;
                if self.hang.look(period) {
                    self.recover("it takes too long");
                }
                Turned::Moved
            }
            Step::Waiting => {
                if self.hang.look(period) {
                    self.recover("it waits for too long");
                    return Turned::Moved;
                }
                Turned::Waiting
            }
            Step::Fault(fault) => {
                self.recover(&fault.to_string());
                Turned::Moved
            }
        }
    }

    /// `a6xx_submit`: the kernel's packets before a submission's own.
    fn begin(&mut self) {
        let Some(job) = self.ring.front() else {
            return;
        };
        let switched = self.active != Some(job.file);
        let runs = |commands: &&Commands| match commands.kind {
            MSM_SUBMIT_CMD_BUF => true,
            MSM_SUBMIT_CMD_CTX_RESTORE_BUF => switched,
            _ => false,
        };
        let ibs: Vec<(u64, u64)> = job
            .ibs
            .iter()
            .filter(runs)
            .map(|commands| (commands.address, commands.bytes))
            .collect();
        let (file, fence) = (job.file, job.fence);
        self.active = Some(file);
        self.running = true;
        let owner = self.files.get(&file);
        let number = owner.map_or(0, |file| file.number);
        if switched && let Some(owner) = owner {
            // `a6xx_set_pagetable`: CACHE_INVALIDATE.
            let _ = self.caches.invalidate(0, Levels::all(), &owner.table);
        }
        if ibs.is_empty() {
            self.retire();
            return;
        }
        self.processor.begin(Submission {
            ibs,
            timestamp: fence,
            context: number,
            switched,
        });
    }

    /// The kernel's packets after a submission's own, and the interrupt that they raise (`retire_submit`).
    fn retire(&mut self) {
        let owner = self.ring.front().and_then(|job| self.files.get(&job.file));
        if let Some(owner) = owner {
            // CACHE_FLUSH_TS.
            let flushed = self.caches.write_back(0, Levels::all(), &owner.table);
            if flushed.is_err() {
                self.recover("a store in the cache");
                return;
            }
        }
        self.running = false;
        self.hang.retired = true;
        if let Some(job) = self.ring.pop_front() {
            self.release(&job);
        }
        self.schedule();
    }

    /// `recover_worker`: the submission is over, its queue and its file are to blame, the GPU is reset. The others in the ring
    /// begin anew.
    fn recover(&mut self, why: &str) {
        self.caches.forget(0, u64::MAX);
        self.processor.reset();
        self.running = false;
        self.active = None;
        self.hang.reset();
        if let Some(job) = self.ring.pop_front() {
            if let Some(file) = self.files.get_mut(&job.file) {
                file.faults += 1;
                let number = file.number;
                if let Some(queue) = file.queues.get_mut(&job.queue) {
                    queue.faults += 1;
                }
                self.reports.push(format!(
                    "hangcheck recover: file {number} queue {} fence {}: {why}",
                    job.queue, job.fence
                ));
            }
            self.release(&job);
        }
        self.schedule();
        self.news = true;
    }

    /// An engine, or somebody's program in it, has broken down: everything in flight is over, and everybody is to blame.
    pub(super) fn halt_all(&mut self, why: &str) {
        self.reports.push(format!("the GPU stopped: {why}"));
        self.halted = true;
        self.running = false;
        for file in self.files.values_mut() {
            file.faults += 1;
            for queue in file.queues.values_mut() {
                queue.faults += 1;
            }
        }
        let jobs: Vec<Job> = self
            .ring
            .drain(..)
            .chain(std::mem::take(&mut self.pending))
            .collect();
        for job in jobs {
            self.release(&job);
        }
        self.news = true;
    }
}
