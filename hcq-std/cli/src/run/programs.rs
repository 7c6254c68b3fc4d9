//! Programs: compiled where they are source, loaded, and their kernels looked up.

#![allow(
    unsafe_code,
    reason = "loads programs, whose constructors are foreign code"
)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};

use hcq_std::{ArgInfo, ArgKind, Error, Kernel, Module, ScalarType};

use super::context::{Context, device_failure};
use crate::compile::Compiler;
use crate::data::dtype::Dtype;
use crate::exit::Exit;
use crate::failure::{Failure, Failures, Result};
use crate::job::{Job, Launch, ProgramKind, Work};
use crate::launch::{Parameter, ParameterKind};

/// The kernels of a job.
pub(super) struct Programs {
    kernels: Vec<(Kernel, Option<Vec<Parameter>>)>,
    /// Per task, its kernel's index.
    of_task: Vec<Option<usize>>,
    /// Keeps the files of what was compiled.
    _compiler: Option<Compiler>,
}

impl Programs {
    /// Compiles, loads and looks up; every mistake is reported. What was compiled is loaded when this returns, and
    /// its files are gone, unless they are to be kept: nothing stays behind, however the run ends.
    pub(super) fn load(context: &Context<'_>, keep: bool) -> Result<Self> {
        let job = context.job;
        let (modules, compiler) = load_modules(context)?;
        let mut failures = Vec::new();
        let mut kernels = Vec::new();
        let mut known: HashMap<(usize, usize, &str), usize> = HashMap::new();
        let mut of_task = Vec::new();
        for task in &job.tasks {
            let Work::Kernel(launch) = &task.work else {
                of_task.push(None);
                continue;
            };
            let name = launch.kernel.value.as_str();
            let device = launch.device.map_or(0, |d| d + 1);
            let index = known.get(&(launch.program, device, name)).copied();
            let index = match (index, modules.get(&(launch.program, device))) {
                (Some(index), _) => Some(index),
                (None, Some(module)) => match module.kernel(name) {
                    Ok(kernel) => {
                        // A cubin says only how large arguments are: they are taken as they are given.
                        let known_kinds = kernel
                            .arguments()
                            .filter(|list| list.iter().all(|a| !a.size_only));
                        let signature =
                            known_kinds.map(|list| list.iter().map(parameter).collect());
                        kernels.push((kernel, signature));
                        known.insert((launch.program, device, name), kernels.len() - 1);
                        Some(kernels.len() - 1)
                    }
                    Err(e) => {
                        let failure = no_kernel(job, launch, &e);
                        failures.push(failure);
                        None
                    }
                },
                (None, None) => None,
            };
            of_task.push(index);
        }
        Failures::check(failures)?;
        Ok(Self {
            kernels,
            of_task,
            _compiler: compiler.filter(|_| keep),
        })
    }

    /// The kernel of a task; `None` for copies.
    pub(super) fn kernel(&self, task: usize) -> Option<&Kernel> {
        self.entry(task).map(|e| &e.0)
    }

    /// The signature of a task's kernel, if it has one.
    pub(super) fn signature(&self, task: usize) -> Option<&[Parameter]> {
        self.entry(task).and_then(|e| e.1.as_deref())
    }

    fn entry(&self, task: usize) -> Option<&(Kernel, Option<Vec<Parameter>>)> {
        self.kernels.get((*self.of_task.get(task)?)?)
    }
}

/// Why a program's kernel cannot be used, with the program as the job names it.
fn no_kernel(job: &Job, launch: &Launch, error: &Error) -> Failure {
    let place = job.place(&launch.kernel.at);
    let Error::MissingSymbol { symbol, .. } = error else {
        return Failure {
            exit: Exit::Usage,
            ..device_failure(error)
        }
        .at(place);
    };
    let program = job.programs.get(launch.program);
    let path = program
        .map(|p| job.resolve(&p.path.value))
        .unwrap_or_default();
    Failure::usage(format!("{} has no kernel `{symbol}`", path.display()))
        .at(place)
        .help("a kernel must be a visible symbol: HCQ_KERNEL sees to that; in C++ it must be extern \"C\"")
}

/// A program's path with the device's target in its place.
fn for_target(path: &Path, target: &str) -> PathBuf {
    match path.to_str() {
        Some(text) => text.replace("{target}", target).into(),
        None => path.to_owned(),
    }
}

/// Programs by their place in the job and the device that they are loaded on.
type Modules = BTreeMap<(usize, usize), Module>;

/// The programs that tasks need, by program and device.
fn load_modules(context: &Context<'_>) -> Result<(Modules, Option<Compiler>)> {
    let (job, interrupt) = (context.job, context.interrupt);
    let compiler = if job.programs.iter().any(|p| p.kind == ProgramKind::C) {
        Some(Compiler::from_environment()?)
    } else {
        None
    };
    let mut needed: BTreeSet<(usize, usize)> = BTreeSet::new();
    for task in &job.tasks {
        if let Work::Kernel(launch) = &task.work {
            needed.insert((launch.program, launch.device.map_or(0, |d| d + 1)));
        }
    }
    // Those that nobody uses are looked at, too: a mistake in one is told.
    for program in 0..job.programs.len() {
        if needed
            .range((program, 0)..(program + 1, 0))
            .next()
            .is_none()
        {
            needed.insert((program, 0));
        }
    }
    let mut failures = Vec::new();
    let mut modules = BTreeMap::new();
    for (index, device_index) in needed {
        interrupt.check()?;
        let (Some(program), Some(device)) =
            (job.programs.get(index), context.devices.get(device_index))
        else {
            continue;
        };
        let path = match (&compiler, program.kind) {
            (Some(compiler), ProgramKind::C) => {
                match compiler.compile(job, index, program, interrupt) {
                    Ok(compiled) => {
                        if !compiled.messages.is_empty() {
                            let from = job.resolve(&program.path.value);
                            let text = format!(
                                "the compiler says of {}:\n{}",
                                from.display(),
                                compiled.messages
                            );
                            // A warning that nobody reads is no failure.
                            let _ = writeln!(std::io::stderr(), "{}", crate::show::plain(&text));
                        }
                        compiled.path
                    }
                    Err(more) => {
                        failures.extend(more.iter().cloned());
                        continue;
                    }
                }
            }
            _ => job.resolve(&for_target(&program.path.value, device.target())),
        };
        // SAFETY: whoever names a program in a job file asks for its code to be run in this process, constructors
        // included; `hcq run` says so in its help.
        match unsafe { device.load(&path) } {
            Ok(module) => {
                modules.insert((index, device_index), module);
            }
            Err(e) => {
                let shown = job.resolve(&for_target(&program.path.value, device.target()));
                let what = format!("cannot load {}: {e}", shown.display());
                let failure = Failure::usage(what).at(job.place(&program.path.at));
                failures.push(match (&e, program.kind) {
                    (Error::Program { .. }, ProgramKind::C) => failure.help(format!(
                        "a .c file is compiled for the processor: give a code object for {}",
                        device.target()
                    )),
                    _ => failure,
                });
            }
        }
    }
    Failures::check(failures)?;
    Ok((modules, compiler))
}

fn parameter(argument: &ArgInfo) -> Parameter {
    let kind = match (argument.image, argument.kind) {
        (Some(image), _) => ParameterKind::Image(image),
        (None, ArgKind::ConstBuffer) => ParameterKind::Input,
        (None, ArgKind::Buffer) => ParameterKind::Buffer,
        _ => ParameterKind::Scalar,
    };
    let dtype = argument
        .ty
        .and_then(|ty: ScalarType| Dtype::from_name(ty.name()));
    Parameter {
        name: argument.name.clone(),
        dtype,
        kind,
    }
}
