//! Hopper's launch descriptor against a second reading of NVIDIA's header.
//!
//! There are no golden descriptors of version 4.0. The table below was read from `clcbc0qmd.h`
//! (`NVCBC0_QMDV04_00_*`) by hand, apart from the generated one that the driver uses; bits are taken out of descriptors
//! with arithmetic of this file.

use hcq_nostd::args::{Arg, ArgLayout, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _, Queue, SignalAt};
use hcq_nostd::record::Block;
use hcq_nv::chips::Chip;
use hcq_nv::compute::{NvCompute, Program, Qmds};
use hcq_nv::device::Device;
use hcq_nv::kernel::{Bank, Kernel, Local, Origin};
use hcq_nv::local_memory::{LocalMemory, Need, Topology};
use hcq_nv::qmd::V4_0;

/// Names, highest and lowest bits.
const HEADER: &[(&str, usize, usize)] = &[
    ("QMD_GROUP_ID", 21, 16),
    ("QMD_TYPE", 25, 23),
    ("RELEASE_ENABLE", 320, 320),
    ("RELEASE_STRUCTURE_SIZE", 322, 321),
    ("RELEASE_MEMBAR_TYPE", 323, 323),
    ("RELEASE_TRAP_TYPE", 331, 330),
    ("RELEASE_PAYLOAD64B", 332, 332),
    ("DEPENDENT_QMD_ENABLE", 368, 368),
    ("DEPENDENT_QMD_ACTION", 371, 369),
    ("DEPENDENT_QMD_PREFETCH", 372, 372),
    ("CONSTANT_BUFFER_VALID", 416, 416),
    ("CONSTANT_BUFFER_INVALIDATE", 419, 419),
    ("DEPENDENT_QMD0_POINTER", 479, 448),
    ("SHADER_LOCAL_MEMORY_LOW_SIZE", 535, 512),
    ("SASS_VERSION", 543, 536),
    ("SHADER_LOCAL_MEMORY_HIGH_SIZE", 567, 544),
    ("API_VISIBLE_CALL_LIMIT", 568, 568),
    ("SAMPLER_INDEX", 569, 569),
    ("QMD_MINOR_VERSION", 579, 576),
    ("QMD_MAJOR_VERSION", 583, 580),
    ("SHARED_MEMORY_SIZE", 601, 584),
    ("INVALIDATE_TEXTURE_HEADER_CACHE", 602, 602),
    ("INVALIDATE_TEXTURE_SAMPLER_CACHE", 603, 603),
    ("INVALIDATE_TEXTURE_DATA_CACHE", 604, 604),
    ("INVALIDATE_SHADER_DATA_CACHE", 605, 605),
    ("INVALIDATE_INSTRUCTION_CACHE", 606, 606),
    ("INVALIDATE_SHADER_CONSTANT_CACHE", 607, 607),
    ("MIN_SM_CONFIG_SHARED_MEM_SIZE", 613, 608),
    ("MAX_SM_CONFIG_SHARED_MEM_SIZE", 619, 614),
    ("TARGET_SM_CONFIG_SHARED_MEM_SIZE", 625, 620),
    ("RELEASE_SEMAPHORE0_ADDR_LOWER", 671, 640),
    ("RELEASE_SEMAPHORE0_ADDR_UPPER", 696, 672),
    ("RELEASE_SEMAPHORE0_PAYLOAD_LOWER", 735, 704),
    ("RELEASE_SEMAPHORE0_PAYLOAD_UPPER", 767, 736),
    ("RELEASE_SEMAPHORE1_ADDR_LOWER", 799, 768),
    ("RELEASE_SEMAPHORE1_ADDR_UPPER", 824, 800),
    ("RELEASE_SEMAPHORE1_PAYLOAD_LOWER", 863, 832),
    ("RELEASE_SEMAPHORE1_PAYLOAD_UPPER", 895, 864),
    ("GRID_WIDTH", 1055, 1024),
    ("GRID_HEIGHT", 1071, 1056),
    ("GRID_DEPTH", 1103, 1088),
    ("CWD_MEMBAR_TYPE", 1137, 1136),
    ("CTA_THREAD_DIMENSION0", 1167, 1152),
    ("CTA_THREAD_DIMENSION1", 1183, 1168),
    ("CTA_THREAD_DIMENSION2", 1199, 1184),
    ("REGISTER_COUNT", 1208, 1200),
    ("BARRIER_COUNT", 1215, 1211),
    ("PROGRAM_ADDRESS_LOWER", 1247, 1216),
    ("PROGRAM_ADDRESS_UPPER", 1272, 1248),
    ("PROGRAM_PREFETCH_ADDR_LOWER_SHIFTED", 1375, 1344),
    ("PROGRAM_PREFETCH_ADDR_UPPER_SHIFTED", 1392, 1376),
    ("PROGRAM_PREFETCH_SIZE", 1401, 1393),
    ("CONSTANT_BUFFER_ADDR_LOWER_SHIFTED6", 1567, 1536),
    ("CONSTANT_BUFFER_ADDR_UPPER_SHIFTED6", 1586, 1568),
    ("CONSTANT_BUFFER_SIZE_SHIFTED4", 1599, 1587),
];

/// Bits from one to the next: releases' flags, dependent launches' flags, banks' flags, banks.
const RELEASE: usize = 16;
const BANK_FLAGS: usize = 4;
const BANK: usize = 64;

fn place(name: &str) -> (usize, usize) {
    let mut rows = HEADER.iter();
    let row = rows.find(|row| row.0 == name);
    let &(_, high, low) = row.unwrap_or_else(|| panic!("{name} is not in the table"));
    (high, low)
}

/// The bits of a field, `further` bits behind its place.
fn bits_at(qmd: &[u8], name: &str, further: usize) -> u64 {
    let (high, low) = place(name);
    let bit = |n: usize| u64::from(qmd[n / 8] >> (n % 8) & 1);
    (low..=high)
        .rev()
        .fold(0, |all, n| all << 1 | bit(n + further))
}

fn bits(qmd: &[u8], name: &str) -> u64 {
    bits_at(qmd, name, 0)
}

#[test]
fn the_generated_table_says_the_same() {
    assert_eq!((V4_0.major, V4_0.minor, V4_0.words), (4, 0, 96));
    for (name, high, low) in HEADER {
        let mut rows = V4_0.rows.iter();
        let row = rows.find(|row| row.name == *name);
        let row = row.unwrap_or_else(|| panic!("{name} is in no row"));
        assert_eq!(usize::from(row.low), *low, "{name}");
        assert_eq!(usize::from(row.width), high - low + 1, "{name}");
    }
}

const CODE: u64 = 0x01ab_cdef_1234_5600;
const BANK_3: u64 = 0x0123_4567_89ab_cd40;
const KERNARGS: u64 = 0x0198_7654_3210_ff00;
const QMD: u64 = 0x87_6543_2100;

/// Two launches, the second after the first, and two signals between.
fn launches() -> (Vec<u8>, Vec<u32>) {
    let device = Device::new(Chip::named("gh100").expect("a chip"));
    let mut banks = [None; 8];
    banks[0] = Some(Bank {
        address: 0,
        bytes: 0x218,
    });
    banks[3] = Some(Bank {
        address: BANK_3,
        bytes: 0x9001,
    });
    let kernel = Kernel {
        entry: CODE,
        code_bytes: 0x1234,
        registers: 40,
        barriers: 3,
        shared_bytes: 0x8401,
        local: Local::High(0x300),
        banks,
        arguments_at: 0x210,
        max_group: 1024,
        block: None,
        origin: Origin::Cuda,
    };
    let slots = [ArgSlot::buffer(0x210)];
    let layout = ArgLayout {
        slots: &slots,
        size: 0x218,
        align: 256,
    };
    let topology = Topology {
        gpcs: 8,
        tpcs_per_gpc: 9,
        sms_per_tpc: 2,
        warps_per_sm: 64,
    };
    let need = Need::new(&topology, 0x300).expect("a size");
    let local = LocalMemory::new(device.chip(), 1 << 40, &need).expect("memory");
    let program = Program::new(&device, &kernel, layout, &local).expect("a program");

    let (mut words, mut qmds) = ([0; 64], [0u64; 128]);
    let memory = Region::from_words(&mut qmds, QMD);
    let mut q = NvCompute::new(
        &device,
        &mut words,
        Qmds::new(memory, RegionId(1)),
        PatchList::none(),
    );
    let mut block = [0u64; 80];
    let mut kernargs = Region::from_words(&mut block, KERNARGS);
    for _ in 0..2 {
        let launch = Launch {
            program: &program,
            args: &[Arg::Buffer(7u64.into())],
            kernargs: Block::new(&mut kernargs, RegionId(2), 0, program.kernargs_size())
                .expect("inside"),
            groups: [0x1234_5678u64, 0xfedc, 0x8001].map(Into::into),
            local: [8u64, 5, 25].map(Into::into),
            local_memory: 0,
        };
        q.exec(launch).expect("room");
        for (n, notify) in [(0, false), (1, true)] {
            let address = (0x0111_2233_4455_6670u64 + n * 0x10).into();
            let value = 0x7a5a_5a5a_1111_0000 + n;
            q.signal(SignalAt { address, notify }, value.into())
                .expect("room");
        }
    }
    let words = q.words().to_vec();
    let bytes = qmds.iter().flat_map(|w| w.to_le_bytes()).collect();
    (bytes, words)
}

#[test]
fn a_launch_has_its_numbers_where_the_header_says() {
    let (qmd, words) = launches();
    // One launch has methods, the other one follows it.
    assert_eq!(words, [0x2001_20ad, (QMD >> 8) as u32, 0x2001_20b0, 9]);
    for (name, want) in [
        ("QMD_MAJOR_VERSION", 4),
        ("QMD_MINOR_VERSION", 0),
        ("QMD_GROUP_ID", 0x3f),
        ("QMD_TYPE", 2),
        ("API_VISIBLE_CALL_LIMIT", 1),
        ("SAMPLER_INDEX", 1),
        ("CWD_MEMBAR_TYPE", 1),
        ("INVALIDATE_TEXTURE_HEADER_CACHE", 1),
        ("INVALIDATE_TEXTURE_SAMPLER_CACHE", 1),
        ("INVALIDATE_TEXTURE_DATA_CACHE", 1),
        ("INVALIDATE_SHADER_DATA_CACHE", 1),
        ("INVALIDATE_INSTRUCTION_CACHE", 0),
        ("INVALIDATE_SHADER_CONSTANT_CACHE", 0),
        ("SASS_VERSION", 0x90),
        ("GRID_WIDTH", 0x1234_5678),
        ("GRID_HEIGHT", 0xfedc),
        ("GRID_DEPTH", 0x8001),
        ("CTA_THREAD_DIMENSION0", 8),
        ("CTA_THREAD_DIMENSION1", 5),
        ("CTA_THREAD_DIMENSION2", 25),
        ("REGISTER_COUNT", 40),
        ("BARRIER_COUNT", 3),
        ("PROGRAM_ADDRESS_LOWER", CODE & 0xffff_ffff),
        ("PROGRAM_ADDRESS_UPPER", CODE >> 32),
        (
            "PROGRAM_PREFETCH_ADDR_LOWER_SHIFTED",
            CODE >> 8 & 0xffff_ffff,
        ),
        ("PROGRAM_PREFETCH_ADDR_UPPER_SHIFTED", CODE >> 40),
        ("PROGRAM_PREFETCH_SIZE", 0x12),
        ("SHADER_LOCAL_MEMORY_HIGH_SIZE", 0x300),
        ("SHADER_LOCAL_MEMORY_LOW_SIZE", 0),
        // Rounded up to 128 bytes; 33 KiB need the configuration of 64.
        ("SHARED_MEMORY_SIZE", 0x8480),
        ("MIN_SM_CONFIG_SHARED_MEM_SIZE", 64 / 4 + 1),
        ("TARGET_SM_CONFIG_SHARED_MEM_SIZE", 64 / 4 + 1),
        ("MAX_SM_CONFIG_SHARED_MEM_SIZE", 228 / 4 + 1),
        (
            "CONSTANT_BUFFER_ADDR_LOWER_SHIFTED6",
            KERNARGS >> 6 & 0xffff_ffff,
        ),
        ("CONSTANT_BUFFER_ADDR_UPPER_SHIFTED6", KERNARGS >> 38),
        ("CONSTANT_BUFFER_SIZE_SHIFTED4", 0x22),
        ("RELEASE_SEMAPHORE0_ADDR_LOWER", 0x4455_6670),
        ("RELEASE_SEMAPHORE0_ADDR_UPPER", 0x0111_2233),
        ("RELEASE_SEMAPHORE0_PAYLOAD_LOWER", 0x1111_0000),
        ("RELEASE_SEMAPHORE0_PAYLOAD_UPPER", 0x7a5a_5a5a),
        ("RELEASE_SEMAPHORE1_ADDR_LOWER", 0x4455_6680),
        ("RELEASE_SEMAPHORE1_ADDR_UPPER", 0x0111_2233),
        ("RELEASE_SEMAPHORE1_PAYLOAD_LOWER", 0x1111_0001),
        ("RELEASE_SEMAPHORE1_PAYLOAD_UPPER", 0x7a5a_5a5a),
        ("DEPENDENT_QMD_ENABLE", 1),
        ("DEPENDENT_QMD_ACTION", 1),
        ("DEPENDENT_QMD_PREFETCH", 1),
        ("DEPENDENT_QMD0_POINTER", (QMD + 512) >> 8),
    ] {
        assert_eq!(bits(&qmd, name), want, "{name}");
    }
    for (n, trap) in [(0, 0), (1, 1)] {
        for (name, want) in [
            ("RELEASE_ENABLE", 1),
            ("RELEASE_PAYLOAD64B", 1),
            ("RELEASE_STRUCTURE_SIZE", 0),
            ("RELEASE_MEMBAR_TYPE", 0),
            ("RELEASE_TRAP_TYPE", trap),
        ] {
            assert_eq!(bits_at(&qmd, name, n * RELEASE), want, "{name} {n}");
        }
    }
    for n in 0..8 {
        let valid = u64::from(n == 0 || n == 3);
        assert_eq!(
            bits_at(&qmd, "CONSTANT_BUFFER_VALID", n * BANK_FLAGS),
            valid,
            "{n}"
        );
        let first = u64::from(n == 0);
        assert_eq!(
            bits_at(&qmd, "CONSTANT_BUFFER_INVALIDATE", n * BANK_FLAGS),
            first,
            "{n}"
        );
    }
    for (name, want) in [
        (
            "CONSTANT_BUFFER_ADDR_LOWER_SHIFTED6",
            BANK_3 >> 6 & 0xffff_ffff,
        ),
        ("CONSTANT_BUFFER_ADDR_UPPER_SHIFTED6", BANK_3 >> 38),
        ("CONSTANT_BUFFER_SIZE_SHIFTED4", 0x901),
    ] {
        assert_eq!(bits_at(&qmd, name, 3 * BANK), want, "{name} of bank 3");
    }
}

/// Nothing is set that the table above does not name.
#[test]
fn a_launch_sets_nothing_else() {
    let (qmd, _) = launches();
    let mut rest = qmd[..384].to_vec();
    let mut clear = |low: usize, high: usize| {
        for n in low..=high {
            rest[n / 8] &= !(1 << (n % 8));
        }
    };
    for (name, high, low) in HEADER {
        let copies: &[usize] = match *name {
            n if n.starts_with("RELEASE_") && !n.contains("SEMAPHORE") => &[0, RELEASE],
            "CONSTANT_BUFFER_VALID" => &[0, 3 * BANK_FLAGS],
            n if n.contains("SHIFTED") && n.starts_with("CONSTANT") => &[0, 3 * BANK],
            _ => &[0],
        };
        for further in copies {
            clear(low + further, high + further);
        }
    }
    assert_eq!(rest, vec![0; 384]);
    // The second one hangs on nothing and nothing hangs on it.
    assert_eq!(bits(&qmd[512..], "DEPENDENT_QMD_ENABLE"), 0);
    assert_eq!(bits(&qmd[512..], "GRID_WIDTH"), 0x1234_5678);
}
