//! The whole list on simulated AMD GPUs.

use hcq_conformance::kinds::{KINDS, Stock};
use hcq_conformance::{Behaviour, Outcome, Runner, Verdict, behaviours};
use hcq_std::{Device, Options};
use lists::{peers, quick};

mod lists;

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
    lists::run_list(device, list, options, &MAY_SKIP);
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

/// All behaviours in one process of one machine, as on a card: those that make faults come last, and after the first of them
/// the process has no GPU any more.
#[test]
fn one_process_as_on_a_card() {
    for name in ["amd:1,aql"] {
        let machine = hcq_std::sim::machine("amd-gfx1100,gpus=2,seed=9").expect("a machine");
        let options = Options::default().system(machine);
        let list = quick();
        let mut outcomes = Vec::new();
        let runner = Runner::new(name).list(&list).options(options);
        let summary = runner.run(&mut |outcome: &Outcome| outcomes.push(outcome.clone()));
        println!("{name}: {summary}");
        let makes_faults =
            |o: &Outcome| o.name().starts_with("fault.") || FAULTS.contains(&o.name());
        let first = outcomes
            .iter()
            .position(makes_faults)
            .expect("there are some");
        assert!(
            outcomes[first..].iter().all(makes_faults),
            "faults come last"
        );
        assert!(first > 100, "most make no faults");
        let mut ran = 0;
        for (i, outcome) in outcomes.iter().enumerate() {
            match &outcome.verdict {
                Verdict::Passed => ran += usize::from(i >= first),
                Verdict::Failed { .. } => panic!("{name}: {outcome}"),
                Verdict::Skipped { missing } if i >= first => assert!(
                    missing.contains("run this one by itself") || ran == 0,
                    "{name}: {outcome}"
                ),
                Verdict::Skipped { missing } => assert!(
                    MAY_SKIP.contains(&outcome.name())
                        || missing.starts_with("4 devices")
                        || missing.starts_with("images:"),
                    "{name}: {outcome}"
                ),
            }
        }
        assert_eq!(ran, 1, "{name}: one fault is all that a process gets");
    }
}

/// Behaviours of other themes that make faults.
const FAULTS: [&str; 2] = ["peer.dropped-view", "peer.fault"];

/// Each of those that make a fault, in a process of its own.
#[test]
fn faults_in_processes_of_their_own_as_on_a_card() {
    let mut passed = 0;
    for behaviour in behaviours() {
        if !behaviour.name.starts_with("fault.") && !FAULTS.contains(&behaviour.name) {
            continue;
        }
        let machine = hcq_std::sim::machine("amd-gfx1100,gpus=2").expect("a machine");
        let options = Options::default().system(machine);
        let list = [*behaviour];
        let runner = Runner::new("amd").list(&list).options(options);
        runner.run(&mut |outcome: &Outcome| match &outcome.verdict {
            Verdict::Passed => passed += 1,
            Verdict::Failed { .. } => panic!("{outcome}"),
            Verdict::Skipped { missing } => assert!(
                ["recovery from faults", "after a fault of another"]
                    .iter()
                    .any(|words| missing.contains(words)),
                "{outcome}"
            ),
        });
    }
    assert!(passed >= 6, "only {passed} ran");
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
