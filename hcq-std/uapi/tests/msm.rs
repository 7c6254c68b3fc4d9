//! The structs, requests and numbers of [`hcq_uapi::msm`] and [`hcq_uapi::drm`] are those of C: of recorded facts, and of this
//! machine's header where it has one, which few have (`msm_drm.h` of libdrm or of a kernel; `HCQ_UAPI_INCLUDE` is a folder to look in first).
//!
//! Both directions: what is here was recorded with the same layout, and what was recorded is here.

#![allow(missing_docs)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Command;

use hcq_uapi::layout::{Constant, Struct};
use hcq_uapi::msm::{self, BoFlags, SubmitFlags};
use hcq_uapi::{drm, ioctl};
use serde_json::Value;

/// Structs that C has no name of its own for, and what it uses: another struct, or a plain number.
const STAND_INS: &[(&str, Option<&str>)] = &[
    ("drm_msm_set_param", Some("drm_msm_param")),
    ("drm_msm_submitqueue_close", None),
];

fn structs() -> impl Iterator<Item = &'static Struct> {
    drm::structs().chain(msm::structs())
}

fn constants() -> impl Iterator<Item = &'static Constant> {
    drm::constants().chain(msm::constants())
}

fn facts() -> Value {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/vectors/abi-msm.json"
    );
    serde_json::from_slice(&std::fs::read(path).expect("recorded facts")).expect("JSON")
}

fn number(value: &Value) -> u64 {
    let text = value.as_str().expect("a number in text");
    u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a hexadecimal number")
}

#[test]
fn recorded_numbers_are_ours() {
    let facts = facts();
    let mut recorded: BTreeMap<&str, u64> = facts["constants"]
        .as_object()
        .expect("a table")
        .iter()
        .map(|(name, value)| (name.as_str(), number(value)))
        .collect();
    for request in facts["ioctls"].as_array().expect("a list") {
        let name = request["name"].as_str().expect("a name");
        recorded.insert(name, number(&request["request"]));
    }
    let ours: BTreeMap<&str, u64> = constants()
        .map(|c| (c.name, c.value))
        .chain(
            structs()
                .filter_map(|s| s.request)
                .map(|r| (r.name, u64::from(r.number))),
        )
        .collect();
    assert_eq!(ours, recorded);
    assert!(ours.len() > 80, "only {}", ours.len());
}

#[test]
fn recorded_structs_are_ours() {
    let facts = facts();
    let recorded = facts["structs"].as_array().expect("a list");
    for s in structs() {
        let c = match STAND_INS.iter().find(|(name, _)| *name == s.name) {
            Some((_, None)) => {
                assert_eq!((s.size, s.align, s.fields.len()), (4, 4, 1), "{}", s.name);
                continue;
            }
            Some((_, Some(c))) => *c,
            None => s.name,
        };
        let Some(entry) = recorded.iter().find(|r| r["name"] == c) else {
            panic!("{c} is not recorded");
        };
        let layout = (number(&entry["size"]), number(&entry["align"]));
        assert_eq!((s.size as u64, s.align as u64), layout, "{}", s.name);
        let theirs: Vec<(&str, u64)> = entry["fields"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|f| (f["name"].as_str().expect("a name"), number(&f["offset"])))
            .collect();
        let rust: Vec<(&str, u64)> = s
            .fields
            .iter()
            .filter(|f| f.name != "hole")
            .map(|f| (f.name, f.offset as u64))
            .collect();
        assert_eq!(rust, theirs, "{}", s.name);
    }
    for entry in recorded {
        let name = entry["name"].as_str().expect("a name");
        assert!(
            structs().any(|s| s.name == name),
            "struct {name} is missing"
        );
    }
}

#[test]
fn names_are_unique_and_fields_fill_their_struct() {
    let mut names: Vec<&str> = structs().map(|s| s.name).collect();
    names.extend(constants().map(|c| c.name));
    names.extend(structs().filter_map(|s| s.request).map(|r| r.name));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "a name stands for two things");
    for s in structs() {
        let mut end = 0;
        for f in s.fields {
            assert_eq!(f.offset, end, "{}.{}: a hole before it", s.name, f.name);
            end = f.offset + f.size;
        }
        assert_eq!(end, s.size, "{}: a hole at its end", s.name);
        if let Some(request) = s.request {
            assert_eq!(ioctl::size(request.number), s.size);
            assert_eq!(ioctl::letter(request.number), drm::DRM_IOCTL_BASE);
        }
    }
}

/// The number of a driver's request is its own behind the first of them.
#[test]
fn requests_have_the_drivers_numbers() {
    for s in msm::structs().filter(|s| s.request.is_some()) {
        let request = s.request.expect("it has one");
        let own = request.name.replace("DRM_IOCTL_", "DRM_");
        let own = msm::constants().find(|c| c.name == own).expect(&own);
        let whole = u64::from(drm::DRM_COMMAND_BASE) + own.value;
        assert_eq!(u64::from(ioctl::number(request.number)), whole, "{own:?}");
    }
}

#[test]
fn numbers_inside_flags() {
    let flags = SubmitFlags::NO_IMPLICIT.gpu();
    assert_eq!(flags.bits(), 0x8000_0010);
    assert_eq!(flags.bits() & msm::MSM_PIPE_ID_MASK, msm::MSM_PIPE_3D0);
    let modes = BoFlags::CACHED | BoFlags::WC | BoFlags::UNCACHED | BoFlags::CACHED_COHERENT;
    assert_eq!(modes.bits(), msm::MSM_BO_CACHE_MASK);
    assert_eq!(
        SubmitFlags::all().bits() & msm::MSM_SUBMIT_FLAGS,
        msm::MSM_SUBMIT_FLAGS
    );
}

/// Everything is said again to the C compiler of this machine, of what its header has.
#[test]
fn the_c_compiler_agrees() {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("msm-header");
    std::fs::create_dir_all(&directory).expect("a directory");
    let input = directory.join("input.c");
    let compile = |source: &str| {
        std::fs::write(&input, source).expect("written");
        let mut command = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        if let Some(folder) = std::env::var_os("HCQ_UAPI_INCLUDE") {
            command.arg("-isystem").arg(folder);
        }
        let command = command.args(["-D__user=", "-fsyntax-only"]).arg(&input);
        command.output()
    };
    let found = ["drm", "libdrm"].into_iter().find_map(|folder| {
        let include = format!("#include <{folder}/drm.h>\n#include <{folder}/msm_drm.h>\n");
        let output = compile(&include);
        output.is_ok_and(|o| o.status.success()).then_some(include)
    });
    let Some(mut source) = found else {
        let _ = writeln!(
            std::io::stderr(),
            "skipped: uapi msm: no header drm/msm_drm.h (apt-get install libdrm-dev)"
        );
        return;
    };
    source.push_str("#include <stddef.h>\n");
    let compiles = |assertion: &str| {
        let output = compile(&format!("{source}{assertion}\n"));
        output.expect("the compiler was here").status.success()
    };
    // Headers differ in age, and structs grow. One of another size is compared elsewhere, with the recorded facts.
    let size_of =
        |name: &str, size: usize| format!("_Static_assert(sizeof(struct {name}) == {size}, \"\");");
    let named = structs().filter(|s| STAND_INS.iter().all(|(name, _)| *name != s.name));
    let (same, grown): (Vec<&Struct>, Vec<&Struct>) =
        named.partition(|s| compiles(&size_of(s.name, s.size)));
    for s in &grown {
        let known = format!("int known[sizeof(struct {})];", s.name);
        let older = format!(
            "_Static_assert(sizeof(struct {}) < {}, \"\");",
            s.name, s.size
        );
        assert!(!compiles(&known) || compiles(&older), "{}", s.name);
    }
    assert!(!same.is_empty(), "the header is of something else");
    let mut text = String::new();
    let requests = same.iter().filter_map(|s| s.request).map(|r| Constant {
        name: r.name,
        value: r.number.into(),
    });
    for c in constants().copied().chain(requests) {
        // Sums of flags grow.
        if c.name.ends_with("_FLAGS") {
            continue;
        }
        let Constant { name, value } = c;
        let _ = writeln!(
            text,
            "#ifdef {name}\n_Static_assert((unsigned)({name}) == {value}u, \"{name}\");\n#endif"
        );
    }
    for s in &same {
        let named = s.fields.iter();
        for f in named.filter(|f| !["hole", "pad"].contains(&f.name)) {
            let (name, field, offset) = (s.name, f.name, f.offset);
            let _ = writeln!(
                text,
                "_Static_assert(offsetof(struct {name}, {field}) == {offset}, \"{name}.{field}\");"
            );
        }
    }
    source.push_str(&text);
    if !grown.is_empty() {
        let names: Vec<&str> = grown.iter().map(|s| s.name).collect();
        let _ = writeln!(
            std::io::stderr(),
            "skipped: uapi msm: the header is older than {}",
            names.join(", ")
        );
    }
    let output = compile(&source).expect("the compiler was here");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
