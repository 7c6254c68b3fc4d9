//! The opened node and its properties.
#![allow(unsafe_code, reason = "properties are read by pointer")]

use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hcq_uapi::kgsl;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::advice;
use super::context;
use super::memory::Bo;
use crate::Error;
use crate::ioctl::{Plain, call_with};
use crate::qcom::driver::{Block, Caching, Calls, Clocks, Context, Driver, Facts};
use crate::seam::{Errno, Handle, Open, System};

/// The driver's node.
pub(super) const NODE: &str = "/dev/kgsl-3d0";
/// The device's name in messages.
pub(super) const NAME: &str = "qcom";

impl Plain for kgsl::kgsl_drawctxt_create {}
impl Plain for kgsl::kgsl_drawctxt_destroy {}
impl Plain for kgsl::kgsl_device_waittimestamp_ctxtid {}
impl Plain for kgsl::kgsl_cmdstream_readtimestamp_ctxtid {}
impl Plain for kgsl::kgsl_gpuobj_free {}
impl Plain for kgsl::kgsl_gpuobj_info {}

/// The node, open.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) system: Arc<dyn System>,
    /// `None` only while it is dropped.
    file: Option<Handle>,
    /// Whether the GPU was found not to look into the host's caches.
    pub(super) no_snoop: AtomicBool,
    /// Whether host and GPU were found to have no range of addresses in common.
    pub(super) own_addresses: AtomicBool,
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            self.system.close(file);
        }
    }
}

impl Node {
    pub(super) fn file(&self) -> Result<&Handle, Errno> {
        self.file.as_ref().ok_or(Errno::NODEV)
    }

    /// Makes a call.
    pub(super) fn call<A: Plain>(&self, argument: &mut A) -> Result<(), Errno> {
        crate::ioctl::call(&*self.system, self.file()?, argument)
    }

    /// Makes a call that gives something back.
    pub(super) fn give_back<A: Plain>(&self, argument: A) -> Result<(), Errno> {
        crate::ioctl::give_back(&*self.system, self.file()?, argument)
    }

    /// Reads a property that starts as `value`.
    pub(super) fn property<T: FromBytes + IntoBytes + Immutable>(
        &self,
        number: u32,
        value: &mut T,
    ) -> Result<(), Errno> {
        property(&*self.system, self.file()?, number, value)
    }

    /// Asks for the fastest clock while a context's submissions run.
    pub(super) fn constrain(&self, context: u32) -> Result<(), Errno> {
        let level = kgsl::kgsl_device_constraint_pwrlevel {
            level: kgsl::KGSL_CONSTRAINT_PWR_MAX,
        };
        let constraint = kgsl::kgsl_device_constraint {
            r#type: kgsl::KGSL_CONSTRAINT_PWRLEVEL,
            context_id: context,
            data: std::ptr::from_ref(&level).expose_provenance() as u64,
            size: size_of_val(&level) as u64,
        };
        let mut argument = kgsl::kgsl_device_setproperty {
            r#type: kgsl::KGSL_PROP_PWR_CONSTRAINT,
            value: std::ptr::from_ref(&constraint).expose_provenance() as u64,
            sizebytes: size_of_val(&constraint) as u64,
            ..Default::default()
        };
        // SAFETY: both addresses are of structs that live during the call, with their sizes, which the call only reads.
        unsafe { call_with(&*self.system, self.file()?, &mut argument) }
    }

    /// A call that was refused.
    pub(super) fn failed(operation: &str, errno: Errno, hint: &str) -> Error {
        Error::Driver {
            device: NAME.into(),
            operation: operation.into(),
            errno,
            hint: hint.into(),
        }
    }
}

/// Reads a property that starts as `value`.
fn property<T: FromBytes + IntoBytes + Immutable>(
    system: &dyn System,
    file: &Handle,
    number: u32,
    value: &mut T,
) -> Result<(), Errno> {
    let mut argument = kgsl::kgsl_device_getproperty {
        r#type: number,
        value: std::ptr::from_mut(value).expose_provenance() as u64,
        sizebytes: size_of::<T>() as u64,
        ..Default::default()
    };
    // SAFETY: the one address is that of `value`, which has as many bytes as it says, any of which are valid.
    unsafe { call_with(system, file, &mut argument) }
}

/// An operation that was refused, and the answer.
pub(super) type Refused = (&'static str, Errno);

/// Opens the node and asks what the GPU is.
pub(super) fn open(system: &dyn System) -> Result<(Handle, Facts), Refused> {
    let file = system
        .open(Path::new(NODE), Open::ReadWrite)
        .map_err(|errno| ("open", errno))?;
    match facts(system, &file) {
        Ok(facts) => Ok((file, facts)),
        Err(errno) => {
            system.close(file);
            Err(("GETPROPERTY(DEVICE_INFO)", errno))
        }
    }
}

fn facts(system: &dyn System, file: &Handle) -> Result<Facts, Errno> {
    let mut info = kgsl::kgsl_devinfo::default();
    property(system, file, kgsl::KGSL_PROP_DEVICE_INFO, &mut info)?;
    // Older kernels have no name.
    let mut model = kgsl::kgsl_gpu_model::default();
    let named = property(system, file, kgsl::KGSL_PROP_GPU_MODEL, &mut model).is_ok();
    let text = model
        .gpu_model
        .split(|b| *b == 0)
        .next()
        .unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let name =
        (named && !text.is_empty()).then(|| text.chars().filter(|c| !c.is_control()).collect());
    Ok(Facts {
        name,
        chip: info.chip_id,
        tile_bytes: info.gmem_sizebytes,
    })
}

/// Whether an answer says that there is no such node.
pub(super) const fn is_absent(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NODEV | Errno::NXIO)
}

fn cannot_open(system: &dyn System, errno: Errno) -> Error {
    Error::Unavailable {
        name: NAME.into(),
        reason: format!("{NODE} cannot be opened: {errno}"),
        hint: advice::open(system, errno),
    }
}

/// The calls that submissions are made of.
static CALLS: Calls = Calls {
    driver: "kgsl",
    submit: "GPU_COMMAND",
    flush: "GPUOBJ_SYNC",
};

/// An opened GPU.
#[derive(Debug)]
pub(crate) struct Device {
    node: Arc<Node>,
    facts: Facts,
}

impl Device {
    /// Opens the GPU; `None` if there is no node.
    pub(crate) fn find(system: &Arc<dyn System>) -> Result<Option<Self>, Error> {
        match open(&**system) {
            Ok((file, facts)) => Ok(Some(Self {
                node: Arc::new(Node {
                    system: Arc::clone(system),
                    file: Some(file),
                    no_snoop: AtomicBool::new(false),
                    own_addresses: AtomicBool::new(false),
                }),
                facts,
            })),
            Err(("open", errno)) if is_absent(errno) => Ok(None),
            Err(("open", errno)) => Err(cannot_open(&**system, errno)),
            Err((operation, errno)) => Err(Node::failed(operation, errno, advice::FOREIGN)),
        }
    }

    /// The same where there has to be one.
    pub(crate) fn open(system: &Arc<dyn System>) -> Result<Self, Error> {
        let found = Self::find(system)?;
        found.ok_or_else(|| cannot_open(&**system, Errno::NOENT))
    }
}

impl Driver for Device {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn calls(&self) -> &'static Calls {
        &CALLS
    }

    fn system(&self) -> &Arc<dyn System> {
        &self.node.system
    }

    fn allocate(&self, bytes: usize, caching: Caching) -> Result<Box<dyn Block>, Error> {
        Ok(Box::new(Bo::allocate(&self.node, bytes, caching)?))
    }

    fn import(
        &self,
        cpu: NonNull<u8>,
        bytes: usize,
        writable: bool,
    ) -> Result<Box<dyn Block>, Error> {
        Ok(Box::new(Bo::import(&self.node, cpu, bytes, writable)?))
    }

    fn snoops(&self) -> bool {
        // The kernel says so with the first object that asks for it.
        let asked = Bo::allocate(&self.node, 1, Caching::Cached);
        asked.is_ok() && !self.node.no_snoop.load(Ordering::Relaxed)
    }

    fn context(&self, fast: bool) -> Result<Arc<dyn Context>, Error> {
        Ok(Arc::new(context::new(&self.node, fast)?))
    }

    fn clocks(&self) -> Option<Clocks> {
        let sources = [
            kgsl::KGSL_CALIBRATED_TIME_DOMAIN_DEVICE,
            kgsl::KGSL_CALIBRATED_TIME_DOMAIN_MONOTONIC,
        ];
        let mut times = [0u64; 2];
        let mut argument = kgsl::kgsl_read_calibrated_timestamps {
            sources: sources.as_ptr().expose_provenance() as u64,
            ts: times.as_mut_ptr().expose_provenance() as u64,
            count: 2,
            ..Default::default()
        };
        let file = self.node.file().ok()?;
        // SAFETY: both addresses are of lists with as many entries as it says; the second is written.
        unsafe { call_with(&*self.node.system, file, &mut argument) }.ok()?;
        let [ticks, ns] = times;
        (ticks != 0).then_some(Clocks {
            ticks,
            ns,
            error_ns: argument.deviation,
        })
    }
}
