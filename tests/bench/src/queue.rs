//! The CPU device as programs use it: many tiny kernels, large copies.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use hcq_std::{Arg, Bound, Buffer, Commands, Device, Grid, Group, Kernel, Options, Point, Queue};

/// Arguments of [`tiny`], as C lays them out.
#[repr(C)]
struct TinyArgs {
    to: *mut f32,
    from: *const f32,
    n: u64,
}

/// The baseline's kernel: `to[i] = from[i] + 1` for two elements.
unsafe extern "C" fn tiny(args: *const c_void, _: *const Group) {
    // SAFETY: launched with arguments of this layout only, see `Queues::new`.
    let args = unsafe { &*args.cast::<TinyArgs>() };
    for i in 0..args.n as usize {
        // SAFETY: both buffers have at least `n` elements.
        let from = unsafe { args.from.add(i) };
        // SAFETY: as above.
        let value = unsafe { from.read() } + 1.0;
        // SAFETY: as above.
        let to = unsafe { args.to.add(i) };
        // SAFETY: as above.
        unsafe { to.write(value) };
    }
}

/// A device with one compute queue, and the tiny kernel.
#[derive(Debug)]
pub struct Queues {
    queue: Queue,
    kernel: Kernel,
    to: Buffer<f32>,
    from: Buffer<f32>,
    sleeps: bool,
}

impl Queues {
    /// One worker, which spins this long when it has nothing to do, and then sleeps.
    pub fn new(spin: Duration) -> Self {
        let options = Options::default()
            .compute_queues(1)
            .copy_queues(0)
            .helper_threads(0)
            .ring_packets(16_384)
            .arena_bytes(8 << 20)
            .spin(spin);
        let device = Device::open_with("cpu", &options).expect("the CPU device");
        // SAFETY: the kernel does what its signature says, and is launched with buffers that are large enough.
        let kernel =
            unsafe { device.register("tiny", "float *to; const float *from; uint64_t n;", tiny) };
        Self {
            queue: device.compute_queue(0).expect("one queue"),
            kernel: kernel.expect("a signature"),
            to: device.alloc(64).expect("memory"),
            from: device.alloc(64).expect("memory"),
            sleeps: spin.is_zero(),
        }
    }

    /// Records `n` launches of the tiny kernel.
    #[inline]
    pub fn record(&self, n: u16) -> Commands {
        let mut commands = self.queue.record();
        for _ in 0..n {
            self.exec(&mut commands);
        }
        commands
    }

    /// Records one launch more.
    #[inline]
    pub fn exec(&self, commands: &mut Commands) {
        let args = [Arg::buffer(&self.to), Arg::buffer(&self.from), 2u64.into()];
        // SAFETY: the buffers have 64 elements, the kernel touches two.
        unsafe { commands.exec(&self.kernel, &args, Grid::new(1, 1)) }.expect("room");
    }

    /// Records `n` launches, submits them at once and waits for all.
    pub fn run(&self, n: u16) {
        let point = self.record(n).submit().expect("submitted");
        self.wait(&point);
    }

    /// Submits a bound queue and waits for it.
    pub fn submit_and_wait(&self, bound: &mut Bound) {
        let point = bound.submit().expect("submitted");
        self.wait(&point);
    }

    /// Looks until the point is reached, as the caller of the bare ring does. [`Point::wait`] would sleep at once on a
    /// device whose worker does.
    fn wait(&self, point: &Point) {
        if !self.sleeps {
            return point.wait().expect("done");
        }
        while !point.is_done().expect("no fault") {
            std::hint::spin_loop();
        }
    }

    /// The same launches as a bound queue.
    pub fn bind(&self, n: u16) -> Bound {
        self.record(n).bind().expect("memory")
    }

    /// What the kernels have stored into: 64 elements, all of them 0 at first.
    pub fn result(&self) -> Vec<f32> {
        self.to.to_vec().expect("the device works")
    }
}

/// Nanoseconds that a submission of a bound queue takes the host, up to and with the doorbell: `calls` of them, the
/// waiting afterwards not counted.
pub fn time_to_submit(bound: &mut Bound, calls: u32) -> f64 {
    let start = Instant::now();
    for _ in 1..calls {
        bound.submit().expect("submitted");
    }
    let last: Point = bound.submit().expect("submitted");
    let took = start.elapsed().as_nanos() as f64 / f64::from(calls.max(1));
    last.wait().expect("done");
    took
}

/// Two buffers of a device with a copy queue.
#[derive(Debug)]
pub struct Copies {
    queue: Queue,
    to: Buffer<u64>,
    from: Buffer<u64>,
}

impl Copies {
    /// Buffers of this many words. Both were written, so that all of their pages are there.
    pub fn new(words: usize) -> Self {
        let options = Options::default()
            .compute_queues(1)
            .copy_queues(1)
            .helper_threads(0);
        let device = Device::open_with("cpu", &options).expect("the CPU device");
        let data: Vec<u64> = (0..words as u64).collect();
        Self {
            queue: device.copy_queue(0).expect("one queue"),
            to: device.alloc_from(&vec![u64::MAX; words]).expect("memory"),
            from: device.alloc_from(&data).expect("memory"),
        }
    }

    /// Copies on the copy queue and waits.
    pub fn by_queue(&self) {
        let mut commands = self.queue.record();
        commands.copy(&self.to, &self.from).expect("equal lengths");
        commands.submit().expect("submitted").wait().expect("done");
    }

    /// Copies the same memory with the system's memcpy. No copy of the queue is running: each was waited for.
    pub fn by_memcpy(&mut self) {
        let from = std::ptr::with_exposed_provenance::<u64>(self.from.address() as usize);
        let to = std::ptr::with_exposed_provenance_mut::<u64>(self.to.address() as usize);
        // SAFETY: the CPU device's addresses are the process's own; both buffers have this length, they are alive, they
        // do not overlap, and nobody else uses them: `&mut self`, and every copy of the queue was waited for.
        unsafe { to.copy_from_nonoverlapping(from, self.from.len()) };
    }

    /// Stores other bytes into the target.
    pub fn spoil(&self) {
        self.to.fill(u64::MAX).expect("the device works");
    }

    /// Whether the target has the source's bytes.
    pub fn is_copied(&self) -> bool {
        self.to.to_vec().expect("the device works") == self.from.to_vec().expect("the device works")
    }
}
