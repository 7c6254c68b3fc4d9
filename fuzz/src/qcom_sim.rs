//! Words of every kind in the command buffers of a simulated Adreno GPU, and sequences of calls to the simulated `kgsl`.

use crate::raw::{Call, Family, Script, get, set};
use crate::sim::{BASE, Span, alone, no_panic, pointer, put};
use hcq_nostd::patch::PatchList;
use hcq_nostd::queue::{ComputeQueue, Queue, SignalAt, WriteWidth};
use hcq_nostd::value::Value;
use hcq_qcom::chips::{Chip, Generation};
use hcq_qcom::device::Device;
use hcq_qcom::dump::Dump;
use hcq_qcom::pm4::AdrenoCompute;
use hcq_sim::machine::Machine;
use hcq_uapi::ioctl::{self, Argument};
use hcq_uapi::kgsl::*;
use std::path::Path;
use std::sync::Arc;
use zerocopy::IntoBytes;

const CHIPS: [&str; 3] = ["a630", "a650", "a660"];
/// Where a process's first object is for the GPU.
const GPU: u64 = 0x40_0000_0000;
const BYTES: u64 = 1 << 20;
/// What lies where in it.
const CALLED: u64 = 0x1_0000;
const SCRAP: u64 = 0x2_0000;
const DATA: u64 = 0x8_0000;
const MOST_WORDS: usize = 0x2000;
/// A launch of many groups may go on; nobody waits for its end here.
const MOST_TURNS: usize = 3000;

/// A machine that moves by hand, with a context and one object, which host and GPU see.
struct Rig {
    machine: Arc<Machine>,
    file: i32,
    id: u32,
    context: u32,
}

impl Rig {
    fn new(chip: usize, seed: u8) -> Self {
        let config = format!("qcom-{},pace=manual,seed={seed}", CHIPS[chip]);
        let machine = Machine::new(config.parse().expect("a machine's name")).expect("a machine");
        let file = machine.open(Path::new("/dev/kgsl-3d0"), true);
        let mut rig = Self {
            file: file.expect("it is there"),
            machine,
            id: 0,
            context: 0,
        };
        let mut made = kgsl_gpuobj_alloc {
            size: BYTES,
            ..Default::default()
        };
        rig.call(&mut made);
        rig.id = made.id;
        let mut info = kgsl_gpuobj_info {
            id: made.id,
            ..Default::default()
        };
        rig.call(&mut info);
        assert_eq!(info.gpuaddr, GPU, "words name addresses");
        let offset = mmap_offset(made.id, 12).expect("an offset");
        let (at, bytes) = (Some(pointer(BASE)), made.mmapsize as usize);
        // SAFETY: inside the span, and used by nobody else.
        let mapped = unsafe { rig.machine.mmap(at, bytes, true, true, rig.file, offset) };
        assert!(mapped.is_ok());
        let mut context = kgsl_drawctxt_create {
            flags: ContextFlags::PREAMBLE | ContextFlags::NO_GMEM_ALLOC,
            drawctxt_id: 0,
        };
        rig.call(&mut context);
        rig.context = context.drawctxt_id;
        rig
    }

    fn call<T: Argument>(&self, args: &mut T) {
        let request = u64::from(T::REQUEST);
        // SAFETY: the struct of this request, and addresses of this rig in it.
        let done = unsafe {
            self.machine
                .ioctl(self.file, request, (&raw mut *args).cast())
        };
        assert_eq!(done, Ok(0), "{}", T::NAME);
    }

    /// Submits words at the start of the object; their time stamp.
    fn submit(&self, words: usize) -> Option<u32> {
        let mut object = kgsl_command_object {
            gpuaddr: GPU,
            size: words as u64 * 4,
            flags: CmdFlags::CMDLIST_IB,
            id: self.id,
            ..Default::default()
        };
        let mut args = kgsl_gpu_command {
            cmdlist: (&raw mut object).expose_provenance() as u64,
            cmdsize: size_of::<kgsl_command_object>() as u32,
            numcmds: 1,
            context_id: self.context,
            ..Default::default()
        };
        let request = u64::from(kgsl_gpu_command::REQUEST);
        // SAFETY: the struct of this request, and addresses of this rig in it.
        let done = unsafe {
            self.machine
                .ioctl(self.file, request, (&raw mut args).cast())
        };
        done.is_ok().then_some(args.timestamp)
    }

    fn retired(&self) -> u32 {
        let mut args = kgsl_cmdstream_readtimestamp_ctxtid {
            context_id: self.context,
            r#type: KGSL_TIMESTAMP_RETIRED,
            timestamp: 0,
        };
        self.call(&mut args);
        args.timestamp
    }

    /// Turns until nothing has moved three times, at most this many.
    fn run(&self, most: usize) {
        let mut still = 0;
        for _ in 0..most {
            still = if self.machine.step() { 0 } else { still + 1 };
            if still == 3 {
                break;
            }
        }
        no_panic(&self.machine);
    }
}

/// Four bytes: the chip, the seed of the machine, 32nds of how many words are for the command buffer, how often it is
/// submitted; then words: those of the command buffer, and those of a buffer that it may call or load from. Accepted are
/// command buffers that are executed to their end each time with no fault.
pub fn qcom_words(data: &[u8]) -> bool {
    let [chip, seed, share, times, rest @ ..] = data else {
        return false;
    };
    let words: Vec<u32> = rest
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .take(2 * MOST_WORDS)
        .collect();
    let (first, called) = words.split_at((8 * usize::from(*share)).min(words.len()));
    let called = &called[..called.len().min(MOST_WORDS)];

    let _alone = alone();
    let _span = Span::new();
    let rig = Rig::new(usize::from(*chip) % CHIPS.len(), *seed);
    put(BASE, first);
    put(BASE + CALLED, called);
    let mut last = None;
    for _ in 0..1 + times % 4 {
        last = rig.submit(first.len());
        rig.run(MOST_TURNS);
    }
    let faults = rig.machine.reports().len();
    // A ring that has stopped says so once.
    rig.run(50);
    assert_eq!(rig.machine.reports().len(), faults);
    faults == 0 && last.is_some_and(|last| rig.retired() == last)
}

const SIGNAL: SignalAt = SignalAt {
    address: Value::Imm(GPU + DATA),
    notify: true,
};

fn seed(head: [u8; 4], words: &[u32]) -> Vec<u8> {
    let mut all = head.to_vec();
    all.extend(words.iter().flat_map(|w| w.to_le_bytes()));
    all
}

/// What the queue can do, with nothing to wait for.
fn common(queue: &mut AdrenoCompute<'_>) {
    queue
        .memory_barrier()
        .and_then(|q| q.write(Value::Imm(GPU + DATA + 64), 5u64.into(), WriteWidth::W32))
        .and_then(|q| q.poll_bit(Value::Imm(GPU + DATA + 64), 1, 1u64.into()))
        .and_then(|q| q.timestamp(SIGNAL))
        .and_then(|q| q.signal(SIGNAL, 3u64.into()))
        .and_then(|q| q.wait(SIGNAL, 3u64.into()))
        .expect("it is recorded");
}

/// Queues as the driver records them, called and by themselves; and words that no engine takes.
pub(crate) fn words_as_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (names, number, chip) in [
        (["ok-a630", "ok-a630-called"], 0, "630"),
        (["ok-a650", "ok-a650-called"], 1, "650"),
        (["ok-a660", "ok-a660-called"], 2, "660"),
    ] {
        let chip = Chip::named(chip).expect("a chip of the table");
        let device = Device::new(chip, GPU + SCRAP, GPU + SCRAP + 0x1000).expect("two places");
        let mut memory = [0u32; 512];
        let mut queue = AdrenoCompute::new(&device, &mut memory, PatchList::none());
        common(&mut queue);
        let words = queue.words();
        seeds.push((names[0], seed([number, 1, u8::MAX, 1], words)));
        // CP_INDIRECT_BUFFER, then what fills the eight words: a CP_NOP of three.
        let at = GPU + CALLED;
        let count = words.len() as u32;
        let mut call = vec![0x70bf_8003, at as u32, (at >> 32) as u32, count];
        call.extend([0x7010_8003, 0, 0, 0]);
        assert!(
            Dump::new(Generation::A6xx, &call)
                .lines()
                .all(|line| line.malformed().is_none())
        );
        call.extend(words);
        seeds.push((names[1], seed([number, 2, 1, 0], &call)));
    }
    seeds.push(("bad-header", seed([0, 1, u8::MAX, 0], &[0x1234_5678, 1])));
    seeds.push(("bad-parity", seed([1, 1, u8::MAX, 0], &[0x7033_0004; 5])));
    // A write to where nothing is.
    let nowhere = [0x703d_8003, 0x1000, 0x50, 7];
    seeds.push(("bad-address", seed([2, 1, u8::MAX, 0], &nowhere)));
    seeds
}

/// Submissions of one run: a context has room for more, so that none waits.
const MOST_SUBMISSIONS: usize = 100;

/// Calls that would wait do not get far: time stamps are waited for a millisecond, and contexts end when they are idle.
fn may_call(call: &Call<'_>, request: u32, place: u64) -> bool {
    let number = |request| ioctl::number(request);
    let n = number(request);
    if n == number(kgsl_device_waittimestamp_ctxtid::REQUEST) {
        set(place + 8, 1);
    }
    if n == number(kgsl_drawctxt_destroy::REQUEST) {
        let _ = (0..500).any(|_| !call.machine.step());
        let [queued, retired] = [KGSL_TIMESTAMP_QUEUED, KGSL_TIMESTAMP_RETIRED].map(|kind| {
            let mut args = kgsl_cmdstream_readtimestamp_ctxtid {
                context_id: get(place),
                r#type: kind,
                timestamp: 0,
            };
            let request = kgsl_cmdstream_readtimestamp_ctxtid::REQUEST.into();
            let args_at = (&raw mut args).cast();
            // SAFETY: the struct of this request.
            let done = unsafe { call.machine.ioctl(call.file, request, args_at) };
            done.map(|_| args.timestamp)
        });
        return queued == retired;
    }
    n != number(kgsl_gpu_command::REQUEST) || call.before < MOST_SUBMISSIONS
}

/// A byte for the machine and then calls: see [`crate::raw`]. Accepted are inputs of which eight calls or more succeed.
pub fn kgsl_ioctl(data: &[u8]) -> bool {
    crate::raw::run(
        Family {
            machines: &[
                "qcom-a630,pace=manual",
                "qcom-a650,pace=manual",
                "qcom-a660,pace=manual",
            ],
            nodes: &["/dev/kgsl-3d0"],
            requests: &[
                kgsl_gpuobj_alloc::REQUEST,
                kgsl_gpuobj_info::REQUEST,
                kgsl_gpuobj_free::REQUEST,
                kgsl_gpuobj_import::REQUEST,
                kgsl_gpuobj_set_info::REQUEST,
                kgsl_gpuobj_sync::REQUEST,
                kgsl_gpumem_sync_cache::REQUEST,
                kgsl_gpumem_sync_cache_bulk::REQUEST,
                kgsl_drawctxt_create::REQUEST,
                kgsl_drawctxt_destroy::REQUEST,
                kgsl_gpu_command::REQUEST,
                kgsl_device_waittimestamp_ctxtid::REQUEST,
                kgsl_cmdstream_readtimestamp_ctxtid::REQUEST,
                kgsl_timestamp_event::REQUEST,
                kgsl_device_getproperty::REQUEST,
                kgsl_device_setproperty::REQUEST,
                kgsl_read_calibrated_timestamps::REQUEST,
                kgsl_fault_report::REQUEST,
            ],
            may_call,
            succeeded: |_, _| true,
        },
        data,
    )
}

/// A process that makes memory and a context, submits a command and looks at its time stamp; and processes that get nowhere.
pub(crate) fn calls_as_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let (at, list, value) = (0x200, 0x300, 0x400);
    let good = |machine: u8| {
        let mut s = Script::new(machine);
        s.open(0);
        let call = |s: &mut Script, request: u32, args: &[u8]| {
            s.put(at, args);
            s.call(0, request, at);
        };
        let memory = kgsl_gpuobj_alloc {
            size: 0x4000,
            ..Default::default()
        };
        call(&mut s, kgsl_gpuobj_alloc::REQUEST, memory.as_bytes());
        // Its number is behind four numbers of 64 bits.
        s.copy(at + 32, 0x100, 4);
        let info = kgsl_gpuobj_info::default();
        s.put(at, info.as_bytes());
        s.copy(0x100, at + 40, 4);
        s.call(0, kgsl_gpuobj_info::REQUEST, at);
        let context = kgsl_drawctxt_create {
            flags: ContextFlags::PREAMBLE | ContextFlags::NO_GMEM_ALLOC,
            drawctxt_id: 0,
        };
        call(&mut s, kgsl_drawctxt_create::REQUEST, context.as_bytes());
        s.copy(at + 4, 0x104, 4);
        s.mmap(0, 1, 4);
        // CP_NOP of one word.
        s.store(0, 0, 0x7010_0001);
        let object = kgsl_command_object {
            gpuaddr: GPU,
            size: 8,
            flags: CmdFlags::CMDLIST_IB,
            ..Default::default()
        };
        s.put(list, object.as_bytes());
        s.copy(0x100, list + 28, 4);
        let command = kgsl_gpu_command {
            cmdlist: Script::address(list),
            cmdsize: size_of::<kgsl_command_object>() as u32,
            numcmds: 1,
            ..Default::default()
        };
        s.put(at, command.as_bytes());
        s.copy(0x104, at + 56, 4);
        s.call(0, kgsl_gpu_command::REQUEST, at);
        s.step(200);
        let stamp = kgsl_cmdstream_readtimestamp_ctxtid {
            r#type: KGSL_TIMESTAMP_RETIRED,
            ..Default::default()
        };
        s.put(at, stamp.as_bytes());
        s.copy(0x104, at, 4);
        s.call(0, kgsl_cmdstream_readtimestamp_ctxtid::REQUEST, at);
        let wait = kgsl_device_waittimestamp_ctxtid {
            timestamp: 1,
            ..Default::default()
        };
        s.put(at, wait.as_bytes());
        s.copy(0x104, at, 4);
        s.call(0, kgsl_device_waittimestamp_ctxtid::REQUEST, at);
        let property = kgsl_device_getproperty {
            r#type: KGSL_PROP_DEVICE_INFO,
            value: Script::address(value),
            sizebytes: size_of::<kgsl_devinfo>() as u64,
            ..Default::default()
        };
        call(
            &mut s,
            kgsl_device_getproperty::REQUEST,
            property.as_bytes(),
        );
        s.copy(0x104, at, 4);
        s.call(0, kgsl_drawctxt_destroy::REQUEST, at);
        let free = kgsl_gpuobj_free::default();
        s.put(at, free.as_bytes());
        s.copy(0x100, at + 16, 4);
        s.call(0, kgsl_gpuobj_free::REQUEST, at);
        s.bytes()
    };
    let [nothing, numbers] = Script::unsound(kgsl_gpuobj_alloc::REQUEST, 7);
    vec![
        ("ok-command-a630", good(0)),
        ("ok-command-a660", good(2)),
        nothing,
        numbers,
    ]
}
