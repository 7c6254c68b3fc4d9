//! Runs behaviours one after the other, each bounded.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use hcq_std::Options;

use crate::kinds::{self, Kind};
use crate::report::Faults;
use crate::{Behaviour, Context, Failure, Outcome, Summary, Verdict, behaviours};

/// How long a behaviour may take before it counts as hanging. Devices give up much earlier by themselves.
pub const LIMIT: Duration = Duration::from_secs(300);

/// A run of the list, or of another one.
#[derive(Clone, Debug)]
pub struct Runner<'a> {
    device: &'a str,
    filter: Option<&'a str>,
    list: &'a [Behaviour],
    options: Option<Options>,
    limit: Duration,
}

impl<'a> Runner<'a> {
    /// All behaviours, on devices of this name.
    pub fn new(device: &'a str) -> Self {
        Self {
            device,
            filter: None,
            list: behaviours(),
            options: None,
            limit: LIMIT,
        }
    }

    /// Only those whose name contains this.
    pub fn filter(self, filter: Option<&'a str>) -> Self {
        Self { filter, ..self }
    }

    /// Another list.
    pub fn list(self, list: &'a [Behaviour]) -> Self {
        Self { list, ..self }
    }

    /// What devices are opened with where a behaviour does not care.
    pub fn options(self, options: Options) -> Self {
        Self {
            options: Some(options),
            ..self
        }
    }

    /// Another limit than [`LIMIT`].
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// The behaviours that a run takes.
    pub fn selected(&self) -> impl Iterator<Item = &'a Behaviour> + use<'a> {
        let filter = self.filter;
        self.list
            .iter()
            .filter(move |b| filter.is_none_or(|f| b.name.contains(f)))
    }

    /// Runs them. Each one's outcome is reported as it ends.
    ///
    /// Where a fault keeps the process off its devices for good ([`Kind::outlives_faults`]), behaviours that make faults run last,
    /// and all but the first of them are skipped: each takes a process of its own.
    ///
    /// A behaviour runs in a thread of its own that bears its name. One that passes the limit is reported as failed and
    /// its thread left behind, since nothing can end a thread from outside.
    pub fn run(&self, report: &mut dyn FnMut(&Outcome)) -> Summary {
        let mut summary = Summary::default();
        let outlives = kinds::of(self.device).is_none_or(Kind::outlives_faults);
        // Who made the fault that keeps this process off its devices.
        let mut last = None;
        // Those that make faults come last, each theme's in its order.
        let (faults, others): (Vec<_>, Vec<_>) = self
            .selected()
            .copied()
            .partition(|b| !outlives && b.needs.faults != Faults::None);
        for behaviour in others.into_iter().chain(faults) {
            let start = Instant::now();
            let verdict = match last {
                None => self.one(behaviour),
                Some(name) => Verdict::Skipped {
                    missing: format!(
                        "a process that has devices: the fault of `{name}` took them; run this one by itself"
                    ),
                },
            };
            let made = behaviour.needs.faults != Faults::None;
            if made && !outlives && !matches!(verdict, Verdict::Skipped { .. }) {
                last = last.or(Some(behaviour.name));
            }
            let outcome = Outcome {
                behaviour,
                verdict,
                duration: start.elapsed(),
            };
            summary.count(&outcome.verdict);
            report(&outcome);
        }
        summary
    }

    fn one(&self, behaviour: Behaviour) -> Verdict {
        let (device, options) = (self.device.to_owned(), self.options.clone());
        let (sender, receiver) = mpsc::sync_channel(1);
        let body = move || {
            let result = catch_unwind(AssertUnwindSafe(|| attempt(behaviour, device, options)));
            // Nobody listens any more if the limit has passed.
            let _ = sender.send(result.map_err(said));
        };
        let thread = match thread::Builder::new()
            .name(behaviour.name.to_owned())
            .spawn(body)
        {
            Ok(thread) => thread,
            Err(e) => {
                return Verdict::Failed {
                    why: format!("no thread for the behaviour: {e}"),
                };
            }
        };
        let result = match receiver.recv_timeout(self.limit) {
            Ok(result) => result,
            Err(_) => {
                let why = format!("did not come back within {} ms", self.limit.as_millis());
                return Verdict::Failed { why };
            }
        };
        // It has sent its last word.
        let _ = thread.join();
        match result {
            Ok(Ok(())) => Verdict::Passed,
            Ok(Err(f)) if f.missing => Verdict::Skipped {
                missing: f.to_string(),
            },
            Ok(Err(f)) => Verdict::Failed { why: f.to_string() },
            Err(panic) => Verdict::Failed {
                why: format!("panicked: {panic}"),
            },
        }
    }
}

fn attempt(behaviour: Behaviour, device: String, options: Option<Options>) -> Result<(), Failure> {
    let mut context = Context::new(device, options, behaviour.needs.devices)?;
    context.check(&behaviour.needs)?;
    (behaviour.run)(&mut context)?;
    context.finish()
}

/// The text of a panic.
fn said(panic: Box<dyn Any + Send>) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        return (*text).to_owned();
    }
    panic
        .downcast_ref::<String>()
        .cloned()
        .unwrap_or_else(|| "without a text".to_owned())
}
