//! A job as a graph: planned and recorded once, launched as often as wanted.

#![allow(unsafe_code, reason = "launches kernels, which are foreign code")]

use std::io::Write;
use std::path::Path;

use hcq_std::{
    Arg, Buffer, BufferRole, Device, Error, Graph, GraphBuilder, GraphOptions, GraphProfile, Grid,
    QueueKind, Ran, Run, Touch, View,
};

use super::context::{Context, device_failure};
use super::load::Buffers;
use super::programs::Programs;
use crate::data::input::Origin;
use crate::data::output::Pending;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::job::{Launch, Work};
use crate::launch::{Bound, Checked, Ready, Slice};
use crate::plan::Mode;
use crate::show::profile::Span;

type Recorded<T> = std::result::Result<T, Error>;

/// The graph of a job, and its last launch.
pub(super) struct Graphed {
    pub(super) graph: Graph,
    run: Option<Run>,
}

impl Graphed {
    /// Plans and records.
    pub(super) fn record(
        context: &Context<'_>,
        programs: &Programs,
        checked: &[Checked],
        buffers: &Buffers,
    ) -> Result<Self> {
        let builder = builder(context, programs, checked, buffers)?;
        let options = GraphOptions::default().profile(true);
        let graph = builder
            .build(&options)
            .map_err(|e| graph_failure(context, &e))?;
        Ok(Self { graph, run: None })
    }

    /// Launches it; nothing of an earlier launch may be in flight.
    pub(super) fn submit(&mut self) -> Result<Run> {
        let run = self.graph.launch().map_err(|e| device_failure(&e))?;
        self.run = Some(run.clone());
        Ok(run)
    }

    /// When the tasks of the last launch ran, which is complete.
    pub(super) fn profile(&self) -> Option<GraphProfile> {
        self.graph.profile(self.run.as_ref()?).ok()
    }

    /// A number that changes whenever a task begins or ends.
    pub(super) fn progress(&self) -> u64 {
        let mix = |n: u64, t: u64| n.rotate_left(7) ^ t;
        self.spans()
            .iter()
            .fold(0, |n, s| mix(mix(n, s.start), s.end))
    }

    /// When each task of the last launch ran. A copy in two steps begins with the first and ends with the last.
    pub(super) fn spans(&self) -> Vec<Span> {
        let mut spans = vec![Span { start: 0, end: 0 }; self.graph.len()];
        let Some(run) = &self.run else {
            return spans;
        };
        for (node, times) in self.graph.so_far(run) {
            if let Some(span) = spans.get_mut(node.index() as usize) {
                if span.start == 0 {
                    span.start = times.start_ns;
                }
                span.end = times.end_ns;
            }
        }
        spans
    }

    /// The queues in use, and each task's.
    pub(super) fn queues(&self, context: &Context<'_>) -> (Vec<String>, Vec<usize>) {
        let planned = self.graph.planned();
        let several = context.devices.len() > 1;
        let name = |ran: &Ran| {
            let kind = match ran.kind {
                QueueKind::Compute => "compute",
                QueueKind::Copy => "copy",
            };
            if several {
                format!("{} {kind} {}", ran.device, ran.index)
            } else {
                format!("{kind} {}", ran.index)
            }
        };
        let mut names: Vec<String> = planned.iter().map(name).collect();
        let mut of_task = vec![0; self.graph.len()];
        let all = names.clone();
        names.sort_by_key(|n| (!n.contains("compute"), n.clone()));
        names.dedup();
        for (ran, own) in planned.iter().zip(&all) {
            let place = names.iter().position(|n| n == own).unwrap_or(0);
            if let Some(queue) = of_task.get_mut(ran.node.index() as usize) {
                *queue = place;
            }
        }
        (names, of_task)
    }
}

/// A device's error about a task, with the task's place in the job.
fn task_failure(context: &Context<'_>, task: usize, e: &Error) -> Failure {
    let failure = device_failure(e);
    match context.job.tasks.get(task) {
        Some(declared) => failure.at(context.job.place(&declared.at)),
        None => failure,
    }
}

/// Why there is no graph: what the devices cannot do, or a mistake in the job.
pub(super) fn graph_failure(context: &Context<'_>, e: &Error) -> Failure {
    let failure = device_failure(e);
    match e {
        Error::Plan { .. } if context.devices.len() > 1 => Failure {
            exit: Exit::Usage,
            ..failure
        },
        _ => failure,
    }
}

/// The job's tasks as nodes, in the order of the file.
pub(super) fn builder(
    context: &Context<'_>,
    programs: &Programs,
    checked: &[Checked],
    buffers: &Buffers,
) -> Result<GraphBuilder> {
    let builder = GraphBuilder::new(context.devices);
    let mut builder = builder.map_err(|e| device_failure(&e))?;
    for (task, checked) in checked.iter().enumerate() {
        add(&mut builder, context, programs, (task, checked), buffers)
            .map_err(|e| task_failure(context, task, &e))?;
    }
    Ok(builder)
}

fn add(
    builder: &mut GraphBuilder,
    context: &Context<'_>,
    programs: &Programs,
    (task, checked): (usize, &Checked),
    buffers: &Buffers,
) -> Recorded<()> {
    let Some(declared) = context.job.tasks.get(task) else {
        return Ok(());
    };
    match (&declared.work, &checked.ready, programs.kernel(task)) {
        (Work::Kernel(launch), Ready::Kernel(bound), Some(kernel)) => {
            let views = bound.iter().map(Bound::slice);
            let views = views.map(|slice| slice.map(|s| view(buffers, s)).transpose());
            let views = views.collect::<Recorded<Vec<_>>>()?;
            let written = |slice: &Slice| {
                let mut all = checked.plan.accesses.iter();
                all.any(|a| {
                    a.mode == Mode::Write && a.buffer == slice.buffer && a.range == slice.range
                })
            };
            let (mut args, mut touches) = (Vec::new(), Vec::new());
            for (bound, view) in bound.iter().zip(&views) {
                args.push(match (bound, view) {
                    (Bound::Buffer(_), Some(view)) => Arg::buffer(view),
                    (Bound::Image(_, image), Some(view)) => Arg::image(view, image)?,
                    (Bound::Scalar(scalar), _) => {
                        let size = u8::try_from(scalar.dtype.size()).unwrap_or(8);
                        Arg::scalar(scalar.bits, size)
                    }
                    (Bound::Sampler(sampler), _) => Arg::sampler(sampler),
                    _ => continue,
                });
                touches.push(match bound.slice() {
                    Some(slice) if written(slice) => Touch::Writes,
                    Some(_) => Touch::Reads,
                    None => Touch::AsSigned,
                });
            }
            // SAFETY: the kernel is what the job's author asks to be run; its arguments were held against its
            // signature where it has one, and what it touches is what the author or the signature says.
            let node = unsafe { builder.exec_touching(kernel, &args, grid(launch), &touches) }?;
            builder.name(node, &declared.name);
            if let Some(queue) = &launch.queue {
                builder.pin(node, queue.value)?;
            }
        }
        (_, Ready::Copy { from, to }, _) => {
            let (from, to) = (view(buffers, from)?, view(buffers, to)?);
            let node = builder.copy(&to, &from)?;
            builder.name(node, &declared.name);
        }
        _ => {}
    }
    Ok(())
}

/// A buffer's bytes.
fn view(buffers: &Buffers, slice: &Slice) -> Recorded<View<u8>> {
    let outside = Error::Range {
        start: slice.range.start,
        end: slice.range.end,
        len: 0,
    };
    let buffer: Option<&Buffer<u8>> = buffers.list.get(slice.buffer);
    let range = usize::try_from(slice.range.start)
        .ok()
        .zip(usize::try_from(slice.range.end).ok());
    match (buffer, range) {
        (Some(buffer), Some((start, end))) => buffer.view(start..end),
        _ => Err(outside),
    }
}

fn grid(launch: &Launch) -> Grid {
    Grid::new(launch.groups, launch.local).local_memory(launch.local_memory)
}

/// The job as an image. Its outputs are the buffers that the job keeps; what else tasks write begins with what the job says.
pub(super) fn image(
    context: &Context<'_>,
    programs: &Programs,
    checked: &[Checked],
    buffers: &Buffers,
) -> Result<Vec<u8>> {
    let mut builder = builder(context, programs, checked, buffers)?;
    let parts = buffers.list.iter().zip(context.inputs);
    let parts = parts.zip(&context.job.buffers).enumerate();
    for (index, ((buffer, input), declared)) in parts {
        let mut accesses = checked.iter().flat_map(|c| &c.plan.accesses);
        if !accesses.clone().any(|a| a.buffer == index) {
            continue;
        }
        let is_written = accesses.any(|a| a.buffer == index && a.mode == Mode::Write);
        let is_kept = context.job.outputs.iter().any(|o| o.buffer == index);
        // Memory begins with zeros anyway.
        let is_zero = matches!(input.origin, Origin::Fill(fill) if fill.is_zero());
        let role = match (is_written, is_kept, is_zero) {
            (true, true, true) => BufferRole::Output,
            (true, false, true) => BufferRole::Scratch,
            (true, _, false) => BufferRole::InOut,
            (false, ..) => BufferRole::Input,
        };
        let shaped = crate::image::buffer_name(&declared.name, input, is_kept || !is_written);
        builder
            .describe(buffer, &shaped, role)
            .map_err(|e| device_failure(&e))?;
    }
    let image = builder.image(&GraphOptions::default());
    image.map_err(|e| graph_failure(context, &e).into())
}

/// Writes the plan as a drawing for Graphviz, with the reason of each wait on its arrow.
pub(super) fn write_plan(graph: &Graph, path: &Path) -> Result<()> {
    let mut pending = Pending::reserve(path)?;
    pending.write(|w| w.write_all(graph.dot().as_bytes()))?;
    pending.commit()?;
    Ok(())
}

/// Names of the devices, for reports.
pub(super) fn names(devices: &[Device]) -> String {
    let names: Vec<&str> = devices.iter().map(Device::name).collect();
    names.join(", ")
}
