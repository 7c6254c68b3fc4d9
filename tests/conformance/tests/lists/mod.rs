//! Runs a list on a device and judges what came of it.

use std::collections::HashSet;
use std::io::Write;

use hcq_conformance::{Behaviour, Outcome, Runner, Verdict, behaviours};
use hcq_std::Options;

/// Runs a list; fails with what failed, and with what was skipped but may not be.
pub(crate) fn run_list(device: &str, list: &[Behaviour], options: Options, may_skip: &[&str]) {
    let mut outcomes = Vec::new();
    let summary = Runner::new(device)
        .list(list)
        .options(options)
        .run(&mut |outcome: &Outcome| {
            println!("{outcome}");
            outcomes.push(outcome.clone());
        });
    println!("{device}: {summary}");
    let mut failed = Vec::new();
    for outcome in &outcomes {
        match &outcome.verdict {
            Verdict::Passed => {}
            Verdict::Failed { .. } => failed.push(outcome.to_string()),
            Verdict::Skipped { .. } => {
                // Past the test harness, which keeps what passing tests print to itself.
                writeln!(std::io::stderr(), "{device}: {outcome}").expect("a line goes out");
                let name = outcome.name();
                let alone = name.starts_with("peer.") && lacks_devices(outcome, device);
                let no_images = name.starts_with("images.") && !has_images(device);
                if !may_skip.contains(&name) && !alone && !no_images {
                    failed.push(format!("skipped without need: {outcome}"));
                }
            }
        }
    }
    assert!(
        failed.is_empty(),
        "{device}: {summary}\n{}",
        failed.join("\n")
    );
    let ran: HashSet<&str> = outcomes.iter().map(Outcome::name).collect();
    let listed: HashSet<&str> = list.iter().map(|b| b.name).collect();
    assert_eq!(ran, listed, "every behaviour listed is reported");
}

/// Whether kernels of such devices take images.
fn has_images(device: &str) -> bool {
    device.contains("qcom")
}

/// Whether it was skipped because its machine has fewer GPUs than it asks for.
fn lacks_devices(outcome: &Outcome, device: &str) -> bool {
    let Verdict::Skipped { missing } = &outcome.verdict else {
        return false;
    };
    let gpus = device
        .split(',')
        .find_map(|option| option.strip_prefix("gpus="));
    let gpus: usize = gpus.map_or(1, |gpus| gpus.parse().expect("a number"));
    let wanted = missing.split(' ').next().and_then(|word| word.parse().ok());
    missing.contains("devices of one machine") && wanted.is_some_and(|wanted: usize| wanted > gpus)
}

/// The list but for what takes gigabytes.
pub(crate) fn quick() -> Vec<Behaviour> {
    let all = behaviours().iter().copied();
    all.filter(|b| b.name != "copy.past-4-gib").collect()
}

/// What two and four GPUs of a machine do together.
#[allow(dead_code, reason = "some machines have one GPU")]
pub(crate) fn peers() -> Vec<Behaviour> {
    let all = behaviours().iter().copied();
    all.filter(|b| b.name.starts_with("peer.")).collect()
}
