//! The scripts of `tests/device`, as far as they go without a card.

#![allow(missing_docs)]

mod common;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::needs_cc;
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/device")
}

/// Whether there is Python. If not, says so where no capture hides it, to be counted.
fn have_python(test: &str) -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok();
    if !found {
        let _ = writeln!(std::io::stderr(), "skipped: {test}: python3");
    }
    found
}

fn graph(libraries: &Path, wrong: &str, args: &[&str]) -> (i32, String, String) {
    let ran = Command::new("python3")
        .arg("-B")
        .arg(folder().join("cuda_graph.py"))
        .args(args)
        .env("LD_LIBRARY_PATH", libraries)
        .env("FAKE_CUDA", wrong)
        .output();
    let Output {
        status,
        stdout,
        stderr,
    } = ran.expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code().expect("it ends"), text(stdout), text(stderr))
}

#[test]
fn without_a_card_the_check_says_so() {
    if Path::new("/dev/nvidiactl").exists() {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: without_a_card_the_check_says_so: a machine without a card"
        );
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    // A report is where the caller says, and not where the script goes.
    let ran = Command::new("bash")
        .arg(folder().join("nv.sh"))
        .arg("report.txt")
        .current_dir(dir.path())
        .env_remove("DEVICE")
        .output()
        .expect("bash");
    assert!(ran.status.success());
    assert_eq!(ran.stdout, b"skipped: no NVIDIA device\n");
    let report = std::fs::read(dir.path().join("report.txt"));
    assert_eq!(report.expect("a report"), ran.stdout);
}

#[test]
fn a_cuda_graph_is_measured_and_its_outputs_are_checked() {
    needs_cc!();
    if !have_python("a_cuda_graph_is_measured_and_its_outputs_are_checked") {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let built = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
        .arg(dir.path().join("libcuda.so.1"))
        .arg(folder().join("fake_cuda.c"))
        .output()
        .expect("cc");
    assert!(
        built.status.success(),
        "{}",
        String::from_utf8_lossy(&built.stderr)
    );

    let (code, stdout, stderr) = graph(dir.path(), "", &["--launches", "20"]);
    assert_eq!(code, 0, "{stderr}");
    let json: Value = serde_json::from_str(&stdout).expect("one object");
    assert_eq!(json["target"], "sm_90");
    assert_eq!(json["cuda"], "13.0");
    assert_eq!(json["launches"], 20);
    let ns = |field: &str| json[field].as_f64().expect("a number");
    assert!(0.0 < ns("host_ns") && ns("host_ns") <= ns("total_ns"));

    for (wrong, wanted, words) in [
        ("init", 3, "cuInit: CUDA_ERROR_NO_DEVICE"),
        ("launch", 1, "cuGraphLaunch: CUDA_ERROR_LAUNCH_FAILED"),
        ("result", 1, "y is not as expected"),
    ] {
        let (code, stdout, stderr) = graph(dir.path(), wrong, &["--launches", "5"]);
        assert_eq!(
            (code, stdout.as_str(), stderr.trim()),
            (wanted, "", words),
            "{wrong}"
        );
    }
    let (code, _, stderr) = graph(dir.path(), "", &["--device", "1"]);
    assert_eq!((code, stderr.trim()), (1, "cuDeviceGet: error 1"));
    let (code, _, stderr) = graph(dir.path(), "", &["--objects", "/nowhere"]);
    assert_eq!((code, stderr.trim()), (3, "no /nowhere/saxpy-sm_90.cubin"));
}

#[test]
fn a_cuda_graph_needs_cuda_and_numbers() {
    if !have_python("a_cuda_graph_needs_cuda_and_numbers") {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    // Where there is CUDA, there are no cubins.
    let (code, stdout, stderr) = graph(dir.path(), "", &["--objects", "/nowhere"]);
    assert_eq!((code, stdout.as_str()), (3, ""), "{stderr}");
    assert!(
        stderr.starts_with("no ") || stderr.starts_with("cuInit: "),
        "{stderr}"
    );
    for args in [
        &["--launches", "0"][..],
        &["--launches", "many"],
        &["--device"],
        &["saxpy.cubin", "vadd.cubin"],
    ] {
        let (code, stdout, stderr) = graph(dir.path(), "", args);
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}");
        assert!(stderr.contains("usage: cuda_graph.py"), "{stderr}");
    }
}
