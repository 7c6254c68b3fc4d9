//! Launches: their order, their memory, and what is patched in them.

use hcq_nostd::args::{Arg, ArgLayout, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{Derived, PatchList, Patcher, RegionId, Site};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{Block, RecordError};
use hcq_nostd::value::Value;
use hcq_nv::chips::Chip;
use hcq_nv::compute::{NvCompute, Program, ProgramError, Qmds, State};
use hcq_nv::kernel::{Kernel, Local, NakShader};
use hcq_nv::local_memory::{LocalMemory, Need};
use hcq_nv::qmd::Fields;

use super::lab::*;

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
        let mut sites = [Site::EMPTY; 3];
        let mut list = PatchList::new(&mut sites, &mut []);
        let [at, value] = [0; 2].map(|_| list.var().expect("few"));
        bench.record(list, |s| {
            s.exec().expect("room");
            s.q.signal(Value::from(at).into(), value.into())
                .expect("two sites");
            let refused = s.q.signal(Value::from(at).into(), value.into());
            assert!(matches!(refused, Err(RecordError::NoRoom(room)) if room.sites == 4));
        });
        let one = bench.qmd(0);
        let mut other = Bench::new(name);
        let mut sites = [Site::EMPTY; 2];
        let mut list = PatchList::new(&mut sites, &mut []);
        let [at, value] = [0; 2].map(|_| list.var().expect("few"));
        other.record(list, |s| {
            s.exec().expect("room");
            s.q.signal(Value::from(at).into(), value.into())
                .expect("two sites");
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
