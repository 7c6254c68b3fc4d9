//! Jobs with images, on simulated GPUs whose kernels take some.

#![allow(missing_docs)]

mod common;

use std::path::Path;

use common::{Job, bytes, floats, read_npy};

/// Texels of 32-bit floats into an image of 16-bit ones, which is read along its second row through a sampler.
const JOB: &str = r#"device = "sim:qcom-a650"
[programs.stock]
path = "KERNELS/stock-{target}.ir3"
[buffers.texels]
dtype = "f32"
shape = [4, 4, 4]
fill = "iota"
[buffers.halves]
dtype = "u8"
shape = [4, 64]
[buffers.row]
dtype = "f32"
shape = [6, 4]
[[tasks]]
program = "stock"
kernel = "copy_image"
args = [{ image = "texels", format = "rgba32float", width = 4, height = 4 },
        { image = "halves", format = "rgba16float", width = 4, height = 4, pitch = 64 }, { u32 = 4 }, 4]
groups = [1, 1]
local = [4, 4]
[[tasks]]
program = "stock"
kernel = "sample_image"
args = [{ image = "halves", format = "rgba16float", width = 4, height = 4 },
        { sampler = { wrap = ["clamp-to-border", "clamp-to-edge"], border = "opaque-white" } },
        "row", 6, 1, -0.5, 1.5, 1.0, 0.0]
groups = [1]
local = [8]
[[outputs]]
buffer = "row"
file = "row.npy"
expect = "expected.npy"
rtol = 0.0
"#;

fn job(text: &str) -> Job {
    let kernels =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance/kernels/qcom");
    let kernels = kernels.canonicalize().unwrap();
    let job = Job::new(&text.replace("KERNELS", kernels.to_str().unwrap()));
    // White around, and the texels of row 1: 16 to 31.
    let inside = (16..32u8).map(f32::from);
    let row: Vec<f32> = [1.0; 4].into_iter().chain(inside).chain([1.0; 4]).collect();
    job.npy("expected.npy", "<f4", "(6, 4)", &bytes(&row));
    job
}

#[test]
fn images_go_through_kernels_and_samplers() {
    for device in ["sim:qcom-a630", "sim:qcom-a650", "sim:qcom-a660"] {
        for more in [&[][..], &["--no-graph"], &["--repeat", "3"]] {
            let run = job(JOB).run(&[&["--json", "--device", device], more].concat());
            let what = format!("{device} {more:?}: {}{}", run.stdout, run.stderr);
            assert_eq!(run.code, 0, "{what}");
            let json = run.json();
            assert_eq!(json["checks"][0]["ok"], true, "{what}");
            assert_eq!(json["checks"][0]["elements"], 24, "{what}");
        }
    }
}

#[test]
fn mistakes_in_images_are_told_with_their_places() {
    for (from, to, words) in [
        (
            "width = 4, height = 4 },\n        { image",
            "width = 4, height = 5 },\n        { image",
            "job.toml:17: tasks[0].args[0]: the image has 320 bytes, 5 rows of 64 bytes; the buffer has 256",
        ),
        (
            "rgba32float",
            "rgba32uint",
            "an image of rgba32uint, whose texels are uint, is given for texture float in",
        ),
        (
            "pitch = 64 }",
            "pitch = 64, offset = 32 }",
            "the image begins at byte 32 of the buffer; images begin at multiples of 64 bytes",
        ),
        ("pitch = 64 }", "pitch = 16 }", "its pitch is 16"),
    ] {
        let text = JOB.replacen(from, to, 1);
        assert_ne!(text, JOB);
        let run = job(&text).run(&[]);
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains(words), "{}", run.stderr);
    }
}

/// A graph's image keeps what images of texels are, and launches them wherever their buffers are then.
#[test]
fn images_are_stored_with_their_job() {
    let job = job(JOB);
    let built = job.hcq(&["build", "job.toml", "-o", "x.hcqg"]);
    assert_eq!(built.code, 0, "{}{}", built.stdout, built.stderr);
    let device = "sim:qcom-a650,seed=7";
    for repeat in ["1", "3"] {
        let args = ["run", "x.hcqg", "--out", "left", "--device", device];
        let run = job.hcq(&[&args[..], &["--repeat", repeat]].concat());
        assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
        let (_, seen) = read_npy(&job.path("left/row.npy"));
        let (_, wanted) = read_npy(&job.path("expected.npy"));
        assert_eq!(floats(&seen), floats(&wanted));
    }
}
