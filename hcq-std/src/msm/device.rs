//! The opened GPU.

use std::ptr::NonNull;
use std::sync::Arc;

use super::memory::{Bo, Pages};
use super::node::{self, Looked, NAME, Node};
use super::{advice, queue};
use crate::Error;
use crate::qcom::driver::{Block, Caching, Calls, Clocks, Context, Driver, Facts};
use crate::seam::System;

/// The calls that submissions are made of.
static CALLS: Calls = Calls {
    driver: "msm",
    submit: "GEM_SUBMIT",
    flush: "GEM_CPU_PREP",
};

/// An opened GPU.
#[derive(Debug)]
pub(crate) struct Device {
    node: Arc<Node>,
    facts: Facts,
}

impl Device {
    /// Opens the GPU: the first render node that is one.
    pub(crate) fn open(system: &Arc<dyn System>) -> Result<Self, Error> {
        let mut refused = None;
        for path in node::paths(&**system) {
            match node::look(&**system, &path) {
                Looked::Foreign => {}
                Looked::Refused(why) => {
                    refused.get_or_insert((path, why));
                }
                Looked::Gpu(gpu) => {
                    let (node, facts) = gpu.node(system);
                    return Ok(Self { node, facts });
                }
            }
        }
        let (reason, hint) = match refused {
            Some((path, why)) => (
                match why {
                    ("open", errno) => format!("{path} cannot be opened: {errno}"),
                    (operation, errno) => format!("{path}: {operation} failed: {errno}"),
                },
                advice::open(&**system, &path, why),
            ),
            None => (
                "there is no GPU behind Linux' driver msm".into(),
                "use `qcom`, for kernels with kgsl".into(),
            ),
        };
        Err(Error::Unavailable {
            name: NAME.into(),
            reason,
            hint,
        })
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
        if writable {
            return Err(Error::Unavailable {
                name: NAME.into(),
                reason: "Linux' driver msm takes no memory of the process".into(),
                hint: "copy it into a buffer of the device, or use a kernel with kgsl".into(),
            });
        }
        Ok(Box::new(Pages::new(cpu, bytes)))
    }

    fn snoops(&self) -> bool {
        // Not into those of pages that it is never given.
        false
    }

    fn runs_on(&self) -> bool {
        true
    }

    fn context(&self, fast: bool) -> Result<Arc<dyn Context>, Error> {
        if fast {
            return Err(Error::Unavailable {
                name: format!("{NAME},fast"),
                reason: "Linux' driver msm has no way to ask for the fastest clock".into(),
                hint:
                    "leave `fast` out; the system's administrator sets limits in /sys/class/devfreq"
                        .into(),
            });
        }
        Ok(Arc::new(queue::new(&self.node)?))
    }

    fn clocks(&self) -> Option<Clocks> {
        let system = &*self.node.system;
        let before = system.now_ns();
        let ticks = self
            .node
            .parameter(hcq_uapi::msm::MSM_PARAM_TIMESTAMP)
            .ok()?;
        let after = system.now_ns();
        (ticks != 0).then_some(Clocks {
            ticks,
            ns: before / 2 + after / 2,
            error_ns: after.saturating_sub(before).div_ceil(2),
        })
    }
}
