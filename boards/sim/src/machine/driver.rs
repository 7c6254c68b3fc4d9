//! What a simulated kernel driver is to its machine.
//!
//! The machine has what every driver needs: numbers of files, memory ([`Store`](super::Store)), the process's own memory
//! ([`user`](super::user)), page tables ([`vm`](crate::vm)), the order of queues ([`order`](super::order)), files of sysfs and
//! procfs ([`tree`](super::tree)), errors on demand ([`script`](super::script)), who runs programs. A driver has its nodes, its
//! calls, its GPUs and its queues. It is called under the machine's lock, so that calls and turns exclude each other; a call that
//! has to wait answers [`Answer::Wait`] and is asked again.
//!
//! # A new family of GPUs
//!
//! `crate::amd` is the example. A family has
//!
//! - a module with its chips' names, and a `Driver`: `amd/kfd/driver.rs` is the shortest way to see all of one;
//! - its options beside those of every machine, a type with `Default` that is a field of
//!   [`Options`](crate::config::Options), and
//! - a [`Family`](crate::config::Family), which is one line of `config::FAMILIES`. From then on `Config::new` knows its chips.
//!
//! Its launches have registers of their own in [`exec::Registers`](crate::exec::Registers), its programs a table in
//! `standin/table/`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::files::{FileId, Files};
use super::memory::Block;
use super::order::Turned;
use super::script::Scripts;
use super::tree::Tree;
use crate::amd::kfd::Engines;
use crate::exec::Executor;

/// A kernel driver with its GPUs. Errors are the kernel's numbers, positive.
pub(crate) trait Driver: Send {
    /// The number that this driver knows a device node by; `None`: it is not one of its nodes, or not there.
    fn node(&self, path: &Path) -> Option<u32>;

    /// Absolute paths of the nodes that are there, for listings of `/dev`.
    fn nodes(&self) -> Vec<PathBuf>;

    /// A node is opened. An error (`EACCES`) leaves it unopened.
    fn open(&mut self, node: u32, file: FileId, write: bool) -> Result<(), i32>;

    /// A file is closed. What is mapped of it stays mapped.
    fn close(&mut self, node: u32, file: FileId);

    /// An `ioctl`: `request` is the kernel's `cmd`, `address` the argument as it is.
    fn ioctl(&mut self, call: &mut Ioctl<'_>, request: u32, address: u64) -> Result<Answer, i32>;

    /// Asks a call that waits whether it is over. `None`: it waits on.
    fn resume(&mut self, wait: u64) -> Option<Result<i32, i32>> {
        let _ = wait;
        Some(Err(libc::EIO))
    }

    /// The time of a call that waits is up, and it was not over: what it answers.
    fn expire(&mut self, wait: u64) -> Result<i32, i32> {
        let _ = wait;
        Err(libc::ETIMEDOUT)
    }

    /// The memory that a file maps.
    fn mmap(&mut self, map: &Map) -> Result<View, i32>;

    /// A file's memory was mapped at an address. An error undoes it.
    fn mapped(&mut self, map: &Map, start: u64) -> Result<(), i32> {
        let _ = (map, start);
        Ok(())
    }

    /// Nothing of the machine's is mapped in a range of the process any more. Bytes are whole pages; some of them may not have
    /// been the machine's, or another driver's.
    fn munmap(&mut self, start: u64, bytes: u64) {
        let _ = (start, bytes);
    }

    /// Whether `poll` for reading finds something, which [`take_news`](Self::take_news) tells of when it changes.
    fn readable(&mut self, node: u32, file: FileId) -> Result<bool, i32>;

    /// The files of sysfs and procfs. Asked for once: their text must not change.
    fn tree(&self) -> Tree;

    /// One turn of one queue, in the order that the seed decides.
    fn turn(&mut self, executor: &mut dyn Executor) -> Turned;

    /// Whether there is any queue that could run.
    fn has_queues(&self) -> bool;

    /// Whether something has happened that a call may wait for, or a `poll`, since this was last asked.
    fn take_news(&mut self) -> bool;

    /// Queues sleep through so many of their turns: this one, or all and those to come.
    fn late(&mut self, queue: Option<u32>, steps: u32);

    /// What stopped queues have to say, oldest first.
    fn reports(&self) -> &[String];

    /// An engine, or somebody's program in it, has broken down: every queue stops, and the process is told.
    fn halt(&mut self, why: &str);

    /// Somebody else makes the engines of KFD's queues. Whether this driver has such queues.
    fn engines(&mut self, engines: Box<Engines>) -> bool {
        drop(engines);
        false
    }
}

/// What is around an `ioctl`.
pub(crate) struct Ioctl<'a> {
    /// The node that the file is of.
    pub(crate) node: u32,
    /// The file.
    pub(crate) file: FileId,
    pub(super) driver: usize,
    pub(super) files: &'a Files,
    pub(super) scripts: &'a mut Scripts,
}

impl Ioctl<'_> {
    /// The file that an argument names by its number: its node and which opening it is. `None`: it is not open, or no file of
    /// this driver.
    pub(crate) fn file(&self, number: i32) -> Option<(u32, FileId)> {
        let open = self.files.get(number).ok()?;
        (open.driver == self.driver).then_some((open.node, open.id))
    }

    /// A command inside of this call, for scripts: what a call that serves many purposes is asked to do.
    ///
    /// # Errors
    /// What a script says.
    pub(crate) fn command(&mut self, command: u32) -> Result<(), i32> {
        self.scripts.command(command)
    }
}

/// What an `ioctl` answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// The call is over, with this value.
    Done(i32),
    /// It waits: until the driver says that it is over, or until the deadline.
    Wait {
        /// The driver's own number of the wait.
        wait: u64,
        /// When its time is up; `None`: never.
        deadline: Option<Instant>,
    },
}

/// An `mmap`, shared, of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Map {
    /// The node that the file is of.
    pub(crate) node: u32,
    /// The file.
    pub(crate) file: FileId,
    /// Where in the file, a multiple of a page.
    pub(crate) offset: u64,
    /// Whole pages.
    pub(crate) bytes: u64,
    /// The address that the process insists on.
    #[allow(dead_code, reason = "drivers differ in what they look at")]
    pub(crate) fixed: Option<u64>,
    /// The process has something else at this address and beyond: an address that the driver chooses ends before.
    pub(crate) before: Option<u64>,
    /// For writing too.
    pub(crate) write: bool,
}

/// A part of a block.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// The memory.
    pub(crate) block: Arc<Block>,
    /// Where it begins there, a multiple of a page.
    pub(crate) offset: u64,
    /// The address at which the process has to see it, for drivers that choose; nothing of the process may be there
    /// (`EEXIST`). An address that the process insists on goes first.
    pub(crate) at: Option<u64>,
}

impl From<Arc<Block>> for View {
    fn from(block: Arc<Block>) -> Self {
        Self {
            block,
            offset: 0,
            at: None,
        }
    }
}
