use std::path::Path;

use hcq_std::{Filter, TexelKind};

use super::*;
use crate::data::fill::Fill;
use crate::data::input::{Origin, open_all};
use crate::job::parse;

fn parameter(kind: ParameterKind, dtype: Dtype, name: &str) -> Parameter {
    Parameter {
        name: name.into(),
        dtype: Some(dtype),
        kind,
    }
}

fn saxpy() -> Vec<Parameter> {
    vec![
        parameter(ParameterKind::Scalar, Dtype::F32, "a"),
        parameter(ParameterKind::Input, Dtype::F32, "x"),
        parameter(ParameterKind::Buffer, Dtype::F32, "y"),
        parameter(ParameterKind::Scalar, Dtype::U32, "n"),
    ]
}

fn job(task: &str) -> Job {
    let text = format!(
        r#"
[programs.p]
path = "p.c"
[buffers.x]
dtype = "f32"
shape = [64]
[buffers.y]
dtype = "f32"
shape = [16, 4]
[buffers.bytes]
dtype = "u8"
shape = [256]
[[tasks]]
{task}
"#
    );
    parse(&text, Path::new("job.toml")).unwrap()
}

fn kernel(args: &str, more: &str) -> String {
    format!("program = \"p\"\nkernel = \"saxpy\"\ngroups = [1]\nargs = {args}\n{more}")
}

fn checked(task: &str, signature: Option<&[Parameter]>) -> Result<Checked> {
    checked_on("cpu", task, signature)
}

fn checked_on(device: &str, task: &str, signature: Option<&[Parameter]>) -> Result<Checked> {
    let device = Device::open(device).unwrap();
    let job = job(task);
    let inputs = open_all(&job)?;
    assert!(
        inputs
            .iter()
            .all(|i| matches!(i.origin, Origin::Fill(Fill::Value(_))))
    );
    check(&job, 0, &inputs, signature, &device)
}

fn access(buffer: usize, range: Range<u64>, mode: Mode) -> Access {
    Access {
        buffer,
        range,
        mode,
    }
}

#[test]
fn the_signature_tells_reads_from_writes() {
    let task = kernel(
        r#"[2, "x", { buffer = "y", offset = 8, len = 4 }, { u32 = 4 }]"#,
        "",
    );
    let c = checked(&task, Some(&saxpy())).unwrap();
    assert_eq!(
        c.plan.accesses,
        [
            access(0, 0..256, Mode::Read),
            access(1, 32..48, Mode::Read),
            access(1, 32..48, Mode::Write)
        ]
    );
    assert_eq!(c.bytes, 256 + 32);
    let Ready::Kernel(args) = c.ready else {
        panic!()
    };
    assert_eq!(
        args[0],
        Bound::Scalar(Scalar {
            dtype: Dtype::F32,
            bits: u64::from(2.0f32.to_bits())
        })
    );
    assert_eq!(
        args[2],
        Bound::Buffer(Slice {
            buffer: 1,
            range: 32..48
        })
    );
}

#[test]
fn the_job_overrides_the_signature() {
    let task = kernel(r#"[2, "x", "y", 4]"#, "writes = [\"y\"]");
    let c = checked(&task, Some(&saxpy())).unwrap();
    assert_eq!(
        c.plan.accesses,
        [
            access(0, 0..256, Mode::Read),
            access(1, 0..256, Mode::Write)
        ]
    );
}

#[test]
fn without_a_signature_buffers_are_read_and_written() {
    let c = checked(&kernel(r#"["x"]"#, ""), None).unwrap();
    assert_eq!(c.plan.accesses.len(), 2);
    let said = checked(&kernel("[1]", ""), None).unwrap_err().to_string();
    assert!(said.contains("the kernel has no signature"), "{said}");
}

#[test]
fn mismatches_name_argument_and_parameter() {
    for (args, words) in [
        (
            r#"["x", "y"]"#,
            "tasks[0].kernel: kernel saxpy takes 4 arguments, 2 are given\n  help: its arguments: f32 a, const f32 *x, f32 *y, u32 n",
        ),
        (
            r#"["x", "x", "y", 4]"#,
            "tasks[0].args[0]: a buffer is given for f32 a",
        ),
        (
            r#"[1, 1, "y", 4]"#,
            "tasks[0].args[1]: a number is given for const f32 *x",
        ),
        (
            r#"[1, { f32 = 1 }, "y", 4]"#,
            "tasks[0].args[1]: a number is given for const f32 *x",
        ),
        (
            r#"[1, "bytes", "y", 4]"#,
            "tasks[0].args[1]: a buffer of u8 is given for const f32 *x",
        ),
        (
            r#"[{ f64 = 1 }, "x", "y", 4]"#,
            "tasks[0].args[0]: a number of type f64 is given for f32 a",
        ),
        (
            r#"[1, "x", "y", -1]"#,
            "tasks[0].args[3]: -1 does not fit u32 (0 to 4294967295): u32 n",
        ),
        (
            r#"[1, "x", "y", 1.5]"#,
            "tasks[0].args[3]: 1.5 is not a whole number",
        ),
        (
            r#"[1, "x", { buffer = "y", offset = 64 }, 4]"#,
            "tasks[0].args[2].offset: offset 64 is past the end",
        ),
        (
            r#"[1, "x", { buffer = "y", offset = 60, len = 5 }, 4]"#,
            "tasks[0].args[2].len: elements 60 to 60 + 5",
        ),
        (
            r#"[1, "x", { buffer = "y", offset = 1, len = 18446744073709551615 }, 4]"#,
            "past the end",
        ),
    ] {
        let said = checked(&kernel(args, ""), Some(&saxpy()))
            .unwrap_err()
            .to_string();
        assert!(said.contains(words), "{args}: {said}");
    }
}

#[test]
fn copies_are_equal_and_apart() {
    let c = checked(r#"copy = { from = "x", to = "bytes" }"#, None).unwrap();
    assert_eq!((c.bytes, c.plan.engine), (256, Engine::Copy));
    assert_eq!(
        c.plan.accesses,
        [
            access(0, 0..256, Mode::Read),
            access(2, 0..256, Mode::Write)
        ]
    );
    for (copy, words) in [
        (
            r#"{ from = "x", to = { buffer = "y", len = 4 } }"#,
            "tasks[0]: the copy is of 256 bytes into 16 bytes",
        ),
        (r#"{ from = "x", to = "x" }"#, "overlap"),
        (
            r#"{ from = { buffer = "x", len = 8 }, to = { buffer = "x", offset = 7, len = 8 } }"#,
            "bytes 0..32 and 28..60 of the same buffer overlap",
        ),
    ] {
        let said = checked(&format!("copy = {copy}"), None)
            .unwrap_err()
            .to_string();
        assert!(said.contains(words), "{said}");
    }
    let apart = r#"copy = { from = { buffer = "x", len = 8 }, to = { buffer = "x", offset = 8, len = 8 } }"#;
    assert!(checked(apart, None).is_ok());
}

/// `texture float in; storage uint out; sampler by;`
fn with_images() -> Vec<Parameter> {
    let image = |image, name: &str| Parameter {
        name: name.into(),
        dtype: None,
        kind: ParameterKind::Image(image),
    };
    vec![
        image(ImageParam::Texture(Some(TexelKind::Float)), "in"),
        image(ImageParam::Storage(Some(TexelKind::Uint)), "out"),
        image(ImageParam::Sampler, "by"),
    ]
}

const TEXTURE: &str = r#"{ image = "x", format = "rgba8unorm", width = 4, height = 3 }"#;
const STORAGE: &str =
    r#"{ image = "y", format = "r32uint", width = 16, height = 2, pitch = 128, offset = 16 }"#;
const SAMPLER: &str = "{ sampler = { filter = \"linear\" } }";

#[test]
fn images_are_bytes_of_their_buffers() {
    let task = kernel(&format!("[{TEXTURE}, {STORAGE}, {SAMPLER}]"), "");
    let c = checked_on("sim:qcom-a650", &task, Some(&with_images())).unwrap();
    // Rows are 64 bytes apart at least; the last one ends with its last texel.
    let (texels, stored) = (0..2 * 64 + 16, 64..64 + 128 + 64);
    assert_eq!(
        c.plan.accesses,
        [
            access(0, texels.clone(), Mode::Read),
            access(1, stored.clone(), Mode::Read),
            access(1, stored, Mode::Write)
        ]
    );
    let Ready::Kernel(args) = c.ready else {
        panic!()
    };
    let Bound::Image(slice, image) = &args[0] else {
        panic!("{args:?}")
    };
    assert_eq!((slice.range.clone(), image.pitch()), (texels, 64));
    assert!(matches!(&args[2], Bound::Sampler(s) if s.sampling().filter == Filter::Linear));
}

#[test]
fn images_that_do_not_fit_are_refused_in_words() {
    let on = |device: &str, args: [&str; 3]| {
        let task = kernel(&format!("[{}]", args.join(", ")), "");
        let result = checked_on(device, &task, Some(&with_images()));
        result.unwrap_err().to_string()
    };
    let uint = r#"{ image = "x", format = "rgba8uint", width = 4, height = 3 }"#;
    let high = r#"{ image = "x", format = "rgba8unorm", width = 4, height = 5 }"#;
    let close = r#"{ image = "x", format = "rgba8unorm", width = 4, height = 3, pitch = 32 }"#;
    let repeats = r#"{ sampler = { wrap = "repeat" } }"#;
    for (args, words) in [
        (
            [uint, STORAGE, SAMPLER],
            "tasks[0].args[0]: an image of rgba8uint, whose texels are uint, is given for texture float in",
        ),
        (
            [TEXTURE, TEXTURE, SAMPLER],
            "tasks[0].args[1]: an image of rgba8unorm, whose texels are float, is given for storage uint out",
        ),
        (
            [high, STORAGE, SAMPLER],
            "tasks[0].args[0]: the image has 272 bytes, 5 rows of 64 bytes; the buffer has 256",
        ),
        (
            [close, STORAGE, SAMPLER],
            "tasks[0].args[0]: its pitch is 32, which an image cannot have",
        ),
        (
            ["\"x\"", STORAGE, SAMPLER],
            "tasks[0].args[0]: a buffer is given for texture float in",
        ),
        (
            [TEXTURE, "1", SAMPLER],
            "tasks[0].args[1]: a number is given for storage uint out",
        ),
        (
            [SAMPLER, STORAGE, SAMPLER],
            "tasks[0].args[0]: a sampler is given for texture float in",
        ),
        (
            [TEXTURE, STORAGE, TEXTURE],
            "tasks[0].args[2]: an image is given for sampler by",
        ),
        (
            [TEXTURE, STORAGE, repeats],
            "tasks[0].args[2]: a sampler whose coordinates count texels cannot have Repeat",
        ),
    ] {
        let said = on("sim:qcom-a650", args);
        assert!(said.contains(words), "{args:?}: {said}");
    }
    let said = on("cpu", [TEXTURE, STORAGE, SAMPLER]);
    assert!(said.contains("has no images"), "{said}");
}
