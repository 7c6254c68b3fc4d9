//! One list of behaviours that every device must show.
//!
//! The list is generic over the device. `cargo test` runs it on what every machine has; `hcq selftest --device D` runs
//! the same list on the card of whoever asks, so that a report from a card and a report from a build machine compare
//! line by line.
//!
//! ```
//! let mut lines = Vec::new();
//! let summary = hcq_conformance::run("cpu", Some("signal."), &mut |outcome| lines.push(outcome.to_string()));
//! assert_eq!(summary.failed, 0, "{lines:#?}");
//! assert_eq!(summary.total(), lines.len());
//! ```
//!
//! # What a verdict means
//!
//! Each behaviour gets devices of its own, opened for it and closed after it, so that a fault of one is not another's.
//! It ends as [`Passed`](Verdict::Passed), as [`Failed`](Verdict::Failed) with the numbers seen and wanted, or as
//! [`Skipped`](Verdict::Skipped) with what was missing. A panic is a failure. A device that hangs fails by its own wait
//! timeout; a behaviour that does not come back at all fails by the [`Runner`]'s limit. Nothing is left out silently:
//! there is one [`Outcome`] for each behaviour selected.
//!
//! # Adding a behaviour
//!
//! 1. Choose the module of [`behaviours`](mod@behaviours) whose theme it is, or start one and add its `LIST` to
//!    [`behaviours()`].
//! 2. Write `fn name(cx: &mut Context) -> Result<(), Failure>`. Make results differ from what memory held before: fill
//!    destinations with other values, keep guard bytes around them, compare all of it.
//! 3. Add a [`Behaviour`] to the module's `LIST`: a name `theme.words-in-lower-case`, one line that says what is proved,
//!    and what the device needs for it ([`Needs`]). A need that a device lacks becomes a skip in words.
//! 4. Wait only through the device, which gives up by itself. Never decide by a time measured; where two clocks are
//!    compared, only say that one interval lies inside another.
//!
//! # Adding a kind of device
//!
//! Behaviours know nothing of vendors. What differs is gathered in [`Kind`](kinds::Kind): which device names it serves,
//! its programs for the [`Stock`](kinds::Stock) kernels (documented there, argument by argument), an address that no
//! buffer has. Implement it in a module of [`kinds`] and add it to [`kinds::KINDS`]. A device without a kind runs all
//! behaviours that need no kernel, and says of the others that it has no test kernels.

pub mod behaviours;
mod check;
mod context;
pub mod kinds;
mod report;
mod runner;

pub use context::Context;
pub use report::{Behaviour, Failure, Needs, Outcome, Summary, Verdict};
pub use runner::{LIMIT, Runner};

use std::sync::LazyLock;

/// The whole list, in the order in which it runs.
pub fn behaviours() -> &'static [Behaviour] {
    static ALL: LazyLock<Vec<Behaviour>> = LazyLock::new(|| {
        behaviours::THEMES
            .iter()
            .flat_map(|list| list.iter().copied())
            .collect()
    });
    &ALL
}

/// Runs the behaviours whose name contains `filter`, or all, on devices of this name, and reports each as it ends.
pub fn run(device: &str, filter: Option<&str>, report: &mut dyn FnMut(&Outcome)) -> Summary {
    Runner::new(device).filter(filter).run(report)
}
