//! The driver's files and a client of it: what everything else hangs below.
#![allow(
    unsafe_code,
    reason = "hands parameters to the driver by their addresses"
)]

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use hcq_uapi::nv::{self, Abi, Params};

use super::call::{self, File, Refusal};
use super::space::Space;
use crate::heap::lock;
use crate::seam::System;

/// Where handles of this crate's own choice start.
const FIRST_HANDLE: u32 = 0x5c00_0000;

/// A client of the resource manager, and an address space of UVM. When it is dropped the client goes, and with it whatever
/// is left below it.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) system: Arc<dyn System>,
    pub(super) ctl: File,
    pub(super) uvm: File,
    /// Ties the address space to the process's memory, where the kernel wants a file for that.
    _mm: Option<File>,
    pub(super) abi: &'static Abi,
    pub(super) client: u32,
    next: AtomicU32,
    space: Mutex<Space>,
}

/// Parameters with no address in them through which the kernel touches memory of Rust objects.
pub(super) trait PlainParams: Params {}

impl PlainParams for nv::NV0080_ALLOC_PARAMETERS {}
impl PlainParams for nv::NV2080_ALLOC_PARAMETERS {}
impl PlainParams for nv::NV0005_ALLOC_PARAMETERS {}
impl PlainParams for nv::NV2080_CTRL_EVENT_SET_NOTIFICATION_PARAMS {}
impl PlainParams for nv::NV_VASPACE_ALLOCATION_PARAMETERS {}
impl PlainParams for nv::NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS {}
impl PlainParams for nv::NV_CTXSHARE_ALLOCATION_PARAMETERS {}
impl PlainParams for nv::NV_CHANNEL_ALLOC_PARAMS {}
impl PlainParams for nv::NV_MEMORY_ALLOCATION_PARAMS {}
impl PlainParams for nv::NV83DE_ALLOC_PARAMETERS {}
impl PlainParams for nv::NVB0B5_ALLOCATION_PARAMETERS {}
impl PlainParams for nv::NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS {}
impl PlainParams for nv::NV2080_CTRL_GPU_GET_NAME_STRING_PARAMS {}
impl PlainParams for nv::NV2080_CTRL_GPU_QUERY_COMPUTE_MODE_RULES_PARAMS {}
impl PlainParams for nv::NV2080_CTRL_GPU_GET_GID_INFO_PARAMS {}
impl PlainParams for nv::NV2080_CTRL_TIMER_GET_TIME_PARAMS {}
impl PlainParams for nv::NVA06C_CTRL_GPFIFO_SCHEDULE_PARAMS {}
impl PlainParams for nv::NVC36F_CTRL_CMD_GPFIFO_GET_WORK_SUBMIT_TOKEN_PARAMS {}
impl PlainParams for nv::NV906F_CTRL_GET_MMU_FAULT_INFO_PARAMS {}
impl PlainParams for nv::NV83DE_CTRL_DEBUG_READ_ALL_SM_ERROR_STATES_PARAMS {}
impl PlainParams for nv::NV83DE_CTRL_DEBUG_READ_MMU_FAULT_INFO_PARAMS {}

/// Parameters that are the address and the length of a list, which the driver fills or reads.
pub(super) trait ListParams<T>: Params {
    fn of(list: &mut [T]) -> Self;
}

fn list_of<T>(list: &mut [T]) -> (u32, u64) {
    let address = match list.len() {
        // Asks how many there are.
        0 => 0,
        _ => list.as_mut_ptr().expose_provenance() as u64,
    };
    (u32::try_from(list.len()).unwrap_or(u32::MAX), address)
}

impl ListParams<u32> for nv::NV0080_CTRL_GPU_GET_CLASSLIST_PARAMS {
    fn of(list: &mut [u32]) -> Self {
        let (len, address) = list_of(list);
        Self {
            numClasses: len,
            classList: address,
            ..Default::default()
        }
    }
}

impl ListParams<nv::NVXXXX_CTRL_XXX_INFO> for nv::NV2080_CTRL_GR_GET_INFO_PARAMS {
    fn of(list: &mut [nv::NVXXXX_CTRL_XXX_INFO]) -> Self {
        let (len, address) = list_of(list);
        Self {
            grInfoListSize: len,
            grInfoList: address,
            ..Default::default()
        }
    }
}

impl ListParams<nv::NVXXXX_CTRL_XXX_INFO> for nv::NV2080_CTRL_FB_GET_INFO_PARAMS {
    fn of(list: &mut [nv::NVXXXX_CTRL_XXX_INFO]) -> Self {
        let (len, address) = list_of(list);
        Self {
            fbInfoListSize: len,
            fbInfoList: address,
            ..Default::default()
        }
    }
}

impl Root {
    /// Makes a client. The files are the driver's, UVM's is ready.
    pub(super) fn new(
        system: &Arc<dyn System>,
        (ctl, uvm, mm): (File, File, Option<File>),
        abi: &'static Abi,
    ) -> Result<Arc<Self>, Refusal> {
        let mut argument = nv::NVOS21_PARAMETERS {
            hClass: nv::NV01_ROOT_CLIENT,
            ..Default::default()
        };
        // SAFETY: there are no parameters.
        unsafe { call::ask_with(&**system, ctl.handle(), &mut argument) }?;
        Ok(Arc::new(Self {
            system: Arc::clone(system),
            ctl,
            uvm,
            _mm: mm,
            abi,
            client: argument.hObjectNew,
            next: AtomicU32::new(FIRST_HANDLE),
            space: Mutex::default(),
        }))
    }

    /// A handle for a new object.
    pub(super) fn new_handle(&self) -> u32 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes an object without parameters.
    pub(super) fn object(self: &Arc<Self>, parent: u32, class: u32) -> Result<Object, Refusal> {
        // SAFETY: there are no parameters.
        unsafe { self.make(parent, class, 0, 0) }
    }

    /// Makes an object; the parameters hold what the driver answers.
    pub(super) fn object_with<P: PlainParams>(
        self: &Arc<Self>,
        parent: u32,
        class: u32,
        params: &mut P,
    ) -> Result<Object, Refusal> {
        let bytes = P::len(self.abi);
        let address = std::ptr::from_mut(params).expose_provenance() as u64;
        // SAFETY: the parameters are writable and at least as long as the driver's are; they hold no address of an object,
        // by `PlainParams`.
        unsafe { self.make(parent, class, address, bytes) }
    }

    /// # Safety
    /// `address` is 0, or that of `bytes` bytes that the class's parameters are.
    unsafe fn make(
        self: &Arc<Self>,
        parent: u32,
        class: u32,
        address: u64,
        bytes: usize,
    ) -> Result<Object, Refusal> {
        let handle = self.new_handle();
        let mut argument = nv::NVOS21_PARAMETERS {
            hRoot: self.client,
            hObjectParent: parent,
            hObjectNew: handle,
            hClass: class,
            pAllocParms: address,
            paramsSize: u32::try_from(bytes).unwrap_or(u32::MAX),
            status: 0,
        };
        // SAFETY: this function's contract.
        unsafe { call::ask_with(&*self.system, self.ctl.handle(), &mut argument) }?;
        Ok(self.own(parent, handle))
    }

    /// An object that was made otherwise.
    pub(super) fn own(self: &Arc<Self>, parent: u32, handle: u32) -> Object {
        Object {
            root: Arc::clone(self),
            parent,
            handle,
        }
    }

    /// Asks an object; the parameters hold the question and then the answer.
    pub(super) fn control<P: PlainParams>(
        &self,
        object: u32,
        command: u32,
        params: &mut P,
    ) -> Result<(), Refusal> {
        // SAFETY: the parameters hold no address of an object, by `PlainParams`.
        unsafe { self.control_with(object, command, params) }
    }

    /// Asks an object with a list that the driver reads and fills. The parameters hold the answer.
    pub(super) fn control_list<T, P: ListParams<T>>(
        &self,
        object: u32,
        command: u32,
        list: &mut [T],
    ) -> Result<P, Refusal> {
        let mut params = P::of(list);
        // SAFETY: the one address in the parameters is the list's, with its length, borrowed for writing.
        unsafe { self.control_with(object, command, &mut params) }?;
        Ok(params)
    }

    /// # Safety
    /// Addresses in the parameters are of memory as long as they say, writable.
    unsafe fn control_with<P: Params>(
        &self,
        object: u32,
        command: u32,
        params: &mut P,
    ) -> Result<(), Refusal> {
        let mut argument = nv::NVOS54_PARAMETERS {
            hClient: self.client,
            hObject: object,
            cmd: command,
            flags: 0,
            params: std::ptr::from_mut(params).expose_provenance() as u64,
            paramsSize: u32::try_from(P::len(self.abi)).unwrap_or(u32::MAX),
            status: 0,
        };
        // SAFETY: the parameters are writable and at least as long as the driver's are; the rest is the caller's promise.
        unsafe { call::ask_with(&*self.system, self.ctl.handle(), &mut argument) }
    }

    /// Makes memory of the process known: whole pages from `address` on.
    ///
    /// # Safety
    /// The pages stay mapped until the object is dropped, and no reference of Rust is in the way of what GPUs do there.
    pub(super) unsafe fn describe(
        self: &Arc<Self>,
        file: &File,
        device: u32,
        address: u64,
        bytes: u64,
    ) -> Result<Object, Refusal> {
        let handle = self.new_handle();
        let flags = nv::NVOS02_FLAGS_PHYSICALITY.put(nv::NVOS02_FLAGS_PHYSICALITY_NONCONTIGUOUS)
            | nv::NVOS02_FLAGS_LOCATION.put(nv::NVOS02_FLAGS_LOCATION_PCI)
            | nv::NVOS02_FLAGS_COHERENCY.put(nv::NVOS02_FLAGS_COHERENCY_CACHED)
            | nv::NVOS02_FLAGS_MAPPING.put(nv::NVOS02_FLAGS_MAPPING_NO_MAP);
        let mut argument = nv::nv_ioctl_nvos02_parameters_with_fd {
            params: nv::NVOS02_PARAMETERS {
                hRoot: self.client,
                hObjectParent: device,
                hObjectNew: handle,
                hClass: nv::NV01_MEMORY_SYSTEM_OS_DESCRIPTOR,
                flags,
                pMemory: address,
                limit: bytes.saturating_sub(1),
                ..Default::default()
            },
            fd: -1,
            pad: 0,
        };
        // SAFETY: the kernel pins the pages and writes nothing itself; what GPUs do is the caller's promise.
        unsafe { call::ask_with(&*self.system, file.handle(), &mut argument) }?;
        Ok(self.own(device, handle))
    }

    /// Makes a call of UVM.
    pub(super) fn uvm<A: call::Plain + nv::Status>(&self, argument: &mut A) -> Result<(), Refusal> {
        call::ask(&*self.system, self.uvm.handle(), argument)
    }

    /// Makes a call of UVM that gives something back.
    pub(super) fn uvm_back<A: call::Plain + nv::Status>(&self, argument: A) -> Result<(), Refusal> {
        call::give_back(&*self.system, self.uvm.handle(), argument)
    }

    /// Addresses for GPUs.
    pub(super) fn addresses(self: &Arc<Self>, len: u64, align: u64) -> Option<Addresses> {
        let start = lock(&self.space).take(len, align)?;
        Some(Addresses {
            root: Arc::clone(self),
            start,
            len,
        })
    }

    fn free(&self, parent: u32, handle: u32) {
        let argument = nv::NVOS00_PARAMETERS {
            hRoot: self.client,
            hObjectParent: parent,
            hObjectOld: handle,
            status: 0,
        };
        let _ = call::give_back(&*self.system, self.ctl.handle(), argument);
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        self.free(0, self.client);
    }
}

/// An object of the resource manager, freed when it is dropped.
#[derive(Debug)]
pub(super) struct Object {
    root: Arc<Root>,
    parent: u32,
    handle: u32,
}

impl Object {
    pub(super) const fn handle(&self) -> u32 {
        self.handle
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        self.root.free(self.parent, self.handle);
    }
}

/// Addresses of GPUs that nothing else gets, given back when dropped.
#[derive(Debug)]
pub(super) struct Addresses {
    root: Arc<Root>,
    start: u64,
    len: u64,
}

impl Addresses {
    pub(super) const fn start(&self) -> u64 {
        self.start
    }

    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Nobody gets them any more: a GPU may still reach something there.
    fn keep(&mut self) {
        self.len = 0;
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        if self.len > 0 {
            lock(&self.root.space).give(self.start, self.len);
        }
    }
}

/// A range of UVM for memory of the resource manager. Dropped: no GPU reaches anything there any more.
#[derive(Debug)]
pub(super) struct Range {
    addresses: Addresses,
}

impl Range {
    pub(super) fn new(addresses: Addresses) -> Result<Self, Refusal> {
        let mut argument = nv::UVM_CREATE_EXTERNAL_RANGE_PARAMS {
            base: addresses.start,
            length: addresses.len,
            ..Default::default()
        };
        addresses.root.uvm(&mut argument)?;
        Ok(Self { addresses })
    }

    pub(super) const fn start(&self) -> u64 {
        self.addresses.start
    }

    /// Maps all of it to a GPU.
    pub(super) fn map(&self, memory: u32, gpu: nv::nv_uuid) -> Result<(), Refusal> {
        let root = &*self.addresses.root;
        let (base, length) = (self.addresses.start, self.addresses.len);
        let attributes = nv::UvmGpuMappingAttributes {
            gpuUuid: gpu,
            gpuMappingType: nv::UvmGpuMappingTypeReadWriteAtomic,
            ..Default::default()
        };
        let (rm_ctrl_fd, client) = (root.ctl.handle().raw(), root.client);
        macro_rules! map {
            ($type:ident) => {{
                let mut argument = nv::$type {
                    base,
                    length,
                    gpuAttributesCount: 1,
                    rmCtrlFd: rm_ctrl_fd,
                    hClient: client,
                    hMemory: memory,
                    ..Default::default()
                };
                let [first, ..] = &mut argument.perGpuAttributes;
                *first = attributes;
                root.uvm(&mut argument)
            }};
        }
        if root.abi.map_external_gpus == 32 {
            map!(UVM_MAP_EXTERNAL_ALLOCATION_PARAMS_545)
        } else {
            map!(UVM_MAP_EXTERNAL_ALLOCATION_PARAMS)
        }
    }

    /// Takes it from a GPU.
    pub(super) fn unmap(&self, gpu: nv::nv_uuid) -> Result<(), Refusal> {
        self.addresses.root.uvm_back(nv::UVM_UNMAP_EXTERNAL_PARAMS {
            base: self.addresses.start,
            length: self.addresses.len,
            gpuUuid: gpu,
            ..Default::default()
        })
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        let root = &self.addresses.root;
        let (base, length) = (self.addresses.start, self.addresses.len);
        let freed = if root.abi.free_length {
            root.uvm_back(nv::UVM_FREE_PARAMS_580 {
                base,
                length,
                ..Default::default()
            })
        } else {
            root.uvm_back(nv::UVM_FREE_PARAMS {
                base,
                ..Default::default()
            })
        };
        if freed.is_err() {
            self.addresses.keep();
        }
    }
}
