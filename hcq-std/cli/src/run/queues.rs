//! A plan as bound queues: recorded once, launched as often as wanted.

#![allow(unsafe_code, reason = "launches kernels, which are foreign code")]

use hcq_std::{Arg, Bound, Commands, Device, Error, Grid, Point, Queue, Signal, Var, View};

use super::context::{Context, device_failure};
use super::load::Buffers;
use super::programs::Programs;
use crate::failure::Result;
use crate::job::{Launch, Work};
use crate::launch::{self, Checked, Ready, Slice};
use crate::plan::{Engine, Plan, QueueId};
use crate::show::profile::Span;

type Recorded<T> = std::result::Result<T, Error>;

/// The recorded queues of a job.
pub(super) struct Queues {
    /// Each with its one variable, the number of the launch. A task that has ended in launch `n` sets its signal to
    /// `n`, so signals need no reset in between.
    bound: Vec<(Bound, Var)>,
    marks: Vec<Marks>,
}

/// Signals that note when a task began and ended. Unlike the library's regions they can be read in between, which
/// tells what a device is stuck in.
struct Marks {
    start: Signal,
    end: Signal,
    /// For other queues, if any waits.
    done: Option<Signal>,
}

impl Marks {
    fn new(device: &Device, waited_for: bool) -> Recorded<Self> {
        let done = waited_for.then(|| device.signal()).transpose()?;
        Ok(Self {
            start: device.signal()?,
            end: device.signal()?,
            done,
        })
    }

    /// What was noted last; the two may be of different launches until the task has ended.
    fn span(&self) -> Span {
        Span {
            start: self.start.timestamp(),
            end: self.end.timestamp(),
        }
    }
}

/// What recording needs to know.
struct Recorder<'a> {
    context: &'a Context<'a>,
    programs: &'a Programs,
    checked: &'a [Checked],
    plan: &'a Plan,
    buffers: &'a Buffers,
    marks: &'a [Marks],
}

impl Queues {
    /// Records and binds every queue of the plan.
    pub(super) fn record(
        context: &Context<'_>,
        programs: &Programs,
        checked: &[Checked],
        plan: &Plan,
        buffers: &Buffers,
    ) -> Result<Self> {
        let marks = plan
            .tasks
            .iter()
            .map(|t| Marks::new(context.device, t.signals));
        let marks = marks
            .collect::<Recorded<Vec<_>>>()
            .map_err(|e| device_failure(&e))?;
        let recorder = Recorder {
            context,
            programs,
            checked,
            plan,
            buffers,
            marks: &marks,
        };
        let mut bound = Vec::new();
        for (index, &id) in plan.queues.iter().enumerate() {
            bound.push(recorder.queue(index, id)?);
        }
        Ok(Self { bound, marks })
    }

    /// Launches all queues; nothing of an earlier launch may be in flight. The point is the last one's, and covers
    /// all of them.
    pub(super) fn submit(&mut self, round: u64) -> Result<Option<Point>> {
        let mut last = None;
        for (bound, var) in &mut self.bound {
            bound.set(*var, round).map_err(|e| device_failure(&e))?;
            last = Some(bound.submit().map_err(|e| device_failure(&e))?);
        }
        Ok(last)
    }

    /// A number that changes whenever a task begins or ends.
    pub(super) fn progress(&self) -> u64 {
        let mix = |n: u64, t: u64| n.rotate_left(7) ^ t;
        self.spans()
            .iter()
            .fold(0, |n, s| mix(mix(n, s.start), s.end))
    }

    /// When each task of the last launch ran.
    pub(super) fn spans(&self) -> Vec<Span> {
        self.marks.iter().map(Marks::span).collect()
    }
}

impl Recorder<'_> {
    fn queue(&self, queue: usize, id: QueueId) -> Result<(Bound, Var)> {
        let opened = match id.engine {
            Engine::Compute => self.context.device.compute_queue(id.index),
            Engine::Copy => self.context.device.copy_queue(id.index),
        };
        let began = opened.and_then(|q: Queue| {
            let mut commands = q.record();
            commands.var().map(|round| (commands, round))
        });
        let (mut commands, round) = began.map_err(|e| device_failure(&e))?;
        for task in 0..self.plan.tasks.len() {
            if self.plan.tasks.get(task).is_none_or(|p| p.queue != queue) {
                continue;
            }
            self.task(&mut commands, round, id.engine, task)
                .map_err(|e| {
                    let failure = device_failure(&e);
                    match self.context.job.tasks.get(task) {
                        Some(declared) => failure.at(self.context.job.place(&declared.at)),
                        None => failure,
                    }
                })?;
        }
        let bound = commands.bind().map_err(|e| device_failure(&e))?;
        Ok((bound, round))
    }

    /// Waits for tasks of other queues, runs the task between two timestamps, and tells other queues.
    fn task(
        &self,
        commands: &mut Commands,
        round: Var,
        engine: Engine,
        task: usize,
    ) -> Recorded<()> {
        let (Some(placed), Some(declared), Some(checked), Some(marks)) = (
            self.plan.tasks.get(task),
            self.context.job.tasks.get(task),
            self.checked.get(task),
            self.marks.get(task),
        ) else {
            return Ok(());
        };
        for signal in placed
            .waits
            .iter()
            .filter_map(|&w| self.marks.get(w)?.done.as_ref())
        {
            commands.wait(signal, round)?;
        }
        if engine == Engine::Compute {
            // What other queues and the host wrote is seen from here on.
            commands.memory_barrier()?;
        }
        commands.timestamp(&marks.start)?;
        match (&declared.work, &checked.ready, self.programs.kernel(task)) {
            (Work::Kernel(launch), Ready::Kernel(args), Some(kernel)) => {
                let args = args
                    .iter()
                    .map(|a| self.argument(a))
                    .collect::<Recorded<Vec<_>>>()?;
                // SAFETY: the kernel is what the job's author asks to be run; its arguments were held against its
                // signature where it has one. The buffers that they point to live until the launches are complete:
                // their owner waits for each launch, and the device keeps memory that work in flight may use.
                unsafe { commands.exec(kernel, &args, grid(launch)) }?;
            }
            (_, Ready::Copy { from, to }, _) => {
                commands.copy(&self.view(to)?, &self.view(from)?)?;
            }
            _ => {}
        }
        commands.timestamp(&marks.end)?;
        if let Some(done) = &marks.done {
            commands.signal(done, round)?;
        }
        Ok(())
    }

    fn view(&self, slice: &Slice) -> Recorded<View<u8>> {
        let outside = Error::Range {
            start: slice.range.start,
            end: slice.range.end,
            len: 0,
        };
        let Some(buffer) = self.buffers.list.get(slice.buffer) else {
            return Err(outside);
        };
        match (
            usize::try_from(slice.range.start),
            usize::try_from(slice.range.end),
        ) {
            (Ok(start), Ok(end)) => buffer.view(start..end),
            _ => Err(outside),
        }
    }

    /// Types were checked with the names that the job's author knows, so the device gets bare addresses and bits.
    fn argument<'b>(&self, argument: &'b launch::Bound) -> Recorded<Arg<'b>> {
        Ok(match argument {
            launch::Bound::Buffer(slice) => Arg::address(self.view(slice)?.address()),
            launch::Bound::Image(slice, image) => Arg::image_at(self.view(slice)?.address(), image),
            launch::Bound::Sampler(sampler) => Arg::sampler(sampler),
            launch::Bound::Scalar(scalar) => Arg::scalar(scalar.bits, scalar.dtype.size() as u8),
        })
    }
}

fn grid(launch: &Launch) -> Grid {
    Grid::new(launch.groups, launch.local).local_memory(launch.local_memory)
}
