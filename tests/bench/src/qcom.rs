//! Adreno's compute queue: what is made once before commands are recorded, for an A630 and a program of Mesa's compiler with
//! two pointers.

use hcq_nostd::args::{Arg, ArgSlot};
use hcq_nostd::mem::{Region, SharedWords};
use hcq_nostd::patch::{PatchList, PatchTable, Patcher, RegionId};
use hcq_nostd::queue::{ComputeQueue, Launch, Queue, SignalAt};
use hcq_nostd::record::Block;
use hcq_nostd::signal::{Signal, Width};
use hcq_nostd::timeline::{SlotValue, Timeline, WaitFor};
use hcq_nostd::value::{Value, Var};
use hcq_qcom::chips::Chip;
use hcq_qcom::device::{Device, PrivateMemory};
use hcq_qcom::ir3::Variant;
use hcq_qcom::kernel::{ImageSlot, Param};
use hcq_qcom::pm4::submit::CommandObject;
use hcq_qcom::pm4::{AdrenoCompute, Program};
use hcq_uapi::kgsl::{CmdFlags, kgsl_command_object, kgsl_gpu_command};

use crate::patched::{INPUTS, Patched, inputs, leak, list};

/// Bytes from one argument block to the next: all constants that a program can have.
pub const BLOCK: usize = 4096;
const BLOCKS: u64 = 0x5_1000_0000;
const WORDS: u64 = 0x5_3000_0000;

fn device() -> Device {
    let chip = Chip::named("630").expect("a chip of the table");
    Device::new(chip, 0x5_0000_1000, 0x5_0000_3000).expect("two places")
}

fn program(device: &Device) -> Program<'static> {
    static CODE: [u8; 256] = [0; 256];
    static VARIANT: Variant<'static> = Variant {
        code: &CODE,
        max_reg: 6,
        max_half_reg: 0,
        constlen: 4,
        work_group_id: 0xc0,
        local_invocation_id: 0,
        ..Variant::EMPTY
    };
    let kernel = VARIANT.kernel(0x5_2000_0000).expect("a kernel");
    let slots = leak(ArgSlot::buffer(0), 2);
    let images = leak(ImageSlot::EMPTY, 0);
    let arguments = VARIANT.layout(&[Param::Buffer; 2], slots, images, &mut []);
    let private = PrivateMemory::new(0x5_4000_0000, 1 << 20).expect("memory");
    Program::new(device, &kernel, &arguments.expect("a layout"), &private).expect("a program")
}

/// Memory for launches, and a program.
#[derive(Debug)]
pub struct Memory {
    device: Device,
    program: Program<'static>,
    words: Vec<u32>,
    blocks: Vec<u64>,
}

impl Memory {
    /// With room for so many launches with all that [`group`](Recording::group) puts around them.
    pub fn new(launches: usize) -> Self {
        let device = device();
        Self {
            program: program(&device),
            words: vec![0; launches * 256],
            blocks: vec![0; launches * BLOCK / 8],
            device,
        }
    }

    /// An empty queue over it.
    pub fn recording(&mut self) -> Recording<'_> {
        self.with(PatchList::none())
    }

    fn with<'m>(&'m mut self, list: PatchList<'m>) -> Recording<'m> {
        Recording {
            queue: AdrenoCompute::new(&self.device, &mut self.words, list),
            program: &self.program,
            blocks: Region::from_words(&mut self.blocks, BLOCKS),
        }
    }
}

/// A queue while it is recorded.
#[derive(Debug)]
pub struct Recording<'m> {
    queue: AdrenoCompute<'m>,
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

    /// A wait, a barrier, a launch and a signal.
    #[inline]
    pub fn group(&mut self, n: usize, pointers: [u64; 2], signal: SignalAt, value: Value) {
        self.queue
            .wait(signal, value)
            .and_then(AdrenoCompute::memory_barrier)
            .expect("room");
        self.exec(n, pointers);
        self.queue.signal(signal, value).expect("room");
    }

    /// The words so far.
    pub fn words(&self) -> &[u32] {
        self.queue.words()
    }
}

fn pairs(words: &[u32]) -> Vec<u64> {
    let pair = |pair: &[u32]| {
        let high = pair.get(1).copied().unwrap_or(0);
        u64::from(pair[0]) | u64::from(high) << 32
    };
    words.chunks(2).map(pair).collect()
}

/// So many launches with pointers and grids that are known late.
pub fn patched(launches: usize) -> Patched<2> {
    let memory: &'static mut Memory = Box::leak(Box::new(Memory::new(launches)));
    let mut recording = memory.with(list(launches));
    let recorder = recording.queue.recorder();
    let vars: Vec<Value> = (0..launches * INPUTS)
        .map(|_| recorder.list().var().expect("few").into())
        .collect();
    for (n, vars) in vars.chunks(INPUTS).enumerate() {
        recording.exec_with(n, [vars[0], vars[1]], vars[2]);
    }
    let words = pairs(recording.words());
    let Recording { queue, blocks, .. } = recording;
    let (_, list) = queue.finish().finish();
    let regions = [Region::from_words(words.leak(), WORDS), blocks];
    let mut patched = Patched::new(list, regions);
    let [first, _] = inputs(launches);
    patched.launch(&first);
    patched
}

/// Words and argument blocks of launches with these inputs, recorded afresh.
pub fn afresh(launches: usize, inputs: &[u64]) -> Vec<u64> {
    let mut memory = Memory::new(launches);
    let mut recording = memory.recording();
    for (n, inputs) in inputs.chunks(INPUTS).enumerate() {
        let pointers = [inputs[0].into(), inputs[1].into()];
        recording.exec_with(n, pointers, inputs[2].into());
    }
    let words = pairs(recording.words());
    [words, memory.blocks].concat()
}

/// A bound queue: a wait for the launch before, one dispatch, and a signal, whose values are patched.
pub struct Bound {
    timeline: Timeline<'static>,
    patcher: Patcher<'static>,
    regions: [Region<'static>; 1],
    object: CommandObject,
}

impl Default for Bound {
    fn default() -> Self {
        let slots: &'static mut [u64] = zerocopy::transmute_mut!(leak(0u128, 2));
        let shared = SharedWords::new(Region::from_words(slots, 0x5_0010_0000)).expect("aligned");
        let signals = [0, 1].map(|i| Signal::at(shared, i, Width::W32).expect("two slots"));
        let timeline = Timeline::new(signals, 30).expect("a span");

        let memory: &'static mut Memory = Box::leak(Box::new(Memory::new(1)));
        let mut recording = memory.with(list(1));
        // Where the slots are, which values: four variables.
        let [from, before, to, after] = [(); 4].map(|()| {
            let var = recording.queue.recorder().list().var().expect("few");
            Value::from(var)
        });
        recording.queue.wait(from.into(), before).expect("room");
        recording.exec(0, [0x5_1100_0000, 0x5_1200_0000]);
        recording.queue.signal(to.into(), after).expect("room");
        let words = recording.words().len();
        let memory = pairs(recording.words());
        let (_, mut list) = recording.queue.finish().finish();
        let region = Region::from_words(memory.leak(), WORDS);
        let bytes = [region.len() as u64];
        let room = list.table_words(&bytes).expect("sound sites");
        let table: PatchTable<'static> = list.build(&bytes, leak(0u64, room)).expect("room");
        let state = leak(0u64, table.state_words());
        let mut patcher = Patcher::new(table, state).expect("enough state");
        patcher.keep_own(Var::new(0), 4);
        Self {
            timeline,
            patcher,
            regions: [region],
            object: CommandObject::new(WORDS, words).expect("not many words"),
        }
    }
}

impl Bound {
    /// Everything up to the call of the kernel driver: a point of the timeline, patching, the call's arguments.
    #[inline(never)]
    pub fn submit(&mut self, context: u32) -> (kgsl_gpu_command, kgsl_command_object) {
        let submission = self.timeline.submit().expect("room in the timeline");
        let signal = submission.signal;
        let before = match submission.previous {
            WaitFor::Slot(previous) => previous,
            // Nothing was launched before: a value that is always there.
            _ => SlotValue { value: 0, ..signal },
        };
        let address = |slot| match self.timeline.operand(slot).address {
            Value::Imm(address) => address,
            Value::Var(_) => 0,
        };
        let values = [
            address(before.slot),
            before.value,
            address(signal.slot),
            signal.value,
        ];
        self.patcher
            .set_own(Var::new(0), values)
            .expect("variables of the table");
        self.patcher
            .apply(&mut self.regions)
            .expect("32-bit values");
        let command = kgsl_gpu_command {
            cmdsize: size_of::<kgsl_command_object>() as u32,
            numcmds: 1,
            context_id: context,
            ..Default::default()
        };
        let object = kgsl_command_object {
            gpuaddr: self.object.address(),
            size: self.object.bytes(),
            flags: CmdFlags::CMDLIST_IB,
            ..Default::default()
        };
        (command, object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hcq_qcom::chips::Generation;
    use hcq_qcom::dump::Dump;

    #[test]
    fn a_group_is_what_it_says() {
        let mut memory = Memory::new(2);
        let mut recording = memory.recording();
        let signal = SignalAt {
            address: Value::Imm(0x5_0010_0040),
            notify: true,
        };
        recording.group(1, [0x1000, 0x2000], signal, Value::Imm(1));
        let text = Dump::new(Generation::A6xx, recording.words()).to_string();
        for packet in [
            "CP_WAIT_REG_MEM",
            "CP_EXEC_CS NGROUPS=0x1,0x1,0x1",
            "CACHE_FLUSH_TS",
        ] {
            assert!(text.contains(packet), "{packet}\n{text}");
        }
        assert!(!text.contains("??"), "{text}");
        assert_eq!(memory.blocks[BLOCK / 8..][..2], [0x1000, 0x2000]);
    }

    #[test]
    fn patching_is_recording_afresh() {
        let mut patched = patched(5);
        let [a, b] = inputs(5);
        for inputs in [&b, &a, &b] {
            assert!(patched.launch(inputs) >= 15);
            assert!(patched.memory() == afresh(5, inputs));
        }
        assert_eq!(patched.launch(&b), 0);
    }

    #[test]
    fn a_bound_queue_waits_for_its_last_launch() {
        let mut bound = Bound::default();
        let (command, object) = bound.submit(7);
        assert_eq!((command.context_id, object.size), (7, bound.object.bytes()));
        let values = |bound: &Bound| [0, 1, 2, 3].map(|var| bound.patcher.get(Var::new(var)));
        let [_, before, _, after] = values(&bound);
        assert!(after > before);
        bound.submit(7);
        let [_, again, _, next] = values(&bound);
        assert!(again == after && next > after);
    }
}
