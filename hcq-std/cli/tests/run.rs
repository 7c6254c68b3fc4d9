//! Jobs that run: numbers that are right, files that are whole.

#![allow(missing_docs)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use common::{Job, bytes, floats, needs_cc, read_npy, readme_knows};
use serde_json::Value;

const SAXPY: &str = r#"[programs.k]
path = "k.c"
[buffers.x]
file = "x.npy"
[buffers.y]
file = "y.npy"
[[tasks]]
program = "k"
kernel = "saxpy"
args = [2.0, "x", "y", { u32 = 1000 }]
groups = [4]
local = [256]
[[outputs]]
buffer = "y"
file = "out.npy"
expect = "expected.npy"
"#;

#[test]
fn saxpy_from_files_to_files() {
    needs_cc!();
    let job = Job::new(SAXPY);
    let before = job.names();
    let run = job.run(&["--trace", "t.json", "--timeline", "t.svg"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert_eq!(run.stderr, "");
    for words in [
        "saxpy",
        "compute 0",
        "queue time",
        "GB/s",
        "launch: ",
        "check ok: y against",
        "out.npy",
    ] {
        assert!(run.stdout.contains(words), "{words}\n{}", run.stdout);
    }
    let (header, data) = read_npy(&job.path("out.npy"));
    assert!(
        header.contains("'<f4'") && header.contains("(1000,"),
        "{header}"
    );
    let expected: Vec<f32> = (0..1000).map(|i| 1000.0 - i as f32 + i as f32).collect();
    assert_eq!(floats(&data), expected);
    let mode = fs::metadata(job.path("out.npy"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o600, 0o600, "{mode:o}");

    let trace: serde_json::Value =
        serde_json::from_slice(&fs::read(job.path("t.json")).unwrap()).unwrap();
    assert!(
        trace["traceEvents"]
            .as_array()
            .unwrap()
            .iter()
            .any(|e| e["name"] == "saxpy" && e["ph"] == "X")
    );
    assert!(
        fs::read_to_string(job.path("t.svg"))
            .unwrap()
            .contains("saxpy")
    );
    let mut after = before;
    after.extend([
        "out.npy".to_owned(),
        "t.json".to_owned(),
        "t.svg".to_owned(),
    ]);
    after.sort();
    assert_eq!(job.names(), after);
}

#[test]
fn the_report_as_json() {
    needs_cc!();
    let job = Job::new(SAXPY);
    let run = job.run(&["--json", "--repeat", "3"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{}", run.stdout);
    let json = run.json();
    assert_eq!((&json["ok"], &json["launches"]), (&true.into(), &3.into()));
    let task = &json["tasks"][0];
    assert_eq!(
        (&task["name"], &task["queue"], &task["bytes"]),
        (&"saxpy".into(), &"compute 0".into(), &12_000.into())
    );
    assert!(task["device_time_ns"].as_u64().unwrap() > 0);
    assert!(json["launch"]["host_ns"].as_u64().unwrap() > 0);
    assert!(json["launch"]["total_ns"].as_u64() >= task["device_time_ns"].as_u64());
    assert_eq!(json["checks"][0]["mismatches"], 0);
    assert_eq!(json["files"][0]["bytes"], 4000);
    for part in [
        &json,
        &json["tasks"][0],
        &json["launch"],
        &json["graph"],
        &json["load"],
        &json["checks"][0],
        &json["files"][0],
    ] {
        readme_knows(part);
    }
    assert!(json["graph"]["words"].as_u64().unwrap() > 0);
    let run = job.run(&["--json", "--no-graph"]);
    assert_eq!((run.code, &run.json()["graph"]), (0, &Value::Null));
}

#[test]
fn each_launch_starts_from_the_initial_data() {
    needs_cc!();
    for more in [&["--repeat", "2"][..], &["--repeat", "50"]] {
        let job = Job::new(SAXPY);
        let run = job.run(more);
        assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
        let filled = SAXPY.replace(
            "file = \"y.npy\"",
            "dtype = \"f32\"\nshape = [1000]\nfill = 3.0",
        );
        let expected: Vec<f32> = (0..1000).map(|i| 3.0 + i as f32).collect();
        let job = Job::new(&filled);
        job.npy("expected.npy", "<f4", "(1000,)", &bytes(&expected));
        let run = job.run(more);
        assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    }
}

#[test]
fn a_wrong_output_is_a_failed_check_and_still_written() {
    needs_cc!();
    let job = Job::new(SAXPY);
    let mut wrong: Vec<f32> = vec![1000.0; 1000];
    wrong[7] = 999.0;
    job.npy("expected.npy", "<f4", "(1000,)", &bytes(&wrong));
    let run = job.run(&[]);
    assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
    assert!(
        run.stdout.contains("check FAILED: y against"),
        "{}",
        run.stdout
    );
    assert!(
        run.stdout.contains("1 of 1000 elements differ"),
        "{}",
        run.stdout
    );
    assert!(
        run.stdout
            .contains("first at element 7: 1000, expected 999"),
        "{}",
        run.stdout
    );
    assert!(job.path("out.npy").exists());
    let json = job.run(&["--json"]);
    assert_eq!((json.code, &json.json()["ok"]), (1, &false.into()));
    assert_eq!(json.json()["checks"][0]["first_mismatch"]["index"], 7);
}

/// Branches over views of one buffer, copies, a raw input, a raw output, a kernel without a signature.
#[test]
fn a_job_with_branches() {
    needs_cc!();
    let job = Job::new(
        r#"[programs.k]
path = "k.c"
[buffers.x]
file = "x.bin"
dtype = "f32"
shape = [2, 512]
[buffers.low]
dtype = "f32"
shape = [512]
[buffers.high]
dtype = "f32"
shape = [512]
[buffers.all]
dtype = "f32"
shape = [1024]
[buffers.flat]
dtype = "f32"
shape = [1024]
[[tasks]]
name = "lower half"
program = "k"
kernel = "square"
args = [{ buffer = "x", len = 512 }, "low", 512]
groups = [2]
local = [256]
[[tasks]]
name = "upper half"
program = "k"
kernel = "square"
args = [{ buffer = "x", offset = 512 }, "high", 512]
groups = [2]
local = [256]
[[tasks]]
copy = { from = "low", to = { buffer = "all", len = 512 } }
[[tasks]]
copy = { from = "high", to = { buffer = "all", offset = 512 } }
[[tasks]]
program = "k"
kernel = "unsigned_kernel"
args = ["flat", { u32 = 1024 }, { f32 = 0.25 }]
writes = ["flat"]
groups = [1]
[[tasks]]
program = "k"
kernel = "saxpy"
args = [1.0, "all", "flat", 1024]
groups = [4]
local = [256]
[[outputs]]
buffer = "flat"
file = "flat.raw"
expect = "expected.bin"
[[outputs]]
buffer = "all"
file = "all.npy"
"#,
    );
    let x: Vec<f32> = (0..1024).map(|i| i as f32).collect();
    job.file("x.bin", &bytes(&x));
    let expected: Vec<f32> = x.iter().map(|v| v * v + 0.25).collect();
    job.file("expected.bin", &bytes(&expected));
    for repeat in ["1", "20"] {
        let run = job.run(&[
            "--json",
            "--repeat",
            repeat,
            "--trace",
            "t.json",
            "--timeline",
            "t.svg",
        ]);
        assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
        let json = run.json();
        let queue = |i: usize| json["tasks"][i]["queue"].as_str().unwrap().to_owned();
        assert_ne!(
            queue(0),
            queue(1),
            "halves of one buffer do not depend on each other"
        );
        assert_eq!((queue(2), queue(3)), ("copy 0".into(), "copy 0".into()));
        assert_eq!(json["tasks"][5]["depends_on"], serde_json::json!([2, 3, 4]));
        assert_eq!(floats(&fs::read(job.path("flat.raw")).unwrap()), expected);
        let (header, data) = read_npy(&job.path("all.npy"));
        assert!(header.contains("(1024,"), "{header}");
        assert_eq!(floats(&data), x.iter().map(|v| v * v).collect::<Vec<_>>());
    }
}

#[test]
fn an_output_replaces_its_input_at_the_end() {
    needs_cc!();
    let job = Job::new(&SAXPY.replace("file = \"out.npy\"", "file = \"y.npy\""));
    let run = job.run(&[]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert_eq!(floats(&read_npy(&job.path("y.npy")).1), vec![1000.0; 1000]);
}

#[test]
fn compiler_flags_and_cc_are_used() {
    needs_cc!();
    let job = Job::new(&SAXPY.replace("path = \"k.c\"", "path = \"k.c\"\nflags = [\"-DBROKEN\"]"));
    let source = format!(
        "{}\n#ifdef BROKEN\n#error broken on purpose\n#endif\n",
        common::KERNELS
    );
    job.file("k.c", source.as_bytes());
    let run = job.run(&[]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("broken on purpose"), "{}", run.stderr);
}

#[test]
fn a_shared_object_is_loaded_as_it_is() {
    needs_cc!();
    let job = Job::new(&SAXPY.replace("k.c", "k.so"));
    let header = job.path("hcq.h");
    fs::write(&header, hcq_cli::compile::HEADER).unwrap();
    let status = std::process::Command::new("cc")
        .args(["-O2", "-shared", "-fPIC", "-I"])
        .arg(job.dir.path())
        .arg(job.path("k.c"))
        .arg("-o")
        .arg(job.path("k.so"))
        .status()
        .unwrap();
    assert!(status.success());
    let run = job.run(&[]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
}

/// Whether a process has a handler for the signal of Ctrl-C, by the mask that the system shows.
fn catches_interrupts(pid: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|l| l.strip_prefix("SigCgt:"))
        .unwrap_or("0")
        .trim()
        .to_owned();
    u64::from_str_radix(&mask, 16).unwrap() & 0b10 != 0
}

#[test]
fn ctrl_c_leaves_nothing() {
    needs_cc!();
    let slow = ("slow", "args = [\"u\", 4000000000]");
    let forever = ("forever", "args = [\"u\"]");
    for (kernel, wait_ms) in [(slow, 0), (slow, 100), (slow, 1000), (forever, 1500)] {
        let text = SAXPY
            .replace(
                "[[tasks]]",
                "[buffers.u]\ndtype = \"u32\"\nshape = [1]\n[[tasks]]",
            )
            .replace("\"saxpy\"", &format!("\"{}\"", kernel.0))
            .replace("args = [2.0, \"x\", \"y\", { u32 = 1000 }]", kernel.1);
        let job = Job::new(&text);
        let before = job.names();
        let mut child = job.command(&["run", "job.toml"]).spawn().unwrap();
        let pid = child.id().to_string();
        while !catches_interrupts(&pid) {
            std::thread::sleep(Duration::from_millis(5));
        }
        // By now it compiles, loads or runs; each must end cleanly.
        std::thread::sleep(Duration::from_millis(wait_ms));
        assert!(
            std::process::Command::new("kill")
                .args(["-INT", &pid])
                .status()
                .unwrap()
                .success()
        );
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if began.elapsed() > Duration::from_secs(60) {
                child.kill().unwrap();
                panic!("still running a minute after Ctrl-C");
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        assert_eq!(status.code(), Some(130));
        let mut after = job.names();
        after.retain(|n| !before.contains(n));
        assert!(after.is_empty(), "{after:?}");
    }
}

#[test]
fn a_kernel_that_never_ends_is_a_timeout() {
    needs_cc!();
    let text = SAXPY
        .replace(
            "[[tasks]]",
            "[buffers.u]\ndtype = \"u32\"\nshape = [1]\n[[tasks]]",
        )
        .replace("\"saxpy\"", "\"forever\"")
        .replace(
            "args = [2.0, \"x\", \"y\", { u32 = 1000 }]",
            "args = [\"u\"]",
        );
    let job = Job::new(&text);
    let before = job.names();
    let mut command = job.command(&["run", "job.toml"]);
    let run = common::finish(command.env("HCQDEV_WAIT_TIMEOUT_MS", "2000"));
    assert_eq!(run.code, 3, "{}{}", run.stdout, run.stderr);
    for words in [
        "timed out",
        "HCQDEV_WAIT_TIMEOUT_MS",
        "job.toml:",
        "forever",
    ] {
        assert!(run.stderr.contains(words), "{words}: {}", run.stderr);
    }
    assert_eq!(job.names(), before);
}

#[test]
fn a_kernel_that_crashes_the_process_leaves_nothing() {
    needs_cc!();
    let job = Job::new(SAXPY);
    let source =
        common::KERNELS.replace("args->y[at] += args->a", "*(volatile float *)0 = args->a");
    job.file("k.c", source.as_bytes());
    let before = job.names();
    let out = job
        .command(&["run", "job.toml", "--trace", "t.json"])
        .output()
        .unwrap();
    assert_ne!(out.status.code(), Some(0));
    assert_eq!(job.names(), before);
}

#[test]
fn a_full_standard_output_is_an_io_error() {
    let job = Job::new("");
    let full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let status = job.command(&["devices"]).stdout(full).status().unwrap();
    assert_eq!(status.code(), Some(4));
}
