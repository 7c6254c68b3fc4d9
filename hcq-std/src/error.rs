//! What can go wrong: what failed, with its numbers, and what a person can do about it.

use std::path::PathBuf;
use std::time::Duration;

use hcq_nostd::fault::FaultRecord;
use hcq_nostd::patch::PatchError;
use hcq_nostd::record::RecordError;
use hcq_nostd::timeline::TimelineError;

use crate::seam::Errno;
use crate::{QueueKind, Wrap};

/// Why a call failed. Nothing has changed then, but for what the variant says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No device has this name.
    #[error("there is no device named `{name}`; known names: {known}")]
    UnknownDevice {
        /// The name asked for.
        name: String,
        /// Names that exist, separated by commas.
        known: String,
    },
    /// The device is not there, or cannot be used.
    #[error("device `{name}` cannot be used: {reason}; {hint}")]
    Unavailable {
        /// The name asked for.
        name: String,
        /// Why not.
        reason: String,
        /// What a person can do.
        hint: String,
    },
    /// An option that makes no sense.
    #[error("option {option} is {value}: {wanted}")]
    Option {
        /// Its name in [`Options`](crate::Options).
        option: &'static str,
        /// The value given.
        value: u64,
        /// What it may be.
        wanted: &'static str,
    },
    /// An environment variable that makes no sense.
    #[error("environment variable {variable} is `{value}`: it must be {wanted}")]
    Environment {
        /// Its name.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What it may be.
        wanted: &'static str,
    },
    /// The system refused a call.
    #[error("{operation} failed: {errno}")]
    System {
        /// Which call, for what.
        operation: &'static str,
        /// The system's answer.
        errno: Errno,
    },
    /// A device's kernel driver refused a call.
    #[error("{device}: {operation} failed: {errno}; {hint}")]
    Driver {
        /// The device's name.
        device: String,
        /// Which call, for what.
        operation: String,
        /// The driver's answer.
        errno: Errno,
        /// What it means, and what a person can do.
        hint: String,
    },
    /// A thread could not be started.
    #[error(
        "a worker thread could not be started: {0}; the limit on threads (ulimit -u) may be reached"
    )]
    Thread(#[source] std::io::Error),
    /// There is no memory of that size.
    #[error(
        "{bytes} bytes of device memory cannot be had ({errno}); ask for less, or free buffers first"
    )]
    OutOfMemory {
        /// Bytes asked for.
        bytes: u64,
        /// The system's answer.
        errno: Errno,
    },
    /// A size that no memory can have: zero, or beyond what addresses can express.
    #[error(
        "{elements} elements of {size} bytes are no buffer: a buffer has at least one byte and at most {most}"
    )]
    Size {
        /// Elements asked for.
        elements: u64,
        /// Bytes of one.
        size: u64,
        /// Most bytes there may be.
        most: u64,
    },
    /// An address that the element type cannot have, or a range that overlaps another buffer of the device.
    #[error("memory at {address:#x} cannot be a buffer: {reason}")]
    Address {
        /// The address.
        address: u64,
        /// Why.
        reason: &'static str,
    },
    /// A range outside its buffer.
    #[error("elements {start}..{end} are outside a buffer of {len}")]
    Range {
        /// First element.
        start: u64,
        /// One past the last.
        end: u64,
        /// Elements of the buffer.
        len: u64,
    },
    /// Two lengths that must be equal are not.
    #[error("{what}: {have} given, {need} needed")]
    Length {
        /// Of what.
        what: &'static str,
        /// What was needed.
        need: u64,
        /// What was given.
        have: u64,
    },
    /// Kernels of this device take no images and no samplers.
    #[error("device {device} has no images: its kernels take buffers; Adreno GPUs have images")]
    NoImages {
        /// The device's name.
        device: String,
    },
    /// An image that the device cannot have, or that does not lie where it was put.
    #[error("{what} is {value}, which an image cannot have: {}", wanted(*least, *most, *align))]
    Image2d {
        /// What of it.
        what: &'static str,
        /// What that is.
        value: u64,
        /// The least that it may be.
        least: u64,
        /// The most that it may be.
        most: u64,
        /// What it must be a multiple of.
        align: u64,
    },
    /// A sampler that no device has.
    #[error(
        "a sampler whose coordinates count texels cannot have {wrap:?}; let them go from 0 to 1 (`normalized`), or use ClampToEdge or \
         ClampToBorder"
    )]
    Sampling {
        /// What it cannot have.
        wrap: Wrap,
    },
    /// Source and destination of a copy share bytes.
    #[error(
        "a copy of {bytes} bytes from {source_address:#x} to {destination:#x} overlaps itself; copy through a buffer of its own"
    )]
    Overlap {
        /// Bytes.
        bytes: u64,
        /// Source address.
        source_address: u64,
        /// Destination address.
        destination: u64,
    },
    /// The device may only read this memory.
    #[error(
        "memory at {address:#x} is read-only: a mapped file is a source of copies, not a destination"
    )]
    ReadOnly {
        /// Its address.
        address: u64,
    },
    /// A queue of this kind does not have the command.
    #[error("a {kind} queue has no {command}; record it on a {other} queue")]
    WrongQueue {
        /// The command.
        command: &'static str,
        /// Kind of the queue.
        kind: QueueKind,
        /// The kind that has it.
        other: QueueKind,
    },
    /// There is no queue with this number.
    #[error(
        "there is no {kind} queue {index}: the device has {count}, from 0; Options::{kind}_queues makes more"
    )]
    NoSuchQueue {
        /// Kind of the queue.
        kind: QueueKind,
        /// Number asked for.
        index: usize,
        /// Queues of this kind.
        count: usize,
    },
    /// What was to come before a submission is another device's, and did not come.
    #[error("{device} was to come first: {cause}")]
    Elsewhere {
        /// The other device.
        device: String,
        /// What it said.
        cause: Box<Error>,
    },
    /// A device cannot reach another one's memory.
    #[error("{to} does not reach memory of {from}: {cause}")]
    Unreachable {
        /// Whose memory it is.
        from: String,
        /// Who was to reach it.
        to: String,
        /// Why not.
        cause: Box<Error>,
    },
    /// A buffer, signal or kernel of another device was given.
    #[error(
        "a {what} of another device was given; each device has its own, or one that was shared with it"
    )]
    OtherDevice {
        /// What it was.
        what: &'static str,
    },
    /// A command whose operands the engine cannot take.
    #[error("{command}: {source}")]
    Record {
        /// The command.
        command: &'static str,
        /// Which operand, and why.
        source: RecordError,
    },
    /// More launch arguments than the kernel takes, or fewer.
    #[error(
        "kernel {kernel} takes {expected} arguments, {given} were given; its arguments: {signature}"
    )]
    ArgumentCount {
        /// The kernel.
        kernel: String,
        /// What it takes.
        expected: usize,
        /// What was given.
        given: usize,
        /// Its signature as text.
        signature: String,
    },
    /// A launch argument of another type than the kernel's.
    #[error("kernel {kernel}, argument {index} ({name}): {expected} expected, {given} given")]
    Argument {
        /// The kernel.
        kernel: String,
        /// Which, from 0.
        index: usize,
        /// The argument's name.
        name: String,
        /// What the kernel takes.
        expected: String,
        /// What was given.
        given: String,
    },
    /// A signature that cannot be read.
    #[error("the signature of kernel {kernel} cannot be read: {reason}")]
    Signature {
        /// The kernel.
        kernel: String,
        /// Where and why.
        reason: String,
    },
    /// A file that cannot be used.
    #[error("{operation} {path}: {reason}", path = path.display())]
    File {
        /// What was tried.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not, and what to do.
        reason: String,
    },
    /// A program has no such kernel.
    #[error("{path} has no symbol `{symbol}`: {reason}", path = named(path))]
    MissingSymbol {
        /// The file; empty for a program that was loaded from memory.
        path: PathBuf,
        /// The symbol.
        symbol: String,
        /// What the loader says, or what it has.
        reason: String,
    },
    /// A program or kernel that this device cannot run.
    #[error("{what} cannot be used: {reason}")]
    Program {
        /// What it is.
        what: String,
        /// Why not, and what would do.
        reason: String,
    },
    /// A variable that the recording did not declare.
    #[error(
        "variable {index} was not declared: the recording has {count}; Commands::var() makes one"
    )]
    UnknownVariable {
        /// Its index.
        index: u32,
        /// Variables declared.
        count: u32,
    },
    /// A recording with variables was submitted without being bound.
    #[error(
        "the recording has {sites} places whose value is not known: bind it, set its variables, then submit"
    )]
    Unbound {
        /// Places.
        sites: usize,
    },
    /// A bound queue's variables cannot be stored.
    #[error("{0}")]
    Patch(#[from] PatchError),
    /// A recording with downloads was to be bound.
    #[error("a bound queue cannot hold downloads: copy to a buffer, and read that")]
    Download,
    /// The result of a download was asked for before its recording was submitted.
    #[error("the download was recorded but not submitted yet: submit its recording first")]
    NotSubmitted,
    /// A call that does not wait would have had to.
    #[error("{what} is still in use by work in flight; wait for it, or try again later")]
    WouldBlock {
        /// What it waits for.
        what: &'static str,
    },
    /// A wait without progress for the whole time allowed.
    #[error(
        "{what} timed out: wanted {wanted}, seen {seen}, no progress for {} ms; \
         HCQDEV_WAIT_TIMEOUT_MS sets how long waits may stand still",
        waited.as_millis()
    )]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// The least value that would have done.
        wanted: u64,
        /// The last value seen.
        seen: u64,
        /// Time without progress.
        waited: Duration,
    },
    /// The device is in error. It stays so until [`Device::recover`](crate::Device::recover).
    #[error(
        "the device is in error: {0}; Device::recover() makes it usable again and drops the work in flight"
    )]
    Fault(FaultRecord),
    /// The work was in flight when the device recovered from a fault, and was dropped.
    #[error(
        "submission {point} was in flight when the device recovered from a fault, and was dropped; submit it again"
    )]
    Lost {
        /// The submission's place in the device's order.
        point: u64,
    },
    /// A worker does not come back from the work that it runs.
    #[error("{threads} worker threads did not come back within {} ms; a kernel may be running without an end", waited.as_millis())]
    Stuck {
        /// How many.
        threads: usize,
        /// How long they were given.
        waited: Duration,
    },
    /// The device stays in error.
    #[error("the device cannot recover: {reason}")]
    Recovery {
        /// Why not, and what would do.
        reason: String,
    },
    /// A graph that these devices cannot run, or a change that it does not take.
    #[error("the graph cannot be used: {reason}")]
    Graph {
        /// Why not.
        reason: String,
    },
    /// There is no plan for a graph.
    #[error("the graph cannot be planned: {source}{what}", what = behind(what))]
    Plan {
        /// Why not, in the numbers of the planner.
        source: hcq_nostd::plan::PlanError,
        /// The same with names.
        what: String,
    },
    /// A graph was not stored.
    #[error("the graph cannot be stored: {0}")]
    Image(hcq_nostd::image::WriteError),
    /// A stored graph that cannot be used.
    #[error("the stored graph cannot be used: {source}{what}", what = behind(what))]
    Stored {
        /// Why not.
        source: hcq_nostd::image::LoadError,
        /// The same with names.
        what: String,
    },
    /// A graph was not launched.
    #[error("the graph was not launched: {0}")]
    Launch(hcq_nostd::graph::LaunchError),
    /// The timeline does not hold what was submitted: something wrote to its signal.
    #[error("the device's timeline is damaged: {0}")]
    Timeline(TimelineError),
    /// More commands than can be counted, or more of them at once than device memory can hold.
    #[error("{what} is too large: {size}, at most {most}")]
    TooLarge {
        /// What.
        what: &'static str,
        /// Its size.
        size: u64,
        /// The most there may be.
        most: u64,
    },
    /// Something inside this crate does not fit together. Please report it.
    #[error("internal error, please report it: {0}")]
    Internal(&'static str),
}

/// A program's path, or what stands for one.
fn named(path: &std::path::Path) -> String {
    if path.as_os_str().is_empty() {
        "the program".into()
    } else {
        path.display().to_string()
    }
}

/// What a number may be.
fn wanted(least: u64, most: u64, align: u64) -> String {
    let range = match (least, most) {
        (0, u64::MAX) => String::new(),
        (least, u64::MAX) => format!("at least {least}"),
        (least, most) => format!("from {least} to {most}"),
    };
    let comma = if range.is_empty() { "" } else { ", " };
    match align {
        1 => range,
        align => format!("{range}{comma}a multiple of {align}"),
    }
}

/// More words, if there are any.
fn behind(what: &str) -> String {
    if what.is_empty() {
        String::new()
    } else {
        format!(" ({what})")
    }
}

impl Error {
    /// Names the command that a recording error came from.
    pub(crate) fn record(command: &'static str) -> impl FnOnce(RecordError) -> Self {
        move |source| Self::Record { command, source }
    }
}
