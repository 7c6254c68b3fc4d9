//! The core under Adreno A6xx: golden words of OpenCL and Mesa programs, and three variable local sizes in one word.

mod fit;

use fit::adreno::{AdrenoQueue, Binary, Program, Style};
use fit::amd;
use fit::golden::{self, Json, Operands, Vars, list, number, number32};
use fit::lab::{Image, Recording as _, Sketch, Space, dense, symbolic};
use hcq_nostd::args::ArgSlot;
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{Derived, PatchError, PatchList, Patcher, RegionId, Site};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _};
use hcq_nostd::record::{Block, Operand, RecordError};
use hcq_nostd::value::{Misfit, Value};

const KERNARGS: RegionId = RegionId(1);

struct Adreno;

fn scrap(case: &Json) -> u64 {
    number(&case["inputs"]["device"]["dummy_addr"])
}

fn style(program: &Json) -> Style {
    match program["style"].as_str() {
        Some("cl") => Style::Cl,
        Some("nir") => Style::Nir(
            ["work_group_id_reg", "wg_size_const", "local_id_reg"]
                .map(|name| number32(&program[name])),
        ),
        other => panic!("no style {other:?}"),
    }
}

fn binary(op: &Json) -> Binary {
    let (p, derived) = (&op["program"], &op["program"]["derived"]);
    Binary {
        style: style(p),
        code: number(&p["code_addr"]),
        code_bytes: number(&p["image_size"]),
        first_instruction: number32(&p["prg_offset"]),
        full_regs: number(&p["full_regs"]),
        half_regs: number(&p["half_regs"]),
        branch_stack: number(&p["branch_stack"]),
        shared_size: number(&derived["shared_size"]),
        private_per_item: number32(&derived["private_mem_per_item_512"]),
        private_total: number32(&derived["private_mem_total"]),
        stack: number(&derived["stack_addr"]),
        hw_stack_offset: number(&derived["hw_stack_offset"]),
        max_threads: number(&derived["max_threads"]),
    }
}

/// The program's constants in an argument block of zeros.
fn constants(op: &Json) -> Vec<u8> {
    let mut block = vec![0; number(&op["program"]["derived"]["kernargs_alloc_size"]) as usize];
    for constant in list(&op["program"]["constants"]) {
        let (at, size) = (
            number(&constant["offset"]) as usize,
            number(&constant["size"]) as usize,
        );
        block[at..at + size].copy_from_slice(&number(&constant["value"]).to_le_bytes()[..size]);
    }
    block
}

fn types(op: &Json) -> Vec<&str> {
    let scalars = list(&op["program"]["signature"])
        .iter()
        .skip(list(&op["args"]["buffer_addrs"]).len());
    scalars.filter_map(|s| s["type"].as_str()).collect()
}

/// An OpenCL program says where each argument is; Mesa's are one after the other.
fn slots(op: &Json) -> Vec<ArgSlot> {
    let buffers = list(&op["args"]["buffer_addrs"]).len();
    let sizes = std::iter::repeat_n(8, buffers).chain(types(op).into_iter().map(amd::scalar_bytes));
    let given: Vec<u32> = list(&op["program"]["buffer_offsets"])
        .iter()
        .map(number32)
        .collect();
    let mut next = op["program"]["buffer_offset"]
        .as_str()
        .map_or(0, |_| number32(&op["program"]["buffer_offset"]));
    let mut slots = Vec::new();
    for (i, size) in sizes.enumerate() {
        let offset = given.get(i).copied().unwrap_or(next.next_multiple_of(size));
        next = offset + size;
        slots.push(if i < buffers {
            ArgSlot::buffer(offset)
        } else {
            ArgSlot::scalar(offset, size)
        });
    }
    slots
}

impl Sketch for Adreno {
    fn spaces(&self, case: &Json) -> Vec<Space> {
        let exec = list(&case["inputs"]["ops"])
            .iter()
            .find(|op| op["op"] == "exec");
        exec.map_or_else(Vec::new, |op| {
            vec![Space {
                addr: number(&op["args"]["kernargs_addr"]),
                bytes: constants(op).len(),
            }]
        })
    }

    fn record<'m>(
        &self,
        case: &Json,
        operands: Operands<'_>,
        words: &'m mut [u32],
        patches: PatchList<'m>,
        memory: &mut [Region<'_>],
    ) -> Result<(usize, PatchList<'m>), RecordError> {
        let mut q = AdrenoQueue::new(scrap(case), words, patches);
        for op in list(&case["inputs"]["ops"]) {
            if amd::common(&mut q, &operands, op)? {
                continue;
            }
            match op["op"].as_str() {
                Some("memory_barrier") => {
                    q.memory_barrier()?;
                }
                Some("exec") => {
                    let (constants, slots) = (constants(op), slots(op));
                    let program =
                        Program::new(&binary(op), &constants, amd::layout(&slots), scrap(case))?;
                    let args = amd::arguments(&operands, q.list(), op, &slots, &types(op));
                    let [groups, local] = amd::sizes(&operands, q.list(), op);
                    let kernargs = Block::new(&mut memory[0], KERNARGS, 0, program.kernargs_size())
                        .expect("inside");
                    q.exec(Launch {
                        program: &program,
                        args: &args,
                        kernargs,
                        groups,
                        local,
                        local_memory: 0,
                    })?;
                }
                other => panic!("no operation {other:?}"),
            }
        }
        Ok(q.finish())
    }

    fn correct(&self, case: &Json, _: Option<&Vars>, want: &mut Image) {
        // Register runs by header, and what the reference writes there.
        const CONTROL_2_TO_6: u32 = 0x48b9_8385;
        const ENABLED: u32 = 0x100;
        const HW_STACK_OFFSET: u32 = 0x48a9_bd01;
        for at in 0..want.words.len() {
            // 256 vec4 in units of four, below the enable bit: the reference loses the length.
            if want.words[at] == CONTROL_2_TO_6 {
                assert_eq!(want.words[at + 5], ENABLED, "a known fault");
                want.words[at + 5] = ENABLED | 64;
            }
            // Bytes, where the field counts 2 KiB.
            if want.words[at] == HW_STACK_OFFSET {
                let op = list(&case["inputs"]["ops"])
                    .iter()
                    .find(|op| op["op"] == "exec")
                    .expect("an exec");
                let bytes = number32(&op["program"]["derived"]["hw_stack_offset"]);
                assert_eq!(want.words[at + 1], bytes, "a known fault");
                want.words[at + 1] = bytes / 2048;
            }
        }
    }

    fn ignores(&self, region: &str) -> bool {
        region == "program"
    }
}

#[test]
fn symbolic_cases() {
    symbolic("adreno", &Adreno, &["qcom-a630"], |_| true);
}

#[test]
fn immediates() {
    const CASES: [&str; 14] = [
        "a630_timestamp",
        "a630_signal",
        "a630_wait",
        "a630_memory_barrier",
        "a630_exec_cl_basic",
        "a630_exec_cl_small_image",
        "a630_exec_cl_values",
        "a630_exec_cl_consts",
        "a630_exec_cl_scratch",
        "a630_exec_nir_basic",
        "a630_exec_nir_values",
        "a630_exec_nir_wgsize",
        "a630_exec_cl_large",
        "a630_exec_nir_3d",
    ];
    dense("adreno", &Adreno, "qcom-a630", &CASES);
}

/// The engine has 32 bits of a signal; the reference keeps the low ones of a larger value.
#[test]
fn values_above_32_bits_are_refused() {
    for case in golden::cases("qcom-a630")
        .iter()
        .filter(|c| golden::name(c).ends_with("_high"))
    {
        let (none, mut words) = (Vars::new(), [0; 16]);
        let recorded = Adreno.record(
            case,
            Operands::Fixed(&none),
            &mut words,
            PatchList::none(),
            &mut [],
        );
        let value = number(&list(&case["inputs"]["ops"])[0]["value"]);
        let misfit = Misfit::TooLarge { value, bits: 32 };
        assert_eq!(
            recorded.err(),
            Some(RecordError::Misfit {
                operand: Operand::Data,
                misfit
            })
        );
    }
}

/// Groups and local sizes of one launch of a golden program, patched and recorded afresh.
#[test]
fn three_variable_local_sizes_share_a_word() {
    let cases = golden::cases("qcom-a630");
    let case = cases
        .iter()
        .find(|c| golden::name(c) == "a630_exec_nir_3d")
        .expect("the case");
    let op = &list(&case["inputs"]["ops"])[0];
    let (constants, slots) = (constants(op), slots(op));
    let program =
        Program::new(&binary(op), &constants, amd::layout(&slots), scrap(case)).expect("a program");
    let none = Vars::new();
    let args = amd::arguments(
        &Operands::Fixed(&none),
        &mut PatchList::none(),
        op,
        &slots,
        &[],
    );
    let launch = |q: &mut AdrenoQueue<'_>, sizes: [Value; 6]| {
        let mut memory = vec![0; constants.len() / 8];
        let mut region = Region::from_words(&mut memory, 0x5_1000_0000);
        let kernargs =
            Block::new(&mut region, KERNARGS, 0, program.kernargs_size()).expect("inside");
        let [gx, gy, gz, lx, ly, lz] = sizes;
        let (groups, local) = ([gx, gy, gz], [lx, ly, lz]);
        q.exec(Launch {
            program: &program,
            args: &args,
            kernargs,
            groups,
            local,
            local_memory: 0,
        })
        .map(|_| ())
    };

    let (mut words, mut sites, mut derived) = ([0; 96], [Site::EMPTY; 32], [Derived::EMPTY; 4]);
    let mut patches = PatchList::new(&mut sites, &mut derived);
    let vars: [_; 6] = std::array::from_fn(|_| patches.var().expect("a variable"));
    let mut q = AdrenoQueue::new(scrap(case), &mut words, patches);
    launch(&mut q, vars.map(Value::from)).expect("recorded");
    let (len, mut patches) = q.finish();
    assert_eq!(patches.used().derived, 4, "three products and a sum");
    let mut table = [0; 512];
    let table = patches
        .build(&[len as u64 * 4], &mut table)
        .expect("a table");
    let mut state = vec![0; table.state_words()];
    let mut patcher = Patcher::new(table, &mut state).expect("room");
    let mut device_words = vec![0; len.div_ceil(2)];
    let mut regions = [Region::from_words(&mut device_words, 0)];
    regions[0].write_words(0, &words[..len]).expect("inside");

    for sizes in [
        [3, 5, 7, 8, 8, 4],
        [3, 5, 7, 1, 1024, 1],
        [1, 1, 1, 1024, 1, 1],
        [9, 1, 2, 2, 3, 64],
    ] {
        patcher.set_all(vars[0], &sizes).expect("variables");
        patcher.apply(&mut regions).expect("applied");
        let mut fresh = [0; 96];
        let mut q = AdrenoQueue::new(scrap(case), &mut fresh, PatchList::none());
        launch(&mut q, sizes.map(Value::from)).expect("recorded");
        for (i, word) in fresh[..len].iter().enumerate() {
            assert_eq!(regions[0].load_u32(i * 4), Ok(*word), "{sizes:?}: word {i}");
        }
    }
    // A local size of zero or above 1024 leaves its ten bits, whichever way it comes.
    for size in [0, 1025] {
        patcher.set(vars[4], size).expect("a variable");
        assert!(
            matches!(patcher.apply(&mut regions), Err(PatchError::Misfit { .. })),
            "{size}"
        );
        let mut fresh = [0; 96];
        let mut q = AdrenoQueue::new(scrap(case), &mut fresh, PatchList::none());
        let refused = launch(&mut q, [1, 1, 1, 1, size, 1].map(Value::from));
        let operand = Operand::Local(if size == 0 { 1 } else { 3 });
        let want = if size == 0 {
            RecordError::Misfit {
                operand,
                misfit: Misfit::TooLarge {
                    value: u64::MAX,
                    bits: 10,
                },
            }
        } else {
            RecordError::Limit {
                operand,
                value: 1025,
                max: 1024,
            }
        };
        assert_eq!(refused, Err(want));
        assert_eq!(q.finish().0, 0);
    }
}
