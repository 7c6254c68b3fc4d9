//! Kernels and devices for the tests of the shell.
#![allow(
    dead_code,
    missing_docs,
    unreachable_pub,
    reason = "each test uses some of it"
)]

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use hcq_std::seam::{Errno, Handle, Linux, MapRequest, Open, System};
use hcq_std::{Arg, Device, Grid, Group, Kernel, Options};

/// A device whose waits do not keep a failing test for long.
pub fn options() -> Options {
    Options::default().wait_timeout_ms(20_000)
}

pub fn device() -> Device {
    open(&options())
}

pub fn open(options: &Options) -> Device {
    Device::open_with("cpu", options).expect("the CPU is always there")
}

#[repr(C)]
struct AddArgs {
    data: *mut u32,
    amount: u32,
}

/// Adds `amount` to element `group`, with atomics, so that launches of several queues may meet.
unsafe extern "C" fn add(args: *const c_void, group: *const Group) {
    // SAFETY: called through a launch that was checked against `ADD`.
    let args = unsafe { &*args.cast::<AddArgs>() };
    // SAFETY: the engine passes a group.
    let group = unsafe { &*group };
    let [gx, gy, gz] = group.group;
    let [nx, ny, _] = group.groups;
    let index = gx as usize + nx as usize * (gy as usize + ny as usize * gz as usize);
    // SAFETY: the tests launch as many groups as there are elements.
    let cell = unsafe { args.data.add(index) };
    // SAFETY: aligned and inside the buffer.
    unsafe { AtomicU32::from_ptr(cell) }.fetch_add(args.amount, Ordering::Relaxed);
}

pub const ADD: &str = "uint32_t *data; uint32_t amount;";

#[repr(C)]
struct SaxpyArgs {
    a: f32,
    x: *const f32,
    y: *mut f32,
    n: u32,
}

unsafe extern "C" fn saxpy(args: *const c_void, group: *const Group) {
    // SAFETY: called through a launch that was checked against `SAXPY`.
    let args = unsafe { &*args.cast::<SaxpyArgs>() };
    // SAFETY: the engine passes a group.
    let group = unsafe { &*group };
    let first = group.group[0] * group.local[0];
    for i in first..args.n.min(first + group.local[0]) {
        // SAFETY: below `n`, the length of both.
        let x = unsafe { args.x.add(i as usize) };
        // SAFETY: as above.
        let y = unsafe { args.y.add(i as usize) };
        // SAFETY: inside the buffer; this group alone writes it, and nobody writes `x`.
        let x = unsafe { *x };
        // SAFETY: as above.
        let sum = unsafe { *y } + args.a * x;
        // SAFETY: as above.
        unsafe { y.write(sum) };
    }
}

pub const SAXPY: &str = "float a; const float *x; float *y; uint32_t n;";

/// Sleeps for the milliseconds in its argument.
unsafe extern "C" fn doze(args: *const c_void, _: *const Group) {
    // SAFETY: called through a launch that was checked against its signature.
    let ms = unsafe { args.cast::<u32>().read() };
    std::thread::sleep(Duration::from_millis(ms.into()));
}

/// Writes the group-local memory's address and size.
unsafe extern "C" fn local(args: *const c_void, group: *const Group) {
    // SAFETY: called through a launch that was checked against its signature.
    let out = unsafe { args.cast::<*mut u64>().read() };
    // SAFETY: the engine passes a group.
    let group = unsafe { &*group };
    let memory = std::ptr::slice_from_raw_parts_mut(
        group.local_memory.cast::<u8>(),
        group.local_size as usize,
    );
    // SAFETY: local memory of this size is the group's own.
    if let Some(bytes) = unsafe { memory.as_mut() } {
        bytes.fill(0xff);
    }
    let seen = [group.local_memory.addr() as u64, group.local_size.into()];
    // SAFETY: the test gives two elements.
    unsafe { out.cast::<[u64; 2]>().write(seen) };
}

pub fn add_kernel(device: &Device) -> Kernel {
    // SAFETY: `add` reads what `ADD` says.
    unsafe { device.register("add", ADD, add) }.expect("a sound signature")
}

pub fn saxpy_kernel(device: &Device) -> Kernel {
    // SAFETY: `saxpy` reads what `SAXPY` says.
    unsafe { device.register("saxpy", SAXPY, saxpy) }.expect("a sound signature")
}

pub fn doze_kernel(device: &Device) -> Kernel {
    // SAFETY: `doze` reads one number.
    unsafe { device.register("doze", "uint32_t ms;", doze) }.expect("a sound signature")
}

pub fn local_kernel(device: &Device) -> Kernel {
    // SAFETY: `local` reads one pointer.
    unsafe { device.register("local", "uint64_t *out;", local) }.expect("a sound signature")
}

/// Adds `amount` to each element of a buffer.
pub fn exec_add(
    commands: &mut hcq_std::Commands,
    kernel: &Kernel,
    buffer: &hcq_std::View<u32>,
    amount: u32,
) -> Result<(), hcq_std::Error> {
    let args = [Arg::buffer(buffer), amount.into()];
    // SAFETY: `add` touches one element per group, and the buffer has as many.
    unsafe { commands.exec(kernel, &args, Grid::new(buffer.len() as u32, 1u32)) }?;
    Ok(())
}

/// Linux, counting the calls that enter the kernel.
#[derive(Debug, Default)]
pub struct Counting {
    pub maps: AtomicUsize,
    pub unmaps: AtomicUsize,
    pub waits: AtomicUsize,
    pub wakes: AtomicUsize,
    pub others: AtomicUsize,
}

impl Counting {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub fn all(&self) -> usize {
        [
            &self.maps,
            &self.unmaps,
            &self.waits,
            &self.wakes,
            &self.others,
        ]
        .iter()
        .map(|n| n.load(Ordering::SeqCst))
        .sum()
    }
}

impl System for Counting {
    fn open(&self, path: &std::path::Path, how: Open) -> Result<Handle, Errno> {
        self.others.fetch_add(1, Ordering::SeqCst);
        Linux.open(path, how)
    }
    fn close(&self, file: Handle) {
        self.others.fetch_add(1, Ordering::SeqCst);
        Linux.close(file);
    }
    unsafe fn ioctl(
        &self,
        file: &Handle,
        request: u64,
        argument: *mut c_void,
    ) -> Result<i32, Errno> {
        self.others.fetch_add(1, Ordering::SeqCst);
        // SAFETY: this function's contract.
        unsafe { Linux.ioctl(file, request, argument) }
    }
    unsafe fn mmap(&self, request: &MapRequest<'_>) -> Result<std::ptr::NonNull<u8>, Errno> {
        self.maps.fetch_add(1, Ordering::SeqCst);
        // SAFETY: this function's contract.
        unsafe { Linux.mmap(request) }
    }
    unsafe fn munmap(&self, address: std::ptr::NonNull<u8>, len: usize) -> Result<(), Errno> {
        self.unmaps.fetch_add(1, Ordering::SeqCst);
        // SAFETY: this function's contract.
        unsafe { Linux.munmap(address, len) }
    }
    fn poll(&self, file: &Handle, timeout: Duration) -> Result<bool, Errno> {
        self.others.fetch_add(1, Ordering::SeqCst);
        Linux.poll(file, timeout)
    }
    fn read(&self, path: &std::path::Path, limit: usize) -> Result<Vec<u8>, Errno> {
        self.others.fetch_add(1, Ordering::SeqCst);
        Linux.read(path, limit)
    }
    fn futex_wait(&self, word: &AtomicU32, expected: u32, timeout: Duration) {
        self.waits.fetch_add(1, Ordering::SeqCst);
        Linux.futex_wait(word, expected, timeout);
    }
    fn futex_wake(&self, word: &AtomicU32, count: u32) {
        self.wakes.fetch_add(1, Ordering::SeqCst);
        Linux.futex_wake(word, count);
    }
    fn now_ns(&self) -> u64 {
        Linux.now_ns()
    }
}
