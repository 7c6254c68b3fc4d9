//! Command streams that were recorded from another runtime (`tests/vectors`), which ran them on an A630: they are executed, and
//! what a program is given, and what is in memory afterwards, has to be what the recording says that was meant.
//!
//! Where the recorded words carry a fault (as `drivers/qcom/tests/golden` has them) they are refused as they are, or put right
//! before; [`Faults`] counts those that were met.

use std::collections::BTreeMap;

use serde_json::Value;

use super::support::*;
use crate::engine::Step;

fn number(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_else(|| panic!("{value}"));
    let digits = text.trim_start_matches("0x");
    u64::from_str_radix(digits, 16).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn numbers(value: &Value) -> Vec<u64> {
    value
        .as_array()
        .expect("a list")
        .iter()
        .map(number)
        .collect()
}

fn words(value: &Value) -> Vec<u32> {
    numbers(value).into_iter().map(|n| n as u32).collect()
}

/// More work-groups than are run.
const MANY: u64 = 10_000;

/// Faults that were put right, by name.
type Faults = BTreeMap<&'static str, usize>;

/// Each register write of a stream: the register, and where its value is.
fn writes(stream: &[u32]) -> Vec<(u32, usize)> {
    let (mut at, mut all) = (0, Vec::new());
    while let Some(&header) = stream.get(at) {
        let (count, first) = match header >> 28 {
            4 => (header & 0x7F, Some(header >> 8 & 0x3_FFFF)),
            7 => (header & 0x3FFF, None),
            _ => panic!("{header:#x} at {at}"),
        };
        if let Some(first) = first {
            all.extend((first..first + count).zip(at + 1..));
        }
        at += 1 + count as usize;
    }
    all
}

/// Puts right what the other runtime gets wrong.
fn correct(stream: &mut [u32], late: bool, faults: &mut Faults) {
    let mut fault = |name| *faults.entry(name).or_insert(0) += 1;
    for (register, at) in writes(stream) {
        let value = &mut stream[at];
        match register {
            // HLSQ_CS_CNTL: 256 vectors, in units of 4.
            0xB987 if *value == 0x100 => {
                *value |= 64;
                fault("constant length");
            }
            // SP_CS_PVT_MEM_HW_STACK_OFFSET: bytes in place of 2 KiB.
            0xA9BD => {
                *value >>= if late { 10 } else { 11 };
                fault("stack offset");
            }
            // SP_CS_PVT_MEM_SIZE: the fibers of an A630.
            0xA9B9 if late && *value != 0 => {
                *value *= 2;
                fault("fibers");
            }
            // HLSQ_CS_CNTL_0: the number of a constant as that of a register.
            0xB997 if *value >> 8 & 0xFF < 0xC0 => {
                *value |= 0xFC00;
                *value &= !0x0300;
                fault("size register");
            }
            _ => {}
        }
    }
}

/// Memory as it was when the words were submitted.
fn prepare(rig: &mut Rig, case: &Value, memory: &Value) {
    let dummy = number(&case["inputs"]["device"]["dummy_addr"]);
    rig.memory.map(dummy, 4);
    for run in memory.as_array().into_iter().flatten() {
        let at = number(&run["addr"]) + number(&run["offset"]);
        let text = run["bytes"].as_str().expect("bytes");
        let bytes: Vec<u8> = (0..text.len() / 2)
            .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("a byte"))
            .collect();
        rig.memory.map(at & !0xFFF, bytes.len() as u64 + 0x3000);
        let (whole, _) = bytes.as_chunks();
        for (i, word) in (0..).zip(whole) {
            rig.memory.put(at + 4 * i, u32::from_le_bytes(*word));
        }
    }
    for op in case["inputs"]["ops"].as_array().expect("ops") {
        if op["op"] != "exec" {
            continue;
        }
        let program = &op["program"];
        let code = number(&program["code_addr"]);
        rig.memory
            .map(code, number(&program["image_size"]) + 0x1000);
        rig.memory
            .put(code + number(&program["prg_offset"]), NOTHING);
        if op["args"]["kernargs_addr"].is_string() {
            rig.memory.map(number(&op["args"]["kernargs_addr"]), 0x4000);
        }
        // As much as there is for the largest program.
        let stack = number(&program["derived"]["stack_addr"]);
        for at in (0..64u64).map(|mib| stack + (mib << 20)) {
            rig.memory.map(at, 1);
            rig.memory.map(at + 0xF_FFFF, 1);
        }
    }
}

/// What a launch has to be.
fn launched(rig: &Rig, op: &Value, title: &str) {
    let program = &op["program"];
    let entry = number(&program["code_addr"]) + number(&program["prg_offset"]);
    let runs: Vec<_> = rig
        .log()
        .into_iter()
        .filter(|(dispatch, _)| dispatch.program == entry)
        .collect();
    let size = |name: &str| -> [u64; 3] { numbers(&op[name]).try_into().expect("three") };
    let (groups, local) = (size("global_size"), size("local_size"));
    let all: u64 = groups.iter().product();
    assert!(
        runs.len() as u64 == all || all > MANY,
        "{title}: {}",
        runs.len()
    );
    let (dispatch, _) = &runs[0];
    assert_eq!(dispatch.groups.map(u64::from), groups, "{title}");
    assert_eq!(dispatch.local.map(u64::from), local, "{title}");
    let registers = dispatch.registers.adreno().expect("Adreno's");
    let same = [
        ("full_regs", registers.full_registers),
        ("half_regs", registers.half_registers),
        ("texture_count", registers.textures.len() as u32),
        ("ibo_count", registers.images.len() as u32),
        ("sampler_count", registers.samplers.len() as u32),
    ];
    for (name, seen) in same {
        assert_eq!(u64::from(seen), number(&program[name]), "{title}: {name}");
    }
    let private = number(&program["private_mem"]).next_multiple_of(512);
    assert_eq!(u64::from(registers.fiber_bytes), private, "{title}");
    let shared = number(&program["shared_mem"]).next_multiple_of(1024);
    assert_eq!(
        u64::from(dispatch.local_memory),
        shared.max(2048),
        "{title}"
    );
    // Constants and descriptors are what the argument block has.
    let block = number(&op["args"]["kernargs_addr"]);
    assert_eq!(registers.constants.len(), 1024, "{title}");
    let row = |at: u64, count: u64| -> Vec<u32> {
        (0..count)
            .map(|i| rig.memory.get(block + at + 4 * i))
            .collect()
    };
    assert_eq!(registers.constants, row(0, 1024), "{title}");
    let tables: [(&str, Vec<u32>); 3] = [
        ("texture_offset", registers.textures.concat()),
        ("ibo_offset", registers.images.concat()),
        ("sampler_offset", registers.samplers.concat()),
    ];
    for (name, seen) in tables {
        let at = number(&program[name]);
        assert_eq!(seen, row(at, seen.len() as u64), "{title}: {name}");
    }
    // Buffers' addresses are among the constants, in order, where the recording puts them.
    let at = program["buffer_offset"]
        .as_str()
        .map(|_| number(&program["buffer_offset"]));
    let buffers = op["args"]["buffer_addrs"].as_array().expect("addresses");
    let plain = number(&program["texture_count"]) + number(&program["ibo_count"]) == 0;
    if let (Some(at), true) = (at, plain) {
        for (i, buffer) in buffers.iter().enumerate() {
            let at = at as usize / 4 + 2 * i;
            let seen =
                u64::from(registers.constants[at]) | u64::from(registers.constants[at + 1]) << 32;
            assert_eq!(seen, number(buffer), "{title}");
        }
    }
}

/// Runs the words of a case, with the numbers that its variables have.
fn execute(
    case: &Value,
    words: &[u32],
    memory: &Value,
    vars: &Value,
    faults: &mut Faults,
) -> usize {
    let title = case["name"].as_str().expect("a name");
    let chip = case["inputs"]["device"]["chip"].as_str().expect("a chip");
    let value = |of: &Value| match &of["expr"] {
        Value::String(text) => {
            let (name, plus) = match text.trim_matches(['(', ')']).split_once(" + ") {
                Some((name, plus)) => (name.to_string(), number(&Value::String(plus.into()))),
                None => (text.clone(), 0),
            };
            number(&vars[&name]).wrapping_add(plus)
        }
        _ => number(of),
    };
    let mut stream = words.to_vec();
    correct(&mut stream, chip != "a630", faults);
    let mut rig = Rig::new(chip, 5);
    prepare(&mut rig, case, memory);
    let ops = case["inputs"]["ops"].as_array().expect("ops");
    let signals = ops.iter().filter(|op| op["signal"].is_object());
    for op in signals.clone() {
        let at = value(&op["signal"]["addr"]);
        rig.memory.map(at & !0xFFF, 0x2000);
        if op["op"] == "wait" {
            // One less than what is waited for: it has to wait.
            let wanted = value(&op["value"]) as u32;
            rig.memory.put(at, wanted.wrapping_sub(1));
        }
    }
    rig.memory.map(IB, 0x4000);
    rig.submit(&stream);
    if ops[0]["op"] == "wait" && value(&ops[0]["value"]) as u32 != 0 {
        assert!(matches!(rig.run(), Step::Waiting), "{title}");
        assert!(rig.log().is_empty(), "{title}");
        for op in signals.clone().filter(|op| op["op"] == "wait") {
            let wanted = value(&op["value"]) as u32;
            rig.memory.put(value(&op["signal"]["addr"]), wanted);
        }
    }
    // Launches of very many groups are looked at when they have begun.
    let many = ops.iter().filter(|op| op["op"] == "exec").any(|op| {
        let groups: u64 = numbers(&op["global_size"]).iter().product();
        groups > MANY
    });
    if many {
        assert_eq!(ops.len(), 1, "{title}");
        while rig.log().is_empty() {
            assert!(matches!(rig.step(), Step::Progress), "{title}");
        }
    } else {
        rig.finish();
    }
    for op in ops {
        match op["op"].as_str() {
            Some("exec") => launched(&rig, op, title),
            Some("timestamp") => {
                let at = value(&op["signal"]["addr"]) + 8;
                assert_eq!(rig.memory.get64(at), rig.clock, "{title}");
            }
            _ => {}
        }
    }
    let last = ops.iter().rfind(|op| op["op"] == "signal");
    if let Some(op) = last {
        let seen = rig.memory.get(value(&op["signal"]["addr"]));
        assert_eq!(seen, value(&op["value"]) as u32, "{title}");
    }
    ops.len()
}

#[test]
fn recorded_streams_do_what_was_meant() {
    let (mut ops, mut cases, mut faults) = (0, 0, Faults::new());
    for file in [
        include_str!("../../../../../../tests/vectors/qcom-a630.json"),
        include_str!("../../../../../../tests/vectors/qcom-a650.json"),
        include_str!("../../../../../../tests/vectors/qcom-a660.json"),
    ] {
        let all: Vec<Value> = serde_json::from_str(file).expect("cases");
        for case in &all {
            let title = case["name"].as_str().expect("a name");
            // 2.5 groups; only 16 of 17 textures are loaded, which the table makes good; an `exec` with variables in its sizes.
            if title.ends_with("_float_size") || title.contains("_sym_exec") {
                continue;
            }
            cases += 1;
            if case["expected_words"].is_array() {
                let none = Value::Null;
                ops += execute(
                    case,
                    &words(&case["expected_words"]),
                    &case["expected_memory"],
                    &none,
                    &mut faults,
                );
            }
            for binding in case["bindings"].as_array().into_iter().flatten() {
                ops += execute(
                    case,
                    &words(&binding["expected_words"]),
                    &binding["expected_memory"],
                    &binding["vars"],
                    &mut faults,
                );
            }
        }
    }
    assert!(cases > 60 && ops > 80, "{cases} {ops}");
    let names: Vec<_> = faults.keys().copied().collect();
    assert_eq!(
        names,
        ["constant length", "fibers", "size register", "stack offset"]
    );
}

#[test]
fn what_is_wrong_in_them_is_refused() {
    let file = include_str!("../../../../../../tests/vectors/qcom-a630.json");
    let all: Vec<Value> = serde_json::from_str(file).expect("cases");
    for (name, because) in [
        (
            "a630_exec_nir_wgsize",
            "WGSIZECONSTID is r8.x; it has to be r48 or higher",
        ),
        ("a630_exec_cl_scratch", "reserved bits"),
        ("a630_exec_cl_float_size", "GLOBALSIZE_X"),
    ] {
        let case = all.iter().find(|case| case["name"] == name).expect(name);
        let mut rig = Rig::new("a630", 5);
        prepare(&mut rig, case, &case["expected_memory"]);
        let mut stream = words(&case["expected_words"]);
        if name.ends_with("_wgsize") {
            // But for the register, all is right.
            let before = stream.clone();
            correct(&mut stream, false, &mut Faults::new());
            for (register, at) in writes(&before) {
                if register == 0xB997 {
                    stream[at] = before[at];
                }
            }
        }
        rig.submit(&stream);
        match rig.run() {
            Step::Fault(fault) => {
                let text = fault.to_string();
                assert!(text.contains(because), "{name}: {text}");
            }
            // Groups that are smaller at the end are what the words say.
            Step::Idle => assert!(name.ends_with("float_size"), "{name}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}
