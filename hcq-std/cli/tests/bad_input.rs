//! Bad input, nothing lost: a clear error with file, line and key, the right exit code, nothing left behind.

#![allow(missing_docs)]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use common::{Job, Run, bytes, needs_cc, npy};

const GOOD: &str = r#"[programs.k]
path = "k.c"
[buffers.x]
file = "x.npy"
[buffers.y]
file = "y.npy"
[[tasks]]
program = "k"
kernel = "saxpy"
args = [2.0, "x", "y", 1000]
groups = [4]
local = [256]
[[outputs]]
buffer = "y"
file = "out.npy"
expect = "expected.npy"
"#;

/// Runs `GOOD` with `old` replaced by `new`, after `prepare`; the error has `words`, the exit code is `code`, and no
/// file is there that was not before.
#[track_caller]
fn refused(old: &str, new: &str, prepare: impl FnOnce(&Job), code: i32, words: &str) -> Run {
    assert!(GOOD.contains(old), "{old}");
    let job = Job::new(&GOOD.replacen(old, new, 1));
    prepare(&job);
    let before = job.names();
    let run = job.run(&[]);
    assert_eq!(run.code, code, "{}{}", run.stdout, run.stderr);
    assert!(
        run.stderr.contains(words),
        "wanted {words:?} in:\n{}",
        run.stderr
    );
    assert_eq!(run.stdout, "");
    assert_eq!(job.names(), before);
    // The same as one JSON object on standard output.
    let json = job.run(&["--json"]);
    assert_eq!(json.code, code);
    let value = json.json();
    assert_eq!(
        (&value["ok"], &value["exit_code"]),
        (&false.into(), &code.into())
    );
    assert!(
        value["errors"].as_array().is_some_and(|e| !e.is_empty()),
        "{value}"
    );
    assert_eq!(job.names(), before);
    run
}

fn nothing(_: &Job) {}

#[test]
fn the_good_job_is_good() {
    needs_cc!();
    let job = Job::new(GOOD);
    let run = job.run(&[]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert!(run.stdout.contains("check ok: y against"), "{}", run.stdout);
}

#[test]
fn unknown_keys() {
    refused(
        "groups = [4]",
        "group = [4]",
        nothing,
        2,
        "job.toml:11: tasks[0].group: unknown key",
    );
    refused(
        "[programs.k]",
        "verbose = true\n[programs.k]",
        nothing,
        2,
        "job.toml:1: verbose: unknown key",
    );
}

#[test]
fn zero_and_huge_sizes() {
    refused(
        "groups = [4]",
        "groups = [0]",
        nothing,
        2,
        "job.toml:11: tasks[0].groups[0]: 0 is out of range",
    );
    let shape = |shape: &str| format!("dtype = \"f32\"\nshape = {shape}");
    refused(
        "file = \"x.npy\"",
        &shape("[0]"),
        nothing,
        2,
        "job.toml:5: buffers.x.shape[0]: 0 is out of range",
    );
    refused(
        "file = \"x.npy\"",
        &shape("[9223372036854775807]"),
        nothing,
        2,
        "job.toml:5: buffers.x.shape",
    );
    refused(
        "file = \"x.npy\"",
        &shape("[99999999999, 99999999999]"),
        nothing,
        2,
        "job.toml:5: buffers.x.shape",
    );
}

#[test]
fn truncated_and_wrong_npy() {
    let x = |contents: Vec<u8>| move |job: &Job| job.file("x.npy", &contents);
    let data = bytes(&[0.0; 1000]);
    let at = "job.toml:4: buffers.x.file: ";
    for (contents, words) in [
        (Vec::new(), "not a .npy file"),
        (b"not an array".to_vec(), "not a .npy file"),
        (b"\x93NUMPY\x01".to_vec(), "malformed header"),
        (
            b"\x93NUMPY\x02\x00\xff\xff\xff\xff{".to_vec(),
            "the header claims 4294967295 bytes",
        ),
        (
            npy("<f4", "False", "(1000,)", &data[..3999]),
            "truncated: the header promises 4000 bytes of data, the file has 3999",
        ),
        (
            npy("<f4", "False", "(1000,)", &data)[..40].to_vec(),
            "the header claims",
        ),
        (
            npy("<f4", "False", "(999,)", &data),
            "too long: the header promises 3996 bytes",
        ),
        (
            npy("<f4", "False", "(9223372036854775807, 2)", &data),
            "too large",
        ),
        (
            npy("<f4", "False", "(4611686018427387904,)", &data),
            "too large",
        ),
        (npy("<f4", "False", "(0,)", &[]), "is empty"),
        (npy(">f4", "False", "(1000,)", &data), "big-endian"),
        (
            npy("<f2", "False", "(2000,)", &data),
            "element type <f2 is not supported",
        ),
        (npy("|O", "False", "(500,)", &data), "not supported"),
        (
            npy("<f4", "True", "(10, 100)", &data),
            "Fortran (column-major) order",
        ),
        (
            npy("<f4", "False", "((((((((((((((((", &data),
            "malformed header",
        ),
    ] {
        let run = refused("", "", x(contents), 2, words);
        assert!(run.stderr.contains(at), "{}", run.stderr);
    }
}

#[test]
fn wrong_raw_files() {
    let raw = |more: &str| format!("file = \"x.bin\"\ndtype = \"f32\"{more}");
    let file = |len: usize| move |job: &Job| job.file("x.bin", &vec![0; len]);
    refused(
        "file = \"x.npy\"",
        &raw(""),
        file(4001),
        2,
        "job.toml:4: buffers.x.file: ",
    );
    refused("file = \"x.npy\"", &raw(""), file(0), 2, "is empty");
    refused(
        "file = \"x.npy\"",
        &raw("\nshape = [10, 10]"),
        file(4000),
        2,
        "job.toml:6: buffers.x.shape: ",
    );
    refused(
        "file = \"x.npy\"",
        &raw(""),
        |_| (),
        4,
        "job.toml:4: buffers.x.file: cannot open",
    );
}

#[test]
fn declared_and_real_types() {
    let more = |more: &str| format!("file = \"x.npy\"\n{more}");
    refused(
        "file = \"x.npy\"",
        &more("dtype = \"i32\""),
        nothing,
        2,
        "job.toml:5: buffers.x.dtype: ",
    );
    refused(
        "file = \"x.npy\"",
        &more("shape = [10, 100]"),
        nothing,
        2,
        "has shape [1000], not [10, 100]",
    );
}

#[test]
fn files_that_are_not_there_or_not_files() {
    refused(
        "\"x.npy\"",
        "\"none.npy\"",
        nothing,
        4,
        "job.toml:4: buffers.x.file: cannot open",
    );
    refused(
        "\"x.npy\"",
        "\"dir.npy\"",
        |j| fs::create_dir(j.path("dir.npy")).unwrap(),
        2,
        "is not a regular file",
    );
    refused(
        "\"expected.npy\"",
        "\"none.npy\"",
        nothing,
        4,
        "job.toml:16: outputs[0].expect: cannot open",
    );
    let job = Job::new(GOOD);
    let run = job.hcq(&["run", "other.toml"]);
    assert_eq!(run.code, 2);
    assert!(
        run.stderr
            .contains("cannot open the job file other.toml: No such file"),
        "{}",
        run.stderr
    );
}

#[test]
fn an_expected_file_must_fit() {
    let expected = |descr: &'static str, shape: &'static str| {
        move |job: &Job| job.npy("expected.npy", descr, shape, &bytes(&[0.0; 1000]))
    };
    refused(
        "",
        "",
        expected("<i4", "(1000,)"),
        2,
        "job.toml:16: outputs[0].expect: ",
    );
    refused(
        "",
        "",
        expected("<f4", "(10, 100)"),
        2,
        "has shape [10, 100], the buffer [1000]",
    );
}

#[test]
fn outputs_that_cannot_be_written() {
    refused(
        "\"out.npy\"",
        "\"no/such/out.npy\"",
        nothing,
        4,
        "job.toml:15: outputs[0].file: cannot write",
    );
    refused(
        "\"out.npy\"",
        "\"dir.npy\"",
        |j| fs::create_dir(j.path("dir.npy")).unwrap(),
        4,
        "it is a directory",
    );
    let read_only = |job: &Job| {
        job.file("out.npy", b"kept");
        fs::set_permissions(job.path("out.npy"), fs::Permissions::from_mode(0o444)).unwrap();
    };
    refused("", "", read_only, 4, "it exists and is read-only");
    let job = Job::new(GOOD);
    for option in ["--trace", "--timeline"] {
        let run = job.run(&[option, "no/such/file"]);
        assert_eq!(run.code, 4);
        assert!(
            run.stderr
                .contains(&format!("{option}: cannot write no/such/file")),
            "{}",
            run.stderr
        );
        let run = job.run(&[option, "/dev/full"]);
        assert_eq!(run.code, 4);
        assert!(run.stderr.contains("not a regular file"), "{}", run.stderr);
    }
    let run = job.run(&["--trace", "out.npy"]);
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("--trace") && run.stderr.contains("also written by something else"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_device_that_is_not_there() {
    refused(
        "[programs.k]",
        "device = \"abacus\"\n[programs.k]",
        nothing,
        3,
        "job.toml:1: device: ",
    );
    let job = Job::new(GOOD);
    let run = job.run(&["--device", "abacus"]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    assert!(run.stderr.contains("abacus"), "{}", run.stderr);
}

#[test]
fn no_compiler() {
    let job = Job::new(GOOD);
    let before = job.names();
    let run = common::finish(
        job.command(&["run", "job.toml"])
            .env("CC", "no-such-compiler -m64"),
    );
    assert_eq!(run.code, 2);
    let words = "job.toml:2: programs.k.path: no C compiler: `no-such-compiler` was not found";
    assert!(
        run.stderr.contains(words) && run.stderr.contains("$CC"),
        "{}",
        run.stderr
    );
    assert_eq!(
        job.names(),
        [&before[..], &["tmp".to_owned()]]
            .concat()
            .into_iter()
            .filter(|n| n != "tmp")
            .collect::<Vec<_>>()
    );
}

#[test]
fn programs_that_do_not_compile_or_load() {
    needs_cc!();
    let run = refused(
        "",
        "",
        |j| j.file("k.c", b"int x = ;\n"),
        2,
        "job.toml:2: programs.k.path: ",
    );
    assert!(
        run.stderr.contains("does not compile") && run.stderr.contains("k.c:1:"),
        "{}",
        run.stderr
    );
    refused(
        "\"k.c\"",
        "\"none.c\"",
        nothing,
        4,
        "job.toml:2: programs.k.path: cannot open",
    );
    let garbage = |job: &Job| job.file("k.so", b"garbage");
    refused(
        "\"k.c\"",
        "\"k.so\"",
        garbage,
        2,
        "job.toml:2: programs.k.path: cannot load",
    );
    refused(
        "\"k.c\"",
        "\"none.so\"",
        nothing,
        2,
        "job.toml:2: programs.k.path: cannot load",
    );
}

#[test]
fn kernels_that_do_not_fit() {
    needs_cc!();
    let args = "args = [2.0, \"x\", \"y\", 1000]";
    refused(
        "\"saxpy\"",
        "\"saxpi\"",
        nothing,
        2,
        "job.toml:9: tasks[0].kernel: k.c has no kernel `saxpi`\n  help: a kernel must be a visible symbol",
    );
    refused(
        args,
        "args = [2.0, \"x\", \"y\"]",
        nothing,
        2,
        "kernel saxpy takes 4 arguments, 3 are given",
    );
    refused(
        args,
        "args = [\"x\", 2.0, \"y\", 1000]",
        nothing,
        2,
        "job.toml:10: tasks[0].args[0]: a buffer is given for f32 a",
    );
    refused(
        args,
        "args = [{ f64 = 2.0 }, \"x\", \"y\", 1000]",
        nothing,
        2,
        "tasks[0].args[0]: a number of type f64",
    );
    refused(
        args,
        "args = [2.0, \"x\", \"y\", -1]",
        nothing,
        2,
        "tasks[0].args[3]: -1 does not fit u32",
    );
    let other = "[buffers.i]\ndtype = \"i32\"\nshape = [1000]\n[[tasks]]";
    let job = Job::new(&GOOD.replacen("[[tasks]]", other, 1).replacen(
        "\"x\", \"y\"",
        "\"i\", \"y\"",
        1,
    ));
    let run = job.run(&[]);
    assert_eq!(run.code, 2);
    assert!(
        run.stderr
            .contains("a buffer of i32 is given for const f32 *x"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_queue_that_is_not_there() {
    needs_cc!();
    refused(
        "groups = [4]",
        "groups = [4]\nqueue = 99",
        nothing,
        2,
        "job.toml:12: tasks[0].queue: queue 99 does not exist",
    );
}

#[test]
fn copies_that_overlap_or_differ() {
    let tail = "[[outputs]]";
    let copy = |copy: &str| format!("[[tasks]]\ncopy = {copy}\n[[outputs]]");
    needs_cc!();
    let overlap =
        r#"{ from = { buffer = "x", len = 10 }, to = { buffer = "x", offset = 9, len = 10 } }"#;
    refused(
        tail,
        &copy(overlap),
        nothing,
        2,
        "job.toml:13: tasks[1]: bytes 0..40 and 36..76 of the same buffer overlap",
    );
    let unequal = r#"{ from = "x", to = { buffer = "y", len = 10 } }"#;
    refused(
        tail,
        &copy(unequal),
        nothing,
        2,
        "job.toml:13: tasks[1]: the copy is of 4000 bytes into 40 bytes",
    );
    let outside =
        r#"{ from = { buffer = "x", offset = 999, len = 2 }, to = { buffer = "y", len = 2 } }"#;
    refused(
        tail,
        &copy(outside),
        nothing,
        2,
        "job.toml:14: tasks[1].copy.from.len: elements 999 to 999 + 2 are past the end",
    );
}

#[test]
fn more_memory_than_there_is() {
    needs_cc!();
    let huge = "dtype = \"f64\"\nshape = [1000000000000000]";
    let run = refused("file = \"x.npy\"", huge, nothing, 2, "");
    assert!(run.stderr.contains("buffer of f64"), "{}", run.stderr);
    let huge = "[buffers.huge]\ndtype = \"f64\"\nshape = [1000000000000000]\n[[tasks]]";
    refused("[[tasks]]", huge, nothing, 3, "job.toml:7: buffers.huge: ");
}

#[test]
fn usage_errors() {
    let job = Job::new(GOOD);
    for args in [
        &["run"][..],
        &["run", "job.toml", "--repeat", "0"],
        &["run", "job.toml", "--repeat", "-1"],
        &["walk"],
        &["run", "a", "--colour"],
    ] {
        let run = job.hcq(args);
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}");
        assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
        let json = job.hcq(&[args, &["--json"]].concat());
        assert_eq!(
            (json.code, &json.json()["errors"][0]["kind"]),
            (2, &"usage".into()),
            "{args:?}"
        );
    }
}
