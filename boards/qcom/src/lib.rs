//! Boards with Adreno GPUs, as data: what they have, what they are called, and what has to be known of them.
//!
//! The chips themselves are the driver's (`hcq-qcom`); this is what is around them. Nothing here is code of a board: adding one
//! is adding a row.
//!
//! ```
//! use hcq_boards::qcom::{self, KernelDriver};
//!
//! // What `/proc/device-tree/compatible` holds on an RB5.
//! let board = qcom::find(b"qcom,qrb5165-rb5\0qcom,sm8250\0").ok_or("unknown")?;
//! assert_eq!((board.name, board.gpu.number), ("Thundercomm RB5", 650));
//! assert_eq!(board.gpu.fastest_hz(), 670_000_000);
//! assert!(board.kernels.iter().any(|k| k.driver == KernelDriver::Kgsl));
//! # Ok::<(), &str>(())
//! ```
//!
//! # Adding a board
//!
//! 1. Its GPU, if no other board has it: `chip_id` from the vendor's device tree (`qcom,chipid`) or Linux'
//!    `a6xx_catalog.c`; clocks from the device tree of its system on a chip; whether the GPU snoops, from
//!    `adreno-gpulist.h` of the vendor's driver (`ADRENO_IOCOHERENT`). A chip that `hcq-qcom` does not have comes first.
//! 2. Its row: the names under `compatible` in its device tree, most specific first.
//! 3. Run the list of behaviours on it (`hcq selftest --device qcom`), and say in the row's comment that it has run.
#![no_std]
#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

pub mod qcom;
