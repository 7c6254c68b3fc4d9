//! Command streams that were recorded from another runtime (`tests/vectors`), which ran them on these chips: what they are
//! made of is taken, but for what is refused on purpose.

use serde_json::Value;

use super::super::chip::Chip;
use super::super::registers::{Registers, Space};
use super::super::{Cause, launch, layout, sync};

/// Packets of a stream; the first that is refused, with the reason.
fn walk(chip: &'static Chip, stream: &[u32]) -> Result<usize, (usize, Cause)> {
    let mut registers = Registers::new();
    let (mut at, mut packets) = (0, 0);
    while let Some(&header) = stream.get(at) {
        let (length, body) = layout::length(header).expect("a type-3 packet");
        let words = &stream[at..at + length as usize];
        // A NOP may hold packets.
        at += if body { length as usize } else { 1 };
        packets += 1;
        if body {
            packet(chip, &mut registers, words).map_err(|cause| (at, cause))?;
        }
    }
    Ok(packets)
}

fn packet(chip: &'static Chip, registers: &mut Registers, words: &[u32]) -> Result<(), Cause> {
    let opcode = layout::opcode(words[0]);
    let layout = layout::layout(chip, words)
        .ok_or_else(|| Cause::Packet(format!("no opcode {opcode:#x}")))?;
    layout.check(words)?;
    match opcode {
        layout::ACQUIRE_MEM => sync::acquire(chip, words).map(drop),
        layout::RELEASE_MEM => sync::release(chip, words).map(drop),
        layout::SET_SH_REG => {
            // The recorded programs are made up: their resource words are the same for all chips.
            let made_up = [0x2E12, 0x2E13, chip.rsrc3];
            let mut values = words[2..].to_vec();
            for (address, value) in (0x2C00 + words[1]..).zip(&mut values) {
                let mut table = chip.sh.iter().copied().flatten();
                if made_up.contains(&address)
                    && let Some(register) = table.find(|register| register.address == address)
                {
                    *value &= register.mask;
                }
            }
            registers.set(chip, Space::Sh, words[1], &values)
        }
        layout::DISPATCH_DIRECT => {
            let dims = [words[1], words[2], words[3]];
            match launch::from_registers(chip, registers, dims, words[4], (0, 1)) {
                // So is what they ask of the hardware.
                Ok(_) | Err(Cause::Launch(_)) => Ok(()),
                Err(cause) => Err(cause),
            }
        }
        layout::PRED_EXEC
        | layout::WAIT_REG_MEM
        | layout::EVENT_WRITE
        | layout::INDIRECT_BUFFER => Ok(()),
        _ => Err(Cause::Packet(format!(
            "{} in a recorded stream",
            layout.name
        ))),
    }
}

#[test]
fn recorded_streams_are_taken() {
    let mut packets = 0;
    for (target, file) in [
        (
            "gfx942",
            include_str!("../../../../../../tests/vectors/amd-gfx942-pm4.json"),
        ),
        (
            "gfx950",
            include_str!("../../../../../../tests/vectors/amd-gfx950-pm4.json"),
        ),
        (
            "gfx1100",
            include_str!("../../../../../../tests/vectors/amd-gfx1100-pm4.json"),
        ),
        (
            "gfx1151",
            include_str!("../../../../../../tests/vectors/amd-gfx1151-pm4.json"),
        ),
        (
            "gfx1201",
            include_str!("../../../../../../tests/vectors/amd-gfx1201-pm4.json"),
        ),
    ] {
        let chip = Chip::find(target).unwrap();
        let cases: Vec<Value> = serde_json::from_str(file).unwrap();
        for case in &cases {
            let name = case["name"].as_str().unwrap();
            let Some(words) = case["expected_words"].as_array() else {
                continue;
            };
            let stream: Vec<u32> = words
                .iter()
                .map(|word| word.as_str().unwrap().trim_start_matches("0x"))
                .map(|word| u32::from_str_radix(word, 16).unwrap())
                .collect();
            let result = walk(chip, &stream);
            // Sizes in bytes where the packet counts 256 of them; no range is simulated either way.
            let ranged = target.starts_with("gfx9") && name.ends_with("acquire_mem_range");
            match result {
                Ok(count) if !ranged => packets += count,
                Err((_, Cause::Packet(text))) if ranged => {
                    assert!(text.contains("not all of memory"), "{text}");
                }
                other => panic!("{target} {name}: {other:?}"),
            }
        }
    }
    assert!(packets > 1000, "{packets}");
}
