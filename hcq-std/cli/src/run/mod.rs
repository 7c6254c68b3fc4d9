//! `hcq run`: from a job file to checked outputs.

mod context;
mod graph;
mod load;
mod outputs;
mod programs;
mod queues;

use std::time::{Duration, Instant};

use hcq_std::{Device, Error, Options};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::RunArgs;
use crate::data::input;
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
use graph::Graphed;
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

    let asked = match args.devices.as_slice() {
        [] => None,
        [one] => Some(one.as_str()),
        _ => {
            let what = "several devices for a job are named in the job file";
            return Err(Failure::usage(what)
                .help("add them to its table [devices]")
                .into());
        }
    };
    if args.out.is_some() {
        let what = "--out is for images; a job's outputs are named in its file";
        return Err(Failure::usage(what).into());
    }
    let devices = open(asked, &job)?;
    let Some(device) = devices.first() else {
        return Err(Failure::usage("the job has no device").into());
    };
    let context = Context {
        devices: &devices,
        device,
        job: &job,
        inputs: &inputs,
        interrupt,
    };
    let bar = progress(args.repeat.get().into(), args.json);
    let result = run_on(&context, outputs, args, &bar);
    bar.finish_and_clear();
    close(devices, result)
}

/// Closes the devices, whatever became of their work.
fn close<T>(devices: Vec<Device>, result: Result<T>) -> Result<T> {
    let runs = |device: &Device| {
        let waited = device.latest().wait_timeout(GRACE);
        matches!(waited, Err(Error::Timeout { .. }))
    };
    if result.is_err() && devices.iter().any(runs) {
        // A kernel still runs, perhaps for ever, and closing would wait for it. The process ends now and takes it
        // along; until then it keeps what it uses.
        std::mem::forget(devices);
        return result;
    }
    let mut result = result;
    for device in devices {
        if let (Ok(_), Err(e)) = (&result, device.close()) {
            result = Err(device_failure(&e).into());
        }
    }
    result
}

/// The job's own device, which the command line may choose, and the further ones behind it.
fn open(asked: Option<&str>, job: &Job) -> Result<Vec<Device>> {
    let own = asked.or(job.device.as_ref().map(|d| d.value.as_str()));
    let further = job.devices.iter().map(|d| d.device.value.as_str());
    let names: Vec<&str> = std::iter::once(own.unwrap_or(DEFAULT_DEVICE))
        .chain(further)
        .collect();
    let options = Options::default();
    let local_memory = |task: &crate::job::Task| match &task.work {
        Work::Kernel(launch) => launch.local_memory as usize,
        Work::Copy(_) => 0,
    };
    let most = job.tasks.iter().map(local_memory).max().unwrap_or(0);
    let most = most.max(options.local_memory_bytes);
    Device::open_all(&names, &options.local_memory_bytes(most)).map_err(|e| {
        match (asked, &job.device) {
            // The command line has no line to point to, and of several devices the message names the one.
            (None, Some(asked)) if names.len() == 1 => device_failure(&e).at(job.place(&asked.at)),
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
    let Context { device, job, .. } = *context;

    if let (true, Some(_)) = (args.no_graph, &args.plan) {
        return Err(Failure::usage("--plan is of a graph, and --no-graph makes none").into());
    }
    if args.no_graph && !job.devices.is_empty() {
        let what = "a job of several devices runs as a graph only";
        return Err(Failure::usage(what).help("leave out --no-graph").into());
    }
    let programs = Programs::load(context, false)?;
    let checked = check_tasks(context, &programs)?;
    let plan = if args.no_graph {
        Some(place(device, job, &checked)?)
    } else {
        check_queues(context, &checked)?;
        None
    };
    let began = Instant::now();
    let buffers = Buffers::load(context, &checked, repeat > 1)?;
    let load_ns = nanoseconds(began.elapsed());

    let began = Instant::now();
    let mut recorded = match &plan {
        Some(plan) => Recorded::Queues(Queues::record(
            context, &programs, &checked, plan, &buffers,
        )?),
        None => Recorded::Graph(Box::new(Graphed::record(
            context, &programs, &checked, &buffers,
        )?)),
    };
    let record_ns = nanoseconds(began.elapsed());
    let (names, places) = match (&plan, &recorded) {
        (None, Recorded::Graph(graphed)) => graphed.queues(context),
        (Some(plan), _) => (
            plan.queues
                .iter()
                .map(|q| queue_name(q.engine, q.index))
                .collect(),
            plan.tasks.iter().map(|t| t.queue).collect(),
        ),
        _ => (Vec::new(), Vec::new()),
    };
    let launches = launch_all(context, &mut recorded, &buffers, repeat, bar)?;
    let profile = Profile {
        device: graph::names(context.devices),
        queues: names,
        tasks: timed_tasks(job, &checked, &places),
        launches,
        launched: repeat,
    };
    let (graph, graph_profile) = match &recorded {
        Recorded::Graph(graphed) => (Some(graphed.graph.stats()), graphed.profile()),
        Recorded::Queues(_) => (None, None),
    };
    if let (Recorded::Graph(graphed), Some(path)) = (&recorded, &args.plan) {
        graph::write_plan(&graphed.graph, path)?;
    }
    drop(recorded);
    let mut report = Report {
        profile,
        record_ns,
        graph,
        graph_profile,
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

/// A job as an image.
pub struct Built {
    /// The image.
    pub bytes: Vec<u8>,
    /// Names of the devices that it was built on.
    pub devices: String,
    /// Tasks.
    pub tasks: usize,
}

/// Records a job into an image, with its programs and what its buffers begin with.
pub fn image(path: &std::path::Path, device: Option<&str>, interrupt: &Interrupt) -> Result<Built> {
    let job = Job::read(path)?;
    let inputs = input::open_all(&job)?;
    let devices = open(device, &job)?;
    let Some(first) = devices.first() else {
        return Err(Failure::usage("the job has no device").into());
    };
    let context = Context {
        devices: &devices,
        device: first,
        job: &job,
        inputs: &inputs,
        interrupt,
    };
    let built = image_on(&context);
    close(devices, built)
}

fn image_on(context: &Context<'_>) -> Result<Built> {
    // Shared objects are read once more when the image is made.
    let programs = Programs::load(context, true)?;
    let checked = check_tasks(context, &programs)?;
    check_queues(context, &checked)?;
    let buffers = Buffers::load(context, &checked, false)?;
    let bytes = graph::image(context, &programs, &checked, &buffers)?;
    Ok(Built {
        bytes,
        devices: graph::names(context.devices),
        tasks: context.job.tasks.len(),
    })
}

/// A job's tasks, ready to be launched.
enum Recorded {
    Queues(Queues),
    Graph(Box<Graphed>),
}

impl Recorded {
    fn spans(&self) -> Vec<Span> {
        match self {
            Self::Queues(queues) => queues.spans(),
            Self::Graph(graphed) => graphed.spans(),
        }
    }

    fn progress(&self) -> u64 {
        match self {
            Self::Queues(queues) => queues.progress(),
            Self::Graph(graphed) => graphed.progress(),
        }
    }
}

/// Launches the recorded queues so many times, each time on the initial data.
fn launch_all(
    context: &Context<'_>,
    recorded: &mut Recorded,
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
        let points = match recorded {
            Recorded::Queues(queues) => queues.submit(round)?.into_iter().collect(),
            Recorded::Graph(graphed) => graphed.submit()?.points().to_vec(),
        };
        let host = context.device.now_ns().saturating_sub(submit);
        for point in &points {
            let wait = |slice| point.wait_timeout(slice);
            let explain = |failure: Failure| stuck(context.job, &recorded.spans(), submit, failure);
            context.wait_watching(wait, || recorded.progress(), explain)?;
        }
        if launches.len() == kept {
            launches.pop_front();
        }
        launches.push_back(LaunchTimes {
            submit,
            host,
            spans: recorded.spans(),
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
fn check_tasks(context: &Context<'_>, programs: &Programs) -> Result<Vec<Checked>> {
    let Context { job, inputs, .. } = *context;
    let mut failures = Vec::new();
    let mut checked = Vec::new();
    for (index, task) in job.tasks.iter().enumerate() {
        let device = match &task.work {
            Work::Kernel(launch) => context.device_of(launch.device),
            Work::Copy(_) => context.device,
        };
        match launch::check(job, index, inputs, programs.signature(index), device) {
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

/// Queues that tasks ask for and their devices do not have.
fn check_queues(context: &Context<'_>, checked: &[Checked]) -> Result<()> {
    let tasks = context.job.tasks.iter().zip(checked);
    for (task, checked) in tasks {
        let named = match &task.work {
            Work::Kernel(launch) => launch.device,
            Work::Copy(_) => continue,
        };
        // One task at a time: which device it is on makes the difference.
        let (compute, copy) = context.device_of(named).queue_counts();
        if let Err(e) = plan::plan(std::slice::from_ref(&checked.plan), compute, copy) {
            let failure = match e {
                plan::PlanError::NoEngine { .. } => Failure::new(Exit::Device, e.to_string()),
                plan::PlanError::NoQueue { .. } => Failure::usage(e.to_string()),
            };
            let asked = match &task.work {
                Work::Kernel(launch) => launch.queue.as_ref().map(|q| &q.at),
                Work::Copy(_) => None,
            };
            let at = asked.unwrap_or(&task.at);
            return Err(failure.at(context.job.place(at)).into());
        }
    }
    Ok(())
}

/// The tasks as the report shows them.
fn timed_tasks(job: &Job, checked: &[Checked], places: &[usize]) -> Vec<TimedTask> {
    let plans: Vec<_> = checked.iter().map(|c| c.plan.clone()).collect();
    let follows = plan::follows(&plans);
    let tasks = job
        .tasks
        .iter()
        .zip(checked)
        .zip(places.iter().zip(follows));
    tasks
        .map(|((task, checked), (&queue, depends_on))| {
            let (what, is_copy) = match &task.work {
                Work::Kernel(launch) => (launch.kernel.value.clone(), false),
                Work::Copy(_) => ("copy".to_owned(), true),
            };
            TimedTask {
                name: task.name.clone(),
                what,
                is_copy,
                queue,
                bytes: checked.bytes,
                depends_on,
            }
        })
        .collect()
}
