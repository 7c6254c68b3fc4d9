//! What a device must do for the shell: one private trait, so that other devices join without a change above it.
//!
//! A [`Backend`] is shared; its [`Port`], the host's half of its rings, belongs to whoever holds the submission lock.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use hcq_cpu::abi::KernelFn;
use hcq_nostd::args::Arg;
use hcq_nostd::fault::FaultRecord;
use hcq_nostd::mem::{Region, SharedWord};
use hcq_nostd::patch::{PatchList, RegionId};
use hcq_nostd::queue::{SignalAt, WriteWidth};
use hcq_nostd::record::{Block, RecordError};
use hcq_nostd::signal::Width;
use hcq_nostd::value::{Value, Var};

use crate::Error;
use crate::arg::Grid;
use crate::heap::Allocation;
use crate::image2d::{ImageRules, SAMPLER_BYTES, Sampling};
use crate::info::DeviceInfo;
use crate::program::ArgInfo;
use crate::seam::Errno;

/// The two kinds of queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueueKind {
    /// Runs kernels.
    Compute,
    /// Copies.
    Copy,
}

impl fmt::Display for QueueKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Compute => "compute",
            Self::Copy => "copy",
        })
    }
}

/// A queue of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueId {
    pub(crate) kind: QueueKind,
    pub(crate) index: usize,
}

/// Device memory, as a backend handed it out.
#[derive(Debug)]
pub(crate) struct Memory {
    /// Where the host reaches it.
    pub(crate) cpu: NonNull<u8>,
    /// Bytes, at most `isize::MAX`.
    pub(crate) len: usize,
    /// Where the device reaches it.
    pub(crate) address: u64,
    /// Whether the device may write.
    pub(crate) writable: bool,
    /// How it is given back.
    pub(crate) origin: Origin,
}

// SAFETY: a plain range; who may access it when is its owner's business.
#[allow(unsafe_code, reason = "a range of memory is no thread's own")]
unsafe impl Send for Memory {}
// SAFETY: as above.
#[allow(unsafe_code, reason = "a range of memory is no thread's own")]
unsafe impl Sync for Memory {}

/// Where memory came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The process's allocator.
    Heap,
    /// A mapping of its own.
    Mapping,
    /// The device's driver.
    Driver,
    /// Another device.
    Peer,
    /// The caller.
    Caller,
}

/// What memory is for. A backend puts it where that is best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// What kernels and copies work on, most of the time.
    Data,
    /// What the host writes or reads and the device looks at once: commands, argument blocks, staged data.
    Exchange,
    /// What host and device write while both run.
    Signals,
    /// Programs.
    Code,
}

/// A program prepared by a backend, opaque to the shell.
pub(crate) type Prepared = Arc<dyn Any + Send + Sync>;

/// A kernel of a code object.
pub(crate) struct Found {
    pub(crate) program: Prepared,
    /// Its arguments; `None` if the code object does not say.
    pub(crate) arguments: Option<Box<[ArgInfo]>>,
    /// Whether [`Backend::ready`] is to be asked before each launch is recorded.
    pub(crate) has_needs: bool,
}

/// A code object in device memory, which it holds.
pub(crate) trait Code: Send + Sync {
    /// Names of its kernels.
    fn kernels(&self) -> &[String];
    /// The kernel of this name; `None` if there is none.
    fn kernel(&self, symbol: &str) -> Result<Option<Found>, Error>;
    /// The same with arguments that the caller knows, for programs that do not say them.
    fn kernel_as(&self, symbol: &str, _arguments: &[ArgInfo]) -> Result<Option<Found>, Error> {
        self.kernel(symbol)
    }
    /// The code object as it was loaded; nothing for programs that cannot be stored.
    fn bytes(&self) -> &[u8] {
        &[]
    }
    /// Where its image is: what the variable of a [relocatable](Backend::relocatable) program stands for.
    fn base(&self) -> u64 {
        0
    }
}

/// How [`Backend::load`] comes by memory for code.
pub(crate) type AllocateCode<'a> = &'a dyn Fn(usize) -> Result<Arc<Allocation>, Error>;

/// One argument's place, and the size and alignment of the whole block.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) slots: Box<[hcq_nostd::args::ArgSlot]>,
    pub(crate) size: u32,
    pub(crate) align: u32,
}

/// What a kernel is made from.
#[derive(Debug)]
pub(crate) enum Source {
    /// A function of this process.
    Function {
        entry: KernelFn,
        layout: Option<Layout>,
    },
}

/// A launch for the encoder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exec<'a> {
    pub(crate) program: &'a Prepared,
    pub(crate) args: &'a [Arg<'a>],
    pub(crate) grid: &'a Grid,
}

/// A command with no vendor in it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Command<'a> {
    Wait(SignalAt, Value),
    Signal(SignalAt, Value),
    Timestamp(SignalAt),
    Write(Value, Value, WriteWidth),
    PollBit(Value, u32, Value),
    Barrier,
    Exec(Exec<'a>),
    Copy {
        destination: Value,
        source: Value,
        bytes: Value,
    },
    /// Run the words of a bound queue.
    Launch {
        address: u64,
        words: usize,
    },
}

/// What the commands of a recording have left for those behind them. A device that has no use for it leaves it as it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Before {
    /// Nothing is known.
    #[default]
    Nothing,
    /// The last launch, as long as what follows may go into its descriptor.
    Nv(hcq_nv::compute::State),
}

impl Before {
    /// The same, leaving the last launch's descriptor alone: its memory is not at hand any more.
    pub(crate) const fn sealed(self) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::Nv(state) => Self::Nv(state.sealed()),
        }
    }

    /// Byte offset of the descriptor that the next command may change.
    pub(crate) const fn descriptor(self) -> Option<usize> {
        match self {
            Self::Nothing => None,
            Self::Nv(state) => state.active(),
        }
    }
}

/// Memory of a recording's launch descriptors, and what the commands before one have left there.
pub(crate) struct Descriptors<'a> {
    /// The memory with the last launch's descriptor and room for the next one.
    pub(crate) memory: Region<'a>,
    /// Its number in the patch list.
    pub(crate) id: RegionId,
    /// Byte offset of a launch's own descriptor, a multiple of [`ALIGN`](Self::ALIGN).
    pub(crate) at: usize,
    /// Brought up to date when a command was encoded.
    pub(crate) before: &'a mut Before,
    /// Where things are, in a recording that is stored.
    pub(crate) stored: Option<Stored>,
}

/// What of a stored recording is known at launch only, beside its argument blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stored {
    /// Device address of the memory of launch descriptors; what the memory says of itself is of no account.
    pub(crate) descriptors: Value,
    /// Where what the device has for itself lies ([`Backend::own_address`]).
    pub(crate) own: Option<Var>,
}

/// A launch that is stored: the variables that its program's places are, and its arguments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relocation<'a> {
    /// The image of its code object ([`Code::base`]), or the function's entry.
    pub(crate) code: Var,
    /// One for each of its [own numbers](Backend::private_parts), in their order.
    pub(crate) private: &'a [Var],
    /// What the device has for itself.
    pub(crate) own: Option<Var>,
    /// What is launched: the program, or what it is for arguments that are images ([`Images::prepared`]).
    pub(crate) launched: &'a Prepared,
    pub(crate) args: &'a [Arg<'a>],
}

impl Descriptors<'_> {
    /// Alignment of descriptors.
    pub(crate) const ALIGN: usize = 256;
}

/// Why words were not published. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PushError {
    /// No room now; the ring's get when it was looked at.
    Full { need: u64, free: u64, get: u64 },
    /// They never fit.
    TooLarge,
    /// The queue does not exist any more, or its device is in error.
    Stopped,
    /// The kernel's driver refused the call.
    Refused(&'static str, Errno),
}

/// Words in device memory, to be run from there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) address: u64,
    pub(crate) words: usize,
}

/// What a submission does, before the words that end it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Body<'a> {
    /// Words for the ring.
    Words(&'a [u32]),
    /// Words for the ring that run what is elsewhere, and where that is: a port takes what its engine has use for.
    Launch(&'a [u32], &'a [Piece]),
}

impl<'a> Body<'a> {
    pub(crate) const fn words(self) -> &'a [u32] {
        match self {
            Self::Words(words) | Self::Launch(words, _) => words,
        }
    }
}

/// The host's half of a device's rings.
pub(crate) trait Port: Send {
    /// Publishes body and end on a queue, both or nothing, and wakes the device.
    fn push(&mut self, queue: QueueId, body: Body<'_>, end: &[u32]) -> Result<(), PushError>;

    /// Whether a push of the same would find room now; changes nothing that an engine sees. What it says holds until the
    /// next push. A port that cannot tell says yes, and its pushes say the rest.
    fn room(&mut self, _queue: QueueId, _body: Body<'_>, _end: &[u32]) -> Result<(), PushError> {
        Ok(())
    }

    /// The device has recovered, and its rings are new: takes them, and sees whether they run.
    fn renew(&mut self, _limit: Duration) -> Result<(), Error> {
        Ok(())
    }
}

/// What a device does with images.
pub(crate) trait Images {
    fn rules(&self) -> ImageRules;
    /// A sampler as an argument.
    fn sampler(&self, sampling: &Sampling) -> [u8; SAMPLER_BYTES];
    /// The same program for arguments some of which are images: it takes the images' addresses.
    fn prepared(&self, program: &Prepared, args: &[crate::Arg<'_>]) -> Result<Prepared, Error>;
}

/// A device.
pub(crate) trait Backend: Send + Sync {
    /// What it is.
    fn info(&self) -> &DeviceInfo;
    /// Width of its signals.
    fn width(&self) -> Width;
    /// Compute and copy queues.
    fn queue_counts(&self) -> (usize, usize);

    /// Zeroed memory, aligned to 64 bytes at least.
    fn allocate(&self, bytes: usize, purpose: Purpose) -> Result<Memory, Error>;
    /// Makes caller memory known to the device.
    fn adopt(&self, cpu: NonNull<u8>, bytes: usize, writable: bool) -> Result<Memory, Error>;
    /// Whether the device reaches adopted memory through a mapping of its own, which work in flight needs until it is
    /// done, and which is only made of pages that the process may write.
    fn maps_adopted(&self) -> bool {
        false
    }
    /// Makes memory of another device known to this one, at the address that it has here. The caller keeps it alive until
    /// it was hidden again.
    fn import(&self, memory: &Memory, from: &dyn Backend) -> Result<Memory, Error>;
    /// Itself, to find out who asks.
    fn as_any(&self) -> &dyn Any;
    /// From now on commands that name this memory are faults. The caller's is not looked at any more.
    fn hide(&self, memory: &Memory);
    /// Gives memory back. It was hidden, and no command that could have seen it before is in flight.
    fn release(&self, memory: Memory);

    /// Whether its programs are code objects, not shared objects and functions.
    fn takes_code(&self) -> bool {
        false
    }
    /// Loads a code object.
    fn load(&self, _bytes: &[u8], _allocate: AllocateCode<'_>) -> Result<Box<dyn Code>, Error> {
        Err(Error::Internal(
            "a code object for a device that takes none",
        ))
    }
    /// Prepares a function of this process. `None` if this device cannot run any.
    fn prepare(&self, _source: Source) -> Result<Option<Prepared>, Error> {
        Ok(None)
    }
    /// The same program for places that are known when it is launched. `None` if this device has no such programs.
    fn relocatable(
        &self,
        _program: &Prepared,
        _places: Relocation<'_>,
    ) -> Result<Option<Prepared>, Error> {
        Ok(None)
    }
    /// Numbers that a queue has for a program, beside the program's place: where its private memory is, how much of it there
    /// is. Images hold these names of them, so that they mean the same in every version of one [target](Self::target). A
    /// program has at least one if it must be [ready](Self::ready) before a stored launch of it.
    fn private_parts(&self, _program: &Prepared) -> Vec<u16> {
        Vec::new()
    }
    /// Such a number, for a program that is ready on this queue. `None` if it has none of this name.
    fn private_part(&self, _program: &Prepared, _queue: QueueId, _part: u16) -> Option<u64> {
        None
    }
    /// The address of memory of the device's own, if its commands name any.
    fn own_address(&self) -> Option<u64> {
        None
    }
    /// What a function of this process is entered by; `None` for programs that are none.
    fn entry(&self, _program: &Prepared) -> Option<u64> {
        None
    }
    /// Driver, chip, and version of what stands beside words, for graphs that are stored.
    fn target(&self) -> (&'static str, String, u32);
    /// Images, if its kernels take any.
    fn images(&self) -> Option<&dyn Images> {
        None
    }
    /// The program is not launched any more.
    fn retire(&self, _program: &Prepared) {}
    /// Sees to what a program needs before it is launched on a queue. `false` if that takes an idle device, and it is
    /// not known to be.
    fn ready(&self, _program: &Prepared, _queue: QueueId, _is_idle: bool) -> Result<bool, Error> {
        Ok(true)
    }
    /// Bytes and alignment of the argument block for these arguments.
    fn kernargs(&self, program: &Prepared, args: &[Arg<'_>])
    -> Result<(usize, usize), RecordError>;

    /// Whether what the host or another device stores into adopted or imported memory is seen without anybody seeing to caches.
    fn adopts_coherently(&self) -> bool {
        true
    }
    /// Whether compute queues take copies, for graphs on devices without copy queues.
    fn copies_on_compute(&self) -> bool {
        false
    }
    /// Bytes of memory that a recorded command other than a launch needs beside its words, for each kind of queue.
    fn beside(&self, _kind: QueueKind) -> usize {
        0
    }
    /// Bytes of the descriptor that a launch has beside its argument block, at a multiple of [`Descriptors::ALIGN`]; zero
    /// for devices whose launches are words.
    fn descriptor(&self) -> usize {
        0
    }
    /// `None` if queues of this kind run words that are not in their ring; else how many words, in whole entries, are
    /// put into it at once.
    fn largest_part(&self, _kind: QueueKind) -> Option<usize> {
        None
    }
    /// Words that are run from device memory count a multiple of this, a power of two; what is behind them is zero.
    fn reference_align(&self, _kind: QueueKind) -> usize {
        1
    }
    /// Encodes one command at the start of `words`; returns the number of words.
    ///
    /// `beside` is the argument block of an exec, and for others the memory that [`beside`](Self::beside) asks for.
    /// Without that memory the words are those that go into it: the end of a submission, which the port sees to.
    fn encode<'w>(
        &self,
        queue: QueueId,
        command: &Command<'_>,
        beside: Option<Block<'_, '_>>,
        words: &'w mut [u32],
        list: PatchList<'w>,
    ) -> Result<(usize, PatchList<'w>), RecordError>;

    /// The same for a command of a recording, behind others of it: it may go into the descriptor of the last launch. When it
    /// fails, that descriptor is as it was.
    fn encode_behind<'w>(
        &self,
        queue: QueueId,
        command: &Command<'_>,
        beside: Option<Block<'_, '_>>,
        _descriptors: Descriptors<'_>,
        words: &'w mut [u32],
        list: PatchList<'w>,
    ) -> Result<(usize, PatchList<'w>), RecordError> {
        self.encode(queue, command, beside, words, list)
    }

    /// The fault that the device stopped with.
    fn fault(&self) -> Option<FaultRecord>;
    /// Starts afresh: what was published and not run is dropped.
    fn recover(&self, limit: Duration) -> Result<(), Error>;
    /// The port has what the recovery made: the device is in order.
    fn recovered(&self) {}
    /// Stops for good. `false` if something still runs after the limit.
    fn stop(&self, limit: Duration) -> bool;

    /// Nanoseconds of the clock that times are in.
    fn now_ns(&self) -> u64;
    /// A timestamp that the device wrote, in nanoseconds of that clock.
    fn timestamp_ns(&self, raw: u64) -> u64 {
        raw
    }
    /// How far such a time may be off that clock, in nanoseconds. A device that reads the host's own is never.
    fn clock_error_ns(&self) -> u64 {
        0
    }
    /// Passes time, at most `limit`, unless one of the words has changed from what was seen; whether one has. It spins
    /// in round 0 and sleeps in later ones.
    fn relax(&self, round: u32, words: &[(SharedWord<'_>, u64)], limit: Duration) -> bool;
    /// The same for a queue's get.
    fn relax_room(&self, round: u32, queue: QueueId, get: u64, limit: Duration) -> bool;
    /// The host has written to device memory that somebody may sleep on.
    fn written(&self, _address: u64) {}
    /// The host has seen that work is done, and is about to look at what it wrote.
    fn reached(&self) {}
}
