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
