//! Which devices there are, which there are not, and why.

use std::fmt;
use std::sync::Arc;

use crate::backend::{Backend, Port};
use crate::cpu::Cpu;
use crate::name::{self, Name};
use crate::seam::{Errno, Linux, System};
use crate::{Error, Options, amd, kfd, nv, qcom};

/// A device that there may be.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The name to open it by.
    pub name: String,
    /// Whether it can be opened.
    pub ready: bool,
    /// What it is, or why it cannot be opened.
    pub description: String,
    /// What was tried, in order.
    pub attempts: Vec<Attempt>,
}

/// One thing that was tried to find a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The path.
    pub path: String,
    /// What was done with it.
    pub operation: &'static str,
    /// The system's answer; `None` if it succeeded.
    pub errno: Option<Errno>,
    /// What a person can do; empty if there is nothing to do.
    pub hint: String,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno {
            None => write!(f, "{} {}: ok", self.operation, self.path)?,
            Some(errno) => write!(f, "{} {}: {errno}", self.operation, self.path)?,
        }
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        Ok(())
    }
}

/// What can be opened, and what cannot and why, on this system.
///
/// ```
/// for device in hcq_std::devices() {
///     println!("{}: {}", device.name, device.description);
///     for attempt in &device.attempts {
///         println!("    {attempt}");
///     }
/// }
/// ```
pub fn devices() -> Vec<Candidate> {
    devices_on(&Linux)
}

/// [`devices`], as another system answers.
pub fn devices_on(system: &dyn System) -> Vec<Candidate> {
    let options = Options::default();
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get());
    let description = format!(
        "{processors} processors; {} compute and {} copy queues, {} helper threads by default",
        options.compute_queues, options.copy_queues, options.helper_threads
    );
    let cpu = Candidate {
        name: "cpu".into(),
        ready: true,
        description,
        attempts: Vec::new(),
    };
    let mut all = vec![cpu];
    all.extend(kfd::candidates(system));
    all.extend(nv::candidates(system));
    all.push(qcom::candidate(system));
    all
}

/// A device and the host's half of its rings.
type Opened = (Arc<dyn Backend>, Box<dyn Port>);

/// Opens a device by name.
pub(crate) fn open(text: &str, options: &Options) -> Result<Opened, Error> {
    let name = Name::parse(text)?;
    let simulated;
    let options = match &name.machine {
        None => options,
        Some(machine) => {
            simulated = simulate(text, machine, options)?;
            &simulated
        }
    };
    if name.family == "cpu" {
        let (cpu, port) = Cpu::open(options)?;
        return Ok((Arc::new(cpu), port));
    }
    if name.family == "nv" {
        let process = nv::Process::open(&options.system)?;
        return nv::open(&process, name.ordinal, options);
    }
    if name.family == "qcom" {
        return qcom::open(name.ordinal, name.fast, name.msm, options);
    }
    let process = kfd::Process::open(&options.system)?;
    amd::open(&process, name.ordinal, name.aql, options)
}

/// Simulated machines by their text, for devices that are opened together.
#[derive(Default)]
pub(crate) struct Machines {
    #[cfg(feature = "sim")]
    known: std::collections::BTreeMap<String, Arc<dyn System>>,
}

impl Machines {
    /// The options with the machine that a name asks for, the same for each name that asks for it.
    #[cfg(feature = "sim")]
    pub(crate) fn options(&mut self, text: &str, options: &Options) -> Result<Options, Error> {
        let name = Name::parse(text)?;
        let Some(machine) = &name.machine else {
            return Ok(options.clone());
        };
        if crate::sim::config_of(&*options.system).is_some() {
            // The caller's own; opening says whether it will do.
            return Ok(options.clone());
        }
        let key = machine.text();
        let system = match self.known.get(&key) {
            Some(system) => Arc::clone(system),
            None => {
                let system = crate::sim::machine(&key)?;
                self.known.insert(key, Arc::clone(&system));
                system
            }
        };
        Ok(options.clone().system(system))
    }

    #[cfg(not(feature = "sim"))]
    pub(crate) fn options(&mut self, _: &str, options: &Options) -> Result<Options, Error> {
        Ok(options.clone())
    }
}

/// The options with the machine that a name asks for: that of the options if it is one, else a new one.
#[cfg(feature = "sim")]
fn simulate(text: &str, machine: &name::Machine<'_>, options: &Options) -> Result<Options, Error> {
    use crate::sim;
    let Some(there) = sim::config_of(&*options.system) else {
        return Ok(options.clone().system(sim::machine(&machine.text())?));
    };
    match sim::contradiction(machine, &there)? {
        None => Ok(options.clone()),
        Some(reason) => Err(Error::Unavailable {
            name: text.into(),
            reason,
            hint: "name the device as `amd:N`, or open it without Options::system".into(),
        }),
    }
}

#[cfg(not(feature = "sim"))]
fn simulate(text: &str, _: &name::Machine<'_>, _: &Options) -> Result<Options, Error> {
    Err(Error::UnknownDevice {
        name: text.into(),
        known: name::known(),
    })
}
