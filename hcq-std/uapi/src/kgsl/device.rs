//! The device: properties, versions, power constraints, clocks.

use super::KGSL_IOC_TYPE;
use crate::layout::{constants, structs};

constants! {
    /// The frozen version of the interface.
    KGSL_VERSION_MAJOR: u32 = 3;
    /// The frozen version of the interface.
    KGSL_VERSION_MINOR: u32 = 14;

    /// Property, read: [`kgsl_devinfo`].
    KGSL_PROP_DEVICE_INFO: u32 = 0x1;
    /// Property, read: [`kgsl_shadowprop`], where contexts' timestamps can be mapped.
    KGSL_PROP_DEVICE_SHADOW: u32 = 0x2;
    /// Property, read: [`kgsl_version`].
    KGSL_PROP_VERSION: u32 = 0x8;
    /// Property, read: a context's id goes in and one of `KGSL_CTX_STAT_*` comes out, once: reading it clears it.
    KGSL_PROP_GPU_RESET_STAT: u32 = 0x9;
    /// Property, write: 0 keeps the GPU's clocks on, 1 lets it sleep; needs the right to configure the system.
    KGSL_PROP_PWRCTRL: u32 = 0xe;
    /// Property, write: [`kgsl_device_constraint`].
    KGSL_PROP_PWR_CONSTRAINT: u32 = 0x12;
    /// Property, read: u64, where programs see the tile memory.
    KGSL_PROP_UCHE_GMEM_VADDR: u32 = 0x13;
    /// Property, read: [`kgsl_ucode_version`].
    KGSL_PROP_UCODE_VERSION: u32 = 0x15;
    /// Property, read: u32, the highest bank bit of memory (tiled images).
    KGSL_PROP_HIGHEST_BANK_BIT: u32 = 0x17;
    /// Property, read: u32, 32 or 64, the bits of the GPU's addresses.
    KGSL_PROP_DEVICE_BITNESS: u32 = 0x18;
    /// Property, read: u32, bytes.
    KGSL_PROP_MIN_ACCESS_LENGTH: u32 = 0x1a;
    /// Property, read: u32, the kind of image compression.
    KGSL_PROP_UBWC_MODE: u32 = 0x1b;
    /// Property, write: as [`KGSL_PROP_PWR_CONSTRAINT`], of the L3 cache.
    KGSL_PROP_L3_PWR_CONSTRAINT: u32 = 0x22;
    /// Property, read: u32, the fused speed bin.
    KGSL_PROP_SPEED_BIN: u32 = 0x25;
    /// Property, read: [`kgsl_capabilities`].
    KGSL_PROP_QUERY_CAPABILITIES: u32 = 0x27;
    /// Property, read: [`kgsl_context_property`].
    KGSL_PROP_CONTEXT_PROPERTY: u32 = 0x28;
    /// Property, read: [`kgsl_gpu_model`].
    KGSL_PROP_GPU_MODEL: u32 = 0x29;
    /// Property, read: u64, bytes of the process's GPU addresses.
    KGSL_PROP_GPU_VA64_SIZE: u32 = 0x2c;

    /// `querytype`: [`kgsl_capabilities_properties`].
    KGSL_QUERY_CAPS_PROPERTIES: u32 = 1;
    /// `type` of [`kgsl_context_property`]: [`kgsl_context_property_fault`].
    KGSL_CONTEXT_PROP_FAULTS: u32 = 1;

    /// No reset of the GPU concerned the context.
    KGSL_CTX_STAT_NO_ERROR: u32 = 0;
    /// The context's commands made the GPU fail.
    KGSL_CTX_STAT_GUILTY_CONTEXT_RESET_EXT: u32 = 1;
    /// The context's commands were lost because others made the GPU fail.
    KGSL_CTX_STAT_INNOCENT_CONTEXT_RESET_EXT: u32 = 2;
    /// The GPU was reset, nobody knows why.
    KGSL_CTX_STAT_UNKNOWN_CONTEXT_RESET_EXT: u32 = 3;

    /// `type` of a constraint: none, takes the last one back.
    KGSL_CONSTRAINT_NONE: u32 = 0;
    /// `type` of a constraint: [`kgsl_device_constraint_pwrlevel`].
    KGSL_CONSTRAINT_PWRLEVEL: u32 = 1;
    /// `level`: the slowest clock.
    KGSL_CONSTRAINT_PWR_MIN: u32 = 0;
    /// `level`: the fastest clock.
    KGSL_CONSTRAINT_PWR_MAX: u32 = 1;

    /// Clock: the GPU's always-on counter, ticks.
    KGSL_CALIBRATED_TIME_DOMAIN_DEVICE: u32 = 0;
    /// Clock: the host's `CLOCK_MONOTONIC`, nanoseconds.
    KGSL_CALIBRATED_TIME_DOMAIN_MONOTONIC: u32 = 1;
    /// Clock: the host's `CLOCK_MONOTONIC_RAW`, nanoseconds.
    KGSL_CALIBRATED_TIME_DOMAIN_MONOTONIC_RAW: u32 = 2;
}

structs! {
    /// Reads a property of the device.
    kgsl_device_getproperty: iowr(KGSL_IOC_TYPE, 0x2) IOCTL_KGSL_DEVICE_GETPROPERTY {
        /// One of `KGSL_PROP_*`.
        r#type: u32,
        /// Zero.
        hole0: u32,
        /// Pointer to the property's value.
        value: u64,
        /// Its bytes: exactly what the property has (`EINVAL`).
        sizebytes: u64,
    }

    /// Writes a property. C uses [`kgsl_device_getproperty`] for both.
    kgsl_device_setproperty: iow(KGSL_IOC_TYPE, 0x32) IOCTL_KGSL_SETPROPERTY {
        /// One of `KGSL_PROP_*`.
        r#type: u32,
        /// Zero.
        hole0: u32,
        /// Pointer to the property's value.
        value: u64,
        /// Its bytes: exactly what the property has (`EINVAL`).
        sizebytes: u64,
    }

    /// What the device is.
    kgsl_devinfo {
        /// 1, the device's number plus one.
        device_id: u32,
        /// Core, major, minor and patch, 8 bits each from the highest; newer chips have a number that is only a name.
        chip_id: u32,
        /// Not 0 if the GPU translates addresses.
        mmu_enabled: u32,
        /// Zero.
        hole0: u32,
        /// Where the tile memory is.
        gmem_gpubaseaddr: u64,
        /// The chip as decimal digits: 630.
        gpu_id: u32,
        /// Zero.
        hole1: u32,
        /// Bytes of tile memory.
        gmem_sizebytes: u64,
    }

    /// The page of contexts' timestamps: map `size` bytes at offset `gpuaddr`.
    kgsl_shadowprop {
        /// The offset to map.
        gpuaddr: u64,
        /// Bytes.
        size: u64,
        /// `KGSL_FLAGS_*`.
        flags: u32,
        /// Zero.
        hole0: u32,
    }

    /// A context's entry in the mapped timestamps: the context's id is its index.
    kgsl_devmemstore {
        /// Of the last commands that began.
        soptimestamp: u32,
        /// Unused.
        sbz: u32,
        /// Of the last commands that ended.
        eoptimestamp: u32,
        /// Unused.
        sbz2: u32,
        /// Whether the context was preempted.
        preempted: u32,
        /// Unused.
        sbz3: u32,
        /// Unused.
        ref_wait_ts: u32,
        /// Unused.
        sbz4: u32,
        /// The context that runs.
        current_context: u32,
        /// Unused.
        sbz5: u32,
    }

    /// Versions of the interface and of the device's driver.
    kgsl_version {
        /// [`KGSL_VERSION_MAJOR`].
        drv_major: u32,
        /// [`KGSL_VERSION_MINOR`].
        drv_minor: u32,
        /// Of the device's part.
        dev_major: u32,
        /// Of the device's part.
        dev_minor: u32,
    }

    /// Versions of the command processor's firmware.
    kgsl_ucode_version {
        /// Of the prefetcher, or of the only one.
        pfp: u32,
        /// Of the packet engine.
        pm4: u32,
    }

    /// The GPU's name.
    kgsl_gpu_model {
        /// Text with a zero at its end: "Adreno650v2".
        gpu_model: [u8; 32],
    }

    /// What the kernel can do.
    kgsl_capabilities {
        /// Pointer to a struct of `querytype`.
        data: u64,
        /// Its bytes; 0 asks for them.
        size: u64,
        /// One of `KGSL_QUERY_CAPS_*`.
        querytype: u32,
        /// Zero.
        hole0: u32,
    }

    /// The properties that the kernel has.
    kgsl_capabilities_properties {
        /// Pointer to `count` u32.
        list: u64,
        /// Room; 0 asks for the number.
        count: u32,
        /// Zero.
        hole0: u32,
    }

    /// A property of a context.
    kgsl_context_property {
        /// Pointer to a struct of `type`.
        data: u64,
        /// Its bytes; 0 asks for them.
        size: u32,
        /// One of `KGSL_CONTEXT_PROP_*`.
        r#type: u32,
        /// The context.
        contextid: u32,
        /// Zero.
        hole0: u32,
    }

    /// How often a context failed.
    kgsl_context_property_fault {
        /// Faults so far.
        faults: i32,
        /// The timestamp of the last.
        timestamp: u32,
    }

    /// A wish that holds while a context's commands with [`CmdbatchFlags::PWR_CONSTRAINT`](super::CmdbatchFlags) run.
    kgsl_device_constraint {
        /// One of `KGSL_CONSTRAINT_*`.
        r#type: u32,
        /// The context, which belongs to the caller.
        context_id: u32,
        /// Pointer to a struct of `type`.
        data: u64,
        /// Its bytes.
        size: u64,
    }

    /// A wish for a clock.
    kgsl_device_constraint_pwrlevel {
        /// One of `KGSL_CONSTRAINT_PWR_*`.
        level: u32,
    }

    /// Several clocks read at once. Newer kernels only, for chips with a readable counter.
    kgsl_read_calibrated_timestamps: iowr(KGSL_IOC_TYPE, 0x60) IOCTL_KGSL_READ_CALIBRATED_TIMESTAMPS {
        /// Pointer to `count` u32, each one of `KGSL_CALIBRATED_TIME_DOMAIN_*`.
        sources: u64,
        /// Pointer to room for `count` u64.
        ts: u64,
        /// From the kernel: the time that the reading took, nanoseconds.
        deviation: u64,
        /// Clocks.
        count: u32,
        /// Zero.
        padding: u32,
    }
}
