//! This machine's C headers, read by its C compiler.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use hcq_uapi::kfd;

use super::recorded::Facts;
use super::{BY_AGE, UNNAMED, c_names, left_out, same};

const INCLUDES: &str = "#include <linux/kfd_ioctl.h>\n#include <linux/kfd_sysfs.h>\n";

/// A C compiler with the headers that a test wants.
struct Compiler {
    cc: std::ffi::OsString,
    directory: std::path::PathBuf,
}

impl Compiler {
    /// `None`, and why on standard error, if the compiler or the headers are missing.
    fn find(test: &str) -> Option<Self> {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        // The header takes only C's integers from DRM's; where that is not installed, this stands in.
        for folder in ["drm", "libdrm"] {
            let folder = directory.join(folder);
            std::fs::create_dir_all(&folder).expect("a directory");
            std::fs::write(folder.join("drm.h"), "#include <linux/types.h>\n").expect("written");
        }
        let cc = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let this = Self { cc, directory };
        let missing = match this.try_compile(INCLUDES, &["-E"]) {
            Err(_) => format!("no C compiler `{}`", this.cc.display()),
            Ok(output) if !output.status.success() => {
                "no headers linux/kfd_ioctl.h and kfd_sysfs.h".to_owned()
            }
            Ok(_) => return Some(this),
        };
        // Not `eprintln`, which tests that pass keep to themselves.
        let _ = writeln!(std::io::stderr(), "skipped: uapi kfd: {missing}");
        None
    }

    fn try_compile(&self, source: &str, flags: &[&str]) -> std::io::Result<Output> {
        let input = self.directory.join("input.c");
        std::fs::write(&input, source).expect("written");
        let mut command = Command::new(&self.cc);
        if let Some(folder) = std::env::var_os("HCQ_UAPI_INCLUDE") {
            command.arg("-isystem").arg(folder);
        }
        command
            .arg("-idirafter")
            .arg(&self.directory)
            .args(flags)
            .arg(&input)
            .output()
    }

    /// What the compiler prints.
    fn compile(&self, source: &str, flags: &[&str]) -> String {
        let output = self
            .try_compile(source, flags)
            .expect("the compiler was here");
        assert!(
            output.status.success(),
            "{}\n{source}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text")
    }
}

/// The structs of a preprocessed header and their fields; those of unnamed parts count as the struct's own.
fn c_structs(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for (at, _) in text.match_indices("struct kfd_") {
        let rest = &text[at + "struct ".len()..];
        let Some((name, body)) = rest.split_once('{') else {
            continue;
        };
        let name = name.trim();
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            continue;
        }
        let mut depth = 1;
        let body: String = body
            .chars()
            .take_while(|c| {
                depth += i32::from(*c == '{') - i32::from(*c == '}');
                depth > 0
            })
            .collect();
        let last_word = |declaration: &str| {
            let declaration = declaration.split('[').next().unwrap_or_default();
            declaration
                .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .rfind(|w| !w.is_empty())
                .map(str::to_owned)
        };
        found.insert(
            name.to_owned(),
            body.split(';').filter_map(last_word).collect(),
        );
    }
    found
}

/// Words of C text.
fn words(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .collect()
}

#[test]
fn the_c_compiler_agrees() {
    let Some(cc) = Compiler::find("kfd-header") else {
        return;
    };
    let text = cc.compile(INCLUDES, &["-E", "-P"]);
    let macros = cc.compile(INCLUDES, &["-E", "-P", "-dM"]);
    let (structs, text_words) = (c_structs(&text), words(&text));
    let defined: BTreeSet<&str> = macros
        .lines()
        .filter_map(|l| l.strip_prefix("#define ")?.split([' ', '(']).next())
        .collect();
    let facts = Facts::read();

    // A program that prints what we want to know, for the names that this header has.
    let mut program =
        format!("{INCLUDES}#include <stddef.h>\n#include <stdio.h>\nint main(void) {{\n");
    let mut wanted: Vec<(String, u64)> = Vec::new();
    let mut ask = |what: String, expression: String, ours: u64| {
        let _ = writeln!(
            program,
            "    printf(\"%llu\\n\", (unsigned long long)({expression}));"
        );
        wanted.push((what, ours));
    };
    for s in kfd::structs().filter(|s| !UNNAMED.contains(&s.name)) {
        let name = s.name;
        let Some(fields) = structs.get(name) else {
            assert!(
                facts.structs.iter().any(|r| r["name"] == name),
                "struct {name} is in no header and not recorded"
            );
            continue;
        };
        // An older header lacks fields at the end; the struct was shorter then.
        let mut size = s.size;
        for f in s.fields {
            let names = c_names(name, f.name);
            let here: Vec<_> = names
                .iter()
                .filter(|n| fields.iter().any(|f| f == **n))
                .collect();
            let largest = here
                .iter()
                .map(|n| format!("sizeof(((struct {name} *)0)->{n})"));
            let Some(largest) = largest.reduce(|a, b| format!("({a}) > ({b}) ? ({a}) : ({b})"))
            else {
                assert!(
                    facts.field(name, f.name),
                    "{name}.{} is in no header and not recorded",
                    f.name
                );
                size = size.min(f.offset);
                continue;
            };
            for n in here {
                ask(
                    format!("offsetof {name}.{n}"),
                    format!("offsetof(struct {name}, {n})"),
                    f.offset as u64,
                );
            }
            ask(format!("sizeof {name}.{}", f.name), largest, f.size as u64);
        }
        ask(
            format!("sizeof {name}"),
            format!("sizeof(struct {name})"),
            size as u64,
        );
        ask(
            format!("alignof {name}"),
            format!("_Alignof(struct {name})"),
            s.align as u64,
        );
        if let Some(request) = s.request.filter(|r| defined.contains(r.name)) {
            let number = request.number - ((s.size - size) << hcq_uapi::ioctl::SIZE_SHIFT) as u32;
            ask(
                request.name.to_owned(),
                request.name.to_owned(),
                u64::from(number),
            );
        }
    }
    for constant in kfd::constants().filter(|c| !BY_AGE.contains(&c.name)) {
        let name = constant.name;
        if defined.contains(name) || text_words.contains(name) {
            ask(name.to_owned(), name.to_owned(), constant.value);
        } else {
            assert!(
                facts.numbers.contains_key(name),
                "{name} is in no header and not recorded"
            );
        }
    }
    program += "    return 0;\n}\n";

    let binary = cc.directory.join("program");
    cc.compile(
        &program,
        &[
            "-Wall",
            "-Werror",
            "-o",
            binary.to_str().expect("a path in UTF-8"),
        ],
    );
    let output = Command::new(&binary).output().expect("it runs");
    let output = String::from_utf8(output.stdout).expect("text");
    let answers: Vec<u64> = output
        .lines()
        .map(|l| l.parse().expect("a number"))
        .collect();
    assert_eq!(answers.len(), wanted.len());
    let wrong: Vec<String> = wanted
        .iter()
        .zip(&answers)
        .filter(|((_, ours), c)| !same(*ours, **c))
        .map(|((what, ours), c)| format!("{what}: {ours:#x} here, {c:#x} in C"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(answers.len() > 400, "only {} answers", answers.len());
}

#[test]
fn the_c_headers_have_nothing_that_is_not_here() {
    let Some(cc) = Compiler::find("kfd-complete") else {
        return;
    };
    let text = cc.compile("#include <linux/kfd_ioctl.h>\n", &["-E", "-P"]);
    for (name, fields) in c_structs(&text).iter().filter(|(n, _)| !left_out(n)) {
        let ours = kfd::structs()
            .find(|s| s.name == name)
            .unwrap_or_else(|| panic!("struct {name} is missing"));
        for field in fields {
            let found = ours
                .fields
                .iter()
                .any(|f| c_names(name, f.name).contains(&field.as_str()));
            // An array without a length is behind the struct; the fields of an unnamed part are of a struct of its own.
            let elsewhere = field == "attrs"
                || UNNAMED.iter().any(|u| {
                    kfd::structs().any(|s| s.name == *u && s.fields.iter().any(|f| f.name == field))
                });
            assert!(found || elsewhere, "{name}.{field} is missing");
        }
    }
    let requests = cc.compile("#include <linux/kfd_ioctl.h>\n", &["-E", "-P", "-dM"]);
    for name in requests
        .lines()
        .filter_map(|l| l.strip_prefix("#define ")?.split([' ', '(']).next())
    {
        let kin = ["AMDKFD_IOC_", "KFD_IOC_", "KFD_MEM_ERR", "KFD_HW_"]
            .iter()
            .any(|p| name.starts_with(p));
        if kin && !left_out(name) {
            let request = || kfd::structs().any(|s| s.request.is_some_and(|r| r.name == name));
            assert!(
                kfd::constants().any(|c| c.name == name) || request(),
                "{name} is missing"
            );
        }
    }
}
