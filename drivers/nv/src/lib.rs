//! NVIDIA GPUs as devices of hardware command queues: Ampere, Ada, Hopper and Blackwell.
//!
//! | module | what |
//! |---|---|
//! | [`chips`] | the chips that this driver knows, and how they differ, as data |
//! | [`device`] | one GPU as a process uses it: chip, windows to shared and local memory |
//! | [`method`] | headers and runs of methods, of which pushbuffers are made |
//! | [`host`] | methods that every channel has: semaphores, waiting for an engine, interrupts |
//! | [`compute`] | methods of the compute engine, programs, and the queue that runs them |
//! | [`qmd`] | launch descriptors: three layouts from NVIDIA's headers, and reading any of them |
//! | [`copy`] | methods of the copy engines, and the queue that records them |
//! | [`setup`] | what a channel is told once |
//! | [`local_memory`] | memory for stacks: how much, and where |
//! | [`gpfifo`] | a channel's ring of entries, and its doorbell |
//! | [`kernel`] | what a launch needs to know of a loaded kernel |
//! | [`cubin`] | ELF files with kernels: images, relocations, attributes |
//! | [`packet`], [`dump`] | words back to commands, and to text |
//! | [`malformed`] | words that mean nothing |
//!
//! # One submission, from a cubin to the doorbell
//!
//! ```
//! use hcq_nostd::args::{Arg, ArgSlot};
//! use hcq_nostd::mem::Region;
//! use hcq_nostd::patch::{PatchList, RegionId};
//! use hcq_nostd::queue::{ComputeQueue, Launch, Program as _, Queue, SignalAt};
//! use hcq_nostd::record::Block;
//! use hcq_nv::chips::Chip;
//! use hcq_nv::compute::{NvCompute, Program, Qmds};
//! use hcq_nv::cubin::Cubin;
//! use hcq_nv::device::Device;
//! use hcq_nv::dump::Dump;
//! use hcq_nv::gpfifo::{ChannelDoorbell, GpFifo};
//! use hcq_nv::local_memory::{LocalMemory, Need, Topology};
//! use hcq_nv::qmd::Fields;
//! use hcq_nv::setup::Setup;
//!
//! // A file with kernels, loaded to where the GPU sees it.
//! let file = include_bytes!("../tests/objects/many-sm_90.cubin");
//! let cubin = Cubin::parse(file)?;
//! let device = Device::new(Chip::from_compute_class(0xcbc0)?);
//! cubin.check(device.chip())?;
//! let mut memory = vec![0u64; cubin.image()?.bytes.div_ceil(8) as usize];
//! let base = 0x7f00_0000_0000;
//! cubin.load(&mut Region::from_words(&mut memory, base))?;
//!
//! // One of its kernels, prepared for a GPU with memory for its stack.
//! let topology = Topology { gpcs: 8, tpcs_per_gpc: 9, sms_per_tpc: 2, warps_per_sm: 64 };
//! let found = cubin.kernel("first")?;
//! let kernel = found.kernel(device.chip(), base)?;
//! let need = Need::new(&topology, kernel.local.bytes())?;
//! let local = LocalMemory::new(device.chip(), 0x7e00_0000_0000, &need)?;
//! let mut slots = [ArgSlot::buffer(0); 8];
//! let program = Program::new(&device, &kernel, found.layout(&mut slots)?, &local)?;
//!
//! // Record: what a new channel is told, a launch of 64 groups, then a signal, which becomes part of the launch.
//! let (mut kernargs, mut descriptors, mut words) = ([0u64; 128], [0u64; 64], [0u32; 64]);
//! let mut kernargs = Region::from_words(&mut kernargs, 0x8000);
//! let qmds = Qmds::new(Region::from_words(&mut descriptors, 0x9000), RegionId(2));
//! let mut q = NvCompute::new(&device, &mut words, qmds, PatchList::none());
//! q.setup(&Setup::compute(&device))?.setup(&Setup::local_memory(local))?;
//! q.exec(Launch {
//!     program: &program,
//!     args: &[Arg::Buffer(0x1_0000u64.into()), Arg::from(4u64)],
//!     kernargs: Block::new(&mut kernargs, RegionId(1), 0, program.kernargs_size())?,
//!     groups: [64u64.into(), 1u64.into(), 1u64.into()],
//!     local: [64u64.into(), 1u64.into(), 1u64.into()],
//!     local_memory: 0,
//! })?
//! .signal(SignalAt { address: 0xa000u64.into(), notify: true }, 1u64.into())?;
//! let text = Dump::new(q.words()).to_string();
//! assert!(text.ends_with("SEND_SIGNALING_PCAS2_B PCAS_ACTION=PREFETCH_SCHEDULE\n"));
//!
//! // Submit: an entry for the words, which lie at 0xb000, then the channel's token.
//! let (mut ring, mut userd, mut usermode) = ([0u64; 16], [0u64; 64], [0u64; 64]);
//! let mut ring = GpFifo::new(Region::from_words(&mut ring, 0xc000))?;
//! let (userd, mapped) = (Region::from_words(&mut userd, 0), Region::from_words(&mut usermode, 0));
//! let mut doorbell = ChannelDoorbell::new(userd, mapped, ring.len(), 0x1a2b3c)?;
//! assert_eq!(ring.submit(0xb000, q.words().len(), &mut doorbell)?, 1);
//! let words: Vec<u32> = descriptors.iter().flat_map(|w| [*w as u32, (*w >> 32) as u32]).collect();
//! assert_eq!(Fields::new(device.chip().qmd, &words)?.get("GRID_WIDTH"), Some(64));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is not here
//!
//! - Chips before Ampere, graphics, clusters of groups, textures and surfaces, launches from kernels.
//! - System calls of CUDA's driver in kernels: `printf`, `malloc`. Such a cubin is refused when it is loaded.
//! - Relocatable cubins and fat binaries.
//! - `%dynamic_smem_size` on Blackwell and `%total_smem_size` everywhere: what compiled kernels read for them is not known.
//! - Video decoders.
//!
//! # Features
//!
//! `defmt`: `defmt::Format` for errors and packets. There are no default features.
#![no_std]
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

#[cfg(test)]
extern crate std;

pub mod chips;
pub mod compute;
pub mod copy;
pub mod cubin;
pub mod device;
pub mod dump;
pub mod gpfifo;
pub mod host;
pub mod kernel;
pub mod local_memory;
pub mod malformed;
pub mod method;
pub mod packet;
pub mod qmd;
pub mod setup;
mod text;
