//! Options that only machines with AMD's GPUs have.

use std::fmt;

use super::{chip, kfd};
use crate::config::{ConfigError, Family, refused, switch};

/// What is at `/dev/kfd`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kfd {
    /// The driver.
    #[default]
    Present,
    /// No file: the driver is not loaded.
    Missing,
    /// A file that this process may not open: it is not in the group.
    Denied,
}

/// The KFD interface of Linux 6.12, which is what the checks here follow.
pub const KFD_VERSION: (u32, u32) = (1, 17);

/// The family, for the list of them.
pub(crate) static FAMILY: Family = Family {
    name: "amd",
    chips: || chip::names().collect(),
    most_gpus: 8,
    shared: &["cpu_visible_vram", "vram", "p2p"],
    own: &["kfd", "kfd_version", "exact_queues"],
    set: |options, name, value| options.amd.set(name, value),
    write: |options, f| options.amd.write(f),
    start: |config, store| Ok(Box::new(kfd::Kernel::new(config, store.clone())?)),
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) kfd: Kfd,
    pub(crate) kfd_version: (u32, u32),
    pub(crate) exact_queues: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            kfd: Kfd::default(),
            kfd_version: KFD_VERSION,
            exact_queues: true,
        }
    }
}

impl Options {
    fn set(&mut self, name: &'static str, value: &str) -> Result<(), ConfigError> {
        match name {
            "kfd" => {
                self.kfd = match value {
                    "present" => Kfd::Present,
                    "missing" => Kfd::Missing,
                    "denied" => Kfd::Denied,
                    _ => {
                        return Err(refused(name, value, "'present', 'missing' or 'denied'"));
                    }
                };
            }
            "kfd_version" => {
                let wrong = || refused(name, value, "two numbers with a dot between: 1.17");
                let (major, minor) = value.split_once('.').ok_or_else(wrong)?;
                self.kfd_version = (
                    major.parse().map_err(|_| wrong())?,
                    minor.parse().map_err(|_| wrong())?,
                );
            }
            _ => self.exact_queues = switch(name, value)?,
        }
        Ok(())
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kfd {
            Kfd::Present => {}
            Kfd::Missing => f.write_str(",kfd=missing")?,
            Kfd::Denied => f.write_str(",kfd=denied")?,
        }
        if self.kfd_version != KFD_VERSION {
            let (major, minor) = self.kfd_version;
            write!(f, ",kfd_version={major}.{minor}")?;
        }
        if !self.exact_queues {
            f.write_str(",exact_queues=off")?;
        }
        Ok(())
    }
}
