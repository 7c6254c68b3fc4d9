//! Recorded cases that belong to no vendor: bump allocators, argument layouts, split values.

use hcq_nostd::arena::{ArenaError, Bump, FencedArena, Mark};
use hcq_nostd::args::{Arg, packed_size, write_packed};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{Derived, Formula, PatchList, RegionId, Site, Store};
use hcq_nostd::record::{Block, Recorder};
use hcq_nostd::timeline::Point;
use hcq_nostd::value::{Fit, Value, Var};
use serde_json::Value as Json;

fn cases(prefix: &str) -> Vec<Json> {
    let all: Json =
        serde_json::from_str(include_str!("../../tests/vectors/hcq-common.json")).expect("JSON");
    let cases: Vec<Json> = all.as_array().expect("an array").to_vec();
    assert_eq!(cases.len(), 10, "cases of the file");
    let found: Vec<Json> = cases
        .into_iter()
        .filter(|c| c["name"].as_str().expect("a name").starts_with(prefix))
        .collect();
    assert!(!found.is_empty(), "no case {prefix}");
    found
}

/// A hexadecimal string; negative numbers as their two's complement.
fn number(n: &Json) -> u64 {
    let text = n.as_str().expect("a string");
    let (digits, negative) = match text.strip_prefix('-') {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let n =
        u64::from_str_radix(digits.strip_prefix("0x").expect("hexadecimal"), 16).expect("a number");
    if negative { n.wrapping_neg() } else { n }
}

#[test]
fn bump_arenas() {
    let mut ran = 0;
    for case in cases("bump_") {
        let (size, base) = (
            number(&case["inputs"]["size"]),
            number(&case["inputs"]["base"]),
        );
        let wraps = case["inputs"]["wrap"].as_bool().expect("a flag");
        let mut bump = Bump::new(base, size);
        let mut marks = [Mark::EMPTY; 16];
        let mut fenced = FencedArena::new(base, size, &mut marks).expect("marks");
        for (step, n) in case["expected"].as_array().expect("steps").iter().zip(1..) {
            let (want, align) = (number(&step["size"]), number(&step["align"]));
            if !wraps {
                let got = bump.alloc(want, align);
                match step.get("error") {
                    Some(_) => assert!(matches!(got, Err(ArenaError::TooLarge { .. })), "{got:?}"),
                    None => {
                        assert_eq!(
                            got.map(|at| base + at),
                            Ok(number(&step["address"])),
                            "{step}"
                        );
                        assert_eq!(bump.used(), number(&step["next"]), "{step}");
                    }
                }
                continue;
            }
            // The reference goes round over whatever is there. This arena refuses until the work that reads it is
            // complete, and then hands out the same addresses.
            let at = loop {
                match fenced.alloc(want, align) {
                    Err(ArenaError::WouldBlock { wait_for }) => fenced.retire(wait_for),
                    other => break other.expect("fits"),
                }
            };
            fenced.fence(Point::from_raw(n));
            assert_eq!(
                base + at,
                number(&step["address"]),
                "{} {step}",
                case["name"]
            );
            assert_eq!(at + want, number(&step["next"]), "{} {step}", case["name"]);
        }
        ran += 1;
    }
    assert_eq!(ran, 4);
}

fn scalar(kind: &str, value: u64) -> Arg<'static> {
    let signed = value.cast_signed();
    match kind {
        "u8" => Arg::from(u8::try_from(value).expect("fits")),
        "u16" => Arg::from(u16::try_from(value).expect("fits")),
        "u32" => Arg::from(u32::try_from(value).expect("fits")),
        "u64" => Arg::from(value),
        "i8" => Arg::from(i8::try_from(signed).expect("fits")),
        "i16" => Arg::from(i16::try_from(signed).expect("fits")),
        "i32" => Arg::from(i32::try_from(signed).expect("fits")),
        "i64" => Arg::from(signed),
        "f32" => Arg::from(signed as f32),
        "f64" => Arg::from(signed as f64),
        other => panic!("a scalar of type {other}"),
    }
}

fn array(json: &Json) -> &[Json] {
    json.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn hex(text: &str) -> Vec<u8> {
    let digit = |i: usize| u8::from_str_radix(&text[i..i + 2], 16).expect("hexadecimal");
    (0..text.len()).step_by(2).map(digit).collect()
}

#[test]
fn argument_blocks() {
    let mut ran = 0;
    for case in cases("args_") {
        let inputs = &case["inputs"];
        let start = number(&inputs["kernargs_addr"]);
        let prefix: Vec<u8> = array(&inputs["prefix_words"])
            .iter()
            .flat_map(|w| u32::try_from(number(w)).expect("32 bits").to_le_bytes())
            .collect();
        let mut args: Vec<Arg<'_>> = vec![];
        args.extend(
            array(&inputs["buffer_addrs"])
                .iter()
                .map(|a| Arg::Buffer(number(a).into())),
        );
        let values = array(&inputs["values"]).iter().map(number);
        let kinds = array(&inputs["scalar_types"])
            .iter()
            .map(|t| t.as_str().expect("a type"));
        args.extend(kinds.zip(values).map(|(t, v)| scalar(t, v)));

        let mut backing = [0xa5a5_a5a5_a5a5_a5a5u64; 32];
        let mut want = [0xa5u8; 256];
        for run in array(&case["expected_memory"]) {
            assert_eq!(number(&run["addr"]), start + number(&run["offset"]));
            let (at, bytes) = (
                number(&run["offset"]) as usize,
                hex(run["bytes"].as_str().expect("bytes")),
            );
            want[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        let mut region = Region::from_words(&mut backing, start);
        region.write(0, &prefix).expect("inside");
        // Exactly as long as it must be.
        let len = packed_size(&args);
        let mut block = Block::new(&mut region, RegionId(0), prefix.len(), len).expect("inside");
        let taken = write_packed(&args, &mut block, &mut PatchList::none());
        assert_eq!(taken, Ok(len), "{}", case["name"]);
        let mut got = [0u8; 256];
        region.read(0, &mut got).expect("inside");
        assert_eq!(got, want, "{}", case["name"]);
        ran += 1;
    }
    assert_eq!(ran, 5);
}

#[test]
fn split_values() {
    let case = &cases("split")[0];
    for row in array(&case["expected"]) {
        let value = number(&row["value"]);
        let mut words = [0u32; 16];
        let mut q = Recorder::new(&mut words, PatchList::none());
        q.command(|c| {
            let v = Value::Imm(value);
            c.pair(v, Fit::ANY).expect("64 bits");
            c.pair_high_first(v, Fit::ANY).expect("64 bits");
            c.formula(
                v,
                &Formula {
                    fit: Fit::ANY,
                    ..Formula::narrow(Var::new(0), Store::W32)
                }
                .swapped(),
            )
            .expect("any");
            c.formula(v, &Formula::whole(Var::new(0)).swapped())
                .expect("64 bits");
            Ok(())
        })
        .expect("room");
        let two = |key: &str| {
            array(&row[key])
                .iter()
                .map(|w| number(w) as u32)
                .collect::<Vec<_>>()
        };
        assert_eq!(q.words()[..2], two("low_high"));
        assert_eq!(q.words()[2..4], two("high_low"));
        assert_eq!(u64::from(q.words()[4]), number(&row["be32"]), "{row}");
        assert_eq!(
            u64::from(q.words()[5]) | u64::from(q.words()[6]) << 32,
            number(&row["be64"]),
            "{row}"
        );
    }
}

/// The same splits of a variable, patched.
#[test]
fn split_variables() {
    let case = &cases("split")[0];
    let (mut sites, mut derived) = ([Site::EMPTY; 8], [Derived::EMPTY; 0]);
    let mut words = [0u32; 8];
    let mut list = PatchList::new(&mut sites, &mut derived);
    let v = list.var().expect("room");
    let mut q = Recorder::new(&mut words, list);
    q.command(|c| {
        c.pair(v.into(), Fit::ANY).expect("64 bits");
        c.pair_high_first(v.into(), Fit::ANY).expect("64 bits");
        c.formula(
            v.into(),
            &Formula {
                fit: Fit::ANY,
                ..Formula::narrow(v, Store::W32)
            }
            .swapped(),
        )
        .expect("any");
        c.formula(v.into(), &Formula::whole(v).swapped())
            .expect("64 bits");
        Ok(())
    })
    .expect("room");
    let (len, mut list) = q.finish();
    assert_eq!(len, 7);
    let mut table = [0u64; 64];
    let table = list.build(&[32], &mut table).expect("room");
    let mut state = [0u64; 8];
    let mut patcher = hcq_nostd::patch::Patcher::new(table, &mut state).expect("room");
    let mut memory = [0u64; 4];
    for row in array(&case["expected"]) {
        patcher.set(v, number(&row["value"])).expect("an input");
        patcher
            .apply(&mut [Region::from_words(&mut memory, 0)])
            .expect("fits");
        let mut region = Region::from_words(&mut memory, 0);
        let mut word = |i: usize| region.reborrow().load_u32(i * 4).expect("inside");
        let got: Vec<u64> = (0..7).map(|i| word(i).into()).collect();
        let mut want: Vec<u64> = array(&row["low_high"])
            .iter()
            .chain(array(&row["high_low"]))
            .map(number)
            .collect();
        let be64 = number(&row["be64"]);
        want.extend([number(&row["be32"]), be64 & 0xffff_ffff, be64 >> 32]);
        assert_eq!(got, want, "{row}");
    }
}
