//! Words of every kind in the pushbuffers of simulated channels, and sequences of calls to the simulated RM and UVM.

use crate::raw::{Family, Script};
use crate::sim::{BASE, PAGE, Span, alone, no_panic, pointer, put, word};
use hcq_nostd::args::{Arg, ArgSlot};
use hcq_nostd::mem::Region;
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{
    ComputeQueue, CopyQueue, Launch, Program as _, Queue, SignalAt, WriteWidth,
};
use hcq_nostd::record::Block;
use hcq_nostd::value::Value;
use hcq_nv::chips::Chip;
use hcq_nv::compute::{NvCompute, Program, Qmds};
use hcq_nv::copy::NvCopy;
use hcq_nv::cubin::Cubin;
use hcq_nv::device::Device;
use hcq_nv::setup::Setup;
use hcq_sim::machine::Machine;
use hcq_uapi::ioctl::Argument;
use hcq_uapi::nv::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use zerocopy::{FromZeros, IntoBytes};

/// Machines, the driver's chips of the same generation, and the classes of channel, doorbells, compute and copies.
const CHIPS: [(&str, &str, [u32; 4]); 4] = [
    ("ampere", "ga10x", [0xc56f, 0xc561, 0xc7c0, 0xc7b5]),
    ("ada", "ad10x", [0xc56f, 0xc561, 0xc9c0, 0xc7b5]),
    ("hopper", "gh100", [0xc86f, 0xc661, 0xcbc0, 0xc8b5]),
    ("blackwell", "gb20x", [0xca6f, 0xc761, 0xcec0, 0xcab5]),
];

/// Where the channel's memory is for the GPU, and what lies where in it.
const GPU: u64 = 0x10_0000_0000;
const BYTES: u64 = 2 << 20;
const USERD: u64 = 0x8000;
const WORDS: u64 = 0x1_0000;
const END: u64 = 0x2_0000;
const QMDS: u64 = 0x3_0000;
const MORE: u64 = 0x4_0000;
const DATA: u64 = 0x10_0000;
const ENTRIES: u32 = 64;
const MOST_WORDS: usize = 0x4000;
/// A launch of many groups may go on; nobody waits for its end here.
const MOST_TURNS: usize = 3000;
/// What the last words write.
const DONE: u32 = 77;

fn half(address: u64) -> &'static AtomicU32 {
    // SAFETY: callers name aligned words that they have mapped.
    unsafe { AtomicU32::from_ptr(pointer(address).as_ptr().cast()) }
}

/// A machine that moves by hand, with a channel on its first GPU.
struct Rig {
    machine: Arc<Machine>,
    abi: &'static Abi,
    control: i32,
    uvm: i32,
    client: u32,
    token: u32,
    doorbells: u64,
}

impl Rig {
    fn new(chip: usize, seed: u8) -> Self {
        let (name, _, [gpfifo, usermode, compute, copy]) = CHIPS[chip];
        let config = format!("nv-{name},pace=manual,vram=64,seed={seed}");
        let machine = Machine::new(config.parse().expect("a machine's name")).expect("a machine");
        let open = |path: &str| machine.open(Path::new(path), true).expect("it is there");
        let version = machine.read(Path::new("/proc/driver/nvidia/version"), 4096);
        let version = String::from_utf8(version.expect("it is there")).expect("text");
        let version = Version::in_proc(&version).expect("a version");
        let mut rig = Self {
            control: open("/dev/nvidiactl"),
            uvm: open("/dev/nvidia-uvm"),
            abi: Abi::of(version).expect("a known one"),
            machine: machine.clone(),
            client: 0,
            token: 0,
            doorbells: 0,
        };
        rig.client = rig.alloc(0, NV01_ROOT_CLIENT, 0, 0);
        let gpu = open("/dev/nvidia0");
        rig.call(
            gpu,
            &mut nv_ioctl_register_fd {
                ctl_fd: rig.control,
            },
        );
        let mut params = NV0080_ALLOC_PARAMETERS {
            hClientShare: rig.client,
            vaMode: 2,
            ..Default::default()
        };
        let device = rig.object(rig.client, NV01_DEVICE_0, &mut params);
        let mut params = NV2080_ALLOC_PARAMETERS::default();
        let subdevice = rig.object(device, NV20_SUBDEVICE_0, &mut params);
        let uuid = rig.uuid(subdevice);
        let space = rig.space(device, uuid);
        let memory = rig.memory(device, BYTES);
        rig.ask(&mut UVM_CREATE_EXTERNAL_RANGE_PARAMS {
            base: GPU,
            length: BYTES,
            ..Default::default()
        });
        let mut map = Box::new(UVM_MAP_EXTERNAL_ALLOCATION_PARAMS::new_zeroed());
        (map.base, map.length) = (GPU, BYTES);
        map.perGpuAttributes[0].gpuUuid = uuid;
        map.gpuAttributesCount = 1;
        (map.rmCtrlFd, map.hClient, map.hMemory) = (rig.control, rig.client, memory);
        rig.ask(&mut *map);
        rig.see(subdevice, memory, "/dev/nvidiactl", BASE, BYTES);

        let mut params = NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS {
            hVASpace: space,
            engineType: NV2080_ENGINE_TYPE_GRAPHICS,
            ..Default::default()
        };
        let group = rig.object(device, KEPLER_CHANNEL_GROUP_A, &mut params);
        let mut params = NV_CTXSHARE_ALLOCATION_PARAMETERS {
            hVASpace: space,
            flags: NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT_ASYNC,
            ..Default::default()
        };
        let share = rig.object(group, FERMI_CONTEXT_SHARE_A, &mut params);
        let mut params = NV_CHANNEL_ALLOC_PARAMS {
            hObjectError: rig.memory(device, PAGE),
            gpFifoOffset: GPU,
            gpFifoEntries: ENTRIES,
            hContextShare: share,
            ..NV_CHANNEL_ALLOC_PARAMS::new_zeroed()
        };
        params.hUserdMemory[0] = memory;
        params.userdOffset[0] = USERD;
        let channel = rig.object(group, gpfifo, &mut params);
        rig.ask(&mut UVM_REGISTER_CHANNEL_PARAMS {
            gpuUuid: uuid,
            rmCtrlFd: rig.control,
            hClient: rig.client,
            hChannel: channel,
            base: 0x40_0000_0000,
            length: 64 << 20,
            ..Default::default()
        });
        for class in [compute, copy] {
            rig.alloc(channel, class, 0, 0);
        }
        let mut params = NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS::default();
        rig.control(
            channel,
            NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN,
            &mut params,
        );
        rig.token = params.workSubmitToken;
        let mut params = NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS {
            bEnable: 1,
            ..Default::default()
        };
        rig.control(group, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, &mut params);
        let doorbells = rig.alloc(subdevice, usermode, 0, 0);
        rig.doorbells = BASE + 0x100_0000;
        let bytes = NVC361_NV_USERMODE__SIZE.into();
        rig.see(subdevice, doorbells, "/dev/nvidia0", rig.doorbells, bytes);
        rig
    }

    fn call<T: Argument>(&self, file: i32, args: &mut T) {
        let request = u64::from(T::REQUEST);
        // SAFETY: the struct of this request, and addresses of this rig in it.
        let done = unsafe { self.machine.ioctl(file, request, (&raw mut *args).cast()) };
        assert_eq!(done, Ok(0), "{}", T::NAME);
    }

    /// A call of UVM's.
    fn ask<T: Status>(&self, args: &mut T) {
        self.call(self.uvm, args);
        assert_eq!(args.status(), NV_OK, "{}", T::NAME);
    }

    fn alloc(&self, parent: u32, class: u32, params: u64, bytes: u32) -> u32 {
        let mut args = NVOS21_PARAMETERS {
            hRoot: self.client,
            hObjectParent: parent,
            hClass: class,
            pAllocParms: params,
            paramsSize: bytes,
            ..Default::default()
        };
        self.call(self.control, &mut args);
        assert_eq!(args.status, NV_OK, "class {class:#x}");
        args.hObjectNew
    }

    fn object<T: Params>(&self, parent: u32, class: u32, params: &mut T) -> u32 {
        let bytes = T::len(self.abi) as u32;
        let at = (&raw mut *params).expose_provenance() as u64;
        self.alloc(parent, class, at, bytes)
    }

    fn control<T: Params>(&self, object: u32, cmd: u32, params: &mut T) {
        let mut args = NVOS54_PARAMETERS {
            hClient: self.client,
            hObject: object,
            cmd,
            params: (&raw mut *params).expose_provenance() as u64,
            paramsSize: T::len(self.abi) as u32,
            ..Default::default()
        };
        self.call(self.control, &mut args);
        assert_eq!(args.status, NV_OK, "command {cmd:#x}");
    }

    fn uuid(&self, subdevice: u32) -> nv_uuid {
        let mut gid = NV2080_CTRL_GPU_GET_GID_INFO_PARAMS::new_zeroed();
        gid.flags = NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT
            .put(NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY);
        self.control(subdevice, NV2080_CTRL_CMD_GPU_GET_GID_INFO, &mut gid);
        let mut uuid = nv_uuid::default();
        uuid.uuid.copy_from_slice(&gid.data[..16]);
        uuid
    }

    /// The GPU's address space, which UVM fills.
    fn space(&self, device: u32, uuid: nv_uuid) -> u32 {
        self.ask(&mut UVM_INITIALIZE_PARAMS::default());
        let mut params = NV_VASPACE_ALLOCATION_PARAMETERS {
            flags: VaspaceFlags::IS_EXTERNALLY_OWNED | VaspaceFlags::ENABLE_PAGE_FAULTING,
            vaBase: 0x1000,
            vaSize: 0x1_ffff_fb00_0000,
            ..Default::default()
        };
        let space = self.object(device, FERMI_VASPACE_A, &mut params);
        self.ask(&mut UVM_REGISTER_GPU_PARAMS {
            gpu_uuid: uuid,
            rmCtrlFd: -1,
            ..Default::default()
        });
        self.ask(&mut UVM_REGISTER_GPU_VASPACE_PARAMS {
            gpuUuid: uuid,
            rmCtrlFd: self.control,
            hClient: self.client,
            hVaSpace: space,
            ..Default::default()
        });
        space
    }

    fn memory(&self, device: u32, size: u64) -> u32 {
        let mut params = NV_MEMORY_ALLOCATION_PARAMS {
            owner: self.client,
            attr: NVOS32_ATTR_LOCATION.put(NVOS32_ATTR_LOCATION_PCI),
            size,
            ..Default::default()
        };
        self.object(device, NV01_MEMORY_SYSTEM, &mut params)
    }

    /// Maps memory for the host.
    fn see(&self, subdevice: u32, memory: u32, path: &str, at: u64, length: u64) {
        let fd = self
            .machine
            .open(Path::new(path), true)
            .expect("it is there");
        let mut args = nv_ioctl_nvos33_parameters_with_fd {
            params: NVOS33_PARAMETERS {
                hClient: self.client,
                hDevice: subdevice,
                hMemory: memory,
                length,
                ..Default::default()
            },
            fd,
            pad: 0,
        };
        self.call(self.control, &mut args);
        assert_eq!(args.params.status, NV_OK);
        let bytes = length as usize;
        // SAFETY: inside the span, and used by nobody else.
        let mapped = unsafe {
            self.machine
                .mmap(Some(pointer(at)), bytes, true, true, fd, 0)
        };
        assert!(mapped.is_ok());
    }

    /// Words for the channel at a place of its memory, as the next entry.
    fn entry(&self, number: u32, place: u64, words: &[u32]) {
        put(BASE + place, words);
        let entry = (GPU + place) | (words.len() as u64) << 42;
        word(BASE + u64::from(number) * 8).store(entry, Ordering::Relaxed);
        half(BASE + USERD + 0x8c).store(number + 1, Ordering::Release);
    }

    fn ring(&self) {
        half(self.doorbells + u64::from(NVC361_NOTIFY_CHANNEL_PENDING))
            .store(self.token, Ordering::Release);
    }

    fn run(&self, most: usize) {
        let _ = (0..most).any(|_| !self.machine.step());
        no_panic(&self.machine);
    }
}

/// Four bytes: the chip, the seed of the machine, 64ths of how many words are for the pushbuffer and for launch descriptors;
/// then words: those two, and what lies elsewhere in memory (constants, code). Accepted are pushbuffers that are executed to
/// their end with no fault.
pub fn nv_words(data: &[u8]) -> bool {
    let [chip, seed, share, descriptors, rest @ ..] = data else {
        return false;
    };
    let words: Vec<u32> = rest
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .take(3 * MOST_WORDS)
        .collect();
    let (pushbuffer, rest) = words.split_at((4 * usize::from(*share)).min(words.len()));
    let (qmds, more) = rest.split_at((16 * usize::from(*descriptors)).min(rest.len()));

    let _alone = alone();
    let _span = Span::new();
    let rig = Rig::new(usize::from(*chip) % CHIPS.len(), *seed);
    put(BASE + QMDS, qmds);
    put(BASE + MORE, more);
    // A release behind them says that they were read to their end: WFI, then the five words of a semaphore.
    let done = GPU + DATA + 0x800;
    let end = [
        0x2001_001e,
        0,
        0x2005_0017,
        done as u32,
        (done >> 32) as u32,
        DONE,
        0,
        1,
    ];
    rig.entry(0, WORDS, pushbuffer);
    rig.entry(1, END, &end);
    rig.ring();
    rig.run(MOST_TURNS);
    let faults = rig.machine.reports().len();
    let read = half(BASE + DATA + 0x800).load(Ordering::Acquire);
    // A channel that has stopped stays stopped, and says so once.
    rig.ring();
    rig.run(50);
    assert!(faults == 0 || rig.machine.reports().len() == faults);
    faults == 0 && read == DONE && !pushbuffer.is_empty()
}

const SIGNAL: SignalAt = SignalAt {
    address: Value::Imm(GPU + DATA),
    notify: false,
};

/// What all queues can do, with nothing to wait for.
fn common<Q: Queue>(queue: &mut Q) {
    queue
        .write(Value::Imm(GPU + DATA + 64), 5u64.into(), WriteWidth::W32)
        .and_then(|q| q.signal(SIGNAL, 3u64.into()))
        .and_then(|q| q.wait(SIGNAL, 3u64.into()))
        .expect("it is recorded");
}

fn seed(head: [u8; 4], words: &[&[u32]]) -> Vec<u8> {
    let mut all = head.to_vec();
    all.extend(words.concat().iter().flat_map(|w| w.to_le_bytes()));
    all
}

fn halves(memory: &[u64]) -> Vec<u32> {
    memory
        .iter()
        .flat_map(|w| [*w as u32, (w >> 32) as u32])
        .collect()
}

/// A launch of the smallest of the stock programs: its words, its descriptor, and its constants and code.
fn launch(device: &Device, cubin: &[u8]) -> [Vec<u32>; 3] {
    let cubin = Cubin::parse(cubin).expect("a cubin");
    let found = cubin.kernel("vadd").expect("its kernel");
    // The argument block comes first, then the image.
    let image = GPU + MORE + 0x1000;
    let bytes = cubin.image().expect("a size").bytes as usize;
    let mut code = vec![0u64; bytes.div_ceil(8)];
    cubin
        .load(&mut Region::from_words(&mut code, image))
        .expect("room");
    let kernel = found.kernel(device.chip(), image).expect("numbers");
    let mut slots = [ArgSlot::buffer(0); 8];
    let layout = found.layout(&mut slots).expect("arguments");
    let local = crate::nv::local(device.chip(), kernel.local.bytes()).expect("memory");
    let program = Program::new(device, &kernel, layout, &local).expect("a program");
    let mut block = [0u64; 0x1000 / 8];
    let mut kernargs = Region::from_words(&mut block, GPU + MORE);
    let (mut descriptors, mut words) = ([0u64; 64], [0u32; 256]);
    let at = Region::from_words(&mut descriptors, GPU + QMDS);
    let qmds = Qmds::new(at, RegionId(2));
    let mut queue = NvCompute::new(device, &mut words, qmds, PatchList::none());
    queue
        .setup(&Setup::compute(device))
        .and_then(|q| q.setup(&Setup::local_memory(local)))
        .expect("room");
    common(&mut queue);
    queue
        .memory_barrier()
        .and_then(|q| {
            q.exec(Launch {
                program: &program,
                args: &[0x1000u64, 0x2000, 0x3000].map(|a| Arg::Buffer((GPU + DATA + a).into())),
                kernargs: Block::new(&mut kernargs, RegionId(1), 0, program.kernargs_size())
                    .expect("room"),
                groups: [1u64.into(), 1u64.into(), 1u64.into()],
                local: [32u64.into(), 1u64.into(), 1u64.into()],
                local_memory: 0,
            })
        })
        .and_then(|q| q.signal(SIGNAL, 9u64.into()))
        .expect("it is recorded");
    let words = queue.words().to_vec();
    let descriptor = halves(&descriptors);
    [words, descriptor, [halves(&block), halves(&code)].concat()]
}

/// Queues as the driver records them, and words that no engine takes.
pub(crate) fn words_as_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (names, number, cubin) in [
        (
            ["ok-launch-ampere", "ok-copy-ampere"],
            0,
            "vadd-sm_86.cubin",
        ),
        (
            ["ok-launch-hopper", "ok-copy-hopper"],
            2,
            "vadd-sm_90.cubin",
        ),
        (
            ["ok-launch-blackwell", "ok-copy-blackwell"],
            3,
            "vadd-sm_120.cubin",
        ),
    ] {
        let chip = Chip::named(CHIPS[usize::from(number)].1).expect("a chip of the table");
        let device = Device::new(chip);
        let [mut words, descriptor, more] = launch(&device, &crate::nv::object(cubin));
        // Whole quadruples of words; a NOP of the host's takes one.
        words.resize(words.len().next_multiple_of(4), 0);
        let share = u8::try_from(words.len() / 4).expect("few words");
        let descriptors = u8::try_from(descriptor.len() / 16).expect("few words");
        let head = [number, 1, share, descriptors];
        seeds.push((names[0], seed(head, &[&words, &descriptor, &more])));
        let mut words = [0u32; 256];
        let mut queue = NvCopy::new(&device, &mut words, PatchList::none());
        queue.setup(&Setup::copy(&device)).expect("room");
        common(&mut queue);
        queue
            .copy(
                Value::Imm(GPU + DATA + 0x1000),
                Value::Imm(GPU + DATA),
                64u64.into(),
            )
            .expect("it is recorded");
        seeds.push((names[1], seed([number, 2, u8::MAX, 0], &[queue.words()])));
    }
    let wrong = [0xc000_0000, 0x2005_0017, 0x41, 0x10, 9, 0, 0x0310_0001];
    seeds.push(("bad-methods", seed([0, 1, u8::MAX, 0], &[&wrong])));
    // WFI of an engine that was never set, and a launch at an address where nothing is.
    let nothing = [0x2001_20ad, 0x8123_4502, 0x2001_20b0, 9];
    seeds.push(("bad-no-class", seed([1, 1, u8::MAX, 0], &[&nothing])));
    seeds
}

/// A byte for the machine and then calls: see [`crate::raw`]. Accepted are inputs of which eight calls or more succeed.
pub fn nv_ioctl(data: &[u8]) -> bool {
    crate::raw::run(
        Family {
            machines: &[
                "nv-ampere,pace=manual,vram=64",
                "nv-hopper,pace=manual,vram=64,gpus=2",
                "nv-blackwell,pace=manual,vram=64",
                "nv-ada,pace=manual,vram=64,driver=535.129.03",
            ],
            nodes: &[
                "/dev/nvidiactl",
                "/dev/nvidia0",
                "/dev/nvidia-uvm",
                "/dev/nvidia1",
            ],
            requests: &[
                NVOS21_PARAMETERS::REQUEST,
                NVOS64_PARAMETERS::REQUEST,
                NVOS54_PARAMETERS::REQUEST,
                NVOS00_PARAMETERS::REQUEST,
                nv_ioctl_nvos02_parameters_with_fd::REQUEST,
                nv_ioctl_nvos33_parameters_with_fd::REQUEST,
                NVOS34_PARAMETERS::REQUEST,
                NVOS46_PARAMETERS::REQUEST,
                NVOS47_PARAMETERS::REQUEST,
                nv_ioctl_card_info_list::REQUEST,
                nv_ioctl_register_fd::REQUEST,
                nv_ioctl_alloc_os_event::REQUEST,
                nv_ioctl_rm_api_version::REQUEST,
                UVM_INITIALIZE,
                UVM_DEINITIALIZE,
                UVM_MM_INITIALIZE,
                UVM_REGISTER_GPU,
                UVM_UNREGISTER_GPU,
                UVM_REGISTER_GPU_VASPACE,
                UVM_UNREGISTER_GPU_VASPACE,
                UVM_REGISTER_CHANNEL,
                UVM_UNREGISTER_CHANNEL,
                UVM_ENABLE_PEER_ACCESS,
                UVM_DISABLE_PEER_ACCESS,
                UVM_CREATE_EXTERNAL_RANGE,
                UVM_MAP_EXTERNAL_ALLOCATION,
                UVM_UNMAP_EXTERNAL,
                UVM_FREE,
                nv_ioctl_free_os_event::REQUEST,
                NVOS41_PARAMETERS::REQUEST,
            ],
            may_call: |_, _, _| true,
            succeeded: |request, status| match request {
                r if r == NVOS21_PARAMETERS::REQUEST || r == NVOS54_PARAMETERS::REQUEST => {
                    status(28) == NV_OK
                }
                r if r == NVOS00_PARAMETERS::REQUEST => status(12) == NV_OK,
                r if r == nv_ioctl_nvos33_parameters_with_fd::REQUEST => status(40) == NV_OK,
                UVM_INITIALIZE => status(8) == NV_OK,
                _ => true,
            },
        },
        data,
    )
}

/// A process that opens everything, makes a client, a device, events, memory, and maps it; and processes that get nowhere.
pub(crate) fn calls_as_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let good = |machine: u8| {
        let mut s = Script::new(machine);
        for node in [0, 1, 2, 0] {
            s.open(node);
        }
        let (client, at, params) = (0x100, 0x200, 0x300);
        // A client: its handle is the third word of the answer.
        let root = NVOS21_PARAMETERS {
            hClass: NV01_ROOT_CLIENT,
            ..Default::default()
        };
        s.put(at, root.as_bytes());
        s.call(0, NVOS21_PARAMETERS::REQUEST, at);
        s.copy(at + 8, client, 4);
        s.file(params, 0);
        s.call(1, nv_ioctl_register_fd::REQUEST, params);
        let alloc = |s: &mut Script, handle: u32, parent: Option<u32>, class: u32, p: &[u8]| {
            s.put(params, p);
            let args = NVOS21_PARAMETERS {
                hObjectParent: parent.unwrap_or_default(),
                hObjectNew: handle,
                hClass: class,
                pAllocParms: Script::address(params),
                paramsSize: p.len() as u32,
                ..Default::default()
            };
            s.put(at, args.as_bytes());
            s.copy(client, at, 4);
            if parent.is_none() {
                s.copy(client, at + 4, 4);
            }
            if class == NV01_DEVICE_0 {
                s.copy(client, params + 4, 4);
            }
            if class == NV01_MEMORY_SYSTEM {
                s.copy(client, params, 4);
            }
            s.call(0, NVOS21_PARAMETERS::REQUEST, at);
        };
        let device = NV0080_ALLOC_PARAMETERS {
            vaMode: 2,
            ..Default::default()
        };
        alloc(&mut s, 0xcaf1, None, NV01_DEVICE_0, device.as_bytes());
        alloc(&mut s, 0xcaf2, Some(0xcaf1), NV20_SUBDEVICE_0, &[0; 4]);
        // A question to the subdevice, of which these bytes are not zero.
        let ask = |s: &mut Script, cmd: u32, p: &[u8], len: usize| {
            s.put(params, p);
            let control = NVOS54_PARAMETERS {
                hObject: 0xcaf2,
                cmd,
                params: Script::address(params),
                paramsSize: len as u32,
                ..Default::default()
            };
            s.put(at, control.as_bytes());
            s.copy(client, at, 4);
            s.call(0, NVOS54_PARAMETERS::REQUEST, at);
        };
        // The GPU's file takes events, of errors.
        let name = nv_ioctl_alloc_os_event {
            fd: 3,
            ..Default::default()
        };
        s.put(at, name.as_bytes());
        s.copy(client, at, 4);
        s.call(1, nv_ioctl_alloc_os_event::REQUEST, at);
        let event = NV0005_ALLOC_PARAMETERS {
            hSrcResource: 0xcaf2,
            notifyIndex: NV2080_NOTIFIERS_RC_ERROR,
            data: 3,
            ..Default::default()
        };
        let class = NV01_EVENT_OS_EVENT;
        alloc(&mut s, 0xcaf4, Some(0xcaf2), class, event.as_bytes());
        let told = NV2080_CTRL_EVENT_SET_NOTIFICATION_PARAMS {
            event: NV2080_NOTIFIERS_RC_ERROR,
            action: NV2080_CTRL_EVENT_SET_NOTIFICATION_ACTION_REPEAT,
            ..Default::default()
        };
        let (cmd, told) = (NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION, told.as_bytes());
        ask(&mut s, cmd, told, told.len());
        s.call(1, NVOS41_PARAMETERS::REQUEST, at);
        s.put(at, name.as_bytes());
        s.copy(client, at, 4);
        s.call(1, nv_ioctl_free_os_event::REQUEST, at);
        let gid = size_of::<NV2080_CTRL_GPU_GET_GID_INFO_PARAMS>();
        let cmd = NV2080_CTRL_CMD_GPU_GET_GID_INFO;
        ask(&mut s, cmd, &[0, 0, 0, 0, 2, 0, 0, 0], gid);
        // Its name is what UVM knows it by.
        s.copy(params + 12, 0x600, 16);
        s.put(at, UVM_INITIALIZE_PARAMS::default().as_bytes());
        s.call(2, UVM_INITIALIZE, at);
        let gpu = UVM_REGISTER_GPU_PARAMS {
            rmCtrlFd: -1,
            ..Default::default()
        };
        s.put(at, gpu.as_bytes());
        s.copy(0x600, at, 16);
        s.call(2, UVM_REGISTER_GPU, at);
        let branch = if machine == 3 { 535 } else { 580 };
        let bytes = NV_MEMORY_ALLOCATION_PARAMS::len(Abi::of_branch(branch).expect("known"));
        let memory = NV_MEMORY_ALLOCATION_PARAMS {
            attr: NVOS32_ATTR_LOCATION.put(NVOS32_ATTR_LOCATION_PCI),
            size: 0x1_0000,
            ..Default::default()
        };
        alloc(
            &mut s,
            0xcaf3,
            Some(0xcaf1),
            NV01_MEMORY_SYSTEM,
            &memory.as_bytes()[..bytes],
        );
        let map = nv_ioctl_nvos33_parameters_with_fd {
            params: NVOS33_PARAMETERS {
                hDevice: 0xcaf2,
                hMemory: 0xcaf3,
                length: 0x1_0000,
                ..Default::default()
            },
            fd: 0,
            pad: 0,
        };
        s.put(at, map.as_bytes());
        s.copy(client, at, 4);
        s.file(at + 48, 3);
        s.call(0, nv_ioctl_nvos33_parameters_with_fd::REQUEST, at);
        s.mmap(3, 0, 16);
        s.store(0, 8, 5);
        s.step(10);
        let free = NVOS00_PARAMETERS {
            hObjectOld: 0xcaf3,
            ..Default::default()
        };
        s.put(at, free.as_bytes());
        s.copy(client, at, 4);
        s.copy(client, at + 4, 4);
        s.call(0, NVOS00_PARAMETERS::REQUEST, at);
        s.bytes()
    };
    let [nothing, numbers] = Script::unsound(NVOS21_PARAMETERS::REQUEST, 7);
    vec![
        ("ok-memory", good(0)),
        ("ok-memory-535", good(3)),
        nothing,
        numbers,
    ]
}
