//! The core under PM4: golden words of gfx11 and gfx9.4, one XCC and eight.

mod fit;

use fit::golden::{Json, Operands, Vars, list};
use fit::lab::{Image, Recording as _, Sketch, Space, dense, symbolic};
use fit::pm4::{KERNARGS, Pm4Queue, Program};
use fit::{amd, pm4};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _};
use hcq_nostd::record::{Block, RecordError};

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
