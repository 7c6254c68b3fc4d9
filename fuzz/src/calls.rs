//! Sequences of system calls against a simulated machine.

use crate::sim::{BASE, CHIPS, PAGE, Span, alone, no_panic, pointer, word};
use hcq_sim::machine::{Config, Machine, Pace};
use hcq_uapi::ioctl::{self, Argument};
use hcq_uapi::kfd::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Plain memory of the process, with nothing around it: what a call stores beyond its argument is an error there.
pub(crate) const PLAIN: u64 = BASE + 0x10_0000;
pub(crate) const PLAIN_BYTES: u64 = 16 * PAGE;
/// Where memory of GPUs is, and where it is seen.
pub(crate) const WINDOW: u64 = BASE + 0x1000_0000;
const MOST_CALLS: usize = 200;
/// More would only fill the host's tables of mappings.
const MOST_FILES: usize = 32;

/// Numbers from an input; zeros behind its end.
pub(crate) struct Input<'d>(pub(crate) &'d [u8]);

impl Input<'_> {
    pub(crate) fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    pub(crate) fn number(&mut self) -> u32 {
        u32::from_le_bytes([(); 4].map(|()| self.byte()))
    }

    /// A number of 32 bits: small ones mostly.
    pub(crate) fn small(&mut self) -> u32 {
        match self.byte() {
            255 => self.number(),
            254 => u32::MAX,
            253 => 1 << (self.byte() % 32),
            n => n.into(),
        }
    }

    /// Bytes: pages mostly.
    fn size(&mut self) -> u64 {
        match self.byte() {
            255 => u64::from(self.number()) << (self.byte() % 64),
            254 => u64::MAX - u64::from(self.byte()),
            253 => u64::from(self.small()),
            n => (1 + u64::from(n)) * PAGE,
        }
    }

    /// An address that a GPU may have: in the window mostly, or one that it cannot have.
    fn address(&mut self) -> u64 {
        match self.byte() {
            255 => 0,
            254 => 1 << 63,
            253 => u64::MAX - u64::from(self.byte()),
            252 => WINDOW + u64::from(self.number() % (1 << 20)),
            251 => PLAIN + u64::from(self.byte() % 16) * PAGE,
            n => WINDOW + u64::from(n) * PAGE,
        }
    }

    /// An address that the kernel reads and writes at: plain memory, or none.
    fn user(&mut self) -> u64 {
        match self.byte() {
            // A host that does not let a process ask believes what it is told.
            255 if may_ask() => 0,
            254 if may_ask() => u64::MAX - u64::from(self.byte()),
            253 if may_ask() => 1 << 63,
            252 if may_ask() => PLAIN + PLAIN_BYTES - 4,
            251 if may_ask() => PLAIN + PLAIN_BYTES,
            n => PLAIN + u64::from(n % 128) * 8,
        }
    }
}

/// Whether this host lets a process ask for its own memory, as the machine does with addresses that may be wrong.
pub fn may_ask() -> bool {
    static MAY: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *MAY.get_or_init(|| {
        let (from, mut to) = (7u8, 0u8);
        let part = |at: *mut u8| libc::iovec {
            iov_base: at.cast(),
            iov_len: 1,
        };
        let (local, remote) = (part(&raw mut to), part((&raw const from).cast_mut()));
        // SAFETY: a byte to a byte.
        let copied = unsafe {
            libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
        };
        copied == 1
    })
}

struct Process<'d> {
    machine: Arc<Machine>,
    input: Input<'d>,
    files: Vec<i32>,
    gpus: Vec<u32>,
    handles: Vec<u64>,
    offsets: Vec<u64>,
    /// Where doorbells are seen.
    doorbells: Vec<u64>,
    mapped: u64,
    done: usize,
}

/// A byte for the machine and then calls, a byte each and what it needs. Accepted are inputs of which eight calls or more
/// succeed.
pub fn sim_ioctl(data: &[u8]) -> bool {
    let mut input = Input(data);
    let first = input.byte();
    let _alone = alone();
    let span = Span::new();
    span.plain(PLAIN, PLAIN_BYTES);
    let config = Config::new(CHIPS[usize::from(first) % CHIPS.len()]).expect("a chip");
    let config = config
        .gpus(1 + u32::from(first >> 7))
        .pace(Pace::Manual)
        .exact_queues(first & 0x40 != 0);
    let gpus = 1 + u32::from(first >> 7);
    let machine = Machine::new(config).expect("a machine");
    let gpu_id = |gpu| {
        let path = format!("/sys/devices/virtual/kfd/kfd/topology/nodes/{gpu}/gpu_id");
        let text = machine.read(Path::new(&path), 100).expect("it is there");
        let text = String::from_utf8(text).expect("text");
        text.trim().parse().expect("a number")
    };
    let mut process = Process {
        gpus: (1..=gpus).map(gpu_id).collect(),
        machine: machine.clone(),
        input,
        files: Vec::new(),
        handles: Vec::new(),
        offsets: Vec::new(),
        doorbells: Vec::new(),
        mapped: 0,
        done: 0,
    };
    for _ in 0..MOST_CALLS {
        if process.input.0.is_empty() {
            break;
        }
        process.next();
    }
    for _ in 0..500 {
        if !machine.step() {
            break;
        }
    }
    no_panic(&machine);
    process.done >= 8
}

impl Process<'_> {
    fn pick<T: Copy>(&mut self, of: fn(&Self) -> &Vec<T>, other: T) -> T {
        let n = usize::from(self.input.byte());
        let all = of(self);
        match n {
            255 => other,
            n => all.get(n % all.len().max(1)).copied().unwrap_or(other),
        }
    }

    fn gpu(&mut self) -> u32 {
        self.pick(|p| &p.gpus, 77)
    }

    fn file(&mut self) -> i32 {
        self.pick(|p| &p.files, 5)
    }

    fn call<T: Argument>(&mut self, mut args: T) -> Option<T> {
        let file = self.file();
        // SAFETY: the struct of this request; addresses in it are of this process's plain memory, or none.
        let done = unsafe {
            let request = u64::from(T::REQUEST);
            self.machine.ioctl(file, request, (&raw mut args).cast())
        };
        self.done += usize::from(done.is_ok());
        assert!(done.is_ok_and(|n| n == 0) || done.is_err_and(|e| e > 0));
        done.is_ok().then_some(args)
    }

    fn next(&mut self) {
        match self.input.byte() % 32 {
            0 => self.open(),
            1 => {
                let file = self.file();
                self.machine.close(file);
            }
            2 => self.raw(),
            3 | 4 => self.alloc(),
            5 => {
                let handle = self.pick(|p| &p.handles, 9);
                self.call(kfd_ioctl_free_memory_of_gpu_args { handle });
            }
            6 | 7 => {
                let (handle, ptr, n) = self.devices();
                self.call(kfd_ioctl_map_memory_to_gpu_args {
                    handle,
                    device_ids_array_ptr: ptr,
                    n_devices: n,
                    n_success: self.input.0.len() as u32 % 2,
                });
            }
            8 => {
                let (handle, ptr, n) = self.devices();
                self.call(kfd_ioctl_unmap_memory_from_gpu_args {
                    handle,
                    device_ids_array_ptr: ptr,
                    n_devices: n,
                    n_success: 0,
                });
            }
            9 => {
                let args = kfd_ioctl_acquire_vm_args {
                    drm_fd: self.file() as u32,
                    gpu_id: self.gpu(),
                };
                self.call(args);
            }
            10..=12 => self.create_queue(),
            13 => {
                let queue_id = self.input.small();
                self.call(kfd_ioctl_destroy_queue_args { queue_id, pad: 0 });
            }
            14 => {
                let args = kfd_ioctl_update_queue_args {
                    ring_base_address: self.input.address(),
                    queue_id: self.input.small(),
                    ring_size: self.input.size() as u32,
                    queue_percentage: self.input.small(),
                    queue_priority: self.input.small(),
                };
                self.call(args);
            }
            15 => {
                let args = kfd_ioctl_create_event_args {
                    event_page_offset: self.pick(|p| &p.handles, 0),
                    event_type: self.input.small(),
                    auto_reset: self.input.small(),
                    ..Default::default()
                };
                self.call(args);
            }
            16 => self.event(),
            17 => {
                let args = kfd_ioctl_wait_events_args {
                    events_ptr: self.input.user(),
                    num_events: self.input.small(),
                    wait_for_all: self.input.small(),
                    // Nobody else would end it.
                    timeout: 0,
                    wait_result: 0,
                };
                self.call(args);
            }
            18 => {
                let args = kfd_ioctl_set_cu_mask_args {
                    queue_id: self.input.small(),
                    num_cu_mask: self.input.small(),
                    cu_mask_ptr: self.input.user(),
                };
                self.call(args);
            }
            19 => {
                let args = kfd_ioctl_get_process_apertures_new_args {
                    kfd_process_device_apertures_ptr: self.input.user(),
                    num_of_nodes: self.input.small(),
                    pad: 0,
                };
                self.call(args);
            }
            20 => {
                let args = kfd_ioctl_set_trap_handler_args {
                    tba_addr: self.input.address(),
                    tma_addr: self.input.address(),
                    gpu_id: self.gpu(),
                    pad: 0,
                };
                self.call(args);
            }
            21 => {
                let args = kfd_ioctl_runtime_enable_args {
                    r_debug: self.input.user(),
                    mode_mask: self.input.small(),
                    capabilities_mask: self.input.small(),
                };
                self.call(args);
            }
            22 => {
                let args = kfd_ioctl_get_queue_wave_state_args {
                    ctl_stack_address: self.input.user(),
                    queue_id: self.input.small(),
                    ..Default::default()
                };
                self.call(args);
            }
            23 => {
                let args = kfd_ioctl_get_tile_config_args {
                    tile_config_ptr: self.input.user(),
                    macro_tile_config_ptr: self.input.user(),
                    num_tile_configs: self.input.small(),
                    num_macro_tile_configs: self.input.small(),
                    gpu_id: self.gpu(),
                    ..Default::default()
                };
                self.call(args);
            }
            24 | 25 => self.mmap(),
            26 => self.munmap(),
            27 => {
                let file = self.file();
                let ready = self.machine.poll(file, Duration::ZERO);
                self.done += usize::from(ready.is_ok());
            }
            28 => {
                // Small numbers: none of them is an address.
                let at = PLAIN + u64::from(self.input.byte()) * 8;
                word(at).store(self.input.small().into(), Ordering::Relaxed);
            }
            29 => {
                let page = self.pick(|p| &p.doorbells, 0);
                let at = u64::from(self.input.byte()) * 8;
                let value = u64::from(self.input.small());
                if page != 0 {
                    word(page + at).store(value, Ordering::Release);
                }
            }
            _ => {
                let most = usize::from(self.input.byte());
                let _ = (0..most).any(|_| !self.machine.step());
                no_panic(&self.machine);
            }
        }
    }

    fn open(&mut self) {
        let path = match self.input.byte() % 6 {
            0 | 1 => "/dev/kfd",
            2 | 3 => "/dev/dri/renderD128",
            4 => "/dev/dri/renderD129",
            _ => "/dev/dri/renderD4294967295",
        };
        let write = self.input.byte() != 255;
        if self.files.len() < MOST_FILES
            && let Ok(file) = self.machine.open(Path::new(path), write)
        {
            self.files.push(file);
            self.done += 1;
        }
    }

    /// Any request of any size, with zeros or what plain memory holds as its argument.
    fn raw(&mut self) {
        let (file, request) = (self.file(), self.input.number());
        // One that waits is asked for elsewhere.
        if ioctl::number(request) == ioctl::number(kfd_ioctl_wait_events_args::REQUEST) {
            return;
        }
        let at = PLAIN + u64::from(self.input.byte() % 16) * PAGE;
        // SAFETY: no size that fits in a request reaches mapped memory beyond; addresses in the argument are small
        // numbers, where nothing is.
        let done = unsafe {
            self.machine
                .ioctl(file, request.into(), pointer(at).as_ptr().cast())
        };
        self.done += usize::from(done.is_ok());
    }

    fn alloc(&mut self) {
        let kind = 1u32 << (self.input.byte() % 6);
        let attributes = u32::from(self.input.byte()) << 24;
        let args = kfd_ioctl_alloc_memory_of_gpu_args {
            va_addr: self.input.address(),
            size: self.input.size(),
            mmap_offset: self.input.user() & !(PAGE - 1),
            gpu_id: self.gpu(),
            flags: AllocMemFlags::from_bits_retain(kind | attributes),
            ..Default::default()
        };
        if let Some(args) = self.call(args) {
            self.handles.push(args.handle);
            self.offsets.push(args.mmap_offset);
        }
    }

    /// A handle, and a list of GPUs in plain memory.
    fn devices(&mut self) -> (u64, u64, u32) {
        let handle = self.pick(|p| &p.handles, 9);
        let (first, second) = (self.gpu(), self.gpu());
        word(PLAIN + 0x8000).store(
            u64::from(first) | u64::from(second) << 32,
            Ordering::Relaxed,
        );
        match self.input.byte() {
            255 => (handle, self.input.user(), self.input.small()),
            n => (handle, PLAIN + 0x8000, u32::from(n % 3)),
        }
    }

    fn create_queue(&mut self) {
        let args = kfd_ioctl_create_queue_args {
            ring_base_address: self.input.address(),
            write_pointer_address: self.input.address(),
            read_pointer_address: self.input.address(),
            ring_size: self.input.size() as u32,
            gpu_id: self.gpu(),
            queue_type: self.input.small(),
            queue_percentage: self.input.small(),
            queue_priority: self.input.small(),
            eop_buffer_address: self.input.address(),
            eop_buffer_size: self.input.size(),
            ctx_save_restore_address: self.input.address(),
            ctx_save_restore_size: self.input.size() as u32,
            ctl_stack_size: self.input.size() as u32,
            ..Default::default()
        };
        if let Some(args) = self.call(args) {
            self.offsets.push(args.doorbell_offset & !0x1fff);
        }
    }

    fn event(&mut self) {
        let (what, event_id) = (self.input.byte() % 3, self.input.small());
        match what {
            0 => drop(self.call(kfd_ioctl_set_event_args { event_id, pad: 0 })),
            1 => drop(self.call(kfd_ioctl_reset_event_args { event_id, pad: 0 })),
            _ => drop(self.call(kfd_ioctl_destroy_event_args { event_id, pad: 0 })),
        }
    }

    fn mmap(&mut self) {
        let file = self.file();
        let offset = self.pick(|p| &p.offsets, 0x1234_5000);
        let bytes = self.input.size().min(1 << 20);
        // Its own place each time: nothing is replaced, so that doorbells stay what they are.
        let at = WINDOW + 0x10_0000 + self.mapped;
        let fixed = (self.input.byte() & 1 != 0).then(|| pointer(at));
        self.mapped += 1 << 20;
        if fixed.is_none() {
            // Only what is in the span goes away with it.
            return;
        }
        // SAFETY: a part of the span that nothing uses.
        let seen = unsafe {
            self.machine
                .mmap(fixed, bytes as usize, true, true, file, offset)
        };
        if seen.is_ok() {
            self.done += 1;
            if bytes >= 2048 {
                self.doorbells.push(at);
            }
        }
    }

    /// Ends the latest mapping, or a part of it.
    fn munmap(&mut self) {
        let part = self.input.byte() & 1 != 0;
        let Some(at) = self.doorbells.pop() else {
            return;
        };
        let bytes = if part { PAGE } else { 1 << 20 };
        // SAFETY: it is not in the list any more.
        let done = unsafe { self.machine.munmap(pointer(at), bytes as usize) };
        self.done += usize::from(done.is_ok());
    }
}

/// A process that opens the GPU, makes memory and a copy queue, and rings; and processes that get nowhere.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut good = vec![2];
    let (open, kfd, node) = (0, [0, 0], [2, 0]);
    good.extend([open, kfd[0], kfd[1], open, node[0], node[1]]);
    // Address space: the render node, the first GPU, asked of the KFD.
    good.extend([9, 1, 0, 0]);
    // Two pages, 16 apart: GTT that can be written, one page each.
    for page in [0, 16] {
        good.extend([3, 1, 0x80, page, 0, 0, 0, 0]);
    }
    for handle in [0, 1] {
        good.extend([6, handle, 0, 0, 1, 0]);
    }
    // A ring of a page, and pointers: the write pointer and the read pointer are one word; an SDMA queue.
    good.extend([10, 0, 16, 16, 0, 0, 1, 100, 7, 255, 0, 255, 0, 0, 0]);
    // Its doorbell, seen through the KFD.
    good.extend([24, 0, 2, 1, 1]);
    good.extend([29, 0, 0, 4, 30, 50]);
    // Events: made, set, waited for.
    good.extend([15, 255, 0, 1, 0, 16, 0, 1, 0, 17, 0, 0, 0, 0]);
    let mut two = good.clone();
    two[0] = 0x80 | 0x40;
    vec![
        ("ok-copy-queue", good),
        ("ok-two-gpus", two),
        (
            "bad-nothing-open",
            vec![0, 3, 1, 0x80, 1, 0, 0, 0, 0, 27, 0],
        ),
        (
            "bad-numbers",
            (0u8..40).map(|n| n.wrapping_mul(7) | 1).collect(),
        ),
    ]
}
