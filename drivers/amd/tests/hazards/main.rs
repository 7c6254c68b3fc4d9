//! What the AMD parts of other runtimes get wrong, each with a test that names it. (Ring room is tested beside the rings.)

mod lab;
mod launches;

use hcq_amd::aql::{self, AqlCompute};
use hcq_amd::code_object::{CodeObject, KernelDescriptor, LoadError};
use hcq_amd::device::HdpClient;
use hcq_amd::kernel::{Kernel, Properties};
use hcq_amd::pm4::acquire_mem::{AcquireMem, Caches, GcrCntl, Range};
use hcq_amd::pm4::indirect_buffer::IndirectBuffer;
use hcq_amd::pm4::nop::Nop;
use hcq_amd::pm4::wait_reg_mem::Poll;
use hcq_amd::pm4::{Packet, Pm4Compute, Program};
use hcq_amd::scratch::{Need, Scratch, ScratchError, Topology};
use hcq_amd::sdma;
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Program as _, Queue};
use hcq_nostd::record::{Operand, RecordError, Recorder};
use hcq_nostd::value::{Misfit, Value};

use lab::*;

#[test]
fn indirect_buffers_and_nops_longer_than_their_fields_are_refused() {
    assert!(IndirectBuffer::new(0x1000u64.into(), 0xf_ffff).is_ok());
    assert!(IndirectBuffer::new(0x1000u64.into(), 0x10_0000).is_err());
    assert!(Nop::new(0x3fff).is_ok());
    assert!(Nop::new(0x4000).is_err());
}

#[test]
#[cfg_attr(miri, ignore = "a million words take minutes")]
fn a_vendor_packet_runs_20_bits_of_words_at_most() {
    let mut words = vec![0; 0x10_0010];
    let mut packets = [0; 16];
    let packets = Region::from_words(&mut packets, 0);
    let buffer = 0x1_0000_0000u64.into();
    let mut q = AqlCompute::new(
        &device("gfx1100", 1),
        &mut words,
        buffer,
        packets,
        RegionId(1),
        PatchList::none(),
    );
    let wait = |q: &mut AqlCompute<'_>| {
        q.wait(Value::from(0x1000u64).into(), 1u64.into())
            .map(|_| ())
    };
    for _ in 0..0xf_ffff / 7 {
        wait(&mut q).expect("room");
    }
    let limit = RecordError::Limit {
        operand: Operand::Length,
        value: 0x10_0003,
        max: 0xf_ffff,
    };
    let before = (q.words().len(), q.packets());
    assert_eq!(wait(&mut q), Err(limit));
    assert_eq!((q.words().len(), q.packets()), before);
}

#[test]
fn acquire_ranges_count_256_bytes_and_their_size_has_40_bits() {
    let mut words = [0; 8];
    let mut recorder = Recorder::new(&mut words, PatchList::none());
    let range = Range::new(0x123_4567_8900, 0x1_2340_0000).expect("whole units");
    let packet = AcquireMem {
        range,
        ..AcquireMem::all(Caches::Gfx10(GcrCntl::GL2_WB))
    };
    recorder
        .command(|c| {
            packet.record(c);
            Ok(())
        })
        .expect("room");
    assert_eq!(words[2..6], [0x0123_4000, 0, 0x2345_6789, 1]);
    assert!(Range::new(0x10, 0x100).is_err() && Range::new(0, 0x80).is_err());
    assert_eq!(Range::ALL.bytes(), (1 << 48) - 0x100);
}

#[test]
fn group_memory_counts_in_the_chips_own_granule() {
    let descriptor = |group: u32| {
        let mut bytes = [0; KernelDescriptor::BYTES];
        bytes[..4].copy_from_slice(&group.to_le_bytes());
        bytes[52..56].copy_from_slice(&0x84u32.to_le_bytes());
        KernelDescriptor::parse(&bytes).expect("64 bytes")
    };
    let lds = |name, group| {
        descriptor(group)
            .kernel(chip(name), 0, 0)
            .map(|k| k.rsrc[1] >> 15)
    };
    assert_eq!(lds("gfx942", 64 << 10), Ok(128));
    assert_eq!(
        lds("gfx942", (64 << 10) + 1),
        Err(LoadError::GroupMemory {
            bytes: (64 << 10) + 1
        })
    );
    assert_eq!(lds("gfx950", 1281), Ok(2));
    assert_eq!(lds("gfx950", 160 << 10), Ok(128));
    assert!(lds("gfx950", (160 << 10) + 1).is_err());

    // Memory that a launch adds counts the same way.
    for (name, granules) in [("gfx942", 5), ("gfx950", 2)] {
        let device = device(name, 1);
        let kernel = Kernel {
            group_bytes: 2048,
            rsrc: [0, 0x1390 | 4 << 15, 0],
            ..KERNEL
        };
        let program =
            Program::new(&device, &kernel, ARGUMENTS, &Scratch::NONE, 0).expect("a program");
        let words = launch(&device, &program, (AT, ONE, ONE), 100).expect("room");
        assert_eq!(
            value(&words, device.registers().pgm_rsrc1 + 1),
            [0x1390 | granules << 15],
            "{name}"
        );
        let limit = launch(&device, &program, (AT, ONE, ONE), 160 << 10);
        assert!(matches!(
            limit,
            Err(RecordError::Limit {
                operand: Operand::LocalMemory,
                ..
            })
        ));
    }
}

#[test]
fn wave_sizes_that_tmpring_size_cannot_hold_are_refused() {
    let topology = Topology {
        xccs: 1,
        ses_per_xcc: 4,
        cus_per_xcc: 32,
        slots_per_cu: 32,
    };
    for (name, most) in [
        ("gfx942", ((1 << 13) - 1) * 16),
        ("gfx1100", ((1 << 15) - 1) * 4),
        ("gfx1201", ((1 << 18) - 1) * 4),
    ] {
        let need = Need::new(chip(name), &topology, most).expect("the most");
        assert_eq!(
            need.tmpring_size >> 12,
            most * 64 / chip(name).tmpring.unit,
            "{name}"
        );
        let more = Need::new(chip(name), &topology, most + 1);
        assert!(
            matches!(more, Err(ScratchError::WaveSize(_))),
            "{name}: {more:?}"
        );
    }
    assert!(Need::new(chip("gfx942"), &topology, u32::MAX).is_err());
}

/// In user registers and in the queue: swizzle bits, word 3, and lanes interleaved as wide as the wave.
#[test]
fn private_segment_descriptors_are_each_generations_own() {
    let need = Need {
        bytes: 8 << 20,
        lane_bytes: 16,
        tmpring_size: 0,
    };
    let scratch = Scratch::new(0x7d12_3456_0000, &need).expect("memory");
    let properties = KERNEL.properties | Properties::PRIVATE_SEGMENT_BUFFER;
    for (name, wave32, word1, word3) in [
        ("gfx942", false, 0x8000_7d12, 0x00ea_4fac),
        ("gfx1100", true, 0x4000_7d12, 0x20c1_4fac),
        ("gfx1100", false, 0x4000_7d12, 0x20e1_4fac),
        ("gfx1201", true, 0x4000_7d12, 0x20c1_4fac),
    ] {
        let device = device(name, 1);
        let mut properties = properties;
        properties.set(Properties::WAVEFRONT_SIZE32, wave32);
        let kernel = Kernel {
            properties,
            private_bytes: 16,
            ..KERNEL
        };
        let program = Program::new(&device, &kernel, ARGUMENTS, &scratch, 0).expect("a program");
        let words = launch(&device, &program, (AT, ONE, ONE), 0).expect("room");
        let user = device.registers().user_data_0;
        let got: Vec<u32> = (user..user + 6).flat_map(|r| value(&words, r)).collect();
        assert_eq!(
            got,
            [
                0x3456_0000,
                word1,
                u32::MAX,
                word3,
                AT as u32,
                (AT >> 32) as u32
            ],
            "{name}"
        );
    }
    // On several XCCs each has its own memory, and so its own descriptor.
    let eight = device("gfx942", 8);
    let kernel = Kernel {
        properties,
        private_bytes: 16,
        ..KERNEL
    };
    let program = Program::new(&eight, &kernel, ARGUMENTS, &scratch, 0).expect("a program");
    let words = launch(&eight, &program, (AT, ONE, ONE), 0).expect("room");
    let bases: Vec<u32> = (0..8).map(|xcc| 0x3456_0000 + xcc * (1 << 20)).collect();
    assert_eq!(value(&words, eight.registers().user_data_0), bases);
    let scratch_bases: Vec<u32> = (0..8)
        .map(|xcc| ((0x7d12_3456_0000u64 + (xcc << 20)) >> 8) as u32)
        .collect();
    assert_eq!(
        value(&words, eight.registers().dispatch_scratch_base_lo),
        scratch_bases
    );

    let queue = |name| scratch.queue_descriptor(chip(name), 1).expect("32 bits");
    assert_eq!(
        queue("gfx942"),
        [0x3456_0000, 0x8000_7d12, 8 << 20, 0x00ea_4fac]
    );
    // The packet processor fills in how lanes are interleaved.
    assert_eq!(
        queue("gfx1100"),
        [0x3456_0000, 0x4000_7d12, 8 << 20, 0x2081_4fac]
    );
}

#[test]
fn sdma_copies_as_much_as_its_full_version_can() {
    let most = |a, b, c| sdma::Version::new(a, b, c).max_copy().ok();
    assert_eq!(most(4, 4, 2), Some(4 << 20));
    assert_eq!(most(5, 0, 0), Some(4 << 20));
    assert_eq!(most(5, 2, 0), Some(4 << 20), "22 bits, not 30");
    assert_eq!(most(6, 0, 0), Some(1 << 30));
    assert_eq!(most(7, 0, 1), Some(1 << 30));
    assert_eq!(most(4, 0, 0), None);
}

#[test]
fn argument_blocks_lie_at_16_bytes_and_the_packet_behind_them_at_8() {
    let device = device("gfx1100", 1);
    let program = Program::new(&device, &KERNEL, ARGUMENTS, &Scratch::NONE, 0).expect("a program");
    assert_eq!(
        (program.kernargs_size(), program.kernargs_align()),
        (12, 16)
    );
    let misaligned = RecordError::Misfit {
        operand: Operand::Kernargs,
        misfit: Misfit::Misaligned {
            value: AT + 8,
            align_log2: 4,
        },
    };
    assert_eq!(
        launch(&device, &program, (AT + 8, ONE, ONE), 0),
        Err(misaligned)
    );

    let properties = KERNEL.properties | Properties::DISPATCH_PTR;
    let kernel = Kernel {
        properties,
        ..KERNEL
    };
    let program = Program::new(&device, &kernel, ARGUMENTS, &Scratch::NONE, 0).expect("a program");
    assert_eq!(program.kernargs_size(), 16 + 64);
    let words = launch(&device, &program, (AT, ONE, ONE), 0).expect("room");
    let user = device.registers().user_data_0;
    assert_eq!(
        value(&words, user),
        [(AT + 16) as u32],
        "the dispatch pointer comes first"
    );
    assert_eq!(value(&words, user + 2), [AT as u32]);

    let aql = aql::Program::new(&device, &KERNEL, ARGUMENTS, &Scratch::NONE).expect("a program");
    assert_eq!(aql.kernargs_align(), 16);
}

/// The objects of saxpy have a constant in front of the descriptor, `many-v5.o` has three kernels.
#[test]
fn kernels_are_found_by_their_kd_symbols() {
    let data = include_bytes!("../../../../tests/vectors/objects/saxpy-gfx1100.co");
    let saxpy = CodeObject::parse(data)
        .expect("an object")
        .kernel("saxpy")
        .expect("the kernel");
    assert_eq!(saxpy.descriptor_at % 0x100, 0x40);
    let data = include_bytes!("../objects/many-v5.o");
    let many = CodeObject::parse(data).expect("an object");
    let at = |name| many.kernel(name).expect(name).descriptor_at;
    assert_eq!(
        [at("first"), at("second"), at("third")],
        [0x400, 0x440, 0x480]
    );
}

#[test]
fn an_hdp_flush_waits_for_its_own_engine_only() {
    for (me, pipe, bit) in [(1, 0, 2), (1, 3, 5), (2, 0, 6), (2, 3, 9)] {
        let client = HdpClient::compute(me, pipe).expect("a compute pipe");
        let device = device("gfx1100", 1).with_hdp_client(client);
        let mut words = [0; 32];
        let mut q = Pm4Compute::new(&device, &mut words, PatchList::none());
        q.memory_barrier().expect("room");
        let (packet, _) = Packet::decode(q.words()).expect("packets");
        let Packet::WaitRegMem(wait) = packet else {
            panic!("{packet:?}")
        };
        assert_eq!(
            wait.poll,
            Poll::Request {
                request: 0xe26,
                done: 0xe27
            }
        );
        assert_eq!(
            (wait.reference, wait.mask),
            (Value::Imm(1 << bit), 1 << bit)
        );
    }
    assert_eq!(
        (
            HdpClient::compute(0, 0),
            HdpClient::compute(3, 0),
            HdpClient::compute(1, 4)
        ),
        (None, None, None)
    );
}
