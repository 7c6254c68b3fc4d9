//! What is read from real cubins: golden fields of files that `ptxas` made.

use hcq_nostd::args::{ArgKind, ArgSlot};
use hcq_nv::chips::Chip;
use hcq_nv::cubin::{AbiVersion, Cubin, LoadError};

use super::json::{Json, list, number};

/// A file of the golden data.
pub(crate) fn file(name: &str) -> Vec<u8> {
    let path = format!(
        "{}/../../tests/vectors/objects/{name}",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn objects() -> Vec<Json> {
    serde_json::from_slice(&file("nv-objects.json")).expect("an array")
}

#[test]
fn cubins_have_the_golden_fields() {
    let mut done = 0;
    for object in &objects() {
        let title = object["file"].as_str().expect("a name");
        let (data, want) = (file(title), &object["expected"]);
        let cubin = Cubin::parse(&data).unwrap_or_else(|e| panic!("{title}: {e}"));
        let arch = object["arch"]
            .as_str()
            .expect("sm_")
            .trim_start_matches("sm_");
        let sm: u16 = arch.parse().expect("a number");
        assert_eq!(cubin.sm(), sm, "{title}");
        let abi = if sm < 100 {
            AbiVersion::V7
        } else {
            AbiVersion::V8
        };
        assert_eq!(cubin.abi(), abi, "{title}");
        let chip = hcq_nv::chips::CHIPS
            .iter()
            .find(|c| c.sm == sm)
            .expect("a chip");
        cubin.check(chip).expect("its own chip");
        let older = Chip::named("ga100").expect("a chip");
        assert_eq!(cubin.check(older).is_ok(), sm == 80, "{title}");

        let name = object["kernel"].as_str().expect("a name");
        let kernel = cubin
            .kernel(name)
            .unwrap_or_else(|e| panic!("{title}: {e}"));
        let found: Vec<_> = cubin.kernels().map(|k| k.expect("a kernel")).collect();
        assert_eq!(found, [kernel], "{title}: every kernel");
        assert_eq!(cubin.kernel("nothing"), Err(LoadError::NoKernel));
        let of = |field: &str| number(&want[field]);
        assert_eq!(u64::from(kernel.registers), of("registers"), "{title}");
        let stack = of("frame_size").max(of("min_stack_size"));
        assert_eq!(u64::from(kernel.stack_bytes), stack, "{title}");
        assert_eq!(
            u64::from(kernel.arguments_at),
            of("param_bank_offset"),
            "{title}"
        );
        assert_eq!(
            u64::from(kernel.arguments_bytes),
            of("param_bank_size"),
            "{title}"
        );
        assert_eq!(kernel.code_bytes, of("code_section_size"), "{title}");
        assert_eq!(kernel.shared_bytes, of("shared_section_size"), "{title}");
        assert_eq!(kernel.counts_reserved, sm >= 90, "{title}");
        assert_eq!(
            kernel.barriers,
            u32::from(name == "reduce"),
            "{title}: barriers"
        );
        for (section, size) in want["constant_banks"].as_object().expect("banks") {
            let digit = section.trim_start_matches(".nv.constant").as_bytes()[0] - b'0';
            let bank = kernel.banks[usize::from(digit)].expect("the bank");
            assert_eq!(bank.1, number(size), "{title}: {section}");
        }
        let banks = kernel.banks.iter().flatten().count();
        assert_eq!(
            banks,
            want["constant_banks"].as_object().expect("banks").len()
        );

        let mut slots = [ArgSlot::buffer(0); 8];
        let layout = kernel
            .layout(&mut slots)
            .unwrap_or_else(|e| panic!("{title}: {e}"));
        let params = list(&want["params"]);
        assert_eq!(layout.slots.len(), params.len(), "{title}");
        assert_eq!(layout.size, kernel.arguments_at + kernel.arguments_bytes);
        for (slot, param) in layout.slots.iter().zip(params) {
            let at = u64::from(slot.offset - kernel.arguments_at);
            assert_eq!(at, number(&param["offset"]), "{title}");
            assert_eq!(u64::from(slot.size), number(&param["size"]), "{title}");
            assert_eq!(slot.kind == ArgKind::Buffer, slot.size == 8, "{title}");
        }
        let few = layout.slots.len() - 1;
        let mut few_slots = vec![ArgSlot::buffer(0); few];
        let (need, have) = (few + 1, few);
        assert_eq!(
            kernel.layout(&mut few_slots).err(),
            Some(LoadError::TooManyArguments { need, have }),
            "{title}"
        );
        // Only what kernels read is in the image, at most as much as everything.
        let (plain, all) = (
            cubin.image().expect("a size"),
            Cubin::parse(&data)
                .expect("a cubin")
                .with_everything()
                .image()
                .expect("a size"),
        );
        assert!(plain.bytes < all.bytes, "{title}");
        if object["loaded"].is_object() {
            let all = Cubin::parse(&data).expect("a cubin").with_everything();
            let kernel = all.kernel(name).expect("a kernel");
            let at = &object["loaded"]["section_addresses"][format!(".text.{name}")];
            assert_eq!(kernel.code_at, number(at), "{title}: code");
        }
        done += 1;
    }
    println!("golden nv: {done} cubins");
    assert_eq!(done, 20);
}
