//! Behaviours and what becomes of them.

use std::fmt;
use std::panic::Location;
use std::time::Duration;

use crate::Context;
use crate::kinds::{ImageKernel, Stock};

/// Something that every device must do.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// `theme.words-in-lower-case`, unique in the list.
    pub name: &'static str,
    /// What is proved, in one line.
    pub what: &'static str,
    /// What the device must have.
    pub needs: Needs,
    /// Does it.
    pub run: fn(&mut Context) -> Result<(), Failure>,
}

/// What a device must have for a behaviour. One compute queue and nothing else, unless more is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    pub(crate) compute: usize,
    pub(crate) copy: usize,
    pub(crate) devices: usize,
    pub(crate) kernels: &'static [Stock],
    pub(crate) precise_faults: bool,
    pub(crate) recovery: bool,
    pub(crate) own_addresses: bool,
    pub(crate) images: &'static [ImageKernel],
    pub(crate) faults: Faults,
}

/// Whether a behaviour makes faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Faults {
    /// None.
    None,
    /// The last thing that it does with a device is a fault.
    Last,
    /// It goes on with other devices after a fault.
    Outlived,
}

impl Needs {
    /// One compute queue.
    pub const COMPUTE: Self = Self {
        compute: 1,
        copy: 0,
        devices: 1,
        kernels: &[],
        precise_faults: false,
        recovery: false,
        own_addresses: false,
        images: &[],
        faults: Faults::None,
    };
    /// One copy queue.
    pub const COPY: Self = Self {
        compute: 0,
        copy: 1,
        ..Self::COMPUTE
    };
    /// One queue of each kind.
    pub const BOTH: Self = Self {
        copy: 1,
        ..Self::COMPUTE
    };

    /// At least this many compute queues.
    pub const fn compute(self, queues: usize) -> Self {
        Self {
            compute: queues,
            ..self
        }
    }

    /// At least this many copy queues.
    pub const fn copy(self, queues: usize) -> Self {
        Self {
            copy: queues,
            ..self
        }
    }

    /// So many devices of one machine, each with what else is needed: [`Context::devices`].
    pub const fn devices(self, devices: usize) -> Self {
        Self { devices, ..self }
    }

    /// These kernels.
    pub const fn kernels(self, kernels: &'static [Stock]) -> Self {
        Self { kernels, ..self }
    }

    /// Kernels that take images, and these.
    pub const fn images(self, kernels: &'static [ImageKernel]) -> Self {
        Self {
            images: kernels,
            ..self
        }
    }

    /// A command at fault stops its queue before the next one runs.
    pub const fn precise_faults(self) -> Self {
        Self {
            precise_faults: true,
            ..self
        }
    }

    /// It makes a fault. Where faults keep a process off its devices nothing runs after it.
    pub const fn faults(self) -> Self {
        Self {
            faults: Faults::Last,
            ..self
        }
    }

    /// It makes a fault, and goes on with other devices after it.
    pub const fn outlives_faults(self) -> Self {
        Self {
            faults: Faults::Outlived,
            ..self
        }
    }

    /// The device reaches memory only while it has a buffer or a view of it.
    pub const fn own_addresses(self) -> Self {
        Self {
            own_addresses: true,
            ..self
        }
    }

    /// The device can recover from a fault.
    pub const fn recovery(self) -> Self {
        Self {
            recovery: true,
            ..self
        }
    }
}

/// Why a behaviour did not pass: it was wrong, or something that it takes is not there.
#[derive(Clone, Debug)]
pub struct Failure {
    pub(crate) missing: bool,
    pub(crate) why: String,
    at: &'static Location<'static>,
}

impl Failure {
    /// The device did something wrong.
    #[track_caller]
    pub fn new(why: impl Into<String>) -> Self {
        Self {
            missing: false,
            why: why.into(),
            at: Location::caller(),
        }
    }

    /// The behaviour cannot be tried here, for want of this. It counts as skipped.
    #[track_caller]
    pub fn missing(what: impl Into<String>) -> Self {
        Self {
            missing: true,
            why: what.into(),
            at: Location::caller(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.why)?;
        if !self.missing {
            let file = self
                .at
                .file()
                .rsplit(['/', '\\'])
                .next()
                .unwrap_or_default();
            write!(f, " ({file}:{})", self.at.line())?;
        }
        Ok(())
    }
}

impl From<hcq_std::Error> for Failure {
    #[track_caller]
    fn from(e: hcq_std::Error) -> Self {
        Self::new(format!("unexpected error: {e}"))
    }
}

/// How a behaviour ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// As it must.
    Passed,
    /// Not as it must.
    Failed {
        /// What was seen and what was wanted, with numbers, and where in this crate it was noticed.
        why: String,
    },
    /// It was not tried.
    Skipped {
        /// What is missing.
        missing: String,
    },
}

/// One line of the report.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The behaviour.
    pub behaviour: Behaviour,
    /// How it ended.
    pub verdict: Verdict,
    /// How long it took, devices opened and closed included.
    pub duration: Duration,
}

impl Outcome {
    /// The behaviour's name.
    pub fn name(&self) -> &'static str {
        self.behaviour.name
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, what, ms) = (
            self.behaviour.name,
            self.behaviour.what,
            self.duration.as_millis(),
        );
        match &self.verdict {
            Verdict::Passed => write!(f, "ok       {name}: {what} ({ms} ms)"),
            Verdict::Failed { why } => {
                write!(f, "FAILED   {name}: {what}\n         {why} ({ms} ms)")
            }
            Verdict::Skipped { missing } => write!(f, "skipped  {name}: {missing}"),
        }
    }
}

/// How many ended in which way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// As they must.
    pub passed: usize,
    /// Not as they must.
    pub failed: usize,
    /// Not tried.
    pub skipped: usize,
}

impl Summary {
    /// All of them.
    pub const fn total(&self) -> usize {
        self.passed + self.failed + self.skipped
    }

    pub(crate) fn count(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Failed { .. } => self.failed += 1,
            Verdict::Skipped { .. } => self.skipped += 1,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} passed, {} failed, {} skipped",
            self.passed, self.failed, self.skipped
        )
    }
}
