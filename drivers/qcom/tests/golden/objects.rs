//! Programs that Mesa's compiler made, from what it says of them to the words of their dispatches.

use hcq_nostd::args::ArgSlot;
use hcq_qcom::ir3::Variant;
use hcq_qcom::kernel::{Constant, ImageSlot};

use super::json::{self, Json, list, number, number32};
use super::{commands, lab};

fn object(name: &str) -> Vec<u8> {
    let path = format!(
        "{}/../../tests/vectors/objects/{name}",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

pub(crate) fn run(case: &Json) {
    let op = &list(&case["inputs"]["ops"])[0];
    let file = op["program"]["object"].as_str().expect("a file");
    let all = json::cases("objects/mesa-objects");
    let facts = all.iter().find(|o| o["file"] == file).expect("its facts");
    let f = &facts["fields"];
    let code = object(file);
    assert_eq!(code.len() as u64, number(&facts["code_size"]));
    let immediates = json::words(&f["immediates"]);
    let register = |name: &str| i16::try_from(f[name].as_i64().expect("a number")).expect("few");
    let byte = |name: &str| u8::try_from(number(&f[name])).expect("a byte");
    let variant = Variant {
        code: &code[..number(&f["info_size"]) as usize],
        branch_stack: number32(&f["branchstack"]),
        private_bytes: number32(&f["private_mem"]),
        shared_bytes: number32(&f["shared_mem"]),
        max_reg: register("max_reg"),
        max_half_reg: register("max_half_reg"),
        merged_registers: false,
        double_waves: false,
        work_group_id: byte("work_group_id_reg"),
        local_invocation_id: byte("local_id_reg"),
        constlen: number32(&f["constlen_vec4"]),
        immediates: &immediates,
        max_const_offset: number32(&f["max_const_offset_vec4"]),
        arguments_offset: number32(&f["ubo0_const_offset"]),
        driver_params: (
            number32(&f["driver_params_offset_vec4"]),
            number32(&f["driver_params_size_vec4"]),
        ),
        group_count: false,
        textures: &[],
    };
    let kernel = variant
        .kernel(number(&op["program"]["code_addr"]))
        .unwrap_or_else(|e| panic!("{file}: {e}"));
    assert_eq!(kernel, commands::kernel(op), "{file}");
    let params = commands::params(op);
    let mut slots = vec![ArgSlot::buffer(0); params.len()];
    let (mut images, mut constants) = (
        [ImageSlot::EMPTY; 0],
        vec![Constant::EMPTY; immediates.len()],
    );
    let arguments = variant
        .layout(&params, &mut slots, &mut images, &mut constants)
        .unwrap_or_else(|e| panic!("{file}: {e}"));
    let offsets: Vec<_> = arguments.layout().slots.iter().map(|s| s.offset).collect();
    let packed: Vec<_> = (0u32..).step_by(8).take(params.len()).collect();
    assert_eq!(offsets, packed, "{file}");
    assert_eq!(constants, commands::constants(&op["program"]), "{file}");
    // The words: see the other cases, whose numbers are the ones compared above.
    assert!(lab::case(&commands::Adreno, case).is_some());
}
