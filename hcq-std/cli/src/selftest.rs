//! `hcq selftest`: the list of behaviours on any device, for a report that others can compare.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use hcq_conformance::{Outcome, Runner, Summary, Verdict};
use hcq_std::Device;
use serde_json::{Value, json};

use crate::args::SelftestArgs;
use crate::exit::Exit;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::run::device_failure;
use crate::show::plain;
use crate::{json_line, say};

/// Runs the behaviours and prints a line for each.
pub fn selftest(args: &SelftestArgs, interrupt: &Interrupt) -> Result<Exit> {
    // A device that cannot be opened is one clear error, not a failure of every behaviour.
    Device::open(&args.device)
        .and_then(Device::close)
        .map_err(|e| device_failure(&e))?;
    if Runner::new(&args.device)
        .filter(args.filter.as_deref())
        .selected()
        .next()
        .is_none()
    {
        let filter = args.filter.as_deref().unwrap_or_default();
        let known: Vec<_> = hcq_conformance::behaviours()
            .iter()
            .map(|b| b.name)
            .collect();
        return Err(
            Failure::usage(format!("no behaviour has {filter:?} in its name"))
                .detail(known.join("\n"))
                .into(),
        );
    }

    let (sender, receiver) = mpsc::channel();
    let (device, filter) = (args.device.clone(), args.filter.clone());
    // A thread of its own, because nothing can end a behaviour that hangs: Ctrl-C leaves it behind.
    let runner = std::thread::spawn(move || {
        hcq_conformance::run(&device, filter.as_deref(), &mut |outcome| {
            // Nobody listens after Ctrl-C.
            let _ = sender.send(outcome.clone());
        })
    });
    let mut outcomes = Vec::new();
    loop {
        interrupt.check()?;
        match receiver.recv_timeout(Duration::from_millis(50)) {
            Ok(outcome) => {
                if !args.json {
                    say(&one_line(&outcome))?;
                }
                outcomes.push(outcome);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let summary = runner
        .join()
        .map_err(|_| Failure::new(Exit::Check, "the list of behaviours ended with a panic"))?;
    say(&if args.json {
        json_line(&report(args, &outcomes, summary))
    } else {
        format!("{summary}\n")
    })?;
    Ok(exit(summary))
}

/// The outcome on one line, so that reports compare line by line.
fn one_line(outcome: &Outcome) -> String {
    let text = plain(&outcome.to_string());
    let parts: Vec<&str> = text
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    parts.join(": ") + "\n"
}

fn exit(summary: Summary) -> Exit {
    if summary.failed == 0 {
        Exit::Ok
    } else {
        Exit::Check
    }
}

fn report(args: &SelftestArgs, outcomes: &[Outcome], summary: Summary) -> Value {
    let behaviours: Vec<Value> = outcomes
        .iter()
        .map(|o| {
            let (verdict, why) = match &o.verdict {
                Verdict::Passed => ("passed", None),
                Verdict::Failed { why } => ("failed", Some(why)),
                Verdict::Skipped { missing } => ("skipped", Some(missing)),
            };
            json!({
                "name": o.name(),
                "what": o.behaviour.what,
                "verdict": verdict,
                "why": why,
                "ms": o.duration.as_secs_f64() * 1e3,
            })
        })
        .collect();
    json!({
        "ok": summary.failed == 0,
        "exit_code": exit(summary).code(),
        "device": args.device,
        "passed": summary.passed,
        "failed": summary.failed,
        "skipped": summary.skipped,
        "behaviours": behaviours,
    })
}
