//! A plan as bound queues: recorded once, launched as often as wanted.

#![allow(unsafe_code)]

use hcq_std::{Arg, Bound, Commands, Grid, Point, Signal, Var};

use super::context::{Context, device_failure};
use super::load::Buffers;
use super::programs::Programs;
use crate::data::dtype::{Dtype, Scalar};
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::job::{Job, Launch, Work};
use crate::launch::{self, Checked, Ready, Slice};
use crate::plan::{Engine, Plan};
use crate::show::profile::Span;

/// The one variable of a recording: the number of the launch. A task that has ended in launch `n` sets its signal to
/// `n`, so that signals need no reset in between.
const ROUND: Var = Var::new(0);

/// The recorded queues of a job.
pub(super) struct Queues {
    bound: Vec<Bound>,
    times: Vec<Times>,
}

/// The signals of one task.
struct Times {
    start: Signal,
    end: Signal,
    /// Set for tasks of other queues.
    done: Option<Signal>,
}
