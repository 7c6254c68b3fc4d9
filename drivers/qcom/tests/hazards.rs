//! Limits and units that are easy to get wrong on Adreno, each held by a test that names it.

use hcq_nostd::args::{Arg, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{Derived, PatchError, PatchList, Patcher, RegionId, Site};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _, Queue, SignalAt, WriteWidth};
use hcq_nostd::record::{Block, Operand, RecordError};
use hcq_nostd::value::{Misfit, Value};
use hcq_qcom::chips::{CHIPS, Chip, Generation};
use hcq_qcom::device::{Device, PrivateMemory, PrivateNeed};
use hcq_qcom::dump::Dump;
use hcq_qcom::image::{BorderColor, Filter, Format, Image, Sampler, Wrap};
use hcq_qcom::kernel::{
    Arguments, Given, ImageSlot, Kernel, MAX_TEXTURES, Param, ProgramError, Style,
};
use hcq_qcom::pm4::load_state::{LoadState, State};
use hcq_qcom::pm4::{AdrenoCompute, Packet, Program, table};

const BASE: u64 = 0x5_1000_0000;

fn device(chip: &str) -> Device {
    let chip = Chip::named(chip).expect("known");
    Device::new(chip, 0x5_0000_1000, 0x5_0000_3000).expect("a device")
}

fn private() -> PrivateMemory {
    PrivateMemory::new(0x5_4000_0000, 1 << 34).expect("memory")
}

const IR3: Style = Style::Ir3 {
    group_id: 0xc0,
    group_count: 0xfc,
    group_size: 0x20,
    local_id: 0,
};

fn kernel() -> Kernel {
    Kernel {
        style: IR3,
        code: 0x5_2000_0000,
        code_bytes: 0x300,
        first_instruction: 0,
        full_registers: 4,
        half_registers: 0,
        merged_registers: false,
        double_waves: false,
        branch_stack: 0,
        private_bytes: 0,
        shared_bytes: 0,
    }
}

const NONE: Given<'static> = Given {
    storage_first: true,
    texture_map: None,
    constants: &[],
    samplers: &[],
};

fn no_arguments() -> Arguments<'static> {
    Arguments::new(std::iter::empty(), NONE, &mut [], &mut []).expect("none")
}

fn prepare(device: &Device, kernel: &Kernel) -> Result<Program<'static>, ProgramError> {
    Program::new(device, kernel, &no_arguments(), &private())
}

/// Launches with sizes, groups first; returns the words.
fn launch(
    device: &Device,
    program: &Program<'_>,
    args: &[Arg<'_>],
    sizes: [Value; 6],
    local_memory: u32,
) -> Result<Vec<u32>, RecordError> {
    let mut words = [0; 128];
    let mut memory = vec![0; program.kernargs_size() / 8];
    let mut region = Region::from_words(&mut memory, BASE);
    let mut q = AdrenoCompute::new(device, &mut words, PatchList::none());
    record(&mut q, &mut region, program, args, sizes, local_memory)?;
    Ok(q.words().to_vec())
}

fn record(
    q: &mut AdrenoCompute<'_>,
    region: &mut Region<'_>,
    program: &Program<'_>,
    args: &[Arg<'_>],
    sizes: [Value; 6],
    local_memory: u32,
) -> Result<(), RecordError> {
    let [gx, gy, gz, lx, ly, lz] = sizes;
    let kernargs = Block::new(region, RegionId(1), 0, program.kernargs_size()).expect("inside");
    q.exec(Launch {
        program,
        args,
        kernargs,
        groups: [gx, gy, gz],
        local: [lx, ly, lz],
        local_memory,
    })
    .map(drop)
}

fn one_group(device: &Device, kernel: &Kernel) -> Vec<u32> {
    let program = prepare(device, kernel).expect("a program");
    launch(
        device,
        &program,
        &[],
        [1, 1, 1, 32, 1, 1].map(Value::Imm),
        0,
    )
    .expect("recorded")
}

/// The last value that words write to a register.
fn register(words: &[u32], wanted: u32) -> u32 {
    let (mut rest, mut found) = (words, None);
    while !rest.is_empty() {
        let (packet, len) = Packet::decode(rest, Generation::A6xx).expect("a packet");
        if let Packet::Registers(r) = packet {
            let mut values = (r.first()..).zip(r.values());
            found = values
                .find(|(at, _)| *at == wanted)
                .map(|(_, v)| *v)
                .or(found);
        }
        rest = &rest[len..];
    }
    found.unwrap_or_else(|| panic!("{wanted:#x} is not written"))
}

fn loads(words: &[u32]) -> Vec<LoadState> {
    let (mut rest, mut found) = (words, Vec::new());
    while !rest.is_empty() {
        let (packet, len) = Packet::decode(rest, Generation::A6xx).expect("a packet");
        if let Packet::LoadState(load) = packet {
            found.push(load);
        }
        rest = &rest[len..];
    }
    found
}

fn units(words: &[u32], state: State) -> Option<u32> {
    let load = loads(words).into_iter().find(|l| l.state == state);
    load.map(|l| l.units)
}

#[test]
fn the_constant_length_is_in_its_field_and_unit() {
    for chip in CHIPS {
        let words = one_group(&device(&chip.number.to_string()), &kernel());
        // 256 registers in units of four, and beside it the enable bit.
        assert_eq!(register(&words, table::HLSQ_CS_CNTL), 0x100 | (256 / 4));
    }
}

/// The engine reads 256 constants from the argument block, whatever the program has: all of them must be inside.
#[test]
fn constants_are_not_loaded_from_behind_the_argument_block() {
    let words = one_group(&device("630"), &kernel());
    let program = prepare(&device("630"), &kernel()).expect("a program");
    assert_eq!(units(&words, State::Constants), Some(256));
    assert!(program.kernargs_size() >= 256 * 16);
}

#[test]
fn the_hardware_stacks_offset_counts_2_kib() {
    let at = table::SP_CS_PVT_MEM_HW_STACK_OFFSET;
    let words = one_group(&device("630"), &kernel());
    assert_eq!(register(&words, at), 4096 / 2048);
    let large = Kernel {
        private_bytes: 0x1801,
        ..kernel()
    };
    let words = one_group(&device("630"), &large);
    assert_eq!(register(&words, at), 8192 * 2048 / 2048);
}

/// Shader processors have room for different numbers of work-items; private memory is for all of them, and the stack behind.
#[test]
fn private_memory_is_for_all_work_items_of_the_chip() {
    for chip in CHIPS {
        let device = device(&chip.number.to_string());
        for bytes in [0, 1, 512, 513, 6000] {
            let with = Kernel {
                private_bytes: bytes,
                ..kernel()
            };
            let words = one_group(&device, &with);
            let item = u64::from(register(&words, table::SP_CS_PVT_MEM_PARAM)) * 512;
            let core = u64::from(register(&words, table::SP_CS_PVT_MEM_SIZE)) * 4096;
            let stack = u64::from(register(&words, table::SP_CS_PVT_MEM_HW_STACK_OFFSET)) * 2048;
            assert!(item >= bytes.into());
            assert_eq!(core, item * u64::from(chip.fibers_per_core));
            assert!(stack >= core && stack > 0);
            let need = PrivateNeed::new(chip, bytes).expect("a need");
            assert!(need.bytes >= core * u64::from(chip.cores));
            // One page less is too little.
            let less = PrivateMemory::new(0x1000, need.bytes - 4096).expect("memory");
            assert_eq!(
                Program::new(&device, &with, &no_arguments(), &less).err(),
                Some(ProgramError::PrivateMemory {
                    need: need.bytes,
                    have: need.bytes - 4096
                })
            );
        }
    }
    // More than the field of a work-item's bytes holds.
    let chip = Chip::named("630").expect("known");
    assert!(PrivateNeed::new(chip, 255 * 512).is_ok());
    assert!(PrivateNeed::new(chip, 255 * 512 + 1).is_err());
    assert!(PrivateNeed::new(chip, u32::MAX).is_err());
}

/// More than 32 KiB would end in the field beside, which says how long the constants are.
#[test]
fn shared_memory_stays_in_its_field() {
    let device = device("650");
    let at = table::SP_CS_UNKNOWN_A9B1;
    for (bytes, kib_less_one) in [
        (0, 1),
        (1024, 1),
        (2048, 1),
        (4096, 3),
        (4097, 4),
        (32768, 31),
    ] {
        let with = Kernel {
            shared_bytes: bytes,
            ..kernel()
        };
        let word = register(&one_group(&device, &with), at);
        assert_eq!(word, 2 << 5 | kib_less_one, "{bytes}");
    }
    let too_much = |bytes| {
        let with = Kernel {
            shared_bytes: bytes,
            ..kernel()
        };
        prepare(&device, &with).err()
    };
    for need in [32769, 65536, u32::MAX] {
        let have = 32768;
        assert_eq!(
            too_much(need),
            Some(ProgramError::SharedMemory { need, have })
        );
    }
    // What a launch adds counts as well.
    let with = Kernel {
        shared_bytes: 1000,
        ..kernel()
    };
    let program = prepare(&device, &with).expect("a program");
    let sizes = [1; 6].map(Value::Imm);
    let words = launch(&device, &program, &[], sizes, 5000).expect("recorded");
    assert_eq!(register(&words, at), 2 << 5 | 5);
    for local_memory in [31769, u32::MAX] {
        let refused = launch(&device, &program, &[], sizes, local_memory);
        assert!(matches!(
            refused,
            Err(RecordError::Limit {
                operand: Operand::LocalMemory,
                max: 32768,
                ..
            })
        ));
    }
}

/// Ten bits count 128 bytes of instructions: 128 KiB do not fit. What the cache holds is loaded, the length is told whole.
#[test]
fn long_programs_load_what_the_instruction_cache_holds() {
    for chip in CHIPS {
        let device = device(&chip.number.to_string());
        for code_bytes in [
            0x80, 0x2000, 0x4000, 0x1_ff80, 0x2_0000, 0x2_0088, 0x100_0000,
        ] {
            let with = Kernel {
                code_bytes,
                ..kernel()
            };
            let words = one_group(&device, &with);
            let whole = code_bytes.div_ceil(128);
            let loaded = units(&words, State::Instructions);
            assert_eq!(loaded, Some(whole.min(chip.instruction_cache.into())));
            assert_eq!(register(&words, table::SP_CS_INSTRLEN), whole);
        }
    }
    for (code_bytes, first) in [(0, 0), (0x80, 0x80), (0x80, 4), (8, u32::MAX)] {
        let with = Kernel {
            code_bytes,
            first_instruction: first,
            ..kernel()
        };
        let bytes = code_bytes;
        assert_eq!(
            prepare(&device("630"), &with).err(),
            Some(ProgramError::Code { bytes, first })
        );
    }
}

/// All textures are loaded, not the first 16, and no more than registers count.
#[test]
fn all_textures_are_loaded() {
    let device = device("630");
    let image = Some(Image::new(Format::Rgba32Float, 16, 4).expect("an image"));
    for count in [1, 16, 17, 31, MAX_TEXTURES] {
        let params = vec![(Param::Texture(image), 0); count];
        let mut slots = vec![ArgSlot::buffer(0); count];
        let mut images = vec![ImageSlot::EMPTY; count];
        let samplers = vec![Sampler::TEXELS; count.min(31)];
        let given = Given {
            samplers: &samplers,
            ..NONE
        };
        let arguments = Arguments::new(params.into_iter(), given, &mut slots, &mut images);
        let arguments = arguments.expect("a layout");
        let program = Program::new(&device, &kernel(), &arguments, &private()).expect("a program");
        let args = vec![Arg::Buffer(0x5_6000_0000u64.into()); count];
        let sizes = [1; 6].map(Value::Imm);
        let words = launch(&device, &program, &args, sizes, 0).expect("recorded");
        assert_eq!(units(&words, State::Textures), Some(count as u32));
        assert_eq!(units(&words, State::Samplers), Some(samplers.len() as u32));
        let config = register(&words, table::SP_CS_CONFIG);
        assert_eq!(config >> 9 & 0xff, count as u32);
        assert_eq!(config >> 17 & 0x1f, samplers.len() as u32);
        // The descriptors that are loaded are inside the argument block.
        let load = loads(&words)
            .into_iter()
            .find(|l| l.state == State::Textures);
        let at = load.and_then(|l| l.address.imm()).expect("an address") - BASE;
        assert!(at as usize + 64 * count <= program.kernargs_size());
    }
}

/// Each dimension, and all together: either limit alone refuses, now and at launch.
#[test]
fn each_size_limit_refuses_alone() {
    let device = device("630");
    // 96 registers for two waves of 64: 24 of them leave room for 512 work-items.
    let with = Kernel {
        full_registers: 24,
        ..kernel()
    };
    let program = prepare(&device, &with).expect("a program");
    assert_eq!(program.max_group(), 512);
    let try_now = |sizes: [u64; 6]| launch(&device, &program, &[], sizes.map(Value::Imm), 0);
    let wrong = [
        // One dimension above 1024; all together above the program's 512; nothing.
        [1, 1, 1, 1025, 1, 1],
        [1, 1, 1, 513, 1, 1],
        [1, 1, 1, 16, 16, 4],
        [1, 1, 1, 1, 0, 1],
        [0, 1, 1, 1, 1, 1],
        [1, 1, 1 << 32, 1, 1, 1],
        // Groups fit, their work-items do not.
        [1 << 31, 1, 1, 2, 1, 1],
        // Products that come out small where they wrap.
        [1, 1, 1, 1 << 32, 1 << 32, 1],
        [1, 1, 1, 1 << 63, 2, 1],
        [1 << 63, 1, 1, 2, 1, 1],
        [1, u64::MAX, 1, 1, 1, 1],
    ];
    for sizes in wrong {
        assert!(try_now(sizes).is_err(), "{sizes:?}");
    }
    let right = [
        [1, 1, 1, 512, 1, 1],
        [70_000, 3, 5, 8, 8, 8],
        [1 << 31, 1, 1, 1, 1, 1],
    ];
    for sizes in right {
        assert!(try_now(sizes).is_ok(), "{sizes:?}");
    }

    let (mut words, mut sites, mut derived) = ([0; 128], [Site::EMPTY; 64], [Derived::EMPTY; 16]);
    let mut list = PatchList::new(&mut sites, &mut derived);
    let vars: [_; 6] = std::array::from_fn(|_| list.var().expect("a variable"));
    let mut memory = vec![0; program.kernargs_size() / 8];
    let mut q = AdrenoCompute::new(&device, &mut words, list);
    let mut region = Region::from_words(&mut memory, BASE);
    record(&mut q, &mut region, &program, &[], vars.map(Value::from), 0).expect("recorded");
    let (len, mut list) = q.finish().finish();
    let mut table = [0; 1024];
    let sizes = [len as u64 * 4, program.kernargs_size() as u64];
    let table = list.build(&sizes, &mut table).expect("a table");
    let mut state = vec![0; table.state_words()];
    let mut patcher = Patcher::new(table, &mut state).expect("room");
    let mut device_words = vec![0; len.div_ceil(2)];
    let mut regions = [
        Region::from_words(&mut device_words, 0),
        Region::from_words(&mut memory, BASE),
    ];
    regions[0].write_words(0, &words[..len]).expect("inside");
    for sizes in right {
        patcher.set_all(vars[0], &sizes).expect("variables");
        patcher.apply(&mut regions).expect("applied");
        let fresh = try_now(sizes).expect("recorded");
        for (i, word) in fresh.iter().enumerate() {
            assert_eq!(regions[0].load_u32(i * 4), Ok(*word), "{sizes:?}: word {i}");
        }
        // The program finds the group's size among its constants.
        for (i, size) in sizes[3..].iter().enumerate() {
            assert_eq!(regions[1].load_u32(0x80 + 4 * i), Ok(*size as u32));
        }
    }
    for sizes in wrong {
        patcher.set_all(vars[0], &sizes).expect("variables");
        let applied = patcher.apply(&mut regions);
        assert!(
            matches!(applied, Err(PatchError::Misfit { .. })),
            "{sizes:?}: {applied:?}"
        );
    }
}

/// An argument block at a multiple of 64 that ends at 2^49 at most.
#[test]
fn argument_blocks_have_limits() {
    let device = device("630");
    let program = prepare(&device, &kernel()).expect("a program");
    let bytes = program.kernargs_size();
    let last = (1u64 << 49) - bytes as u64;
    let sizes = [1, 1, 1, 32, 1, 1].map(Value::Imm);
    let try_at = |address| {
        let (mut words, mut memory) = ([0; 128], vec![0; bytes / 8]);
        let mut region = Region::from_words(&mut memory, address);
        let mut q = AdrenoCompute::new(&device, &mut words, PatchList::none());
        let recorded = record(&mut q, &mut region, &program, &[], sizes, 0);
        assert_eq!(recorded.is_err(), q.words().is_empty());
        recorded
    };
    for address in [0, 64, last] {
        assert_eq!(try_at(address), Ok(()), "{address:#x}");
    }
    for address in [8, 32, BASE + 4, 1 << 49, u64::MAX - 0xfff] {
        let refused = try_at(address);
        let is_block = matches!(
            refused,
            Err(RecordError::Misfit {
                operand: Operand::Kernargs,
                ..
            })
        );
        assert!(is_block, "{address:#x}: {refused:?}");
    }
}

#[test]
fn a_program_with_too_many_registers_is_refused() {
    for (chip, most) in [("630", 96), ("650", 64)] {
        let device = device(chip);
        let with = |full_registers| Kernel {
            full_registers,
            ..kernel()
        };
        // The field has 6 bits, whatever the chip has.
        assert!(prepare(&device, &with(63.min(most))).is_ok());
        assert!(prepare(&device, &with(most + 1)).is_err());
        assert!(prepare(&device, &with(64)).is_err());
    }
    for field in [64, 255] {
        let stack = Kernel {
            branch_stack: field,
            ..kernel()
        };
        assert!(prepare(&device("630"), &stack).is_err());
    }
    for code in [0x5_2000_0040, 1 << 49, !127] {
        let with = Kernel { code, ..kernel() };
        assert!(prepare(&device("630"), &with).is_err(), "{code:#x}");
    }
}

/// Events write and waits compare 32 bits: a larger value would be cut without a word.
#[test]
fn signals_have_32_bits() {
    let device = device("630");
    let mut words = [0; 32];
    let mut q = AdrenoCompute::new(&device, &mut words, PatchList::none());
    let at = SignalAt::from(Value::Imm(0x5_0010_0040));
    let misfit = Misfit::TooLarge {
        value: 1 << 32,
        bits: 32,
    };
    let operand = Operand::Data;
    let refused = RecordError::Misfit { operand, misfit };
    assert_eq!(q.signal(at, (1u64 << 32).into()).err(), Some(refused));
    assert_eq!(q.wait(at, (1u64 << 32).into()).err(), Some(refused));
    for address in [0x5_0010_0048u64, 1 << 49] {
        let at = SignalAt::from(Value::from(address));
        assert!(q.signal(at, 1u64.into()).is_err());
        assert!(q.wait(at, 1u64.into()).is_err());
        assert!(q.timestamp(at).is_err());
    }
    assert!(q.words().is_empty());
}

/// Two words of a number beside each other do not wrap into other registers: text says what is written where.
#[test]
fn a_dispatch_is_readable() {
    let device = device("660");
    let with = Kernel {
        merged_registers: true,
        double_waves: true,
        ..kernel()
    };
    let text = Dump::new(Generation::A6xx, &one_group(&device, &with)).to_string();
    for part in [
        "SP_CS_CTRL_REG0(0xa9b0)=0x80100200{FULLREGFOOTPRINT=0x4 THREADSIZE=0x1 MERGEDREGS=0x1}",
        "HLSQ_CS_NDRANGE_0(0xb990)=0x7f{KERNELDIM=0x3 LOCALSIZEX=0x1f}",
        "HLSQ_CS_CNTL_1(0xb998)=0x2fc{LINEARLOCALIDREGID=0xfc THREADSIZE=0x1}",
        "HLSQ_CS_CNTL(0xb987)=0x140{CONSTLEN=0x40 ENABLED=0x1}",
        "CP_EXEC_CS NGROUPS=0x1,0x1,0x1",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    assert!(!text.contains("??") && !text.contains("reg("), "{text}");
}

#[test]
fn border_colours_have_a_table_and_a_sampler_its_entry() {
    for address in [0x40, 1 << 49] {
        let chip = Chip::named("630").expect("known");
        assert!(Device::new(chip, 0, address).is_err());
        assert!(Device::new(chip, address | 2, 0).is_err());
    }
    let [transparent, black, white] = BorderColor::ALL.map(|c| c.entry());
    assert_eq!(transparent, [0; 32]);
    assert_eq!(black[..4], [0, 0, 0, 0x3f80_0000]);
    assert_eq!(white[..4], [0x3f80_0000; 4]);
    // Every number of white has the bits of black and more; the rest of an entry is unused.
    for (i, (b, w)) in black.iter().zip(white).enumerate() {
        assert_eq!(b & w, *b, "word {i}");
        assert_eq!(w != 0, i < 18, "word {i}");
    }
    let wrap = [Wrap::Repeat, Wrap::ClampToEdge, Wrap::MirrorRepeat];
    let sampler = Sampler::new(wrap, Filter::Linear, true, BorderColor::OpaqueWhite);
    assert_eq!(sampler.words(), [2 | 8 | 1 << 8 | 2 << 11, 0x10, 2 << 7, 0]);
}

/// The command processor writes around the cache that programs read through, and later commands see what was written: the
/// write is waited for, and what the cache holds is let go. Golden data has no such commands.
#[test]
fn writes_and_polls_are_these_words() {
    let device = device("650");
    let mut words = [0; 32];
    let mut q = AdrenoCompute::new(&device, &mut words, PatchList::none());
    let at = Value::Imm(0x5_0010_0048);
    q.write(at, 7u64.into(), WriteWidth::W32)
        .and_then(|q| q.write(at, (1u64 << 32 | 9).into(), WriteWidth::W64))
        .and_then(|q| q.poll_bit(at, 0xf0, 0x30u64.into()))
        .expect("recorded");
    let text = Dump::new(Generation::A6xx, q.words()).to_string();
    let commands: Vec<_> = text.lines().filter_map(|l| l.split_once(": ")).collect();
    let commands: Vec<_> = commands.into_iter().map(|(_, command)| command).collect();
    assert_eq!(
        commands,
        [
            "CP_WAIT_FOR_IDLE",
            "CP_MEM_WRITE ADDR=0x500100048 DATA=0x7 (32 bits)",
            "CP_WAIT_MEM_WRITES",
            "CP_EVENT_WRITE EVENT=CACHE_INVALIDATE",
            "CP_WAIT_FOR_IDLE",
            "CP_MEM_WRITE ADDR=0x500100048 DATA=0x100000009 (64 bits)",
            "CP_WAIT_MEM_WRITES",
            "CP_EVENT_WRITE EVENT=CACHE_INVALIDATE",
            "CP_WAIT_REG_MEM POLL_ADDR=0x500100048 FUNCTION=== REF=0x30 MASK=0xf0 DELAY_LOOP_CYCLES=32",
        ]
    );
}

/// An address that is known at launch is held to the same alignment as one that is known before.
#[test]
fn signals_are_aligned_at_launch_as_well() {
    type Command = fn(&mut AdrenoCompute<'_>, SignalAt) -> Result<(), RecordError>;
    let commands: [Command; 3] = [
        |q, at| q.signal(at, 1u64.into()).map(drop),
        |q, at| q.wait(at, 1u64.into()).map(drop),
        |q, at| q.timestamp(at).map(drop),
    ];
    for (i, command) in commands.into_iter().enumerate() {
        let (mut words, mut sites) = ([0; 32], [Site::EMPTY; 8]);
        let mut list = PatchList::new(&mut sites, &mut []);
        let var = list.var().expect("a variable");
        let mut q = AdrenoCompute::new(&device("630"), &mut words, list);
        command(&mut q, Value::from(var).into()).expect("recorded");
        let (len, mut list) = q.finish().finish();
        let mut table = [0; 64];
        let table = list.build(&[len as u64 * 4], &mut table).expect("a table");
        let mut state = vec![0; table.state_words()];
        let mut patcher = Patcher::new(table, &mut state).expect("room");
        let mut memory = vec![0; len.div_ceil(2)];
        let mut regions = [Region::from_words(&mut memory, 0)];
        for (address, fits) in [
            (0x5_0010_0048, false),
            (0x5_0010_0044, false),
            (1 << 49, false),
            (0x5_0010_0040, true),
        ] {
            patcher.set(var, address).expect("a variable");
            let applied = patcher.apply(&mut regions);
            assert_eq!(applied.is_ok(), fits, "command {i}, {address:#x}");
        }
    }
}
