//! The machine: its files, its GPUs, and the order in which things happen.
//!
//! A machine answers the calls that a process makes of its system: `open`, `ioctl`, `mmap`, reads of sysfs. Behind them are
//! GPUs with their kernel driver ([`amd::kfd`](crate::amd::kfd)), whose engines move in a thread of the machine, or step by
//! step with [`Pace::Manual`].
//!
//! One lock guards everything: a call and a step of an engine exclude each other, and both are short. What they do not
//! exclude is the process itself: it reads and writes rings, signals, buffers and doorbells whenever it likes, and engines
//! read and write the same bytes. That is what makes it concurrent.
//!
//! ```
//! use hcq_sim::machine::{Config, Machine};
//! use hcq_uapi::kfd::{AMDKFD_IOC_GET_VERSION, kfd_ioctl_get_version_args};
//!
//! let machine = Machine::new(Config::new("amd-gfx1100")?)?;
//! let kfd = machine.open("/dev/kfd".as_ref(), true).expect("it is there");
//! let mut version = kfd_ioctl_get_version_args::default();
//! // SAFETY: the struct of this request.
//! let done = unsafe { machine.ioctl(kfd, AMDKFD_IOC_GET_VERSION.into(), (&raw mut version).cast()) };
//! assert_eq!((done, version.major_version), (Ok(0), 1));
//! # Ok::<(), hcq_sim::machine::ConfigError>(())
//! ```
//!
//! One process uses a machine: the one that it is in. Memory that the process lends to a GPU (`USERPTR`) must stay mapped
//! until it is freed there; the real kernel is told when it goes, this one is not.
#![allow(unsafe_code, reason = "calls of a process come with raw addresses")]

use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hcq_uapi::ioctl;
use hcq_uapi::kfd::{
    KFD_IOC_WAIT_RESULT_COMPLETE, KFD_IOC_WAIT_RESULT_FAIL, KFD_IOC_WAIT_RESULT_TIMEOUT,
    kfd_ioctl_wait_events_args,
};

pub use crate::amd::kfd::{EngineRequest, Engines, QueueKind};
pub use crate::config::{Config, ConfigError, CpuVisible, Kfd, Pace};
pub use script::{Call, Script};

use crate::amd::kfd::sysfs::{self, Entry, Tree};
use crate::amd::kfd::{self, FIRST_RENDER_MINOR, Kernel, Turned};
use crate::engine::Cause;
use crate::exec::{Dispatch, Executor, Kernel as Program, ShaderMemory};
use crate::standin::StandIns;

pub(crate) mod clock;
mod files;
mod maps;
mod memory;
mod run;
mod script;
pub(crate) mod user;

pub(crate) use files::Files;
pub(crate) use memory::{Block, PAGE, Store};

/// `KFD_EVENT_TIMEOUT_INFINITE`.
const NO_LIMIT: u32 = u32::MAX;
/// The number of `AMDKFD_IOC_WAIT_EVENTS`.
const WAIT_EVENTS: u8 = 0x0C;

/// Those who run programs; the last is asked first.
struct Executors(Vec<Box<dyn Executor>>);

impl Default for Executors {
    /// The programs of this project's own tests are known to every machine.
    fn default() -> Self {
        Self(vec![Box::new(StandIns::stock())])
    }
}

impl Executor for Executors {
    fn prepare(
        &mut self,
        dispatch: &Dispatch,
        memory: &mut dyn ShaderMemory,
    ) -> Result<Option<Box<dyn Program>>, Cause> {
        for executor in self.0.iter_mut().rev() {
            if let Some(program) = executor.prepare(dispatch, memory)? {
                return Ok(Some(program));
            }
        }
        Ok(None)
    }
}

struct State {
    kernel: Kernel,
    files: Files,
    maps: maps::Maps,
    scripts: script::Scripts,
    executors: Executors,
    tree: Option<Tree>,
    stop: bool,
    /// How often the thread has looked whether there is something to do.
    #[cfg(test)]
    looks: u64,
}

impl State {
    /// One turn. A panic in an engine or in a program that stands in for a kernel must not take the machine down.
    fn turn(&mut self) -> Turned {
        let turn = AssertUnwindSafe(|| self.kernel.turn(&mut self.executors));
        catch_unwind(turn).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            self.kernel.halt(text.unwrap_or("a panic"));
            Turned::Moved
        })
    }
}

struct Shared {
    state: Mutex<State>,
    /// Calls that want the lock: the engines let them go first.
    callers: AtomicU32,
    /// Something may be to do for the engines.
    wake: Condvar,
    /// Events may have been signaled.
    told: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes those who wait for events, if there is a reason.
    fn tell(&self, state: &mut State) {
        if state.kernel.take_news() {
            self.told.notify_all();
        }
    }
}

/// A simulated machine. One process uses it: the one that it is in.
pub struct Machine {
    config: Config,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Machine")
            .field(&self.config.to_string())
            .finish()
    }
}

/// What a path of a device node is.
enum Node {
    Kfd,
    Render(usize),
}

impl Machine {
    /// Starts a machine, with a thread for its engines unless its pace is [`Pace::Manual`].
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(config: Config) -> Result<Arc<Self>, ConfigError> {
        config.check()?;
        let host = |errno| ConfigError::Host { errno };
        let store = Store::new().map_err(host)?;
        let kernel = Kernel::new(&config, store).map_err(host)?;
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                kernel,
                files: Files::default(),
                maps: maps::Maps::default(),
                scripts: script::Scripts::default(),
                executors: Executors::default(),
                tree: None,
                stop: false,
                #[cfg(test)]
                looks: 0,
            }),
            callers: AtomicU32::new(0),
            wake: Condvar::new(),
            told: Condvar::new(),
        });
        let thread = match config.pace {
            Pace::Manual => None,
            Pace::Thread => {
                let shared = Arc::clone(&shared);
                let builder = std::thread::Builder::new().name("hcq-sim".into());
                let started = builder.spawn(move || run::run(&shared));
                Some(started.map_err(|error| host(error.raw_os_error().unwrap_or(libc::EAGAIN)))?)
            }
        };
        Ok(Arc::new(Self {
            config,
            shared,
            thread: Mutex::new(thread),
        }))
    }

    /// How the machine was made.
    pub fn config(&self) -> &Config {
        &self.config
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.callers.fetch_add(1, Ordering::Relaxed);
        let state = self.shared.lock();
        self.shared.callers.fetch_sub(1, Ordering::Relaxed);
        state
    }

    /// The end of a call that may have made work for the engines.
    fn done(&self, mut state: MutexGuard<'_, State>) {
        self.shared.tell(&mut state);
        drop(state);
        self.shared.wake.notify_one();
    }

    fn node(&self, path: &Path) -> Result<Node, i32> {
        let path = path.to_str().ok_or(libc::ENOENT)?;
        if path == "/dev/kfd" && self.config.kfd != Kfd::Missing {
            return Ok(Node::Kfd);
        }
        let minor = path.strip_prefix("/dev/dri/renderD").ok_or(libc::ENOENT)?;
        let minor: u32 = minor.parse().map_err(|_| libc::ENOENT)?;
        let index = minor.checked_sub(FIRST_RENDER_MINOR).ok_or(libc::ENOENT)?;
        if index >= self.config.gpus {
            return Err(libc::ENOENT);
        }
        usize::try_from(index)
            .map(Node::Render)
            .map_err(|_| libc::ENOENT)
    }

    /// Opens a device node: `/dev/kfd`, `/dev/dri/renderD128` and so on.
    ///
    /// # Errors
    /// The kernel's number, positive: `ENOENT`, `EACCES`, `EMFILE`.
    pub fn open(&self, path: &Path, write: bool) -> Result<i32, i32> {
        let mut state = self.lock();
        state.scripts.open(path)?;
        match self.node(path)? {
            Node::Kfd if self.config.kfd == Kfd::Denied => Err(libc::EACCES),
            Node::Kfd => {
                let file = state.files.open(None, write)?;
                state.kernel.begin();
                Ok(file)
            }
            Node::Render(index) => state.files.open(Some(index), write),
        }
    }

    /// Closes a file. An unknown number is ignored. With the last `/dev/kfd` the process ends for the GPUs: its queues stop and
    /// its memory is freed there; what it has mapped stays mapped.
    pub fn close(&self, file: i32) {
        let mut state = self.lock();
        if state.files.close(file) {
            state.kernel.end();
        }
        self.done(state);
    }

    /// Makes an `ioctl`.
    ///
    /// # Safety
    /// `argument` is what this request takes: a pointer to its structure, readable and writable for the request's size; the
    /// pointers in it are to memory that may be read and written as the request says.
    ///
    /// # Errors
    /// The kernel's number, positive.
    pub unsafe fn ioctl(&self, file: i32, request: u64, argument: *mut c_void) -> Result<i32, i32> {
        let address = u64::try_from(argument.expose_provenance()).map_err(|_| libc::EFAULT)?;
        // The kernel's `cmd` has 32 bits.
        let request = u32::try_from(request & 0xFFFF_FFFF).map_err(|_| libc::ENOTTY)?;
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.files.get(file)?.render.is_some() {
            // The interface of graphics is not simulated.
            return Err(libc::ENOTTY);
        }
        let number = ioctl::number(request);
        state.scripts.ioctl(number)?;
        if number == WAIT_EVENTS {
            let call = kfd::Call {
                size: ioctl::size(request),
                address,
            };
            let mut args = call.take()?;
            let result = self.wait(guard, &mut args);
            call.give(&args)?;
            return result.map(|()| 0);
        }
        let result = state.kernel.ioctl(&state.files, request, address);
        self.done(guard);
        result
    }

    /// `kfd_wait_on_events`. The machine goes on meanwhile.
    fn wait(
        &self,
        mut state: MutexGuard<'_, State>,
        args: &mut kfd_ioctl_wait_events_args,
    ) -> Result<(), i32> {
        let limit = match args.timeout {
            NO_LIMIT => None,
            ms => Instant::now().checked_add(Duration::from_millis(ms.into())),
        };
        let all = args.wait_for_all != 0;
        args.wait_result = KFD_IOC_WAIT_RESULT_FAIL;
        let process = state.kernel.ended;
        let events = state.kernel.events().ok_or(libc::EBADF)?;
        let number = events.begin(args.events_ptr, args.num_events)?;
        let result = loop {
            let same = state.kernel.ended == process;
            let Some(events) = state.kernel.events().filter(|_| same) else {
                return Err(libc::EIO);
            };
            match events.result(number, all) {
                KFD_IOC_WAIT_RESULT_TIMEOUT => {}
                result => break result,
            }
            let left = limit.map(|limit| limit.saturating_duration_since(Instant::now()));
            state = match left {
                Some(Duration::ZERO) => break KFD_IOC_WAIT_RESULT_TIMEOUT,
                Some(left) => {
                    let waited = self.shared.told.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self
                    .shared
                    .told
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        };
        let same = state.kernel.ended == process;
        let Some(events) = state.kernel.events().filter(|_| same) else {
            return Err(libc::EIO);
        };
        let copied = match result {
            KFD_IOC_WAIT_RESULT_COMPLETE => events.copy(number, args.events_ptr),
            KFD_IOC_WAIT_RESULT_FAIL => Err(libc::EIO),
            _ => Ok(()),
        };
        events.finish(number);
        if copied.is_ok() {
            args.wait_result = result;
        }
        copied
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
        let mut guard = self.lock();
        let state = &mut *guard;
        let open = state.files.get(file)?.clone();
        state.scripts.mmap()?;
        let at = fixed.map_or(0, |address| address.as_ptr().addr());
        let bytes = u64::try_from(len).map_err(|_| libc::ENOMEM)?;
        let page = usize::try_from(PAGE).map_err(|_| libc::EINVAL)?;
        if len == 0 || !at.is_multiple_of(page) || !offset.is_multiple_of(PAGE) {
            return Err(libc::EINVAL);
        }
        if write && !open.write {
            return Err(libc::EACCES);
        }
        let bytes = bytes.checked_next_multiple_of(PAGE).ok_or(libc::ENOMEM)?;
        let block = match open.render {
            None => state.kernel.kfd_map(offset, bytes)?,
            Some(index) => state.kernel.node_map(index, open.id, offset, bytes)?,
        };
        let len = usize::try_from(bytes).map_err(|_| libc::ENOMEM)?;
        // SAFETY: a fixed range is the caller's by this function's contract.
        let mapped = unsafe { block.map(fixed, len, read, write) }?;
        state.maps.add(mapped.as_ptr().addr(), len, block);
        self.done(guard);
        Ok(mapped)
    }

    /// Ends a mapping, or a part of one.
    ///
    /// # Safety
    /// Nothing uses the range any more.
    ///
    /// # Errors
    /// The kernel's number, positive.
    pub unsafe fn munmap(&self, address: NonNull<u8>, len: usize) -> Result<(), i32> {
        let mut state = self.lock();
        let page = usize::try_from(PAGE).map_err(|_| libc::EINVAL)?;
        let whole = len.checked_next_multiple_of(page).ok_or(libc::EINVAL)?;
        // SAFETY: the caller's promise.
        unsafe { memory::unmap(address, len) }?;
        state.maps.remove(address.as_ptr().addr(), whole);
        Ok(())
    }

    /// Waits until a file is readable. `/dev/kfd` has no `poll`, so it always is; a render node has nothing to read ever.
    ///
    /// # Errors
    /// The kernel's number, positive: `EBADF`.
    pub fn poll(&self, file: i32, timeout: Duration) -> Result<bool, i32> {
        let render = self.lock().files.get(file)?.render.is_some();
        if render {
            std::thread::sleep(timeout);
        }
        Ok(!render)
    }

    fn entry<T>(
        &self,
        path: &Path,
        look: impl FnOnce(Option<Entry<'_>>) -> Result<T, i32>,
    ) -> Result<T, i32> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let known = sysfs::normal(path).map(PathBuf::from).ok_or(libc::ENOENT)?;
        state.scripts.read(&known)?;
        let tree = state.tree.get_or_insert_with(|| sysfs::tree(&state.kernel));
        let entry = match tree.get(&known) {
            Some(Entry::Directory(mut names)) => {
                state.scripts.keep(&known, &mut names);
                Some(Entry::Directory(names))
            }
            other => other,
        };
        look(entry)
    }

    /// Reads at most `limit` bytes of a file in sysfs.
    ///
    /// # Errors
    /// The kernel's number, positive: `ENOENT`, `EISDIR`.
    pub fn read(&self, path: &Path, limit: usize) -> Result<Vec<u8>, i32> {
        self.entry(path, |entry| match entry {
            None => Err(libc::ENOENT),
            Some(Entry::Directory(_)) => Err(libc::EISDIR),
            Some(Entry::File(text)) => {
                let bytes = text.as_bytes();
                Ok(bytes.get(..limit).unwrap_or(bytes).to_vec())
            }
        })
    }

    /// The names in a directory of sysfs, or of `/dev` and `/dev/dri`, sorted.
    ///
    /// # Errors
    /// The kernel's number, positive: `ENOENT`, `ENOTDIR`.
    pub fn list(&self, path: &Path) -> Result<Vec<String>, i32> {
        match sysfs::normal(path).as_deref() {
            Some("/dev") => {
                let kfd = (self.config.kfd != Kfd::Missing).then(|| "kfd".to_owned());
                return Ok(std::iter::once("dri".to_owned()).chain(kfd).collect());
            }
            Some("/dev/dri") => {
                let minors = FIRST_RENDER_MINOR..FIRST_RENDER_MINOR + self.config.gpus;
                return Ok(minors.map(|minor| format!("renderD{minor}")).collect());
            }
            _ => {}
        }
        self.entry(path, |entry| match entry {
            None => Err(libc::ENOENT),
            Some(Entry::File(_)) => Err(libc::ENOTDIR),
            Some(Entry::Directory(names)) => Ok(names),
        })
    }

    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub fn now_ns(&self) -> u64 {
        clock::now_ns()
    }

    /// One turn of one queue, in the order that the seed decides. `false`: no queue has anything to do, or all that have wait
    /// for memory to change. For [`Pace::Manual`]; with a thread it is one more turn.
    pub fn step(&self) -> bool {
        let mut state = self.lock();
        let turned = state.turn();
        self.shared.tell(&mut state);
        turned == Turned::Moved
    }

    /// Adds somebody who runs programs. Those added later are asked first; what none of them knows is an illegal launch.
    pub fn register(&self, executor: Box<dyn Executor>) {
        self.lock().executors.0.push(executor);
    }

    /// Somebody else makes the engines of queues from now on: to watch them, or to replace them.
    pub fn engines(&self, engines: Box<Engines>) {
        self.lock().kernel.engines = Some(engines);
    }

    /// Adds something that goes wrong.
    pub fn inject(&self, script: Script) {
        let mut state = self.lock();
        match script {
            Script::Fail {
                call,
                nth,
                times,
                errno,
            } => {
                let call = match call {
                    Call::Read(path) => {
                        Call::Read(sysfs::normal(&path).map_or(path, PathBuf::from))
                    }
                    other => other,
                };
                state.scripts.fail(call, nth, times, errno);
            }
            Script::Late { queue, steps } => state.kernel.late(queue, steps),
            Script::Vanish { path } => {
                let known = sysfs::normal(&path).map_or(path, PathBuf::from);
                state.scripts.vanish(known);
            }
        }
    }

    /// What stopped queues have to say, oldest first: the cause, and the packet in words.
    pub fn reports(&self) -> Vec<String> {
        self.lock().kernel.reports.clone()
    }
}

impl Drop for Machine {
    /// Ends the thread: it is at most one step of an engine away from looking.
    fn drop(&mut self) {
        let mut state = self.lock();
        state.stop = true;
        state.kernel.store.end();
        drop(state);
        self.shared.wake.notify_all();
        let thread = self
            .thread
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // A panic in it was somebody else's code, and has been told already.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
