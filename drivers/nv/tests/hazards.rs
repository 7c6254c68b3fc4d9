//! What the NVIDIA parts of other runtimes get wrong, each with a test that names it. (Ring room, GPGet and empty queues are
//! tested here as a channel sees them, and beside the ring.)

use hcq_nostd::args::{Arg, ArgLayout, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{Derived, PatchList, Patcher, RegionId, Site};
use hcq_nostd::queue::{
    ComputeQueue, CopyQueue, Launch, Program as _, Queue, SignalAt, WriteWidth,
};
use hcq_nostd::record::{Block, Operand, RecordError};
use hcq_nostd::value::{Misfit, Value, Var};
use hcq_nv::chips::{CHIPS, Chip, Generation};
use hcq_nv::compute::{NvCompute, Program, ProgramError, Qmds, State};
use hcq_nv::copy::NvCopy;
use hcq_nv::cubin::Cubin;
use hcq_nv::device::Device;
use hcq_nv::dump::Dump;
use hcq_nv::gpfifo::{GpFifo, SubmitError};
use hcq_nv::kernel::{Bank, Kernel, Local, NakShader, Origin};
use hcq_nv::local_memory::{LocalMemory, Need};
use hcq_nv::qmd::Fields;

const QMD: u64 = 0x12_3456_0000;
const KERNARGS: u64 = 0x34_5678_0000;
const WFI: [u32; 2] = [0x2001_001e, 0];

fn device(name: &str) -> Device {
    Device::new(Chip::named(name).expect("a chip"))
}

fn kernel(device: &Device) -> Kernel {
    let len = device.chip().bank_words.len as u32 * 4;
    let mut banks = [None; 8];
    banks[0] = Some(Bank {
        address: 0,
        bytes: len + 16,
    });
    Kernel {
        entry: 0x1_0000,
        code_bytes: 0x400,
        registers: 32,
        barriers: 0,
        shared_bytes: 1024,
        local: Local::High(0),
        banks,
        arguments_at: len,
        max_group: 1024,
        block: None,
        origin: Origin::Cuda,
    }
}

const NONE: ArgLayout<'static> = ArgLayout {
    slots: &[],
    size: 0,
    align: 8,
};

/// What a queue over its own memory records, launches included.
struct Bench {
    device: Device,
    words: Vec<u32>,
    qmds: Vec<u64>,
    bank: Vec<u64>,
}

impl Bench {
    fn new(name: &str) -> Self {
        Self {
            device: device(name),
            words: vec![0; 256],
            qmds: vec![0; 512],
            bank: vec![0; 256],
        }
    }

    fn record(
        &mut self,
        list: PatchList<'_>,
        script: impl Fn(&mut Script<'_, '_, '_>),
    ) -> Vec<u32> {
        let program = Program::new(
            &self.device,
            &kernel(&self.device),
            NONE,
            &LocalMemory::NONE,
        );
        let memory = Region::from_words(&mut self.qmds, QMD);
        let mut script_of = Script {
            q: NvCompute::new(
                &self.device,
                &mut self.words,
                Qmds::new(memory, RegionId(1)),
                list,
            ),
            program: &program.expect("a program"),
            bank: Region::from_words(&mut self.bank, KERNARGS),
        };
        script(&mut script_of);
        script_of.q.words().to_vec()
    }

    fn qmd(&self, n: usize) -> Vec<u32> {
        let bytes = self.device.chip().qmd.bytes().next_multiple_of(256);
        let words = self
            .qmds
            .iter()
            .flat_map(|w| [*w as u32, (*w >> 32) as u32]);
        words
            .skip(n * bytes / 4)
            .take(self.device.chip().qmd.words)
            .collect()
    }

    fn field(&self, n: usize, name: &str) -> u32 {
        let words = self.qmd(n);
        let fields = Fields::new(self.device.chip().qmd, &words).expect("long enough");
        fields
            .get(name)
            .unwrap_or_else(|| panic!("no field {name}"))
    }
}

struct Script<'m, 'q, 'p> {
    q: NvCompute<'m, 'q>,
    program: &'p Program<'p>,
    bank: Region<'q>,
}

impl Script<'_, '_, '_> {
    fn exec(&mut self) -> Result<(), RecordError> {
        self.exec_of(
            [1u32, 1, 1].map(Value::from),
            [32u32, 1, 1].map(Value::from),
        )
    }

    fn exec_of(&mut self, groups: [Value; 3], local: [Value; 3]) -> Result<(), RecordError> {
        let size = self.program.kernargs_size();
        let launch = Launch {
            program: self.program,
            args: &[],
            kernargs: Block::new(&mut self.bank, RegionId(2), 0, size).expect("inside"),
            groups,
            local,
            local_memory: 0,
        };
        self.q.exec(launch).map(|_| ())
    }
}

fn signal(address: u64) -> SignalAt {
    Value::from(address).into()
}

#[test]
fn semaphores_have_40_bits_of_address_before_hopper() {
    for chip in &CHIPS {
        let mut bench = Bench::new(chip.name);
        let bits = match chip.generation {
            Generation::Ampere | Generation::Ada => 40,
            _ => 57,
        };
        bench.record(PatchList::none(), |s| {
            let (last, first) = ((1u64 << bits) - 16, 1u64 << bits);
            for (address, fits) in [(last, true), (first, false)] {
                let one = || 1u64.into();
                assert_eq!(s.q.signal(signal(address), one()).is_ok(), fits);
                assert_eq!(s.q.wait(signal(address), one()).is_ok(), fits);
                assert_eq!(s.q.timestamp(signal(address)).is_ok(), fits);
                let written = s.q.write(address.into(), one(), WriteWidth::W64);
                assert_eq!(written.is_ok(), fits);
                assert_eq!(s.q.poll_bit(address.into(), 1, one()).is_ok(), fits);
            }
            // Releases of launch descriptors, too.
            s.exec().expect("room");
            assert!(s.q.signal(signal(first), 1u64.into()).is_err());
            assert!(s.q.signal(signal(last), 1u64.into()).is_ok());
        });
        assert_eq!(
            bench.field(
                0,
                if bits == 40 {
                    "RELEASE0_ADDRESS_UPPER"
                } else {
                    "RELEASE_SEMAPHORE0_ADDR_UPPER"
                }
            ),
            (((1u64 << bits) - 16) >> 32) as u32,
            "{}",
            chip.name
        );
    }
}

#[test]
fn descriptors_and_pushbuffers_have_40_bits_of_address_everywhere() {
    for chip in &CHIPS {
        let mut ring = [0u64; 8];
        let mut ring = GpFifo::new(Region::from_words(&mut ring, 0)).expect("entries");
        let high = ring.submit(1 << 40, 1, &mut |_| panic!("nothing to ring for"));
        assert!(matches!(high, Err(SubmitError::Address(_))));

        let device = Device::new(chip);
        let program = Program::new(&device, &kernel(&device), NONE, &LocalMemory::NONE);
        let (mut words, mut qmds, mut bank) = ([0; 64], [0u64; 64], [0u64; 256]);
        let qmds = Qmds::new(Region::from_words(&mut qmds, 1 << 40), RegionId(1));
        let q = NvCompute::new(&device, &mut words, qmds, PatchList::none());
        let mut script = Script {
            q,
            program: &program.expect("a program"),
            bank: Region::from_words(&mut bank, KERNARGS),
        };
        let refused = script.exec();
        let operand = Operand::Program;
        assert!(matches!(refused, Err(RecordError::Misfit { operand: o, .. }) if o == operand));
        assert_eq!(script.q.words(), []);
    }
}

#[test]
fn an_empty_queue_is_no_entry() {
    let mut memory = [0u64; 8];
    let mut ring = GpFifo::new(Region::from_words(&mut memory, 0)).expect("entries");
    let empty = ring.submit(0x1000, 0, &mut |_| panic!("nothing to ring for"));
    assert_eq!(empty, Err(SubmitError::Empty));
    assert_eq!(ring.put(), 0);
    assert_eq!(memory, [0; 8]);
}

#[test]
fn gp_put_never_passes_gp_get() {
    let mut memory = [0u64; 8];
    let mut ring = GpFifo::new(Region::from_words(&mut memory, 0)).expect("entries");
    let mut submitted = 0;
    while ring.submit(0x1000, 1, &mut |_| {}).is_ok() {
        submitted += 1;
    }
    assert_eq!(submitted, 7);
    for n in 1..100u32 {
        ring.read_gp_get(n % 8).expect("the next one");
        assert!(ring.submit(0x1000, 1, &mut |_| {}).is_ok(), "{n}");
        assert!(ring.submit(0x1000, 1, &mut |_| {}).is_err(), "{n}");
    }
}

#[test]
fn polls_test_one_bit_that_is_known() {
    let mut bench = Bench::new("ga10x");
    let (mut sites, mut derived) = ([Site::EMPTY; 8], [Derived::EMPTY; 2]);
    let mut list = PatchList::new(&mut sites, &mut derived);
    let var: Var = list.var().expect("few");
    let words = bench.record(list, |s| {
        let at = || Value::from(0x1000u64);
        let operand = |operand| Some(RecordError::Unsupported { operand });
        // AND and NOR succeed when any bit is as it should be, not all.
        for mask in [3, 0, u32::MAX] {
            let value = u64::from(mask).into();
            assert_eq!(
                s.q.poll_bit(at(), mask, value).err(),
                operand(Operand::Mask)
            );
        }
        assert_eq!(
            s.q.poll_bit(at(), 4, 8u64.into()).err(),
            operand(Operand::Data)
        );
        let not_constant = RecordError::NotConstant {
            operand: Operand::Data,
        };
        assert_eq!(s.q.poll_bit(at(), 1, var.into()).err(), Some(not_constant));
        assert_eq!(s.q.words(), []);
        s.q.poll_bit(at(), 4, 4u64.into()).expect("one bit");
        s.q.poll_bit(at(), 4, 0u64.into()).expect("one bit");
    });
    assert_eq!(words[3..6], [4, 0, 4]);
    assert_eq!(words[9..12], [!4, 0, 5]);
}

#[test]
fn a_release_s_address_is_replaced_as_a_whole() {
    for name in ["ga10x", "gh100", "gb20x"] {
        let mut bench = Bench::new(name);
        let (mut sites, mut derived) = ([Site::EMPTY; 16], [Derived::EMPTY; 2]);
        let mut list = PatchList::new(&mut sites, &mut derived);
        let [at, value] = [0; 2].map(|_| list.var().expect("few"));
        // Record with variables, patch to a high address, then to a low one.
        let chip = bench.device.chip();
        let program = Program::new(
            &bench.device,
            &kernel(&bench.device),
            NONE,
            &LocalMemory::NONE,
        );
        let memory = Region::from_words(&mut bench.qmds, QMD);
        let qmds = Qmds::new(memory, RegionId(1));
        let mut script = Script {
            q: NvCompute::new(&bench.device, &mut bench.words, qmds, list),
            program: &program.expect("a program"),
            bank: Region::from_words(&mut bench.bank, KERNARGS),
        };
        script.exec().expect("room");
        script
            .q
            .signal(Value::from(at).into(), value.into())
            .expect("room");
        let (len, mut list) = script.q.finish().0.finish();
        let mut table = vec![0u64; 1024];
        let sizes = [len * 4, 4096, 2048].map(|n| n as u64);
        let table = list.build(&sizes, &mut table).expect("a table");
        let mut state = vec![0; table.state_words()];
        let mut patcher = Patcher::new(table, &mut state).expect("room");
        let mut device_words = vec![0u64; 64];
        let bits = chip.qmd_release_bits();
        for (address, payload) in [
            ((1u64 << bits) - 16, u64::MAX),
            (0x1230, 5),
            (1 << 36, 1 << 63),
        ] {
            patcher.set(at, address).expect("a variable");
            patcher.set(value, payload).expect("a variable");
            let mut regions = [
                Region::from_words(&mut device_words, 0),
                Region::from_words(&mut bench.qmds, QMD),
                Region::from_words(&mut bench.bank, KERNARGS),
            ];
            patcher.apply(&mut regions).expect("fits");
            let names = match chip.qmd.major {
                3 => [
                    "RELEASE0_ADDRESS_LOWER",
                    "RELEASE0_ADDRESS_UPPER",
                    "RELEASE0_PAYLOAD_LOWER",
                    "RELEASE0_PAYLOAD_UPPER",
                    "RELEASE0_PAYLOAD64B",
                ],
                _ => [
                    "RELEASE_SEMAPHORE0_ADDR_LOWER",
                    "RELEASE_SEMAPHORE0_ADDR_UPPER",
                    "RELEASE_SEMAPHORE0_PAYLOAD_LOWER",
                    "RELEASE_SEMAPHORE0_PAYLOAD_UPPER",
                    "RELEASE_PAYLOAD64B",
                ],
            };
            let [low, high, payload_low, payload_high, wide] =
                names.map(|n| u64::from(bench.field(0, n)));
            assert_eq!(high << 32 | low, address, "{name}");
            assert_eq!(payload_high << 32 | payload_low, payload, "{name}");
            assert_eq!(wide, 1, "{name}: the payload has 64 bits");
        }
        // One that the field cannot hold is refused at launch.
        patcher.set(at, 1 << bits).expect("a variable");
        let mut regions = [
            Region::from_words(&mut device_words, 0),
            Region::from_words(&mut bench.qmds, QMD),
            Region::from_words(&mut bench.bank, KERNARGS),
        ];
        assert!(patcher.apply(&mut regions).is_err(), "{name}");
    }
}

trait ReleaseBits {
    fn qmd_release_bits(&self) -> u32;
}

impl ReleaseBits for Chip {
    /// Bits of a release's address, by the headers.
    fn qmd_release_bits(&self) -> u32 {
        if self.qmd.major == 3 { 40 } else { 57 }
    }
}

#[test]
fn constant_banks_are_counted_in_16_bytes() {
    for (name, field) in [
        ("ga10x", "CONSTANT_BUFFER_SIZE_SHIFTED4"),
        ("gb20x", "CONSTANT_BUFFER_SIZE_SHIFTED4"),
    ] {
        let device = device(name);
        let mut k = kernel(&device);
        k.banks[3] = Some(Bank {
            address: 0x2_0000,
            bytes: 0x1_0000,
        });
        k.banks[4] = Some(Bank {
            address: 0x4_0000,
            bytes: 0x11,
        });
        let program = Program::new(&device, &k, NONE, &LocalMemory::NONE).expect("64 KiB fit");
        let fields = Fields::new(device.chip().qmd, program.template()).expect("long enough");
        assert_eq!(fields.nth(field, 3), Some(0x1000));
        assert_eq!(fields.nth(field, 4), Some(2));
        let first = k.banks[0].expect("a bank").bytes.div_ceil(16);
        assert_eq!(fields.nth(field, 0), Some(first));
        k.banks[3] = Some(Bank {
            address: 0x2_0000,
            bytes: 0x1_0001,
        });
        let error = Program::new(&device, &k, NONE, &LocalMemory::NONE).err();
        assert_eq!(error, Some(ProgramError::Bank { index: 3 }));
    }
}

#[test]
fn shared_memory_is_counted_once_and_limited_by_the_generation() {
    // The same kernel, whose sections differ in what they count.
    for (file, sm) in [
        ("reduce-sm_86.cubin", "ga10x"),
        ("reduce-sm_90.cubin", "gh100"),
        ("reduce-sm_120.cubin", "gb20x"),
    ] {
        let path = format!(
            "{}/../../tests/vectors/objects/{file}",
            env!("CARGO_MANIFEST_DIR")
        );
        let data = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
        let cubin = Cubin::parse(&data).expect("a cubin");
        let chip = Chip::named(sm).expect("a chip");
        let kernel = cubin
            .kernel("reduce")
            .expect("a kernel")
            .kernel(chip, 0x1000);
        assert_eq!(kernel.expect("numbers").shared_bytes, 0x800, "{file}");
    }
    for (name, max) in [
        ("ga100", 164),
        ("ga10x", 100),
        ("ad10x", 100),
        ("gh100", 228),
        ("gb10x", 228),
        ("gb20x", 100),
    ] {
        let device = device(name);
        let with = |bytes| Kernel {
            shared_bytes: bytes,
            ..kernel(&device)
        };
        let program = |bytes| Program::new(&device, &with(bytes), NONE, &LocalMemory::NONE);
        assert!(program(max * 1024).is_ok(), "{name}");
        let (need, max) = (u64::from(max) * 1024 + 1, max * 1024);
        assert_eq!(
            program(max + 1).err(),
            Some(ProgramError::Shared { need, max }),
            "{name}"
        );
    }
}

#[test]
fn copy_signals_and_waits_compare_the_same_bits() {
    let device = device("gb20x");
    let mut words = [0; 64];
    let mut q = NvCopy::new(&device, &mut words, PatchList::none());
    let value = || Value::from(0x7_0000_0001u64);
    q.signal(signal(0x1000), value())
        .and_then(|q| q.wait(signal(0x1000), value()))
        .expect("64 bits");
    let text = Dump::new(q.words()).to_string();
    assert_eq!(
        text.matches("PAYLOAD=0x700000001 64BIT").count(),
        2,
        "{text}"
    );
    // Signals of 32 bits refuse what a wait would never see.
    let mut words = [0; 64];
    let mut q = NvCopy::new(&device, &mut words, PatchList::none()).with_narrow_signals();
    let misfit = Misfit::TooLarge {
        value: 0x7_0000_0001,
        bits: 32,
    };
    let operand = Operand::Data;
    assert_eq!(
        q.signal(signal(0x1000), value()).err(),
        Some(RecordError::Misfit { operand, misfit })
    );
    assert_eq!(
        q.copy(0u64.into(), 0u64.into(), 0u64.into())
            .map(|q| q.words().len()),
        Ok(0)
    );
}

#[test]
fn releases_with_a_timestamp_take_16_byte_signals() {
    let mut bench = Bench::new("ga10x");
    bench.record(PatchList::none(), |s| {
        for address in [0x1004u64, 0x1008] {
            assert!(s.q.signal(signal(address), 1u64.into()).is_err());
            assert!(s.q.timestamp(signal(address)).is_err());
        }
        s.exec().expect("room");
        assert!(s.q.signal(signal(0x1008), 1u64.into()).is_err());
        assert!(
            s.q.write(0x1004u64.into(), 1u64.into(), WriteWidth::W64)
                .is_err()
        );
        assert!(
            s.q.write(0x1004u64.into(), 1u64.into(), WriteWidth::W32)
                .is_ok()
        );
    });
}

#[test]
fn a_program_names_its_own_local_memory_and_not_the_device_s() {
    let device = device("ga10x");
    let with = |bytes| Kernel {
        local: Local::High(bytes),
        ..kernel(&device)
    };
    let memory = |thread_bytes| {
        let need = Need {
            bytes: 0x2_0000,
            tpc_bytes: 0x8000,
            thread_bytes,
        };
        LocalMemory::new(device.chip(), 1 << 32, &need).expect("memory")
    };
    let program = Program::new(&device, &with(0x441), NONE, &memory(0x1000)).expect("fits");
    let fields = Fields::new(device.chip().qmd, program.template()).expect("long enough");
    // A stack of the program, rounded up: memory that grows later changes nothing of it.
    assert_eq!(fields.get("SHADER_LOCAL_MEMORY_HIGH_SIZE"), Some(0x460));
    assert_eq!(fields.get("SHADER_LOCAL_MEMORY_LOW_SIZE"), Some(0));
    let (need, have) = (0x460, 0x440);
    let error = Program::new(&device, &with(0x441), NONE, &memory(0x440)).err();
    assert_eq!(error, Some(ProgramError::Local { need, have }));
    let error = Program::new(&device, &with(u32::MAX), NONE, &memory(0x440)).err();
    assert_eq!(
        error,
        Some(ProgramError::Local {
            need: u32::MAX,
            have
        })
    );
}

#[test]
fn a_launch_waits_for_the_one_before_it() {
    let mut bench = Bench::new("ga10x");
    let exec = |n: u32| [0x2001_20ad, (QMD >> 8) as u32 + n, 0x2001_20b0, 9];
    // Nothing between: the descriptor does it.
    let words = bench.record(PatchList::none(), |s| {
        s.exec().and_then(|()| s.exec()).expect("room");
    });
    assert_eq!(words, exec(0));
    assert_eq!(
        bench.field(0, "DEPENDENT_QMD0_POINTER"),
        (QMD >> 8) as u32 + 1
    );
    // A wait or a poll between: the launch before may still run.
    let words = bench.record(PatchList::none(), |s| {
        s.exec().expect("room");
        s.q.wait(signal(0x1000), 1u64.into()).expect("room");
        s.exec().expect("room");
    });
    assert_eq!(words[10..], [&WFI[..], &exec(1)].concat());
    // A barrier behind a launch: first the launch, then the caches.
    let words = bench.record(PatchList::none(), |s| {
        s.exec().expect("room");
        s.q.memory_barrier().expect("room");
        s.exec().expect("room");
    });
    assert_eq!(
        words[4..],
        [&WFI[..], &[0x2001_25a6, 0x1011], &exec(1)].concat()
    );
    // What waits for the engine itself needs no more.
    let words = bench.record(PatchList::none(), |s| {
        s.exec().expect("room");
        s.q.write(0x1000u64.into(), 1u64.into(), WriteWidth::W32)
            .expect("room");
        s.exec().expect("room");
    });
    assert_eq!(words[10..], exec(1));
    // Before anything ran there is nothing to wait for.
    let words = bench.record(PatchList::none(), |s| {
        s.q.memory_barrier().expect("room");
        s.exec().expect("room");
    });
    assert_eq!(words, [&[0x2001_25a6, 0x1011], &exec(0)[..]].concat());
}

#[test]
fn releases_used_up_become_the_host_s() {
    let mut bench = Bench::new("gh100");
    let words = bench.record(PatchList::none(), |s| {
        s.exec().expect("room");
        for n in 0..3u64 {
            let at = SignalAt {
                notify: n == 1,
                ..signal(0x1000 + 16 * n)
            };
            s.q.signal(at, (n + 1).into()).expect("room");
        }
    });
    assert_eq!(words.len(), 4 + 6);
    assert_eq!(words[4..], [0x2005_0017, 0x1020, 0, 3, 0, 0x0310_0001]);
    let fields = bench.qmd(0);
    let fields = Fields::new(bench.device.chip().qmd, &fields).expect("long enough");
    for (n, trap) in [(0, 0), (1, 1)] {
        assert_eq!(fields.nth("RELEASE_ENABLE", n), Some(1));
        assert_eq!(
            fields.nth("RELEASE_TRAP_TYPE", n),
            Some(trap),
            "who sleeps is woken"
        );
    }
    assert_eq!(fields.nth("RELEASE_ENABLE", 2), Some(0));
}

#[test]
fn a_signal_without_room_for_its_sites_leaves_the_descriptor_alone() {
    for name in ["ga10x", "gh100", "gb20x"] {
        let mut bench = Bench::new(name);
        let mut sites = [Site::EMPTY; 5];
        let mut list = PatchList::new(&mut sites, &mut []);
        let [at, value] = [0; 2].map(|_| list.var().expect("few"));
        bench.record(list, |s| {
            s.exec().expect("room");
            s.q.signal(Value::from(at).into(), value.into())
                .expect("three sites");
            let refused = s.q.signal(Value::from(at).into(), value.into());
            assert!(matches!(refused, Err(RecordError::NoRoom(room)) if room.sites == 6));
        });
        let one = bench.qmd(0);
        let mut other = Bench::new(name);
        let mut sites = [Site::EMPTY; 3];
        let mut list = PatchList::new(&mut sites, &mut []);
        let [at, value] = [0; 2].map(|_| list.var().expect("few"));
        other.record(list, |s| {
            s.exec().expect("room");
            s.q.signal(Value::from(at).into(), value.into())
                .expect("three sites");
        });
        assert_eq!(one, other.qmd(0), "{name}");
    }
}

#[test]
fn compiled_kernels_find_the_sizes_that_they_read() {
    for (name, block, grid) in [("ga10x", 0, 3), ("gh100", 0, 3), ("gb10x", 216, 220)] {
        let mut bench = Bench::new(name);
        bench.record(PatchList::none(), |s| {
            s.exec_of([7u32, 8, 9].map(Value::from), [4u32, 5, 6].map(Value::from))
                .expect("room");
        });
        let words: Vec<u32> = bench
            .bank
            .iter()
            .flat_map(|w| [*w as u32, (*w >> 32) as u32])
            .collect();
        assert_eq!(words[block..block + 3], [4, 5, 6], "{name}");
        assert_eq!(words[grid..grid + 3], [7, 8, 9], "{name}");
        let at = &bench.device.chip().bank_words;
        assert_eq!(words[at.shared_window + 1], 0x7294, "{name}");
        assert_eq!(words[at.local_window + 1], 0x7293, "{name}");
        assert_eq!(words[at.stack], 0xff_fdc0, "{name}");
    }
}

#[test]
fn groups_known_at_launch_are_limited_there() {
    let mut bench = Bench::new("ga10x");
    let (mut sites, mut derived) = ([Site::EMPTY; 64], [Derived::EMPTY; 8]);
    let mut list = PatchList::new(&mut sites, &mut derived);
    let [x, y, gx] = [0; 3].map(|_| list.var().expect("few"));
    let program = Program::new(
        &bench.device,
        &kernel(&bench.device),
        NONE,
        &LocalMemory::NONE,
    );
    let qmds = Qmds::new(Region::from_words(&mut bench.qmds, QMD), RegionId(1));
    let mut script = Script {
        q: NvCompute::new(&bench.device, &mut bench.words, qmds, list),
        program: &program.expect("a program"),
        bank: Region::from_words(&mut bench.bank, KERNARGS),
    };
    script
        .exec_of(
            [gx.into(), 1u64.into(), 1u64.into()],
            [x.into(), y.into(), 1u64.into()],
        )
        .expect("room");
    let (len, mut list) = script.q.finish().0.finish();
    let mut table = vec![0u64; 1024];
    let sizes = [len * 4, 4096, 2048].map(|n| n as u64);
    let table = list.build(&sizes, &mut table).expect("a table");
    let mut state = vec![0; table.state_words()];
    let mut patcher = Patcher::new(table, &mut state).expect("room");
    let mut device_words = vec![0u64; 64];
    for (sizes, fits) in [
        ([32, 32, 9], true),
        ([33, 32, 9], false),
        ([1024, 1, 1], true),
        ([1, 1025, 1], false),
        ([0, 1, 1], false),
        ([1, 1, 0], false),
        ([1, 1, 0x7fff_ffff], true),
        ([1, 1, 0x8000_0000], false),
    ] {
        for (var, v) in [x, y, gx].into_iter().zip(sizes) {
            patcher.set(var, v).expect("a variable");
        }
        let mut regions = [
            Region::from_words(&mut device_words, 0),
            Region::from_words(&mut bench.qmds, QMD),
            Region::from_words(&mut bench.bank, KERNARGS),
        ];
        assert_eq!(patcher.apply(&mut regions).is_ok(), fits, "{sizes:?}");
    }
}

/// The memory of descriptors has an end, and a recording goes on in another queue where it stood.
#[test]
fn a_recording_goes_on_where_it_stood() {
    let device = device("gb20x");
    let program = Program::new(&device, &kernel(&device), NONE, &LocalMemory::NONE).expect("fits");
    let (mut bank, mut qmds) = (vec![0u64; 256], vec![0u64; 3 * 64]);
    let mut state = State::default();
    let mut all = Vec::new();
    for n in 0..4 {
        let mut words = [0u32; 16];
        let memory = Region::from_words(&mut qmds, QMD);
        let recorder = hcq_nostd::record::Recorder::new(&mut words, PatchList::none());
        let mut script = Script {
            q: NvCompute::over(&device, recorder, Qmds::new(memory, RegionId(1)), state),
            program: &program,
            bank: Region::from_words(&mut bank, KERNARGS),
        };
        let recorded = script.exec();
        if n == 3 {
            let Err(RecordError::NoRoom(room)) = recorded else {
                panic!("a fourth descriptor in memory for three");
            };
            assert_eq!(room.beside, 4 * 512);
        } else {
            recorded.expect("room");
        }
        let (recorder, next) = script.q.finish();
        all.extend_from_slice(recorder.words());
        // The second one is told that the first one's descriptor is out of reach.
        state = if n == 0 { next.sealed() } else { next };
    }
    let pcas = |n: u32| [0x2001_20ad, (QMD >> 8) as u32 + 2 * n, 0x2001_20b0, 9];
    assert_eq!(all, [&pcas(0)[..], &WFI, &pcas(1)].concat());
    assert_eq!(state.active(), Some(1024));
    assert_eq!(state.next(), 1536);
}

#[test]
fn an_argument_block_that_moves_is_a_variable() {
    for name in ["ga10x", "gh100"] {
        let device = device(name);
        let slots = [ArgSlot::scalar(0, 4)];
        let layout = ArgLayout {
            slots: &slots,
            size: 4,
            align: 4,
        };
        let shader = NakShader {
            entry: 0x1_0000,
            code_bytes: 0x100,
            registers: 16,
            barriers: 0,
            shared_bytes: 0,
            local_bytes: 0,
        };
        let program = Program::new(&device, &shader.kernel(), layout, &LocalMemory::NONE);
        let program = program.expect("a program");
        let (mut words, mut qmds, mut bank) = ([0; 16], [0u64; 64], [0u64; 64]);
        let mut sites = [Site::EMPTY; 8];
        let mut list = PatchList::new(&mut sites, &mut []);
        let var = list.var().expect("few");
        let memory = Region::from_words(&mut qmds, QMD);
        let mut q = NvCompute::new(&device, &mut words, Qmds::new(memory, RegionId(1)), list);
        let mut block = Region::from_words(&mut bank, 0);
        let kernargs = Block::new(&mut block, RegionId(2), 0, program.kernargs_size());
        let launch = Launch {
            program: &program,
            args: &[Arg::from(5u32)],
            kernargs: kernargs.expect("inside"),
            groups: [1u64, 1, 1].map(Into::into),
            local: [1u64, 1, 1].map(Into::into),
            local_memory: 0,
        };
        q.exec_with_bank(launch, var.into()).expect("room");
        let (len, mut list) = q.finish().0.finish();
        let mut table = vec![0u64; 512];
        let sizes = [len * 4, 512, 512].map(|n| n as u64);
        let table = list.build(&sizes, &mut table).expect("a table");
        let mut state = vec![0; table.state_words()];
        let mut patcher = Patcher::new(table, &mut state).expect("room");
        let mut device_words = [0u64; 16];
        for address in [0x1_2345_6789_0100u64, 0x100] {
            patcher.set(var, address).expect("a variable");
            let mut regions = [
                Region::from_words(&mut device_words, 0),
                Region::from_words(&mut qmds, QMD),
                Region::from_words(&mut bank, 0),
            ];
            patcher.apply(&mut regions).expect("fits");
            let words: Vec<u32> = qmds
                .iter()
                .flat_map(|w| [*w as u32, (*w >> 32) as u32])
                .collect();
            let fields = Fields::new(device.chip().qmd, &words).expect("long enough");
            let (suffix, shift) = if name == "gh100" {
                ("_SHIFTED6", 6)
            } else {
                ("", 0)
            };
            let part = |half| {
                u64::from(
                    fields
                        .get(&format!("CONSTANT_BUFFER_ADDR_{half}{suffix}"))
                        .expect("a field"),
                )
            };
            assert_eq!(
                (part("UPPER") << 32 | part("LOWER")) << shift,
                address,
                "{name}"
            );
            assert_eq!(
                fields.get("CONSTANT_BUFFER_SIZE_SHIFTED4"),
                Some(0x16),
                "{name}"
            );
        }
        patcher.set(var, 0x80).expect("a variable");
        let mut regions = [
            Region::from_words(&mut device_words, 0),
            Region::from_words(&mut qmds, QMD),
            Region::from_words(&mut bank, 0),
        ];
        assert!(
            patcher.apply(&mut regions).is_err(),
            "{name}: not at 256 bytes"
        );
    }
}
