//! The machine as a process sees it: raw calls of `/dev/kgsl-3d0`, with the kernel's own structs, and command buffers.
#![allow(unsafe_code, reason = "calls of a process come with raw addresses")]

use std::num::NonZeroUsize;
use std::path::Path;
use std::ptr::{NonNull, with_exposed_provenance_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hcq_uapi::ioctl::Argument;
use hcq_uapi::kgsl::*;
use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::machine::{Config, Machine};

mod caches;
mod commands;
mod contexts;
mod faults;
mod memory;
mod msm;
mod order;
mod properties;

const PAGE: u64 = 4096;
/// What every context has to have.
const PLAIN: ContextFlags = ContextFlags::PREAMBLE.union(ContextFlags::NO_GMEM_ALLOC);
const WRITE_COMBINED: MemFlags = MemFlags::cache_mode(CacheMode::WriteCombine);
const CACHED: MemFlags = MemFlags::cache_mode(CacheMode::WriteBack);

/// A process that has opened the device.
struct Rig {
    machine: Arc<Machine>,
    file: i32,
    /// Command buffers, one page each.
    commands: Vec<Buffer>,
}

/// An object that is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Buffer {
    id: u32,
    gpu: u64,
    cpu: u64,
    bytes: u64,
    flags: MemFlags,
}

impl Buffer {
    /// A word, as the process sees it.
    fn word(&self, offset: u64) -> &AtomicU64 {
        assert!(offset + 8 <= self.bytes && offset.is_multiple_of(8));
        // SAFETY: tests keep what they use mapped.
        unsafe { AtomicU64::from_ptr(pointer(self.cpu + offset).as_ptr().cast()) }
    }

    fn get(&self, offset: u64) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    fn set(&self, offset: u64, value: u64) {
        self.word(offset).store(value, Ordering::Release);
    }
}

/// Pages of the process's own, unmapped when they are dropped.
pub(super) struct Pages(NonNull<u8>, usize);

impl Pages {
    pub(super) fn new(bytes: u64) -> Self {
        let len = NonZeroUsize::new(bytes as usize).expect("some");
        let both = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: pages wherever the host likes.
        let start = unsafe { mmap_anonymous(None, len, both, MapFlags::MAP_PRIVATE) };
        Self(start.expect("pages").cast(), len.get())
    }

    pub(super) fn start(&self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`; whoever looks at them later asks the host's kernel.
        unsafe { munmap(self.0.cast(), self.1) }.expect("mapped");
    }
}

fn pointer(address: u64) -> NonNull<u8> {
    NonNull::new(with_exposed_provenance_mut(address as usize)).expect("not null")
}

/// The address of something that a call reads or writes.
fn at<T: ?Sized>(value: &mut T) -> u64 {
    (&raw mut *value).cast::<u8>().expose_provenance() as u64
}

/// A packet of type 7.
fn packet(opcode: u32, body: &[u32]) -> Vec<u32> {
    let odd = |value: u32| (value.count_ones() + 1) & 1;
    let count = body.len() as u32;
    let mut words = vec![7 << 28 | count | odd(count) << 15 | opcode << 16 | odd(opcode) << 23];
    words.extend(body);
    words
}

/// `CP_MEM_WRITE` of a 64-bit value.
fn write(address: u64, value: u64) -> Vec<u32> {
    let halves = |value: u64| [value as u32, (value >> 32) as u32];
    packet(0x3D, &[halves(address), halves(value)].concat())
}

/// `CP_WAIT_REG_MEM`: until the 32 bits at an address are no less than a value.
fn wait_for(address: u64, value: u32) -> Vec<u32> {
    let (low, high) = (address as u32, (address >> 32) as u32);
    packet(0x3C, &[5 | 1 << 4, low, high, value, u32::MAX, 16])
}

/// `CP_NOP`.
fn nothing() -> Vec<u32> {
    packet(0x10, &[0])
}

impl Rig {
    fn on(config: &str) -> Self {
        let config: Config = config.parse().expect(config);
        let machine = Machine::new(config).expect("starts");
        let node = Path::new("/dev/kgsl-3d0");
        let file = machine.open(node, true).expect("is there");
        Self {
            machine,
            file,
            commands: Vec::new(),
        }
    }

    /// Steps by hand, on the chip that leaves most to software.
    fn new(seed: u64) -> Self {
        Self::on(&format!("qcom-a630,seed={seed},pace=manual"))
    }

    fn call<T: Argument>(&self, args: &mut T) -> Result<i32, i32> {
        self.call_on(self.file, args)
    }

    fn call_on<T: Argument>(&self, file: i32, args: &mut T) -> Result<i32, i32> {
        // SAFETY: the struct of this request; what it points to is the test's.
        unsafe {
            self.machine
                .ioctl(file, T::REQUEST.into(), (&raw mut *args).cast())
        }
    }

    /// Runs until nothing moves.
    fn run(&self) {
        let mut still = 0;
        while still < 3 {
            still = if self.machine.step() { 0 } else { still + 1 };
        }
    }

    fn alloc(&self, bytes: u64, flags: MemFlags) -> Result<kgsl_gpuobj_alloc, i32> {
        let mut args = kgsl_gpuobj_alloc {
            size: bytes,
            flags,
            ..Default::default()
        };
        self.call(&mut args).map(|_| args)
    }

    fn info(&self, id: u32) -> Result<kgsl_gpuobj_info, i32> {
        let mut args = kgsl_gpuobj_info {
            id,
            ..Default::default()
        };
        self.call(&mut args).map(|_| args)
    }

    fn map(&self, offset: u64, bytes: u64, write: bool) -> Result<u64, i32> {
        // SAFETY: no fixed address.
        let mapped = unsafe {
            self.machine
                .mmap(None, bytes as usize, true, write, self.file, offset)
        };
        mapped.map(|at| at.as_ptr().expose_provenance() as u64)
    }

    fn unmap(&self, address: u64, bytes: u64) {
        // SAFETY: the tests do not use it any more.
        let done = unsafe { self.machine.munmap(pointer(address), bytes as usize) };
        assert_eq!(done, Ok(()));
    }

    /// An object that is mapped.
    fn buffer(&self, bytes: u64, flags: MemFlags) -> Buffer {
        let made = self.alloc(bytes, flags).expect("memory");
        let cpu = self
            .map(made.id as u64 * PAGE, made.mmapsize, true)
            .expect("mapped");
        let info = self.info(made.id).expect("it is there");
        Buffer {
            id: made.id,
            gpu: info.gpuaddr,
            cpu,
            bytes: info.size,
            flags: info.flags,
        }
    }

    fn free(&self, id: u32) -> Result<i32, i32> {
        self.call(&mut kgsl_gpuobj_free {
            id,
            ..Default::default()
        })
    }

    fn context(&self, flags: ContextFlags) -> u32 {
        let mut args = kgsl_drawctxt_create {
            flags: flags | PLAIN,
            drawctxt_id: 0,
        };
        assert_eq!(self.call(&mut args), Ok(0));
        args.drawctxt_id
    }

    fn destroy(&self, context: u32) -> Result<i32, i32> {
        self.call(&mut kgsl_drawctxt_destroy {
            drawctxt_id: context,
        })
    }

    /// A command buffer with these packets.
    fn commands(&mut self, packets: &[Vec<u32>]) -> kgsl_command_object {
        let buffer = self.buffer(PAGE, WRITE_COMBINED);
        self.commands.push(buffer);
        let mut words = packets.concat();
        let bytes = words.len() as u64 * 4;
        words.resize(words.len().next_multiple_of(2), 0);
        for (at, pair) in (0..).step_by(8).zip(words.chunks(2)) {
            buffer.set(at, u64::from(pair[0]) | u64::from(pair[1]) << 32);
        }
        kgsl_command_object {
            gpuaddr: buffer.gpu,
            size: bytes,
            flags: CmdFlags::CMDLIST_IB,
            id: buffer.id,
            ..Default::default()
        }
    }

    fn send(&self, args: kgsl_gpu_command, list: &mut [kgsl_command_object]) -> Result<u32, i32> {
        let mut args = kgsl_gpu_command {
            cmdlist: at(list),
            cmdsize: size_of::<kgsl_command_object>() as u32,
            numcmds: list.len() as u32,
            ..args
        };
        if list.is_empty() {
            (args.cmdlist, args.cmdsize) = (0, 0);
        }
        self.call(&mut args).map(|_| args.timestamp)
    }

    /// Submits packets; their time stamp.
    fn submit(&mut self, context: u32, packets: &[Vec<u32>]) -> Result<u32, i32> {
        let object = self.commands(packets);
        let args = kgsl_gpu_command {
            context_id: context,
            ..Default::default()
        };
        self.send(args, &mut [object])
    }

    fn wait(&self, context: u32, timestamp: u32, ms: u32) -> Result<i32, i32> {
        self.call(&mut kgsl_device_waittimestamp_ctxtid {
            context_id: context,
            timestamp,
            timeout: ms,
        })
    }

    fn timestamp(&self, context: u32, kind: u32) -> Result<u32, i32> {
        let mut args = kgsl_cmdstream_readtimestamp_ctxtid {
            context_id: context,
            r#type: kind,
            timestamp: 0,
        };
        self.call(&mut args).map(|_| args.timestamp)
    }

    /// Queued, consumed, retired.
    fn timestamps(&self, context: u32) -> [u32; 3] {
        [
            KGSL_TIMESTAMP_QUEUED,
            KGSL_TIMESTAMP_CONSUMED,
            KGSL_TIMESTAMP_RETIRED,
        ]
        .map(|kind| self.timestamp(context, kind).expect("a context"))
    }

    fn sync(&self, id: u32, op: CacheOps, range: Option<(u64, u64)>) -> Result<i32, i32> {
        let (offset, length) = range.unwrap_or_default();
        let ranged = if range.is_some() {
            CacheOps::RANGE
        } else {
            CacheOps::empty()
        };
        self.call(&mut kgsl_gpumem_sync_cache {
            id,
            op: op | ranged,
            offset,
            length,
            ..Default::default()
        })
    }
}
