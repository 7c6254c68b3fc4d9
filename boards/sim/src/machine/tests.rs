//! The machine as a process sees it: raw calls, with the kernel's own structs.

use std::path::Path;
use std::ptr::{NonNull, with_exposed_provenance_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hcq_uapi::ioctl::Argument;
use hcq_uapi::kfd::*;

use super::*;
use crate::engine::{Engine, Fault, Host, Step};
use crate::vm::Need;

mod drivers;
mod events;
mod faults;
mod files;
mod memory;
mod order;
mod queues;
mod topology;

use AllocMemFlags as F;

const GTT: AllocMemFlags = F::GTT.union(F::WRITABLE).union(F::EXECUTABLE);
const VRAM: AllocMemFlags = F::VRAM.union(F::WRITABLE).union(F::PUBLIC);

/// A process that has opened everything.
struct Rig {
    machine: Arc<Machine>,
    kfd: i32,
    nodes: Vec<i32>,
    ids: Vec<u32>,
}

/// Memory that host and GPU see at one address.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    address: u64,
    bytes: u64,
    handle: u64,
}

fn pointer(address: u64) -> NonNull<u8> {
    NonNull::new(with_exposed_provenance_mut(address as usize)).expect("not null")
}

/// The word of a buffer, as the host sees it.
fn word(address: u64) -> &'static AtomicU64 {
    // SAFETY: the tests ask for words of buffers that they have mapped and keep.
    unsafe { AtomicU64::from_ptr(pointer(address).as_ptr().cast()) }
}

/// Addresses that nobody uses.
fn reserve(bytes: u64) -> u64 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new memory at an address of the kernel's choice.
    let at = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes as usize,
            libc::PROT_NONE,
            flags,
            -1,
            0,
        )
    };
    assert_ne!(at, libc::MAP_FAILED);
    at.expose_provenance() as u64
}

impl Rig {
    fn on(config: &str) -> Self {
        let machine = Machine::new(config.parse().expect(config)).expect("starts");
        let kfd = machine.open(Path::new("/dev/kfd"), true).expect("is there");
        let mut rig = Self {
            machine,
            kfd,
            nodes: Vec::new(),
            ids: Vec::new(),
        };
        for gpu in 0..rig.machine.config().gpus {
            let path = format!("/dev/dri/renderD{}", 128 + gpu);
            rig.nodes
                .push(rig.machine.open(Path::new(&path), true).expect("is there"));
            let path = format!(
                "/sys/devices/virtual/kfd/kfd/topology/nodes/{}/gpu_id",
                gpu + 1
            );
            let text = rig.machine.read(Path::new(&path), 100).expect("is there");
            let text = String::from_utf8(text).expect("text");
            rig.ids.push(text.trim().parse().expect("a number"));
        }
        rig
    }

    /// With the address spaces of all GPUs.
    fn new(config: &str) -> Self {
        let rig = Self::on(config);
        for (&node, &gpu_id) in rig.nodes.iter().zip(&rig.ids) {
            let mut args = kfd_ioctl_acquire_vm_args {
                drm_fd: node as u32,
                gpu_id,
            };
            rig.call(&mut args).expect("address space");
        }
        rig
    }

    fn raw(&self, request: u32, address: u64) -> Result<i32, i32> {
        let argument = with_exposed_provenance_mut(address as usize);
        // SAFETY: the tests pass structs of the request's size, or addresses that the machine must refuse.
        unsafe { self.machine.ioctl(self.kfd, request.into(), argument) }
    }

    fn call<T: Argument>(&self, args: &mut T) -> Result<(), i32> {
        let address = (&raw mut *args).expose_provenance() as u64;
        self.raw(T::REQUEST, address)
            .map(|value| assert_eq!(value, 0))
    }

    fn alloc(
        &self,
        gpu: usize,
        va_addr: u64,
        size: u64,
        flags: AllocMemFlags,
    ) -> Result<(u64, u64), i32> {
        let mut args = kfd_ioctl_alloc_memory_of_gpu_args {
            va_addr,
            size,
            gpu_id: self.ids[gpu],
            flags,
            ..Default::default()
        };
        self.call(&mut args)?;
        Ok((args.handle, args.mmap_offset))
    }

    fn map(&self, handle: u64, gpus: &[usize]) -> Result<u32, (i32, u32)> {
        let ids: Vec<u32> = gpus.iter().map(|&gpu| self.ids[gpu]).collect();
        let mut args = kfd_ioctl_map_memory_to_gpu_args {
            handle,
            device_ids_array_ptr: ids.as_ptr().expose_provenance() as u64,
            n_devices: ids.len() as u32,
            n_success: 0,
        };
        let result = self.call(&mut args);
        result
            .map(|()| args.n_success)
            .map_err(|errno| (errno, args.n_success))
    }

    fn unmap(&self, handle: u64, gpus: &[usize]) -> Result<u32, (i32, u32)> {
        let ids: Vec<u32> = gpus.iter().map(|&gpu| self.ids[gpu]).collect();
        let mut args = kfd_ioctl_unmap_memory_from_gpu_args {
            handle,
            device_ids_array_ptr: ids.as_ptr().expose_provenance() as u64,
            n_devices: ids.len() as u32,
            n_success: 0,
        };
        let result = self.call(&mut args);
        result
            .map(|()| args.n_success)
            .map_err(|errno| (errno, args.n_success))
    }

    fn free(&self, handle: u64) -> Result<(), i32> {
        self.call(&mut kfd_ioctl_free_memory_of_gpu_args { handle })
    }

    fn see(&self, gpu: usize, at: u64, bytes: u64, offset: u64) -> Result<u64, i32> {
        let fixed = (at != 0).then(|| pointer(at));
        // SAFETY: the tests reserve what they fix.
        let mapped = unsafe {
            self.machine
                .mmap(fixed, bytes as usize, true, true, self.nodes[gpu], offset)
        };
        mapped.map(|mapped| mapped.as_ptr().expose_provenance() as u64)
    }

    fn buffer(&self, gpu: usize, bytes: u64, flags: AllocMemFlags) -> Buffer {
        let address = reserve(bytes);
        let (handle, offset) = self.alloc(gpu, address, bytes, flags).expect("memory");
        assert_eq!(self.see(gpu, address, bytes, offset), Ok(address));
        assert_eq!(self.map(handle, &[gpu]), Ok(1));
        Buffer {
            address,
            bytes,
            handle,
        }
    }

    /// The topology's number of this name.
    fn property(&self, gpu: usize, name: &str) -> u64 {
        let path = format!("/sys/class/kfd/kfd/topology/nodes/{}/properties", gpu + 1);
        let text = self
            .machine
            .read(Path::new(&path), 1 << 16)
            .expect("is there");
        let text = String::from_utf8(text).expect("text");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.expect(name).parse().expect("a number")
    }
}

/// A queue, and what it is made of.
struct Ring {
    ring: Buffer,
    /// The read pointer is at the start, the write pointer 64 bytes on.
    pointers: Buffer,
    eop: Option<Buffer>,
    area: Option<Buffer>,
    args: kfd_ioctl_create_queue_args,
    /// Where the host sees the doorbell, once it has asked.
    doorbell: u64,
}

impl Rig {
    /// Everything that a queue of this type needs, not created yet.
    fn ring(&self, gpu: usize, queue_type: u32) -> Ring {
        let ring = self.buffer(gpu, 4096, GTT);
        let pointers = self.buffer(gpu, 4096, GTT);
        let mut args = kfd_ioctl_create_queue_args {
            ring_base_address: ring.address,
            read_pointer_address: pointers.address,
            write_pointer_address: pointers.address + 64,
            ring_size: 4096,
            gpu_id: self.ids[gpu],
            queue_type,
            queue_percentage: 100,
            queue_priority: 7,
            ..Default::default()
        };
        let compute =
            [KFD_IOC_QUEUE_TYPE_COMPUTE, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL].contains(&queue_type);
        let (mut eop, mut area) = (None, None);
        if compute {
            let save = self.property(gpu, "cwsr_size");
            let control = self.property(gpu, "ctl_stack_size");
            let xccs = self.property(gpu, "num_xcc");
            let units = self.property(gpu, "simd_count") / self.property(gpu, "simd_per_cu") / xccs;
            let waves = if self.property(gpu, "gfx_target_version") < 100_100 {
                (units * 40).min(self.property(gpu, "array_count") / xccs * 512)
            } else {
                units * 32
            };
            let all = ((save + waves * 32) * xccs).next_multiple_of(4096);
            let (e, a) = (self.buffer(gpu, 4096, VRAM), self.buffer(gpu, all, GTT));
            args.eop_buffer_address = e.address;
            args.eop_buffer_size = 4096;
            args.ctx_save_restore_address = a.address;
            args.ctx_save_restore_size = save as u32;
            args.ctl_stack_size = control as u32;
            (eop, area) = (Some(e), Some(a));
        }
        Ring {
            ring,
            pointers,
            eop,
            area,
            args,
            doorbell: 0,
        }
    }

    fn create(&self, queue: &mut Ring) -> Result<u32, i32> {
        self.call(&mut queue.args)?;
        Ok(queue.args.queue_id)
    }

    /// A queue whose doorbell can be rung.
    fn queue(&self, gpu: usize, queue_type: u32) -> Ring {
        let mut queue = self.ring(gpu, queue_type);
        self.create(&mut queue).expect("a queue");
        let offset = queue.args.doorbell_offset;
        // SAFETY: no fixed address.
        let page = unsafe {
            self.machine
                .mmap(None, 8192, true, true, self.kfd, offset & !0x1FFF)
        };
        let page = page.expect("doorbells").as_ptr().expose_provenance() as u64;
        queue.doorbell = page + (offset & 0x1FFF);
        queue
    }

    fn destroy(&self, queue_id: u32) -> Result<(), i32> {
        self.call(&mut kfd_ioctl_destroy_queue_args { queue_id, pad: 0 })
    }

    fn event(
        &self,
        event_type: u32,
        auto_reset: bool,
        page: u64,
    ) -> Result<kfd_ioctl_create_event_args, i32> {
        let mut args = kfd_ioctl_create_event_args {
            event_page_offset: page,
            event_type,
            auto_reset: auto_reset.into(),
            ..Default::default()
        };
        self.call(&mut args).map(|()| args)
    }

    fn wait(&self, events: &mut [kfd_event_data], all: bool, timeout: u32) -> Result<u32, i32> {
        let mut args = kfd_ioctl_wait_events_args {
            events_ptr: events.as_mut_ptr().expose_provenance() as u64,
            num_events: events.len() as u32,
            wait_for_all: all.into(),
            timeout,
            wait_result: 99,
        };
        self.call(&mut args).map(|()| args.wait_result)
    }
}

fn wanted(event_id: u32) -> kfd_event_data {
    kfd_event_data {
        event_id,
        ..Default::default()
    }
}

/// Packets of an engine that only these tests know: three words, of which the first says what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packet {
    /// Stores a value.
    Store(u64, u64),
    /// Waits until there is a value.
    Wait(u64, u64),
    /// Interrupts with a context.
    Interrupt(u32),
    /// Fetches an instruction.
    Run(u64),
    /// Is none.
    Illegal,
}

impl Packet {
    fn words(self) -> [u64; 3] {
        match self {
            Self::Store(address, value) => [0, address, value],
            Self::Wait(address, value) => [1, address, value],
            Self::Interrupt(context) => [2, context.into(), 0],
            Self::Run(address) => [3, address, 0],
            Self::Illegal => [9, 9, 9],
        }
    }
}

/// Runs [`Packet`]s. Its doorbell counts packets; of an AQL ring it is the last one's number.
struct Reader {
    request: EngineRequest,
    read: u64,
}

fn load(host: &dyn Host, address: u64) -> Result<u64, Cause> {
    let extent = host.vm().translate(address, 8, Need::Read)?;
    // SAFETY: eight mapped bytes, aligned as the tests have them.
    Ok(unsafe { AtomicU64::from_ptr(extent.host.as_ptr().cast()) }.load(Ordering::Acquire))
}

fn store(host: &dyn Host, address: u64, value: u64) -> Result<(), Cause> {
    let extent = host.vm().translate(address, 8, Need::Write)?;
    // SAFETY: as in `load`.
    unsafe { AtomicU64::from_ptr(extent.host.as_ptr().cast()) }.store(value, Ordering::Release);
    Ok(())
}

impl Reader {
    fn packet(&mut self, host: &mut dyn Host) -> Result<Step, Cause> {
        let put = match self.request.kind {
            QueueKind::Aql => host.doorbell().wrapping_add(1),
            QueueKind::Pm4 | QueueKind::Sdma => host.doorbell(),
        };
        if put == self.read {
            return Ok(Step::Idle);
        }
        let at = self.request.memory.ring + self.read % 128 * 32;
        let (what, first, second) = (load(host, at)?, load(host, at + 8)?, load(host, at + 16)?);
        match what {
            0 => store(host, first, second)?,
            1 if load(host, first)? != second => return Ok(Step::Waiting),
            1 => {}
            2 => host.interrupt(first as u32),
            3 => drop(host.vm().translate(first, 4, Need::Execute)?),
            _ => return Err(Cause::Packet(format!("no packet is {what}"))),
        }
        self.read += 1;
        store(host, self.request.memory.read_pointer, self.read)?;
        Ok(Step::Progress)
    }
}

impl Engine for Reader {
    fn step(&mut self, host: &mut dyn Host) -> Step {
        self.packet(host).unwrap_or_else(|cause| {
            Step::Fault(Box::new(Fault {
                cause,
                packet: format!("packet {}", self.read),
            }))
        })
    }
}

impl Rig {
    /// With engines that know [`Packet`]s.
    fn readers(config: &str) -> Self {
        let rig = Self::new(config);
        rig.machine.engines(Box::new(|request| {
            Some(Box::new(Reader {
                request: *request,
                read: 0,
            }))
        }));
        rig
    }
}

impl Ring {
    /// Writes packets behind those that were written, and rings.
    fn push(&self, packets: &[Packet]) {
        let put = word(self.pointers.address + 64);
        for packet in packets {
            let at = self.ring.address + put.load(Ordering::Relaxed) % 128 * 32;
            for (index, value) in (0u64..).zip(packet.words()) {
                word(at + index * 8).store(value, Ordering::Relaxed);
            }
            put.fetch_add(1, Ordering::Release);
        }
        let count = put.load(Ordering::Relaxed);
        let rung = if self.args.queue_type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL {
            count - 1
        } else {
            count
        };
        word(self.doorbell).store(rung, Ordering::Release);
    }

    fn read(&self) -> u64 {
        word(self.pointers.address).load(Ordering::Acquire)
    }
}

/// Waits for what an engine does in its own time.
fn soon(what: &str, mut is: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(20);
    while !is() {
        assert!(Instant::now() < end, "{what} does not happen");
        std::thread::sleep(Duration::from_micros(50));
    }
}
