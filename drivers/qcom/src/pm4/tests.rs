//! Packets that no golden case has, and what packets refuse.

use super::header::{Header, MAX_BODY};
use super::indirect_buffer::IndirectBuffer;
use super::load_state::{LoadState, State};
use super::mem_write::MemWrite;
use super::reg_to_mem::RegToMem;
use super::registers::{Register, Registers};
use super::sync::Nop;
use super::table::{REGISTERS, SP_CS_PVT_MEM_ADDR};
use super::wait_reg_mem::{Function, Poll, WaitRegMem};
use super::{Packet, op};
use crate::chips::Generation;
use crate::malformed::Malformed;
use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::WriteWidth;
use hcq_nostd::record::{RecordError, Recorder};
use std::vec;
use std::vec::Vec;

/// The words of a packet, or why there are none.
fn record(packet: Packet<'_>) -> Result<Vec<u32>, RecordError> {
    let mut words = vec![0; 1024];
    let mut recorder = Recorder::new(&mut words, PatchList::none());
    recorder.command(|c| packet.record(c))?;
    let len = recorder.finish().0;
    words.truncate(len);
    Ok(words)
}

#[test]
fn numbers_are_written_in_their_width() {
    let write = |value: u64, width| MemWrite {
        address: 0x5_0000_0008u64.into(),
        value: value.into(),
        width,
    };
    let narrow = write(7, WriteWidth::W32);
    let wide = write(0x1_0000_0007, WriteWidth::W64);
    for (packet, words) in [
        (narrow, vec![0x703d_8003, 8, 5, 7]),
        (wide, vec![0x703d_0004, 8, 5, 7, 1]),
    ] {
        let packet = Packet::MemWrite(packet);
        let words: Vec<u32> = words;
        assert_eq!(record(packet), Ok(words.clone()));
        assert_eq!(
            Packet::decode(&words, Generation::A6xx),
            Ok((packet, words.len()))
        );
    }
    assert!(record(Packet::MemWrite(write(1 << 32, WriteWidth::W32))).is_err());
}

#[test]
fn long_runs_of_registers_are_split() {
    let values: Vec<u32> = (0..300).collect();
    let run = Registers::new(0xa000, &values).expect("fits");
    let words = record(Packet::Registers(run)).expect("recorded");
    assert_eq!(words.len(), 303);
    let (mut rest, mut next) = (&words[..], 0xa000);
    let mut again = Vec::new();
    while !rest.is_empty() {
        let part = Registers::decode(rest).expect("a packet");
        assert_eq!(part.first(), next);
        next += part.values().len() as u32;
        again.extend_from_slice(part.values());
        rest = &rest[part.values().len() + 1..];
    }
    assert_eq!(again, values);
    // None, and one behind the last.
    assert!(Registers::new(0xa000, &[]).is_err());
    assert!(Registers::new(0x3_ffff, &[0]).is_ok());
    assert!(Registers::new(0x3_ffff, &[0, 0]).is_err());
}

#[test]
fn counts_that_do_not_fit_are_refused() {
    assert_eq!(Header::command(op::NOP, MAX_BODY + 1), None);
    assert_eq!(Header::command(0x80, 0), None);
    assert_eq!(Header::registers(0, 0), None);
    assert_eq!(Header::registers(0, 128), None);
    assert_eq!(Header::registers(1 << 18, 1), None);
    let body = vec![0; MAX_BODY as usize + 1];
    assert!(Nop::new(&body).is_err());
    assert!(Nop::new(&body[1..]).is_ok());
    for words in [0, IndirectBuffer::MAX as usize + 1] {
        assert!(IndirectBuffer::new(0u64.into(), words).is_err(), "{words}");
    }
    for units in [0, LoadState::MAX_UNITS + 1, u32::MAX] {
        let packet = LoadState {
            state: State::Textures,
            units,
            address: 0u64.into(),
        };
        assert!(record(Packet::LoadState(packet)).is_err(), "{units}");
    }
    for (register, count) in [(1 << 18, 1), (0, 0), (0, 0x1000)] {
        let packet = RegToMem {
            register,
            count,
            wide: false,
            address: 0u64.into(),
        };
        assert!(
            record(Packet::RegToMem(packet)).is_err(),
            "{register} {count}"
        );
    }
}

#[test]
fn addresses_that_do_not_fit_are_refused() {
    for address in [1u64 << 49, 2, u64::MAX - 3] {
        let wait = WaitRegMem {
            function: Function::Equal,
            poll: Poll::Memory(address.into()),
            reference: 0u64.into(),
            mask: 1,
            delay: 1,
        };
        assert!(record(Packet::WaitRegMem(wait)).is_err());
        let buffer = IndirectBuffer::new(address.into(), 1).expect("a length");
        assert!(record(Packet::IndirectBuffer(buffer)).is_err());
    }
}

#[test]
fn bits_without_a_meaning_are_refused() {
    let reserved = |word, value| Err(Malformed::Reserved { word, value });
    for (words, error) in [
        (vec![0x70e5_0001, 0x18], reserved(1, 0x18)),
        (vec![0x7031_0001, 1], reserved(1, 1)),
        (vec![0x70b3_0004, 0, 1, 0, 1], reserved(3, 0)),
        (vec![0x7046_0001, 5], reserved(1, 5)),
        (
            vec![0x7034_8003, 0x0036_4000, 0, 0],
            reserved(1, 0x0036_4000),
        ),
        (vec![0x70bc_8006, 0x17, 0, 0, 0, 0, 0], reserved(1, 0x17)),
        (
            vec![0x703e_8003, 0x8008_0980, 0, 0],
            reserved(1, 0x8008_0980),
        ),
        (vec![0x70bf_8003, 0, 0x2_0000, 1], reserved(2, 0x2_0000)),
        (
            vec![0x7026_0001, 0],
            Err(Malformed::Length { need: 1, have: 2 }),
        ),
        (
            vec![0x7034_8003, 0],
            Err(Malformed::Truncated { need: 4, have: 2 }),
        ),
        (
            vec![0x4000_0102, 0],
            Err(Malformed::Truncated { need: 3, have: 2 }),
        ),
        (
            vec![0x74e5_0001, 0],
            Err(Malformed::Header { word: 0x74e5_0001 }),
        ),
        (vec![], Err(Malformed::Truncated { need: 1, have: 0 })),
    ] {
        assert_eq!(
            Packet::decode(&words, Generation::A6xx),
            error,
            "{words:#x?}"
        );
    }
}

#[test]
fn registers_have_names() {
    assert!(REGISTERS.is_sorted_by_key(|r| r.address));
    for pair in REGISTERS.windows(2) {
        assert!(pair[0].address + pair[0].words <= pair[1].address);
    }
    let address = Register::at(SP_CS_PVT_MEM_ADDR + 1).map(|(r, ahead)| (r.name, ahead));
    assert_eq!(address, Some(("SP_CS_PVT_MEM_ADDR", 1)));
    assert_eq!(
        Register::at(SP_CS_PVT_MEM_ADDR + 2).map(|(_, a)| a),
        Some(0)
    );
    assert_eq!(Register::at(0), None);
    assert_eq!(Register::at(0x981).map(|(r, a)| (r.words, a)), Some((2, 1)));
    assert_eq!(Register::at(0x982), None);
    assert_eq!(Register::at(u32::MAX), None);
    for register in REGISTERS {
        let mut used = 0u64;
        for &(name, shift, bits) in register.fields {
            let mask = ((1u64 << bits) - 1) << shift;
            assert!(
                mask >> 32 == 0 && used & mask == 0,
                "{} {name}",
                register.name
            );
            used |= mask;
        }
    }
}
