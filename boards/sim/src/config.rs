//! How a machine is made: builder and text.

use std::fmt;
use std::str::FromStr;

use crate::amd::chip;

/// Who makes the engines move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pace {
    /// A thread of the machine.
    #[default]
    Thread,
    /// Calls of [`Machine::step`](crate::machine::Machine::step): the same seed and calls give the same order.
    Manual,
}

/// How much of the video memory the host can reach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CpuVisible {
    /// All of it: a resizable BAR.
    #[default]
    All,
    /// The first 256 MiB: a plain BAR.
    Small,
    /// Nothing.
    None,
}

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

/// What a machine is made of. As text: the chip, then options in any order.
///
/// | option | values | what |
/// |---|---|---|
/// | `gpus` | 1 to 8 | GPUs, all of that chip |
/// | `seed` | below 2^64 | the order of the engines |
/// | `pace` | `thread`, `manual` | who makes them move |
/// | `cpu_visible_vram` | `all`, `small`, `none` | the BAR |
/// | `kfd` | `present`, `missing`, `denied` | what is at `/dev/kfd` |
/// | `kfd_version` | `1.17` | the version that the driver answers; its checks stay those of 1.17 |
/// | `vram`, `ram` | MiB | memory of each GPU, of the host |
/// | `p2p` | `on`, `off` | GPUs reach each other's memory |
/// | `exact_queues` | `on`, `off` | rings and pointers are whole allocations, as since Linux 6.12 |
///
/// ```
/// use hcq_sim::machine::Config;
/// let config: Config = "amd-gfx942,gpus=4,seed=7".parse()?;
/// assert_eq!(config, Config::new("amd-gfx942")?.gpus(4).seed(7));
/// assert_eq!(config.to_string(), "amd-gfx942,gpus=4,seed=7");
/// # Ok::<(), hcq_sim::machine::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub(crate) chip: &'static str,
    pub(crate) gpus: u32,
    pub(crate) seed: u64,
    pub(crate) pace: Pace,
    pub(crate) cpu_visible: CpuVisible,
    pub(crate) kfd: Kfd,
    pub(crate) kfd_version: (u32, u32),
    pub(crate) vram: u64,
    pub(crate) ram: u64,
    pub(crate) p2p: bool,
    pub(crate) exact_queues: bool,
}

/// Most GPUs of one machine.
pub const MAX_GPUS: u32 = 8;
/// The KFD interface of Linux 6.12, which is what the checks here follow.
pub const KFD_VERSION: (u32, u32) = (1, 17);
const OPTIONS: &str =
    "gpus, seed, pace, cpu_visible_vram, kfd, kfd_version, vram, ram, p2p, exact_queues";
const MIB: u64 = 1 << 20;

/// Why there is no such machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// No chip of this name.
    #[error("no simulated chip is called '{name}'; known: {known}", known = known_chips())]
    Chip {
        /// What was asked for.
        name: String,
    },
    /// No option of this name.
    #[error("a simulated machine has no option '{name}'; known: {OPTIONS}")]
    Option {
        /// What was asked for.
        name: String,
    },
    /// A value that the option does not take.
    #[error("{option}={value} is not possible: {takes}")]
    Value {
        /// The option.
        option: &'static str,
        /// The value.
        value: String,
        /// What it takes.
        takes: &'static str,
    },
    /// The host has no memory, files or threads for the machine.
    #[error("the machine cannot start: error number {errno}")]
    Host {
        /// The host's number.
        errno: i32,
    },
}

fn known_chips() -> String {
    let names: Vec<String> = chip::names().map(|name| format!("amd-{name}")).collect();
    names.join(", ")
}

impl Config {
    /// One GPU of this chip (`amd-gfx1100`), seed 0.
    ///
    /// # Errors
    /// [`ConfigError::Chip`].
    pub fn new(name: &str) -> Result<Self, ConfigError> {
        let chip = name
            .strip_prefix("amd-")
            .and_then(|target| chip::names().find(|&known| known == target))
            .ok_or_else(|| ConfigError::Chip { name: name.into() })?;
        Ok(Self {
            chip,
            gpus: 1,
            seed: 0,
            pace: Pace::default(),
            cpu_visible: CpuVisible::default(),
            kfd: Kfd::default(),
            kfd_version: KFD_VERSION,
            vram: 0,
            ram: 64 << 30,
            p2p: true,
            exact_queues: true,
        })
    }

    /// GPUs, 1 to [`MAX_GPUS`]; checked when the machine starts.
    #[must_use]
    pub fn gpus(self, gpus: u32) -> Self {
        Self { gpus, ..self }
    }

    /// What decides the order of the engines.
    #[must_use]
    pub fn seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Who makes the engines move.
    #[must_use]
    pub fn pace(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    /// How much video memory the host can reach.
    #[must_use]
    pub fn cpu_visible_vram(self, cpu_visible: CpuVisible) -> Self {
        Self {
            cpu_visible,
            ..self
        }
    }

    /// What is at `/dev/kfd`.
    #[must_use]
    pub fn kfd(self, kfd: Kfd) -> Self {
        Self { kfd, ..self }
    }

    /// The version that `AMDKFD_IOC_GET_VERSION` answers. It changes that answer only.
    #[must_use]
    pub fn kfd_version(self, major: u32, minor: u32) -> Self {
        Self {
            kfd_version: (major, minor),
            ..self
        }
    }

    /// MiB of video memory of each GPU instead of the chip's own.
    #[must_use]
    pub fn vram_mib(self, mib: u32) -> Self {
        Self {
            vram: u64::from(mib) * MIB,
            ..self
        }
    }

    /// MiB of the host's memory.
    #[must_use]
    pub fn ram_mib(self, mib: u32) -> Self {
        Self {
            ram: u64::from(mib) * MIB,
            ..self
        }
    }

    /// Whether GPUs reach each other's memory.
    #[must_use]
    pub fn p2p(self, p2p: bool) -> Self {
        Self { p2p, ..self }
    }

    /// Whether a queue's ring and pointers must be whole allocations of their own, as since Linux 6.12.
    #[must_use]
    pub fn exact_queues(self, exact_queues: bool) -> Self {
        Self {
            exact_queues,
            ..self
        }
    }

    /// The chip's LLVM name: `gfx1100`.
    pub fn chip(&self) -> &'static str {
        self.chip
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let value = |option, value: u64, takes| ConfigError::Value {
            option,
            value: value.to_string(),
            takes,
        };
        if self.gpus == 0 || self.gpus > MAX_GPUS {
            return Err(value("gpus", self.gpus.into(), GPUS));
        }
        if self.ram < 64 * MIB {
            return Err(value("ram", self.ram / MIB, RAM));
        }
        Ok(())
    }
}

const GPUS: &str = "a number from 1 to 8";
const SEED: &str = "a number below 2^64";
const PACE: &str = "'thread' or 'manual'";
const VISIBLE: &str = "'all', 'small' or 'none'";
const KFD: &str = "'present', 'missing' or 'denied'";
const VERSION: &str = "two numbers with a dot between: 1.17";
const VRAM: &str = "a number of MiB";
const RAM: &str = "a number of MiB, at least 64";
const SWITCH: &str = "'on' or 'off'";

fn number<T: FromStr>(
    option: &'static str,
    value: &str,
    takes: &'static str,
) -> Result<T, ConfigError> {
    value.parse().map_err(|_| refused(option, value, takes))
}

fn refused(option: &'static str, value: &str, takes: &'static str) -> ConfigError {
    ConfigError::Value {
        option,
        value: value.into(),
        takes,
    }
}

fn switch(option: &'static str, value: &str) -> Result<bool, ConfigError> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(refused(option, value, SWITCH)),
    }
}

impl FromStr for Config {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut parts = text.split(',');
        let mut config = Self::new(parts.next().unwrap_or_default())?;
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            config = match name {
                "gpus" => config.gpus(number("gpus", value, GPUS)?),
                "seed" => config.seed(number("seed", value, SEED)?),
                "pace" => config.pace(match value {
                    "thread" => Pace::Thread,
                    "manual" => Pace::Manual,
                    _ => return Err(refused("pace", value, PACE)),
                }),
                "cpu_visible_vram" => config.cpu_visible_vram(match value {
                    "all" => CpuVisible::All,
                    "small" => CpuVisible::Small,
                    "none" => CpuVisible::None,
                    _ => return Err(refused("cpu_visible_vram", value, VISIBLE)),
                }),
                "kfd" => config.kfd(match value {
                    "present" => Kfd::Present,
                    "missing" => Kfd::Missing,
                    "denied" => Kfd::Denied,
                    _ => return Err(refused("kfd", value, KFD)),
                }),
                "kfd_version" => {
                    let wrong = || refused("kfd_version", value, VERSION);
                    let (major, minor) = value.split_once('.').ok_or_else(wrong)?;
                    config.kfd_version(
                        major.parse().map_err(|_| wrong())?,
                        minor.parse().map_err(|_| wrong())?,
                    )
                }
                "vram" => config.vram_mib(number("vram", value, VRAM)?),
                "ram" => config.ram_mib(number("ram", value, RAM)?),
                "p2p" => config.p2p(switch("p2p", value)?),
                "exact_queues" => config.exact_queues(switch("exact_queues", value)?),
                _ => return Err(ConfigError::Option { name: name.into() }),
            };
        }
        config.check()?;
        Ok(config)
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "amd-{},gpus={},seed={}", self.chip, self.gpus, self.seed)?;
        let off = |on: bool| if on { "on" } else { "off" };
        if self.pace == Pace::Manual {
            f.write_str(",pace=manual")?;
        }
        match self.cpu_visible {
            CpuVisible::All => {}
            CpuVisible::Small => f.write_str(",cpu_visible_vram=small")?,
            CpuVisible::None => f.write_str(",cpu_visible_vram=none")?,
        }
        match self.kfd {
            Kfd::Present => {}
            Kfd::Missing => f.write_str(",kfd=missing")?,
            Kfd::Denied => f.write_str(",kfd=denied")?,
        }
        if self.kfd_version != KFD_VERSION {
            write!(
                f,
                ",kfd_version={}.{}",
                self.kfd_version.0, self.kfd_version.1
            )?;
        }
        if self.vram != 0 {
            write!(f, ",vram={}", self.vram / MIB)?;
        }
        if self.ram != 64 << 30 {
            write!(f, ",ram={}", self.ram / MIB)?;
        }
        if !self.p2p {
            write!(f, ",p2p={}", off(self.p2p))?;
        }
        if !self.exact_queues {
            write!(f, ",exact_queues={}", off(self.exact_queues))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_builder_say_the_same() {
        for text in [
            "amd-gfx1100,gpus=1,seed=0",
            "amd-gfx942,gpus=8,seed=18446744073709551615,pace=manual",
            "amd-gfx1201,gpus=2,seed=3,cpu_visible_vram=small,kfd=denied,kfd_version=1.14",
            "amd-gfx1151,gpus=1,seed=0,cpu_visible_vram=none,kfd=missing,vram=64,ram=128,p2p=off,exact_queues=off",
        ] {
            let config: Config = text.parse().expect(text);
            assert_eq!(config.to_string(), text);
        }
        let built = Config::new("amd-gfx1100")
            .expect("known")
            .vram_mib(5)
            .kfd_version(1, 2)
            .p2p(false);
        assert_eq!(built.to_string().parse(), Ok(built));
        assert_eq!(
            "amd-gfx1100".parse::<Config>().expect("known").chip(),
            "gfx1100"
        );
    }

    #[test]
    fn mistakes_are_told_with_what_is_known() {
        for (text, words) in [
            (
                "",
                "no simulated chip is called ''; known: amd-gfx942, amd-gfx950, amd-gfx1100, amd-gfx1151, amd-gfx1201",
            ),
            (
                "amd-gfx803",
                "no simulated chip is called 'amd-gfx803'; known: amd-gfx942",
            ),
            ("gfx1100", "no simulated chip is called 'gfx1100'"),
            (
                "amd-gfx1100,gpu=2",
                "no option 'gpu'; known: gpus, seed, pace",
            ),
            ("amd-gfx1100,", "no option ''"),
            (
                "amd-gfx1100,gpus",
                "gpus= is not possible: a number from 1 to 8",
            ),
            ("amd-gfx1100,gpus=0", "gpus=0 is not possible"),
            ("amd-gfx1100,gpus=9", "gpus=9 is not possible"),
            ("amd-gfx1100,seed=-1", "seed=-1 is not possible"),
            (
                "amd-gfx1100,pace=fast",
                "pace=fast is not possible: 'thread' or 'manual'",
            ),
            (
                "amd-gfx1100,kfd_version=1",
                "kfd_version=1 is not possible: two numbers",
            ),
            (
                "amd-gfx1100,kfd_version=1.x",
                "kfd_version=1.x is not possible",
            ),
            ("amd-gfx1100,ram=63", "ram=63 is not possible"),
            (
                "amd-gfx1100,p2p=yes",
                "p2p=yes is not possible: 'on' or 'off'",
            ),
        ] {
            let error = text.parse::<Config>().expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
        let error =
            crate::machine::Machine::new(Config::new("amd-gfx1100").expect("known").gpus(0));
        assert!(matches!(
            error,
            Err(ConfigError::Value { option: "gpus", .. })
        ));
    }
}
