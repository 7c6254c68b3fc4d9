//! The driver's answers.
#![allow(unsafe_code, reason = "takes raw ioctl arguments")]

use std::collections::BTreeSet;
use std::ffi::c_void;

use hcq_uapi::ioctl::{self, Argument};
use hcq_uapi::nv::{self, NVXXXX_CTRL_XXX_INFO};

use super::{Object, State};

fn uuid(number: u8) -> [u8; 16] {
    let mut uuid = [0xab; 16];
    uuid[15] = number;
    uuid
}

impl State {
    fn free(&mut self, handle: u32) {
        let below: Vec<u32> = self
            .objects
            .iter()
            .filter(|(h, o)| o.parent == handle && **h != handle)
            .map(|(h, _)| *h)
            .collect();
        for child in below {
            self.free(child);
        }
        self.events.remove(&handle);
        self.asked.retain(|(subdevice, _)| *subdevice != handle);
        if let Some(object) = self.objects.remove(&handle)
            && self.channel_params.remove(&handle).is_some()
        {
            assert!(object.class & 0xff == 0x6f);
            self.channels_left += 1;
        }
    }

    fn number(&self, uuid: &nv::nv_uuid) -> u8 {
        assert_eq!(uuid.uuid[0], 0xab, "not a GPU's name");
        uuid.uuid[15]
    }

    /// The number of the GPU that an object hangs below.
    fn gpu_of(&self, handle: u32) -> u8 {
        let object = &self.objects[&handle];
        match object.class {
            nv::NV01_DEVICE_0 => object.size as u8,
            _ => self.gpu_of(object.parent),
        }
    }

    fn alloc(&mut self, a: &mut nv::NVOS21_PARAMETERS) -> u32 {
        if a.hClass == nv::NV01_ROOT_CLIENT {
            self.next += 1;
            a.hObjectNew = 0xc1d0_0000 + self.next;
            let client = Object {
                parent: 0,
                class: a.hClass,
                size: 0,
            };
            self.objects.insert(a.hObjectNew, client);
            return nv::NV_OK;
        }
        if !self.objects.contains_key(&a.hRoot) || !self.objects.contains_key(&a.hObjectParent) {
            return nv::NV_ERR_INVALID_OBJECT_PARENT;
        }
        assert!(!self.objects.contains_key(&a.hObjectNew), "a handle twice");
        let mut object = Object {
            parent: a.hObjectParent,
            class: a.hClass,
            size: 0,
        };
        macro_rules! params {
            ($type:ident, $len:expr) => {{
                assert_eq!(a.paramsSize as usize, $len, "{}", stringify!($type));
                // SAFETY: the class's parameters, at least that long.
                unsafe { read::<nv::$type>(a.pAllocParms, $len) }
            }};
        }
        let parent = self.objects[&a.hObjectParent].class;
        match a.hClass {
            nv::NV01_DEVICE_0 => {
                let p = params!(NV0080_ALLOC_PARAMETERS, 56);
                assert_eq!(p.hClientShare, a.hRoot);
                object.size = p.deviceId.into();
            }
            nv::NV20_SUBDEVICE_0 => assert_eq!(parent, nv::NV01_DEVICE_0),
            nv::FERMI_VASPACE_A => {
                let p = params!(NV_VASPACE_ALLOCATION_PARAMETERS, 56);
                assert!(p.flags.contains(nv::VaspaceFlags::IS_EXTERNALLY_OWNED));
            }
            nv::NV01_MEMORY_LOCAL_USER | nv::NV01_MEMORY_SYSTEM => {
                let p = params!(NV_MEMORY_ALLOCATION_PARAMS, 128);
                if p.size >= 1 << 40 {
                    return nv::NV_ERR_NO_MEMORY;
                }
                assert!(p.size.is_multiple_of(4096) && p.limit == p.size - 1);
                object.size = p.size;
            }
            nv::NV01_EVENT_OS_EVENT => {
                let p = params!(NV0005_ALLOC_PARAMETERS, 24);
                let source = self.objects[&p.hSrcResource].class;
                assert_eq!((p.hParentClient, source), (a.hRoot, nv::NV20_SUBDEVICE_0));
                let name = p.data as u32;
                if !self.os_events.contains_key(&(a.hRoot, name)) {
                    return nv::NV_ERR_OBJECT_NOT_FOUND;
                }
                self.events.insert(a.hObjectNew, (name, p.notifyIndex));
            }
            nv::KEPLER_CHANNEL_GROUP_A | nv::FERMI_CONTEXT_SHARE_A | nv::GT200_DEBUGGER => {}
            class if class & 0xff == 0x61 => assert!(self.classes.contains(&class)),
            class if class & 0xff == 0x6f => {
                let p = params!(NV_CHANNEL_ALLOC_PARAMS, 368);
                assert_eq!(parent, nv::KEPLER_CHANNEL_GROUP_A);
                let seen = |at: u64| {
                    self.ranges
                        .iter()
                        .any(|(b, (len, _))| (*b..b + len).contains(&at))
                };
                assert!(seen(p.gpFifoOffset) && p.gpFifoEntries.is_power_of_two());
                assert!(self.objects.contains_key(&p.hUserdMemory[0]));
                assert!(self.objects.contains_key(&p.hObjectError));
                assert_eq!(self.objects[&p.hContextShare].parent, a.hObjectParent);
                if self.channels_left == 0 {
                    return nv::NV_ERR_INSUFFICIENT_RESOURCES;
                }
                self.channels_left -= 1;
                self.channel_params.insert(a.hObjectNew, p);
            }
            class if matches!(class & 0xff, 0xc0 | 0xb5) => {
                assert!(self.classes.contains(&class) && parent & 0xff == 0x6f);
            }
            class => panic!("class {class:#x} is not known here"),
        }
        self.objects.insert(a.hObjectNew, object);
        nv::NV_OK
    }

    fn control(&mut self, a: &nv::NVOS54_PARAMETERS) -> u32 {
        if !self.objects.contains_key(&a.hObject) {
            return nv::NV_ERR_INVALID_OBJECT_HANDLE;
        }
        macro_rules! with {
            ($type:ident, $p:ident => $body:block) => {{
                // SAFETY: the command's parameters, at least that long.
                #[allow(unused_mut, reason = "some commands change what their parameters point to")]
                let mut $p = unsafe { read::<nv::$type>(a.params, a.paramsSize as usize) };
                $body
                // SAFETY: as above.
                unsafe { write(a.params, a.paramsSize as usize, &$p) };
            }};
        }
        match a.cmd {
            nv::NV0000_CTRL_CMD_GPU_GET_ID_INFO_V2 => {
                with!(NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS, p => { p.deviceInstance = p.gpuId - 0x8000; });
            }
            nv::NV0080_CTRL_CMD_GPU_GET_CLASSLIST => {
                with!(NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS, p => {
                    for (index, class) in self.classes.iter().take(p.numClasses as usize).enumerate() {
                        // SAFETY: the list is as long as it says.
                        unsafe { write(p.classList + 4 * index as u64, 4, class) };
                    }
                    p.numClasses = self.classes.len() as u32;
                });
            }
            nv::NV2080_CTRL_CMD_GR_GET_INFO => {
                with!(NV2080_CTRL_GR_GET_INFO_PARAMS, p => {
                    let answer = |index| match index {
                        nv::NV2080_CTRL_GR_INFO_INDEX_SM_VERSION => 0x806,
                        nv::NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_GPCS => 7,
                        nv::NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_TPC_PER_GPC => 6,
                        nv::NV2080_CTRL_GR_INFO_INDEX_LITTER_NUM_SM_PER_TPC => 2,
                        nv::NV2080_CTRL_GR_INFO_INDEX_MAX_WARPS_PER_SM => 48,
                        other => panic!("index {other:#x}"),
                    };
                    // SAFETY: the list is as long as it says.
                    unsafe { fill(p.grInfoList, p.grInfoListSize, answer) };
                });
            }
            nv::NV2080_CTRL_CMD_FB_GET_INFO => {
                let (memory, window) = (self.memory_kib, self.window_kib);
                with!(NV2080_CTRL_FB_GET_INFO_PARAMS, p => {
                    let answer = |index| match index {
                        nv::NV2080_CTRL_FB_INFO_INDEX_TOTAL_RAM_SIZE => memory,
                        nv::NV2080_CTRL_FB_INFO_INDEX_BAR1_SIZE => window,
                        other => panic!("index {other:#x}"),
                    };
                    // SAFETY: the list is as long as it says.
                    unsafe { fill(p.fbInfoList, p.fbInfoListSize, answer) };
                });
            }
            nv::NV2080_CTRL_CMD_GPU_QUERY_COMPUTE_MODE_RULES => {
                with!(NV2080_CTRL_GPU_QUERY_COMPUTE_MODE_RULES_PARAMS, p => { p.rules = self.rules; });
            }
            nv::NV2080_CTRL_CMD_GPU_GET_NAME_STRING => {
                with!(NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS, p => { p.gpuNameString[..4].copy_from_slice(b"3090"); });
            }
            nv::NV2080_CTRL_CMD_GPU_GET_GID_INFO => {
                let number = self.gpu_of(a.hObject);
                with!(NV2080_CTRL_GPU_GET_GID_INFO_PARAMS, p => { p.data[..16].copy_from_slice(&uuid(number)); });
            }
            nv::NV2080_CTRL_CMD_EVENT_SET_NOTIFICATION => {
                with!(NV2080_CTRL_EVENT_SET_NOTIFICATION_PARAMS, p => {
                    assert_eq!(p.action, nv::NV2080_CTRL_EVENT_SET_NOTIFICATION_ACTION_REPEAT);
                    assert!(self.asked.insert((a.hObject, p.event)));
                });
            }
            nv::NV2080_CTRL_CMD_TIMER_GET_TIME => {
                self.time += 1000;
                let time = self.time;
                with!(NV2080_CTRL_TIMER_GET_TIME_PARAMS, p => { p.time_nsec = time; });
            }
            nv::NVA06C_CTRL_CMD_GPFIFO_SCHEDULE => {
                assert_eq!(a.paramsSize, 3);
                self.running.insert(a.hObject);
            }
            nv::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN => {
                with!(NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS, p => { p.workSubmitToken = a.hObject ^ 0xffff; });
            }
            nv::NV906F_CTRL_CMD_GET_MMU_FAULT_INFO => {
                let told = self.own_faults.remove(&a.hObject).unwrap_or_default();
                with!(NV906F_CTRL_GET_MMU_FAULT_INFO_PARAMS, p => {
                    (p.addrHi, p.addrLo) = ((told.0 >> 32) as u32, told.0 as u32);
                    p.faultType = told.1;
                });
            }
            nv::NV83DE_CTRL_CMD_DEBUG_READ_MMU_FAULT_INFO => {
                let told = self.mmu;
                with!(NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_PARAMS, p => {
                    (p.mmuFaultInfoList, p.count) = (told.mmuFaultInfoList, told.count);
                });
            }
            nv::NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES => {
                let told = self.sm;
                with!(NV83DE_CTRL_DEBUG_READ_ALL_SM_ERROR_STATES_PARAMS, p => {
                    let sms = p.startingSM as usize..(p.startingSM + p.numSMsToRead) as usize;
                    if let Some((index, state)) = told.filter(|(index, _)| sms.contains(index)) {
                        p.smErrorStateArray[index - sms.start] = state;
                    }
                });
            }
            other => panic!("command {other:#x} is not known here"),
        }
        nv::NV_OK
    }

    fn map_external(&mut self, base: u64, length: u64, memory: u32, gpu: &nv::nv_uuid) -> u32 {
        let gpu = self.number(gpu);
        if !self.objects.contains_key(&memory) {
            return nv::NV_ERR_INVALID_OBJECT_HANDLE;
        }
        let owner = self.gpu_of(memory);
        let is_video = self.objects[&memory].class == nv::NV01_MEMORY_LOCAL_USER;
        let pair = (owner.min(gpu), owner.max(gpu));
        if !self.spaces.contains(&gpu) || is_video && owner != gpu && !self.peers.contains(&pair) {
            return nv::NV_ERR_INVALID_DEVICE;
        }
        match self.ranges.get_mut(&base) {
            Some((len, seen)) if *len == length => {
                assert!(seen.insert(gpu), "mapped twice");
                nv::NV_OK
            }
            _ => nv::NV_ERR_INVALID_ADDRESS,
        }
    }

    pub(super) fn uvm(&mut self, request: u32, p: *mut c_void, injected: Option<u32>) {
        macro_rules! with {
            ($type:ident, $a:ident => $body:expr) => {{
                // SAFETY: the request was matched with this type's.
                let $a = unsafe { arg::<nv::$type>(p) };
                $a.rmStatus = match injected {
                    Some(status) => status,
                    None => $body,
                };
            }};
        }
        let had = |it: bool| match it {
            true => nv::NV_OK,
            false => nv::NV_ERR_INVALID_DEVICE,
        };
        match request {
            nv::UVM_INITIALIZE => {
                with!(UVM_INITIALIZE_PARAMS, a => { assert_eq!(a.flags, 1); nv::NV_OK })
            }
            nv::UVM_MM_INITIALIZE => with!(UVM_MM_INITIALIZE_PARAMS, _a => 0x10006),
            nv::UVM_REGISTER_GPU => {
                with!(UVM_REGISTER_GPU_PARAMS, a => had(self.gpus.insert(self.number(&a.gpu_uuid))))
            }
            nv::UVM_UNREGISTER_GPU => with!(UVM_UNREGISTER_GPU_PARAMS, a => {
                let gpu = self.number(&a.gpu_uuid);
                assert!(!self.spaces.contains(&gpu), "an address space of a GPU that goes");
                self.peers.retain(|(a, b)| *a != gpu && *b != gpu);
                had(self.gpus.remove(&gpu))
            }),
            nv::UVM_REGISTER_GPU_VASPACE => with!(UVM_REGISTER_GPU_VASPACE_PARAMS, a => {
                let gpu = self.number(&a.gpuUuid);
                assert!(self.objects.contains_key(&a.hVaSpace));
                had(self.gpus.contains(&gpu) && self.spaces.insert(gpu))
            }),
            nv::UVM_UNREGISTER_GPU_VASPACE => with!(UVM_UNREGISTER_GPU_VASPACE_PARAMS, a => {
                had(self.spaces.remove(&self.number(&a.gpuUuid)))
            }),
            nv::UVM_REGISTER_CHANNEL => with!(UVM_REGISTER_CHANNEL_PARAMS, a => {
                let known = self.channel_params.contains_key(&a.hChannel);
                had(known && self.registered.insert(a.hChannel))
            }),
            nv::UVM_UNREGISTER_CHANNEL => {
                with!(UVM_UNREGISTER_CHANNEL_PARAMS_580, a => had(self.registered.remove(&a.hChannel)))
            }
            nv::UVM_ENABLE_PEER_ACCESS => with!(UVM_ENABLE_PEER_ACCESS_PARAMS, a => {
                let (one, two) = (self.number(&a.gpuUuidA), self.number(&a.gpuUuidB));
                had(self.peers.insert((one.min(two), one.max(two))))
            }),
            nv::UVM_CREATE_EXTERNAL_RANGE => with!(UVM_CREATE_EXTERNAL_RANGE_PARAMS, a => {
                let taken = self.ranges.iter().any(|(b, (len, _))| *b < a.base + a.length && a.base < b + len);
                assert!(!taken && a.base.is_multiple_of(4096) && a.length.is_multiple_of(4096));
                self.ranges.insert(a.base, (a.length, BTreeSet::new()));
                nv::NV_OK
            }),
            nv::UVM_MAP_EXTERNAL_ALLOCATION => with!(UVM_MAP_EXTERNAL_ALLOCATION_PARAMS, a => {
                assert_eq!(a.gpuAttributesCount, 1);
                let gpu = a.perGpuAttributes[0].gpuUuid;
                self.map_external(a.base, a.length, a.hMemory, &gpu)
            }),
            nv::UVM_UNMAP_EXTERNAL => with!(UVM_UNMAP_EXTERNAL_PARAMS, a => {
                let gpu = self.number(&a.gpuUuid);
                let range = self.ranges.get_mut(&a.base);
                had(range.is_some_and(|(len, seen)| *len == a.length && seen.remove(&gpu)))
            }),
            nv::UVM_FREE => {
                with!(UVM_FREE_PARAMS_580, a => had(self.ranges.remove(&a.base).is_some_and(|(len, _)| len == a.length)))
            }
            other => panic!("request {other} of UVM is not known here"),
        }
    }

    pub(super) fn rm(
        &mut self,
        (number, file): (i32, &str),
        request: u32,
        p: *mut c_void,
        injected: Option<u32>,
    ) {
        macro_rules! args {
            ($type:ident) => {{
                assert_eq!(request, nv::$type::REQUEST, "{}", nv::$type::NAME);
                // SAFETY: the request was found to be this type's.
                unsafe { arg::<nv::$type>(p) }
            }};
        }
        let is_ctl = file == "/dev/nvidiactl";
        match ioctl::number(request) {
            nv::NV_ESC_CARD_INFO => {
                let list = args!(nv_ioctl_card_info_list);
                list.cards[..self.cards.len()].copy_from_slice(&self.cards);
            }
            nv::NV_ESC_REGISTER_FD => {
                let a = args!(nv_ioctl_register_fd);
                assert!(!is_ctl && self.open_files[&a.ctl_fd] == "/dev/nvidiactl");
            }
            nv::NV_ESC_ALLOC_OS_EVENT => {
                let a = args!(nv_ioctl_alloc_os_event);
                a.Status = injected.unwrap_or_else(|| {
                    assert!(self.objects.contains_key(&a.hClient));
                    match self.os_events.insert((a.hClient, a.fd), number) {
                        None => nv::NV_OK,
                        Some(_) => nv::NV_ERR_INSUFFICIENT_RESOURCES,
                    }
                });
            }
            nv::NV_ESC_FREE_OS_EVENT => {
                let a = args!(nv_ioctl_free_os_event);
                a.Status = injected.unwrap_or_else(|| {
                    let used = self.events.values().any(|(name, _)| *name == a.fd);
                    assert!(!used, "event objects that name it");
                    match self.os_events.remove(&(a.hClient, a.fd)) {
                        Some(_) => nv::NV_OK,
                        None => nv::NV_ERR_INVALID_EVENT,
                    }
                });
            }
            nv::NV_ESC_CHECK_VERSION_STR => {
                let a = args!(nv_ioctl_rm_api_version);
                assert_eq!(a.cmd, nv::NV_RM_API_VERSION_CMD_QUERY);
                a.versionString[..9].copy_from_slice(b"580.65.06");
            }
            nv::NV_ESC_RM_ALLOC => {
                let a = args!(NVOS21_PARAMETERS);
                assert!(is_ctl);
                a.status = injected.unwrap_or_else(|| self.alloc(a));
            }
            nv::NV_ESC_RM_CONTROL => {
                let a = args!(NVOS54_PARAMETERS);
                assert!(is_ctl);
                a.status = injected.unwrap_or_else(|| self.control(a));
            }
            nv::NV_ESC_RM_FREE => {
                let a = args!(NVOS00_PARAMETERS);
                a.status = injected.unwrap_or_else(|| {
                    let known = self.objects.contains_key(&a.hObjectOld);
                    self.free(a.hObjectOld);
                    if known {
                        nv::NV_OK
                    } else {
                        nv::NV_ERR_INVALID_OBJECT_OLD
                    }
                });
            }
            nv::NV_ESC_RM_ALLOC_MEMORY => {
                let a = args!(nv_ioctl_nvos02_parameters_with_fd);
                assert!(
                    !is_ctl
                        && a.params.pMemory.is_multiple_of(4096)
                        && a.params.limit % 4096 == 4095
                );
                a.params.status = injected.unwrap_or_else(|| {
                    let object = Object {
                        parent: a.params.hObjectParent,
                        class: a.params.hClass,
                        size: a.params.limit + 1,
                    };
                    self.objects.insert(a.params.hObjectNew, object);
                    nv::NV_OK
                });
            }
            nv::NV_ESC_RM_MAP_MEMORY => {
                let a = args!(nv_ioctl_nvos33_parameters_with_fd);
                assert!(is_ctl);
                a.params.status = injected.unwrap_or_else(|| {
                    let class = self.objects[&a.params.hMemory].class;
                    let through = &self.open_files[&a.fd];
                    let is_system = class == nv::NV01_MEMORY_SYSTEM;
                    assert_eq!(is_system, through == "/dev/nvidiactl");
                    assert!(self.pending.insert(a.fd, a.params.hMemory).is_none());
                    nv::NV_OK
                });
            }
            other => panic!("escape {other:#x} is not known here"),
        }
    }
}

/// The argument of a request.
///
/// # Safety
/// The request is that of the type, and the pointer is its argument.
pub(super) unsafe fn arg<'a, A>(p: *mut c_void) -> &'a mut A {
    // SAFETY: the caller's promise, which is that of `System::ioctl`.
    unsafe { &mut *p.cast() }
}

/// # Safety
/// `len` bytes may be read there.
unsafe fn read<T: zerocopy::FromZeros + zerocopy::IntoBytes + zerocopy::FromBytes>(
    address: u64,
    len: usize,
) -> T {
    let mut value = T::new_zeroed();
    let from = std::ptr::with_exposed_provenance::<u8>(address as usize);
    let to = value.as_mut_bytes();
    assert!(len <= to.len());
    // SAFETY: the caller's promise; the destination was checked.
    unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), len) };
    value
}

/// # Safety
/// `len` bytes may be written there.
unsafe fn write<T: zerocopy::IntoBytes + zerocopy::Immutable>(address: u64, len: usize, value: &T) {
    let to = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
    let from = &value.as_bytes()[..len];
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, len) };
}

/// # Safety
/// The list is that long.
unsafe fn fill(list: u64, len: u32, answer: impl Fn(u32) -> u32) {
    let size = size_of::<NVXXXX_CTRL_XXX_INFO>();
    for index in 0..u64::from(len) {
        let at = list + index * size as u64;
        // SAFETY: the caller's promise.
        let mut info: NVXXXX_CTRL_XXX_INFO = unsafe { read(at, size) };
        info.data = answer(info.index);
        // SAFETY: as above.
        unsafe { write(at, size, &info) };
    }
}
