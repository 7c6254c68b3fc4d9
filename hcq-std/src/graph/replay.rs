//! Stored graphs, launched again.
#![allow(
    unsafe_code,
    reason = "maps images and keeps what borrows them, loads their programs"
)]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hcq_nostd::graph::{Busy, Entry};
use hcq_nostd::image::{Image, LoadError, Target, VariableKind};
use hcq_nostd::timeline::Point as CorePoint;
use hcq_nostd::value::Var;

use super::image::{BufferRole, STAGE};
use super::launch::Launcher;
use super::layout::Layout;
use super::memory::Home;
use super::operands::Number;
use super::places::Places;
use super::plan::seen_by;
use super::shared::{signals, stage};
use super::{Run, builder};
use crate::backend::Purpose;
use crate::buffer::{Buffer, Element};
use crate::heap::Allocation;
use crate::inner::{Inner, nanoseconds};
use crate::program::{Kernel, Module, io_reason};
use crate::{Device, Error, Point};

/// A buffer of a stored graph.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredBuffer {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub role: BufferRole,
    /// Bytes.
    pub bytes: u64,
    /// Which of the devices has it.
    pub device: usize,
}

/// The bytes of an image.
enum Bytes {
    Mapped { _map: memmap2::Mmap },
    Copied { _words: Vec<u64> },
}

/// A graph from an image, put into memory of its devices and launched as it was recorded: nothing is planned or encoded
/// again. See [`GraphBuilder::image`](super::GraphBuilder::image) for an example.
///
/// An image holds programs, which are native code: load only images that you trust. What its graph tells a device to do is
/// checked by nobody.
pub struct Replay {
    // Dropped before the bytes, which they borrow.
    home: Home,
    image: Image<'static>,
    devices: Vec<Arc<Inner>>,
    order: Vec<usize>,
    entries: Vec<Entry>,
    buffers: Vec<(StoredBuffer, Arc<Allocation>)>,
    stored: usize,
    _seen: Vec<Arc<Allocation>>,
    _programs: Vec<Module>,
    _kernels: Vec<Kernel>,
    _bytes: Bytes,
}

impl std::fmt::Debug for Replay {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replay")
            .field("devices", &self.devices)
            .field("nodes", &self.image.nodes())
            .finish_non_exhaustive()
    }
}

pub(super) fn refused(source: LoadError, what: impl Into<String>) -> Error {
    Error::Stored {
        source,
        what: what.into(),
    }
}

impl Replay {
    /// Maps an image's file and puts its graph into memory of these devices, in the order in which it was built for. What is
    /// copied are queues and buffers, into device memory. The file must not change while it is open.
    ///
    /// # Safety
    /// The image's programs are sound to load and run, and its graph does with its buffers what it was built for.
    ///
    /// # Errors
    /// [`Error::File`]; [`Error::Stored`] for bytes that are no image, and for other devices; [`Error::Program`],
    /// [`Error::OutOfMemory`].
    pub unsafe fn open<'d>(
        path: &Path,
        devices: impl IntoIterator<Item = &'d Device>,
    ) -> Result<Self, Error> {
        let failed = |e: std::io::Error| Error::File {
            operation: "opening",
            path: path.to_owned(),
            reason: io_reason(&e),
        };
        let file = File::open(path).map_err(failed)?;
        // SAFETY: a private mapping that is only read; whoever changes the file breaks the promise above.
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(failed)?;
        // SAFETY: mapped until `Bytes` is dropped, which is after all that borrows it, by the order of the fields.
        let bytes: &'static [u8] = unsafe { std::slice::from_raw_parts(map.as_ptr(), map.len()) };
        Self::new(bytes, Bytes::Mapped { _map: map }, devices)
    }

    /// The same for an image in memory, which is copied.
    ///
    /// # Safety
    /// As for [`open`](Self::open).
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub unsafe fn from_bytes<'d>(
        bytes: &[u8],
        devices: impl IntoIterator<Item = &'d Device>,
    ) -> Result<Self, Error> {
        use zerocopy::IntoBytes;
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        if let Some(to) = words.as_mut_bytes().get_mut(..bytes.len()) {
            to.copy_from_slice(bytes);
        }
        // SAFETY: the vector's bytes stay where they are until `Bytes` is dropped, which is after all that borrows them.
        let copy: &'static [u8] =
            unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), bytes.len()) };
        Self::new(copy, Bytes::Copied { _words: words }, devices)
    }

    fn new<'d>(
        bytes: &'static [u8],
        keep: Bytes,
        devices: impl IntoIterator<Item = &'d Device>,
    ) -> Result<Self, Error> {
        let image = Image::load(bytes).map_err(|e| refused(e, ""))?;
        let devices: Vec<Arc<Inner>> = devices.into_iter().map(|d| Arc::clone(&d.inner)).collect();
        let graph = *image.graph();
        check_devices(&image, &devices)?;
        for device in &devices {
            device.look()?;
        }

        // Programs, and what their variables stand for.
        let mut programs = Vec::new();
        for code in image.codes() {
            let device = devices.get(usize::from(code.device));
            let device = device.ok_or(Error::Internal("a program has no device"))?;
            programs.push(load(device, code.name, code.bytes)?);
        }
        // Buffers, and those that others see.
        let (mut buffers, mut seen, mut through) = (Vec::new(), Vec::new(), Vec::new());
        for buffer in image.buffers() {
            if buffer.name == STAGE {
                through = stage(&devices, buffer.bytes)?;
                if through
                    .windows(2)
                    .any(|w| matches!(w, [a, b] if a.address() != b.address()))
                {
                    return Err(Error::Graph {
                        reason: "its devices see what copies go through at different addresses; build it on them".into(),
                    });
                }
                let first = through.first().map(Arc::clone);
                let first = first.ok_or(Error::Internal("a graph has no device"))?;
                buffers.push((described(&buffer), first));
                continue;
            }
            let owner = usize::from(buffer.device);
            let device = devices.get(owner);
            let device = device.ok_or(Error::Internal("a buffer has no device"))?;
            let bytes = usize::try_from(buffer.bytes).map_err(|_| Error::Size {
                elements: buffer.bytes,
                size: 1,
                most: isize::MAX as u64,
            })?;
            let memory = device.heap.allocate(bytes.max(1), Purpose::Data)?;
            crate::staging::fill_new(&memory, buffer.contents);
            let group = |d: usize| graph.devices().get(d).map(|d| d.group());
            for (other, by) in devices.iter().enumerate().filter(|(d, _)| *d != owner) {
                match seen_by(&memory, by) {
                    Ok(memory) => seen.push(memory),
                    Err(e) if group(other) == group(owner) => return Err(e),
                    Err(_) => {}
                }
            }
            buffers.push((described(&buffer), memory));
        }
        let layout = Layout::new(&devices, graph.queues(), graph.devices())?;
        let signals = signals(&devices, graph.signal_slots())?;
        let whole = |_| Vec::new();
        let mut home = Home::new(
            graph,
            Box::new(()),
            layout,
            (signals, through),
            &whole,
            &devices,
        )?;
        let mut places = Places::new(&image, &devices, &programs);
        for (n, variable) in (0u32..).zip(image.variables()) {
            let value = match variable.kind {
                VariableKind::Buffer { buffer } => {
                    buffers.get(buffer as usize).map(|b| b.1.address())
                }
                VariableKind::Code { code } => Some(places.code(code, variable.name)?),
                VariableKind::Private { code, queue, part } => {
                    Some(places.private(code, variable.name, (queue, part))?)
                }
                VariableKind::Own { device } => Some(places.own(device)?),
                // Set by the caller, before the first launch.
                VariableKind::Scalar { .. } | VariableKind::Count | VariableKind::Number => {
                    (variable.name == "hcq.none").then_some(0)
                }
            };
            if let Some(value) = value {
                let set = home.instance.set(Var::new(n), value);
                set.map_err(Error::Launch)?;
            }
        }
        let kernels = places.kernels();
        let mut order: Vec<usize> = (0..devices.len()).collect();
        order.sort_by_key(|&d| devices.get(d).map(|d| Arc::as_ptr(d).addr()));
        Ok(Self {
            entries: vec![Entry::default(); devices.len()],
            home,
            image,
            devices,
            order,
            buffers,
            stored: 0,
            _seen: seen,
            _programs: programs,
            _kernels: kernels,
            _bytes: keep,
        })
    }

    /// Its buffers.
    pub fn buffers(&self) -> impl Iterator<Item = &StoredBuffer> {
        self.buffers
            .iter()
            .map(|(b, _)| b)
            .filter(|b| b.name != STAGE)
    }

    /// A buffer by its name, as elements of a type.
    ///
    /// # Errors
    /// [`Error::Graph`] if there is none; [`Error::Length`] if it holds no whole number of elements.
    pub fn buffer<T: Element>(&self, name: &str) -> Result<Buffer<T>, Error> {
        let found = self.buffers.iter().find(|(b, _)| b.name == name);
        let (described, memory) = found.ok_or_else(|| Error::Graph {
            reason: format!("the image has no buffer `{name}`"),
        })?;
        let (bytes, size) = (memory.len(), size_of::<T>());
        let device = self.devices.get(described.device);
        let device = device.ok_or(Error::Internal("a buffer has no device"))?;
        if size == 0 || !bytes.is_multiple_of(size) {
            return Err(Error::Length {
                what: "bytes of a buffer's elements",
                need: bytes as u64,
                have: size as u64,
            });
        }
        Ok(Buffer::over(device, Arc::clone(memory), bytes / size))
    }

    /// Sets a number by its name, from the next launch on. All must be set before the first one.
    ///
    /// # Errors
    /// [`Error::Graph`] if there is none of this name and size.
    pub fn set<T: Number>(&mut self, name: &str, value: T) -> Result<(), Error> {
        let found = self.image.variable(name);
        let fits = |kind| match kind {
            VariableKind::Scalar { bytes } => usize::from(bytes) == size_of::<T>(),
            VariableKind::Count | VariableKind::Number => true,
            VariableKind::Buffer { .. }
            | VariableKind::Code { .. }
            | VariableKind::Private { .. }
            | VariableKind::Own { .. } => false,
        };
        let Some((var, _)) = found.filter(|(_, kind)| fits(*kind)) else {
            return Err(Error::Graph {
                reason: format!(
                    "the image has no number `{name}` of {} bytes",
                    size_of::<T>()
                ),
            });
        };
        self.home
            .instance
            .set(var, value.bits())
            .map_err(Error::Launch)
    }

    /// Launches it. Waits for its last launch, as long as the devices make progress.
    ///
    /// # Errors
    /// [`Error::Launch`] for a number without a value; [`Error::Timeout`], [`Error::Fault`].
    pub fn launch(&mut self) -> Result<Run, Error> {
        let timeout = self.timeout();
        let mut launcher = Launcher {
            devices: &self.devices,
            order: &self.order,
            entries: &mut self.entries,
            timeout,
        };
        let timeout_ns = nanoseconds(timeout);
        launcher.settle(&mut self.home, Busy::Wait { timeout_ns })?;
        self.stored = launcher.launch(&mut self.home)?.stored;
        let mut points = heapless::Vec::new();
        for (n, device) in (0u16..).zip(&self.devices) {
            let point = self.home.instance.last(n);
            let part = self.home.instance.graph().devices().get(usize::from(n));
            if part.is_some_and(|d| d.takes_part()) && point != CorePoint::ZERO {
                let _ = points.push(Point {
                    inner: Arc::clone(device),
                    point,
                });
            }
        }
        Ok(Run {
            points,
            instance: 0,
        })
    }

    /// Brings all buffers back to what they held before the first launch.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::Fault`].
    pub fn reset(&self) -> Result<(), Error> {
        for (stored, buffer) in self.image.buffers().zip(&self.buffers) {
            let (described, memory) = buffer;
            let device = self.devices.get(described.device);
            let device = device.ok_or(Error::Internal("a buffer has no device"))?;
            let len = usize::try_from(stored.bytes).unwrap_or(usize::MAX);
            let whole: Buffer<u8> = Buffer::over(device, Arc::clone(memory), len.min(memory.len()));
            let (first, rest) = (stored.contents.len(), whole.len());
            if first > 0 {
                whole.view(..first)?.write(stored.contents)?;
            }
            if first < rest {
                whole.view(first..)?.fill(0)?;
            }
        }
        Ok(())
    }

    /// Places in words and argument blocks that the last launch stored.
    pub fn stored(&self) -> usize {
        self.stored
    }

    fn timeout(&self) -> std::time::Duration {
        let all = self.devices.iter().map(|d| d.wait_timeout);
        all.max().unwrap_or_default()
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        // Bounded; memory that is still in use is kept by the devices' timelines.
        let timeout = self.timeout();
        let launcher = Launcher {
            devices: &self.devices,
            order: &self.order,
            entries: &mut self.entries,
            timeout,
        };
        let timeout_ns = nanoseconds(timeout);
        let _ = launcher.settle(&mut self.home, Busy::Wait { timeout_ns });
        self.home.leave();
    }
}

fn described(buffer: &hcq_nostd::image::Buffer<'_>) -> StoredBuffer {
    StoredBuffer {
        name: buffer.name.to_owned(),
        role: BufferRole::of(buffer.role),
        bytes: buffer.bytes,
        device: usize::from(buffer.device),
    }
}

/// Compares what the image is for with what there is.
fn check_devices(image: &Image<'_>, devices: &[Arc<Inner>]) -> Result<(), Error> {
    if devices.len() > builder::MOST_DEVICES {
        return Err(Error::TooLarge {
            what: "the number of a graph's devices",
            size: devices.len() as u64,
            most: builder::MOST_DEVICES as u64,
        });
    }
    let own: Vec<_> = devices.iter().map(|d| d.backend.target()).collect();
    let have: Vec<Target<'_>> = own
        .iter()
        .map(|(kind, chip, abi)| Target {
            kind,
            chip,
            abi: *abi,
        })
        .collect();
    image.require(&have).map_err(|e| {
        let LoadError::Target { device } = e else {
            return refused(e, "");
        };
        let index = usize::from(device);
        let need = image.targets().nth(index);
        let need = need.map_or(String::new(), |t| {
            format!("{} {} {}", t.kind, t.chip, t.abi)
        });
        let is = match (have.get(index), devices.get(index)) {
            (Some(t), Some(d)) => format!("{} is {} {} {}", d.name, t.kind, t.chip, t.abi),
            _ => "there is none".into(),
        };
        refused(e, format!("device {device} must be {need}; {is}"))
    })?;
    if devices.len() < image.graph().devices().len() {
        let device = u16::try_from(devices.len()).unwrap_or(u16::MAX);
        let what = "fewer devices than it was built for";
        return Err(refused(LoadError::Target { device }, what));
    }
    let queues = image.graph().queues().iter().filter(|q| q.words() > 0);
    for queue in queues {
        let device = devices.get(usize::from(queue.device()));
        let kind = super::plan::kind(queue.engine());
        let (compute, copy) = device.map_or((0, 0), |d| d.backend.queue_counts());
        let count = match kind {
            crate::QueueKind::Compute => compute,
            crate::QueueKind::Copy => copy,
        };
        let index = usize::from(queue.index());
        if index >= count {
            return Err(Error::NoSuchQueue { kind, index, count });
        }
    }
    Ok(())
}

/// Loads a program of an image. Shared objects go through a file, since that is how they are loaded.
fn load(device: &Arc<Inner>, name: &str, bytes: &[u8]) -> Result<Module, Error> {
    if device.backend.takes_code() {
        return Module::of_code(device, bytes, PathBuf::from(name));
    }
    let failed = |path: &Path, e: std::io::Error| Error::File {
        operation: "writing",
        path: path.to_owned(),
        reason: io_reason(&e),
    };
    let file = Temporary::new(bytes).map_err(|(path, e)| failed(&path, e))?;
    // SAFETY: the caller vouches for the image's programs.
    unsafe { Module::load(device, &file.0) }
}

/// A file that goes when it is dropped.
struct Temporary(PathBuf);

impl Temporary {
    fn new(bytes: &[u8]) -> Result<Self, (PathBuf, std::io::Error)> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let mut last = None;
        for n in 0..100u32 {
            let name = format!("hcq-{}-{n}-{:p}.so", std::process::id(), bytes);
            let path = std::env::temp_dir().join(name);
            // Nobody else's file is opened, nor can anybody else write to this one.
            let made = std::fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o700)
                .open(&path);
            match made {
                Ok(mut file) => {
                    let file_of = Self(path);
                    return match file.write_all(bytes) {
                        Ok(()) => Ok(file_of),
                        Err(e) => Err((file_of.0.clone(), e)),
                    };
                }
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => last = Some((path, e)),
                Err(e) => return Err((path, e)),
            }
        }
        Err(last.unwrap_or_else(|| {
            (
                std::env::temp_dir(),
                std::io::Error::from(std::io::ErrorKind::AlreadyExists),
            )
        }))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}
