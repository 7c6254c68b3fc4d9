//! P2 and P5 against tinygrad's AMD queue and HCQGraph, both sides without a GPU: a graph's launch with all inputs changed,
//! and the recording of one wait, barrier, dispatch and signal.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use hcq_bench::amd;
use hcq_bench::goal::Goals;
use hcq_bench::graph::{At, Builder, Pm4};
use hcq_bench::peer::Peer;
use hcq_bench::ratio::pairs;
use hcq_nostd::value::Value;

/// Our launches, or recordings of [`GROUPS`], in a slice.
const CALLS: u32 = 100;
/// Groups of a recording, as many as the peer's.
const GROUPS: usize = 20;

pub(crate) fn print(goals: &mut Goals) {
    for (n, shared) in [(100, true), (100, false), (1000, true), (1000, false)] {
        let name = if shared { "shared" } else { "distinct" };
        let line = format!("P2 PM4 graph N={n} {name}, tinygrad HCQGraph / ours");
        if goals.wants(&line) {
            let mut launcher = Builder::new(Pm4::default(), n, shared, At::Known).launcher();
            let [a, b] = launcher.two_inputs();
            let mut i = 0;
            let mut launch = || {
                i ^= 1;
                launcher.launch(if i == 0 { &a } else { &b });
            };
            let args = ["launch".to_owned(), n.to_string(), name.to_owned()];
            against(goals, &line, 3000.0, &args, &mut launch, f64::from(n));
        }
    }
    let line = "P5 wait, barrier, dispatch, signal, tinygrad / ours PM4";
    if goals.wants(line) {
        let mut recording = amd::pm4(GROUPS);
        let mut record = || {
            recording.clear();
            for n in 0..GROUPS {
                let (signal, value) = black_box((Value::Imm(0x1000), Value::Imm(n as u64)));
                recording.group(n, black_box([0x3000, 0x4000]), signal.into(), value);
            }
            black_box(recording.words());
        };
        let args = ["encode".to_owned()];
        against(goals, line, 1000.0, &args, &mut record, GROUPS as f64);
    }
}

/// The peer's time for one of its kernels by ours, of which a call has `units`.
fn against(
    goals: &mut Goals,
    line: &str,
    goal: f64,
    args: &[String],
    ours: &mut dyn FnMut(),
    units: f64,
) {
    let mut peer = match start(args) {
        Ok(peer) => peer,
        Err(why) => return goals.skipped(line, &why),
    };
    let mut failed = None;
    let r = pairs(
        &mut || {
            peer.slice().unwrap_or_else(|e| {
                failed = Some(e);
                f64::NAN
            })
        },
        &mut || {
            ours();
            let start = Instant::now();
            for _ in 0..CALLS {
                ours();
            }
            start.elapsed().as_nanos() as f64 / f64::from(CALLS) / units
        },
    );
    match failed {
        Some(why) => goals.skipped(line, &why),
        None => {
            goals.at_least(line, r.median, goal);
            let text = format!(
                "{:.1} ns each, ours {:.2} ns; {r}; {}",
                r.a_ns,
                r.b_ns,
                peer.name()
            );
            goals.note(line, &text);
        }
    }
}

fn start(args: &[String]) -> Result<Peer, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../peer");
    let python = here.join(".venv/bin/python");
    if !python.exists() {
        return Err("tinygrad absent (tests/peer/setup.sh)".to_owned());
    }
    Peer::start(
        Command::new(python)
            .arg(here.join("tinygrad_amd.py"))
            .args(args),
    )
}
