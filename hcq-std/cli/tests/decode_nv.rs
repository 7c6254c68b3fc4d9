//! `hcq decode` of what NVIDIA's GPUs read: methods and launch descriptors.

#![allow(missing_docs)]

mod common;

use common::Job;
use hcq_golden::{cases, list, name, number, words};

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Every line's offset and text.
fn lines(stdout: &str) -> Vec<(usize, &str)> {
    let line = |l: &str| usize::from_str_radix(l.trim_start_matches("0x"), 16).expect("an offset");
    let parts = stdout.lines().map(|l| l.split_once(": ").expect("a place"));
    parts.map(|(at, text)| (line(at), text)).collect()
}

#[test]
fn recorded_queues() {
    let job = Job::new("");
    for file in [
        "nv-ampere-compute",
        "nv-ada-compute",
        "nv-blackwell-compute",
        "nv-copy",
    ] {
        let (mut joined, mut starts) = (Vec::new(), Vec::new());
        for case in cases(file) {
            // Templates and refused commands have no words of their own.
            if list(&case["expected_words"]).is_empty() {
                continue;
            }
            for op in list(&case["inputs"]["ops"]) {
                let range: Vec<usize> = list(&op["words"])
                    .iter()
                    .map(|n| number(n) as usize)
                    .collect();
                if let [start, end] = range[..]
                    && start < end
                {
                    let what = op["op"].as_str().expect("a command").to_owned();
                    starts.push((joined.len() + start, name(&case).to_owned(), what));
                }
            }
            joined.extend(words(&case["expected_words"]));
        }
        job.file("q.bin", &bytes(&joined));
        let run = job.hcq(&["decode", "--format", "nv", "q.bin"]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{file}");
        let lines = lines(&run.stdout);
        assert!(starts.len() > 10, "{file}");
        for (at, case, op) in starts {
            let line = lines.iter().find(|(a, _)| *a == at);
            let text = line
                .unwrap_or_else(|| panic!("{case}: nothing at {at:#x}"))
                .1;
            let begins: &[&str] = match op.as_str() {
                "wait" => &["SEM_EXECUTE ACQ_CIRC_GEQ"],
                "signal" | "timestamp" => &["SEM_EXECUTE RELEASE", "SET_SEMAPHORE"],
                "copy" => &["OFFSET_IN="],
                _ => &[""],
            };
            assert!(
                begins.iter().any(|b| text.starts_with(b)),
                "{case}: {op} begins with {text}"
            );
        }
        let whole: usize = lines.len();
        assert!(whole > 30 && !run.stdout.contains("??"), "{file}");
    }
}

#[test]
fn words_that_are_no_methods_are_shown_and_counted() {
    let job = Job::new("");
    job.file("q.txt", b"20012 0x2001001e, 0 [0xe0000000] 2001001e 0");
    let run = job.hcq(&["decode", "--format", "nv", "--hex", "q.txt"]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("0x0001: WFI\n"), "{}", run.stdout);
    assert!(
        run.stdout.contains("0x0003: ?? 0xe0000000"),
        "{}",
        run.stdout
    );
    assert!(run.stdout.ends_with("0x0004: WFI\n"), "{}", run.stdout);
    assert!(run.stderr.contains("no packet"), "{}", run.stderr);
}

#[test]
fn launch_descriptors() {
    let job = Job::new("");
    let mut descriptor = [0u32; 64];
    (descriptor[12], descriptor[18]) = (7, 0x30);
    let two = [descriptor, descriptor].concat();
    job.file("q.bin", &bytes(&two));
    let text = "CTA_RASTER_WIDTH=0x7 QMD_MAJOR_VERSION=0x3";
    for chip in ["ad10x", "sm_89", "ga100"] {
        let run = job.hcq(&["decode", "--format", "qmd", "--chip", chip, "q.bin"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(lines(&run.stdout), [(0, text), (64, text)]);
    }
    // Of 96 words there are one and a piece.
    let run = job.hcq(&["decode", "--format", "qmd", "--chip", "sm_90", "q.bin"]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("0x0060: ?? "), "{}", run.stdout);
    for (args, part) in [
        (&["--format", "qmd"][..], "known chips: ga100 (sm_80)"),
        (&["--format", "qmd", "--chip", "gv100"], "\"gv100\""),
        (
            &["--format", "nv", "--sdma-version", "6.0.0"],
            "--sdma-version",
        ),
    ] {
        let all = [&["decode"], args, &["q.bin"]].concat();
        let run = job.hcq(&all);
        assert!(run.code == 2 && run.stderr.contains(part), "{}", run.stderr);
    }
}
