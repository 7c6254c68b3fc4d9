//! What AMD's driver reads: the words of its queues, and code objects.

use hcq_amd::aql::{self, AqlCompute, PACKET_WORDS};
use hcq_amd::chips::{CHIPS, Chip};
use hcq_amd::code_object::{CodeObject, KernelSymbol, LoadError};
use hcq_amd::device::{Device, Event};
use hcq_amd::dump::{Dump, Stream};
use hcq_amd::hidden::HiddenSlot;
use hcq_amd::pm4::{self, Pm4Compute};
use hcq_amd::scratch::{Need, Scratch, Topology};
use hcq_amd::sdma::{self, SdmaCopy, Version};
use hcq_nostd::args::{Arg, ArgKind, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, CopyQueue, Launch, Program, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{Block, Recorder};

/// What the first two bytes of an input say its words are.
fn stream(kind: u8, which: u8) -> Stream {
    let chip = &CHIPS[usize::from(which) % CHIPS.len()];
    match kind % 3 {
        0 => Stream::Pm4(chip),
        1 => Stream::Aql,
        // One more than there are chips: an engine that nobody knows.
        _ if which == u8::MAX => Stream::Sdma(Version::new(9, 9, 9)),
        _ => Stream::Sdma(chip.sdma),
    }
}

/// Two bytes that say what the rest is, and little-endian words. Every word is in one line of the text; a packet, recorded,
/// is the words it was decoded from. Accepted are words that are all packets.
pub fn amd_decode(data: &[u8]) -> bool {
    let [kind, which, rest @ ..] = data else {
        return false;
    };
    let stream = stream(*kind, *which);
    let words: Vec<u32> = rest
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect();
    let mut accepted = !words.is_empty();
    let mut covered = 0;
    let dump = Dump::new(stream, &words);
    for line in dump.lines() {
        assert_eq!(line.at, covered);
        covered += line.words.len();
        let text = line.to_string();
        assert!(!text.is_empty() && !text.contains('\n'), "{text}");
        assert_eq!(text.starts_with("??"), line.malformed().is_some(), "{text}");
        if line.malformed().is_none() {
            same_again(stream, line.words, &text);
        }
        accepted &= line.malformed().is_none();
    }
    assert_eq!(covered, words.len());
    assert_eq!(dump.to_string().lines().count(), dump.lines().count());
    accepted
}

/// The packet of these words, recorded.
fn recorded(stream: Stream, words: &[u32], text: &str) -> Option<Vec<u32>> {
    let mut again = vec![0xa5a5_a5a5; words.len()];
    let mut recorder = Recorder::new(&mut again, PatchList::none());
    match stream {
        Stream::Pm4(_) => {
            let (packet, len) = pm4::Packet::decode(words).expect("it was a packet");
            assert_eq!(len, words.len(), "{text}");
            recorder
                .command(|c| packet.record(c))
                .expect("what was decoded can be recorded");
            // A NOP's body holds anything.
            if matches!(packet, pm4::Packet::Nop(_)) {
                return None;
            }
        }
        Stream::Sdma(version) => {
            let (packet, len) = sdma::Packet::decode(words, version).expect("it was a packet");
            assert_eq!(len, words.len(), "{text}");
            recorder
                .command(|c| packet.record(c, version))
                .expect("what was decoded can be recorded");
            if matches!(packet, sdma::Packet::Nop(_)) {
                return None;
            }
        }
        Stream::Aql => {
            let words: &[u32; PACKET_WORDS] = words.try_into().expect("16 words");
            let packet = aql::Packet::decode(words).expect("it was a packet");
            // One that is not there yet holds anything.
            return (packet != aql::Packet::Invalid)
                .then(|| packet.words().expect("no variables").to_vec());
        }
    }
    assert_eq!(recorder.words().len(), words.len(), "{text}");
    Some(again)
}

fn same_again(stream: Stream, words: &[u32], text: &str) {
    if let Some(again) = recorded(stream, words, text) {
        assert_eq!(again, words, "{text}");
    }
}

/// Images larger than this are not loaded.
const MAX_IMAGE: u64 = 1 << 20;
const BASE: u64 = 0x7f00_0000_0000;

/// A file with kernels: its image is loaded, every kernel's metadata read, its arguments laid out, and the kernel
/// prepared and launched on queues of its chip. Accepted are files with a kernel that goes all the way.
pub fn amd_code_object(data: &[u8]) -> bool {
    let object = match CodeObject::parse(data) {
        Ok(object) => object,
        Err(e) => return refused(&e),
    };
    let _ = (object.abi(), object.is_relocatable());
    match object.image() {
        Ok(size) if size.bytes <= MAX_IMAGE => {
            let mut memory = vec![0u64; (size.bytes as usize).div_ceil(8) + 1];
            let mut region = Region::from_words(&mut memory, BASE);
            if let Err(e) = object.load(&mut region) {
                refused(&e);
            }
            // Without room it is refused, and nothing is written.
            let mut small = vec![0u64; (size.bytes as usize).saturating_sub(1) / 8];
            let mut small = Region::from_words(&mut small, BASE);
            if size.bytes > small.len() as u64 {
                assert!(
                    object.load(&mut small).is_err(),
                    "loaded into less than the image's size"
                );
            }
        }
        Ok(_) => {}
        Err(e) => return refused(&e),
    }
    let chip = match object.chip() {
        Ok(chip) => chip,
        Err(e) => return refused(&e.into()),
    };
    let kernels = match object.kernels() {
        Ok(kernels) => kernels,
        Err(e) => return refused(&e),
    };
    let mut accepted = false;
    // Symbols are as many as the file says; a thousand show what there is to see.
    for kernel in kernels.take(1000) {
        match kernel {
            Ok(symbol) => {
                let launched = launch(&object, chip, &symbol);
                accepted |= launched.unwrap_or_else(|e| refused(&e));
            }
            Err(e) => accepted |= refused(&e),
        }
    }
    accepted
}

fn refused(error: &LoadError) -> bool {
    assert!(!error.to_string().is_empty());
    false
}

/// Whether a kernel can be launched with arguments of the right kinds.
fn launch(
    object: &CodeObject<'_>,
    chip: &'static Chip,
    symbol: &KernelSymbol<'_>,
) -> Result<bool, LoadError> {
    // Of two of one name the first one is looked up, sound or not.
    if let Ok(found) = object.kernel(symbol.name) {
        assert_eq!(found.name, symbol.name);
    }
    let metadata = object.metadata(symbol.name)?;
    let kernel = symbol.kernel(chip, BASE, metadata.as_ref())?;
    let Some(metadata) = metadata else {
        return Ok(false);
    };
    for argument in metadata.arguments()? {
        argument?;
    }
    let (mut slots, mut hidden) = ([ArgSlot::buffer(0); 64], [HiddenSlot::EMPTY; 64]);
    let arguments = metadata.layout(&mut slots, &mut hidden)?;
    assert!(arguments.layout.align.is_power_of_two());
    let bytes = [0u8; 256];
    let args: Option<Vec<Arg<'_>>> = arguments
        .layout
        .slots
        .iter()
        .map(|slot| {
            assert!(
                slot.offset
                    .checked_add(slot.size)
                    .is_some_and(|end| end <= arguments.layout.size)
            );
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
    let topology = Topology {
        xccs: 1,
        cus_per_xcc: 38,
        ses_per_xcc: 4,
        slots_per_cu: 32,
    };
    let need = Need::new(chip, &topology, kernel.private_bytes);
    let Some(scratch) = need
        .ok()
        .and_then(|n| Scratch::new(0x7d12_0000_0000, &n).ok())
    else {
        return Ok(false);
    };
    let Ok(device) = Device::new(chip, 1) else {
        return Ok(false);
    };
    let program = pm4::Program::new(&device, &kernel, arguments, &scratch, 0);
    let (Ok(program), Some(args)) = (program, args) else {
        return Ok(false);
    };
    if program.kernargs_size() > 1 << 16 {
        return Ok(false);
    }
    let mut memory = vec![0u64; program.kernargs_size().div_ceil(8) + 1];
    let mut kernargs = Region::from_words(&mut memory, 0x8000_0000);
    let mut words = [0u32; 512];
    let mut queue = Pm4Compute::new(&device, &mut words, PatchList::none());
    let Ok(block) = Block::new(&mut kernargs, RegionId(1), 0, program.kernargs_size()) else {
        return Ok(false);
    };
    let launch = Launch {
        program: &program,
        args: &args,
        kernargs: block,
        groups: [4u64.into(), 1u64.into(), 1u64.into()],
        local: [64u64.into(), 1u64.into(), 1u64.into()],
        local_memory: 0,
    };
    if queue.exec(launch).is_err() {
        return Ok(false);
    }
    let malformed = Dump::new(Stream::Pm4(chip), queue.words())
        .lines()
        .find_map(|l| l.malformed());
    assert_eq!(malformed, None, "a launch of words that are no packet");
    Ok(true)
}

/// Folder of real code objects.
fn objects() -> std::path::PathBuf {
    std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/objects")
}

fn object(name: &str) -> Vec<u8> {
    std::fs::read(objects().join(name)).expect("a code object of the golden data")
}

/// Seeds of [`amd_code_object`]: what a compiler made, and two that are refused.
pub(crate) fn objects_as_seeds() -> Vec<(&'static str, Vec<u8>)> {
    const FILES: &[(&str, &str)] = &[
        ("ok-vadd-gfx1100.co", "vadd-gfx1100.co"),
        ("ok-vadd-gfx942.o", "vadd-gfx942.o"),
        ("ok-saxpy-gfx1201.co", "saxpy-gfx1201.co"),
        ("ok-reduce-gfx942.co", "reduce-gfx942.co"),
        ("ok-reloc-gfx1100.o", "reloc-gfx1100.o"),
    ];
    let mut seeds: Vec<_> = FILES
        .iter()
        .map(|(seed, file)| (*seed, object(file)))
        .collect();
    let mut cut = object("vadd-gfx1100.co");
    cut.truncate(1000);
    seeds.push(("bad-cut.co", cut));
    let mut other = object("vadd-gfx1100.co");
    // e_machine: x86-64.
    other[18..20].copy_from_slice(&62u16.to_le_bytes());
    seeds.push(("bad-machine.co", other));
    seeds
}

/// What a seed of [`amd_decode`] begins with.
fn head(kind: u8, chip: &Chip) -> Vec<u8> {
    let which = CHIPS
        .iter()
        .position(|c| c == chip)
        .expect("a chip of the table");
    vec![kind, which as u8]
}

fn seed(mut head: Vec<u8>, words: &[u32]) -> Vec<u8> {
    head.extend(words.iter().flat_map(|w| w.to_le_bytes()));
    head
}

/// Seeds of [`amd_decode`]: every command of every queue, on chips that differ, and words that are no packets.
pub(crate) fn queues_as_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (pm4_name, aql_name, sdma_name, chip, xccs, file) in [
        (
            "ok-pm4-gfx1100",
            "ok-aql-gfx1100",
            "ok-sdma-gfx1100",
            "gfx1100",
            1,
            "vadd-gfx1100.co",
        ),
        (
            "ok-pm4-gfx1201",
            "ok-aql-gfx1201",
            "ok-sdma-gfx1201",
            "gfx1201",
            1,
            "vadd-gfx1201.co",
        ),
        (
            "ok-pm4-gfx942",
            "ok-aql-gfx942",
            "ok-sdma-gfx942",
            "gfx942",
            8,
            "vadd-gfx942.co",
        ),
    ] {
        let chip = Chip::named(chip).expect("a chip of the table");
        let event = Event::new(0x7e55_0000_2018, 3).expect("an event");
        let device = Device::new(chip, xccs).expect("a device").with_event(event);
        let file = object(file);
        seeds.push((pm4_name, seed(head(0, chip), &compute(&device, &file))));
        seeds.push((aql_name, seed(head(1, chip), &packets(&device, &file))));
        seeds.push((sdma_name, seed(head(2, chip), &copies(chip.sdma, event))));
    }
    let chip = Chip::named("gfx1100").expect("a chip of the table");
    let unknown = [0xc000_7b00, 0, 0x1234_5678, 0xc006_4900, 0];
    seeds.push(("bad-pm4", seed(head(0, chip), &unknown)));
    seeds.push(("bad-aql", seed(head(1, chip), &unknown)));
    seeds.push((
        "bad-sdma-engine",
        seed(
            vec![2, u8::MAX],
            &copies(chip.sdma, Event::new(0x1000, 1).expect("an event")),
        ),
    ));
    seeds
}

const SIGNAL: SignalAt = SignalAt {
    address: hcq_nostd::value::Value::Imm(0x9000),
    notify: true,
};

/// Every command that all queues have.
fn common<Q: Queue>(queue: &mut Q) {
    queue
        .wait(SIGNAL, 3u64.into())
        .and_then(|q| q.timestamp(SIGNAL))
        .and_then(|q| q.write(0xa000u64.into(), 5u64.into(), WriteWidth::W32))
        .and_then(|q| q.poll_bit(0xa008u64.into(), 1, 1u64.into()))
        .expect("it is recorded");
}

fn compute(device: &Device, file: &[u8]) -> Vec<u32> {
    let mut words = [0u32; 1024];
    let mut queue = Pm4Compute::new(device, &mut words, PatchList::none());
    common(&mut queue);
    let object = CodeObject::parse(file).expect("a code object");
    let symbol = object
        .kernels()
        .expect("kernels")
        .next()
        .expect("one")
        .expect("a sound one");
    let metadata = object
        .metadata(symbol.name)
        .expect("metadata")
        .expect("of this kernel");
    let kernel = symbol
        .kernel(device.chip(), BASE, Some(&metadata))
        .expect("a kernel");
    let (mut slots, mut hidden) = ([ArgSlot::buffer(0); 16], [HiddenSlot::EMPTY; 32]);
    let arguments = metadata.layout(&mut slots, &mut hidden).expect("arguments");
    let program =
        pm4::Program::new(device, &kernel, arguments, &Scratch::NONE, 0).expect("a program");
    let mut memory = [0u64; 64];
    let mut kernargs = Region::from_words(&mut memory, 0x8000);
    let address = || Arg::Buffer(0x1_0000u64.into());
    queue
        .memory_barrier()
        .and_then(|q| {
            q.exec(Launch {
                program: &program,
                args: &[address(), address(), address()],
                kernargs: Block::new(&mut kernargs, RegionId(1), 0, program.kernargs_size())
                    .expect("room"),
                groups: [4u64.into(), 1u64.into(), 1u64.into()],
                local: [64u64.into(), 1u64.into(), 1u64.into()],
                local_memory: 0,
            })
        })
        .and_then(|q| q.signal(SIGNAL, 9u64.into()))
        .expect("it is recorded");
    queue.words().to_vec()
}

fn packets(device: &Device, file: &[u8]) -> Vec<u32> {
    let (mut words, mut memory) = ([0u32; 1024], [0u64; 8 * 16]);
    let ring = Region::from_words(&mut memory, 0xc000);
    let mut queue = AqlCompute::new(
        device,
        &mut words,
        0xb000u64.into(),
        ring,
        RegionId(2),
        PatchList::none(),
    );
    common(&mut queue);
    let object = CodeObject::parse(file).expect("a code object");
    let symbol = object
        .kernels()
        .expect("kernels")
        .next()
        .expect("one")
        .expect("a sound one");
    let metadata = object
        .metadata(symbol.name)
        .expect("metadata")
        .expect("of this kernel");
    let kernel = symbol
        .kernel(device.chip(), BASE, Some(&metadata))
        .expect("a kernel");
    let (mut slots, mut hidden) = ([ArgSlot::buffer(0); 16], [HiddenSlot::EMPTY; 32]);
    let arguments = metadata.layout(&mut slots, &mut hidden).expect("arguments");
    let program = aql::Program::new(device, &kernel, arguments, &Scratch::NONE).expect("a program");
    let mut block = [0u64; 64];
    let mut kernargs = Region::from_words(&mut block, 0x8000);
    let address = || Arg::Buffer(0x1_0000u64.into());
    queue
        .memory_barrier()
        .and_then(|q| {
            q.exec(Launch {
                program: &program,
                args: &[address(), address(), address()],
                kernargs: Block::new(&mut kernargs, RegionId(1), 0, program.kernargs_size())
                    .expect("room"),
                groups: [4u64.into(), 1u64.into(), 1u64.into()],
                local: [64u64.into(), 1u64.into(), 1u64.into()],
                local_memory: 0,
            })
        })
        .and_then(|q| q.signal(SIGNAL, 9u64.into()))
        .expect("it is recorded");
    let used = queue.packets() * PACKET_WORDS;
    memory
        .iter()
        .flat_map(|w| [*w as u32, (*w >> 32) as u32])
        .take(used)
        .collect()
}

fn copies(version: Version, event: Event) -> Vec<u32> {
    let mut words = [0u32; 256];
    let mut queue =
        SdmaCopy::new(version, Some(event), &mut words, PatchList::none()).expect("an engine");
    common(&mut queue);
    queue
        .copy(0x1_0000u64.into(), 0x2_0000u64.into(), 0x60_0000u64.into())
        .and_then(|q| q.signal(SIGNAL, 9u64.into()))
        .expect("it is recorded");
    queue.words().to_vec()
}
