//! `hcq decode`: recorded queues become text, other bytes a clear error.

#![allow(missing_docs)]

mod common;

use std::io::Write;
use std::process::Stdio;

use common::Job;
use hcq_golden::{Json, cases, list, name, number, words};

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Every line's offset and text.
fn lines(stdout: &str) -> Vec<(usize, &str)> {
    let line = |l: &str| usize::from_str_radix(l.trim_start_matches("0x"), 16).expect("an offset");
    stdout
        .lines()
        .map(|l| l.split_once(": ").expect("a place"))
        .map(|(at, text)| (line(at), text))
        .collect()
}

/// A case's words. The reference sets more bits of ACQUIRE_MEM.COHER_SIZE_HI than the field's eight, where the size is all.
fn queue(case: &Json) -> Vec<u32> {
    let mut queue = words(&case["expected_words"]);
    for at in 0..queue.len().saturating_sub(3) {
        if [0xc005_5800, 0xc006_5800].contains(&queue[at]) && queue[at + 3] == u32::MAX {
            queue[at + 3] = 0xff;
        }
    }
    queue
}

/// The golden words of a file, each case with its chip, without those that are templates or refused.
fn recorded(file: &str) -> Vec<(String, String, Json)> {
    let all = cases(file)
        .into_iter()
        .filter(|c| !list(&c["expected_words"]).is_empty());
    all.map(|c| {
        let chip = c["inputs"]["device"]["arch"]
            .as_str()
            .expect("a chip")
            .to_owned();
        (name(&c).to_owned(), chip, c)
    })
    .collect()
}

#[test]
fn recorded_compute_queues() {
    let job = Job::new("");
    for file in [
        "amd-gfx1100-pm4",
        "amd-gfx1151-pm4",
        "amd-gfx1201-pm4",
        "amd-gfx942-pm4",
        "amd-gfx950-pm4",
    ] {
        // One run for each chip, all its cases in a row.
        let all = recorded(file);
        let chip = all[0].1.clone();
        let (mut joined, mut starts) = (Vec::new(), Vec::new());
        for (name, _, case) in &all {
            for op in list(&case["inputs"]["ops"]) {
                let range: Vec<usize> = list(&op["words"])
                    .iter()
                    .map(|n| number(n) as usize)
                    .collect();
                if let [start, end] = range[..]
                    && start < end
                {
                    starts.push((
                        joined.len() + start,
                        name.clone(),
                        op["op"].as_str().expect("a command").to_owned(),
                    ));
                }
            }
            joined.extend(queue(case));
        }
        job.file("q.bin", &bytes(&joined));
        let run = job.hcq(&["decode", "--format", "pm4", "--chip", &chip, "q.bin"]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{file}");
        let lines = lines(&run.stdout);
        // What each recorded command begins with, on chips of one XCC and of several.
        for (at, case, op) in starts {
            let text = lines
                .iter()
                .find(|(a, _)| *a == at)
                .unwrap_or_else(|| panic!("{case}: no packet at {at:#x}"))
                .1;
            let begins: &[&str] = match op.as_str() {
                "wait" => &["WAIT_REG_MEM"],
                "timestamp" | "signal" => &["RELEASE_MEM", "PRED_EXEC"],
                "memory_barrier" => &["WAIT_REG_MEM"],
                "exec" => &["ACQUIRE_MEM", "SET_SH_REG"],
                _ => &[""],
            };
            assert!(
                begins.iter().any(|b| text.starts_with(b)),
                "{case}: {op} begins with {text}"
            );
        }
        let dispatches = lines
            .iter()
            .filter(|(_, t)| t.starts_with("DISPATCH_DIRECT"))
            .count();
        assert!(
            dispatches > 3 && run.stdout.contains("COMPUTE_PGM_LO"),
            "{file}: {dispatches}"
        );
    }
}

#[test]
fn recorded_copy_queues() {
    let job = Job::new("");
    let all = recorded("amd-sdma");
    for chip in ["gfx942", "gfx1100", "gfx1201"] {
        let joined: Vec<u32> = all
            .iter()
            .filter(|(_, c, _)| c == chip)
            .flat_map(|(.., case)| queue(case))
            .collect();
        assert!(joined.len() > 100, "{chip}");
        job.file("q.bin", &bytes(&joined));
        let run = job.hcq(&["decode", "--format", "sdma", "--chip", chip, "q.bin"]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{chip}");
        assert!(
            run.stdout.contains("COPY LINEAR") && run.stdout.contains("FENCE"),
            "{chip}"
        );
        // The version wins over the chip.
        let version = match chip {
            "gfx942" => "4.4.2",
            "gfx1100" => "6.0.0",
            _ => "7.0",
        };
        let again = job.hcq(&[
            "decode",
            "--format",
            "sdma",
            "--sdma-version",
            version,
            "q.bin",
        ]);
        assert_eq!((again.code, again.stdout), (0, run.stdout), "{chip}");
    }
    let old = bytes(&queue(&all[0].2));
    job.file("q.bin", &old);
    let run = job.hcq(&[
        "decode",
        "--format=sdma",
        "--chip=gfx1100",
        "--sdma-version=4.4.2",
        "q.bin",
    ]);
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[test]
fn recorded_aql_queues() {
    let job = Job::new("");
    for file in [
        "amd-gfx1100-aql",
        "amd-gfx1201-aql",
        "amd-gfx942-aql",
        "amd-gfx950-aql",
    ] {
        for (name, chip, case) in recorded(file) {
            let packets = queue(&case);
            job.file("q.bin", &bytes(&packets));
            let run = job.hcq(&["decode", "--format", "aql", "--chip", &chip, "q.bin"]);
            assert_eq!(
                (run.code, run.stderr.as_str()),
                (0, ""),
                "{name}: {}",
                run.stdout
            );
            assert_eq!(lines(&run.stdout).len(), packets.len() / 16, "{name}");
        }
    }
}

#[test]
fn recorded_queues_of_adreno() {
    let job = Job::new("");
    for chip in ["a630", "a650", "a660"] {
        let all = cases(&format!("qcom-{chip}"));
        let (mut joined, mut starts) = (Vec::new(), Vec::new());
        for case in &all {
            for op in list(&case["inputs"]["ops"]) {
                let range: Vec<u64> = list(&op["words"]).iter().map(number).collect();
                // Cases of variables have no words.
                if let [start, end] = range[..]
                    && start < end
                    && end as usize <= list(&case["expected_words"]).len()
                {
                    let what = op["op"].as_str().expect("a command").to_owned();
                    starts.push((joined.len() + start as usize, what));
                }
            }
            joined.extend(words(&case["expected_words"]));
        }
        assert!(joined.len() > 500, "{chip}: {}", joined.len());
        job.file("q.bin", &bytes(&joined));
        let run = job.hcq(&["decode", "--format", "adreno", "--chip", chip, "q.bin"]);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{chip}");
        let decoded = lines(&run.stdout);
        for (at, op) in starts {
            // Every command begins where a packet does.
            let text = decoded.iter().find(|(a, _)| *a == at);
            let text = text.unwrap_or_else(|| panic!("{chip}: {op} at {at:#x}")).1;
            let begins = match op.as_str() {
                "wait" => "CP_WAIT_REG_MEM",
                "timestamp" | "signal" => "CP_WAIT_FOR_IDLE",
                "memory_barrier" => "CP_EVENT_WRITE",
                "exec" => "CP_SET_MARKER",
                _ => "",
            };
            assert!(text.starts_with(begins), "{chip}: {op} begins with {text}");
        }
        assert!(run.stdout.contains("SP_CS_CTRL_REG0"), "{chip}");
        // Packets are the same on all chips that are known.
        let plain = job.hcq(&["decode", "--format", "adreno", "q.bin"]);
        assert_eq!((plain.code, plain.stdout), (0, run.stdout), "{chip}");
    }
    job.file("bad.bin", &bytes(&[0x7026_8000, 0x7033_0004]));
    let run = job.hcq(&["decode", "--format", "adreno", "bad.bin"]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("0x0001: ??"), "{}", run.stdout);
    let run = job.hcq(&["decode", "--format", "adreno", "--chip", "a512", "bad.bin"]);
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("known chips: a618, a630") && run.stderr.contains("a690, a730"),
        "{}",
        run.stderr
    );
    // An event of A7xx, which is none of A6xx.
    job.file("a7xx.bin", &bytes(&[0x7046_8003, 0x0830_0016, 0x48, 5]));
    let run = job.hcq(&["decode", "--format=adreno", "--chip=a740", "a7xx.bin"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""));
    let text = "CP_EVENT_WRITE7 EVENT=RB_DONE_TS WRITE_SRC=EV_WRITE_ALWAYSON WRITE_DST=EV_DST_RAM WRITE_ENABLED ADDR=0x500000048";
    assert!(run.stdout.contains(text), "{}", run.stdout);
    let run = job.hcq(&["decode", "--format=adreno", "--chip=a650", "a7xx.bin"]);
    assert_eq!(run.code, 1);
    assert!(run.stdout.contains("0x0000: ??"), "{}", run.stdout);
    let run = job.hcq(&[
        "decode",
        "--format=adreno",
        "--sdma-version=6.0.0",
        "bad.bin",
    ]);
    assert_eq!(run.code, 2);
}

#[test]
fn text_and_standard_input_are_the_same_as_a_file() {
    let job = Job::new("");
    let queue = queue(&recorded("amd-gfx1100-pm4")[0].2);
    job.file("q.bin", &bytes(&queue));
    let text: String = queue.iter().map(|w| format!("{w:08x}\n")).collect();
    job.file("q.txt", format!("# words\n{text}").as_bytes());
    let pm4 = ["decode", "--format", "pm4", "--chip", "gfx1100"];
    let want = job.hcq(&[&pm4[..], &["q.bin"]].concat());
    assert!(
        want.code == 0 && want.stdout.contains("RELEASE_MEM"),
        "{}{}",
        want.stdout,
        want.stderr
    );
    let run = job.hcq(&[&pm4[..], &["--hex", "q.txt"]].concat());
    assert_eq!((run.code, &run.stdout), (0, &want.stdout));

    let mut command = job.command(&[&pm4[..], &["-"]].concat());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(&bytes(&queue))
        .expect("written");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8(output.stdout).expect("text"), want.stdout);

    let json = job.hcq(&[&pm4[..], &["q.bin", "--json"]].concat()).json();
    assert_eq!(
        (&json["ok"], &json["exit_code"], &json["words"]),
        (&true.into(), &0.into(), &queue.len().into())
    );
    let all: Vec<String> = list(&json["packets"])
        .iter()
        .map(|p| {
            format!(
                "{:#06x}: {}\n",
                p["offset"].as_u64().expect("an offset"),
                p["text"].as_str().expect("text")
            )
        })
        .collect();
    assert_eq!(all.concat(), want.stdout);
    let again: Vec<u32> = list(&json["packets"])
        .iter()
        .flat_map(|p| words(&p["words"]))
        .collect();
    assert_eq!(again, queue);

    // No words: nothing to say.
    job.file("empty", b"");
    for more in [&["empty"][..], &["--hex", "empty"]] {
        let run = job.hcq(&[&pm4[..], more].concat());
        assert_eq!(
            (run.code, run.stdout.as_str(), run.stderr.as_str()),
            (0, "", "")
        );
    }
}

#[test]
fn words_that_are_no_packet_are_shown_and_counted() {
    let job = Job::new("");
    // An unknown opcode, whose length is known; no header; a packet; one that is cut off.
    let queue = [
        0xc001_ff00,
        1,
        2,
        0x1234_5678,
        0xc000_4600,
        0x407,
        0xc006_4900,
        0,
    ];
    job.file("q.bin", &bytes(&queue));
    let args = ["decode", "--format", "pm4", "--chip", "gfx1100", "q.bin"];
    let run = job.hcq(&args);
    assert_eq!(run.code, 1);
    let lines = lines(&run.stdout);
    assert_eq!(
        lines.iter().map(|l| l.0).collect::<Vec<_>>(),
        [0, 3, 4, 6],
        "{}",
        run.stdout
    );
    assert_eq!(
        lines
            .iter()
            .map(|l| l.1.starts_with("??"))
            .collect::<Vec<_>>(),
        [true, true, false, true]
    );
    assert!(
        run.stderr
            .contains("3 places hold no packet; the first is word 0x0000"),
        "{}",
        run.stderr
    );
    let json = job.hcq(&[&args[..], &["--json"]].concat());
    assert_eq!(json.code, 1);
    let value = json.json();
    assert_eq!(
        (&value["ok"], &value["exit_code"]),
        (&false.into(), &1.into())
    );
    let ok: Vec<bool> = list(&value["packets"])
        .iter()
        .map(|p| p["ok"].as_bool().expect("yes or no"))
        .collect();
    assert_eq!(ok, [false, false, true, false]);
}

#[test]
fn what_is_wrong_is_said() {
    let job = Job::new("");
    job.file("odd.bin", &[1, 2, 3, 4, 0xff, 6]);
    job.file("words.txt", b"c0004600 407\n");
    job.file("bad.txt", b"c0004600\n407 # fine\nc00xyz00\n");
    let pm4 = ["decode", "--format", "pm4", "--chip", "gfx1100"];
    let cases: &[(&[&str], i32, &[&str])] = &[
        (&["decode", "odd.bin"], 2, &["--format"]),
        (
            &["decode", "--format", "sparc", "odd.bin"],
            2,
            &["sparc", "pm4", "aql", "sdma"],
        ),
        (
            &["decode", "--format", "pm4", "odd.bin"],
            2,
            &["--chip", "gfx942", "gfx1201"],
        ),
        (
            &["decode", "--format", "pm4", "--chip", "gfx803", "odd.bin"],
            2,
            &["\"gfx803\"", "known chips: gfx942, gfx950"],
        ),
        (
            &["decode", "--format", "sdma", "odd.bin"],
            2,
            &["--sdma-version", "--chip"],
        ),
        (
            &[
                "decode",
                "--format",
                "sdma",
                "--sdma-version",
                "9.9.9",
                "odd.bin",
            ],
            2,
            &["SDMA 9.9.9", "6.0.0"],
        ),
        (
            &[
                "decode",
                "--format",
                "sdma",
                "--sdma-version",
                "six",
                "odd.bin",
            ],
            2,
            &["\"six\"", "6.0.0"],
        ),
        (
            &[
                "decode",
                "--format",
                "sdma",
                "--sdma-version",
                "6.0.0.0",
                "odd.bin",
            ],
            2,
            &["6.0.0.0"],
        ),
        (
            &[
                "decode",
                "--format",
                "aql",
                "--sdma-version",
                "6.0.0",
                "odd.bin",
            ],
            2,
            &["--format sdma"],
        ),
        (
            &[&pm4[..], &["odd.bin"]].concat(),
            2,
            &["odd.bin", "6 bytes"],
        ),
        (
            &[&pm4[..], &["words.txt"]].concat(),
            2,
            &["words.txt", "13 bytes", "--hex"],
        ),
        (
            &[&pm4[..], &["--hex", "bad.txt"]].concat(),
            2,
            &["bad.txt:3", "c00xyz00"],
        ),
        (
            &[&pm4[..], &["--hex", "odd.bin"]].concat(),
            2,
            &["odd.bin:1", "no text"],
        ),
        (
            &[&pm4[..], &["absent.bin"]].concat(),
            4,
            &["absent.bin", "No such file"],
        ),
        (&[&pm4[..], &["."]].concat(), 4, &["cannot read"]),
    ];
    for (args, code, wanted) in cases {
        let run = job.hcq(args);
        assert_eq!(
            (run.code, run.stdout.as_str()),
            (*code, ""),
            "{args:?} {}",
            run.stderr
        );
        for words in *wanted {
            assert!(
                run.stderr.contains(words),
                "{args:?} lacks {words:?}\n{}",
                run.stderr
            );
        }
        let json = job.hcq(&[args, &["--json"][..]].concat());
        assert_eq!(
            (json.code, json.json()["exit_code"].as_i64()),
            (*code, Some((*code).into())),
            "{args:?}"
        );
    }
    // More than any queue holds is not even tried; the file takes no room.
    std::fs::File::create(job.path("huge.bin"))
        .and_then(|f| f.set_len(1 << 40))
        .expect("a sparse file");
    let run = job.hcq(&[&pm4[..], &["huge.bin"]].concat());
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("more than 256 MiB"), "{}", run.stderr);
}
