//! The three layouts: which names the fields have that the driver writes.

use super::{
    ALIGN_LOG2, Address, CONSTANT_STRIDE, Dependent, Fixed, Layout, Places, Release, Row, named,
    tables,
};

const PREFETCH: [&str; 2] = [
    "PROGRAM_PREFETCH_ADDR_LOWER_SHIFTED",
    "PROGRAM_PREFETCH_ADDR_UPPER_SHIFTED",
];
/// The prefetched address counts 256 bytes.
const PREFETCH_SHIFT: u8 = 8;

/// Version 3.0: Ampere, Ada.
pub static V3_0: Layout = {
    const ROWS: &[Row] = tables::V3_0;
    const fn release(names: [&str; 7]) -> Release {
        let [
            enable,
            trap,
            payload64,
            lower,
            upper,
            payload_lower,
            payload_upper,
        ] = names;
        Release {
            enable: named(ROWS, enable),
            trap: named(ROWS, trap),
            payload64: named(ROWS, payload64),
            address: Address::named(ROWS, [lower, upper], 0),
            payload_lower: named(ROWS, payload_lower),
            payload_upper: named(ROWS, payload_upper),
        }
    }
    Layout {
        major: 3,
        minor: 0,
        words: 64,
        rows: ROWS,
        fixed: Fixed::named(ROWS, "QMD_VERSION", false),
        grid: Layout::grid(
            ROWS,
            ["CTA_RASTER_WIDTH", "CTA_RASTER_HEIGHT", "CTA_RASTER_DEPTH"],
        ),
        block: Layout::block(ROWS),
        registers: named(ROWS, "REGISTER_COUNT_V"),
        barriers: named(ROWS, "BARRIER_COUNT"),
        sass_version: named(ROWS, "SASS_VERSION"),
        program: Address::named(ROWS, ["PROGRAM_ADDRESS_LOWER", "PROGRAM_ADDRESS_UPPER"], 0),
        prefetch: Address::named(ROWS, PREFETCH, PREFETCH_SHIFT),
        prefetch_size: named(ROWS, "PROGRAM_PREFETCH_SIZE"),
        shared: named(ROWS, "SHARED_MEMORY_SIZE"),
        shared_config: Layout::shared_config(ROWS),
        local_low: named(ROWS, "SHADER_LOCAL_MEMORY_LOW_SIZE"),
        local_high: named(ROWS, "SHADER_LOCAL_MEMORY_HIGH_SIZE"),
        constant_valid: (named(ROWS, "CONSTANT_BUFFER_VALID"), 1),
        constant_invalidate: (named(ROWS, "CONSTANT_BUFFER_INVALIDATE"), CONSTANT_STRIDE),
        constant: Address::named(
            ROWS,
            ["CONSTANT_BUFFER_ADDR_LOWER", "CONSTANT_BUFFER_ADDR_UPPER"],
            0,
        ),
        constant_size: named(ROWS, "CONSTANT_BUFFER_SIZE_SHIFTED4").unit(4),
        releases: [
            release([
                "RELEASE0_ENABLE",
                "RELEASE0_TRAP_TYPE",
                "RELEASE0_PAYLOAD64B",
                "RELEASE0_ADDRESS_LOWER",
                "RELEASE0_ADDRESS_UPPER",
                "RELEASE0_PAYLOAD_LOWER",
                "RELEASE0_PAYLOAD_UPPER",
            ]),
            release([
                "RELEASE1_ENABLE",
                "RELEASE1_TRAP_TYPE",
                "RELEASE1_PAYLOAD64B",
                "RELEASE1_ADDRESS_LOWER",
                "RELEASE1_ADDRESS_UPPER",
                "RELEASE1_PAYLOAD_LOWER",
                "RELEASE1_PAYLOAD_UPPER",
            ]),
        ],
        dependent: Dependent {
            enable: named(ROWS, "DEPENDENT_QMD0_ENABLE"),
            action: named(ROWS, "DEPENDENT_QMD0_ACTION"),
            prefetch: named(ROWS, "DEPENDENT_QMD0_PREFETCH"),
            pointer: named(ROWS, "DEPENDENT_QMD0_POINTER").unit(ALIGN_LOG2),
        },
        places: Places::NONE,
    }
    .placed()
};

/// Bits from one release's flags to the next, from 4.0 on.
const RELEASE_STRIDE: u16 = 16;

/// Release `n`'s fields from 4.0 on, where the flags have an index and the rest has names.
const fn release_4(rows: &[Row], n: u16, names: [&str; 4]) -> Release {
    let [lower, upper, payload_lower, payload_upper] = names;
    Release {
        enable: named(rows, "RELEASE_ENABLE").nth(n, RELEASE_STRIDE),
        trap: named(rows, "RELEASE_TRAP_TYPE").nth(n, RELEASE_STRIDE),
        payload64: named(rows, "RELEASE_PAYLOAD64B").nth(n, RELEASE_STRIDE),
        address: Address::named(rows, [lower, upper], 0),
        payload_lower: named(rows, payload_lower),
        payload_upper: named(rows, payload_upper),
    }
}

/// The first two releases from 4.0 on. (There is a third one, which the driver leaves alone: two are what 3.0 has.)
const fn releases_4(rows: &[Row]) -> [Release; 2] {
    [
        release_4(
            rows,
            0,
            [
                "RELEASE_SEMAPHORE0_ADDR_LOWER",
                "RELEASE_SEMAPHORE0_ADDR_UPPER",
                "RELEASE_SEMAPHORE0_PAYLOAD_LOWER",
                "RELEASE_SEMAPHORE0_PAYLOAD_UPPER",
            ],
        ),
        release_4(
            rows,
            1,
            [
                "RELEASE_SEMAPHORE1_ADDR_LOWER",
                "RELEASE_SEMAPHORE1_ADDR_UPPER",
                "RELEASE_SEMAPHORE1_PAYLOAD_LOWER",
                "RELEASE_SEMAPHORE1_PAYLOAD_UPPER",
            ],
        ),
    ]
}

const GRID_4: [&str; 3] = ["GRID_WIDTH", "GRID_HEIGHT", "GRID_DEPTH"];
const CONSTANT_4: [&str; 2] = [
    "CONSTANT_BUFFER_ADDR_LOWER_SHIFTED6",
    "CONSTANT_BUFFER_ADDR_UPPER_SHIFTED6",
];

/// Version 4.0: Hopper.
pub static V4_0: Layout = {
    const ROWS: &[Row] = tables::V4_0;
    Layout {
        major: 4,
        minor: 0,
        words: 96,
        rows: ROWS,
        fixed: Fixed::named(ROWS, "QMD_MINOR_VERSION", true),
        grid: Layout::grid(ROWS, GRID_4),
        block: Layout::block(ROWS),
        registers: named(ROWS, "REGISTER_COUNT"),
        barriers: named(ROWS, "BARRIER_COUNT"),
        sass_version: named(ROWS, "SASS_VERSION"),
        program: Address::named(ROWS, ["PROGRAM_ADDRESS_LOWER", "PROGRAM_ADDRESS_UPPER"], 0),
        prefetch: Address::named(ROWS, PREFETCH, PREFETCH_SHIFT),
        prefetch_size: named(ROWS, "PROGRAM_PREFETCH_SIZE"),
        shared: named(ROWS, "SHARED_MEMORY_SIZE"),
        shared_config: Layout::shared_config(ROWS),
        local_low: named(ROWS, "SHADER_LOCAL_MEMORY_LOW_SIZE"),
        local_high: named(ROWS, "SHADER_LOCAL_MEMORY_HIGH_SIZE"),
        constant_valid: (named(ROWS, "CONSTANT_BUFFER_VALID"), 4),
        constant_invalidate: (named(ROWS, "CONSTANT_BUFFER_INVALIDATE"), 4),
        constant: Address::named(ROWS, CONSTANT_4, 6),
        constant_size: named(ROWS, "CONSTANT_BUFFER_SIZE_SHIFTED4").unit(4),
        releases: releases_4(ROWS),
        dependent: Dependent {
            enable: named(ROWS, "DEPENDENT_QMD_ENABLE"),
            action: named(ROWS, "DEPENDENT_QMD_ACTION"),
            prefetch: named(ROWS, "DEPENDENT_QMD_PREFETCH"),
            pointer: named(ROWS, "DEPENDENT_QMD0_POINTER").unit(ALIGN_LOG2),
        },
        places: Places::NONE,
    }
    .placed()
};

/// Version 5.0: Blackwell.
pub static V5_0: Layout = {
    const ROWS: &[Row] = tables::V5_0;
    Layout {
        major: 5,
        minor: 0,
        words: 96,
        rows: ROWS,
        fixed: Fixed::named(ROWS, "QMD_MINOR_VERSION", true),
        grid: Layout::grid(ROWS, GRID_4),
        block: Layout::block(ROWS),
        registers: named(ROWS, "REGISTER_COUNT"),
        barriers: named(ROWS, "BARRIER_COUNT"),
        sass_version: named(ROWS, "SASS_VERSION"),
        program: Address::named(
            ROWS,
            [
                "PROGRAM_ADDRESS_LOWER_SHIFTED4",
                "PROGRAM_ADDRESS_UPPER_SHIFTED4",
            ],
            4,
        ),
        prefetch: Address::named(ROWS, PREFETCH, PREFETCH_SHIFT),
        prefetch_size: named(ROWS, "PROGRAM_PREFETCH_SIZE"),
        shared: named(ROWS, "SHARED_MEMORY_SIZE_SHIFTED7").unit(7),
        shared_config: Layout::shared_config(ROWS),
        local_low: named(ROWS, "SHADER_LOCAL_MEMORY_LOW_SIZE_SHIFTED4").unit(4),
        local_high: named(ROWS, "SHADER_LOCAL_MEMORY_HIGH_SIZE_SHIFTED4").unit(4),
        constant_valid: (named(ROWS, "CONSTANT_BUFFER_VALID"), 4),
        constant_invalidate: (named(ROWS, "CONSTANT_BUFFER_INVALIDATE"), 4),
        constant: Address::named(ROWS, CONSTANT_4, 6),
        constant_size: named(ROWS, "CONSTANT_BUFFER_SIZE_SHIFTED4").unit(4),
        releases: releases_4(ROWS),
        dependent: Dependent {
            enable: named(ROWS, "DEPENDENT_QMD0_ENABLE"),
            action: named(ROWS, "DEPENDENT_QMD0_ACTION"),
            prefetch: named(ROWS, "DEPENDENT_QMD0_PREFETCH"),
            pointer: named(ROWS, "DEPENDENT_QMD0_POINTER").unit(ALIGN_LOG2),
        },
        places: Places::NONE,
    }
    .placed()
};
