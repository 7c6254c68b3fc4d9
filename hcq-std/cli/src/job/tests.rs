use hcq_std::{BorderColor, Filter, Sampling, TexelFormat, Wrap};
use proptest::prelude::*;

use super::*;
use crate::data::fill::Fill;

const GOOD: &str = r#"
device = "cpu"
[programs.saxpy]
path = "saxpy.c"
flags = ["-ffast-math"]
[buffers.x]
file = "x.npy"
[buffers.y]
dtype = "f32"
shape = [1024, 4]
fill = 1.0
[buffers.n]
dtype = "u64"
shape = [2]
fill = { random = 42 }
[[tasks]]
program = "saxpy"
kernel = "saxpy"
args = [{ f32 = 2.0 }, "x", { buffer = "y", offset = 16, len = 4 }, 7, { u64 = 18446744073709551615 }]
groups = [4096]
local = [256, 1, 1]
local_memory = 64
writes = ["y"]
queue = 1
[[tasks]]
copy = { from = "x", to = "y" }
[[outputs]]
buffer = "y"
file = "y.npy"
expect = "expected.npy"
rtol = 1e-6
"#;

fn read(text: &str) -> crate::failure::Result<Job> {
    parse(text, Path::new("jobs/job.toml"))
}

/// The failures of `text`, one a line.
fn said(text: &str) -> String {
    read(text).expect_err(text).to_string()
}

#[test]
fn a_good_job_is_read_whole() {
    let job = read(GOOD).unwrap();
    assert_eq!(job.device.as_ref().unwrap().value, "cpu");
    assert_eq!(job.programs[0].kind, ProgramKind::C);
    assert_eq!(job.programs[0].flags, ["-ffast-math"]);
    assert_eq!(
        job.resolve(&job.programs[0].path.value),
        Path::new("jobs/saxpy.c")
    );
    let names: Vec<_> = job.buffers.iter().map(|b| b.name.as_str()).collect();
    assert_eq!(names, ["x", "y", "n"]);
    assert!(matches!(
        job.buffers[2].source,
        Source::Fill {
            dtype: Dtype::U64,
            fill: Fill::Random(42),
            ..
        }
    ));
    let Work::Kernel(launch) = &job.tasks[0].work else {
        panic!()
    };
    assert_eq!(
        (job.tasks[0].name.as_str(), job.tasks[1].name.as_str()),
        ("saxpy", "copy 1")
    );
    assert_eq!(
        (launch.groups, launch.local, launch.local_memory),
        ([4096, 1, 1], [256, 1, 1], 64)
    );
    assert_eq!(
        (launch.reads.len(), launch.writes.as_slice()),
        (0, &[1][..])
    );
    assert_eq!(launch.queue.as_ref().unwrap().value, 1);
    let Argument::Buffer(view) = &launch.args[2].value else {
        panic!()
    };
    assert_eq!(
        (
            view.buffer,
            view.offset.as_ref().unwrap().value,
            view.len.as_ref().unwrap().value
        ),
        (1, 16, 4)
    );
    assert_eq!(
        launch.args[2].at,
        At {
            line: 19,
            key: "tasks[0].args[2]".into()
        }
    );
    assert_eq!(launch.args[3].value, Argument::Number(Number::Int(7)));
    assert_eq!(
        launch.args[4].value,
        Argument::Scalar(Scalar {
            dtype: Dtype::U64,
            bits: u64::MAX
        })
    );
    assert!(matches!(&job.tasks[1].work, Work::Copy(t) if (t.from.buffer, t.to.buffer) == (0, 1)));
    assert_eq!(job.outputs[0].tolerance(Dtype::F32).rtol, 1e-6);
}

/// `GOOD` with one line changed, and what must be said about it: line, key, words.
#[test]
fn every_mistake_names_line_and_key() {
    let cases: &[(&str, &str, &str)] = &[
        (
            "device = \"cpu\"",
            "device = 3",
            "job.toml:2: device: expected a string, found a whole number",
        ),
        (
            "device = \"cpu\"",
            "devise = \"cpu\"",
            "job.toml:2: devise: unknown key\n  help: did you mean `device`?",
        ),
        (
            "device = \"cpu\"",
            "device = \"\"",
            "job.toml:2: device: must not be empty",
        ),
        (
            "path = \"saxpy.c\"",
            "path = \"saxpy.py\"",
            "job.toml:4: programs.saxpy.path: saxpy.py is no program",
        ),
        (
            "path = \"saxpy.c\"",
            "paths = \"saxpy.c\"",
            "job.toml:3: programs.saxpy: `path` is missing",
        ),
        (
            "path = \"saxpy.c\"",
            "path = \"saxpy.so\"",
            "job.toml:5: programs.saxpy.flags: flags are for .c files",
        ),
        (
            "flags = [\"-ffast-math\"]",
            "flags = [1]",
            "job.toml:5: programs.saxpy.flags[0]: expected a string",
        ),
        (
            "file = \"x.npy\"",
            "file = \"x.csv\"",
            "job.toml:7: buffers.x.file: the format of x.csv is unknown",
        ),
        (
            "file = \"x.npy\"",
            "file = \"x.raw\"",
            "job.toml:6: buffers.x: `dtype` is missing: a raw file",
        ),
        (
            "file = \"x.npy\"",
            "file = \"x.npy\"\nfill = 1",
            "job.toml:8: buffers.x.fill: a buffer has either",
        ),
        (
            "dtype = \"f32\"",
            "dtype = \"float\"",
            "job.toml:9: buffers.y.dtype: \"float\" is no element type",
        ),
        (
            "dtype = \"f32\"",
            "",
            "job.toml:8: buffers.y: `dtype` is missing",
        ),
        (
            "shape = [1024, 4]",
            "shape = [0]",
            "job.toml:10: buffers.y.shape[0]: 0 is out of range",
        ),
        (
            "shape = [1024, 4]",
            "shape = [-1]",
            "job.toml:10: buffers.y.shape[0]: -1 is out of range",
        ),
        (
            "shape = [1024, 4]",
            "shape = [1.5]",
            "job.toml:10: buffers.y.shape[0]: expected a whole number",
        ),
        (
            "shape = [1024, 4]",
            "shape = 4",
            "job.toml:10: buffers.y.shape: expected an array",
        ),
        (
            "shape = [1024, 4]",
            "shape = [4294967296, 4294967296]",
            "is more than memory can hold",
        ),
        (
            "fill = 1.0",
            "fill = \"ones\"",
            "job.toml:11: buffers.y.fill: \"ones\" is no fill",
        ),
        (
            "fill = 1.0",
            "fill = 1e300",
            "job.toml:11: buffers.y.fill: ",
        ),
        (
            "fill = { random = 42 }",
            "fill = 1.5",
            "job.toml:15: buffers.n.fill: 1.5 is not a whole number",
        ),
        (
            "fill = { random = 42 }",
            "fill = { rand = 42 }",
            "job.toml:15: buffers.n.fill.rand: unknown key",
        ),
        (
            "program = \"saxpy\"",
            "program = \"sapxy\"",
            "job.toml:17: tasks[0].program: there is no program called \"sapxy\"\n  help: did you mean \"saxpy\"?",
        ),
        (
            "kernel = \"saxpy\"",
            "",
            "job.toml:16: tasks[0]: `kernel` is missing",
        ),
        (
            "{ f32 = 2.0 }",
            "{ f33 = 2.0 }",
            "job.toml:19: tasks[0].args[0].f33: unknown key",
        ),
        (
            "{ f32 = 2.0 }",
            "{ u8 = 256 }",
            "job.toml:19: tasks[0].args[0].u8: 256 does not fit u8 (0 to 255)",
        ),
        (
            "{ f32 = 2.0 }",
            "{ f32 = 2.0, u8 = 1 }",
            "job.toml:19: tasks[0].args[0]: a scalar has one type",
        ),
        (
            "{ f32 = 2.0 }",
            "true",
            "job.toml:19: tasks[0].args[0]: expected an argument, found a boolean",
        ),
        (
            "{ f32 = 2.0 }, \"x\"",
            "{ f32 = 2.0 }, \"z\"",
            "job.toml:19: tasks[0].args[1]: there is no buffer called \"z\"",
        ),
        (
            "len = 4",
            "len = 0",
            "job.toml:19: tasks[0].args[2].len: 0 is out of range",
        ),
        (
            "len = 4",
            "length = 4",
            "job.toml:19: tasks[0].args[2].length: unknown key",
        ),
        (
            "18446744073709551615",
            "18446744073709551616",
            "does not fit u64",
        ),
        (
            "18446744073709551615",
            "999999999999999999999999999999999999999999",
            "out of range",
        ),
        (
            "groups = [4096]",
            "groups = [0]",
            "job.toml:20: tasks[0].groups[0]: 0 is out of range",
        ),
        (
            "groups = [4096]",
            "groups = [4294967296]",
            "job.toml:20: tasks[0].groups[0]: 4294967296 is out of range",
        ),
        (
            "groups = [4096]",
            "groups = [1, 2, 3, 4]",
            "job.toml:20: tasks[0].groups: expected 1 to 3 numbers, found 4",
        ),
        ("groups = [4096]", "", "tasks[0]: `groups` is missing"),
        (
            "local_memory = 64",
            "local_memory = -1",
            "job.toml:22: tasks[0].local_memory: -1 is out of range",
        ),
        (
            "local_memory = 64",
            "local_memory = 4294967295",
            "job.toml:22: tasks[0].local_memory: 4294967295 is out of range: it must be from 0 to 1073741824",
        ),
        (
            "groups = [4096]",
            "groups = [4294967295, 4294967295, 4294967295]",
            "job.toml:20: tasks[0].groups: [4294967295, 4294967295, 4294967295] are more than can be counted",
        ),
        (
            "writes = [\"y\"]",
            "writes = [\"n\"]",
            "job.toml:23: tasks[0].writes[0]: \"n\" is not an argument",
        ),
        (
            "queue = 1",
            "queue = \"a\"",
            "job.toml:24: tasks[0].queue: expected a whole number, found a string",
        ),
        (
            "copy = { from = \"x\", to = \"y\" }",
            "name = \"a\"",
            "job.toml:25: tasks[1]: the task does nothing",
        ),
        (
            "copy = { from = \"x\", to = \"y\" }",
            "copy = { from = \"x\" }",
            "job.toml:26: tasks[1].copy: `to` is missing",
        ),
        (
            "copy = { from = \"x\", to = \"y\" }",
            "copy = { from = \"x\", to = \"y\" }\nkernel = \"k\"",
            "either a kernel or a copy",
        ),
        (
            "copy = { from = \"x\", to = \"y\" }",
            "copy = { from = \"x\", to = \"y\" }\nqueue = 0",
            "job.toml:27: tasks[1].queue: `queue` has no meaning for a copy",
        ),
        (
            "rtol = 1e-6",
            "rtol = -1",
            "job.toml:31: outputs[0].rtol: -1 is no tolerance",
        ),
        (
            "rtol = 1e-6",
            "rtol = nan",
            "job.toml:31: outputs[0].rtol: NaN is no tolerance",
        ),
        (
            "file = \"y.npy\"",
            "file = \"y.txt\"",
            "job.toml:29: outputs[0].file: the format of y.txt is unknown",
        ),
        (
            "expect = \"expected.npy\"",
            "",
            "outputs[0].rtol: a tolerance needs `expect`",
        ),
        (
            "[[outputs]]",
            "[[outputs]]\nbuffer = \"x\"\nfile = \"y.npy\"\n[[outputs]]",
            "y.npy is written already, by line 29",
        ),
        (
            "buffer = \"y\"\nfile",
            "file",
            "job.toml:27: outputs[0]: `buffer` is missing",
        ),
        ("[[outputs]]", "[[outputs", "not valid TOML"),
        (
            "device = \"cpu\"",
            "device = \"cpu\"\ndevice = \"cpu\"",
            "not valid TOML: duplicate key",
        ),
    ];
    for (old, new, words) in cases {
        assert!(GOOD.contains(old), "{old}");
        let text = GOOD.replacen(old, new, 1);
        let said = said(&text);
        assert!(
            said.contains(words),
            "{old} -> {new}\n{said}\nwanted {words}"
        );
    }
}

/// A job whose only argument is this.
fn argument(text: &str) -> crate::failure::Result<Argument> {
    let job = read(&format!(
        "[programs.p]\npath = \"p.ir3\"\n[buffers.x]\ndtype = \"u8\"\nshape = [64]\n[[tasks]]\nprogram = \"p\"\nkernel = \"k\"\n\
         groups = [1]\nargs = [{text}]\n"
    ))?;
    let Work::Kernel(launch) = &job.tasks[0].work else {
        panic!()
    };
    Ok(launch.args[0].value.clone())
}

#[test]
fn images_and_samplers_are_read() {
    let text = r#"{ image = "x", format = "rg16float", width = 100, height = 30, pitch = 448, offset = 64 }"#;
    let Ok(Argument::Image(image)) = argument(text) else {
        panic!()
    };
    assert_eq!(image.format, TexelFormat::Rg16Float);
    assert_eq!(
        (image.width, image.height, image.pitch),
        (100, 30, Some(448))
    );
    let offset = image.view.offset.as_ref().map(|o| o.value);
    assert_eq!((image.view.buffer, offset), (0, Some(64)));
    let text = r#"{ image = "x", format = "r8uint", width = 1, height = 1 }"#;
    assert!(
        matches!(argument(text), Ok(Argument::Image(i)) if i.pitch.is_none() && i.view.offset.is_none())
    );
    assert_eq!(
        argument("{ sampler = {} }").unwrap(),
        Argument::Sampler(Sampling::default())
    );
    let text = r#"{ sampler = { wrap = ["repeat", "mirror-repeat"], filter = "linear", normalized = true, border = "opaque-white" } }"#;
    assert_eq!(
        argument(text).unwrap(),
        Argument::Sampler(Sampling {
            wrap: [Wrap::Repeat, Wrap::MirrorRepeat],
            filter: Filter::Linear,
            normalized: true,
            border: BorderColor::OpaqueWhite,
        })
    );
    for (text, words) in [
        (
            r#"{ image = "y", format = "r8uint", width = 1, height = 1 }"#,
            "tasks[0].args[0].image: there is no buffer called \"y\"",
        ),
        (
            r#"{ image = "x", format = "rgba8unrom", width = 1, height = 1 }"#,
            "tasks[0].args[0].format: \"rgba8unrom\" is no format of texels\n  help: did you mean \"rgba8unorm\"?",
        ),
        (
            r#"{ image = "x", format = "none", width = 1, height = 1 }"#,
            "help: formats: r8unorm, r8snorm, ",
        ),
        (
            r#"{ image = "x", format = "r8uint", width = 0, height = 1 }"#,
            "tasks[0].args[0].width: 0 is out of range: it must be from 1 to 4294967295",
        ),
        (
            r#"{ image = "x", format = "r8uint", width = 1 }"#,
            "tasks[0].args[0]: `height` is missing",
        ),
        (
            r#"{ image = "x", format = "r8uint", width = 1, height = 1, len = 3 }"#,
            "tasks[0].args[0].len: unknown key",
        ),
        (
            r#"{ sampler = { wrap = "around" } }"#,
            "wrap: \"around\" is none of the words that may stand here\n  help: write one of repeat, mirror-repeat, clamp-to-edge, \
             clamp-to-border",
        ),
        (
            r#"{ sampler = { wrap = ["repeat"] } }"#,
            "wrap: expected two words: for columns and for rows",
        ),
        (
            r#"{ sampler = { normalized = 1 } }"#,
            "normalized: expected true or false, found a whole number",
        ),
        (
            r#"{ sampler = "linear" }"#,
            "tasks[0].args[0].sampler: expected a table, found a string",
        ),
    ] {
        let said = argument(text).unwrap_err().to_string();
        assert!(said.contains(words), "{text}: {said}");
    }
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text = GOOD
        .replace("device = \"cpu\"", "device = 1")
        .replace("rtol = 1e-6", "rtol = \"a\"");
    let failures = read(&text).unwrap_err();
    let lines: Vec<u32> = failures
        .iter()
        .map(|f| f.place.as_ref().unwrap().line)
        .collect();
    assert_eq!(lines, [2, 31]);
    assert_eq!(failures.exit(), Exit::Usage);
    let json = serde_json::to_value(failures.json()).unwrap();
    assert_eq!(json["exit_code"], 2);
    assert_eq!(json["errors"][1]["key"], "outputs[0].rtol");
    assert_eq!(json["errors"][1]["line"], 31);
    assert_eq!(json["errors"][1]["file"], "jobs/job.toml");
}

#[test]
fn empty_and_absurd_files() {
    assert!(said("").contains("the job has no tasks"));
    assert!(said("tasks = []").contains("at least one task"));
    assert!(said("tasks = 1").contains("expected an array"));
    assert!(
        said("programs = []\nbuffers = 2\ntasks = [3]\noutputs = {}").contains("expected a table")
    );
    let deep = format!("a = {}", "[".repeat(100_000));
    assert!(said(&deep).contains("not valid TOML"));
    let many = "[[tasks]]\nfoo = 1\n".repeat(10_000);
    assert_eq!(read(&many).unwrap_err().iter().count(), 50);
    let long = format!("{} = 1\n[[tasks]]", "k".repeat(1 << 20));
    assert!(said(&long).len() < 2_000);
}

/// The reference in the README is read by the code that it describes.
#[test]
fn the_readme_tells_the_truth() {
    let readme = include_str!("../../README.md");
    let (_, rest) = readme.split_once("```toml\n").unwrap();
    let (text, _) = rest.split_once("```").unwrap();
    let job = read(text).unwrap();
    assert_eq!(
        (job.buffers.len(), job.tasks.len(), job.outputs.len()),
        (3, 2, 1)
    );
    // Every key that is known is shown: each has a comment or a value in the reference.
    for key in [
        "flags",
        "shape",
        "fill",
        "local_memory",
        "reads",
        "writes",
        "queue",
        "expect",
        "rtol",
        "atol",
    ] {
        assert!(text.lines().any(|l| l.starts_with(key)), "{key}");
    }
    for line in crate::exit::EXIT_CODES.lines().skip(1) {
        let (code, meaning) = line.trim().split_once(' ').unwrap();
        assert!(
            readme.contains(&format!("| {code} | {} |", meaning.trim())),
            "{line}"
        );
    }
}

#[test]
fn names_may_be_quoted() {
    let text = "[buffers.\"a b\"]\ndtype = \"f32\"\nshape = 1\n[[tasks]]\ncopy = { from = \"a b\", to = \"a b\" }\n";
    assert!(said(text).contains("job.toml:3: buffers.\"a b\".shape:"));
}

proptest! {
    #[test]
    fn any_text_is_survived(text in "\\PC{0,200}") {
        let _ = read(&text);
    }

    #[test]
    fn any_damage_is_survived(at in 0usize..800, cut in 0usize..40, insert in "[\\[\\]{}=\"a-z0-9.,#\n -]{0,6}") {
        let mut text = GOOD.to_owned();
        let at = at.min(text.len());
        let end = (at + cut).min(text.len());
        text.replace_range(at..end, &insert);
        let _ = read(&text);
    }
}
