//! PM4 queues.

use std::collections::BTreeMap;

use hcq_amd::chips::Generation;
use hcq_amd::device::Device;
use hcq_amd::kernel::{Arguments, Properties};
use hcq_amd::malformed::Malformed;
use hcq_amd::pm4::acquire_mem::{AcquireMem, Range};
use hcq_amd::pm4::release_mem::{DataSel, Flush, IntSel, ReleaseMem};
use hcq_amd::pm4::submit::{submit, submit_bound, submit_in_ring};
use hcq_amd::pm4::{Packet, Pm4Compute, Program};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _};
use hcq_nostd::record::{Block, RecordError, Recorder};
use hcq_nostd::ring::Ring;
use hcq_nostd::value::Value;

use super::Recording;
use super::json::{self, Json, Operands, Vars, list, number, number32};
use super::lab::{self, Encoder, FILLER, Image, Space, bytes_of, compare_memory, expected_memory};
use super::{Known, amd};

pub(crate) struct Pm4;

impl<'m> Recording<'m> for Pm4Compute<'m> {
    fn list(&mut self) -> &mut PatchList<'m> {
        self.recorder().list()
    }
}

impl Encoder for Pm4 {
    fn spaces(&self, case: &Json) -> Vec<Space> {
        amd::kernargs_spaces(case)
    }

    fn record<'m>(
        &self,
        case: &Json,
        operands: Operands<'_>,
        words: &'m mut [u32],
        list: PatchList<'m>,
        memory: &mut [Region<'_>],
    ) -> Result<(usize, PatchList<'m>), RecordError> {
        let device = amd::device(case);
        let mut q = Pm4Compute::new(&device, words, list);
        let mut kernargs = (1..).zip(memory);
        for op in json::list(&case["inputs"]["ops"]) {
            if amd::common(&mut q, &operands, op)? {
                continue;
            }
            match op["op"].as_str() {
                Some("memory_barrier") => {
                    q.memory_barrier()?;
                }
                Some("exec") => {
                    let (id, memory) = kernargs.next().expect("one per exec");
                    exec(&mut q, &device, &operands, op, (RegionId(id), memory))?;
                }
                Some("acquire_mem") => {
                    q.recorder().command(|c| {
                        acquire_mem(&device, op).record(c);
                        Ok(())
                    })?;
                }
                Some("release_mem") => {
                    q.recorder()
                        .command(|c| release_mem(&device, op).record(c))?;
                }
                other => panic!("no operation {other:?}"),
            }
        }
        Ok(q.finish().finish())
    }

    fn correct(&self, case: &Json, vars: Option<&Vars>, want: &mut Image) {
        let device = amd::device(case);
        correct_words(&device, &mut want.words);
        for op in list(&case["inputs"]["ops"]) {
            if op["op"] == "acquire_mem" && op["addr"].is_string() {
                correct_range(op, &mut want.words);
            }
            if op["op"] != "exec" {
                continue;
            }
            let kernel = amd::kernel(op);
            if kernel
                .properties
                .contains(Properties::PRIVATE_SEGMENT_BUFFER)
            {
                correct_private_segment(&device, op, &mut want.words);
            }
            if kernel.properties.contains(Properties::DISPATCH_PTR) && vars.is_some() {
                // Header and setup, which a kernel may read (the number of dimensions), were left as they were.
                let packet = number(&op["args"]["kernargs_addr"]) + u64::from(kernel.kernarg_bytes);
                assert!(!want.memory.contains_key(&packet), "a known fault");
                want.write(packet, &(2u32 | 3 << 16).to_le_bytes());
                Known::PacketSetup.seen();
            }
        }
    }

    fn decode_and_encode(&self, title: &str, words: &[u32]) -> Vec<u32> {
        decode_and_encode(title, words)
    }
}

/// From words to packets and back.
pub(crate) fn decode_and_encode(title: &str, words: &[u32]) -> Vec<u32> {
    let mut again = vec![u32::from_ne_bytes([FILLER; 4]); words.len()];
    let mut recorder = Recorder::new(&mut again, PatchList::none());
    let mut rest = words;
    while !rest.is_empty() {
        let (packet, len) =
            Packet::decode(rest).unwrap_or_else(|e| panic!("{title}: {e}: {rest:#010x?}"));
        recorder
            .command(|c| packet.record(c))
            .unwrap_or_else(|e| panic!("{title}: {e}"));
        rest = &rest[len..];
    }
    let (len, _) = recorder.finish();
    again.truncate(len);
    again
}

fn exec(
    q: &mut Pm4Compute<'_>,
    device: &Device,
    operands: &Operands<'_>,
    op: &Json,
    (region, memory): (RegionId, &mut Region<'_>),
) -> Result<(), RecordError> {
    let slots = amd::slots(op);
    let arguments = Arguments {
        layout: amd::layout(&slots),
        hidden: &[],
    };
    let waves = number32(&op["waves_per_sh"]);
    let program = Program::new(
        device,
        &amd::kernel(op),
        arguments,
        &amd::scratch(op),
        waves,
    )
    .expect("a program");
    let args = amd::arguments(operands, q.list(), op, &slots);
    let [groups, local] = amd::sizes(operands, q.list(), op);
    assert!(program.kernargs_size() as u64 <= number(&op["args"]["kernargs_size"]));
    let kernargs = Block::new(memory, region, 0, program.kernargs_size()).expect("inside");
    q.exec(Launch {
        program: &program,
        args: &args,
        kernargs,
        groups,
        local,
        local_memory: 0,
    })?;
    Ok(())
}

fn acquire_mem(device: &Device, op: &Json) -> AcquireMem {
    let chip = device.chip();
    // The inputs name the caches that are left alone: together they are a dispatch's.
    let dispatch = op["gli"] == "0x0" && op["gl2"] == "0x0";
    let caches = if dispatch {
        chip.acquire_dispatch
    } else {
        chip.acquire_all
    };
    let range = match op["addr"].as_str() {
        None => Range::ALL,
        Some(_) => Range::new(number(&op["addr"]), number(&op["sz"])).expect("whole units"),
    };
    AcquireMem {
        range,
        ..AcquireMem::all(caches)
    }
}

fn release_mem(device: &Device, op: &Json) -> ReleaseMem {
    let number_or = |name: &str, default| op[name].as_str().map_or(default, |_| number(&op[name]));
    let value = Value::from(number_or("value", 0));
    ReleaseMem {
        flush: if op["cache_flush"] == true {
            device.chip().release
        } else {
            Flush::NONE
        },
        data: match number_or("data_sel", 0) {
            0 => DataSel::None,
            1 => DataSel::Low32(value),
            2 => DataSel::Data64(value),
            _ => DataSel::GpuClock,
        },
        interrupt: match number_or("int_sel", 2) {
            0 => IntSel::None,
            1 => IntSel::Now,
            _ => IntSel::AfterWrite,
        },
        address: number_or("address", 0).into(),
        context: 0,
    }
}

const ACQUIRE_MEM: [u32; 2] = [0xc005_5800, 0xc006_5800];
const WAIT_REG_MEM: u32 = 0xc005_3c00;
const WR_WAIT_WR_REG: u32 = 0x45;

/// Known faults of the reference, which no decoder here takes or which wait for others: ACQUIRE_MEM with a high size word
/// of 32 bits where the field has 8, and HDP flushes that wait for the bits of all engines.
pub(crate) fn correct_words(device: &Device, words: &mut [u32]) {
    let client = device.hdp_client().mask();
    for at in 0..words.len() {
        if ACQUIRE_MEM.contains(&words[at]) && words.get(at + 3) == Some(&u32::MAX) {
            let refused = AcquireMem::decode(&words[at..]);
            assert_eq!(
                refused,
                Err(Malformed::Reserved {
                    word: 3,
                    value: u32::MAX
                })
            );
            words[at + 3] = 0xff;
            Known::AcquireSize.seen();
        }
        if words[at] == WAIT_REG_MEM && words.get(at + 1) == Some(&WR_WAIT_WR_REG) {
            assert_eq!(words[at + 4..at + 6], [u32::MAX; 2], "a known fault");
            words[at + 4..at + 6].copy_from_slice(&[client; 2]);
            Known::HdpFlush.seen();
        }
    }
}

/// A bounded range in bytes, where base and size count 256.
fn correct_range(op: &Json, words: &mut [u32]) {
    let (base, bytes) = (number(&op["addr"]), number(&op["sz"]));
    let halves = |v: u64| [v as u32, (v >> 32) as u32];
    assert_eq!(words[2..4], halves(bytes), "a known fault");
    assert_eq!(words[4..6], halves(base), "a known fault");
    words[2..4].copy_from_slice(&halves(bytes >> 8));
    words[4..6].copy_from_slice(&halves(base >> 8));
    Known::AcquireRange.seen();
}

/// One descriptor for every generation, where each has its own bits.
fn correct_private_segment(device: &Device, op: &Json, words: &mut [u32]) {
    const REFERENCE: u32 = 0x20c1_4000;
    let at = words
        .iter()
        .position(|w| *w == REFERENCE)
        .expect("a known fault");
    let base_hi = (number(&op["device_scratch"]["scratch_addr"]) >> 32) as u32;
    assert_eq!(
        words[at - 2..at],
        [1 << 31 | base_hi, u32::MAX],
        "a known fault"
    );
    let wave32 = op["program"]["wave32"] == true;
    let (swizzle, word3) = match (device.chip().generation, wave32) {
        (Generation::Gfx9, _) => (1 << 31, 0x00ea_4fac),
        (_, true) => (1 << 30, 0x20c1_4fac),
        (_, false) => (1 << 30, 0x20e1_4fac),
    };
    words[at - 2] = swizzle | base_hi;
    words[at] = word3;
    Known::PrivateSegment.seen();
}

/// One case of a PM4 file.
pub(crate) fn run(case: &Json) {
    let words = lab::case(&Pm4, case);
    if let Some(words) = words.filter(|_| case["inputs"]["ring"].is_object()) {
        submit_case(case, &words);
    }
}

/// The queue is submitted as often as the case says, into a ring of filler.
fn submit_case(case: &Json, words: &[u32]) {
    let (name, inputs) = (json::name(case), &case["inputs"]);
    let device = amd::device(case);
    let r = &inputs["ring"];
    let (base, put) = (number(&r["ring_addr"]), number(&r["put_value_before"]));
    let mut memory = vec![u64::from_ne_bytes([FILLER; 8]); number(&r["ring_bytes"]) as usize / 8];
    let mut ring =
        Ring::resume(Region::from_words(&mut memory, base), 4, put).expect("whole words");
    let bound = inputs["indirect_buffer_addr"].as_str();
    let mut rung = put;
    let mut doorbell = |put: u64| rung = put;
    for after in list(&case["after_submit"]) {
        let put = match bound {
            Some(_) => submit_bound(
                &mut ring,
                number(&inputs["indirect_buffer_addr"]),
                words.len(),
                &mut doorbell,
            ),
            None if device.xccs() > 1 => submit_in_ring(&mut ring, base, words, &mut doorbell),
            None => submit(&mut ring, words, &mut doorbell),
        };
        assert_eq!(put, Ok(number(&after["put_value_after"])), "{name}");
        ring.consumed(ring.put()).expect("just published");
    }
    let mut want = expected_memory(&case["expected_memory"], &[]);
    let mut spaces = vec![
        (base, bytes_of(&memory)),
        (number(&r["write_ptr_addr"]), rung.to_le_bytes().to_vec()),
        (number(&r["doorbell_addr"]), rung.to_le_bytes().to_vec()),
    ];
    if bound.is_some() {
        let words = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        spaces.push((number(&inputs["indirect_buffer_addr"]), words));
        let packet = json::words(&case["expected_submit_words"]);
        lab::compare_words(name, &Pm4.decode_and_encode(name, &packet), &packet);
    }
    correct_memory(&device, &mut want);
    compare_memory(name, &spaces, &want);
}

/// The known faults in memory that holds words.
pub(crate) fn correct_memory(device: &Device, want: &mut BTreeMap<u64, u8>) {
    let starts: Vec<u64> = want.keys().copied().filter(|at| at % 4 == 0).collect();
    let mut run = Vec::new();
    for (i, &at) in starts.iter().enumerate() {
        let byte = |i: u64| want.get(&(at + i)).copied();
        if let (Some(a), Some(b), Some(c), Some(d)) = (byte(0), byte(1), byte(2), byte(3)) {
            run.push((at, u32::from_le_bytes([a, b, c, d])));
        }
        if starts.get(i + 1) != Some(&(at + 4)) {
            let (places, mut words): (Vec<u64>, Vec<u32>) = run.drain(..).unzip();
            correct_words(device, &mut words);
            for (at, word) in places.into_iter().zip(words) {
                want.extend((at..).zip(word.to_le_bytes()));
            }
        }
    }
}
