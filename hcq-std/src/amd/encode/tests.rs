//! What a queue of AQL packets is told, held against the driver's own two streams.

use std::sync::Arc;

use hcq_amd::aql::Packet;
use hcq_amd::chips::Chip;
use hcq_nostd::args::Arg;
use hcq_nostd::patch::Patcher;
use hcq_nostd::queue::SignalAt;
use hcq_nostd::value::Value;

use super::*;
use crate::amd::program::{Loaded, Target};
use crate::arg::Grid;
use crate::backend::{Code, Prepared, Purpose};
use crate::heap::Heap;

const BASE: u64 = 0x7f00_0000_0000;

fn device(name: &str) -> Device {
    let chip = Chip::named(name).expect("a known chip");
    let event = Event::new(0x7e55_0000_2018, 3).expect("a mailbox");
    Device::new(chip, 1).expect("one XCC").with_event(event)
}

/// A region of `words` words at [`BASE`].
fn region(words: usize) -> Region<'static> {
    Region::from_words(Box::leak(vec![0u64; words / 2].into_boxed_slice()), BASE)
}

fn object(chip: &str) -> Vec<u8> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/objects/");
    std::fs::read(format!("{root}saxpy-{chip}.co")).expect("a vector")
}

/// The kernel of the saxpy object, loaded into memory of the CPU device.
fn saxpy(target: Target) -> (Box<dyn Code>, Prepared) {
    let (cpu, _) = crate::cpu::Cpu::open(&crate::Options::default().helper_threads(0))
        .expect("it is always there");
    let heap = Arc::new(Heap::new(Arc::new(cpu)));
    // Programs lie at multiples of 256 bytes, as the CPU's large allocations do.
    let allocate = |bytes: usize| heap.allocate(bytes.max(128 << 10), Purpose::Code);
    let name = target.device.chip().target.to_string();
    let bytes = object(&name);
    let loaded = Loaded::new(target, &bytes, &allocate).expect("it loads");
    let names = loaded.kernels().to_vec();
    let [symbol] = &names[..] else {
        panic!("one kernel: {names:?}");
    };
    let found = loaded.kernel(symbol).expect("sound").expect("there");
    assert_eq!(found.has_needs, target.aql);
    (Box::new(loaded), found.program)
}

fn target(chip: &str, aql: bool) -> Target {
    Target {
        device: device(chip),
        apertures: (1, 2),
        aql,
        queues: 1,
    }
}

#[test]
fn the_kernel_of_an_object_is_found_with_its_arguments() {
    let target = target("gfx1100", false);
    let (code, _) = saxpy(target);
    let name = code.kernels().first().expect("one").clone();
    let found = code.kernel(&name).expect("sound").expect("there");
    let arguments = found.arguments.expect("metadata");
    assert!(arguments.len() >= 3, "{arguments:?}");
    assert!(code.kernel("nothing").expect("no error").is_none());
    let e = Loaded::new(target, b"no ELF file", &|_| panic!("nothing to allocate")).err();
    assert!(e.is_some_and(|e| e.to_string().contains("not a well-formed ELF file")));
    let wrong = object("gfx942");
    let e = Loaded::new(target, &wrong, &|_| panic!("nothing to allocate")).err();
    let e = e.map(|e| e.to_string()).unwrap_or_default();
    assert!(
        e.contains("gfx942") && e.contains("this device is gfx1100"),
        "{e}"
    );
}

#[test]
fn a_command_is_a_packet_that_runs_the_words_beside() {
    let device = device("gfx1100");
    let mut memory = region(BESIDE_WORDS * 2);
    let mut sites = [Site::EMPTY; 8];
    let mut list = PatchList::new(&mut sites, &mut []);
    let var = list.var().expect("the first");
    let mut words = [0; PACKET_WORDS];
    let block = Block::new(&mut memory, RegionId(1), 256, 256).expect("inside");
    let signal = SignalAt {
        address: 0x9000u64.into(),
        notify: true,
    };
    let command = Command::Signal(signal, var.into());
    let (n, list) = aql(&device, 0, &command, Some(block), &mut words, list).expect("room");
    assert_eq!((n, list.used().sites), (PACKET_WORDS, 1));
    let (region, offset) = list.sites()[0].place();
    assert_eq!(region, RegionId(1));
    assert!((256..512).contains(&offset));

    // The words are those of a PM4 queue; the packet runs them where they are.
    let mut sites = [Site::EMPTY; 8];
    let mut list = PatchList::new(&mut sites, &mut []);
    list.var().expect("the first");
    let mut alone = [0; BESIDE_WORDS];
    let (n, list) = pm4(&device, 0, &command, None, &mut alone, list).expect("room");
    assert_eq!(list.sites()[0].place().1 + 256, offset);
    for (at, word) in alone[..n].iter().enumerate() {
        assert_eq!(memory.load_u32(256 + 4 * at).expect("inside"), *word);
    }
    let Ok(Packet::Pm4Ib(packet)) = Packet::decode(&words) else {
        panic!("a vendor packet");
    };
    assert_eq!(packet.buffer.address, Value::Imm(BASE + 256));
    assert_eq!(packet.buffer.len() as usize, n);

    // Without room for words or sites nothing is recorded, and the room is told.
    let block = Block::new(&mut memory, RegionId(1), 256, 256).expect("inside");
    let e = aql(
        &device,
        0,
        &command,
        Some(block),
        &mut [],
        PatchList::none(),
    );
    assert!(matches!(e, Err(RecordError::NoRoom(r)) if r.words == PACKET_WORDS));
}

#[test]
fn a_grid_of_variables_is_derived_and_patched_into_the_packet() {
    let target = target("gfx1100", true);
    let (_code, program) = saxpy(target);
    own(&program)
        .expect("of this driver")
        .make_ready(&target, 0, None, 0x7000)
        .expect("no scratch memory");
    let mut kernargs = region(512);
    let (mut sites, mut derived) = ([Site::EMPTY; 64], [Derived::EMPTY; 4]);
    let mut list = PatchList::new(&mut sites, &mut derived);
    let [groups, local] = [list.var().expect("one"), list.var().expect("two")];
    let grid = Grid::new((groups, 1u32, 1u32), (local, 1u32, 1u32));
    let (size, _) = own(&program).expect("of this driver").kernargs();
    let block = Block::new(&mut kernargs, RegionId(1), 0, size).expect("inside");
    let layout = own(&program).expect("of this driver").layout();
    let bytes = [0u8; 64];
    let args: Vec<Arg<'_>> = layout
        .slots
        .iter()
        .map(|slot| match slot.kind {
            hcq_nostd::args::ArgKind::Scalar => Arg::Scalar {
                value: 1u64.into(),
                size: slot.size as u8,
            },
            hcq_nostd::args::ArgKind::Bytes => Arg::Bytes(&bytes[..slot.size as usize]),
            _ => Arg::Buffer(0x1000u64.into()),
        })
        .collect();
    let command = Command::Exec(Exec {
        program: &program,
        args: &args,
        grid: &grid,
    });
    let mut words = [0; PACKET_WORDS];
    let device = &target.device;
    let (n, mut list) = aql(device, 0, &command, Some(block), &mut words, list).expect("room");
    assert_eq!((n, list.used().derived), (PACKET_WORDS, 1));
    let sizes = [64, 2048];
    let mut table = vec![0u64; list.table_words(&sizes).expect("sound")];
    let table = list.build(&sizes, &mut table).expect("sound");
    let mut state = vec![0u64; table.state_words()];
    let mut patcher = Patcher::new(table, &mut state).expect("room");
    patcher.set(groups, 7).expect("a variable");
    patcher.set(local, 32).expect("a variable");
    let mut ring = [0u64; 8];
    let mut regions = [Region::from_words(&mut ring, 0), kernargs];
    regions[0].write_words(0, &words).expect("room");
    patcher.apply(&mut regions).expect("fits");
    let mut patched = [0; PACKET_WORDS];
    for (at, word) in patched.iter_mut().enumerate() {
        *word = regions[0].load_u32(at * 4).expect("inside");
    }
    let Ok(Packet::KernelDispatch(packet)) = Packet::decode(&patched) else {
        panic!("a dispatch packet");
    };
    assert_eq!(packet.workgroup_size, [32, 1, 1]);
    assert_eq!(packet.grid_size, [224, 1, 1]);
    assert_eq!(packet.kernarg_address, BASE);
}

#[test]
fn ports_have_words_of_their_own_for_each_chip() {
    for chip in &hcq_amd::chips::CHIPS {
        let device = Device::new(chip, chip.max_xccs).expect("its own number of XCCs");
        let words = PortWords::new(&device, chip.sdma, true, 0x1000).expect("room");
        assert!(!words.barrier.is_empty());
        assert!(words.barrier.len() <= BESIDE_WORDS);
        assert!(words.probes.iter().all(|p| !p.is_empty()));
        let without = PortWords::new(&device, sdma::Version::new(1, 0, 0), false, 0x1000);
        assert!(without.is_ok_and(|w| w.probes[1].is_empty()));
    }
}
