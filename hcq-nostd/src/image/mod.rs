//! Graph images: a recorded graph as one block of bytes, to be loaded and replayed without a rebuild.
//!
//! An image (`.hcqg`) holds a [`Graph`](crate::graph::Graph) and what a loader has to know: what each device must be, the
//! variables by name, code objects, the memory that the graph needs besides its own, names of nodes. It is position
//! independent: everything in it is an offset, and a graph that was recorded for [any
//! place](crate::graph::Place::Anywhere) runs at any addresses. It can be mapped from a file, or compiled into firmware.
//!
//! # Replaying
//!
//! [`Image::load`] checks every offset, size, alignment and overlap once, without memory of its own. What it returns borrows
//! the bytes. A replayer then
//!
//! 1. compares [targets](Image::require) with its devices,
//! 2. copies [code objects](Image::codes) and [buffers](Image::buffers) into memory of their devices,
//! 3. [binds](crate::graph::Graph::bind) the graph to memory: queues, argument blocks, signals,
//! 4. sets the [variables](Image::variables): addresses of code, buffers and private memory, numbers,
//! 5. launches: [`idle`](crate::graph::Instance::idle), [`patch`](crate::graph::Idle::patch),
//!    [`submit`](crate::graph::Launch::submit), [`kickoff`](crate::graph::Launch::kickoff).
//!
//! Nothing is checked again at a launch but variables' values.
//!
//! # What a check is worth
//!
//! Loading, binding and launching an image from people whom one does not trust stores to the memory that was given for it,
//! and nowhere else. What its words tell a device to do is another matter: run them where the device can touch nothing that
//! they must not, in an address space of its own.
//!
//! # Bytes
//!
//! | part | entry | what |
//! |---|---|---|
//! | header | 280 bytes | magic `HCQG`, version, length, checksum, counts, place and count of each section |
//! | targets | 24 | kind, chip and ABI of each device |
//! | devices, queues, works, edges | 32, 40, 28, 4 | the graph's records |
//! | variables | 20 | name, kind, what it belongs to |
//! | code objects | 56 | name, device, bytes, SHA-256 |
//! | buffers | 32 | name, device, role, size, alignment, contents |
//! | nodes | 8 | name |
//! | words | 4 | of all queues |
//! | blocks | 1 | argument blocks as they were recorded, and what is beside queues |
//! | patch table | 8 | see [`PatchTable`](crate::patch::PatchTable) |
//! | bytes | 1 | of code objects and buffers |
//! | texts | 1 | UTF-8 |
//!
//! All numbers are little-endian. Sections come in this order, each at the next multiple of 64 bytes, so that they cannot
//! overlap. The checksum is the CRC-32 of zip (ISO-HDLC) over the bytes from the 20th on; those before are the magic
//! number, the version, the length, and the checksum itself.

mod format;
mod load;
mod write;

pub use format::Section;
pub use load::{Image, LoadError};
pub use write::{Contents, WriteError, bytes, write};

/// What a device has to be for a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Target<'a> {
    /// The driver: `cpu`, `amd`, `nv`, `qcom`.
    pub kind: &'a str,
    /// The chip, as its driver names it: `gfx1100`. Empty if any will do.
    pub chip: &'a str,
    /// The driver's version of what stands beside words, where it matters; zero if any will do.
    pub abi: u32,
}

impl Target<'_> {
    /// Whether a device that is `have` will do.
    pub fn takes(&self, have: &Target<'_>) -> bool {
        self.kind == have.kind
            && (self.chip.is_empty() || self.chip == have.chip)
            && (self.abi == 0 || self.abi == have.abi)
    }
}

/// What a variable is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum VariableKind {
    /// The device address of a buffer.
    Buffer {
        /// The buffer's number.
        buffer: u32,
    },
    /// The device address of a code object.
    Code {
        /// The code object's number.
        code: u32,
    },
    /// A number that a queue has for the kernel of this variable's name: where its private memory is, how large that is. Whoever
    /// replays the image sees to that memory first, also where no word depends on the number.
    Private {
        /// The code object's number.
        code: u32,
        /// The queue, a compute queue of the code object's device.
        queue: u16,
        /// Which number; what each means is its driver's business.
        part: u16,
    },
    /// The address of what a device has for itself, which its commands name beside the graph's memory.
    Own {
        /// The device.
        device: u16,
    },
    /// A scalar argument.
    Scalar {
        /// Its bytes: 1, 2, 4 or 8.
        bytes: u8,
    },
    /// A number of work-groups or work-items.
    Count,
    /// Any other number.
    Number,
}

/// A variable of the caller's. Its number is its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Variable<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it is.
    pub kind: VariableKind,
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u16)]
pub enum Role {
    /// The graph reads it.
    Input = 0,
    /// The graph writes it.
    Output = 1,
    /// Both.
    InOut = 2,
    /// The graph's own; its contents are of no account before and after.
    Scratch = 3,
    /// The graph reads the contents that the image has.
    Constant = 4,
}

/// Memory that a graph needs besides its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Buffer<'a> {
    /// Its name.
    pub name: &'a str,
    /// The device in whose memory it was planned.
    pub device: u16,
    /// What it is for.
    pub role: Role,
    /// Bytes.
    pub bytes: u64,
    /// Alignment of its device address, a power of two.
    pub align: u32,
    /// What it holds at first, from its start on.
    pub contents: &'a [u8],
}

/// A program's code, as the device's loader wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Code<'a> {
    /// Its name.
    pub name: &'a str,
    /// The device that runs it.
    pub device: u16,
    /// Alignment of its device address, a power of two.
    pub align: u32,
    /// The bytes.
    pub bytes: &'a [u8],
    /// Their SHA-256, by whoever wrote the image: to look them up in a list of those that may run. It is not computed here.
    pub sha256: [u8; 32],
}
