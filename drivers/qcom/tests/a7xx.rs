//! Packets of A7xx in both directions, against words put together from a reading of Mesa's `adreno_pm4.xml` and of what
//! turnip and freedreno emit; the commands of queues on such chips; patching; and that nothing can be launched there.
//!
//! The constants below are the file's names and numbers, and are the test's own.

use hcq_nostd::args::ArgSlot;
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{Derived, PatchList, Patcher, Site};
use hcq_nostd::queue::{ComputeQueue, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{Operand, RecordError, Recorder};
use hcq_nostd::value::Value;
use hcq_qcom::chips::{Chip, Generation, PACKETS_ONLY};
use hcq_qcom::device::{Device, PrivateMemory};
use hcq_qcom::dump::Dump;
use hcq_qcom::ir3::Variant;
use hcq_qcom::kernel::{Param, ProgramError};
use hcq_qcom::malformed::Malformed;
use hcq_qcom::pm4::event_write7::{Event7, EventWrite7, Source};
use hcq_qcom::pm4::{AdrenoCompute, Packet, Program};
use proptest::prelude::*;

// adreno_pm4_type3_packets.
const CP_WAIT_MEM_WRITES: u32 = 0x12;
const CP_WAIT_FOR_IDLE: u32 = 0x26;
const CP_WAIT_REG_MEM: u32 = 0x3c;
const CP_MEM_WRITE: u32 = 0x3d;
const CP_EVENT_WRITE7: u32 = 0x46;
// vgt_event_type.
const CACHE_FLUSH_TS: u32 = 4;
const ZPASS_DONE: u32 = 21;
const RB_DONE_TS: u32 = 22;
const CACHE_CLEAN: u32 = 49;
const CACHE_FLUSH7: u32 = 50;
const CACHE_INVALIDATE7: u32 = 51;
// Fields of the first word of CP_EVENT_WRITE7.
const WRITE_SAMPLE_COUNT: u32 = 1 << 12;
const SAMPLE_COUNT_END_OFFSET: u32 = 1 << 13;
const WRITE_ACCUM_SAMPLE_COUNT_DIFF: u32 = 1 << 14;
const INC_BV_COUNT: u32 = 1 << 16;
const INC_BR_COUNT: u32 = 1 << 17;
const CLEAR_RENDER_RESOURCE: u32 = 1 << 18;
const CLEAR_LRZ_RESOURCE: u32 = 1 << 19;
const WRITE_SRC_LOW: u32 = 20;
const WRITE_DST: u32 = 24;
const WRITE_ENABLED: u32 = 1 << 27;
const IRQ: u32 = 1 << 31;
// event_write_src and event_write_dst.
const EV_WRITE_USER_32B: u32 = 0;
const EV_WRITE_USER_64B: u32 = 1;
const EV_WRITE_TIMESTAMP_SUM: u32 = 2;
const EV_WRITE_ALWAYSON: u32 = 3;
const EV_WRITE_REGS_CONTENT: u32 = 4;
const EV_DST_RAM: u32 = 0;
const EV_DST_ONCHIP: u32 = 1;

/// One if that makes the number of ones odd.
fn parity(v: u32) -> u32 {
    let mut ones = 0;
    for bit in 0..32 {
        ones += v >> bit & 1;
    }
    (ones + 1) % 2
}

/// A packet of type 7.
fn packet7(opcode: u32, body: &[u32]) -> Vec<u32> {
    let count = u32::try_from(body.len()).expect("short");
    let header = 0x7000_0000 | count | parity(count) << 15 | opcode << 16 | parity(opcode) << 23;
    [&[header], body].concat()
}

/// The first word of an event that writes.
fn writes(event: u32, src: u32) -> u32 {
    event | src << WRITE_SRC_LOW | EV_DST_RAM << WRITE_DST | WRITE_ENABLED
}

fn event(event: Event7, write: Option<(u64, Source)>) -> EventWrite7 {
    EventWrite7 {
        event,
        write: write.map(|(address, source)| (address.into(), source)),
        irq: false,
    }
}

fn record(packet: Packet<'_>) -> Result<Vec<u32>, RecordError> {
    let mut words = [0; 16];
    let mut recorder = Recorder::new(&mut words, PatchList::none());
    recorder.command(|c| packet.record(c))?;
    Ok(recorder.words().to_vec())
}

/// Packets, what they are made of, all of their words, and their text.
fn cases() -> Vec<(EventWrite7, Vec<u32>, &'static [u32], &'static str)> {
    let samples = |end, accumulate| Source::SampleCount { end, accumulate };
    let (at, high) = (0x5_0010_0040u64, 5);
    vec![
        (
            event(Event7::CACHE_CLEAN, None),
            packet7(CP_EVENT_WRITE7, &[CACHE_CLEAN]),
            &[0x7046_0001, 0x31],
            "EVENT=CACHE_CLEAN",
        ),
        (
            event(Event7::CACHE_FLUSH, None),
            packet7(CP_EVENT_WRITE7, &[CACHE_FLUSH7]),
            &[0x7046_0001, 0x32],
            "EVENT=CACHE_FLUSH7",
        ),
        (
            event(Event7::CACHE_INVALIDATE, None),
            packet7(CP_EVENT_WRITE7, &[CACHE_INVALIDATE7]),
            &[0x7046_0001, 0x33],
            "EVENT=CACHE_INVALIDATE7",
        ),
        (
            EventWrite7 {
                irq: true,
                ..event(
                    Event7::CACHE_FLUSH_TS,
                    Some((at + 4, Source::Word(9u64.into()))),
                )
            },
            packet7(
                CP_EVENT_WRITE7,
                &[
                    writes(CACHE_FLUSH_TS, EV_WRITE_USER_32B) | IRQ,
                    0x0010_0044,
                    high,
                    9,
                ],
            ),
            &[0x7046_0004, 0x8800_0004, 0x0010_0044, 5, 9],
            "EVENT=CACHE_FLUSH_TS WRITE_SRC=EV_WRITE_USER_32B WRITE_DST=EV_DST_RAM WRITE_ENABLED ADDR=0x500100044 PAYLOAD_0=0x9 IRQ",
        ),
        (
            event(
                Event7::RB_DONE_TS,
                Some((at, Source::Double(0x2_0000_0009u64.into()))),
            ),
            packet7(
                CP_EVENT_WRITE7,
                &[
                    writes(RB_DONE_TS, EV_WRITE_USER_64B),
                    0x0010_0040,
                    high,
                    9,
                    2,
                ],
            ),
            &[0x7046_8005, 0x0810_0016, 0x0010_0040, 5, 9, 2],
            "EVENT=RB_DONE_TS WRITE_SRC=EV_WRITE_USER_64B WRITE_DST=EV_DST_RAM WRITE_ENABLED ADDR=0x500100040 PAYLOAD_0=0x9 PAYLOAD_1=0x2",
        ),
        (
            event(Event7::RB_DONE_TS, Some((at + 8, Source::AlwaysOn))),
            packet7(
                CP_EVENT_WRITE7,
                &[writes(RB_DONE_TS, EV_WRITE_ALWAYSON), 0x0010_0048, high],
            ),
            &[0x7046_8003, 0x0830_0016, 0x0010_0048, 5],
            "EVENT=RB_DONE_TS WRITE_SRC=EV_WRITE_ALWAYSON WRITE_DST=EV_DST_RAM WRITE_ENABLED ADDR=0x500100048",
        ),
        (
            event(
                Event7::CACHE_FLUSH_TS,
                Some((
                    at,
                    Source::Registers {
                        first: 0x980,
                        count: 2,
                    },
                )),
            ),
            packet7(
                CP_EVENT_WRITE7,
                &[
                    writes(CACHE_FLUSH_TS, EV_WRITE_REGS_CONTENT),
                    0x0010_0040,
                    high,
                    0x980,
                    2,
                ],
            ),
            &[0x7046_8005, 0x0840_0004, 0x0010_0040, 5, 0x980, 2],
            "EVENT=CACHE_FLUSH_TS WRITE_SRC=EV_WRITE_REGS_CONTENT WRITE_DST=EV_DST_RAM WRITE_ENABLED ADDR=0x500100040 PAYLOAD_0=0x980 PAYLOAD_1=0x2",
        ),
        (
            event(Event7::ZPASS_DONE, Some((at, samples(false, false)))),
            packet7(
                CP_EVENT_WRITE7,
                &[ZPASS_DONE | WRITE_SAMPLE_COUNT, 0x0010_0040, high],
            ),
            &[0x7046_8003, 0x0000_1015, 0x0010_0040, 5],
            "EVENT=ZPASS_DONE WRITE_SAMPLE_COUNT ADDR=0x500100040",
        ),
        (
            event(Event7::ZPASS_DONE, Some((at, samples(true, true)))),
            packet7(
                CP_EVENT_WRITE7,
                &[
                    ZPASS_DONE
                        | WRITE_SAMPLE_COUNT
                        | SAMPLE_COUNT_END_OFFSET
                        | WRITE_ACCUM_SAMPLE_COUNT_DIFF,
                    0x0010_0040,
                    high,
                ],
            ),
            &[0x7046_8003, 0x0000_7015, 0x0010_0040, 5],
            "EVENT=ZPASS_DONE WRITE_SAMPLE_COUNT SAMPLE_COUNT_END_OFFSET WRITE_ACCUM_SAMPLE_COUNT_DIFF ADDR=0x500100040",
        ),
    ]
}

#[test]
fn events_in_both_directions() {
    for (packet, made, words, text) in cases() {
        assert_eq!(made, words, "{text}");
        let packet = Packet::EventWrite7(packet);
        assert_eq!(record(packet).as_deref(), Ok(words), "{text}");
        let decoded = Packet::decode(words, Generation::A7xx);
        assert_eq!(decoded, Ok((packet, words.len())), "{text}");
        assert_eq!(packet.to_string(), format!("CP_EVENT_WRITE7 {text}"));
        // Before A7xx the opcode is another packet's: it means something else or nothing.
        let before = Packet::decode(words, Generation::A6xx);
        assert!(!matches!(before, Ok((Packet::EventWrite7(_), _))), "{text}");
    }
}

/// Numbers and names of `vgt_event_type`, `variants` A7XX and those that begin earlier and do not end.
#[test]
fn all_numbers_of_events() {
    let all = "0 VS_DEALLOC, 1 DUMMY_EVENT, 2 VS_DONE_TS, 3 PS_DONE_TS, 4 CACHE_FLUSH_TS, 5 CONTEXT_DONE, \
        8 WT_DONE_TS, 9 WRITE_PRIMITIVE_COUNTS, 11 START_PRIMITIVE_CTRS, 12 STOP_PRIMITIVE_CTRS, \
        13 START_FRAGMENT_CTRS, 14 STOP_FRAGMENT_CTRS, 15 START_COMPUTE_CTRS, 16 STOP_COMPUTE_CTRS, \
        17 FLUSH_SO_0, 18 FLUSH_SO_1, 19 FLUSH_SO_2, 20 FLUSH_SO_3, 21 ZPASS_DONE, 22 RB_DONE_TS, \
        24 CCU_INVALIDATE_DEPTH, 25 CCU_INVALIDATE_COLOR, 26 CCU_RESOLVE_CLEAN, 27 VS_FETCH_DONE, \
        28 CCU_FLUSH_DEPTH, 29 CCU_FLUSH_COLOR, 30 CCU_RESOLVE, 31 CCU_END_RESOLVE_GROUP, 32 CCU_CLEAN_DEPTH, \
        33 CCU_CLEAN_COLOR, 36 LRZ_FLIP_BUFFER, 37 LRZ_CLEAR, 38 LRZ_FLUSH, 39 BLIT_OP_FILL_2D, 40 UNK_40, \
        41 LRZ_Q_CACHE_INVALIDATE, 42 BLIT_OP_SCALE_2D, 43 CONTEXT_DONE_2D, 44 UNK_2C, 45 UNK_2D, \
        48 CACHE_RESET, 49 CACHE_CLEAN, 50 CACHE_FLUSH7, 51 CACHE_INVALIDATE7, 63 LABEL";
    let names = |bits: u8| {
        let mut pairs = all.split(", ").filter_map(|pair| pair.split_once(' '));
        pairs
            .find(|(number, _)| *number == bits.to_string())
            .map_or("", |(_, name)| name)
    };
    assert_eq!(all.split(", ").count(), 45);
    for bits in 0..=u8::MAX {
        let event = Event7::new(bits);
        assert_eq!(event.map_or("", Event7::name), names(bits), "{bits}");
        assert_eq!(event.is_none(), names(bits).is_empty(), "{bits}");
        let words = packet7(CP_EVENT_WRITE7, &[writes(bits.into(), 0), 0, 0, 0]);
        let decoded = EventWrite7::decode(&words).map(|p| p.event.bits());
        match event {
            Some(_) => assert_eq!(decoded, Ok(bits)),
            None => assert!(matches!(decoded, Err(Malformed::Reserved { word: 1, .. }))),
        }
    }
}

#[test]
fn events_that_are_none_are_refused() {
    let (word, value) = (1, writes(CACHE_FLUSH_TS, EV_WRITE_ALWAYSON));
    for (bits, reserved) in [
        (0, false),
        (INC_BV_COUNT, true),
        (INC_BR_COUNT, true),
        (CLEAR_RENDER_RESOURCE, true),
        (CLEAR_LRZ_RESOURCE, true),
        (EV_DST_ONCHIP << WRITE_DST, true),
        (WRITE_SAMPLE_COUNT, true),
        (SAMPLE_COUNT_END_OFFSET, true),
        (1 << 8, true),
        (1 << 30, true),
    ] {
        let value = value | bits;
        let got = EventWrite7::decode(&packet7(CP_EVENT_WRITE7, &[value, 0, 0]));
        let want = Err(Malformed::Reserved { word, value });
        assert_eq!(got.is_err(), reserved, "{bits:#x}");
        assert!(!reserved || got == want, "{bits:#x}: {got:?}");
    }
    // A source that is none, one that is not known in full, an end without a count, and RB_DONE_TS with nothing to write.
    for value in [
        writes(CACHE_FLUSH_TS, 5),
        writes(CACHE_FLUSH_TS, EV_WRITE_TIMESTAMP_SUM),
        ZPASS_DONE | SAMPLE_COUNT_END_OFFSET,
        ZPASS_DONE | WRITE_ACCUM_SAMPLE_COUNT_DIFF,
    ] {
        let got = EventWrite7::decode(&packet7(CP_EVENT_WRITE7, &[value, 0, 0]));
        assert_eq!(got, Err(Malformed::Reserved { word, value }), "{value:#x}");
    }
    let value = RB_DONE_TS;
    let got = EventWrite7::decode(&packet7(CP_EVENT_WRITE7, &[value]));
    assert_eq!(got, Err(Malformed::Reserved { word, value }));
    let operand = Operand::Data;
    for write in [
        None,
        Some((
            0,
            Source::SampleCount {
                end: false,
                accumulate: false,
            },
        )),
    ] {
        let packet = Packet::EventWrite7(event(Event7::RB_DONE_TS, write));
        assert_eq!(record(packet), Err(RecordError::Unsupported { operand }));
    }
    // Registers: none, and one of more than 18 bits.
    let info = writes(CACHE_FLUSH_TS, EV_WRITE_REGS_CONTENT);
    for (first, count, fits) in [
        (0x3_ffff, 1, true),
        (0x4_0000, 1, false),
        (0x980, 0, false),
        (0x980, u32::MAX, true),
    ] {
        let words = packet7(CP_EVENT_WRITE7, &[info, 0, 0, first, count]);
        assert_eq!(EventWrite7::decode(&words).is_ok(), fits, "{first:#x}");
        let source = Source::Registers { first, count };
        let packet = event(Event7::CACHE_FLUSH_TS, Some((0, source)));
        assert_eq!(record(Packet::EventWrite7(packet)).is_ok(), fits);
    }
    // A number of more than 32 bits in a word.
    let wide = Source::Word((1u64 << 32).into());
    let packet = Packet::EventWrite7(event(Event7::CACHE_FLUSH_TS, Some((0, wide))));
    assert!(record(packet).is_err());
}

/// Every length but the right one, every address off its boundary or above 2^49, and every bit of the header.
#[test]
fn lengths_addresses_and_parity() {
    for (packet, words, _, text) in cases() {
        for length in 0..8 {
            let mut body = words[1..].to_vec();
            body.resize(length, 0);
            let got = EventWrite7::decode(&packet7(CP_EVENT_WRITE7, &body));
            let right = length == words.len() - 1;
            assert_eq!(got.is_ok(), right, "{text} in {length}: {got:?}");
            assert!(
                right || matches!(got, Err(Malformed::Length { .. })),
                "{text} in {length}: {got:?}"
            );
        }
        for cut in 0..words.len() {
            let got = Packet::decode(&words[..cut], Generation::A7xx);
            assert!(
                matches!(got, Err(Malformed::Truncated { .. })),
                "{text}: {got:?}"
            );
        }
        for bit in 0..32 {
            let mut other = words.clone();
            other[0] ^= 1 << bit;
            other.resize(64, 0);
            let got = Packet::decode(&other, Generation::A7xx);
            assert!(got.is_err(), "{text}: bit {bit} of the header: {got:?}");
        }
        let Some((_, source)) = packet.write else {
            continue;
        };
        let align: u64 = match source {
            Source::Word(_) | Source::Registers { .. } => 4,
            Source::Double(_) | Source::AlwaysOn => 8,
            Source::SampleCount { .. } => 16,
        };
        for (address, fits) in [
            (align, true),
            (align / 2, false),
            (1, false),
            ((1 << 49) - align, true),
            (1 << 49, false),
        ] {
            let mut words = words.clone();
            words[2] = (address & 0xffff_ffff) as u32;
            words[3] = (address >> 32) as u32;
            let write = Some((address.into(), source));
            let packet = Packet::EventWrite7(EventWrite7 { write, ..packet });
            let decoded = Packet::decode(&words, Generation::A7xx);
            if fits {
                assert_eq!(decoded, Ok((packet, words.len())), "{text}: {address:#x}");
                assert_eq!(record(packet), Ok(words), "{text}: {address:#x}");
            } else {
                assert!(
                    matches!(decoded, Err(Malformed::Reserved { word: 2 | 3, .. })),
                    "{text}: {address:#x}"
                );
                assert!(record(packet).is_err(), "{text}: {address:#x}");
            }
        }
    }
}

const SCRAP: u64 = 0x5_0000_1000;

fn device(chip: &'static Chip) -> Device {
    Device::new(chip, SCRAP, 0x5_0000_3000).expect("a device")
}

/// Every command that is no launch, in the order in which the words are put together here.
fn commands(q: &mut AdrenoCompute<'_>) {
    let signal = SignalAt {
        address: 0x5_0010_0040u64.into(),
        notify: true,
    };
    q.wait(signal, 3u64.into())
        .and_then(|q| q.memory_barrier())
        .and_then(|q| q.write(0x5_0010_0080u64.into(), 7u64.into(), WriteWidth::W32))
        .and_then(|q| q.timestamp(signal))
        .and_then(|q| q.signal(signal, 4u64.into()))
        .expect("recorded");
}

#[test]
fn commands_of_queues() {
    let flush = writes(CACHE_FLUSH_TS, EV_WRITE_USER_32B);
    let scrap = packet7(CP_EVENT_WRITE7, &[flush, 0x1000, 5, 0]);
    let invalidate = packet7(CP_EVENT_WRITE7, &[CACHE_INVALIDATE7]);
    let idle = packet7(CP_WAIT_FOR_IDLE, &[]);
    let written = packet7(CP_WAIT_MEM_WRITES, &[]);
    let stamp = writes(RB_DONE_TS, EV_WRITE_ALWAYSON);
    let want = [
        // Waits: WRITE_GE, POLL_MEMORY.
        packet7(
            CP_WAIT_REG_MEM,
            &[5 | 1 << 4, 0x0010_0040, 5, 3, u32::MAX, 32],
        ),
        // A barrier.
        scrap.clone(),
        invalidate.clone(),
        written.clone(),
        idle.clone(),
        // A write.
        idle.clone(),
        packet7(CP_MEM_WRITE, &[0x0010_0080, 5, 7]),
        written,
        invalidate,
        // A timestamp, 8 bytes behind the signal's value.
        idle.clone(),
        packet7(CP_EVENT_WRITE7, &[stamp, 0x0010_0048, 5]),
        // A signal.
        idle,
        packet7(CP_EVENT_WRITE7, &[flush, 0x0010_0040, 5, 4]),
        scrap,
    ]
    .concat();
    for chip in PACKETS_ONLY {
        let mut words = [0; 128];
        let mut q = AdrenoCompute::new(&device(chip), &mut words, PatchList::none());
        commands(&mut q);
        assert_eq!(q.words(), want, "{chip}");
        let dump = Dump::new(chip.generation, q.words());
        assert!(dump.lines().all(|l| l.malformed().is_none()), "{dump}");
        assert_eq!(dump.to_string().matches("CP_EVENT_WRITE7").count(), 6);
    }
    // The same commands of A6xx have as many words, and none of them is an event of A7xx.
    let mut words = [0; 128];
    let chip = Chip::named("650").expect("known");
    let mut q = AdrenoCompute::new(&device(chip), &mut words, PatchList::none());
    commands(&mut q);
    assert_eq!(q.words().len(), want.len());
    let text = Dump::new(Generation::A6xx, q.words()).to_string();
    assert!(!text.contains("CP_EVENT_WRITE7"), "{text}");
}

/// A command that was refused leaves the queue as it was.
#[test]
fn operands_that_do_not_fit_are_refused() {
    let mut words = [0; 128];
    let mut q = AdrenoCompute::new(&device(&PACKETS_ONLY[0]), &mut words, PatchList::none());
    let odd = |a: u64| SignalAt {
        address: a.into(),
        notify: false,
    };
    assert!(q.signal(odd(8), 1u64.into()).is_err());
    assert!(q.signal(odd(16), (1u64 << 32).into()).is_err());
    assert!(q.timestamp(odd(8)).is_err());
    assert!(q.timestamp(odd(1 << 49)).is_err());
    assert!(q.words().is_empty());
}

#[test]
fn nothing_is_launched() {
    let code = include_bytes!("../../../tests/vectors/objects/add-a630-ir3.bin");
    let variant = Variant {
        code,
        max_reg: 6,
        constlen: 4,
        work_group_id: 0xc0,
        ..Variant::EMPTY
    };
    let kernel = variant.kernel(0x5_2000_0000).expect("a kernel");
    let mut slots = [ArgSlot::buffer(0); 3];
    let arguments = variant.layout(&[Param::Buffer; 3], &mut slots, &mut [], &mut []);
    let arguments = arguments.expect("a layout");
    let private = PrivateMemory::new(0x5_4000_0000, 1 << 32).expect("memory");
    let prepare = |chip| Program::new(&device(chip), &kernel, &arguments, &private);
    assert!(prepare(Chip::named("650").expect("known")).is_ok());
    for chip in PACKETS_ONLY {
        let refused = prepare(chip).expect_err("refused");
        let number = chip.number;
        assert_eq!(refused, ProgramError::Dispatch { chip: number });
        let words = refused.to_string();
        assert!(words.contains(&format!("Adreno {number} the packets")));
        assert!(words.contains("the registers of a dispatch are not"));
    }
}

/// A command with operands that are numbers, or variables with these numbers.
#[derive(Clone, Copy, Debug)]
enum Cmd {
    Signal(u64, u32),
    Timestamp(u64),
    Write(u64, u64),
    Barrier,
}

fn cmd() -> impl Strategy<Value = Cmd> {
    let address = || (0u64..1 << 49).prop_map(|a| a >> 4 << 4);
    prop_oneof![
        3 => (address(), any::<u32>()).prop_map(|(a, v)| Cmd::Signal(a, v)),
        3 => address().prop_map(Cmd::Timestamp),
        1 => (address(), any::<u64>()).prop_map(|(a, v)| Cmd::Write(a, v)),
        1 => Just(Cmd::Barrier),
    ]
}

/// Records the commands. `own` is given for what the device has for itself, `value` for each operand.
fn run(
    device: &Device,
    commands: &[Cmd],
    q: &mut AdrenoCompute<'_>,
    mut value: impl FnMut(&mut AdrenoCompute<'_>, u64) -> Value,
) {
    assert_eq!(device.chip().generation, Generation::A7xx);
    for cmd in commands {
        match *cmd {
            Cmd::Signal(a, v) => {
                let (address, v) = (value(q, a), value(q, v.into()));
                let notify = false;
                q.signal(SignalAt { address, notify }, v).map(drop)
            }
            Cmd::Timestamp(a) => {
                let address = value(q, a);
                q.timestamp(address.into()).map(drop)
            }
            Cmd::Write(a, v) => {
                let (a, v) = (value(q, a), value(q, v));
                q.write(a, v, WriteWidth::W64).map(drop)
            }
            Cmd::Barrier => q.memory_barrier().map(drop),
        }
        .expect("recorded");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 400 }) })]

    /// What is patched is what is recorded afresh, whichever operands are variables.
    #[test]
    fn patching_equals_recording_afresh(
        chip in 0..PACKETS_ONLY.len(),
        commands in proptest::collection::vec(cmd(), 1..8),
        variable in any::<u32>(),
        anywhere in any::<bool>(),
    ) {
        let fixed = device(&PACKETS_ONLY[chip]);
        let mut fresh = [0; 256];
        let mut q = AdrenoCompute::new(&fixed, &mut fresh, PatchList::none());
        run(&fixed, &commands, &mut q, |_, v| v.into());
        let len = q.finish().finish().0;

        let (mut sites, mut derived) = ([Site::EMPTY; 64], [Derived::EMPTY; 32]);
        let mut list = PatchList::new(&mut sites, &mut derived);
        let mut values = Vec::new();
        let own = match anywhere {
            true => {
                let own = list.var().expect("a variable");
                values.push((own, SCRAP));
                fixed.based_on(own, 0, 0x2000)
            }
            false => fixed,
        };
        let mut words = [0; 256];
        let mut q = AdrenoCompute::new(&own, &mut words, list);
        let mut operand = 0;
        run(&own, &commands, &mut q, |q, v| {
            operand += 1;
            if variable >> (operand % 32) & 1 == 0 {
                return v.into();
            }
            let var = q.recorder().list().var().expect("a variable");
            values.push((var, v));
            var.into()
        });
        let (patched, mut list) = q.finish().finish();
        prop_assert_eq!(patched, len);
        let mut table = [0; 4096];
        let table = list.build(&[len as u64 * 4], &mut table).expect("a table");
        let mut state = vec![0; table.state_words()];
        let mut patcher = Patcher::new(table, &mut state).expect("room");
        for (var, value) in values {
            patcher.set(var, value).expect("a variable");
        }
        let mut memory = [0u64; 128];
        let mut regions = [Region::from_words(&mut memory, 0)];
        regions[0].write_words(0, &words[..len]).expect("room");
        patcher.apply(&mut regions).expect("values that fit");
        let memory: Vec<u32> = memory.iter().flat_map(|w| [(w & 0xffff_ffff) as u32, (w >> 32) as u32]).collect();
        prop_assert_eq!(&memory[..len], &fresh[..len]);
    }
}
