//! The whole list on simulated NVIDIA GPUs.

use hcq_conformance::kinds::{KINDS, Stock};
use hcq_std::{Device, Options};
use lists::{peers, quick, run_list};

mod lists;

/// What these devices lack, or this machine.
const MAY_SKIP: [&str; 4] = [
    "signal.progress-restarts-timeout",
    // An acquire looks at one bit that is set or clear (`AcquireAnd`, `AcquireNor`), known while recording.
    "poll.masks",
    "poll.patched",
    "graphs.with-the-cpu",
];

#[test]
fn every_kernel_loads_on_every_chip() {
    for (chip, target) in [
        ("ampere", "sm_86"),
        ("ada", "sm_89"),
        ("hopper", "sm_90"),
        ("blackwell", "sm_120"),
    ] {
        let name = format!("sim:nv-{chip}");
        let device = Device::open(&name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(device.target(), target);
        let kind = KINDS
            .iter()
            .find(|k| k.serves(&name))
            .expect("a kind serves it");
        for stock in Stock::ALL {
            let kernel = kind
                .kernel(&device, stock)
                .unwrap_or_else(|e| panic!("{name}, {}: {e}", stock.name()))
                .expect("there is a cubin for it");
            assert_eq!(kernel.name(), stock.name());
        }
    }
}

macro_rules! lists {
    ($($name:ident: $device:literal, $list:ident;)*) => {$(
        #[test]
        fn $name() {
            run_list($device, &$list(), Options::default(), &MAY_SKIP);
        }
    )*};
}

lists! {
    ampere: "sim:nv-ampere", quick;
    ada: "sim:nv-ada", quick;
    hopper: "sim:nv-hopper", quick;
    blackwell: "sim:nv-blackwell", quick;
    two_ampere: "sim:nv-ampere,gpus=2", peers;
    four_hopper: "sim:nv-hopper:1,gpus=4,seed=5", peers;
}
