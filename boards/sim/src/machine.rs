//! The machine: its files, its GPUs, and the order in which things happen.
#![allow(unsafe_code, reason = "calls of a process come with raw addresses")]

use std::ffi::c_void;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

pub use crate::config::{Config, ConfigError, CpuVisible, Kfd, Pace};
use crate::exec::Executor;

/// What a call is, for [`Script::Fail`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// `open` of this path.
    Open(std::path::PathBuf),
    /// An `ioctl` of `/dev/kfd` with this number (`_IOC_NR`): 0x02 is `CREATE_QUEUE`.
    Ioctl(u8),
    /// `mmap` of a file.
    Mmap,
    /// A read or listing of this sysfs path, or of what is below it.
    Read(std::path::PathBuf),
}

/// Something that goes wrong at a chosen moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Script {
    /// Calls fail with an error number and do nothing.
    Fail {
        /// Which call.
        call: Call,
        /// The first of these calls to fail, counted from now on; 1 is the next.
        nth: u32,
        /// How many fail in a row; `u32::MAX`: all from then on.
        times: u32,
        /// The error number, positive.
        errno: i32,
    },
    /// A queue is not stepped for a number of its turns, whatever its doorbell says. The ring is not lost.
    Late {
        /// The queue's number, as the kernel gave it; `None`: every queue, and queues yet to be created.
        queue: Option<u32>,
        /// Turns.
        steps: u32,
    },
    /// A path in sysfs is gone, with all below it.
    Vanish {
        /// The path.
        path: std::path::PathBuf,
    },
}

/// A simulated machine. One process uses it: the one that it is in.
#[derive(Debug)]
pub struct Machine {
    config: Config,
}

/// `ENOSYS`.
const ENOSYS: i32 = libc::ENOSYS;

impl Machine {
    /// Starts a machine, with a thread for its engines unless its pace is [`Pace::Manual`].
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(config: Config) -> Result<Arc<Self>, ConfigError> {
        Ok(Arc::new(Self { config }))
    }

    /// How the machine was made.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Opens a device node.
    ///
    /// # Errors
    /// The kernel's number, positive.
    pub fn open(&self, path: &Path, write: bool) -> Result<i32, i32> {
        let _ = (path, write);
        Err(ENOSYS)
    }

    /// Closes a file. An unknown number is ignored.
    pub fn close(&self, file: i32) {
        let _ = file;
    }

    /// Makes an `ioctl`.
    ///
    /// # Safety
    /// `argument` is what this request takes: a pointer to its structure, readable and writable for the request's size.
    ///
    /// # Errors
    /// The kernel's number, positive.
    pub unsafe fn ioctl(&self, file: i32, request: u64, argument: *mut c_void) -> Result<i32, i32> {
        let _ = (file, request, argument);
        Err(ENOSYS)
    }

    /// Maps memory of a file, shared; `fixed` replaces what is mapped there.
    ///
    /// # Safety
    /// A fixed range is the caller's, and nothing uses what was mapped there.
    ///
    /// # Errors
    /// The kernel's number, positive.
    pub unsafe fn mmap(
        &self,
        fixed: Option<NonNull<u8>>,
        len: usize,
        read: bool,
        write: bool,
        file: i32,
        offset: u64,
    ) -> Result<NonNull<u8>, i32> {
        let _ = (fixed, len, read, write, file, offset);
        Err(ENOSYS)
    }

    /// Ends a mapping.
    ///
    /// # Safety
    /// Nothing uses the range any more.
    ///
    /// # Errors
    /// The kernel's number, positive.
    pub unsafe fn munmap(&self, address: NonNull<u8>, len: usize) -> Result<(), i32> {
        let _ = (address, len);
        Err(ENOSYS)
    }

    /// Waits until a file is readable. Files of this machine never are, and `/dev/kfd` has no `poll`: it answers at once.
    ///
    /// # Errors
    /// The kernel's number, positive.
    pub fn poll(&self, file: i32, timeout: Duration) -> Result<bool, i32> {
        let _ = (file, timeout);
        Err(ENOSYS)
    }

    /// Reads at most `limit` bytes of a file in sysfs.
    ///
    /// # Errors
    /// The kernel's number, positive.
    pub fn read(&self, path: &Path, limit: usize) -> Result<Vec<u8>, i32> {
        let _ = (path, limit);
        Err(ENOSYS)
    }

    /// The names in a directory of sysfs or of `/dev/dri`, sorted.
    ///
    /// # Errors
    /// The kernel's number, positive.
    pub fn list(&self, path: &Path) -> Result<Vec<String>, i32> {
        let _ = path;
        Err(ENOSYS)
    }

    /// Nanoseconds of the host's monotonic clock, which the GPUs' clocks follow.
    pub fn now_ns(&self) -> u64 {
        0
    }

    /// One step of one queue, in the order that the seed decides. `false`: no queue has anything to do. Only useful with
    /// [`Pace::Manual`]; harmless otherwise.
    pub fn step(&self) -> bool {
        false
    }

    /// Adds somebody who runs programs. Those added later are asked first; what none of them knows is an illegal launch.
    pub fn register(&self, executor: Box<dyn Executor>) {
        drop(executor);
    }

    /// Adds something that goes wrong.
    pub fn inject(&self, script: Script) {
        let _ = script;
    }

    /// What stopped queues have to say, oldest first.
    pub fn reports(&self) -> Vec<String> {
        Vec::new()
    }
}
