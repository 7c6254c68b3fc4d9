//! Queues, and their submission.

use hcq_nostd::args::{Arg, ArgKind, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _, Queue, SignalAt};
use hcq_nostd::record::{Block, Operand, RecordError, Recorder};
use hcq_nostd::value::{Misfit, Value};
use hcq_qcom::chips::{Chip, Generation};
use hcq_qcom::device::{Device, PrivateMemory, PrivateNeed};
use hcq_qcom::image::{Format, Image, Sampler};
use hcq_qcom::kernel::{Arguments, Constant, Given, ImageSlot, Kernel, Param, Style};
use hcq_qcom::pm4::submit::CommandObject;
use hcq_qcom::pm4::{AdrenoCompute, Packet, Program};

use super::Known;
use super::Recording;
use super::json::{self, Json, Operands, Vars, list, number, number32, signed};
use super::lab::{self, Encoder, FILLER, Space};

pub(crate) struct Adreno;

impl<'m> Recording<'m> for AdrenoCompute<'m> {
    fn list(&mut self) -> &mut PatchList<'m> {
        self.recorder().list()
    }
}

pub(crate) fn device(case: &Json) -> Device {
    let d = &case["inputs"]["device"];
    let name = d["chip"].as_str().expect("a name");
    let chip = Chip::named(name).unwrap_or_else(|| panic!("no chip {name}"));
    let id = d["gpu_id"].as_str().expect("an id");
    assert_eq!(chip.id.map(|n| n.to_string()).join("."), id);
    Device::new(
        chip,
        number(&d["dummy_addr"]),
        number(&d["border_color_addr"]),
    )
    .expect("a device")
}

/// A number of the program, narrow enough for its register.
fn byte(j: &Json) -> u8 {
    u8::try_from(number32(j)).expect("a byte")
}

pub(crate) fn kernel(op: &Json) -> Kernel {
    let p = &op["program"];
    let style = match p["style"].as_str() {
        Some("cl") => Style::OpenCl,
        Some("nir") => Style::Ir3 {
            group_id: byte(&p["work_group_id_reg"]),
            group_count: 0xfc,
            group_size: byte(&p["wg_size_const"]),
            local_id: byte(&p["local_id_reg"]),
        },
        other => panic!("no style {other:?}"),
    };
    Kernel {
        style,
        code: number(&p["code_addr"]),
        code_bytes: number32(&p["image_size"]),
        first_instruction: number32(&p["prg_offset"]),
        full_registers: byte(&p["full_regs"]),
        half_registers: byte(&p["half_regs"]),
        merged_registers: false,
        double_waves: false,
        branch_stack: byte(&p["branch_stack"]),
        private_bytes: number32(&p["private_mem"]),
        shared_bytes: number32(&p["shared_mem"]),
    }
}

pub(crate) fn constants(program: &Json) -> Vec<Constant> {
    let constant = |c: &Json| Constant {
        value: number32(&c["value"]),
        offset: number32(&c["offset"]),
        bytes: byte(&c["size"]),
    };
    list(&program["constants"]).iter().map(constant).collect()
}

fn samplers(program: &Json) -> Vec<Sampler> {
    json::words(&program["samplers"])
        .as_chunks::<4>()
        .0
        .iter()
        .map(|w| Sampler::from_words(*w))
        .collect()
}

fn image(slot: &Json) -> Image {
    let shape = list(&slot["image_shape"]);
    let side = |i: usize| u32::try_from(shape[i].as_u64().expect("a size")).expect("a side");
    assert_eq!(side(2), 4, "components");
    let format = match slot["type"].as_str() {
        Some("f32") => Format::Rgba32Float,
        Some("f16") => Format::Rgba16Float,
        other => panic!("no format {other:?}"),
    };
    Image::new(format, side(1), side(0)).expect("an image")
}

fn scalar_bytes(name: &str) -> u8 {
    let bits: u8 = name[1..].parse().expect("a width");
    bits / 8
}

/// What the signature says. Storage images come before textures in it.
pub(crate) fn params(op: &Json) -> Vec<Param> {
    let p = &op["program"];
    let buffers = list(&op["args"]["buffer_addrs"]).len();
    let mut storage = number(&p["ibo_count"]);
    let mut params = Vec::new();
    for (i, slot) in list(&p["signature"]).iter().enumerate() {
        let is_image = slot["image_shape"].is_array();
        params.push(match (is_image, i < buffers) {
            (true, _) if storage > 0 => {
                storage -= 1;
                Param::Storage(Some(image(slot)))
            }
            (true, _) => Param::Texture(Some(image(slot))),
            (false, true) => Param::Buffer,
            (false, false) => Param::Scalar(scalar_bytes(slot["type"].as_str().expect("a type"))),
        });
    }
    params
}

/// Where buffers and numbers are: where the container says, or one after the other.
fn offsets(op: &Json, params: &[Param]) -> Vec<u32> {
    let p = &op["program"];
    let mut given = list(&p["buffer_offsets"]).iter().map(number32);
    let mut end = p["buffer_offset"]
        .as_str()
        .map_or(0, |_| number32(&p["buffer_offset"]));
    let mut place = |param: &Param| {
        let bytes = match param {
            Param::Buffer => 8,
            Param::Scalar(bytes) => u32::from(*bytes),
            _ => return 0,
        };
        if p["buffer_offsets"].is_array() {
            return given.next().expect("an offset");
        }
        let at = end.next_multiple_of(bytes);
        end = at + bytes;
        at
    };
    params.iter().map(&mut place).collect()
}

/// What a program's arguments are made of, to be borrowed by it.
struct Parts {
    params: Vec<(Param, u32)>,
    constants: Vec<Constant>,
    samplers: Vec<Sampler>,
    map: Option<Vec<u8>>,
    slots: Vec<ArgSlot>,
    images: Vec<ImageSlot>,
}

impl Parts {
    fn new(op: &Json) -> Self {
        let p = &op["program"];
        let params = params(op);
        let offsets = offsets(op, &params);
        let slots = vec![ArgSlot::buffer(0); params.len()];
        let map = p["tex_to_image"].as_array().map(|map| {
            let number = |j: &Json| j.as_u64().expect("a number") as u8;
            map.iter().map(number).collect::<Vec<_>>()
        });
        Self {
            params: params.into_iter().zip(offsets).collect(),
            constants: constants(p),
            samplers: samplers(p),
            map,
            slots,
            images: vec![ImageSlot::EMPTY; 64],
        }
    }

    fn arguments(&mut self) -> Arguments<'_> {
        let given = Given {
            storage_first: self.map.is_none(),
            texture_map: self.map.as_deref(),
            constants: &self.constants,
            samplers: &self.samplers,
        };
        let params = self.params.iter().copied();
        Arguments::new(params, given, &mut self.slots, &mut self.images).expect("arguments")
    }
}

/// Memory that is enough for the program.
pub(crate) fn private(device: &Device, op: &Json) -> PrivateMemory {
    let need = PrivateNeed::new(device.chip(), number32(&op["program"]["private_mem"]))
        .expect("private memory");
    let address = number(&op["program"]["derived"]["stack_addr"]);
    PrivateMemory::new(address, need.bytes).expect("memory")
}

/// The arguments of an `exec`, in order.
pub(crate) fn arguments(
    operands: &Operands<'_>,
    patches: &mut PatchList<'_>,
    op: &Json,
    slots: &[ArgSlot],
) -> Vec<Arg<'static>> {
    let buffers = list(&op["args"]["buffer_addrs"]);
    let mut args: Vec<_> = buffers
        .iter()
        .map(|b| Arg::Buffer(operands.value(patches, b)))
        .collect();
    let types = list(&op["program"]["signature"])[buffers.len()..].iter();
    let scalars = slots.iter().filter(|s| s.kind == ArgKind::Scalar);
    let values = list(&op["args"]["values"]).iter().zip(types);
    for (slot, (json, slot_type)) in scalars.zip(values) {
        let name = slot_type["type"].as_str().expect("a type");
        let value = match (name, operands.value(patches, json)) {
            ("f32", Value::Imm(_)) => u64::from((signed(json) as f32).to_bits()).into(),
            ("f64", Value::Imm(_)) => (signed(json) as f64).to_bits().into(),
            // A negative number in the bits of its type.
            (_, Value::Imm(v)) => (v & u64::MAX >> (64 - 8 * slot.size)).into(),
            (_, v) => v,
        };
        let size = slot.size as u8;
        args.push(Arg::Scalar { value, size });
    }
    args
}

/// Work-groups and work-items of an `exec`. A fraction of a group is none: the reference rounds it up, but counts its items.
fn sizes(operands: &Operands<'_>, patches: &mut PatchList<'_>, op: &Json) -> [[Value; 3]; 2] {
    ["global_size", "local_size"].map(|n| {
        std::array::from_fn(|d| {
            let size = &list(&op[n])[d];
            match size["float"].as_str() {
                Some(fraction) => {
                    let groups: f64 = fraction.parse().expect("a fraction");
                    (groups.ceil() as u64).into()
                }
                None => operands.value(patches, size),
            }
        })
    })
}

fn exec(
    q: &mut AdrenoCompute<'_>,
    device: &Device,
    operands: &Operands<'_>,
    op: &Json,
    (region, memory): (RegionId, &mut Region<'_>),
) -> Result<(), RecordError> {
    let mut parts = Parts::new(op);
    let layout = parts.arguments();
    let derived = &op["program"]["derived"];
    let program = Program::new(device, &kernel(op), &layout, &private(device, op))
        .unwrap_or_else(|e| panic!("{e}"));
    let golden = number32(&derived["max_threads"]);
    // The reference counts A630's registers for all chips.
    if device.chip().number == 630 {
        assert_eq!(program.max_group(), golden);
    } else {
        assert!(program.max_group() <= golden);
    }
    let args = arguments(operands, q.list(), op, layout.layout().slots);
    let [groups, local] = sizes(operands, q.list(), op);
    q.exec(Launch {
        program: &program,
        args: &args,
        kernargs: Block::new(memory, region, 0, program.kernargs_size()).expect("inside"),
        groups,
        local,
        local_memory: 0,
    })?;
    Ok(())
}

impl Encoder for Adreno {
    fn spaces(&self, case: &Json) -> Vec<Space> {
        let execs = list(&case["inputs"]["ops"])
            .iter()
            .filter(|op| op["op"] == "exec");
        let space = |op: &Json| Space {
            addr: number(&op["args"]["kernargs_addr"]),
            bytes: Parts::new(op).arguments().bytes() as usize,
        };
        execs.map(space).collect()
    }

    fn record<'m>(
        &self,
        case: &Json,
        operands: Operands<'_>,
        words: &'m mut [u32],
        list: PatchList<'m>,
        memory: &mut [Region<'_>],
    ) -> Result<(usize, PatchList<'m>), RecordError> {
        let device = device(case);
        let mut q = AdrenoCompute::new(&device, words, list);
        let mut kernargs = (1..).zip(memory);
        for op in json::list(&case["inputs"]["ops"]) {
            let signal = SignalAt::from(match op["signal"].is_object() {
                true => operands.value(q.list(), &op["signal"]["addr"]),
                false => 0u64.into(),
            });
            let value = match op["value"].is_null() {
                true => 0u64.into(),
                false => operands.value(q.list(), &op["value"]),
            };
            match op["op"].as_str().expect("an operation") {
                "signal" => q.signal(signal, value).map(drop)?,
                "wait" => q.wait(signal, value).map(drop)?,
                "timestamp" => q.timestamp(signal).map(drop)?,
                "memory_barrier" => q.memory_barrier().map(drop)?,
                "exec" => {
                    let (id, memory) = kernargs.next().expect("one per exec");
                    exec(&mut q, &device, &operands, op, (RegionId(id), memory))?;
                }
                other => panic!("no operation {other}"),
            }
        }
        Ok(q.finish().finish())
    }

    /// The reference clears argument blocks; the driver leaves what nobody reads as it was.
    fn filler(&self) -> u8 {
        0
    }

    fn correct(&self, case: &Json, _: Option<&Vars>, want: &mut lab::Image) {
        let device = device(case);
        for op in list(&case["inputs"]["ops"])
            .iter()
            .filter(|op| op["op"] == "exec")
        {
            let range: Vec<usize> = list(&op["words"])
                .iter()
                .map(|n| number(n) as usize)
                .collect();
            correct_exec(&device, op, &mut want.words[range[0]..range[1]]);
        }
    }

    fn decode_and_encode(&self, title: &str, words: &[u32]) -> Vec<u32> {
        decode_and_encode(title, words)
    }
}

/// Puts right what the words of one `exec` get wrong.
fn correct_exec(device: &Device, op: &Json, words: &mut [u32]) {
    // Register runs by header, and what the reference writes there.
    const CONTROL_2_TO_6: u32 = 0x48b9_8385;
    const ENABLED: u32 = 0x100;
    const HW_STACK_OFFSET: u32 = 0x48a9_bd01;
    const CTRL_REG0: u32 = 0x40a9_b08a;
    const LOAD_STATE: u32 = 0x7034_8003;
    const SIXTEEN_TEXTURES: u32 = 0x0416_4000;
    const NDRANGE: u32 = 0x40b9_908c;
    const CS_CNTL_0: u32 = 0x48b9_9702;
    let (p, derived) = (&op["program"], &op["program"]["derived"]);
    let need = PrivateNeed::new(device.chip(), number32(&p["private_mem"])).expect("a need");
    for at in 0..words.len() {
        match words[at] {
            CONTROL_2_TO_6 => {
                assert_eq!(words[at + 5], ENABLED, "a known fault");
                words[at + 5] = ENABLED | 64;
                Known::ConstantLength.seen();
            }
            HW_STACK_OFFSET => {
                let bytes = number32(&derived["hw_stack_offset"]);
                assert_eq!(words[at + 1], bytes, "a known fault");
                if device.chip().fibers_per_core == 2048 {
                    assert_eq!(need.stack_offset, u64::from(bytes));
                }
                words[at + 1] = (need.stack_offset / 2048) as u32;
                Known::StackOffset.seen();
            }
            CTRL_REG0 => {
                let total = number32(&derived["private_mem_total"]);
                assert_eq!(words[at + 10], total);
                let right = (need.core_bytes / 4096) as u32;
                if right != total {
                    assert_eq!(device.chip().fibers_per_core, 2 * 2048, "a known fault");
                    assert_eq!(right, 2 * total);
                    words[at + 10] = right;
                    Known::Fibers.seen();
                }
            }
            LOAD_STATE if words[at + 1] == SIXTEEN_TEXTURES => {
                let textures = number32(&p["texture_count"]);
                if textures > 16 {
                    words[at + 1] += (textures - 16) << 22;
                    Known::Textures.seen();
                }
            }
            CS_CNTL_0 => {
                let constant = number32(&p["wg_size_const"]);
                assert_eq!(words[at + 1] >> 8 & 0xff, constant);
                if constant != 0xfc {
                    words[at + 1] |= 0xff00;
                    words[at + 1] &= !0x0300;
                    Known::SizeRegister.seen();
                }
            }
            NDRANGE if list(&op["global_size"])[0]["float"].is_string() => {
                // 2.5 groups of 128: 320 items of 3 groups.
                assert_eq!((words[at + 2], words[at + 10]), (320, 3), "a known fault");
                words[at + 2] = 384;
                Known::Fraction.seen();
            }
            _ => {}
        }
    }
}

/// From words to packets and back.
pub(crate) fn decode_and_encode(title: &str, words: &[u32]) -> Vec<u32> {
    let mut again = vec![u32::from_ne_bytes([FILLER; 4]); words.len()];
    let mut recorder = Recorder::new(&mut again, PatchList::none());
    let mut rest = words;
    while !rest.is_empty() {
        let (packet, len) = Packet::decode(rest, Generation::A6xx)
            .unwrap_or_else(|e| panic!("{title}: {e}: {rest:#010x?}"));
        recorder
            .command(|c| packet.record(c))
            .unwrap_or_else(|e| panic!("{title}: {e}"));
        rest = &rest[len..];
    }
    let (len, _) = recorder.finish();
    again.truncate(len);
    again
}

/// The engine has 32 bits of a signal; the reference keeps the low ones of a larger value.
fn refused(case: &Json) {
    let (none, mut words) = (Vars::new(), [0; 16]);
    let list = PatchList::none();
    let recorded = Adreno.record(case, Operands::Fixed(&none), &mut words, list, &mut []);
    let value = number(&json::list(&case["inputs"]["ops"])[0]["value"]);
    let misfit = Misfit::TooLarge { value, bits: 32 };
    let operand = Operand::Data;
    assert_eq!(
        recorded.err(),
        Some(RecordError::Misfit { operand, misfit })
    );
    Known::HighValue.seen();
}

/// What the kernel driver is told: by reference, one command object.
fn submits(case: &Json, words: &[u32]) {
    let (name, buffer) = (json::name(case), &case["inputs"]["command_buffer"]);
    let expected: Vec<Vec<u8>> = list(&case["expected_submits"])
        .iter()
        .map(|s| json::bytes(&s["command_object_bytes"]))
        .collect();
    assert_eq!(
        expected.len() as u64,
        number(&case["inputs"]["submits"]),
        "{name}"
    );
    let (base, size) = (number(&buffer["addr"]), number(&buffer["bytes"]));
    let mut at = buffer["alloc_ptr"]
        .as_str()
        .map_or(0, |_| number(&buffer["alloc_ptr"]));
    for bytes in expected {
        let word = |at: usize| {
            let bytes = bytes[at..at + 8].try_into().expect("eight bytes");
            u64::from_le_bytes(bytes)
        };
        let length = words.len() as u64 * 4;
        if case["inputs"]["bound"] != true {
            // Words that are not bound are copied to where the command buffer has room.
            if at + length > size {
                at = 0;
            }
        }
        let address = word(8);
        if case["inputs"]["bound"] != true {
            assert_eq!(address, base + at, "{name}");
            at += length;
        }
        let object = CommandObject::new(address, words.len()).expect("an object");
        assert_eq!(
            (object.address(), object.bytes()),
            (word(8), word(16)),
            "{name}"
        );
        // No offset, KGSL_CMDLIST_IB, no object id.
        assert_eq!((word(0), word(24)), (0, 1), "{name}");
    }
}

pub(crate) fn run(case: &Json) {
    if json::name(case).ends_with("_high")
        && number(&list(&case["inputs"]["ops"])[0]["value"]) >> 32 != 0
    {
        let words = json::words(&case["expected_words"]);
        let title = json::name(case);
        lab::compare_words(title, &decode_and_encode(title, &words), &words);
        refused(case);
        return;
    }
    let words = lab::case(&Adreno, case);
    if let Some(words) = words.filter(|_| case["expected_submits"].is_array()) {
        submits(case, &words);
    }
}
