//! The examples of the project end with checked outputs.

#![allow(missing_docs)]

mod common;

use std::fs;
use std::path::Path;

use common::{Job, needs_cc};

/// A copy of an example, so that its outputs land elsewhere.
fn copy_of(name: &str) -> Job {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples")
        .join(name);
    let dir = tempfile::Builder::new()
        .prefix("hcq-example-")
        .tempdir()
        .unwrap();
    for entry in fs::read_dir(&from).unwrap_or_else(|e| panic!("{}: {e}", from.display())) {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
        }
    }
    Job { dir }
}

fn checked(name: &str, checks: usize) {
    for repeat in ["1", "3"] {
        let job = copy_of(name);
        let run = job.run(&["--json", "--repeat", repeat]);
        assert_eq!(run.code, 0, "{name}: {}{}", run.stdout, run.stderr);
        let json = run.json();
        let done = json["checks"].as_array().unwrap();
        assert_eq!(done.len(), checks);
        assert!(
            done.iter()
                .all(|c| c["ok"] == true && c["elements"].as_u64() > Some(0)),
            "{json}"
        );
    }
}

#[test]
fn saxpy() {
    needs_cc!();
    checked("saxpy", 2);
}

#[test]
fn image() {
    needs_cc!();
    checked("image", 2);
}

#[test]
fn matmul() {
    needs_cc!();
    checked("matmul", 1);
}

/// The example of GPUs, whose programs are the golden objects.
fn gpu() -> Job {
    let job = copy_of("gpu");
    let objects = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/objects");
    let objects = objects.canonicalize().unwrap();
    let file = job.dir.path().join("job.toml");
    let text = fs::read_to_string(&file).unwrap();
    let there = text.replace("../../tests/vectors/objects", objects.to_str().unwrap());
    assert_ne!(text, there);
    fs::write(&file, there).unwrap();
    job
}

#[test]
fn code_objects_run_on_simulated_gpus() {
    for device in [
        "sim:amd-gfx942",
        "sim:amd-gfx1100",
        "sim:amd-gfx1100,aql",
        "sim:amd-gfx1201",
    ] {
        let run = gpu().run(&["--json", "--device", device]);
        assert_eq!(run.code, 0, "{device}: {}{}", run.stdout, run.stderr);
        let json = run.json();
        let checks = json["checks"].as_array().unwrap();
        assert_eq!(checks.len(), 2, "{json}");
        assert!(checks.iter().all(|c| c["ok"] == true), "{json}");
    }
}

#[test]
fn programs_of_another_device_are_refused_in_words() {
    // There is no object for this chip.
    let run = gpu().run(&["--device", "sim:amd-gfx1151"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("saxpy-gfx1151.co"), "{}", run.stderr);
    needs_cc!();
    let run = copy_of("saxpy").run(&["--device", "sim:amd-gfx1100"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    let wanted = "a .c file is compiled for the processor: give a code object for gfx1100";
    assert!(run.stderr.contains(wanted), "{}", run.stderr);
}
