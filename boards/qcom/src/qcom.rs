//! Qualcomm's boards.
//!
//! Sources: device trees of Linux (`arch/arm64/boot/dts/qcom/`: `sm8250.dtsi` with `qrb5165-rb5.dts`, `sdm845.dtsi` with
//! `sdm845-db845c.dts`, `sc7280.dtsi` with `qcs6490-rb3gen2.dts`) for names and clocks; `a6xx_catalog.c` of Linux' `msm` for chip
//! ids and tile memory; `adreno-gpulist.h` of Qualcomm's `kgsl` for what snoops; the vendors' product pages for memory.
//! None of these boards has run this project yet.

/// Bytes of a cache line of the processors of all boards here (Kryo: Cortex-A55 and A75 to A78).
pub const CACHE_LINE: u32 = 64;

/// A GPU as boards have it.
#[derive(Debug, PartialEq, Eq)]
pub struct Gpu {
    /// Its marketing number.
    pub number: u16,
    /// Core, major, minor and patch level: what the kernel driver calls `chip_id`.
    pub chip_id: u32,
    /// Clocks in Hz, fastest first. Which of the first ones a part has is fused into it (its speed bin).
    pub clocks_hz: &'static [u32],
    /// Bytes of tile memory.
    pub tile_bytes: u32,
    /// Whether it can look into the processors' caches (`ADRENO_IOCOHERENT`). The kernel driver has the last word: it says of
    /// each piece of memory whether it does.
    pub snoops: bool,
    /// Whether the kernel driver can interrupt its work for other contexts (`ADRENO_PREEMPTION`).
    pub preempts: bool,
}

impl Gpu {
    /// Its fastest clock, in Hz.
    pub const fn fastest_hz(&self) -> u32 {
        match self.clocks_hz.first() {
            Some(hz) => *hz,
            None => 0,
        }
    }
}

/// A kernel driver of Adreno GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelDriver {
    /// Qualcomm's: `/dev/kgsl-3d0`.
    Kgsl,
    /// Linux' own: `/dev/dri/renderD*`. Its interface is not supported here.
    Msm,
}

impl core::fmt::Display for KernelDriver {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Kgsl => "kgsl",
            Self::Msm => "msm",
        })
    }
}

/// A kernel that a board is used with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// The driver of the GPU.
    pub driver: KernelDriver,
    /// Where it comes from.
    pub from: &'static str,
}

/// A board.
#[derive(Debug, PartialEq, Eq)]
pub struct Board {
    /// Its name.
    pub name: &'static str,
    /// Its system on a chip.
    pub soc: &'static str,
    /// Names in its device tree, most specific first.
    pub compatible: &'static [&'static str],
    /// Its GPU.
    pub gpu: &'static Gpu,
    /// Bytes of memory, which processors and GPU share.
    pub memory_bytes: u64,
    /// Its kind of memory.
    pub memory: &'static str,
    /// Kernels that it is used with.
    pub kernels: &'static [Kernel],
}

impl Board {
    /// The board in one line.
    pub const fn describe(&self) -> Description<'_> {
        Description(self)
    }
}

/// See [`Board::describe`].
#[derive(Clone, Copy, Debug)]
pub struct Description<'b>(&'b Board);

impl core::fmt::Display for Description<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Board { name, soc, gpu, .. } = self.0;
        write!(
            f,
            "{name} ({soc}, Adreno {} up to {} MHz, {} GiB {})",
            gpu.number,
            gpu.fastest_hz() / 1_000_000,
            self.0.memory_bytes >> 30,
            self.0.memory
        )
    }
}

const MHZ: u32 = 1_000_000;
const GIB: u64 = 1 << 30;

/// Adreno 630, second revision: Snapdragon 845.
pub static A630: Gpu = Gpu {
    number: 630,
    chip_id: 0x0603_0001,
    clocks_hz: &[
        710 * MHZ,
        675 * MHZ,
        596 * MHZ,
        520 * MHZ,
        414 * MHZ,
        342 * MHZ,
        257 * MHZ,
    ],
    tile_bytes: 1 << 20,
    snoops: true,
    preempts: true,
};

/// Adreno 643, called 635 in its id: QCM6490 and QCS6490.
pub static A643: Gpu = Gpu {
    number: 643,
    chip_id: 0x0603_0500,
    clocks_hz: &[
        900 * MHZ,
        840 * MHZ,
        812 * MHZ,
        700 * MHZ,
        608 * MHZ,
        550 * MHZ,
        450 * MHZ,
        315 * MHZ,
    ],
    tile_bytes: 512 << 10,
    snoops: true,
    preempts: true,
};

/// Adreno 650: Snapdragon 865 and QRB5165.
pub static A650: Gpu = Gpu {
    number: 650,
    chip_id: 0x0605_0002,
    clocks_hz: &[
        670 * MHZ,
        587 * MHZ,
        525 * MHZ,
        490 * MHZ,
        441_600_000,
        400 * MHZ,
        305 * MHZ,
    ],
    tile_bytes: (1 << 20) + (128 << 10),
    snoops: true,
    preempts: true,
};

/// The boards.
pub static BOARDS: &[Board] = &[
    Board {
        name: "Thundercomm RB5",
        soc: "QRB5165",
        compatible: &["qcom,qrb5165-rb5"],
        gpu: &A650,
        memory_bytes: 8 * GIB,
        memory: "LPDDR5",
        kernels: &[
            Kernel {
                driver: KernelDriver::Kgsl,
                from: "Qualcomm's Linux 4.19 of the vendor's images (LU, Ubuntu)",
            },
            Kernel {
                driver: KernelDriver::Msm,
                from: "Linux, and Linaro's images",
            },
        ],
    },
    Board {
        name: "DragonBoard 845c",
        soc: "SDA845",
        compatible: &["thundercomm,db845c"],
        gpu: &A630,
        memory_bytes: 4 * GIB,
        memory: "LPDDR4X",
        kernels: &[
            Kernel {
                driver: KernelDriver::Kgsl,
                from: "Qualcomm's Linux 4.9 of the vendor's Android images",
            },
            Kernel {
                driver: KernelDriver::Msm,
                from: "Linux, and Linaro's images",
            },
        ],
    },
    Board {
        name: "RB3 Gen 2",
        soc: "QCS6490",
        compatible: &["qcom,qcs6490-rb3gen2", "qcom,qcm6490"],
        gpu: &A643,
        memory_bytes: 6 * GIB,
        memory: "LPDDR4X",
        kernels: &[
            Kernel {
                driver: KernelDriver::Kgsl,
                from: "Qualcomm Linux with the vendor's graphics (qcom-linux, kgsl as a module)",
            },
            Kernel {
                driver: KernelDriver::Msm,
                from: "Linux, and Qualcomm Linux without the vendor's graphics",
            },
        ],
    },
];

/// The board whose device tree has these names: the bytes of `/proc/device-tree/compatible`, names that end with a zero,
/// most specific first. Bytes that are no names match nothing.
pub fn find(compatible: &[u8]) -> Option<&'static Board> {
    compatible
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
        .find_map(|name| {
            let has = |board: &&Board| board.compatible.iter().any(|c| c.as_bytes() == name);
            BOARDS.iter().find(has)
        })
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::ToString;

    #[test]
    fn boards_are_found_by_their_device_tree() {
        for (bytes, name) in [
            (
                &b"qcom,qrb5165-rb5\0qcom,sm8250\0"[..],
                Some("Thundercomm RB5"),
            ),
            (
                b"thundercomm,db845c\0qcom,sdm845\0",
                Some("DragonBoard 845c"),
            ),
            (b"qcom,qcs6490-rb3gen2\0qcom,qcm6490\0", Some("RB3 Gen 2")),
            (b"vendor,other\0qcom,qcm6490\0", Some("RB3 Gen 2")),
            (b"qcom,qrb5165-rb5", Some("Thundercomm RB5")),
            (b"qcom,sm8250\0", None),
            (b"qcom,qrb5165\0", None),
            (b"", None),
            (b"\0\0\xff\0", None),
        ] {
            assert_eq!(find(bytes).map(|b| b.name), name);
        }
    }

    #[test]
    fn rows_are_what_they_say() {
        for board in BOARDS {
            let gpu = board.gpu;
            assert!(gpu.clocks_hz.is_sorted_by(|a, b| a > b), "{}", board.name);
            assert!(gpu.fastest_hz() > 0 && gpu.tile_bytes > 0);
            assert_eq!(gpu.chip_id >> 24, 6);
            let driven = board.kernels.iter().any(|k| k.driver == KernelDriver::Kgsl);
            assert!(driven, "{} has no kernel that is supported", board.name);
            for compatible in board.compatible {
                let others = BOARDS.iter().filter(|b| b.compatible.contains(compatible));
                assert_eq!(others.count(), 1, "{compatible}");
            }
        }
        assert_eq!(
            BOARDS.first().map(|b| b.describe().to_string()).as_deref(),
            Some("Thundercomm RB5 (QRB5165, Adreno 650 up to 670 MHz, 8 GiB LPDDR5)")
        );
    }
}
