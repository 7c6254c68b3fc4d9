//! Events of RM's objects: `class/cl0005.h`, `class/cl2080_notification.h`, `ctrl/ctrl2080/ctrl2080event.h`, `nvos.h`.
//!
//! A file takes events once [`NV_ESC_ALLOC_OS_EVENT`](super::NV_ESC_ALLOC_OS_EVENT) has named it; an object of
//! [`NV01_EVENT_OS_EVENT`] then ties one index of one object to it. `poll` finds the file readable after that. It takes back
//! what it reports if the event has no data, so that one `poll` sees it, and others that wait for the same file may not;
//! events with data wait in a list for [`NV_ESC_RM_GET_EVENT_DATA`](super::NV_ESC_RM_GET_EVENT_DATA).

use super::bits::bits;
use super::version::Params;
use crate::layout::{constants, structs};

constants! {
    /// An event: [`NV0005_ALLOC_PARAMETERS`]. No process makes one of this class.
    NV01_EVENT: u32 = 0x5;
    /// An event that makes a file readable: [`NV0005_ALLOC_PARAMETERS`].
    NV01_EVENT_OS_EVENT: u32 = 0x79;
    /// Of `notifyIndex`: it comes from interrupts that engines do not wait for, of a subdevice.
    NV01_EVENT_NONSTALL_INTR: u32 = 0x0800_0000;
    /// Of `notifyIndex`: it has no data.
    NV01_EVENT_WITHOUT_EVENT_DATA: u32 = 0x1000_0000;
    /// Index of a subdevice: its timer, which has commands of its own.
    NV2080_NOTIFIERS_TIMER: u32 = 11;
    /// Index of a subdevice: interrupts of the engine of graphics and compute.
    NV2080_NOTIFIERS_GRAPHICS: u32 = 12;
    /// Index of a subdevice: interrupts of the first copy engine; the next nine follow.
    NV2080_NOTIFIERS_CE0: u32 = 23;
    /// Index of a subdevice: interrupts of channels, whichever engine theirs is.
    NV2080_NOTIFIERS_FIFO_EVENT_MTHD: u32 = 35;
    /// Index of a subdevice: errors that stop channels. It has to be asked for:
    /// [`NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION`].
    NV2080_NOTIFIERS_RC_ERROR: u32 = 37;
    /// Says whether a subdevice tells of an event that does not come from such interrupts.
    NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION: u32 = 0x2080_0301;
    /// Of [`NV2080_CTRL_EVENT_SET_NOTIFICATION_PARAMS`]: never.
    NV2080_CTRL_EVENT_SET_NOTIFICATION_ACTION_DISABLE: u32 = 0;
    /// Of [`NV2080_CTRL_EVENT_SET_NOTIFICATION_PARAMS`]: the next time.
    NV2080_CTRL_EVENT_SET_NOTIFICATION_ACTION_SINGLE: u32 = 1;
    /// Of [`NV2080_CTRL_EVENT_SET_NOTIFICATION_PARAMS`]: each time.
    NV2080_CTRL_EVENT_SET_NOTIFICATION_ACTION_REPEAT: u32 = 2;
}

bits! {
    /// Of [`NV0005_ALLOC_PARAMETERS`]: the index without its flags.
    NV0005_NOTIFY_INDEX_INDEX = 15:0;
}

structs! {
    /// Makes an event.
    NV0005_ALLOC_PARAMETERS {
        /// The client whose object it comes from; 0 is the one that makes it.
        hParentClient: u32,
        /// The object that it comes from.
        hSrcResource: u32,
        /// [`NV01_EVENT_OS_EVENT`], as in the request; nobody looks at it.
        hClass: u32,
        /// Which of its events, and `NV01_EVENT_*`.
        notifyIndex: u32,
        /// What names the file, in its lower 32 bits.
        data: u64,
    }

    /// An event with its data.
    NvUnixEvent {
        /// The event.
        hObject: u32,
        /// Its index.
        NotifyIndex: u32,
        /// What the object adds.
        info32: u32,
        /// What the object adds.
        info16: u16,
        /// Padding.
        pad: u16,
    }

    /// Of [`NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION`].
    NV2080_CTRL_EVENT_SET_NOTIFICATION_PARAMS {
        /// The index.
        event: u32,
        /// `NV2080_CTRL_EVENT_SET_NOTIFICATION_ACTION_*`.
        action: u32,
        /// Of some events: whether they tell of a state by memory.
        bNotifyState: u8,
        /// Padding.
        pad0: [u8; 3],
        /// Of that state.
        info32: u32,
        /// Of that state.
        info16: u16,
        /// Padding.
        pad1: u16,
    }
}

impl Params for NV0005_ALLOC_PARAMETERS {}
impl Params for NV2080_CTRL_EVENT_SET_NOTIFICATION_PARAMS {}
