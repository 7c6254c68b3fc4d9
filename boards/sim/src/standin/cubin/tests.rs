//! The table against the cubins.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::*;
use crate::standin::{StandIns, code_hash};

/// A cubin: its name, whether it has the stock programs, its bytes.
type File = (String, bool, Vec<u8>);

/// The cubins, where the whole project is there; none in a package on its own. Those of sm_80 are not simulated.
fn cubins() -> Vec<File> {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    let mut all = Vec::new();
    for folder in ["conformance/kernels/nv", "vectors/objects"] {
        let Ok(entries) = std::fs::read_dir(tests.join(folder)) else {
            eprintln!("skipped: there is no {folder} here");
            return Vec::new();
        };
        let mut paths: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if name.ends_with(".cubin") && !name.ends_with("sm_80.cubin") {
                let bytes = std::fs::read(&path).unwrap();
                all.push((name, folder.starts_with("conformance"), bytes));
            }
        }
    }
    all
}

/// The function of a stand-in, in words. `None`: its code is not what the file has, once it is loaded.
fn function(stock: bool, symbol: &str) -> Option<&str> {
    match (stock, symbol) {
        (true, "vadd") => Some("vadd_sized"),
        (true, symbol) => Some(symbol),
        (false, "vadd") => Some("vadd_sized"),
        (false, "saxpy") => Some("saxpy_scaled"),
        (false, "reduce") => Some("reduce_one"),
        (false, _) => None,
    }
}

#[test]
fn the_nv_table_is_that_of_the_cubins() {
    let cubins = cubins();
    if cubins.is_empty() {
        return;
    }
    let mut rows: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut programs = 0;
    for (name, stock, bytes) in &cubins {
        let cubin = read(bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(
            name.contains(cubin.target),
            "{name} is for {}",
            cubin.target
        );
        // The newest files have their programs in alphabetical order, others not.
        let mut all = cubin.programs.clone();
        all.sort_by(|a, b| a.symbol.cmp(&b.symbol));
        for program in all {
            let Some(function) = function(*stock, &program.symbol) else {
                assert_eq!(program.symbol, "gtable", "{name}");
                continue;
            };
            programs += 1;
            let n = &program.needs;
            let (block, grid) = n.sizes.unwrap();
            let (at, len) = n.parameters;
            let needs = [n.registers, n.barriers, n.shared_bytes, n.thread_bytes];
            let row = format!(
                "({:?}, {}, {:#018x}, {needs:?}, ({at:#x}, {len}), ({block:#x}, {grid:#x}), {:#x}, stock::{function}),",
                program.symbol,
                program.code.len(),
                code_hash(&program.code),
                n.banks,
            );
            rows.entry(cubin.target).or_default().push(row);
        }
    }
    // Four targets: twelve programs in one object, three in objects of their own.
    assert_eq!(programs, 60);
    let mut text = String::new();
    for (target, rows) in rows {
        text += &format!("    ({target:?}, &[\n");
        for row in rows {
            text += &format!("        {row}\n");
        }
        text += "    ]),\n";
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/standin/table/nv.rs");
    let file = std::fs::read_to_string(&path).unwrap();
    let mark = "static TABLE: &[(&str, &[Row])] = &[\n";
    let start = file.find(mark).unwrap() + mark.len();
    let wanted = format!("{}{text}];\n", &file[..start]);
    if std::env::var_os("HCQ_WRITE_TABLE").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    } else {
        assert!(file == wanted, "the table is not that of the cubins");
    }
}

#[test]
fn what_a_cubin_says_of_its_programs() {
    let wanted = |target: &str, program: &str| -> Option<Needs> {
        let name = format!("{program}-{target}.cubin");
        let found = cubins().into_iter().find(|(this, ..)| *this == name)?;
        let cubin = read(&found.2).unwrap();
        assert_eq!(cubin.programs.len(), 1);
        Some(cubin.programs[0].needs)
    };
    // As `nv-objects.json` has it.
    let Some(needs) = wanted("sm_86", "reduce") else {
        return;
    };
    let mut reduce = Needs {
        registers: 24,
        barriers: 1,
        shared_bytes: 0x400,
        thread_bytes: 0x200,
        parameters: (0x160, 24),
        sizes: Some((0, 0xC)),
        banks: 0,
    };
    assert_eq!(needs, reduce);
    reduce.registers = 28;
    reduce.parameters = (0x210, 24);
    assert_eq!(wanted("sm_90", "reduce"), Some(reduce));
    reduce.parameters = (0x380, 24);
    reduce.sizes = Some((0x360, 0x370));
    assert_eq!(wanted("sm_120", "reduce"), Some(reduce));
    let saxpy = Needs {
        registers: 10,
        parameters: (0x160, 33),
        sizes: Some((0, 0xC)),
        banks: 1 << 3,
        ..Needs::default()
    };
    assert_eq!(wanted("sm_89", "saxpy"), Some(saxpy));
}

#[test]
fn a_cubin_can_be_registered() {
    let Some((_, _, bytes)) = cubins().into_iter().find(|(_, stock, _)| *stock) else {
        return;
    };
    let mut programs = StandIns::new();
    programs.register(&bytes, &[("fill", |_| Ok(()))]).unwrap();
    let missing = programs.register(&bytes, &[("nobody", |_| Ok(()))]);
    assert!(missing.unwrap_err().to_string().contains("nobody"));
    // A cubin that is cut off, or made of something else, is an error and not a panic.
    for len in (0..bytes.len()).step_by(97) {
        let _ = programs.register(&bytes[..len], &[("fill", |_| Ok(()))]);
    }
    for at in (0..bytes.len()).step_by(53) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 0xFF;
        let _ = programs.register(&bytes, &[("fill", |_| Ok(()))]);
    }
}
