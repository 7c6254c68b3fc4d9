//! Options that only machines with NVIDIA's GPUs have.

use std::fmt;

use hcq_uapi::nv::{Abi, Version};

use super::{Nv, chip};
use crate::config::{ConfigError, Family, refused};

/// The driver of a machine that says nothing else.
pub(crate) const VERSION: Version = Version {
    major: 580,
    minor: 95,
    patch: Some(5),
};

/// The family, for the list of them.
pub(crate) static FAMILY: Family = Family {
    name: "nv",
    chips: || chip::names().collect(),
    most_gpus: 8,
    shared: &["cpu_visible_vram", "vram", "p2p"],
    own: &["driver"],
    set: |options, name, value| options.nv.set(name, value),
    write: |options, f| options.nv.write(f),
    start: |config, store| Ok(Box::new(Nv::new(config, store)?)),
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) driver: Version,
}

impl Default for Options {
    fn default() -> Self {
        Self { driver: VERSION }
    }
}

impl Options {
    fn set(&mut self, name: &'static str, value: &str) -> Result<(), ConfigError> {
        const TAKES: &str = "the version of a driver whose interface is known, such as 580.95.05";
        let version = value.parse().map_err(|_| refused(name, value, TAKES))?;
        Abi::of(version).map_err(|_| refused(name, value, TAKES))?;
        self.driver = version;
        Ok(())
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.driver == VERSION {
            return Ok(());
        }
        write!(f, ",driver={}", self.driver)
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn a_machine_has_the_driver_that_it_is_told() {
        for text in [
            "nv-ampere,gpus=1,seed=0",
            "nv-blackwell,gpus=8,seed=3,pace=manual,driver=535.288.01",
            "nv-hopper,gpus=2,seed=0,p2p=off,driver=565.77",
        ] {
            let config: Config = text.parse().expect(text);
            assert_eq!(config.to_string(), text);
        }
        for (text, words) in [
            (
                "nv-ampere,driver=470.256.02",
                "driver=470.256.02 is not possible",
            ),
            ("nv-ampere,driver=", "driver= is not possible"),
            ("nv-ampere,kfd=missing", "has no option 'kfd'"),
            ("nv-volta", "no simulated chip is called 'nv-volta'"),
            ("amd-gfx1100,driver=580.95.05", "has no option 'driver'"),
        ] {
            let error = text.parse::<Config>().expect_err(text).to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
