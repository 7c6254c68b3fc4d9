//! The stock kernels' objects are what their sources build.

use std::path::Path;
use std::process::Command;

/// The compiler that the objects were built with.
const CLANG: &str = "clang-19";
const VERSION: &str = "clang version 19.1.7";

#[test]
fn amd_objects_are_what_clang_makes_of_their_source() {
    let version = Command::new(CLANG).arg("--version").output();
    let version = match &version {
        Ok(output) => String::from_utf8_lossy(&output.stdout),
        Err(e) => {
            eprintln!("skipped: {CLANG} is not installed ({e})");
            return;
        }
    };
    if !version.contains(VERSION) {
        eprintln!("skipped: the objects are of {VERSION}; this is {version}");
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/amd");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("amd-objects");
    std::fs::create_dir_all(&out).expect("the folder for what tests write is there");
    let built = Command::new("sh")
        .arg(folder.join("build.sh"))
        .arg(&out)
        .output()
        .expect("there is a shell");
    let said = String::from_utf8_lossy(&built.stderr);
    if said.contains("unable to execute command") || said.contains("ld.lld") {
        eprintln!("skipped: {CLANG} has no linker for AMD's objects: {said}");
        return;
    }
    assert!(built.status.success(), "{said}");
    let mut compared = 0;
    for entry in std::fs::read_dir(&folder).expect("it is there") {
        let path = entry.expect("it is readable").path();
        if path.extension().is_some_and(|e| e == "co") {
            let name = path.file_name().expect("a file");
            let kept = std::fs::read(&path).expect("it is readable");
            let made = std::fs::read(out.join(name)).expect("it was built");
            assert!(
                kept == made,
                "{} is another file when built",
                path.display()
            );
            compared += 1;
        }
    }
    assert_eq!(compared, 7);
}

/// The assembler that the cubins were built with.
const PTXAS: &str = "V12.9.86";

#[test]
fn nv_cubins_are_what_ptxas_makes_of_their_source() {
    let says = |program: &str, wanted: &str| {
        let output = Command::new(program).arg("--version").output();
        let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
        text.unwrap_or_default().contains(wanted)
    };
    let ptxas = std::env::var("PTXAS").unwrap_or_else(|_| "ptxas".into());
    if !says(CLANG, VERSION) || !says(&ptxas, PTXAS) {
        eprintln!(
            "skipped: {VERSION} and ptxas {PTXAS} (in PTXAS, or in the path) are not both here"
        );
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/nv");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nv-objects");
    std::fs::create_dir_all(&out).expect("the folder for what tests write is there");
    let built = Command::new("sh")
        .arg(folder.join("build.sh"))
        .arg(&out)
        .output()
        .expect("there is a shell");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    for arch in ["sm_86", "sm_89", "sm_90", "sm_120"] {
        let name = format!("stock-{arch}.cubin");
        let kept = std::fs::read(folder.join(&name)).expect("it is readable");
        let made = std::fs::read(out.join(&name)).expect("it was built");
        assert!(kept == made, "{name} is another file when built");
    }
}

#[test]
fn adreno_programs_are_what_ir3_makes_of_their_source() {
    let python = |args: &[&str]| Command::new("python3").args(args).output();
    let versions =
        "from importlib.metadata import version as v; print(v('tinymesa'), v('tinygrad'))";
    let have = python(&["-c", versions]).map(|o| String::from_utf8_lossy(&o.stdout).into_owned());
    if have.as_deref().unwrap_or_default().trim() != "25.2.7.2 0.14.0" {
        eprintln!("skipped: Mesa's compilers as a library, tinymesa 25.2.7.2, are not installed");
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/qcom");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("qcom-objects");
    std::fs::create_dir_all(&out).expect("the folder for what tests write is there");
    let script = folder.join("build.py");
    let [script, to] = [&script, &out].map(|path| path.to_str().expect("a path in UTF-8"));
    let built = python(&[script, to]).expect("there is Python");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    let mut compared = 0;
    for part in ["", "cl"] {
        for entry in std::fs::read_dir(folder.join(part)).expect("it is there") {
            let path = entry.expect("it is readable").path();
            if path.extension().is_some_and(|e| e == "ir3" || e == "bin") {
                let name = path.file_name().expect("a file");
                let kept = std::fs::read(&path).expect("it is readable");
                let made = std::fs::read(out.join(part).join(name)).expect("it was built");
                assert!(
                    kept == made,
                    "{} is another file when built",
                    path.display()
                );
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 14);
}
