//! A simulated machine as a process uses it, for the targets that fuzz it.

use hcq_sim::machine::{Config, Machine, Pace};
use hcq_uapi::ioctl::Argument;
use hcq_uapi::kfd::*;
use std::path::Path;
use std::ptr::{NonNull, with_exposed_provenance_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Addresses that only the fuzz targets use: host and GPU see memory at the same ones in every run, so that inputs can name
/// them. Sanitizers use none near them.
pub(crate) const BASE: u64 = 0x3000_0000_0000;
/// Bytes of them.
pub(crate) const SPAN: u64 = 1 << 30;
pub(crate) const PAGE: u64 = 4096;
pub(crate) const CHIPS: [&str; 5] = [
    "amd-gfx942",
    "amd-gfx950",
    "amd-gfx1100",
    "amd-gfx1151",
    "amd-gfx1201",
];

/// What the rest of a target may see of it: memory of the host at [`BASE`], given back with it.
pub(crate) struct Span;

impl Span {
    /// Takes the addresses; nothing is there yet.
    pub(crate) fn new() -> Self {
        let flags = libc::MAP_PRIVATE
            | libc::MAP_ANONYMOUS
            | libc::MAP_NORESERVE
            | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: new memory; where something is already it fails.
        let at = unsafe {
            libc::mmap(
                with_exposed_provenance_mut(BASE as usize),
                SPAN as usize,
                libc::PROT_NONE,
                flags,
                -1,
                0,
            )
        };
        assert_eq!(
            at.expose_provenance() as u64,
            BASE,
            "the targets' addresses are in use"
        );
        Self
    }

    /// Makes plain memory of some of it, zeroed.
    pub(crate) fn plain(&self, at: u64, bytes: u64) {
        assert!(at >= BASE && at + bytes <= BASE + SPAN);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: inside the span, which is ours.
        let mapped = unsafe {
            libc::mmap(
                with_exposed_provenance_mut(at as usize),
                bytes as usize,
                access,
                flags,
                -1,
                0,
            )
        };
        assert_ne!(mapped, libc::MAP_FAILED);
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        // SAFETY: whoever has it keeps no pointer into it.
        unsafe { libc::munmap(with_exposed_provenance_mut(BASE as usize), SPAN as usize) };
    }
}

/// One target at a time has the addresses.
pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    ALONE.lock().unwrap_or_else(|e| e.into_inner())
}

pub(crate) fn pointer(address: u64) -> NonNull<u8> {
    NonNull::new(with_exposed_provenance_mut(address as usize)).expect("not null")
}

/// A word that host and GPU share.
pub(crate) fn word(address: u64) -> &'static AtomicU64 {
    // SAFETY: callers name aligned words that they have mapped.
    unsafe { AtomicU64::from_ptr(pointer(address).as_ptr().cast()) }
}

/// A machine that moves by hand, with its first GPU ready for queues.
pub(crate) struct Rig {
    pub(crate) machine: Arc<Machine>,
    kfd: i32,
    node: i32,
    gpu_id: u32,
    next: u64,
}

impl Rig {
    pub(crate) fn new(chip: &str, seed: u64) -> Self {
        let config = Config::new(chip).expect("a chip that there is");
        let machine = Machine::new(config.pace(Pace::Manual).seed(seed)).expect("a machine");
        let open = |path| machine.open(Path::new(path), true).expect("it is there");
        let (kfd, node) = (open("/dev/kfd"), open("/dev/dri/renderD128"));
        let mut rig = Self {
            machine,
            kfd,
            node,
            gpu_id: 0,
            next: BASE,
        };
        rig.gpu_id = rig.text("/sys/devices/virtual/kfd/kfd/topology/nodes/1/gpu_id", "") as u32;
        let (drm_fd, gpu_id) = (node as u32, rig.gpu_id);
        rig.call(&mut kfd_ioctl_acquire_vm_args { drm_fd, gpu_id });
        rig
    }

    /// The number behind a name in a file.
    fn text(&self, path: &str, name: &str) -> u64 {
        let text = self
            .machine
            .read(Path::new(path), 1 << 16)
            .expect("it is there");
        let text = String::from_utf8(text).expect("text");
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.expect(name).trim().parse().expect("a number")
    }

    fn property(&self, name: &str) -> u64 {
        let path = "/sys/class/kfd/kfd/topology/nodes/1/properties";
        self.text(path, &format!("{name} "))
    }

    fn call<T: Argument>(&self, args: &mut T) {
        let request = u64::from(T::REQUEST);
        // SAFETY: the struct of this request, and addresses of this rig in it.
        let done = unsafe {
            self.machine
                .ioctl(self.kfd, request, (&raw mut *args).cast())
        };
        assert_eq!(done, Ok(0), "{}", T::NAME);
    }

    fn see(&self, file: i32, at: u64, bytes: u64, offset: u64) {
        // SAFETY: inside the span, and used by nobody else.
        let mapped = unsafe {
            self.machine
                .mmap(Some(pointer(at)), bytes as usize, true, true, file, offset)
        };
        assert!(mapped.is_ok());
    }

    /// Memory that host and GPU share, at the next address.
    pub(crate) fn buffer(&mut self, bytes: u64) -> u64 {
        let at = self.next;
        self.next += bytes.next_multiple_of(PAGE);
        let mut args = kfd_ioctl_alloc_memory_of_gpu_args {
            va_addr: at,
            size: bytes,
            gpu_id: self.gpu_id,
            flags: AllocMemFlags::GTT | AllocMemFlags::WRITABLE | AllocMemFlags::EXECUTABLE,
            ..Default::default()
        };
        self.call(&mut args);
        self.see(self.node, at, bytes, args.mmap_offset);
        let ids = [self.gpu_id];
        self.call(&mut kfd_ioctl_map_memory_to_gpu_args {
            handle: args.handle,
            device_ids_array_ptr: ids.as_ptr().expose_provenance() as u64,
            n_devices: 1,
            n_success: 0,
        });
        at
    }

    /// A queue of this type over a ring and its two pointers, which lie 64 bytes apart; gives its doorbell.
    pub(crate) fn queue(&mut self, queue_type: u32, ring: u64, pointers: u64) -> u64 {
        let mut args = kfd_ioctl_create_queue_args {
            ring_base_address: ring,
            read_pointer_address: pointers,
            write_pointer_address: pointers + 64,
            ring_size: PAGE as u32,
            gpu_id: self.gpu_id,
            queue_type,
            queue_percentage: 100,
            queue_priority: 7,
            ..Default::default()
        };
        if queue_type != KFD_IOC_QUEUE_TYPE_SDMA {
            let (save, control) = (self.property("cwsr_size"), self.property("ctl_stack_size"));
            let xccs = self.property("num_xcc");
            let units = self.property("simd_count") / self.property("simd_per_cu") / xccs;
            let waves = match self.property("gfx_target_version") < 100_100 {
                true => (units * 40).min(self.property("array_count") / xccs * 512),
                false => units * 32,
            };
            let area = ((save + waves * 32) * xccs).next_multiple_of(PAGE);
            args.eop_buffer_address = self.buffer(PAGE);
            args.eop_buffer_size = PAGE;
            args.ctx_save_restore_address = self.buffer(area);
            args.ctx_save_restore_size = save as u32;
            args.ctl_stack_size = control as u32;
        }
        self.call(&mut args);
        let at = self.next;
        self.next += 2 * PAGE;
        self.see(self.kfd, at, 2 * PAGE, args.doorbell_offset & !0x1fff);
        at + (args.doorbell_offset & 0x1fff)
    }

    /// Turns until nothing moves, at most this many; whether nothing moves.
    pub(crate) fn run(&self, most: usize) -> bool {
        let still = (0..most).any(|_| !self.machine.step());
        no_panic(&self.machine);
        still
    }
}

/// A panic inside an engine is caught by the machine, and is a finding.
pub(crate) fn no_panic(machine: &Machine) {
    let reports = machine.reports();
    let stopped = reports
        .iter()
        .find(|r| r.starts_with("the engines have stopped"));
    assert_eq!(stopped, None);
}

/// Stores words for an engine to read.
pub(crate) fn put(at: u64, words: &[u32]) {
    for (n, pair) in (0u64..).zip(words.chunks(2)) {
        let high = pair.get(1).copied().unwrap_or(0);
        word(at + n * 8).store(
            u64::from(pair[0]) | u64::from(high) << 32,
            Ordering::Relaxed,
        );
    }
}
