//! What the NVIDIA parts of other runtimes get wrong, each with a test that names it. (Ring room, GPGet and empty queues are
//! tested here as a channel sees them, and beside the ring.)

mod lab;
mod launches;
mod refusals;

use hcq_nostd::mem::Region;
use hcq_nostd::patch::{Derived, PatchList, RegionId, Site};
use hcq_nostd::queue::{CopyQueue, Queue, WriteWidth};
use hcq_nostd::record::{Operand, RecordError};
use hcq_nostd::value::{Misfit, Value, Var};
use hcq_nv::chips::{CHIPS, Chip, Generation};
use hcq_nv::compute::{NvCompute, Program, ProgramError, Qmds};
use hcq_nv::copy::NvCopy;
use hcq_nv::cubin::Cubin;
use hcq_nv::device::Device;
use hcq_nv::dump::Dump;
use hcq_nv::gpfifo::{GpFifo, SubmitError};
use hcq_nv::kernel::{Bank, Kernel};
use hcq_nv::local_memory::LocalMemory;
use hcq_nv::qmd::Fields;

use lab::*;

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
