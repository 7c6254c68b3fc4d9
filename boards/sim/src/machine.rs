//! The machine: its files, its GPUs, and the order in which things happen.
//!
//! A machine answers the calls that a process makes of its system: `open`, `ioctl`, `mmap`, reads of sysfs. Behind them are
//! GPUs with their kernel driver (for AMD's, [`amd::kfd`](crate::amd::kfd)), whose engines move in a thread of the machine, or
//! step by step with [`Pace::Manual`].
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

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hcq_uapi::ioctl;

pub use crate::amd::kfd::{EngineRequest, Engines, QueueKind};
pub use crate::config::{Config, ConfigError, CpuVisible, Kfd, Pace};
pub use script::{Call, Script};

use crate::engine::Cause;
use crate::exec::{Dispatch, Executor, Kernel as Program, ShaderMemory};
use crate::standin::StandIns;

pub(crate) mod clock;
pub(crate) mod driver;
mod files;
mod maps;
mod memory;
pub(crate) mod order;
mod run;
mod script;
pub(crate) mod tree;
pub(crate) mod user;

pub(crate) use driver::{Answer, Driver, Ioctl, Map, View};
pub(crate) use files::FileId;
use memory::Place;
pub(crate) use memory::{Block, PAGE, Store};
use order::Turned;
use tree::{Entry, Tree};

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
    drivers: Vec<Box<dyn Driver>>,
    /// Whose turn it is first.
    first: usize,
    store: Arc<Store>,
    files: files::Files,
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
    /// One turn: of the first driver that has something to do, which is the last to be asked next time. A panic in an engine or
    /// in a program that stands in for a kernel must not take the machine down.
    fn turn(&mut self) -> Turned {
        let count = self.drivers.len();
        let mut result = Turned::Idle;
        for index in (0..count).map(|n| (self.first + n) % count) {
            let Some(driver) = self.drivers.get_mut(index) else {
                continue;
            };
            let turn = AssertUnwindSafe(|| driver.turn(&mut self.executors));
            let turned = catch_unwind(turn).unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<&str>().copied();
                let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
                driver.halt(text.unwrap_or("a panic"));
                Turned::Moved
            });
            match turned {
                Turned::Moved => {
                    self.first = index + 1;
                    return Turned::Moved;
                }
                Turned::Waiting => result = Turned::Waiting,
                Turned::Idle => {}
            }
        }
        result
    }

    fn has_queues(&self) -> bool {
        self.drivers.iter().any(|driver| driver.has_queues())
    }

    fn driver(&mut self, index: usize) -> Result<&mut dyn Driver, i32> {
        // Not `as_deref_mut`: the box is what is in the list.
        match self.drivers.get_mut(index) {
            Some(driver) => Ok(&mut **driver),
            None => Err(libc::ENODEV),
        }
    }

    fn tree(&mut self) -> &Tree {
        self.tree.get_or_insert_with(|| {
            let mut all = Tree::default();
            for driver in &self.drivers {
                all.merge(driver.tree());
            }
            all
        })
    }

    /// A path in sysfs as the tree knows it.
    fn known(&mut self, path: &Path) -> Option<PathBuf> {
        self.tree().normal(path).map(PathBuf::from)
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
        let mut news = false;
        for driver in &mut state.drivers {
            news |= driver.take_news();
        }
        if news {
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

impl Machine {
    /// Starts a machine, with a thread for its engines unless its pace is [`Pace::Manual`].
    ///
    /// # Errors
    /// [`ConfigError`].
    pub fn new(config: Config) -> Result<Arc<Self>, ConfigError> {
        config.check()?;
        let host = |errno| ConfigError::Host { errno };
        let store = Store::new().map_err(host)?;
        let driver = config.start(&store).map_err(host)?;
        Self::with(config, store, vec![driver])
    }

    /// A machine of these drivers.
    fn with(
        config: Config,
        store: Arc<Store>,
        drivers: Vec<Box<dyn Driver>>,
    ) -> Result<Arc<Self>, ConfigError> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                drivers,
                first: 0,
                store,
                files: files::Files::default(),
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
                let errno = |e: std::io::Error| e.raw_os_error().unwrap_or(libc::EAGAIN);
                Some(started.map_err(|e| ConfigError::Host { errno: errno(e) })?)
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

    /// Opens a device node: `/dev/kfd`, `/dev/dri/renderD128` and so on.
    ///
    /// # Errors
    /// The kernel's number, positive: `ENOENT`, `EACCES`, `EMFILE`.
    pub fn open(&self, path: &Path, write: bool) -> Result<i32, i32> {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.scripts.open(path)?;
        let mut nodes = state.drivers.iter().map(|driver| driver.node(path));
        let found = (0..)
            .zip(&mut nodes)
            .find_map(|(at, node)| Some((at, node?)));
        let (index, node) = found.ok_or(libc::ENOENT)?;
        let (number, file) = state.files.open(index, node, write)?;
        let opened = state.driver(index)?.open(node, file, write);
        if let Err(errno) = opened {
            state.files.close(number);
            return Err(errno);
        }
        Ok(number)
    }

    /// Closes a file. An unknown number is ignored. What a driver ends with its last file ends; what the process has mapped
    /// stays mapped.
    pub fn close(&self, file: i32) {
        let mut state = self.lock();
        if let Some(open) = state.files.close(file)
            && let Ok(driver) = state.driver(open.driver)
        {
            driver.close(open.node, open.id);
        }
        self.done(state);
    }

    /// Makes an `ioctl`. One that waits does not keep the machine from going on.
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
        let open = *state.files.get(file)?;
        state.scripts.ioctl(ioctl::number(request), request)?;
        let driver = state.drivers.get_mut(open.driver).ok_or(libc::ENODEV)?;
        let mut call = Ioctl {
            node: open.node,
            file: open.id,
            driver: open.driver,
            files: &state.files,
            scripts: &mut state.scripts,
        };
        match driver.ioctl(&mut call, request, address) {
            Ok(Answer::Wait { wait, deadline }) => {
                // What it has done so far may concern others.
                self.shared.tell(state);
                self.shared.wake.notify_one();
                self.wait(guard, open.driver, wait, deadline)
            }
            Ok(Answer::Done(value)) => {
                self.done(guard);
                Ok(value)
            }
            Err(errno) => {
                self.done(guard);
                Err(errno)
            }
        }
    }

    /// A call waits until its driver says that it is over, or its time is up.
    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        driver: usize,
        wait: u64,
        deadline: Option<Instant>,
    ) -> Result<i32, i32> {
        loop {
            let asked = state.driver(driver)?;
            if let Some(result) = asked.resume(wait) {
                self.done(state);
                return result;
            }
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                let result = asked.expire(wait);
                self.done(state);
                return result;
            }
            state = self.news(state, left);
        }
    }

    /// Waits for something that calls may wait for; at most for so long.
    fn news<'a>(
        &'a self,
        state: MutexGuard<'a, State>,
        limit: Option<Duration>,
    ) -> MutexGuard<'a, State> {
        let told = &self.shared.told;
        match limit {
            Some(limit) => {
                let waited = told.wait_timeout(state, limit);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            None => told.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
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
        let open = *state.files.get(file)?;
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
        let mut map = Map {
            node: open.node,
            file: open.id,
            offset,
            bytes,
            fixed: fixed.and_then(|_| u64::try_from(at).ok()),
            before: None,
            write,
        };
        let len = usize::try_from(bytes).map_err(|_| libc::ENOMEM)?;
        let (mapped, view) = loop {
            let view = state.driver(open.driver)?.mmap(&map)?;
            let free = view.at.and_then(|at| usize::try_from(at).ok());
            let place = match (fixed, free) {
                (Some(address), _) => Place::Fixed(address),
                (None, Some(at)) => Place::Free(at),
                (None, None) => Place::Anywhere,
            };
            // SAFETY: a fixed range is the caller's by this function's contract.
            match unsafe { view.block.map(place, view.offset, len, read, write) } {
                Ok(mapped) => break (mapped, view),
                // Kernels look for what is free for both; it is found by trying.
                Err(libc::EEXIST) if fixed.is_none() && map.before != view.at => {
                    map.before = view.at;
                }
                Err(errno) => return Err(errno),
            }
        };
        let start = mapped.as_ptr().addr();
        let told = u64::try_from(start).map_err(|_| libc::ENOMEM);
        let told = told.and_then(|start| state.driver(open.driver)?.mapped(&map, start));
        if let Err(errno) = told {
            // SAFETY: the mapping was made just now, and nobody knows of it.
            unsafe { memory::unmap(mapped, len) }?;
            return Err(errno);
        }
        state.maps.add(start, len, view.block);
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
        let start = address.as_ptr().addr();
        state.maps.remove(start, whole);
        if let (Ok(start), Ok(bytes)) = (u64::try_from(start), u64::try_from(whole)) {
            for driver in &mut state.drivers {
                driver.munmap(start, bytes);
            }
        }
        Ok(())
    }

    /// Waits until a file is readable, or for so long. A file without `poll`, as `/dev/kfd`, always is; a render node has
    /// nothing to read ever.
    ///
    /// # Errors
    /// The kernel's number, positive: `EBADF`.
    pub fn poll(&self, file: i32, timeout: Duration) -> Result<bool, i32> {
        let end = Instant::now().checked_add(timeout);
        let mut state = self.lock();
        loop {
            let open = *state.files.get(file)?;
            if state.driver(open.driver)?.readable(open.node, open.id)? {
                return Ok(true);
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(false);
            }
            state = self.news(state, left);
        }
    }

    fn entry<T>(
        &self,
        path: &Path,
        look: impl FnOnce(Option<Entry<'_>>) -> Result<T, i32>,
    ) -> Result<T, i32> {
        let mut guard = self.lock();
        let state = &mut *guard;
        let known = state.known(path).ok_or(libc::ENOENT)?;
        state.scripts.read(&known)?;
        let tree = state.tree.get_or_insert_default();
        let text = known.to_str().ok_or(libc::ENOENT)?;
        let entry = match tree.get(text) {
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

    /// The names in a directory of sysfs, or of `/dev` and what is below it, sorted.
    ///
    /// # Errors
    /// The kernel's number, positive: `ENOENT`, `ENOTDIR`.
    pub fn list(&self, path: &Path) -> Result<Vec<String>, i32> {
        if let Some(path) = tree::plain(path).filter(|path| path.starts_with("/dev")) {
            return self.list_dev(Path::new(&path));
        }
        self.entry(path, |entry| match entry {
            None => Err(libc::ENOENT),
            Some(Entry::File(_)) => Err(libc::ENOTDIR),
            Some(Entry::Directory(names)) => Ok(names),
        })
    }

    fn list_dev(&self, path: &Path) -> Result<Vec<String>, i32> {
        let state = self.lock();
        let mut names = BTreeSet::new();
        for node in state.drivers.iter().flat_map(|driver| driver.nodes()) {
            let Ok(rest) = node.strip_prefix(path) else {
                continue;
            };
            let name = rest.iter().next().ok_or(libc::ENOTDIR)?;
            names.extend(name.to_str().map(str::to_owned));
        }
        if names.is_empty() && path != Path::new("/dev") {
            return Err(libc::ENOENT);
        }
        Ok(names.into_iter().collect())
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

    /// Somebody else makes the engines of KFD's queues from now on: to watch them, or to replace them. `false`: the machine has
    /// no such queues.
    pub fn engines(&self, engines: Box<Engines>) -> bool {
        let mut state = self.lock();
        let mut drivers = state.drivers.iter_mut();
        drivers.next().is_some_and(|driver| driver.engines(engines))
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
                    Call::Read(path) => Call::Read(state.known(&path).unwrap_or(path)),
                    other => other,
                };
                state.scripts.fail(call, nth, times, errno);
            }
            Script::Late { queue, steps } => {
                for driver in &mut state.drivers {
                    driver.late(queue, steps);
                }
            }
            Script::Vanish { path } => {
                let known = state.known(&path).unwrap_or(path);
                state.scripts.vanish(known);
            }
        }
    }

    /// What stopped queues have to say, oldest first: the cause, and the packet in words.
    pub fn reports(&self) -> Vec<String> {
        let state = self.lock();
        let all = state.drivers.iter().flat_map(|driver| driver.reports());
        all.cloned().collect()
    }
}

impl Drop for Machine {
    /// Ends the thread: it is at most one step of an engine away from looking.
    fn drop(&mut self) {
        let mut state = self.lock();
        state.stop = true;
        state.store.end();
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
