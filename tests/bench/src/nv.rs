//! NVIDIA's compute queue: what is made once before commands are recorded, for an sm_86 chip and a kernel with two pointers,
//! as NVIDIA's compiler makes them.

use hcq_nostd::args::{Arg, ArgLayout, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch, Program as _, Queue, SignalAt};
use hcq_nostd::record::Block;
use hcq_nostd::value::Value;
use hcq_nv::chips::Chip;
use hcq_nv::compute::{NvCompute, Program, Qmds};
use hcq_nv::device::Device;
use hcq_nv::gpfifo::{ChannelDoorbell, GpFifo};
use hcq_nv::kernel::{Bank, Kernel, Local, Origin, STACK_RESERVED};
use hcq_nv::local_memory::{LocalMemory, Need, Topology};

use crate::patched::{INPUTS, Patched, inputs, leak, list};

/// Where arguments begin in constant bank 0.
const ARGUMENTS: u32 = 0x160;
static SLOTS: [ArgSlot; 2] = [ArgSlot::buffer(ARGUMENTS), ArgSlot::buffer(ARGUMENTS + 8)];
/// Bytes from one argument block to the next.
pub const BLOCK: usize = 512;
const BLOCKS: u64 = 0x8000_0000;
const QMDS: u64 = 0x9000_0000;

fn program(device: &Device) -> Program<'static> {
    // Bank 0 is the argument block's.
    let mut banks = [None; 8];
    banks[0] = Some(Bank {
        address: 0,
        bytes: ARGUMENTS + 16,
    });
    let kernel = Kernel {
        entry: 0x7f00_0000_0100,
        code_bytes: 384,
        registers: 12,
        barriers: 0,
        shared_bytes: 1024,
        local: Local::High(STACK_RESERVED),
        banks,
        arguments_at: ARGUMENTS,
        max_group: 1024,
        block: None,
        origin: Origin::Cuda,
    };
    let layout = ArgLayout {
        slots: &SLOTS,
        size: ARGUMENTS + 16,
        align: 256,
    };
    let topology = Topology {
        gpcs: 7,
        tpcs_per_gpc: 6,
        sms_per_tpc: 2,
        warps_per_sm: 48,
    };
    let local = Need::new(&topology, STACK_RESERVED).expect("not much");
    let local = LocalMemory::new(device.chip(), 0x7e00_0000_0000, &local).expect("memory");
    Program::new(device, &kernel, layout, &local).expect("a program")
}

/// Memory for launches, and a program.
#[derive(Debug)]
pub struct Memory {
    device: Device,
    program: Program<'static>,
    words: Vec<u32>,
    qmds: Vec<u64>,
    blocks: Vec<u64>,
}

impl Memory {
    /// With room for so many launches with all that [`group`](Recording::group) puts around them.
    pub fn new(launches: usize) -> Self {
        let device = Device::new(Chip::named("ga10x").expect("a chip of the table"));
        Self {
            program: program(&device),
            words: vec![0; launches * 32],
            qmds: vec![0; launches * device.chip().qmd.bytes().div_ceil(8)],
            blocks: vec![0; launches * BLOCK / 8],
            device,
        }
    }

    /// An empty queue over it.
    pub fn recording(&mut self) -> Recording<'_> {
        self.with(PatchList::none())
    }

    fn with<'m>(&'m mut self, list: PatchList<'m>) -> Recording<'m> {
        let qmds = Qmds::new(Region::from_words(&mut self.qmds, QMDS), RegionId(2));
        Recording {
            queue: NvCompute::new(&self.device, &mut self.words, qmds, list),
            program: &self.program,
            blocks: Region::from_words(&mut self.blocks, BLOCKS),
        }
    }
}

/// A queue while it is recorded.
#[derive(Debug)]
pub struct Recording<'m> {
    queue: NvCompute<'m, 'm>,
    program: &'m Program<'static>,
    blocks: Region<'m>,
}

impl Recording<'_> {
    /// One launch with two pointers that are known now. The argument block is the `n`th.
    #[inline]
    pub fn exec(&mut self, n: usize, pointers: [u64; 2]) {
        self.exec_with(n, pointers.map(Value::Imm), Value::Imm(1));
    }

    #[inline]
    fn exec_with(&mut self, n: usize, pointers: [Value; 2], groups: Value) {
        let one = Value::Imm(1);
        let block = Block::new(&mut self.blocks, RegionId(1), n * BLOCK, BLOCK);
        let launch = Launch {
            program: self.program,
            args: &pointers.map(Arg::Buffer),
            kernargs: block.expect("room"),
            groups: [groups, one, one],
            local: [Value::Imm(64), one, one],
            local_memory: 0,
        };
        self.queue.exec(launch).expect("room");
    }

    /// A wait, a barrier, a launch and a signal, which the launch's descriptor takes.
    #[inline]
    pub fn group(&mut self, n: usize, pointers: [u64; 2], signal: SignalAt, value: Value) {
        self.queue
            .wait(signal, value)
            .and_then(NvCompute::memory_barrier)
            .expect("room");
        self.exec(n, pointers);
        self.queue.signal(signal, value).expect("room");
    }

    /// What makes the next launch one that follows nothing.
    #[inline]
    pub fn wait_for_idle(&mut self) {
        self.queue.wait_for_idle().expect("room");
    }

    /// The words so far.
    pub fn words(&self) -> &[u32] {
        self.queue.words()
    }

    /// Bytes that so many launches have written: words, descriptors, constant banks.
    pub fn bytes(&self, launches: usize) -> [usize; 3] {
        let banks = launches * self.program.kernargs_size();
        [4 * self.words().len(), self.queue.used().beside, banks]
    }
}

/// So many launches, each of which follows the one before, with pointers and grids that are known late.
pub fn patched(launches: usize) -> Patched<3> {
    let memory: &'static mut Memory = Box::leak(Box::new(Memory::new(launches)));
    let mut recording = memory.with(list(launches));
    let recorder = recording.queue.recorder();
    let vars: Vec<Value> = (0..launches * INPUTS)
        .map(|_| recorder.list().var().expect("few").into())
        .collect();
    for (n, vars) in vars.chunks(INPUTS).enumerate() {
        recording.exec_with(n, [vars[0], vars[1]], vars[2]);
    }
    let Recording { queue, blocks, .. } = recording;
    let qmd_bytes = queue.used().beside;
    let words = queue.words().to_vec();
    let (recorder, _) = queue.finish();
    let (_, list) = recorder.finish();
    // The descriptors' region went with the queue: their contents are what recording makes of the first inputs.
    let [first, _] = inputs(launches);
    let (_, qmds) = afresh(launches, &first);
    let regions = [
        Region::from_words(leak(0u64, words.len().div_ceil(2)), 0),
        blocks,
        Region::from_words(qmds.leak(), QMDS),
    ];
    assert_eq!(regions[2].len(), qmd_bytes);
    let mut patched = Patched::new(list, regions);
    patched.launch(&first);
    patched
}

/// Argument blocks and descriptors of launches with these inputs, recorded afresh.
pub fn afresh(launches: usize, inputs: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let mut memory = Memory::new(launches);
    let mut recording = memory.recording();
    for (n, inputs) in inputs.chunks(INPUTS).enumerate() {
        let pointers = [inputs[0].into(), inputs[1].into()];
        recording.exec_with(n, pointers, inputs[2].into());
    }
    (memory.blocks, memory.qmds)
}

/// A channel's ring whose entries count as consumed at once.
pub struct Host {
    ring: GpFifo<'static>,
    doorbell: ChannelDoorbell<'static>,
}

impl Default for Host {
    fn default() -> Self {
        let ring = Region::from_words(leak(0u64, 1024), 0x10_0000);
        let ring = GpFifo::new(ring).expect("whole entries");
        let [userd, usermode] = [(); 2].map(|()| Region::from_words(leak(0u64, 64), 0));
        let doorbell = ChannelDoorbell::new(userd, usermode, ring.len(), 0x1_0003);
        Self {
            doorbell: doorbell.expect("long enough"),
            ring,
        }
    }
}

impl Host {
    /// Launches words that lie at an address: an entry, GPPut, the doorbell.
    #[inline(never)]
    pub fn bound(&mut self, address: u64, words: usize) -> u64 {
        let put = self.ring.submit(address, words, &mut self.doorbell);
        self.ring
            .consumed(put.as_ref().copied().unwrap_or(0))
            .expect("published");
        put.expect("an empty ring")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hcq_nv::dump::Dump;
    use hcq_nv::qmd::Fields;

    #[test]
    fn launches_are_what_they_say() {
        let mut memory = Memory::new(3);
        let mut recording = memory.recording();
        recording.exec(0, [0x1000, 0x2000]);
        let alone = recording.words().len();
        assert_eq!(alone, 4, "an address and a start");
        recording.exec(1, [0x3000, 0x4000]);
        assert_eq!(recording.words().len(), alone, "the second one follows");
        let signal = SignalAt {
            address: Value::Imm(0x9000),
            notify: true,
        };
        recording.group(2, [0x1000, 0x2000], signal, Value::Imm(1));
        let text = Dump::new(recording.words()).to_string();
        assert!(!text.contains("??"), "{text}");
        assert!(text.contains("INVALIDATE_SHADER_CACHES_NO_WFI"), "{text}");
        assert_eq!(recording.bytes(3)[1], 3 * 256);
        let arguments = BLOCK / 8 + ARGUMENTS as usize / 8;
        assert_eq!(memory.blocks[arguments..][..2], [0x3000, 0x4000]);
        let half = |w: &u64| [*w as u32, (w >> 32) as u32];
        let words: Vec<u32> = memory.qmds.iter().flat_map(half).collect();
        let chip = Chip::named("ga10x").expect("a chip of the table");
        let first = Fields::new(chip.qmd, &words).expect("long enough");
        assert_eq!(first.get("DEPENDENT_QMD0_ENABLE"), Some(1), "{first}");
    }

    #[test]
    fn patching_is_recording_afresh() {
        let mut patched = patched(5);
        let [a, b] = inputs(5);
        for inputs in [&b, &a, &b] {
            assert_eq!(patched.launch(inputs), patched.sites());
            let (blocks, qmds) = afresh(5, inputs);
            let memory = patched.memory();
            assert!(memory.ends_with(&[blocks, qmds].concat()));
        }
        assert_eq!(patched.launch(&b), 0);
    }

    #[test]
    fn entries_reach_the_ring() {
        let mut host = Host::default();
        assert_eq!((host.bound(0x1_0000, 8), host.bound(0x1_0000, 8)), (1, 2));
    }
}
