//! Adreno GPUs as devices of hardware command queues.
//!
//! | module | what |
//! |---|---|
//! | [`chips`] | the chips that this driver knows, and how they differ, as data |
//! | [`device`] | one GPU as a process uses it, and the private memory of its programs |
//! | [`container`] | programs in the container of Qualcomm's OpenCL compiler |
//! | [`ir3`] | programs that Mesa's ir3 compiler makes |
//! | [`kernel`] | what a launch needs to know of a program: registers, arguments, constants, images |
//! | [`image`] | descriptors of textures and storage images, samplers, border colours |
//! | [`pm4`] | packets of the command processor, the compute queue that records them, submission |
//! | [`dump`] | words as text, with freedreno's names |
//! | [`malformed`] | words that are no packet |
//!
//! Sources: `adreno_pm4.xml`, `a6xx.xml`, `freedreno_devices.py`, `ir3_shader.h` of Mesa, and the headers that Linux 6.1 has
//! of the first two; `tools/registers.py` makes the table of registers of them.
//!
//! # One submission, from a program to the kernel driver
//!
//! ```
//! use hcq_nostd::args::{Arg, ArgSlot};
//! use hcq_nostd::mem::Region;
//! use hcq_nostd::patch::{PatchList, RegionId};
//! use hcq_nostd::queue::{ComputeQueue, Launch, Program as _, Queue, SignalAt};
//! use hcq_nostd::record::Block;
//! use hcq_qcom::chips::{Chip, ChipId, Generation};
//! use hcq_qcom::device::{Device, PrivateMemory, PrivateNeed};
//! use hcq_qcom::dump::Dump;
//! use hcq_qcom::ir3::Variant;
//! use hcq_qcom::kernel::Param;
//! use hcq_qcom::pm4::submit::CommandObject;
//! use hcq_qcom::pm4::{AdrenoCompute, Program};
//!
//! // What the kernel driver says of the chip, and two places that the GPU sees.
//! let chip = Chip::find(ChipId(0x0603_0001))?;
//! let device = Device::new(chip, 0x5_0000_1000, 0x5_0000_3000)?;
//!
//! // A compiled program: three buffers, no constants, no images. Its instructions are copied to where the GPU sees them.
//! let code = include_bytes!("../../../tests/vectors/objects/add-a630-ir3.bin");
//! let variant = Variant {
//!     code,
//!     max_reg: 6,
//!     max_half_reg: 0,
//!     constlen: 4,
//!     work_group_id: 0xc0,
//!     local_invocation_id: 0,
//!     ..Variant::EMPTY
//! };
//! let kernel = variant.kernel(0x5_2000_0000)?;
//! let mut slots = [ArgSlot::buffer(0); 3];
//! let arguments = variant.layout(&[Param::Buffer; 3], &mut slots, &mut [], &mut [])?;
//! let need = PrivateNeed::new(chip, kernel.private_bytes)?;
//! let private = PrivateMemory::new(0x5_4000_0000, need.bytes)?;
//! let program = Program::new(&device, &kernel, &arguments, &private)?;
//!
//! // Record: a launch of 8 work-groups of 32, then a signal.
//! let mut kernargs = [0u64; 512];
//! let mut kernargs = Region::from_words(&mut kernargs, 0x5_1000_0000);
//! let mut words = [0u32; 128];
//! let mut q = AdrenoCompute::new(&device, &mut words, PatchList::none());
//! q.exec(Launch {
//!     program: &program,
//!     args: &[0x5_1100_0000u64, 0x5_1200_0000, 0x5_1300_0000].map(|a| Arg::Buffer(a.into())),
//!     kernargs: Block::new(&mut kernargs, RegionId(1), 0, program.kernargs_size())?,
//!     groups: [8u64.into(), 1u64.into(), 1u64.into()],
//!     local: [32u64.into(), 1u64.into(), 1u64.into()],
//!     local_memory: 0,
//! })?
//! .signal(SignalAt { address: 0x5_0010_0040u64.into(), notify: true }, 1u64.into())?;
//! assert!(Dump::new(Generation::A6xx, q.words()).to_string().contains("CP_EXEC_CS NGROUPS=0x8,0x1,0x1"));
//!
//! // Submit: the words lie where the GPU sees them, and the kernel driver calls them by reference.
//! let object = CommandObject::new(0x5_3000_0000, q.words().len())?;
//! assert_eq!(object.bytes() as usize, 4 * q.words().len());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is not here
//!
//! - Chips other than A618, A630, A640, A643, A650, A660 and A690.
//! - Launches on A7xx. Of A730, A735, A740 and A750 there are packets and no more
//!   ([`PACKETS_ONLY`](chips::PACKETS_ONLY)): CP_EVENT_WRITE7 both ways, the others where they are as on A6xx, and queues that
//!   record signals, waits, timestamps, writes and barriers. Not there: the registers of a dispatch, which have moved or
//!   are new, descriptors, private memory, the second compute pipe (LPAC), and what serves concurrent binning:
//!   CP_THREAD_CONTROL, memory on the chip, counters of the two threads. [`Chip::find`](chips::Chip::find) and
//!   [`Program::new`](pm4::Program::new) refuse such chips. Nothing of this has run on one.
//! - Signals of 64 bits: events write and waits compare 32, and a larger value is refused.
//! - In ir3 programs: parameters of the compiler other than the work-group's size and the number of groups, bindless images and
//!   buffers, constant data and UBOs beside the arguments, an early preamble.
//! - In OpenCL containers: samplers whose kind is in the file. There is no public description of them; a program with one
//!   gets [`Sampler::TEXELS`](image::Sampler::TEXELS).
//! - Images that are tiled, compressed, or of other than two dimensions; mipmaps.
//! - Copies by a 2D or blit engine, performance counters.
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
pub mod container;
pub mod device;
pub mod dump;
pub mod image;
pub mod ir3;
pub mod kernel;
pub mod malformed;
pub mod pm4;
