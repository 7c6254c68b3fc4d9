//! Command streams that were recorded from another runtime (`tests/vectors`), which ran them on these GPUs, executed for what
//! they do.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::channel::ChannelEngine;
use super::support::*;
use crate::engine::Step;
use crate::exec::Dispatch;

const AMPERE: &str = include_str!("../../../../../tests/vectors/nv-ampere-compute.json");
const ADA: &str = include_str!("../../../../../tests/vectors/nv-ada-compute.json");
const BLACKWELL: &str = include_str!("../../../../../tests/vectors/nv-blackwell-compute.json");
const COPIES: &str = include_str!("../../../../../tests/vectors/nv-copy.json");
const LOCAL: &str = include_str!("../../../../../tests/vectors/nv-local-mem.json");

/// A program that only leaves its launch in the log.
const SILENT: u32 = 99;
/// Copies that are longer are not made.
const MOST: u64 = 1 << 20;

fn number(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_else(|| panic!("{value}"));
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let value = u64::from_str_radix(digits.trim_start_matches("0x"), 16).unwrap();
    if sign { value.wrapping_neg() } else { value }
}

fn words(value: &Value) -> Vec<u32> {
    let all = value.as_array().into_iter().flatten();
    all.map(|word| number(word) as u32).collect()
}

fn three(value: &Value) -> [u32; 3] {
    [0, 1, 2].map(|at| number(&value[at]) as u32)
}

/// A GPU with what the recording machine had set up before.
fn rig(name: &str, engine: ChannelEngine) -> Rig {
    let mut rig = Rig::on(name, engine, 5);
    if engine == ChannelEngine::Graphics {
        // Both windows, and local memory for what its programs have of it.
        rig.submit(&[
            inc(1, 0x2A0, 2),
            0x7294,
            0,
            inc(1, 0x7B0, 2),
            0x7293,
            0,
            inc(1, 0x790, 2),
            0x123,
            0,
            inc(1, 0x2E4, 3),
            0,
            0x40_0000,
            0xFF,
        ]);
    }
    rig
}

/// Lays out the programs of a case.
fn programs(rig: &mut Rig, case: &Value) {
    for op in case["inputs"]["ops"].as_array().into_iter().flatten() {
        let program = &op["program"];
        if program.is_object() {
            let (at, bytes) = (
                number(&program["lib_addr"]),
                number(&program["lib_alloc_size"]),
            );
            rig.memory.map(at, bytes);
            for word in (0..bytes).step_by(4) {
                rig.memory.put(at + word, SILENT);
            }
        }
    }
}

/// Lays out a case's memory; the values of its waits are there already.
fn memory(rig: &mut Rig, case: &Value) {
    for part in case["expected_memory"].as_array().into_iter().flatten() {
        let (address, bytes) = (number(&part["addr"]), part["bytes"].as_str().unwrap());
        let bytes: Vec<u8> = (0..bytes.len() / 2)
            .map(|at| u8::from_str_radix(&bytes[2 * at..2 * at + 2], 16).unwrap())
            .collect();
        // The bank and the QMD are read beyond what was written.
        rig.memory.map(address, bytes.len() as u64 + 0x1000);
        for (at, word) in (0..).zip(bytes.chunks(4)) {
            let mut whole = [0; 4];
            whole[..word.len()].copy_from_slice(word);
            rig.memory.put(address + 4 * at, u32::from_le_bytes(whole));
        }
    }
    for op in case["inputs"]["ops"].as_array().into_iter().flatten() {
        let (address, value) = match op["op"].as_str().unwrap() {
            "wait" => (number(&op["signal"]["addr"]), number(&op["value"])),
            "poll_bit" => (number(&op["addr"]), number(&op["value"])),
            "signal" | "timestamp" => (number(&op["signal"]["addr"]), u64::MAX),
            "write" => (number(&op["addr"]), u64::MAX),
            "copy" => {
                let (from, to) = (number(&op["src"]), number(&op["dest"]));
                let size = number(&op["size"]).min(MOST);
                rig.memory.map(from, size + 8);
                rig.memory.map(to, size + 8);
                for at in (0..size).step_by(4) {
                    rig.memory.put((from & !3) + at, at as u32 ^ 0x5A5A);
                }
                continue;
            }
            _ => continue,
        };
        rig.memory.map(address, 16);
        let waited = op["op"] == "wait" || op["op"] == "poll_bit";
        if waited || rig.memory.get64(address & !7) == 0 {
            rig.memory.put64(address & !7, value << (8 * (address & 4)));
        }
    }
}

/// What a case has to have done.
fn check(rig: &Rig, case: &Value, name: &str) -> usize {
    let log = rig.log.lock().unwrap();
    // Launches without a wait for idle in between come in any order.
    let bank0 = |dispatch: &Dispatch| {
        let registers = dispatch.registers.nv().unwrap();
        registers.banks[0].map(|bank| bank.address)
    };
    let mut launches = BTreeMap::new();
    for (dispatch, _) in &*log {
        let entry = launches.entry(bank0(dispatch)).or_insert((dispatch, 0));
        assert_eq!(entry.0, dispatch, "{name}");
        entry.1 += 1;
    }
    let mut written = BTreeMap::new();
    let mut ops = 0;
    for op in case["inputs"]["ops"].as_array().into_iter().flatten() {
        ops += 1;
        match op["op"].as_str().unwrap() {
            "exec" => {
                let address = number(&op["args"]["kernargs_addr"]);
                let launch = launches.remove(&Some(address));
                let (dispatch, groups) = launch.unwrap_or_else(|| panic!("{name}: no launch"));
                let all: u64 = dispatch.groups.iter().map(|&n| u64::from(n)).product();
                assert_eq!(groups, all, "{name}");
                assert_eq!(dispatch.groups, three(&op["global_size"]), "{name}");
                assert_eq!(dispatch.local, three(&op["local_size"]), "{name}");
                let program = &op["program"];
                let registers = dispatch.registers.nv().unwrap();
                assert_eq!(u64::from(registers.registers), number(&program["regs"]));
                let own = number(&program["shared_bytes"]) - 0x400;
                assert_eq!(u64::from(dispatch.local_memory), own, "{name}");
                assert_eq!(
                    u64::from(registers.thread_bytes),
                    number(&program["slm_per_thread"])
                );
                let library = number(&program["lib_addr"]);
                let bytes = number(&program["lib_alloc_size"]);
                assert!(
                    (library..library + bytes).contains(&dispatch.program),
                    "{name}"
                );
                for (index, bank) in program["constant_buffers"].as_object().unwrap() {
                    let index: usize = index.parse().unwrap();
                    let address = match index {
                        0 => number(&op["args"]["kernargs_addr"]),
                        _ => number(&bank["addr"]),
                    };
                    let here = registers.banks[index].unwrap();
                    assert_eq!(here.address, address, "{name}: bank {index}");
                    // The recorded sizes are sixteen times too large.
                    assert!(u64::from(here.bytes) >= number(&bank["size"]), "{name}");
                }
            }
            "signal" | "timestamp" => {
                let value = op.get("value").map_or(0, number);
                let folded = op["words"][0] == op["words"][1];
                // Releases of QMDs were recorded with 32-bit payloads, those of the copy engine too.
                let copied = name.contains("_copy_");
                let value = if folded || copied {
                    value & 0xFFFF_FFFF
                } else {
                    value
                };
                written.insert(number(&op["signal"]["addr"]), (value, true));
            }
            "write" => {
                let wide = op["b64"] == true;
                let value = number(&op["value"]);
                let value = if wide {
                    value
                } else {
                    value & 0xFFFF_FFFF | 0xFFFF_FFFF << 32
                };
                written.insert(number(&op["addr"]), (value, false));
            }
            "copy" => {
                let (from, to) = (number(&op["src"]), number(&op["dest"]));
                let byte = |at: u64| rig.memory.get(at & !3) >> (8 * (at & 3)) & 0xFF;
                for at in 0..number(&op["size"]) {
                    assert_eq!(byte(to + at), byte(from + at), "{name}: {at:#x}");
                }
            }
            "wait" | "poll_bit" | "memory_barrier" | "setup" => {}
            other => panic!("{name}: what is {other}?"),
        }
    }
    assert!(
        launches.is_empty(),
        "{name}: launches that nobody asked for"
    );
    for (address, (value, timed)) in written {
        assert_eq!(rig.memory.get64(address), value, "{name}: {address:#x}");
        let time = rig.memory.get64(address + 8);
        assert_eq!((1000..=rig.clock).contains(&time), timed, "{name}: {time}");
    }
    ops
}

/// Whether a case can be run to its end: groups are too many, or bytes are.
fn endless(case: &Value) -> bool {
    case["inputs"]["ops"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|op| match op["op"].as_str().unwrap() {
            "exec" => three(&op["global_size"]).iter().any(|&n| n > 1000),
            "copy" => number(&op["size"]) > MOST,
            _ => false,
        })
}

#[test]
fn recorded_streams_do_what_was_asked() {
    let mut ops = 0;
    for (name, file) in [
        ("ampere", AMPERE),
        ("ada", ADA),
        ("blackwell", BLACKWELL),
        ("", COPIES),
    ] {
        let cases: Vec<Value> = serde_json::from_str(file).unwrap();
        for case in &cases {
            let title = case["name"].as_str().unwrap();
            // Templates are not streams yet, and a GP entry for no words is one of another kind.
            let stream = words(&case["expected_words"]);
            if stream.is_empty() || endless(case) {
                continue;
            }
            let generation = case["inputs"]["device"]["arch"].as_str().unwrap_or(name);
            let engine = if title.contains("_copy_") {
                ChannelEngine::Copy(0)
            } else {
                ChannelEngine::Graphics
            };
            let mut rig = rig(generation, engine);
            programs(&mut rig, case);
            memory(&mut rig, case);
            match case["expected_submits"].as_array() {
                None => rig.submit(&stream),
                // By the entries of the ring, each of which names words in memory.
                Some(submits) => {
                    for submit in submits {
                        rig.entry(number(&submit["gpfifo_entry"]));
                    }
                }
            }
            rig.finish();
            let times = case["expected_submits"].as_array().map_or(1, Vec::len);
            if times == 1 {
                ops += check(&rig, case, title);
            }
        }
    }
    assert!(ops > 250, "{ops}");
}

#[test]
fn recorded_streams_that_have_no_end_begin() {
    let mut begun = 0;
    for (name, file) in [("ampere", AMPERE), ("ada", ADA), ("blackwell", BLACKWELL)] {
        let cases: Vec<Value> = serde_json::from_str(file).unwrap();
        let whole = cases.iter().filter(|case| case.get("bindings").is_none());
        for case in whole.filter(|case| endless(case)) {
            let mut rig = rig(name, ChannelEngine::Graphics);
            programs(&mut rig, case);
            memory(&mut rig, case);
            rig.submit(&words(&case["expected_words"]));
            while rig.log.lock().unwrap().is_empty() {
                assert!(matches!(rig.step(), Step::Progress));
            }
            let log = rig.log.lock().unwrap();
            let op = &case["inputs"]["ops"][0];
            assert_eq!(log[0].0.groups, three(&op["global_size"]));
            assert_eq!(log[0].0.local, three(&op["local_size"]));
            begun += 1;
        }
    }
    assert!(begun >= 3, "{begun}");
}

#[test]
fn bound_streams_do_what_was_asked() {
    let mut bindings = 0;
    for (name, file) in [("ampere", AMPERE), ("ada", ADA), ("blackwell", BLACKWELL)] {
        let cases: Vec<Value> = serde_json::from_str(file).unwrap();
        for case in &cases {
            let Some(all) = case["bindings"].as_array() else {
                continue;
            };
            let title = case["name"].as_str().unwrap();
            for binding in all {
                let mut rig = rig(name, ChannelEngine::Graphics);
                programs(&mut rig, case);
                memory(&mut rig, binding);
                let stream = words(&binding["expected_words"]);
                // The semaphores of these streams are wherever their variables say.
                for at in 0..stream.len().saturating_sub(5) {
                    if stream[at] == 0x2005_0017 {
                        let address = u64::from(stream[at + 1]) | u64::from(stream[at + 2]) << 32;
                        rig.memory.map(address, 16);
                        if stream[at + 5] & 7 != 1 {
                            rig.memory.put(address, stream[at + 3]);
                        }
                    }
                }
                for (variable, value) in binding["vars"].as_object().unwrap() {
                    if variable == "sig" {
                        rig.memory.map(number(value), 16);
                    }
                }
                rig.submit(&stream);
                let variable = |name: &str| binding["vars"].get(name).map(|v| number(v) as u32);
                if variable("gx").is_some_and(|groups| groups > 1000) {
                    // It begins.
                    while rig.log.lock().unwrap().is_empty() {
                        assert!(matches!(rig.step(), Step::Progress));
                    }
                } else {
                    rig.finish();
                }
                let launched = rig.log.lock().unwrap();
                if let Some(width) = variable("gx") {
                    let (dispatch, _) = &launched[0];
                    assert_eq!(dispatch.groups[0], width, "{title}");
                    assert_eq!(dispatch.local[0], variable("lx").unwrap(), "{title}");
                }
                bindings += 1;
            }
        }
    }
    assert!(bindings > 20, "{bindings}");
}

#[test]
fn recorded_local_memory_is_enough_for_what_it_was_made_for() {
    let cases: Vec<Value> = serde_json::from_str(LOCAL).unwrap();
    for case in &cases {
        let inputs = &case["inputs"];
        let mut rig = rig(inputs["arch"].as_str().unwrap(), ChannelEngine::Graphics);
        let signal = number(&inputs["signal"]["addr"]);
        rig.memory.map(signal, 16);
        rig.memory
            .put64(signal, number(&inputs["timeline_value"]) - 1);
        rig.submit(&words(&case["expected_words"]));
        rig.finish();
        assert_eq!(rig.memory.get64(signal), number(&inputs["timeline_value"]));
    }
    assert!(cases.len() >= 18);
}
