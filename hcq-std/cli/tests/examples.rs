//! The examples of the project end with checked outputs.

#![allow(missing_docs)]

mod common;

use std::fs;
use std::path::Path;

use common::{Job, bytes, needs_cc, readme_knows};
use serde_json::Value;

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

/// One of the examples of GPUs, whose programs are among this project's tests.
fn gpu_by(name: &str) -> Job {
    let job = copy_of("gpu");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let tests = tests.canonicalize().unwrap();
    let text = fs::read_to_string(job.dir.path().join(name)).unwrap();
    let there = text.replace("../../tests", tests.to_str().unwrap());
    assert_ne!(text, there);
    fs::write(job.dir.path().join("job.toml"), there).unwrap();
    job
}

fn gpu() -> Job {
    gpu_by("job.toml")
}

fn runs_on(job: &Job, device: &str) {
    let run = job.run(&["--json", "--device", device]);
    assert_eq!(run.code, 0, "{device}: {}{}", run.stdout, run.stderr);
    let json = run.json();
    let checks = json["checks"].as_array().unwrap();
    assert_eq!(checks.len(), 2, "{json}");
    assert!(checks.iter().all(|c| c["ok"] == true), "{json}");
}

#[test]
fn code_objects_run_on_simulated_gpus() {
    for device in [
        "sim:amd-gfx942",
        "sim:amd-gfx1100",
        "sim:amd-gfx1100,aql",
        "sim:amd-gfx1201",
    ] {
        runs_on(&gpu(), device);
    }
}

#[test]
fn cubins_run_on_simulated_gpus() {
    for generation in ["ampere", "ada", "hopper", "blackwell"] {
        runs_on(&gpu_by("job-nv.toml"), &format!("sim:nv-{generation}"));
    }
}

#[test]
fn ir3_bundles_run_on_simulated_gpus() {
    for chip in ["a630", "a650", "a660"] {
        runs_on(&gpu_by("job-qcom.toml"), &format!("sim:qcom-{chip}"));
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

/// An AMD GPU, an NVIDIA GPU and the processor in one graph.
#[test]
fn several_devices() {
    needs_cc!();
    let job = copy_of("devices");
    let file = job.dir.path().join("job.toml");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let tests = tests.canonicalize().unwrap();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("../../tests", tests.to_str().unwrap())).unwrap();
    let plan = job.path("plan.dot");
    let run = job.run(&["--json", "--repeat", "3", "--plan", plan.to_str().unwrap()]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let json = run.json();
    assert_eq!(json["checks"][0]["ok"], true, "{json}");
    // Both copies: the NVIDIA GPU has all memory below 2^40, where the process has none of its own.
    assert_eq!(json["graph"]["staged_bytes"], 32768, "{json}");
    assert_eq!(json["critical_path"]["tasks"].as_array().unwrap().len(), 5);
    assert!(fs::read_to_string(plan).unwrap().starts_with("digraph"));
    // What the NVIDIA GPU reads is not what the AMD GPU reaches.
    let text = fs::read_to_string(&file).unwrap();
    let there = "device = \"nv\"\nargs = [\"sum_there\", \"y_there\", \"x_there\"]";
    assert!(text.contains(there));
    let wrong = there.replace("y_there", "y");
    fs::write(&file, text.replace(there, &wrong)).unwrap();
    let run = job.run(&[]);
    assert_eq!(run.code, 2, "{}{}", run.stdout, run.stderr);
    assert!(run.stderr.contains("copy it there first"), "{}", run.stderr);
    let run = job.run(&["--no-graph"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
}

/// Elements as numbers, of the types that the examples' outputs have.
fn numbers(path: &Path) -> Vec<f64> {
    let (descr, data) = common::read_npy(path);
    let each = |size: usize, number: fn(&[u8]) -> f64| data.chunks(size).map(number).collect();
    if descr.contains("f4") {
        each(4, |b| f32::from_le_bytes(b.try_into().unwrap()).into())
    } else if descr.contains("f8") {
        each(8, |b| f64::from_le_bytes(b.try_into().unwrap()))
    } else if descr.contains("u4") {
        each(4, |b| u32::from_le_bytes(b.try_into().unwrap()).into())
    } else {
        assert!(descr.contains("u1"), "{descr}");
        each(1, |b| b[0].into())
    }
}

/// Builds an image, looks at it, and launches it in another process; what it leaves is what the job is to leave.
fn through_an_image(job: &Job, device: &str, outputs: &[(&str, &str)], error: f64) {
    let image = job.path("job.hcqg");
    let image = image.to_str().unwrap();
    let file = job.path("job.toml");
    let file = file.to_str().unwrap();
    let built = job.hcq(&["build", file, "-o", image, "--device", device]);
    assert_eq!(built.code, 0, "{device}: {}{}", built.stdout, built.stderr);
    let looked = job.hcq(&["inspect", image, "--json"]);
    assert_eq!(looked.code, 0, "{}", looked.stderr);
    let buffers = looked.json()["buffers"].as_array().unwrap().len();
    assert!(buffers >= outputs.len(), "{}", looked.stdout);
    assert!(job.hcq(&["inspect", image]).stdout.contains("SHA-256"));
    for repeat in ["1", "3"] {
        let dir = job.path("left");
        let dir = dir.to_str().unwrap();
        let mut args = vec!["run", image, "--out", dir, "--repeat", repeat];
        if device != "cpu" {
            args.extend(["--device", device]);
        }
        let run = job.hcq(&args);
        assert_eq!(run.code, 0, "{device}: {}{}", run.stdout, run.stderr);
        assert_eq!(
            fs::read_dir(dir).unwrap().count(),
            outputs.len(),
            "{}",
            run.stdout
        );
        for (name, expected) in outputs {
            let left = numbers(&Path::new(dir).join(format!("{name}.npy")));
            let wanted = numbers(&job.path(expected));
            assert_eq!(left.len(), wanted.len());
            for (i, (a, b)) in left.iter().zip(&wanted).enumerate() {
                assert!((a - b).abs() <= error, "{name}[{i}]: {a}, not {b}");
            }
        }
    }
}

#[test]
fn images_of_the_examples() {
    needs_cc!();
    let outputs = [("y", "expected_y.npy"), ("sums", "expected_sums.npy")];
    through_an_image(&copy_of("saxpy"), "cpu", &outputs, 1e-4);
    let outputs = [
        ("edges", "expected_edges.npy"),
        ("bins", "expected_histogram.npy"),
    ];
    through_an_image(&copy_of("image"), "cpu", &outputs, 1.0);
    let outputs = [("c", "expected_c.npy")];
    through_an_image(&copy_of("matmul"), "cpu", &outputs, 1e-4);
}

#[test]
fn images_of_code_objects() {
    let outputs = [("y", "expected_y.npy"), ("sum", "expected_sum.npy")];
    for device in [
        "sim:amd-gfx1100",
        "sim:amd-gfx1100,aql",
        "sim:amd-gfx942",
        "sim:amd-gfx1201,aql",
    ] {
        through_an_image(&gpu(), device, &outputs, 0.0);
    }
    for generation in ["ampere", "ada", "hopper", "blackwell"] {
        let device = format!("sim:nv-{generation}");
        through_an_image(&gpu_by("job-nv.toml"), &device, &outputs, 0.0);
    }
    for chip in ["a630", "a650", "a660"] {
        let device = format!("sim:qcom-{chip}");
        through_an_image(&gpu_by("job-qcom.toml"), &device, &outputs, 0.0);
    }
}

/// A kernel that keeps what it reads in private memory: each of 512 work-items reads as many elements, adds some of them
/// up, and each group adds up what its items have.
fn with_private_memory(file: &str, elements: usize, count: &str, each: f32) -> Job {
    let objects = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/objects");
    let path = objects.canonicalize().unwrap().join(file);
    let job = Job::new(&format!(
        "[programs.p]\npath = \"{}\"\n\
         [buffers.data]\nfile = \"data.npy\"\n\
         [buffers.out]\ndtype = \"f32\"\nshape = [2]\n\
         [[tasks]]\nprogram = \"p\"\nkernel = \"reduce\"\n\
         args = [\"out\", \"data\", {{ i32 = 2 }}{count}]\ngroups = [2]\nlocal = [256]\n\
         [[outputs]]\nbuffer = \"out\"\nfile = \"out.npy\"\n",
        path.display()
    ));
    let data: Vec<f32> = (0..512 * elements).map(|i| (i % 8) as f32).collect();
    job.npy(
        "data.npy",
        "<f4",
        &format!("({},)", data.len()),
        &bytes(&data),
    );
    job.npy("wanted.npy", "<f4", "(2,)", &bytes(&[256.0 * each; 2]));
    job
}

#[test]
fn images_of_kernels_with_private_memory() {
    let outputs = [("out", "wanted.npy")];
    for device in [
        "sim:amd-gfx1100",
        "sim:amd-gfx1100,aql",
        "sim:amd-gfx942",
        "sim:amd-gfx942,aql",
    ] {
        let job = with_private_memory("reduce-{target}.co", 8, "", 2.0 + 5.0);
        through_an_image(&job, device, &outputs, 0.0);
    }
    for generation in ["ampere", "hopper"] {
        let device = format!("sim:nv-{generation}");
        let job = with_private_memory("reduce-{target}.cubin", 128, ", { u32 = 128 }", 2.0);
        through_an_image(&job, &device, &outputs, 0.0);
        // The image says what it asks of the machine that it runs on.
        let looked = job.hcq(&["inspect", job.path("job.hcqg").to_str().unwrap()]);
        assert!(
            looked.stdout.contains("number 0 that queue"),
            "{}",
            looked.stdout
        );
    }
}

#[test]
fn the_readme_knows_what_is_said_of_images() {
    let job = gpu();
    let (image, file) = (job.path("job.hcqg"), job.path("job.toml"));
    let (image, file) = (image.to_str().unwrap(), file.to_str().unwrap());
    for args in [
        &["build", file, "-o", image, "--json"][..],
        &["inspect", image, "--json"],
        &["run", image, "--device", "sim:amd-gfx1100", "--json"],
    ] {
        let run = job.hcq(args);
        assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
        let json = run.json();
        readme_knows(&json);
        for part in json.as_object().unwrap().values() {
            match part {
                Value::Array(all) => all.iter().filter(|v| v.is_object()).for_each(readme_knows),
                Value::Object(_) => readme_knows(part),
                _ => {}
            }
        }
    }
}

#[test]
fn images_for_other_devices_are_refused() {
    let job = gpu();
    let image = job.path("job.hcqg");
    let image = image.to_str().unwrap();
    let file = job.path("job.toml");
    let file = file.to_str().unwrap();
    assert_eq!(job.hcq(&["build", file, "-o", image]).code, 0);
    let run = job.hcq(&["run", image, "--device", "sim:amd-gfx942"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("gfx1100"), "{}", run.stderr);
    let mut bytes = fs::read(image).unwrap();
    bytes.truncate(bytes.len() - 1);
    fs::write(image, &bytes).unwrap();
    for command in [
        &["inspect", image][..],
        &["run", image, "--device", "sim:amd-gfx1100"],
    ] {
        let run = job.hcq(command);
        assert_eq!(run.code, 2, "{}", run.stderr);
    }
    let run = job.hcq(&["run", file, "--out", "x"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    // Another chip of the same kind, and another kind.
    let of_others = [
        ("job-nv.toml", "sim:nv-ampere", "sim:nv-hopper", "sm_86"),
        ("job-qcom.toml", "sim:qcom-a630", "sim:qcom-a650", "a630"),
        ("job-qcom.toml", "sim:qcom-a630", "sim:nv-ada", "a630"),
    ];
    for (name, built_on, other, chip) in of_others {
        let job = gpu_by(name);
        let (image, file) = (job.path("job.hcqg"), job.path("job.toml"));
        let (image, file) = (image.to_str().unwrap(), file.to_str().unwrap());
        let built = job.hcq(&["build", file, "-o", image, "--device", built_on]);
        assert_eq!(built.code, 0, "{}", built.stderr);
        let run = job.hcq(&["run", image, "--device", other]);
        assert_eq!(run.code, 2, "{}", run.stderr);
        assert!(run.stderr.contains(chip), "{}", run.stderr);
    }
}
