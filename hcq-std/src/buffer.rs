//! Buffers, views of them, and mapped files.
#![allow(unsafe_code, reason = "copies between host and device memory")]

use std::marker::PhantomData;
use std::ops::{Bound as End, Deref, RangeBounds};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::backend::Purpose;
use crate::heap::Allocation;
use crate::inner::Inner;
use crate::{Device, Error};

/// What a buffer may hold: plain bytes with no padding, no pointers and no invalid values.
pub trait Element: FromBytes + IntoBytes + Immutable + KnownLayout + Send + Sync + 'static {}

impl<T: FromBytes + IntoBytes + Immutable + KnownLayout + Send + Sync + 'static> Element for T {}

/// Device memory for elements of one type. Freed when its last owner is gone and nothing in flight uses it.
///
/// A buffer is a [`View`] of all of it, and has all of a view's methods.
///
/// ```
/// let device = hcq_std::Device::open("cpu")?;
/// let buffer = device.alloc::<u32>(4)?;
/// assert_eq!(buffer.to_vec()?, [0; 4]);
/// buffer.write(&[1, 2, 3, 4])?;
/// let middle = buffer.view(1..3)?;
/// middle.fill(9)?;
/// assert_eq!(buffer.to_vec()?, [1, 9, 9, 4]);
/// assert!(buffer.view(2..5).is_err());
/// # Ok::<(), hcq_std::Error>(())
/// ```
#[derive(Debug)]
pub struct Buffer<T> {
    whole: View<T>,
}

impl<T> Deref for Buffer<T> {
    type Target = View<T>;
    #[inline]
    fn deref(&self) -> &View<T> {
        &self.whole
    }
}

/// Part of a buffer, which it keeps alive.
///
/// [`read`](Self::read), [`write`](Self::write) and [`fill`](Self::fill) run after everything that was submitted before:
/// they wait until the device is idle, and keep submissions out while they copy. Copies that overlap with work are
/// recorded instead: [`Commands::upload`](crate::Commands::upload), [`Commands::download`](crate::Commands::download).
#[derive(Debug)]
pub struct View<T> {
    inner: Arc<Inner>,
    allocation: Arc<Allocation>,
    /// First byte.
    offset: usize,
    /// Elements.
    len: usize,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for View<T> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            allocation: Arc::clone(&self.allocation),
            offset: self.offset,
            len: self.len,
            element: PhantomData,
        }
    }
}

/// Bytes of `len` elements, if that is a size that memory can have.
pub(crate) fn byte_size<T>(len: usize) -> Result<usize, Error> {
    let most = isize::MAX as u64;
    let bytes = len
        .checked_mul(size_of::<T>())
        .filter(|&b| b > 0 && b as u64 <= most);
    bytes.ok_or(Error::Size {
        elements: len as u64,
        size: size_of::<T>() as u64,
        most,
    })
}

impl<T: Element> Buffer<T> {
    pub(crate) fn new(inner: &Arc<Inner>, len: usize, purpose: Purpose) -> Result<Self, Error> {
        let bytes = byte_size::<T>(len)?;
        if align_of::<T>() > 64 {
            return Err(Error::Address {
                address: 0,
                reason: "its elements need more than 64-byte alignment",
            });
        }
        inner.look()?;
        let allocation = inner.heap.allocate(bytes, purpose)?;
        Ok(Self::over(inner, allocation, len))
    }

    pub(crate) fn over(inner: &Arc<Inner>, allocation: Arc<Allocation>, len: usize) -> Self {
        Self {
            whole: View {
                inner: Arc::clone(inner),
                allocation,
                offset: 0,
                len,
                element: PhantomData,
            },
        }
    }
}

/// First and one past the last of a range of `len` things.
fn resolve(range: &impl RangeBounds<usize>, len: usize) -> Result<(usize, usize), Error> {
    let start = match range.start_bound() {
        End::Included(&s) => Some(s),
        End::Excluded(&s) => s.checked_add(1),
        End::Unbounded => Some(0),
    };
    let end = match range.end_bound() {
        End::Included(&e) => e.checked_add(1),
        End::Excluded(&e) => Some(e),
        End::Unbounded => Some(len),
    };
    let (start, end) = (start.unwrap_or(usize::MAX), end.unwrap_or(usize::MAX));
    if start >= end || end > len {
        return Err(Error::Range {
            start: start as u64,
            end: end as u64,
            len: len as u64,
        });
    }
    Ok((start, end))
}

impl<T> View<T> {
    /// Elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none. There always is one.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes.
    pub fn size_bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// Device address of the first element.
    #[inline]
    pub fn address(&self) -> u64 {
        self.allocation.address() + self.offset as u64
    }

    #[inline]
    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }

    /// Its first byte in its memory.
    pub(crate) fn offset(&self) -> u64 {
        self.offset as u64
    }

    /// Part of it: at least one element.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn view(&self, range: impl RangeBounds<usize>) -> Result<Self, Error> {
        let (start, end) = resolve(&range, self.len)?;
        let offset = self.offset + start * size_of::<T>();
        Ok(Self {
            offset,
            len: end - start,
            ..self.clone()
        })
    }

    /// The same elements as memory of another device: at the same address on GPUs of one process, and on the CPU at the
    /// host's. It keeps the memory alive, and the other device has it mapped until its work in flight is done.
    ///
    /// Who writes and who reads when is the caller's to order, by [`Commands::after`](crate::Commands::after) or
    /// [shared signals](crate::Signal::share): [`read`](Self::read) and [`write`](Self::write) of a view wait for its own
    /// device only.
    ///
    /// ```
    /// let (one, two) = (hcq_std::Device::open("cpu")?, hcq_std::Device::open("cpu")?);
    /// let buffer = one.alloc_from(&[1u32, 2, 3])?;
    /// let seen = buffer.share(&two)?;
    /// let copy = two.alloc::<u32>(3)?;
    /// two.copy_queue(0)?.record().copy(&copy, &seen)?.submit()?;
    /// assert_eq!(copy.to_vec()?, [1, 2, 3]);
    /// # Ok::<(), hcq_std::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Unreachable`] if the other device has no way to this memory.
    pub fn share(&self, with: &Device) -> Result<Self, Error> {
        let inner = &with.inner;
        if Arc::ptr_eq(&self.inner, inner) {
            return Ok(self.clone());
        }
        let imported = inner.heap.import(&self.allocation);
        let allocation = imported.map_err(|e| inner.unreachable(&self.inner, e))?;
        Ok(Self {
            inner: Arc::clone(inner),
            allocation,
            ..self.clone()
        })
    }

    /// The host's address, after a check of a copy's length.
    fn at(&self, need: usize, what: &'static str) -> Result<*mut u8, Error> {
        if need != self.len {
            return Err(Error::Length {
                what,
                need: self.len as u64,
                have: need as u64,
            });
        }
        Ok(self.allocation.as_ptr().as_ptr().wrapping_add(self.offset))
    }
}

/// Bytes of memory, when its device is idle.
pub(crate) fn bytes_of(
    inner: &Arc<Inner>,
    allocation: &Arc<Allocation>,
    offset: usize,
    len: usize,
) -> Result<Vec<u8>, Error> {
    let view: View<u8> = View {
        inner: Arc::clone(inner),
        allocation: Arc::clone(allocation),
        offset,
        len,
        element: PhantomData,
    };
    if offset
        .checked_add(len)
        .is_none_or(|end| end > allocation.len())
    {
        return Err(Error::Internal("bytes beyond their memory"));
    }
    view.to_vec()
}

impl<T: Element> View<T> {
    /// Copies elements in, as many as the view has. See [`View`] for when.
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::Fault`], [`Error::Timeout`] while waiting for the device.
    pub fn write(&self, data: &[T]) -> Result<(), Error> {
        let to = self.at(data.len(), "elements to write")?;
        let from = data.as_bytes();
        self.inner.while_idle(|| {
            // SAFETY: `to` has the bytes of `len` elements, mapped while the allocation is held. The device is idle and
            // no submission or other host copy comes in between, so nobody else accesses them; `data` is not device
            // memory, or the caller's `wrap` allowed for it.
            unsafe { std::ptr::copy(from.as_ptr(), to, from.len()) };
        })
    }

    /// Copies elements out, as many as the view has. See [`View`] for when.
    ///
    /// # Errors
    /// [`Error::Length`]; [`Error::Fault`], [`Error::Timeout`] while waiting for the device.
    pub fn read(&self, data: &mut [T]) -> Result<(), Error> {
        let from = self.at(data.len(), "elements to read")?;
        let to = data.as_mut_bytes();
        self.inner.while_idle(|| {
            // SAFETY: as in `write`, the other way; any bytes are valid elements.
            unsafe { std::ptr::copy(from, to.as_mut_ptr(), to.len()) };
        })
    }

    /// All elements.
    ///
    /// # Errors
    /// As for [`read`](Self::read); [`Error::OutOfMemory`] of the host.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let mut data = self.zeroed_host_copy()?;
        self.read(&mut data)?;
        Ok(data)
    }

    /// All elements, when nothing in flight writes them any more.
    pub(crate) fn copy_settled(&self) -> Result<Vec<T>, Error> {
        let mut data = self.zeroed_host_copy()?;
        let (from, to) = (self.at(self.len, "elements to read")?, data.as_mut_bytes());
        // SAFETY: mapped while the allocation is held. The only command that writes them is complete, as the caller has
        // seen to, and nobody else knows the memory.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        Ok(data)
    }

    fn zeroed_host_copy(&self) -> Result<Vec<T>, Error> {
        let mut data = Vec::new();
        let out_of_memory = Error::OutOfMemory {
            bytes: self.size_bytes() as u64,
            errno: crate::seam::Errno::NOMEM,
        };
        data.try_reserve_exact(self.len)
            .map_err(|_| out_of_memory)?;
        data.resize_with(self.len, T::new_zeroed);
        Ok(data)
    }

    /// Sets every element to `value`.
    ///
    /// # Errors
    /// [`Error::Fault`], [`Error::Timeout`] while waiting for the device.
    pub fn fill(&self, value: T) -> Result<(), Error> {
        let to = self.at(self.len, "elements to fill")?;
        let from = value.as_bytes();
        let len = self.len;
        self.inner.while_idle(|| {
            for i in 0..len {
                let at = to.wrapping_add(i * from.len());
                // SAFETY: element `i` of the view, as in `write`.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), at, from.len()) };
            }
        })
    }
}

/// A file mapped into memory: a source of copies. The CPU device reads it as it is when the copy runs, a GPU as it was
/// between the mapping and the copy.
///
/// The file must not be cut short meanwhile: the system ends a process that touches what is no longer there.
///
/// ```
/// # let path = std::env::temp_dir().join(format!("hcq-std-doc-{}", std::process::id()));
/// # std::fs::write(&path, [7u8; 64])?;
/// let device = hcq_std::Device::open("cpu")?;
/// let (file, buffer) = (device.map_file(&path)?, device.alloc::<u8>(32)?);
/// let mut commands = device.copy_queue(0)?.record();
/// commands.copy(&buffer, file.range(16..48)?)?.submit()?;
/// assert_eq!(buffer.to_vec()?, [7; 32]);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct MappedFile {
    allocation: Arc<Allocation>,
    path: PathBuf,
}

impl MappedFile {
    pub(crate) fn open(inner: &Arc<Inner>, path: &Path) -> Result<Self, Error> {
        let failed = |operation, e: &std::io::Error| Error::File {
            operation,
            path: path.to_owned(),
            reason: crate::program::io_reason(e),
        };
        let file = std::fs::File::open(path).map_err(|e| failed("opening", &e))?;
        let kind = file.metadata().map_err(|e| failed("opening", &e))?;
        let unfit = |reason: &str| Error::File {
            operation: "mapping",
            path: path.to_owned(),
            reason: reason.into(),
        };
        if !kind.is_file() {
            return Err(unfit("it is not a regular file"));
        }
        if kind.len() == 0 {
            return Err(unfit("it is empty, and there is nothing to copy from"));
        }
        let options = memmap2::MmapOptions::new();
        let (start, len, keep): (_, _, Box<dyn std::any::Any + Send + Sync>);
        if inner.backend.maps_adopted() {
            // Pages of the process's own that start as the file's: drivers take no others.
            // SAFETY: no reference to the bytes is ever made: only the device reads them, through raw pointers, and
            // whatever they are is data to it. What happens when the file is cut short is documented.
            let map = unsafe { options.map_copy(&file) }.map_err(|e| failed("mapping", &e))?;
            (start, len, keep) = (map.as_ptr().cast_mut(), map.len(), Box::new(map));
        } else {
            // SAFETY: as above.
            let map = unsafe { options.map(&file) }.map_err(|e| failed("mapping", &e))?;
            (start, len, keep) = (map.as_ptr().cast_mut(), map.len(), Box::new(map));
        }
        let start =
            std::ptr::NonNull::new(start).ok_or(Error::Internal("a mapping at address zero"))?;
        inner.look()?;
        let allocation = inner.heap.adopt(start, len, false, Some(keep))?;
        Ok(Self {
            allocation,
            path: path.to_owned(),
        })
    }

    /// The file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its bytes, at least one.
    pub fn size_bytes(&self) -> usize {
        self.allocation.len()
    }

    /// Device address of the first byte.
    pub fn address(&self) -> u64 {
        self.allocation.address()
    }

    /// Some of its bytes.
    ///
    /// # Errors
    /// [`Error::Range`].
    pub fn range(&self, bytes: impl RangeBounds<usize>) -> Result<Span<'_>, Error> {
        let (start, end) = resolve(&bytes, self.allocation.len())?;
        Ok(Span {
            allocation: &self.allocation,
            offset: start as u64,
            bytes: (end - start) as u64,
        })
    }
}

/// Bytes of device memory: what copies are between. Made from a reference to a buffer, a view or a mapped file.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    pub(crate) allocation: &'a Arc<Allocation>,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Span<'_> {
    /// Device address of the first byte.
    pub fn address(&self) -> u64 {
        self.allocation.address() + self.offset
    }

    /// Bytes, at least one.
    pub fn size_bytes(&self) -> u64 {
        self.bytes
    }
}

impl<'a, T> From<&'a Buffer<T>> for Span<'a> {
    fn from(buffer: &'a Buffer<T>) -> Self {
        Self::from(&buffer.whole)
    }
}

impl<'a, T> From<&'a View<T>> for Span<'a> {
    fn from(view: &'a View<T>) -> Self {
        Self {
            allocation: &view.allocation,
            offset: view.offset as u64,
            bytes: view.size_bytes() as u64,
        }
    }
}

impl<'a> From<&'a MappedFile> for Span<'a> {
    fn from(file: &'a MappedFile) -> Self {
        Self {
            allocation: &file.allocation,
            offset: 0,
            bytes: file.allocation.len() as u64,
        }
    }
}
