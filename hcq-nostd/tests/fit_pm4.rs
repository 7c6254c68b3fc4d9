//! The core under PM4: golden words of gfx11 and gfx9.4, one XCC and eight.

mod fit;

use fit::golden::{self, Json, Operands, Vars, list, number};
use fit::lab::{Image, Recording as _, Sketch, Space, dense, symbolic};
use fit::pm4::{KERNARGS, Pm4Queue, Program, indirect_buffer, submit, submit_predicated};
use fit::{amd, pm4};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, Site};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _, Queue, SignalAt};
use hcq_nostd::record::{Block, Operand, RecordError, Room};
use hcq_nostd::ring::Ring;
use hcq_nostd::value::{Misfit, Value};

struct Pm4;

impl Sketch for Pm4 {
    fn spaces(&self, case: &Json) -> Vec<Space> {
        amd::kernargs_space(case)
    }

    fn record<'m>(
        &self,
        case: &Json,
        operands: Operands<'_>,
        words: &'m mut [u32],
        patches: PatchList<'m>,
        memory: &mut [Region<'_>],
    ) -> Result<(usize, PatchList<'m>), RecordError> {
        let device = amd::device(case);
        let mut q = Pm4Queue::new(device, words, patches);
        for op in list(&case["inputs"]["ops"]) {
            if amd::common(&mut q, &operands, op)? {
                continue;
            }
            match op["op"].as_str() {
                Some("memory_barrier") => {
                    q.memory_barrier()?;
                }
                Some("exec") => exec(&mut q, &device, &operands, op, &mut memory[0])?,
                other => panic!("no operation {other:?}"),
            }
        }
        Ok(q.finish())
    }

    fn correct(&self, _: &Json, _: Option<&Vars>, want: &mut Image) {
        amd::correct_acquire(want);
    }
}

fn exec(
    q: &mut Pm4Queue<'_>,
    device: &pm4::Device,
    operands: &Operands<'_>,
    op: &Json,
    memory: &mut Region<'_>,
) -> Result<(), RecordError> {
    let slots = amd::slots(op, 0);
    let program = Program::new(device, amd::descriptor(op), amd::layout(&slots));
    let types: Vec<_> = list(&op["program"]["scalar_types"])
        .iter()
        .filter_map(Json::as_str)
        .collect();
    let args = amd::arguments(operands, q.list(), op, &slots, &types);
    let [groups, local] = amd::sizes(operands, q.list(), op);
    let kernargs = Block::new(memory, KERNARGS, 0, program.kernargs_size()).expect("inside");
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

#[test]
fn symbolic_cases() {
    symbolic("pm4", &Pm4, &["amd-gfx1100-pm4", "amd-gfx942-pm4"], |_| {
        true
    });
}

#[test]
fn immediates() {
    const CASES: [&str; 19] = [
        "x1_timestamp",
        "x1_signal_plain",
        "x1_signal_timeline_kfd",
        "x1_signal_max32",
        "x1_wait",
        "x1_memory_barrier",
        "x1_write32",
        "x1_write64",
        "x1_poll_bit_set",
        "x1_poll_bit_clear",
        "x1_exec_basic",
        "x1_exec_3d",
        "x1_exec_high_prog",
        "x1_exec_vals_i32",
        "x1_exec_vals_mixed",
        "x1_exec_vals_neg64",
        "x1_exec_dispatch_ptr",
        "x1_exec_scratch_high",
        "x1_exec_waves_per_sh",
    ];
    dense("pm4", &Pm4, "amd-gfx1100-pm4", &CASES);
    dense("pm4", &Pm4, "amd-gfx942-pm4", &CASES);
    let on_eight: Vec<String> = CASES
        .iter()
        .map(|name| name.replace("x1_", "x8_"))
        .collect();
    dense(
        "pm4",
        &Pm4,
        "amd-gfx942-pm4",
        &on_eight.iter().map(String::as_str).collect::<Vec<_>>(),
    );
}

/// Ring contents and pointers after golden submits: words in the ring, in an indirect buffer, and, with several XCCs, in an
/// indirect buffer in the ring.
#[test]
fn rings() {
    let mut done = 0;
    for case in ["amd-gfx1100-pm4", "amd-gfx942-pm4"]
        .map(golden::cases)
        .iter()
        .flatten()
    {
        let (name, inputs) = (golden::name(case), &case["inputs"]);
        if !inputs["ring"].is_object() {
            continue;
        }
        let mut words = [0; 64];
        let none = Vars::new();
        let (len, _) = Pm4
            .record(
                case,
                Operands::Fixed(&none),
                &mut words,
                PatchList::none(),
                &mut [],
            )
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(
            words[..len],
            golden::words(&case["expected_words"]),
            "{name}"
        );

        let (base, bytes) = (
            number(&inputs["ring"]["ring_addr"]),
            number(&inputs["ring"]["ring_bytes"]),
        );
        let mut memory = vec![u64::from_ne_bytes([0xa5; 8]); bytes as usize / 8];
        let mut rung = number(&inputs["ring"]["put_value_before"]);
        let mut ring =
            Ring::resume(Region::from_words(&mut memory, base), 4, rung).expect("whole words");
        for after in list(&case["after_submit"]) {
            let mut doorbell = |put: u64| rung = put;
            let submitted = match inputs["indirect_buffer_addr"].as_str() {
                Some(_) => indirect_buffer(number(&inputs["indirect_buffer_addr"]), len)
                    .and_then(|packet| submit(&mut ring, &packet, &mut doorbell)),
                None if amd::device(case).xccs > 1 => {
                    submit_predicated(&mut ring, base, &words[..len], &mut doorbell)
                }
                None => submit(&mut ring, &words[..len], &mut doorbell),
            };
            submitted.unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(rung, number(&after["put_value_after"]), "{name}");
            ring.consumed(ring.put()).expect("just published");
        }

        let mut want = vec![0xa5; bytes as usize];
        for run in list(&case["expected_memory"])
            .iter()
            .filter(|r| r["region"] == "ring")
        {
            let (at, bytes) = (
                number(&run["offset"]) as usize,
                golden::bytes(&run["bytes"]),
            );
            want[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        let got: Vec<u8> = memory.iter().flat_map(|w| w.to_ne_bytes()).collect();
        for (at, (got, want)) in got.iter().zip(&want).enumerate() {
            assert_eq!(got, want, "{name}: byte {at:#x}");
        }
        done += 1;
    }
    println!("fit pm4: {done} rings");
    assert_eq!(done, 24);
}

/// What does not fit a field is refused by name, and the queue is as it was.
#[test]
fn operands_out_of_range_are_refused() {
    let device = pm4::Device {
        chip: &pm4::GFX1100,
        xccs: 1,
        interrupt: None,
    };
    let (mut words, mut sites) = ([0; 16], [Site::EMPTY; 1]);
    let mut patches = PatchList::new(&mut sites, &mut []);
    let var = Value::from(patches.var().expect("a variable"));
    let mut q = Pm4Queue::new(device, &mut words, patches);
    let signal = SignalAt::from(Value::from(0x1000u64));
    let refused = |operand, misfit| Some(RecordError::Misfit { operand, misfit });

    let too_large = Misfit::TooLarge {
        value: 1 << 32,
        bits: 32,
    };
    assert_eq!(
        q.signal(signal, (1u64 << 32).into()).err(),
        refused(Operand::Data, too_large)
    );
    let misaligned = Misfit::Misaligned {
        value: 0x1008,
        align_log2: 4,
    };
    let odd = SignalAt::from(Value::from(0x1008u64));
    assert_eq!(
        q.signal(odd, 1u64.into()).err(),
        refused(Operand::Address, misaligned)
    );
    let too_high = Misfit::TooLarge {
        value: 1 << 48,
        bits: 48,
    };
    let far = SignalAt::from(Value::from(1u64 << 48));
    assert_eq!(
        q.wait(far, 1u64.into()).err(),
        refused(Operand::Address, too_high)
    );
    // One site is too few for an address and a value.
    let room = Room {
        words: 7,
        sites: 2,
        ..Room::default()
    };
    let unknown = SignalAt::from(var);
    assert_eq!(
        q.wait(unknown, var + 1).err(),
        Some(RecordError::NoRoom(room))
    );
    assert_eq!(q.list().used().sites, 0);
    assert_eq!(q.finish().0, 0);
}
