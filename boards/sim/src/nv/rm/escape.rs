//! The requests of `/dev/nvidiactl` and `/dev/nvidiaN`: `nvidia_ioctl` of `nv.c`, `RmIoctl` of `escape.c`.
//!
//! A request's number says what, its size must be that of the argument. An argument of the wrong size, or on a file of the other
//! kind, is `EINVAL`; what is wrong in it is a status in the argument, and the call succeeds.

use hcq_uapi::ioctl;
use hcq_uapi::nv::*;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::super::Nv;
use super::super::files::Node;
use crate::machine::{FileId, Ioctl, user};

/// `NV_ESC_IOCTL_XFER_CMD`: the argument says where the argument is.
const XFER: u8 = 211;
/// `NV_ABSOLUTE_MAX_IOCTL_SIZE`.
const XFER_MAX: u32 = 16384;
/// `NV_ESC_SYS_PARAMS`.
const SYS_PARAMS: u8 = 0xd6;

/// `nv_ioctl_xfer_t`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Xfer {
    cmd: u32,
    size: u32,
    ptr: u64,
}

/// Runs a call on an argument of exactly this type.
fn on<T: FromBytes + IntoBytes + Immutable>(
    bytes: &mut [u8],
    call: impl FnOnce(&mut T) -> Result<(), i32>,
) -> Result<(), i32> {
    let mut argument = T::read_from_bytes(bytes).map_err(|_| libc::EINVAL)?;
    let result = call(&mut argument);
    bytes.copy_from_slice(argument.as_bytes());
    result
}

/// The status of what a call came to.
fn status(result: Result<(), u32>) -> u32 {
    match result {
        Ok(()) => NV_OK,
        Err(status) => status,
    }
}

impl Nv {
    /// `nvidia_ioctl`: the argument is copied in as far as the request says, and copied back whatever came of the call.
    pub(in crate::nv) fn escape(
        &mut self,
        call: &mut Ioctl<'_>,
        node: Node,
        request: u32,
        address: u64,
    ) -> Result<i32, i32> {
        let mut number = ioctl::number(request);
        let mut size = ioctl::size(request);
        let mut at = address;
        if number == XFER {
            if size != size_of::<Xfer>() {
                return Err(libc::EINVAL);
            }
            let xfer: Xfer = user::get(address)?;
            if xfer.size > XFER_MAX {
                return Err(libc::EINVAL);
            }
            number = u8::try_from(xfer.cmd).map_err(|_| libc::EINVAL)?;
            size = usize::try_from(xfer.size).map_err(|_| libc::EINVAL)?;
            at = xfer.ptr;
        }
        let mut bytes = vec![0; size];
        user::read(at, &mut bytes)?;
        let result = self.dispatch(call, node, number, &mut bytes);
        if result != Err(libc::EFAULT) {
            user::write(at, &bytes)?;
        }
        result.map(|()| 0)
    }

    fn dispatch(
        &mut self,
        call: &mut Ioctl<'_>,
        node: Node,
        number: u8,
        bytes: &mut [u8],
    ) -> Result<(), i32> {
        let file = call.file;
        // `NV_CTL_DEVICE_ONLY`, `NV_ACTUAL_DEVICE_ONLY`. Sizes are looked at first.
        let control = || (node == Node::Control).then_some(()).ok_or(libc::EINVAL);
        let device = || (node != Node::Control).then_some(()).ok_or(libc::EINVAL);
        match number {
            NV_ESC_CARD_INFO => {
                control()?;
                self.card_info(bytes)
            }
            NV_ESC_CHECK_VERSION_STR => {
                control()?;
                on(bytes, |args| self.check_version(args))
            }
            SYS_PARAMS => {
                control()?;
                on(bytes, |block: &mut u64| match self.memory_block {
                    None | Some(0) => {
                        self.memory_block = Some(*block);
                        Ok(())
                    }
                    Some(known) if known == *block => Ok(()),
                    Some(_) => Err(libc::EBUSY),
                })
            }
            NV_ESC_REGISTER_FD => on(bytes, |args: &mut nv_ioctl_register_fd| {
                let control = call.file(args.ctl_fd);
                self.register_fd(file, control)
            }),
            NV_ESC_ALLOC_OS_EVENT => on(bytes, |args: &mut nv_ioctl_alloc_os_event| {
                args.Status = status(self.alloc_os_event(file, args.hClient, args.fd));
                Ok(())
            }),
            NV_ESC_FREE_OS_EVENT => on(bytes, |args: &mut nv_ioctl_free_os_event| {
                args.Status = status(self.free_os_event(args.hClient, args.fd));
                Ok(())
            }),
            NV_ESC_RM_GET_EVENT_DATA => on(bytes, |args: &mut NVOS41_PARAMETERS| {
                args.status = status(self.event_data(file, args));
                Ok(())
            }),
            NV_ESC_RM_ALLOC if bytes.len() == size_of::<NVOS64_PARAMETERS>() => {
                on(bytes, |args: &mut NVOS64_PARAMETERS| {
                    let mut short = NVOS21_PARAMETERS {
                        hRoot: args.hRoot,
                        hObjectParent: args.hObjectParent,
                        hObjectNew: args.hObjectNew,
                        hClass: args.hClass,
                        pAllocParms: args.pAllocParms,
                        paramsSize: args.paramsSize,
                        status: 0,
                    };
                    self.rm_alloc(call, node, &mut short)?;
                    (args.hObjectNew, args.hClass) = (short.hObjectNew, short.hClass);
                    args.status = short.status;
                    Ok(())
                })
            }
            NV_ESC_RM_ALLOC => on(bytes, |args| self.rm_alloc(call, node, args)),
            NV_ESC_RM_FREE => on(bytes, |args: &mut NVOS00_PARAMETERS| {
                control()?;
                args.status = status(self.free(file, args.hRoot, args.hObjectOld));
                Ok(())
            }),
            NV_ESC_RM_CONTROL => on(bytes, |args: &mut NVOS54_PARAMETERS| {
                control()?;
                call.command(args.cmd)?;
                args.status = status(self.control(file, args));
                Ok(())
            }),
            NV_ESC_RM_ALLOC_MEMORY => on(bytes, |args: &mut nv_ioctl_nvos02_parameters_with_fd| {
                device()?;
                call.command(args.params.hClass)?;
                let made = self.alloc_memory(file, &args.params);
                if let Ok(handle) = made {
                    args.params.hObjectNew = handle;
                }
                args.params.status = status(made.map(|_| ()));
                Ok(())
            }),
            NV_ESC_RM_MAP_MEMORY => on(bytes, |args: &mut nv_ioctl_nvos33_parameters_with_fd| {
                control()?;
                let target = call.file(args.fd);
                args.params.status = status(self.map_memory(file, &mut args.params, target));
                Ok(())
            }),
            NV_ESC_RM_UNMAP_MEMORY => on(bytes, |args: &mut NVOS34_PARAMETERS| {
                control()?;
                args.status = status(self.unmap_memory(file, args));
                Ok(())
            }),
            NV_ESC_RM_MAP_MEMORY_DMA if self.abi.map_dma_flags2 => {
                on(bytes, |args: &mut NVOS46_PARAMETERS| {
                    control()?;
                    args.status = status(self.map_dma(file, args));
                    Ok(())
                })
            }
            NV_ESC_RM_MAP_MEMORY_DMA => on(bytes, |args: &mut NVOS46_PARAMETERS_575| {
                control()?;
                let mut new = NVOS46_PARAMETERS {
                    hClient: args.hClient,
                    hDevice: args.hDevice,
                    hDma: args.hDma,
                    hMemory: args.hMemory,
                    offset: args.offset,
                    length: args.length,
                    flags: args.flags,
                    dmaOffset: args.dmaOffset,
                    ..NVOS46_PARAMETERS::default()
                };
                args.status = status(self.map_dma(file, &mut new));
                args.dmaOffset = new.dmaOffset;
                Ok(())
            }),
            NV_ESC_RM_UNMAP_MEMORY_DMA if self.abi.unmap_dma_size => {
                on(bytes, |args: &mut NVOS47_PARAMETERS| {
                    control()?;
                    args.status = status(self.unmap_dma(file, args));
                    Ok(())
                })
            }
            NV_ESC_RM_UNMAP_MEMORY_DMA => on(bytes, |args: &mut NVOS47_PARAMETERS_545| {
                control()?;
                let new = NVOS47_PARAMETERS {
                    hClient: args.hClient,
                    hDevice: args.hDevice,
                    hDma: args.hDma,
                    hMemory: args.hMemory,
                    flags: args.flags,
                    dmaOffset: args.dmaOffset,
                    ..NVOS47_PARAMETERS::default()
                };
                args.status = status(self.unmap_dma(file, &new));
                Ok(())
            }),
            _ => {
                self.report(format!(
                    "request {number:#x} of the resource manager is not simulated"
                ));
                Err(libc::EINVAL)
            }
        }
    }

    /// `NV_ESC_RM_ALLOC` of `RmIoctl`.
    fn rm_alloc(
        &mut self,
        call: &mut Ioctl<'_>,
        node: Node,
        args: &mut NVOS21_PARAMETERS,
    ) -> Result<(), i32> {
        let event = matches!(args.hClass, NV01_EVENT | NV01_EVENT_OS_EVENT);
        if node != Node::Control && !event {
            return Err(libc::EINVAL);
        }
        if matches!(
            args.hClass,
            super::class::NV01_ROOT | super::class::NV01_ROOT_NON_PRIV
        ) {
            args.hClass = NV01_ROOT_CLIENT;
        }
        call.command(args.hClass)?;
        let made = self.alloc(call.file, args);
        if let Ok(handle) = made {
            args.hObjectNew = handle;
        }
        if made == Err(NV_ERR_INVALID_CLASS) {
            self.report(format!("class {:#x} is not simulated", args.hClass));
        }
        args.status = status(made.map(|_| ()));
        Ok(())
    }

    /// `nvidia_read_card_info`: the list is as long as the request says; what is behind the last GPU is zero.
    fn card_info(&self, bytes: &mut [u8]) -> Result<(), i32> {
        let one = size_of::<nv_ioctl_card_info>();
        if bytes.len() / one < self.gpus.len() {
            return Err(libc::EINVAL);
        }
        let used = bytes.len() / one * one;
        let list = bytes.get_mut(..used).ok_or(libc::EINVAL)?;
        list.fill(0);
        for (gpu, place) in self.gpus.iter().zip(list.chunks_exact_mut(one)) {
            place.copy_from_slice(gpu.card_info(self.chip).as_bytes());
        }
        Ok(())
    }

    /// `RmPerformVersionCheck`.
    fn check_version(&self, args: &mut nv_ioctl_rm_api_version) -> Result<(), i32> {
        let mut own = [0; 64];
        let text = self.version.to_string();
        for (to, from) in own.iter_mut().zip(text.bytes()) {
            *to = from;
        }
        args.reply = NV_RM_API_VERSION_REPLY_RECOGNIZED;
        let relaxed = args.cmd == NV_RM_API_VERSION_CMD_RELAXED;
        let mut same = args.cmd == NV_RM_API_VERSION_CMD_QUERY;
        if !same {
            for (&theirs, &ours) in args.versionString.iter().zip(&own) {
                if theirs != ours {
                    break;
                }
                if ours == 0 || relaxed && ours == b'.' {
                    return Ok(());
                }
            }
        }
        same |= args.cmd == NV_RM_API_VERSION_CMD_QUERY;
        args.versionString = own;
        if same { Ok(()) } else { Err(libc::EINVAL) }
    }

    /// `NV_ESC_REGISTER_FD` of `RmIoctl`.
    fn register_fd(&mut self, file: FileId, control: Option<(u32, FileId)>) -> Result<(), i32> {
        let (node, named) = control.ok_or(libc::EINVAL)?;
        let linked = self.files.get(&named).and_then(|open| open.control);
        let open = self.files.get_mut(&file).ok_or(libc::EBADF)?;
        if open.control.is_some()
            || Node::of(node) != Node::Control
            || named == file
            || linked.is_some()
        {
            return Err(libc::EINVAL);
        }
        open.control = Some(named);
        Ok(())
    }
}
