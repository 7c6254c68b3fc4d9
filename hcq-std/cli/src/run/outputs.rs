//! Outputs of a job: found writable before the run, compared and written after it, named at the very end.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use hcq_std::Buffer;

use super::context::{Context, device_failure};
use super::load::Buffers;
use crate::args::RunArgs;
use crate::data::compare::{Comparison, compare};
use crate::data::input::{self, Expected, Input};
use crate::data::npy;
use crate::data::output::Pending;
use crate::exit::Exit;
use crate::failure::{Failure, Failures, Result};
use crate::job::{Job, Output};
use crate::show::report::{Check, Report, Written};
use crate::show::{timeline, trace};

/// Bytes read, compared or written at a time: Ctrl-C is looked at in between.
pub(super) const CHUNK: usize = 8 << 20;

/// All files that a run writes or compares with.
pub(super) struct Outputs {
    jobs: Vec<JobOutput>,
    trace: Option<Pending>,
    timeline: Option<Pending>,
}

struct JobOutput {
    output: Output,
    pending: Option<Pending>,
    expected: Option<Expected>,
}

impl Outputs {
    /// Opens what is compared with and makes sure that what is to be written can be.
    pub(super) fn reserve(job: &Job, inputs: &[Input], args: &RunArgs) -> Result<Self> {
        let mut failures = Vec::new();
        let mut files = Vec::new();
        let mut jobs = Vec::new();
        for output in &job.outputs {
            let expected = input::open_expected(job, output, inputs).unwrap_or_else(|more| {
                failures.extend(more.iter().cloned());
                None
            });
            let pending = output.file.as_ref().and_then(|file| {
                let path = job.resolve(&file.value);
                let place = job.place(&file.at);
                match Pending::reserve(&path) {
                    Ok(pending) => {
                        let same = Failure::usage(format!("{} is written twice", path.display()))
                            .at(place);
                        files.push((pending.target().to_owned(), same));
                        Some(pending)
                    }
                    Err(failure) => {
                        failures.push(failure.at(place));
                        None
                    }
                }
            });
            jobs.push(JobOutput {
                output: output.clone(),
                pending,
                expected,
            });
        }
        let mut option =
            |path: &Option<PathBuf>, name: &str| match Pending::reserve(path.as_deref()?) {
                Ok(pending) => {
                    let what = format!(
                        "{} is also written by something else",
                        pending.shown().display()
                    );
                    files.push((
                        pending.target().to_owned(),
                        Failure::usage(format!("{name}: {what}")),
                    ));
                    Some(pending)
                }
                Err(mut failure) => {
                    failure.what = format!("{name}: {}", failure.what);
                    failures.push(failure);
                    None
                }
            };
        let trace = option(&args.trace, "--trace");
        let timeline = option(&args.timeline, "--timeline");
        Failures::check(failures)?;
        refuse_same(files)?;
        Ok(Self {
            jobs,
            trace,
            timeline,
        })
    }

    /// Compares and writes everything, then gives all files their names. On an error none appears, except those
    /// named before a rename failed.
    pub(super) fn write(
        mut self,
        context: &Context<'_>,
        buffers: &Buffers,
        report: &mut Report,
    ) -> Result<()> {
        for output in &mut self.jobs {
            let (Some(buffer), Some(input)) = (
                buffers.list.get(output.output.buffer),
                context.inputs.get(output.output.buffer),
            ) else {
                continue;
            };
            let mut bytes =
                vec_of(input.bytes).map_err(|f| f.at(context.job.place(&output.output.at)))?;
            read_buffer(context, buffer, &mut bytes)?;
            output.compare(context, input, &bytes, report)?;
            output.write(context, input, &bytes, report)?;
        }
        if let Some(pending) = &mut self.trace {
            pending.write(|w| trace::write(&report.profile, w))?;
            report.trace = Some(pending.shown().to_owned());
        }
        if let Some(pending) = &mut self.timeline {
            pending.write(|w| timeline::write(&report.profile, w))?;
            report.timeline = Some(pending.shown().to_owned());
        }
        context.interrupt.check()?;
        let all = self
            .jobs
            .into_iter()
            .filter_map(|o| o.pending)
            .chain(self.trace)
            .chain(self.timeline);
        for pending in all {
            pending.commit()?;
        }
        Ok(())
    }
}

impl JobOutput {
    fn compare(
        &self,
        context: &Context<'_>,
        input: &Input,
        got: &[u8],
        report: &mut Report,
    ) -> Result<()> {
        let Some(expected) = &self.expected else {
            return Ok(());
        };
        let tolerance = self.output.tolerance(input.dtype);
        let place = || match &self.output.expect {
            Some(file) => context.job.place(&file.at),
            None => context.job.place(&self.output.at),
        };
        let trouble = |e: io::Error| Failure::io("read", &expected.path, &e).at(place());
        let mut file = File::open(&expected.path).map_err(trouble)?;
        file.seek(SeekFrom::Start(expected.offset))
            .map_err(trouble)?;
        let mut comparison = Comparison::default();
        let mut want = vec![0; CHUNK.min(got.len())];
        for got in got.chunks(CHUNK) {
            context.interrupt.check()?;
            let Some(want) = want.get_mut(..got.len()) else {
                continue;
            };
            file.read_exact(want).map_err(trouble)?;
            comparison.extend(compare(input.dtype, got, want, tolerance));
        }
        let buffer = context.buffer_name(self.output.buffer).to_owned();
        report.checks.push(Check {
            buffer,
            expect: expected.path.clone(),
            tolerance,
            comparison,
        });
        Ok(())
    }

    fn write(
        &mut self,
        context: &Context<'_>,
        input: &Input,
        bytes: &[u8],
        report: &mut Report,
    ) -> Result<()> {
        let Some(pending) = &mut self.pending else {
            return Ok(());
        };
        let is_npy = input::is_npy(pending.target());
        let mut stopped = false;
        let written = pending.write(|w| {
            if is_npy {
                npy::write_header(&mut *w, input.dtype, &input.shape)?;
            }
            for chunk in bytes.chunks(CHUNK) {
                if context.interrupt.is_set() {
                    stopped = true;
                    return Err(io::ErrorKind::Interrupted.into());
                }
                w.write_all(chunk)?;
            }
            Ok(())
        });
        if stopped {
            context.interrupt.check()?;
        }
        let place = self.output.file.as_ref().map_or(&self.output.at, |f| &f.at);
        written.map_err(|f| f.at(context.job.place(place)))?;
        report.files.push(Written {
            buffer: context.buffer_name(self.output.buffer).to_owned(),
            file: pending.shown().to_owned(),
            what: input::describe(input),
            bytes: input.bytes,
        });
        Ok(())
    }
}

/// A zeroed vector of that many bytes; running out of memory is an error and not the end.
pub(super) fn vec_of(bytes: u64) -> std::result::Result<Vec<u8>, Failure> {
    let words = || {
        Failure::new(
            Exit::Device,
            format!("out of host memory: {bytes} bytes are needed"),
        )
    };
    let len = usize::try_from(bytes).map_err(|_| words())?;
    let mut out = Vec::new();
    out.try_reserve_exact(len).map_err(|_| words())?;
    out.resize(len, 0);
    Ok(out)
}

fn read_buffer(context: &Context<'_>, buffer: &Buffer<u8>, out: &mut [u8]) -> Result<()> {
    let mut at = 0;
    for chunk in out.chunks_mut(CHUNK) {
        context.interrupt.check()?;
        let view = buffer
            .view(at..at + chunk.len())
            .map_err(|e| device_failure(&e))?;
        view.read(chunk).map_err(|e| device_failure(&e))?;
        at += chunk.len();
    }
    Ok(())
}

/// `Err` if two of `files` are the same; each comes with the failure to return in that case.
fn refuse_same(files: Vec<(PathBuf, Failure)>) -> Result<()> {
    let mut seen = HashSet::new();
    for (path, failure) in files {
        if !seen.insert(path) {
            return Err(failure.into());
        }
    }
    Ok(())
}
