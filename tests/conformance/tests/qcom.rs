//! The whole list on simulated Adreno GPUs.

use hcq_conformance::kinds::{ImageKernel, KINDS, Stock};
use hcq_std::{Device, Options};
use lists::{quick, run_list};

mod lists;

/// What these devices lack, or this machine: there is one compute queue, one GPU, and wrapped memory is flushed with each
/// submission, not while it runs.
const MAY_SKIP: [&str; 35] = [
    "signal.progress-restarts-timeout",
    "barrier.host-writes",
    "poll.set-and-clear",
    "timestamp.across-queues",
    "timeline.in-order",
    "timeline.roll-over-synced",
    "timeline.roll-over-unsynced",
    "timeline.late-waits-over-roll-over",
    "graphs.several-queues",
    "ring.full-timeout",
    "queues.overlap",
    "queues.all-depend",
    "queues.ping-pong",
    "queues.after",
    "drop.held",
    "peer.reads",
    "peer.writes",
    "peer.copies",
    "peer.kernels",
    "peer.bound",
    "peer.signals",
    "peer.ping-pong",
    "peer.after",
    "peer.after-many",
    "peer.ring-of-four",
    "peer.threads",
    "peer.shared-on",
    "peer.kept",
    "peer.not-shared",
    "peer.timestamps",
    "peer.dropped-view",
    "peer.fault",
    "fault.sticky",
    "fault.recover-held",
    "fault.drop",
];

#[test]
fn every_kernel_loads_on_every_chip() {
    for chip in ["a630", "a650", "a660"] {
        let name = format!("sim:qcom-{chip}");
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
                .expect("there is a program for it");
            assert_eq!(kernel.name(), stock.name());
        }
        for image in ImageKernel::ALL {
            let kernel = kind
                .image_kernel(&device, image)
                .unwrap_or_else(|e| panic!("{name}, {}: {e}", image.name()))
                .expect("there is a program for it");
            let arguments = kernel.arguments().expect("it has a signature");
            let fields: Vec<&str> = image.signature().split_terminator(';').collect();
            assert_eq!(arguments.len(), fields.len(), "{}", image.name());
            for (argument, field) in arguments.iter().zip(fields) {
                // Images as they are told, and names of the others.
                match argument.image {
                    Some(_) => assert_eq!(argument.to_string(), field.trim()),
                    None => assert!(field.ends_with(&argument.name), "{field}: {argument}"),
                }
            }
        }
    }
}

/// An A630 never looks into the host's caches, so that it sees nobody's signals in memory of the process.
fn may_skip(device: &str) -> Vec<&'static str> {
    let alone = (device == "sim:qcom-a630").then_some("graphs.through-the-host");
    let msm = device.ends_with(",msm").then_some(NOT_BEHIND_MSM);
    let more = msm.into_iter().flatten().chain(alone);
    MAY_SKIP.into_iter().chain(more).collect()
}

/// What Linux' driver msm does not have beside: memory of the process that the GPU sees.
const NOT_BEHIND_MSM: [&str; 3] = ["memory.wrapped", "graphs.through-the-host", "drop.running"];

macro_rules! lists {
    ($($name:ident: $device:literal;)*) => {$(
        #[test]
        fn $name() {
            run_list($device, &quick(), Options::default(), &may_skip($device));
        }
    )*};
}

lists! {
    a630: "sim:qcom-a630";
    a650: "sim:qcom-a650";
    a660: "sim:qcom-a660";
    a630_msm: "sim:qcom-a630,msm";
    a650_msm: "sim:qcom-a650,msm";
    a660_msm: "sim:qcom-a660,msm";
}
