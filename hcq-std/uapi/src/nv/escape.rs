//! Requests of RM: `nv_escape.h`, `nv-ioctl-numbers.h`, `nv-ioctl.h`, `nv-unix-nvos-params-wrappers.h` and the `NVOS*`
//! structs of `nvos.h`.

use super::bits::bits;
use crate::ioctl::{self, Argument};
use crate::layout::{constants, structs};

constants! {
    /// The letter of all requests.
    NV_IOCTL_MAGIC: u8 = b'F';
    /// Allocates system memory, or describes the caller's: [`nv_ioctl_nvos02_parameters_with_fd`].
    NV_ESC_RM_ALLOC_MEMORY: u8 = 0x27;
    /// Frees an object and what hangs below it: [`NVOS00_PARAMETERS`].
    NV_ESC_RM_FREE: u8 = 0x29;
    /// Asks an object to do something: [`NVOS54_PARAMETERS`].
    NV_ESC_RM_CONTROL: u8 = 0x2a;
    /// Makes an object: [`NVOS21_PARAMETERS`] or [`NVOS64_PARAMETERS`].
    NV_ESC_RM_ALLOC: u8 = 0x2b;
    /// Takes an event with its data off a file: [`NVOS41_PARAMETERS`], on the file that is readable.
    NV_ESC_RM_GET_EVENT_DATA: u8 = 0x52;
    /// Prepares a mapping for the host: [`nv_ioctl_nvos33_parameters_with_fd`].
    NV_ESC_RM_MAP_MEMORY: u8 = 0x4e;
    /// Ends it: [`NVOS34_PARAMETERS`].
    NV_ESC_RM_UNMAP_MEMORY: u8 = 0x4f;
    /// Maps memory into an address space that RM owns: [`NVOS46_PARAMETERS`].
    NV_ESC_RM_MAP_MEMORY_DMA: u8 = 0x57;
    /// Ends it: [`NVOS47_PARAMETERS`].
    NV_ESC_RM_UNMAP_MEMORY_DMA: u8 = 0x58;
    /// Which GPUs there are: [`nv_ioctl_card_info_list`], on `/dev/nvidiactl`.
    NV_ESC_CARD_INFO: u8 = 0xc8;
    /// Ties a GPU's file to a client's: [`nv_ioctl_register_fd`], on `/dev/nvidiaN`.
    NV_ESC_REGISTER_FD: u8 = 0xc9;
    /// Makes a file readable on events: [`nv_ioctl_alloc_os_event`], on that file, whichever of the driver's it is.
    NV_ESC_ALLOC_OS_EVENT: u8 = 0xce;
    /// Ends that: [`nv_ioctl_free_os_event`]. Closing the file does, too.
    NV_ESC_FREE_OS_EVENT: u8 = 0xcf;
    /// Asks for the driver's version: [`nv_ioctl_rm_api_version`].
    NV_ESC_CHECK_VERSION_STR: u8 = 0xd2;
    /// Of [`nv_ioctl_rm_api_version`]: refuse another version than this.
    NV_RM_API_VERSION_CMD_STRICT: u32 = 0;
    /// Of [`nv_ioctl_rm_api_version`]: compare, and go on.
    NV_RM_API_VERSION_CMD_RELAXED: u32 = b'1' as u32;
    /// Of [`nv_ioctl_rm_api_version`]: only say the version.
    NV_RM_API_VERSION_CMD_QUERY: u32 = b'2' as u32;
    /// Of [`nv_ioctl_rm_api_version`]: another version.
    NV_RM_API_VERSION_REPLY_UNRECOGNIZED: u32 = 0;
    /// Of [`nv_ioctl_rm_api_version`]: the same version, or none was asked for.
    NV_RM_API_VERSION_REPLY_RECOGNIZED: u32 = 1;
    /// Of [`NVOS02_FLAGS_PHYSICALITY`].
    NVOS02_FLAGS_PHYSICALITY_CONTIGUOUS: u32 = 0;
    /// Of [`NVOS02_FLAGS_PHYSICALITY`].
    NVOS02_FLAGS_PHYSICALITY_NONCONTIGUOUS: u32 = 1;
    /// Of [`NVOS02_FLAGS_LOCATION`]: system memory.
    NVOS02_FLAGS_LOCATION_PCI: u32 = 0;
    /// Of [`NVOS02_FLAGS_LOCATION`]: the GPU's memory.
    NVOS02_FLAGS_LOCATION_VIDMEM: u32 = 2;
    /// Of [`NVOS02_FLAGS_COHERENCY`].
    NVOS02_FLAGS_COHERENCY_UNCACHED: u32 = 0;
    /// Of [`NVOS02_FLAGS_COHERENCY`]: the host caches it.
    NVOS02_FLAGS_COHERENCY_CACHED: u32 = 1;
    /// Of [`NVOS02_FLAGS_COHERENCY`].
    NVOS02_FLAGS_COHERENCY_WRITE_COMBINE: u32 = 2;
    /// Of [`NVOS02_FLAGS_COHERENCY`].
    NVOS02_FLAGS_COHERENCY_WRITE_BACK: u32 = 5;
    /// Of [`NVOS02_FLAGS_MAPPING`]: not into the kernel.
    NVOS02_FLAGS_MAPPING_NO_MAP: u32 = 1;
    /// Of [`NVOS02_FLAGS_ALLOC_DEVICE_READ_ONLY`].
    NVOS02_FLAGS_ALLOC_DEVICE_READ_ONLY_YES: u32 = 1;
    /// Of [`NVOS33_FLAGS_ACCESS`].
    NVOS33_FLAGS_ACCESS_READ_WRITE: u32 = 0;
    /// Of [`NVOS33_FLAGS_MAPPING`].
    NVOS33_FLAGS_MAPPING_DEFAULT: u32 = 0;
    /// Of [`NVOS33_FLAGS_MAPPING`]: through the GPU's window on the bus.
    NVOS33_FLAGS_MAPPING_DIRECT: u32 = 1;
    /// Of [`NVOS33_FLAGS_CACHING_TYPE`].
    NVOS33_FLAGS_CACHING_TYPE_CACHED: u32 = 0;
    /// Of [`NVOS33_FLAGS_CACHING_TYPE`].
    NVOS33_FLAGS_CACHING_TYPE_UNCACHED: u32 = 1;
    /// Of [`NVOS33_FLAGS_CACHING_TYPE`].
    NVOS33_FLAGS_CACHING_TYPE_WRITECOMBINED: u32 = 2;
    /// Of [`NVOS33_FLAGS_CACHING_TYPE`].
    NVOS33_FLAGS_CACHING_TYPE_WRITEBACK: u32 = 5;
    /// Of [`NVOS33_FLAGS_CACHING_TYPE`]: as the memory says.
    NVOS33_FLAGS_CACHING_TYPE_DEFAULT: u32 = 6;
    /// Of [`NVOS33_FLAGS_MAP_FIXED`]: at the address that the argument has.
    NVOS33_FLAGS_MAP_FIXED_ENABLE: u32 = 1;
}

bits! {
    /// Of [`NVOS02_PARAMETERS`]: whether pages follow each other in physical memory.
    NVOS02_FLAGS_PHYSICALITY = 7:4;
    /// Of [`NVOS02_PARAMETERS`]: where the memory is.
    NVOS02_FLAGS_LOCATION = 11:8;
    /// Of [`NVOS02_PARAMETERS`]: how the host caches it.
    NVOS02_FLAGS_COHERENCY = 15:12;
    /// Of [`NVOS02_PARAMETERS`]: whether only the kernel may write it.
    NVOS02_FLAGS_ALLOC_USER_READ_ONLY = 21:21;
    /// Of [`NVOS02_PARAMETERS`]: whether the GPU may only read it.
    NVOS02_FLAGS_ALLOC_DEVICE_READ_ONLY = 22:22;
    /// Of [`NVOS02_PARAMETERS`]: whether RM maps it at once.
    NVOS02_FLAGS_MAPPING = 31:30;
    /// Of [`NVOS33_PARAMETERS`]: what the host may do.
    NVOS33_FLAGS_ACCESS = 1:0;
    /// Of [`NVOS33_PARAMETERS`]: which way the host reaches it.
    NVOS33_FLAGS_MAPPING = 16:15;
    /// Of [`NVOS33_PARAMETERS`]: whether the address is given.
    NVOS33_FLAGS_MAP_FIXED = 18:18;
    /// Of [`NVOS33_PARAMETERS`]: how the host caches it.
    NVOS33_FLAGS_CACHING_TYPE = 25:23;
}

/// `NV_MAX_DEVICES`: the most GPUs that the driver knows.
pub const NV_MAX_DEVICES: usize = 32;

structs! {
    /// Argument of [`NV_ESC_RM_FREE`].
    NVOS00_PARAMETERS {
        /// The client.
        hRoot: u32,
        /// The object that it hangs below.
        hObjectParent: u32,
        /// The object to free.
        hObjectOld: u32,
        /// From the kernel: a status.
        status: u32,
    }

    /// What [`nv_ioctl_nvos02_parameters_with_fd`] asks for.
    NVOS02_PARAMETERS {
        /// The client.
        hRoot: u32,
        /// The device.
        hObjectParent: u32,
        /// The new object's handle.
        hObjectNew: u32,
        /// [`NV01_MEMORY_SYSTEM`](super::NV01_MEMORY_SYSTEM) or
        /// [`NV01_MEMORY_SYSTEM_OS_DESCRIPTOR`](super::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR).
        hClass: u32,
        /// `NVOS02_FLAGS_*`.
        flags: u32,
        /// Padding.
        pad0: u32,
        /// Of an OS descriptor: the caller's address, at a page boundary.
        pMemory: u64,
        /// Bytes less one.
        limit: u64,
        /// From the kernel: a status.
        status: u32,
        /// Padding.
        pad1: u32,
    }

    /// Argument of [`NV_ESC_RM_ALLOC_MEMORY`], on the GPU's file.
    nv_ioctl_nvos02_parameters_with_fd {
        /// What it asks for.
        params: NVOS02_PARAMETERS,
        /// A file to map it through, or -1.
        fd: i32,
        /// Padding.
        pad: u32,
    }

    /// Argument of [`NV_ESC_RM_ALLOC`], its short form.
    NVOS21_PARAMETERS {
        /// The client; 0 to make one.
        hRoot: u32,
        /// The object that the new one hangs below.
        hObjectParent: u32,
        /// To the kernel: the new object's handle, or 0 for one of RM's choice. From the kernel: its handle.
        hObjectNew: u32,
        /// Its class.
        hClass: u32,
        /// Address of the class's parameters, or 0.
        pAllocParms: u64,
        /// Their bytes; 0 is what the class has.
        paramsSize: u32,
        /// From the kernel: a status.
        status: u32,
    }

    /// Argument of [`NV_ESC_RM_ALLOC`], its long form.
    NVOS64_PARAMETERS {
        /// The client; 0 to make one.
        hRoot: u32,
        /// The object that the new one hangs below.
        hObjectParent: u32,
        /// To the kernel: the new object's handle, or 0 for one of RM's choice. From the kernel: its handle.
        hObjectNew: u32,
        /// Its class.
        hClass: u32,
        /// Address of the class's parameters, or 0.
        pAllocParms: u64,
        /// Address of a mask of rights, or 0.
        pRightsRequested: u64,
        /// Bytes of the parameters; 0 is what the class has.
        paramsSize: u32,
        /// Flags.
        flags: u32,
        /// From the kernel: a status.
        status: u32,
        /// Padding.
        pad: u32,
    }

    /// What [`nv_ioctl_nvos33_parameters_with_fd`] asks for.
    NVOS33_PARAMETERS {
        /// The client.
        hClient: u32,
        /// The device or subdevice.
        hDevice: u32,
        /// The memory.
        hMemory: u32,
        /// Padding.
        pad: u32,
        /// Bytes into it.
        offset: u64,
        /// Bytes to map.
        length: u64,
        /// From the kernel: what names this mapping when it ends.
        pLinearAddress: u64,
        /// From the kernel: a status.
        status: u32,
        /// `NVOS33_FLAGS_*`.
        flags: u32,
    }

    /// Argument of [`NV_ESC_RM_MAP_MEMORY`], on the client's file. The next `mmap` of `fd`, from offset 0, maps it.
    nv_ioctl_nvos33_parameters_with_fd {
        /// What it asks for.
        params: NVOS33_PARAMETERS,
        /// An open file of the GPU for its own memory and registers, of `/dev/nvidiactl` for system memory; one mapping each.
        fd: i32,
        /// Padding.
        pad: u32,
    }

    /// Argument of [`NV_ESC_RM_UNMAP_MEMORY`].
    NVOS34_PARAMETERS {
        /// The client.
        hClient: u32,
        /// The device or subdevice.
        hDevice: u32,
        /// The memory.
        hMemory: u32,
        /// Padding.
        pad: u32,
        /// What the mapping was named.
        pLinearAddress: u64,
        /// From the kernel: a status.
        status: u32,
        /// Flags.
        flags: u32,
    }

    /// Argument of [`NV_ESC_RM_MAP_MEMORY_DMA`], from branch 580.
    NVOS46_PARAMETERS {
        /// The client.
        hClient: u32,
        /// The device.
        hDevice: u32,
        /// The address space.
        hDma: u32,
        /// The memory.
        hMemory: u32,
        /// Bytes into it.
        offset: u64,
        /// Bytes to map.
        length: u64,
        /// `NVOS46_FLAGS_*`.
        flags: u32,
        /// `NVOS46_FLAGS2_*`.
        flags2: u32,
        /// Kind of the pages, if the flags say so.
        kindOverride: u32,
        /// Padding.
        pad0: u32,
        /// To and from the kernel: where.
        dmaOffset: u64,
        /// From the kernel: a status.
        status: u32,
        /// Padding.
        pad1: u32,
    }

    /// Argument of [`NV_ESC_RM_MAP_MEMORY_DMA`], up to branch 575.
    NVOS46_PARAMETERS_575 {
        /// The client.
        hClient: u32,
        /// The device.
        hDevice: u32,
        /// The address space.
        hDma: u32,
        /// The memory.
        hMemory: u32,
        /// Bytes into it.
        offset: u64,
        /// Bytes to map.
        length: u64,
        /// `NVOS46_FLAGS_*`.
        flags: u32,
        /// Padding.
        pad0: u32,
        /// To and from the kernel: where.
        dmaOffset: u64,
        /// From the kernel: a status.
        status: u32,
        /// Padding.
        pad1: u32,
    }

    /// Argument of [`NV_ESC_RM_UNMAP_MEMORY_DMA`], from branch 550.
    NVOS47_PARAMETERS {
        /// The client.
        hClient: u32,
        /// The device.
        hDevice: u32,
        /// The address space.
        hDma: u32,
        /// The memory.
        hMemory: u32,
        /// `NVOS47_FLAGS_*`.
        flags: u32,
        /// Padding.
        pad0: u32,
        /// Where.
        dmaOffset: u64,
        /// Bytes; 0 is all.
        size: u64,
        /// From the kernel: a status.
        status: u32,
        /// Padding.
        pad1: u32,
    }

    /// Argument of [`NV_ESC_RM_UNMAP_MEMORY_DMA`], up to branch 545.
    NVOS47_PARAMETERS_545 {
        /// The client.
        hClient: u32,
        /// The device.
        hDevice: u32,
        /// The address space.
        hDma: u32,
        /// The memory.
        hMemory: u32,
        /// `NVOS47_FLAGS_*`.
        flags: u32,
        /// Padding.
        pad0: u32,
        /// Where.
        dmaOffset: u64,
        /// From the kernel: a status.
        status: u32,
        /// Padding.
        pad1: u32,
    }

    /// Argument of [`NV_ESC_RM_CONTROL`].
    NVOS54_PARAMETERS {
        /// The client.
        hClient: u32,
        /// The object that is asked.
        hObject: u32,
        /// What it is asked for: `NV*_CTRL_CMD_*`.
        cmd: u32,
        /// Flags.
        flags: u32,
        /// Address of the command's parameters.
        params: u64,
        /// Their bytes, exactly those of the driver.
        paramsSize: u32,
        /// From the kernel: a status.
        status: u32,
    }

    /// Where a GPU is on the bus: `nv_pci_info_t`.
    nv_pci_info_t {
        /// PCI domain.
        domain: u32,
        /// PCI bus.
        bus: u8,
        /// PCI device.
        slot: u8,
        /// PCI function.
        function: u8,
        /// Padding.
        pad: u8,
        /// PCI vendor.
        vendor_id: u16,
        /// PCI device number.
        device_id: u16,
    }

    /// A GPU: `nv_ioctl_card_info_t`.
    nv_ioctl_card_info {
        /// From the kernel: whether there is one at this place of the list.
        valid: u8,
        /// Padding.
        pad0: [u8; 3],
        /// From the kernel: where it is.
        pci_info: nv_pci_info_t,
        /// From the kernel: its number in control commands.
        gpu_id: u32,
        /// From the kernel.
        interrupt_line: u16,
        /// Padding.
        pad1: u16,
        /// From the kernel: physical address of its registers.
        reg_address: u64,
        /// From the kernel: their bytes.
        reg_size: u64,
        /// From the kernel: physical address of the window to its memory.
        fb_address: u64,
        /// From the kernel: bytes of that window.
        fb_size: u64,
        /// From the kernel: the N of `/dev/nvidiaN`.
        minor_number: u32,
        /// From the kernel: unused on Linux.
        dev_name: [u8; 10],
        /// Padding.
        pad2: u16,
    }

    /// Argument of [`NV_ESC_CARD_INFO`]; the request's size says how long the list is.
    nv_ioctl_card_info_list {
        /// The GPUs.
        cards: [nv_ioctl_card_info; NV_MAX_DEVICES],
    }

    /// Argument of [`NV_ESC_REGISTER_FD`].
    nv_ioctl_register_fd {
        /// The client's `/dev/nvidiactl`.
        ctl_fd: i32,
    }

    /// Argument of [`NV_ESC_ALLOC_OS_EVENT`].
    nv_ioctl_alloc_os_event {
        /// The client.
        hClient: u32,
        /// The device; nobody looks at it.
        hDevice: u32,
        /// What events of the client name the file by, in [`NV0005_ALLOC_PARAMETERS`](super::NV0005_ALLOC_PARAMETERS): its
        /// number, or any other that no file of the client has.
        fd: u32,
        /// From the kernel: a status.
        Status: u32,
    }

    /// Argument of [`NV_ESC_FREE_OS_EVENT`].
    nv_ioctl_free_os_event {
        /// The client.
        hClient: u32,
        /// The device; nobody looks at it.
        hDevice: u32,
        /// What events of the client name the file by.
        fd: u32,
        /// From the kernel: a status.
        Status: u32,
    }

    /// Argument of [`NV_ESC_RM_GET_EVENT_DATA`].
    NVOS41_PARAMETERS {
        /// Address of an [`NvUnixEvent`](super::NvUnixEvent).
        pEvent: u64,
        /// From the kernel: whether there are more.
        MoreEvents: u32,
        /// From the kernel: a status.
        status: u32,
    }

    /// Argument of [`NV_ESC_CHECK_VERSION_STR`].
    nv_ioctl_rm_api_version {
        /// `NV_RM_API_VERSION_CMD_*`.
        cmd: u32,
        /// From the kernel: `NV_RM_API_VERSION_REPLY_*`.
        reply: u32,
        /// To the kernel: the version to compare. From the kernel: its own. Ends with a zero.
        versionString: [u8; 64],
    }
}

/// An argument that carries the answer's status.
pub trait Status: Argument {
    /// [`NV_OK`](super::NV_OK) or one of `NV_ERR_*`.
    fn status(&self) -> u32;
}

macro_rules! arguments {
    ($($name:ident = $number:ident $(, $status:ident $(. $inner:ident)?)?;)*) => {$(
        impl Argument for $name {
            const NAME: &'static str = stringify!($number);
            const REQUEST: u32 = ioctl::iowr(NV_IOCTL_MAGIC, $number, size_of::<$name>());
        }

        $(impl Status for $name {
            fn status(&self) -> u32 {
                self.$status $(. $inner)?
            }
        })?
    )*};
}

arguments! {
    NVOS00_PARAMETERS = NV_ESC_RM_FREE, status;
    nv_ioctl_nvos02_parameters_with_fd = NV_ESC_RM_ALLOC_MEMORY, params.status;
    NVOS21_PARAMETERS = NV_ESC_RM_ALLOC, status;
    NVOS64_PARAMETERS = NV_ESC_RM_ALLOC, status;
    nv_ioctl_nvos33_parameters_with_fd = NV_ESC_RM_MAP_MEMORY, params.status;
    NVOS34_PARAMETERS = NV_ESC_RM_UNMAP_MEMORY, status;
    NVOS41_PARAMETERS = NV_ESC_RM_GET_EVENT_DATA, status;
    NVOS46_PARAMETERS = NV_ESC_RM_MAP_MEMORY_DMA, status;
    NVOS46_PARAMETERS_575 = NV_ESC_RM_MAP_MEMORY_DMA, status;
    NVOS47_PARAMETERS = NV_ESC_RM_UNMAP_MEMORY_DMA, status;
    NVOS47_PARAMETERS_545 = NV_ESC_RM_UNMAP_MEMORY_DMA, status;
    NVOS54_PARAMETERS = NV_ESC_RM_CONTROL, status;
    nv_ioctl_card_info_list = NV_ESC_CARD_INFO;
    nv_ioctl_register_fd = NV_ESC_REGISTER_FD;
    nv_ioctl_alloc_os_event = NV_ESC_ALLOC_OS_EVENT, Status;
    nv_ioctl_free_os_event = NV_ESC_FREE_OS_EVENT, Status;
    nv_ioctl_rm_api_version = NV_ESC_CHECK_VERSION_STR;
}
