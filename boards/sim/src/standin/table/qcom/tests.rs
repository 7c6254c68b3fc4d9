//! The table against the programs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::super::super::code_hash;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance/kernels/qcom")
}

/// A program of a file, as far as the table has it.
struct Program {
    name: String,
    code: Vec<u8>,
    registers: [u32; 2],
    local_bytes: u32,
    fiber_bytes: u32,
    /// Bytes of the constant file before an argument block in C.
    before: u32,
    sizes: (Option<u32>, Option<u32>),
    /// Textures and samplers.
    textures: [u32; 2],
    immediates: Vec<(u32, u32)>,
}

/// An argument's bytes and place in C; images have none.
fn arguments(signature: &str) -> (Vec<(u32, u32)>, u32, u32) {
    let (mut places, mut end, mut images) = (Vec::new(), 0u32, 0);
    for field in signature
        .split(';')
        .map(str::trim)
        .filter(|f| !f.is_empty())
    {
        let ty = field.split(' ').next().unwrap_or_default();
        let bytes = match ty {
            "texture" | "sampler" => 0,
            "storage" => {
                images += 1;
                0
            }
            _ if field.contains('*') => 8,
            "int8_t" | "uint8_t" => 1,
            "int16_t" | "uint16_t" => 2,
            "int32_t" | "uint32_t" | "float" => 4,
            "int64_t" | "uint64_t" | "double" => 8,
            other => panic!("{other}"),
        };
        if bytes > 0 {
            let at = end.next_multiple_of(bytes);
            places.push((at, bytes));
            end = at + bytes;
        }
    }
    (places, end, images)
}

/// The programs of a bundle, with their signatures.
fn bundle(bytes: &[u8]) -> Vec<(Program, String)> {
    let mut rest = bytes.strip_prefix(b"hcq-ir3 1\n").expect("a bundle");
    let mut all = Vec::new();
    while !rest.is_empty() {
        let mut fields = BTreeMap::new();
        let code = loop {
            let end = rest.iter().position(|&b| b == b'\n').expect("a line");
            let line = std::str::from_utf8(&rest[..end]).expect("text");
            let (field, value) = line.split_once(' ').unwrap_or((line, ""));
            rest = &rest[end + 1..];
            if field == "code" {
                let (code, after) = rest.split_at(value.parse().expect("a number"));
                rest = after;
                break code.to_vec();
            }
            fields.insert(field, value);
        };
        let list = |field: &str| -> Vec<u32> {
            let words = fields[field].split_whitespace();
            words.map(|n| n.parse().expect("a number")).collect()
        };
        let number = |field: &str| list(field)[0];
        let last = |field: &str| fields[field].parse::<i32>().expect("a number");
        let count = |field: &str| u32::try_from(last(field) + 1).expect("a count");
        let driver = list("driver_params");
        let sizes = (driver[1] > 0).then_some(16 * driver[0] + 32);
        let groups = (number("group_count") == 1).then_some(16 * driver[0]);
        let immediates = (number("max_const_offset") * 16..).step_by(4);
        let textures = list("textures").len() as u32;
        all.push((
            Program {
                name: fields["kernel"].into(),
                code,
                registers: [count("max_reg"), count("max_half_reg")],
                local_bytes: number("shared_bytes"),
                fiber_bytes: number("private_bytes"),
                before: number("arguments_offset"),
                sizes: (sizes, groups),
                textures: [textures; 2],
                immediates: immediates.zip(list("immediates")).collect(),
            },
            fields["arguments"].into(),
        ));
    }
    all
}

/// A program in the container of Qualcomm's compiler; `places` are its arguments in C.
fn container(name: &str, bytes: &[u8], places: &[(u32, u32)]) -> Program {
    let word = |at: u32| {
        let bytes = bytes[at as usize..].first_chunk().expect("a word");
        u32::from_le_bytes(*bytes)
    };
    let (image, registers, code) = (word(0x110), word(0x34), word(0xC0));
    let name_at = image + 0x158;
    assert!(bytes[name_at as usize..].starts_with(name.as_bytes()));
    let samplers = word(image + 0xDC);
    let mut at = (name_at + name.len() as u32).next_multiple_of(4) + 8 * samplers;
    let (mut before, mut textures, mut plain) = (None, 0, places.iter());
    while word(at) != 0 {
        match word(at + 28) {
            1 => textures += 1,
            2 => {}
            _ => {
                let (offset, _) = plain.next().expect("an argument");
                let block = 4 * word(at + 12) - offset;
                assert_eq!(*before.get_or_insert(block), block, "{name}");
            }
        }
        at += word(at);
    }
    let constants = (word(0xAC)..code).step_by(40).take(word(0xB0) as usize);
    Program {
        name: name.into(),
        code: bytes[code as usize..][..word(0x100) as usize].to_vec(),
        registers: [word(registers + 0x14), word(registers + 0x18)],
        local_bytes: word(image + 0xD8),
        fiber_bytes: word(image + 0xC8),
        before: before.unwrap_or(0),
        sizes: (None, None),
        textures: [textures, samplers],
        immediates: constants.map(|at| (4 * word(at + 16), word(at))).collect(),
    }
}

fn row(program: &Program, signature: &str) -> String {
    let (places, end, images) = arguments(signature);
    let places: Vec<String> = places
        .iter()
        .map(|(at, bytes)| format!("p({}, {at}, {bytes})", program.before + at))
        .collect();
    let immediates: Vec<String> = program
        .immediates
        .iter()
        .map(|(at, value)| format!("({at}, {value:#x})"))
        .collect();
    let module = if program.name.contains("_image") {
        "texel"
    } else {
        "stock"
    };
    let ([full, half], [textures, samplers]) = (program.registers, program.textures);
    format!(
        "        ({:?}, {}, {:#018x}, [{full}, {half}, {}, {}, {end}], &[{}], {:?}, [{textures}, {samplers}, {images}], &[{}], \
         {module}::{}),\n",
        program.name,
        program.code.len(),
        code_hash(&program.code),
        program.local_bytes,
        program.fiber_bytes,
        places.join(", "),
        program.sizes,
        immediates.join(", "),
        program.name,
    )
}

#[test]
fn the_qcom_table_is_that_of_the_programs() {
    let folder = folder();
    if !folder.exists() {
        eprintln!("skipped: there are no programs here");
        return;
    }
    let read = |name: &str| std::fs::read(folder.join(name)).expect(name);
    let mut text = String::new();
    let (mut rows, mut containers) = (0, 0);
    for chip in ["a630", "a650", "a660"] {
        text += &format!("    ({chip:?}, &[\n");
        let programs = bundle(&read(&format!("stock-{chip}.ir3")));
        for (program, signature) in &programs {
            text += &row(program, signature);
            rows += 1;
        }
        // Containers are for all chips.
        for (of, signature) in &programs {
            let name = format!("cl/{}.bin", of.name);
            if !folder.join(&name).exists() {
                continue;
            }
            let (places, _, _) = arguments(signature);
            let program = container(&of.name, &read(&name), &places);
            containers += 1;
            // `empty` has nothing that one form needs and the other does not.
            let line = row(&program, signature);
            if !text.ends_with(&line) && program.code != of.code {
                text += &line;
            }
        }
        text += "    ]),\n";
    }
    assert_eq!((rows, containers), (51, 33));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/standin/table/qcom.rs");
    let file = std::fs::read_to_string(&path).expect("the table is there");
    let mark = "static TABLE: &[(&str, &[Row])] = &[\n";
    let start = file.find(mark).expect("the table begins") + mark.len();
    let wanted = format!("{}{text}];\n", &file[..start]);
    if std::env::var_os("HCQ_WRITE_TABLE").is_some() {
        std::fs::write(&path, &wanted).expect("the table can be written");
    } else {
        assert!(file == wanted, "the table is not that of the programs");
    }
}
