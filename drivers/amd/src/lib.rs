//! AMD GPUs as devices of hardware command queues.
//!
//! | module | what |
//! |---|---|
//! | [`chips`] | the chips that this driver knows, and how they differ, as data |
//! | [`device`] | one GPU as a process uses it: chip, register addresses, XCCs, event |
//! | [`kernel`] | what a launch needs to know of a loaded kernel: registers, properties, arguments |
//! | [`hidden`] | arguments that the compiler adds and a launch fills in |
//! | [`code_object`] | ELF files with kernels: images, relocations, descriptors, metadata |
//! | [`scratch`] | scratch memory: how much, its registers and descriptors |
//! | [`pm4`] | packets of the compute engines' command processor, and the compute queue that records them |
//! | [`aql`] | 64-byte packets for the packet processor, and the compute queue that records them |
//! | [`sdma`] | packets of the copy engines, and the copy queue that records them |
//! | [`dump`] | words as text, with the vendor's names |
//! | [`malformed`] | words that are no packet |
//!
//! # One submission, from a code object to the ring
//!
//! ```
//! use hcq_amd::chips::Chip;
//! use hcq_amd::code_object::CodeObject;
//! use hcq_amd::device::{Device, Event};
//! use hcq_amd::dump::{Dump, Stream};
//! use hcq_amd::hidden::HiddenSlot;
//! use hcq_amd::pm4::{Pm4Compute, Program, submit};
//! use hcq_amd::scratch::Scratch;
//! use hcq_nostd::args::{Arg, ArgSlot};
//! use hcq_nostd::mem::Region;
//! use hcq_nostd::patch::{PatchList, RegionId};
//! use hcq_nostd::queue::{ComputeQueue, Launch, Program as _, Queue, SignalAt};
//! use hcq_nostd::record::Block;
//! use hcq_nostd::ring::Ring;
//!
//! // A file with kernels, loaded to where the GPU sees it.
//! let file = include_bytes!("../tests/objects/many-v5.o");
//! let object = CodeObject::parse(file)?;
//! let mut memory = vec![0u64; object.image()?.bytes.div_ceil(8) as usize];
//! let base = 0x7f00_0000_0000;
//! object.load(&mut Region::from_words(&mut memory, base))?;
//!
//! // One of its kernels, prepared for a GPU.
//! let chip = object.chip()?;
//! let device = Device::new(chip, 1)?.with_event(Event::new(0x7e55_0000_2018, 3)?);
//! let metadata = object.metadata("first")?.ok_or("no metadata")?;
//! let kernel = object.kernel("first")?.kernel(chip, base, Some(&metadata))?;
//! let (mut slots, mut hidden) = ([ArgSlot::buffer(0); 8], [HiddenSlot::EMPTY; 32]);
//! let arguments = metadata.layout(&mut slots, &mut hidden)?;
//! let program = Program::new(&device, &kernel, arguments, &Scratch::NONE, 0)?;
//!
//! // Record: a launch of 64 work-groups, then a signal that wakes the host.
//! let mut kernargs = [0u64; 16];
//! let mut kernargs = Region::from_words(&mut kernargs, 0x8000);
//! let mut words = [0u32; 128];
//! let mut q = Pm4Compute::new(&device, &mut words, PatchList::none());
//! q.exec(Launch {
//!     program: &program,
//!     args: &[Arg::Buffer(0x1_0000u64.into()), Arg::Buffer(0x2_0000u64.into()), 4096u32.into()],
//!     kernargs: Block::new(&mut kernargs, RegionId(1), 0, program.kernargs_size())?,
//!     groups: [64u64.into(), 1u64.into(), 1u64.into()],
//!     local: [64u64.into(), 1u64.into(), 1u64.into()],
//!     local_memory: 0,
//! })?
//! .signal(SignalAt { address: 0x9000u64.into(), notify: true }, 1u64.into())?;
//! assert!(Dump::new(Stream::Pm4(chip), q.words()).to_string().contains("DISPATCH_DIRECT DIM=0x40,0x1,0x1"));
//!
//! // Submit: the doorbell of a compute ring takes the count of words.
//! let mut ring = [0u64; 128];
//! let mut ring = Ring::new(Region::from_words(&mut ring, 0xa000), 4)?;
//! let mut rung = 0;
//! submit::submit(&mut ring, q.words(), &mut |put| rung = put)?;
//! assert_eq!(rung as usize, q.words().len());
//! # assert_eq!(chip, Chip::named("gfx1100").ok_or("known")?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is not here
//!
//! - Chips before gfx942, gfx10, and code objects for generic targets.
//! - Code objects before version 4, executables without section headers, relocations through a GOT.
//! - Kernel arguments that are images, samplers, pipes or queues; host services of hidden arguments (`printf`, host calls,
//!   device-side allocation and queues) find null pointers.
//! - In PM4 queues: kernels that read their queue's or their dispatch's number. AQL queues run them.
//! - Performance counters and thread traces.
//! - Copies other than linear ones.
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

pub mod aql;
pub mod chips;
pub mod code_object;
pub mod device;
pub mod dump;
pub mod hidden;
pub mod kernel;
pub mod malformed;
pub mod pm4;
pub mod scratch;
pub mod sdma;
