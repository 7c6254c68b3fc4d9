//! A directory with a job in it, and the command run on it.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    unused_macros,
    reason = "shared by several test programs, each using a part"
)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A kernel of each kind that the tests need.
pub const KERNELS: &str = r#"
#include "hcq.h"
HCQ_KERNEL(saxpy, float a; const float *x; float *y; uint32_t n;)
{
    for (uint32_t i = 0; i < group->local[0]; i++) {
        uint32_t at = group->group[0] * group->local[0] + i;
        if (at < args->n)
            args->y[at] += args->a * args->x[at];
    }
}
HCQ_KERNEL(square, const float *x; float *y; uint32_t n;)
{
    for (uint32_t i = 0; i < group->local[0]; i++) {
        uint32_t at = group->group[0] * group->local[0] + i;
        if (at < args->n)
            args->y[at] = args->x[at] * args->x[at];
    }
}
HCQ_KERNEL(forever, volatile uint32_t *x;)
{
    (void)group;
    while (!args->x[0]) { }
}
HCQ_KERNEL(slow, uint32_t *x; uint32_t n;)
{
    (void)group;
    for (uint32_t i = 0; i < args->n; i++)
        ((volatile uint32_t *)args->x)[0] += 1;
}
__attribute__((visibility("default"))) void unsigned_kernel(const void *args, const struct hcq_group *group)
{
    struct block { float *y; uint32_t n; float v; };
    const struct block *b = args;
    (void)group;
    for (uint32_t i = 0; i < b->n; i++)
        b->y[i] = b->v;
}
"#;

pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("{e}\n{}\n{}", self.stdout, self.stderr))
    }
}

/// Every field of an object that `--json` prints is in the README.
pub fn readme_knows(object: &Value) {
    let readme = include_str!("../../README.md");
    for field in object.as_object().unwrap().keys() {
        let known = readme.contains(&format!("`{field}`"));
        assert!(known, "the README does not know {field}");
    }
}

pub struct Job {
    pub dir: TempDir,
}

impl Job {
    /// A directory with `job.toml`, `k.c` and the data that most jobs use.
    pub fn new(text: &str) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("hcq-test-")
            .tempdir()
            .unwrap();
        let job = Self { dir };
        job.file("job.toml", text.as_bytes());
        job.file("k.c", KERNELS.as_bytes());
        let x: Vec<f32> = (0..1000).map(|i| i as f32 * 0.5).collect();
        let y: Vec<f32> = (0..1000).map(|i| 1000.0 - i as f32).collect();
        job.npy("x.npy", "<f4", "(1000,)", &bytes(&x));
        job.npy("y.npy", "<f4", "(1000,)", &bytes(&y));
        let sum: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 2.0 * x + y).collect();
        job.npy("expected.npy", "<f4", "(1000,)", &bytes(&sum));
        job
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn file(&self, name: &str, contents: &[u8]) {
        fs::write(self.path(name), contents).unwrap();
    }

    /// A .npy file made by hand, as numpy lays it out.
    pub fn npy(&self, name: &str, descr: &str, shape: &str, data: &[u8]) {
        self.file(name, &npy(descr, "False", shape, data));
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hcq"));
        command
            .args(args)
            .current_dir(self.dir.path())
            .env_remove("CC")
            .stdin(Stdio::null());
        // What the command leaves in the directory for temporary files is looked for, too.
        fs::create_dir_all(self.path("tmp")).unwrap();
        command.env("TMPDIR", self.path("tmp"));
        command
    }

    pub fn hcq(&self, args: &[&str]) -> Run {
        finish(&mut self.command(args))
    }

    pub fn run(&self, more: &[&str]) -> Run {
        self.hcq(&[&["run", "job.toml"], more].concat())
    }

    /// Every file, also hidden ones, with the directory for temporary files.
    pub fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for dir in [self.dir.path().to_owned(), self.path("tmp")] {
            let Ok(entries) = fs::read_dir(&dir) else {
                continue;
            };
            names.extend(entries.map(|e| {
                e.unwrap()
                    .path()
                    .strip_prefix(self.dir.path())
                    .unwrap()
                    .display()
                    .to_string()
            }));
        }
        names.sort();
        names.retain(|n| n != "tmp");
        names
    }
}

pub fn finish(command: &mut Command) -> Run {
    let out = command.output().unwrap();
    Run {
        code: out
            .status
            .code()
            .unwrap_or_else(|| panic!("{:?} {}", out.status, String::from_utf8_lossy(&out.stderr))),
        stdout: String::from_utf8(out.stdout).unwrap(),
        stderr: String::from_utf8(out.stderr).unwrap(),
    }
}

pub fn npy(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let dict = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
    let len = (10 + dict.len() + 1).next_multiple_of(64) - 10;
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((len as u16).to_le_bytes());
    out.extend(dict.as_bytes());
    out.resize(10 + len - 1, b' ');
    out.push(b'\n');
    out.extend(data);
    out
}

pub fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// The data of a .npy file that the command wrote, with its header's text.
pub fn read_npy(path: &Path) -> (String, Vec<u8>) {
    let all = fs::read(path).unwrap();
    assert_eq!(&all[..8], b"\x93NUMPY\x01\x00");
    let len = u16::from_le_bytes([all[8], all[9]]) as usize;
    (
        String::from_utf8(all[10..10 + len].to_vec()).unwrap(),
        all[10 + len..].to_vec(),
    )
}

pub fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes
        .chunks_exact(4)
        .map(|b| f32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

/// Whether kernels in C can be compiled here. If not, says so where no capture hides it, to be counted.
pub fn have_cc(test: &str) -> bool {
    let found = Command::new("cc")
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok();
    if !found {
        let _ = writeln!(std::io::stderr(), "skipped: {test}: a C compiler (cc)");
    }
    found
}

/// Leaves the test if there is no C compiler.
macro_rules! needs_cc {
    () => {
        if !common::have_cc(std::thread::current().name().unwrap_or("test")) {
            return;
        }
    };
}
pub(crate) use needs_cc;
