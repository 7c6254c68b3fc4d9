//! Recorded facts: version 1.17 of the interface, and what came later or is no macro of C.

use std::collections::BTreeMap;

use hcq_uapi::kfd;
use serde_json::Value;

use super::{BY_AGE, UNNAMED, c_names, left_out, same};

/// Fields of C that lie in a struct of their own here: the struct, its field, and the struct that has them.
const NESTED: &[(&str, &str, &str)] = &[
    (
        "kfd_hsa_memory_exception_data",
        "failure",
        "kfd_memory_exception_failure",
    ),
    (
        "kfd_context_save_area_header",
        "wave_state",
        "kfd_context_save_area_wave_state",
    ),
];

/// The two records as one.
pub(crate) struct Facts {
    pub(crate) structs: Vec<Value>,
    pub(crate) numbers: BTreeMap<String, u64>,
}

impl Facts {
    pub(crate) fn read() -> Self {
        let mut all = Self {
            structs: Vec::new(),
            numbers: BTreeMap::new(),
        };
        for file in ["abi-kfd.json", "abi-kfd-more.json"] {
            let path = format!("{}/../../tests/vectors/{file}", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read(path).expect("recorded facts");
            let facts: Value = serde_json::from_slice(&text).expect("JSON");
            all.structs
                .extend(facts["structs"].as_array().into_iter().flatten().cloned());
            let constants = facts["constants"].as_object().expect("a table");
            all.numbers
                .extend(constants.iter().map(|(n, v)| (n.clone(), number(v))));
            for request in facts["ioctls"].as_array().expect("a list") {
                let name = request["name"].as_str().expect("a name").to_owned();
                all.numbers.insert(name, number(&request["request"]));
            }
        }
        all
    }

    pub(crate) fn field(&self, structure: &str, field: &'static str) -> bool {
        let fields = self
            .structs
            .iter()
            .filter(|s| s["name"] == structure)
            .filter_map(|s| s["fields"].as_array());
        fields
            .flatten()
            .any(|f| c_names(structure, field).iter().any(|n| f["name"] == *n))
    }
}

fn number(value: &Value) -> u64 {
    let text = value
        .as_str()
        .expect("a number in text")
        .trim_start_matches("0x");
    u64::from_str_radix(text, 16).expect("a hexadecimal number")
}

fn ours() -> BTreeMap<&'static str, u64> {
    let constants = kfd::constants().map(|c| (c.name, c.value));
    constants
        .chain(
            kfd::structs()
                .filter_map(|s| s.request)
                .map(|r| (r.name, u64::from(r.number))),
        )
        .collect()
}

#[test]
fn recorded_numbers_are_ours() {
    let (facts, ours) = (Facts::read(), ours());
    for (name, value) in facts
        .numbers
        .iter()
        .filter(|(n, _)| !left_out(n) && !BY_AGE.contains(&n.as_str()))
    {
        let have = ours
            .get(name.as_str())
            .unwrap_or_else(|| panic!("{name} = {value:#x} is missing"));
        assert!(
            same(*have, *value),
            "{name}: {have:#x}, recorded {value:#x}"
        );
    }
    for name in ours.keys() {
        assert!(facts.numbers.contains_key(*name), "{name} is not recorded");
    }
}

#[test]
fn recorded_structs_are_ours() {
    let facts = Facts::read();
    for recorded in &facts.structs {
        let name = recorded["name"].as_str().expect("a name");
        if left_out(name) {
            continue;
        }
        let s = kfd::structs()
            .find(|s| s.name == name)
            .unwrap_or_else(|| panic!("struct {name} is missing"));
        assert_eq!(
            (s.size as u64, s.align as u64),
            (number(&recorded["size"]), number(&recorded["align"])),
            "{name}"
        );
        for field in recorded["fields"].as_array().expect("a list") {
            let (field, offset) = (
                field["name"].as_str().expect("a name"),
                number(&field["offset"]),
            );
            let direct = s
                .fields
                .iter()
                .find(|f| c_names(name, f.name).contains(&field))
                .map(|f| f.offset);
            let nested = || {
                let (_, outer, inner) = NESTED.iter().find(|(of, ..)| *of == name)?;
                let outer = s.fields.iter().find(|f| f.name == *outer)?;
                let inner = kfd::structs()
                    .find(|s| s.name == *inner)?
                    .fields
                    .iter()
                    .find(|f| f.name == field)?;
                Some(outer.offset + inner.offset)
            };
            // The one array without a length starts where the struct ends.
            let behind = || (field == "attrs").then_some(s.size);
            let have = direct.or_else(nested).or_else(behind);
            assert_eq!(have.map(|o| o as u64), Some(offset), "{name}.{field}");
        }
    }
    for s in kfd::structs().filter(|s| !UNNAMED.contains(&s.name)) {
        for f in s.fields {
            let nested = NESTED
                .iter()
                .any(|(of, outer, _)| (*of, *outer) == (s.name, f.name));
            assert!(
                nested || facts.field(s.name, f.name),
                "{}.{} is not recorded",
                s.name,
                f.name
            );
        }
    }
}
