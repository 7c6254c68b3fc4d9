//! Devices.

use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use hcq_cpu::abi::KernelFn;
use hcq_nostd::fault::FaultRecord;
use hcq_nostd::timeline::Point as CorePoint;

use crate::backend::{Purpose, QueueId, QueueKind};
use crate::buffer::{Buffer, Element, MappedFile};
use crate::info::DeviceInfo;
use crate::inner::Inner;
use crate::point::Point;
use crate::program::{Kernel, Module};
use crate::queue::Queue;
use crate::signal::Signal;
use crate::{Error, Options};

/// How far a device's timeline has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimelineInfo {
    /// The last submission's place in the device's order; 0 before the first.
    pub submitted: u64,
    /// The last one known to be complete, with all before it.
    pub completed: u64,
    /// Submissions per epoch of the timeline, as a logarithm.
    pub span_log2: u32,
}

/// A device. Clones are the same device; it stops when the last handle, buffer, signal, kernel or recording is gone.
///
/// All methods can be called from any thread.
#[derive(Clone, Debug)]
pub struct Device {
    pub(crate) inner: Arc<Inner>,
}

impl Device {
    /// Opens a device by name, such as `"cpu"`, `"amd"` or `"amd:1"`; see the [names](crate#names).
    /// [`devices`](crate::devices) lists what there is.
    ///
    /// # Errors
    /// [`Error::UnknownDevice`], [`Error::Unavailable`] with what to do about it, [`Error::Environment`],
    /// [`Error::OutOfMemory`], [`Error::Thread`].
    pub fn open(name: &str) -> Result<Self, Error> {
        Self::open_with(name, &Options::default())
    }

    /// Opens a device with options of your own.
    ///
    /// # Errors
    /// As for [`open`](Self::open), and [`Error::Option`].
    pub fn open_with(name: &str, options: &Options) -> Result<Self, Error> {
        Ok(Self {
            inner: Inner::open(name, options)?,
        })
    }

    /// Opens several devices. Those of one simulated machine, whose names say the same of it, share one.
    ///
    /// ```
    /// # #[cfg(feature = "sim")] {
    /// use hcq_std::{Device, Options};
    /// let names = ["sim:amd-gfx942:0,gpus=2", "sim:amd-gfx942:1,gpus=2", "cpu"];
    /// let devices = Device::open_all(&names, &Options::default())?;
    /// let data = devices[0].alloc_from(&[1u32, 2])?;
    /// assert_eq!(data.share(&devices[1])?.to_vec()?, [1, 2]);
    /// # }
    /// # Ok::<(), hcq_std::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`open_with`](Self::open_with), of the first that cannot be opened.
    pub fn open_all<N: AsRef<str>>(names: &[N], options: &Options) -> Result<Vec<Self>, Error> {
        let mut machines = crate::candidates::Machines::default();
        let open = |name: &N| {
            let options = machines.options(name.as_ref(), options)?;
            Self::open_with(name.as_ref(), &options)
        };
        names.iter().map(open).collect()
    }

    /// The name that it was opened with.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// What it is.
    pub fn info(&self) -> &DeviceInfo {
        self.inner.backend.info()
    }

    /// What its programs are compiled for: `gfx1100`, or the processor's architecture (`x86_64`).
    pub fn target(&self) -> &str {
        &self.info().target
    }

    /// Compute queues and copy queues.
    pub fn queue_counts(&self) -> (usize, usize) {
        self.inner.backend.queue_counts()
    }

    /// Zeroed memory for `len` elements, at least one.
    ///
    /// # Errors
    /// [`Error::Size`], [`Error::OutOfMemory`].
    pub fn alloc<T: Element>(&self, len: usize) -> Result<Buffer<T>, Error> {
        Buffer::new(&self.inner, len, Purpose::Data)
    }

    /// A buffer with a copy of these elements, at least one. Waits for nothing: nothing in flight knows the buffer.
    ///
    /// # Errors
    /// [`Error::Size`], [`Error::OutOfMemory`].
    pub fn alloc_from<T: Element>(&self, data: &[T]) -> Result<Buffer<T>, Error> {
        let buffer = Buffer::new(&self.inner, data.len(), Purpose::Data)?;
        crate::staging::fill_new(buffer.allocation(), data);
        Ok(buffer)
    }

    /// A buffer over memory of the caller: `len` elements, at least one.
    ///
    /// # Safety
    /// The memory is readable and writable, initialised, and stays so until the buffer and its views are dropped and all
    /// work that names them is complete. Meanwhile it is accessed through the buffer only, or in an order that signals
    /// or [`synchronize`](Self::synchronize) establish.
    ///
    /// # Errors
    /// [`Error::Size`]; [`Error::Address`] if it is misaligned for `T` or part of it is a buffer of the device already.
    #[allow(unsafe_code, reason = "takes the caller's word for memory")]
    pub unsafe fn wrap<T: Element>(
        &self,
        memory: NonNull<T>,
        len: usize,
    ) -> Result<Buffer<T>, Error> {
        let bytes = crate::buffer::byte_size::<T>(len)?;
        if !memory.is_aligned() {
            let address = memory.as_ptr().addr() as u64;
            return Err(Error::Address {
                address,
                reason: "it is not aligned for its elements",
            });
        }
        self.inner.look()?;
        let allocation = self.inner.heap.adopt(memory.cast(), bytes, true, None)?;
        Ok(Buffer::over(&self.inner, allocation, len))
    }

    /// Maps a file, as a source of copies.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn map_file(&self, path: &Path) -> Result<MappedFile, Error> {
        MappedFile::open(&self.inner, path)
    }

    /// Loads a file with kernels: a shared object on the CPU device, a code object on a GPU.
    ///
    /// # Safety
    /// Loading a shared object runs its constructors, which can do anything. A code object has none.
    ///
    /// # Errors
    /// [`Error::File`], and as for [`load_program`](Self::load_program).
    #[allow(unsafe_code, reason = "runs foreign code")]
    pub unsafe fn load(&self, path: &Path) -> Result<Module, Error> {
        // SAFETY: this function's contract.
        unsafe { Module::load(&self.inner, path) }
    }

    /// Loads a code object, the bytes of a file that a GPU's compiler wrote, into the device's memory.
    ///
    /// # Errors
    /// [`Error::Program`] if it is none, was compiled for another chip, or if the device takes none;
    /// [`Error::OutOfMemory`].
    pub fn load_program(&self, bytes: &[u8]) -> Result<Module, Error> {
        Module::of_code(&self.inner, bytes, std::path::PathBuf::new())
    }

    /// A kernel of this program, on the CPU device. The signature is C fields, such as `"float a; const float *x; float *y; uint32_t n;"`;
    /// empty for a kernel without arguments.
    ///
    /// # Safety
    /// The function reads its argument block as the signature lays it out, and does not unwind.
    ///
    /// # Errors
    /// [`Error::Signature`]; [`Error::Program`] on a GPU.
    #[allow(unsafe_code, reason = "takes the caller's word for a function")]
    pub unsafe fn register(
        &self,
        name: &str,
        signature: &str,
        entry: KernelFn,
    ) -> Result<Kernel, Error> {
        Kernel::of_function(&self.inner, name, signature, entry)
    }

    /// A signal with value 0.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn signal(&self) -> Result<Signal, Error> {
        self.inner.look()?;
        let slot = self.inner.signals.alloc()?;
        Ok(Signal {
            address: slot.signal.address(),
            slot,
            inner: Arc::clone(&self.inner),
            seen: None,
        })
    }

    /// Compute queue `index`, from 0.
    ///
    /// # Errors
    /// [`Error::NoSuchQueue`].
    pub fn compute_queue(&self, index: usize) -> Result<Queue, Error> {
        self.queue(QueueKind::Compute, index, self.queue_counts().0)
    }

    /// Copy queue `index`, from 0.
    ///
    /// # Errors
    /// [`Error::NoSuchQueue`].
    pub fn copy_queue(&self, index: usize) -> Result<Queue, Error> {
        self.queue(QueueKind::Copy, index, self.queue_counts().1)
    }

    fn queue(&self, kind: QueueKind, index: usize, count: usize) -> Result<Queue, Error> {
        if index >= count {
            return Err(Error::NoSuchQueue { kind, index, count });
        }
        Ok(Queue {
            inner: Arc::clone(&self.inner),
            id: QueueId { kind, index },
        })
    }

    /// Waits until everything submitted so far is complete.
    ///
    /// # Errors
    /// [`Error::Timeout`] after the time without progress; [`Error::Fault`].
    pub fn synchronize(&self) -> Result<(), Error> {
        self.inner.synchronize()
    }

    /// The fault that the device is in error with, if it is.
    pub fn fault(&self) -> Option<FaultRecord> {
        self.inner.fault()
    }

    /// Leaves the error state. What was in flight is dropped: waits for it answer [`Error::Lost`]. Nothing happens if
    /// there is no fault.
    ///
    /// # Errors
    /// The device stays in error: [`Error::Stuck`] if a worker does not come back; [`Error::Recovery`] if a GPU's kernel
    /// driver lets the process run nothing any more, as Linux's does after a memory fault.
    pub fn recover(&self) -> Result<(), Error> {
        self.inner.recover()
    }

    /// How far the device has come.
    ///
    /// # Errors
    /// [`Error::Timeline`].
    pub fn timeline(&self) -> Result<TimelineInfo, Error> {
        self.inner.timeline()
    }

    /// The last submission.
    pub fn latest(&self) -> Point {
        let point = CorePoint::from_raw(self.inner.heap.progress().latest());
        Point {
            inner: Arc::clone(&self.inner),
            point,
        }
    }

    /// Nanoseconds of the host's clock that timestamps are told in.
    pub fn now_ns(&self) -> u64 {
        self.inner.backend.now_ns()
    }

    /// Nanoseconds by which times that the device's queues wrote may be off the host's clock, as told so far.
    ///
    /// A GPU counts by a clock of its own, which is compared with the host's now and then: each look at both is off by at most
    /// half of the time that it took, and between two of them the clocks run apart. 0 for a device that reads the host's clock.
    /// Of two devices, a time that is earlier by more than the sum of both errors is of something that came earlier.
    pub fn clock_error_ns(&self) -> u64 {
        self.inner.backend.clock_error_ns()
    }

    /// The time without progress after which waits give up.
    pub fn wait_timeout(&self) -> Duration {
        self.inner.wait_timeout
    }

    /// Waits for all work, and lets go of this handle.
    ///
    /// # Errors
    /// As for [`synchronize`](Self::synchronize).
    pub fn close(self) -> Result<(), Error> {
        self.synchronize()
    }
}
