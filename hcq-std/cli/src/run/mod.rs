//! `hcq run`: from a job file to checked outputs.

mod context;
mod load;
mod outputs;
mod programs;
mod queues;

use std::time::{Duration, Instant};

use hcq_std::{Device, Error, Options};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::RunArgs;
use crate::data::input::{self, Input};
use crate::exit::Exit;
use crate::failure::{Failure, Failures, Result};
use crate::interrupt::Interrupt;
use crate::job::{Job, Work};
use crate::launch::{self, Checked};
use crate::plan::{self, Engine, Plan};
use crate::show::profile::{LaunchTimes, Profile, Span, TimedTask};
use crate::show::report::Report;

use context::Context;
pub use context::device_failure;
use load::Buffers;
use outputs::Outputs;
use programs::Programs;
use queues::Queues;

/// The device if neither the command line nor the job names one.
pub const DEFAULT_DEVICE: &str = "cpu";

/// Launches whose times are kept, for medians and the trace; fewer if that were more than so many spans.
const KEPT: usize = 1024;
const KEPT_SPANS: usize = 1 << 20;

/// A run shorter than this needs no progress bar.
const QUIET: Duration = Duration::from_millis(500);

/// How long a device whose work is not wanted any more may take to come to rest.
const GRACE: Duration = Duration::from_secs(2);

/// Runs a job. Output files exist once this returns a report, and do not if it returns an error.
pub fn run(args: &RunArgs, interrupt: &Interrupt) -> Result<Report> {
    let job = Job::read(&args.job)?;
    let inputs = input::open_all(&job)?;
    let outputs = Outputs::reserve(&job, &inputs, args)?;

    let device = open(args, &job)?;
    let context = Context {
        device: &device,
        job: &job,
        inputs: &inputs,
        interrupt,
    };
    let bar = progress(args.repeat.get().into(), args.json);
    let result = run_on(&context, outputs, args, &bar);
    bar.finish_and_clear();
    if result.is_err()
        && matches!(
            device.latest().wait_timeout(GRACE),
            Err(Error::Timeout { .. })
        )
    {
        // A kernel still runs, perhaps for ever, and closing would wait for it. The process ends now and takes it
        // along; until then it keeps what it uses.
        std::mem::forget(device);
        return result;
    }
    match (result, device.close()) {
        (Ok(_), Err(e)) => Err(device_failure(&e).into()),
        (result, _) => result,
    }
}

fn open(args: &RunArgs, job: &Job) -> Result<Device> {
    let asked = args
        .device
        .as_deref()
        .or(job.device.as_ref().map(|d| d.value.as_str()));
    let options = Options::default();
    let local_memory = |task: &crate::job::Task| match &task.work {
        Work::Kernel(launch) => launch.local_memory as usize,
        Work::Copy(_) => 0,
    };
    let most = job.tasks.iter().map(local_memory).max().unwrap_or(0);
    let most = most.max(options.local_memory_bytes);
    Device::open_with(
        asked.unwrap_or(DEFAULT_DEVICE),
        &options.local_memory_bytes(most),
    )
    .map_err(|e| {
        match (&args.device, &job.device) {
            // The command line has no line to point to.
            (None, Some(asked)) => device_failure(&e).at(job.place(&asked.at)),
            _ => device_failure(&e),
        }
        .into()
    })
}

fn run_on(
    context: &Context<'_>,
    outputs: Outputs,
    args: &RunArgs,
    bar: &ProgressBar,
) -> Result<Report> {
    let repeat = u64::from(args.repeat.get());
    let Context {
        device,
        job,
        interrupt,
        ..
    } = *context;

    let programs = Programs::load(device, job, interrupt)?;
    let checked = check_tasks(job, context.inputs, &programs)?;
    let plan = place(device, job, &checked)?;
    let began = Instant::now();
    let buffers = Buffers::load(context, &checked, repeat > 1)?;
    let load_ns = nanoseconds(began.elapsed());

    let began = Instant::now();
    let mut queues = Queues::record(context, &programs, &checked, &plan, &buffers)?;
    let record_ns = nanoseconds(began.elapsed());
    let launches = launch_all(context, &mut queues, &buffers, repeat, bar)?;
    let profile = Profile {
        device: device.name().to_owned(),
        queues: plan
            .queues
            .iter()
            .map(|q| queue_name(q.engine, q.index))
            .collect(),
        tasks: timed_tasks(job, &checked, &plan),
        launches,
        launched: repeat,
    };
    let mut report = Report {
        profile,
        record_ns,
        loaded_buffers: buffers.loaded,
        loaded_bytes: buffers.loaded_bytes,
        load_ns,
        checks: Vec::new(),
        files: Vec::new(),
        trace: None,
        timeline: None,
    };
    outputs.write(context, &buffers, &mut report)?;
    Ok(report)
}

/// Launches the recorded queues so many times, each time on the initial data.
fn launch_all(
    context: &Context<'_>,
    queues: &mut Queues,
    buffers: &Buffers,
    repeat: u64,
    bar: &ProgressBar,
) -> Result<Vec<LaunchTimes>> {
    let mut restore = if repeat > 1 {
        buffers.restore(context)?
    } else {
        None
    };
    let began = Instant::now();
    let kept = (KEPT_SPANS / context.job.tasks.len().max(1)).clamp(1, KEPT);
    let mut launches = std::collections::VecDeque::new();
    for round in 1..=repeat {
        context.interrupt.check()?;
        if round > 1
            && let Some(restore) = &mut restore
        {
            restore.run(context)?;
        }
        let submit = context.device.now_ns();
        let last = queues.submit(round)?;
        let host = context.device.now_ns().saturating_sub(submit);
        if let Some(last) = last {
            let explain = |failure: Failure| stuck(context.job, &queues.spans(), submit, failure);
            context.wait_watching(&last, || queues.progress(), explain)?;
        }
        if launches.len() == kept {
            launches.pop_front();
        }
        launches.push_back(LaunchTimes {
            submit,
            host,
            spans: queues.spans(),
        });
        if began.elapsed() > QUIET {
            bar.set_position(round);
        }
    }
    Ok(launches.into())
}

/// Says which task has begun in the launch submitted at that time, and has not ended.
fn stuck(job: &Job, spans: &[Span], submit: u64, mut failure: Failure) -> Failure {
    let runs = |s: &Span| s.start >= submit && s.end < s.start;
    let Some(task) = spans.iter().position(runs).and_then(|i| job.tasks.get(i)) else {
        return failure;
    };
    failure.what += &format!("; {:?} has begun and not ended", task.name);
    failure.at(job.place(&task.at))
}

/// A bar on standard error, where that is a terminal; it shows itself when the first position is set.
fn progress(repeat: u64, quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(repeat), ProgressDrawTarget::stderr());
    match ProgressStyle::with_template("{bar:32} launch {pos} of {len}, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn queue_name(engine: Engine, index: usize) -> String {
    match engine {
        Engine::Compute => format!("compute {index}"),
        Engine::Copy => format!("copy {index}"),
    }
}

/// Holds every task against its kernel's signature and its buffers; every mistake is reported.
fn check_tasks(job: &Job, inputs: &[Input], programs: &Programs) -> Result<Vec<Checked>> {
    let mut failures = Vec::new();
    let mut checked = Vec::new();
    for index in 0..job.tasks.len() {
        match launch::check(job, index, inputs, programs.signature(index)) {
            Ok(task) => checked.push(task),
            Err(more) => failures.extend(more.iter().cloned()),
        }
    }
    Failures::check(failures)?;
    Ok(checked)
}

fn place(device: &Device, job: &Job, checked: &[Checked]) -> Result<Plan> {
    let (compute, copy) = device.queue_counts();
    let tasks: Vec<_> = checked.iter().map(|c| c.plan.clone()).collect();
    plan::plan(&tasks, compute, copy).map_err(|e| {
        let failure = match e {
            plan::PlanError::NoEngine { .. } => Failure::new(Exit::Device, e.to_string()),
            plan::PlanError::NoQueue { .. } => Failure::usage(e.to_string()),
        };
        let task = job.tasks.get(e.task());
        let asked = task.and_then(|t| match &t.work {
            Work::Kernel(launch) => launch.queue.as_ref().map(|q| &q.at),
            Work::Copy(_) => None,
        });
        match asked.or(task.map(|t| &t.at)) {
            Some(at) => failure.at(job.place(at)),
            None => failure,
        }
        .into()
    })
}

/// The tasks as the report shows them.
fn timed_tasks(job: &Job, checked: &[Checked], plan: &Plan) -> Vec<TimedTask> {
    let tasks = job.tasks.iter().zip(checked).zip(&plan.tasks);
    tasks
        .map(|((task, checked), placed)| {
            let (what, is_copy) = match &task.work {
                Work::Kernel(launch) => (launch.kernel.value.clone(), false),
                Work::Copy(_) => ("copy".to_owned(), true),
            };
            TimedTask {
                name: task.name.clone(),
                what,
                is_copy,
                queue: placed.queue,
                bytes: checked.bytes,
                depends_on: placed.depends_on.clone(),
            }
        })
        .collect()
}
