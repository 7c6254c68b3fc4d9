//! The command itself: help, devices, selftest.

#![allow(missing_docs)]

mod common;

use common::Job;

#[test]
fn help_documents_the_exit_codes() {
    let job = Job::new("");
    for args in [
        &["--help"][..],
        &["run", "--help"],
        &["selftest", "--help"],
        &["devices", "--help"],
        &["decode", "--help"],
    ] {
        let run = job.hcq(args);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{args:?}");
        for line in hcq_cli::exit::EXIT_CODES.lines() {
            assert!(
                run.stdout.contains(line.trim()),
                "{args:?} lacks {line}\n{}",
                run.stdout
            );
        }
    }
    let run = job.hcq(&["--version"]);
    assert_eq!(run.stdout, format!("hcq {}\n", env!("CARGO_PKG_VERSION")));
    let run = job.hcq(&[]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("Usage: hcq"), "{}", run.stderr);
}

#[test]
fn devices_lists_the_cpu() {
    let job = Job::new("");
    let run = job.hcq(&["devices"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    assert!(
        run.stdout.lines().any(|l| l.starts_with("cpu")),
        "{}",
        run.stdout
    );
    let json = job.hcq(&["devices", "--json"]).json();
    let devices = json["devices"].as_array().unwrap();
    let cpu = devices.iter().find(|d| d["name"] == "cpu").unwrap();
    assert_eq!(cpu["ready"], true);
    // What is not ready says what was tried and what to do.
    for device in devices.iter().filter(|d| d["ready"] == false) {
        let attempts = device["attempts"].as_array().unwrap();
        assert!(!attempts.is_empty(), "{device}");
        for attempt in attempts {
            assert!(
                attempt["path"].is_string() && attempt["error"].is_string(),
                "{device}"
            );
        }
    }
}

#[test]
fn selftest_runs_what_the_filter_names() {
    let job = Job::new("");
    let run = job.hcq(&["selftest", "--filter", "signal"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let last = run.stdout.lines().last().unwrap();
    let numbers: Vec<u32> = last
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|n| n.parse().ok())
        .collect();
    assert_eq!(
        last,
        format!(
            "{} passed, {} failed, {} skipped",
            numbers[0], numbers[1], numbers[2]
        )
    );
    assert!(numbers[0] > 0 && numbers[1] == 0, "{last}");
    // One line per behaviour and the closing one.
    assert_eq!(
        run.stdout.lines().count() as u32,
        numbers.iter().sum::<u32>() + 1,
        "{}",
        run.stdout
    );

    let json = job.hcq(&["selftest", "--filter", "signal", "--json"]);
    assert_eq!(json.code, 0);
    let value = json.json();
    assert_eq!(
        (&value["passed"], &value["failed"]),
        (&numbers[0].into(), &0.into())
    );
    assert_eq!(
        value["behaviours"].as_array().unwrap().len() as u32,
        numbers.iter().sum::<u32>()
    );
}

#[test]
fn selftest_says_what_is_wrong_with_its_arguments() {
    let job = Job::new("");
    let run = job.hcq(&["selftest", "--filter", "no behaviour is called like this"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("no behaviour"), "{}", run.stderr);
    let run = job.hcq(&["selftest", "--device", "abacus"]);
    assert_eq!(run.code, 3, "{}{}", run.stdout, run.stderr);
}
