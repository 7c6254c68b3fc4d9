//! The driver's version, and what it decides.

use core::fmt;
use core::str::FromStr;

use super::{
    NV_CHANNEL_ALLOC_PARAMS, NV_MEMORY_ALLOCATION_PARAMS, NV_VASPACE_ALLOCATION_PARAMETERS,
    NV0000_ALLOC_PARAMETERS, NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS,
    NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS, NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS,
};

/// A version of the driver: 580.95.05. Its first number is the branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// The branch.
    pub major: u16,
    /// The release in it.
    pub minor: u16,
    /// The repair of it; releases before a first repair may have none.
    pub patch: Option<u16>,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.major, self.minor)?;
        match self.patch {
            Some(patch) => write!(f, ".{patch:02}"),
            None => Ok(()),
        }
    }
}

/// A text that is no version: not two or three numbers with points between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAVersion;

impl fmt::Display for NotAVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a driver version such as 580.95.05")
    }
}

impl core::error::Error for NotAVersion {}

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let number = |part: &str| {
            let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            part.parse::<u16>().ok().filter(|_| digits)
        };
        let mut parts = text.split('.');
        let mut next = || parts.next().map(|part| number(part).ok_or(NotAVersion));
        let major = next().ok_or(NotAVersion)??;
        let minor = next().ok_or(NotAVersion)??;
        let patch = next().transpose()?;
        match parts.next() {
            None => Ok(Self {
                major,
                minor,
                patch,
            }),
            Some(_) => Err(NotAVersion),
        }
    }
}

impl Version {
    /// The version that `/proc/driver/nvidia/version` says: the first one in its first line.
    ///
    /// ```
    /// use hcq_uapi::nv::Version;
    ///
    /// let text = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (root@host)\n\
    ///             GCC version:  gcc version 13.3.0\n";
    /// assert_eq!(Version::in_proc(text).unwrap().to_string(), "580.95.05");
    /// ```
    #[must_use]
    pub fn in_proc(text: &str) -> Option<Self> {
        let line = text.lines().next()?;
        line.split_whitespace().find_map(|word| word.parse().ok())
    }
}

/// What one branch of the driver has where branches differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abi {
    /// The branch.
    pub major: u16,
    /// The version whose headers this is from.
    pub read: &'static str,
    /// Bytes of `NV0000_ALLOC_PARAMETERS`.
    pub root: u16,
    /// Bytes of `NV_VASPACE_ALLOCATION_PARAMETERS`.
    pub vaspace: u16,
    /// Bytes of `NV_CHANNEL_ALLOC_PARAMS`.
    pub channel: u16,
    /// Bytes of `NV_MEMORY_ALLOCATION_PARAMS`.
    pub memory: u16,
    /// Bytes of `NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS` and of `NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS`.
    pub schedule: u16,
    /// Bytes of `NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS`.
    pub name_string: u16,
    /// Whether `NVOS46_PARAMETERS` has its second flags.
    pub map_dma_flags2: bool,
    /// Whether `NVOS47_PARAMETERS` has a size.
    pub unmap_dma_size: bool,
    /// Places for GPUs in `UVM_MAP_EXTERNAL_ALLOCATION_PARAMS`.
    pub map_external_gpus: u16,
    /// Whether `UVM_FREE_PARAMS` has a length.
    pub free_length: bool,
    /// Whether `UVM_UNREGISTER_CHANNEL_PARAMS` names the GPU.
    pub unregister_uuid: bool,
}

const R535: Abi = Abi {
    major: 535,
    read: "535.288.01",
    root: 108,
    vaspace: 48,
    channel: 360,
    memory: 120,
    schedule: 2,
    name_string: 132,
    map_dma_flags2: false,
    unmap_dma_size: false,
    map_external_gpus: 32,
    free_length: true,
    unregister_uuid: true,
};

const R545: Abi = Abi {
    major: 545,
    read: "545.29.06",
    memory: 128,
    ..R535
};

const R550: Abi = Abi {
    major: 550,
    read: "550.163.01",
    unmap_dma_size: true,
    map_external_gpus: 256,
    ..R545
};

const R555: Abi = Abi {
    major: 555,
    read: "555.58.02",
    ..R550
};

const R560: Abi = Abi {
    major: 560,
    read: "560.35.03",
    ..R555
};

const R565: Abi = Abi {
    major: 565,
    read: "565.77",
    ..R560
};

const R570: Abi = Abi {
    major: 570,
    read: "570.211.01",
    root: 120,
    channel: 368,
    ..R565
};

const R575: Abi = Abi {
    major: 575,
    read: "575.64.05",
    schedule: 3,
    ..R570
};

const R580: Abi = Abi {
    major: 580,
    read: "580.142",
    vaspace: 56,
    map_dma_flags2: true,
    ..R575
};

const R590: Abi = Abi {
    major: 590,
    read: "590.48.01",
    free_length: false,
    unregister_uuid: false,
    ..R580
};

const R595: Abi = Abi {
    major: 595,
    read: "595.45.04",
    name_string: 68,
    ..R590
};

/// Every branch that was looked at, oldest first.
pub static ABIS: [Abi; 11] = [
    R535, R545, R550, R555, R560, R565, R570, R575, R580, R590, R595,
];

/// A branch of the driver whose headers nobody looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownBranch(pub u16);

impl fmt::Display for UnknownBranch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "driver branch {} is none of", self.0)?;
        for abi in &ABIS {
            write!(f, " {}", abi.major)?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownBranch {}

impl Abi {
    /// What the driver of a version has.
    ///
    /// # Errors
    /// [`UnknownBranch`].
    pub fn of(version: Version) -> Result<&'static Self, UnknownBranch> {
        Self::of_branch(version.major)
    }

    /// What a branch has.
    ///
    /// # Errors
    /// [`UnknownBranch`].
    pub fn of_branch(major: u16) -> Result<&'static Self, UnknownBranch> {
        let mut known = ABIS.iter();
        known
            .find(|abi| abi.major == major)
            .ok_or(UnknownBranch(major))
    }
}

/// Parameters of an allocation or of a control command: what RM takes beside the request, with its size.
pub trait Params:
    zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable + Copy + Default
{
    /// Bytes of it in a branch: the newest struct, or less of it.
    #[must_use]
    fn len(abi: &Abi) -> usize {
        let _ = abi;
        size_of::<Self>()
    }
}

macro_rules! grown {
    ($($name:ident: $len:ident,)*) => {$(
        impl Params for $name {
            fn len(abi: &Abi) -> usize {
                usize::from(abi.$len)
            }
        }
    )*};
}

grown! {
    NV0000_ALLOC_PARAMETERS: root,
    NV_VASPACE_ALLOCATION_PARAMETERS: vaspace,
    NV_CHANNEL_ALLOC_PARAMS: channel,
    NV_MEMORY_ALLOCATION_PARAMS: memory,
    NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS: schedule,
    NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS: schedule,
    NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS: name_string,
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn versions_are_two_or_three_numbers() {
        for text in ["580.95.05", "565.77", "535.288.01"] {
            assert_eq!(text.parse::<Version>().expect(text).to_string(), text);
        }
        for text in [
            "",
            "580",
            "580.",
            ".95",
            "580.95.05.1",
            "580.+5",
            "x86_64",
            "580.95b",
            "99999.1",
        ] {
            assert_eq!(text.parse::<Version>(), Err(NotAVersion), "{text}");
        }
    }

    #[test]
    fn only_the_first_line_tells_the_version() {
        assert_eq!(Version::in_proc(""), None);
        assert_eq!(Version::in_proc("NVRM version:\nGCC version: 13.3.0"), None);
        let closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC 2023\n";
        let found = Version::in_proc(closed).expect("a version");
        assert_eq!((found.major, found.minor, found.patch), (535, 104, Some(5)));
    }

    #[test]
    fn unknown_branches_are_refused_by_name() {
        let told = Abi::of_branch(610).expect_err("unknown").to_string();
        assert!(
            told.starts_with("driver branch 610 is none of 535 "),
            "{told}"
        );
        assert!(ABIS.windows(2).all(|w| w[0].major < w[1].major));
    }
}
