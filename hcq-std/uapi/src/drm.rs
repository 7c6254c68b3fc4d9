//! What every driver of Linux' DRM has: `include/uapi/drm/drm.h`, as much of it as drivers of compute need.
//!
//! Structs are those of 64-bit callers. A driver's own requests have numbers from [`DRM_COMMAND_BASE`] on: see
//! [`msm`](crate::msm). A kernel finds a request by its number alone, reads as many bytes as the caller names and clears what
//! it left out.

use crate::layout::{Constant, Struct, constants, structs};

/// `DRM_IOCTL_BASE`: the letter of all requests.
pub const DRM_IOCTL_BASE: u8 = b'd';

constants! {
    /// The first number of a driver's own requests.
    DRM_COMMAND_BASE: u32 = 0x40;
}

structs! {
    /// Which driver a node is of. Texts are not terminated; their lengths come back whatever there was room for.
    drm_version: iowr(DRM_IOCTL_BASE, 0x00) DRM_IOCTL_VERSION {
        /// The interface's version.
        version_major: i32,
        /// Goes up with what is added.
        version_minor: i32,
        /// Means nothing.
        version_patchlevel: i32,
        /// Zero.
        hole: u32,
        /// Bytes of the name: the room there is, then what there would be to say.
        name_len: u64,
        /// Address of the name.
        name: u64,
        /// The same of a date.
        date_len: u64,
        /// Address of the date.
        date: u64,
        /// The same of a description.
        desc_len: u64,
        /// Address of the description.
        desc: u64,
    }

    /// A handle is given up. What it stood for lives until nobody uses it any more.
    drm_gem_close: iow(DRM_IOCTL_BASE, 0x09) DRM_IOCTL_GEM_CLOSE {
        /// The handle.
        handle: u32,
        /// Zero.
        pad: u32,
    }
}

/// All structs of this module.
pub fn structs() -> impl Iterator<Item = &'static Struct> {
    STRUCTS.iter()
}

/// All numbers of this module that are in the header.
pub fn constants() -> impl Iterator<Item = &'static Constant> {
    CONSTANTS.iter()
}
