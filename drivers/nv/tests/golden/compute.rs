//! Compute queues: golden words, launch descriptors and constant banks.

use hcq_nostd::args::{Arg, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _, SignalAt, WriteWidth};
use hcq_nostd::record::{Block, RecordError, Recorder};
use hcq_nostd::value::Value;
use hcq_nv::chips::{Chip, Generation};
use hcq_nv::compute::{NvCompute, Program, Qmds};
use hcq_nv::copy::NvCopy;
use hcq_nv::cubin::Cubin;
use hcq_nv::device::Device;
use hcq_nv::kernel::{Kernel, NakShader};
use hcq_nv::local_memory::{LocalMemory, Need};
use hcq_nv::packet::Packet;
use hcq_nv::qmd::Fields;
use hcq_nv::setup::Setup;

use super::Known;
use super::Recording;
use super::json::{Json, Operands, Vars, list, name, number, number32, signed};
use super::lab::{self, Encoder, Image, Space};
use super::{objects, submits};

pub(crate) fn chip(arch: &Json) -> &'static Chip {
    let name = match arch.as_str() {
        Some("ampere") => "ga10x",
        Some("ada") => "ad10x",
        Some("blackwell") => "gb20x",
        other => panic!("no chip {other:?}"),
    };
    Chip::named(name).expect("a chip")
}

pub(crate) fn device(case: &Json) -> Device {
    let d = &case["inputs"]["device"];
    let device = Device::new(chip(&d["arch"]));
    assert_eq!(
        u32::from(device.sass_version()),
        number32(&d["sass_version"])
    );
    let classes = device.chip().classes;
    assert_eq!(u32::from(classes.compute), number32(&d["compute_class"]));
    assert_eq!(u32::from(classes.copy), number32(&d["copy_class"]));
    assert_eq!(
        u32::from(device.chip().qmd.major),
        number32(&d["qmd_version"])
    );
    device
}

/// Local memory enough for every golden kernel.
pub(crate) fn local_memory(chip: &Chip) -> LocalMemory {
    let need = Need {
        bytes: 0,
        tpc_bytes: 0x8000,
        thread_bytes: 1 << 20,
    };
    LocalMemory::new(chip, 0x1_0000_0000, &need).expect("memory")
}

pub(crate) fn setup(chip: &Chip, op: &Json) -> Setup {
    let given = |name: &str| op[name].as_str().map(|_| number(&op[name]));
    let class = |name: &str| given(name).map(|v| u16::try_from(v).expect("a class"));
    Setup {
        compute_class: class("compute_class"),
        copy_class: class("copy_class"),
        local_window: given("local_mem_window"),
        shared_window: given("shared_mem_window"),
        local_memory: given("local_mem").map(|address| {
            let need = Need {
                bytes: 0,
                tpc_bytes: given("local_mem_tpc_bytes").expect("a size"),
                thread_bytes: 0,
            };
            LocalMemory::new(chip, address, &need).expect("memory")
        }),
    }
}

impl<'m> Recording<'m> for NvCompute<'m, '_> {
    fn list(&mut self) -> &mut PatchList<'m> {
        self.recorder().list()
    }
}

impl<'m> Recording<'m> for NvCopy<'m> {
    fn list(&mut self) -> &mut PatchList<'m> {
        self.recorder().list()
    }
}

/// Words that an operation took in the reference.
fn range(op: &Json) -> std::ops::Range<usize> {
    let [start, end] = [0, 1].map(|i| number(&list(&op["words"])[i]) as usize);
    start..end
}

/// The reference's signals raise an interrupt where the host releases them, and none in a launch descriptor or from a copy
/// engine.
fn signal_at<'m, Q: Recording<'m>>(q: &mut Q, operands: &Operands<'_>, op: &Json) -> SignalAt {
    SignalAt {
        address: operands.value(q.list(), &op["signal"]["addr"]),
        notify: range(op).len() == 8,
    }
}

/// The commands that all queues have; `false` for another one.
pub(crate) fn common<'m, Q: Recording<'m>>(
    q: &mut Q,
    operands: &Operands<'_>,
    op: &Json,
) -> Result<bool, RecordError> {
    let value = |q: &mut Q, name: &str| operands.value(q.list(), &op[name]);
    match op["op"].as_str().expect("an operation") {
        "signal" => {
            let v = value(q, "value");
            let at = signal_at(q, operands, op);
            q.signal(at, v)?;
        }
        "wait" => {
            let v = value(q, "value");
            let at = signal_at(q, operands, op);
            q.wait(at, v)?;
        }
        "timestamp" => {
            let at = signal_at(q, operands, op);
            q.timestamp(at)?;
        }
        "write" => {
            let width = match op["b64"] == true {
                true => WriteWidth::W64,
                false => WriteWidth::W32,
            };
            let (address, v) = (value(q, "addr"), value(q, "value"));
            q.write(address, v, width)?;
        }
        "poll_bit" => {
            let (address, v) = (value(q, "addr"), value(q, "value"));
            q.poll_bit(address, number32(&op["mask"]), v)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

pub(crate) fn execs(case: &Json) -> impl Iterator<Item = &Json> {
    let ops = list(&case["inputs"]["ops"]).iter();
    ops.filter(|op| op["op"] == "exec")
}

fn is_nak(op: &Json) -> bool {
    op["program"]["compiler_style"] == "nak"
}

/// The descriptor follows bank 0 at the next 256 bytes.
fn qmd_address(op: &Json) -> u64 {
    number(&op["args"]["kernargs_addr"])
        + number(&op["program"]["constant_buffers"]["0"]["size"]).next_multiple_of(256)
}

/// The kernel of a golden launch, and where its arguments lie.
fn kernel(chip: &Chip, op: &Json) -> (Kernel, Vec<ArgSlot>, u32) {
    let p = &op["program"];
    if is_nak(op) {
        let shader = NakShader {
            entry: number(&p["lib_addr"]),
            code_bytes: number32(&p["code_size"]),
            registers: number32(&p["num_gprs"]),
            barriers: 1,
            shared_bytes: number32(&p["shared_bytes"]),
            local_bytes: number32(&p["local_bytes"]),
        };
        // Nobody says where a NAK kernel's arguments are: one after the other.
        let mut slots: Vec<_> = list(&op["args"]["buffer_addrs"])
            .iter()
            .zip((0..).step_by(8))
            .map(|(_, at)| ArgSlot::buffer(at))
            .collect();
        let mut end = slots.len() as u32 * 8;
        for scalar in list(&p["scalar_types"]) {
            let bits: u32 = scalar.as_str().expect("a type")[1..].parse().expect("bits");
            end = end.next_multiple_of(bits / 8);
            slots.push(ArgSlot::scalar(end, bits / 8));
            end += bits / 8;
        }
        return (shader.kernel(), slots, end);
    }
    let file = objects::file(p["object"].as_str().expect("a name"));
    let cubin = Cubin::parse(&file).expect("a cubin").with_everything();
    cubin.check(chip).expect("for this chip");
    let found = cubin
        .kernel(p["kernel"].as_str().expect("a name"))
        .expect("a kernel");
    let mut slots = vec![ArgSlot::buffer(0); 16];
    let layout = found.layout(&mut slots).expect("a layout");
    let (len, size) = (layout.slots.len(), layout.size);
    slots.truncate(len);
    let kernel = found.kernel(chip, number(&p["lib_addr"])).expect("numbers");
    (kernel, slots, size)
}

/// The arguments of a launch: buffers first, then numbers of the given types.
fn arguments(
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
    let rest = &slots[buffers.len()..];
    let types = list(&op["program"]["scalar_types"]);
    for ((slot, json), kind) in rest.iter().zip(list(&op["args"]["values"])).zip(types) {
        let value = match (kind.as_str(), operands.value(patches, json)) {
            (Some("f32"), Value::Imm(_)) => u64::from((signed(json) as f32).to_bits()).into(),
            (Some("f64"), Value::Imm(_)) => (signed(json) as f64).to_bits().into(),
            // A negative number in the bits of its type.
            (_, Value::Imm(v)) => (v & u64::MAX >> (64 - 8 * slot.size)).into(),
            (_, v) => v,
        };
        args.push(Arg::Scalar {
            value,
            size: slot.size as u8,
        });
    }
    assert_eq!(
        args.len(),
        slots.len(),
        "arguments of the file and the case"
    );
    args
}

struct ComputeQueues;

/// Room for descriptors: from the first launch's on, at the distance of the second's.
struct Descriptors {
    base: u64,
    stride: usize,
    memory: Vec<u64>,
}

impl Descriptors {
    fn new(case: &Json, qmd_bytes: usize) -> Self {
        let at: Vec<_> = execs(case).map(qmd_address).collect();
        let base = at.first().copied().unwrap_or(0x1000);
        let stride = at.get(1).map_or(0, |second| (second - base) as usize);
        for (n, at) in at.iter().enumerate() {
            assert_eq!(*at, base + (n * stride) as u64, "evenly apart");
        }
        let bytes = at.len().saturating_sub(1) * stride + qmd_bytes;
        Self {
            base,
            stride,
            memory: vec![u64::from_ne_bytes([lab::FILLER; 8]); bytes / 8],
        }
    }
}

impl Encoder for ComputeQueues {
    fn spaces(&self, case: &Json) -> Vec<Space> {
        let bytes = device(case).chip().qmd.bytes();
        execs(case)
            .flat_map(|op| {
                let addr = number(&op["args"]["kernargs_addr"]);
                let qmd = qmd_address(op);
                [
                    Space {
                        addr,
                        bytes: (qmd - addr) as usize,
                    },
                    Space { addr: qmd, bytes },
                ]
            })
            .collect()
    }

    fn record<'m>(
        &self,
        case: &Json,
        operands: Operands<'_>,
        words: &'m mut [u32],
        patches: PatchList<'m>,
        memory: &mut [Region<'_>],
    ) -> Result<(usize, PatchList<'m>), RecordError> {
        let device = device(case);
        let chip = device.chip();
        let mut descriptors = Descriptors::new(case, chip.qmd.bytes());
        let (base, stride) = (descriptors.base, descriptors.stride);
        let region = Region::from_words(&mut descriptors.memory, base);
        let qmds = Qmds::new(region, RegionId(2)).every(stride);
        let mut q = NvCompute::new(&device, words, qmds, patches);
        if name(case).ends_with("pm_trigger") {
            q = q.monitored();
        }
        let result = record_ops(&mut q, case, operands, memory);
        let recorder = q.finish().0;
        // What the queue wrote goes to where each case has it.
        let bytes = lab::bytes_of(&descriptors.memory);
        for (n, region) in memory.iter_mut().skip(1).step_by(2).enumerate() {
            let of_launch = &bytes[n * stride..][..chip.qmd.bytes()];
            region.write(0, of_launch).expect("as long");
        }
        result?;
        Ok(recorder.finish())
    }

    fn correct(&self, case: &Json, vars: Option<&Vars>, want: &mut Image) {
        correct_words(case, want);
        if want.memory.is_empty() {
            return;
        }
        for op in execs(case) {
            correct_launch(case, op, vars, want);
        }
    }

    fn decode_and_encode(&self, title: &str, words: &[u32]) -> Vec<u32> {
        decode_and_encode(title, words)
    }

    fn more_sites(&self, case: &Json) -> Vec<(u64, u64)> {
        let mut more = Vec::new();
        for op in execs(case).filter(|op| !is_nak(op)) {
            let words = &device(case).chip().bank_words;
            let bank = number(&op["args"]["kernargs_addr"]);
            for (first, sizes) in [(words.block, "local_size"), (words.grid, "global_size")] {
                for (n, size) in list(&op[sizes]).iter().enumerate() {
                    if size["expr"].is_string() {
                        more.push((bank + 4 * (first + n) as u64, 4));
                    }
                }
            }
        }
        more
    }
}

fn record_ops(
    q: &mut NvCompute<'_, '_>,
    case: &Json,
    operands: Operands<'_>,
    memory: &mut [Region<'_>],
) -> Result<(), RecordError> {
    let device = device(case);
    let chip = device.chip();
    let mut banks = (1..).step_by(2).zip(memory.iter_mut().step_by(2));
    for op in list(&case["inputs"]["ops"]) {
        if common(q, &operands, op)? {
            continue;
        }
        match op["op"].as_str() {
            Some("memory_barrier") => {
                q.memory_barrier()?;
            }
            Some("setup") => {
                q.setup(&setup(chip, op))?;
            }
            Some("exec") => {
                let (kernel, slots, size) = kernel(chip, op);
                let layout = hcq_nostd::args::ArgLayout {
                    slots: &slots,
                    size,
                    align: 8,
                };
                let program = Program::new(&device, &kernel, layout, &local_memory(chip));
                let program = program.unwrap_or_else(|e| panic!("{}: {e}", name(case)));
                let args = arguments(&operands, q.recorder().list(), op, &slots);
                let [groups, local] = ["global_size", "local_size"].map(|sizes| {
                    let sizes = list(&op[sizes]);
                    std::array::from_fn(|d| operands.value(q.recorder().list(), &sizes[d]))
                });
                let (id, region) = banks.next().expect("one per launch");
                let size = program.kernargs_size();
                let kernargs = Block::new(region, RegionId(id), 0, size).expect("inside");
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
    Ok(())
}

/// A launch waits until the engine is idle when something other than a signal is between it and the launch before, and so
/// does a barrier behind a launch. The reference's words do not.
fn correct_words(case: &Json, want: &mut Image) {
    const WFI: [u32; 2] = [0x2001_001e, 0];
    #[derive(PartialEq)]
    enum Engine {
        Idle,
        Active,
        Busy,
    }
    let mut engine = Engine::Idle;
    let mut more = 0;
    for op in list(&case["inputs"]["ops"]) {
        let words = range(op);
        let (waits, after) = match op["op"].as_str().expect("an operation") {
            "exec" => (engine == Engine::Busy, Engine::Active),
            "memory_barrier" => (engine != Engine::Idle, Engine::Idle),
            // Folded into the descriptor.
            "signal" | "timestamp" if words.is_empty() => continue,
            "signal" | "timestamp" | "write" => (false, Engine::Idle),
            _ if engine == Engine::Idle => continue,
            _ => (false, Engine::Busy),
        };
        if waits {
            let at = words.start + more;
            want.words.splice(at..at, WFI);
            more += WFI.len();
            Known::Overlap.seen();
        }
        engine = after;
    }
}

/// Where launch descriptors are put right, in bytes and bits of the vendor's headers and not of the driver.
struct Places {
    /// The word of CONSTANT_BUFFER_SIZE_SHIFTED4 of bank 0, from bit 19 on; banks are 8 bytes apart.
    bank_0_size: u64,
    /// The word, the enable bit and the PAYLOAD64B bit of both releases.
    releases: [(u64, u32, u32); 2],
    /// Words of bank 0 with the sizes of group and grid.
    sizes: [u64; 2],
}

const PLACES_3_0: Places = Places {
    bank_0_size: 1056 / 8,
    releases: [(100, 1 << 23, 1 << 29), (116, 1 << 23, 1 << 29)],
    sizes: [0, 0xc],
};

const PLACES_5_0: Places = Places {
    bank_0_size: 1376 / 8,
    releases: [(36, 1, 1 << 12), (36, 1 << 16, 1 << 28)],
    sizes: [0x360, 0x370],
};

fn places(chip: &Chip) -> &'static Places {
    match chip.generation {
        Generation::Blackwell => &PLACES_5_0,
        _ => &PLACES_3_0,
    }
}

/// Sizes of constant banks are in bytes where the field counts 16 of them. Of a launch descriptor at `qmd`.
pub(crate) fn correct_banks(chip: &Chip, qmd: u64, banks: &Json, want: &mut Image) {
    for (bank, bytes) in banks.as_object().expect("banks") {
        let bank: u64 = bank.parse().expect("a number");
        let at = qmd + places(chip).bank_0_size + 8 * bank;
        let bytes = number32(&bytes["size"]);
        let word = want.u32(at);
        assert_eq!(word >> 19 << 19, bytes << 19, "a known fault");
        want.set_u32(at, word & 0x7_ffff | bytes.div_ceil(16) << 19);
        Known::BankSize.seen();
    }
}

/// `.nv.shared` sections of sm_120 count what the system reserves, which the reference adds once more.
pub(crate) fn correct_shared(chip: &Chip, qmd: u64, object: &Json, want: &mut Image) {
    const SHARED_5_0: u64 = 1152 / 8;
    if object == "reduce-sm_120.cubin" {
        assert_eq!(chip.generation, Generation::Blackwell);
        let word = want.u32(qmd + SHARED_5_0);
        assert_eq!(word & 0x7ff, 0xc00 >> 7, "a known fault");
        want.set_u32(qmd + SHARED_5_0, word & !0x7ff | 0x800 >> 7);
        Known::SharedTwice.seen();
    }
}

fn correct_launch(case: &Json, op: &Json, vars: Option<&Vars>, want: &mut Image) {
    let chip = device(case).chip();
    let (qmd, p) = (qmd_address(op), &op["program"]);
    correct_banks(chip, qmd, &p["constant_buffers"], want);
    correct_shared(chip, qmd, &p["object"], want);
    // Releases have 64-bit payloads but do not say so.
    for (at, enable, payload64) in places(chip).releases {
        let word = want.u32(qmd + at);
        if word & enable != 0 {
            assert_eq!(word & payload64, 0, "a known fault");
            want.set_u32(qmd + at, word | payload64);
            Known::Payload64.seen();
        }
    }
    if is_nak(op) {
        return;
    }
    let bank = number(&op["args"]["kernargs_addr"]);
    for (first, sizes) in places(chip).sizes.iter().zip(["local_size", "global_size"]) {
        for (n, size) in (0..).zip(list(&op[sizes])) {
            let value = match (size["expr"].as_str(), vars) {
                (Some(e), Some(vars)) => super::json::evaluate(e, vars) as u32,
                (Some(_), None) => continue,
                (None, _) => number32(size),
            };
            let at = bank + first + 4 * n;
            assert_eq!(want.u32(at), 0, "a known fault");
            want.set_u32(at, value);
            Known::BankSizes.seen();
        }
    }
}

/// From words to packets, and back.
pub(crate) fn decode_and_encode(title: &str, words: &[u32]) -> Vec<u32> {
    let mut out = vec![0; words.len()];
    let mut recorder = Recorder::new(&mut out, PatchList::none());
    let mut at = 0;
    while at < words.len() {
        let (packet, len) =
            Packet::decode(&words[at..]).unwrap_or_else(|e| panic!("{title}: word {at}: {e}"));
        assert!(!matches!(packet, Packet::Other(_)), "{title}: {packet}");
        recorder
            .command(|c| packet.record(c))
            .unwrap_or_else(|e| panic!("{title}: {packet}: {e}"));
        at += len;
    }
    recorder.words().to_vec()
}

/// From a descriptor's words to fields, and back: every bit that is set has a name.
pub(crate) fn fields_and_back(title: &str, chip: &Chip, words: &[u32]) {
    let fields = Fields::new(chip.qmd, words).expect("long enough");
    assert_eq!(
        fields.unnamed().next(),
        None,
        "{title}: bits without a name"
    );
    let mut again = vec![0u32; words.len()];
    for field in fields.set() {
        again[field.low() / 32] |= field.value << (field.low() % 32);
    }
    assert_eq!(again, words, "{title}: descriptor");
}

/// One case of a compute file.
pub(crate) fn run(case: &Json) {
    let encoder: &dyn Fn(&Json) -> Option<Vec<u32>> = match name(case) {
        n if n.contains("copy_queue") => &|case| lab::case(&super::copy::CopyQueues, case),
        _ => &|case| lab::case(&ComputeQueues, case),
    };
    for op in execs(case) {
        let qmd = qmd_address(op);
        let runs = list(&case["expected_memory"]).iter();
        for run in runs.filter(|run| {
            lab::is_kernargs(run["region"].as_str().expect("a region"))
                && number(&run["addr"]) == qmd
        }) {
            let bytes = super::json::bytes(&run["bytes"]);
            let words: Vec<_> = bytes
                .as_chunks::<4>()
                .0
                .iter()
                .copied()
                .map(u32::from_le_bytes)
                .collect();
            fields_and_back(name(case), device(case).chip(), &words);
        }
    }
    if let Some(words) = encoder(case).filter(|_| case["inputs"]["gpfifo"].is_object()) {
        submits::run(case, &words);
    }
}
