//! The CPU device as programs use it: many tiny kernels, large copies.

use std::ffi::c_void;
use std::time::Duration;

use hcq_std::{Arg, Buffer, Device, Grid, Group, Kernel, Options, Queue};

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
        let value = unsafe { args.from.add(i).read() } + 1.0;
        // SAFETY: as above.
        unsafe { args.to.add(i).write(value) };
    }
}

/// A device with one compute and one copy queue, and the tiny kernel.
pub struct Queues {
    device: Device,
    compute: Queue,
    copy: Queue,
    kernel: Kernel,
    to: Buffer<f32>,
    from: Buffer<f32>,
}

impl Queues {
    /// A worker that spins for [`SPIN`](crate::SPIN), or sleeps as soon as it has nothing to do.
    pub fn new(sleeps: bool) -> Self {
        let spin = if sleeps { Duration::ZERO } else { crate::SPIN };
        let options = Options::default()
            .compute_queues(1)
            .copy_queues(1)
            .helper_threads(0)
            .ring_packets(16_384)
            .arena_bytes(8 << 20)
            .spin(spin);
        let device = Device::open_with("cpu", &options).expect("the CPU device");
        // SAFETY: the kernel does what its signature says, and is launched with buffers that are large enough.
        let kernel = unsafe { device.register("tiny", "float *to; const float *from; uint64_t n;", tiny) };
        Self {
            compute: device.compute_queue(0).expect("one queue"),
            copy: device.copy_queue(0).expect("one queue"),
            kernel: kernel.expect("a signature"),
            to: device.alloc(64).expect("memory"),
            from: device.alloc(64).expect("memory"),
            device,
        }
    }

    /// Records `n` launches of the tiny kernel, submits them at once and waits for all.
    pub fn run(&self, n: u16) {
        let mut commands = self.compute.record();
        let args = [Arg::buffer(&self.to), Arg::buffer(&self.from), 2u64.into()];
        for _ in 0..n {
            // SAFETY: the buffers have 64 elements, the kernel touches two.
            unsafe { commands.exec(&self.kernel, &args, Grid::new(1, 1)) }.expect("room");
        }
        commands.submit().expect("submitted").wait().expect("done");
    }

    /// The same launches as a bound queue.
    pub fn bind(&self, n: u16) -> hcq_std::Bound {
        let mut commands = self.compute.record();
        let args = [Arg::buffer(&self.to), Arg::buffer(&self.from), 2u64.into()];
        for _ in 0..n {
            // SAFETY: the buffers have 64 elements, the kernel touches two.
            unsafe { commands.exec(&self.kernel, &args, Grid::new(1, 1)) }.expect("room");
        }
        commands.bind().expect("memory")
    }

    /// Copies one buffer to the other on the copy queue and waits.
    pub fn copy(&self, to: &Buffer<u64>, from: &Buffer<u64>) {
        let mut commands = self.copy.record();
        commands.copy(to, from).expect("room");
        commands.submit().expect("submitted").wait().expect("done");
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }
}
