//! Code objects: what a loader must read from them.

use hcq_amd::aql;
use hcq_amd::code_object::{AbiVersion, CodeObject, KernelDescriptor, LoadError};
use hcq_amd::device::Device;
use hcq_amd::hidden::HiddenSlot;
use hcq_amd::kernel::Properties;
use hcq_amd::pm4;
use hcq_amd::scratch::{Need, Scratch, Topology};
use hcq_nostd::args::ArgSlot;
use hcq_nostd::mem::Region;
use hcq_nostd::queue::Program as _;
use zerocopy::IntoBytes;

use super::json::{self, Json, list, number, number32};

/// The bytes of an object beside the golden data.
pub(crate) fn read(file: &str) -> Vec<u8> {
    let path = format!(
        "{}/../../tests/vectors/objects/{file}",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

const BASE: u64 = 0x7f44_0001_0000;

/// An image at [`BASE`].
fn load(object: &CodeObject<'_>) -> Vec<u64> {
    let size = object.image().expect("an image");
    assert!(BASE.is_multiple_of(size.align));
    let mut memory = vec![u64::MAX; (size.bytes as usize).div_ceil(8)];
    object
        .load(&mut Region::from_words(&mut memory, BASE))
        .expect("loaded");
    memory
}

fn bit(j: &Json) -> bool {
    j.as_u64().expect("a bit") == 1
}

fn check_descriptor(name: &str, d: &KernelDescriptor, want: &Json) {
    assert_eq!(
        d.group_segment_fixed_size,
        number32(&want["group_segment_fixed_size"]),
        "{name}"
    );
    assert_eq!(
        d.private_segment_fixed_size,
        number32(&want["private_segment_fixed_size"]),
        "{name}"
    );
    assert_eq!(d.kernarg_size, number32(&want["kernarg_size"]), "{name}");
    let entry = d.kernel_code_entry_byte_offset.cast_unsigned();
    assert_eq!(
        entry,
        number(&want["kernel_code_entry_byte_offset"]),
        "{name}"
    );
    assert_eq!(
        d.compute_pgm_rsrc1,
        number32(&want["compute_pgm_rsrc1"]),
        "{name}"
    );
    assert_eq!(
        d.compute_pgm_rsrc2,
        number32(&want["compute_pgm_rsrc2"]),
        "{name}"
    );
    assert_eq!(
        d.compute_pgm_rsrc3,
        number32(&want["compute_pgm_rsrc3"]),
        "{name}"
    );
    assert_eq!(
        u64::from(d.kernel_code_properties),
        number(&want["kernel_code_properties"]),
        "{name}"
    );
    assert_eq!(
        u64::from(d.kernarg_preload),
        number(&want["kernarg_preload"]),
        "{name}"
    );
    let (p, want) = (
        d.properties().expect("known bits"),
        &want["decoded_properties"],
    );
    for (property, key) in [
        (Properties::PRIVATE_SEGMENT_BUFFER, "private_segment_buffer"),
        (Properties::DISPATCH_PTR, "dispatch_ptr"),
        (Properties::QUEUE_PTR, "queue_ptr"),
        (Properties::KERNARG_SEGMENT_PTR, "kernarg_segment_ptr"),
        (Properties::DISPATCH_ID, "dispatch_id"),
        (Properties::FLAT_SCRATCH_INIT, "flat_scratch_init"),
        (Properties::PRIVATE_SEGMENT_SIZE, "private_segment_size"),
        (Properties::WAVEFRONT_SIZE32, "wavefront_size32"),
        (Properties::USES_DYNAMIC_STACK, "uses_dynamic_stack"),
    ] {
        assert_eq!(p.contains(property), bit(&want[key]), "{name}: {key}");
    }
}

/// What the reference derives when it loads the object, where it does.
fn check_loaded(name: &str, object: &CodeObject<'_>, kernel: &str, want: &Json) {
    let chip = object.chip().expect("a known chip");
    let symbol = object.kernel(kernel).expect("the kernel");
    let metadata = object.metadata(kernel).expect("sound").expect("metadata");
    let k = symbol
        .kernel(chip, BASE, Some(&metadata))
        .expect("a launchable kernel");
    assert_eq!(number(&want["base"]), BASE);
    assert_eq!(k.entry, number(&want["prog_addr"]), "{name}: entry");
    assert_eq!(
        k.object,
        number(&want["aql_kernel_object"]),
        "{name}: descriptor"
    );
    assert_eq!(
        k.rsrc,
        ["rsrc1", "rsrc2", "rsrc3"].map(|r| number32(&want[r])),
        "{name}: registers"
    );
    assert_eq!(
        k.properties.contains(Properties::WAVEFRONT_SIZE32),
        want["wave32"] == true,
        "{name}"
    );
    assert_eq!(
        k.properties.contains(Properties::DISPATCH_PTR),
        want["enable_dispatch_ptr"] == true,
        "{name}"
    );
    let private = k.properties.contains(Properties::PRIVATE_SEGMENT_BUFFER);
    assert_eq!(
        private,
        want["enable_private_segment_sgpr"] == true,
        "{name}"
    );
    assert_eq!(
        k.group_bytes,
        number32(&want["group_segment_size"]),
        "{name}"
    );
    assert_eq!(
        k.private_bytes,
        number32(&want["private_segment_size"]),
        "{name}"
    );
    assert_eq!(
        k.kernarg_bytes,
        number32(&want["kernargs_segment_size"]),
        "{name}"
    );

    // Both kinds of queue can run it, with as much argument memory as the reference takes.
    let (mut slots, mut hidden) = ([ArgSlot::buffer(0); 8], [HiddenSlot::EMPTY; 32]);
    let arguments = metadata
        .layout(&mut slots, &mut hidden)
        .expect("arguments of known kinds");
    let topology = Topology {
        xccs: 1,
        ses_per_xcc: 4,
        cus_per_xcc: 32,
        slots_per_cu: 32,
    };
    let need = Need::new(chip, &topology, k.private_bytes).expect("scratch memory");
    let scratch = Scratch::new(0x1000_0000, &need).expect("scratch memory");
    let device = Device::new(chip, 1).expect("a device");
    let program = pm4::Program::new(&device, &k, arguments, &scratch, 0).expect("a program");
    assert_eq!(
        program.kernargs_size() as u64,
        number(&want["kernargs_alloc_size"]),
        "{name}"
    );
    let program = aql::Program::new(&device, &k, arguments, &scratch).expect("a program");
    assert_eq!(
        program.kernargs_size() as u64,
        number(&want["kernargs_segment_size"]),
        "{name}"
    );
}

#[test]
fn objects() {
    let cases = json::cases("objects/amd-objects");
    for case in &cases {
        let name = case["file"].as_str().expect("a name");
        let kernel = case["kernel"].as_str().expect("a kernel");
        let data = read(name);
        assert_eq!(data.len() as u64, number(&case["file_size"]), "{name}");
        let object = CodeObject::parse(&data).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(object.abi(), AbiVersion::V5, "{name}");
        assert_eq!(object.is_relocatable(), name.ends_with(".o"), "{name}");
        let chip = object.chip().expect("a known chip");
        assert_eq!(
            chip.target.to_string(),
            case["arch"].as_str().expect("a chip"),
            "{name}"
        );

        let all: Vec<_> = object.kernels().expect("symbols").collect();
        assert_eq!(all.len(), 1, "{name}");
        let symbol = object
            .kernel(kernel)
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(all[0], Ok(symbol), "{name}");
        let raw = json::bytes(&case["kernel_descriptor_bytes"]);
        assert_eq!(symbol.descriptor.as_bytes(), raw, "{name}");
        let offset = number(&case["kernel_descriptor_file_offset"]) as usize;
        assert_eq!(data[offset..offset + raw.len()], raw, "{name}");
        check_descriptor(name, &symbol.descriptor, &case["kernel_descriptor"]);
        assert_eq!(object.kernel("no such kernel"), Err(LoadError::NoKernel));

        let (m, want) = (
            object.metadata(kernel).expect("sound").expect("metadata"),
            &case["metadata_note"],
        );
        assert_eq!(
            (m.name, m.symbol),
            (kernel, want["symbol"].as_str().expect("a symbol")),
            "{name}"
        );
        for (got, key) in [
            (m.group_segment_fixed_size, "group_segment_fixed_size"),
            (m.private_segment_fixed_size, "private_segment_fixed_size"),
            (m.kernarg_segment_size, "kernarg_segment_size"),
            (m.kernarg_segment_align, "kernarg_segment_align"),
            (m.max_flat_workgroup_size, "max_flat_workgroup_size"),
            (m.wavefront_size, "wavefront_size"),
            (m.sgpr_count, "sgpr_count"),
            (m.vgpr_count, "vgpr_count"),
        ] {
            assert_eq!(got, number32(&want[key]), "{name}: {key}");
        }

        load(&object);
        if case["loaded"]["reference_loader"].is_null() {
            check_loaded(name, &object, kernel, &case["loaded"]);
        }
    }
    println!(
        "golden amd objects: {} of {} objects",
        cases.len(),
        cases.len()
    );
    assert_eq!(list(&Json::from(cases)).len(), 14);
}

/// The reference refuses both: `.rela.dyn` in the executable, PC-relative relocations in the relocatable object.
#[test]
fn relocations_that_the_reference_refuses() {
    let executable = read("reloc-gfx1100.co");
    let object = CodeObject::parse(&executable).expect("an executable");
    let memory = load(&object);
    // `tabs` at 0x2880 points at `ta` and `tb`.
    assert_eq!(memory[0x2880 / 8..][..2], [BASE + 0x500, BASE + 0x510]);
    let kernel = object.kernel("reloc").expect("the kernel");
    assert_eq!((kernel.descriptor_at, kernel.entry_at), (0x4c0, 0x1600));

    let relocatable = read("reloc-gfx1100.o");
    let object = CodeObject::parse(&relocatable).expect("a relocatable object");
    let memory = load(&object);
    // .text at 0, .rodata at 0x280 (descriptor, then `ta` at 0x40 and `tb` at 0x50), .data.rel.ro behind.
    let kernel = object.kernel("reloc").expect("the kernel");
    assert_eq!((kernel.descriptor_at, kernel.entry_at), (0x280, 0));
    let tabs = 0x2e8;
    assert_eq!(memory[tabs / 8..][..2], [BASE + 0x2c0, BASE + 0x2d0]);
    // The code adds the two halves to the address behind s_getpc: the place of the low half less 4.
    let word = |at: usize| (memory[at / 8] >> (at % 8 * 8)) as u32;
    let relative = u64::from(word(0x18)) << 32 | u64::from(word(0x10));
    assert_eq!((BASE + 0x10 - 4).wrapping_add(relative), BASE + tabs as u64);
    // In memory the descriptor's own offset is right, too.
    let offset = memory[(0x280 + 16) / 8].cast_signed();
    assert_eq!(0x280 + offset, 0);
}
