//! Devices driven through their own command queues, on Linux.
//!
//! A thin shell over [`hcq_nostd`] and the drivers: it owns memory, threads and files, and gives them to the core. Open a
//! [`Device`], make [`Buffer`]s, load or register [`Kernel`]s, record [`Commands`] on a [`Queue`], submit them, wait for
//! the [`Point`].
//!
//! ```
//! use std::ffi::c_void;
//! use hcq_std::{Arg, Device, Grid, Group};
//!
//! #[repr(C)]
//! struct Args { a: f32, x: *const f32, y: *mut f32, n: u32 }
//!
//! /// Called once per work-group; its items are a loop of the kernel's own.
//! unsafe extern "C" fn saxpy(args: *const c_void, group: *const Group) {
//!     let (args, group) = unsafe { (&*args.cast::<Args>(), &*group) };
//!     let first = group.group[0] * group.local[0];
//!     for i in (first..args.n.min(first + group.local[0])).map(|i| i as usize) {
//!         unsafe { *args.y.add(i) += args.a * *args.x.add(i) };
//!     }
//! }
//!
//! let device = Device::open("cpu")?;
//! let x = device.alloc_from(&[1.0f32; 1000])?;
//! let y = device.alloc_from(&[2.0f32; 1000])?;
//! let kernel = unsafe { device.register("saxpy", "float a; const float *x; float *y; uint32_t n;", saxpy) }?;
//! let mut commands = device.compute_queue(0)?.record();
//! let args = [3.0f32.into(), Arg::buffer(&x), Arg::buffer(&y), 1000u32.into()];
//! let point = unsafe { commands.exec(&kernel, &args, Grid::new(4, 256)) }?.submit()?;
//! point.wait()?;
//! assert_eq!(y.to_vec()?, vec![5.0; 1000]);
//! # Ok::<(), hcq_std::Error>(())
//! ```
//!
//! # Order
//!
//! Commands of one queue run in order. Submissions to different queues overlap; [`Signal`]s and [`Commands::after`] order
//! them. Every submission is a [`Point`] of the device's timeline, complete when it and all before it are.
//! [`View::read`] and [`View::write`] run after everything submitted.
//!
//! # What is safe
//!
//! Launching a kernel is `unsafe`, since it is foreign code. Everything else is safe: memory that work in flight may use
//! is neither reused nor unmapped, and a command with an address that is no live buffer's is a fault, which is data: the
//! device stays in error ([`Device::fault`]), waits return at once, submissions are refused, until [`Device::recover`].
//!
//! # Waiting
//!
//! No wait is without an end: after 30 seconds in which the device made no progress, or as many milliseconds as
//! `HCQDEV_WAIT_TIMEOUT_MS` says, it is an [`Error::Timeout`] with the value wanted and the value seen.
//!
//! # Costs
//!
//! Recording goes through pooled memory: steady work neither allocates nor makes system calls while the device's threads
//! are awake; a sleeping thread costs one wake call per submission.
//!
//! # Names
//!
//! A device's name is `[sim:]device[:ordinal][,option]...`:
//!
//! | name | what |
//! |---|---|
//! | `cpu` | the system's processors |
//! | `amd`, `amd:1` | the first, the second AMD GPU that the kernel's driver (KFD) has |
//! | `amd,aql`, `amd:1,aql` | the same with compute queues of AQL packets, not PM4 words |
//! | `nv`, `nv:1` | the first, the second NVIDIA GPU that NVIDIA's kernel driver has, counted along the bus |
//! | `qcom` | the Adreno GPU that Qualcomm's kernel driver (kgsl) has, or else Linux' own (msm) |
//! | `qcom,msm` | the one that msm has |
//! | `qcom,fast` | the same with the GPU's fastest clock while work runs |
//! | `sim:amd-gfx1100`, `sim:amd-gfx942:1,gpus=4,aql,seed=7`, `sim:nv-hopper,gpus=2`, `sim:qcom-a650`, `sim:qcom-a650,msm` | a GPU of a simulated machine (feature `sim`) |
//!
//! # AMD GPUs
//!
//! Programs are code objects, versions 4 to 6, compiled for the GPU's chip ([`Device::target`]): gfx942, gfx950, gfx11 and
//! gfx12. [`Device::load_program`] loads one; launches are checked against its metadata.
//!
//! - Signals and waits have 32 bits: values of signals go up to 2^32 - 1. Timelines go on for ever all the same.
//! - Buffers are in device memory that the host reaches if the GPU has a large BAR, else in host memory. Argument blocks,
//!   staged data and downloads are in host memory; signals in host memory that the GPU does not cache.
//! - [`Device::wrap`] and [`Device::map_file`] make whole pages known to the GPU, each once.
//! - Without copy engines there are no copy queues; the host reads and writes buffers, or kernels copy.
//! - Kernels with private memory get scratch memory, of each queue that they are launched on. It grows by being allocated
//!   anew; what was recorded with the old one keeps it. AQL queues wait until the device is idle when it grows.
//! - Bound queues of AQL packets are put into the ring anew at each launch; PM4 words and copies run from where they are.
//! - After a fault [`Device::recover`] makes new queues, and tries them. Linux keeps a process off a GPU after a memory
//!   fault until the process ends, whatever it closes and opens (`kfd_dqm_evict_pasid`, `kfd_release`): then it says so, and the
//!   device stays in error, as do devices of that GPU opened later.
//!
//! # NVIDIA GPUs
//!
//! Programs are cubins, compiled for the GPU's architecture ([`Device::target`]): sm_80 to sm_90, sm_100 and sm_120. A cubin
//! says how large its arguments are, and not what they are: [`Module::kernel_with`] takes a signature, and then launches are
//! checked against it. GPUs are reached through NVIDIA's kernel driver, version 535 to 595, whose interface changes from branch
//! to branch: a branch that is not known is refused, unless `HCQDEV_NV_ABI` names one whose interface to take.
//!
//! - Signals have 64 bits, waits compare 63 (on GA100 both have 32). Polls look at one bit, known while recording.
//! - Buffers are in device memory that the host reaches if the GPU's window on the bus (BAR1) is as large as its memory, else
//!   in host memory. Everything lies at addresses below 2^40, where launch descriptors and channels reach it; host and GPU see
//!   it at the same address if the process has nothing there.
//! - Queues are channels of one group, each with a context of its own, so that they run side by side. A launch begins when the
//!   launches before it on its queue are complete: by the descriptor of the one directly before it, which starts it, else by
//!   a wait for the engine to be idle. The first two signals or timestamps behind a launch are written by it, too.
//! - Every kernel has a stack: local memory for all threads that the GPU can hold, of each queue that it is launched on, is
//!   allocated at the first launch. When it grows, launches wait until the device is idle.
//! - A waiting host sleeps until the GPU's next interrupt, which ends every submission, or an error. What comes without one, as
//!   a signal in the middle of a submission or one that another GPU or the host sets, it sees within 5 ms. Where the driver
//!   has no events for a process, it looks again after naps of up to a millisecond.
//! - A memory fault tells its address and its queue, of kernels, copies and signals alike; an error of a kernel tells its
//!   instruction. Firmware that does not say what it knows of a channel leaves that to kernels' faults; others tell then only
//!   that they were there. After a fault [`Device::recover`] makes new channels, and tries them.
//!
//! # Adreno GPUs
//!
//! Programs are containers of Qualcomm's OpenCL compiler, one kernel each, or bundles of programs of Mesa's ir3 compiler:
//! text in front of the instructions (`hcq-ir3 1`, then lines such as `kernel add`, `arguments float *a; uint32_t n;`,
//! `max_reg 6`, fields of [`Variant`](hcq_qcom::ir3::Variant), and `code 384`, the last one). A container does not say what its
//! arguments are: [`Module::kernel_with`] takes a signature; without one, launches are as they are given.
//!
//! Kernels take images and samplers: [`Device::image2d`] says how texels lie in a buffer, row behind row, [`Arg::image`] puts that
//! over one, [`Device::sampler`] and [`Arg::sampler`] say how it is read between and around its texels. In a bundle's `arguments`
//! they are `texture float in;`, `storage uint out;`, `sampler by;`, and launches are checked against that: image or buffer, floats
//! or whole numbers, and whether all texels are in the buffer. In a graph an image is the bytes from its first texel to its last,
//! written if it is a storage image. A descriptor made by hand is an argument of 64 bytes, too
//! ([`Image::texture_at`](hcq_qcom::image::Image::texture_at), [`storage_at`](hcq_qcom::image::Image::storage_at)), a sampler one of
//! 16.
//!
//! - There is one compute queue, and there are as many copy queues as are asked for: threads of the host, since the GPU has
//!   no copy engine and its memory is the host's. They wait and signal as a copy engine would.
//! - Signals and waits have 32 bits, as on AMD GPUs.
//! - Buffers are cached by the host where the GPU looks into the host's caches (kernels say so); else the host writes through
//!   write-combined memory, and reads of buffers are slow. Wrapped memory and mapped files are always cached: cache lines
//!   are written back before each submission and read anew when work is done. Then what the host stores into wrapped memory
//!   after a submission is not promised to be seen by it, whatever signals say.
//! - Buffers that share a cache line of 64 bytes cannot be wrapped both. One buffer has at most 4 GiB.
//! - A wait on the compute queue holds the GPU: nothing else of this device runs on it, and other processes' contexts run
//!   only if their priority is higher.
//! - After a fault [`Device::recover`] makes a new context.
//! - Behind Linux' own driver (`qcom,msm`) no memory is wrapped, and a graph has no other GPUs; mapped files are sources of copies
//!   all the same. A queue that comes no further for half a second, as a rule, is in error: so long may it wait for the
//!   host or for a copy queue. Faults say that something failed, and the kernel's log says what.
//!
//! # Several devices
//!
//! [`View::share`] and [`Signal::share`] make memory and signals of one device another one's too: of GPUs of one kernel
//! driver that reach each other (XGMI, or PCIe with peer-to-peer access), of GPUs and the CPU, of several CPU devices.
//! [`Commands::after`] takes points of any device. GPUs of one simulated machine are opened with its
//! [`System`](seam::System):
//!
//! ```
//! # #[cfg(feature = "sim")] {
//! use hcq_std::{Device, Options, sim};
//! let options = Options::default().system(sim::machine("amd-gfx942,gpus=2")?);
//! let (one, two) = (Device::open_with("amd:0", &options)?, Device::open_with("amd:1", &options)?);
//! let source = one.alloc_from(&[1u32, 2, 3, 4])?;
//! let copy = two.alloc::<u32>(4)?;
//! let mut commands = two.copy_queue(0)?.record();
//! commands.copy(&copy, &source.share(&two)?)?.submit()?;
//! assert_eq!(copy.to_vec()?, [1, 2, 3, 4]);
//! # }
//! # Ok::<(), hcq_std::Error>(())
//! ```
//!
//! # Graphs
//!
//! A [`GraphBuilder`] takes kernels, copies and numbers to write, in program order, on one device or on several. It knows which
//! bytes each of them reads and writes, plans which queue does what and waits for what, and records all of it once: a
//! [`Graph`]. [`Graph::launch`] costs what changed: inputs, numbers, grid sizes. [`Graph::explain`] says why each wait is there,
//! [`Graph::dot`] draws the plan, [`Graph::profile`] tells when everything ran. [`GraphBuilder::image`] stores a graph with its
//! programs and data, and [`Replay`] launches it elsewhere, without planning or encoding anything again.
//!
//! Devices of several kernel drivers take part in one graph: what goes between those that do not reach each other's memory
//! goes through the host's. An Adreno GPU takes part with processors only, since it does not look into caches of others.
//!
//! # Not supported
//!
//! - Images as arguments on other GPUs than Adreno's and on the CPU; images that are tiled, compressed, sRGB, of one or three
//!   dimensions, or have smaller copies of themselves (mipmaps).
//! - Stored graphs of several devices whose copies go through the host, where the devices see the host's memory at different
//!   addresses; of launches that are given an image's descriptor as bytes.
//! - NVIDIA: several launches of one queue at once: each waits for the ones before it.
//! - NVIDIA: what [`hcq_nv`] lists, GPUs in parts (MIG), confidential computing.
//! - Adreno: what [`hcq_qcom`] lists.
//! - Waits of one device's queue for another device's submission without the host, but by shared signals.
//! - AMD: what [`hcq_amd`] lists, and host services of kernels (`printf`, device-side allocation).
//! - AMD: copies by a copy engine of what the host has just stored into device memory through a BAR, on machines where the
//!   host data path holds it back; a submission to a compute queue in between flushes that path.
#![deny(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing
    )
)]

#[cfg(not(target_os = "linux"))]
compile_error!(
    "hcq-std makes Linux system calls; other systems need their own implementation of `seam::System`"
);

mod amd;
mod arg;
/// What [`wake`] is built on.
mod atomics {
    pub(crate) use std::sync::atomic::{AtomicU32, Ordering, fence};
}
mod backend;
mod bound;
mod buffer;
#[cfg(test)]
mod calls;
mod candidates;
mod clock;
mod cpu;
mod device;
mod env;
mod error;
mod graph;
mod heap;
mod image2d;
mod info;
mod inner;
mod ioctl;
mod kfd;
mod kgsl;
mod launch;
mod lent;
mod mapping;
mod msm;
mod name;
mod nv;
mod options;
mod peers;
mod point;
mod profile;
mod program;
mod qcom;
mod queue;
mod recording;
pub mod seam;
mod signal;
#[cfg(feature = "sim")]
pub mod sim;
mod staging;
mod template;
mod wake;

pub use hcq_cpu::abi::{Group, HCQ_H, KernelFn};
pub use hcq_cpu::signature::ScalarType;
pub use hcq_nostd::args::ArgKind;
pub use hcq_nostd::fault::{Access, FaultKind, FaultRecord};
pub use hcq_nostd::value::{Value, Var};

pub use crate::arg::{Arg, Dims, Grid};
pub use crate::backend::QueueKind;
pub use crate::bound::Bound;
pub use crate::buffer::{Buffer, Element, MappedFile, Span, View};
pub use crate::candidates::{Attempt, Candidate, devices, devices_on};
pub use crate::device::{Device, TimelineInfo};
pub use crate::error::Error;
pub use crate::graph::{
    BufferRole, Graph, GraphBuilder, GraphOptions, GraphProfile, GraphSpan, GraphStats, Input,
    Node, Number, Param, QueueUse, Ran, Replay, Run, StoredBuffer, Touch,
};
pub use crate::image2d::{
    BorderColor, Filter, Image2d, ImageRules, Sampler, Sampling, TexelFormat, TexelKind,
    UnknownFormat, Wrap,
};
pub use crate::info::DeviceInfo;
pub use crate::options::Options;
pub use crate::point::Point;
pub use crate::profile::{Region, Times};
pub use crate::program::{ArgInfo, ImageParam, Kernel, Module};
pub use crate::queue::{Commands, Queue};
pub use crate::signal::Signal;
pub use crate::staging::Download;
