//! Launches: what does not fit is refused.

use hcq_amd::aql::{self, AqlCompute, Packet as AqlPacket};
use hcq_amd::device::Event;
use hcq_amd::kernel::{Arguments, Kernel, Properties};
use hcq_amd::pm4::program::ProgramError;
use hcq_amd::pm4::{Pm4Compute, Program};
use hcq_amd::scratch::{Need, Scratch};
use hcq_nostd::args::ArgLayout;
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch, Queue, SignalAt};
use hcq_nostd::record::{Block, Operand, RecordError};
use hcq_nostd::value::{Misfit, Value};

use super::lab::*;

#[test]
fn signals_have_32_bits_and_nothing_is_cut() {
    let device = device("gfx942", 8).with_event(Event::new(0x2018, 3).expect("an event"));
    let mut words = [0; 64];
    let mut q = Pm4Compute::new(&device, &mut words, PatchList::none());
    let signal = SignalAt {
        address: 0x1000u64.into(),
        notify: true,
    };
    let large = RecordError::Misfit {
        operand: Operand::Data,
        misfit: Misfit::TooLarge {
            value: 1 << 32,
            bits: 32,
        },
    };
    assert_eq!(q.signal(signal, (1u64 << 32).into()).err(), Some(large));
    assert_eq!(q.wait(signal, (1u64 << 32).into()).err(), Some(large));
    assert!(q.words().is_empty());
}

#[test]
fn sizes_that_do_not_fit_are_refused() {
    let device = device("gfx1100", 1);
    let kernel = Kernel {
        max_group: 256,
        ..KERNEL
    };
    let program = Program::new(&device, &kernel, ARGUMENTS, &Scratch::NONE, 0).expect("a program");
    let size = |groups, local| launch(&device, &program, (AT, groups, local), 0).err();
    let misfit = |operand, misfit| Some(RecordError::Misfit { operand, misfit });
    let zero = Misfit::TooSmall { value: 0, least: 1 };
    assert_eq!(size([1, 0, 1], ONE), misfit(Operand::Groups(1), zero));
    assert_eq!(size(ONE, [1, 1, 0]), misfit(Operand::Local(2), zero));
    let large = Misfit::TooLarge {
        value: 1 << 32,
        bits: 32,
    };
    assert_eq!(
        size([1 << 32, 1, 1], ONE),
        misfit(Operand::Groups(0), large)
    );
    let limit = |value| {
        Some(RecordError::Limit {
            operand: Operand::Local(3),
            value,
            max: 256,
        })
    };
    assert_eq!(size(ONE, [257, 1, 1]), limit(257));
    assert_eq!(size(ONE, [16, 4, 5]), limit(320));
    assert_eq!(size(ONE, [u64::MAX, 2, 1]), limit(u64::MAX));
    assert_eq!(size([u32::MAX.into(), 1, 1], [256, 1, 1]), None);
}

/// A kernel that was prepared for less scratch memory than it needs does not run.
#[test]
fn scratch_memory_is_as_large_as_the_kernel_needs() {
    let kernel = Kernel {
        private_bytes: 0x101,
        ..KERNEL
    };
    let need = Need {
        bytes: 0x1000,
        lane_bytes: 0x100,
        tmpring_size: 0,
    };
    let scratch = Scratch::new(0x1_0000, &need).expect("memory");
    for xccs in [1, 8] {
        let device = device("gfx942", xccs);
        let refused = Program::new(&device, &kernel, ARGUMENTS, &scratch, 0).err();
        assert_eq!(
            refused,
            Some(ProgramError::Scratch {
                need: 0x101,
                have: 0x100
            })
        );
        let refused = aql::Program::new(&device, &kernel, ARGUMENTS, &scratch).err();
        assert_eq!(
            refused,
            Some(ProgramError::Scratch {
                need: 0x101,
                have: 0x100
            })
        );
    }
}

#[test]
fn what_a_queue_cannot_fill_in_is_refused() {
    let device = device("gfx942", 1);
    let new = |properties, rsrc2| {
        let kernel = Kernel {
            properties,
            rsrc: [0, rsrc2, 0],
            ..KERNEL
        };
        Program::new(&device, &kernel, ARGUMENTS, &Scratch::NONE, 0).err()
    };
    for property in [
        Properties::QUEUE_PTR,
        Properties::DISPATCH_ID,
        Properties::FLAT_SCRATCH_INIT,
    ] {
        assert_eq!(
            new(property, 0x1390),
            Some(ProgramError::Unsupported(property))
        );
    }
    assert_eq!(
        new(Properties::WAVEFRONT_SIZE32, 0x1390),
        Some(ProgramError::WaveSize)
    );
    let wants = Properties::KERNARG_SEGMENT_PTR
        | Properties::DISPATCH_PTR
        | Properties::PRIVATE_SEGMENT_SIZE;
    assert_eq!(
        new(wants, 4 << 1),
        Some(ProgramError::UserSgprs { need: 5, have: 4 })
    );
    assert_eq!(new(wants, 5 << 1), None);
    let odd = Kernel {
        entry: 0x80,
        ..KERNEL
    };
    assert!(Program::new(&device, &odd, ARGUMENTS, &Scratch::NONE, 0).is_err());
    assert!(Program::new(&device, &KERNEL, ARGUMENTS, &Scratch::NONE, 1 << 10).is_err());
    let short = Kernel {
        kernarg_bytes: 0,
        ..KERNEL
    };
    let layout = ArgLayout {
        size: 8,
        ..ARGUMENTS.layout
    };
    let refused = Program::new(
        &device,
        &short,
        Arguments {
            layout,
            hidden: &[],
        },
        &Scratch::NONE,
        0,
    )
    .err();
    assert_eq!(refused, Some(ProgramError::Arguments { end: 12, bytes: 8 }));
}

/// How much it takes is not known: what is there is what it gets, and nothing is too little.
#[test]
fn a_stack_that_grows_needs_scratch_memory() {
    let properties = KERNEL.properties | Properties::USES_DYNAMIC_STACK;
    let kernel = Kernel {
        properties,
        ..KERNEL
    };
    let device = device("gfx1100", 1);
    let refused = Program::new(&device, &kernel, ARGUMENTS, &Scratch::NONE, 0).err();
    assert_eq!(refused, Some(ProgramError::Scratch { need: 1, have: 0 }));
    let need = Need {
        bytes: 0x1000,
        lane_bytes: 4,
        tmpring_size: 0,
    };
    let scratch = Scratch::new(0x1_0000, &need).expect("memory");
    assert!(Program::new(&device, &kernel, ARGUMENTS, &scratch, 0).is_ok());
}

/// A grid in work-items has 32 bits, and the product of what is known does not wrap.
#[test]
fn aql_grids_do_not_wrap() {
    let device = device("gfx1100", 1);
    let program =
        aql::Program::new(&device, &KERNEL, ARGUMENTS, &Scratch::NONE).expect("a program");
    let (mut words, mut packets, mut memory) = ([0; 8], [0; 16], [0; 4]);
    let mut run = |groups: u64, local: u64| {
        let packets = Region::from_words(&mut packets, 0);
        let mut q = AqlCompute::new(
            &device,
            &mut words,
            0u64.into(),
            packets,
            RegionId(1),
            PatchList::none(),
        );
        let mut region = Region::from_words(&mut memory, AT);
        let kernargs = Block::new(&mut region, RegionId(2), 0, 16).expect("inside");
        let (groups, local) = (
            [groups, 1, 1].map(Value::from),
            [local, 1, 1].map(Value::from),
        );
        let launch = Launch {
            program: &program,
            args: &args(),
            kernargs,
            groups,
            local,
            local_memory: 0,
        };
        let result = q.exec(launch).map(|_| ());
        assert_eq!(q.packets(), usize::from(result.is_ok()));
        result
    };
    assert_eq!(run(0xff_ffff, 256), Ok(()));
    assert!(run(0x100_0000, 256).is_err());
    assert!(run(1 << 62, 8).is_err());
    assert!(run(0, 8).is_err() && run(8, 0).is_err());
    let words: Vec<u32> = packets
        .iter()
        .flat_map(|w| [*w as u32, (*w >> 32) as u32])
        .collect();
    assert!(AqlPacket::decode(words.first_chunk().expect("one")).is_ok());
}
