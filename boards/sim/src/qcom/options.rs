//! Options that only machines with Qualcomm's GPUs have.

use std::fmt;
use std::time::Duration;

use super::{chip, cp, kgsl, msm};
use crate::config::{ConfigError, Family, number, refused};

/// The family, for the list of them. The driver has one GPU: a second one would be another driver's.
pub(crate) static FAMILY: Family = Family {
    name: "qcom",
    chips: || chip::names().collect(),
    most_gpus: 1,
    shared: &[],
    own: &["kgsl", "msm", "msm_version", "hang_ms", "idle_ms"],
    set: |options, name, value| options.qcom.set(name, value),
    write: |options, f| options.qcom.write(f),
    start: |config, store| {
        let settings = kgsl::Settings {
            chip: chip::find(config.chip()).ok_or(libc::EINVAL)?,
            seed: config.seed,
            ram: config.ram,
            options: config.options.qcom,
        };
        let options = settings.options;
        // A GPU has one driver.
        Ok(if options.msm == Msm::Missing {
            Box::new(kgsl::Kernel::new(settings, store.clone(), &cp::processor)?)
        } else {
            Box::new(msm::Kernel::new(settings, store.clone(), &cp::processor)?)
        })
    },
};

/// What is at `/dev/kgsl-3d0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Kgsl {
    /// The driver.
    #[default]
    Present,
    /// No file: the driver is not loaded.
    Missing,
    /// A file that this process may not open.
    Denied,
}

/// What is at `/dev/dri/renderD128`. Unless it is missing, the GPU is its, and there is no `/dev/kgsl-3d0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Msm {
    /// The driver.
    Present,
    /// No file: the GPU's driver is kgsl.
    #[default]
    Missing,
    /// A file that this process may not open.
    Denied,
    /// The driver without the GPU, whose firmware it did not find.
    Bare,
}

/// The last version of the driver that the simulation knows.
const MSM_VERSION: (u32, u32) = (1, 9);
/// `adreno_drawobj_timeout` of kgsl.
const HANG_MS: u32 = 2000;
/// Four times `DRM_MSM_HANGCHECK_DEFAULT_PERIOD`: simulated GPUs are slow.
const MSM_HANG_MS: u32 = 2000;
/// `CONFIG_QCOM_KGSL_IDLE_TIMEOUT`.
pub(crate) const IDLE_MS: u32 = 80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) kgsl: Kgsl,
    pub(crate) msm: Msm,
    /// The version that msm answers; its checks stay those of the last one.
    pub(crate) msm_version: (u32, u32),
    /// Milliseconds without a retired command after which the GPU is said to hang, of kgsl; between two looks whether it does,
    /// of msm.
    hang_ms: Option<u32>,
    /// Milliseconds without commands after which the GPU sleeps.
    pub(crate) idle_ms: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            kgsl: Kgsl::default(),
            msm: Msm::default(),
            msm_version: MSM_VERSION,
            hang_ms: None,
            idle_ms: IDLE_MS,
        }
    }
}

impl Options {
    /// The time after which the GPU is said to hang, of kgsl; between two looks whether it does, of msm.
    pub(crate) fn hang(&self) -> Duration {
        let ms = self.hang_ms.unwrap_or(self.usual_hang_ms());
        Duration::from_millis(ms.into())
    }

    fn usual_hang_ms(&self) -> u32 {
        match self.msm {
            Msm::Missing => HANG_MS,
            _ => MSM_HANG_MS,
        }
    }

    fn set(&mut self, name: &'static str, value: &str) -> Result<(), ConfigError> {
        const MS: &str = "a number of milliseconds";
        match name {
            "kgsl" => {
                self.kgsl = match value {
                    "present" => Kgsl::Present,
                    "missing" => Kgsl::Missing,
                    "denied" => Kgsl::Denied,
                    _ => return Err(refused(name, value, "'present', 'missing' or 'denied'")),
                };
            }
            "msm" => {
                self.msm = match value {
                    "present" => Msm::Present,
                    "missing" => Msm::Missing,
                    "denied" => Msm::Denied,
                    "bare" => Msm::Bare,
                    _ => {
                        let takes = "'present', 'missing', 'denied' or 'bare'";
                        return Err(refused(name, value, takes));
                    }
                };
            }
            "msm_version" => {
                let takes = "a version of the driver, 1.0 to 1.9";
                let parts = value.split_once('.');
                let version = parts
                    .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
                let known = version.filter(|v| v.0 == MSM_VERSION.0 && *v <= MSM_VERSION);
                self.msm_version = known.ok_or_else(|| refused(name, value, takes))?;
            }
            "hang_ms" => self.hang_ms = Some(number(name, value, MS)?),
            _ => self.idle_ms = number(name, value, MS)?,
        }
        Ok(())
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kgsl {
            Kgsl::Present => {}
            Kgsl::Missing => f.write_str(",kgsl=missing")?,
            Kgsl::Denied => f.write_str(",kgsl=denied")?,
        }
        match self.msm {
            Msm::Missing => {}
            Msm::Present => f.write_str(",msm=present")?,
            Msm::Denied => f.write_str(",msm=denied")?,
            Msm::Bare => f.write_str(",msm=bare")?,
        }
        if self.msm_version != MSM_VERSION {
            let (major, minor) = self.msm_version;
            write!(f, ",msm_version={major}.{minor}")?;
        }
        if let Some(ms) = self.hang_ms.filter(|&ms| ms != self.usual_hang_ms()) {
            write!(f, ",hang_ms={ms}")?;
        }
        if self.idle_ms != IDLE_MS {
            write!(f, ",idle_ms={}", self.idle_ms)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn options_are_written_as_they_are_read() {
        for text in [
            "qcom-a630,gpus=1,seed=0",
            "qcom-a650,gpus=1,seed=7,kgsl=denied",
            "qcom-a660,gpus=1,seed=7,pace=manual,ram=64,kgsl=missing,hang_ms=100,idle_ms=0",
            "qcom-a630,gpus=1,seed=0,msm=present",
            "qcom-a650,gpus=1,seed=7,msm=denied,msm_version=1.4,hang_ms=100",
            "qcom-a660,gpus=1,seed=7,msm=bare",
        ] {
            let config: Config = text.parse().expect(text);
            assert_eq!(config.to_string(), text);
        }
        for (text, words) in [
            ("qcom-a640", "no simulated chip is called 'qcom-a640'"),
            ("qcom-a630,gpus=2", "gpus=2 is not possible"),
            ("qcom-a630,vram=64", "no option 'vram'"),
            ("qcom-a630,kgsl=broken", "kgsl=broken is not possible"),
            ("qcom-a630,msm=here", "msm=here is not possible"),
            ("qcom-a630,msm_version=1.10", "msm_version=1.10 is not"),
            ("qcom-a630,msm_version=2.0", "msm_version=2.0 is not"),
            ("qcom-a630,msm_version=1", "msm_version=1 is not"),
            ("qcom-a630,hang_ms=-1", "hang_ms=-1 is not possible"),
            ("amd-gfx1100,hang_ms=1", "no option 'hang_ms'"),
        ] {
            let error = text.parse::<Config>().expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
