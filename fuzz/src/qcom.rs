//! What Adreno's driver reads: programs of two compilers, and words.

use crate::calls::Input;
use hcq_nostd::args::{Arg, ArgKind, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _, Queue, SignalAt};
use hcq_nostd::record::{Block, Recorder};
use hcq_nostd::value::Value;
use hcq_qcom::chips::{CHIPS, Generation};
use hcq_qcom::container::{ArgumentKind, Container, ContainerError};
use hcq_qcom::device::{Device, PrivateMemory, PrivateNeed};
use hcq_qcom::dump::Dump;
use hcq_qcom::image::{Format, Image};
use hcq_qcom::ir3::{Variant, VariantError};
use hcq_qcom::kernel::{Arguments, Constant, ImageSlot, Kernel, Param};
use hcq_qcom::pm4::{AdrenoCompute, Packet, Program};

const CODE: u64 = 0x5_2000_0000;

/// A byte for the chip, one that says of which compiler a program is, and the program: a container of Qualcomm's OpenCL
/// compiler, or what Mesa's says of a program and its instructions. Accepted are programs that can be launched.
pub fn qcom_program(data: &[u8]) -> bool {
    let [chip, kind, rest @ ..] = data else {
        return false;
    };
    match kind % 2 {
        0 => container(*chip, rest).unwrap_or_else(|e| refused(&e)),
        _ => variant(*chip, rest).unwrap_or_else(|e| refused(&e)),
    }
}

fn refused(error: &impl std::error::Error) -> bool {
    assert!(!error.to_string().is_empty());
    false
}

fn image() -> Option<Image> {
    Image::new(Format::Rgba8Unorm, 64, 16).ok()
}

fn container(chip: u8, data: &[u8]) -> Result<bool, ContainerError> {
    let name = Container::name(data).unwrap_or("kernel");
    let container = Container::parse(data, name)?;
    let params: Vec<_> = (0..)
        .zip(container.arguments())
        .map(|(n, a): (u8, _)| match a.kind {
            ArgumentKind::Plain if n % 3 == 2 => Param::Scalar(4),
            ArgumentKind::Plain => Param::Buffer,
            ArgumentKind::Texture => Param::Texture(image().filter(|_| n % 2 == 0)),
            ArgumentKind::Storage => Param::Storage(image().filter(|_| n % 2 == 0)),
        })
        .collect();
    assert!(container.constant_count() * 4 <= data.len());
    let mut slots = vec![ArgSlot::buffer(0); params.len()];
    let mut images = vec![ImageSlot::EMPTY; params.len()];
    let mut constants = vec![Constant::EMPTY; container.constant_count()];
    assert!(!container.code().is_empty() || container.kernel(CODE).code_bytes == 0);
    let arguments = container.layout(&params, &mut slots, &mut images, &mut constants)?;
    Ok(launch(chip, &container.kernel(CODE), &arguments))
}

/// Numbers of what the compiler says, then its constants, textures and arguments, then instructions.
fn variant(chip: u8, data: &[u8]) -> Result<bool, VariantError> {
    let mut input = Input(data);
    let flags = input.byte();
    let count = usize::from(input.byte());
    let immediates: Vec<u32> = (0..count % 32).map(|_| input.number()).collect();
    let count = usize::from(input.byte());
    let textures: Vec<u8> = (0..count % 20).map(|_| input.byte()).collect();
    let count = usize::from(input.byte());
    let params: Vec<Param> = (0..count % 20)
        .map(|_| match input.byte() {
            n @ 0..100 => Param::Scalar(n),
            n @ 100..120 => Param::Texture(image().filter(|_| n % 2 == 0)),
            n @ 120..140 => Param::Storage(image().filter(|_| n % 2 == 0)),
            250.. => Param::Sampler,
            _ => Param::Buffer,
        })
        .collect();
    let signed = |input: &mut Input<'_>| i16::from(input.byte()) - 1;
    let variant = Variant {
        branch_stack: input.small(),
        private_bytes: input.small(),
        shared_bytes: input.small(),
        max_reg: signed(&mut input),
        max_half_reg: signed(&mut input),
        merged_registers: flags & 1 != 0,
        double_waves: flags & 2 != 0,
        group_count: flags & 4 != 0,
        work_group_id: input.byte(),
        local_invocation_id: input.byte(),
        constlen: input.small(),
        immediates: &immediates,
        max_const_offset: input.small(),
        arguments_offset: input.small(),
        driver_params: (input.small(), input.small()),
        textures: &textures,
        code: input.0,
    };
    let mut slots = vec![ArgSlot::buffer(0); params.len()];
    let mut images = vec![ImageSlot::EMPTY; params.len() + textures.len()];
    let mut constants = vec![Constant::EMPTY; immediates.len()];
    let arguments = variant.layout(&params, &mut slots, &mut images, &mut constants)?;
    Ok(launch(chip, &variant.kernel(CODE)?, &arguments))
}

/// Whether a program can be launched with arguments of the right kinds.
fn launch(chip: u8, kernel: &Kernel, arguments: &Arguments<'_>) -> bool {
    let chip = &CHIPS[usize::from(chip) % CHIPS.len()];
    let device = Device::new(chip, 0x5_0000_1000, 0x5_0000_3000).expect("two places");
    let private = PrivateNeed::new(chip, kernel.private_bytes)
        .and_then(|need| PrivateMemory::new(0x5_4000_0000, need.bytes));
    let Ok(private) = private else {
        return false;
    };
    let program = match Program::new(&device, kernel, arguments, &private) {
        Ok(program) => program,
        Err(e) => return refused(&e),
    };
    let bytes = [0u8; 64];
    let args: Option<Vec<Arg<'_>>> = arguments
        .layout()
        .slots
        .iter()
        .map(|slot| {
            let end = slot.offset.checked_add(slot.size);
            assert!(end.is_some_and(|end| end <= arguments.bytes()));
            Some(match slot.kind {
                ArgKind::Buffer | ArgKind::ConstBuffer => Arg::Buffer(0x5_1100_0000u64.into()),
                ArgKind::Scalar => Arg::Scalar {
                    value: 7u64.into(),
                    size: u8::try_from(slot.size).ok()?,
                },
                ArgKind::Bytes => Arg::Bytes(bytes.get(..slot.size as usize)?),
                _ => return None,
            })
        })
        .collect();
    let Some(args) = args else {
        return false;
    };
    assert!(program.kernargs_size() <= 1 << 16);
    let mut memory = vec![0u64; program.kernargs_size().div_ceil(8)];
    let mut kernargs = Region::from_words(&mut memory, 0x5_1000_0000);
    let mut words = [0u32; 512];
    let mut queue = AdrenoCompute::new(&device, &mut words, PatchList::none());
    let launch = Launch {
        program: &program,
        args: &args,
        kernargs: Block::new(&mut kernargs, RegionId(1), 0, program.kernargs_size()).expect("room"),
        groups: [4u64.into(), 2u64.into(), 1u64.into()],
        local: [1u64.into(), 1u64.into(), 1u64.into()],
        local_memory: 0,
    };
    let signal = SignalAt {
        address: Value::Imm(0x5_0010_0040),
        notify: true,
    };
    let recorded = queue
        .exec(launch)
        .and_then(|q| q.signal(signal, 1u64.into()));
    if let Err(e) = recorded {
        return refused(&e);
    }
    let dump = Dump::new(Generation::A6xx, queue.words());
    assert!(
        dump.lines().all(|line| line.malformed().is_none()),
        "{dump}"
    );
    true
}

/// A byte for the generation, and little-endian words. Every word is in one line of the text; a packet, recorded, is the
/// words it was decoded from. Accepted are words that are all packets.
pub fn qcom_decode(data: &[u8]) -> bool {
    let [generation, rest @ ..] = data else {
        return false;
    };
    let generation = match generation % 2 {
        0 => Generation::A6xx,
        _ => Generation::A7xx,
    };
    let words: Vec<u32> = rest
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect();
    let mut accepted = !words.is_empty();
    let mut covered = 0;
    let dump = Dump::new(generation, &words);
    for line in dump.lines() {
        assert_eq!(line.at, covered);
        covered += line.words.len();
        let text = line.to_string();
        assert!(!text.is_empty() && !text.contains('\n'), "{text}");
        assert_eq!(text.starts_with("??"), line.malformed().is_some(), "{text}");
        accepted &= line.malformed().is_none();
        if line.malformed().is_none() {
            let (packet, len) = Packet::decode(line.words, generation).expect("it was a packet");
            assert_eq!(len, line.words.len(), "{text}");
            let mut again = vec![0xa5a5_a5a5; len];
            let mut recorder = Recorder::new(&mut again, PatchList::none());
            recorder
                .command(|c| packet.record(c))
                .expect("what was decoded can be recorded");
            assert_eq!(recorder.words(), line.words, "{text}");
        }
    }
    assert_eq!(covered, words.len());
    assert_eq!(dump.to_string().lines().count(), dump.lines().count());
    accepted
}

fn seed(head: &[u8], rest: &[u8]) -> Vec<u8> {
    [head, rest].concat()
}

/// Seeds of [`qcom_program`]: containers of the golden data, a program of Mesa's compiler, and damaged ones.
pub(crate) fn programs_as_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let cases = hcq_golden::cases("qcom-misc");
    let file = |name: &str| {
        let found = cases.iter().find(|case| hcq_golden::name(case) == name);
        hcq_golden::bytes(&found.expect("a case")["inputs"]["container"])
    };
    let mut seeds = Vec::new();
    for (name, case) in [
        ("ok-cl-basic", "parse_cl_basic"),
        ("ok-cl-constants", "parse_cl_consts"),
        ("ok-cl-scratch", "parse_cl_scratch"),
        ("ok-cl-texture", "parse_cl_tex"),
        ("ok-cl-storage", "parse_cl_ibo_only"),
    ] {
        seeds.push((name, seed(&[1, 0], &file(case))));
    }
    let mut cut = file("parse_cl_basic");
    cut.truncate(1000);
    seeds.push(("bad-cl-cut", seed(&[0, 0], &cut)));
    let code = crate::nv::object("add-a630-ir3.bin");
    // Three buffers; no stack, no memory; registers; where the numbers of group and item are; four constant registers.
    let says = [
        0, 0, 0, 3, 200, 200, 200, 0, 0, 0, 7, 1, 0xc0, 0, 4, 0, 0, 0, 0,
    ];
    seeds.push(("ok-ir3-add", seed(&[1, 1], &seed(&says, &code))));
    seeds.push(("bad-ir3-cut", seed(&[1, 1], &seed(&says, &code[..7]))));
    seeds
}

/// Seeds of [`qcom_decode`]: words of the golden data, and words that are no packets.
pub(crate) fn words_as_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let bytes = |words: &[u32]| {
        words
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect::<Vec<_>>()
    };
    let mut seeds = Vec::new();
    for (name, file) in [
        ("ok-a630", "qcom-a630"),
        ("ok-a650", "qcom-a650"),
        ("ok-a660", "qcom-a660"),
    ] {
        let mut words = Vec::new();
        for case in hcq_golden::cases(file) {
            let more = hcq_golden::words(&case["expected_words"]);
            if words.len() + more.len() <= 300 {
                words.extend(more);
            }
        }
        seeds.push((name, seed(&[0], &bytes(&words))));
    }
    // Events of A7xx: caches, a number, the counter, registers, samples. Then one whose words A6xx has as well.
    let events = [
        0x7046_0001,
        0x33,
        0x7046_0004,
        0x0800_0004,
        0x40,
        5,
        9,
        0x7046_8003,
        0x0830_0016,
        0x48,
        5,
        0x7046_8005,
        0x0840_0004,
        0x40,
        5,
        0x980,
        2,
        0x7046_8003,
        0x7015,
        0x40,
        5,
    ];
    seeds.push(("ok-a7xx-events", seed(&[1], &bytes(&events))));
    seeds.push(("bad-a7xx-on-a6xx", seed(&[0], &bytes(&events))));
    let event = [0x7046_0001, 0x31];
    seeds.push(("ok-a7xx-event", seed(&[1], &bytes(&event))));
    seeds.push(("bad-parity", seed(&[0], &bytes(&[0x7033_0004, 1, 2, 3, 4]))));
    seeds.push(("ok-a6xx-event", seed(&[0], &bytes(&event))));
    seeds.push((
        "bad-opcode",
        seed(&[1], &bytes(&[0x70ff_8000, 0x4000_0000])),
    ));
    seeds
}
