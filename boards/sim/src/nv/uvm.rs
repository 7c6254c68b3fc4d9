//! Unified memory: `/dev/nvidia-uvm`.
//!
//! A request is a plain number, and the driver copies as much of the argument as its own struct has. What is wrong is told by a
//! status in the argument; `EFAULT` is an argument that is not there, `EINVAL` a number that nobody knows.
//!
//! | module | what |
//! |---|---|
//! | `gpu` | GPUs, their address spaces and channels join and leave |
//! | `range` | ranges of addresses, and RM's memory in them |

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hcq_uapi::nv::*;

use super::Nv;
use super::files::{Node, UvmFile};
use super::memory::{Memory, SpaceId};
use super::queue::{ChannelId, GroupId};
use crate::machine::{FileId, Ioctl, Map, View, user};

mod gpu;
mod range;

/// `UVM_PAGEABLE_MEM_ACCESS`, `UVM_VALIDATE_VA_RANGE`.
const PAGEABLE_MEM_ACCESS: u32 = 39;
const VALIDATE_VA_RANGE: u32 = 72;
/// Flags of `UVM_INITIALIZE` that there are.
const FLAGS: u64 = UVM_INIT_FLAGS_DISABLE_HMM | UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE;
/// `NV_WARN_NOTHING_TO_DO`.
const NOTHING_TO_DO: u32 = 0x1_0006;

/// A GPU of an address space.
#[derive(Debug, Default)]
struct Member {
    /// RM's address space.
    space: Option<SpaceId>,
    channels: BTreeSet<ChannelId>,
}

/// What a range of addresses is for.
#[derive(Debug)]
enum Use {
    /// RM's memory, wherever the process maps it.
    External,
    /// What the channels of a group need.
    Context { group: GroupId, uses: u32 },
}

#[derive(Debug)]
struct Range {
    /// The last address.
    last: u64,
    what: Use,
}

/// A mapping of RM's memory on a GPU.
#[derive(Debug)]
struct Mapped {
    /// The last address.
    last: u64,
    /// Bytes of its pages.
    page: u64,
    /// Bytes of the memory before the first.
    from: u64,
    memory: Arc<Memory>,
}

/// Whether a second file keeps the process's memory for an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// No, and it may begin to.
    Not,
    Yes,
    /// It has been closed: nothing new may begin.
    NoMore,
}

/// An address space that the host and GPUs share.
#[derive(Debug)]
pub(super) struct Uvm {
    flags: u64,
    members: BTreeMap<usize, Member>,
    /// By first address.
    ranges: BTreeMap<u64, Range>,
    /// By GPU and first address.
    mapped: BTreeMap<(usize, u64), Mapped>,
    /// Pairs of GPUs, the lower number first.
    peers: BTreeSet<(usize, usize)>,
    kept: Kept,
}

impl Uvm {
    fn new(flags: u64) -> Self {
        Self {
            flags,
            members: BTreeMap::new(),
            ranges: BTreeMap::new(),
            mapped: BTreeMap::new(),
            peers: BTreeSet::new(),
            kept: Kept::Not,
        }
    }

    /// The range that holds an address.
    fn at(&self, address: u64) -> Option<(u64, &Range)> {
        let (&start, range) = self.ranges.range(..=address).next_back()?;
        (address <= range.last).then_some((start, range))
    }

    /// Whether some address of a range is in use.
    fn overlaps(&self, start: u64, last: u64) -> bool {
        self.at(start).is_some() || self.ranges.range(start..=last).next().is_some()
    }
}

/// `uvm_api_range_invalid_4k`: the last address of a range that is whole pages.
fn last_of(base: u64, length: u64) -> Result<u64, u32> {
    let whole = base.is_multiple_of(4096) && length.is_multiple_of(4096);
    if !whole || base == 0 || length == 0 {
        return Err(NV_ERR_INVALID_ADDRESS);
    }
    let last = base.checked_add(length - 1);
    // The end is an address too there.
    last.filter(|&last| last != u64::MAX)
        .ok_or(NV_ERR_INVALID_ADDRESS)
}

/// An argument with the status that the kernel writes.
trait Answered: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable {
    fn answer(&mut self, status: u32);
}

macro_rules! answered {
    ($($name:ident,)*) => {$(
        impl Answered for $name {
            fn answer(&mut self, status: u32) {
                self.rmStatus = status;
            }
        }
    )*};
}

/// `UVM_PAGEABLE_MEM_ACCESS_PARAMS`.
#[derive(Clone, Copy, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable)]
#[repr(C)]
#[allow(non_snake_case, reason = "the C header's names")]
struct Pageable {
    pageableMemAccess: u8,
    pad: [u8; 3],
    rmStatus: u32,
}

/// `UVM_VALIDATE_VA_RANGE_PARAMS`.
#[derive(Clone, Copy, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable)]
#[repr(C)]
#[allow(non_snake_case, reason = "the C header's names")]
struct Validate {
    base: u64,
    length: u64,
    rmStatus: u32,
    pad: u32,
}

answered! {
    Pageable,
    Validate,
    UVM_INITIALIZE_PARAMS,
    UVM_MM_INITIALIZE_PARAMS,
    UVM_REGISTER_GPU_PARAMS,
    UVM_UNREGISTER_GPU_PARAMS,
    UVM_REGISTER_GPU_VASPACE_PARAMS,
    UVM_UNREGISTER_GPU_VASPACE_PARAMS,
    UVM_REGISTER_CHANNEL_PARAMS,
    UVM_UNREGISTER_CHANNEL_PARAMS,
    UVM_UNREGISTER_CHANNEL_PARAMS_580,
    UVM_ENABLE_PEER_ACCESS_PARAMS,
    UVM_DISABLE_PEER_ACCESS_PARAMS,
    UVM_CREATE_EXTERNAL_RANGE_PARAMS,
    UVM_MAP_EXTERNAL_ALLOCATION_PARAMS,
    UVM_MAP_EXTERNAL_ALLOCATION_PARAMS_545,
    UVM_UNMAP_EXTERNAL_PARAMS,
    UVM_FREE_PARAMS,
    UVM_FREE_PARAMS_580,
}

/// `UVM_ROUTE_CMD_*`: copies the argument in, runs the call, copies it back with the status.
fn route<T: Answered>(
    address: u64,
    call: impl FnOnce(&mut T) -> Result<(), u32>,
) -> Result<i32, i32> {
    let mut args = Box::new(T::new_zeroed());
    user::read(address, args.as_mut_bytes())?;
    let status = call(&mut args).err().unwrap_or(NV_OK);
    args.answer(status);
    user::write(address, args.as_bytes())?;
    Ok(0)
}

impl Nv {
    /// The address space of a file; without one, no call but those that make one is allowed.
    fn uvm(&mut self, file: FileId) -> Result<&mut Uvm, u32> {
        match self.files.get_mut(&file).map(|open| &mut open.uvm) {
            Some(UvmFile::Space(uvm)) => Ok(uvm),
            _ => Err(NV_ERR_ILLEGAL_ACTION),
        }
    }

    /// `uvm_ioctl`.
    pub(super) fn uvm_ioctl(
        &mut self,
        call: &mut Ioctl<'_>,
        request: u32,
        address: u64,
    ) -> Result<i32, i32> {
        let file = call.file;
        let abi = self.abi;
        match request {
            UVM_DEINITIALIZE => Ok(0),
            UVM_INITIALIZE => route(address, |args: &mut UVM_INITIALIZE_PARAMS| {
                self.uvm_initialize(file, args.flags)
            }),
            UVM_MM_INITIALIZE => route(address, |args: &mut UVM_MM_INITIALIZE_PARAMS| {
                let other = call.file(args.uvmFd);
                self.uvm_mm_initialize(file, other)
            }),
            PAGEABLE_MEM_ACCESS => route(address, |args: &mut Pageable| {
                self.uvm(file)?;
                args.pageableMemAccess = 0;
                Ok(())
            }),
            UVM_REGISTER_GPU => route(address, |args| self.uvm_register_gpu(file, args)),
            UVM_UNREGISTER_GPU => route(address, |args: &mut UVM_UNREGISTER_GPU_PARAMS| {
                self.uvm_unregister_gpu(file, &args.gpu_uuid)
            }),
            UVM_REGISTER_GPU_VASPACE => route(address, |args| self.uvm_register_space(file, args)),
            UVM_UNREGISTER_GPU_VASPACE => {
                route(address, |args: &mut UVM_UNREGISTER_GPU_VASPACE_PARAMS| {
                    self.uvm_unregister_space(file, &args.gpuUuid)
                })
            }
            UVM_REGISTER_CHANNEL => route(address, |args| self.uvm_register_channel(file, args)),
            UVM_UNREGISTER_CHANNEL if abi.unregister_uuid => {
                route(address, |args: &mut UVM_UNREGISTER_CHANNEL_PARAMS_580| {
                    self.uvm_unregister_channel(file, args.hClient, args.hChannel)
                })
            }
            UVM_UNREGISTER_CHANNEL => route(address, |args: &mut UVM_UNREGISTER_CHANNEL_PARAMS| {
                self.uvm_unregister_channel(file, args.hClient, args.hChannel)
            }),
            UVM_ENABLE_PEER_ACCESS => route(address, |args: &mut UVM_ENABLE_PEER_ACCESS_PARAMS| {
                self.uvm_enable_peers(file, &args.gpuUuidA, &args.gpuUuidB)
            }),
            UVM_DISABLE_PEER_ACCESS => {
                route(address, |args: &mut UVM_DISABLE_PEER_ACCESS_PARAMS| {
                    self.uvm_disable_peers(file, &args.gpuUuidA, &args.gpuUuidB)
                })
            }
            UVM_CREATE_EXTERNAL_RANGE => {
                route(address, |args: &mut UVM_CREATE_EXTERNAL_RANGE_PARAMS| {
                    self.uvm_create_range(file, args.base, args.length)
                })
            }
            UVM_MAP_EXTERNAL_ALLOCATION if abi.map_external_gpus == 32 => route(
                address,
                |args: &mut UVM_MAP_EXTERNAL_ALLOCATION_PARAMS_545| {
                    let what = range::What {
                        base: args.base,
                        length: args.length,
                        offset: args.offset,
                        client: args.hClient,
                        handle: args.hMemory,
                    };
                    let count = args.gpuAttributesCount;
                    self.uvm_map(file, &what, &args.perGpuAttributes, count)
                },
            ),
            UVM_MAP_EXTERNAL_ALLOCATION => {
                route(address, |args: &mut UVM_MAP_EXTERNAL_ALLOCATION_PARAMS| {
                    let what = range::What {
                        base: args.base,
                        length: args.length,
                        offset: args.offset,
                        client: args.hClient,
                        handle: args.hMemory,
                    };
                    let count = args.gpuAttributesCount;
                    self.uvm_map(file, &what, &args.perGpuAttributes, count)
                })
            }
            UVM_UNMAP_EXTERNAL => route(address, |args: &mut UVM_UNMAP_EXTERNAL_PARAMS| {
                self.uvm_unmap(file, args.base, args.length, &args.gpuUuid)
            }),
            UVM_FREE if abi.free_length => route(address, |args: &mut UVM_FREE_PARAMS_580| {
                self.uvm_free(file, args.base, Some(args.length))
            }),
            UVM_FREE => route(address, |args: &mut UVM_FREE_PARAMS| {
                self.uvm_free(file, args.base, None)
            }),
            VALIDATE_VA_RANGE => route(address, |args: &mut Validate| {
                let last = last_of(args.base, args.length)?;
                let uvm = self.uvm(file)?;
                let found = uvm.at(args.base).filter(|(_, range)| last <= range.last);
                found.map(|_| ()).ok_or(NV_ERR_INVALID_ADDRESS)
            }),
            _ => {
                self.report(format!(
                    "request {request:#x} of unified memory is not simulated"
                ));
                Err(libc::EINVAL)
            }
        }
    }

    /// `uvm_api_initialize`.
    fn uvm_initialize(&mut self, file: FileId, flags: u64) -> Result<(), u32> {
        let open = self.files.get_mut(&file).ok_or(NV_ERR_INVALID_STATE)?;
        match &open.uvm {
            UvmFile::Fresh if flags & !FLAGS != 0 => Err(NV_ERR_INVALID_ARGUMENT),
            UvmFile::Fresh => {
                open.uvm = UvmFile::Space(Box::new(Uvm::new(flags)));
                Ok(())
            }
            UvmFile::Space(uvm) if uvm.flags == flags => Ok(()),
            UvmFile::Space(_) | UvmFile::Keeper(_) => Err(NV_ERR_INVALID_ARGUMENT),
        }
    }

    /// `uvm_api_mm_initialize`. An address space that several processes share has no memory of one to keep.
    fn uvm_mm_initialize(&mut self, file: FileId, other: Option<(u32, FileId)>) -> Result<(), u32> {
        let (node, named) = other.ok_or(NV_ERR_INVALID_ARGUMENT)?;
        if Node::of(node) != Node::Uvm {
            return Err(NV_ERR_INVALID_ARGUMENT);
        }
        let uvm = self.uvm(named).map_err(|_| NV_ERR_INVALID_ARGUMENT)?;
        if uvm.flags & UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE != 0 {
            return Err(NOTHING_TO_DO);
        }
        let kept = uvm.kept;
        let open = self.files.get_mut(&file).ok_or(NV_ERR_INVALID_STATE)?;
        if !matches!(open.uvm, UvmFile::Fresh) {
            return Err(NV_ERR_IN_USE);
        }
        match kept {
            Kept::Not => {}
            Kept::Yes => return Err(NV_ERR_INVALID_STATE),
            Kept::NoMore => return Err(NV_ERR_PAGE_TABLE_NOT_AVAIL),
        }
        open.uvm = UvmFile::Keeper(named);
        self.uvm(named)?.kept = Kept::Yes;
        Ok(())
    }

    /// The address space, if GPUs and what they have may still join it: `disallow_new_registers`.
    fn joinable(&mut self, file: FileId) -> Result<&mut Uvm, u32> {
        let uvm = self.uvm(file)?;
        if uvm.kept == Kept::NoMore {
            return Err(NV_ERR_PAGE_TABLE_NOT_AVAIL);
        }
        Ok(uvm)
    }

    /// `uvm_mmap`: managed memory, which is not simulated.
    pub(super) fn mmap_uvm(&mut self, map: &Map) -> Result<View, i32> {
        let open = self.files.get(&map.file).ok_or(libc::EBADF)?;
        if !matches!(open.uvm, UvmFile::Space(_)) {
            return Err(libc::EBADFD);
        }
        self.report("managed memory (mmap of /dev/nvidia-uvm) is not simulated".into());
        Err(libc::EINVAL)
    }

    /// The file was closed: `uvm_va_space_destroy`; or, of a file that kept the process's memory, `uvm_va_space_mm_shutdown`,
    /// after which GPUs have no address space there any more.
    pub(super) fn end_uvm(&mut self, file: FileId, state: UvmFile) {
        match state {
            UvmFile::Fresh => {}
            UvmFile::Space(mut uvm) => {
                for (_, member) in std::mem::take(&mut uvm.members) {
                    self.leave(file, member);
                }
            }
            UvmFile::Keeper(of) => {
                let Ok(uvm) = self.uvm(of) else {
                    return;
                };
                uvm.kept = Kept::NoMore;
                uvm.mapped.clear();
                let members: Vec<Member> = uvm.members.values_mut().map(std::mem::take).collect();
                for member in members {
                    self.leave(of, member);
                }
            }
        }
    }
}
