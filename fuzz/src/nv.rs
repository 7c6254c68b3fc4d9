//! What NVIDIA's driver reads: cubins, methods, and launch descriptors.

use hcq_nostd::args::{Arg, ArgKind, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _, Queue, SignalAt};
use hcq_nostd::record::{Block, Recorder};
use hcq_nostd::value::Value;
use hcq_nv::chips::{CHIPS, Chip};
use hcq_nv::compute::{NvCompute, Program, Qmds};
use hcq_nv::cubin::{Cubin, CubinKernel, LoadError};
use hcq_nv::device::Device;
use hcq_nv::dump::Dump;
use hcq_nv::local_memory::{LocalMemory, Need, Topology};
use hcq_nv::method::Run;
use hcq_nv::packet::Packet;
use hcq_nv::qmd::{Fields, Layout, V3_0, V4_0, V5_0};
use hcq_nv::setup::Setup;

/// Images larger than this are not loaded.
const MAX_IMAGE: u64 = 1 << 20;
const BASE: u64 = 0x7f00_0000_0000;

/// A cubin: its image is loaded, every kernel's numbers read, its arguments laid out, and the kernel prepared and launched
/// on a chip that runs it. Accepted are files with a kernel that goes all the way.
pub fn nv_cubin(data: &[u8]) -> bool {
    let cubin = match Cubin::parse(data) {
        Ok(cubin) => cubin,
        Err(e) => return refused(&e),
    };
    let _ = (cubin.abi(), cubin.sm());
    load(&cubin);
    let all = Cubin::parse(data).expect("it was one before");
    load(&all.with_everything());
    let Some(chip) = CHIPS.iter().find(|chip| cubin.check(chip).is_ok()) else {
        return false;
    };
    let mut accepted = false;
    // Symbols are as many as the file says; a hundred show what there is to see.
    for kernel in cubin.kernels().take(100) {
        accepted |= kernel
            .and_then(|kernel| launch(&cubin, chip, &kernel))
            .unwrap_or_else(|e| refused(&e));
    }
    accepted
}

fn refused(error: &LoadError) -> bool {
    assert!(!error.to_string().is_empty());
    false
}

fn load(cubin: &Cubin<'_>) {
    let size = match cubin.image() {
        Ok(size) if size.bytes <= MAX_IMAGE => size,
        Ok(_) => return,
        Err(e) => {
            refused(&e);
            return;
        }
    };
    assert!(size.align.is_power_of_two());
    let mut memory = vec![0u64; (size.bytes as usize).div_ceil(8) + 1];
    if let Err(e) = cubin.load(&mut Region::from_words(&mut memory, BASE)) {
        refused(&e);
    }
    // Without room it is refused.
    let mut small = vec![0u64; (size.bytes as usize).saturating_sub(1) / 8];
    let mut small = Region::from_words(&mut small, BASE);
    if size.bytes > small.len() as u64 {
        let loaded = cubin.load(&mut small);
        assert!(loaded.is_err(), "loaded into less than the image's size");
    }
}

/// Memory for stacks of so many bytes.
pub(crate) fn local(chip: &Chip, bytes: u32) -> Option<LocalMemory> {
    let topology = Topology {
        gpcs: 8,
        tpcs_per_gpc: 9,
        sms_per_tpc: 2,
        warps_per_sm: 64,
    };
    let need = Need::new(&topology, bytes).ok()?;
    LocalMemory::new(chip, 0x7e00_0000_0000, &need).ok()
}

/// Whether a kernel can be launched with arguments of the right kinds.
fn launch(
    cubin: &Cubin<'_>,
    chip: &'static Chip,
    kernel: &CubinKernel<'_>,
) -> Result<bool, LoadError> {
    // Of two of one name the first one is looked up, sound or not.
    if let Ok(found) = cubin.kernel(kernel.name) {
        assert_eq!(found.name, kernel.name);
    }
    let mut slots = [ArgSlot::buffer(0); 64];
    let layout = kernel.layout(&mut slots)?;
    let loaded = kernel.kernel(chip, BASE)?;
    let bytes = [0u8; 8192];
    let args: Option<Vec<Arg<'_>>> = layout
        .slots
        .iter()
        .map(|slot| {
            let end = slot.offset.checked_add(slot.size);
            assert!(end.is_some_and(|end| end <= layout.size));
            Some(match slot.kind {
                ArgKind::Buffer | ArgKind::ConstBuffer => Arg::Buffer(0x1_0000u64.into()),
                ArgKind::Scalar => Arg::Scalar {
                    value: 7u64.into(),
                    size: u8::try_from(slot.size).ok()?,
                },
                ArgKind::Bytes => Arg::Bytes(bytes.get(..slot.size as usize)?),
                _ => return None,
            })
        })
        .collect();
    let device = Device::new(chip);
    let local = local(chip, loaded.local.bytes());
    let (Some(args), Some(local)) = (args, local) else {
        return Ok(false);
    };
    let Ok(program) = Program::new(&device, &loaded, layout, &local) else {
        return Ok(false);
    };
    let Some((words, qmd)) = record(&device, &program, &args, loaded.block) else {
        return Ok(false);
    };
    assert!(methods(&words), "{}", Dump::new(&words));
    let fields = Fields::new(chip.qmd, &qmd).expect("long enough");
    assert_eq!(fields.unnamed().next(), None, "{fields}");
    Ok(true)
}

/// What a launch of four groups and a signal behind it are: methods, and a launch descriptor.
fn record(
    device: &Device,
    program: &Program<'_>,
    args: &[Arg<'_>],
    block: Option<[u32; 3]>,
) -> Option<(Vec<u32>, Vec<u32>)> {
    if program.kernargs_size() > 1 << 17 {
        return None;
    }
    let mut memory = vec![0u64; program.kernargs_size().div_ceil(8) + 1];
    let mut kernargs = Region::from_words(&mut memory, 0x8000_0000);
    let (mut descriptors, mut words) = ([0u64; 64], [0u32; 256]);
    let qmds = Qmds::new(Region::from_words(&mut descriptors, 0x9000), RegionId(2));
    let mut queue = NvCompute::new(device, &mut words, qmds, PatchList::none());
    let launch = Launch {
        program,
        args,
        kernargs: Block::new(&mut kernargs, RegionId(1), 0, program.kernargs_size()).ok()?,
        groups: [4u64.into(), 1u64.into(), 1u64.into()],
        local: block.unwrap_or([1; 3]).map(|n| u64::from(n).into()),
        local_memory: 0,
    };
    queue
        .setup(&Setup::compute(device))
        .ok()?
        .exec(launch)
        .and_then(|q| q.signal(SIGNAL, 9u64.into()))
        .ok()?;
    let words = queue.words().to_vec();
    let halves = descriptors
        .iter()
        .flat_map(|w| [*w as u32, (w >> 32) as u32]);
    Some((words, halves.take(device.chip().qmd.words).collect()))
}

const SIGNAL: SignalAt = SignalAt {
    address: Value::Imm(0xa000),
    notify: true,
};

static LAYOUTS: [&Layout; 3] = [&V3_0, &V4_0, &V5_0];

/// A byte that says what the rest is, and little-endian words: methods, or a launch descriptor of one of three versions.
/// Accepted are methods that the driver knows all of, and descriptors without bits that have no name.
pub fn nv_decode(data: &[u8]) -> bool {
    let [kind, rest @ ..] = data else {
        return false;
    };
    let words: Vec<u32> = rest
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect();
    match usize::from(*kind % 4).checked_sub(1) {
        None => methods(&words),
        Some(version) => descriptor(LAYOUTS[version], &words),
    }
}

/// Every word is in one line of the text; what can be recorded is the words that it was decoded from.
fn methods(words: &[u32]) -> bool {
    let mut accepted = !words.is_empty();
    let (mut at, mut lines) = (0, 0);
    while at < words.len() {
        let rest = &words[at..];
        let len = match Packet::decode(rest) {
            Ok((packet, len)) => {
                let text = packet.to_string();
                assert!(!text.is_empty() && !text.contains('\n'), "{text}");
                let mut again = vec![0xa5a5_a5a5; len + 8];
                let mut recorder = Recorder::new(&mut again, PatchList::none());
                // A field may hold more bits than this driver gives it a value for.
                if recorder.command(|c| packet.record(c)).is_ok() {
                    assert_eq!(recorder.words(), &rest[..len], "{text}");
                }
                accepted &= !matches!(packet, Packet::Other(_));
                len
            }
            Err(e) => {
                assert!(!e.to_string().is_empty());
                accepted = false;
                Run::decode(rest).map_or(1, |run| run.len())
            }
        };
        assert!(len > 0 && len <= rest.len());
        at += len;
        lines += 1;
    }
    let text = Dump::new(words).to_string();
    assert_eq!(text.lines().count(), lines, "{text}");
    accepted
}

/// Every bit is in one field, or among those that have no name.
fn descriptor(layout: &'static Layout, words: &[u32]) -> bool {
    let Ok(fields) = Fields::new(layout, words) else {
        assert!(words.len() < layout.words);
        return false;
    };
    let mut again = vec![0u32; layout.words];
    for field in fields.all() {
        let (word, shift) = (field.low() / 32, field.low() % 32);
        assert_eq!(again[word] & (field.value << shift), 0, "{field}");
        again[word] |= field.value << shift;
        // To look at a name is to go through the table.
        if field.value != 0 {
            let found = fields.nth(field.row.name, field.index);
            assert_eq!(found, Some(field.value), "{field}");
        }
    }
    let mut unnamed = 0;
    for rest in fields.unnamed() {
        assert_eq!(again[rest.word] & rest.bits, 0);
        again[rest.word] |= rest.bits;
        unnamed += 1;
    }
    assert_eq!(again, words[..layout.words]);
    let text = fields.to_string();
    assert_eq!(text.matches("??").count(), unnamed, "{text}");
    unnamed == 0
}

/// A cubin of the golden data.
pub(crate) fn object(name: &str) -> Vec<u8> {
    let path = format!(
        "{}/../tests/vectors/objects/{name}",
        env!("CARGO_MANIFEST_DIR")
    );
    std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Seeds of [`nv_cubin`]: files of the compilers, of either convention, and damaged ones.
pub(crate) fn cubins_as_seeds() -> Vec<(&'static str, Vec<u8>)> {
    const FILES: [(&str, &str); 4] = [
        ("ok-vadd-sm_86.cubin", "vadd-sm_86.cubin"),
        ("ok-saxpy-sm_90.cubin", "saxpy-sm_90.cubin"),
        ("ok-reduce-sm_120.cubin", "reduce-sm_120.cubin"),
        ("ok-gtable-sm_89.cubin", "gtable-sm_89.cubin"),
    ];
    let mut seeds: Vec<_> = FILES
        .iter()
        .map(|(seed, file)| (*seed, object(file)))
        .collect();
    let mut cut = object("vadd-sm_86.cubin");
    cut.truncate(1000);
    seeds.push(("bad-cut.cubin", cut));
    let mut other = object("vadd-sm_86.cubin");
    // e_machine: x86-64.
    other[18..20].copy_from_slice(&62u16.to_le_bytes());
    seeds.push(("bad-machine.cubin", other));
    seeds
}

fn seed(kind: u8, words: &[u32]) -> Vec<u8> {
    let mut all = vec![kind];
    all.extend(words.iter().flat_map(|w| w.to_le_bytes()));
    all
}

/// Seeds of [`nv_decode`]: words of the golden data, descriptors that the driver makes, and words that mean nothing.
pub(crate) fn words_as_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let golden = |file: &str| {
        let cases = hcq_golden::cases(file);
        let words = cases
            .iter()
            .flat_map(|case| hcq_golden::words(&case["expected_words"]));
        words.take(400).collect::<Vec<_>>()
    };
    let mut seeds = Vec::new();
    for (name, file) in [
        ("ok-compute-ampere", "nv-ampere-compute"),
        ("ok-compute-blackwell", "nv-blackwell-compute"),
        ("ok-copy", "nv-copy"),
    ] {
        seeds.push((name, seed(0, &whole_runs(golden(file)))));
    }
    for (name, kind, chip, file) in [
        ("ok-qmd-3.0", 1, "ga10x", "vadd-sm_86.cubin"),
        ("ok-qmd-4.0", 2, "gh100", "vadd-sm_90.cubin"),
        ("ok-qmd-5.0", 3, "gb20x", "vadd-sm_120.cubin"),
    ] {
        let chip = Chip::named(chip).expect("a chip of the table");
        let file = object(file);
        let cubin = Cubin::parse(&file).expect("a cubin");
        let kernel = cubin.kernel("vadd").expect("its kernel");
        let loaded = kernel.kernel(chip, BASE).expect("numbers");
        let mut slots = [ArgSlot::buffer(0); 8];
        let layout = kernel.layout(&mut slots).expect("arguments");
        let device = Device::new(chip);
        let local = local(chip, loaded.local.bytes()).expect("memory");
        let program = Program::new(&device, &loaded, layout, &local).expect("a program");
        let args = [Value::Imm(0x1_0000); 3].map(Arg::Buffer);
        let (_, qmd) = record(&device, &program, &args, None).expect("recorded");
        seeds.push((name, seed(kind, &qmd)));
    }
    let unknown = [
        0xe000_0000,
        0x2005_0017,
        0x41,
        0x10,
        9,
        0,
        0x0310_0001,
        0x2005_0017,
    ];
    seeds.push(("bad-methods", seed(0, &unknown)));
    seeds.push(("bad-qmd-short", seed(2, &unknown)));
    seeds.push(("bad-qmd-bits", seed(1, &[u32::MAX; 64])));
    seeds
}

/// Without a run that is cut off at the end.
fn whole_runs(mut words: Vec<u32>) -> Vec<u32> {
    let mut at = 0;
    while let Ok(run) = Run::decode(&words[at..]) {
        at += run.len();
    }
    words.truncate(at);
    words
}
