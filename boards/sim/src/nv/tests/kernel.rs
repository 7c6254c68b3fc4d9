//! The kernel as a process sees it: raw calls, with the kernel's own structs.
#![allow(unsafe_code, reason = "calls of a process come with raw addresses")]

use std::path::Path;
use std::ptr::{NonNull, with_exposed_provenance_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hcq_uapi::ioctl::{self, Argument};
use hcq_uapi::nv::*;
use zerocopy::FromZeros;

use crate::machine::{Call, Machine, Script};

mod branches;
mod channels;
mod events;
mod faults;
mod files;
mod memory;
mod objects;
mod random;
mod uvm;

/// Addresses on the GPUs that the tests use.
const RING: u64 = 0x10_0000_0000;
const DATA: u64 = 0x20_0000_0000;
/// Bytes of a ring's memory, and what lies where in it.
const RING_BYTES: u64 = 2 << 20;
const USERD: u64 = 0x8000;
const WORDS: u64 = 0x1_0000;
const RESULTS: u64 = 0x10_0000;
const ENTRIES: u32 = 64;

fn pointer(address: u64) -> NonNull<u8> {
    NonNull::new(with_exposed_provenance_mut(address as usize)).expect("not null")
}

fn word(address: u64) -> &'static AtomicU64 {
    // SAFETY: the tests ask for words of memory that they have mapped and keep.
    unsafe { AtomicU64::from_ptr(pointer(address).as_ptr().cast()) }
}

fn half(address: u64) -> &'static AtomicU32 {
    // SAFETY: as above.
    unsafe { AtomicU32::from_ptr(pointer(address).as_ptr().cast()) }
}

fn at<T>(value: &mut T) -> u64 {
    (&raw mut *value).expose_provenance() as u64
}

fn soon(what: &str, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::yield_now();
    }
}

/// A GPU of a process.
#[derive(Clone, Copy, Debug)]
struct Gpu {
    file: i32,
    uuid: nv_uuid,
    device: u32,
    subdevice: u32,
}

/// A process that has opened everything and has devices, but nothing more.
struct Rig {
    machine: Arc<Machine>,
    abi: &'static Abi,
    control: i32,
    uvm: i32,
    client: u32,
    gpus: Vec<Gpu>,
}

/// Parameters of this branch's length, behind which nothing may be written.
struct Exact(Vec<u8>);

impl Exact {
    fn of<T: Params>(abi: &Abi, params: &T) -> Self {
        let len = T::len(abi);
        let mut bytes = vec![0xA5; len + 64];
        bytes[..len].copy_from_slice(&params.as_bytes()[..len]);
        Self(bytes)
    }

    fn address(&mut self) -> u64 {
        self.0.as_mut_ptr().expose_provenance() as u64
    }

    fn back<T: Params>(&self, abi: &Abi, params: &mut T) {
        let len = T::len(abi);
        assert!(
            self.0[len..].iter().all(|&byte| byte == 0xA5),
            "written behind"
        );
        params.as_mut_bytes()[..len].copy_from_slice(&self.0[..len]);
    }
}

impl Rig {
    fn bare(config: &str) -> Self {
        let machine = Machine::new(config.parse().expect(config)).expect("starts");
        let open = |path: &str| machine.open(Path::new(path), true).expect(path);
        let version = machine
            .read(Path::new("/proc/driver/nvidia/version"), 4096)
            .expect("is there");
        let version = Version::in_proc(std::str::from_utf8(&version).expect("text"));
        Self {
            control: open("/dev/nvidiactl"),
            uvm: open("/dev/nvidia-uvm"),
            abi: Abi::of(version.expect("a version")).expect("known"),
            machine,
            client: 0,
            gpus: Vec::new(),
        }
    }

    fn new(config: &str) -> Self {
        let mut rig = Self::bare(config);
        rig.client = rig.root(rig.control).expect("a client");
        let cards = rig.cards();
        for (number, card) in cards.iter().enumerate() {
            let path = format!("/dev/nvidia{}", card.minor_number);
            let file = rig.machine.open(Path::new(&path), true).expect("is there");
            let mut link = nv_ioctl_register_fd {
                ctl_fd: rig.control,
            };
            rig.call(file, &mut link).expect("linked");
            let mut params = NV0080_ALLOC_PARAMETERS {
                deviceId: number as u32,
                hClientShare: rig.client,
                vaMode: 2,
                ..Default::default()
            };
            let device = rig
                .alloc(rig.client, 0, NV01_DEVICE_0, &mut params)
                .expect("a device");
            let mut params = NV2080_ALLOC_PARAMETERS::default();
            let subdevice = rig
                .alloc(device, 0, NV20_SUBDEVICE_0, &mut params)
                .expect("a subdevice");
            let mut gid = NV2080_CTRL_GPU_GET_GID_INFO_PARAMS::new_zeroed();
            gid.flags = NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT
                .put(NV2080_GPU_CMD_GPU_GET_GID_FLAGS_FORMAT_BINARY);
            rig.control(subdevice, NV2080_CTRL_CMD_GPU_GET_GID_INFO, &mut gid)
                .expect("a name");
            assert_eq!(gid.length, 16);
            let mut uuid = nv_uuid::default();
            uuid.uuid.copy_from_slice(&gid.data[..16]);
            rig.gpus.push(Gpu {
                file,
                uuid,
                device,
                subdevice,
            });
        }
        rig
    }

    fn raw(&self, file: i32, request: u32, address: u64) -> Result<i32, i32> {
        let argument = with_exposed_provenance_mut(address as usize);
        // SAFETY: the tests pass structs of the request's size, or addresses that the machine must refuse.
        unsafe { self.machine.ioctl(file, request.into(), argument) }
    }

    fn call<T: Argument>(&self, file: i32, args: &mut T) -> Result<(), i32> {
        let address = at(args);
        self.raw(file, T::REQUEST, address)
            .map(|value| assert_eq!(value, 0))
    }

    /// A call that must be taken: its status.
    fn ask<T: Status>(&self, file: i32, args: &mut T) -> Result<(), u32> {
        self.call(file, args).expect("the file takes it");
        match args.status() {
            NV_OK => Ok(()),
            status => Err(status),
        }
    }

    fn root(&self, file: i32) -> Result<u32, u32> {
        let mut args = NVOS21_PARAMETERS {
            hClass: NV01_ROOT_CLIENT,
            ..Default::default()
        };
        self.ask(file, &mut args)?;
        Ok(args.hObjectNew)
    }

    /// An object of this rig's client.
    fn alloc<T: Params>(
        &self,
        parent: u32,
        handle: u32,
        class: u32,
        params: &mut T,
    ) -> Result<u32, u32> {
        let mut exact = Exact::of(self.abi, params);
        let mut args = NVOS21_PARAMETERS {
            hRoot: self.client,
            hObjectParent: parent,
            hObjectNew: handle,
            hClass: class,
            pAllocParms: exact.address(),
            paramsSize: T::len(self.abi) as u32,
            status: 0xA5A5,
        };
        self.ask(self.control, &mut args)?;
        exact.back(self.abi, params);
        Ok(args.hObjectNew)
    }

    /// An object without parameters.
    fn plain(&self, parent: u32, handle: u32, class: u32) -> Result<u32, u32> {
        let mut args = NVOS21_PARAMETERS {
            hRoot: self.client,
            hObjectParent: parent,
            hObjectNew: handle,
            hClass: class,
            ..Default::default()
        };
        self.ask(self.control, &mut args)?;
        Ok(args.hObjectNew)
    }

    fn free(&self, handle: u32) -> Result<(), u32> {
        let mut args = NVOS00_PARAMETERS {
            hRoot: self.client,
            hObjectOld: handle,
            ..Default::default()
        };
        self.ask(self.control, &mut args)
    }

    fn control<T: Params>(&self, object: u32, cmd: u32, params: &mut T) -> Result<(), u32> {
        let mut exact = Exact::of(self.abi, params);
        let mut args = NVOS54_PARAMETERS {
            hClient: self.client,
            hObject: object,
            cmd,
            params: exact.address(),
            paramsSize: T::len(self.abi) as u32,
            ..Default::default()
        };
        let result = self.ask(self.control, &mut args);
        exact.back(self.abi, params);
        result
    }

    fn cards(&self) -> Vec<nv_ioctl_card_info> {
        let mut list = nv_ioctl_card_info_list::new_zeroed();
        self.call(self.control, &mut list).expect("cards");
        let valid = list.cards.iter().filter(|card| card.valid != 0);
        valid.copied().collect()
    }

    fn memory(&self, gpu: usize, video: bool, size: u64) -> Result<u32, u32> {
        let location = if video {
            NVOS32_ATTR_LOCATION_VIDMEM
        } else {
            NVOS32_ATTR_LOCATION_PCI
        };
        let mut params = NV_MEMORY_ALLOCATION_PARAMS {
            owner: self.client,
            attr: NVOS32_ATTR_LOCATION.put(location),
            size,
            ..Default::default()
        };
        let class = if video {
            NV01_MEMORY_LOCAL_USER
        } else {
            NV01_MEMORY_SYSTEM
        };
        self.alloc(self.gpus[gpu].device, 0, class, &mut params)
    }

    /// Prepares a mapping with a file of its own, which it answers.
    fn prepare(
        &self,
        gpu: usize,
        path: &str,
        memory: u32,
        offset: u64,
        length: u64,
        flags: u32,
    ) -> Result<i32, u32> {
        let file = self.machine.open(Path::new(path), true).expect(path);
        let mut args = nv_ioctl_nvos33_parameters_with_fd {
            params: NVOS33_PARAMETERS {
                hClient: self.client,
                hDevice: self.gpus[gpu].subdevice,
                hMemory: memory,
                offset,
                length,
                flags,
                ..Default::default()
            },
            fd: file,
            pad: 0,
        };
        self.ask(self.control, &mut args)?;
        Ok(file)
    }

    fn mmap(&self, file: i32, length: u64) -> Result<u64, i32> {
        // SAFETY: new memory at an address of the machine's choice.
        let mapped = unsafe {
            self.machine
                .mmap(None, length as usize, true, true, file, 0)
        };
        mapped.map(|at| at.as_ptr().expose_provenance() as u64)
    }

    /// Maps the whole of some memory for the host.
    fn see(&self, gpu: usize, memory: u32, video: bool, length: u64) -> u64 {
        let path = if video {
            format!("/dev/nvidia{gpu}")
        } else {
            "/dev/nvidiactl".into()
        };
        let file = self
            .prepare(gpu, &path, memory, 0, length, 0)
            .expect("may be mapped");
        self.mmap(file, length).expect("mapped")
    }

    /// An address space that UVM fills, of every GPU.
    fn spaces(&self) -> Vec<u32> {
        let mut init = UVM_INITIALIZE_PARAMS::default();
        self.ask(self.uvm, &mut init).expect("initialized");
        (0..self.gpus.len())
            .map(|gpu| {
                let space = self.external(gpu);
                self.join(gpu).expect("joined");
                self.join_space(gpu, space).expect("its space joined");
                space
            })
            .collect()
    }

    fn external(&self, gpu: usize) -> u32 {
        let mut params = NV_VASPACE_ALLOCATION_PARAMETERS {
            flags: VaspaceFlags::IS_EXTERNALLY_OWNED | VaspaceFlags::ENABLE_PAGE_FAULTING,
            vaBase: 0x1000,
            vaSize: 0x1_ffff_fb00_0000,
            ..Default::default()
        };
        self.alloc(self.gpus[gpu].device, 0, FERMI_VASPACE_A, &mut params)
            .expect("an address space")
    }

    fn join(&self, gpu: usize) -> Result<(), u32> {
        let mut args = UVM_REGISTER_GPU_PARAMS {
            gpu_uuid: self.gpus[gpu].uuid,
            rmCtrlFd: -1,
            ..Default::default()
        };
        self.ask(self.uvm, &mut args)
    }

    fn join_space(&self, gpu: usize, space: u32) -> Result<(), u32> {
        let mut args = UVM_REGISTER_GPU_VASPACE_PARAMS {
            gpuUuid: self.gpus[gpu].uuid,
            rmCtrlFd: self.control,
            hClient: self.client,
            hVaSpace: space,
            ..Default::default()
        };
        self.ask(self.uvm, &mut args)
    }

    fn range(&self, base: u64, length: u64) -> Result<(), u32> {
        let mut args = UVM_CREATE_EXTERNAL_RANGE_PARAMS {
            base,
            length,
            ..Default::default()
        };
        self.ask(self.uvm, &mut args)
    }

    fn map(&self, gpus: &[usize], memory: u32, base: u64, length: u64) -> Result<(), u32> {
        self.map_as(gpus, memory, (base, length, 0), 0)
    }

    fn map_as(
        &self,
        gpus: &[usize],
        memory: u32,
        (base, length, offset): (u64, u64, u64),
        kind: u32,
    ) -> Result<(), u32> {
        let mut args = Box::new(UVM_MAP_EXTERNAL_ALLOCATION_PARAMS::new_zeroed());
        (args.base, args.length, args.offset) = (base, length, offset);
        for (how, &gpu) in args.perGpuAttributes.iter_mut().zip(gpus) {
            how.gpuUuid = self.gpus[gpu].uuid;
            how.gpuMappingType = kind;
        }
        args.gpuAttributesCount = gpus.len() as u64;
        args.rmCtrlFd = self.control;
        (args.hClient, args.hMemory) = (self.client, memory);
        self.ask(self.uvm, &mut *args)
    }

    fn reports(&self) -> String {
        self.machine.reports().join("\n")
    }

    /// Moves the engines of a machine that waits for it.
    fn run(&self) {
        for _ in 0..10_000 {
            if !self.machine.step() {
                return;
            }
        }
        panic!("no end: {}", self.reports());
    }
}

/// A channel with a ring, control words and words in memory of its own, mapped at addresses of its own.
struct Channel<'a> {
    /// Its addresses are mapped as long as the rig is there.
    _rig: &'a Rig,
    handle: u32,
    group: u32,
    token: u32,
    /// The host's view of its memory.
    host: u64,
    base: u64,
    notifier: u64,
    doorbells: u64,
    put: std::cell::Cell<u32>,
    used: std::cell::Cell<u64>,
}

impl Rig {
    fn doorbells(&self, gpu: usize) -> u64 {
        let class = *chip(self).usermode.last().expect("has one");
        let memory = self
            .plain(self.gpus[gpu].subdevice, 0, class)
            .expect("doorbells");
        let length = NVC361_NV_USERMODE__SIZE.into();
        self.see(gpu, memory, true, length)
    }

    fn group(&self, gpu: usize, space: u32, engine: u32) -> Result<u32, u32> {
        let mut params = NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS {
            hVASpace: space,
            engineType: engine,
            ..Default::default()
        };
        self.alloc(
            self.gpus[gpu].device,
            0,
            KEPLER_CHANNEL_GROUP_A,
            &mut params,
        )
    }

    fn share(&self, group: u32, space: u32) -> Result<u32, u32> {
        let mut params = NV_CTXSHARE_ALLOCATION_PARAMETERS {
            hVASpace: space,
            flags: NV_CTXSHARE_ALLOCATION_FLAGS_SUBCONTEXT_ASYNC,
            ..Default::default()
        };
        self.alloc(group, 0, FERMI_CONTEXT_SHARE_A, &mut params)
    }

    fn token(&self, channel: u32) -> Result<u32, u32> {
        let mut params = NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS::default();
        let cmd = NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN;
        self.control(channel, cmd, &mut params)?;
        Ok(params.workSubmitToken)
    }

    fn register(&self, gpu: usize, channel: u32, base: u64, length: u64) -> Result<(), u32> {
        let mut args = UVM_REGISTER_CHANNEL_PARAMS {
            gpuUuid: self.gpus[gpu].uuid,
            rmCtrlFd: self.control,
            hClient: self.client,
            hChannel: channel,
            base,
            length,
            ..Default::default()
        };
        self.ask(self.uvm, &mut args)
    }

    fn schedule(&self, group: u32, on: bool) -> Result<(), u32> {
        let mut params = NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS {
            bEnable: u8::from(on),
            ..Default::default()
        };
        self.control(group, NVA06C_CTRL_CMD_GPFIFO_SCHEDULE, &mut params)
    }

    /// A channel in a group, bound, but not scheduled. Channels are numbered by the test.
    fn channel(&self, gpu: usize, number: u64, group: u32, space: u32) -> Channel<'_> {
        let share = self.share(group, space).expect("a context");
        let base = RING + number * RING_BYTES;
        let memory = self.memory(gpu, false, RING_BYTES).expect("memory");
        self.range(base, RING_BYTES).expect("a range");
        self.map(&[gpu], memory, base, RING_BYTES).expect("mapped");
        let host = self.see(gpu, memory, false, RING_BYTES);
        let errors = self.memory(gpu, false, 4096).expect("memory");
        let mut params = NV_CHANNEL_ALLOC_PARAMS {
            hObjectError: errors,
            gpFifoOffset: base,
            gpFifoEntries: ENTRIES,
            hContextShare: share,
            ..NV_CHANNEL_ALLOC_PARAMS::new_zeroed()
        };
        params.hUserdMemory[0] = memory;
        params.userdOffset[0] = USERD;
        let class = *chip(self).gpfifo.last().expect("has one");
        let handle = self.alloc(group, 0, class, &mut params).expect("a channel");
        let token = self.token(handle).expect("a token");
        let window = 0x40_0000_0000 + number * (64 << 20);
        self.register(gpu, handle, window, 64 << 20).expect("bound");
        Channel {
            _rig: self,
            handle,
            group,
            token,
            host,
            base,
            notifier: self.see(gpu, errors, false, 4096),
            doorbells: self.doorbells(gpu),
            put: std::cell::Cell::new(0),
            used: std::cell::Cell::new(0),
        }
    }
}

fn chip(rig: &Rig) -> &'static crate::nv::chip::Chip {
    crate::nv::chip::find(rig.machine.config().chip()).expect("known")
}

impl Channel<'_> {
    /// Words to a ring, but no ring of the doorbell.
    fn write(&self, words: &[u32]) {
        let first = WORDS + self.used.get();
        for (place, &value) in (first..).step_by(4).zip(words) {
            half(self.host + place).store(value, Ordering::Relaxed);
        }
        self.used.set(self.used.get() + words.len() as u64 * 4);
        self.entry((self.base + first) | (words.len() as u64) << 42);
    }

    fn entry(&self, entry: u64) {
        let put = self.put.get();
        word(self.host + u64::from(put) * 8).store(entry, Ordering::Relaxed);
        self.put.set((put + 1) % ENTRIES);
        half(self.host + USERD + 0x8C).store(self.put.get(), Ordering::Release);
    }

    fn ring(&self) {
        half(self.doorbells + u64::from(NVC361_NOTIFY_CHANNEL_PENDING))
            .store(self.token, Ordering::Release);
    }

    /// A release of a 32-bit value at a GPU address.
    fn release(&self, address: u64, value: u32) {
        // `SEM_ADDR_LO` and the four after it; a release.
        let header = 1 << 29 | 5 << 16 | 0x5C >> 2;
        let high = (address >> 32) as u32;
        self.write(&[header, address as u32, high, value, 0, 1]);
    }

    fn result(&self, place: u64) -> u32 {
        half(self.host + RESULTS + place).load(Ordering::Acquire)
    }

    fn result_at(&self, place: u64) -> u64 {
        self.base + RESULTS + place
    }

    fn get(&self) -> u32 {
        half(self.host + USERD + 0x88).load(Ordering::Acquire)
    }

    /// The error that its notifier tells: code, engine and status.
    fn error(&self) -> (u32, u32, u32) {
        let last = half(self.notifier + 12).load(Ordering::Acquire);
        let code = half(self.notifier + 8).load(Ordering::Acquire);
        (code, last & 0xFFFF, last >> 16)
    }
}
