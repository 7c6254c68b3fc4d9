//! Options that only machines with Qualcomm's GPUs have.

use std::fmt;

use super::{chip, cp, kgsl};
use crate::config::{ConfigError, Family, number, refused};

/// The family, for the list of them. The driver has one GPU: a second one would be another driver's.
pub(crate) static FAMILY: Family = Family {
    name: "qcom",
    chips: || chip::names().collect(),
    most_gpus: 1,
    shared: &[],
    own: &["kgsl", "hang_ms", "idle_ms"],
    set: |options, name, value| options.qcom.set(name, value),
    write: |options, f| options.qcom.write(f),
    start: |config, store| {
        let settings = kgsl::Settings {
            chip: chip::find(config.chip()).ok_or(libc::EINVAL)?,
            seed: config.seed,
            ram: config.ram,
            options: config.options.qcom,
        };
        let kernel = kgsl::Kernel::new(settings, store.clone(), &cp::processor)?;
        Ok(Box::new(kernel))
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

/// `adreno_drawobj_timeout`.
pub(crate) const HANG_MS: u32 = 2000;
/// `CONFIG_QCOM_KGSL_IDLE_TIMEOUT`.
pub(crate) const IDLE_MS: u32 = 80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) kgsl: Kgsl,
    /// Milliseconds without a retired command after which the GPU is said to hang.
    pub(crate) hang_ms: u32,
    /// Milliseconds without commands after which the GPU sleeps.
    pub(crate) idle_ms: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            kgsl: Kgsl::default(),
            hang_ms: HANG_MS,
            idle_ms: IDLE_MS,
        }
    }
}

impl Options {
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
            "hang_ms" => self.hang_ms = number(name, value, MS)?,
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
        if self.hang_ms != HANG_MS {
            write!(f, ",hang_ms={}", self.hang_ms)?;
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
        ] {
            let config: Config = text.parse().expect(text);
            assert_eq!(config.to_string(), text);
        }
        for (text, words) in [
            ("qcom-a640", "no simulated chip is called 'qcom-a640'"),
            ("qcom-a630,gpus=2", "gpus=2 is not possible"),
            ("qcom-a630,vram=64", "no option 'vram'"),
            ("qcom-a630,kgsl=broken", "kgsl=broken is not possible"),
            ("qcom-a630,hang_ms=-1", "hang_ms=-1 is not possible"),
            ("amd-gfx1100,hang_ms=1", "no option 'hang_ms'"),
        ] {
            let error = text.parse::<Config>().expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
