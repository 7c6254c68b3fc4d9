//! P6 against peers in processes of their own: PoCL, tinygrad's CPU device.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hcq_bench::cpus::Cpus;
use hcq_bench::goal::Goals;
use hcq_bench::peer::Peer;
use hcq_bench::queue::Queues;
use hcq_bench::ratio::{SPIN, pairs, woken};

/// Kernels of a submission.
const KERNELS: u16 = 1000;
/// Our submissions in a slice.
const CALLS: u32 = 4;

pub(crate) fn print(goals: &mut Goals) {
    for (device, goal) in [("basic", 10.0), ("pthread", 10.0)] {
        let peer = format!("PoCL {device}");
        let lines = [Ours::Anew, Ours::Bound].map(|ours| (ours, ours.line(&peer), goal));
        if lines.iter().any(|(_, line, _)| goals.wants(line)) {
            against(goals, &lines, || pocl(device));
        }
    }
    let lines = [Ours::Bound].map(|ours| (ours, ours.line("tinygrad HCQ2 on CPU"), 30.0));
    if lines.iter().any(|(_, line, _)| goals.wants(line)) {
        against(goals, &lines, tinygrad);
    }
}

/// How our side runs its kernels.
#[derive(Clone, Copy)]
enum Ours {
    Anew,
    Bound,
}

impl Ours {
    fn line(self, peer: &str) -> String {
        let how = match self {
            Self::Anew => "recorded anew",
            Self::Bound => "bound",
        };
        format!("P6 {KERNELS} tiny kernels, {peer} / ours {how}")
    }
}

fn against(
    goals: &mut Goals,
    lines: &[(Ours, String, f64)],
    start: impl FnOnce() -> Result<Peer, String>,
) {
    // The peer first: it may use all processors.
    let started = start().and_then(|peer| {
        let cpus = Cpus::two().ok_or("a second processor")?;
        Ok((peer, cpus))
    });
    let (mut peer, cpus) = match started {
        Ok(started) => started,
        Err(why) => {
            for (_, line, _) in lines {
                goals.skipped(line, &why);
            }
            return;
        }
    };
    let queues = cpus.with_workers(|| Queues::new(SPIN));
    let mut bound = queues.bind(KERNELS);
    for (ours, line, goal) in lines {
        if !goals.wants(line) {
            continue;
        }
        let mut failed = None;
        let r = pairs(
            &mut || {
                peer.slice().unwrap_or_else(|e| {
                    failed = Some(e);
                    f64::NAN
                })
            },
            &mut || {
                let ns = match ours {
                    Ours::Bound => woken(&mut || queues.submit_and_wait(&mut bound), CALLS),
                    Ours::Anew => woken(&mut || queues.run(KERNELS), CALLS),
                };
                ns / f64::from(KERNELS)
            },
        );
        if let Some(why) = failed {
            goals.skipped(line, &why);
            continue;
        }
        goals.at_least(line, r.median, *goal);
        let (name, theirs, mine) = (peer.name(), r.a_ns, r.b_ns);
        let text = format!("{theirs:.0} ns a kernel, ours {mine:.1} ns; {r}; {name}");
        goals.note(line, &text);
    }
}

/// Compiles and starts `baseline/opencl.c`.
fn pocl(device: &str) -> Result<Peer, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("baseline/opencl.c");
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let program = folder.join("opencl");
    let cc = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let compiled = Command::new(&cc)
        .arg("-O2")
        .arg(&source)
        .args(["-lOpenCL", "-o"])
        .arg(&program)
        .stderr(Stdio::null())
        .status();
    let absent = "PoCL absent (Debian: pocl-opencl-icd, ocl-icd-opencl-dev)";
    match compiled {
        Err(e) => return Err(format!("cc absent ({}: {e})", cc.display())),
        Ok(status) if !status.success() => return Err(absent.to_owned()),
        Ok(_) => {}
    }
    let mut command = Command::new(&program);
    command
        .arg(KERNELS.to_string())
        .env("POCL_DEVICES", device)
        // What it compiles stays with what was built.
        .env("POCL_CACHE_DIR", folder.join("pocl"));
    Peer::start(&mut command).map_err(|why| format!("{absent}: {why}"))
}

/// Starts the script in `tests/peer`, in the environment that its `setup.sh` makes.
fn tinygrad() -> Result<Peer, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../peer");
    let python = folder.join(".venv/bin/python");
    if !python.exists() {
        return Err("tinygrad absent (tests/peer/setup.sh)".to_owned());
    }
    let mut command = Command::new(python);
    command
        .arg(folder.join("tinygrad_cpu.py"))
        .arg(KERNELS.to_string());
    Peer::start(&mut command).map_err(|why| format!("tinygrad absent: {why}"))
}
