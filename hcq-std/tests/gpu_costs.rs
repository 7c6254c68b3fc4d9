//! What steady submissions to a GPU cost the program: no allocation on its own thread outside of the kernel driver, which
//! is a simulated one here and allocates as it likes.
#![cfg(feature = "sim")]

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::ffi::c_void;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use hcq_std::seam::{Errno, Handle, MapRequest, Open, Owner, Shared, System};
use hcq_std::{Device, Options, sim};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static IN_KERNEL: Cell<bool> = const { Cell::new(false) };
}

struct Counted;

impl Counted {
    fn count() {
        // A thread that ends has none of both any more.
        let _ = ALLOCATIONS.try_with(|n| {
            let outside = IN_KERNEL.try_with(|inside| !inside.get());
            n.set(n.get() + usize::from(outside.unwrap_or(false)));
        });
    }
}

// SAFETY: hands every call on to the system's allocator.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count();
        // SAFETY: this function's contract.
        unsafe { std::alloc::System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: this function's contract.
        unsafe { std::alloc::System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::count();
        // SAFETY: this function's contract.
        unsafe { std::alloc::System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static GLOBAL: Counted = Counted;

/// A simulated machine. What its calls allocate does not count.
#[derive(Debug)]
struct Machine(Arc<dyn System>);

impl Machine {
    fn call<T>(&self, call: impl FnOnce(&dyn System) -> T) -> T {
        IN_KERNEL.set(true);
        let answer = call(&*self.0);
        IN_KERNEL.set(false);
        answer
    }
}

impl System for Machine {
    fn open(&self, path: &Path, how: Open) -> std::result::Result<Handle, Errno> {
        self.call(|s| s.open(path, how))
    }
    fn close(&self, file: Handle) {
        self.call(|s| s.close(file));
    }
    unsafe fn ioctl(
        &self,
        file: &Handle,
        request: u64,
        argument: *mut c_void,
    ) -> std::result::Result<i32, Errno> {
        // SAFETY: this function's contract.
        self.call(|s| unsafe { s.ioctl(file, request, argument) })
    }
    unsafe fn mmap(&self, request: &MapRequest<'_>) -> std::result::Result<NonNull<u8>, Errno> {
        // SAFETY: this function's contract.
        self.call(|s| unsafe { s.mmap(request) })
    }
    fn reserve(&self, near: usize, len: usize) -> std::result::Result<NonNull<u8>, Errno> {
        self.call(|s| s.reserve(near, len))
    }
    unsafe fn munmap(&self, address: NonNull<u8>, len: usize) -> std::result::Result<(), Errno> {
        // SAFETY: this function's contract.
        self.call(|s| unsafe { s.munmap(address, len) })
    }
    fn poll(&self, file: &Handle, timeout: Duration) -> std::result::Result<bool, Errno> {
        self.call(|s| s.poll(file, timeout))
    }
    fn read(&self, path: &Path, limit: usize) -> std::result::Result<Vec<u8>, Errno> {
        self.call(|s| s.read(path, limit))
    }
    fn list(&self, path: &Path) -> std::result::Result<Vec<String>, Errno> {
        self.call(|s| s.list(path))
    }
    fn owner(&self, path: &Path) -> std::result::Result<Owner, Errno> {
        self.call(|s| s.owner(path))
    }
    fn shared(&self) -> Arc<Shared> {
        self.call(|s| s.shared())
    }
    fn futex_wait(&self, word: &AtomicU32, expected: u32, timeout: Duration) {
        self.call(|s| s.futex_wait(word, expected, timeout));
    }
    fn futex_wake(&self, word: &AtomicU32, count: u32) {
        self.call(|s| s.futex_wake(word, count));
    }
    fn now_ns(&self) -> u64 {
        self.call(|s| s.now_ns())
    }
}

/// Submits bound and anew, waits for both, and returns how many allocations each of `rounds` took at most.
fn most(machine: &str, name: &str, rounds: u64) -> Result<usize> {
    let system = Arc::new(Machine(sim::machine(machine)?));
    let options = Options::default().wait_timeout_ms(20_000).system(system);
    let device = Device::open_with(name, &options)?;
    let queue = device.compute_queue(0)?;
    let (signal, done) = (device.signal()?, device.signal()?);
    let mut commands = queue.record();
    let value = commands.var()?;
    commands.memory_barrier()?.signal(&done, value)?;
    let mut bound = commands.bind()?;
    let mut round = |count: u64| -> std::result::Result<(), hcq_std::Error> {
        queue
            .record()
            .memory_barrier()?
            .signal(&signal, count)?
            .submit()?;
        bound.set(value, count)?;
        bound.submit()?.wait()?;
        assert_eq!((signal.value(), done.value()), (count, count));
        Ok(())
    };
    // Lists grow to what they need.
    for n in 1..200 {
        round(n)?;
    }
    let mut most = 0;
    for n in 200..200 + rounds {
        let before = ALLOCATIONS.get();
        round(n)?;
        most = most.max(ALLOCATIONS.get() - before);
    }
    Ok(most)
}

#[test]
fn steady_submissions_to_adreno_allocate_nothing() -> Result {
    for (machine, name) in [("qcom-a650", "qcom"), ("qcom-a650,msm=present", "qcom,msm")] {
        assert_eq!(most(machine, name, 200)?, 0, "{machine}");
    }
    Ok(())
}
