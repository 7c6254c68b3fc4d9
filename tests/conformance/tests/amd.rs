//! The whole list on simulated AMD GPUs.

use std::collections::HashSet;
use std::io::Write;

use hcq_conformance::kinds::{KINDS, Stock};
use hcq_conformance::{Behaviour, Outcome, Runner, Verdict, behaviours};
use hcq_std::{Device, Options};

/// What these devices lack, or this machine: after a memory fault the kernel lets a process on the GPU no more, so there is
/// no recovery from one.
const MAY_SKIP: [&str; 7] = [
    "signal.progress-restarts-timeout",
    "fault.copy",
    "fault.earlier-work-stands",
    "fault.stops-its-queue",
    "fault.recover",
    "fault.recover-held",
    "fault.bound",
];

fn run_list(device: &str, list: &[Behaviour], options: Options) {
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
                let alone = name.starts_with("peer.") && missing_devices(outcome, device);
                if !MAY_SKIP.contains(&name) && !alone {
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

/// Whether it was skipped because its machine has fewer GPUs than it asks for.
fn missing_devices(outcome: &Outcome, device: &str) -> bool {
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
fn quick() -> Vec<Behaviour> {
    let all = behaviours().iter().copied();
    all.filter(|b| b.name != "copy.past-4-gib").collect()
}

#[test]
fn every_kernel_loads_on_every_chip() {
    for chip in ["gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201"] {
        let name = format!("sim:amd-{chip}");
        let device = Device::open(&name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(device.target(), chip);
        let kind = KINDS
            .iter()
            .find(|k| k.serves(&name))
            .expect("a kind serves it");
        for stock in Stock::ALL {
            let kernel = kind
                .kernel(&device, stock)
                .unwrap_or_else(|e| panic!("{name}, {}: {e}", stock.name()))
                .expect("there is an object for it");
            assert_eq!(kernel.name(), stock.name());
            let arguments = kernel.arguments().expect("its metadata has them");
            assert_eq!(arguments.len(), stock.signature().matches(';').count());
        }
    }
}

macro_rules! lists {
    ($($name:ident: $device:literal;)*) => {$(
        #[test]
        fn $name() {
            run_list($device, &quick(), Options::default());
        }
    )*};
}

lists! {
    gfx942_pm4: "sim:amd-gfx942";
    gfx942_aql: "sim:amd-gfx942,aql";
    gfx950_pm4: "sim:amd-gfx950";
    gfx950_aql: "sim:amd-gfx950,aql";
    gfx1100_pm4: "sim:amd-gfx1100";
    gfx1100_aql: "sim:amd-gfx1100,aql";
    gfx1151_pm4: "sim:amd-gfx1151";
    gfx1151_aql: "sim:amd-gfx1151,aql";
    gfx1201_pm4: "sim:amd-gfx1201";
    gfx1201_aql: "sim:amd-gfx1201,aql";
}

#[test]
fn another_seed_and_a_small_ring() {
    let options = Options::default().ring_packets(64).arena_bytes(512);
    run_list("sim:amd-gfx1100,seed=12345", &quick(), options);
}

/// What two and four GPUs of a machine do together.
fn peers() -> Vec<Behaviour> {
    let all = behaviours().iter().copied();
    all.filter(|b| b.name.starts_with("peer.")).collect()
}

macro_rules! together {
    ($($name:ident: $device:literal;)*) => {$(
        #[test]
        fn $name() {
            run_list($device, &peers(), Options::default());
        }
    )*};
}

together! {
    two_gfx1100_pm4: "sim:amd-gfx1100,gpus=2";
    two_gfx1100_aql: "sim:amd-gfx1100,gpus=2,aql";
    four_gfx1100_pm4: "sim:amd-gfx1100,gpus=4,seed=5";
    four_gfx1100_aql: "sim:amd-gfx1100:2,gpus=4,seed=6,aql";
    two_gfx942_pm4: "sim:amd-gfx942,gpus=2";
    two_gfx942_aql: "sim:amd-gfx942,gpus=2,aql";
    four_gfx942_pm4: "sim:amd-gfx942:3,gpus=4,seed=7";
    four_gfx942_aql: "sim:amd-gfx942,gpus=4,seed=8,aql";
}

/// Without a way to each other's memory there is nothing to share, and nothing fails.
#[test]
fn gpus_apart_say_so() {
    for behaviour in peers() {
        let list = [behaviour];
        let runner = Runner::new("sim:amd-gfx1100,gpus=2,p2p=off").list(&list);
        runner.run(&mut |outcome| match &outcome.verdict {
            Verdict::Passed => {}
            Verdict::Skipped { missing } => assert!(
                missing.contains("devices reach of each other") || missing.contains("4 devices"),
                "{outcome}"
            ),
            Verdict::Failed { .. } => panic!("{outcome}"),
        });
    }
}
