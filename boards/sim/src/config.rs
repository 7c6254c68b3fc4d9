//! How a machine is made: builder and text.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

pub use crate::amd::options::{KFD_VERSION, Kfd};

use crate::amd;
use crate::machine::{Driver, Store};
use crate::nv;
use crate::qcom;

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

/// Makes a driver of what a configuration says, with this memory. Errors are the host's.
type Start = fn(&Config, &Arc<Store>) -> Result<Box<dyn Driver>, i32>;

/// GPUs of one vendor, and how a machine gets them.
pub(crate) struct Family {
    /// What names of its chips begin with, before a dash.
    pub(crate) name: &'static str,
    /// Its chips, without that.
    pub(crate) chips: fn() -> Vec<&'static str>,
    /// GPUs that one machine can have.
    pub(crate) most_gpus: u32,
    /// Which it takes of the options that several families have, those of cards with memory of their own: `cpu_visible_vram`,
    /// `vram`, `p2p`.
    pub(crate) shared: &'static [&'static str],
    /// Its own options.
    pub(crate) own: &'static [&'static str],
    /// Sets one of its own.
    pub(crate) set: fn(&mut Options, &'static str, &str) -> Result<(), ConfigError>,
    /// Writes its own that are not as usual, each with a comma before it.
    pub(crate) write: fn(&Options, &mut fmt::Formatter<'_>) -> fmt::Result,
    /// Makes its driver.
    pub(crate) start: Start,
}

/// The families. A new one has a line here and a line in [`Options`].
static FAMILIES: &[&Family] = &[
    &amd::options::FAMILY,
    &nv::options::FAMILY,
    &qcom::options::FAMILY,
];

/// What only one family has; of the others it stays as usual.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) amd: amd::options::Options,
    pub(crate) nv: nv::options::Options,
    pub(crate) qcom: qcom::options::Options,
}

/// Options of every machine.
const COMMON: &[&str] = &["gpus", "seed", "pace", "ram"];

impl Family {
    fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        let all = [COMMON, self.shared, self.own];
        all.into_iter().flatten().copied()
    }

    fn option(&self, name: &str) -> Result<&'static str, ConfigError> {
        let known = self.names().find(|&known| known == name);
        known.ok_or_else(|| ConfigError::Option {
            name: name.into(),
            family: self.name,
            known: self.names().collect::<Vec<_>>().join(", "),
        })
    }
}

impl PartialEq for Family {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Family {}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// What a machine is made of. As text: the chip, then options in any order.
///
/// | option | values | what | GPUs |
/// |---|---|---|---|
/// | `gpus` | 1 to 8 | GPUs, all of that chip | all |
/// | `seed` | below 2^64 | the order of the engines | all |
/// | `pace` | `thread`, `manual` | who makes them move | all |
/// | `ram` | MiB | memory of the host | all |
/// | `vram` | MiB | memory of each GPU | `amd`, `nv` |
/// | `cpu_visible_vram` | `all`, `small`, `none` | the BAR | `amd`, `nv` |
/// | `p2p` | `on`, `off` | GPUs reach each other's memory | `amd`, `nv` |
/// | `kfd` | `present`, `missing`, `denied` | what is at `/dev/kfd` | `amd` |
/// | `kfd_version` | `1.17` | the version that the driver answers; its checks stay those of 1.17 | `amd` |
/// | `exact_queues` | `on`, `off` | rings and pointers are whole allocations, as since Linux 6.12 | `amd` |
/// | `driver` | `580.95.05` | the version of the driver; its branch decides how long arguments are | `nv` |
/// | `kgsl` | `present`, `missing`, `denied` | what is at `/dev/kgsl-3d0` | `qcom` |
/// | `msm` | `missing`, `present`, `denied`, `bare` | what is at `/dev/dri/renderD128`; unless it is missing, there is no `/dev/kgsl-3d0`. A bare driver has not found the GPU's firmware | `qcom` |
/// | `msm_version` | `1.0` to `1.9` | the version that msm answers; its checks stay those of 1.9 | `qcom` |
/// | `hang_ms` | milliseconds | without a finished command, after which the GPU is said to hang; of msm, between two looks whether it does | `qcom` |
/// | `idle_ms` | milliseconds | without commands, after which the GPU sleeps | `qcom` |
///
/// An option that the GPUs do not have is refused; of the builder, when the machine starts.
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
    family: &'static Family,
    chip: &'static str,
    pub(crate) gpus: u32,
    pub(crate) seed: u64,
    pub(crate) pace: Pace,
    /// Bytes.
    pub(crate) ram: u64,
    /// Bytes; 0: the chip's own.
    pub(crate) vram: u64,
    pub(crate) cpu_visible: CpuVisible,
    pub(crate) p2p: bool,
    pub(crate) options: Options,
    /// An option that was set though the family does not have it.
    foreign: Option<&'static str>,
}

/// Most GPUs of one machine; some families have fewer.
pub const MAX_GPUS: u32 = 8;
const MIB: u64 = 1 << 20;
const RAM_BYTES: u64 = 64 << 30;

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
    #[error("a simulated machine with GPUs of {family} has no option '{name}'; known: {known}")]
    Option {
        /// What was asked for.
        name: String,
        /// The GPUs, as the first part of a chip's name.
        family: &'static str,
        /// What such a machine has.
        known: String,
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
    let full = |family: &Family, chip| format!("{}-{chip}", family.name);
    let all = |family: &&'static Family| {
        let family: &'static Family = family;
        (family.chips)()
            .into_iter()
            .map(move |chip| full(family, chip))
    };
    FAMILIES.iter().flat_map(all).collect::<Vec<_>>().join(", ")
}

impl Config {
    /// One GPU of this chip (`amd-gfx1100`), seed 0.
    ///
    /// # Errors
    /// [`ConfigError::Chip`].
    pub fn new(name: &str) -> Result<Self, ConfigError> {
        let find = |family: &&'static Family| {
            let chip = name.strip_prefix(family.name)?.strip_prefix('-')?;
            let chip = (family.chips)().into_iter().find(|&known| known == chip)?;
            Some((*family, chip))
        };
        let found = FAMILIES.iter().find_map(find);
        let (family, chip) = found.ok_or_else(|| ConfigError::Chip { name: name.into() })?;
        Ok(Self {
            family,
            chip,
            gpus: 1,
            seed: 0,
            pace: Pace::default(),
            ram: RAM_BYTES,
            vram: 0,
            cpu_visible: CpuVisible::default(),
            p2p: true,
            options: Options::default(),
            foreign: None,
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

    /// MiB of the host's memory.
    #[must_use]
    pub fn ram_mib(self, mib: u32) -> Self {
        Self {
            ram: u64::from(mib) * MIB,
            ..self
        }
    }

    /// Remembers that an option was set, if the family does not have it.
    fn sets(mut self, option: &'static str) -> Self {
        if self.family.option(option).is_err() {
            self.foreign.get_or_insert(option);
        }
        self
    }

    /// MiB of video memory of each GPU instead of the chip's own.
    #[must_use]
    pub fn vram_mib(self, mib: u32) -> Self {
        Self {
            vram: u64::from(mib) * MIB,
            ..self.sets("vram")
        }
    }

    /// How much video memory the host can reach.
    #[must_use]
    pub fn cpu_visible_vram(self, cpu_visible: CpuVisible) -> Self {
        Self {
            cpu_visible,
            ..self.sets("cpu_visible_vram")
        }
    }

    /// Whether GPUs reach each other's memory.
    #[must_use]
    pub fn p2p(self, p2p: bool) -> Self {
        Self {
            p2p,
            ..self.sets("p2p")
        }
    }

    /// What is at `/dev/kfd`.
    #[must_use]
    pub fn kfd(mut self, kfd: Kfd) -> Self {
        self.options.amd.kfd = kfd;
        self.sets("kfd")
    }

    /// The version that `AMDKFD_IOC_GET_VERSION` answers. It changes that answer only.
    #[must_use]
    pub fn kfd_version(mut self, major: u32, minor: u32) -> Self {
        self.options.amd.kfd_version = (major, minor);
        self.sets("kfd_version")
    }

    /// Whether a queue's ring and pointers must be whole allocations of their own, as since Linux 6.12.
    #[must_use]
    pub fn exact_queues(mut self, exact_queues: bool) -> Self {
        self.options.amd.exact_queues = exact_queues;
        self.sets("exact_queues")
    }

    /// The chip's name without its family's: of AMD's the LLVM name, `gfx1100`.
    pub fn chip(&self) -> &'static str {
        self.chip
    }

    /// Makes the driver. Errors are the host's.
    pub(crate) fn start(&self, store: &Arc<Store>) -> Result<Box<dyn Driver>, i32> {
        (self.family.start)(self, store)
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if let Some(foreign) = self.foreign {
            self.family.option(foreign)?;
        }
        let gpus = self.gpus.to_string();
        if self.gpus == 0 || self.gpus > MAX_GPUS {
            return Err(refused("gpus", &gpus, GPUS));
        }
        if self.gpus > self.family.most_gpus {
            return Err(refused("gpus", &gpus, FEWER));
        }
        if self.ram < 64 * MIB {
            return Err(refused("ram", &(self.ram / MIB).to_string(), RAM));
        }
        Ok(())
    }

    /// Sets one option from its text.
    fn set(mut self, name: &'static str, value: &str) -> Result<Self, ConfigError> {
        Ok(match name {
            "gpus" => self.gpus(number(name, value, GPUS)?),
            "seed" => self.seed(number(name, value, "a number below 2^64")?),
            "pace" => self.pace(match value {
                "thread" => Pace::Thread,
                "manual" => Pace::Manual,
                _ => return Err(refused(name, value, "'thread' or 'manual'")),
            }),
            "ram" => self.ram_mib(number(name, value, RAM)?),
            "vram" => self.vram_mib(number(name, value, "a number of MiB")?),
            "cpu_visible_vram" => self.cpu_visible_vram(match value {
                "all" => CpuVisible::All,
                "small" => CpuVisible::Small,
                "none" => CpuVisible::None,
                _ => return Err(refused(name, value, "'all', 'small' or 'none'")),
            }),
            "p2p" => self.p2p(switch(name, value)?),
            own => {
                (self.family.set)(&mut self.options, own, value)?;
                self
            }
        })
    }
}

const GPUS: &str = "a number from 1 to 8";
const FEWER: &str = "more than a machine has of these GPUs";
const RAM: &str = "a number of MiB, at least 64";

/// A value that has the form of a number.
pub(crate) fn number<T: FromStr>(
    option: &'static str,
    value: &str,
    takes: &'static str,
) -> Result<T, ConfigError> {
    value.parse().map_err(|_| refused(option, value, takes))
}

/// A value that an option does not take.
pub(crate) fn refused(option: &'static str, value: &str, takes: &'static str) -> ConfigError {
    ConfigError::Value {
        option,
        value: value.into(),
        takes,
    }
}

/// `on` or `off`.
pub(crate) fn switch(option: &'static str, value: &str) -> Result<bool, ConfigError> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(refused(option, value, "'on' or 'off'")),
    }
}

impl FromStr for Config {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let mut parts = text.split(',');
        let mut config = Self::new(parts.next().unwrap_or_default())?;
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let name = config.family.option(name)?;
            config = config.set(name, value)?;
        }
        config.check()?;
        Ok(config)
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (family, chip) = (self.family.name, self.chip);
        write!(f, "{family}-{chip},gpus={},seed={}", self.gpus, self.seed)?;
        if self.pace == Pace::Manual {
            f.write_str(",pace=manual")?;
        }
        if self.ram != RAM_BYTES {
            write!(f, ",ram={}", self.ram / MIB)?;
        }
        match self.cpu_visible {
            CpuVisible::All => {}
            CpuVisible::Small => f.write_str(",cpu_visible_vram=small")?,
            CpuVisible::None => f.write_str(",cpu_visible_vram=none")?,
        }
        if self.vram != 0 {
            write!(f, ",vram={}", self.vram / MIB)?;
        }
        if !self.p2p {
            f.write_str(",p2p=off")?;
        }
        (self.family.write)(&self.options, f)
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
            "amd-gfx1151,gpus=1,seed=0,ram=128,cpu_visible_vram=none,vram=64,p2p=off,kfd=missing,exact_queues=off",
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
                "no option 'gpu'; known: gpus, seed, pace, ram",
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
            (
                "amd-gfx1100,kfd=gone",
                "kfd=gone is not possible: 'present', 'missing' or 'denied'",
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
