//! Simulated machines behind the system seam.
//!
//! Opening `sim:amd-gfx1100` makes a machine of its own. Several devices of one machine share it:
//!
//! ```
//! use hcq_std::{Options, sim};
//! let machine = sim::machine("amd-gfx942,gpus=4,seed=7")?;
//! let options = Options::default().system(machine);
//! let names: Vec<_> = hcq_std::devices_on(&*options.system).into_iter().map(|d| d.name).collect();
//! assert_eq!(names, ["cpu", "amd:0", "amd:1", "amd:2", "amd:3", "nv", "qcom"]);
//! # Ok::<(), hcq_std::Error>(())
//! ```
//!
//! The machine has the files and the devices; memory without a file, sleeping threads and the clock are Linux's.
#![allow(unsafe_code, reason = "hands raw addresses through")]

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hcq_sim::machine::{Config, ConfigError, Machine};

use crate::heap::lock;
use crate::seam::{Errno, Handle, Linux, MapRequest, Open, Owner, Protection, Shared, System};
use crate::{Error, name};

/// A simulated machine as a [`System`].
#[derive(Debug)]
pub struct SimSystem {
    machine: Arc<Machine>,
    shared: Arc<Shared>,
    /// Mappings of the machine's files: address and length.
    mapped: Mutex<BTreeMap<usize, usize>>,
}

/// How a system says that it is simulated, and by which machine.
#[derive(Debug)]
struct Mark(String);

/// A machine by its text, `amd-gfx942,gpus=4,seed=7`; see [`hcq_sim::machine::Config`] for the options.
///
/// # Errors
/// [`Error::Unavailable`] in words, if there is no such machine or it cannot start.
pub fn machine(config: &str) -> Result<Arc<dyn System>, Error> {
    Ok(Arc::new(SimSystem::new(start(config)?)))
}

fn refused(config: &str, e: &ConfigError) -> Error {
    Error::Unavailable {
        name: format!("sim:{config}"),
        reason: e.to_string(),
        hint: "names of simulated devices are like `sim:amd-gfx1100` and `sim:amd-gfx942:1,gpus=4,seed=7`".into(),
    }
}

fn parse(config: &str) -> Result<Config, Error> {
    config.parse().map_err(|e| refused(config, &e))
}

fn start(config: &str) -> Result<Arc<Machine>, Error> {
    Machine::new(parse(config)?).map_err(|e| refused(config, &e))
}

impl SimSystem {
    /// The system that a machine is. Each has its own state of devices: make one for a machine.
    pub fn new(machine: Arc<Machine>) -> Self {
        let shared = Arc::<Shared>::default();
        shared.get_or_init(|| Mark(machine.config().to_string()));
        Self {
            machine,
            shared,
            mapped: Mutex::default(),
        }
    }

    /// The machine, to make things go wrong or to step it by hand.
    pub fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }
}

/// The text of the machine that a system is, if it is one.
pub(crate) fn config_of(system: &dyn System) -> Option<String> {
    system.shared().get::<Mark>().map(|mark| mark.0.clone())
}

/// What a name says of a machine that is otherwise with the one there is; `None` if nothing.
pub(crate) fn contradiction(
    wanted: &name::Machine<'_>,
    there: &str,
) -> Result<Option<String>, Error> {
    // The simulation's own text of both, in which values have one form each, and usual ones are left out.
    let text = wanted.text();
    let usual = parse(&text)?.to_string();
    let (chip, options) = fields(&usual);
    let (chip_there, options_there) = fields(there);
    if chip != chip_there {
        return Ok(Some(format!(
            "the machine of the options has {chip_there}, not {chip}"
        )));
    }
    let differs = |option: &&str| options.get(option) != options_there.get(option);
    let mut given = wanted.options.iter().map(|(option, _)| *option);
    Ok(given.find(differs).map(|option| {
        let value = options_there.get(option).unwrap_or(&"the usual value");
        format!("the machine of the options has {option}={value}")
    }))
}

/// The chip and the options of a machine's text.
fn fields(text: &str) -> (&str, BTreeMap<&str, &str>) {
    let mut parts = text.split(',');
    let chip = parts.next().unwrap_or_default();
    (
        chip,
        parts.filter_map(|part| part.split_once('=')).collect(),
    )
}

fn errno(number: i32) -> Errno {
    Errno(number)
}

impl System for SimSystem {
    fn open(&self, path: &Path, how: Open) -> Result<Handle, Errno> {
        let file = self.machine.open(path, how == Open::ReadWrite);
        file.map(Handle::from_raw).map_err(errno)
    }

    fn close(&self, file: Handle) {
        self.machine.close(file.raw());
    }

    unsafe fn ioctl(
        &self,
        file: &Handle,
        request: u64,
        argument: *mut c_void,
    ) -> Result<i32, Errno> {
        // SAFETY: this function's contract.
        unsafe { self.machine.ioctl(file.raw(), request, argument) }.map_err(errno)
    }

    unsafe fn mmap(&self, request: &MapRequest<'_>) -> Result<NonNull<u8>, Errno> {
        let Some((file, offset)) = request.file else {
            // SAFETY: this function's contract.
            return unsafe { Linux.mmap(request) };
        };
        let (read, write) = match request.protection {
            Protection::None => (false, false),
            Protection::Read => (true, false),
            Protection::ReadWrite => (true, true),
        };
        let (fixed, len) = (request.fixed, request.len);
        // Held over the call, so that nobody sees the mapping without its entry.
        let mut mapped = lock(&self.mapped);
        // SAFETY: this function's contract.
        let start = unsafe {
            self.machine
                .mmap(fixed, len, read, write, file.raw(), offset)
        };
        let start = start.map_err(errno)?;
        mapped.insert(start.as_ptr().expose_provenance(), len);
        Ok(start)
    }

    fn reserve(&self, near: usize, len: usize) -> Result<NonNull<u8>, Errno> {
        Linux.reserve(near, len)
    }

    unsafe fn munmap(&self, address: NonNull<u8>, len: usize) -> Result<(), Errno> {
        let mut mapped = lock(&self.mapped);
        if mapped.remove(&address.as_ptr().addr()).is_none() {
            // SAFETY: this function's contract: memory without a file is Linux's.
            return unsafe { Linux.munmap(address, len) };
        }
        // SAFETY: this function's contract; the mapping is the machine's.
        unsafe { self.machine.munmap(address, len) }.map_err(errno)
    }

    fn poll(&self, file: &Handle, timeout: Duration) -> Result<bool, Errno> {
        self.machine.poll(file.raw(), timeout).map_err(errno)
    }

    fn read(&self, path: &Path, limit: usize) -> Result<Vec<u8>, Errno> {
        self.machine.read(path, limit).map_err(errno)
    }

    fn list(&self, path: &Path) -> Result<Vec<String>, Errno> {
        self.machine.list(path).map_err(errno)
    }

    fn owner(&self, _: &Path) -> Result<Owner, Errno> {
        Err(Errno::NOSYS)
    }

    fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared)
    }

    fn futex_wait(&self, word: &AtomicU32, expected: u32, timeout: Duration) {
        Linux.futex_wait(word, expected, timeout);
    }

    fn futex_wake(&self, word: &AtomicU32, count: u32) {
        Linux.futex_wake(word, count);
    }

    fn now_ns(&self) -> u64 {
        Linux.now_ns()
    }
}

impl Drop for SimSystem {
    fn drop(&mut self) {
        // What a process keeps until it ends, this one does not: nobody is left who could use it.
        let mapped = std::mem::take(&mut *lock(&self.mapped));
        for (address, len) in mapped {
            if let Some(address) = NonNull::new(std::ptr::with_exposed_provenance_mut(address)) {
                // SAFETY: a mapping of the machine that was not ended; all devices hold the system, so none is left.
                let _ = unsafe { self.machine.munmap(address, len) };
            }
        }
    }
}

#[cfg(test)]
mod tests;
