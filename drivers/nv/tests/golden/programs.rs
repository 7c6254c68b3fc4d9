//! What is made of a program when it is loaded, and local memory that grows.

use std::collections::BTreeMap;

use hcq_nostd::args::{ArgLayout, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{Queue, SignalAt};
use hcq_nv::compute::{NvCompute, Program, Qmds};
use hcq_nv::cubin::Cubin;
use hcq_nv::device::Device;
use hcq_nv::kernel::NakShader;
use hcq_nv::local_memory::{LocalMemory, Need, Topology};
use hcq_nv::setup::Setup;
use sha2::{Digest, Sha256};

use super::compute::{self, chip, correct_banks, correct_shared, device, fields_and_back};
use super::json::{Json, bytes, name, number, number32, words};
use super::lab::{Image, compare_words};
use super::objects;

/// A program that is loaded: its image, its launch descriptor, and its limits.
pub(crate) fn run(case: &Json) {
    let (title, device) = (name(case), device(case));
    let (inputs, expected) = (&case["inputs"], &case["expected"]);
    let (chip, base) = (device.chip(), number(&inputs["lib_addr"]));
    let mut slots = vec![ArgSlot::buffer(0); 16];
    let (kernel, layout) = if inputs["compiler_style"] == "nak" {
        let shader = NakShader {
            entry: base,
            code_bytes: number32(&inputs["code_size"]),
            registers: number32(&inputs["num_gprs"]),
            barriers: 1,
            shared_bytes: number32(&inputs["shared_bytes"]),
            local_bytes: number32(&inputs["local_bytes"]),
        };
        let none = ArgLayout {
            slots: &[],
            size: 0,
            align: 8,
        };
        (shader.kernel(), none)
    } else {
        let file = objects::file(inputs["object"].as_str().expect("a name"));
        let cubin = Cubin::parse(&file).expect("a cubin").with_everything();
        let image = cubin.image().expect("a size");
        assert_eq!(
            image.bytes,
            number(&expected["image_size"]),
            "{title}: image"
        );
        let mut memory = vec![0u64; image.bytes.div_ceil(8) as usize];
        cubin
            .load(&mut Region::from_words(&mut memory, base))
            .unwrap_or_else(|e| panic!("{title}: {e}"));
        let loaded: Vec<u8> = memory.iter().flat_map(|w| w.to_le_bytes()).collect();
        let hash: String = Sha256::digest(&loaded[..image.bytes as usize])
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(expected["image_sha256"], hash.as_str(), "{title}: image");
        let found = cubin
            .kernel(inputs["kernel"].as_str().expect("a name"))
            .unwrap_or_else(|e| panic!("{title}: {e}"));
        let layout = found.layout(&mut slots).expect("a layout");
        (found.kernel(chip, base).expect("numbers"), layout)
    };
    assert_eq!(kernel.registers, number32(&expected["regs"]), "{title}");
    let max = kernel.max_by_registers();
    assert_eq!(max, number32(&expected["max_threads"]), "{title}");
    let thread = kernel.thread_bytes().expect("a size");
    assert_eq!(thread, number32(&expected["slm_per_thread"]), "{title}");
    assert_eq!(
        kernel.local.bytes(),
        number32(&expected["local_bytes"]),
        "{title}"
    );
    for (n, bank) in kernel.banks.iter().enumerate() {
        let want = &expected["constant_buffers"][n.to_string()];
        assert_eq!(bank.is_some(), want.is_object(), "{title}: bank {n}");
        if let Some(bank) = bank {
            assert_eq!(bank.address, number(&want["addr"]), "{title}: bank {n}");
            assert_eq!(bank.bytes, number32(&want["size"]), "{title}: bank {n}");
        }
    }

    let local = compute::local_memory(chip);
    let program = Program::new(&device, &kernel, layout, &local);
    let program = program.unwrap_or_else(|e| panic!("{title}: {e}"));
    let mut want = Image {
        words: Vec::new(),
        memory: BTreeMap::new(),
    };
    want.write(0, &bytes(&expected["qmd_template"]));
    correct_banks(chip, 0, &expected["constant_buffers"], &mut want);
    correct_shared(chip, 0, &inputs["object"], &mut want);
    // Bank 0 is each launch's own; the reference's template still names the file's.
    let (low, high) = (1024 / 8, 1056 / 8);
    let (low, high) = if chip.qmd.major == 5 {
        (1344 / 8, 1376 / 8)
    } else {
        (low, high)
    };
    want.set_u32(low, 0);
    let upper = want.u32(high);
    want.set_u32(high, upper & !((1 << chip.qmd_upper_bits()) - 1));
    let template: Vec<_> = (0..)
        .step_by(4)
        .map(|at| want.u32(at))
        .take(chip.qmd.words)
        .collect();
    fields_and_back(title, chip, &template);
    compare_words(title, program.template(), &template);
}

trait UpperBits {
    fn qmd_upper_bits(&self) -> u32;
}

impl UpperBits for hcq_nv::chips::Chip {
    /// Bits of CONSTANT_BUFFER_ADDR_UPPER.
    fn qmd_upper_bits(&self) -> u32 {
        if self.qmd.major == 5 { 19 } else { 17 }
    }
}

/// Local memory that grows: its sizes, and the words that tell the channel.
pub(crate) fn local_memory(case: &Json) {
    let (title, inputs, expected) = (name(case), &case["inputs"], &case["expected"]);
    let chip = chip(&inputs["arch"]);
    let topology = Topology {
        gpcs: number32(&inputs["gpcs"]),
        tpcs_per_gpc: number32(&inputs["tpc_per_gpc"]),
        sms_per_tpc: number32(&inputs["sm_per_tpc"]),
        warps_per_sm: number32(&inputs["max_warps_per_sm"]),
    };
    let need = Need::new(&topology, number32(&inputs["required_bytes"])).expect("a size");
    assert_eq!(
        need.thread_bytes,
        number32(&expected["slm_per_thread"]),
        "{title}"
    );
    assert_eq!(need.bytes, number(&expected["allocation_size"]), "{title}");
    let memory = LocalMemory::new(chip, number(&inputs["local_mem_addr"]), &need);
    let signal = SignalAt {
        address: number(&inputs["signal"]["addr"]).into(),
        notify: true,
    };
    let value = number(&inputs["timeline_value"]);
    let want = words(&case["expected_words"]);
    let (mut out, mut none) = (vec![0; want.len()], [0u64; 1]);
    let qmds = Qmds::new(Region::from_words(&mut none, 0), RegionId(1));
    let mut q = NvCompute::new(&Device::new(chip), &mut out, qmds, PatchList::none());
    q.wait(signal, (value - 1).into())
        .and_then(|q| q.setup(&Setup::local_memory(memory.expect("memory"))))
        .and_then(|q| q.signal(signal, value.into()))
        .unwrap_or_else(|e| panic!("{title}: {e}"));
    compare_words(title, q.words(), &want);
    compare_words(title, &compute::decode_and_encode(title, &want), &want);
}
