//! The core under PM4: golden words of gfx11 and gfx9.4, one XCC and eight.

mod fit;

use fit::golden::{self, Json, Operands, Vars, list, number};
use fit::lab::{Image, Recording as _, Sketch, Space, dense, symbolic};
use fit::pm4::{
    Descriptor, KERNARGS, Pm4Queue, Program, indirect_buffer, submit, submit_predicated,
};
use fit::{amd, pm4};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchError, PatchList, Patcher, Site};
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

/// One launch of a golden case, with another descriptor, argument memory, sizes and group-local memory.
fn launch(
    case: &Json,
    q: &mut Pm4Queue<'_>,
    descriptor: Descriptor,
    bytes: usize,
    [groups, local]: [[u64; 3]; 2],
    local_memory: u32,
) -> Result<(), RecordError> {
    let op = &list(&case["inputs"]["ops"])[0];
    let slots = amd::slots(op, 0);
    let program = Program::new(&amd::device(case), descriptor, amd::layout(&slots));
    let none = Vars::new();
    let args = amd::arguments(&Operands::Fixed(&none), q.list(), op, &slots, &[]);
    let mut memory = [0; 32];
    let mut region = Region::from_words(&mut memory, number(&op["args"]["kernargs_addr"]));
    let kernargs = Block::new(&mut region, KERNARGS, 0, bytes).expect("inside");
    let [groups, local] = [groups, local].map(|sizes| sizes.map(Value::from));
    q.exec(Launch {
        program: &program,
        args: &args,
        kernargs,
        groups,
        local,
        local_memory,
    })
    .map(|_| ())
}

fn case(file: &str, name: &str) -> Json {
    golden::cases(file)
        .into_iter()
        .find(|c| golden::name(c) == name)
        .expect("the case")
}

/// Scratch memory that moves: its base, per XCC and in units of 256 bytes, is a variable in a prepared template.
#[test]
fn scratch_memory_that_moves_is_patched() {
    for (file, name) in [
        ("amd-gfx1100-pm4", "x1_exec_scratch_high"),
        ("amd-gfx942-pm4", "x8_exec_scratch_high"),
    ] {
        let case = case(file, name);
        let (mut words, mut sites) = ([0; 128], [Site::EMPTY; 8]);
        let mut patches = PatchList::new(&mut sites, &mut []);
        let scratch = patches.var().expect("a variable");
        let mut q = Pm4Queue::new(amd::device(&case), &mut words, patches);
        let known = amd::descriptor(&list(&case["inputs"]["ops"])[0]);
        let moving = Descriptor {
            scratch: scratch.into(),
            ..known
        };
        launch(&case, &mut q, moving, 32, [[4, 1, 1], [64, 1, 1]], 0).expect("recorded");
        let (len, mut patches) = q.finish();
        let mut table = [0; 128];
        let table = patches
            .build(&[len as u64 * 4], &mut table)
            .expect("a table");
        let mut state = [0; 4];
        let mut patcher = Patcher::new(table, &mut state).expect("room");
        let mut device_words = vec![0; len.div_ceil(2)];
        let mut regions = [Region::from_words(&mut device_words, 0)];
        regions[0].write_words(0, &words[..len]).expect("inside");
        patcher
            .set(scratch, known.scratch.imm().expect("known"))
            .expect("a variable");
        assert_eq!(
            patcher.apply(&mut regions),
            Ok(amd::device(&case).xccs as usize)
        );
        let mut want = golden::words(&case["expected_words"]);
        amd::correct_acquire_words(&mut want);
        for (i, word) in want.iter().enumerate() {
            assert_eq!(regions[0].load_u32(4 * i), Ok(*word), "{name}: word {i}");
        }
        // The registers count 256 bytes.
        patcher.set(scratch, 0x1080).expect("a variable");
        assert!(matches!(
            patcher.apply(&mut regions),
            Err(PatchError::Misfit { .. })
        ));
    }
}

#[test]
fn launches_out_of_range_are_refused() {
    let case = case("amd-gfx1100-pm4", "x1_exec_basic");
    let descriptor = amd::descriptor(&list(&case["inputs"]["ops"])[0]);
    let try_one = |bytes, sizes, local_memory| {
        let mut words = [0; 64];
        let mut q = Pm4Queue::new(amd::device(&case), &mut words, PatchList::none());
        let result = launch(&case, &mut q, descriptor, bytes, sizes, local_memory);
        let (len, _) = q.finish();
        assert_eq!(len > 0, result.is_ok());
        result.map(|()| words)
    };
    let one = [[4, 1, 1], [64, 1, 1]];
    let plain = try_one(32, one, 0).expect("recorded");
    // 1000 bytes are two granules of LDS, from bit 15 of RSRC2 on.
    let more = try_one(32, one, 1000).expect("recorded");
    let differ: Vec<_> = (0..64).filter(|&i| plain[i] != more[i]).collect();
    assert_eq!(
        (differ.len(), more[differ[0]]),
        (1, plain[differ[0]] | 2 << 15)
    );

    let too_small = RecordError::KernargsTooSmall { need: 24, have: 16 };
    assert_eq!(try_one(16, one, 0), Err(too_small));
    let many = RecordError::Limit {
        operand: Operand::Local(3),
        value: 2048,
        max: 1024,
    };
    assert_eq!(try_one(32, [[1; 3], [1024, 2, 1]], 0), Err(many));
    let none = Misfit::TooSmall { value: 0, least: 1 };
    let none = RecordError::Misfit {
        operand: Operand::Groups(1),
        misfit: none,
    };
    assert_eq!(try_one(32, [[1, 0, 1], [1; 3]], 0), Err(none));
    let large = RecordError::Limit {
        operand: Operand::LocalMemory,
        value: 2048,
        max: 511,
    };
    assert_eq!(try_one(32, one, 1 << 20), Err(large));
}
