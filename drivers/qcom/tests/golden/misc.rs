//! Packet headers, the refused chip, and containers.

use hcq_nostd::args::ArgSlot;
use hcq_nostd::queue::Program as _;
use hcq_qcom::chips::{Chip, ChipId, Refusal};
use hcq_qcom::container::{ArgumentKind, Container};
use hcq_qcom::device::{Device, PrivateNeed};
use hcq_qcom::image::{Format, Image};
use hcq_qcom::kernel::{Constant, ImageSlot, Param};
use hcq_qcom::pm4::Header;
use hcq_qcom::pm4::Program;
use hcq_qcom::pm4::header::Kind;

use super::commands;
use super::json::{self, Json, list, number, number32};

pub(crate) fn run(case: &Json) {
    match json::name(case) {
        "pkt7_headers" => headers(case, "opcode", |opcode, count| {
            Header::command(u8::try_from(opcode).expect("an opcode"), count)
        }),
        "pkt4_headers" => headers(case, "register", Header::registers),
        "signal_unsupported_7_3" => refused(case),
        _ => container(case),
    }
}

fn headers(case: &Json, what: &str, make: fn(u32, u32) -> Option<Header>) {
    for header in list(&case["expected"]) {
        let (number, count) = (number32(&header[what]), number32(&header["count"]));
        let word = number32(&header["word"]);
        let made = make(number, count).expect("fits");
        assert_eq!(made.word(), word);
        assert_eq!(Header::parse(word), Ok(made));
        assert_eq!(made.count(), count);
        let parsed = match made.kind() {
            Kind::Registers(register) => register,
            Kind::Command(opcode) => opcode.into(),
        };
        assert_eq!(parsed, number);
    }
}

/// Chips with another event packet are refused before there is a queue to signal from.
fn refused(case: &Json) {
    assert_eq!(case["expected_error"], "unsupported");
    let id = case["inputs"]["gpu_id"].as_str().expect("an id");
    let mut parts = id.split('.').map(|n| n.parse::<u8>().expect("a number"));
    let [core, major, minor] = [(); 3].map(|()| parts.next().expect("three numbers"));
    let id = ChipId::new(core, major, minor);
    let number = 730;
    assert_eq!(Chip::find(id), Err(Refusal::PacketsOnly { id, number }));
}

/// What the driver reads from a container, against what the reference does.
fn container(case: &Json) {
    let (name, expected) = (json::name(case), &case["expected"]);
    let data = json::bytes(&case["inputs"]["container"]);
    let kernel_name = case["inputs"]["name"].as_str().expect("a name");
    let container = Container::parse(&data, kernel_name).unwrap_or_else(|e| panic!("{name}: {e}"));
    let op = serde_json::json!({ "program": expected });
    let kernel = container.kernel(number(&expected["code_addr"]));
    assert_eq!(kernel, commands::kernel(&op), "{name}");
    let code = json::bytes(&list(&case["expected_memory"])[0]["bytes"]);
    assert_eq!(container.code(), code, "{name}");

    let kinds: Vec<_> = container.arguments().map(|a| a.kind).collect();
    let count = |kind| kinds.iter().filter(|k| **k == kind).count() as u64;
    assert_eq!(
        count(ArgumentKind::Texture),
        number(&expected["texture_count"])
    );
    assert_eq!(count(ArgumentKind::Storage), number(&expected["ibo_count"]));
    let offsets: Vec<_> = container
        .arguments()
        .filter(|a| a.kind == ArgumentKind::Plain)
        .map(|a| a.offset)
        .collect();
    let golden: Vec<_> = list(&expected["buffer_offsets"])
        .iter()
        .map(number32)
        .collect();
    assert_eq!(offsets, golden, "{name}");

    let image = Some(Image::new(Format::Rgba32Float, 16, 16).expect("an image"));
    let params: Vec<_> = kinds
        .iter()
        .map(|kind| match kind {
            ArgumentKind::Plain => Param::Buffer,
            ArgumentKind::Texture => Param::Texture(image),
            ArgumentKind::Storage => Param::Storage(image),
        })
        .collect();
    let mut slots = vec![ArgSlot::buffer(0); params.len()];
    let mut images = vec![ImageSlot::EMPTY; params.len()];
    let mut constants = vec![Constant::EMPTY; container.constant_count()];
    let arguments = container
        .layout(&params, &mut slots, &mut images, &mut constants)
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    // Descriptors and samplers are behind 2048 bytes of constants; all 4096 of them are in the block, which the engine
    // loads whole.
    assert_eq!(
        arguments.bytes(),
        number32(&expected["derived"]["kernargs_alloc_size"]).max(4096),
        "{name}"
    );
    let slots = arguments.layout().slots.to_vec();
    let descriptors = |kind| {
        let of_kind = slots.iter().zip(&kinds).filter(move |(_, k)| **k == kind);
        of_kind.map(|(s, _)| s.offset - 16).collect::<Vec<_>>()
    };
    let table = |at: &str, count: &str| {
        let first = number32(&expected[at]);
        (0..number32(&expected[count]))
            .map(|i| first + 64 * i)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        descriptors(ArgumentKind::Texture),
        table("texture_offset", "texture_count")
    );
    assert_eq!(
        descriptors(ArgumentKind::Storage),
        table("ibo_offset", "ibo_count")
    );

    let chip = Chip::named("a630").expect("known");
    let device = Device::new(chip, 0x1000, 0x2000).expect("a device");
    let derived = &expected["derived"];
    let need = PrivateNeed::new(chip, kernel.private_bytes).expect("a need");
    let golden = |name: &str| number(&derived[name]);
    assert_eq!(need.item_bytes / 512, golden("private_mem_per_item_512"));
    assert_eq!(need.core_bytes / 4096, golden("private_mem_total"));
    assert_eq!(need.stack_offset, golden("hw_stack_offset"));
    assert!(need.bytes <= golden("stack_size"));
    let private = commands::private(&device, &op);
    let program = Program::new(&device, &kernel, &arguments, &private)
        .unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(
        u64::from(program.max_group()),
        golden("max_threads"),
        "{name}"
    );
    assert_eq!(program.kernargs_size(), arguments.bytes() as usize);
    assert_eq!(constants, commands::constants(expected), "{name}");
}
