//! The system seam: everything that a device asks of the operating system.
//!
//! [`System`] is the list of calls; [`Linux`] makes them. A simulated board supplies another implementation through
//! [`Options::system`](crate::Options::system) and answers the same calls as the kernel would. Threads and the files of
//! programs are not part of it: they are the process's own, whatever the device.
//!
//! This module alone makes system calls, and is one of the rooms for `unsafe`.
#![allow(unsafe_code, reason = "this is the room for system calls")]

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::fmt;
use std::num::NonZeroUsize;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::heap::lock;

/// An error number of the kernel. An open set: kernels invent new ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// No such file or directory.
    pub const NOENT: Self = Self(libc::ENOENT);
    /// Permission denied.
    pub const ACCES: Self = Self(libc::EACCES);
    /// Operation not permitted.
    pub const PERM: Self = Self(libc::EPERM);
    /// Out of memory.
    pub const NOMEM: Self = Self(libc::ENOMEM);
    /// No such device or address.
    pub const NXIO: Self = Self(libc::ENXIO);
    /// No such device.
    pub const NODEV: Self = Self(libc::ENODEV);
    /// Device or resource busy.
    pub const BUSY: Self = Self(libc::EBUSY);
    /// Invalid argument.
    pub const INVAL: Self = Self(libc::EINVAL);
    /// Function not implemented.
    pub const NOSYS: Self = Self(libc::ENOSYS);
    /// Bad address.
    pub const FAULT: Self = Self(libc::EFAULT);
    /// Not supported.
    pub const OPNOTSUPP: Self = Self(libc::EOPNOTSUPP);
    /// No space left: a table of the kernel is full.
    pub const NOSPC: Self = Self(libc::ENOSPC);
    /// An error of the hardware or of its bus.
    pub const IO: Self = Self(libc::EIO);
    /// Time was over.
    pub const TIME: Self = Self(libc::ETIME);

    /// The symbolic name, `E?` when this crate has none for it.
    pub fn name(self) -> &'static str {
        match self.0 {
            libc::ENOENT => "ENOENT",
            libc::EACCES => "EACCES",
            libc::EPERM => "EPERM",
            libc::ENOMEM => "ENOMEM",
            libc::ENXIO => "ENXIO",
            libc::ENODEV => "ENODEV",
            libc::EBUSY => "EBUSY",
            libc::EINVAL => "EINVAL",
            libc::ENOSYS => "ENOSYS",
            libc::EIO => "EIO",
            libc::EINTR => "EINTR",
            libc::EAGAIN => "EAGAIN",
            libc::EMFILE => "EMFILE",
            libc::ENFILE => "ENFILE",
            libc::ENOTTY => "ENOTTY",
            libc::ENOTDIR => "ENOTDIR",
            libc::EISDIR => "EISDIR",
            libc::EROFS => "EROFS",
            libc::EFAULT => "EFAULT",
            libc::EFBIG => "EFBIG",
            libc::ETIMEDOUT => "ETIMEDOUT",
            libc::ETIME => "ETIME",
            libc::ENOSPC => "ENOSPC",
            libc::EEXIST => "EEXIST",
            libc::ESRCH => "ESRCH",
            libc::EBADF => "EBADF",
            libc::EADDRINUSE => "EADDRINUSE",
            libc::EOPNOTSUPP => "EOPNOTSUPP",
            _ => "E?",
        }
    }

    /// What the system says about it, in words and without the number.
    pub fn words(self) -> String {
        let text = std::io::Error::from_raw_os_error(self.0).to_string();
        match text.find(" (os error") {
            Some(at) => text.get(..at).unwrap_or_default().to_owned(),
            None => text,
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, error {})", self.words(), self.name(), self.0)
    }
}

impl std::error::Error for Errno {}

impl From<nix::errno::Errno> for Errno {
    fn from(e: nix::errno::Errno) -> Self {
        Self(e as i32)
    }
}

/// An open file of a [`System`]. Its number means something to that system only.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Handle(i32);

impl Handle {
    /// A handle with a number of the system's own choice.
    pub const fn from_raw(number: i32) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn raw(&self) -> i32 {
        self.0
    }
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// To read.
    Read,
    /// To read and write.
    ReadWrite,
}

/// What a mapping may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// Nothing: an address range is reserved.
    None,
    /// Reads.
    Read,
    /// Reads and writes.
    ReadWrite,
}

/// What to map.
#[derive(Debug)]
pub struct MapRequest<'a> {
    /// Bytes, at least 1.
    pub len: usize,
    /// What for.
    pub protection: Protection,
    /// A file and an offset in it, shared with whoever else maps it; zeroed private memory if none.
    pub file: Option<(&'a Handle, u64)>,
    /// Exactly here, replacing what is there: for address ranges that the caller has reserved.
    pub fixed: Option<NonNull<u8>>,
}

/// Whose a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The user's number.
    pub user: u32,
    /// The group's number.
    pub group: u32,
    /// Permission bits, as `chmod` takes them.
    pub mode: u32,
}

/// What a system keeps for all its users: one value of a type.
///
/// Kernel drivers keep state for each process that outlives every open file: KFD has one object for an address space, with
/// one event page and one address space on each GPU, which belongs to the render node that it was acquired with. Whoever
/// opens a second device of that system has to find what the first one did; so it is kept beside the calls themselves.
/// Values hold nothing that refers to the system, or neither would ever go.
#[derive(Debug, Default)]
pub struct Shared {
    values: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl Shared {
    /// The value of this type, made by `make` if there is none.
    pub fn get_or_init<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut values = lock(&self.values);
        let found = values.get(&TypeId::of::<T>()).map(Arc::clone);
        if let Some(Ok(value)) = found.map(Arc::downcast) {
            return value;
        }
        let value = Arc::new(make());
        values.insert(TypeId::of::<T>(), Arc::<T>::clone(&value));
        value
    }

    /// The value of this type, if there is one.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        let value = lock(&self.values).get(&TypeId::of::<T>()).map(Arc::clone)?;
        value.downcast().ok()
    }
}

/// The calls that a device makes. All of them may come from any thread.
pub trait System: Send + Sync + fmt::Debug {
    /// Opens a file.
    ///
    /// # Errors
    /// The kernel's number.
    fn open(&self, path: &Path, how: Open) -> Result<Handle, Errno>;

    /// Closes a file.
    fn close(&self, file: Handle);

    /// Makes an `ioctl`; repeats it when a signal interrupts it.
    ///
    /// # Safety
    /// `argument` is what this request of this file takes: a pointer to its structure, all of it readable and writable.
    ///
    /// # Errors
    /// The kernel's number.
    unsafe fn ioctl(
        &self,
        file: &Handle,
        request: u64,
        argument: *mut c_void,
    ) -> Result<i32, Errno>;

    /// Maps memory.
    ///
    /// # Safety
    /// With [`MapRequest::fixed`] the range is the caller's, and nothing uses what was mapped there.
    ///
    /// # Errors
    /// The kernel's number; [`Errno::NOMEM`] when there is no memory of that size.
    unsafe fn mmap(&self, request: &MapRequest<'_>) -> Result<NonNull<u8>, Errno>;

    /// Reserves an address range, from `near` on if nothing is there, else wherever there is room. What a system without a say in
    /// addresses makes of it is the latter.
    ///
    /// # Errors
    /// The kernel's number.
    fn reserve(&self, near: usize, len: usize) -> Result<NonNull<u8>, Errno> {
        let _ = near;
        let request = MapRequest {
            len,
            protection: Protection::None,
            file: None,
            fixed: None,
        };
        // SAFETY: no fixed address.
        unsafe { self.mmap(&request) }
    }

    /// Ends a mapping.
    ///
    /// # Safety
    /// `address` and `len` are those of a mapping of this system, or of whole pages of one without a file, and nothing
    /// uses them any more.
    ///
    /// # Errors
    /// The kernel's number.
    unsafe fn munmap(&self, address: NonNull<u8>, len: usize) -> Result<(), Errno>;

    /// Waits until the file is readable. `false` when the time was over first.
    ///
    /// # Errors
    /// The kernel's number.
    fn poll(&self, file: &Handle, timeout: Duration) -> Result<bool, Errno>;

    /// Reads at most `limit` bytes of a file from its start: sysfs and procfs text.
    ///
    /// # Errors
    /// The kernel's number.
    fn read(&self, path: &Path, limit: usize) -> Result<Vec<u8>, Errno>;

    /// The names in a directory, in no order; names that are not UTF-8 are left out. A system without directories has
    /// none.
    ///
    /// # Errors
    /// The kernel's number.
    fn list(&self, path: &Path) -> Result<Vec<String>, Errno> {
        let _ = path;
        Err(Errno::NOENT)
    }

    /// Whose a file is, for advice on permissions.
    ///
    /// # Errors
    /// The kernel's number.
    fn owner(&self, path: &Path) -> Result<Owner, Errno> {
        let _ = path;
        Err(Errno::NOSYS)
    }

    /// What this system keeps for all its users. A system without drivers that keep state of their own shares nothing.
    fn shared(&self) -> Arc<Shared> {
        Arc::default()
    }

    /// Sleeps while `word` holds `expected`, until it is woken or the time is over. It may return early.
    fn futex_wait(&self, word: &AtomicU32, expected: u32, timeout: Duration);

    /// Wakes at most `count` threads that sleep on `word`.
    fn futex_wake(&self, word: &AtomicU32, count: u32);

    /// Nanoseconds of a clock that never goes back and is the one of the device's timestamps.
    fn now_ns(&self) -> u64;
}

/// Linux, by its system calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

fn borrow(file: &Handle) -> BorrowedFd<'_> {
    // SAFETY: a `Handle` of this system is an open descriptor, which stays open while the handle is borrowed: only
    // `close` closes it, and that takes the handle by value.
    unsafe { BorrowedFd::borrow_raw(file.0) }
}

fn again<T>(mut call: impl FnMut() -> Result<T, nix::errno::Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(nix::errno::Errno::EINTR) => {}
            other => return other.map_err(Errno::from),
        }
    }
}

impl System for Linux {
    fn open(&self, path: &Path, how: Open) -> Result<Handle, Errno> {
        use nix::fcntl::{OFlag, open};
        let access = match how {
            Open::Read => OFlag::O_RDONLY,
            Open::ReadWrite => OFlag::O_RDWR,
        };
        let fd = again(|| {
            open(
                path,
                access | OFlag::O_CLOEXEC,
                nix::sys::stat::Mode::empty(),
            )
        })?;
        Ok(Handle(fd.into_raw_fd()))
    }

    fn close(&self, file: Handle) {
        // SAFETY: the handle owns its descriptor and is used up here.
        drop(unsafe { OwnedFd::from_raw_fd(file.0) });
    }

    unsafe fn ioctl(
        &self,
        file: &Handle,
        request: u64,
        argument: *mut c_void,
    ) -> Result<i32, Errno> {
        #[allow(
            clippy::useless_conversion,
            reason = "the request's type is the C library's choice"
        )]
        let request = request.try_into().map_err(|_| Errno::INVAL)?;
        let fd = borrow(file).as_raw_fd();
        again(|| {
            // SAFETY: the caller promises that `argument` is what the request takes.
            let result = unsafe { libc::ioctl(fd, request, argument) };
            nix::errno::Errno::result(result)
        })
    }

    unsafe fn mmap(&self, request: &MapRequest<'_>) -> Result<NonNull<u8>, Errno> {
        use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous};
        let len = NonZeroUsize::new(request.len).ok_or(Errno::INVAL)?;
        let protection = match request.protection {
            Protection::None => ProtFlags::PROT_NONE,
            Protection::Read => ProtFlags::PROT_READ,
            Protection::ReadWrite => ProtFlags::PROT_READ | ProtFlags::PROT_WRITE,
        };
        let at = request
            .fixed
            .map(|p| NonZeroUsize::new(p.as_ptr().expose_provenance()).ok_or(Errno::INVAL));
        let at = at.transpose()?;
        let fixed = if at.is_some() {
            MapFlags::MAP_FIXED
        } else {
            MapFlags::empty()
        };
        let mapped = match request.file {
            None => {
                let flags = MapFlags::MAP_PRIVATE | fixed;
                // SAFETY: new memory; a fixed range is the caller's by this function's contract.
                unsafe { mmap_anonymous(at, len, protection, flags) }
            }
            Some((file, offset)) => {
                let offset = offset.try_into().map_err(|_| Errno::INVAL)?;
                // SAFETY: as above; what the file's other users do to the bytes is the device's protocol.
                unsafe {
                    mmap(
                        at,
                        len,
                        protection,
                        MapFlags::MAP_SHARED | fixed,
                        borrow(file),
                        offset,
                    )
                }
            }
        };
        Ok(mapped?.cast())
    }

    fn reserve(&self, near: usize, len: usize) -> Result<NonNull<u8>, Errno> {
        use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous};
        let len = NonZeroUsize::new(len).ok_or(Errno::INVAL)?;
        let (at, flags) = (NonZeroUsize::new(near), MapFlags::MAP_PRIVATE);
        // SAFETY: new memory. Without `MAP_FIXED` the address is a wish, and nothing that is there is replaced.
        let start = unsafe { mmap_anonymous(at, len, ProtFlags::PROT_NONE, flags) }?;
        Ok(start.cast())
    }

    unsafe fn munmap(&self, address: NonNull<u8>, len: usize) -> Result<(), Errno> {
        // SAFETY: the caller promises that this is a whole mapping that nothing uses.
        Ok(unsafe { nix::sys::mman::munmap(address.cast(), len) }?)
    }

    fn poll(&self, file: &Handle, timeout: Duration) -> Result<bool, Errno> {
        use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
        let timeout = PollTimeout::try_from(timeout).unwrap_or(PollTimeout::MAX);
        let mut fds = [PollFd::new(borrow(file), PollFlags::POLLIN)];
        Ok(again(|| poll(&mut fds, timeout))? > 0)
    }

    fn read(&self, path: &Path, limit: usize) -> Result<Vec<u8>, Errno> {
        use std::io::Read;
        let errno = |e: std::io::Error| Errno(e.raw_os_error().unwrap_or(libc::EIO));
        let mut bytes = Vec::new();
        let file = std::fs::File::open(path).map_err(errno)?;
        file.take(limit as u64)
            .read_to_end(&mut bytes)
            .map_err(errno)?;
        Ok(bytes)
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, Errno> {
        let errno = |e: std::io::Error| Errno(e.raw_os_error().unwrap_or(libc::EIO));
        let mut names = Vec::new();
        for entry in std::fs::read_dir(path).map_err(errno)? {
            names.extend(entry.map_err(errno)?.file_name().into_string());
        }
        Ok(names)
    }

    fn owner(&self, path: &Path) -> Result<Owner, Errno> {
        use std::os::unix::fs::MetadataExt;
        let errno = |e: std::io::Error| Errno(e.raw_os_error().unwrap_or(libc::EIO));
        let metadata = std::fs::metadata(path).map_err(errno)?;
        Ok(Owner {
            user: metadata.uid(),
            group: metadata.gid(),
            mode: metadata.mode() & 0o7777,
        })
    }

    fn shared(&self) -> Arc<Shared> {
        // A child of `fork` has an address space of its own and nothing of the parent's in it that drivers would honour.
        static SHARED: Mutex<Option<(u32, Arc<Shared>)>> = Mutex::new(None);
        let process = std::process::id();
        let mut slot = lock(&SHARED);
        match &*slot {
            Some((owner, shared)) if *owner == process => Arc::clone(shared),
            _ => {
                let shared = Arc::<Shared>::default();
                *slot = Some((process, Arc::clone(&shared)));
                shared
            }
        }
    }

    fn futex_wait(&self, word: &AtomicU32, expected: u32, timeout: Duration) {
        let time = libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: the word and the time are alive for the length of the call. Whatever it returns (woken, another value,
        // time over, interrupted), the caller looks again.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                operation,
                expected,
                &raw const time,
            )
        };
    }

    fn futex_wake(&self, word: &AtomicU32, count: u32) {
        let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        let count = i32::try_from(count).unwrap_or(i32::MAX);
        // SAFETY: a wake only uses the word's address.
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, count) };
    }

    fn now_ns(&self) -> u64 {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `time` is writable. The monotonic clock exists on every Linux, so the call cannot fail; were it to,
        // the clock would stand still at zero.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
        let (seconds, rest) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
        seconds
            .unwrap_or(0)
            .wrapping_mul(1_000_000_000)
            .wrapping_add(rest.unwrap_or(0))
    }
}

/// Bytes of a page of this system's memory.
pub(crate) fn page_bytes() -> usize {
    // SAFETY: asks for a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(bytes)
        .ok()
        .filter(|n| n.is_power_of_two())
        .unwrap_or(4096)
}

/// The path as the loader of shared objects takes it; `None` if it holds a zero byte.
pub(crate) fn has_no_zero_byte(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    CString::new(path.as_os_str().as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn errors_are_named_in_words() {
        let e = Linux
            .open(Path::new("/nowhere/at/all"), Open::Read)
            .expect_err("there is no such file");
        assert_eq!(e, Errno::NOENT);
        assert_eq!(e.to_string(), "No such file or directory (ENOENT, error 2)");
        assert_eq!(Errno(9999).name(), "E?");
    }

    #[test]
    fn memory_is_mapped_zeroed_and_unmapped() {
        let request = MapRequest {
            len: 8192,
            protection: Protection::ReadWrite,
            file: None,
            fixed: None,
        };
        // SAFETY: no fixed address.
        let p = unsafe { Linux.mmap(&request) }.expect("two pages");
        // SAFETY: mapped above, 8192 bytes.
        let bytes = unsafe { std::slice::from_raw_parts(p.as_ptr(), 8192) };
        assert!(bytes.iter().all(|&b| b == 0));
        // SAFETY: the mapping from above; `bytes` is not used again.
        unsafe { Linux.munmap(p, 8192) }.expect("mapped");
        let absurd = MapRequest {
            len: usize::MAX & !4095,
            ..request
        };
        // SAFETY: no fixed address.
        assert_eq!(unsafe { Linux.mmap(&absurd) }, Err(Errno::NOMEM));
        let nothing = MapRequest { len: 0, ..request };
        // SAFETY: no fixed address.
        assert_eq!(unsafe { Linux.mmap(&nothing) }, Err(Errno::INVAL));
    }

    #[test]
    fn files_are_mapped_read_and_polled() {
        let zero = Linux
            .open(Path::new("/dev/zero"), Open::ReadWrite)
            .expect("every Linux has it");
        assert!(Linux.poll(&zero, Duration::from_secs(1)).expect("readable"));
        let request = MapRequest {
            len: 4096,
            protection: Protection::Read,
            file: Some((&zero, 0)),
            fixed: None,
        };
        // SAFETY: no fixed address.
        let p = unsafe { Linux.mmap(&request) }.expect("a page of zeros");
        // SAFETY: mapped above.
        unsafe { Linux.munmap(p, 4096) }.expect("mapped");
        // SAFETY: TIOCGWINSZ with no structure on a file that is no terminal fails before it touches the argument.
        let refused = unsafe { Linux.ioctl(&zero, libc::TIOCGWINSZ, std::ptr::null_mut()) };
        assert_eq!(refused.expect_err("no terminal").name(), "ENOTTY");
        Linux.close(zero);
        assert_eq!(
            Linux
                .read(Path::new("/proc/self/comm"), 3)
                .expect("procfs")
                .len(),
            3
        );
    }

    #[test]
    fn directories_are_listed_and_owners_known() {
        let names = Linux.list(Path::new("/proc/self")).expect("procfs");
        assert!(names.iter().any(|n| n == "comm"));
        assert_eq!(Linux.list(Path::new("/nowhere")), Err(Errno::NOENT));
        let owner = Linux
            .owner(Path::new("/dev/zero"))
            .expect("every Linux has it");
        assert_eq!((owner.user, owner.group, owner.mode), (0, 0, 0o666));
        assert_eq!(Linux.owner(Path::new("/nowhere")), Err(Errno::NOENT));
        assert!(page_bytes() >= 4096);
    }

    #[test]
    fn shared_values_are_one_per_type() {
        struct Mark(u32);
        let shared = Linux.shared();
        assert!(shared.get::<Mark>().is_none());
        let mark = shared.get_or_init(|| Mark(7));
        let again = Linux.shared().get_or_init(|| Mark(8));
        assert!(Arc::ptr_eq(&mark, &again));
        assert_eq!(Linux.shared().get::<Mark>().map(|m| m.0), Some(7));
    }

    #[test]
    fn a_futex_does_not_sleep_on_another_value_and_wakes() {
        let word = AtomicU32::new(1);
        Linux.futex_wait(&word, 0, Duration::from_secs(60));
        Linux.futex_wait(&word, 1, Duration::from_millis(1));
        std::thread::scope(|s| {
            let sleeper = s.spawn(|| {
                while word.load(Ordering::Acquire) == 1 {
                    Linux.futex_wait(&word, 1, Duration::from_secs(60));
                }
            });
            word.store(2, Ordering::Release);
            Linux.futex_wake(&word, u32::MAX);
            sleeper.join().expect("no panic");
        });
        assert!(Linux.now_ns() > 0);
    }
}
