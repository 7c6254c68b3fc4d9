//! Kernels, launches, and the registers that they set.

use hcq_amd::chips::Chip;
use hcq_amd::device::Device;
use hcq_amd::kernel::{Arguments, Kernel, MAX_GROUP, Properties};
use hcq_amd::pm4::{Packet, Pm4Compute, Program};
use hcq_nostd::args::{Arg, ArgLayout, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _};
use hcq_nostd::record::{Block, RecordError};
use hcq_nostd::value::Value;

pub(crate) fn chip(name: &str) -> &'static Chip {
    Chip::named(name).expect("a known chip")
}

pub(crate) fn device(name: &str, xccs: u8) -> Device {
    Device::new(chip(name), xccs).expect("a device")
}

pub(crate) const KERNEL: Kernel = Kernel {
    entry: 0x7f44_0001_2300,
    object: 0x7f44_0001_1300,
    rsrc: [0x60af_0080, 0x1390, 0],
    properties: Properties::KERNARG_SEGMENT_PTR,
    group_bytes: 0,
    private_bytes: 0,
    kernarg_bytes: 12,
    max_group: MAX_GROUP,
};

pub(crate) const SLOTS: [ArgSlot; 2] = [ArgSlot::buffer(0), ArgSlot::scalar(8, 4)];
pub(crate) const ARGUMENTS: Arguments<'static> = Arguments {
    layout: ArgLayout {
        slots: &SLOTS,
        size: 12,
        align: 8,
    },
    hidden: &[],
};

pub(crate) fn args() -> [Arg<'static>; 2] {
    [Arg::Buffer(0x7f11_0000_0000u64.into()), 7u32.into()]
}

/// The words of one launch, or why there are none.
pub(crate) fn launch(
    device: &Device,
    program: &Program<'_>,
    (kernargs, groups, local): (u64, [u64; 3], [u64; 3]),
    local_memory: u32,
) -> Result<Vec<u32>, RecordError> {
    let mut memory = [0; 16];
    let mut region = Region::from_words(&mut memory, kernargs);
    let mut words = [0; 256];
    let mut q = Pm4Compute::new(device, &mut words, PatchList::none());
    let kernargs =
        Block::new(&mut region, RegionId(1), 0, program.kernargs_size()).expect("inside");
    q.exec(Launch {
        program,
        args: &args(),
        kernargs,
        groups: groups.map(Value::from),
        local: local.map(Value::from),
        local_memory,
    })?;
    Ok(q.words().to_vec())
}

pub(crate) const AT: u64 = 0x8_1234_5000;
pub(crate) const ONE: [u64; 3] = [1; 3];

/// The values of the registers that packets of these words set, in order.
pub(crate) fn registers(words: &[u32]) -> Vec<(u32, u32)> {
    let (mut rest, mut set) = (words, Vec::new());
    while !rest.is_empty() {
        let (packet, len) = Packet::decode(rest).expect("packets");
        if let Packet::SetReg(r) = packet {
            set.extend((r.first()..).zip(r.values().iter().copied()));
        }
        rest = &rest[len..];
    }
    set
}

pub(crate) fn value(words: &[u32], register: u32) -> Vec<u32> {
    registers(words)
        .into_iter()
        .filter(|r| r.0 == register)
        .map(|r| r.1)
        .collect()
}
